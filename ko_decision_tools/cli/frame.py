"""What every command does when something goes wrong: one line on stderr, and an exit code that scripts can use."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

from ko_decision_tools.errors import CalibrationError, CheckpointNotFoundError, InvalidInputError, KoDecisionError

FAILURE, MISUSE, INTERRUPTED = 1, 2, 130


def say(message: str) -> None:
    """One line on stderr; stdout belongs to results."""
    typer.echo(message, err=True)


def exit_code(error: Exception) -> int:
    """2 for what the caller can correct in the command, 1 for everything else.

    >>> exit_code(InvalidInputError("--out", "exists", "Pass --force.")), exit_code(OSError("disk full"))
    (2, 1)
    """
    misuse = InvalidInputError, CheckpointNotFoundError, CalibrationError
    return MISUSE if isinstance(error, misuse) else FAILURE


def one_line(error: Exception) -> str:
    """An error as a user reads it.

    >>> one_line(FileNotFoundError(2, "No such file or directory", "a.csv"))
    'error: a.csv: No such file or directory'
    """
    if isinstance(error, KoDecisionError):
        text = str(error)
    elif isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    else:
        text = f"{type(error).__name__}: {error} (this is a bug; `ko-decision --debug …` shows where)"
    return f"error: {' '.join(text.split())}"


class Command(TyperCommand):
    """A command whose errors are reported, not shown as tracebacks (unless ``--debug`` stands before the command)."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command.

        Raises:
            typer.Exit: It failed; the line is already on stderr.
        """
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, BrokenPipeError):  # the last one is `| head`, and no error
            raise
        except KeyboardInterrupt:
            say("interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            if ctx.find_root().params.get("debug"):
                raise
            say(one_line(error))
            raise typer.Exit(exit_code(error)) from error
