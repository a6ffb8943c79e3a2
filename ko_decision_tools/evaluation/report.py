"""From a score file to one report: every number with its interval, and what the numbers hide. No model needed.

:func:`build_report` returns plain dataclasses; :meth:`Report.to_dict` is the JSON,
:mod:`~ko_decision_tools.evaluation.terminal` the table and :mod:`~ko_decision_tools.evaluation.page` the HTML.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ko_decision_tools.calibration import Temperature, TemperatureTable
from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.evaluation import slices
from ko_decision_tools.evaluation.arrays import Rows
from ko_decision_tools.evaluation.bootstrap import mean_of
from ko_decision_tools.evaluation.details import (
    ArgmaxGold,
    Bin,
    Confusion,
    Mistake,
    Selection,
    argmax_gold,
    confusion,
    mistakes,
    reliability,
    selection,
)
from ko_decision_tools.evaluation.metrics import NoiseFloor, noise_floor
from ko_decision_tools.evaluation.slices import Estimate, Measured, Part, Settings
from ko_decision_tools.evaluation.texts import plain, printable
from ko_decision_tools.records import Record, ScoreFile

FORMAT = "ko-decision-report/1"
RAW, FITTED = "raw", "fitted"
TEACHER_SUITES = ("typed-decisions",)  # their gold is a teacher's argmax, whatever the rows look like


@dataclass(frozen=True, slots=True)
class View:
    """One slice at one set of temperatures. ``reliability_of`` is ``"gold"``, or ``"soft gold"`` where that is fair."""

    metrics: Mapping[str, Estimate]
    noise_floor: NoiseFloor | None = None
    reliability_of: str | None = None
    reliability: tuple[Bin, ...] = ()
    selection: Selection | None = None


@dataclass(frozen=True, slots=True)
class Slice:
    """A task, a type or the macro average.

    Attributes:
        views: ``"raw"`` (T = 1), and ``"fitted"`` when a calibration was given.
        change: Paired differences, fitted minus raw.
        temperatures: ``(T, where it came from, fitted for such questions, rows)``.
        argmax_gold: Set where hard-label ECE is not valid.
    """

    name: str
    kind: str
    rows: int
    clusters: int
    gold_rows: int
    none_rows: int
    soft_rows: int
    views: Mapping[str, View]
    change: Mapping[str, Estimate] = field(default_factory=dict)
    temperatures: tuple[tuple[float, str, bool, int], ...] = ()
    argmax_gold: ArgmaxGold | None = None
    confusion: Confusion | None = None
    mistakes: tuple[Mistake, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> View:
        """The fitted view where there is one, else the raw one."""
        return self.views.get(FITTED) or self.views[RAW]


@dataclass(frozen=True, slots=True)
class Report:
    """A measured score file.

    Attributes:
        header: The score file's.
        settings: What else decided the numbers.
        calibration: The calibration file's content, evidence included; ``None`` without one.
        slices: Tasks, then types, then the macro average.
        notes: What a reader has to know about the whole file.
    """

    header: Mapping[str, Any]
    settings: Settings
    calibration: Mapping[str, Any] | None
    slices: tuple[Slice, ...]
    notes: tuple[str, ...]

    def of(self, kind: str) -> list[Slice]:
        """The slices of one kind: ``"task"``, ``"type"`` or ``"macro"``."""
        return [part for part in self.slices if part.kind == kind]

    @property
    def calibrated(self) -> bool:
        """Whether there are fitted views beside the raw ones."""
        return any(FITTED in part.views for part in self.slices)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON: no NaN, printable text only."""
        return {"format": FORMAT, **plain(asdict(self))}


def build_report(file: ScoreFile, *, table: TemperatureTable | None = None, settings: Settings | None = None) -> Report:
    """Measure a score file.

    Args:
        file: From ``ScoreFile.read``.
        table: Fitted temperatures; every number is then given before (T = 1) and after.
        settings: Seed, replicates, targets.

    Raises:
        InvalidInputError: The file holds no rows, or two rows have one id.
    """
    check_records(file.records, "the score file")
    settings, records = settings or Settings(), file.records
    found = temperatures_of(records, table)
    variants = {RAW: (records, [1.0] * len(records))}
    if table is not None:
        variants[FITTED] = (records, [each.value for each in found])
    parts = slices.parts_of(records)
    measured = slices.measure(variants, parts, settings)
    declared = gold_is_declared_argmax(file.header)
    reported = [
        _slice(
            part,
            [records[place] for place in part.index],
            {variant: measured[part.name, variant] for variant in variants},
            [found[place] for place in part.index] if table is not None else [],
            settings,
            declared=declared,
        )
        for part in parts
    ]
    tasks = [part for part in parts if part.kind == "task"]
    if len(tasks) > 1:
        reported.append(_macro(records, tasks, measured, tuple(variants), declared=declared))
    calibration = None if table is None else plain(table.to_dict())
    return Report(
        plain(dict(file.header)), settings, calibration, tuple(reported), tuple(_file_notes(file.header, calibration))
    )


def temperatures_of(records: Sequence[Record], table: TemperatureTable | None) -> list[Temperature]:
    """The temperature of every record; 1 without a table."""
    table = table or TemperatureTable()
    return [table.lookup(record.type, len(record.labels), task=record.task) for record in records]


def gold_is_declared_argmax(header: Mapping[str, Any]) -> bool:
    """Whether the score file's header names a suite whose gold is a teacher's argmax."""
    return header.get("suite") in TEACHER_SUITES


