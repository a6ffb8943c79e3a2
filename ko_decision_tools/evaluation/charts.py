"""Where things go in the page's drawings: plain coordinates, drawn as inline SVG by the template.

Both figures are a square of :data:`SIDE` units with its corner at :data:`LEFT`, :data:`TOP`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ko_decision_tools.evaluation.details import Bin, Selection

LEFT, TOP, SIDE = 40.0, 22.0, 280.0
STRIP = 44.0  # the histogram under the reliability diagram
_SPARSE = 10  # rows
_SCALES = ((5, 1), (10, 2), (15, 5), (20, 5), (30, 10), (40, 10), (50, 10), (60, 20), (80, 20), (100, 20))  # percent


@dataclass(frozen=True, slots=True)
class Dot:
    """A bin: its place and radius, whether it has few rows, its whisker's ends, its bar, and what a pointer reads."""

    x: float
    y: float
    radius: float
    sparse: bool
    whisker: tuple[float, float] | None
    bar_x: float
    bar_height: float
    title: str


@dataclass(frozen=True, slots=True)
class Reliability:
    """One series of the reliability diagram: its dots, and the line through them."""

    name: str
    dots: tuple[Dot, ...]
    path: str


@dataclass(frozen=True, slots=True)
class RiskCurve:
    """One series of the risk-coverage figure; ``stop`` is where the target risk ends the answering."""

    name: str
    path: str
    stop: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class RiskFigure:
    """All series, the horizontal grid lines ``(y, label)``, and the height of the target risk."""

    curves: tuple[RiskCurve, ...]
    grid: tuple[tuple[float, str], ...]
    target_y: float | None


def x_of(share: float) -> float:
    """The horizontal place of a share from 0 to 1."""
    return round(LEFT + SIDE * share, 2)


def y_of(share: float, top: float = 1.0) -> float:
    """The vertical place of a share from 0 to ``top``."""
    return round(TOP + SIDE * (1 - min(share, top) / top), 2)


def reliability(name: str, bins: Sequence[Bin], largest: int) -> Reliability:
    """Dots by bin; their area, and the bars', grow with the rows in it; ``largest`` is the fullest bin's rows.

    Bins with few rows are drawn pale and left out of the line.
    """
    total = sum(bin_.n for bin_ in bins)
    dots = tuple(
        Dot(
            x=x_of(bin_.confidence),
            y=y_of(bin_.hits),
            radius=round(2.5 + 5 * (bin_.n / largest) ** 0.5, 2),
            sparse=bin_.n < _SPARSE,
            whisker=_whisker(bin_),
            bar_x=x_of(bin_.low),
            bar_height=round(STRIP * bin_.n / largest, 2),
            title=(
                f"{bin_.low:.1f}–{bin_.high:.1f}: {bin_.n:,} rows ({bin_.n / total:.0%}), mean top probability "
                f"{bin_.confidence:.3f}, right {bin_.hits:.3f}"
            ),
        )
        for bin_ in bins
    )
    return Reliability(name, dots, _path([(dot.x, dot.y) for dot in dots if not dot.sparse]))


def risk_figure(selections: Sequence[tuple[str, Selection, float]], target: float) -> RiskFigure:
    """Curves of risk over coverage, by name, selection and the coverage at the ``target`` risk.

    The first twentieth of the rows does not set the scale: it is mostly noise.
    """
    highest = max(
        (risk for _, found, _ in selections for coverage, risk in found.points if coverage >= 0.05), default=target
    )
    percent, step = next((scale for scale in _SCALES if scale[0] >= 100 * max(highest, 1.2 * target)), _SCALES[-1])
    top = percent / 100
    curves = []
    for name, found, answered in selections:
        stop = (x_of(answered), y_of(target, top)) if answered else None
        path = _path([(x_of(coverage), y_of(risk, top)) for coverage, risk in found.points])
        curves.append(RiskCurve(name, path, stop))
    grid = tuple((y_of(line / 100, top), str(line)) for line in range(0, percent + 1, step))
    return RiskFigure(tuple(curves), grid, y_of(target, top) if target < top else None)


def _whisker(bin_: Bin) -> tuple[float, float] | None:
    if bin_.hits_low is None or bin_.hits_high is None:
        return None
    return y_of(bin_.hits_low), y_of(bin_.hits_high)


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in points) if points else ""
