"""What people see: a spinner, a progress bar and summaries on stderr, decisions and plans on stdout.

Texts and labels are shown as they are: no markup, no emoji codes, no colouring of what looks like a number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from ko_decision_tools.cli.tally import Tally

_BAR = 24


def console(*, stderr: bool = False) -> Console:
    """A console that changes nothing in what it prints."""
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False, soft_wrap=True)


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner while something takes long; silent where nobody watches."""
    with console(stderr=True).status(what):
        yield


@contextmanager
def progress(what: str, *, total: int, done: int) -> Iterator[Callable[[int], None]]:
    """A progress bar; the yielded function moves it on by so many rows. Where nobody watches, only its end is shown."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console(stderr=True)) as bar:
        task = bar.add_task(what, total=total, completed=done)
        yield lambda rows: bar.advance(task, rows)


def summary(tally: Tally, *, escalate_to: str, labelled: bool, notes: Sequence[str]) -> None:
    """The table at the end of a run, on stderr."""
    err = console(stderr=True)
    err.print(_rows_by_route(tally, escalate_to, labelled))
    answered = tally.answered.total()
    err.print(
        f"{tally.rows} rows: {answered} answered (coverage {tally.coverage:.1%}), {tally.abstained} abstained, "
        f"{tally.failed} failed"
    )
    if labelled:
        err.print(
            f"accuracy: {tally.accuracy:.1%} over all {tally.labelled} labelled rows, "
            f"{_share_of_answered(tally)} among the {tally.labelled_answered} answered"
        )
    if tally.strange_labels:
        names = ", ".join(sorted(tally.strange_labels)[:5])
        err.print(f"(a row whose label is no route, here {names}, counts as right only when no route was accepted)")
    for note in notes:
        err.print(note)


def _share_of_answered(tally: Tally) -> str:
    return f"{tally.accuracy_answered:.1%}" if tally.labelled_answered else "nothing to count"


def _rows_by_route(tally: Tally, escalate_to: str, labelled: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("route")
    for name in ("rows", "share", *(("right",) if labelled else ())):
        table.add_column(name, justify="right")

    def add(name: str, count: int, right: str) -> None:
        share = count / tally.rows if tally.rows else 0.0
        table.add_row(name, str(count), f"{share:.1%}", *((right,) if labelled else ()))

    for route in tally.routes:
        add(route, tally.answered[route], str(tally.right_answered[route]))
    add(f"{escalate_to} (abstained)", tally.abstained, "")
    if tally.failed:
        add(f"{escalate_to} (failed)", tally.failed, "")
    return table


def decision(answer: str, found: Mapping[str, Any], *, names: Sequence[str] | None = None) -> None:
    """One decision on stdout.

    Args:
        answer: The first line.
        found: ``Decision.to_dict()``.
        names: What to call the options; their labels by default.
    """
    out = console()
    out.print(answer)
    out.print(_probabilities(dict(zip(names or found["probabilities"], found["probabilities"].values(), strict=True))))
    for reason in found["reasons"]:
        out.print(f"abstained: {reason}")
    source = found["provenance"]
    if source["truncation"]:
        lost = source["truncation"]
        out.print(f"cut: only the first {lost['kept']} of {lost['state_tokens']} tokens of the text were read")
    calibrated = "calibrated" if found["calibrated"] else "not calibrated"
    out.print(f"{calibrated}: temperature {source['temperature']:g} ({source['temperature_source']})")


def _probabilities(probabilities: Mapping[str, float]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 2))
    for label, probability in probabilities.items():
        table.add_row(label, f"{probability:.3f}", "█" * round(probability * _BAR))
    return table


__all__ = ["console", "decision", "progress", "summary", "working"]
