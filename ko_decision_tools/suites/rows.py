"""One row of a caller's file, or of typed decisions, as an :class:`Example`.

A row asks in one of two ways::

    {"text": "두 번 결제됐어요", "label": "결제"}          options come from a routing table, or from the file's labels
    {"state": …, "question": {"type", "instructions", "criteria"}, "gold": …}      and/or "soft_gold", "value"

``gold`` is a label or the index of an option, or ``null`` when none is right; for a yes/no question any spelling of yes
and no; for a score a level, or a real number between levels. ``soft_gold`` is a list in option order or a mapping from
label to probability. ``id``, ``group`` and ``task`` may be given. In a CSV, ``question`` and ``soft_gold`` hold JSON.
"""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Mapping
from typing import Any, Literal

from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.prompts import labels_of
from ko_decision_tools.questions import Noul, Question, Score, parse_question
from ko_decision_tools.suites.base import Example, Row, nearest_level, truth

_ROUNDING = 0.02  # a teacher's probabilities are printed with few digits


def row_example(row: Row, number: int, *, task: str, split: str) -> Example:
    """A row with ``state`` and ``question``.

    Raises:
        InvalidInputError: The question or its gold is not what it should be.
        KeyError, TypeError, ValueError: A column is missing or malformed (the caller knows the row's name).
    """
    question = parse_question(_json(row["question"]), field="question")
    task = str(row.get("task") or task)
    gold, value = parse_gold(question, row.get("gold"))
    if (given := row.get("value")) not in (None, ""):
        gold, value = parse_gold(question, float(given))
    soft_gold = parse_soft(question, _json(row.get("soft_gold")))
    name = f"{task}/{row.get('id') or f'row-{number:05d}'}"
    return Example(name, str(row.get("group") or name), task, row["state"], question, gold, soft_gold, value, split)


def label_example(
    row: Row,
    number: int,
    *,
    task: str,
    split: str,
    question: Question,
    text: str,
    label: str,
    unknown: Literal["error", "none"],
) -> Example:
    """A row with a text and a label, in the columns named; an empty label means that no option is right.

    Raises:
        InvalidInputError: The label names no option, unless ``unknown`` is ``"none"``: then no option is right.
        KeyError, ValueError: A column is missing, or the text is empty.
    """
    try:
        gold, _ = parse_gold(question, row[label])
    except InvalidInputError:
        if unknown == "error":
            raise
        gold = None
    if not str(row[text]).strip():
        raise ValueError("its text is empty")
    name = f"{task}/{row.get('id') or f'row-{number:05d}'}"
    return Example(name, str(row.get("group") or name), task, row[text], question, gold, None, None, split)


def parse_gold(question: Question, raw: object) -> tuple[int | None, float | None]:
    """The right option's index, and the value of a score that lies between levels.

    Raises:
        InvalidInputError: It names no option.

    Example:
        >>> levels = Score(instructions="얼마나 급한가?", criteria=["낮음", "보통", "높음"])
        >>> parse_gold(levels, 1.5), parse_gold(levels, "2"), parse_gold(Noul(instructions="급한가?"), "예")
        ((2, 1.5), (2, None), (1, None))
    """
    if raw is None or (isinstance(raw, str) and not raw.strip()):
        return None, None
    labels = labels_of(question)
    try:
        if isinstance(question, Noul):
            return int(truth(raw)), None
        if isinstance(question, Score):
            value, whole = float(str(raw)), str(raw).strip().isdigit()
            return nearest_level(value, len(labels)), None if whole else value
        return _place(labels, raw), None
    except ValueError:
        shown = ", ".join(labels[:8]) + (", …" if len(labels) > 8 else "")
        raise InvalidInputError("gold", "names no option", f"Use one of: {shown}.", value=raw) from None


def parse_soft(question: Question, raw: object) -> tuple[float, ...] | None:
    """Soft gold in option order, rescaled to sum to 1 when rounding had it off by up to 0.02.

    Raises:
        InvalidInputError: It has other options, a negative share, or another sum.
    """
    if raw is None:
        return None
    labels = labels_of(question)
    try:
        shares = _by_label(labels, raw) if isinstance(raw, Mapping) else _in_order(raw)
    except (KeyError, TypeError, ValueError):
        shares = []
    total = math.fsum(shares)
    if len(shares) != len(labels) or min(shares) < 0 or not abs(total - 1) <= _ROUNDING:
        fix = f"Give one share for each of: {', '.join(labels[:8])}; they sum to 1."
        raise InvalidInputError("soft_gold", "is not a distribution over the options", fix, value=raw)
    return tuple(share / total for share in shares)


def _by_label(labels: tuple[str, ...], raw: Mapping[Any, Any]) -> list[float]:
    if len(raw) > len(labels):
        raise KeyError("an option that the question lacks")
    shares = {_nfc(str(label)): float(share) for label, share in raw.items()}
    return [shares[_nfc(label)] for label in labels]


def _in_order(raw: object) -> list[float]:
    if not isinstance(raw, list | tuple):
        raise TypeError("not a list")
    return [float(share) for share in raw]


def _place(labels: tuple[str, ...], raw: object) -> int:
    """A label wins over an index: in a CSV both are text."""
    if isinstance(raw, str):
        wanted = _nfc(raw)
        named = [index for index, label in enumerate(labels) if _nfc(label) == wanted]
        if named:
            return named[0]
    if isinstance(raw, bool) or not isinstance(raw, int | str):
        raise ValueError("not an index")
    index = int(raw)
    if not 0 <= index < len(labels):
        raise ValueError("no such index")
    return index


def _nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text).strip()


def _json(raw: object) -> object:
    """A CSV cell that holds JSON, or the value itself."""
    if not isinstance(raw, str):
        return raw
    return json.loads(raw) if raw.strip() else None
