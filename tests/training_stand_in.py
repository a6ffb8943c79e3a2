"""Tiny random encoders and a character tokenizer, made on the spot: nothing is downloaded, nothing is trained yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast, RobertaConfig, RobertaModel

_SIZES: dict[str, Any] = {
    "num_hidden_layers": 2,
    "hidden_size": 32,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 200,
    "initializer_range": 0.3,  # with the usual 0.02 a random first token hardly depends on the text
}
_LETTERS = sorted(
    set(
        "결제배송환불영수증카드가두번나갔어요택배안와반품하고싶다언제오나기분좋은날이에요나쁜말싫어좋아최고별로"
        "어느팀인가참거짓질문의답은아니오이다예주제를고르라뉴스스포츠경제정치사회긍정적문장에타난감정"
        "전제대해가설이갖는논리적관계판정하세요 .:?0123456789abcdefghijklmnopqrstuvwxyz"
    )
)


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """One id per character it knows; pairs as ``<s> A </s></s> B </s>``."""
    vocab = {piece: index for index, piece in enumerate(["<s>", "<pad>", "</s>", "<unk>", *_LETTERS])}
    backend = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", unk_token="<unk>", bos_token="<s>", eos_token="</s>"
    )


def tiny_encoder(kind: str = "bert", *, seed: int = 0, **changes: Any) -> Any:
    """A random two-layer encoder of 32 features without a pooler."""
    torch.manual_seed(seed)
    sizes = {**_SIZES, "vocab_size": len(_LETTERS) + 4, "pad_token_id": 1, **changes}
    if kind == "bert":
        return BertModel(BertConfig(**sizes), add_pooling_layer=False)
    return RobertaModel(RobertaConfig(**sizes), add_pooling_layer=False)


def write_tiny_base(folder: Path, kind: str = "bert", **changes: Any) -> Path:
    """A folder with a tiny encoder and its tokenizer, as a recipe's base."""
    tiny_encoder(kind, **changes).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def write_rows(path: Path, count: int = 60) -> Path:
    """A CSV of texts and labels that a tiny model can learn: the label is a matter of one word."""
    words = {"결제": ("카드가", "돈이", "영수증"), "배송": ("택배가", "배송이", "언제 오나")}
    lines = ["text,label"]
    for number in range(count):
        label = ("결제", "배송")[number % 2]
        lines.append(f"{words[label][number % 3]} {'나요' if number % 5 else '어요'} {number},{label}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def tiny_recipe(folder: Path, **changes: Any) -> dict[str, Any]:
    """A recipe in its parsed form: one stage of a few steps over the CSV, checkpoints every two steps."""
    return {
        "name": "tiny",
        "base": {"model": str(folder / "base"), "dropout": 0.1, "licence": "CC0"},
        "tasks": {"desk": {"file": str(folder / "rows.csv"), "licence": "CC0"}},
        "stages": [{"name": "only", "epochs": 1}],
        "optimizer": {"encoder_lr": 1e-3, "head_lr": 1e-2},
        "batch_rows": 8,
        "max_tokens": 64,
        "precision": "float32",
        "selection": {"source": "none"},
        "save_every": 2,
        "log_every": 2,
        **changes,
    }
