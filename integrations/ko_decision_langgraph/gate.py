"""``DecisionGateMiddleware``: before a tool runs, a calibrated yes/no is asked. YES means block."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from langchain.agents.middleware.types import AgentMiddleware, ToolCallRequest, TracePolicy, hook_config, omit_payload
from langchain_core.messages import BaseMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.types import Command

from ko_decision_langgraph.accounting import Accounting
from ko_decision_langgraph.gate_judge import DEFAULT_QUESTION, GateJudge, Questions, calling_message
from ko_decision_langgraph.gate_memo import GateState, Recent, recalled, stored, turn_of
from ko_decision_langgraph.gate_people import ask_a_person, executed_call, order_watched
from ko_decision_langgraph.gate_replies import FAREWELL, farewell, refusal, refusals, rejection, unanswered
from ko_decision_langgraph.gate_verdicts import CallVerdict, GateRules, OnAbstain, OnError, fingerprint
from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.model import KoDecisionModel

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

Gated: TypeAlias = Iterable[str | BaseTool] | Callable[[ToolCall], bool]
ToolResult: TypeAlias = ToolMessage | Command[Any]


class DecisionGateMiddleware(AgentMiddleware[GateState, Any, Any]):
    """Judges chosen tool calls before they run: block, ask a person, or let them run.

    With ``P`` the probability that the answer is YES: ``P >= block_at`` refuses with a message that tells the model not
    to retry; ``P <= allow_at`` runs the tool; in between a person is asked with ``interrupt()``, or the call is
    refused. With several questions the strictest answer counts: any YES blocks. These checkpoints say "yes" too often,
    so word questions such that YES = BLOCK ("… 안 되는가?").

    The gate fails closed: a call that could not be judged is refused unless ``on_error`` says otherwise, the kill
    switch (:mod:`~ko_decision_langgraph.kill_switch`) included, and one that was not read to its end is never allowed.

    All calls of a message are judged together right after the model made them, and the verdicts are kept in the agent's
    state by call id and arguments: a hook that runs again, after an interrupt or in another process, does not ask
    again. Calls that somebody changed since then are judged when they are about to run; those verdicts are remembered
    in this process only, and in another the same question is asked again about the same text.

    **Order.** Inside human approval: ``middleware=[HumanInTheLoopMiddleware(…), gate]``. Then the gate also judges what
    a reviewer edited. Outside, it sees the unedited call; it warns (:class:`GateOrderWarning`) as soon as that shows.
    Use :func:`make_when` to have people review only what the gate is unsure about. Several gates need several names.

    A person answers the gate's own interrupt with ``{"type": "approve"}`` or ``{"type": "reject", "message": …}``, or
    with LangChain's ``{"decisions": [{"type": …}]}``.

    Args:
        model: What answers.
        gated: Which tools: names or tools, or a predicate on the tool call.
        questions: Text, ``Noul``, a sequence of them, or a mapping by id.
        allow_at, block_at: The bounds.
        on_abstain: Between them: ``"interrupt"`` or ``"block"``.
        on_error: When a call cannot be judged: ``"block"``, ``"interrupt"``, ``"allow"`` or ``"raise"``.
        task: Name of the questions' temperature in ``calibration.json``.
        max_messages: How many of the newest messages are shown to the model behind the call.
        max_refusals: When the model makes a call that was refused this often since the user last spoke, the run ends.
        farewell: What the user then reads.
        accounting: Counters and spans to share; with ``include_text`` traces show what was judged.
        name: The gate's name, in traces and in the state.

    Raises:
        InvalidInputError: For a setting that cannot be used.

    Example:
        >>> from ko_decision_tools import KoDecisionModel, ScriptedEncoder
        >>> model = KoDecisionModel.from_encoder(ScriptedEncoder({"참": 3.0}))
        >>> gate = DecisionGateMiddleware(model, ["refund"], questions="근거 없는 환불인가?")
        >>> from langchain.agents.middleware import ToolCallRequest
        >>> call = {"name": "refund", "args": {"order": 7}, "id": "1", "type": "tool_call"}
        >>> request = ToolCallRequest(tool_call=call, tool=None, state={"messages": []}, runtime=None)
        >>> gate.wrap_tool_call(request, handler=None).status
        'error'
    """

    state_schema = GateState

    def __init__(
        self,
        model: KoDecisionModel,
        gated: Gated,
        *,
        questions: Questions = DEFAULT_QUESTION,
        allow_at: float = 0.2,
        block_at: float = 0.7,
        on_abstain: OnAbstain = "interrupt",
        on_error: OnError = "block",
        task: str | None = None,
        max_messages: int = 10,
        max_refusals: int = 3,
        farewell: str = FAREWELL,
        accounting: Accounting | None = None,
        name: str = "ko_gate",
    ) -> None:
        super().__init__()
        for field, number, least in (("max_refusals", max_refusals, 1), ("max_messages", max_messages, 0)):
            if number < least:
                raise InvalidInputError(field, f"is below {least}", f"Use {least} or more.", value=number)
        self.accounting = accounting or Accounting()
        if not self.accounting.include_text:
            self.trace_policy = TracePolicy(process_inputs=omit_payload)
        self.judge = GateJudge(
            model,
            questions,
            GateRules(allow_at, block_at, on_abstain, on_error),
            task=task,
            max_messages=max_messages,
            accounting=self.accounting,
            name=name,
        )
        self._gated = gated if callable(gated) else _names(gated)
        self._name, self._max_refusals, self._farewell = name, max_refusals, farewell
        self._late: Recent[CallVerdict] = Recent()
        self._reviewed: Recent[bool] = Recent()

    @property
    def name(self) -> str:
        """The gate's name."""
        return self._name

    # -- right after the model: judge all its calls together, or end a loop -------------------------------------------

    @hook_config(can_jump_to=["end"])
    def after_model(self, state: GateState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Judge the calls the model has just made, and keep the verdicts."""
        calls, ending = self._made(state["messages"])
        if ending is not None or not calls:
            return ending
        return self._kept(state, calls, self.judge.judge(calls, state["messages"]))

    @hook_config(can_jump_to=["end"])
    async def aafter_model(self, state: GateState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """:meth:`after_model` off the event loop."""
        calls, ending = self._made(state["messages"])
        if ending is not None or not calls:
            return ending
        return self._kept(state, calls, await self.judge.ajudge(calls, state["messages"]))

    def _made(self, messages: Sequence[BaseMessage]) -> tuple[list[ToolCall], dict[str, Any] | None]:
        """The gated calls that wait, or the update that ends the run because one was refused too often."""
        caller = calling_message(messages)
        waiting = [] if caller is None else unanswered(caller, messages)
        calls = [call for call in waiting if call["id"] and self._covers(call)]
        if any(refusals(messages, self.name, fingerprint(call)) >= self._max_refusals for call in calls):
            return [], {"messages": farewell(waiting, self._farewell), "jump_to": "end"}
        return calls, None

    def _kept(self, state: GateState, calls: Sequence[ToolCall], verdicts: Sequence[CallVerdict]) -> dict[str, Any]:
        by_id = {str(call["id"]): verdict for call, verdict in zip(calls, verdicts, strict=True)}
        return stored(self.name, state["messages"], by_id)

    # -- right before the tool: follow the verdict --------------------------------------------------------------------

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolResult]) -> ToolResult:
        """Run the tool, refuse, or ask a person."""
        state = _mapping(request.state)
        call = executed_call(request.tool_call, state, self.name)
        if not self._covers(call):
            return handler(request)
        verdict = self._remembered(state, call)
        if verdict is None:
            verdict = self._remember(state, call, self.judge.judge([call], state["messages"])[0])
        instead = self._followed(state, call, verdict)
        if instead is not None:
            return instead
        with order_watched(call, self.name):
            return handler(request)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolResult]]
    ) -> ToolResult:
        """:meth:`wrap_tool_call` off the event loop."""
        state = _mapping(request.state)
        call = executed_call(request.tool_call, state, self.name)
        if not self._covers(call):
            return await handler(request)
        verdict = self._remembered(state, call)
        if verdict is None:
            verdict = self._remember(state, call, (await self.judge.ajudge([call], state["messages"]))[0])
        instead = self._followed(state, call, verdict)
        if instead is not None:
            return instead
        with order_watched(call, self.name):
            return await handler(request)

    def needs_a_person(self, request: ToolCallRequest) -> bool:
        """Whether the gate is unsure about a call. Whoever asks this shows the call to a person: see :func:`make_when`.

        The gate then does not interrupt for that call itself.
        """
        state, call = _mapping(request.state), request.tool_call
        verdict = self._remembered(state, call)
        if verdict is None:
            verdict = self._remember(state, call, self.judge.judge([call], state["messages"])[0])
        if verdict.action == "ask" and (turn := turn_of(state, call)) is not None:
            self._reviewed.put(turn, True)
        return verdict.action == "ask"

    def _followed(self, state: Mapping[str, Any], call: ToolCall, verdict: CallVerdict) -> ToolMessage | None:
        """What the model reads instead of the tool's result; ``None`` when the tool runs."""
        if verdict.action == "refuse":
            return refusal(call, verdict)
        if verdict.action == "run" or self._reviewed.get(turn_of(state, call)):
            return None
        answer = ask_a_person(call, verdict)
        return None if answer["type"] == "approve" else rejection(call, verdict, answer.get("message"))

    def _remembered(self, state: Mapping[str, Any], call: ToolCall) -> CallVerdict | None:
        return recalled(self.name, state, call) or self._late.get((turn_of(state, call), fingerprint(call)))

    def _remember(self, state: Mapping[str, Any], call: ToolCall, verdict: CallVerdict) -> CallVerdict:
        if (turn := turn_of(state, call)) is not None:
            self._late.put((turn, fingerprint(call)), verdict)
        return verdict

    def _covers(self, call: ToolCall) -> bool:
        return self._gated(call) if callable(self._gated) else call["name"] in self._gated


def make_when(gate: DecisionGateMiddleware) -> Callable[[ToolCallRequest], bool]:
    """A ``when`` for ``HumanInTheLoopMiddleware``: people review what the gate is unsure about, and nothing else.

    Put the gate inside, in the same list::

        hitl = HumanInTheLoopMiddleware({"refund": {"allowed_decisions": ["approve", "edit", "reject"],
                                                    "when": make_when(gate)}})
        create_agent(model, tools, middleware=[hitl, gate], checkpointer=…)

    What the gate blocks is blocked without asking anyone, what it allows runs, and a call that was approved or edited
    runs unless the gate blocks the edited one. Without the gate in the list the predicate asks the model itself, on the
    thread it is called from.
    """
    return gate.needs_a_person


def _names(gated: Iterable[str | BaseTool]) -> frozenset[str]:
    listed = [gated] if isinstance(gated, str) else gated
    names = frozenset(each if isinstance(each, str) else each.name for each in listed)
    if not names:
        raise InvalidInputError("gated", "is empty", "Name at least one tool, or give a predicate.")
    return names


def _mapping(state: Any) -> Mapping[str, Any]:
    """A tool node's input as a mapping that has messages: it may be a list of messages, or an object."""
    if isinstance(state, Mapping):
        return state if "messages" in state else {**state, "messages": []}
    return {"messages": state if isinstance(state, list) else getattr(state, "messages", [])}


__all__ = ["DecisionGateMiddleware", "make_when"]
