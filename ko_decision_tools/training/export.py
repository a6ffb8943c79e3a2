"""From a trained encoder and a linear head to a checkpoint any stock ``transformers`` loads, with the fold checked.

The trained head is one linear layer on the first token; :mod:`~ko_decision_tools.training.heads` says how it fits
into a stock classifier, and how exactly.

Two differences are measured, on probabilities at temperature 1: the fold in float32 (must stay under 1e-6), and the
folder on disk, loaded the way users load it, which adds the rounding of all weights to ``dtype``.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import AutoModelForSequenceClassification

from ko_decision_tools.checkpoints.files import inspect_folder
from ko_decision_tools.encoders.pair import PairEncoder
from ko_decision_tools.errors import CheckpointError, InvalidInputError
from ko_decision_tools.presets import KLUE_NLI, KLUE_STS, KLUE_YNAT, KOBEST_BOOLQ, kobest_copa
from ko_decision_tools.prompts import Prompt, render
from ko_decision_tools.training.heads import HEADS, fold_head

TOLERANCE = 1e-6
DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
Dtype = Literal["float16", "bfloat16", "float32"]

_LEFT_BY_CALLS = ("is_local", "local_files_only", "max_length", "stride", "truncation_side", "truncation_strategy")


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What an export wrote and how far it moved the probabilities.

    Attributes:
        folder: Where the checkpoint is.
        fingerprint: Its fingerprint, as :class:`~ko_decision_tools.checkpoints.Checkpoint` has it.
        dtype: Precision on disk.
        parameters: Number of weights.
        bytes: Size of the weights file.
        prompts: How many prompts the check scored.
        pairs: How many options they had in all.
        fold_difference: Largest probability difference of the fold, both sides in float32.
        disk_difference: The same after writing, rounding to ``dtype`` and loading again.
        disk_same_answer: Share of prompts whose most probable option is the same after that.
    """

    folder: str
    fingerprint: str
    dtype: str
    parameters: int
    bytes: int
    prompts: int
    pairs: int
    fold_difference: float
    disk_difference: float
    disk_same_answer: float

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, for the run's records."""
        return asdict(self)


def export_checkpoint(
    encoder: Any,
    head_weight: Tensor,
    head_bias: Tensor | float,
    tokenizer: Any,
    folder: Path,
    *,
    dtype: Dtype | torch.dtype = "float16",
    check_rows: Sequence[Prompt] = (),
    tolerance: float = TOLERANCE,
) -> ExportReport:
    """Fold the head, check it, and write config, safetensors weights and tokenizer into ``folder``.

    Files of other names in the folder (records, a calibration) stay. Nothing is written unless the check passes.

    Args:
        encoder: A ``BertModel`` or ``RobertaModel`` (or a relative); its pooler, if any, is not used.
        head_weight: ``[hidden]`` or ``[1, hidden]``.
        head_bias: ``[]`` or ``[1]``; it moves no probability, but raw scores are kept as trained.
        tokenizer: A fast tokenizer with a padding token.
        folder: Made if absent.
        dtype: Precision on disk, by name or as torch's.
        check_rows: Prompts to compare probabilities on; none: :func:`check_prompts`.
        tolerance: Largest probability difference the fold may make in float32.

    Raises:
        InvalidInputError: An architecture without such a head, a head of the wrong size, or an unknown dtype.
        CheckpointError: The fold moved a probability by ``tolerance`` or more, or the result does not load.
    """
    stored = _stored_dtype(dtype)
    weight = _head_row(encoder, head_weight)
    bias = float(torch.as_tensor(head_bias).detach())
    folded = _fold(encoder, weight, bias, stored)
    prompts = list(check_rows) or check_prompts()
    expected, measured = _compare_fold(encoder, weight, bias, folded, tokenizer, prompts)
    fold_difference = _largest(expected, measured)
    if not fold_difference < tolerance:
        raise CheckpointError(
            f"folding the head moved a probability by {fold_difference:.1e}, over {tolerance:.0e}: the encoder's "
            "features are too large for a tanh; nothing was written"
        )
    on_disk = _write(folded, tokenizer, folder, stored, prompts)
    same = sum(int(a.argmax() == b.argmax()) for a, b in zip(expected, on_disk, strict=True))
    return ExportReport(
        folder=str(folder),
        fingerprint=inspect_folder(folder),
        dtype=str(stored).removeprefix("torch."),
        parameters=sum(parameter.numel() for parameter in folded.parameters()),
        bytes=(folder / "model.safetensors").stat().st_size,
        prompts=len(prompts),
        pairs=sum(len(prompt.options) for prompt in prompts),
        fold_difference=fold_difference,
        disk_difference=_largest(expected, on_disk),
        disk_same_answer=same / len(prompts),
    )


