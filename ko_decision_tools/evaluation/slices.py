"""What is measured: every task, every type that several tasks share, and the macro average over tasks.

The report measures one model at two temperatures, a comparison two models at one each; both are *variants* of the same
rows under the same draws, so both use :func:`measure`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ko_decision_tools.evaluation.arrays import Floats, Ints, Rows, to_rows
from ko_decision_tools.evaluation.bootstrap import (
    RANKED_REPLICATES,
    REPLICATES,
    Job,
    Replicates,
    bootstrap,
    clusters_of,
    interval,
    mean_of,
)
from ko_decision_tools.evaluation.metrics import METRICS, Targets, statistics, values
from ko_decision_tools.records import Record

MACRO = "macro"
FEW_CLUSTERS = 30


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything besides the score file that decides the numbers."""

    seed: int = 0
    replicates: int = REPLICATES
    ranked_replicates: int = RANKED_REPLICATES
    noise_simulations: int = 1_000
    targets: Targets = field(default_factory=Targets)
    mistakes: int = 12


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of the file: a task, or a type over all tasks.

    ``pooled`` says that their labels and levels do not belong together (several tasks, or several types in one task):
    no macro-F1, confusion matrix or correlation then.
    """

    name: str
    kind: Literal["task", "type"]
    index: Ints
    pooled: bool


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and its 95 % interval; ``tasks`` says how many tasks it is a mean of."""

    value: float
    low: float | None
    high: float | None
    tasks: int = 1


@dataclass(frozen=True, slots=True)
class Measured:
    """One part under one variant: its rows, the values and the replicates of every metric."""

    rows: Rows
    values: Mapping[str, float]
    replicates: Replicates


def parts_of(records: Sequence[Record]) -> list[Part]:
    """Tasks in the file's order, then the types that are not just one of the tasks again.

    Example:
        >>> row = lambda task, kind: Record("r", "r", task, kind, ("거짓", "참"), (0.0, 1.0))
        >>> [part.name for part in parts_of([row("boolq", "noul"), row("wic", "noul"), row("copa", "choice")])]
        ['boolq', 'wic', 'copa', 'noul']
    """
    by_task: dict[str, list[int]] = {}
    by_type: dict[str, list[int]] = {}
    for place, record in enumerate(records):
        by_task.setdefault(record.task, []).append(place)
        by_type.setdefault(record.type, []).append(place)
    tasks = [
        Part(name, "task", np.array(places), len({records[place].type for place in places}) > 1)
        for name, places in by_task.items()
    ]
    types = [Part(name, "type", np.array(places), True) for name, places in by_type.items()]
    return tasks + [part for part in types if part.index.tolist() not in by_task.values()]


def measure(
    variants: Mapping[str, tuple[Sequence[Record], Sequence[float]]], parts: Sequence[Part], settings: Settings
) -> dict[tuple[str, str], Measured]:
    """Measure each part under each variant, ``{(part's name, variant's name): …}``, all under the same draws.

    Args:
        variants: Name to records and their temperatures. All variants have the same rows in the same order; the first
            one's groups are the clusters.
        parts: From :func:`parts_of`.
        settings: Seed and replicates.
    """
    clusters = clusters_of(next(iter(variants.values()))[0])
    rows: dict[tuple[str, str], Rows] = {}
    jobs: dict[tuple[str, str], Job] = {}
    for part in parts:
        for variant, (records, temperatures) in variants.items():
            chosen = [records[place] for place in part.index]
            table = to_rows(chosen, [temperatures[place] for place in part.index], pooled=part.pooled)
            rows[part.name, variant] = table
            jobs[part.name, variant] = Job(statistics(table, settings.targets), clusters.of_row[part.index])
    drawn = bootstrap(
        jobs, clusters, replicates=settings.replicates, ranked=settings.ranked_replicates, seed=settings.seed
    )
    return {name: Measured(table, values(table, settings.targets), drawn[name]) for name, table in rows.items()}


def cluster_count(records: Sequence[Record], part: Part) -> int:
    """How many clusters a part's rows come from."""
    return len({records[place].group for place in part.index})


def estimates(measured: Measured, *, clusters: int) -> dict[str, Estimate]:
    """Values with intervals; none from a single cluster, which says nothing about other clusters."""
    return {
        key: Estimate(value, *_bounds(measured.replicates[key], clusters)) for key, value in measured.values.items()
    }


def without(measured: Measured, key: str) -> Measured:
    """The same part without one metric: one that is not valid on it must not enter a mean over tasks."""
    return Measured(
        measured.rows,
        {name: value for name, value in measured.values.items() if name != key},
        {name: drawn for name, drawn in measured.replicates.items() if name != key},
    )


def macro(measured: Sequence[Measured], *, clusters: int) -> dict[str, Estimate]:
    """The unweighted mean over tasks of each metric, over the tasks that have it."""
    replicates = mean_of([each.replicates for each in measured])
    found = {}
    for key in (key for key in METRICS if key in replicates):
        numbers = [each.values[key] for each in measured if key in each.values]
        found[key] = Estimate(float(np.mean(numbers)), *_bounds(replicates[key], clusters), tasks=len(numbers))
    return found


def changes(
    before: Mapping[str, Estimate], after: Mapping[str, Estimate], drawn: Replicates, drawn_after: Replicates
) -> dict[str, Estimate]:
    """Paired differences ``after - before`` of the metrics that both have, with their intervals."""
    found = {}
    for key in (key for key in before if key in after):
        bounds = interval(drawn_after[key] - drawn[key]) if before[key].low is not None else None
        low, high = bounds or (None, None)
        found[key] = Estimate(after[key].value - before[key].value, low, high, tasks=after[key].tasks)
    return found


def _bounds(replicates: Floats, clusters: int) -> tuple[float | None, float | None]:
    return (interval(replicates) or (None, None)) if clusters > 1 else (None, None)
