"""Score records as arrays, so that every metric is a few numpy lines.

Questions of one task may offer different options (each business has its own routes), so ``K`` is the widest question
and padding has probability 0. Nothing here rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ko_decision_tools.records import Record

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Rows:
    """``n`` decisions as arrays.

    Attributes:
        probabilities: ``[n, K]``; softmax of the scores over the temperature, 0 in padding.
        log_probabilities: ``[n, K]``, nats, from the scores (never ``log(0)``); 0 in padding.
        gold: ``[n]``, index of the right option; -1 without one.
        none: ``[n]``, no option is right ("none of these"): answering is an error, abstaining is right.
        soft: ``[n, K]``, soft gold; all 0 without one.
        value: ``[n]``, the level a ``Score`` should reach (real-valued gold, else the gold level, else the soft gold's
            expected level); NaN for other types.
        classes: What the confusion matrix and macro-F1 count; empty when they mean nothing (tasks pooled by type).
        option_classes: ``[n, K]``, index into ``classes`` of each option; -1 in padding.
    """

    probabilities: Floats
    log_probabilities: Floats
    gold: Ints
    none: Bools
    soft: Floats
    value: Floats
    classes: tuple[str, ...]
    option_classes: Ints

    @property
    def predicted(self) -> Ints:
        """``[n]``, the most probable option (the first one on a tie)."""
        return np.asarray(self.probabilities.argmax(axis=1))

    @property
    def confidence(self) -> Floats:
        """``[n]``, its probability: what abstaining looks at."""
        return np.asarray(self.probabilities.max(axis=1))

    @property
    def has_gold(self) -> Bools:
        """``[n]``, one option is right."""
        return np.asarray(self.gold >= 0)

    @property
    def has_soft(self) -> Bools:
        """``[n]``, there is a soft gold."""
        return np.asarray(self.soft.any(axis=1))

    @property
    def correct(self) -> Bools:
        """``[n]``, the most probable option is the right one (never for a row without one)."""
        return np.asarray(self.predicted == self.gold)

    @property
    def expected(self) -> Floats:
        """``[n]``, ``Σ i·p_i``: a ``Score``'s answer."""
        return np.asarray(self.probabilities @ np.arange(self.probabilities.shape[1]))

    def at(self, table: Floats | Ints, columns: Ints) -> Floats:
        """``[n]``, one entry of each row of ``table`` ``[n, K]``."""
        return np.take_along_axis(table, np.maximum(columns, 0)[:, None], axis=1)[:, 0].astype(np.float64)


def to_rows(records: Sequence[Record], temperatures: Sequence[float], *, pooled: bool = False) -> Rows:
    """Arrays of ``records``, their scores divided by ``temperatures`` (one each).

    ``pooled`` says that the records belong to several tasks, whose labels must not be counted together.

    Example:
        >>> row = Record("r1", "r1", "demo", "choice", ("결제", "배송"), (2.0, 0.0), gold=0)
        >>> to_rows([row], [2.0]).probabilities.round(3)
        array([[0.731, 0.269]])
    """
    n, width = len(records), max(len(record.labels) for record in records)
    scores = np.full((n, width), -np.inf)
    soft = np.zeros((n, width))
    for row, record in enumerate(records):
        scores[row, : len(record.scores)] = record.scores
        if record.soft_gold is not None:
            soft[row, : len(record.soft_gold)] = record.soft_gold
    classes, option_classes = ((), np.full((n, width), -1)) if pooled else _classes(records, width)
    probabilities, logs = softmax(scores, np.asarray(temperatures, dtype=np.float64))
    return Rows(
        probabilities=probabilities,
        log_probabilities=logs,
        gold=np.array([-1 if record.gold is None else record.gold for record in records]),
        none=np.array([_is_none(record) for record in records]),
        soft=soft,
        value=np.array([_level(record) for record in records]),
        classes=classes,
        option_classes=option_classes,
    )


def softmax(scores: Floats, temperatures: Floats) -> tuple[Floats, Floats]:
    """Probabilities and their logarithms, both ``[n, K]``; a score of ``-inf`` is padding and gives 0 and 0."""
    scaled = scores / temperatures[:, None]
    shifted = scaled - scaled.max(axis=1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return np.exp(logs), np.where(np.isfinite(scores), logs, 0.0)


def _is_none(record: Record) -> bool:
    """A choice with no gold of any kind: "none of these". Without gold, a yes/no or a score is just unlabelled."""
    return record.type == "choice" and record.gold is None and record.soft_gold is None and record.value is None


def _level(record: Record) -> float:
    if record.type != "score":
        return np.nan
    if record.value is not None:
        return record.value
    if record.gold is not None:
        return float(record.gold)
    if record.soft_gold is not None:
        return sum(level * share for level, share in enumerate(record.soft_gold))
    return np.nan


def _classes(records: Sequence[Record], width: int) -> tuple[tuple[str, ...], Ints]:
    """Count by label, or by place where every question has its own labels (COPA's candidates are sentences)."""
    names = tuple(dict.fromkeys(label for record in records for label in record.labels))
    offered = sum(len(record.labels) for record in records)
    same = all(record.labels == records[0].labels for record in records)
    if not same and 2 * len(names) > offered:
        names = tuple(f"option {place}" for place in range(1, width + 1))
        index = [list(range(len(record.labels))) for record in records]
    else:
        place = {name: at for at, name in enumerate(names)}
        index = [[place[label] for label in record.labels] for record in records]
    return names, np.array([row + [-1] * (width - len(row)) for row in index])
