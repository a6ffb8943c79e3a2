"""Text that is safe to show and store: ticket texts, labels and ids come from anywhere."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping
from typing import Any

_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def printable(text: str) -> str:
    """Control, surrogate and text-direction characters become U+FFFD; line breaks, tabs and emoji stay.

    Example:
        >>> printable("환불\\x1b[31m\\ud800 해줘")
        '환불�[31m� 해줘'
    """
    return "".join(
        "\ufffd" if char in _BIDI or (char not in "\n\t" and unicodedata.category(char) in ("Cc", "Cs")) else char
        for char in text
    )


def plain(value: Any) -> Any:
    """Nested values as JSON takes them: printable text, lists, and ``None`` for NaN and infinities.

    Example:
        >>> plain({"risk": float("nan"), "labels": ("환불", "배송")})
        {'risk': None, 'labels': ['환불', '배송']}
    """
    if isinstance(value, Mapping):
        return {printable(str(key)): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, str):
        return printable(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value
