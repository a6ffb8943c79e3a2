"""The report as one HTML file: no script, no font, no request. It can be mailed, archived and printed.

The drawings are inline SVG coloured by the page's own style sheet, so they follow light, dark and print.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jinja2

from ko_decision_tools import __version__
from ko_decision_tools.evaluation import charts, formats
from ko_decision_tools.evaluation.details import Confusion
from ko_decision_tools.evaluation.metrics import METRICS
from ko_decision_tools.evaluation.report import RAW, Report, Slice
from ko_decision_tools.evaluation.terminal import fitted_label

_ECE = ("ece10", "soft_ece10")
_TEMPLATE = "report.html.j2"


@dataclass(frozen=True, slots=True)
class Section:
    """One slice with its drawings; ``labels`` names the views, for example ``{"raw": "T = 1"}``."""

    part: Slice
    anchor: str
    labels: dict[str, str]
    keys: tuple[str, ...]
    reliability: tuple[charts.Reliability, ...]
    risk: charts.RiskFigure | None


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the confusion matrix; ``shade`` is its share of the line, in percent."""

    count: int
    shade: float
    right: bool


def render_page(report: Report) -> str:
    """The whole page. Every text from the score file is escaped.

    Args:
        report: From :func:`~ko_decision_tools.evaluation.report.build_report`.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("ko_decision_tools", "evaluation"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    sections = [_section(part, f"s{place}", report) for place, part in enumerate(report.slices)]
    return environment.get_template(_TEMPLATE).render(
        report=report,
        facts=_facts(report.header),
        tasks=[section for section in sections if section.part.kind == "task"],
        wholes=[section for section in sections if section.part.kind != "task"],
        sections=sections,
        metrics=[key for key in METRICS if any(key in part.best.metrics for part in report.slices)],
        meaning={key: METRICS[key].meaning for key in METRICS},
        title=lambda key: formats.title(key, report.settings.targets),
        ranked=min(report.settings.replicates, report.settings.ranked_replicates),
        widest_ece=_widest_ece(report),
        confusion_rows=confusion_rows,
        formats=formats,
        charts=charts,
        version=__version__,
    )


def confusion_rows(found: Confusion) -> list[tuple[str, list[Cell]]]:
    """The matrix, line by line, shaded by each cell's share of its line."""
    lines = []
    for name, counts in zip(found.gold_labels, found.matrix, strict=True):
        total = sum(counts) or 1
        cells = [
            Cell(count, round(100 * count / total, 1), label == name)
            for label, count in zip(found.labels, counts, strict=True)
        ]
        lines.append((name, cells))
    return lines


def _section(part: Slice, anchor: str, report: Report) -> Section:
    labels = {name: "T = 1" if name == RAW else fitted_label(part) for name in part.views}
    return Section(
        part=part,
        anchor=anchor,
        labels=labels,
        keys=tuple(part.views[RAW].metrics),
        reliability=_reliability(part),
        risk=_risk(part, report.settings.targets.risk),
    )


def _reliability(part: Slice) -> tuple[charts.Reliability, ...]:
    largest = max((bin_.n for view in part.views.values() for bin_ in view.reliability), default=1)
    return tuple(charts.reliability(name, view.reliability, largest) for name, view in part.views.items())


def _facts(header: Mapping[str, Any]) -> list[str]:
    """What was measured, for the line under the title."""
    found = [f"{name} {header[name]}" for name in ("split", "revision", "fingerprint") if header.get(name)]
    if date := str(header.get("date") or ""):
        found.append(date.replace("T", " ").replace("+00:00", " UTC"))
    return found


def _risk(part: Slice, target: float) -> charts.RiskFigure | None:
    found = [
        (name, view.selection, view.metrics["coverage_at_risk"].value)
        for name, view in part.views.items()
        if view.selection is not None
    ]
    return charts.risk_figure(found, target) if found else None


def _widest_ece(report: Report) -> float:
    """The scale of the small ECE drawings: the largest value, at least 0.05."""
    views = [view for part in report.slices for view in part.views.values()]
    return max([0.05, *(view.metrics[key].value for view in views for key in _ECE if key in view.metrics)])
