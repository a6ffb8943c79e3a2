"""The likelihood of labelled rows as a function of one temperature, and where it is largest.

With ``b = 1/T``, scores ``s`` and target distribution ``t``, a row's negative log-likelihood is
``logsumexp(b·s) - b·Σ t·s``: convex in ``b``, with the derivative ``E_p[s] - E_t[s]``, ``p = softmax(b·s)``. So the
minimum is the one root of a monotone function, there are no local minima, and the derivative's sign at a bound tells
exactly whether the minimum lies beyond it (Guo et al. 2017, *On Calibration of Modern Neural Networks*).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ko_decision_tools.errors import CalibrationError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

LOWEST, HIGHEST = 0.05, 20.0
REPLICATES = 2_000
MIN_GROUPS = 10
_GRID = 65
_CHUNK = 100


@dataclass(frozen=True, slots=True)
class Likelihood:
    """``n`` questions with up to ``K`` options.

    Args:
        scores: ``[n, K]``; each row's largest is 0, padding is ``-inf``.
        targets: ``[n, K]``; each row sums to 1, padding is 0.

    Example:
        >>> rows = Likelihood.of([(2.0, 0.0)] * 3 + [(0.0, 2.0)], [(1.0, 0.0)] * 4)
        >>> round(rows.best_temperature(), 4)  # 3 of 4 right: the sigmoid of 2/T is 3/4
        1.8205
    """

    scores: Floats
    targets: Floats

    @classmethod
    def of(cls, scores: Sequence[Sequence[float]], targets: Sequence[Sequence[float]]) -> Likelihood:
        """Pad rows of different lengths."""
        padded = np.full((len(scores), max(map(len, scores))), -np.inf)
        soft = np.zeros(padded.shape)
        for row, (logits, target) in enumerate(zip(scores, targets, strict=True)):
            padded[row, : len(logits)] = logits
            soft[row, : len(target)] = target
        return cls(padded - padded.max(axis=1, keepdims=True), soft)

    def nll(self, temperature: float) -> float:
        """Mean negative log-likelihood in nats."""
        with np.errstate(under="ignore"):
            normaliser = np.log(np.exp(self.scores / temperature).sum(axis=1))
        return float(np.mean(normaliser - self._expected(self.targets) / temperature))

    def slopes(self, temperature: float) -> Floats:
        """``[n]``: each row's derivative of the negative log-likelihood by ``1/T``."""
        with np.errstate(under="ignore"):
            weights = np.exp(self.scores / temperature)
            return np.asarray(self._expected(weights) / weights.sum(axis=1) - self._expected(self.targets))

    def best_temperature(self) -> float:
        """The temperature with the smallest negative log-likelihood.

        Raises:
            CalibrationError: It lies at or beyond a bound, so that these rows do not determine it.
        """
        from scipy.optimize import brentq

        if not np.any(np.isfinite(self.scores) & (self.scores < 0)):
            raise CalibrationError("the options of every row have equal scores: any temperature fits")
        if self.slopes(LOWEST).sum() <= 0:
            raise CalibrationError(
                f"pinned at {LOWEST:g}: the likelihood still rises there, as it does when every row is answered right; "
                "there are too few mistakes to fit a temperature on"
            )
        if self.slopes(HIGHEST).sum() >= 0:
            raise CalibrationError(
                f"pinned at {HIGHEST:g}: the likelihood still rises there; the scores say nothing about the gold"
            )

        def slope(log_temperature: float) -> float:
            return float(self.slopes(math.exp(log_temperature)).sum())

        return math.exp(brentq(slope, math.log(LOWEST), math.log(HIGHEST), xtol=1e-10))

    def interval(self, best: float, groups: Ints, *, seed: int) -> tuple[float, float] | None:
        """95 % percentile interval of the best temperature: a cluster bootstrap, :data:`REPLICATES` draws of groups.

        A group's summed slope is tabulated over a log grid of temperatures; a replicate is a weighted sum of such
        curves, and its best temperature their root, interpolated. The grid reaches eight standard errors (of the
        cluster-robust sandwich) to either side of ``best``, or to the bounds, at a quarter of a standard error a step.

        Args:
            best: From :meth:`best_temperature`.
            groups: ``[n]``, a group's number from 0 up.
            seed: Of the draws.

        Returns:
            ``None`` with fewer than :data:`MIN_GROUPS` groups: too few to resample.
        """
        count = int(groups.max()) + 1
        if count < MIN_GROUPS:
            return None
        grid = self._grid(best, groups, count)
        curves = np.stack([np.bincount(groups, self.slopes(math.exp(at)), count) for at in grid], axis=1)
        draw = np.random.default_rng(seed)
        roots = np.concatenate([_roots(_resample(draw, count) @ curves, grid) for _ in range(REPLICATES // _CHUNK)])
        low, high = np.clip(np.exp(np.percentile(roots, [2.5, 97.5])), LOWEST, HIGHEST)
        return float(low), float(high)

    def _grid(self, best: float, groups: Ints, count: int) -> Floats:
        step = 0.01
        change = (self.slopes(best * math.exp(step)).sum() - self.slopes(best * math.exp(-step)).sum()) / (2 * step)
        spread = np.linalg.norm(np.bincount(groups, self.slopes(best), count))
        reach = 8 * max(float(spread / abs(change)), step) if change else math.inf
        low, high = max(math.log(LOWEST), math.log(best) - reach), min(math.log(HIGHEST), math.log(best) + reach)
        return np.linspace(low, high, _GRID)

    def tops(self, temperature: float) -> tuple[Floats, Ints]:
        """``[n]`` each: the largest probability, and its option (the first one on a tie)."""
        with np.errstate(under="ignore"):
            return 1 / np.exp(self.scores / temperature).sum(axis=1), self.scores.argmax(axis=1)

    def _expected(self, weights: Floats) -> Floats:
        return np.asarray((weights * np.where(np.isfinite(self.scores), self.scores, 0.0)).sum(axis=1))


def _resample(draw: np.random.Generator, count: int) -> Floats:
    """How often each group is drawn, ``[_CHUNK, count]``; six times as fast as a multinomial."""
    drawn = draw.integers(count, size=(_CHUNK, count)) + count * np.arange(_CHUNK)[:, None]
    return np.bincount(drawn.ravel(), minlength=_CHUNK * count).reshape(_CHUNK, count).astype(np.float64)


def _roots(curves: Floats, grid: Floats) -> Floats:
    """Where each curve, falling along the grid, crosses 0; the grid's end where it does not."""
    after = (curves > 0).sum(axis=1)
    right = np.clip(after, 1, len(grid) - 1)
    rows = np.arange(len(curves))
    above, below = curves[rows, right - 1], curves[rows, right]
    with np.errstate(invalid="ignore", divide="ignore"):
        crossing = grid[right - 1] + (grid[right] - grid[right - 1]) * above / (above - below)
    inside = (after > 0) & (after < len(grid))
    return np.asarray(np.where(inside, crossing, np.where(after == 0, grid[0], grid[-1])))
