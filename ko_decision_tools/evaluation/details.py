"""What a number hides: reliability bins, the risk-coverage table, the confusion matrix and the worst mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ko_decision_tools.evaluation.arrays import Rows
from ko_decision_tools.evaluation.metrics import BINS, bins, ece
from ko_decision_tools.evaluation.selective import Curve, curve
from ko_decision_tools.evaluation.texts import printable
from ko_decision_tools.records import Record

NONE_LABEL = "(none of these)"
COVERAGES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
RISKS = (0.01, 0.02, 0.05, 0.1)
_POINTS = 160  # of a drawn curve
_MATRIX = 32  # more labels than this are listed as pairs
_PAIRS = 12


@dataclass(frozen=True, slots=True)
class Bin:
    """One bin of the reliability diagram; ``hits`` is the accuracy there, or the mean soft gold of the top option."""

    low: float
    high: float
    n: int
    confidence: float
    hits: float
    hits_low: float | None
    hits_high: float | None


@dataclass(frozen=True, slots=True)
class RiskRow:
    """One row of the risk-coverage table: answer when the top probability is at least ``threshold``."""

    target: float
    coverage: float
    threshold: float | None
    risk: float
    answered: int
    none_abstained: float | None


@dataclass(frozen=True, slots=True)
class Selection:
    """The risk-coverage curve (thinned for drawing), and its table by coverage and by risk."""

    points: tuple[tuple[float, float], ...]
    by_coverage: tuple[RiskRow, ...]
    by_risk: tuple[RiskRow, ...]


@dataclass(frozen=True, slots=True)
class Confusion:
    """Counts by right (rows) and predicted (columns) label; no matrix when there are too many labels to read.

    ``pairs`` are the most frequent confusions: right label, predicted label, count.
    """

    gold_labels: tuple[str, ...]
    labels: tuple[str, ...]
    matrix: tuple[tuple[int, ...], ...]
    pairs: tuple[tuple[str, str, int], ...]


@dataclass(frozen=True, slots=True)
class Mistake:
    """A confident wrong answer (for a score: one far from its value). ``gold`` is ``None`` when no option was right."""

    id: str
    text: str | None
    answer: str
    probability: float
    gold: str | None
    gold_probability: float | None
    level: float | None
    value: float | None


@dataclass(frozen=True, slots=True)
class ArgmaxGold:
    """The gold is the argmax of the soft gold, so hard-label ECE punishes a model that copies it.

    ``perfect_copy`` is the ECE10 that the soft gold itself would score.
    """

    perfect_copy: float


def argmax_gold(rows: Rows, *, declared: bool = False) -> ArgmaxGold | None:
    """Whether the gold is the soft gold's argmax: ``declared``, or so in every row that has both.

    Soft gold that is one-hot throughout carries no doubt, and hard-label ECE is as good as any. Where most rows have no
    soft gold, their gold is what counts.
    """
    both = rows.has_gold & rows.has_soft
    if 2 * both.sum() < max(1, rows.has_gold.sum()):
        return None
    soft, gold = rows.soft[both], rows.gold[both]
    peak = soft.max(axis=1)
    follows = bool((np.take_along_axis(soft, gold[:, None], axis=1)[:, 0] == peak).all())
    if not (declared or follows) or bool((peak == 1).all()):
        return None
    return ArgmaxGold(ece(peak, (soft.argmax(axis=1) == gold).astype(np.float64)))


def reliability(rows: Rows, *, soft: bool) -> tuple[Bin, ...]:
    """The bins that hold rows; against the gold with a 95 % Wilson interval each, or against the soft gold."""
    from scipy.stats import binomtest

    mask = rows.has_soft if soft else rows.has_gold
    confidence = rows.confidence[mask]
    hits = (rows.at(rows.soft, rows.predicted) if soft else rows.correct.astype(np.float64))[mask]
    place = bins(confidence)
    found = []
    for bin_ in range(BINS):
        here = place == bin_
        n = int(here.sum())
        if n:
            wilson = None if soft else binomtest(int(hits[here].sum()), n).proportion_ci(method="wilson")
            bounds = (None, None) if wilson is None else (float(wilson.low), float(wilson.high))
            mean, rate = float(confidence[here].mean()), float(hits[here].mean())
            found.append(Bin(bin_ / BINS, (bin_ + 1) / BINS, n, mean, rate, *bounds))
    return tuple(found)


def selection(rows: Rows) -> Selection | None:
    """The risk-coverage curve and its tables, over the rows that can be judged; ``None`` without any."""
    judged = rows.has_gold | rows.none
    if not judged.any():
        return None
    found = curve(rows.confidence[judged], ~rows.correct[judged], rows.none[judged])
    n = int(judged.sum())
    kept = np.unique(np.linspace(0, len(found.risk) - 1, _POINTS).round().astype(int))
    return Selection(
        points=tuple((float(found.coverage[at]), float(found.risk[at])) for at in kept),
        by_coverage=tuple(_risk_row(found, target, found.at_coverage(target), n) for target in COVERAGES),
        by_risk=tuple(_risk_row(found, target, found.at_risk(target), n) for target in RISKS),
    )


def confusion(rows: Rows) -> Confusion | None:
    """Right against predicted labels; rows that no option fits get a line of their own."""
    from sklearn.metrics import confusion_matrix

    judged = rows.has_gold | rows.none
    if not rows.classes or not judged.any():
        return None
    gold = np.where(rows.none, len(rows.classes), rows.at(rows.option_classes, rows.gold).astype(int))[judged]
    predicted = rows.at(rows.option_classes, rows.predicted).astype(int)[judged]
    used = sorted(set(gold.tolist()) | set(predicted.tolist()))
    names = [printable(label) for label in (*rows.classes, NONE_LABEL)]
    matrix = confusion_matrix(gold, predicted, labels=used)
    off = matrix - np.diag(np.diag(matrix))
    worst = [divmod(int(at), len(used)) for at in np.argsort(-off, axis=None, kind="stable")[:_PAIRS]]
    shown = [at for at, label in enumerate(used) if label < len(rows.classes)]
    return Confusion(
        gold_labels=tuple(names[label] for label in used),
        labels=tuple(names[used[at]] for at in shown),
        matrix=tuple(tuple(map(int, line[shown])) for line in matrix) if len(used) <= _MATRIX else (),
        pairs=tuple((names[used[g]], names[used[p]], int(off[g, p])) for g, p in worst if off[g, p]),
    )


def mistakes(records: Sequence[Record], rows: Rows, limit: int) -> tuple[Mistake, ...]:
    """The ``limit`` worst answers: the most confident wrong ones, or the scores furthest from their value."""
    if all(record.type == "score" for record in records):
        badness = np.nan_to_num(np.abs(rows.expected - rows.value))
    else:
        badness = np.where((rows.has_gold | rows.none) & ~rows.correct, rows.confidence, 0.0)
    order = np.argsort(-badness, kind="stable")[:limit]
    return tuple(_mistake(records[at], rows, int(at)) for at in order if badness[at] > 0)


def _risk_row(found: Curve, target: float, at: int | None, n: int) -> RiskRow:
    if at is None:
        return RiskRow(target, 0.0, None, 0.0, 0, None if np.isnan(found.none_abstained[0]) else 1.0)
    none = float(found.none_abstained[at])
    coverage = float(found.coverage[at])
    threshold, risk = float(found.thresholds[at]), float(found.risk[at])
    return RiskRow(target, coverage, threshold, risk, round(coverage * n), None if np.isnan(none) else none)


def _mistake(record: Record, rows: Rows, at: int) -> Mistake:
    top = int(rows.predicted[at])
    score = bool(np.isfinite(rows.value[at]))
    return Mistake(
        id=printable(record.id),
        text=None if record.text is None else printable(record.text),
        answer=printable(record.labels[top]),
        probability=float(rows.confidence[at]),
        gold=None if record.gold is None else printable(record.labels[record.gold]),
        gold_probability=None if record.gold is None else float(rows.probabilities[at, record.gold]),
        level=float(rows.expected[at]) if score else None,
        value=float(rows.value[at]) if score else None,
    )
