"""What the model reads instead of a tool's result, and the user at the end of a loop. Korean first, then English."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

if TYPE_CHECKING:
    from langchain_core.messages import ToolCall

    from ko_decision_langgraph.gate_verdicts import CallVerdict, Verdict

DO_NOT_RETRY: Final = (
    "같은 호출을 다시 시도하지 말고, 표현이나 인자만 바꿔 시도하지도 마세요. "
    "사람의 확인이 필요하다고 사용자에게 알리세요. "
    "(It was not executed. Do not retry it, not even reworded: tell the user that a person has to look.)"
)
FAREWELL: Final = (
    "요청하신 작업은 안전 확인에서 여러 번 거절되어 여기서 멈춥니다. 담당자가 확인한 뒤 다시 도와드리겠습니다. "
    "(This action was refused repeatedly, so I stop here; a person has to look at it.)"
)
_WHY: Mapping[Verdict, str] = {
    "block": "안전 확인에서 차단되어 실행되지 않았습니다",
    "abstain": "안전한지 확신할 수 없어 실행되지 않았습니다",
    "error": "안전한지 판단하지 못해 실행되지 않았습니다",
    "allow": "실행되지 않았습니다",
}


def refusal(call: ToolCall, verdict: CallVerdict) -> ToolMessage:
    """The gate's no. The artifact is the verdict as JSON."""
    p = "" if verdict.p_block is None else f", P(block) {verdict.p_block:.2f}"
    return _instead(call, verdict, f"도구 호출 `{call['name']}`: {_WHY[verdict.verdict]} ({verdict.verdict}{p}).")


def rejection(call: ToolCall, verdict: CallVerdict, message: str | None) -> ToolMessage:
    """A person's no, with what they said."""
    said = f" 사유: {message}" if message else ""
    return _instead(call, verdict, f"도구 호출 `{call['name']}`: 사람이 거절해 실행되지 않았습니다.{said}")


def farewell(calls: Sequence[ToolCall], text: str) -> list[BaseMessage]:
    """The end of a loop: every call is answered, so that the history stays valid, then the user is."""
    stopped = "반복해서 거절되어 실행을 끝냈습니다. (Not executed: the run was ended after repeated refusals.)"
    answers = [ToolMessage(stopped, tool_call_id=call["id"], name=call["name"], status="error") for call in calls]
    return [*answers, AIMessage(text)]


def refusals(messages: Sequence[BaseMessage], gate: str, fingerprint: str) -> int:
    """How often a gate has refused this call since the user last spoke."""
    count = 0
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            break
        kept = message.artifact if isinstance(message, ToolMessage) else None
        if isinstance(kept, Mapping) and (kept.get("gate"), kept.get("fingerprint")) == (gate, fingerprint):
            count += 1
    return count


def unanswered(caller: AIMessage, messages: Sequence[BaseMessage]) -> list[ToolCall]:
    """A message's calls that have no result after it. Some providers count ids from the start in every message."""
    after = itertools.takewhile(lambda message: message is not caller, reversed(messages))
    answered = {message.tool_call_id for message in after if isinstance(message, ToolMessage)}
    return [call for call in caller.tool_calls if call["id"] not in answered]


def _instead(call: ToolCall, verdict: CallVerdict, why: str) -> ToolMessage:
    artifact: dict[str, Any] = verdict.to_dict()
    content = f"{why} {DO_NOT_RETRY}"
    return ToolMessage(content, tool_call_id=call["id"], name=call["name"], status="error", artifact=artifact)


__all__ = ["DO_NOT_RETRY", "FAREWELL", "farewell", "refusal", "refusals", "rejection", "unanswered"]
