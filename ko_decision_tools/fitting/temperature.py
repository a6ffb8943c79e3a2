"""Temperatures by maximum likelihood: per task, per (type, option-count bucket) and per type.

One number per scope, so it takes few rows; the ranking of the options never changes, only how sure they look. A scope
with fewer than :data:`MIN_ROWS` rows gets no temperature and falls back to the next wider one (task, bucket, type), as
:meth:`TemperatureTable.lookup <ko_decision_tools.calibration.TemperatureTable.lookup>` does. A fit that runs into a
bound is refused with its reason: those rows do not determine a temperature.

What a row is fitted to, the first that it has: its soft gold (human votes); a score's real-valued gold, split between
the two neighbouring levels so that its mean is the value (3.7 is 0.3 of level 3 and 0.7 of level 4); its gold. Rows
without any of them, "none of these" included, are left out and counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ko_decision_tools.calibration import TemperatureTable, bucket_of
from ko_decision_tools.errors import CalibrationError, InvalidInputError
from ko_decision_tools.evaluation.metrics import ece
from ko_decision_tools.fitting.lab import require_scipy
from ko_decision_tools.fitting.likelihood import HIGHEST, LOWEST, REPLICATES, Likelihood
from ko_decision_tools.records import Record

MIN_ROWS = 50

METHOD = (
    f"minimum NLL in 1/T, bounds {LOWEST:g} to {HIGHEST:g}; 95 % interval: percentile cluster bootstrap by group, "
    f"{REPLICATES} replicates; before/after on the rows of the fit, before is T = 1; ECE10: hard gold, equal width"
)

Target = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class FittedTemperature:
    """One temperature and its evidence.

    Attributes:
        scope: ``"task klue_nli"``, ``"bucket choice:3-5"`` or ``"type choice"``: the words that a decision's provenance
            uses for it.
        temperature: The fit.
        interval: 95 %, cluster bootstrap by group; ``None`` with fewer than 10 groups.
        n: Rows it was fitted on.
        groups: Independent groups among them.
        nll: Mean negative log-likelihood in nats at T = 1 and at the fit, on the rows of the fit.
        ece10: Hard-label calibration error at T = 1 and at the fit, over the rows that have a gold; ``None`` without
            any. A fit to soft gold need not lower it.
    """

    scope: str
    temperature: float
    interval: tuple[float, float] | None
    n: int
    groups: int
    nll: tuple[float, float]
    ece10: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class RefusedTemperature:
    """A scope that got no temperature, and why."""

    scope: str
    n: int
    reason: str


@dataclass(frozen=True, slots=True)
class TemperatureReport:
    """What was fitted, what was not, and how many rows had nothing to be fitted to.

    Attributes:
        fitted: In the order task, bucket, type.
        refused: Likewise.
        n: Rows used.
        left_out: Rows without gold, soft gold or value.
    """

    fitted: tuple[FittedTemperature, ...]
    refused: tuple[RefusedTemperature, ...]
    n: int
    left_out: int

    def to_dict(self) -> dict[str, Any]:
        """The evidence kept in ``calibration.json``."""
        return {
            "method": METHOD,
            "rows": self.n,
            "left_out": self.left_out,
            "fitted": {fit.scope: {k: v for k, v in asdict(fit).items() if k != "scope"} for fit in self.fitted},
            "refused": {refused.scope: f"{refused.n} rows: {refused.reason}" for refused in self.refused},
        }


@dataclass(frozen=True, slots=True)
class TemperatureFit:
    """A table to pass as ``calibration=``, and the report behind it."""

    table: TemperatureTable
    report: TemperatureReport


def fit_temperatures(
    records: Iterable[Record],
    *,
    checkpoint: str | None,
    about: Mapping[str, Any] | None = None,
    soft: bool = True,
    tasks_only: bool = False,
    seed: int = 0,
) -> TemperatureFit:
    """Fit every temperature that the records determine.

    Args:
        records: Scored rows. A task named ``""`` is no task: only its bucket and type are fitted.
        checkpoint: Fingerprint of the weights that scored them; a model with other weights will refuse the table.
        about: What else the evidence should say: the checkpoint's name and revision, suite, date.
        soft: ``False`` ignores soft gold and values where a hard gold is known.
        tasks_only: Fit no bucket or type, so that questions of other tasks stay uncalibrated. Temperatures do not
            transfer between domains: fit buckets and types on questions like the ones they will meet.
        seed: Of the bootstrap.

    Raises:
        CalibrationError: No temperature could be fitted; every scope's reason is listed.
        InvalidInputError: A score's value lies outside its levels, or scipy is not installed.

    Example:
        >>> rows = [Record(f"r{i}", f"r{i}", "demo", "noul", ("false", "true"), (0.0, 4.0), int(i % 4 > 0))
        ...         for i in range(80)]
        >>> fit = fit_temperatures(rows, checkpoint="9f2c")
        >>> round(fit.table.tasks["demo"], 2), fit.table.checkpoint  # 3 of 4 right: sigmoid(4/T) = 3/4
        (3.64, '9f2c')
    """
    require_scipy()
    usable: list[tuple[Record, Target]] = []
    left_out = 0
    for record in records:
        target = target_of(record, soft=soft)
        if target is None:
            left_out += 1
        else:
            usable.append((record, target))
    scopes = _scopes(usable, tasks_only)
    outcomes = [_fit(scope, rows, seed) for scope, rows in scopes.items()]
    fitted = tuple(outcome for outcome in outcomes if isinstance(outcome, FittedTemperature))
    refused = tuple(outcome for outcome in outcomes if isinstance(outcome, RefusedTemperature))
    if not fitted:
        reasons = "; ".join(f"{r.scope} ({r.n} rows): {r.reason}" for r in refused) or f"{left_out} rows without gold"
        raise CalibrationError(f"no temperature could be fitted. {reasons}")
    report = TemperatureReport(fitted, refused, len(usable), left_out)
    evidence = {**(about or {}), **report.to_dict(), "seed": seed}
    return TemperatureFit(_table(fitted, checkpoint, evidence), report)


def target_of(record: Record, *, soft: bool = True) -> Target | None:
    """The distribution a row is fitted to, or ``None`` when it has no gold of any kind.

    Raises:
        InvalidInputError: A value outside the levels.

    Example:
        >>> target_of(Record("a", "a", "sts", "score", ("0", "1", "2"), (0.0, 0.0, 0.0), value=1.25))
        (0.0, 0.75, 0.25)
    """
    n = len(record.labels)
    if soft or record.gold is None:
        if record.soft_gold is not None:
            return record.soft_gold
        if record.value is not None and record.type == "score":
            return _between_levels(record.value, n, record.id)
    return None if record.gold is None else tuple(float(index == record.gold) for index in range(n))


def _between_levels(value: float, levels: int, name: str) -> Target:
    if not 0 <= value <= levels - 1:
        raise InvalidInputError(f"value of {name}", f"lies outside 0 to {levels - 1}", "Correct the row.", value=value)
    low = min(math.floor(value), levels - 2)
    share = value - low
    return tuple({low: 1 - share, low + 1: share}.get(level, 0.0) for level in range(levels))


def _scopes(usable: Sequence[tuple[Record, Target]], tasks_only: bool) -> dict[str, list[tuple[Record, Target]]]:
    """Rows by scope, tasks first; a row is in one task, one bucket and one type."""
    named: dict[str, dict[str, list[tuple[Record, Target]]]] = {"task": {}, "bucket": {}, "type": {}}
    for row in usable:
        record = row[0]
        names = {"task": record.task} if record.task else {}
        if not tasks_only:
            names |= {"bucket": f"{record.type}:{bucket_of(len(record.labels))}", "type": record.type}
        for level, name in names.items():
            named[level].setdefault(name, []).append(row)
    return {f"{level} {name}": rows for level, by_name in named.items() for name, rows in sorted(by_name.items())}


def _fit(scope: str, rows: Sequence[tuple[Record, Target]], seed: int) -> FittedTemperature | RefusedTemperature:
    if len(rows) < MIN_ROWS:
        return RefusedTemperature(scope, len(rows), f"fewer than {MIN_ROWS}, so the next wider scope applies")
    likelihood = Likelihood.of([record.scores for record, _ in rows], [target for _, target in rows])
    try:
        best = likelihood.best_temperature()
    except CalibrationError as error:
        return RefusedTemperature(scope, len(rows), str(error))
    names, groups = np.unique([record.group for record, _ in rows], return_inverse=True)
    return FittedTemperature(
        scope=scope,
        temperature=best,
        interval=likelihood.interval(best, groups, seed=seed),
        n=len(rows),
        groups=len(names),
        nll=(likelihood.nll(1.0), likelihood.nll(best)),
        ece10=_calibration_errors(likelihood, [record.gold for record, _ in rows], best),
    )


def _calibration_errors(likelihood: Likelihood, gold: Sequence[int | None], best: float) -> tuple[float, float] | None:
    known = np.array([index is not None for index in gold])
    if not known.any():
        return None
    wanted = np.array([-1 if index is None else index for index in gold])

    def error(temperature: float) -> float:
        confidence, answer = likelihood.tops(temperature)
        return ece(confidence[known], (answer == wanted)[known].astype(float))

    return error(1.0), error(best)


def _table(
    fitted: Sequence[FittedTemperature], checkpoint: str | None, evidence: Mapping[str, Any]
) -> TemperatureTable:
    found: dict[str, dict[str, float]] = {"task": {}, "bucket": {}, "type": {}}
    for fit in fitted:
        level, _, name = fit.scope.partition(" ")
        found[level][name] = fit.temperature
    return TemperatureTable(found["task"], found["bucket"], found["type"], checkpoint, evidence)
