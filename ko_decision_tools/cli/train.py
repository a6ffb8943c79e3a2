"""``ko-decision train``: make a checkpoint by a recipe, or fine-tune one on your own rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ko_decision_tools.cli import options
from ko_decision_tools.cli.frame import INTERRUPTED, say
from ko_decision_tools.errors import InvalidInputError

if TYPE_CHECKING:
    from ko_decision_tools.training.recipe import Recipe, Task

OWN_ROWS = "own-rows"
NEGATIVES = 7  # wrong options per row: with more routes than that, all of them at every step would only cost time

Stored = Annotated[
    Literal["float16", "bfloat16", "float32"], typer.Option("--dtype", help="Precision of the exported weights.")
]


def train(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the run; a new one, or --resume.")],
    recipe: Annotated[
        str | None, typer.Argument(metavar="[RECIPE]", help="A YAML file, or: roberta-large, mini, own-rows.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", metavar="DIR", help="The suites' files; from the hub by default.")
    ] = None,
    data: options.Data = None,
    routes: options.DataRoutes = None,
    question: options.DataQuestion = None,
    text_column: options.TextColumn = "text",
    label_column: options.LabelColumn = "label",
    encoding: options.Encoding = "utf-8",
    base: Annotated[
        str | None, typer.Option("--base", metavar="NAME", help="Start from this instead of the recipe's base.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Instead of the recipe's.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in --out after an interruption.")
    ] = False,
    dtype: Stored = "float16",
    device: options.Device = None,
    num_threads: options.NumThreads = None,
) -> None:
    """Train by a recipe, choose the best weights, export them, and write a model card.

    With --data and no recipe the bundled checkpoint is fine-tuned on your rows; with both, they are one more task.

    Examples:

    ko-decision train --data tickets.csv --routes routes.yaml --out run

    ko-decision train roberta-large --data-dir ../shared/data --out run

    ko-decision train roberta-large --data-dir ../shared/data --out run --resume
    """
    own = None if data is None else _own(data, routes, question, text_column, label_column, encoding)
    if own is None and (routes is not None or question is not None):
        raise InvalidInputError("--data", "is missing", "--routes and --question say how to ask about its rows.")
    chosen = _recipe(recipe, own, base=base, seed=seed)
    quiet_transformers()
    from ko_decision_tools.training.progress import ShowProgress
    from ko_decision_tools.training.run import train as run

    try:
        records = run(
            chosen,
            out,
            data_dir=data_dir,
            resume=resume,
            device=device,
            threads=num_threads,
            dtype=dtype,
            callbacks=lambda stage: [ShowProgress(stage)],
        )
    except KeyboardInterrupt:
        say(f"interrupted: go on from the last checkpoint with --out {out} --resume")
        raise typer.Exit(INTERRUPTED) from None
    conclude(records, out / "checkpoint")


def conclude(records: dict[str, Any], folder: Path) -> None:
    """What came out, on stderr; the checkpoint's folder on stdout."""
    nothing: dict[str, Any] = {"tasks": {}}
    dev = next((stage["dev"] for stage in reversed(records["stages"]) if stage["dev"]), nothing)
    for task, result in dev["tasks"].items():
        told = f"{result['metric']} {result['value']:.3f}, always the commonest answer {result['baseline']:.3f}"
        say(f"{task}: {told} ({result['rows']} rows, also used to choose the weights)")
    report = records["export"]
    say(f"exported: the folded head moves a probability by at most {report['fold_difference']:.0e}")
    say(f"next: ko-decision evaluate --checkpoint {folder} …, then report and fit")
    typer.echo(str(folder))


def _own(
    data: Path, routes: Path | None, question: str | None, text_column: str, label_column: str, encoding: str
) -> Task:
    from ko_decision_tools.suites.own import INSTRUCTIONS
    from ko_decision_tools.training.recipe import Task

    if routes is not None and question is not None:
        raise InvalidInputError("--question", "does not go with --routes", "The routing table holds the question.")
    return Task(
        file=data.resolve(),  # absolute: a recipe's files are looked for in the data folder first
        routes=routes and routes.resolve(),
        instructions=question or INSTRUCTIONS,
        text_column=text_column,
        label_column=label_column,
        encoding=encoding,
        negatives=NEGATIVES,
    )


def _recipe(name: str | None, own: Task | None, *, base: str | None, seed: int | None) -> Recipe:
    from ko_decision_tools.training.recipe_files import read_recipe

    if name is None and own is None:
        raise InvalidInputError("recipe", "is missing", "Name one (roberta-large, mini, a file), or pass --data.")
    recipe = read_recipe(name or OWN_ROWS)
    if own is not None:
        task = own.file.stem if own.file else "rows"
        alone = recipe.name == OWN_ROWS
        recipe = recipe.model_copy(update={"tasks": {task: own}}) if alone else recipe.with_task(task, own)
    changes: dict[str, Any] = {} if seed is None else {"seed": seed}
    if base is not None:
        changes["base"] = recipe.base.model_copy(update={"model": base, "revision": None, "licence": None})
    return recipe.model_copy(update=changes)


def quiet_transformers() -> None:
    """Its bars and its advice would run into ours."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()
