"""Every error this library raises on purpose, in one tree.

::

    KoDecisionError
    ├── InvalidInputError (ValueError)    what was passed in cannot be used: field, value and fix are named
    │   ├── InputTooLongError             an instruction + option (or, on request, a state) exceeds the token limit
    │   └── RoutingTableError             a routing table is malformed: line and field are named
    ├── CalibrationError (ValueError)     a calibration file is malformed, degenerate or made for another checkpoint
    ├── UncalibratedError                 the policy says "error" and no fitted temperature applies
    ├── AbstainedError                    a caller asked for an exception on abstaining; carries the decision
    ├── CheckpointError                   a checkpoint cannot be used
    │   └── CheckpointNotFoundError       there is no such folder, repo or revision (or it is not in the cache offline)
    └── EncoderError (RuntimeError)       the forward pass failed or returned something that is not a score
        └── OverloadedError               the micro-batcher's queue is full: try again later

Anything else that comes out is a bug.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ko_decision_tools.decisions import Decision

_SHOWN = 80


def shorten(value: object, limit: int = _SHOWN) -> str:
    """``repr`` of a value for an error message: one line, at most ``limit`` characters, always encodable as UTF-8."""
    text = repr(value).encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= limit else text[: limit - 1] + "…"


class KoDecisionError(Exception):
    """Base of every error this library raises on purpose."""


class InvalidInputError(KoDecisionError, ValueError):
    """Something passed in cannot be used.

    Args:
        field: Where it was found, as the caller would write it (``"criteria"``, ``"options[2]"``).
        problem: What is wrong with it, one clause.
        fix: What to do instead, one sentence.
        value: The offending value; shortened in the message, whole in the attribute.

    Example:
        >>> raise InvalidInputError("criteria", "has 1 option", "Give 2 to 255 options.", value={"결제": None})
        Traceback (most recent call last):
        ...
        ko_decision_tools.errors.InvalidInputError: criteria has 1 option: {'결제': None}. Give 2 to 255 options.
    """

    def __init__(self, field: str, problem: str, fix: str, *, value: Any = None) -> None:
        self.field, self.problem, self.fix, self.value = field, problem, fix, value
        shown = "" if value is None else f": {shorten(value)}"
        super().__init__(f"{field} {problem}{shown}. {fix}")

    def __reduce__(self) -> tuple[Any, ...]:
        # The default would call __init__ with the finished message alone; errors cross process boundaries.
        return _rebuild, (type(self), self.field, self.problem, self.fix, self.value)


def _rebuild(cls: type[InvalidInputError], field: str, problem: str, fix: str, value: Any) -> InvalidInputError:
    return cls(field, problem, fix, value=value)


class InputTooLongError(InvalidInputError):
    """An instruction with its option leaves no room for the state, or a state is over the limit in ``error`` mode."""


class RoutingTableError(InvalidInputError):
    """A routing table is malformed; ``field`` holds the file, the line and the path to the key."""


class CalibrationError(KoDecisionError, ValueError):
    """A calibration is malformed, degenerate, or was fitted for another checkpoint."""


class UncalibratedError(KoDecisionError):
    """No fitted temperature applies to this question and the policy asks for an error."""


class AbstainedError(KoDecisionError):
    """A decision abstained and the caller asked for an exception instead of a verdict.

    Attributes:
        decision: The whole abstained decision, distribution included.
    """

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        super().__init__(f"the model abstained: {'; '.join(decision.reasons)}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.decision,)


class CheckpointError(KoDecisionError):
    """A checkpoint is incomplete, corrupted or of a kind this library does not run."""


class CheckpointNotFoundError(CheckpointError):
    """There is no such folder, hub repo or revision, or it is not in the local cache while offline."""


class EncoderError(KoDecisionError, RuntimeError):
    """The forward pass failed, or returned the wrong number of scores or scores that are not finite."""


class OverloadedError(EncoderError):
    """The micro-batcher's queue is full; nothing was scored. Retry later or lower the concurrency."""
