"""Options that several commands share. Each is a type for a parameter of a command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ko_decision_tools.cli.tables import Form

Checkpoint = Annotated[
    str, typer.Option("--checkpoint", metavar="NAME", help='"mini" (bundled), a folder, or a hub repo id.')
]
Revision = Annotated[str | None, typer.Option("--revision", help="Commit, tag or branch of a hub repo.")]
Calibration = Annotated[
    Path | None,
    typer.Option("--calibration", metavar="FILE", help="Temperatures to use instead of the checkpoint's own."),
]
Device = Annotated[str | None, typer.Option("--device", help="cpu, cuda or mps; the best there is by default.")]
NumThreads = Annotated[int | None, typer.Option("--num-threads", min=1, help="Threads torch may use.")]
MinTopProbability = Annotated[
    float | None,
    typer.Option("--min-top-probability", min=0, max=1, help="Abstain below it (0.6 by default; 0 never abstains)."),
]

InputForm = Annotated[
    Form | None, typer.Option("--format", help="Of the input; by its extension .csv, .jsonl or .txt by default.")
]
Encoding = Annotated[
    str, typer.Option("--encoding", help="Of the input: utf-8 (with or without BOM), cp949, euc-kr, …")
]
TextColumn = Annotated[str, typer.Option("--text-column", help="Column (or JSON key) that holds the text.")]

LabelColumn = Annotated[str, typer.Option("--label-column", help="Column of --data that holds the label.")]
Data = Annotated[Path | None, typer.Option("--data", metavar="FILE", help="Your own rows: CSV, TSV, JSON or JSONL.")]
DataRoutes = Annotated[
    Path | None, typer.Option("--routes", metavar="YAML", help="Routing table that --data's labels belong to.")
]
DataQuestion = Annotated[
    str | None, typer.Option("--question", "-q", help="What is asked about --data's texts, in Korean.")
]

Question = Annotated[str, typer.Option("--question", "-q", help="The whole question, in Korean.")]
Json = Annotated[bool, typer.Option("--json", help="Print one line of JSON with everything, unrounded.")]
Text = Annotated[str, typer.Argument(metavar="TEXT", help="The text to judge; - reads it from standard input.")]