def valid(measured: Measured, declared: bool) -> Measured:
    """A task as it enters the mean over tasks: without hard-label ECE where that is not valid."""
    return measured if argmax_gold(measured.rows, declared=declared) is None else slices.without(measured, "ece10")


def check_records(records: Sequence[Record], where: str) -> None:
    """Refuse what cannot be measured.

    Raises:
        InvalidInputError: No rows, or an id that occurs twice.
    """
    if not records:
        raise InvalidInputError(where, "holds no rows", "Run `ko-decision evaluate` again.")
    repeated, times = Counter(record.id for record in records).most_common(1)[0]
    if times > 1:
        raise InvalidInputError(where, f"holds an id {times} times", "Give every row its own id.", value=repeated)


def _slice(
    part: Part,
    records: Sequence[Record],
    measured: Mapping[str, Measured],
    temperatures: Sequence[Temperature],
    settings: Settings,
    *,
    declared: bool,
) -> Slice:
    rows = measured.get(FITTED, measured[RAW]).rows
    clusters = len({record.group for record in records})
    argmax = argmax_gold(rows, declared=declared)
    views = {name: _view(each, clusters, argmax is not None, settings) for name, each in measured.items()}
    change = _change(views, {name: each.replicates for name, each in measured.items()})
    used = Counter((t.value, printable(t.source), t.calibrated) for t in temperatures)
    return Slice(
        name=printable(part.name),
        kind=part.kind,
        rows=len(records),
        clusters=clusters,
        gold_rows=int(rows.has_gold.sum()),
        none_rows=int(rows.none.sum()),
        soft_rows=int(rows.has_soft.sum()),
        views=views,
        change=change,
        temperatures=tuple((*key, count) for key, count in used.most_common()),
        argmax_gold=argmax,
        confusion=confusion(rows),
        mistakes=mistakes(records, rows, settings.mistakes) if part.kind == "task" else (),
        notes=_notes(rows, clusters, argmax),
    )


def _view(measured: Measured, clusters: int, soft: bool, settings: Settings) -> View:
    rows = measured.rows
    floor = None
    if rows.has_gold.any():
        confidence = rows.confidence[rows.has_gold]
        floor = noise_floor(confidence, simulations=settings.noise_simulations, seed=settings.seed)
    against_soft = soft or not rows.has_gold.any()
    return View(
        metrics=slices.estimates(measured, clusters=clusters),
        noise_floor=floor,
        reliability_of="soft gold" if against_soft else "gold",
        reliability=reliability(rows, soft=against_soft),
        selection=selection(rows),
    )


def _macro(
    records: Sequence[Record],
    tasks: Sequence[Part],
    measured: Mapping[tuple[str, str], Measured],
    variants: Sequence[str],
    *,
    declared: bool,
) -> Slice:
    clusters = len({record.group for record in records})
    each = {variant: [valid(measured[part.name, variant], declared) for part in tasks] for variant in variants}
    views = {variant: View(slices.macro(found, clusters=clusters)) for variant, found in each.items()}
    drawn = {variant: mean_of([one.replicates for one in found]) for variant, found in each.items()}
    rows = [one.rows for one in each[RAW]]
    return Slice(
        name=slices.MACRO,
        kind="macro",
        rows=len(records),
        clusters=clusters,
        gold_rows=sum(int(one.has_gold.sum()) for one in rows),
        none_rows=sum(int(one.none.sum()) for one in rows),
        soft_rows=sum(int(one.has_soft.sum()) for one in rows),
        views=views,
        change=_change(views, drawn),
    )


def _change(views: Mapping[str, View], drawn: Mapping[str, Any]) -> dict[str, Estimate]:
    if FITTED not in views:
        return {}
    return slices.changes(views[RAW].metrics, views[FITTED].metrics, drawn[RAW], drawn[FITTED])


def _file_notes(header: Mapping[str, Any], calibration: Mapping[str, Any] | None) -> Iterator[str]:
    if header.get("complete") is not True and "complete" in header:
        yield "The run had not finished when this file was read: rows are missing."
    if skipped := len(header.get("skipped") or ()):
        yield f"{skipped} examples could not be scored and are missing; the score file's header says why."
    if cut := int(header.get("cut") or 0):
        yield f"{cut} states were longer than the model reads; their beginning was scored."
    evidence = (calibration or {}).get("evidence", {})
    if header.get("date") is not None and evidence.get("scored") == header["date"]:
        yield "The temperatures were fitted on rows of this very score file: the fitted numbers flatter."


def _notes(rows: Rows, clusters: int, argmax: ArgmaxGold | None) -> tuple[str, ...]:
    notes = []
    if argmax is not None:
        notes.append(
            "Hard-label ECE is not valid here: the gold is the argmax of the soft gold, and a perfect copy of the soft "
            f"gold would score {argmax.perfect_copy:.3f}. Read soft ECE10, soft NLL and soft Brier instead."
        )
    if clusters == 1:
        notes.append("All rows belong to one cluster, so there are no intervals.")
    elif clusters < slices.FEW_CLUSTERS:
        notes.append(f"Only {clusters} clusters: intervals this rough tend to be too narrow.")
    known = rows.has_gold | rows.none | rows.has_soft | ~np.isnan(rows.value)
    if (unlabelled := int((~known).sum())) > 0:
        notes.append(f"{unlabelled} rows have no gold of any kind and count nowhere.")
    return tuple(notes)
