"""From a question and a state to what an encoder reads: one instruction, one text per option, one state text.

The wording is the published checkpoints' own, to the character: a score means nothing under another wording. Texts are
NFC-normalised (Hangul arrives composed or decomposed; tokenizers only know the former), the caller's labels are not.

Example:
    >>> from ko_decision_tools.questions import Choice, Noul
    >>> ask = Choice(instructions="어느 팀인가?", criteria={"A: 결제": "결제와 환불", "B: 배송": None})
    >>> render(ask, "택배가 안 와요.").options
    ('결제: 결제와 환불', '배송')
    >>> render(Noul(instructions="환불을 요구하는가?"), "돈 돌려주세요.").options
    ('거짓: 질문의 답은 아니오이다.', '참: 질문의 답은 예이다.')
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.labels import strip_enumerators
from ko_decision_tools.questions import Choice, Noul, Question, Score
from ko_decision_tools.states import render_state

if TYPE_CHECKING:
    from ko_decision_tools.questions import Kind

NO, YES = "거짓", "참"
DEFAULT_NO, DEFAULT_YES = "질문의 답은 아니오이다.", "질문의 답은 예이다."


@dataclass(frozen=True, slots=True)
class Prompt:
    """What an encoder scores: K option texts under one instruction, against one state.

    Attributes:
        kind: The question's type; marker checkpoints embed it.
        instruction: The question text.
        options: K texts in the caller's order, enumerators removed.
        state: The state as text.
        markers: The enumerator removed from each option, or ``None``.
    """

    kind: Kind
    instruction: str
    options: tuple[str, ...]
    state: str
    markers: tuple[str | None, ...]


def render(question: Question, state: Any) -> Prompt:
    """Render a checked question and any state.

    Raises:
        InvalidInputError: An empty or unrenderable state, text that is not valid Unicode, or options that the model
            could not tell apart.
    """
    state_text = clean(render_state(state), "state")
    if not state_text.strip():
        raise InvalidInputError("state", "is empty", "Pass the text the question is about.")
    instruction = clean(as_text(question.instructions), "instructions")
    options, markers = render_options(question)
    return Prompt(question.type, instruction, options, state_text, markers)


def render_options(question: Question) -> tuple[tuple[str, ...], tuple[str | None, ...]]:
    """The option texts of a question as the checkpoints were trained to read them, and the enumerators taken off."""
    if isinstance(question, Noul):
        return _noul_options(question), (None, None)
    if isinstance(question, Choice):
        texts = [_labelled(clean(label, "criteria"), value) for label, value in question.criteria.items()]
        stripped = strip_enumerators(texts, field="criteria")
        return _distinct(stripped.texts), stripped.markers
    # A Score's own numbering *is* the trained form, so whatever the caller wrote is taken off and "0: " put on.
    bare = strip_enumerators(_without_level_numbers(question), field="criteria")
    _distinct(bare.texts)
    return tuple(f"{level}: {text}" for level, text in enumerate(bare.texts)), bare.markers


def labels_of(question: Question) -> tuple[str, ...]:
    """The labels answers come back under: the caller's own, untouched."""
    if isinstance(question, Choice):
        return tuple(question.criteria)
    return ("false", "true") if isinstance(question, Noul) else tuple(map(str, range(len(question.criteria))))


def clean(text: str, field: str) -> str:
    """NFC, or an error for text that no tokenizer can take.

    Raises:
        InvalidInputError: The text holds a lone surrogate (half of a broken emoji, usually).
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            field,
            f"holds a lone surrogate at position {error.start}",
            'Repair the text first, for example text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").',
            value=text,
        ) from None
    return unicodedata.normalize("NFC", text)


def as_text(value: Any) -> str:
    """Text as it is; any other JSON value in its JSON form with raw Hangul."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _labelled(label: str, description: Any) -> str:
    if description is None or (isinstance(description, str) and not description.strip()):
        return label
    return f"{label}: {clean(as_text(description), 'criteria')}"


def _noul_options(question: Noul) -> tuple[str, str]:
    criteria = question.criteria
    no = criteria.false if criteria and criteria.false else DEFAULT_NO
    yes = criteria.true if criteria and criteria.true else DEFAULT_YES
    return f"{NO}: {clean(as_text(no), 'criteria.false')}", f"{YES}: {clean(as_text(yes), 'criteria.true')}"


def _without_level_numbers(question: Score) -> list[str]:
    texts = [clean(as_text(level), "criteria") for level in question.criteria]
    heads = [f"{level}:" for level in range(len(texts))]
    if all(text.startswith(head) for text, head in zip(texts, heads, strict=True)):
        return [text[len(head) :].strip() for text, head in zip(texts, heads, strict=True)]
    return texts


def _distinct(texts: Sequence[str]) -> tuple[str, ...]:
    seen: dict[str, int] = {}
    for index, text in enumerate(texts):
        if not text.strip():
            raise InvalidInputError(f"options[{index}]", "is empty", "Give every option a text.")
        first = seen.setdefault(text.strip(), index)
        if first != index:
            raise InvalidInputError(
                f"options[{index}]",
                f"reads the same as options[{first}] to the model",
                "Give every option its own name or description.",
                value=text,
            )
    return tuple(texts)
