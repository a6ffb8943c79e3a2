"""Several routes at once: a ticket about a late parcel *and* a double charge goes to both teams.

A ``Choice`` shares one unit of probability out, so two topics in one ticket push each other down. Here every route is
a yes/no question of its own, with its own calibrated ``P(yes)``: independent of how many routes there are and of what
the others got. All of them are scored together.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from langchain_core.decisions import State
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.types import Command, Send
from pydantic import BaseModel

from ko_decision_langgraph.accounting import Accounting, atraced, traced
from ko_decision_langgraph.asking import SWITCHED_OFF, OnError, check_on_error, failed
from ko_decision_langgraph.graph import DEFAULT_KEY, named_nodes
from ko_decision_langgraph.kill_switch import switched_off
from ko_decision_tools.decisions import Decision
from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.model import KoDecisionModel
from ko_decision_tools.policy import Reading, YesNoBand, check_probability
from ko_decision_tools.questions import Noul
from ko_decision_tools.router import Route
from ko_decision_tools.router.text import routed_text

DEFAULT_QUESTION: Final = "이 문의에 {route}에 관한 내용이 있는가?"
_RUN: Final = "ko_fan_out"
Payload = Callable[[Any, dict[str, Any]], Any]


class FanOutNode(Runnable[Any, Command[Any]]):
    """A node that sends a ticket to every route it is about.

    Each route whose ``P(yes)`` reaches ``yes_at`` gets the ticket, in parallel. ``escalate_to`` gets it when no route
    does, and beside the others when a route stays between ``no_at`` and ``yes_at``: nothing a customer asked for is
    dropped because the model was not sure. A model that says yes to more than ``max_routes`` routes is not believed
    (these checkpoints say yes too often): that ticket goes to ``escalate_to`` alone.

    What it stores under ``key`` has ``routes``, ``unsure``, ``escalated``, ``reasons`` and ``decisions`` (by route).
    What a receiving node gets is the whole state with its own route's part under ``key``: ``route``, ``escalated``,
    ``reasons`` and ``decision``. Parallel nodes write at once: give keys that they share a reducer.

    Args:
        model: What answers.
        routes: :class:`~ko_decision_tools.router.Route` objects or labels, or a mapping of label to description. A
            route's own ``min_top_probability`` is its ``yes_at``.
        escalate_to: Where unsure tickets go.
        yes_at, no_at: ``P(yes)`` from which a route is taken, and up to which it is not.
        max_routes: How many routes one ticket can plausibly be about; ``None`` sets no limit.
        destinations: Label to node, for the labels (``escalate_to`` included) that are not named like their node.
        question: What is asked of each route; ``{route}`` becomes ``'label'(description)``.
        key, text_key, task, on_error, accounting, name: As for
            :class:`~ko_decision_langgraph.graph.DecisionNode`.
        payload: Makes what a node receives, from the state and its part of the result; by default the whole state.

    Attributes:
        destinations: All nodes it can lead to, for ``add_node(…, destinations=…)`` and so for drawing.

    Raises:
        InvalidInputError: At construction, for routes or a setting that cannot be used.

    Example:
        >>> from ko_decision_tools import KoDecisionModel, ScriptedEncoder
        >>> def script(prompt):  # yes where the ticket names the route that the question asks about
        ...     route = prompt.instruction.split("'")[1]
        ...     return [0.0, 4.0 if route in prompt.state else -4.0]
        >>> model = KoDecisionModel.from_encoder(ScriptedEncoder(script))
        >>> node = fan_out_node(model, ["결제", "배송", "회원"], escalate_to="사람")
        >>> command = node.invoke({"messages": [("user", "배송도 안 오고 결제도 두 번 됐어요")]})
        >>> [send.node for send in command.goto], command.update["decision"]["escalated"]
        (['결제', '배송'], False)
    """

    def __init__(
        self,
        model: KoDecisionModel,
        routes: Iterable[Route | str] | Mapping[str, str | None],
        *,
        escalate_to: str,
        yes_at: float = 0.7,
        no_at: float = 0.3,
        max_routes: int | None = 3,
        destinations: Mapping[Any, str] | None = None,
        question: str = DEFAULT_QUESTION,
        key: str = DEFAULT_KEY,
        text_key: str | None = None,
        task: str | None = None,
        on_error: OnError = "escalate",
        payload: Payload | None = None,
        accounting: Accounting | None = None,
        name: str = "fan_out",
    ) -> None:
        listed = _distinct(routes, escalate_to)
        if max_routes is not None and max_routes < 1:
            raise InvalidInputError("max_routes", "is not a count", "Use a number from 1, or None.", value=max_routes)
        self._questions = {route.label: _question(question, route) for route in listed}
        self._bands = {route.label: _band(route, no_at, yes_at) for route in listed}
        self._model, self._max_routes, self._text_key = model, max_routes, text_key
        self._escalate_to, self._on_error = escalate_to, check_on_error(on_error)
        # The bands judge afterwards, each its own route, so that all routes can share one call.
        self._options: dict[str, Any] = {"task": task, "min_top_probability": 0.0}
        self._node_of = named_nodes((*self._questions, escalate_to), destinations)
        self._payload = payload or (lambda state, part: _as_dict(state) | {key: part})
        self.key, self.name, self.accounting = key, name, accounting

    @property
    def destinations(self) -> tuple[str, ...]:
        """See the class."""
        return tuple(dict.fromkeys(self._node_of.values()))

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Command[Any]:
        """The state's update, and a ``Send`` for each node."""
        if switched_off():
            return self._send(input, {}, SWITCHED_OFF)
        try:
            text = routed_text(input, self._text_key)
            decisions = traced(_RUN, lambda: self._ask(text))
        except Exception as error:  # reported: raised, or logged and given as the reason
            return self._send(input, {}, failed(error, self._escalate_to, self._on_error).reasons)
        return self._send(input, self._judged(decisions))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Command[Any]:
        """:meth:`invoke` off the event loop; concurrent nodes share forward passes."""
        if switched_off():
            return self._send(input, {}, SWITCHED_OFF)
        try:
            text = routed_text(input, self._text_key)
            decisions = await atraced(_RUN, lambda: self._aask(text))
        except Exception as error:  # as in invoke
            return self._send(input, {}, failed(error, self._escalate_to, self._on_error).reasons)
        return self._send(input, self._judged(decisions))

    def _ask(self, text: State) -> dict[str, Decision]:
        return self._model.decide_questions(text, self._questions, **self._options)

    async def _aask(self, text: State) -> dict[str, Decision]:
        asked = (self._model.adecide(text, question, **self._options) for question in self._questions.values())
        return dict(zip(self._questions, await asyncio.gather(*asked), strict=True))

    # -- from decisions to sends -------------------------------------------------------------------------------------

    def _judged(self, decisions: Mapping[str, Decision]) -> dict[str, Decision]:
        judged = {}
        for label, decision in decisions.items():
            reading = Reading("noul", decision.top_probability, decision.margin, decision.noul, decision.calibrated)
            reasons = (*self._bands[label].reasons(reading), *decision.reasons)
            judged[label] = dataclasses.replace(decision, reasons=reasons)
            if self.accounting is not None:
                self.accounting.record(judged[label])
        return judged

    def _send(self, state: Any, decisions: Mapping[str, Decision], why: tuple[str, ...] = ()) -> Command[Any]:
        unsure = [label for label, decision in decisions.items() if decision.abstained]
        taken = [label for label, decision in decisions.items() if label not in unsure and decision.noul >= 0.5]
        reasons = [*why, *(f"{label}: {reason}" for label in unsure for reason in decisions[label].reasons)]
        if self._max_routes is not None and len(taken) > self._max_routes:
            reasons.append(f"yes to {len(taken)} of {len(decisions)} routes, max_routes is {self._max_routes}")
            taken = []
        elif not taken and not reasons:
            reasons.append("no route fits")
        stored = {
            "routes": taken,
            "unsure": unsure,
            "escalated": bool(reasons),
            "reasons": reasons,
            "decisions": {label: decision.to_dict() for label, decision in decisions.items()},
        }
        parts = [self._part(label, decisions[label]) for label in taken]
        if reasons:
            parts.append({"route": self._escalate_to} | stored)
            if self.accounting is not None:
                self.accounting.escalated()
        sends = [Send(self._node_of[part["route"]], self._payload(state, part)) for part in parts]
        return Command(update={self.key: stored}, goto=sends)

    def _part(self, label: str, decision: Decision) -> dict[str, Any]:
        return {"route": label, "escalated": False, "reasons": [], "decision": decision.to_dict()}


