"""What a shadow log says: agreement with today's path, coverage at each threshold, and what would have been saved.

Pure functions of the lines that ``ko_decision_langgraph.Shadow`` writes. Agreement is not accuracy: where the two
differ, either may be wrong, so the disagreements are listed for a person to read.
"""

from __future__ import annotations

import json
import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.policy import check_probability

THRESHOLDS: Final = (0.0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
_Z: Final = 1.959963984540054  # the standard normal's 97.5 % point
_FIX: Final = "Pass a log that `Shadow(…, log=FILE)` wrote."


@dataclass(frozen=True, slots=True)
class ShadowRow:
    """One line of the log.

    Attributes:
        id: The text's salted hash, or ``None``.
        live: Whether the model decided (a line from after going live).
        today: Today's label; ``None`` when today's path was not called, or gave none.
        guess: The model's most probable label, whether or not it was sure; ``None`` when it could not judge.
        abstained: Whether it abstained under the rules of that day.
        top_probability: How probable it found ``guess``.
        today_ms, judge_ms: How long each took, in milliseconds; ``None`` when it was not asked.
        text: The customer's words, if they were logged.
    """

    id: str | None
    live: bool
    today: str | None
    guess: str | None
    abstained: bool
    top_probability: float | None
    today_ms: float | None
    judge_ms: float | None
    text: str | None = None

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], where: str) -> ShadowRow:
        """Read one record.

        Raises:
            InvalidInputError: A field is missing or of the wrong kind; ``where`` names the line.
        """
        try:
            row = cls(
                id=_text(raw.get("id")),
                live={"shadow": False, "live": True}[raw["mode"]],
                today=_text(raw["today"]),
                guess=_text(raw["guess"]),
                abstained=bool(raw["abstained"]),
                top_probability=_number(raw["top_probability"]),
                today_ms=_number(raw.get("today_ms")),
                judge_ms=_number(raw.get("judge_ms")),
                text=_text(raw.get("text")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInputError(where, f"is not a shadow record ({error!r})", _FIX) from None
        p = row.top_probability
        if (row.guess is None) != (p is None) or not (p is None or 0 <= p <= 1):
            raise InvalidInputError(where, "has a guess without a probability, or one outside [0, 1]", _FIX, value=p)
        return row

    @property
    def called_today(self) -> bool:
        """Whether today's path was called."""
        return self.today is not None or self.today_ms is not None

    @property
    def comparable(self) -> bool:
        """Whether both said something."""
        return self.today is not None and self.guess is not None

    @property
    def agrees(self) -> bool:
        """Whether both said the same, however its Hangul was composed."""
        return self.comparable and _nfc(self.today) == _nfc(self.guess)


@dataclass(frozen=True, slots=True)
class ShadowPoint:
    """What answering from one threshold up would have meant.

    Attributes:
        threshold: Answer when the top probability is at least this; ``None`` for the rules of that day.
        rows: All rows.
        answered: Rows the model would have answered, or did.
        compared, agreed: Of those, the rows where today's label is known, and where it is the same.
        saved_calls: Calls of today's path that were made and would not have been.
        saved_ms: How long those took together, in milliseconds.
    """

    threshold: float | None
    rows: int
    answered: int
    compared: int
    agreed: int
    saved_calls: int
    saved_ms: float

    @property
    def coverage(self) -> float:
        """Share of the rows that the model would have answered."""
        return self.answered / self.rows

    @property
    def agreement(self) -> float | None:
        """Share of the compared ones that agree; ``None`` when there are none."""
        return self.agreed / self.compared if self.compared else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % Wilson interval of the agreement."""
        return wilson(self.agreed, self.compared) if self.compared else None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, with the shares spelt out."""
        return asdict(self) | {"coverage": self.coverage, "agreement": self.agreement, "interval": self.interval}


@dataclass(frozen=True, slots=True)
class ShadowReport:
    """What a log says.

    Attributes:
        rows: All rows.
        live: Rows from after going live; those that the model answered can no longer be compared.
        failed: Rows that the model could not judge.
        unlabelled: Rows on which today's path was called and gave no label.
        repeats: Rows whose text had been seen before: intervals take them for new ones.
        current: Under the rules of that day.
        points: At each threshold.
        pairs: The commonest disagreements, ``(today, guess, count)``, over all compared rows.
        disagreements: The rows behind them, the surest first.
        judge_ms: The model's median time, or ``None``.
    """

    rows: int
    live: int
    failed: int
    unlabelled: int
    repeats: int
    current: ShadowPoint
    points: tuple[ShadowPoint, ...]
    pairs: tuple[tuple[str, str, int], ...]
    disagreements: tuple[ShadowRow, ...]
    judge_ms: float | None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        points = {"current": self.current.to_dict(), "points": [point.to_dict() for point in self.points]}
        return {"format": "ko-decision-shadow-report/1", **asdict(self), **points}


def read_shadow_log(lines: Iterable[str], name: str) -> tuple[list[ShadowRow], int]:
    """The rows of a log, and how many lines were cut short (a process that died while it wrote).

    Raises:
        InvalidInputError: A line is JSON but no shadow record, or no line is readable.
    """
    rows, broken = [], 0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            raw = json.loads(line)
        except (ValueError, RecursionError):
            broken += 1
            continue
        where = f"{name}:{number}"
        if not isinstance(raw, Mapping):
            raise InvalidInputError(where, "is not a JSON object", _FIX)
        rows.append(ShadowRow.from_dict(raw, where))
    if broken and not rows:
        raise InvalidInputError(name, "has no readable line", _FIX)
    return rows, broken


def shadow_report(rows: Sequence[ShadowRow], thresholds: Sequence[float] = THRESHOLDS) -> ShadowReport:
    """Compare the model with today's path.

    Raises:
        InvalidInputError: There are no rows, or a threshold is outside [0, 1].

    Example:
        >>> def row(today, guess, p):
        ...     return ShadowRow(None, False, today, guess, p < 0.6, p, 800.0, 40.0)
        >>> rows = [row("배송", "배송", 0.9), row("결제", "배송", 0.7), row("회원", "결제", 0.4)]
        >>> report = shadow_report(rows, [0.8])
        >>> report.current.coverage, report.current.agreement, report.points[0].agreement
        (0.6666666666666666, 0.5, 1.0)
    """
    if not rows:
        raise InvalidInputError("log", "has no rows", "Let traffic pass through Shadow first.")
    bars = [check_probability("threshold", bar) for bar in thresholds]
    seen = Counter(row.id for row in rows if row.id is not None)
    differ = [row for row in rows if row.comparable and not row.agrees]
    counted = Counter((row.today or "", row.guess or "") for row in differ)
    return ShadowReport(
        rows=len(rows),
        live=sum(row.live for row in rows),
        failed=sum(row.guess is None for row in rows),
        unlabelled=sum(row.called_today and row.today is None for row in rows),
        repeats=seen.total() - len(seen),
        current=_point(None, rows),
        points=tuple(_point(bar, rows) for bar in sorted(set(bars))),
        pairs=tuple((today, guess, count) for (today, guess), count in counted.most_common()),
        disagreements=tuple(sorted(differ, key=lambda row: -(row.top_probability or 0.0))),
        judge_ms=_median([row.judge_ms for row in rows if row.judge_ms is not None]),
    )


def wilson(successes: int, n: int) -> tuple[float, float]:
    """The 95 % Wilson score interval of a share (Wilson, *JASA* 22, 1927).

    Example:
        >>> [round(end, 4) for end in wilson(9, 10)]
        [0.5958, 0.9821]
    """
    share, square = successes / n, _Z * _Z
    centre = (share + square / (2 * n)) / (1 + square / n)
    half = _Z * math.sqrt(share * (1 - share) / n + square / (4 * n * n)) / (1 + square / n)
    return max(0.0, centre - half), min(1.0, centre + half)


def _point(threshold: float | None, rows: Sequence[ShadowRow]) -> ShadowPoint:
    answered = [row for row in rows if _answers(row, threshold)]
    compared = [row for row in answered if row.comparable]
    calls = [row for row in answered if row.called_today]
    return ShadowPoint(
        threshold=threshold,
        rows=len(rows),
        answered=len(answered),
        compared=len(compared),
        agreed=sum(row.agrees for row in compared),
        saved_calls=len(calls),
        saved_ms=math.fsum(row.today_ms or 0.0 for row in calls),
    )


def _answers(row: ShadowRow, threshold: float | None) -> bool:
    if row.top_probability is None:
        return False
    return not row.abstained if threshold is None else row.top_probability >= threshold


def _median(values: Sequence[float]) -> float | None:
    ordered, middle = sorted(values), len(values) // 2
    if not ordered:
        return None
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _text(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _number(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError(f"{value!r} is no number")
    return float(value)


def _nfc(label: str | None) -> str:
    return unicodedata.normalize("NFC", (label or "").strip())


__all__ = [
    "THRESHOLDS",
    "ShadowPoint",
    "ShadowReport",
    "ShadowRow",
    "read_shadow_log",
    "shadow_report",
    "wilson",
]
