"""What a stage minimises: the loss of each row of a micro-batch, and two numbers to watch it by."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from ko_decision_tools.training.collator import MicroBatch
from ko_decision_tools.training.loss import first_token_loss, row_statistics, soft_cross_entropy
from ko_decision_tools.training.model import OptionScorer, mean_pooled


class RowLosses(NamedTuple):
    """Of each row, ``[rows]``: its loss, whether its best option is the target's, and the spread of its scores."""

    loss: Tensor
    right: Tensor
    spread: Tensor


class Objective(Protocol):
    """From a scorer and a micro-batch to the losses of its rows."""

    def __call__(self, scorer: OptionScorer, micro: MicroBatch) -> RowLosses:
        """Losses with a graph; ``right`` and ``spread`` without."""
        ...


class OptionsObjective:
    """Soft-target cross-entropy over a row's options: the card's loss."""

    def __call__(self, scorer: OptionScorer, micro: MicroBatch) -> RowLosses:
        """See :class:`Objective`."""
        rows = len(micro["tasks"])
        scores = scorer(micro["ids"], micro["mask"])
        loss = soft_cross_entropy(scores, micro["target"], micro["row"], rows)
        right, spread = row_statistics(scores.detach(), micro["target"], micro["row"], rows)
        return RowLosses(loss, right, spread)


class FirstTokenObjective:
    """Self-distillation of a teacher's mean-pooled embedding into the first token.

    A base that pools by mean has a first token that says nothing, and a head on it sees the same for every option:
    training stands still on that plateau. A few minutes of this end it.

    Args:
        teacher: An encoder, in eval mode, on the scorer's device.
    """

    def __init__(self, teacher: Any) -> None:
        self._teacher = teacher

    def __call__(self, scorer: OptionScorer, micro: MicroBatch) -> RowLosses:
        """See :class:`Objective`; nothing is right or wrong here. A single text has no batch to be centred over."""
        ids, mask = micro["ids"], micro["mask"]
        with torch.no_grad():
            pooled = mean_pooled(self._teacher, ids, mask)
        first = scorer.first_token(ids, mask)
        loss = first_token_loss(first, pooled) if len(ids) > 1 else first.sum(1) * 0
        nothing = torch.zeros(len(ids), device=loss.device)
        return RowLosses(loss, nothing.bool(), nothing)
