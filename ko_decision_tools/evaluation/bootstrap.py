"""The cluster bootstrap: resample what was sampled (premises, businesses), not rows.

Every replicate draws as many clusters as there are, with replacement; a row then counts as often as its cluster was
drawn. Metrics share the draws, and so do two models or two temperatures: differences are paired, and the difference of
a model with itself is exactly 0. Intervals are percentile intervals.

Tasks that share clusters (one case, several questions) are resampled together; tasks that share none are resampled
apart, so that each keeps its own number of clusters in every replicate.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from ko_decision_tools.evaluation.arrays import Floats, Ints
from ko_decision_tools.evaluation.metrics import Linear, Ranked
from ko_decision_tools.records import Record

REPLICATES = 10_000
RANKED_REPLICATES = 2_000  # of the same draws; for metrics that must walk the rows in order
_CELLS = 1_000_000  # counts held at once: 8 MB

Name = TypeVar("Name", bound=Hashable)
Replicates = dict[str, Floats]


@dataclass(frozen=True, slots=True)
class Clusters:
    """Which rows are drawn together.

    Attributes:
        of_row: ``[n]``, the cluster of each row.
        strata: Clusters resampled among themselves; together they are all of ``0 … count - 1``.
    """

    of_row: Ints
    strata: tuple[Ints, ...]

    @property
    def count(self) -> int:
        """How many clusters there are."""
        return sum(len(stratum) for stratum in self.strata)


def clusters_of(records: Sequence[Record]) -> Clusters:
    """Clusters by ``record.group``, and strata by which tasks share one.

    Example:
        >>> rows = [Record(f"r{i}", g, t, "noul", ("거짓", "참"), (0.0, 1.0)) for i, (g, t) in enumerate(
        ...     [("case 1", "긴급"), ("case 1", "환불"), ("case 2", "긴급"), ("premise 1", "nli")])]
        >>> clusters = clusters_of(rows)
        >>> clusters.of_row.tolist(), [stratum.tolist() for stratum in clusters.strata]
        ([0, 0, 1, 2], [[0, 1], [2]])
    """
    names, of_row = np.unique([record.group for record in records], return_inverse=True)
    stratum_of_task: dict[str, str] = {}
    first_task: dict[int, str] = {}

    def root(task: str) -> str:
        while (parent := stratum_of_task.setdefault(task, task)) != task:
            task = parent
        return task

    for record, cluster in zip(records, of_row.tolist(), strict=True):
        stratum_of_task[root(record.task)] = root(first_task.setdefault(cluster, record.task))
    members: dict[str, list[int]] = {}
    for cluster in range(len(names)):
        members.setdefault(root(first_task[cluster]), []).append(cluster)
    return Clusters(of_row, tuple(np.array(stratum) for stratum in members.values()))


@dataclass(frozen=True, slots=True)
class Job:
    """Metrics of some rows: ``clusters`` ``[n]`` says which cluster each of their rows belongs to."""

    statistics: Sequence[Linear | Ranked]
    clusters: Ints


def resample(clusters: Clusters, replicates: int, seed: int, *, widest: int = 1) -> Iterator[Floats]:
    """Draws in blocks ``[r, count]``: how often each cluster was drawn in each of ``r`` replicates.

    ``widest`` is the largest number of rows that a caller spreads a block over; it bounds the block's size.
    """
    block = max(1, _CELLS // max(clusters.count, widest))
    streams = [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(len(clusters.strata))]
    for start in range(0, replicates, block):
        r = min(block, replicates - start)
        counts = np.empty((r, clusters.count))
        for stream, stratum in zip(streams, clusters.strata, strict=True):
            size = len(stratum)
            drawn = stream.integers(size, size=(r, size)) + size * np.arange(r)[:, None]
            counts[:, stratum] = np.bincount(drawn.ravel(), minlength=r * size).reshape(r, size)
        yield counts


def bootstrap(
    jobs: Mapping[Name, Job],
    clusters: Clusters,
    *,
    replicates: int = REPLICATES,
    ranked: int = RANKED_REPLICATES,
    seed: int = 0,
) -> dict[Name, Replicates]:
    """Every metric of every job under the same draws: ``[replicates]`` each, or the first ``ranked`` of them.

    A replicate in which a metric is undefined (none of its rows were drawn) is NaN.
    """
    prepared = {name: _Prepared.of(job) for name, job in jobs.items()}
    blocks: dict[Name, dict[str, list[Floats]]] = {name: {} for name in jobs}
    widest = max((len(job.clusters) for job in jobs.values()), default=1)
    done = 0
    for counts in resample(clusters, replicates, seed, widest=widest):
        for name, job in prepared.items():
            for key, block in job.replicate(counts, max(0, ranked - done)):
                blocks[name].setdefault(key, []).append(block)
        done += len(counts)
    return {name: {key: np.concatenate(parts) for key, parts in found.items()} for name, found in blocks.items()}


def interval(replicates: Floats, level: float = 0.95) -> tuple[float, float] | None:
    """The percentile interval, or ``None`` when a metric was undefined in more than half of the replicates."""
    defined = replicates[~np.isnan(replicates)]
    if 2 * len(defined) < len(replicates) or not len(defined):
        return None
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def mean_of(replicates: Sequence[Replicates]) -> Replicates:
    """The unweighted mean over several jobs (a macro average), metric by metric, over those that have it."""
    keys = dict.fromkeys(key for each in replicates for key in each)
    return {key: np.mean([each[key] for each in replicates if key in each], axis=0) for key in keys}


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A job with its rows' clusters renumbered: ``used`` are the clusters that it has rows in, ``of_row`` indexes them.

    ``sums`` ``[len(used), M]`` are the column totals of all its linear metrics, side by side.
    """

    statistics: Sequence[Linear | Ranked]
    used: Ints
    of_row: Ints
    sums: Floats

    @classmethod
    def of(cls, job: Job) -> _Prepared:
        used, of_row = np.unique(job.clusters, return_inverse=True)
        columns = [one.columns for one in job.statistics if isinstance(one, Linear)]
        sums = np.zeros((len(used), sum(each.shape[1] for each in columns)))
        if columns:
            np.add.at(sums, of_row, np.concatenate(columns, axis=1))
        return cls(job.statistics, used, of_row, sums)

    def replicate(self, counts: Floats, ranked: int) -> Iterator[tuple[str, Floats]]:
        """Every metric by name under each line of ``counts``; the ranked ones under the first ``ranked`` only."""
        counts = counts[:, self.used]
        totals = counts @ self.sums
        weights = counts[:ranked][:, self.of_row]
        start = 0
        for statistic in self.statistics:
            if isinstance(statistic, Linear):
                end = start + statistic.columns.shape[1]
                yield statistic.key, statistic.finish(totals[:, start:end])
                start = end
            elif ranked:
                yield from zip(statistic.keys, statistic.of_weights(weights).T, strict=True)
