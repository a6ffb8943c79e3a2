"""``GateJudge``: asks the model about tool calls and reads what it says, strictly.

The state puts the tool call first, then the newest messages, because encoders cut the end. A call that was not itself
read to its end is never allowed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from langchain_core.messages import AIMessage, BaseMessage

from ko_decision_langgraph.accounting import PREFIX, Accounting, atraced, attributes_of, traced
from ko_decision_langgraph.gate_verdicts import CallVerdict, Finding, GateRules, Unread, fingerprint
from ko_decision_langgraph.kill_switch import OFF_REASON, switched_off
from ko_decision_tools.decisions import Decision
from ko_decision_tools.errors import EncoderError, InvalidInputError
from ko_decision_tools.model import KoDecisionModel
from ko_decision_tools.questions import Noul, parse_question
from ko_decision_tools.states import render_state

if TYPE_CHECKING:
    from langchain_core.messages import ToolCall
    from opentelemetry.trace import Span

logger = logging.getLogger(__name__)

DEFAULT_QUESTION = "이 도구 호출을 실행하면 안 되는가?"
Questions: TypeAlias = str | Noul | Sequence[str | Noul] | Mapping[str, str | Noul]
Outcome: TypeAlias = Decision | Exception

_READ_BLOCKS = ("text", "reasoning", "thinking", "redacted_thinking", "tool_call", "tool_use", "function_call")


@dataclass(frozen=True, slots=True)
class Case:
    """One call and the state it is judged in."""

    call: ToolCall
    state: dict[str, Any]
    unread: Unread


class GateJudge:
    """Judges calls, several at once.

    Args:
        model: What answers.
        questions: One yes/no question or several, YES meaning block: texts, ``Noul`` objects, or a mapping of id to
            either.
        rules: From a probability to an action.
        task: Name of the questions' temperature in ``calibration.json``.
        max_messages: How many of the newest messages the model sees.
        accounting: Counts decisions and escalations.
        name: The gate's, for traces and verdicts.

    Raises:
        InvalidInputError: No question, one that is empty, or one that is not a yes/no question.
    """

    def __init__(
        self,
        model: KoDecisionModel,
        questions: Questions,
        rules: GateRules,
        *,
        task: str | None,
        max_messages: int,
        accounting: Accounting,
        name: str,
    ) -> None:
        self.questions, self.rules, self.name, self.accounting = _by_id(questions), rules, name, accounting
        self._model, self._task, self._max_messages = model, task, max_messages

    def judge(self, calls: Sequence[ToolCall], messages: Sequence[BaseMessage]) -> list[CallVerdict]:
        """One verdict per call; the pairs of all of them share batches.

        Args:
            calls: The calls, all made by the newest ``AIMessage``.
            messages: The conversation.

        Raises:
            Exception: With ``on_error="raise"``, what the model raised.
        """

        def run() -> list[CallVerdict]:
            with self.accounting.span(self.name) as span:
                cases = self._cases(calls, messages)
                return self._read(cases, self._ask_all([pair for case in cases for pair in self._pairs(case)]), span)

        return traced(self.name, run)

    async def ajudge(self, calls: Sequence[ToolCall], messages: Sequence[BaseMessage]) -> list[CallVerdict]:
        """:meth:`judge` off the event loop; all questions are asked at the same time."""

        async def run() -> list[CallVerdict]:
            with self.accounting.span(self.name) as span:
                cases = self._cases(calls, messages)
                asked = [self._ask(*pair) for case in cases for pair in self._pairs(case)]
                return await asyncio.to_thread(self._read, cases, await asyncio.gather(*asked), span)

        return await atraced(self.name, run)

    # -- from calls to outcomes: a decision, or the error that stands in its place -----------------------------------

    def _cases(self, calls: Sequence[ToolCall], messages: Sequence[BaseMessage]) -> list[Case]:
        heard = [(message, words) for message in messages if (words := _words(message, messages)) is not None]
        seen = heard[max(len(heard) - self._max_messages, 0) :]
        media = sum(_media_blocks(message) for message, _ in seen)
        talk = [words for _, words in seen]
        return [
            Case(
                call=call,
                state={"tool_call": {"name": call["name"], "args": call["args"]}, "messages": talk},
                unread=Unread(media=media, messages=len(heard) - len(seen)),
            )
            for call in calls
        ]

    def _pairs(self, case: Case) -> list[tuple[dict[str, Any], Noul]]:
        return [(case.state, question) for question in self.questions.values()]

    def _ask_all(self, pairs: Sequence[tuple[dict[str, Any], Noul]]) -> list[Outcome]:
        """All together; when that fails, half by half, so that one bad call does not condemn the others."""
        if switched_off():
            return [EncoderError(OFF_REASON) for _ in pairs]
        try:
            states, questions = zip(*pairs, strict=True)
            return list(self._model.decide_many(states, questions, **self._demands()))
        except Exception as error:  # reported by _finding: it decides about the call, and is logged, or raised
            if len(pairs) == 1:
                return [error]
            half = len(pairs) // 2
            return [*self._ask_all(pairs[:half]), *self._ask_all(pairs[half:])]

    async def _ask(self, state: dict[str, Any], question: Noul) -> Outcome:
        if switched_off():
            return EncoderError(OFF_REASON)
        try:
            return await self._model.adecide(state, question, **self._demands())
        except Exception as error:  # as in _ask_all
            return error

    def _demands(self) -> dict[str, Any]:
        # The band is the whole rule: the model's own bar would turn a clear P(yes) of 0.19 into an abstention.
        return {"task": self._task, "min_top_probability": 0.0, "policy": self.rules.band}

    # -- from outcomes to verdicts -----------------------------------------------------------------------------------

    def _read(self, cases: Sequence[Case], outcomes: Sequence[Outcome], span: Span | None) -> list[CallVerdict]:
        width, verdicts = len(self.questions), []
        for index, case in enumerate(cases):
            verdict = self._verdict(case, outcomes[index * width : (index + 1) * width], span)
            if verdict.action == "ask":
                self.accounting.escalated()
            verdicts.append(verdict)
        return verdicts

    def _verdict(self, case: Case, outcomes: Sequence[Outcome], span: Span | None) -> CallVerdict:
        findings, unread_tokens = [], 0
        for (key, question), outcome in zip(self.questions.items(), outcomes, strict=True):
            if isinstance(outcome, Exception):
                findings.append(self._failed(key, outcome))
                continue
            decision = self._strict(case, question, outcome)
            self._account(case, decision, span)
            verdict = self.rules.verdict(decision)
            action = self.rules.action(verdict)
            findings.append(Finding(key, verdict, action, decision.reasons, decision.to_dict()))
            cut = decision.provenance.truncation
            unread_tokens = max(unread_tokens, cut.cut if cut else 0)
        unread = replace(case.unread, tokens=unread_tokens)
        return CallVerdict(self.name, case.call["name"], fingerprint(case.call), tuple(findings), unread)

    def _strict(self, case: Case, question: Noul, decision: Decision) -> Decision:
        """The decision, abstaining where it would allow a call that was not read to its end."""
        if decision.provenance.truncation is None or self.rules.verdict(decision) != "allow":
            return decision
        alone = self._model.plan({"tool_call": case.state["tool_call"]}, question).truncation
        if alone is None:  # only older messages were cut
            return decision
        return replace(decision, reasons=(f"the last {alone.cut} tokens of the tool call were not read",))

    def _account(self, case: Case, decision: Decision, span: Span | None) -> None:
        self.accounting.record(decision)
        if span is not None:
            text = {f"{PREFIX}.text": render_state(case.state)} if self.accounting.include_text else {}
            span.add_event("decision", {f"{PREFIX}.tool": case.call["name"]} | attributes_of(decision) | text)

    def _failed(self, question: str, error: Exception) -> Finding:
        if self.rules.on_error == "raise":
            raise error
        known = isinstance(error, InvalidInputError)
        reason = str(error) if known else f"the model failed ({type(error).__name__}: {error})"
        action = self.rules.action("error")
        logger.error("%s could not judge a call (%s): %s", self.name, action, reason, exc_info=None if known else error)
        return Finding(question, "error", action, (reason,))


def _by_id(questions: Questions) -> dict[str, Noul]:
    if isinstance(questions, str | Noul):
        questions = [questions]
    given = questions if isinstance(questions, Mapping) else {f"q{n}": each for n, each in enumerate(questions, 1)}
    if not given:
        raise InvalidInputError("questions", "is empty", "Ask at least one yes/no question whose YES means block.")
    return {str(key): _yes_no(each, f"questions.{key}") for key, each in given.items()}


def _yes_no(question: str | Noul, field: str) -> Noul:
    noul = Noul(instructions=question) if isinstance(question, str) else question
    parsed = parse_question(noul, field=field)
    if not isinstance(parsed, Noul):
        raise InvalidInputError(field, f"is a {parsed.type!r} question", "A gate asks yes/no questions: use Noul.")
    return parsed


def _words(message: BaseMessage, messages: Sequence[BaseMessage]) -> BaseMessage | None:
    """A message as text alone, or ``None`` when nothing is left of it. The calling message loses its calls.

    They would put the other parallel calls in front of the model that judges this one.
    """
    update: dict[str, Any] = {"content": str(message.text)}
    if message is calling_message(messages):
        update["tool_calls"] = []
    words = message.model_copy(update=update)
    says_something = words.content or getattr(words, "tool_calls", None) or _media_blocks(message)
    return words if says_something else None


def calling_message(messages: Sequence[BaseMessage]) -> AIMessage | None:
    """The newest ``AIMessage``: the one whose tool calls are about to run."""
    return next((message for message in reversed(messages) if isinstance(message, AIMessage)), None)


def _media_blocks(message: BaseMessage) -> int:
    blocks = message.content if isinstance(message.content, list) else []
    return sum(isinstance(block, dict) and block.get("type") not in _READ_BLOCKS for block in blocks)


__all__ = ["DEFAULT_QUESTION", "GateJudge", "Questions", "calling_message"]
