"""What an agent sends as ``options`` or ``levels``, read without guessing; and what it is told when it cannot be read.

The schema asks for a list of strings. Models also send a JSON string, a comma list, lines, a mapping, or
``{"label": …, "description": …}`` objects: all are read here. ``text`` is never touched: ``'["a"]'`` stays text.

Example:
    >>> parse_options(["A: 결제", "B: 배송"])  # letters are not names: each answer comes back as it was sent
    {'A: 결제': None, 'B: 배송': None}
    >>> parse_options("결제: 결제와 환불\\n배송: 배송 지연, 주소 변경\\n기타")
    {'결제': '결제와 환불', '배송': '배송 지연, 주소 변경', '기타': None}
    >>> parse_levels('["급하지 않다", "오늘 안에", "지금 당장"]')
    ['급하지 않다', '오늘 안에', '지금 당장']
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, WithJsonSchema

from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.labels import strip_enumerators
from ko_decision_tools.questions import MAX_LEVELS, MAX_OPTIONS, MIN_LEVELS, MIN_OPTIONS

_COMMA: Final = re.compile(r"(?<!\d)[,，]|[,，](?!\d)")  # not the one in 1,000원
_BULLET: Final = re.compile(r"[-*•·]\s+")
_LIST_FIX: Final = 'Send a list of strings, for example ["결제: 결제와 환불", "배송: 배송 지연"].'


def parse_options(value: object, field: str = "options") -> dict[str, Any]:
    """Labels and their descriptions (or ``None``), in order, from any form an agent sends.

    In a list, ``"label: description"`` is split at its first ``": "``; an enumerator in front stays with the label
    (``"A: 결제: 환불"`` is labelled ``"A: 결제"``). Where that would make two labels equal, nothing is split. A
    label is always a piece of what was sent, byte for byte.

    Raises:
        InvalidInputError: It cannot be read without guessing, an option is empty, or two are equal.
    """
    items = _items(value, field)
    _check_count(len(items), MIN_OPTIONS, MAX_OPTIONS, field)
    if isinstance(items, Mapping):
        labels = [_scalar(key, field) for key in items]
        _check_distinct(labels, field)
        return dict(zip(labels, items.values(), strict=True))
    entries = [_entry(item, f"{field}[{index}]") for index, item in enumerate(items)]
    _check_distinct([text for text, _ in entries], field)
    split = dict(_split(entries, field))
    return split if len(split) == len(entries) else dict(entries)


def parse_levels(value: object, field: str = "levels") -> list[str]:
    """Level descriptions from the lowest to the highest, from any form an agent sends.

    A mapping with whole numbers as keys is put in their order; of any other mapping the entries become
    ``"key: value"``, in its own order.

    Raises:
        InvalidInputError: It cannot be read without guessing, a level is empty, or two are equal.
    """
    items = _items(value, field)
    _check_count(len(items), MIN_LEVELS, MAX_LEVELS, field)
    if isinstance(items, Mapping):
        return _levels_of(items, field)
    entries = [_entry(item, f"{field}[{index}]") for index, item in enumerate(items)]
    levels = [text if description is None else f"{text}: {description}" for text, description in entries]
    _check_distinct(levels, field)
    return levels


def _items(value: object, field: str) -> Mapping[Any, Any] | Sequence[Any]:
    if isinstance(value, str):
        value = _from_string(value, field)
    if isinstance(value, Mapping):
        return value
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return value
    raise InvalidInputError(field, f"is not a list but {type(value).__name__}", _LIST_FIX, value=value)


def _from_string(text: str, field: str) -> object:
    bare = text.strip()
    if bare[:1] + bare[-1:] in ("[]", "{}"):
        try:
            return json.loads(bare, object_pairs_hook=lambda pairs: _unique(pairs, field))
        except InvalidInputError:
            raise
        except (ValueError, RecursionError):
            raise InvalidInputError(field, "looks like JSON but is not", _LIST_FIX, value=text) from None
    if "\n" in bare:
        return _lines(bare)
    items = [_unquoted(item.strip()) for item in _COMMA.split(bare) if item.strip()]
    described = sum(": " in item for item in items)
    if 0 < described < len(items):
        # "결제: 카드, 환불, 배송": which of these commas separates options?
        raise InvalidInputError(field, "is a comma list with descriptions that may hold commas", _LIST_FIX, value=text)
    return items


def _lines(text: str) -> list[str]:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if all(map(_BULLET.match, lines)):
        lines = [_BULLET.sub("", line, count=1) for line in lines]
    if all(line.endswith(",") for line in lines[:-1]):
        lines = [line.rstrip(",").rstrip() for line in lines]
    return [_unquoted(line) for line in lines]


def _unquoted(item: str) -> str:
    quoted = len(item) > 1 and item[0] == item[-1] and item[0] in "\"'"
    return item[1:-1] if quoted else item


def _unique(pairs: list[tuple[str, Any]], field: str) -> dict[str, Any]:
    _check_distinct([key for key, _ in pairs], field)
    return dict(pairs)


def _entry(item: object, field: str) -> tuple[str, Any]:
    """One list item as (text, description); the description is ``None`` when it is still inside the text."""
    label, description = item, None
    if isinstance(item, Mapping):
        if "label" not in item or not set(item) <= {"label", "description"}:
            raise InvalidInputError(field, "is not {label, description}", _LIST_FIX, value=item)
        label, description = item["label"], item.get("description")
    text = _scalar(label, field)
    if not text.strip():
        raise InvalidInputError(field, "is empty", "Give every entry a text, or leave it out.")
    return text, description


def _scalar(item: object, field: str) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, int | float) and not isinstance(item, bool):
        return str(item)
    raise InvalidInputError(field, f"is not text but {type(item).__name__}", _LIST_FIX, value=item)


def _split(entries: Sequence[tuple[str, Any]], field: str) -> list[tuple[str, Any]]:
    bare = strip_enumerators([text for text, _ in entries], field=field).texts
    return [
        (text, description) if description is not None else _label_and_description(text, rest)
        for (text, description), rest in zip(entries, bare, strict=True)
    ]


def _label_and_description(text: str, rest: str) -> tuple[str, str | None]:
    """Split ``text`` at the first ``": "`` of ``rest``, which is what follows its enumerator."""
    name, _, description = rest.partition(": ")
    if not name.strip() or not description.strip():
        return text, None
    return text[: len(text) - len(rest) + len(name)].rstrip(), description.strip()


def _levels_of(items: Mapping[Any, Any], field: str) -> list[str]:
    keys = [_scalar(key, field).strip() for key in items]
    values = [
        "" if value is None else _scalar(value, f"{field}.{key}")
        for key, value in zip(keys, items.values(), strict=True)
    ]
    if keys and all(key.isdecimal() for key in keys):
        return [value or key for key, value in sorted(zip(keys, values, strict=True), key=lambda pair: int(pair[0]))]
    return [f"{key}: {value}" if value else key for key, value in zip(keys, values, strict=True)]


def _check_count(count: int, low: int, high: int, field: str) -> None:
    if not low <= count <= high:
        entries = "entry" if count == 1 else "entries"
        raise InvalidInputError(field, f"has {count} {entries}", f"Send {low} to {high}.")


def _check_distinct(texts: Sequence[str], field: str) -> None:
    seen: dict[str, int] = {}
    for index, text in enumerate(texts):
        first = seen.setdefault(text, index)
        if first != index:
            raise InvalidInputError(
                f"{field}[{index}]", f"equals {field}[{first}]", "Send every entry once.", value=text
            )


_STRINGS: Final = WithJsonSchema({"type": "array", "items": {"type": "string"}})
Options = Annotated[dict[str, Any], BeforeValidator(parse_options), _STRINGS]
Levels = Annotated[list[str], BeforeValidator(parse_levels), _STRINGS]

__all__ = ["Levels", "Options", "parse_levels", "parse_options"]
