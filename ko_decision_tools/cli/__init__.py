"""``ko-decision``: the command line.

To add a command, write a module with one function whose docstring is its help, and list the function in ``COMMANDS``.
Whatever is slow to import (torch, transformers, langchain, pydantic, rich) belongs inside the function: ``--help``
imports every module listed here and has to stay fast.
"""

from __future__ import annotations

from typing import Annotated

import typer

from ko_decision_tools import __version__
from ko_decision_tools.cli import ask, compare, evaluate, export, fit, plan, report, route, shadow_report, train
from ko_decision_tools.cli.frame import Command

COMMANDS = (
    route.route,
    ask.classify,
    ask.gate,
    ask.rate,
    plan.plan,
    evaluate.evaluate,
    fit.fit,
    report.report,
    compare.compare,
    train.train,
    export.export,
    shadow_report.shadow_report,
)

app = typer.Typer(
    name="ko-decision",
    help="Calibrated Korean decisions: route tables of texts, classify, gate, rate.",
    epilog="Exit codes: 0 done, 1 failure (or some rows failed), 2 misuse, 130 interrupted.",
    no_args_is_help=True,
    rich_markup_mode=None,  # help in boxes costs another half second of imports
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"ko-decision {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Options of the program itself; they stand before the command."""


for _command in COMMANDS:
    app.command(cls=Command)(_command)


def main() -> None:
    """The console script."""
    app()


__all__ = ["COMMANDS", "app", "main"]
