"""The published Korean checkpoints: a stock one-label sequence classifier scores (instruction + option, state) pairs.

Scores are raw logits: no sigmoid, no rounding, float32 whatever the precision on disk.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils import logging as hf_logging

from ko_decision_tools.distributions import Scores
from ko_decision_tools.encoders.base import Prepared
from ko_decision_tools.encoders.batching import plan_batches
from ko_decision_tools.encoders.pair_tokens import PairTokenizer
from ko_decision_tools.errors import CheckpointError, EncoderError, InvalidInputError
from ko_decision_tools.prompts import Prompt

# Padded tokens in one forward pass. CPUs lose with bigger batches (the cache), GPUs with smaller ones (launches).
BATCH_TOKENS = {"cpu": 1024, "mps": 8192, "cuda": 32768}
MAX_TOKENS = 512


class PairEncoder:
    """Scores K rows for K options with a ``num_labels=1`` sequence classifier.

    Args:
        model: The classifier, on its device, in float32 and eval mode.
        tokenizer: Its fast tokenizer.
        batch_tokens: Padded tokens in one forward pass; by default what suits the device.

    Forward passes run one at a time: several at once would only fight over the same cores.
    """

    def __init__(self, model: Any, tokenizer: Any, *, batch_tokens: int | None = None) -> None:
        self._model = model
        self._device: torch.device = model.device
        self._pad = int(tokenizer.pad_token_id)
        self._tokens = PairTokenizer(tokenizer.backend_tokenizer, _row_limit(model.config))
        self._batch_tokens = batch_tokens or BATCH_TOKENS.get(self._device.type, BATCH_TOKENS["cpu"])
        self._forward = threading.Lock()

    @classmethod
    def load(cls, folder: Path, *, device: str | None = None, batch_tokens: int | None = None) -> PairEncoder:
        """Load a checkpoint folder: safetensors only, no remote code, nothing fetched.

        Raises:
            CheckpointError: The files do not make a ``num_labels=1`` classifier with a fast tokenizer.
            InvalidInputError: ``device`` is not one torch knows here.
        """
        place = pick_device(device)
        model = _load_model(folder)
        tokenizer = _load_tokenizer(folder)
        return cls(model.to(place).eval(), tokenizer, batch_tokens=batch_tokens)

    @property
    def max_tokens(self) -> int:
        """See :class:`~ko_decision_tools.encoders.base.Encoder`."""
        return self._tokens.max_tokens

    @property
    def device(self) -> str:
        """The device the weights are on, as torch spells it."""
        return str(self._device)

    def prepare(self, prompt: Prompt) -> Prepared:
        """See :class:`~ko_decision_tools.encoders.base.Encoder`."""
        return self._tokens.prepare(prompt)

    def score(self, prepared: Sequence[Prepared]) -> list[Scores]:
        """See :class:`~ko_decision_tools.encoders.base.Encoder`. All pairs of all prompts share one plan."""
        rows = [row for item in prepared for row in item.rows]
        logits = [0.0] * len(rows)
        try:
            for batch in plan_batches(list(map(len, rows)), self._batch_tokens):
                scored = self._score_batch([rows[index] for index in batch])
                for index, logit in zip(batch, scored, strict=True):
                    logits[index] = logit
        except RuntimeError as error:  # torch raises it for every failure of a kernel, out-of-memory included
            raise EncoderError(f"the forward pass failed on {self.device}: {error}") from error
        values = iter(logits)
        return [Scores(tuple(next(values) for _ in item.rows)) for item in prepared]

    def _score_batch(self, rows: list[tuple[int, ...]]) -> list[float]:
        width = max(map(len, rows))
        ids = torch.tensor([[*row, *[self._pad] * (width - len(row))] for row in rows])
        lengths = torch.tensor(list(map(len, rows)))
        mask = (torch.arange(width) < lengths[:, None]).long()
        with self._forward, torch.inference_mode():
            output = self._model(input_ids=ids.to(self._device), attention_mask=mask.to(self._device))
            scores: list[float] = output.logits.float().squeeze(-1).tolist()
        return scores


def pick_device(device: str | None = None) -> torch.device:
    """The device asked for, else cuda, else mps, else cpu.

    Raises:
        InvalidInputError: torch does not know it, or it is not available here.
    """
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        raise InvalidInputError(
            "device", f"cannot be used ({error})", 'Use "cpu", "cuda" or "mps".', value=device
        ) from None


def set_threads(count: int | None) -> None:
    """Set torch's intra-op threads (for the whole process); ``None`` leaves them alone.

    Raises:
        InvalidInputError: Not a positive number.
    """
    if count is None:
        return
    if count < 1:
        raise InvalidInputError("num_threads", "is not positive", "Use 1 or more.", value=count)
    torch.set_num_threads(count)


def _row_limit(config: Any) -> int:
    """512, or what the position embeddings allow (RoBERTa's start after the padding index)."""
    positions = getattr(config, "max_position_embeddings", MAX_TOKENS)
    offset = config.pad_token_id + 1 if config.model_type in ("roberta", "xlm-roberta", "camembert") else 0
    return min(MAX_TOKENS, int(positions) - offset)


def _load_model(folder: Path) -> Any:
    try:
        with _without_progress_bars():
            model, report = AutoModelForSequenceClassification.from_pretrained(
                folder,
                dtype=torch.float32,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                output_loading_info=True,
            )
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise CheckpointError(f"{folder}: cannot be loaded as a sequence classifier ({error})") from error
    if model.config.num_labels != 1:
        raise CheckpointError(
            f"{folder}: has num_labels={model.config.num_labels}; a pair-scoring checkpoint has exactly one"
        )
    if report["missing_keys"]:
        # transformers would fill them with random numbers and only log it: a confident answer from noise.
        raise CheckpointError(f"{folder}: weights are missing for {', '.join(sorted(report['missing_keys'])[:4])}")
    return model


@contextmanager
def _without_progress_bars() -> Iterator[None]:
    """A bar for a load that takes a fraction of a second is noise, and a command line has bars of its own."""
    shown = hf_logging.is_progress_bar_enabled()
    hf_logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            hf_logging.enable_progress_bar()


def _load_tokenizer(folder: Path) -> Any:
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False, use_fast=True)
    except (OSError, ValueError, KeyError, TypeError, ImportError) as error:
        raise CheckpointError(f"{folder}: its tokenizer cannot be loaded ({error})") from error
    if not getattr(tokenizer, "is_fast", False) or tokenizer.pad_token_id is None:
        raise CheckpointError(f"{folder}: needs a fast tokenizer (tokenizer.json) with a padding token")
    return tokenizer
