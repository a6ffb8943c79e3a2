"""Scores equal the model card's own code, one by one and in any batch, order or mix."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ko_decision_tools import Choice, KoDecisionModel, Noul, Score
from ko_decision_tools.encoders.pair import PairEncoder
from ko_decision_tools.errors import CheckpointError, EncoderError, InputTooLongError, InvalidInputError
from ko_decision_tools.presets import KLUE_NLI, KLUE_STS, KLUE_YNAT
from ko_decision_tools.prompts import render
from tests.checkpoints import CardReference, write_tiny_roberta

TICKET = "어제 주문한 운동화가 아직도 안 왔어요. 송장 번호도 안 뜨고 고객센터는 계속 통화 중이네요."
CASES: list[tuple[Any, str]] = [
    (KLUE_NLI.question, KLUE_NLI.state(premise="비가 와서 소풍이 미뤄졌다.", hypothesis="소풍을 예정대로 갔다.")),
    (KLUE_YNAT.question, "지하철 요금 다음 달부터 오른다"),
    (KLUE_STS.question, KLUE_STS.state(sentence1="문을 닫아 주세요.", sentence2="문 좀 닫아 줄래?")),
    (Noul(instructions="고객이 환불을 요구하는가?"), "돈 돌려주세요"),
    (Choice(instructions="어느 팀?", criteria={"배송": "배송 지연, 분실", "결제": "환불", "계정": None}), TICKET),
    (Score(instructions="얼마나 급한가?", criteria=["급하지 않다", "오늘 안에", "지금 당장"]), TICKET),
    (Choice(instructions="어느 팀?", criteria={"배송": None, "결제": None}), "배송이 늦어요. " * 400),
]


@pytest.fixture(scope="module")
def tiny(tiny_roberta: Path) -> KoDecisionModel:
    with pytest.warns(UserWarning, match="no calibration"):
        return KoDecisionModel.from_pretrained(tiny_roberta)


@pytest.fixture(scope="module")
def pairs(tiny: KoDecisionModel, tiny_roberta: Path, mini: KoDecisionModel) -> dict[str, tuple[Any, CardReference]]:
    bundled = Path(__file__).parents[1] / "ko_decision_tools" / "mini"
    return {"tiny": (tiny, CardReference(tiny_roberta)), "mini": (mini, CardReference(bundled))}


def reference(card: CardReference, question: Any, state: str, temperature: float) -> list[float]:
    prompt = render(question, state)
    return card.decide(prompt.instruction, list(prompt.options), prompt.state, temperature)


@pytest.mark.parametrize("which", ["tiny", "mini"])
@pytest.mark.parametrize("case", range(len(CASES)))
def test_one_by_one_equals_the_cards_own_decide(pairs: Any, which: str, case: int) -> None:
    model, card = pairs[which]
    question, state = CASES[case]
    decision = model.decide(state, question)
    expected = reference(card, question, state, decision.provenance.temperature)
    assert decision.probabilities_in_order == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("which", ["tiny", "mini"])
def test_any_batch_order_and_mix_gives_the_same_answers(pairs: Any, which: str) -> None:
    model, card = pairs[which]
    order = list(CASES) * 2
    random.Random(1).shuffle(order)
    decisions = model.decide_many([state for _, state in order], [question for question, _ in order])
    for decision, (question, state) in zip(decisions, order, strict=True):
        expected = reference(card, question, state, decision.provenance.temperature)
        assert decision.probabilities_in_order == pytest.approx(expected, abs=1e-4)
        assert decision.label == decision.labels[expected.index(max(expected))]


@pytest.mark.parametrize("which", ["tiny", "mini"])
def test_rows_are_the_ids_transformers_makes(pairs: Any, which: str) -> None:
    model, card = pairs[which]
    for question, state in CASES:
        prompt = render(question, state)
        batch = card.rows(prompt.instruction, list(prompt.options), prompt.state)
        expected = [
            tuple(ids[mask.bool()].tolist())
            for ids, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True)
        ]
        assert list(model.plan(state, question).rows) == expected


def test_scores_differ_between_options(tiny: KoDecisionModel) -> None:
    """Guards the tests above: a model whose scores are all equal would pass them with anything."""
    logits = tiny.decide(TICKET, CASES[4][0]).logits
    assert max(logits) - min(logits) > 0.01


def test_permuting_options_permutes_probabilities(mini: KoDecisionModel, tiny: KoDecisionModel) -> None:
    criteria = {"배송": "배송 지연, 분실", "결제": "이중 결제, 환불", "계정": None, "제품": "사용법, 고장"}
    for model in (mini, tiny):
        before = model.decide(TICKET, Choice(instructions="어느 팀?", criteria=criteria)).probabilities
        shuffled = dict(reversed(criteria.items()))
        after = model.decide(TICKET, Choice(instructions="어느 팀?", criteria=shuffled)).probabilities
        assert after == pytest.approx(before, abs=1e-6)


def test_renaming_adding_or_reordering_questions_changes_nothing(mini: KoDecisionModel) -> None:
    refund, team = Noul(instructions="환불을 요구하는가?"), CASES[4][0]
    alone = mini.decide_questions(TICKET, {"a": team})["a"].probabilities
    several = mini.decide_questions(TICKET, {"환불": refund, "team": team, "급함": CASES[5][0]})
    assert several["team"].probabilities == pytest.approx(alone, abs=1e-4)
    assert several["team"].choice == max(alone, key=alone.__getitem__)


def test_sixteen_threads_give_the_answers_of_one(tiny: KoDecisionModel) -> None:
    """ "Already borrowed" in the tokenizer, or a mixed-up batch, would show here."""
    work = [CASES[index % len(CASES)] for index in range(96)]
    expected = [tiny.decide(state, question).probabilities_in_order for question, state in work]
    barrier = threading.Barrier(16)

    def run(worker: int) -> list[tuple[int, tuple[float, ...]]]:
        barrier.wait(timeout=30)
        return [
            (index, tiny.decide(work[index][1], work[index][0]).probabilities_in_order)
            for index in range(worker, len(work), 16)
        ]

    with ThreadPoolExecutor(16) as pool:
        got = dict(pair for pairs in pool.map(run, range(16)) for pair in pairs)
    assert [got[index] for index in range(len(work))] == [pytest.approx(p, abs=1e-6) for p in expected]


def test_long_states_are_cut_at_the_end_and_reported(mini: KoDecisionModel) -> None:
    question, state = CASES[6]
    decision = mini.decide(state, question)
    truncation = decision.provenance.truncation
    assert truncation is not None
    assert truncation.cut == truncation.state_tokens - truncation.kept > 0
    assert all(len(row) <= mini.encoder.max_tokens for row in mini.plan(state, question).rows)
    assert mini.decide("배송이 늦어요.", question).provenance.truncation is None


def test_truncation_error_refuses_instead_of_cutting(tiny_roberta: Path) -> None:
    with pytest.warns(UserWarning, match="no calibration"):
        model = KoDecisionModel.from_pretrained(tiny_roberta, truncation="error")
    with pytest.raises(InputTooLongError, match=r"state has .* tokens"):
        model.decide("배송이 늦어요. " * 400, CASES[4][0])


def test_an_option_of_600_tokens_is_named(mini: KoDecisionModel) -> None:
    long = Choice(instructions="어느 팀?", criteria={"짧은": None, "긴": "배송 지연과 분실 문의, " * 200})
    with pytest.raises(InputTooLongError, match=r"options\[1\] .* tokens"):
        mini.decide(TICKET, long)


def test_a_text_of_100000_characters_is_answered(mini: KoDecisionModel) -> None:
    decision = mini.decide("환불해 주세요! " * 12_500, CASES[4][0])
    assert decision.provenance.truncation is not None


def test_control_characters_are_answered_like_any_text(mini: KoDecisionModel) -> None:
    decision = mini.decide("배송이\x00 늦어요\x07\x1b[31m\u202e", CASES[4][0])
    assert sum(decision.probabilities_in_order) == pytest.approx(1)


def test_float16_on_disk_scores_in_float32(tiny_roberta: Path, tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    AutoModelForSequenceClassification.from_pretrained(tiny_roberta, dtype=torch.float16).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny_roberta).save_pretrained(tmp_path)
    encoder = PairEncoder.load(tmp_path)
    prepared = encoder.prepare(render(*CASES[4]))
    scores = encoder.score([prepared])[0].logits
    half = torch.tensor(scores).half().float().tolist()
    assert list(scores) != half


def test_a_checkpoint_with_three_labels_is_refused(tmp_path: Path) -> None:
    write_tiny_roberta(tmp_path, labels=3)
    with pytest.raises(CheckpointError, match="num_labels=3"):
        PairEncoder.load(tmp_path)


def test_a_checkpoint_without_its_head_is_refused_not_filled_with_noise(tiny_roberta: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file
    from transformers import AutoTokenizer

    weights = load_file(tiny_roberta / "model.safetensors")
    headless = {key: value for key, value in weights.items() if not key.startswith("classifier")}
    save_file(headless, tmp_path / "model.safetensors", metadata={"format": "pt"})
    (tmp_path / "config.json").write_bytes((tiny_roberta / "config.json").read_bytes())
    AutoTokenizer.from_pretrained(tiny_roberta).save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match=r"missing for classifier"):
        PairEncoder.load(tmp_path)


def test_a_failing_forward_pass_is_an_encoder_error(tiny_roberta: Path) -> None:
    encoder = PairEncoder.load(tiny_roberta)
    prepared = encoder.prepare(render(*CASES[4]))

    def fail(**_: Any) -> None:
        raise RuntimeError("out of memory")

    encoder._model.forward = fail
    with pytest.raises(EncoderError, match="out of memory"):
        encoder.score([prepared])


def test_an_unknown_device_is_named(tiny_roberta: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"device .*'gpu'"):
        PairEncoder.load(tiny_roberta, device="gpu")
