"""The seam every way of scoring stands behind: prepare a prompt (cheap, exact token counts), then score many at once.

The seam is at :class:`~ko_decision_tools.prompts.Prompt`, not at a text pair: a pair checkpoint scores K rows for K
options, a marker checkpoint reads K markers off one row, an embedding encoder compares K vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ko_decision_tools.decisions import Truncation
from ko_decision_tools.distributions import Scores
from ko_decision_tools.prompts import Prompt


@dataclass(frozen=True, slots=True)
class Prepared:
    """A tokenised prompt: everything that can be known, or can go wrong, before a forward pass.

    Attributes:
        prompt: What it was made from.
        rows: Token ids of each row the encoder will read.
        truncation: Set when part of the state did not fit.
    """

    prompt: Prompt
    rows: tuple[tuple[int, ...], ...]
    truncation: Truncation | None

    @property
    def pairs(self) -> int:
        """How many rows the encoder reads."""
        return len(self.rows)

    @property
    def tokens(self) -> int:
        """Tokens in those rows, padding excluded."""
        return sum(map(len, self.rows))


class Encoder(Protocol):
    """Scores prompts. Implementations are safe to call from several threads."""

    @property
    def max_tokens(self) -> int:
        """The longest row it reads, special tokens included."""
        ...

    def prepare(self, prompt: Prompt) -> Prepared:
        """Tokenise and cut.

        Raises:
            InputTooLongError: An instruction with its option leaves no room for the state.
        """
        ...

    def score(self, prepared: Sequence[Prepared]) -> list[Scores]:
        """One :class:`Scores` per prompt, in order, each with one logit per option in the prompt's order.

        Raises:
            EncoderError: The forward pass failed, or its output is not finite.
        """
        ...
