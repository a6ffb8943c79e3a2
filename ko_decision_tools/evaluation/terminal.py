"""Reports and comparisons as rich tables. Texts from the score file are shown as they are, never as markup."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ko_decision_tools.evaluation import formats
from ko_decision_tools.evaluation.compare import ComparedSlice, Comparison, Difference
from ko_decision_tools.evaluation.metrics import METRICS, Targets
from ko_decision_tools.evaluation.report import FITTED, RAW, Report, Slice
from ko_decision_tools.evaluation.slices import Estimate

_OVERVIEW = (
    "accuracy",
    "accuracy_with_none",
    "score_mae",
    "nll",
    "ece10",
    "soft_nll",
    "soft_ece10",
    "coverage_at_risk",
)
_STYLES = {"better": "green", "worse": "red", "": ""}


def report_tables(report: Report) -> Group:
    """An overview, then each task's metrics and where answering would stop."""
    parts: list[RenderableType] = [_overview(report)]
    for task in report.of("task"):
        parts += [Text(""), _task(task, report.settings.targets), *_selection(task)]
        parts += [Text(f"! {note}", style="yellow") for note in task.notes]
    parts += [Text(f"! {note}", style="yellow") for note in report.notes]
    parts.append(Text(_method(report), style="dim"))
    return Group(*parts)


def comparison_tables(comparison: Comparison) -> Group:
    """One table per slice: A, B and the paired difference."""
    parts: list[RenderableType] = [Text(_joined(comparison))]
    for part in comparison.slices:
        parts += [Text(""), _compared(part, comparison.settings.targets)]
    parts.append(
        Text(
            "difference = B − A, with its paired 95 % interval; * excludes zero. "
            "Among many metrics, one in twenty would do so by chance.",
            style="dim",
        )
    )
    return Group(*parts)


def _overview(report: Report) -> Table:
    present = [key for key in _OVERVIEW if any(key in part.best.metrics for part in report.slices)]
    table = Table(title=_title(report), title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column("")
    table.add_column("rows", justify="right")
    for key in present:
        table.add_column(formats.title(key, report.settings.targets), justify="right")
    for part in report.slices:
        name = part.name if part.kind != "type" else f"all {part.name}"
        cells = [Text(_before_after(part, key)) for key in present]
        table.add_row(Text(name), f"{part.rows:,}", *cells, style="bold" if part.kind == "macro" else "")
    return table


def _before_after(part: Slice, key: str) -> str:
    """``0.098 → 0.028`` where the temperature changes the number, else one value."""
    shown = [
        formats.number(key, view.metrics[key].value)
        for view in (part.views.get(RAW), part.views.get(FITTED))
        if view is not None and key in view.metrics
    ]
    if not shown:
        return formats.MISSING
    star = "*" if key == "ece10" and part.argmax_gold is not None else ""
    return " → ".join(dict.fromkeys(shown)) + star


def _task(task: Slice, targets: Targets) -> Table:
    heading = f"{task.name}  {task.rows:,} rows, {task.clusters:,} clusters"
    table = Table(title=Text(heading), title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column("")
    for name in task.views:
        table.add_column("T = 1" if name == RAW else fitted_label(task))
    if task.change:
        table.add_column("change")
    for key in task.views[RAW].metrics:
        cells = [Text(_cell(task, name, key)) for name in task.views]
        if task.change:
            cells.append(_signed(key, task.change.get(key)))
        table.add_row(formats.title(key, targets), *cells)
        if key == "ece10":
            table.add_row("  noise floor", *(Text(_floor(task, name)) for name in task.views), style="dim")
    return table


def _cell(task: Slice, view: str, key: str) -> str:
    shown = formats.estimate(key, task.views[view].metrics.get(key))
    return shown + (" not valid here" if key == "ece10" and task.argmax_gold is not None else "")


def _floor(task: Slice, view: str) -> str:
    floor = task.views[view].noise_floor
    return formats.MISSING if floor is None else f"{floor.mean:.3f} (95 % below {floor.p95:.3f})"


def _signed(key: str, found: Estimate | None) -> Text:
    if found is None:
        return Text(formats.MISSING)
    return Text(formats.estimate(key, found, signed=True), style=_STYLES[formats.verdict(key, found)])


def _selection(task: Slice) -> Iterator[Text]:
    found = task.best.selection
    if found is None:
        return
    for row in found.by_risk:
        if row.threshold is None:
            yield Text(f"  risk ≤ {formats.share(row.target)}: never", style="dim")
            continue
        none = "" if row.none_abstained is None else f", none-of-these abstained on {formats.share(row.none_abstained)}"
        yield Text(
            f"  risk ≤ {formats.share(row.target)}: answers {formats.share(row.coverage)} "
            f"at top probability ≥ {row.threshold:.3f}{none}",
            style="dim",
        )


def fitted_label(part: Slice) -> str:
    """``"T = 2.45"``, or ``"fitted"`` when its rows have several temperatures."""
    values = {value for value, *_ in part.temperatures}
    return f"T = {values.pop():.2f}" if len(values) == 1 else "fitted"


def _title(report: Report) -> Text:
    names = (report.header.get(name) for name in ("checkpoint", "suite", "split"))
    return Text(" · ".join(str(name) for name in names if name) or "report")


def _method(report: Report) -> str:
    settings = report.settings
    ranked = min(settings.replicates, settings.ranked_replicates)
    lines = [
        f"95 % cluster bootstrap: {settings.replicates:,} replicates (Spearman, AURC, coverage and accuracy at a "
        f"target: {ranked:,} of them), seed {settings.seed}. What a risk promises beyond these rows: `ko-decision fit`."
    ]
    if any(part.argmax_gold is not None for part in report.slices):
        lines.append("* hard-label ECE is not valid: the gold is the argmax of the soft gold.")
    return "\n".join(lines)


def _joined(comparison: Comparison) -> str:
    a, b = (header.get("checkpoint") or "?" for header in (comparison.header_a, comparison.header_b))
    dropped = f"{comparison.only_a:,} rows only in A and {comparison.only_b:,} only in B are dropped"
    if comparison.differing:
        dropped += f", and {comparison.differing:,} whose task, options or gold differ"
    return f"A: {a}\nB: {b}\n{comparison.common:,} common rows; {dropped}."


def _compared(part: ComparedSlice, targets: Targets) -> Table:
    heading = f"{part.name}  {part.rows:,} rows, {part.clusters:,} clusters"
    table = Table(title=Text(heading), title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column("")
    for name in ("A", "B", "difference"):
        table.add_column(name)
    for key in (key for key in METRICS if key in part.differences):
        found = part.differences[key]
        a, b = (formats.number(key, value) for value in (found.a, found.b))
        mark = " (not valid here)" if key == "ece10" and part.argmax_gold is not None else ""
        table.add_row(formats.title(key, targets) + mark, a, b, _difference(key, found))
    return table


def _difference(key: str, found: Difference) -> Text:
    change = Estimate(found.difference, found.low, found.high)
    star = " *" if found.excludes_zero else ""
    return Text(formats.estimate(key, change, signed=True) + star, style=_STYLES[formats.verdict(key, change)])
