"""How numbers are printed. Rounding happens here and nowhere earlier."""

from __future__ import annotations

from ko_decision_tools.evaluation.metrics import METRICS, Targets
from ko_decision_tools.evaluation.slices import Estimate

MISSING = "–"
SAME = "same"


def number(key: str, value: float, *, signed: bool = False) -> str:
    """A metric's value: a share as a percentage (a difference in points) with one decimal, anything else with three.

    Example:
        >>> number("accuracy", 0.8215), number("nll", 0.437), number("accuracy", -0.0123, signed=True)
        ('82.2 %', '0.437', '−1.2 pt')
    """
    sign = "+" if signed and value else ""
    unit = " pt" if signed else " %"
    text = f"{100 * value:{sign}z.1f}{unit}" if METRICS[key].percent else f"{value:{sign}z.3f}"
    return text.replace("-", "−")


def bounds(key: str, low: float | None, high: float | None, *, signed: bool = False) -> str:
    """An interval in the same unit, ``"80.1 – 84.2"``; empty when there is none.

    Example:
        >>> bounds("accuracy", 0.801, 0.842), bounds("nll", None, None)
        ('80.1 – 84.2', '')
    """
    if low is None or high is None:
        return ""
    return " – ".join(number(key, side, signed=signed).rstrip(" %pt") for side in (low, high))


def estimate(key: str, found: Estimate | None, *, signed: bool = False) -> str:
    """Value and interval on one line, ``"82.2 % [80.1 – 84.2]"``; a dash when there is no value."""
    if found is None:
        return MISSING
    if signed and found.value == found.low == found.high == 0:
        return SAME
    interval = bounds(key, found.low, found.high, signed=signed)
    return number(key, found.value, signed=signed) + (f" [{interval}]" if interval else "")


def share(value: float | None, digits: int = 0) -> str:
    """A share as a percentage; a dash for ``None``.

    Example:
        >>> share(0.634), share(None)
        ('63 %', '–')
    """
    return MISSING if value is None else f"{100 * value:.{digits}f} %"


def title(key: str, targets: Targets) -> str:
    """A metric's title, with the risk or coverage it is read off at.

    Example:
        >>> title("coverage_at_risk", Targets()), title("aurc", Targets())
        ('coverage at 5 % risk', 'AURC')
    """
    if key == "coverage_at_risk":
        return f"coverage at {100 * targets.risk:g} % risk"
    if key == "accuracy_at_coverage":
        return f"accuracy at {100 * targets.coverage:g} % coverage"
    return METRICS[key].title


def verdict(key: str, found: Estimate) -> str:
    """``"better"``, ``"worse"`` or ``""``: what a difference whose interval excludes zero means for a metric."""
    if found.low is None or found.high is None or found.low <= 0 <= found.high or METRICS[key].better == "neither":
        return ""
    return "better" if (found.value > 0) == (METRICS[key].better == "higher") else "worse"
