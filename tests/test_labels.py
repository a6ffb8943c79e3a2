"""What counts as an enumerator, what never does, and the way back from a label to its option."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.labels import StrippedOptions, match_label, strip_enumerators

if TYPE_CHECKING:
    from collections.abc import Callable

WORDS = ("환불 문의", "배송: 지연과 주소 변경", "계정")


def nfd(text: str) -> str:
    return unicodedata.normalize("NFD", text)


def wide(text: str) -> str:
    """Full-width forms of the ASCII letters, digits and delimiters."""
    return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text)


LATIN, DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", [str(n) for n in range(1, 27)]
ROMAN = [ten + one for ten in ("", "x") for one in ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x")]
PLAIN_SIGNS = {
    "A": list(LATIN),
    "a": list(LATIN.lower()),
    "1": DIGITS,
    "I": [numeral.upper() for numeral in ROMAN],
    "i": ROMAN,
    "가": list("가나다라마바사아자차카타파하"),
    "ㄱ": list("ㄱㄴㄷㄹㅁㅂㅅㅇㅈㅊㅋㅌㅍㅎ"),
}
ENCLOSED_SIGNS = {
    "①": list("①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳㉑㉒㉓㉔㉕㉖㉗㉘㉙㉚㉛㉜㉝㉞㉟㊱"),
    "⑴": list("⑴⑵⑶⑷⑸⑹⑺⑻⑼⑽"),
    "ⓐ": list("ⓐⓑⓒⓓⓔⓕⓖⓗⓘⓙ"),
    "Ⓐ": list("ⒶⒷⒸⒹⒺ"),
    "⒜": list("⒜⒝⒞⒟⒠"),
    "㉮": list("㉮㉯㉰㉱㉲㉳㉴㉵㉶㉷㉸㉹㉺㉻"),
    "㈎": list("㈎㈏㈐㈑"),
    "㉠": list("㉠㉡㉢㉣㉤㉥㉦㉧㉨㉩㉪㉫㉬㉭"),
    "㈀": list("㈀㈁㈂㈃"),
    "Ⅰ": list("ⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩⅪⅫ"),
    "ⅰ": list("ⅰⅱⅲⅳⅴⅵⅶⅷⅸⅹⅺⅻ"),
}
FRAMES = ("{}:", "{}.", "{})", "({})", "[{}]")
KEYWORDS = ("", "선택지 ", "보기 ", "답 ", "option ")
SCHEMES = {
    frame.format(keyword + first): [frame.format(keyword + sign) for sign in signs]
    for first, signs in PLAIN_SIGNS.items()
    for frame in FRAMES
    for keyword in KEYWORDS
} | ENCLOSED_SIGNS


@pytest.mark.parametrize(
    ("scheme", "marks"),
    [
        *SCHEMES.items(),
        *((scheme, [nfd(mark) for mark in marks]) for scheme, marks in SCHEMES.items() if nfd(scheme) != scheme),
        *((scheme, [wide(mark) for mark in marks]) for scheme, marks in SCHEMES.items() if "option" not in scheme),
    ],
)
def test_every_scheme_is_stripped_and_named(scheme: str, marks: list[str]) -> None:
    words = [f"후보 {place}번째" for place, _ in enumerate(marks)]
    stripped = strip_enumerators([f"{mark} {word}" for mark, word in zip(marks, words, strict=True)])
    assert stripped == StrippedOptions(tuple(words), tuple(marks), scheme)


@pytest.mark.parametrize(
    ("options", "texts", "markers"),
    [
        (["A. 결제: 환불 문의", "B. 배송"], ("결제: 환불 문의", "배송"), ("A.", "B.")),
        (["  A:  서울 ", "\tB:\t부산\n"], ("서울 ", "부산\n"), ("A:", "B:")),
        (["A : 서울", "B : 부산"], ("서울", "부산"), ("A :", "B :")),
        (["A:서울", "B:부산"], ("서울", "부산"), ("A:", "B:")),
        (["1.환불", "2.배송"], ("환불", "배송"), ("1.", "2.")),
        (["01. 환불", "02. 배송"], ("환불", "배송"), ("01.", "02.")),
        (["①배송", "②환불"], ("배송", "환불"), ("①", "②")),
        (["1. 24시간 상담", "2. 3분기 실적"], ("24시간 상담", "3분기 실적"), ("1.", "2.")),
        (["1: 24시간 상담", "2: 12시간 상담"], ("24시간 상담", "12시간 상담"), ("1:", "2:")),
        (["선택지1: 환불", "선택지 2: 배송"], ("환불", "배송"), ("선택지1:", "선택지 2:")),
        (["Option A: 환불", "option B: 배송"], ("환불", "배송"), ("Option A:", "option B:")),
        (["Ａ：서울", "B:부산"], ("서울", "부산"), ("Ａ：", "B:")),
        ([nfd("가. 서울"), "나. 부산"], (nfd("서울"), "부산"), (nfd("가."), "나.")),
    ],
)
def test_spellings(options: list[str], texts: tuple[str, ...], markers: tuple[str, ...]) -> None:
    assert strip_enumerators(options)[:2] == (texts, markers)


@pytest.mark.parametrize("label", ["{}.", "{})", "({})", "[{}]"])
def test_a_label_that_is_an_enumerator_goes_with_the_colon_of_its_rendering(label: str) -> None:
    """``{"(A)": "서울"}`` is rendered ``"(A): 서울"``."""
    options = [f"{label.format(sign)}: {word}" for sign, word in zip("ABC", WORDS, strict=True)]
    assert strip_enumerators(options).texts == WORDS


def test_an_enclosed_label_goes_with_the_colon_of_its_rendering() -> None:
    assert strip_enumerators(["①: 서울", "②: 부산"])[:2] == (("서울", "부산"), ("①:", "②:"))


@pytest.mark.parametrize(
    "options",
    [
        # word labels
        [
            "entailment: 가설이 전제로부터 반드시 참이다 (함의)",
            "neutral: 참인지 알 수 없다",
            "contradiction: 전제와 모순된다",
        ],
        ["거짓: 질문의 답은 아니오이다.", "참: 질문의 답은 예이다."],
        ["O: 맞음", "X: 틀림"],
        ["가격", "나이", "다이어트"],
        [nfd("가격"), nfd("나이"), nfd("다이어트")],
        ["A/S", "B/L"],
        ["i, 아이폰", "ii, 아이폰 2"],
        ["(주)한빛", "(유)두레", "(사)나눔"],
        # lone hits
        ["A형 독감", "B형 간염", "감기"],
        ["C: 드라이브", "네트워크"],
        ["B2B 영업", "C2C 거래"],
        ["1:1 문의", "24시간 상담", "3분기 실적"],
        ["가. 나는 그렇게 생각한다", "그건 아니다"],
        ["A: 서울", "부산"],
        ["Ⅰ형 당뇨", "Ⅱ형 당뇨"],
        # glued to what follows
        ["1:1 문의", "2:1 상담"],
        ["1 : 1 문의", "2 : 1 상담"],
        ["1.5톤 트럭", "2.5톤 트럭"],
        ["１．５톤", "２．５톤"],
        ["1.0 버전", "2.0 버전"],
        ["1.x 버전", "2.x 버전"],
        ["A.I. 서비스", "B.I. 디자인"],
        ["A... 글쎄", "B... 몰라"],
        ["A:\\자료", "B:\\백업"],
        # bare signs
        ["A", "B", "O", "AB"],
        ["1", "2", "3"],
        ["가", "나"],
        ["Ⅰ", "Ⅱ"],
        # counted from 0
        ["0: 의미와 주제가 모두 다르다.", "1: 주제만 같다.", "2: 일부만 비슷하다."],
        ["0. 없음", "1. 약함", "2. 강함"],
        # no sequence
        ["A: 서울", "C: 부산"],
        ["B: 서울", "A: 부산"],
        ["A: 서울", "A: 부산"],
        ["A: 서울", "B: 부산", "D: 대구"],
        ["A: 서울", "기타", "B: 부산"],
        ["A: 서울", "B: 부산", "기타", "C: 드라이브"],
        # mixed schemes
        ["A: 서울", "B. 부산"],
        ["A: 서울", "b: 부산"],
        ["A) 서울", "(B) 부산"],
        ["A] 서울", "B] 부산"],
        ["(A: 서울", "(B: 부산"],
        ["선택지 1: 서울", "2: 부산"],
        ["A: 서울", "B: 부산", "1. 대구", "2. 광주"],
        ["a: 서울", "b: 부산", "i: 대구", "ii: 광주"],
        # later starts that are not safe
        ["C: 서울", "D: 부산"],
        ["C: 서울", "D: 부산", "E: 대구", "기타"],
        ["C: 드라이브", "D: 드라이브", "E: 드라이브"],
        ["C:", "D:", "E:"],
        ["4. 19 혁명", "5. 18 민주화운동", "6. 10 민주항쟁"],
        ["3: 보통", "4: 좋음", "5: 아주 좋음"],
        # nothing to compare with
        ["A: 서울"],
        [],
    ],
)
def test_untouched(options: list[str]) -> None:
    assert strip_enumerators(options) == StrippedOptions(tuple(options), (None,) * len(options), None)


def test_a_run_may_cover_a_part_of_the_list() -> None:
    expected = StrippedOptions(("기타", "서울", "부산", "C형 간염"), (None, "A:", "B:", None), "A:")
    assert strip_enumerators(["기타", "A: 서울", "B: 부산", "C형 간염"]) == expected


@pytest.mark.parametrize(
    ("options", "scheme"),
    [
        (["C: 서울", "D: 부산", "E: 대구"], "A:"),
        (["3) 서울", "4) 부산", "5) 대구"], "1)"),
        (["보기 3: 서울", "보기 4: 부산", "보기 5: 대구"], "보기 1:"),
        (["③ 서울", "④ 부산", "⑤ 대구"], "①"),
        (["다. 서울", "라. 부산", "마. 대구"], "가."),
        (["i. 서울", "j. 부산", "k. 대구"], "a."),
    ],
)
def test_a_whole_list_that_continues_another_is_stripped(options: list[str], scheme: str) -> None:
    assert strip_enumerators(options)[::2] == (("서울", "부산", "대구"), scheme)


def test_one_layer_only() -> None:
    once = strip_enumerators(["① A. 서울", "② B. 부산"])
    assert once.texts == ("A. 서울", "B. 부산")
    assert strip_enumerators(once.texts).texts == ("서울", "부산")


@pytest.mark.parametrize(
    ("options", "index", "problem"),
    [
        (["A: 서울", "B:"], 1, "is empty"),
        (["①", "②"], 0, "is empty"),
        (["A: 서울", "B: 서울"], 1, "equals criteria[0]"),
        (["A: 서울", "B: 부산", "서울 "], 2, "equals criteria[0]"),
        (["서울", "A: 부산", f"B: {nfd('서울')}"], 2, "equals criteria[0]"),
    ],
)
def test_refuses_what_becomes_empty_or_equal(options: list[str], index: int, problem: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        strip_enumerators(options, field="criteria")
    assert caught.value.field == f"criteria[{index}]"
    assert caught.value.problem.startswith(problem)
    assert caught.value.value == options[index]
    assert caught.value.fix


def test_options_that_were_equal_before_are_left_to_others() -> None:
    assert strip_enumerators(["A: 서울", "B: 부산", "기타", "기타"]).texts == ("서울", "부산", "기타", "기타")


@pytest.mark.parametrize(
    ("options", "field"), [("A: 서울", "options"), (None, "options"), (["A: 서울", 3], "options[1]")]
)
def test_refuses_what_is_not_a_list_of_texts(options: object, field: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        strip_enumerators(options)  # type: ignore[arg-type]
    assert caught.value.field == field


@pytest.mark.parametrize("filler", [" ", "(", "A", "1", "\n", "\x00", "\ud800"])
def test_long_and_broken_texts_take_linear_time(filler: str) -> None:
    """100,000 characters: anything quadratic would run into the suite's timeout."""
    long = filler * 100_000
    options = [f"A: {long}가", f"B: {long}나", f"{long}: 다", f"선택지 1{long}: 라"]
    assert strip_enumerators(options).markers == ("A:", "B:", None, None)
    assert match_label(f"1{long}2", options) is None


