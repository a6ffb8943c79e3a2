"""Two models on the same rows: paired differences, and which of them exclude zero.

Rows are joined by id. The clusters are drawn once for both, so what the models share (easy rows, hard rows) cancels,
and a model compared with itself differs by exactly ``[0, 0]``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ko_decision_tools.calibration import TemperatureTable
from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.evaluation import slices
from ko_decision_tools.evaluation.bootstrap import Replicates, mean_of
from ko_decision_tools.evaluation.details import ArgmaxGold, argmax_gold
from ko_decision_tools.evaluation.metrics import METRICS
from ko_decision_tools.evaluation.report import check_records, gold_is_declared_argmax, temperatures_of, valid
from ko_decision_tools.evaluation.slices import Estimate, Measured, Part, Settings
from ko_decision_tools.evaluation.texts import plain, printable
from ko_decision_tools.records import Record, ScoreFile

FORMAT = "ko-decision-comparison/1"


@dataclass(frozen=True, slots=True)
class Difference:
    """One metric of both models, and ``b - a`` with its 95 % interval (``None`` when there is one cluster only)."""

    a: float
    b: float
    difference: float
    low: float | None
    high: float | None
    tasks: int = 1

    @property
    def excludes_zero(self) -> bool:
        """The interval lies on one side of zero."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    def winner(self, key: str) -> Literal["a", "b"] | None:
        """The better model, when the interval excludes zero and the metric has a better side."""
        better = METRICS[key].better
        if not self.excludes_zero or better == "neither":
            return None
        return "b" if (self.difference > 0) == (better == "higher") else "a"


@dataclass(frozen=True, slots=True)
class ComparedSlice:
    """A task, a type or the macro average, and the differences in it; ``argmax_gold`` as in a report."""

    name: str
    kind: str
    rows: int
    clusters: int
    differences: Mapping[str, Difference]
    argmax_gold: ArgmaxGold | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two score files on their common rows.

    Attributes:
        common: Rows compared.
        only_a: Rows of ``a`` whose id is not in ``b``; ``only_b`` the other way round.
        differing: Ids in both files that are not the same question (task, options or gold differ); left out.
    """

    header_a: Mapping[str, Any]
    header_b: Mapping[str, Any]
    common: int
    only_a: int
    only_b: int
    differing: int
    settings: Settings
    slices: tuple[ComparedSlice, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; each difference says whether it excludes zero and who is better."""
        raw: dict[str, Any] = plain(asdict(self))
        for part, written in zip(self.slices, raw["slices"], strict=True):
            for key, difference in part.differences.items():
                written["differences"][key] |= {
                    "excludes_zero": difference.excludes_zero,
                    "winner": difference.winner(key),
                }
        return {"format": FORMAT, **raw}


def compare(
    a: ScoreFile,
    b: ScoreFile,
    *,
    table_a: TemperatureTable | None = None,
    table_b: TemperatureTable | None = None,
    settings: Settings | None = None,
) -> Comparison:
    """Paired differences ``b - a`` on the rows that both files have; the clusters are ``a``'s groups.

    Args:
        a: The first model's score file.
        b: The second model's.
        table_a: Temperatures for ``a``; T = 1 without.
        table_b: Temperatures for ``b``.
        settings: Seed, replicates, targets.

    Raises:
        InvalidInputError: A file holds no rows or an id twice, or no row is common to both.
    """
    check_records(a.records, "score file A")
    check_records(b.records, "score file B")
    settings = settings or Settings()
    left, right, differing = _paired(a.records, b.records)
    parts = slices.parts_of(left)
    variants = {
        "a": (left, [found.value for found in temperatures_of(left, table_a)]),
        "b": (right, [found.value for found in temperatures_of(right, table_b)]),
    }
    measured = slices.measure(variants, parts, settings)
    common = len(left) + differing
    return Comparison(
        header_a=plain(dict(a.header)),
        header_b=plain(dict(b.header)),
        common=len(left),
        only_a=len(a.records) - common,
        only_b=len(b.records) - common,
        differing=differing,
        settings=settings,
        slices=tuple(_slices(left, parts, measured, declared=gold_is_declared_argmax(a.header))),
    )


def _paired(a: Sequence[Record], b: Sequence[Record]) -> tuple[list[Record], list[Record], int]:
    others = {record.id: record for record in b}
    common = [(record, others[record.id]) for record in a if record.id in others]
    if not common:
        raise InvalidInputError(
            "score files", "have no row in common", "Compare files of one suite: rows are joined by id."
        )
    same = [(left, right) for left, right in common if _question(left) == _question(right)]
    if not same:
        raise InvalidInputError(
            "score files",
            f"share {len(common)} ids, but never the same question (task, options and gold)",
            "Compare files of one suite.",
        )
    left, right = (list(side) for side in zip(*same, strict=True))
    return left, right, len(common) - len(same)


def _question(record: Record) -> tuple[object, ...]:
    """What must agree. Labels may be spelled differently (with and without letters), not differ in number."""
    return record.task, record.type, len(record.labels), record.gold, record.soft_gold, record.value


def _slices(
    records: Sequence[Record], parts: Sequence[Part], measured: Mapping[tuple[str, str], Measured], *, declared: bool
) -> list[ComparedSlice]:
    found = []
    for part in parts:
        a, b = measured[part.name, "a"], measured[part.name, "b"]
        clusters = slices.cluster_count(records, part)
        before, after = (slices.estimates(side, clusters=clusters) for side in (a, b))
        differences = _differences(before, after, a.replicates, b.replicates)
        argmax = argmax_gold(a.rows, declared=declared)
        found.append(ComparedSlice(printable(part.name), part.kind, len(part.index), clusters, differences, argmax))
    tasks = [part.name for part in parts if part.kind == "task"]
    if len(tasks) > 1:
        clusters = len({record.group for record in records})
        both = [[valid(measured[name, side], declared) for name in tasks] for side in ("a", "b")]
        before, after = (slices.macro(side, clusters=clusters) for side in both)
        drawn = [mean_of([each.replicates for each in side]) for side in both]
        differences = _differences(before, after, *drawn)
        found.append(ComparedSlice(slices.MACRO, slices.MACRO, len(records), clusters, differences))
    return found


def _differences(
    before: Mapping[str, Estimate], after: Mapping[str, Estimate], drawn_a: Replicates, drawn_b: Replicates
) -> dict[str, Difference]:
    changes = slices.changes(before, after, drawn_a, drawn_b)
    return {
        key: Difference(before[key].value, after[key].value, change.value, change.low, change.high, change.tasks)
        for key, change in changes.items()
    }
