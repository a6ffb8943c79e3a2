"""Where a gate meets people: what it asks them, what they may answer, and whether it stands on the right side of them.

The question has the form of LangChain's ``HITLRequest``, so whatever shows those can show a gate's.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired

from langgraph.errors import GraphInterrupt
from langgraph.types import interrupt
from pydantic import Field
from typing_extensions import TypedDict

if TYPE_CHECKING:
    from langchain_core.messages import ToolCall

    from ko_decision_langgraph.gate_verdicts import CallVerdict

EDITS_KEY = "hitl_edited_tool_calls"  # where HumanInTheLoopMiddleware keeps a reviewer's replacement of a call


class Approve(TypedDict):
    """Run it."""

    type: Literal["approve"]


class Reject(TypedDict):
    """Do not run it; ``message`` is passed on to the model."""

    type: Literal["reject"]
    message: NotRequired[str]


class Answers(TypedDict):
    """The same in the form of LangChain's ``HITLResponse``; a gate asks about one call at a time."""

    decisions: Annotated[list[Approve | Reject], Field(min_length=1, max_length=1)]


class GateOrderWarning(UserWarning):
    """A gate stands outside human approval and judges calls that a person may still edit."""


def ask_a_person(call: ToolCall, verdict: CallVerdict) -> Approve | Reject:
    """Interrupt the run until somebody answers ``{"type": "approve"}`` or ``{"type": "reject", "message": …}``.

    Raises:
        pydantic.ValidationError: The answer is neither; nothing is saved, so it can be given again.
    """
    schema: Any = Approve | Reject | Answers
    answer: Any = interrupt(_request(call, verdict), response_schema=schema)
    decision: Approve | Reject = answer["decisions"][0] if "decisions" in answer else answer
    return decision


def _request(call: ToolCall, verdict: CallVerdict) -> dict[str, Any]:
    doubt = "; ".join(verdict.reasons)
    args = json.dumps(call["args"], ensure_ascii=False, default=repr)
    description = f"확인이 필요한 도구 호출입니다. (A tool call needs a person: {doubt})\n\n{call['name']}({args})"
    return {
        "action_requests": [{"name": call["name"], "args": call["args"], "description": description}],
        "review_configs": [{"action_name": call["name"], "allowed_decisions": ["approve", "reject"]}],
        "gate": verdict.to_dict(),
    }


def executed_call(call: ToolCall, state: Mapping[str, Any], gate: str) -> ToolCall:
    """The call that will run: the reviewer's where one was edited further in, and then a warning about the order."""
    edited = (state.get(EDITS_KEY) or {}).get(call["id"])
    if edited is None or (edited["name"], edited["args"]) == (call["name"], call["args"]):
        return call
    _warn(gate)
    return {**call, "name": edited["name"], "args": edited["args"]}


@contextmanager
def order_watched(call: ToolCall, gate: str) -> Iterator[None]:
    """Warn when human approval (``interrupt_mode="per_call"``) happens further in than the gate."""
    try:
        yield
    except GraphInterrupt as paused:
        for each in paused.args[0] if paused.args else ():
            value = each.value
            mine = isinstance(value, dict) and value.get("tool_call_id") == call["id"]
            if mine and value.get("type") == "tool_approval":
                _warn(gate)
        raise


def _warn(gate: str) -> None:
    warnings.warn(
        f"{gate} stands outside human approval, so it judges calls before a person edits them. "
        "Put it inside: middleware=[HumanInTheLoopMiddleware(…), gate].",
        GateOrderWarning,
        stacklevel=2,
    )


__all__ = ["Answers", "Approve", "GateOrderWarning", "Reject", "ask_a_person", "executed_call", "order_watched"]
