"""``ko-decision shadow-report``: what the log of shadow mode says before you go live."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ko_decision_tools.cli.report import Force, JsonFile, as_json, print_tables, refuse_existing, write
from ko_decision_tools.errors import InvalidInputError

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from ko_decision_tools.evaluation.shadow import ShadowPoint, ShadowReport, ShadowRow

_TEXT = 60
_PAIRS = 8


def shadow_report(
    logs: Annotated[list[Path], typer.Argument(metavar="LOG...", help="JSON Lines that Shadow wrote.")],
    threshold: Annotated[
        list[float] | None,
        typer.Option("--threshold", min=0, max=1, help="Instead of the usual ones; repeat for more."),
    ] = None,
    cost: Annotated[
        float | None, typer.Option("--cost", min=0, help="Of one call of today's path, in any unit.")
    ] = None,
    disagreements: Annotated[int, typer.Option("--disagreements", min=0, help="How many to list.")] = 10,
    json_file: JsonFile = None,
    force: Force = False,
) -> None:
    """Compare the model with today's router or LLM, from the log that shadow mode wrote.

    Coverage is the share of the inputs that the model would have answered from a threshold up; the rest goes to today's
    path as before. Agreement is not accuracy: where the two differ, either may be wrong. Read the disagreements.

    Examples:

    ko-decision shadow-report shadow.jsonl

    ko-decision shadow-report shadow-*.jsonl --threshold 0.7 --threshold 0.9 --cost 0.4 --json report.json
    """
    refuse_existing({"--json": json_file}, force=force)
    from ko_decision_tools.evaluation.shadow import THRESHOLDS, shadow_report

    rows, broken = _read(logs)
    found = shadow_report(rows, threshold or THRESHOLDS)
    print_tables(_tables(found, broken=broken, cost=cost, listed=disagreements))
    if json_file is not None:
        write("--json", json_file, as_json(found.to_dict() | {"unreadable_lines": broken}))


def _read(logs: Sequence[Path]) -> tuple[list[ShadowRow], int]:
    from ko_decision_tools.evaluation.shadow import read_shadow_log

    rows: list[ShadowRow] = []
    broken = 0
    for log in logs:
        try:
            with log.open(encoding="utf-8", errors="replace") as lines:
                more, cut = read_shadow_log(lines, str(log))
        except OSError as error:
            raise InvalidInputError(str(log), f"cannot be read ({error.strerror})", "Check the path.") from None
        rows += more
        broken += cut
    return rows, broken


def _tables(found: ShadowReport, *, broken: int, cost: float | None, listed: int) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [Text(_head(found)), _points(found, cost)]
    parts += [Text(f"! {note}", style="yellow") for note in _notes(found, broken)]
    if found.pairs:
        parts += [Text(""), _pairs(found)]
    if found.disagreements and listed:
        parts += [Text(""), Text("the surest disagreements (today's → the model's):")]
        parts += [Text(f"  {_line(row)}") for row in found.disagreements[:listed]]
    parts.append(Text("Agreement is not accuracy: where the two differ, either may be wrong.", style="dim"))
    return Group(*parts)


def _head(found: ShadowReport) -> str:
    speed = "" if found.judge_ms is None else f"; the model took {found.judge_ms:.0f} ms (median)"
    failed = f", {found.failed} of them the model could not judge" if found.failed else ""
    return f"{found.rows} rows{failed}{speed}"


def _points(found: ShadowReport, cost: float | None) -> Table:
    money = () if cost is None else ("saved",)
    table = _table("threshold", "answered", "coverage", "agreement", "95 %", "calls saved", "seconds saved", *money)
    for point in (*found.points, found.current):
        interval = point.interval
        table.add_row(
            "as logged" if point.threshold is None else f"{point.threshold:g}",
            str(point.answered),
            f"{point.coverage:.1%}",
            _share(point),
            "–" if interval is None else f"{interval[0]:.1%} – {interval[1]:.1%}",
            str(point.saved_calls),
            f"{point.saved_ms / 1_000:.1f}",
            *(() if cost is None else (f"{point.saved_calls * cost:,.2f}",)),
        )
    return table


def _share(point: ShadowPoint) -> str:
    if point.agreement is None:
        return "–"
    return f"{point.agreement:.1%} ({point.agreed}/{point.compared})"


def _pairs(found: ShadowReport) -> Table:
    table = _table("today's", "the model's", "rows")
    for today, guess, count in found.pairs[:_PAIRS]:
        table.add_row(today, guess, str(count))
    return table


def _notes(found: ShadowReport, broken: int) -> Iterator[str]:
    if found.live:
        yield f"{found.live} rows are from after going live: what the model answered there cannot be compared any more"
    if found.unlabelled:
        yield f"on {found.unlabelled} rows today's path gave no label: set as_label"
    if found.repeats:
        yield f"{found.repeats} rows repeat a text: the intervals take them for new ones and are too narrow"
    if broken:
        yield f"{broken} lines are not readable and were left out"


def _line(row: ShadowRow) -> str:
    text = " ".join((row.text or "").split())
    shown = text if len(text) <= _TEXT else text[: _TEXT - 1] + "…"
    return f"{row.top_probability:.3f}  {row.today} → {row.guess}  {row.id or ''}  {shown}".rstrip()


def _table(first: str, *rest: str) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column(Text(first))
    for name in rest:
        table.add_column(Text(name), justify="right", no_wrap=True)
    return table