# The way back


@pytest.mark.parametrize(
    "answer",
    ["B", "b", "b)", "(B)", "[b]", "B:", "B.", "Ｂ", "Ｂ）", "ⓑ", " B\n", "option B", "2", "②", "2)", "2번", "나",
     nfd("나."), "ㄴ", "ii", "Ⅱ", "선택지 2", "B: 배송: 지연", "배송: 지연", "배송", nfd("B: 배송: 지연"), nfd("배송")],
)  # fmt: skip
def test_every_way_to_name_the_second_option(answer: str) -> None:
    assert match_label(answer, ["A: 환불", "B: 배송: 지연", "C: 계정"]) == 1


@pytest.mark.parametrize("answer", ["D", "4", "라", "0", "", "  ", "정답은 B", "B 배송", "AB", "배", "B2B", "?"])
def test_what_names_nothing(answer: str) -> None:
    assert match_label(answer, ["A: 환불", "B: 배송: 지연", "C: 계정"]) is None


@pytest.mark.parametrize(
    ("answer", "options", "index"),
    [
        ("2", ["0: 없음", "1: 약함", "2: 강함"], 2),
        ("참", ["거짓: 질문의 답은 아니오이다.", "참: 질문의 답은 예이다."], 1),
        ("D", ["C: 드라이브", "D: 드라이브"], 1),
        ("B", ["A", "B", "O"], 1),
        ("2", ["서울", "부산"], None),
        ("나", ["서울", "부산"], None),
        ("문의", ["문의: 환불", "문의: 배송"], None),
        ("서울", ["서울", "서울"], None),
        ("", [": 환불", "배송"], None),
        # full text first, then stripped text and own sign side by side, then other alphabets
        ("답안 ①", ["(1) 지도", "(2) 답안 ①"], None),
        ("A: 서울", ["A: 서울", "B: A: 서울"], 0),
        ("B", ["A: B", "B: C"], None),
        ("2", ["A: 2", "B: 3"], 0),
        # own sign by ordinal, another alphabet's by ordinal and place
        ("D", ["C: 서울", "D: 부산", "E: 대구"], 1),
        ("2", ["C: 서울", "D: 부산", "E: 대구"], None),
        ("4", ["C: 서울", "D: 부산", "E: 대구"], None),
        ("B", ["기타", "A: 서울", "B: 부산"], 2),
        ("2", ["기타", "A: 서울", "B: 부산"], None),
        # "i" is the ninth letter and roman one
        ("i", ["i. 서울", "ii. 부산"], 0),
        ("i", ["A: 서울", "B: 부산"], None),
        ("3", ["i. 서울", "ii. 부산", "iii. 대구"], 2),
        ("나", ["㉮ 서울", "㉯ 부산"], 1),
        ("2", ["⑴ 서울", "⑵ 부산"], 1),
        ("2번", ["선택지 1: 서울", "선택지 2: 부산"], 1),
        ("Ⅱ", ["ⅰ 서울", "ⅱ 부산"], 1),
    ],
)
def test_which_option_an_answer_names(answer: str, options: list[str], index: int | None) -> None:
    assert match_label(answer, options) == index


