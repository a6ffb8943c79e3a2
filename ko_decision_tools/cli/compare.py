"""``ko-decision compare``: two models on the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ko_decision_tools.cli.report import (
    Coverage,
    Force,
    Foreign,
    JsonFile,
    Replicates,
    Risk,
    Seed,
    as_json,
    print_tables,
    read_calibration,
    refuse_existing,
    write,
)


def compare(
    a: Annotated[Path, typer.Argument(help="The first model's score file.")],
    b: Annotated[Path, typer.Argument(help="The second model's, of the same rows.")],
    calibration_a: Annotated[
        Path | None, typer.Option("--calibration-a", metavar="FILE", help="Temperatures for A; T = 1 without.")
    ] = None,
    calibration_b: Annotated[
        Path | None, typer.Option("--calibration-b", metavar="FILE", help="Temperatures for B; T = 1 without.")
    ] = None,
    json_file: JsonFile = None,
    risk: Risk = 0.05,
    coverage: Coverage = 0.6,
    replicates: Replicates = 10_000,
    seed: Seed = 0,
    allow_foreign_calibration: Foreign = False,
    force: Force = False,
) -> None:
    """Paired differences B − A on the rows that both files have, and which of them exclude zero.

    Example:

    ko-decision compare old.jsonl new.jsonl --calibration-a old.json --calibration-b new.json
    """
    from ko_decision_tools.evaluation.lab import require_lab

    require_lab()
    refuse_existing({"--json": json_file}, force=force)
    from ko_decision_tools.cli import show
    from ko_decision_tools.evaluation.compare import compare as compared
    from ko_decision_tools.evaluation.metrics import Targets
    from ko_decision_tools.evaluation.slices import Settings
    from ko_decision_tools.evaluation.terminal import comparison_tables
    from ko_decision_tools.records import ScoreFile

    first, second = ScoreFile.read(a), ScoreFile.read(b)
    settings = Settings(seed=seed, replicates=replicates, targets=Targets(risk, coverage))
    tables = (
        read_calibration(calibration_a, first, foreign=allow_foreign_calibration),
        read_calibration(calibration_b, second, foreign=allow_foreign_calibration),
    )
    with show.working("comparing"):
        found = compared(first, second, table_a=tables[0], table_b=tables[1], settings=settings)
    print_tables(comparison_tables(found))
    if json_file is not None:
        write("--json", json_file, as_json(found.to_dict()))
