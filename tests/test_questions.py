"""Questions: LangChain's own classes, checked with messages that name the field."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.decisions import Box
from langchain_core.decisions import Choice as TheirChoice

from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.questions import Choice, Noul, Score, option_count, parse_question, parse_questions


def test_the_vocabulary_is_langchains() -> None:
    assert Choice is TheirChoice


@pytest.mark.parametrize(
    ("raw", "options"),
    [
        ({"type": "choice", "instructions": "팀?", "criteria": {"결제": None, "배송": "지연"}}, 2),
        ({"type": "noul", "instructions": "환불?"}, 2),
        ({"type": "noul", "instructions": "환불?", "criteria": {"true": "원한다", "false": None}}, 2),
        ({"type": "score", "instructions": "급함?", "criteria": ["아니", "조금", "많이"]}, 3),
        ({"type": "choice", "instructions": {"질문": "팀?"}, "criteria": {"a": {"설명": 1}, "b": None}}, 2),
    ],
)
def test_json_questions_become_typed_ones(raw: dict[str, Any], options: int) -> None:
    assert option_count(parse_question(raw)) == options


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"type": "choise"}, r"question\.type is 'choise'"),
        ({}, r"question\.type is None"),
        ({"type": []}, r"question\.type is \[\]"),
        ({"type": "choice", "criteria": {"a": None, "b": None}}, r"question\.instructions"),
        ({"type": "noul", "instructions": "  "}, r"question\.instructions is empty"),
        ({"type": "noul", "instructions": "a", "extra": 1}, r"question\.extra"),
        ({"type": "choice", "instructions": "팀?", "criteria": {"하나": None}}, "has 1 option.* 2 to 255"),
        ({"type": "choice", "instructions": "팀?", "criteria": {str(i): None for i in range(256)}}, "has 256 options"),
        ({"type": "choice", "instructions": "팀?", "criteria": {" ": None, "b": None}}, "empty label"),
        ({"type": "score", "instructions": "급함?", "criteria": ["하나"] * 11}, "has 11 levels.* 2 to 10"),
        ({"type": "score", "instructions": "급함?", "criteria": ["하나"]}, "has 1 level.* 2 to 10"),
        ({"type": "choice", "instructions": "팀?", "criteria": {}}, "has 0 options.* 2 to 255"),
        (Box(instructions="어디?"), "'box' question, which a text encoder cannot answer"),
        ("팀?", "'str' question"),
        (None, "'NoneType' question"),
    ],
)
def test_a_bad_question_is_named(raw: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        parse_question(raw)


def test_255_options_and_10_levels_are_fine() -> None:
    parse_question(Choice(instructions="팀?", criteria={str(i): None for i in range(255)}))
    parse_question(Score(instructions="급함?", criteria=[str(i) for i in range(10)]))


@pytest.mark.parametrize("nothing", [{}, None, [], "q"])
def test_asking_nothing_is_refused(nothing: Any) -> None:
    with pytest.raises(InvalidInputError, match="non-empty mapping"):
        parse_questions(nothing)


def test_a_bad_question_among_good_ones_is_named_by_its_id() -> None:
    with pytest.raises(InvalidInputError, match=r"questions\.둘\.type"):
        parse_questions({"하나": Noul(instructions="환불?"), "둘": {"type": "x"}})
