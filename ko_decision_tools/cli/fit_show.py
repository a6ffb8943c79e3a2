"""What ``ko-decision fit`` prints: temperatures with their evidence, and what a threshold does on the rows."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from ko_decision_tools.fitting import Mistake, TemperatureReport, ThresholdFit
from ko_decision_tools.fitting.findings import percent
from ko_decision_tools.fitting.threshold import DATA_LIKE_THIS

MISTAKES = 5
_TEXT = 60


def temperatures(out: Console, report: TemperatureReport) -> None:
    """One line per scope, then the scopes that got none."""
    table = _table("temperature of", "T", "95%", "rows", "groups", "NLL", "ECE10")
    for fit in report.fitted:
        interval = "–" if fit.interval is None else f"{fit.interval[0]:.2f} – {fit.interval[1]:.2f}"
        ece = "–" if fit.ece10 is None else _change(fit.ece10)
        counts = (str(fit.n), str(fit.groups))
        table.add_row(fit.scope, f"{fit.temperature:.2f}", interval, *counts, _change(fit.nll), ece)
    _print_table(out, table)
    for refused in report.refused:
        out.print(f"no temperature for {refused.scope} ({refused.n} rows): {refused.reason}")
    if report.left_out:
        out.print(f"{report.left_out} rows have no gold to fit a temperature to (none of these, unlabelled)")
    out.print("NLL and ECE10: at T = 1 → at the fit, on its own rows. The test is `ko-decision report` on other rows.")


def threshold(out: Console, fit: ThresholdFit, advice: Sequence[str]) -> None:
    """The table of thresholds, the chosen one or why there is none, the mistakes, and how to use it."""
    out.print(_rows(fit))
    _print_table(out, _curve(fit))
    out.print(fit.summary())
    if fit.interval is not None and fit.accuracy is not None:
        low, high = fit.interval
        between = f"{percent(fit.confidence)} interval {low:.1%} – {high:.1%}"
        out.print(f"accuracy among the answered: {fit.accuracy:.1%} ({between})")
    _mistakes(out, fit)
    for note in fit.notes:
        out.print(f"! {note}")
    out.print(DATA_LIKE_THIS)
    for line in advice:
        out.print(line)


def _rows(fit: ThresholdFit) -> str:
    none = (
        f"{fit.none_of_these} of them fit no option, so that answering them is an error; " if fit.none_of_these else ""
    )
    left = f"{fit.left_out} more cannot be judged; " if fit.left_out else ""
    return f"{fit.n} rows; {none}{left}{', '.join(fit.temperatures)}"


def _curve(fit: ThresholdFit) -> Table:
    bound = f"at most ({percent(fit.confidence)})"
    table = _table("threshold", "answered", "coverage", "escalated", "wrong", "risk", bound, "")
    for point in fit.curve:
        table.add_row(
            f"{point.threshold:g}",
            str(point.answered),
            f"{point.coverage:.1%}",
            f"{1 - point.coverage:.1%}",
            str(point.wrong),
            f"{point.risk:.1%}",
            f"{point.risk_upper:.1%}",
            "◀ fitted" if point.threshold == fit.threshold else "",
        )
    return table


def _mistakes(out: Console, fit: ThresholdFit) -> None:
    if not fit.errors:
        return
    where = "answered wrongly" if fit.threshold is not None else "wrong among the surest"
    out.print(f"{where}, the surest first ({min(MISTAKES, len(fit.errors))} of {len(fit.errors)}; --save keeps all):")
    for mistake in fit.errors[:MISTAKES]:
        out.print(f"  {_mistake(mistake)}")


def _mistake(mistake: Mistake) -> str:
    text = " ".join((mistake.text or "").split())
    shown = text if len(text) <= _TEXT else text[: _TEXT - 1] + "…"
    gold = "none of these" if mistake.gold is None else mistake.gold
    return f"{mistake.top_probability:.3f} {mistake.answered} (right: {gold})  {mistake.id}  {shown}"


def _table(first: str, *rest: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(first, no_wrap=True)
    for name in rest:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _change(pair: tuple[float, float]) -> str:
    return f"{pair[0]:.3f} → {pair[1]:.3f}"


def _print_table(out: Console, table: Table) -> None:
    out.print(table, width=max(out.width, 120))  # a line too long wraps; a number cut short misleads
