"""What each number means, once: the same few lines give the value and its bootstrap replicates.

Two kinds of metric. A :class:`Linear` one is a function of column totals (accuracy, NLL, macro-F1, ECE, Pearson), so a
resample costs one matrix product. A :class:`Ranked` one needs the rows in order (Spearman, AURC), so it takes a weight
for every row. With all weights 1 they equal scikit-learn's and scipy's on the same arrays; the tests hold them to it.

Definitions (``p`` probabilities, ``g`` the right option, ``t`` soft gold, ``c`` the top probability):

* NLL ``-log p_g``; Brier ``Σ(p - 1_g)²``, from 0 to 2, summed over options and not halved.
* ECE10: ten equal-width bins ``(a, b]`` of ``c``; ``Σ_b |Σ_{i in b} (1[top = g] - c)| / n``.
* soft NLL ``-Σ t·log p``; soft Brier ``Σ(p - t)²``; soft accuracy ``Σ p·t``; soft ECE10 is ECE10 with ``t_top`` in
  place of ``1[top = g]``: a perfect copy of the soft gold scores 0.
* score MAE ``|Σ i·p_i - value|``; soft MAE ``|Σ i·(p_i - t_i)|``; Pearson and Spearman of ``Σ i·p_i`` with the value.
* AURC, coverage at a risk, accuracy at a coverage: :mod:`~ko_decision_tools.evaluation.selective`, where
  a none-of-these row is an error when answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ko_decision_tools.evaluation.arrays import Bools, Floats, Ints, Rows
from ko_decision_tools.evaluation.selective import selective

BINS = 10


@dataclass(frozen=True, slots=True)
class Metric:
    """How a metric is shown: its title, which way is better, whether it is a share, and one line of meaning."""

    title: str
    better: Literal["higher", "lower", "neither"]
    percent: bool
    meaning: str


METRICS: dict[str, Metric] = {
    "accuracy": Metric("accuracy", "higher", True, "Share of rows whose most probable option is the right one."),
    "accuracy_with_none": Metric(
        "accuracy, none-rows as errors", "higher", True, "The same over all rows: a row no option fits is always wrong."
    ),
    "macro_f1": Metric("macro-F1", "higher", True, "F1 of every label that occurs or is predicted, averaged."),
    "nll": Metric("NLL", "lower", False, "−log p of the right option, in nats."),
    "brier": Metric("Brier", "lower", False, "Σ(p − 1)² over the options, from 0 to 2."),
    "ece10": Metric("ECE10", "lower", False, "Gap between top probability and accuracy over ten equal-width bins."),
    "confidence": Metric("mean top probability", "neither", True, "Equals accuracy when calibrated on average."),
    "soft_accuracy": Metric(
        "soft accuracy", "higher", True, "Σ p·t with the soft gold t; surer probabilities raise it."
    ),
    "soft_nll": Metric("soft NLL", "lower", False, "−Σ t·log p, in nats."),
    "soft_brier": Metric("soft Brier", "lower", False, "Σ(p − t)²."),
    "soft_ece10": Metric("soft ECE10", "lower", False, "ECE10 against the soft gold's share of the top option."),
    "score_mae": Metric("score MAE", "lower", False, "|Σ i·p − value|, in levels."),
    "soft_mae": Metric("soft score MAE", "lower", False, "|Σ i·(p − t)|, in levels."),
    "pearson": Metric("Pearson", "higher", False, "Correlation of Σ i·p with the value."),
    "spearman": Metric("Spearman", "higher", False, "Rank correlation of Σ i·p with the value."),
    "aurc": Metric("AURC", "lower", False, "Mean risk over all coverages: how well confidence sorts right from wrong."),
    "coverage_at_risk": Metric(
        "coverage at risk", "higher", True, "Largest share answered at that risk, on these rows."
    ),
    "accuracy_at_coverage": Metric("accuracy at coverage", "higher", True, "Accuracy among that share of the rows."),
}


@dataclass(frozen=True, slots=True)
class Targets:
    """Where the risk-coverage curve is read off: coverage at ``risk``, accuracy at ``coverage``."""

    risk: float = 0.05
    coverage: float = 0.6


@dataclass(frozen=True, slots=True)
class Linear:
    """A metric of column totals: ``columns`` ``[n, M]``, ``finish`` from totals ``[..., M]`` to values ``[...]``."""

    key: str
    columns: Floats
    finish: Callable[[Floats], Floats]


@dataclass(frozen=True, slots=True)
class Ranked:
    """Metrics that need the rows in order: ``of_weights`` from weights ``[R, n]`` to values ``[R, len(keys)]``."""

    keys: tuple[str, ...]
    of_weights: Callable[[Floats], Floats]


def statistics(rows: Rows, targets: Targets | None = None) -> list[Linear | Ranked]:
    """Every metric that ``rows`` have the gold for."""
    return [*_hard(rows), *_soft(rows), *_score(rows), *_selective(rows, targets or Targets())]


def values(rows: Rows, targets: Targets | None = None) -> dict[str, float]:
    """Each metric's value on ``rows``, in the order of :data:`METRICS`.

    Example:
        >>> from ko_decision_tools.evaluation.arrays import to_rows
        >>> from ko_decision_tools.records import Record
        >>> rows = to_rows([Record("r1", "r1", "demo", "choice", ("결제", "배송"), (2.0, 0.0), gold=0)], [1.0])
        >>> {key: round(value, 3) for key, value in values(rows).items() if key in ("accuracy", "nll", "ece10")}
        {'accuracy': 1.0, 'nll': 0.127, 'ece10': 0.119}
    """
    found: dict[str, float] = {}
    for statistic in statistics(rows, targets):
        if isinstance(statistic, Linear):
            found[statistic.key] = float(statistic.finish(statistic.columns.sum(axis=0)))
        else:
            numbers = statistic.of_weights(np.ones((1, len(rows.gold))))[0]
            found |= dict(zip(statistic.keys, map(float, numbers), strict=True))
    return {key: found[key] for key in METRICS if key in found}


def ece(confidence: Floats, hits: Floats) -> float:
    """Top-label expected calibration error over ten equal-width bins.

    Args:
        confidence: ``[n]``, top probabilities.
        hits: ``[n]``, 1 where the top option was right and 0 elsewhere (or its soft gold).

    Example:
        >>> round(ece(np.array([0.95, 0.95, 0.55]), np.array([1.0, 0.0, 1.0])), 4)
        0.45
    """
    totals = np.bincount(bins(confidence), weights=hits - confidence, minlength=BINS)
    return float(np.abs(totals).sum() / len(confidence))


def bins(confidence: Floats) -> Ints:
    """Index of the equal-width bin ``(a, b]`` of each confidence; 0 goes to the first."""
    return np.digitize(confidence, np.linspace(0, 1, BINS + 1)[1:-1], right=True)


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """ECE10 that a perfectly calibrated model with these very confidences would show on this many rows."""

    mean: float
    p95: float


def noise_floor(confidence: Floats, *, simulations: int = 1000, seed: int = 0) -> NoiseFloor:
    """Simulate labels drawn from the predicted probabilities, and measure ECE10 on them.

    The top option is then right with exactly its probability, which is all that ECE sees. Rows are drawn independently:
    with clustered rows the true floor is higher.

    Example:
        >>> floor = noise_floor(np.full(1000, 0.8))
        >>> round(floor.mean, 3), round(floor.p95, 3)
        (0.011, 0.025)
    """
    ordered = np.sort(confidence)
    starts = np.flatnonzero(np.diff(bins(ordered), prepend=-1))
    random = np.random.default_rng(seed)
    drawn = np.empty(simulations)
    for place in range(simulations):
        gaps = (random.random(len(ordered)) < ordered) - ordered
        drawn[place] = np.abs(np.add.reduceat(gaps, starts)).sum() / len(ordered)
    return NoiseFloor(float(drawn.mean()), float(np.quantile(drawn, 0.95)))


def _hard(rows: Rows) -> Iterator[Linear]:
    mask = rows.has_gold
    if not mask.any():
        return
    right = rows.correct.astype(np.float64)
    yield _mean("accuracy", right, mask)
    if rows.none.any():
        yield _mean("accuracy_with_none", right, mask | rows.none)
    if rows.classes:
        yield _macro_f1(rows)
    yield _mean("nll", -rows.at(rows.log_probabilities, rows.gold), mask)
    # Σ(p - 1_g)² without building the one-hot table.
    squares = (rows.probabilities**2).sum(axis=1)
    yield _mean("brier", squares - 2 * rows.at(rows.probabilities, rows.gold) + 1, mask)
    yield _mean("confidence", rows.confidence, mask)
    yield _ece("ece10", rows.confidence, right, mask)


def _soft(rows: Rows) -> Iterator[Linear]:
    mask = rows.has_soft
    if not mask.any():
        return
    yield _mean("soft_accuracy", (rows.probabilities * rows.soft).sum(axis=1), mask)
    yield _mean("soft_nll", -(rows.soft * rows.log_probabilities).sum(axis=1), mask)
    yield _mean("soft_brier", ((rows.probabilities - rows.soft) ** 2).sum(axis=1), mask)
    yield _ece("soft_ece10", rows.confidence, rows.at(rows.soft, rows.predicted), mask)


def _score(rows: Rows) -> Iterator[Linear | Ranked]:
    mask = np.isfinite(rows.value)
    if not mask.any():
        return
    value = np.where(mask, rows.value, 0.0)
    yield _mean("score_mae", np.abs(rows.expected - value), mask)
    if (both := mask & rows.has_soft).any():
        levels = np.arange(rows.soft.shape[1])
        yield _mean("soft_mae", np.abs((rows.probabilities - rows.soft) @ levels), both)
    if rows.classes and mask.sum() > 1:
        yield _pearson(rows.expected, value, mask)
        yield Ranked(("spearman",), lambda weights: _spearman(rows.expected, value, weights * mask))


def _selective(rows: Rows, targets: Targets) -> Iterator[Ranked]:
    judged = np.flatnonzero(rows.has_gold | rows.none)
    if judged.size:
        confidence, wrong = rows.confidence[judged], ~rows.correct[judged]
        yield Ranked(
            ("aurc", "coverage_at_risk", "accuracy_at_coverage"),
            lambda weights: selective(
                confidence, wrong, weights[:, judged], risk=targets.risk, coverage=targets.coverage
            ),
        )


def _mean(key: str, numbers: Floats, mask: Bools) -> Linear:
    columns = np.stack([np.where(mask, numbers, 0.0), mask], axis=1)
    return Linear(key, columns, lambda totals: _ratio(totals[..., 0], totals[..., 1]))


def _ece(key: str, confidence: Floats, hits: Floats, mask: Bools) -> Linear:
    columns = np.zeros((len(confidence), BINS + 1))
    columns[np.arange(len(confidence)), bins(confidence)] = np.where(mask, hits - confidence, 0.0)
    columns[:, BINS] = mask
    return Linear(key, columns, lambda totals: _ratio(np.abs(totals[..., :BINS]).sum(axis=-1), totals[..., BINS]))


def _macro_f1(rows: Rows) -> Linear:
    """Mean over the labels that occur or are predicted, as in scikit-learn; in each resample, those that do there."""
    mask, count = rows.has_gold, len(rows.classes)
    place = np.arange(len(mask))
    gold = rows.at(rows.option_classes, rows.gold).astype(np.int64)
    predicted = rows.at(rows.option_classes, rows.predicted).astype(np.int64)
    columns = np.zeros((len(mask), 2 * count))
    columns[place, gold] = mask & rows.correct
    np.add.at(columns, (place, count + gold), mask)
    np.add.at(columns, (place, count + predicted), mask)

    def finish(totals: Floats) -> Floats:
        hits, seen = totals[..., :count], totals[..., count:]
        return _ratio(_ratio(2 * hits, seen, 0.0).sum(axis=-1), (seen > 0).sum(axis=-1))

    return Linear("macro_f1", columns, finish)


def _pearson(x: Floats, y: Floats, mask: Bools) -> Linear:
    # Centred first: the sums of squares below would otherwise lose digits.
    a, b = (np.where(mask, side - side[mask].mean(), 0.0) for side in (x, y))
    columns = np.stack([mask, a, b, a * a, b * b, a * b], axis=1)

    def finish(totals: Floats) -> Floats:
        n, sa, sb, saa, sbb, sab = np.moveaxis(totals, -1, 0)
        return _correlation(n * sab - sa * sb, n * saa - sa * sa, n * sbb - sb * sb)

    return Linear("pearson", columns, finish)


def _spearman(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Pearson of mid-ranks, where a row of weight ``w`` counts as ``w`` tied rows; ``[R, 1]``."""
    n = weights.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        a, b = (_ranks(side, weights) - n / 2 for side in (x, y))
    cross, left, right = ((weights * p * q).sum(axis=1) for p, q in ((a, b), (a, a), (b, b)))
    return _correlation(cross, left, right)[:, None]


def _ranks(numbers: Floats, weights: Floats) -> Floats:
    """Weighted mid-ranks ``[R, n]``; their weighted mean is half the total weight."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    tied = np.add.reduceat(weights[:, order], starts, axis=1)
    middles = np.cumsum(tied, axis=1) - tied / 2
    run = np.empty(len(order), dtype=np.int64)
    run[order] = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(order))))
    return np.asarray(middles[:, run])


def _correlation(cross: Floats, left: Floats, right: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        return _ratio(cross, np.sqrt(np.maximum(left, 0) * np.maximum(right, 0)))


def _ratio(top: Floats, bottom: Floats, empty: float = np.nan) -> Floats:
    filled: Floats = np.full(np.shape(top), empty)
    np.divide(top, bottom, out=filled, where=np.asarray(bottom) > 0)
    return filled
