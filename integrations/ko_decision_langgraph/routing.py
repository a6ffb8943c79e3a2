"""``KoModelRouter``: which chat model a run gets, chosen by a calibrated decision; when unsure, the capable one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, NotRequired

from langchain.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    ModelRequest,
    ModelResponse,
    OmitFromSchema,
    TracePolicy,
    omit_payload,
)
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel

from ko_decision_langgraph.accounting import Accounting
from ko_decision_langgraph.asking import OnError, RouterAsker, check_on_error
from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.model import KoDecisionModel
from ko_decision_tools.policy import Policy
from ko_decision_tools.router import DecisionRouter, Route, RouteResult

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

STATE_KEY: Final = "ko_model_route"
DEFAULT_QUESTION: Final = "이 요청을 처리하려면 어느 수준의 모델이 필요한가?"


@dataclass(frozen=True, slots=True)
class Tier:
    """One chat model and what it is good for.

    Attributes:
        model: A chat model, or a name for ``init_chat_model``.
        description: The requests it should get, in the language of the requests.
        min_top_probability: Take this tier from here on; ``None`` takes the router's bar.
    """

    model: BaseChatModel | str
    description: str | None = None
    min_top_probability: float | None = None


class ModelRouteState(AgentState[Any]):
    """Agent state with the chosen tier, as plain JSON; part of the output.

    Attributes:
        ko_model_route: :meth:`RouteResult.to_dict`: ``route``, ``escalated``, ``reasons``, ``decision``.
    """

    ko_model_route: NotRequired[Annotated[dict[str, Any], OmitFromSchema(input=True, output=False)]]


class KoModelRouter(AgentMiddleware[ModelRouteState, Any, Any]):
    """Chooses a tier once per run, from the newest human message, and uses it for every model call of the run.

    Low confidence, failure and the kill switch all lead to the capable model, never down to a cheaper one.

    Args:
        model: What decides.
        tiers: Name to :class:`Tier`, cheapest first.
        capable: The tier for whatever is unsure; the last one by default.
        question: What the model is asked.
        min_top_probability: The bar for tiers without their own; ``None`` takes the model's.
        policy: A further rule that has to accept.
        task: Name of this question's temperature in ``calibration.json``.
        on_error: ``"escalate"`` takes the capable tier and logs why; ``"raise"`` raises.
        accounting: Counters and spans to share; with ``include_text`` traces show what was judged.
        name: The middleware's name.

    Raises:
        InvalidInputError: Fewer than two tiers, a ``capable`` that is none of them, or another unusable setting.

    Example:
        >>> from langchain_core.language_models import FakeListChatModel
        >>> from ko_decision_tools import ScriptedEncoder
        >>> small, large = FakeListChatModel(responses=["작은 답"]), FakeListChatModel(responses=["큰 답"])
        >>> tiers = {"간단": Tier(small, "인사나 영업시간"), "복잡": Tier(large, "여러 단계의 추론")}
        >>> router = KoModelRouter(KoDecisionModel.from_encoder(ScriptedEncoder({"간단": 3.0})), tiers)
        >>> update = router.before_agent({"messages": [("user", "몇 시까지 해요?")]}, None)
        >>> update["ko_model_route"]["route"]
        '간단'
    """

    state_schema = ModelRouteState

    def __init__(
        self,
        model: KoDecisionModel,
        tiers: Mapping[str, Tier],
        *,
        capable: str | None = None,
        question: str = DEFAULT_QUESTION,
        min_top_probability: float | None = None,
        policy: Policy | None = None,
        task: str | None = None,
        on_error: OnError = "escalate",
        accounting: Accounting | None = None,
        name: str = "ko_model_router",
    ) -> None:
        super().__init__()
        if len(tiers) < 2:
            raise InvalidInputError("tiers", f"has {len(tiers)}", "Give at least two tiers to choose between.")
        self.capable = list(tiers)[-1] if capable is None else capable
        if self.capable not in tiers:
            raise InvalidInputError("capable", "is not a tier", f"Use one of {', '.join(tiers)}.", value=self.capable)
        self.accounting = accounting or Accounting()
        if not self.accounting.include_text:
            self.trace_policy = TracePolicy(process_inputs=omit_payload)
        self.models = {
            label: init_chat_model(tier.model) if isinstance(tier.model, str) else tier.model
            for label, tier in tiers.items()
        }
        router = DecisionRouter(
            model,
            [Route(label, tier.description, tier.min_top_probability) for label, tier in tiers.items()],
            question=question,
            escalate_to=self.capable,
            min_top_probability=min_top_probability,
            policy=policy,
            task=task,
            on_error=check_on_error(on_error),
            name=name,
        )
        self._asker, self._name = RouterAsker(router, self.accounting), name

    @property
    def name(self) -> str:
        """The middleware's name."""
        return self._name

    def before_agent(self, state: ModelRouteState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Choose the tier for this run."""
        return self._chosen(self._asker.ask(state))

    async def abefore_agent(self, state: ModelRouteState, runtime: Runtime[Any]) -> dict[str, Any]:
        """:meth:`before_agent` off the event loop."""
        return self._chosen(await self._asker.aask(state))

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Call the chosen tier's model."""
        return handler(request.override(model=self._model_for(request)))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """:meth:`wrap_model_call`, awaited."""
        return await handler(request.override(model=self._model_for(request)))

    def _chosen(self, result: RouteResult) -> dict[str, Any]:
        if result.escalated:
            self.accounting.escalated()
        return {STATE_KEY: result.to_dict()}

    def _model_for(self, request: ModelRequest[Any]) -> BaseChatModel:
        """The chosen model; the capable one when the state names a tier that is no longer there."""
        state: Mapping[str, Any] = request.state
        tier = (state.get(STATE_KEY) or {}).get("route", self.capable)
        return self.models.get(tier, self.models[self.capable])


__all__ = ["DEFAULT_QUESTION", "STATE_KEY", "KoModelRouter", "ModelRouteState", "Tier"]
