"""Rows to tensors: tokenised as at inference, sorted by length, packed into micro-batches of whole rows.

A row is never cut in two, because its loss needs all its options at once. Sorting by a row's longest pair makes a
micro-batch pad little; its size is bounded by options (the card's 64) and, where that pays, by padded tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypedDict

import torch
from torch import Tensor

from ko_decision_tools.encoders.pair_tokens import PairTokenizer
from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.training.rows import TrainingRow

TokenRow = tuple[int, ...]


class MicroBatch(TypedDict):
    """Whole rows for one forward pass.

    Attributes:
        ids: Token ids, ``[pairs, longest]``, padded.
        mask: 1 where ``ids`` holds a token, the same shape.
        row: Which row of the micro-batch each pair belongs to, ``[pairs]``.
        target: Each pair's share of its row's target, ``[pairs]``.
        tasks: Each row's task.
    """

    ids: Tensor
    mask: Tensor
    row: Tensor
    target: Tensor
    tasks: list[str]


class StepBatch(TypedDict):
    """The rows of one optimiser step, and the tokens they have without padding."""

    micro: list[MicroBatch]
    rows: int
    tokens: int


class Collator:
    """Makes a step's micro-batches.

    Args:
        tokens: The pair tokeniser.
        pad: Id of the padding token.
        micro_options: Most options in a micro-batch; a row with more goes alone.
        micro_tokens: Most padded tokens in one, or ``None``.
        first_option_only: Use one pair per row, for objectives that look at texts and not at options.
    """

    def __init__(
        self,
        tokens: PairTokenizer,
        pad: int,
        *,
        micro_options: int,
        micro_tokens: int | None = None,
        first_option_only: bool = False,
    ) -> None:
        self._tokens, self._pad = tokens, pad
        self._options, self._budget = micro_options, micro_tokens
        self._first_only = first_option_only

    def __call__(self, items: Sequence[Sequence[TrainingRow]]) -> StepBatch:
        """Collate the one item (a step's rows) that a data loader with batch size 1 passes."""
        rows = [row for item in items for row in item]
        pairs = [self._pairs(row) for row in rows]
        groups = pack_rows([len(p) for p in pairs], [max(map(len, p)) for p in pairs], self._options, self._budget)
        return {
            "micro": [self._micro([rows[i] for i in group], [pairs[i] for i in group]) for group in groups],
            "rows": len(rows),
            "tokens": sum(len(ids) for p in pairs for ids in p),
        }

    def _pairs(self, row: TrainingRow) -> tuple[TokenRow, ...]:
        try:
            pairs = self._tokens.prepare(row.prompt).rows
        except InvalidInputError as error:
            raise type(error)(f"{row.id}: {error.field}", error.problem, error.fix, value=error.value) from error
        return pairs[:1] if self._first_only else pairs

    def _micro(self, rows: Sequence[TrainingRow], pairs: Sequence[Sequence[TokenRow]]) -> MicroBatch:
        ids, mask = pad_rows([ids for p in pairs for ids in p], self._pad)
        return {
            "ids": ids,
            "mask": mask,
            "row": torch.tensor([place for place, p in enumerate(pairs) for _ in p]),
            "target": torch.tensor(
                [share for row, p in zip(rows, pairs, strict=True) for share in row.target[: len(p)]]
            ),
            "tasks": [row.task for row in rows],
        }


def pad_rows(rows: Sequence[TokenRow], pad: int) -> tuple[Tensor, Tensor]:
    """Token ids and their mask, both ``[rows, longest]``.

    Example:
        >>> pad_rows([(5, 6, 7), (8,)], 1)[0].tolist()
        [[5, 6, 7], [8, 1, 1]]
    """
    width = max(map(len, rows))
    ids = torch.tensor([[*row, *[pad] * (width - len(row))] for row in rows])
    mask = (torch.arange(width) < torch.tensor(list(map(len, rows)))[:, None]).long()
    return ids, mask


def pack_rows(options: Sequence[int], widths: Sequence[int], most: int, budget: int | None = None) -> list[list[int]]:
    """Group row indices into micro-batches, the widest rows first.

    Args:
        options: Pairs of each row.
        widths: Tokens of each row's longest pair.
        most: Most pairs in a micro-batch.
        budget: Most padded tokens (pairs x longest) in one, or ``None``.

    Example:
        >>> pack_rows([3, 2, 7, 2], [9, 40, 12, 38], most=8)
        [[1, 3], [2], [0]]
    """
    return list(_packed(options, widths, most, budget))


def _packed(options: Sequence[int], widths: Sequence[int], most: int, budget: int | None) -> Iterator[list[int]]:
    group: list[int] = []
    pairs = 0
    for index in sorted(range(len(options)), key=lambda index: (-widths[index], index)):
        more = pairs + options[index]
        # Widest first: the first row of a group is as wide as the group gets.
        if group and (more > most or (budget is not None and more * widths[group[0]] > budget)):
            yield group
            group, more = [], options[index]
        group.append(index)
        pairs = more
    if group:
        yield group
