"""Which rows share a forward pass. Pure planning: no tensors here.

Rows are sorted by length so that a batch pads little, and a batch is bounded by its *padded* tokens, which is what it
costs. Order in, order out: :func:`plan_batches` returns indices.
"""

from __future__ import annotations

from collections.abc import Sequence


def plan_batches(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Group row indices into batches of at most ``max_tokens`` padded tokens, longest rows first.

    A row that is longer than the budget gets a batch of its own: nothing is dropped. Longest first, so that running
    out of memory shows at once rather than at the end.

    Args:
        lengths: Tokens of each row.
        max_tokens: Padded tokens (rows x longest row) a batch may hold.

    Example:
        >>> plan_batches([3, 9, 4, 10], max_tokens=20)
        [[3, 1], [2, 0]]
    """
    batches: list[list[int]] = []
    widest = 0
    for index in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if batches and (len(batches[-1]) + 1) * widest <= max_tokens:
            batches[-1].append(index)
        else:
            batches.append([index])
            widest = lengths[index]
    return batches
