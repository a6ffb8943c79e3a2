"""What is trained: an encoder and one linear layer on its first token; one score per pair."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, AutoConfig, AutoModel, AutoModelForSequenceClassification, AutoTokenizer
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

from ko_decision_tools.checkpoints import BUNDLED, resolve_checkpoint
from ko_decision_tools.errors import CheckpointError
from ko_decision_tools.training.heads import folded_head
from ko_decision_tools.training.recipe import Base, Recipe

_FLOAT32_ATTENTION = "ko_decision_float32"
_HEAD_STD = 0.02


class OptionScorer(nn.Module):
    """An encoder with a linear head on its first token.

    Attributes:
        encoder: The transformer, without a pooler.
        head: ``[hidden] -> [1]``.
    """

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(encoder.config.hidden_size, 1)
        nn.init.normal_(self.head.weight, std=_HEAD_STD)
        nn.init.zeros_(self.head.bias)

    def first_token(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Features of the first token, ``[pairs, hidden]``, float32."""
        first: Tensor = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state[:, 0].float()
        return first

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Scores, ``[pairs]``, float32 whatever autocast does to the encoder."""
        first = self.first_token(ids, mask)
        with torch.autocast(first.device.type, enabled=False):
            scores: Tensor = self.head(first).squeeze(1)
        return scores


@dataclass(frozen=True, slots=True)
class Precision:
    """How matrix products are computed: a dtype, and whether attention is kept out of it."""

    dtype: torch.dtype
    float32_attention: bool

    @property
    def name(self) -> str:
        """The dtype's name."""
        return str(self.dtype).removeprefix("torch.")

    def autocast(self, device: str) -> AbstractContextManager[Any]:
        """The context of a forward pass."""
        return torch.autocast(device, dtype=torch.bfloat16, enabled=self.dtype is torch.bfloat16)

    @classmethod
    def choose(cls, wanted: str, device: str) -> Precision:
        """What ``"auto"`` (or a given dtype) means on this machine.

        With AMX a CPU multiplies bfloat16 matrices several times faster than float32 ones, but the backward pass of
        its bfloat16 attention is slow enough to lose all of that: attention alone stays in float32 there.
        """
        amx = device == "cpu" and bool(torch.cpu.get_capabilities().get("amx_bf16", False))
        if wanted == "auto":
            fast = amx or (device == "cuda" and torch.cuda.is_bf16_supported())
            wanted = "bfloat16" if fast else "float32"
        return cls(getattr(torch, wanted), float32_attention=amx and wanted == "bfloat16")


def load_base(recipe: Recipe, precision: Precision) -> tuple[OptionScorer, Any]:
    """The recipe's encoder with its head, in float32 on the CPU, and its tokenizer. The head depends on the seed alone.

    Raises:
        CheckpointError: The base cannot be loaded, or has no fast tokenizer.
    """
    place, revision = _place(recipe.base)
    try:
        tokenizer = AutoTokenizer.from_pretrained(place, revision=revision, use_fast=True)
        encoder = load_encoder(recipe.base, precision)
    except (OSError, ValueError, KeyError, TypeError, ImportError) as error:
        raise CheckpointError(f"the base {recipe.base.model} cannot be loaded ({error})") from error
    if not getattr(tokenizer, "is_fast", False) or tokenizer.pad_token_id is None:
        raise CheckpointError(f"the base {recipe.base.model} needs a fast tokenizer with a padding token")
    torch.manual_seed(recipe.seed)
    scorer = OptionScorer(encoder)
    _take_over_head(scorer, place, revision)
    if recipe.base.freeze_embeddings:
        encoder.embeddings.requires_grad_(False)
    return scorer, tokenizer


def load_encoder(base: Base, precision: Precision, *, whole: bool = False) -> Any:
    """The base's encoder in float32; ``whole`` keeps all layers and no dropout, for a teacher."""
    place, revision = _place(base)
    changes: dict[str, Any] = {}
    if base.layers is not None and not whole:
        changes["num_hidden_layers"] = base.layers
    if whole or base.dropout is not None:
        changes |= dict.fromkeys(
            ("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0 if whole else base.dropout
        )
    return AutoModel.from_pretrained(
        place,
        revision=revision,
        dtype=torch.float32,
        add_pooling_layer=False,
        attn_implementation=_attention(precision),
        **changes,
    )


def mean_pooled(encoder: Any, ids: Tensor, mask: Tensor) -> Tensor:
    """The mean over a text's tokens, ``[texts, hidden]``, float32."""
    hidden = encoder(input_ids=ids, attention_mask=mask).last_hidden_state.float()
    pooled: Tensor = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    return pooled


def empty_scorer(folder: Path, precision: Precision) -> OptionScorer:
    """A scorer of the shape that ``folder/config.json`` describes, with weights still to be loaded into it."""
    config = AutoConfig.from_pretrained(folder)
    return OptionScorer(
        AutoModel.from_config(config, add_pooling_layer=False, attn_implementation=_attention(precision)).float()
    )


def _place(base: Base) -> tuple[str, str | None]:
    if base.model == BUNDLED:
        return str(resolve_checkpoint(BUNDLED).folder), None
    return base.model, None if Path(base.model).is_dir() else base.revision


def _take_over_head(scorer: OptionScorer, place: str, revision: str | None) -> None:
    """Start from the head of a pair-scoring checkpoint. Only a folded one is linear; any other base gets a new head."""
    config = AutoConfig.from_pretrained(place, revision=revision)
    if not any(name.endswith("ForSequenceClassification") for name in config.architectures or ()):
        return
    model = AutoModelForSequenceClassification.from_pretrained(place, revision=revision, dtype=torch.float32)
    head = folded_head(model)
    if head is not None:
        scorer.head.load_state_dict({"weight": head[0], "bias": head[1]})


def _attention(precision: Precision) -> str:
    if not precision.float32_attention:
        return "sdpa"
    AttentionInterface.register(_FLOAT32_ATTENTION, _float32_attention)
    ALL_MASK_ATTENTION_FUNCTIONS.register(_FLOAT32_ATTENTION, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
    return _FLOAT32_ATTENTION


def _float32_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **_: Any,
) -> tuple[Tensor, None]:
    """``sdpa`` in float32 under a bfloat16 autocast.

    ``[batch, heads, tokens, size]`` goes in, ``[batch, tokens, heads, size]`` comes out.
    """
    with torch.autocast(query.device.type, enabled=False):
        mask = attention_mask
        if mask is not None and mask.dtype != torch.bool:
            mask = mask.float()
        mixed = functional.scaled_dot_product_attention(
            query.float(), key.float(), value.float(), attn_mask=mask, dropout_p=dropout, scale=scaling
        )
    return mixed.to(query.dtype).transpose(1, 2).contiguous(), None
