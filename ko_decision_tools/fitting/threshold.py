"""A threshold with a guarantee: answer as much as possible while the error among the answered stays below a bar.

:mod:`~ko_decision_tools.fitting.guarantee` has the test and its proof. Here is the result: what the threshold does on
the rows, the mistakes it leaves in, and what it does not promise.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ko_decision_tools.calibration import TemperatureTable
from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.fitting import findings
from ko_decision_tools.fitting.answers import Judged, is_none_of_these
from ko_decision_tools.fitting.findings import Mistake, Point, percent
from ko_decision_tools.fitting.guarantee import Ladder, two_sided
from ko_decision_tools.fitting.lab import require_scipy
from ko_decision_tools.records import Record

FORMAT = "ko-decision-threshold/1"
DATA_LIKE_THIS = (
    "These numbers are for data like these rows: the same kind of texts, the same options, the same checkpoint. "
    "On other data, coverage and risk are other numbers."
)


@dataclass(frozen=True, slots=True)
class ThresholdFit:
    """The lowest threshold that keeps the risk, or why there is none.

    Attributes:
        threshold: To pass as ``min_top_probability``; ``None`` when no threshold achieves the risk.
        reason: Why there is none; ``None`` when there is one.
        max_risk: The error among the answered that may not be exceeded.
        confidence: Probability, over samples like this one, that it is not.
        n: Rows that can be right or wrong.
        groups: Groups among them; fewer than ``n`` means that rows are not independent.
        none_of_these: Rows of which no option is right: answering one is an error.
        left_out: Rows that can be neither right nor wrong.
        answered: Rows at or above the threshold; 0 without one.
        wrong: Errors among them.
        interval: Two-sided Clopper-Pearson interval, at ``confidence``, of the accuracy among the answered.
        rows_needed: Without a threshold: how many rows like these it would take at the least; ``None`` if more rows
            would not help.
        temperatures: Where the temperatures came from, and how many rows each source served.
        checkpoint: Fingerprint of the weights that the table was fitted on, if it says so.
        notes: What weakens the guarantee on these rows.
        curve: The risk and coverage of readable thresholds, and of the chosen one.
        errors: The wrong answers at the threshold, the surest first. Without a threshold: those among the first rows
            tested, which stood in its way.
    """

    threshold: float | None
    reason: str | None
    max_risk: float
    confidence: float
    n: int
    groups: int
    none_of_these: int
    left_out: int
    answered: int
    wrong: int
    interval: tuple[float, float] | None
    rows_needed: int | None
    temperatures: Mapping[str, int]
    checkpoint: str | None
    notes: tuple[str, ...]
    curve: tuple[Point, ...]
    errors: tuple[Mistake, ...]

    @property
    def coverage(self) -> float:
        """Share of the rows that are answered."""
        return self.answered / self.n

    @property
    def risk(self) -> float | None:
        """Error among the answered; ``None`` when nothing is."""
        return self.wrong / self.answered if self.answered else None

    @property
    def accuracy(self) -> float | None:
        """``1 - risk``."""
        return None if self.risk is None else 1 - self.risk

    def summary(self) -> str:
        """The threshold and what it promises, or why there is none."""
        if self.threshold is None or self.risk is None:
            reason = self.reason or ""
            return f"{reason[:1].upper()}{reason[1:]}"
        return (
            f"From {self.threshold:g} up, {self.answered} of {self.n} rows are answered (coverage {self.coverage:.1%}; "
            f"the other {1 - self.coverage:.1%} escalate), {self.wrong} of them wrongly (risk {self.risk:.1%}). "
            f"With {percent(self.confidence)} confidence the risk is at most {percent(self.max_risk)}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, with coverage, risk and accuracy spelt out."""
        shares = {"coverage": self.coverage, "risk": self.risk, "accuracy": self.accuracy}
        return {"format": FORMAT, **asdict(self), **shares, "valid_for": DATA_LIKE_THIS}

    def evidence(self) -> dict[str, Any]:
        """The short form that a calibration file keeps: all but the curve and the rows."""
        return {key: value for key, value in self.to_dict().items() if key not in ("curve", "errors", "checkpoint")}

    def save(self, path: Path) -> None:
        """Write it as JSON.

        Raises:
            InvalidInputError: The file cannot be written.
        """
        try:
            path.write_text(json.dumps(self.to_dict(), ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            raise InvalidInputError(str(path), f"cannot be written ({error.strerror})", "Choose another.") from error

    @classmethod
    def load(cls, path: Path) -> ThresholdFit:
        """Read what :meth:`save` wrote.

        Raises:
            InvalidInputError: The file cannot be read or is something else.
        """
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            if raw["format"] != FORMAT:
                raise ValueError(f"its format is {raw['format']!r}")
            fields = {name: raw[name] for name in cls.__slots__}
            fields["interval"] = None if raw["interval"] is None else tuple(raw["interval"])
            fields["notes"] = tuple(raw["notes"])
            fields["curve"] = tuple(Point(**each) for each in raw["curve"])
            fields["errors"] = tuple(Mistake(**each) for each in raw["errors"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            fix = "Pass a file that ThresholdFit.save wrote."
            raise InvalidInputError(str(path), f"is not a saved threshold ({error})", fix) from error
        return cls(**fields)


def fit_threshold(
    records: Iterable[Record], table: TemperatureTable, *, max_risk: float, confidence: float = 0.95
) -> ThresholdFit:
    """The lowest ``min_top_probability`` whose error among the answered is at most ``max_risk`` with ``confidence``.

    Use rows that neither the weights nor the temperatures have seen (:func:`~ko_decision_tools.fitting.halves`).

    Args:
        records: Scored rows. An answer is wrong when its most probable option is not the gold one; a choice without
            any gold ("none of these") is wrong whenever it is answered.
        table: The temperatures that the threshold will be used with.
        max_risk: Between 0 and 1.
        confidence: Between 0 and 1.

    Raises:
        InvalidInputError: ``max_risk`` or ``confidence`` is not between 0 and 1, or no row can be right or wrong;
            or scipy is not installed.

    Example:
        >>> rows = [Record(f"r{i}", f"r{i}", "demo", "noul", ("false", "true"), (0.0, 1 + i / 50), int(i > 9))
        ...         for i in range(200)]
        >>> fit = fit_threshold(rows, TemperatureTable(), max_risk=0.05)
        >>> fit.threshold, fit.answered, fit.wrong
        (0.7539, 194, 4)
        >>> fit_threshold(rows[:50], TemperatureTable(), max_risk=0.05).reason
        'no threshold keeps the risk at 5% with 95% confidence on 50 rows: at least 59 would be needed, even if every \
answer were right.'
    """
    require_scipy()
    check_share("max_risk", max_risk)
    check_share("confidence", confidence)
    judged = Judged.of(records, table)
    if not judged.answers:
        fix = "Give rows with a gold label; only they can be right or wrong."
        raise InvalidInputError("records", f"has no row with gold ({judged.left_out} without)", fix)
    ladder = Ladder.of(judged.top, judged.wrong)
    chosen = ladder.lowest(max_risk=max_risk, confidence=confidence)
    if chosen is not None:
        return _result(judged, table, ladder, chosen, max_risk, confidence)
    reason, needed = findings.obstacle(ladder, max_risk=max_risk, confidence=confidence)
    return _result(judged, table, ladder, None, max_risk, confidence, reason, needed)


def _result(
    judged: Judged,
    table: TemperatureTable,
    ladder: Ladder,
    chosen: int | None,
    max_risk: float,
    confidence: float,
    reason: str | None = None,
    needed: int | None = None,
) -> ThresholdFit:
    index = ladder.first(max_risk=max_risk, confidence=confidence) if chosen is None else chosen
    threshold = float(ladder.thresholds[index])
    point = None if chosen is None else findings.point(ladder, index, threshold, confidence)
    low, high = (0.0, 1.0) if point is None else two_sided(point.wrong, point.answered, confidence)
    return ThresholdFit(
        threshold=None if point is None else threshold,
        reason=reason,
        max_risk=max_risk,
        confidence=confidence,
        n=ladder.n,
        groups=len({each.record.group for each in judged.answers}),
        none_of_these=sum(is_none_of_these(each.record) for each in judged.answers),
        left_out=judged.left_out,
        answered=0 if point is None else point.answered,
        wrong=0 if point is None else point.wrong,
        interval=None if point is None else (1 - high, 1 - low),
        rows_needed=needed,
        temperatures=findings.sources(judged.answers),
        checkpoint=table.checkpoint,
        notes=findings.notes(judged.answers),
        curve=findings.curve(ladder, point, confidence),
        errors=findings.mistakes(judged.answers, threshold),
    )


def check_share(field: str, value: float) -> None:
    """Refuse what is not strictly between 0 and 1.

    Raises:
        InvalidInputError: As said.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise InvalidInputError(field, "is not between 0 and 1", "Use for example 0.05 or 0.95.", value=value)
