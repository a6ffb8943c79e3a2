"""Answering only when sure: coverage (the share answered), risk (the error among the answered) and what joins them.

Rows are answered from the highest confidence down. A threshold cannot tell equal confidences apart, so tied rows are
answered together, and nothing depends on the order of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ko_decision_tools.evaluation.arrays import Bools, Floats, Ints

_SLACK = 1e-12  # 57 / 95 and 0.6 are the same coverage


@dataclass(frozen=True, slots=True)
class Curve:
    """One point per distinct confidence, from the highest down.

    Attributes:
        thresholds: Answer when the top probability is at least this.
        coverage: Share of the rows answered there.
        risk: Error among them; a none-of-these row that is answered is an error.
        none_abstained: Share of the none-of-these rows left unanswered there; NaN without such rows.
    """

    thresholds: Floats
    coverage: Floats
    risk: Floats
    none_abstained: Floats

    def at_coverage(self, coverage: float) -> int:
        """The point with the smallest coverage that reaches ``coverage``."""
        return int(np.argmax(self.coverage >= coverage - _SLACK))

    def at_risk(self, risk: float) -> int | None:
        """The point with the largest coverage whose risk on these rows is at most ``risk``, or ``None``.

        This is a description of these rows, not a guarantee: ``ko-decision fit`` gives one.
        """
        within = np.flatnonzero(self.risk <= risk + _SLACK)
        return int(within[-1]) if within.size else None


def curve(confidence: Floats, wrong: Bools, none: Bools | None = None) -> Curve:
    """The risk-coverage curve of ``n`` rows; all arguments are ``[n]``.

    Example:
        >>> c = curve(np.array([0.9, 0.8, 0.8, 0.4]), np.array([False, True, False, True]))
        >>> [f"{t:.1f}: {cov:.0%} at {risk:.0%}" for t, cov, risk in zip(c.thresholds, c.coverage, c.risk)]
        ['0.9: 25% at 0%', '0.8: 75% at 33%', '0.4: 100% at 50%']
    """
    order, ends = _order(confidence)
    answered = ends + 1.0
    turned = np.zeros(len(order)) if none is None else np.cumsum(none[order])
    nones = float(turned[-1])
    return Curve(
        thresholds=confidence[order][ends],
        coverage=answered / len(order),
        risk=np.cumsum(wrong[order])[ends] / answered,
        none_abstained=1 - turned[ends] / nones if nones else np.full(len(ends), np.nan),
    )


def selective(confidence: Floats, wrong: Bools, weights: Floats, *, risk: float, coverage: float) -> Floats:
    """AURC, the coverage at ``risk`` and the accuracy at ``coverage``, ``[R, 3]``, of ``R`` weightings ``[R, n]``.

    AURC is the mean, over rows, of the risk at the threshold that just answers the row. Without ties it is the usual
    mean of the risks at coverages ``1/n … n/n``. A weighting with no weight gives NaN.
    """
    order, ends = _order(confidence)
    ordered = weights[:, order]
    answered = np.cumsum(ordered, axis=1)[:, ends]
    errors = np.cumsum(ordered * wrong[order], axis=1)[:, ends]
    total = answered[:, -1:]
    with np.errstate(invalid="ignore"):
        risks = errors / answered
        aurc = np.nansum(np.diff(answered, axis=1, prepend=0.0) * risks, axis=1) / total[:, 0]
        covered = np.where(risks <= risk + _SLACK, answered, 0.0).max(axis=1) / total[:, 0]
    reached = (answered >= (coverage - _SLACK) * total).argmax(axis=1)
    accuracy = 1 - np.take_along_axis(risks, reached[:, None], axis=1)[:, 0]
    return np.stack([aurc, covered, accuracy], axis=1)


def _order(confidence: Floats) -> tuple[Ints, Ints]:
    """Row indices by falling confidence, and the last place of each run of equal confidences."""
    order = np.argsort(-confidence, kind="stable")
    ordered = confidence[order]
    return order, np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
