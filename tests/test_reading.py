"""Scores, probabilities, temperatures, policies, and the decision they end in."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ko_decision_tools.calibration import Temperature, TemperatureTable, bucket_of
from ko_decision_tools.decisions import Truncation
from ko_decision_tools.distributions import Distribution, Scores
from ko_decision_tools.errors import CalibrationError, EncoderError, InvalidInputError, UncalibratedError
from ko_decision_tools.policy import MinMargin, MinTopProbability, Policy, Reading, WhenUncalibrated, YesNoBand
from ko_decision_tools.questions import Choice, Noul, Score
from ko_decision_tools.reading import Cost, Reader

LOGITS = st.lists(st.floats(-50, 50), min_size=2, max_size=30).map(tuple)
TEAM = Choice(instructions="?", criteria={"결제": None, "배송": None, "계정": None})


@given(LOGITS, st.floats(0.05, 20))
def test_softmax_is_a_distribution_and_temperature_never_changes_the_ranking(logits: Any, temperature: float) -> None:
    probabilities = Scores(logits).softmax(temperature).probabilities
    assert math.isclose(sum(probabilities), 1, abs_tol=1e-9)
    order = sorted(range(len(logits)), key=logits.__getitem__)
    assert all(probabilities[a] <= probabilities[b] for a, b in pairwise(order))


@given(LOGITS)
def test_a_higher_temperature_is_never_more_confident(logits: Any) -> None:
    tops = [Scores(logits).softmax(t).top_probability for t in (0.5, 1.0, 3.0)]
    assert tops[0] >= tops[1] - 1e-12
    assert tops[1] >= tops[2] - 1e-12


def test_extreme_scores_do_not_overflow() -> None:
    assert Scores((1e6, -1e6)).softmax(0.05).probabilities == (1.0, 0.0)


@pytest.mark.parametrize("bad", [(1.0,), (), (1.0, math.nan), (math.inf, 0.0)])
def test_scores_that_are_not_scores_are_refused(bad: Any) -> None:
    with pytest.raises(EncoderError):
        Scores(bad)


def test_the_reference_confidences() -> None:
    assert Distribution((0.25,) * 4, 1).choice_confidence() == 0
    assert Distribution((0.7, 0.3), 1).choice_confidence() == pytest.approx(0.4)
    assert Distribution((0.0, 1.0, 0.0), 1).score_confidence() == 1
    # levels 0..2, mode 1, spread 0.5, D = (1 + 0 + 1)/3
    assert Distribution((0.25, 0.5, 0.25), 1).score_confidence() == pytest.approx(1 - 0.5 / (2 / 3))


def test_the_sts_example_of_the_card() -> None:
    assert Distribution((0, 0, 0, 0.212, 0.788, 0), 1).expected_level == pytest.approx(3.788)


# -- temperatures ------------------------------------------------------------------------------------------------------

TABLE = TemperatureTable(
    tasks={"klue_nli": 3.3, "kobest_boolq": 4.4}, by_bucket={"choice:3-5": 1.9}, by_type={"score": 3.2}
)


@pytest.mark.parametrize(
    ("kind", "options", "task", "expected"),
    [
        ("choice", 3, "klue_nli", Temperature(3.3, "task klue_nli", True)),
        ("choice", 3, None, Temperature(1.9, "bucket choice:3-5", True)),
        ("choice", 3, "unknown", Temperature(1.9, "bucket choice:3-5", True)),
        ("score", 6, None, Temperature(3.2, "type score", True)),
        ("choice", 7, None, Temperature(3.3, "fallback: largest fitted for choice", False)),
        ("noul", 2, None, Temperature(4.4, "fallback: largest fitted for noul", False)),
    ],
)
def test_lookup_goes_from_specific_to_general(kind: Any, options: int, task: Any, expected: Temperature) -> None:
    assert TABLE.lookup(kind, options, task=task) == expected


def test_without_any_temperature_nothing_is_called_calibrated() -> None:
    assert TemperatureTable().lookup("choice", 3) == Temperature(1.0, "none", False)


def test_buckets() -> None:
    assert [bucket_of(n) for n in (2, 3, 5, 6, 10, 11, 255)] == ["2", "3-5", "3-5", "6-10", "6-10", "11+", "11+"]


def test_the_cards_file_and_our_own_are_read_and_written(tmp_path: Path) -> None:
    card = tmp_path / "card.json"
    card.write_text('{"temperatures": {"klue_nli": 3.30}}', encoding="utf-8")
    assert TemperatureTable.read(card).tasks == {"klue_nli": 3.3}
    assert TemperatureTable.from_dict(json.loads(json.dumps(TABLE.to_dict()))) == TABLE


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        "{}",
        '{"temperatures": []}',
        '{"temperatures": {"a": 0}}',
        '{"temperatures": {"a": -1}}',
        '{"temperatures": {"a": NaN}}',
        '{"temperatures": {"a": Infinity}}',
        '{"temperatures": {"a": "1"}}',
        '{"temperatures": {"a": true}}',
        '{"by_type": {"choise": 1}}',
        '{"by_bucket": {"choice:3": 1}}',
        "[" * 100_000,
    ],
)
def test_a_bad_calibration_names_its_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "calibration.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CalibrationError, match=r"calibration\.json"):
        TemperatureTable.read(path)


def test_a_calibration_for_other_weights_is_refused() -> None:
    TABLE.check_made_for("anything")
    with pytest.raises(CalibrationError, match="fitted on checkpoint abc, not on def"):
        TemperatureTable(tasks={"x": 1.0}, checkpoint="abc").check_made_for("def")


# -- policies ----------------------------------------------------------------------------------------------------------


def reading(top: float = 0.7, margin: float = 0.4, p_true: float | None = None, calibrated: bool = True) -> Reading:
    return Reading("choice" if p_true is None else "noul", top, margin, p_true, calibrated)


@pytest.mark.parametrize(
    ("rule", "accepted", "refused"),
    [
        (MinTopProbability(0.6), reading(0.6), reading(0.5999999)),
        (MinMargin(0.2), reading(margin=0.2), reading(margin=0.1999)),
        (YesNoBand(0.2, 0.7), reading(p_true=0.2), reading(p_true=0.20001)),
        (YesNoBand(0.2, 0.7), reading(p_true=0.7), reading(p_true=0.69999)),
        (WhenUncalibrated("abstain"), reading(), reading(calibrated=False)),
    ],
)
def test_a_value_at_the_bar_is_accepted_and_below_is_not(rule: Policy, accepted: Reading, refused: Reading) -> None:
    assert rule.reasons(accepted) == ()
    assert len(rule.reasons(refused)) == 1


def test_a_reason_never_rounds_up_to_its_bar() -> None:
    assert MinTopProbability(0.6).reasons(reading(0.59999)) == ("top probability 0.59999 < 0.6",)


def test_and_needs_both_or_needs_one() -> None:
    both, either = MinTopProbability(0.6) & MinMargin(0.5), MinTopProbability(0.6) | MinMargin(0.5)
    assert both.reasons(reading(0.7, 0.4)) == ("margin 0.400 < 0.5",)
    assert either.reasons(reading(0.7, 0.4)) == ()
    assert len(either.reasons(reading(0.5, 0.1))) == 2
    assert len(both.reasons(reading(0.5, 0.1))) == 2


def test_uncalibrated_may_be_an_error() -> None:
    with pytest.raises(UncalibratedError, match="ko-decision fit"):
        WhenUncalibrated("error").reasons(reading(calibrated=False))


@pytest.mark.parametrize(
    "build",
    [
        lambda: MinTopProbability(1.1),
        lambda: MinTopProbability(math.nan),
        lambda: MinTopProbability("0.5"),
        lambda: MinMargin(-0.1),
        lambda: YesNoBand(0.7, 0.2),
        lambda: YesNoBand(0.5, 0.5),
        lambda: WhenUncalibrated("maybe"),
    ],
)
def test_impossible_bars_are_refused(build: Any) -> None:
    with pytest.raises(InvalidInputError):
        build()


# -- decisions ---------------------------------------------------------------------------------------------------------

COST = Cost(pairs=3, tokens=90, truncation=Truncation(600, 450), markers=(None, None, None))


def read(question: Any, *logits: float, policy: Policy | None = None, task: str | None = None) -> Any:
    return Reader("mini", "abc", TABLE).read(
        question, Scores(logits), COST, task=task, policy=policy or MinTopProbability(0.6)
    )


def test_a_decision_says_everything() -> None:
    decision = read(TEAM, 3.0, 1.0, 0.0)
    assert (decision.choice, decision.abstained, decision.calibrated) == ("결제", False, True)
    assert decision.provenance.temperature_source == "bucket choice:3-5"
    assert sum(decision.probabilities.values()) == pytest.approx(1)
    assert list(decision.probabilities) == ["결제", "배송", "계정"]


def test_an_abstained_decision_keeps_its_distribution_and_reasons() -> None:
    decision = read(TEAM, 0.2, 0.1, 0.0)
    assert decision.abstained
    assert decision.choice == "결제"
    assert decision.reasons == ("top probability 0.351 < 0.6",)
    assert decision.to_dict()["probabilities"] == decision.probabilities


def test_each_type_has_its_own_answer_and_no_other() -> None:
    noul, score = (
        read(Noul(instructions="?"), 0.0, 2.0),
        read(Score(instructions="?", criteria=["가", "나", "다"]), 0, 0, 9),
    )
    assert noul.noul == noul.probabilities["true"] > 0.5
    assert noul.confidence is None
    assert 0 <= score.score <= 2
    assert score.legend == ("가", "나", "다")
    for decision, name in ((noul, "choice"), (noul, "score"), (score, "noul")):
        with pytest.raises(AttributeError, match=f"has no .{name}"):
            getattr(decision, name)


def test_json_is_plain_and_keeps_raw_hangul() -> None:
    for question, logits in ((TEAM, (3, 1, 0)), (Noul(instructions="?"), (0, 2))):
        raw = read(question, *logits).to_dict()
        assert json.loads(json.dumps(raw, ensure_ascii=False)) == raw
    assert read(TEAM, 3, 1, 0).to_dict()["provenance"]["truncation"] == {"state_tokens": 600, "kept": 450}


def test_langchain_answers_carry_the_same_numbers() -> None:
    decision = read(TEAM, 3.0, 1.0, 0.0)
    answer = decision.to_answer()
    assert (answer.choice, answer.probabilities) == (decision.choice, decision.probabilities)
    assert read(Noul(instructions="?"), 0.0, 2.0).to_answer().noul == pytest.approx(1 / (1 + math.exp(-2 / 4.4)))


def test_the_wrong_number_of_scores_is_an_encoder_error() -> None:
    with pytest.raises(EncoderError, match="2 scores for 3 options"):
        read(TEAM, 1.0, 2.0)
