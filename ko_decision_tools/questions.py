"""The three question types, straight from ``langchain_core.decisions``, and what makes a question answerable.

There is one vocabulary, not two: :class:`Choice`, :class:`Noul` and :class:`Score` *are* LangChain's classes. What is
added here is validation with messages that name the field, and the limits of the model family.

Example:
    >>> question = parse_question({"type": "noul", "instructions": "환불을 요구하는가?"})
    >>> type(question).__name__, kind_of(question), option_count(question)
    ('Noul', 'noul', 2)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from langchain_core.decisions import Choice, Noul, NoulCriteria, Score
from pydantic import TypeAdapter, ValidationError

from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.validation import problems_of

Question: TypeAlias = Choice | Noul | Score
Kind: TypeAlias = Literal["choice", "noul", "score"]

MIN_OPTIONS, MAX_OPTIONS = 2, 255
MIN_LEVELS, MAX_LEVELS = 2, 10

_BY_KIND: dict[str, TypeAdapter[Any]] = {
    "choice": TypeAdapter(Choice),
    "noul": TypeAdapter(Noul),
    "score": TypeAdapter(Score),
}


def kind_of(question: Question) -> Kind:
    """The question's type as the wire spells it: ``"choice"``, ``"noul"`` or ``"score"``."""
    return question.type


def option_count(question: Question) -> int:
    """How many options the model scores for this question (a ``Noul`` always has two)."""
    return 2 if isinstance(question, Noul) else len(question.criteria)


def parse_question(question: object, *, field: str = "question") -> Question:
    """Return a checked question, from one of the three classes or its JSON form.

    Args:
        question: A ``Choice``, ``Noul`` or ``Score``, or a mapping with ``type``, ``instructions`` and ``criteria``.
        field: How error messages call it.

    Raises:
        InvalidInputError: An unknown type, a missing or mistyped key, empty instructions, or a number of options
            outside 2-255 (``Choice``) or 2-10 (``Score``).
    """
    if isinstance(question, Mapping):
        _check_raw_size(question, field)
        question = _from_mapping(question, field)
    if not isinstance(question, Choice | Noul | Score):
        kind = getattr(question, "type", type(question).__name__)
        raise InvalidInputError(
            field,
            f"is a {kind!r} question, which a text encoder cannot answer",
            'Use Choice, Noul or Score (JSON: "type": "choice" | "noul" | "score").',
        )
    _check_instructions(question, field)
    _check_size(question, field)
    return question


def parse_questions(questions: object, *, field: str = "questions") -> dict[str, Question]:
    """Return checked questions by id; a mapping that is empty is refused.

    Raises:
        InvalidInputError: Not a non-empty mapping, or one of its questions is invalid (named by its id).
    """
    if not isinstance(questions, Mapping) or not questions:
        raise InvalidInputError(field, "must be a non-empty mapping of id to question", "Ask at least one question.")
    return {str(key): parse_question(value, field=f"{field}.{key}") for key, value in questions.items()}


def _from_mapping(raw: Mapping[Any, Any], field: str) -> Question:
    kind = raw.get("type")
    adapter = _BY_KIND.get(kind) if isinstance(kind, str) else None
    if adapter is None:
        raise InvalidInputError(f"{field}.type", f"is {kind!r}", 'Use "choice", "noul" or "score".')
    try:
        parsed: Question = adapter.validate_python(dict(raw))
    except ValidationError as error:
        fix = f"See the fields of {str(kind).capitalize()}."
        raise problems_of(error, root=field, fix=fix)[0] from None
    return parsed


def _check_instructions(question: Question, field: str) -> None:
    text = question.instructions
    if not text or (isinstance(text, str) and not text.strip()):
        raise InvalidInputError(
            f"{field}.instructions", "is empty", "Write the whole question the model has to answer."
        )


def _check_size(question: Question, field: str) -> None:
    if isinstance(question, Choice):
        _check_count(len(question.criteria), MIN_OPTIONS, MAX_OPTIONS, "option", f"{field}.criteria")
        for label in question.criteria:
            if not label.strip():
                raise InvalidInputError(
                    f"{field}.criteria", "has an empty label", "Give every option a name.", value=label
                )
    elif isinstance(question, Score):
        _check_count(len(question.criteria), MIN_LEVELS, MAX_LEVELS, "level", f"{field}.criteria")


def _check_raw_size(raw: Mapping[Any, Any], field: str) -> None:
    """Before LangChain's own minimum, whose message knows neither the limit's other end nor the fix."""
    criteria = raw.get("criteria")
    if raw.get("type") == "choice" and isinstance(criteria, Mapping):
        _check_count(len(criteria), MIN_OPTIONS, MAX_OPTIONS, "option", f"{field}.criteria")
    if raw.get("type") == "score" and isinstance(criteria, list):
        _check_count(len(criteria), MIN_LEVELS, MAX_LEVELS, "level", f"{field}.criteria")


def _check_count(count: int, low: int, high: int, noun: str, field: str) -> None:
    if not low <= count <= high:
        plural = noun if count == 1 else f"{noun}s"
        raise InvalidInputError(field, f"has {count} {plural}", f"Give {low} to {high} {noun}s.")


__all__ = [
    "MAX_LEVELS",
    "MAX_OPTIONS",
    "MIN_LEVELS",
    "MIN_OPTIONS",
    "Choice",
    "Kind",
    "Noul",
    "NoulCriteria",
    "Question",
    "Score",
    "kind_of",
    "option_count",
    "parse_question",
    "parse_questions",
]
