"""``options`` and ``levels`` as agents really send them: read without guessing, or refused with field and fix."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from ko_decision_tools import Choice, InvalidInputError
from ko_decision_tools.prompts import render
from ko_decision_tools.tools.arguments import parse_levels, parse_options

THREE = {"결제": None, "배송": None, "계정": None}


@pytest.mark.parametrize(
    "sent",
    [
        ["결제", "배송", "계정"],
        ("결제", "배송", "계정"),
        '["결제", "배송", "계정"]',
        '  ["결제","배송","계정"]\n',
        "결제, 배송, 계정",
        "결제,배송,계정,",
        '"결제", "배송", "계정"',
        "결제\n배송\n계정",
        "- 결제\n- 배송\n- 계정\n",
        "결제,\n배송,\n계정",
        {"결제": None, "배송": None, "계정": None},
        '{"결제": null, "배송": null, "계정": null}',
        [{"label": "결제"}, {"label": "배송"}, "계정"],
    ],
)
def test_every_form_of_three_names_reads_the_same(sent: Any) -> None:
    assert parse_options(sent) == THREE


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (["결제: 결제, 환불", "기타"], {"결제": "결제, 환불", "기타": None}),
        ([{"label": "결제: 카드", "description": "환불"}, "배송"], {"결제: 카드": "환불", "배송": None}),
        ("결제: 카드, 배송: 지연", {"결제": "카드", "배송": "지연"}),
        ("[A] 결제\n[B] 배송", {"[A] 결제": None, "[B] 배송": None}),
        ("5,000원 이하, 5,000원 초과", {"5,000원 이하": None, "5,000원 초과": None}),
        ("-10도 이하\n-10도 초과", {"-10도 이하": None, "-10도 초과": None}),
        ([1, 2.5], {"1": None, "2.5": None}),
        ({"A": "결제", "B": "배송"}, {"A": "결제", "B": "배송"}),
    ],
)
def test_descriptions_commas_and_odd_names(sent: Any, read: dict[str, Any]) -> None:
    assert parse_options(sent) == read


@pytest.mark.parametrize(
    ("sent", "labels"),
    [
        (["A: 결제", "B: 배송"], ["A: 결제", "B: 배송"]),
        (["① 결제: 환불", "② 배송: 지연"], ["① 결제", "② 배송"]),
        (["1. 결제", "2. 배송", "기타"], ["1. 결제", "2. 배송", "기타"]),
        (["1:1 문의", "24시간 상담"], ["1:1 문의", "24시간 상담"]),
        (["배송: 지연", "배송: 분실"], ["배송: 지연", "배송: 분실"]),  # split labels would be equal
        (["entailment: 함의", "neutral: 중립"], ["entailment", "neutral"]),
    ],
)
def test_a_label_is_what_was_sent(sent: list[str], labels: list[str]) -> None:
    assert list(parse_options(sent)) == labels


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=12), min_size=2, max_size=6))
def test_labels_are_pieces_of_the_list_and_reach_the_model_unchanged(sent: list[str]) -> None:
    try:
        read = parse_options(sent)
    except InvalidInputError:
        reject()
    assert len(read) == len(sent)
    assert all(text.startswith(label) for label, text in zip(read, sent, strict=True))
    assert parse_options(json.dumps(sent, ensure_ascii=False)) == read


def test_a_split_list_is_rendered_as_the_strings_that_were_sent() -> None:
    sent = ["A. 결제: 카드, 환불", "B. 배송", "C. 계정: 로그인"]
    options = render(Choice(instructions="팀?", criteria=parse_options(sent)), "글").options
    assert options == ("결제: 카드, 환불", "배송", "계정: 로그인")


@pytest.mark.parametrize(
    ("sent", "field", "problem"),
    [
        (7, "options", "not a list"),
        (None, "options", "not a list"),
        (b"a,b", "options", "not a list"),
        ("['결제', '배송']", "options", "JSON"),
        ('["결제", "배송",]', "options", "JSON"),
        ("[" * 100_000 + "]", "options", "JSON"),
        ("결제: 카드, 환불, 배송", "options", "commas"),
        ("", "options", "0 entries"),
        (["결제"], "options", "1 entry"),
        ([f"{n}번째" for n in range(256)], "options", "256 entries"),
        (["결제", ""], "options[1]", "empty"),
        (["결제", "  "], "options[1]", "empty"),
        (["결제", None], "options[1]", "not text"),
        (["결제", True], "options[1]", "not text"),
        (["결제", ["배송"]], "options[1]", "not text"),
        (["결제", {"name": "배송"}], "options[1]", "label"),
        (["결제", "배송", "결제"], "options[2]", "equals options[0]"),
        ('{"결제": "a", "결제": "b"}', "options[1]", "equals options[0]"),
        (["A: 결제", "B: 결제"], "options[1]", "equals options[0]"),
        (["A:", "B:"], "options[0]", "empty"),
    ],
)
def test_what_cannot_be_read_names_field_and_fix(sent: Any, field: str, problem: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_options(sent)
    assert caught.value.field == field
    assert problem in str(caught.value)
    assert caught.value.fix


@pytest.mark.parametrize(
    ("sent", "levels"),
    [
        (["낮다", "높다"], ["낮다", "높다"]),
        ('["낮다", "높다"]', ["낮다", "높다"]),
        ("낮다, 높다", ["낮다", "높다"]),
        ("0: 낮다\n1: 높다", ["0: 낮다", "1: 높다"]),
        ({"1": "높다", "0": "낮다"}, ["낮다", "높다"]),
        ({0: "낮다", 10: "더 높다", 2: "높다"}, ["낮다", "높다", "더 높다"]),
        ({"낮음": "며칠 뒤", "높음": None}, ["낮음: 며칠 뒤", "높음"]),
        ([{"label": "낮음", "description": "며칠 뒤"}, "높음"], ["낮음: 며칠 뒤", "높음"]),
        ([1, 2, 3], ["1", "2", "3"]),
    ],
)
def test_levels_in_every_form(sent: Any, levels: list[str]) -> None:
    assert parse_levels(sent) == levels


def test_errors_call_levels_levels() -> None:
    with pytest.raises(InvalidInputError, match=r"^levels\[1\] equals levels\[0\]"):
        parse_levels(["낮다", "낮다"])
