"""What a temperature table makes of scored rows: how sure each answer is, and whether it is wrong.

Top probabilities come from the arithmetic that decisions use, so that a bar means the same here and there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ko_decision_tools.calibration import Temperature, TemperatureTable
from ko_decision_tools.distributions import Distribution, Scores
from ko_decision_tools.records import Record


@dataclass(frozen=True, slots=True)
class Answer:
    """One row's answer: the record, its distribution and the temperature that made it."""

    record: Record
    distribution: Distribution
    temperature: Temperature

    @property
    def wrong(self) -> bool:
        """The most probable option is not the gold one; always so where no option is right."""
        return self.distribution.top != self.record.gold


@dataclass(frozen=True, slots=True)
class Judged:
    """The answers that can be right or wrong, and how many rows cannot."""

    answers: tuple[Answer, ...]
    left_out: int

    @classmethod
    def of(cls, records: Iterable[Record], table: TemperatureTable) -> Judged:
        """Answer every row.

        A choice without any gold is "none of these": to answer it is an error. A yes/no or a score without gold, and a
        row of which only a soft gold or a value is known, can be neither right nor wrong: they are left out.
        """
        listed = list(records)
        kept = [record for record in listed if record.gold is not None or is_none_of_these(record)]
        return cls(tuple(answer(record, table) for record in kept), len(listed) - len(kept))

    @property
    def top(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """``[n]``, the largest probabilities."""
        return np.array([each.distribution.top_probability for each in self.answers], dtype=np.float64)

    @property
    def wrong(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """``[n]``, whether the answer is wrong."""
        return np.array([each.wrong for each in self.answers], dtype=np.bool_)


def answer(record: Record, table: TemperatureTable) -> Answer:
    """One row under the temperature that a decision for its task would use."""
    temperature = table.lookup(record.type, len(record.labels), task=record.task or None)
    return Answer(record, Scores(record.scores).softmax(temperature.value), temperature)


def is_none_of_these(record: Record) -> bool:
    """A choice of which no option is right."""
    return record.type == "choice" and record.gold is None and record.soft_gold is None


def halves(records: Sequence[Record], *, seed: int = 0) -> tuple[list[Record], list[Record]]:
    """Two halves, one to fit temperatures on and one to fit a threshold on; a group is never torn apart.

    A temperature fitted on the threshold's own rows has looked at their labels, and the guarantee would not hold.

    Example:
        >>> rows = [Record(f"r{i}", f"g{i // 2}", "demo", "noul", ("false", "true"), (0.0, 1.0), 1) for i in range(8)]
        >>> [sorted(record.group for record in half) for half in halves(rows)]
        [['g0', 'g0', 'g2', 'g2'], ['g1', 'g1', 'g3', 'g3']]
    """
    groups = list(dict.fromkeys(record.group for record in records))
    order = np.random.default_rng(seed).permutation(len(groups))
    first = {groups[index] for index in order[: len(groups) // 2]}
    return (
        [record for record in records if record.group in first],
        [record for record in records if record.group not in first],
    )
