"""The export: a linear head folded into the stock classifier, checked, and loadable by anyone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSequenceClassification, DistilBertConfig, DistilBertModel

from ko_decision_tools.checkpoints import resolve_checkpoint
from ko_decision_tools.encoders.pair import PairEncoder
from ko_decision_tools.errors import CheckpointError, InvalidInputError
from ko_decision_tools.prompts import Prompt, render
from ko_decision_tools.questions import Choice, Noul
from ko_decision_tools.training.export import check_prompts, export_checkpoint
from tests.training_stand_in import tiny_encoder, tiny_tokenizer

PROMPTS = [
    render(
        Choice(instructions="어느 팀인가?", criteria={"결제": "카드", "배송": None, "환불": None}), "택배가 언제 오나요"
    ),
    render(Noul(instructions="질문인가?"), "반품하고 싶어요"),
]


def _head(scale: float = 0.1) -> torch.Tensor:
    return torch.randn(1, 32, generator=torch.Generator().manual_seed(3)) * scale


def _linear_probabilities(encoder: Any, weight: torch.Tensor, bias: float, prompt: Prompt) -> torch.Tensor:
    """The definition, by hand: a linear layer on the first token, a softmax over the options."""
    tokenizer = tiny_tokenizer()
    scores = []
    for option in prompt.options:
        ids = tokenizer(f"{prompt.instruction} {option}", prompt.state, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            scores.append(encoder.eval()(input_ids=ids).last_hidden_state[0, 0] @ weight[0] + bias)
    return torch.stack(scores).softmax(0)


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_float32_export_gives_the_linear_heads_probabilities(kind: str, tmp_path: Path) -> None:
    encoder, weight = tiny_encoder(kind), _head()
    report = export_checkpoint(
        encoder, weight, torch.tensor([0.3]), tiny_tokenizer(), tmp_path / "out", dtype="float32", check_rows=PROMPTS
    )
    loaded = PairEncoder.load(tmp_path / "out", device="cpu")
    for prompt in PROMPTS:
        expected = _linear_probabilities(encoder, weight, 0.3, prompt)
        got = loaded.score([loaded.prepare(prompt)])[0].softmax().probabilities
        assert got == pytest.approx(expected.tolist(), abs=2e-6)
        assert max(got) - min(got) > 0.05  # or the comparison above would hold for any head
    assert report.fold_difference < 1e-6
    assert (report.prompts, report.pairs) == (2, 5)


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_half_precision_on_disk_is_reported_apart_from_the_fold(kind: str, tmp_path: Path) -> None:
    report = export_checkpoint(tiny_encoder(kind), _head(), 0.0, tiny_tokenizer(), tmp_path / "out")
    assert report.dtype == "float16"
    assert report.fold_difference < 1e-6 < report.disk_difference < 1e-2
    assert report.disk_same_answer == 1.0
    float32 = export_checkpoint(tiny_encoder(kind), _head(), 0.0, tiny_tokenizer(), tmp_path / "wide", dtype="float32")
    assert report.bytes < 0.6 * float32.bytes
    assert float32.disk_difference < 1e-6


def test_the_folder_is_a_stock_checkpoint_that_resolves(tmp_path: Path) -> None:
    report = export_checkpoint(tiny_encoder(), _head(), 0.0, tiny_tokenizer(), tmp_path / "out")
    model, loading = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not loading["missing_keys"]
    assert not loading["unexpected_keys"]
    assert model.config.num_labels == 1
    assert resolve_checkpoint(tmp_path / "out").fingerprint == report.fingerprint
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_the_heads_scale_survives_its_rounding_to_float16(tmp_path: Path) -> None:
    """0.001 is not a float16; dividing by the stored value keeps scores to float16's own precision, not 4e-4."""
    weight = torch.zeros(1, 32)
    weight[0, 5] = 1.024  # 1.024 / 0.001 = 1024 is exact in float16: only the scale could be off
    export_checkpoint(tiny_encoder(), weight, 0.0, tiny_tokenizer(), tmp_path / "out")
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out", dtype=torch.float32)
    product = (model.classifier.weight[0, 5] * model.bert.pooler.dense.weight[5, 5]).detach()
    assert float(product) == pytest.approx(1.024, rel=2.5e-4)


def test_a_fold_that_moves_probabilities_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    encoder = tiny_encoder()
    with torch.no_grad():  # features of about 200 are no longer where a tanh is straight
        encoder.encoder.layer[-1].output.LayerNorm.weight.mul_(200)
    with pytest.raises(CheckpointError, match="folding the head moved a probability"):
        export_checkpoint(encoder, _head(0.01), 0.0, tiny_tokenizer(), tmp_path / "out", check_rows=PROMPTS)
    assert list(tmp_path.iterdir()) == []


def test_other_files_stay_and_old_weights_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "records.json").write_text("{}")
    first = export_checkpoint(tiny_encoder(), _head(), 0.0, tiny_tokenizer(), tmp_path / "out")
    second = export_checkpoint(tiny_encoder(seed=1), _head(), 0.0, tiny_tokenizer(), tmp_path / "out")
    assert first.fingerprint != second.fingerprint == resolve_checkpoint(tmp_path / "out").fingerprint
    assert (tmp_path / "out" / "records.json").read_text() == "{}"


def test_truncation_left_on_the_tokenizer_by_training_is_not_saved(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer(["가"], ["나" * 50], truncation="only_second", max_length=16)
    assert tokenizer.backend_tokenizer.truncation is not None
    export_checkpoint(tiny_encoder(), _head(), 0.0, tokenizer, tmp_path / "out")
    saved = json.loads((tmp_path / "out" / "tokenizer.json").read_text(encoding="utf-8"))
    assert saved["truncation"] is None
    assert json.loads((tmp_path / "out" / "tokenizer_config.json").read_text())["model_max_length"] == 200


def test_training_mode_and_device_of_the_encoder_are_left_alone(tmp_path: Path) -> None:
    encoder = tiny_encoder(hidden_dropout_prob=0.5).train()
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    export_checkpoint(encoder, _head().requires_grad_(), torch.nn.Parameter(torch.zeros(1)), tiny_tokenizer(), tmp_path)
    assert encoder.training
    assert encoder.config.num_labels == 2  # the classifier's config is a copy
    assert all(torch.equal(before[name], value) for name, value in encoder.state_dict().items())


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"head_weight": torch.zeros(1, 31)}, "head_weight"),
        ({"dtype": "int8"}, "dtype"),
        ({"dtype": torch.int32}, "dtype"),
        ({"encoder": DistilBertModel(DistilBertConfig(vocab_size=9, dim=32, n_heads=2, n_layers=1))}, "encoder"),
    ],
)
def test_what_cannot_be_exported_is_named(change: dict[str, Any], field: str, tmp_path: Path) -> None:
    given = {"encoder": tiny_encoder(), "head_weight": _head(), "head_bias": 0.0, "tokenizer": tiny_tokenizer()}
    dtype = change.pop("dtype", "float16")
    with pytest.raises(InvalidInputError) as caught:
        export_checkpoint(**{**given, **change}, folder=tmp_path / "out", dtype=dtype)
    assert caught.value.field == field
    assert list(tmp_path.iterdir()) == []


def test_check_prompts_cover_every_question_type() -> None:
    assert {prompt.kind for prompt in check_prompts()} == {"choice", "noul", "score"}
