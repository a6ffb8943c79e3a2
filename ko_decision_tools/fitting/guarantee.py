"""The lowest threshold that keeps a risk, with a probability: the test, the order of the tests, and the proof.

**Setting.** Rows are i.i.d. ``X`` is a row's top probability, ``W`` whether its answer is wrong; ``N(t)`` rows of the
sample have ``X >= t``, ``E(t)`` of them are wrong; ``r(t) = P(W | X >= t)`` is the risk of answering from ``t`` up.
Wanted: a threshold ``T`` from the sample with ``P(r(T) > max_risk) <= d``, where ``d = 1 - confidence``.

**One threshold.** Given ``N(t)``, ``E(t)`` is binomial with rate ``r(t)``. Pass ``t`` when the one-sided
Clopper-Pearson upper bound for ``r(t)`` is at most ``max_risk``; if ``r(t) > max_risk`` that happens with probability
at most ``d``.

**Many thresholds.** Choosing the best of many passing thresholds needs a correction. Fixed-sequence testing
(Angelopoulos, Bates, Candès, Jordan & Lei, *Learn then Test*, arXiv:2110.01052) gives every test the whole ``d``,
provided that the order is fixed beforehand and testing stops at the first failure. Here the strictest threshold comes
first: ``T0``, the ``k``-th largest observed ``X``, then every lower observed value. ``T`` is the last that passed.
``k`` (:func:`first_count`) depends on ``n``, ``max_risk`` and ``d`` alone, and with fewer answered rows than the least
such ``k`` nothing could pass. The alternatives split ``d`` over the tests: Bonferroni over a grid, or ``d / log2(n)``
in the binary search of Geifman & El-Yaniv (*Selective Classification for Deep Neural Networks*, 2017). On simulated
rows a Bonferroni grid of counts certified a threshold less often, and a stricter one.

**Assumption M**, besides i.i.d.: a stricter threshold is not riskier, that is, ``r`` does not rise with ``t``. It is
what abstaining on low probabilities presumes. Where it fails (sure and wrong answers at the very top), ``d`` can be
exceeded.

**Proof that P(r(T) > max_risk) <= d.** By M the bad thresholds (``r > max_risk``) are all those up to some highest
one, ``B``. Two cases, which exclude each other:

* ``T0 >= B``, that is ``N(B) >= k``. A bad ``T`` lies at or below ``B``, so the tests went through the smallest
  observed value at or above ``B``. That test has the sample of ``B`` itself, ``(N(B), E(B))``, and it passed. Given
  ``N(B)``, which decides the case, this has probability at most ``d``.
* ``T0 < B``. Then ``T0`` is bad, and it passed. For ``t < B``, ``T0 = t`` says that ``N(t) >= k`` and that fewer than
  ``k`` rows lie above ``t``. Given ``N(t) = m``, each of the ``m`` rows lies above ``t`` or at ``t``, independently;
  by M it is wrong at least as often at ``t`` as above (``r(t)`` is a mean of the two, and not below the risk above).
  So to know that few lie above makes errors more likely, if anything, and given ``T0 = t`` the test passes with
  probability at most ``d``. Sum over ``t``.

``X`` is read on a grid of :data:`STEP`, downwards, so that a threshold prints in full; ties are part of the proof. ∎
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

STEP = 1e-4
_TICKS = 10_000
_SPARE_ERRORS = 4
_KNOWN = 10
_SEARCH_TO = 10_000_000


@dataclass(frozen=True, slots=True)
class Ladder:
    """The distinct thresholds of a sample, from the strictest down, each with what answering from there up means.

    Attributes:
        thresholds: ``[m]``, falling, multiples of :data:`STEP`.
        answered: ``[m]``, rows at or above.
        wrong: ``[m]``, errors among them.
    """

    thresholds: Floats
    answered: Ints
    wrong: Ints

    @classmethod
    def of(cls, top: Floats, wrong: Bools) -> Ladder:
        """From ``[n]`` top probabilities and whether each answer is wrong.

        Example:
            >>> ladder = Ladder.of(np.array([0.91, 0.8, 0.80004, 0.5]), np.array([False, True, False, False]))
            >>> [(float(t), int(n), int(e)) for t, n, e in zip(ladder.thresholds, ladder.answered, ladder.wrong)]
            [(0.91, 1, 0), (0.8, 3, 1), (0.5, 4, 1)]
        """
        ticks = np.floor(top * _TICKS).astype(np.int64)
        ticks = np.where(ticks / _TICKS > top, ticks - 1, ticks)
        ticks = np.where((ticks + 1) / _TICKS <= top, ticks + 1, ticks)
        order = np.argsort(-ticks, kind="stable")
        falling = ticks[order]
        last = np.flatnonzero(np.append(falling[1:] != falling[:-1], True))
        return cls(falling[last] / _TICKS, last + 1, np.cumsum(wrong[order].astype(np.int64))[last])

    @property
    def n(self) -> int:
        """All rows."""
        return int(self.answered[-1])

    def lowest(self, *, max_risk: float, confidence: float) -> int | None:
        """Index of the lowest threshold that keeps ``max_risk`` with probability ``confidence``, or ``None``."""
        first = self.first(max_risk=max_risk, confidence=confidence)
        passed = upper_bound(self.wrong[first:], self.answered[first:], confidence) <= max_risk
        count = int(np.logical_and.accumulate(passed).sum())
        return first + count - 1 if count else None

    def first(self, *, max_risk: float, confidence: float) -> int:
        """Index of the threshold that is tested first, ``T0``; the lowest one when there are too few rows."""
        k = first_count(self.n, max_risk, confidence)
        return min(int(np.searchsorted(self.answered, k)), len(self.answered) - 1)


def first_count(n: int, max_risk: float, confidence: float) -> int:
    """``k``: how many of the surest answers the first test looks at.

    Few rows pass only without a single error, so one unlucky row would end it all; many rows rule out high thresholds.
    So: a fifth of the rows, or as many as still pass with up to four errors if that is at most half of them, and never
    fewer than can pass without any.

    Example:
        >>> [first_count(n, 0.1, 0.95) for n in (60, 200, 1000)]
        [29, 89, 200]
    """
    needed = [fewest_rows(errors, max_risk, confidence) for errors in range(_SPARE_ERRORS + 1)]
    spared = [count for count in needed if count <= n / 2]
    return max(spared[-1] if spared else needed[0], n // 5)


@lru_cache(maxsize=64)
def fewest_rows(wrong: int, max_risk: float, confidence: float) -> int:
    """The smallest number of answered rows, ``wrong`` of them errors, that still passes.

    Example:
        >>> fewest_rows(0, 0.05, 0.95), fewest_rows(1, 0.05, 0.95)
        (59, 93)
    """
    if wrong == 0:
        return math.ceil(math.log(1 - confidence) / math.log1p(-max_risk))
    low, high = wrong, wrong + 1
    while upper_bound(np.array([wrong]), np.array([high]), confidence)[0] > max_risk:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        passes = upper_bound(np.array([wrong]), np.array([middle]), confidence)[0] <= max_risk
        low, high = (low, middle) if passes else (middle, high)
    return high


def rows_needed(ladder: Ladder, *, max_risk: float, confidence: float) -> int | None:
    """How many rows like these it would take, at the least, for some threshold to pass; ``None``: no number would do.

    Takes the risk and the coverage seen at each threshold for the true ones, and asks how many rows let that pass.
    Thresholds that answer fewer than ten rows are left out: their risk is not known at all.
    """
    counts = np.unique(np.geomspace(fewest_rows(0, max_risk, confidence), _SEARCH_TO, 300).astype(np.int64))
    best: int | None = None
    for index in np.unique(np.linspace(0, len(ladder.answered) - 1, 60).astype(int)):
        answered, wrong = int(ladder.answered[index]), int(ladder.wrong[index])
        if answered < _KNOWN or wrong >= max_risk * answered:
            continue
        expected = np.ceil(wrong / answered * counts).astype(np.int64)
        passing = np.flatnonzero(upper_bound(expected, counts, confidence) <= max_risk)
        if passing.size:
            rows = math.ceil(int(counts[passing[0]]) * ladder.n / answered)
            best = rows if best is None else min(best, rows)
    return None if best is None else max(best, ladder.n + 1)


def upper_bound(wrong: Ints, answered: Ints, confidence: float) -> Floats:
    """One-sided Clopper-Pearson upper bound of an error rate; 1 where every answer (or none) is given.

    Example:
        >>> upper_bound(np.array([0, 3]), np.array([59, 3]), 0.95).round(4).tolist()
        [0.0495, 1.0]
    """
    from scipy.stats import beta

    right = np.maximum(answered - wrong, 1)
    return np.where(answered > wrong, beta.ppf(confidence, wrong + 1, right), 1.0)


def two_sided(wrong: int, answered: int, confidence: float) -> tuple[float, float]:
    """Clopper-Pearson interval of an error rate.

    Example:
        >>> [round(end, 4) for end in two_sided(1, 20, 0.95)]
        [0.0013, 0.2487]
    """
    from scipy.stats import beta

    tail = (1 - confidence) / 2
    low = 0.0 if wrong == 0 else float(beta.ppf(tail, wrong, answered - wrong + 1))
    high = 1.0 if wrong == answered else float(beta.ppf(1 - tail, wrong + 1, answered - wrong))
    return low, high
