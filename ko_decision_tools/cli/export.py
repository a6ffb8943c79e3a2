"""``ko-decision export``: a run's weights as a checkpoint any stock ``transformers`` loads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ko_decision_tools.cli.train import Stored, conclude, quiet_transformers


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a `ko-decision train` run, finished or not.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the checkpoint.")],
    dtype: Stored = "float16",
) -> None:
    """Export a run's newest weights into the stock classification head, with the check and a model card.

    `train` does this at its end; use this for another precision, or to try a run that is still going.

    Examples:

    ko-decision export run --out run/float32 --dtype float32
    """
    quiet_transformers()
    from ko_decision_tools.training.publish import export_run

    conclude(export_run(run, out, dtype=dtype), out)
