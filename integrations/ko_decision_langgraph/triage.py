"""Triage before the agent: a ticket whose route has a ready answer never reaches an LLM."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, NotRequired, TypeAlias

from langchain.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    OmitFromSchema,
    TracePolicy,
    hook_config,
    omit_payload,
)
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.errors import GraphBubbleUp

from ko_decision_langgraph.accounting import Accounting
from ko_decision_langgraph.asking import OnError, RouterAsker, check_on_error
from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.router import DecisionRouter, RouteResult

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

logger = logging.getLogger(__name__)

KEY: Final = "ticket_decision"


class TriageState(AgentState[Any]):
    """Agent state with what triage decided about the newest ticket, as plain JSON; part of the output.

    Attributes:
        ticket_decision: :meth:`RouteResult.to_dict` and ``answered``.
    """

    ticket_decision: NotRequired[Annotated[dict[str, Any], OmitFromSchema(input=True, output=False)]]


Reply: TypeAlias = str | AIMessage | None
Answer: TypeAlias = str | Callable[[TriageState, RouteResult], Reply | Awaitable[Reply]]


class TicketTriageMiddleware(AgentMiddleware[TriageState, Any, Any]):
    """Routes the newest message before the agent starts, and answers it when its route has a ready answer.

    Three things can happen to a ticket. Its route is accepted and has an answer: the agent ends with that answer, and
    **no LLM is called**. Its route is accepted and has none: the agent goes on. No route is sure enough, or something
    failed, or ``KO_DECISION_OFF`` is set: the agent goes on as if triage were not there, and the decision is marked.

    ``state["ticket_decision"]`` holds it in all three: ``RouteResult.to_dict()`` (``route``, ``escalated``,
    ``reasons``, ``answer``, ``decision``) and ``answered``. It is plain JSON, and stays in the thread's checkpoint.

    An answered ticket has no ``structured_response``. A turn that does not begin with a human message is no ticket.

    Args:
        router: What decides; its ``escalate_to`` has to be a name. A route's ``answer`` is its ready answer.
        answers: Ready answers by route, which win over the routes' own: a text, or a function of the agent's state and
            the result that returns a text, an ``AIMessage``, or ``None`` to leave this ticket to the LLM. A coroutine
            function needs ``ainvoke``; under ``ainvoke`` a plain function runs in a thread.
        follow_ups: ``False`` answers only the opening message of a conversation; later ones, which may mean something
            else than they say alone, are decided but left to the LLM.
        on_answer_error: What a failing answer function does: ``"escalate"`` logs it and leaves the ticket, marked, to
            the LLM; ``"raise"`` raises.
        accounting: Counters and spans to share; with ``include_text`` traces show what was judged.
        name: The middleware's name, in traces and graphs.

    Raises:
        InvalidInputError: At construction: an answer for a route that there is not, or a setting that cannot be used.

    Example:
        >>> from langchain.agents import create_agent
        >>> from langchain_core.language_models import FakeListChatModel
        >>> from ko_decision_tools import DecisionRouter, KoDecisionModel, ScriptedEncoder
        >>> model = KoDecisionModel.from_encoder(ScriptedEncoder({"배송": 3.0}))
        >>> triage = TicketTriageMiddleware(DecisionRouter(model, ["배송", "결제"]), {"배송": "이틀 안에 도착합니다."})
        >>> agent = create_agent(FakeListChatModel(responses=["never"]), middleware=[triage])
        >>> state = agent.invoke({"messages": [("user", "택배 언제 와요?")]})
        >>> state["messages"][-1].text, state["ticket_decision"]["answered"]
        ('이틀 안에 도착합니다.', True)
    """

    state_schema = TriageState

    def __init__(
        self,
        router: DecisionRouter,
        answers: Mapping[str, Answer] | None = None,
        *,
        follow_ups: bool = True,
        on_answer_error: OnError = "escalate",
        accounting: Accounting | None = None,
        name: str = "ko_triage",
    ) -> None:
        super().__init__()
        self.accounting = accounting or Accounting()
        if not self.accounting.include_text:
            self.trace_policy = TracePolicy(process_inputs=omit_payload)
        self._asker, self._name = RouterAsker(router, self.accounting), name
        self._escalate_to = router.table.escalate_to
        self._answers: dict[str, Answer] = {
            route.label: route.answer for route in router.table.routes if route.answer is not None
        }
        labels = [route.label for route in router.table.routes]
        for label, answer in (answers or {}).items():
            if label not in labels:
                raise InvalidInputError(f"answers.{label}", "is no route", f"There are: {', '.join(labels)}.")
            if not isinstance(answer, str) and not callable(answer):
                raise InvalidInputError(f"answers.{label}", "is neither a text nor a function", "Give one of them.")
            self._answers[label] = answer
        self._follow_ups = follow_ups
        self._on_answer_error = check_on_error(on_answer_error, "on_answer_error")

    @property
    def name(self) -> str:
        """The middleware's name."""
        return self._name

    @hook_config(can_jump_to=["end"])
    def before_agent(self, state: TriageState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Decide, and answer if there is a ready answer."""
        if not _is_ticket(state):
            return None
        result = self._asker.ask(state)
        answer = self._ready(state, result)
        try:
            reply = answer(state, result) if callable(answer) else answer
            message = _message(_must_be_here(reply, result))
        except Exception as error:  # reported: raised, or logged and marked
            return self._unanswered(self._failed(error, result))
        return self._update(result, message)

    @hook_config(can_jump_to=["end"])
    async def abefore_agent(self, state: TriageState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """:meth:`before_agent` off the event loop; concurrent agents share forward passes."""
        if not _is_ticket(state):
            return None
        result = await self._asker.aask(state)
        answer = self._ready(state, result)
        try:
            message = _message(await _called(answer, state, result))
        except Exception as error:  # as in before_agent
            return self._unanswered(self._failed(error, result))
        return self._update(result, message)

    def _ready(self, state: TriageState, result: RouteResult) -> Answer | None:
        """The answer of an accepted route; none for a follow-up that is not to be answered."""
        is_follow_up = any(isinstance(message, AIMessage) for message in state["messages"])
        if result.escalated or (is_follow_up and not self._follow_ups):
            return None
        return self._answers.get(result.route)

    def _update(self, result: RouteResult, message: AIMessage | None) -> dict[str, Any]:
        if message is None:
            return self._unanswered(result)
        self.accounting.llm_call_avoided()
        return {KEY: result.to_dict() | {"answered": True}, "messages": [message], "jump_to": "end"}

    def _unanswered(self, result: RouteResult) -> dict[str, Any]:
        if result.escalated:
            self.accounting.escalated()
        return {KEY: result.to_dict() | {"answered": False}}

    def _failed(self, error: Exception, result: RouteResult) -> RouteResult:
        if self._on_answer_error == "raise" or isinstance(error, GraphBubbleUp | InvalidInputError):
            raise error  # an interrupt is no failure, and a wrong answer function is the developer's to correct
        logger.error("escalated: the ready answer of %r failed", result.route, exc_info=error)
        reason = f"the ready answer of {result.route!r} failed ({type(error).__name__})"
        return RouteResult(self._escalate_to, decision=result.decision, reasons=(reason,))


def _is_ticket(state: TriageState) -> bool:
    messages = state["messages"]
    return not messages or isinstance(messages[-1], HumanMessage)


async def _called(answer: Answer | None, state: TriageState, result: RouteResult) -> Reply:
    if answer is None or isinstance(answer, str):
        return answer
    if inspect.iscoroutinefunction(answer):
        reply: Reply = await answer(state, result)
        return reply
    made = await asyncio.to_thread(answer, state, result)
    return await made if inspect.isawaitable(made) else made


def _must_be_here(reply: Reply | Awaitable[Reply], result: RouteResult) -> Reply:
    if not inspect.isawaitable(reply):
        return reply
    if inspect.iscoroutine(reply):
        reply.close()
    raise InvalidInputError(f"answers.{result.route}", "is a coroutine function", "Run the agent with ainvoke.")


def _message(reply: Reply) -> AIMessage | None:
    if reply is None or isinstance(reply, AIMessage):
        return reply
    if isinstance(reply, str):
        return AIMessage(reply)
    raise InvalidInputError("answers", f"gave a {type(reply).__name__}", "Return a text, an AIMessage or None.")


__all__ = ["Answer", "TicketTriageMiddleware", "TriageState"]