def _distinct(routes: Iterable[Route | str] | Mapping[str, str | None], escalate_to: str) -> list[Route]:
    if isinstance(routes, Mapping):
        routes = [Route(label, description) for label, description in routes.items()]
    listed = [route if isinstance(route, Route) else Route(route) for route in routes]
    labels = [*(route.label for route in listed), escalate_to]
    if not listed:
        raise InvalidInputError("routes", "is empty", "Give at least one route.")
    for index, label in enumerate(labels):
        if label in labels[:index]:
            raise InvalidInputError(f"routes.{label}", "appears twice", "Give every destination its own label.")
    return listed


def _question(question: str, route: Route) -> Noul:
    if "{route}" not in question:
        raise InvalidInputError("question", "does not name the route", "Put {route} where it belongs.", value=question)
    name = f"'{route.label}'({route.description})" if route.description else f"'{route.label}'"
    return Noul(instructions=question.replace("{route}", name))


def _band(route: Route, no_at: float, yes_at: float) -> YesNoBand:
    bar = yes_at if route.min_top_probability is None else route.min_top_probability
    low, high = check_probability("no_at", no_at), check_probability("yes_at", bar)
    if low >= high or high < 0.5 or low > 0.5:
        problem = f"({low:g}) and yes_at ({high:g}) of {route.label!r} are no band around 0.5"
        raise InvalidInputError("no_at", problem, "Choose for example no_at=0.3, yes_at=0.7.")
    return YesNoBand(low, high)


def _as_dict(state: Any) -> dict[str, Any]:
    """A graph's state, whatever its schema is, as a new mapping."""
    if isinstance(state, BaseModel):
        return {name: getattr(state, name) for name in type(state).model_fields}
    if dataclasses.is_dataclass(state):
        return {field.name: getattr(state, field.name) for field in dataclasses.fields(state)}
    return dict(state)


fan_out_node = FanOutNode

__all__ = ["DEFAULT_QUESTION", "FanOutNode", "fan_out_node"]