def test_an_answer_must_be_text() -> None:
    with pytest.raises(InvalidInputError, match="answer is not text"):
        match_label(2, ["A: 서울", "B: 부산"])  # type: ignore[arg-type]


# Properties

# Without the first syllables of the keywords: "답안 ①" is a name for the first option, whatever else it is.
syllables = st.characters(min_codepoint=ord("가"), max_codepoint=ord("힣"), exclude_characters="답보선옵")
names = st.builds(
    "{}{}".format,
    st.text(syllables, min_size=2, max_size=6),
    st.sampled_from(["", " 문의", ": 지연과 변경", ". 1. 가. A:", " (A)", " ①"]),
)
word_lists = st.lists(names, max_size=12, unique=True)
schemes = st.sampled_from(sorted(SCHEMES))
layered = st.lists(st.tuples(st.sampled_from(["", *(m for s in SCHEMES.values() for m in s[:9])]), names), max_size=6)


@given(word_lists)
def test_words_never_change(words: list[str]) -> None:
    assert strip_enumerators(words) == StrippedOptions(tuple(words), (None,) * len(words), None)


@given(
    words=st.lists(names, min_size=2, max_size=9, unique=True),
    others=st.lists(names, max_size=3, unique=True),
    scheme=schemes,
    before=st.booleans(),
    gap=st.sampled_from([" ", "  ", "\u3000", "\t"]),
    dress=st.sampled_from([str, nfd]),
)
def test_enumerated_words_come_back(
    words: list[str], others: list[str], scheme: str, before: bool, gap: str, dress: Callable[[str], str]
) -> None:
    assume(not set(words) & set(others))
    numbered = [dress(f"{mark}{gap}{word}") for mark, word in zip(SCHEMES[scheme], words, strict=False)]
    words = [dress(word) for word in words[: len(numbered)]]
    options, expected = (others + numbered, others + words) if before else (numbered + others, words + others)
    stripped = strip_enumerators(options)
    assert stripped.texts == tuple(expected)
    assert stripped.scheme == scheme
    assert strip_enumerators(stripped.texts).texts == stripped.texts
    for index, (option, marker) in enumerate(zip(options, stripped.markers, strict=True)):
        assert match_label(option, options) == match_label(expected[index], options) == index
        assert marker is None or match_label(marker, options) == index


