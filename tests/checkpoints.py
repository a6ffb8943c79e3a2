"""Tiny random checkpoints made on the spot, and the model card's own scoring code as the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def write_tiny_roberta(folder: Path, *, seed: int = 0, labels: int = 1) -> None:
    """klue/roberta's shape in small: BERT-style WordPiece ids, RoBERTa positions, a dense+tanh+out_proj head."""
    import torch
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaForSequenceClassification

    pieces = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]", *(chr(code) for code in range(33, 127))]
    syllables = [chr(code) for code in range(0xAC00, 0xD7A4, 7)]
    words = [*syllables, *(f"##{syllable}" for syllable in syllables), *(f"##{chr(c)}" for c in range(33, 127))]
    vocab = {piece: index for index, piece in enumerate([*pieces, *words])}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 0), ("[SEP]", 2)]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        cls_token="[CLS]",
        sep_token="[SEP]",
        pad_token="[PAD]",
        unk_token="[UNK]",
        mask_token="[MASK]",
        bos_token="[CLS]",
        eos_token="[SEP]",
        model_max_length=512,
    )
    torch.manual_seed(seed)
    config = RobertaConfig(
        vocab_size=len(vocab),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=514,
        type_vocab_size=1,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        num_labels=labels,
        initializer_range=0.4,  # large enough for scores that differ
    )
    RobertaForSequenceClassification(config).save_pretrained(folder)
    fast.save_pretrained(folder)


class CardReference:
    """The published card's ``decide()``: one padded batch per question, ``only_second``, softmax of raw logits."""

    def __init__(self, folder: Path) -> None:
        import torch
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()

    def rows(self, instruction: str, options: list[str], state: str) -> Any:
        """The card's tokenised rows."""
        return self.tokenizer(
            [f"{instruction} {option}" for option in options],
            [state] * len(options),
            truncation="only_second",
            max_length=512,
            padding=True,
            return_tensors="pt",
            return_token_type_ids=False,
        )

    def decide(self, instruction: str, options: list[str], state: str, temperature: float = 1.0) -> list[float]:
        """Probabilities in option order."""
        import torch

        with torch.no_grad():
            scores = self.model(**self.rows(instruction, options, state)).logits.squeeze(-1).float()
        probabilities: list[float] = torch.softmax(scores / temperature, dim=0).tolist()
        return probabilities
