"""The loop guard: how often a node was reached in this run, and what happens when that is too often.

An agent that is sent back and forth asks the same question until the recursion limit stops the graph with an error. A
node with ``max_visits`` escalates instead. The count lives in a channel of its own, which every run starts at nothing:
a thread that goes on for days never runs out of visits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from langgraph.channels import UntrackedValue
from typing_extensions import TypedDict

from ko_decision_tools.errors import InvalidInputError

VISITS: Final = "decision_visits"
_MISSING: Final[Any] = object()


class VisitCounter(UntrackedValue[dict[str, int]]):
    """A channel that starts every run as ``{}``, merges what parallel nodes write, and is never checkpointed."""

    __slots__ = ()

    def __init__(self, typ: type[dict[str, int]], guard: bool = True) -> None:
        super().__init__(typ, guard)
        # There from the start: a node can tell a run that just began from a state that lacks the channel.
        self.value = {}

    def update(self, values: Sequence[dict[str, int]]) -> bool:
        """Merge; where two parallel branches counted, the larger count stays."""
        merged = dict(self.value)
        for counts in values:
            merged |= {name: max(count, merged.get(name, 0)) for name, count in counts.items()}
        self.value = merged
        return bool(values)


class DecisionState(TypedDict, total=False):
    """The keys that the nodes write by default; inherit them: ``class State(MessagesState, DecisionState)``."""

    decision: dict[str, Any]
    decision_visits: Annotated[dict[str, int], VisitCounter]


@dataclass(frozen=True, slots=True)
class LoopGuard:
    """Counts the visits of one node.

    Args:
        name: What it counts under.
        max_visits: How many visits of a run may ask the model; ``None`` counts nothing and needs no channel.

    Raises:
        InvalidInputError: ``max_visits`` is not a positive whole number.
    """

    name: str
    max_visits: int | None = None

    def __post_init__(self) -> None:
        limit = self.max_visits
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
            raise InvalidInputError("max_visits", "is not a count", "Use a whole number from 1, or None.", value=limit)

    def visit(self, state: Any) -> tuple[dict[str, Any], str | None]:
        """What to write into the state, and why this visit is one too many (``None`` when it is not).

        Raises:
            InvalidInputError: The graph's state lacks the channel.
        """
        if self.max_visits is None:
            return {}, None
        counts = read(state, VISITS, _MISSING)
        if counts is _MISSING:
            fix = f"Add {VISITS!r} to the graph's state: let it inherit DecisionState."
            raise InvalidInputError("max_visits", "has nowhere to count", fix)
        count = counts.get(self.name, 0) + 1
        over = count > self.max_visits
        reason = f"visited {count} times in this run, max_visits is {self.max_visits}" if over else None
        return {VISITS: {self.name: count}}, reason


def read(state: Any, key: str, default: Any = None) -> Any:
    """One key of a graph's state, whether that is a mapping or an object with attributes."""
    return state.get(key, default) if isinstance(state, Mapping) else getattr(state, key, default)


__all__ = ["VISITS", "DecisionState", "LoopGuard", "VisitCounter", "read"]
