"""Raw scores, probabilities, and the numbers read off them. Pure arithmetic on plain floats.

:class:`Scores` (logits) and :class:`Distribution` (probabilities) are different types, so nothing ever guesses which
one it holds. Nothing here rounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ko_decision_tools.errors import EncoderError


@dataclass(frozen=True, slots=True)
class Scores:
    """One raw logit per option of one question. A score alone means nothing: only differences within a question do.

    Raises:
        EncoderError: Fewer than two scores, or one that is NaN or infinite.

    Example:
        >>> Scores((2.0, 0.0)).softmax(temperature=2.0).probabilities
        (0.7310585786300049, 0.26894142136999516)
    """

    logits: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.logits) < 2:
            raise EncoderError(
                f"the encoder returned {len(self.logits)} score(s) for one question; at least 2 are needed"
            )
        bad = [index for index, logit in enumerate(self.logits) if not math.isfinite(logit)]
        if bad:
            raise EncoderError(
                f"the encoder returned a score that is not finite for option {bad[0]}: {self.logits[bad[0]]}"
            )

    def softmax(self, temperature: float = 1.0) -> Distribution:
        """Probabilities ``softmax(logits / temperature)``. The temperature never changes the ranking.

        Args:
            temperature: Positive and finite; above 1 flattens.
        """
        peak = max(self.logits)
        weights = [math.exp((logit - peak) / temperature) for logit in self.logits]
        total = math.fsum(weights)
        return Distribution(tuple(weight / total for weight in weights), temperature)


@dataclass(frozen=True, slots=True)
class Distribution:
    """Probabilities of one question's options, summing to 1, and the temperature that made them."""

    probabilities: tuple[float, ...]
    temperature: float

    @property
    def top(self) -> int:
        """Index of the most probable option (the first one on a tie)."""
        return max(range(len(self.probabilities)), key=self.probabilities.__getitem__)

    @property
    def top_probability(self) -> float:
        """The largest probability: what abstaining looks at."""
        return max(self.probabilities)

    @property
    def margin(self) -> float:
        """Largest minus second largest probability."""
        first, second = sorted(self.probabilities, reverse=True)[:2]
        return first - second

    @property
    def expected_level(self) -> float:
        """``Σ i·p_i``: a ``Score``'s answer, from 0 to n-1."""
        return math.fsum(index * p for index, p in enumerate(self.probabilities))

    def choice_confidence(self) -> float:
        """The reference *choice* confidence, ``(max p - 1/n) / (1 - 1/n)``: 0 is uniform, 1 is certain."""
        chance = 1 / len(self.probabilities)
        return max(0.0, (self.top_probability - chance) / (1 - chance))

    def score_confidence(self) -> float:
        """The reference *score* confidence, ``max(0, 1 - Σ p_i·|i - mode| / D)`` with ``D = mean |i - (n-1)/2|``."""
        levels = range(len(self.probabilities))
        middle, mode = (len(levels) - 1) / 2, self.top
        spread = math.fsum(p * abs(i - mode) for i, p in zip(levels, self.probabilities, strict=True))
        widest = math.fsum(abs(i - middle) for i in levels) / len(levels)
        return min(1.0, max(0.0, 1 - spread / widest))
