"""When to answer and when to abstain: small rules that combine with ``&`` and ``|``.

A rule looks at a :class:`Reading` and returns the reasons to abstain; no reasons means *accept*. A value exactly at a
bar is accepted. ``a & b`` accepts when both accept (all reasons are listed); ``a | b`` accepts when either does.

Example:
    >>> rule = MinTopProbability(0.6) & MinMargin(0.2)
    >>> rule.reasons(Reading("choice", top_probability=0.6, margin=0.1, p_true=None, calibrated=True))
    ('margin 0.100 < 0.2',)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ko_decision_tools.errors import InvalidInputError, UncalibratedError

if TYPE_CHECKING:
    from ko_decision_tools.questions import Kind

DEFAULT_MIN_TOP_PROBABILITY = 0.6


@dataclass(frozen=True, slots=True)
class Reading:
    """The numbers a policy may look at, unrounded. ``p_true`` is ``P(yes)`` for a ``Noul``, else ``None``."""

    kind: Kind
    top_probability: float
    margin: float
    p_true: float | None
    calibrated: bool


class Policy:
    """Base of every rule. Subclasses implement :meth:`reasons`."""

    __slots__ = ()

    def reasons(self, reading: Reading) -> tuple[str, ...]:
        """Why to abstain, one clause each; empty when the answer is accepted."""
        raise NotImplementedError

    def __and__(self, other: Policy) -> Policy:
        return AllOf((self, other))

    def __or__(self, other: Policy) -> Policy:
        return AnyOf((self, other))


@dataclass(frozen=True, slots=True)
class MinTopProbability(Policy):
    """Abstain when the largest probability is below ``bar`` (in [0, 1])."""

    bar: float = DEFAULT_MIN_TOP_PROBABILITY

    def __post_init__(self) -> None:
        check_probability("min_top_probability", self.bar)

    def reasons(self, reading: Reading) -> tuple[str, ...]:
        """See :class:`Policy`."""
        if reading.top_probability >= self.bar:
            return ()
        return (f"top probability {_below(reading.top_probability, self.bar)} < {self.bar:g}",)


@dataclass(frozen=True, slots=True)
class MinMargin(Policy):
    """Abstain when the two largest probabilities are closer than ``bar`` (in [0, 1])."""

    bar: float

    def __post_init__(self) -> None:
        check_probability("min_margin", self.bar)

    def reasons(self, reading: Reading) -> tuple[str, ...]:
        """See :class:`Policy`."""
        if reading.margin >= self.bar:
            return ()
        return (f"margin {_below(reading.margin, self.bar)} < {self.bar:g}",)


@dataclass(frozen=True, slots=True)
class YesNoBand(Policy):
    """Decide a ``Noul`` outside a band only: ``P(yes) <= allow_at`` or ``P(yes) >= block_at`` is accepted.

    The names are a gate's, whose YES means *block*. Other question types pass through.

    Raises:
        InvalidInputError: A bound outside [0, 1], or ``allow_at >= block_at``.
    """

    allow_at: float
    block_at: float

    def __post_init__(self) -> None:
        check_probability("allow_at", self.allow_at)
        check_probability("block_at", self.block_at)
        if self.allow_at >= self.block_at:
            raise InvalidInputError(
                "allow_at",
                f"({self.allow_at:g}) is not below block_at ({self.block_at:g})",
                "YES means block, so choose for example allow_at=0.2, block_at=0.7.",
            )

    def reasons(self, reading: Reading) -> tuple[str, ...]:
        """See :class:`Policy`."""
        p = reading.p_true
        if p is None or p <= self.allow_at or p >= self.block_at:
            return ()
        return (f"P(yes) {p:.3f} lies between allow_at {self.allow_at:g} and block_at {self.block_at:g}",)


@dataclass(frozen=True, slots=True)
class WhenUncalibrated(Policy):
    """What to do when no fitted temperature applies: ``"allow"``, ``"abstain"`` or ``"error"``."""

    then: Literal["allow", "abstain", "error"] = "abstain"

    def __post_init__(self) -> None:
        if self.then not in ("allow", "abstain", "error"):
            raise InvalidInputError("then", f"is {self.then!r}", 'Use "allow", "abstain" or "error".')

    def reasons(self, reading: Reading) -> tuple[str, ...]:
        """See :class:`Policy`.

        Raises:
            UncalibratedError: ``then="error"`` and the reading is not calibrated.
        """
        if reading.calibrated or self.then == "allow":
            return ()
        if self.then == "error":
            raise UncalibratedError(
                f"no fitted temperature applies to this {reading.kind} question; fit one with `ko-decision fit`, "
                'name its task, or use WhenUncalibrated("abstain")'
            )
        return ("probabilities are not calibrated for this question",)


@dataclass(frozen=True, slots=True)
class AllOf(Policy):
    """Accept when every rule accepts; lists every reason. Written ``a & b``."""

    rules: tuple[Policy, ...]

    def reasons(self, reading: Reading) -> tuple[str, ...]:
        """See :class:`Policy`."""
        return tuple(reason for rule in self.rules for reason in rule.reasons(reading))


@dataclass(frozen=True, slots=True)
class AnyOf(Policy):
    """Accept when one rule accepts; otherwise lists the reasons of all. Written ``a | b``."""

    rules: tuple[Policy, ...]

    def reasons(self, reading: Reading) -> tuple[str, ...]:
        """See :class:`Policy`."""
        found = [rule.reasons(reading) for rule in self.rules]
        return tuple(reason for reasons in found for reason in reasons) if all(found) else ()


def check_probability(field: str, value: object) -> float:
    """Return ``value`` as a float in [0, 1].

    Raises:
        InvalidInputError: It is not a number, or NaN, or outside [0, 1].
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidInputError(field, "is not a probability", "Use a number from 0 to 1.", value=value)
    return float(value)


def _below(value: float, bar: float) -> str:
    """A value printed with just enough digits to read as below the bar (0.5999 never becomes "0.600 < 0.6")."""
    for digits in range(3, 17):
        text = f"{value:.{digits}f}"
        if float(text) < bar:
            return text
    return repr(value)
