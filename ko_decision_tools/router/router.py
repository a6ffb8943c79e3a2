"""``DecisionRouter``: a Runnable that sends a text to one of several routes, or, when unsure, to the capable path.

Low confidence and failure both escalate, never down to a cheaper route by accident; what is accepted never touches the
``escalate_to`` runnable. Every result carries all probabilities and says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Optional

from langchain_core.callbacks import AsyncCallbackManagerForChainRun as ForAsyncRun
from langchain_core.callbacks import CallbackManagerForChainRun as ForRun
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import coerce_to_runnable

from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.model import KoDecisionModel
from ko_decision_tools.policy import Policy
from ko_decision_tools.router.decider import RouteDecider
from ko_decision_tools.router.result import RouteResult
from ko_decision_tools.router.table import (
    DEFAULT_ESCALATE_TO,
    DEFAULT_QUESTION,
    Route,
    RoutingTable,
    load_routing_table,
    parse_routing_table,
)

ESCALATED = "escalated"
Routes = Iterable[Route | str] | Mapping[str, str | None]


class DecisionRouter(Runnable[Any, RouteResult]):
    """Routes a text, a conversation or a graph's state.

    ``invoke`` returns a :class:`RouteResult`; ``router(state)`` and a LangGraph conditional edge
    (``add_conditional_edges(node, router, [*router.destinations])``) get the destination's name. ``batch`` and
    ``abatch`` score all pairs of all inputs in shared batches.

    Args:
        model: What decides.
        routes: :class:`Route` objects or labels, or a mapping of label to description.
        question: What the model is asked.
        escalate_to: Where a text goes when no route is sure enough: a destination's name, or a runnable (or function),
            which is invoked with the original input and whose output the result carries. On an edge use a name and put
            the runnable behind it: an edge has no use for the output.
        min_top_probability: The bar for routes without their own; ``None`` takes the model's.
        policy: A further rule that has to accept.
        task: Name of this question's temperature in the checkpoint's ``calibration.json``.
        text_key: Key of a graph's state that holds the text; ``None`` reads the newest human message.
        on_error: ``"escalate"`` sends what cannot be judged (an empty text, a failing encoder) to ``escalate_to`` with
            the reason, and logs it; ``"raise"`` raises.
        name: Name of the run in traces.

    Raises:
        InvalidInputError: At construction, for routes, a question or a setting that cannot be used.

    Example:
        >>> from ko_decision_tools import DecisionRouter, KoDecisionModel, ScriptedEncoder
        >>> model = KoDecisionModel.from_encoder(ScriptedEncoder({"결제": 3.0}))
        >>> router = DecisionRouter(model, {"결제": "결제와 환불", "배송": None}, escalate_to="상담원")
        >>> router.invoke("돈이 두 번 나갔어요")
        RouteResult('결제')
        >>> router.invoke("돈이 두 번 나갔어요", min_top_probability=0.99)
        RouteResult('상담원', reasons=('top probability 0.953 < 0.99',))
        >>> router({"messages": [("user", "")]})
        '상담원'
    """

    def __init__(
        self,
        model: KoDecisionModel,
        routes: Routes,
        *,
        question: str = DEFAULT_QUESTION,
        escalate_to: str | Runnable[Any, Any] | Callable[[Any], Any] = DEFAULT_ESCALATE_TO,
        min_top_probability: float | None = None,
        policy: Policy | None = None,
        task: str | None = None,
        text_key: str | None = None,
        on_error: Literal["escalate", "raise"] = "escalate",
        name: str | None = None,
    ) -> None:
        self.escalation: Runnable[Any, Any] | None = None
        destination = escalate_to if isinstance(escalate_to, str) else ESCALATED
        if not isinstance(escalate_to, str):
            self.escalation = coerce_to_runnable(escalate_to)
        self.table = RoutingTable(question, _as_routes(routes), destination, min_top_probability, task, policy)
        self.name = name
        self._check(on_error)
        self._decider = RouteDecider(model, self.table, text_key=text_key, on_error=on_error)

    def _check(self, on_error: str) -> None:
        if on_error not in ("escalate", "raise"):
            raise InvalidInputError("on_error", "is unknown", 'Use "escalate" or "raise".', value=on_error)
        if self.escalation is not None and any(route.label == ESCALATED for route in self.table.routes):
            problem = f"has a {ESCALATED!r}, which is where escalate_to stands"
            raise InvalidInputError("routes", problem, "Rename the route.")

    @classmethod
    def from_table(cls, table: RoutingTable, *, model: KoDecisionModel, **settings: Any) -> DecisionRouter:
        """A router for a checked table; ``settings`` are this class's own and win over the table's."""
        of_table = {
            "question": table.question,
            "escalate_to": table.escalate_to,
            "min_top_probability": table.min_top_probability,
            "policy": table.policy,
            "task": table.task,
        }
        return cls(model, table.routes, **(of_table | settings))

    @classmethod
    def from_yaml(cls, source: str | Path, *, model: KoDecisionModel, **settings: Any) -> DecisionRouter:
        """A router from a YAML file, or from YAML text (a string of several lines).

        Raises:
            RoutingTableError: Names file, line and field; see :mod:`ko_decision_tools.router.table`.
        """
        is_text = isinstance(source, str) and "\n" in source
        table = parse_routing_table(str(source)) if is_text else load_routing_table(source)
        return cls.from_table(table, model=model, **settings)

    @property
    def destinations(self) -> tuple[str, ...]:
        """Every name a result can be: the routes in order, then where unsure texts go."""
        return tuple(dict.fromkeys((*(route.label for route in self.table.routes), self.table.escalate_to)))

    @property
    def OutputType(self) -> type[Any]:
        """What schemas call a result: a string."""
        return str

    # LangGraph hands a config to a function whose annotation it knows: this spelling, not "RunnableConfig | None".
    def __call__(self, state: Any, config: Optional[RunnableConfig] = None, **options: Any) -> str:  # noqa: UP045
        """The destination's name alone; the ``escalate_to`` runnable is not invoked.

        Args:
            state: A text, a conversation or a graph's state.
            config: LangChain's.
            options: ``min_top_probability`` for this call; it wins over every other bar.
        """
        return self._call_with_config(self._decide_one, state, config, **options).route

    def invoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> RouteResult:
        """Route one input; see :meth:`__call__` for the arguments."""
        return self._call_with_config(self._route_one, input, config, **options)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> RouteResult:
        """:meth:`invoke` off the event loop; concurrent calls share forward passes."""
        return await self._acall_with_config(self._aroute_one, input, config, **options)

    def batch(
        self,
        inputs: list[Any],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **options: Any,
    ) -> list[RouteResult]:
        """Route many inputs in shared batches; what cannot be judged escalates alone."""
        return self._batch_with_config(self._route_all, inputs, config, return_exceptions=return_exceptions, **options)

    async def abatch(
        self,
        inputs: list[Any],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **options: Any,
    ) -> list[RouteResult]:
        """:meth:`batch` off the event loop."""
        return await self._abatch_with_config(
            self._aroute_all, inputs, config, return_exceptions=return_exceptions, **options
        )

    # -- one input or many: decide, then run the escalations of all of them together -------------------------------

    def _decide_one(self, input: Any, min_top_probability: float | None = None) -> RouteResult:
        return _unwrap(self._decider.decide([input], min_top_probability)[0])

    def _route_one(
        self, input: Any, run_manager: ForRun, config: RunnableConfig, min_top_probability: float | None = None
    ) -> RouteResult:
        return _unwrap(self._route_all([input], [run_manager], [config], min_top_probability)[0])

    async def _aroute_one(
        self, input: Any, run_manager: ForAsyncRun, config: RunnableConfig, min_top_probability: float | None = None
    ) -> RouteResult:
        return _unwrap((await self._aroute_all([input], [run_manager], [config], min_top_probability))[0])

    def _route_all(
        self,
        inputs: list[Any],
        run_manager: list[ForRun],
        config: list[RunnableConfig],
        min_top_probability: float | None = None,
    ) -> list[Exception | RouteResult]:
        results = self._decider.decide(inputs, min_top_probability)
        unsure = _unsure(results)
        if self.escalation is None or not unsure:
            return results
        asked, configs = [inputs[index] for index in unsure], [config[index] for index in unsure]
        return _with_outputs(results, unsure, self.escalation.batch(asked, configs, return_exceptions=True))

    async def _aroute_all(
        self,
        inputs: list[Any],
        run_manager: list[ForAsyncRun],
        config: list[RunnableConfig],
        min_top_probability: float | None = None,
    ) -> list[Exception | RouteResult]:
        results = await self._decider.adecide(inputs, min_top_probability)
        unsure = _unsure(results)
        if self.escalation is None or not unsure:
            return results
        asked, configs = [inputs[index] for index in unsure], [config[index] for index in unsure]
        return _with_outputs(results, unsure, await self.escalation.abatch(asked, configs, return_exceptions=True))


def _as_routes(routes: Routes) -> tuple[Route, ...]:
    if isinstance(routes, Mapping):
        return tuple(Route(label, description) for label, description in routes.items())
    return tuple(route if isinstance(route, Route) else Route(route) for route in routes)


def _unsure(results: Sequence[Exception | RouteResult]) -> list[int]:
    return [index for index, result in enumerate(results) if isinstance(result, RouteResult) and result.escalated]


def _with_outputs(
    results: list[Exception | RouteResult], unsure: Sequence[int], outputs: Sequence[Any]
) -> list[Exception | RouteResult]:
    """Put what the escalation returned, or raised, beside the result it belongs to."""
    merged = list(results)
    for index, output in zip(unsure, outputs, strict=True):
        result = results[index]
        if isinstance(result, RouteResult):
            merged[index] = output if isinstance(output, Exception) else result.with_output(output)
    return merged


def _unwrap(result: Exception | RouteResult) -> RouteResult:
    if isinstance(result, Exception):
        raise result
    return result


__all__ = ["DecisionRouter", "Route", "RouteResult", "RoutingTable", "load_routing_table"]
