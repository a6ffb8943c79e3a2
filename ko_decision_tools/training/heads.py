"""A linear head inside a stock classifier's ``dense -> tanh -> projection``: put there, and read back.

A tanh is the identity near zero, so ``dense = s x identity`` and ``projection = weight / s`` with a small ``s`` give
the linear score; for a feature ``x`` the error is about ``weight * s^2 * x^3 / 3``. The card does this with
``s = 0.001``, and so do we. Where the weights are kept in half precision, the projection is divided by the *stored*
``s`` (0.001 is not a float16), so rounding ``s`` costs nothing.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

SCALE = 0.001

# model_type -> (the layer before the tanh, the projection after it)
HEADS = {
    "bert": ("bert.pooler.dense", "classifier"),
    "roberta": ("classifier.dense", "classifier.out_proj"),
    "xlm-roberta": ("classifier.dense", "classifier.out_proj"),
    "camembert": ("classifier.dense", "classifier.out_proj"),
}


def fold_head(model: Any, weight: Tensor, bias: float, stored: torch.dtype) -> None:
    """Write a linear head into a stock ``num_labels=1`` classifier.

    Args:
        model: The classifier, in float32.
        weight: ``[hidden]``.
        bias: Moves no probability, but raw scores stay as trained.
        stored: Precision the weights will be stored in.
    """
    dense, projection = _layers(model)
    scale = torch.tensor(SCALE, dtype=stored).float()
    with torch.no_grad():
        dense.weight.copy_(scale * torch.eye(len(dense.weight)))
        dense.bias.zero_()
        projection.weight.copy_(weight[None] / scale)
        projection.bias.fill_(bias)


def folded_head(model: Any) -> tuple[Tensor, Tensor] | None:
    """The linear head of a stock classifier, ``[1, hidden]`` and ``[1]``; ``None`` when its head was not folded."""
    if model.config.model_type not in HEADS or model.config.num_labels != 1:
        return None
    dense, projection = _layers(model)
    scale = dense.weight[0, 0].detach()
    if (
        dense.bias.any()
        or not 0 < scale < 10 * SCALE
        or not torch.equal(dense.weight, scale * torch.eye(len(dense.weight)))
    ):
        return None
    return (projection.weight * scale).detach(), projection.bias.detach().clone()


def _layers(model: Any) -> tuple[nn.Linear, nn.Linear]:
    dense, projection = (model.get_submodule(name) for name in HEADS[model.config.model_type])
    return dense, projection
