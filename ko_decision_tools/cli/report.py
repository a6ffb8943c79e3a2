"""``ko-decision report``: what a score file says, as a table, JSON and one HTML page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ko_decision_tools.cli.frame import say
from ko_decision_tools.errors import InvalidInputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ko_decision_tools.calibration import TemperatureTable
    from ko_decision_tools.records import ScoreFile

_PIPED_WIDTH = 160  # where stdout is a file, nothing has to fit a window

Seed = Annotated[int, typer.Option("--seed", min=0, help="Of the bootstrap and the noise floor.")]
Replicates = Annotated[int, typer.Option("--replicates", min=100, help="Bootstrap replicates.")]
Risk = Annotated[float, typer.Option("--risk", min=0, max=1, help="Read the coverage off at this risk.")]
Coverage = Annotated[float, typer.Option("--coverage", min=0, max=1, help="Read the accuracy off at this coverage.")]
Foreign = Annotated[
    bool, typer.Option("--allow-foreign-calibration", help="Accept temperatures fitted on another checkpoint.")
]
JsonFile = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write every number, unrounded.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the files that are written.")]


def report(
    scores: Annotated[Path, typer.Argument(help="A score file from `ko-decision evaluate`.")],
    calibration: Annotated[
        Path | None, typer.Option("--calibration", metavar="FILE", help="Show every number before and after it.")
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write one self-contained page.")] = None,
    json_file: JsonFile = None,
    mistakes: Annotated[int, typer.Option("--mistakes", min=0, help="Worst answers to list per task.")] = 12,
    risk: Risk = 0.05,
    coverage: Coverage = 0.6,
    replicates: Replicates = 10_000,
    seed: Seed = 0,
    allow_foreign_calibration: Foreign = False,
    force: Force = False,
) -> None:
    """Measure a score file: accuracy, calibration, risk and coverage, each with a 95 % interval.

    Examples:

    ko-decision report scores.jsonl

    ko-decision report scores.jsonl --calibration calibration.json --html report.html --json report.json

    The page and the JSON quote the worst answers with their texts; --mistakes 0 leaves them out.
    """
    from ko_decision_tools.evaluation.lab import require_lab

    require_lab()
    targets = {"--html": html, "--json": json_file}
    refuse_existing(targets, force=force)
    from ko_decision_tools.cli import show
    from ko_decision_tools.evaluation.metrics import Targets
    from ko_decision_tools.evaluation.page import render_page
    from ko_decision_tools.evaluation.report import build_report
    from ko_decision_tools.evaluation.slices import Settings
    from ko_decision_tools.evaluation.terminal import report_tables
    from ko_decision_tools.records import ScoreFile

    file = ScoreFile.read(scores)
    table = read_calibration(calibration, file, foreign=allow_foreign_calibration)
    settings = Settings(seed=seed, replicates=replicates, targets=Targets(risk, coverage), mistakes=mistakes)
    with show.working("measuring"):
        found = build_report(file, table=table, settings=settings)
    print_tables(report_tables(found))
    if json_file is not None:
        write("--json", json_file, as_json(found.to_dict()))
    if html is not None:
        write("--html", html, render_page(found))


def read_calibration(path: Path | None, file: ScoreFile, *, foreign: bool) -> TemperatureTable | None:
    """The temperatures, if any, checked to be made for the checkpoint that was scored.

    Raises:
        CalibrationError: It cannot be read, or was fitted on another checkpoint and ``foreign`` is false.
    """
    if path is None:
        return None
    from ko_decision_tools.calibration import TemperatureTable
    from ko_decision_tools.errors import CalibrationError

    table = TemperatureTable.read(path)
    fingerprint = file.header.get("fingerprint")
    if table.checkpoint is not None and fingerprint is not None and table.checkpoint != fingerprint and not foreign:
        raise CalibrationError(
            f"{path} was fitted on checkpoint {table.checkpoint}, the scores are of {fingerprint}: fit a new one with "
            "`ko-decision fit`, or pass --allow-foreign-calibration if you know that it applies"
        )
    return table


def refuse_existing(targets: Mapping[str, Path | None], *, force: bool) -> None:
    """Before anything slow: an output that exists is kept unless ``force``.

    Raises:
        InvalidInputError: One exists.
    """
    for option, path in targets.items():
        if path is not None and path.exists() and not force:
            raise InvalidInputError(option, "exists already", "Pass --force to overwrite it.", value=str(path))


def write(option: str, path: Path, text: str) -> None:
    """Write a result and say so.

    Raises:
        InvalidInputError: It cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInputError(option, f"cannot be written ({error.strerror})", "Choose another file.") from error
    say(f"wrote {path}")


def as_json(found: Mapping[str, Any]) -> str:
    """Indented, raw Hangul, no NaN."""
    return json.dumps(found, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def print_tables(tables: RenderableType) -> None:
    """Tables on stdout: as wide as the window, or wide enough for a file."""
    from ko_decision_tools.cli import show

    out = show.console()
    out.soft_wrap = False  # notes wrap at words; nothing here is copied back into a command
    if not out.is_terminal:
        out.width = _PIPED_WIDTH
    out.print(tables)
