"""Token ids of ``(instruction + option, state)`` pairs: the ids a transformers tokenizer would give, made once.

The state is tokenised once per question and the option texts are cached. The backend tokenizer is a private copy:
transformers leaves its truncation settings on a shared one, and threads that change them raise "Already borrowed".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ko_decision_tools.decisions import Truncation
from ko_decision_tools.encoders.base import Prepared
from ko_decision_tools.errors import InputTooLongError
from ko_decision_tools.prompts import Prompt

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_OPTION_CACHE = 4096


class PairTokenizer:
    """Makes pair rows and cuts the state side (``only_second``) to ``max_tokens``.

    Args:
        backend: A ``tokenizers.Tokenizer``; it is copied.
        max_tokens: The longest row, special tokens included.
    """

    def __init__(self, backend: Tokenizer, max_tokens: int) -> None:
        self._tokenizer = type(backend).from_str(backend.to_str())
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.max_tokens = max_tokens
        self._before, self._between, self._after = _template(self._tokenizer)
        self._specials = len(self._before) + len(self._between) + len(self._after)
        self._first_ids = lru_cache(maxsize=_OPTION_CACHE)(self._encode)

    def prepare(self, prompt: Prompt) -> Prepared:
        """Rows for every option of a prompt.

        Raises:
            InputTooLongError: An instruction with its option leaves no room for one token of the state.
        """
        state = self._encode(prompt.state)
        firsts = [self._first_ids(f"{prompt.instruction} {option}") for option in prompt.options]
        rooms = [self.max_tokens - self._specials - len(first) for first in firsts]
        self._check_room(prompt, firsts, rooms)
        rows = tuple(
            (*self._before, *first, *self._between, *state[:room], *self._after)
            for first, room in zip(firsts, rooms, strict=True)
        )
        kept = min(rooms)
        return Prepared(prompt, rows, Truncation(len(state), kept) if kept < len(state) else None)

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def _check_room(self, prompt: Prompt, firsts: Sequence[Sequence[int]], rooms: Sequence[int]) -> None:
        for index, room in enumerate(rooms):
            if room < 1:
                raise InputTooLongError(
                    f"options[{index}]",
                    f"with its instruction takes {len(firsts[index])} tokens, which leaves no room for the state in "
                    f"{self.max_tokens}",
                    f"Keep both under {self.max_tokens - self._specials} tokens: shorten the description.",
                    value=prompt.options[index],
                )


def _template(tokenizer: Any) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The special ids before, between and after the two texts, read off an encoded probe."""
    probe = tokenizer.encode("가", "나")
    first = [position for position, sequence in enumerate(probe.sequence_ids) if sequence == 0]
    second = [position for position, sequence in enumerate(probe.sequence_ids) if sequence == 1]
    ids = probe.ids
    return tuple(ids[: first[0]]), tuple(ids[first[-1] + 1 : second[0]]), tuple(ids[second[-1] + 1 :])