def check_prompts() -> list[Prompt]:
    """A few prompts of every trained task, written for the check (they are nobody's data).

    Example:
        >>> [len(prompt.options) for prompt in check_prompts()]
        [3, 3, 7, 7, 6, 6, 2, 2]
    """
    rows: list[tuple[Any, str]] = [
        (KLUE_NLI, KLUE_NLI.state(premise="회의는 세 시에 시작한다.", hypothesis="회의는 오전에 열린다.")),
        (KLUE_NLI, KLUE_NLI.state(premise="개가 마당에서 뛰논다.", hypothesis="마당에 동물이 있다.")),
        (KLUE_YNAT, "한국은행, 기준금리 두 달째 묶었다"),
        (KLUE_YNAT, "9회말 끝내기 홈런…홈 팬들 열광"),
        (KLUE_STS, KLUE_STS.state(sentence1="주차장이 어디인가요?", sentence2="차를 어디에 세우면 되나요?")),
        (KLUE_STS, KLUE_STS.state(sentence1="방이 깨끗했어요.", sentence2="조식은 아홉 시까지입니다.")),
        (KOBEST_BOOLQ, KOBEST_BOOLQ.state(text="고래는 새끼를 낳아 젖을 먹인다.", question="고래는 알을 낳는다.")),
        (kobest_copa("원인", "비가 왔다.", "창문을 닫았다."), "상황: 길이 온통 젖어 있었다."),
    ]
    return [render(preset.question, state) for preset, state in rows]


def _stored_dtype(dtype: Dtype | torch.dtype) -> torch.dtype:
    found = dtype if isinstance(dtype, torch.dtype) else DTYPES.get(dtype)
    if found is None or found not in DTYPES.values():
        raise InvalidInputError("dtype", "cannot be stored", f"Use one of {', '.join(DTYPES)}.", value=dtype)
    return found


def _head_row(encoder: Any, head_weight: Tensor) -> Tensor:
    kind, hidden = encoder.config.model_type, encoder.config.hidden_size
    if kind not in HEADS:
        raise InvalidInputError(
            "encoder", f"is a {kind!r}, whose stock classifier is not dense + tanh", f"Use {', '.join(HEADS)}."
        )
    row = head_weight.detach().float().cpu()
    if row.numel() != hidden:
        raise InvalidInputError(
            "head_weight", f"has shape {tuple(row.shape)}", f"A linear layer from {hidden} features to one score fits."
        )
    return row.reshape(hidden)


def _fold(encoder: Any, weight: Tensor, bias: float, stored: torch.dtype) -> Any:
    """The stock classifier in float32 on the CPU, with the encoder's weights and the folded head."""
    config = deepcopy(encoder.config)
    config.num_labels = 1
    config.dtype = torch.float32
    model = AutoModelForSequenceClassification.from_config(
        config, attn_implementation=encoder.config._attn_implementation
    )
    model = model.float().eval()
    state = {name: value.detach().float().cpu() for name, value in encoder.state_dict().items()}
    report = model.base_model.load_state_dict(state, strict=False)
    missing = [name for name in report.missing_keys if not name.startswith("pooler.")]
    unexpected = [name for name in report.unexpected_keys if not name.startswith("pooler.")]
    if missing or unexpected:
        raise CheckpointError(f"the encoder does not fit its stock classifier: {(missing + unexpected)[:4]}")
    fold_head(model, weight, bias, stored)
    return model


@torch.inference_mode()
def _compare_fold(
    encoder: Any, weight: Tensor, bias: float, folded: Any, tokenizer: Any, prompts: Sequence[Prompt]
) -> tuple[list[Tensor], list[Tensor]]:
    """Probabilities per prompt, from the head as trained and from the folded one.

    Row by row: the same shapes take the same kernels, so what differs is the fold and not the order of a sum.
    """
    pairs = PairEncoder(folded, tokenizer)
    trained = deepcopy(encoder).float().cpu().eval()
    expected, measured = [], []
    for prompt in prompts:
        ids = [torch.tensor([row]) for row in pairs.prepare(prompt).rows]
        first = [trained(input_ids=row, attention_mask=torch.ones_like(row)).last_hidden_state[0, 0] for row in ids]
        logits = [folded(input_ids=row, attention_mask=torch.ones_like(row)).logits[0, 0] for row in ids]
        expected.append((torch.stack(first) @ weight + bias).softmax(0))
        measured.append(torch.stack(logits).softmax(0))
    return expected, measured


def _write(model: Any, tokenizer: Any, folder: Path, stored: torch.dtype, prompts: Sequence[Prompt]) -> list[Tensor]:
    """Write to a folder beside, load that as users do, and only then move the files in; probabilities as loaded."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as made:
        staged = Path(made)
        model.to(stored).save_pretrained(staged)
        _save_tokenizer(tokenizer, staged, PairEncoder(model, tokenizer).max_tokens)
        encoder = PairEncoder.load(staged, device="cpu")
        scores = encoder.score([encoder.prepare(prompt) for prompt in prompts])
        folder.mkdir(exist_ok=True)
        for path in staged.iterdir():
            path.chmod(0o644)  # safetensors makes its file for the owner alone
            path.replace(folder / path.name)
    return [torch.tensor(item.logits).softmax(0) for item in scores]


def _save_tokenizer(tokenizer: Any, folder: Path, max_tokens: int) -> None:
    """Save it without what earlier calls left on it: a truncation to the training length would be saved too."""
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    kept = {name: value for name, value in config.items() if name not in _LEFT_BY_CALLS}
    text = json.dumps({**kept, "model_max_length": max_tokens}, ensure_ascii=False, indent=2)
    path.write_text(f"{text}\n", encoding="utf-8")


def _largest(one: Sequence[Tensor], other: Sequence[Tensor]) -> float:
    return max(float((a - b).abs().max()) for a, b in zip(one, other, strict=True))
