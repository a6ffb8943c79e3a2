"""Soft-target cross-entropy over each row's options, and what a row's scores say about the training.

``loss = -Σ_rows Σ_options target · log softmax(scores of the row)``. The softmax runs over one row's options, however
many it has; rows share a forward pass but never a softmax.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def log_softmax_by_row(scores: Tensor, row: Tensor, rows: int) -> Tensor:
    """Log-probabilities of options within their rows.

    Args:
        scores: One per option, ``[pairs]``.
        row: Each option's row, ``[pairs]``, from 0 to ``rows`` - 1.
        rows: How many rows there are.

    Returns:
        ``[pairs]``, in the same order.

    Example:
        >>> log_softmax_by_row(torch.tensor([0.0, 0.0, 5.0, 5.0, 5.0]), torch.tensor([0, 0, 1, 1, 1]), 2).exp()
        tensor([0.5000, 0.5000, 0.3333, 0.3333, 0.3333])
    """
    peak = scores.new_full((rows,), -torch.inf).scatter_reduce(0, row, scores.detach(), "amax")
    shifted = scores - peak[row]
    total = scores.new_zeros(rows).index_add(0, row, shifted.exp())
    return shifted - total.log()[row]


def soft_cross_entropy(scores: Tensor, target: Tensor, row: Tensor, rows: int) -> Tensor:
    """Loss of each row, ``[rows]``, from scores and targets of its options, ``[pairs]``.

    Example:
        >>> soft_cross_entropy(torch.zeros(4), torch.tensor([1.0, 0.0, 0.3, 0.7]), torch.tensor([0, 0, 1, 1]), 2)
        tensor([0.6931, 0.6931])
    """
    weighted = -target * log_softmax_by_row(scores, row, rows)
    return scores.new_zeros(rows).index_add(0, row, weighted)


def first_token_loss(first: Tensor, pooled: Tensor) -> Tensor:
    """Self-distillation of a mean-pooled embedding into the first token: ``1 - cosine`` of each text, ``[texts]``.

    Both sides are centred over the batch: embeddings of one model share a large common direction, and without that the
    cosine is near 1 from the start.

    Args:
        first: The student's first token, ``[texts, hidden]``.
        pooled: The teacher's mean over tokens, the same shape.
    """
    return 1 - functional.cosine_similarity(first - first.mean(0), pooled - pooled.mean(0), dim=1)


def row_statistics(scores: Tensor, target: Tensor, row: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """Of each row: is its highest score where its target is highest, and how far do its scores spread?

    A spread that stays near 0 is the plateau: the first token says nothing yet about the options.

    Returns:
        ``[rows]`` of booleans and ``[rows]`` of standard deviations.
    """
    ones = scores.new_ones(len(scores))
    count = scores.new_zeros(rows).index_add(0, row, ones)
    mean = scores.new_zeros(rows).index_add(0, row, scores) / count
    variance = scores.new_zeros(rows).index_add(0, row, (scores - mean[row]) ** 2) / count
    best = [values.new_full((rows,), -torch.inf).scatter_reduce(0, row, values, "amax") for values in (scores, target)]
    hit = ((scores == best[0][row]) & (target == best[1][row])).float()
    return scores.new_zeros(rows).scatter_reduce(0, row, hit, "amax") > 0, variance.sqrt()