SIGNS = "ABCabcivxIVX0123가나ㄱㄴ①②㉮㉯ⅰⅱⅠⅡ:.)([] Ａ１：．） 선택지보기답\u3000\u1100\u1161"
signs = st.text(st.sampled_from(SIGNS), max_size=8)


@given(st.lists(signs | st.text(max_size=8), max_size=6))
def test_any_text_comes_out_as_a_suffix_of_itself_or_is_refused(options: list[str]) -> None:
    try:
        stripped = strip_enumerators(options)
    except InvalidInputError:
        return
    assert len(stripped.texts) == len(stripped.markers) == len(options)
    assert (stripped.scheme is None) == all(marker is None for marker in stripped.markers)
    for option, text, marker in zip(options, stripped.texts, stripped.markers, strict=True):
        assert option.endswith(text)
        removed = option[: len(option) - len(text)].strip()
        assert removed == (marker or "")
        assert marker is None or text.strip()


@given(layered)
def test_a_second_pass_changes_nothing(pairs: list[tuple[str, str]]) -> None:
    try:
        once = strip_enumerators([f"{mark} {name}".strip() for mark, name in pairs])
    except InvalidInputError:
        return
    assert strip_enumerators(once.texts).texts == once.texts


@given(answer=signs, options=st.lists(names, min_size=1, max_size=6, unique=True), scheme=schemes)
def test_an_answer_names_one_option_or_none(answer: str, options: list[str], scheme: str) -> None:
    numbered = [f"{mark} {name}" for mark, name in zip(SCHEMES[scheme], options, strict=False)]
    index = match_label(answer, numbered)
    assert index is None or 0 <= index < len(numbered)
