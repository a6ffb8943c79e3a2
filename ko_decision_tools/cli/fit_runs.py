"""What ``ko-decision fit`` does once its options are read: labelled texts or scores in, a table and a threshold out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ko_decision_tools.cli import models
from ko_decision_tools.cli.frame import say
from ko_decision_tools.errors import InvalidInputError

if TYPE_CHECKING:
    from ko_decision_tools.calibration import TemperatureTable
    from ko_decision_tools.cli.tables import Form
    from ko_decision_tools.fitting import TemperatureReport, ThresholdFit
    from ko_decision_tools.records import Record
    from ko_decision_tools.router.table import RoutingTable


@dataclass(frozen=True, slots=True)
class Model:
    """Which checkpoint scores texts, as the options name it."""

    checkpoint: str
    revision: str | None
    calibration: Path | None
    device: str | None
    num_threads: int | None


@dataclass(frozen=True, slots=True)
class Texts:
    """Labelled texts and where to find what in them."""

    file: Path
    routes: Path
    label_column: str
    text_column: str
    form: Form | None
    encoding: str


@dataclass(frozen=True, slots=True)
class Fitting:
    """How a score file's temperatures are fitted."""

    calibration: Path | None
    tasks: tuple[str, ...]
    tasks_only: bool
    soft: bool


@dataclass(frozen=True, slots=True)
class Result:
    """What was fitted; ``bars`` are the routes that have a bar of their own."""

    table: TemperatureTable
    checkpoint: str
    report: TemperatureReport | None = None
    threshold: ThresholdFit | None = None
    bars: tuple[str, ...] = ()


def from_texts(rows: Texts, given: Model, max_risk: float, confidence: float, *, needs_table: bool) -> Result:
    """Score labelled texts with the temperatures at hand and fit a threshold to them.

    Raises:
        InvalidInputError: The file, its labels or the routing table cannot be used; or ``needs_table`` and the
            checkpoint has no temperature.
        CheckpointError, EncoderError: It cannot be loaded, or failed.
    """
    from ko_decision_tools.cli import show
    from ko_decision_tools.cli.fit_rows import Labels, score
    from ko_decision_tools.cli.tables import read_table
    from ko_decision_tools.fitting import fit_threshold
    from ko_decision_tools.router import load_routing_table

    routing = load_routing_table(rows.routes)
    source = read_table(rows.file, form=rows.form, encoding=rows.encoding, text_column=rows.text_column)
    labels = Labels.of(source, rows.label_column, routing)
    model = models.load_model(
        given.checkpoint,
        revision=given.revision,
        calibration=given.calibration,
        device=given.device,
        num_threads=given.num_threads,
    )
    table = model.temperatures
    if needs_table and not (table.tasks or table.by_bucket or table.by_type):
        raise InvalidInputError("--out", "would hold no temperature", f"{given.checkpoint} has none: use --save.")
    with show.progress("scoring", total=len(labels.gold), done=0) as advance:
        records = score(model, routing, labels, advance)
    if labels.strange:
        names = ", ".join(f"{label} ({count})" for label, count in labels.strange.most_common(5))
        say(f"{labels.strange.total()} rows have a label that is no route: {names}; answering them is an error")
    _say_left_out(labels.unlabelled, "no label")
    _say_left_out(labels.broken, "no usable text")
    _say_left_out(len(labels.gold) - len(records), "a text that the model refuses")
    threshold = fit_threshold(records, table, max_risk=max_risk, confidence=confidence)
    return Result(table, given.checkpoint, threshold=threshold, bars=_own_bars(routing))


def _own_bars(routing: RoutingTable) -> tuple[str, ...]:
    return tuple(route.label for route in routing.routes if route.min_top_probability is not None)


def _say_left_out(count: int, why: str) -> None:
    if count:
        say(f"{count} {'row is' if count == 1 else 'rows are'} left out: {why}")


def from_scores(file: Path, fitting: Fitting, max_risk: float | None, confidence: float) -> Result:
    """Fit temperatures to a score file, a threshold to it, or to each its half.

    Raises:
        InvalidInputError: The file cannot be read, or there is nothing to fit.
        CalibrationError: No temperature could be fitted, or the given ones belong to another checkpoint.
    """
    from ko_decision_tools.calibration import TemperatureTable
    from ko_decision_tools.fitting import fit_temperatures, fit_threshold, halves
    from ko_decision_tools.records import ScoreFile

    scores = ScoreFile.read(file)
    records = _of_tasks(scores.records, fitting.tasks, file)
    checkpoint, fingerprint = str(scores.header.get("checkpoint")), scores.header.get("fingerprint")
    if fitting.calibration is not None:
        if max_risk is None:
            raise InvalidInputError("--calibration", "leaves nothing to fit", "Pass --max-risk, or leave it out.")
        table = TemperatureTable.read(fitting.calibration)
        if fingerprint is not None:
            table.check_made_for(fingerprint)
        return Result(
            table, checkpoint, threshold=fit_threshold(records, table, max_risk=max_risk, confidence=confidence)
        )
    first, second = (records, []) if max_risk is None else halves(records)
    fit = fit_temperatures(
        first, checkpoint=fingerprint, about=_about(scores.header), soft=fitting.soft, tasks_only=fitting.tasks_only
    )
    if max_risk is None:
        return Result(fit.table, checkpoint, fit.report)
    say(f"temperatures on {len(first)} rows, the threshold on the other {len(second)}: no group is in both")
    threshold = fit_threshold(second, fit.table, max_risk=max_risk, confidence=confidence)
    return Result(fit.table, checkpoint, fit.report, threshold)


def _of_tasks(records: Sequence[Record], tasks: Sequence[str], file: Path) -> list[Record]:
    known = {record.task for record in records}
    missing = [task for task in tasks if task not in known]
    if missing or not records:
        fix = f"It has: {', '.join(sorted(known)) or 'no rows'}."
        raise InvalidInputError(str(file), f"has no task {missing[0]!r}" if missing else "has no rows", fix)
    return [record for record in records if not tasks or record.task in tasks]


def _about(header: Any) -> dict[str, Any]:
    """What a calibration's evidence says of the scores behind it, and today's date."""
    from datetime import UTC, datetime

    kept = {name: header[name] for name in ("checkpoint", "revision", "suite", "split") if header.get(name) is not None}
    return {**kept, "scored": header.get("date"), "date": datetime.now(UTC).date().isoformat()}
