"""Finding and stripping enumerators, and the way back from a label to its option.

The Korean checkpoints prefer "A" and "1" whatever stands behind them, so the model must not see option numbers. But
``C: 드라이브``, ``1:1 문의`` or ``참: …`` begin like an enumerated option without being one. What decides is the list:

* A *mark* is a letter, number, syllable or roman numeral with a delimiter (``A:`` ``1)`` ``(가)`` ``[ii]``
  ``선택지 1:``) or an enclosed sign (``①`` ``㉮``), at the start of an option. Nothing is a mark when an ASCII letter
  or digit is glued to its dot or colon (``1.5톤`` ``2.0 버전`` ``1:1 문의`` ``A.I``), nor in a ratio (``1 : 1``).
* Marks of one *scheme* share alphabet, case, keyword and delimiter; full-width and NFD spellings are the same scheme.
* A *run* is all marks of a scheme, at least two, on neighbouring options, counting up by one from the scheme's start
  (A, 1, ①, 가, ㄱ, i). Options without a mark may stand around it and stay as they are (``A: …``, ``B: …``, ``기타``).
  With a gap, a repeat or a stray mark elsewhere (A, C · A, B, D · A, 기타, B) the scheme strips nothing.
* A run that starts later continues another list: it counts when it has three marks or more and covers every option
  (``C: …``, ``D: …``, ``E: …``). ``3.`` and ``3:`` never do: dates, amounts and levels look like that. Where stripping
  would leave equal or empty options (``C: 드라이브``, ``D: 드라이브``, …) such a list is left alone, not refused.
* A list counted from 0 is a scale (the trained score form ``0: …``, ``1: …``) and is never touched.
* Two schemes that could both be stripped, or that claim an option between them (``a. b. i. ii.``), strip nothing.
* One layer is removed: ``① A. 서울``, ``② B. 부산`` becomes ``A. 서울``, ``B. 부산``.

Numbers go up to 999, roman numerals to 39, Latin to Z, Hangul to 하 and ㅎ.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ko_decision_tools.errors import InvalidInputError

_WORDS = ("선택지", "보기", "답안", "답", "옵션", "option", "choice")
_SYLLABLES, _JAMO = "가나다라마바사아자차카타파하", "ㄱㄴㄷㄹㅁㅂㅅㅇㅈㅊㅋㅌㅍㅎ"
_TENS, _UNITS = ("", "X", "XX", "XXX"), ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")


def _fold(text: str) -> str:
    """NFKC: Ａ → A, ① → 1, ⑴ → (1), Ⅱ → II, ㉮ → 가, and decomposed Hangul composed."""
    return unicodedata.normalize("NFKC", text)


# Alphabet → folded sign → ordinal; 1 is the start.
_ALPHABETS: Mapping[str, Mapping[str, int]] = {
    "latin": {chr(ord("A") + n): n + 1 for n in range(26)},
    "number": {str(n): n for n in range(1000)} | {f"{n:02}": n for n in range(10)},
    "roman": {tens + unit: 10 * t + u for t, tens in enumerate(_TENS) for u, unit in enumerate(_UNITS)},
    "syllable": {syllable: n for n, syllable in enumerate(_SYLLABLES, 1)},
    "jamo": {_fold(jamo): n for n, jamo in enumerate(_JAMO, 1)},
}


class _Family(NamedTuple):
    """One kind of sign: ``first`` names the scheme, ``sign`` is a regex, ``enclosed`` signs need no delimiter."""

    first: str
    alphabet: str
    sign: str
    enclosed: bool = False


_DIGIT = "[0-9０-９]"
_FAMILIES = (
    _Family("A", "latin", "[A-ZＡ-Ｚ]"),
    _Family("a", "latin", "[a-zａ-ｚ]"),
    _Family("1", "number", rf"{_DIGIT}{{1,3}}(?!\s+[:：]\s*{_DIGIT})"),
    _Family("I", "roman", "[IVXＩＶＸ]{1,7}|[Ⅰ-Ⅻ]"),
    _Family("i", "roman", "[ivxｉｖｘ]{1,7}|[ⅰ-ⅻ]"),
    _Family("가", "syllable", f"[{_SYLLABLES}]|[{_fold(_JAMO)}]\u1161"),
    _Family("ㄱ", "jamo", f"[{_JAMO}{_fold(_JAMO)}]"),
    _Family("①", "number", "[①-⑳㉑-㉟㊱-㊿]", enclosed=True),
    _Family("⑴", "number", "[⑴-⒇]", enclosed=True),
    _Family("ⓐ", "latin", "[ⓐ-ⓩ]", enclosed=True),
    _Family("Ⓐ", "latin", "[Ⓐ-Ⓩ]", enclosed=True),
    _Family("⒜", "latin", "[⒜-⒵]", enclosed=True),
    _Family("㉮", "syllable", "[㉮-㉻]", enclosed=True),
    _Family("㈎", "syllable", "[㈎-㈛]", enclosed=True),
    _Family("㉠", "jamo", "[㉠-㉭]", enclosed=True),
    _Family("㈀", "jamo", "[㈀-㈍]", enclosed=True),
    # A roman numeral sign needs at least a space: Ⅰ형 당뇨 is a word.
    _Family("Ⅰ", "roman", r"[Ⅰ-Ⅻ](?=\s+\S)", enclosed=True),
    _Family("ⅰ", "roman", r"[ⅰ-ⅻ](?=\s+\S)", enclosed=True),
)
_DELIMITERS = frozenset({":", ".", ")", "()", "[]"})
_COUNTS = frozenset({"1:", "1."})  # may be levels, amounts or dates, so these must start at 1

_WORD = "|".join(f"{word}|{unicodedata.normalize('NFD', word)}" for word in _WORDS)
_GLUED = "[0-9A-Za-z０-９Ａ-Ｚａ-ｚ]"
_DOT, _COLON = rf"[.．](?!{_GLUED}|[.．])", rf"[:：](?!{_GLUED}|[:：/\\])"
_OPEN, _CLOSE = r"[(（\[［]", r"[)）\]］]"
# A caller's label "(A)" or "①" is rendered "(A): …", "①: …": the colon goes with the mark.
_PLAIN_MARK = (
    rf"\s*(?P<mark>(?:(?P<open>{_OPEN})\s*)?(?:(?P<word>(?i:{_WORD}))\s*)?(?P<sign>{{sign}})"
    rf"\s*(?P<close>{_CLOSE}|{_DOT}|{_COLON})(?:\s*{_COLON})?)"
)
_ENCLOSED_MARK = rf"\s*(?P<mark>(?P<sign>{{sign}})(?:\s*{_COLON}|{_DOT}|[)）])?)"
# A whole answer: any of the above, the bare sign, or "2번".
_ANSWER = rf"(?:{_OPEN}\s*)?(?:(?i:{_WORD})\s*)?(?P<sign>{{sign}})(?:\s*(?:번|번))?\s*(?:{_CLOSE}|[.．:：])*"


def _compiled(shape: str, family: _Family) -> re.Pattern[str]:
    return re.compile(shape.replace("{sign}", family.sign))


_MARKS = tuple((family, _compiled(_ENCLOSED_MARK if family.enclosed else _PLAIN_MARK, family)) for family in _FAMILIES)
_ANSWERS = tuple((family, _compiled(_ANSWER, family)) for family in _FAMILIES)


class StrippedOptions(NamedTuple):
    """Option texts as the model sees them, and what was taken off.

    Attributes:
        texts: One text per option, always a suffix of the input (no normalisation; trailing space stays).
        markers: The removed enumerators as written, without surrounding space; ``None`` where nothing was removed.
        scheme: The scheme by its first mark (``"A:"``, ``"(1)"``, ``"보기 1."``), ``None`` when nothing was stripped.
    """

    texts: tuple[str, ...]
    markers: tuple[str | None, ...]
    scheme: str | None


class _Mark(NamedTuple):
    ordinal: int
    start: int
    end: int


def strip_enumerators(options: Sequence[str], *, field: str = "options") -> StrippedOptions:
    """Remove the enumerators of a list of rendered options (``"label: description"`` or a bare label).

    The module's docstring says what counts as an enumerator. Bare signs (``"A"``, ``"2"``) and word labels stay.

    Args:
        options: Rendered option texts in order, NFC or NFD.
        field: How error messages call them.

    Raises:
        InvalidInputError: Not a sequence of strings, or an option is empty, or equal to another one (NFC, outer
            spaces ignored), once the enumerators are gone.

    Example:
        >>> strip_enumerators(["A. 결제: 환불 문의", "B. 배송", "기타"])
        StrippedOptions(texts=('결제: 환불 문의', '배송', '기타'), markers=('A.', 'B.', None), scheme='A.')
        >>> strip_enumerators(["1:1 문의", "2:1 상담"]).scheme is None
        True
    """
    texts = _checked(options, field)
    untouched = StrippedOptions(texts, (None,) * len(texts), None)
    marks = [_marks(text) for text in texts]
    scheme = _winner(marks)
    if scheme is None:
        return untouched
    pairs = [(text, found.get(scheme)) for text, found in zip(texts, marks, strict=True)]
    stripped = StrippedOptions(
        tuple(text[mark.end :].lstrip() if mark else text for text, mark in pairs),
        tuple(text[mark.start : mark.end] if mark else None for text, mark in pairs),
        scheme,
    )
    fault = _fault(texts, stripped, field)
    if fault is None:
        return stripped
    if min(mark.ordinal for _, mark in pairs if mark) > 1:
        return untouched
    raise fault


def match_label(answer: str, options: Sequence[str]) -> int | None:
    """Return the index of the option that ``answer`` names, or ``None`` when it names none or more than one.

    Tried in this order, each only when the one before found nothing (texts in NFC, outer spaces ignored, case kept):

    1. The full option text.
    2. The stripped text, the label before ``": "`` (with or without its enumerator), or the enumerator's sign in any
       case and any dress: ``"B"``, ``"b)"``, ``"(B)"`` for ``"B: …"``; ``"2"``, ``"②"``, ``"2번"`` for ``"2. …"``.
    3. The sign of another alphabet (``"2"``, ``"②"``, ``"나"`` for ``"B: …"``), where the enumerator's ordinal is also
       the option's place, so that "the second" can mean one thing only. Words without enumerators have no number.

    Args:
        answer: A label, a sign or an option text, alone ("정답은 B" names nothing).
        options: The rendered options, as given to :func:`strip_enumerators`.

    Raises:
        InvalidInputError: ``answer`` is not a string, or :func:`strip_enumerators` refuses the options.

    Example:
        >>> options = ["A: 서울", "B: 부산"]
        >>> [match_label(answer, options) for answer in ("B", "b)", "②", "나", "B: 부산", "부산", "대구")]
        [1, 1, 1, 1, 1, 1, None]
    """
    if not isinstance(answer, str):
        raise InvalidInputError("answer", "is not text", "Pass one label or option text.", value=answer)
    if not answer.strip():
        return None
    stripped = strip_enumerators(options)
    wanted, signs = _plain(answer), _signs(answer.strip())
    own = [_signs(marker) if marker else frozenset() for marker in stripped.markers]
    exact = {index for index, option in enumerate(options) if _plain(option) == wanted}
    named = {
        index
        for index, (option, text) in enumerate(zip(options, stripped.texts, strict=True))
        if signs & own[index] or wanted in (_plain(text), _label(option), _label(text))
    }
    in_place = {index for index, readings in enumerate(own) if any(ordinal == index + 1 for _, ordinal in readings)}
    # None stands for a reading that leads nowhere: an ambiguous "i" (9th letter, roman 1) must not settle for one.
    placed = {ordinal - 1 if ordinal - 1 in in_place else None for _, ordinal in signs}
    found = exact or named or placed
    return next(iter(found)) if len(found) == 1 else None


def _checked(options: Sequence[str], field: str) -> tuple[str, ...]:
    if isinstance(options, str) or not isinstance(options, Sequence):
        raise InvalidInputError(field, "is not a list of texts", "Pass one text per option.", value=options)
    for index, option in enumerate(options):
        if not isinstance(option, str):
            raise InvalidInputError(f"{field}[{index}]", "is not text", "Pass one text per option.", value=option)
    return tuple(options)


def _marks(text: str) -> dict[str, _Mark]:
    """Every reading of the start of an option as a mark: scheme name → mark. "i." is a letter and a roman numeral."""
    found = {}
    for family, pattern in _MARKS:
        match = pattern.match(text)
        if match is None:
            continue
        ordinal = _ordinal(family, match["sign"])
        name = family.first if family.enclosed else _scheme_name(match, family)
        if ordinal is not None and name is not None:
            found[name] = _Mark(ordinal, *match.span("mark"))
    return found


def _scheme_name(match: re.Match[str], family: _Family) -> str | None:
    opening, closing = _fold(match["open"] or ""), _fold(match["close"])
    word = f"{_fold(match['word']).lower()} " if match["word"] else ""
    return f"{opening}{word}{family.first}{closing}" if opening + closing in _DELIMITERS else None


def _ordinal(family: _Family, sign: str) -> int | None:
    return _ALPHABETS[family.alphabet].get(_fold(sign).strip("()").upper())


def _winner(marks: Sequence[Mapping[str, _Mark]]) -> str | None:
    """The one scheme to strip: the longest run, provided that no other scheme disputes it."""
    hits: dict[str, dict[int, int]] = defaultdict(dict)
    for index, found in enumerate(marks):
        for scheme, mark in found.items():
            hits[scheme][index] = mark.ordinal
    runs = [scheme for scheme, ordinals in hits.items() if _is_run(scheme, ordinals, len(marks))]
    if not runs:
        return None
    best = max(runs, key=lambda scheme: len(hits[scheme]))
    covered = hits[best].keys()
    rivals = (scheme for scheme, ordinals in hits.items() if not ordinals.keys() <= covered)
    disputed = any(scheme in runs or hits[scheme].keys() & covered for scheme in rivals)
    return None if disputed else best


def _is_run(scheme: str, ordinals: Mapping[int, int], total: int) -> bool:
    """Whether all marks of a scheme (option index → ordinal, ascending) are one run in a list of ``total`` options."""
    index, start = next(iter(ordinals.items()))
    length = len(ordinals)
    if length < 2 or any(ordinals.get(index + step) != start + step for step in range(length)):
        return False
    return start == 1 or (start > 1 and scheme not in _COUNTS and length == total >= 3)


def _fault(options: Sequence[str], stripped: StrippedOptions, field: str) -> InvalidInputError | None:
    """What stripping broke, if anything. Options that were equal before are not its business."""
    seen: dict[str, int] = {}
    for index, (text, marker) in enumerate(zip(stripped.texts, stripped.markers, strict=True)):
        where, plain = f"{field}[{index}]", _plain(text)
        if marker and not plain:
            problem, fix = f"is empty without its enumerator {marker!r}", "Write the option itself behind it."
            return InvalidInputError(where, problem, fix, value=options[index])
        first = seen.setdefault(plain, index)
        if first != index and (marker or stripped.markers[first]):
            problem, fix = f"equals {field}[{first}] without the enumerators", "Let options differ in their words."
            return InvalidInputError(where, problem, fix, value=options[index])
    return None


def _plain(text: str) -> str:
    return unicodedata.normalize("NFC", text).strip()


def _label(text: str) -> str:
    return _plain(text).partition(": ")[0].strip()


def _signs(text: str) -> frozenset[tuple[str, int]]:
    """Every reading of a whole text as a sign: (alphabet, ordinal) pairs."""
    matches = ((family, pattern.fullmatch(text)) for family, pattern in _ANSWERS)
    readings = ((family.alphabet, _ordinal(family, match["sign"])) for family, match in matches if match)
    return frozenset((alphabet, ordinal) for alphabet, ordinal in readings if ordinal is not None)


__all__ = ["StrippedOptions", "match_label", "strip_enumerators"]
