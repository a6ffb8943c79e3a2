"""What a gate remembers about a call, so that a hook that runs again after an interrupt does not ask again.

Verdicts about the calls as the model made them are in the agent's state (:class:`GateState`), written before any
interrupt, so they survive the process. What is found out later, inside the tool hook, where nothing can be written
before an interrupt, is in :class:`Recent`, for as long as the process lives.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, NotRequired, TypeAlias, TypeVar

from langchain.agents.middleware.types import AgentState, PrivateStateAttr

from ko_decision_langgraph.gate_judge import calling_message
from ko_decision_langgraph.gate_verdicts import CallVerdict, fingerprint

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage, ToolCall

STATE_KEY: Final = "ko_gates"
CAPACITY: Final = 4096
Turn: TypeAlias = tuple[str, str]
V = TypeVar("V")


def merge_gates(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> dict[str, Any]:
    """Each gate overwrites its own entry and leaves the others'."""
    return {**(old or {}), **new}


class GateState(AgentState[Any]):
    """Agent state with the verdicts of every gate, as plain JSON; private to the gates.

    Attributes:
        ko_gates: Gate name to ``{"message": id, "calls": {call id: verdict}}``, for the newest message with calls only.
    """

    ko_gates: NotRequired[Annotated[dict[str, Any], PrivateStateAttr, merge_gates]]


def stored(gate: str, messages: Sequence[BaseMessage], verdicts: Mapping[str, CallVerdict]) -> dict[str, Any]:
    """The state update that keeps verdicts, by tool call id, about the newest message's calls."""
    caller = calling_message(messages)
    calls = {call_id: verdict.to_dict() for call_id, verdict in verdicts.items()}
    return {STATE_KEY: {gate: {"message": caller.id if caller else None, "calls": calls}}}


def recalled(gate: str, state: Mapping[str, Any], call: ToolCall) -> CallVerdict | None:
    """The kept verdict about exactly this call: same message, same id, same tool, same arguments."""
    entry = (state.get(STATE_KEY) or {}).get(gate)
    caller = calling_message(state.get("messages", ()))
    if entry is None or caller is None or entry["message"] is None or entry["message"] != caller.id:
        return None
    kept = entry["calls"].get(call["id"])
    return CallVerdict.from_dict(kept) if kept is not None and kept["fingerprint"] == fingerprint(call) else None


def turn_of(state: Mapping[str, Any], call: ToolCall) -> Turn | None:
    """What tells one call from every other, in any conversation: its message's id and its own."""
    caller = calling_message(state.get("messages", ()))
    call_id = call["id"]
    return (caller.id, call_id) if caller is not None and caller.id and call_id else None


class Recent(Generic[V]):
    """A small mapping that forgets the oldest entry; threads may share it.

    Example:
        >>> recent = Recent[int](capacity=2)
        >>> for number, key in enumerate("abc"):
        ...     recent.put(key, number)
        >>> recent.get("a"), recent.get("c")
        (None, 2)
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._entries: OrderedDict[Any, V] = OrderedDict()
        self._capacity, self._lock = capacity, threading.Lock()

    def get(self, key: object) -> V | None:
        """The value, or ``None``."""
        with self._lock:
            return self._entries.get(key)

    def put(self, key: object, value: V) -> None:
        """Keep a value; over capacity, the oldest goes."""
        with self._lock:
            self._entries[key] = value
            self._entries.move_to_end(key)
            if len(self._entries) > self._capacity:
                self._entries.popitem(last=False)


__all__ = ["STATE_KEY", "GateState", "Recent", "merge_gates", "recalled", "stored", "turn_of"]
