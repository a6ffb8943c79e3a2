"""``ko-decision route``: a table of texts in, the same table with a route per row out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ko_decision_tools.cli import models, options
from ko_decision_tools.cli.frame import FAILURE, say
from ko_decision_tools.cli.routing import route_rows
from ko_decision_tools.cli.sheets import Routed, sheet_for
from ko_decision_tools.cli.sinks import Sink, open_sink
from ko_decision_tools.cli.tables import Table, read_table
from ko_decision_tools.cli.tally import Tally
from ko_decision_tools.errors import InvalidInputError

if TYPE_CHECKING:
    from ko_decision_tools.model import KoDecisionModel
    from ko_decision_tools.router import DecisionRouter
    from ko_decision_tools.router.table import RoutingTable

CHUNK: Final = 64  # rows routed, written and flushed together: what a crash can cost


def route(
    file: Annotated[Path, typer.Argument(help="CSV with a header, JSON Lines or plain lines; - is standard input.")],
    routes: Annotated[Path, typer.Option("--routes", metavar="YAML", help="The routing table.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="A .csv or .jsonl file; - is standard output.")],
    checkpoint: options.Checkpoint = "mini",
    revision: options.Revision = None,
    form: options.InputForm = None,
    encoding: options.Encoding = "utf-8",
    text_column: options.TextColumn = "text",
    label_column: Annotated[str | None, typer.Option("--label-column", help="Column with the right route.")] = None,
    min_top_probability: options.MinTopProbability = None,
    calibration: options.Calibration = None,
    device: options.Device = None,
    num_threads: options.NumThreads = None,
    prefix: Annotated[str, typer.Option("--prefix", help="Put before the names of the added columns.")] = "",
    resume: Annotated[bool, typer.Option("--resume", help="Go on after the rows that OUT already holds.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite OUT.")] = False,
) -> None:
    """Route every row of FILE.

    OUT gets one row per row of FILE, in order: all its columns, then route, top_probability, abstained, reasons and
    probabilities (JSON). A row that no route is sure enough for abstains: its route is the routing table's escalate_to
    (사람 by default). --min-top-probability is the bar for routes that have none of their own in the table.

    A row that cannot be judged (a missing cell, broken JSON, an empty text) is kept too: it goes to escalate_to, its
    reason begins with "row:" ("model:" if scoring failed), and the command ends with exit code 1. Blank lines are no
    rows. Cells are left as they are, formulas included: mind where you open the file. It is UTF-8, and starts with a
    byte-order mark if FILE does.

    Rows are written as they are routed. After a crash or Ctrl-C run the same command with --resume.
    """
    from ko_decision_tools.router import load_routing_table

    if resume and force:
        raise InvalidInputError("--resume", "and --force exclude each other", "Pass one of them.")
    table = load_routing_table(routes)
    source = read_table(file, form=form, encoding=encoding, text_column=text_column)
    if label_column is not None:
        source.check_column(label_column, "--label-column")
    run = Run(table, source, label_column)
    with open_sink(out, sheet_for(out, source, prefix=prefix), source, resume=resume, force=force) as sink:
        run.count_kept(sink)
        with _telling_what_is_kept(sink, out):
            if sink.rows < len(source.rows):
                model = models.load_model(
                    checkpoint, revision=revision, calibration=calibration, device=device, num_threads=num_threads
                )
                run.route_rest(model, sink, min_top_probability)
            else:
                sink.write([])
    run.show()
    if run.tally.failed:
        say(f"error: {run.tally.failed} of {run.tally.rows} rows could not be judged; their reasons are in the output")
        raise typer.Exit(FAILURE)


class Run:
    """One run: a routing table over an input."""

    def __init__(self, table: RoutingTable, source: Table, label_column: str | None) -> None:
        self.table, self.source, self.label_column = table, source, label_column
        self.tally = Tally(tuple(route.label for route in table.routes))
        self.notes: list[str] = []

    def count_kept(self, sink: Sink) -> None:
        """Count the rows of an earlier run.

        Raises:
            InvalidInputError: One of them went to a route that this table does not have.
        """
        known = {*self.tally.routes, self.table.escalate_to}
        for index, kept in enumerate(sink.kept):
            if kept.route not in known:
                raise InvalidInputError(
                    "--out",
                    f"holds the route {kept.route!r}, which is not in --routes",
                    "Pass --force, or another file.",
                )
            self.tally.add(kept.route, label=self._label(index), abstained=kept.abstained, failed=kept.failed)

    def route_rest(self, model: KoDecisionModel, sink: Sink, min_top_probability: float | None) -> None:
        """Route and write what is not in the sink yet, chunk by chunk."""
        from ko_decision_tools.cli import show

        router = _router(model, self.table, min_top_probability)
        started, before = time.perf_counter(), sink.rows
        with show.progress("routing", total=len(self.source.rows), done=before) as advance:
            while sink.rows < len(self.source.rows):
                self._route_chunk(router, sink, advance)
        seconds = time.perf_counter() - started
        speed = (sink.rows - before) / seconds
        temperature = model.temperatures.lookup("choice", len(self.table.routes), task=self.table.task)
        calibrated = "" if temperature.calibrated else ", not calibrated for this question"
        self.notes = [
            f"{speed:.1f} decisions per second · {model.model} · temperature {temperature.value:g} "
            f"({temperature.source}{calibrated})"
        ]

    def _route_chunk(self, router: DecisionRouter, sink: Sink, advance: Callable[[int], None]) -> None:
        first = sink.rows
        routed = route_rows(router, self.source.rows[first : first + CHUNK])
        sink.write(routed)
        for index, item in enumerate(routed, start=first):
            self._count(index, item)
        advance(len(routed))

    def _count(self, index: int, item: Routed) -> None:
        label = self._label(index)
        self.tally.add(item.route, label=label, abstained=item.abstained, failed=item.failed, cut=item.cut)

    def _label(self, index: int) -> str | None:
        if self.label_column is None:
            return None
        label = self.source.rows[index].values.get(self.label_column)
        return None if label is None else str(label).strip()

    def show(self) -> None:
        """Print the summary."""
        from ko_decision_tools.cli import show

        if self.tally.cut:
            self.notes.append(f"{self.tally.cut} texts were longer than the model reads; only their beginning counted")
        show.summary(
            self.tally, escalate_to=self.table.escalate_to, labelled=self.label_column is not None, notes=self.notes
        )


def _router(model: KoDecisionModel, table: RoutingTable, min_top_probability: float | None) -> DecisionRouter:
    from ko_decision_tools.router import DecisionRouter

    model.plan("글", table.to_choice())  # a route that is too long fails here once, not in every row
    given = {} if min_top_probability is None else {"min_top_probability": min_top_probability}
    return DecisionRouter.from_table(table, model=model, on_error="raise", **given)


@contextmanager
def _telling_what_is_kept(sink: Sink, out: Path) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:  # `--out - | head`: whoever read it knows
        raise
    except BaseException:
        if sink.rows and str(out) != "-":
            say(f"{sink.rows} of the rows are kept in {out}; run the same command with --resume to go on")
        raise
