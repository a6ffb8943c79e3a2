"""Rendering: the trained wording to the character, labels that survive, states of every shape."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.presets import KLUE_NLI, KLUE_STS, KLUE_YNAT, KOBEST_BOOLQ, kobest_copa
from ko_decision_tools.prompts import labels_of, render, render_options
from ko_decision_tools.questions import Choice, Noul, NoulCriteria, Score
from ko_decision_tools.states import render_state


def test_the_cards_published_wording_is_reproduced() -> None:
    nli = render(KLUE_NLI.question, KLUE_NLI.state(premise="비가 온다.", hypothesis="날이 맑다."))
    assert nli.instruction == "전제에 대해 가설이 갖는 논리적 관계를 판정하세요."
    assert nli.state == "전제: 비가 온다.\n가설: 날이 맑다."
    assert nli.options[2] == "contradiction: 가설이 전제와 모순된다 (모순)"
    assert render(KLUE_YNAT.question, "제목").options == (
        "IT과학",
        "경제",
        "사회",
        "생활문화",
        "세계",
        "스포츠",
        "정치",
    )
    assert render(KLUE_STS.question, "x").options[5] == "5: 핵심 내용과 부차적 내용의 의미가 모두 같다."
    assert render(KOBEST_BOOLQ.question, "x").options == ("거짓: 질문의 답은 아니오이다.", "참: 질문의 답은 예이다.")
    assert "결과로 더" in kobest_copa("결과", "가", "나").question.instructions
    assert "원인으로 더" in kobest_copa("원인", "가", "나").question.instructions


def test_levels_are_numbered_from_zero_whatever_the_caller_wrote() -> None:
    expected = ("0: 낮다", "1: 보통", "2: 높다")
    for levels in (["낮다", "보통", "높다"], ["0: 낮다", "1: 보통", "2: 높다"], ["1. 낮다", "2. 보통", "3. 높다"]):
        assert render_options(Score(instructions="?", criteria=levels))[0] == expected


def test_letters_are_stripped_for_the_model_and_kept_for_the_caller() -> None:
    question = Choice(instructions="?", criteria={"A: 결제": "환불", "B: 배송": None})
    prompt = render(question, "x")
    assert prompt.options == ("결제: 환불", "배송")
    assert prompt.markers == ("A:", "B:")
    assert labels_of(question) == ("A: 결제", "B: 배송")


def test_bare_letter_labels_with_descriptions_are_stripped_too() -> None:
    assert render(Choice(instructions="?", criteria={"A": "서울", "B": "부산"}), "x").options == ("서울", "부산")


def test_decomposed_hangul_is_composed_for_the_model_and_returned_untouched() -> None:
    label = unicodedata.normalize("NFD", "결제")
    question = Choice(instructions=unicodedata.normalize("NFD", "팀?"), criteria={label: None, "배송": None})
    prompt = render(question, unicodedata.normalize("NFD", "환불"))
    assert (prompt.options[0], prompt.instruction, prompt.state) == ("결제", "팀?", "환불")
    assert labels_of(question)[0] == label != "결제"


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (
            Choice(instructions="?", criteria={"결제": None, " 결제": None}),
            r"options\[1\] reads the same as options\[0\]",
        ),
        (
            Choice(instructions="?", criteria={"결제": None, unicodedata.normalize("NFD", "결제"): None}),
            "reads the same",
        ),
        (Score(instructions="?", criteria=["낮다", "낮다"]), "reads the same"),
        (Score(instructions="?", criteria=["낮다", ""]), r"options\[1\] is empty"),
    ],
)
def test_options_the_model_could_not_tell_apart_are_refused(question: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        render(question, "x")


def test_own_yes_and_no_descriptions_replace_the_default_ones() -> None:
    question = Noul(instructions="?", criteria=NoulCriteria(true="환불을 원한다", false=None))
    assert render_options(question)[0] == ("거짓: 질문의 답은 아니오이다.", "참: 환불을 원한다")


@pytest.mark.parametrize("field", ["state", "instructions", "criteria"])
def test_a_lone_surrogate_is_named_with_the_fix(field: str) -> None:
    broken = "환불\ud83d"
    texts = {"state": "x", "instructions": "?", "criteria": "가"} | {field: broken}
    question = Choice(instructions=texts["instructions"], criteria={texts["criteria"]: None, "나": None})
    with pytest.raises(InvalidInputError, match=f"{field} holds a lone surrogate at position 2.*surrogatepass") as info:
        render(question, texts["state"])
    str(info.value).encode("utf-8")


@pytest.mark.parametrize("empty", ["", "  \n", []])
def test_an_empty_state_is_refused(empty: Any) -> None:
    if empty == []:
        assert render_state(empty) == "[]"
    else:
        with pytest.raises(InvalidInputError, match="state is empty"):
            render(KLUE_YNAT.question, empty)


def test_the_tool_call_comes_first_and_the_newest_message_next() -> None:
    state = {
        "messages": [SystemMessage("지침"), HumanMessage("처음"), AIMessage("중간"), HumanMessage("마지막")],
        "tool_call": {"name": "refund", "args": {"주문": 7}},
    }
    lines = render_state(state).splitlines()
    assert lines[0] == '도구 호출: {"name": "refund", "args": {"주문": 7}}'
    assert lines[1:] == ["사용자: 마지막", "상담원: 중간", "사용자: 처음", "지침: 지침"]


def test_messages_render_with_their_tool_calls_and_roles() -> None:
    call = AIMessage("", tool_calls=[{"name": "refund", "args": {"주문": 7}, "id": "1"}])
    assert render_state(call) == '상담원: [{"name": "refund", "args": {"주문": 7}}]'
    assert render_state([ToolMessage("됨", tool_call_id="1")]) == "도구 결과: 됨"
    assert render_state({"role": "user", "content": "안녕"}) == "사용자: 안녕"
    assert render_state(HumanMessage([{"type": "text", "text": "환불"}, "해 줘"])) == "사용자: 환불 해 줘"


def test_json_keeps_raw_hangul() -> None:
    assert render_state({"주문": [1, None, True, 1.5]}) == '{"주문": [1, null, true, 1.5]}'


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"x": float("nan")}, "holds the number nan"),
        ({"x": object()}, "holds a object, which is not JSON"),
        (b"bytes", "holds a bytes"),
        (HumanMessage([{"type": "image_url", "image_url": {"url": "http://x"}}]), "'image_url' block"),
        ({"type": "image", "base64": "…", "mime_type": "image/png"}, "'image' block"),
    ],
)
def test_what_is_not_text_is_refused(state: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        render_state(state)


def test_bottomless_nesting_is_refused() -> None:
    deep: Any = "바닥"
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidInputError, match="nested too deeply"):
        render_state({"a": deep})
