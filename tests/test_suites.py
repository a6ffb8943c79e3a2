"""Suites read every published form of their files to the same examples, and say which row is wrong."""

from __future__ import annotations

import json
import sys
import types
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ko_decision_tools import Choice, Noul, Score
from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.prompts import labels_of, render
from ko_decision_tools.suites import SUITES, Example, draw, load_file, load_suite, suite_name
from ko_decision_tools.suites.rows import parse_gold, parse_soft
from ko_decision_tools.suites.tables import read_rows, split_tsv

NLI = {"guid": "klue-nli-v1_dev_77001", "premise": "가게는 밤 열 시에 닫는다.", "hypothesis": "가게는 자정까지 연다."}
NLI_VOTES = ["contradiction", "contradiction", "neutral", "contradiction", "contradiction"]
STS = {"guid": "klue-sts-v1_dev_77001", "sentence1": "불 좀 꺼 줘.", "sentence2": "불을 꺼 주세요."}
RE = {
    "guid": "klue-re-v1_dev_77001",
    "sentence": "화가 나윤슬은 서해대학교에서 공부했다.",
    "label": "per:schools_attended",
}


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode(encoding))
    return path


def write_json(path: Path, rows: object) -> Path:
    return write(path, json.dumps(rows, ensure_ascii=False))


def tsv(*rows: tuple[object, ...]) -> str:
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)


def only(examples: list[Example]) -> Example:
    assert len(examples) == 1
    return examples[0]


# -- tables ---------------------------------------------------------------------------------------------------------


def test_quotes_that_belong_to_the_text_stay() -> None:
    assert split_tsv('"뿌리"는 무슨 뜻인가?\t"그가 ""네""라고 했다"\t""') == [
        '"뿌리"는 무슨 뜻인가?',
        '그가 "네"라고 했다',
        "",
    ]


@given(st.lists(st.text(alphabet="가나 다\"',", max_size=8), min_size=1, max_size=5))
def test_a_properly_quoted_line_is_read_back(fields: list[str]) -> None:
    line = "\t".join('"' + field.replace('"', '""') + '"' for field in fields)
    assert split_tsv(line) == fields


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_a_row_that_does_not_fit_its_header_is_named(tmp_path: Path, suffix: str) -> None:
    mark = "," if suffix == ".csv" else "\t"
    path = write(tmp_path / f"rows{suffix}", f"text{mark}label\n좋아요{mark}1\n빠졌어요\n")
    with pytest.raises(InvalidInputError, match=r"rows\.\w+:3 has 1 fields where the header has 2"):
        read_rows(path)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.jsonl", '{"text": "네"}\n{"text": \n', "a.jsonl:2 is not JSON"),
        ("a.jsonl", "[1]\n", "a.jsonl:1 is not a JSON object"),
        ("a.json", '{"text": "네"}', "is not a list of objects"),
        ("a.xlsx", "", "ends in '.xlsx'"),
        ("a.parquet", "PAR", "is not a Parquet file"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, name: str, content: str, problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        read_rows(write(tmp_path / name, content))


def test_another_encoding_is_asked_for_by_name(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "text,label\r\n환불해 주세요,환불\r\n", "cp949")
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read_rows(path)
    assert read_rows(path, encoding="cp949") == [{"text": "환불해 주세요", "label": "환불"}]


def test_crlf_bom_and_blank_lines_do_not_matter(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "\ufefftext\t label \r\n\r\n네\t1\r\n")
    assert read_rows(path) == [{"text": "네", "label": "1"}]


# -- KLUE -----------------------------------------------------------------------------------------------------------


def official_nli(folder: Path) -> None:
    votes = dict(zip(("author", "label2", "label3", "label4", "label5"), NLI_VOTES, strict=True))
    write_json(folder / "klue-nli-v1.1_dev.json", [{**NLI, "gold_label": "contradiction", **votes}])


def flat_nli(folder: Path) -> None:
    header = ("guid", "premise", "hypothesis", "gold_label")
    write(folder / "nli_dev.tsv", tsv(header, (*NLI.values(), "contradiction")))
    write(folder / "nli_dev_annotators.jsonl", json.dumps({**NLI, "annotators": NLI_VOTES}, ensure_ascii=False))


@pytest.mark.parametrize("form", [official_nli, flat_nli])
def test_nli_in_both_forms(tmp_path: Path, form: Any) -> None:
    form(tmp_path)
    example = only(load_suite("klue", tmp_path, tasks=["nli"]))
    assert example.state == "전제: 가게는 밤 열 시에 닫는다.\n가설: 가게는 자정까지 연다."
    assert example.id == "klue_nli/klue-nli-v1_dev_77001"
    assert example.soft_gold == (0.0, 0.2, 0.8)
    assert labels_of(example.question)[example.gold or 0] == "contradiction"


def test_nli_rows_of_one_premise_are_one_group(tmp_path: Path) -> None:
    rows = [{**NLI, "guid": f"klue-nli-v1_dev_{n}", "gold_label": "neutral"} for n in (1, 2)]
    other = {**NLI, "guid": "klue-nli-v1_dev_3", "premise": "다른 전제이다.", "gold_label": "neutral"}
    write_json(tmp_path / "klue-nli-v1.1_dev.json", [*rows, other])
    first, second, third = load_suite("klue", tmp_path, tasks=["klue_nli"])
    assert first.group == second.group != third.group
    assert first.soft_gold is None


def official_sts(folder: Path) -> None:
    labels = {"label": 4.3, "real-label": 4.333333, "binary-label": 1}
    annotations = {"agreement": "0:0:0:0:2:1", "annotators": ["1", "2", "3"], "annotations": [4, 4, 5]}
    write_json(folder / "klue-sts-v1.1_dev.json", [{**STS, "labels": labels, "annotations": annotations}])


def flat_sts(folder: Path) -> None:
    header = ("guid", "sentence1", "sentence2", "label", "real_label", "binary_label")
    write(folder / "sts_dev.tsv", tsv(header, (*STS.values(), 4.3, 4.333333, 1)))
    write(folder / "sts_dev_annotators.jsonl", json.dumps({**STS, "annotations": [4, 4, 5]}, ensure_ascii=False))


@pytest.mark.parametrize("form", [official_sts, flat_sts])
def test_sts_in_both_forms(tmp_path: Path, form: Any) -> None:
    form(tmp_path)
    example = only(load_suite("klue", tmp_path, tasks=["sts"]))
    assert isinstance(example.question, Score)
    assert (example.gold, example.value) == (4, 4.333333)
    assert example.soft_gold == pytest.approx((0, 0, 0, 0, 2 / 3, 1 / 3))


def official_re(folder: Path) -> None:
    entities = {
        "subject_entity": {"word": "나윤슬", "start_idx": 3, "end_idx": 5, "type": "PER"},
        "object_entity": {"word": "서해대학교", "start_idx": 8, "end_idx": 12, "type": "ORG"},
    }
    write_json(folder / "klue-re-v1.1" / "klue-re-v1.1_dev.json", [{**RE, **entities}])


def flat_re(folder: Path) -> None:
    header = ("guid", "sentence", "subj", "subj_type", "obj", "obj_type", "label")
    row = (RE["guid"], RE["sentence"], "나윤슬", "PER", "서해대학교", "ORG", RE["label"])
    write(folder / "re_dev.tsv", tsv(header, row))


@pytest.mark.parametrize("form", [official_re, flat_re])
def test_re_in_both_forms(tmp_path: Path, form: Any) -> None:
    form(tmp_path)
    example = only(load_suite("klue", tmp_path, tasks=["re"]))
    assert example.state == f"문장: {RE['sentence']}\n주체: 나윤슬 (PER)\n대상: 서해대학교 (ORG)"
    assert len(labels_of(example.question)) == 30
    assert labels_of(example.question)[example.gold or 0] == "per:schools_attended"


def test_training_shards_are_joined_in_order(tmp_path: Path) -> None:
    for shard, title in enumerate(("새 위성 궤도 진입", "쌀값 석 달째 내림세")):
        write(tmp_path / f"ynat_train_{shard}.tsv", tsv(("title", "label"), (title, ("IT과학", "경제")[shard])))
    examples = load_suite("klue", tmp_path, split="train", tasks=["ynat"])
    assert [(example.id, example.state, example.gold, example.split) for example in examples] == [
        ("klue_ynat/train-00001", "새 위성 궤도 진입", 0, "train"),
        ("klue_ynat/train-00002", "쌀값 석 달째 내림세", 1, "train"),
    ]


def test_the_hub_yields_what_a_folder_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = stand_in_for_datasets(monkeypatch, [{**NLI, "label": 2}], names=["entailment", "neutral", "contradiction"])
    flat_nli(tmp_path)
    from_hub, from_folder = (only(load_suite("klue", place, tasks=["nli"])) for place in (None, tmp_path))
    assert asked == [("klue", "nli", "validation")]
    assert (from_hub.id, from_hub.group, from_hub.gold) == (from_folder.id, from_folder.group, from_folder.gold)
    assert from_hub.soft_gold is None


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({**NLI, "gold_label": "-"}, r"klue_nli, row 1 cannot be read"),
        ({"guid": "x", "premise": "비가 온다.", "gold_label": "neutral"}, r"klue_nli, row 1 has no 'hypothesis'"),
    ],
)
def test_a_broken_row_is_named(tmp_path: Path, row: dict[str, str], problem: str) -> None:
    write_json(tmp_path / "klue-nli-v1.1_dev.json", [row])
    with pytest.raises(InvalidInputError, match=problem):
        load_suite("klue", tmp_path, tasks=["nli"])


def test_a_missing_task_is_not_left_out_silently(tmp_path: Path) -> None:
    flat_nli(tmp_path)
    with pytest.raises(InvalidInputError, match="ynat_dev"):
        load_suite("klue", tmp_path)


# -- KoBEST ---------------------------------------------------------------------------------------------------------

KOBEST = {
    "boolq": (
        tsv(("ID", "Text", "Question", "Answer"), (1, "참새는 텃새이다. ", "참새는 철새인가?", "FALSE")),
        {"paragraph": "참새는 텃새이다.", "question": "참새는 철새인가?", "label": 0},
    ),
    "copa": (
        tsv(
            ("ID", "sentence", "question", "1", "2", "Answer"),
            (1, "창문을 열었다.", "결과 ", "방이 더워졌다.", "바람이 들어왔다.", 2),
        ),
        {
            "premise": "창문을 열었다.",
            "question": "결과",
            "alternative_1": "방이 더워졌다.",
            "alternative_2": "바람이 들어왔다.",
            "label": 1,
        },
    ),
    "hellaswag": (
        tsv(
            ("context", "choice1", "choice2", "choice3", "choice4", "label"),
            ("물을 끓인다.", "라면을 넣는다.", "잠을 잔다.", "차를 판다.", "신을 신는다.", 0),
        ),
        {
            "context": "물을 끓인다.",
            "ending_1": "라면을 넣는다.",
            "ending_2": "잠을 잔다.",
            "ending_3": "차를 판다.",
            "ending_4": "신을 신는다.",
            "label": 0,
        },
    ),
    "wic": (
        tsv(("ID", "Target", "SENTENCE1", "SENTENCE2", "ANSWER"), (1, "눈", "[눈]이 내린다.", "눈이 아프다.", "False")),
        {"word": "눈", "context_1": "[눈]이 내린다.", "context_2": "눈이 아프다.", "label": 0},
    ),
    "sentineg": (
        tsv(("ID", "Label", "Text"), (1, 1, "포장이 꼼꼼해요")),
        {"sentence": "포장이 꼼꼼해요", "label": 1},
    ),
}
NAMES = {"boolq": "BoolQ", "copa": "COPA", "hellaswag": "HellaSwag", "wic": "WiC", "sentineg": "SentiNeg"}


@pytest.mark.parametrize("task", KOBEST)
@pytest.mark.parametrize("place", ["{}_dev.tsv", "{}/dev.tsv"])
def test_kobest_files_and_hub_rows_are_the_same_examples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str, place: str
) -> None:
    text, hub_row = KOBEST[task]
    write(tmp_path / place.format(NAMES[task]), text)
    stand_in_for_datasets(monkeypatch, [hub_row])
    from_file, from_hub = (only(load_suite("kobest", folder, tasks=[task])) for folder in (tmp_path, None))
    assert from_file == from_hub
    assert from_file.gold == hub_row["label"]


def test_the_trained_wordings_are_used(tmp_path: Path) -> None:
    for task in ("copa", "boolq", "wic"):
        write(tmp_path / f"{NAMES[task]}_dev.tsv", KOBEST[task][0])
    copa, boolq, wic = (
        render(e.question, e.state) for e in load_suite("kobest", tmp_path, tasks=["copa", "boolq", "wic"])
    )
    assert copa.instruction == "다음 두 문장 중 주어진 상황의 결과로 더 알맞은 것을 고르라."
    assert (copa.state, copa.options) == ("상황: 창문을 열었다.", ("방이 더워졌다.", "바람이 들어왔다."))
    assert boolq.state == "문맥: 참새는 텃새이다.\n판단할 내용: 참새는 철새인가?"
    assert (
        wic.state == "낱말: 눈\n문장 1: [눈]이 내린다.\n문장 2: [눈]이 아프다."
    )  # the brackets are put where they lack


# -- tickets --------------------------------------------------------------------------------------------------------


def test_every_ticket_of_the_package_is_readable() -> None:
    for split in ("train", "test"):
        for example in load_suite("tickets", split=split):
            prompt = render(example.question, example.state)
            assert example.gold is None or 0 <= example.gold < len(prompt.options)


def test_ticket_splits_share_no_business() -> None:
    train, test = ({example.group for example in load_suite("tickets", split=split)} for split in ("train", "test"))
    assert not train & test
    assert len(test) * 3 >= len(train | test)


def test_a_ticket_that_fits_no_route_has_no_gold(tmp_path: Path) -> None:
    business(tmp_path)
    route, none = load_suite("tickets", tmp_path, tasks=["route"])
    assert (route.gold, none.gold) == (1, None)
    assert route.group == none.group == "tea_shop"


def test_one_ticket_makes_one_question_of_each_kind_and_two_yes_no(tmp_path: Path) -> None:
    business(tmp_path)
    examples = load_suite("tickets", tmp_path)
    assert Counter(example.task for example in examples) == {
        "tickets_route": 2,
        "tickets_urgency": 2,
        "tickets_yesno": 4,
    }
    assert len({example.id for example in examples}) == len(examples)
    urgent = next(example for example in examples if example.task == "tickets_urgency")
    assert (type(urgent.question), urgent.gold) == (Score, 2)
    yes_no = [example for example in examples if example.task == "tickets_yesno"]
    assert [(example.question.instructions, example.gold) for example in yes_no] == [
        ("급한가?", 1),
        ("급한가?", 0),
        ("화가 났는가?", 0),
        ("화가 났는가?", 0),
    ]


@pytest.mark.parametrize(
    ("right", "wrong", "problem"),
    [
        ("route: 배송", "route: 없는 곳", "row 1 cannot be read"),
        ("urgency: 2", "urgency: 9", "row 1 cannot be read"),
        ("yes_no: [true, false]", "", "row 1 has no 'yes_no'"),
        ("question: 누구에게 보낼까?", "", "is not a business"),
        ("routes:", "routes: [", "cannot be read"),
    ],
)
def test_a_broken_business_file_is_named(tmp_path: Path, right: str, wrong: str, problem: str) -> None:
    path = business(tmp_path)
    text = path.read_text(encoding="utf-8")
    write(path, text.replace(right, wrong, 1))
    with pytest.raises(InvalidInputError, match=problem) as caught:
        load_suite("tickets", tmp_path)
    assert "tea_shop.yaml" in caught.value.field


def business(folder: Path) -> Path:
    return write(
        folder / "tea_shop.yaml",
        """\
business: tea_shop
name: 찻집
split: test
question: 누구에게 보낼까?
routes:
  주문: 차와 다구 주문
  배송: 늦거나 깨진 물건
urgency: [급하지 않다, 며칠 안에, 오늘 안에, 지금]
yes_no: [급한가?, 화가 났는가?]
tickets:
  - text: "찻잔이 깨져서 왔어요"
    route: 배송
    urgency: 2
    yes_no: [true, false]
  - text: "오늘 점심 뭐 먹지"
    route: null
    urgency: 0
    yes_no: [false, false]
""",
    )


# -- typed decisions ------------------------------------------------------------------------------------------------

QUESTIONS: dict[str, dict[str, Any]] = {
    "team": {"type": "choice", "instructions": "어느 팀인가?", "criteria": {"배송": "늦음", "결제": None}},
    "refund": {
        "type": "noul",
        "instructions": "환불 요구인가?",
        "criteria": {"true": "돈을 달라고 한다", "false": "아니다"},
    },
    "anger": {"type": "score", "instructions": "얼마나 화났나?", "criteria": ["차분", "불만", "분노"]},
}
GOLD: dict[str, dict[str, Any]] = {
    "team": {"type": "choice", "label": "결제", "probabilities": {"결제": 0.8, "배송": 0.2}},
    "refund": {"type": "noul", "label": "true", "probabilities": {"false": 0.333, "true": 0.667}},
    "anger": {"type": "score", "label": 1, "probabilities": {"0": 0.25, "1": 0.5, "2": 0.25}, "score": 1.0},
}
CASE = {"id": "c1", "workflow": "tea", "state": {"messages": ["두 번 결제됐어요"], "vip": True}}


@pytest.mark.parametrize("dump", [lambda value: value, lambda value: json.dumps(value, ensure_ascii=False)])
def test_a_case_becomes_one_example_per_question(tmp_path: Path, dump: Any) -> None:
    row = {**CASE, "state": dump(CASE["state"]), "questions": dump(QUESTIONS), "gold": dump(GOLD)}
    write(tmp_path / "tea" / "test.jsonl", json.dumps(row, ensure_ascii=False))
    team, refund, anger = load_suite("typed-decisions", tmp_path)
    assert team.state == CASE["state"]
    assert {example.group for example in (team, refund, anger)} == {"c1"}
    assert (team.task, team.id, team.gold, team.soft_gold) == ("typed_tea", "typed_tea/c1/team", 1, (0.2, 0.8))
    assert (refund.gold, refund.soft_gold) == (1, pytest.approx((0.333, 0.667)))
    assert isinstance(refund.question, Noul)
    assert refund.question.criteria is not None
    assert refund.question.criteria.true == "돈을 달라고 한다"
    assert (anger.gold, anger.value, anger.soft_gold) == (1, None, (0.25, 0.5, 0.25))


def test_a_flat_row_and_a_workflow_filter(tmp_path: Path) -> None:
    flat = {"id": "f1", "state": "늦어요", "question": QUESTIONS["team"], "soft_gold": [0.5, 0.5]}
    case = {**CASE, "questions": QUESTIONS, "gold": {}}
    write(tmp_path / "test.jsonl", "\n".join(json.dumps(row, ensure_ascii=False) for row in (flat, case)))
    assert [example.id for example in load_suite("typed-decisions", tmp_path, tasks=["decisions"])] == [
        "typed_decisions/f1"
    ]
    assert {example.gold for example in load_suite("typed-decisions", tmp_path, tasks=["typed_tea"])} == {None}


def test_the_hub_set_of_all_workflows_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {**CASE, "state": json.dumps("말 한 줄"), "questions": json.dumps(QUESTIONS), "gold": json.dumps(GOLD)}
    asked = stand_in_for_datasets(monkeypatch, [row])
    assert {example.state for example in load_suite("typed-decisions")} == {"말 한 줄"}
    assert asked == [("LocalLLaMA/typed-decisions", "all", "test")]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"questions": "[]"}, "row 1: questions is not an object"),
        ({"gold": {"team": {"probabilities": {"결제": 0.8, "배송": 0.1}}}}, "row 1: soft_gold is not a distribution"),
        ({"gold": {"team": {"label": "계정"}}}, "row 1: gold names no option"),
        ({"questions": {"team": {"type": "box"}}}, "row 1: question"),
    ],
)
def test_a_malformed_case_is_named(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    row = {**CASE, "questions": QUESTIONS, "gold": GOLD, **change}
    write(tmp_path / "test.jsonl", json.dumps(row, ensure_ascii=False))
    with pytest.raises(InvalidInputError, match=problem):
        load_suite("typed-decisions", tmp_path)


# -- gold -----------------------------------------------------------------------------------------------------------

TEAMS = Choice(instructions="어느 팀?", criteria={"결제": None, "배송": None, "0": None})


@pytest.mark.parametrize(
    ("question", "raw", "gold"),
    [
        (TEAMS, "배송", 1),
        (TEAMS, "\u1107\u1162\u1109\u1169\u11bc", 1),  # 배송, decomposed
        (TEAMS, "0", 2),  # the label, not the index
        (TEAMS, 0, 0),
        (TEAMS, "", None),
        (TEAMS, None, None),
        (Noul(instructions="급한가?"), "아니오", 0),
        (Noul(instructions="급한가?"), True, 1),
        (Score(instructions="몇?", criteria=["하", "중", "상"]), 2, 2),
    ],
)
def test_gold_is_read_as_people_write_it(question: Any, raw: object, gold: int | None) -> None:
    assert parse_gold(question, raw)[0] == gold


@pytest.mark.parametrize(
    ("question", "raw"),
    [
        (TEAMS, "계정"),
        (TEAMS, 3),
        (TEAMS, -1),
        (TEAMS, True),
        (TEAMS, 1.5),
        (Noul(instructions="?"), "글쎄"),
        (Score(instructions="?", criteria=["하", "상"]), 1.2),
    ],
)
def test_gold_that_names_no_option_is_refused(question: Any, raw: object) -> None:
    with pytest.raises(InvalidInputError, match="gold names no option"):
        parse_gold(question, raw)


@given(st.lists(st.floats(0, 1), min_size=3, max_size=3).filter(lambda shares: sum(shares) > 0.1))
def test_soft_gold_sums_to_one_or_is_refused(shares: list[float]) -> None:
    total = sum(shares)
    normal = [share / total for share in shares]
    found = parse_soft(TEAMS, normal)
    assert found is not None
    assert sum(found) == pytest.approx(1, abs=1e-12)
    if abs(total - 1) > 0.021:
        with pytest.raises(InvalidInputError, match="soft_gold"):
            parse_soft(TEAMS, shares)


@pytest.mark.parametrize(
    "raw",
    [[0.5, 0.5], [float("nan")] * 3, [1.5, -0.5, 0], {"결제": 1.0}, "결제", 3, {"결제": 1, "배송": 0, "0": 0, "덤": 0}],
)
def test_soft_gold_over_other_options_is_refused(raw: object) -> None:
    with pytest.raises(InvalidInputError, match="soft_gold"):
        parse_soft(TEAMS, raw)


# -- the caller's own file ------------------------------------------------------------------------------------------


def test_a_csv_of_texts_and_labels_asks_about_its_own_labels(tmp_path: Path) -> None:
    path = write(tmp_path / "tickets.csv", "text,label\n두 번 결제됐어요,결제\n언제 오나요,배송\n안녕하세요,\n")
    examples = load_file(path)
    assert [example.gold for example in examples] == [0, 1, None]
    assert labels_of(examples[0].question) == ("결제", "배송")
    assert {example.task for example in examples} == {"tickets"}
    assert examples[0].id == "tickets/row-00001"


def test_routes_bring_descriptions_and_columns_have_names(tmp_path: Path) -> None:
    path = write(tmp_path / "t.tsv", tsv(("문의", "팀"), ("언제 오나요", "배송")))
    routes = {"결제": "환불", "배송": "늦은 물건", "계정": None}
    example = only(
        load_file(path, routes=routes, instructions="누가 맡나?", text_column="문의", label_column="팀", task="own")
    )
    assert render(example.question, example.state).options == ("결제: 환불", "배송: 늦은 물건", "계정")
    assert (example.gold, example.task, example.question.instructions) == (1, "own", "누가 맡나?")


def test_rows_with_their_own_questions(tmp_path: Path) -> None:
    rows = [
        {"state": "빨리요", "question": QUESTIONS["refund"], "gold": "아니오", "group": "손님 1"},
        {"state": ["가", 1], "question": QUESTIONS["anger"], "value": 1.4, "task": "화"},
        {"state": "?", "question": QUESTIONS["team"], "gold": None, "id": "x"},
    ]
    path = write(tmp_path / "q.jsonl", "\n".join(json.dumps(row, ensure_ascii=False) for row in rows))
    refund, anger, team = load_file(path)
    assert (refund.gold, refund.group) == (0, "손님 1")
    assert (anger.gold, anger.value, anger.task, anger.id) == (1, 1.4, "화", "화/row-00002")
    assert (team.gold, team.id) == (None, "q/x")


def test_a_csv_may_hold_questions_as_json(tmp_path: Path) -> None:
    question = json.dumps(QUESTIONS["team"], ensure_ascii=False).replace('"', '""')
    path = write(tmp_path / "q.csv", f'state,question,gold,soft_gold\n늦어요,"{question}",배송,"[0.9, 0.1]"\n')
    example = only(load_file(path))
    assert (example.gold, example.soft_gold) == (0, (0.9, 0.1))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("text,label\n", "has no rows"),
        ("text,team\n가,나\n", "has no labels in 'label'"),
        ("text,label\n가,나\n다,나\n", "has 1 option"),
        ("body,label\n가,나\n다,라\n", "row 1 has no 'text'"),
        ("text,label\n가,나\n ,라\n", r"row 2 cannot be read \(its text is empty\)"),
        ("id,text,label\n1,가,나\n1,다,라\n", "id stands on two rows"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, content: str, problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        load_file(write(tmp_path / "own.csv", content))


def test_a_label_outside_the_routes_is_an_error_with_its_row(tmp_path: Path) -> None:
    path = write(tmp_path / "own.csv", "text,label\n가,배송\n나,회계\n")
    with pytest.raises(InvalidInputError, match=r"row 2: gold names no option: '회계'. Use one of: 배송, 결제."):
        load_file(path, routes={"배송": None, "결제": None})


def test_a_label_outside_the_routes_may_mean_that_none_is_right(tmp_path: Path) -> None:
    path = write(tmp_path / "own.csv", "text,label\n가,배송\n나,해당 없음\n")
    examples = load_file(path, routes={"배송": None, "결제": None}, unknown_label="none")
    assert [example.gold for example in examples] == [0, None]


def test_routes_do_not_go_with_rows_that_hold_their_questions(tmp_path: Path) -> None:
    row = {"state": "늦어요", "question": QUESTIONS["team"], "gold": "배송"}
    path = write(tmp_path / "q.jsonl", json.dumps(row, ensure_ascii=False))
    with pytest.raises(InvalidInputError, match="holds its own questions"):
        load_file(path, routes={"배송": None, "결제": None})


# -- the two faults -------------------------------------------------------------------------------------------------


def test_letter_bias_shows_the_model_letters_only_when_they_are_kept(tmp_path: Path) -> None:
    business(tmp_path)
    plain = {example.id: example for example in load_suite("tickets", tmp_path, tasks=["route"])}
    for example in load_suite("letter-bias:tickets", tmp_path):
        base = plain[example.id.partition("@")[0]]
        stripped = render(example.question, example.state)
        assert sorted(stripped.options) == sorted(render(base.question, base.state).options)
        labels = labels_of(example.question)
        assert labels[0].startswith("A: " if ".letter." in example.task else "1. ")
        if base.gold is not None and example.gold is not None:
            assert labels[example.gold].endswith(labels_of(base.question)[base.gold])
        assert example.strip is example.task.endswith("stripped")


def test_letter_bias_puts_the_right_option_everywhere() -> None:
    examples = load_suite("letter-bias:tickets", split="train")
    kept = [example for example in examples if example.task == "tickets_route.letter.kept" and example.gold is not None]
    expected = sum(1 / len(labels_of(example.question)) for example in kept)
    assert sum(example.gold == 0 for example in kept) == pytest.approx(expected, rel=0.2)


def test_letter_bias_leaves_out_more_options_than_there_are_letters(tmp_path: Path) -> None:
    flat_re(tmp_path)
    with pytest.raises(InvalidInputError, match="no examples"):
        load_suite("letter-bias", tmp_path, tasks=["re"])


def test_yes_bias_is_balanced_in_every_way() -> None:
    examples = load_suite("yes-bias")
    assert len({example.group for example in examples}) == 60
    for task in ("yes_bias_trained", "yes_bias_unseen"):
        for side in ("statement", "negation"):
            golds = [example.gold for example in examples if example.task == task and example.id.endswith(side)]
            assert sorted(golds) == [0] * 30 + [1] * 30
    by_group = Counter((example.task, example.group) for example in examples if example.gold == 1)
    assert set(by_group.values()) == {1}


# -- load_suite -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"name": "klu"}, "suite is not known"),
        ({"name": "klue", "split": "test"}, "split is not one of klue: 'test'. Use dev or train."),
        ({"name": "tickets", "tasks": ["nli"]}, "tasks has one that tickets lacks: 'nli'"),
        ({"name": "klue", "folder": Path("/no/such/folder")}, "is not a folder"),
        ({"name": "yes-bias", "limit": 0}, "limit is not positive"),
    ],
)
def test_misuse_is_explained(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        load_suite(**arguments)


def test_datasets_is_only_needed_for_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert load_suite("tickets", limit=1)
    with pytest.raises(InvalidInputError, match="datasets is not installed"):
        load_suite("kobest")


def test_a_hub_that_cannot_be_reached_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in_for_datasets(monkeypatch, ConnectionError("끊김"))
    with pytest.raises(InvalidInputError, match="cannot be loaded from the hub"):
        load_suite("klue", tasks=["ynat"])


def test_a_draw_is_nested_ordered_and_per_task() -> None:
    everything = load_suite("tickets")
    small, large = (load_suite("tickets", limit=limit) for limit in (5, 20))
    assert Counter(example.task for example in small) == dict.fromkeys(
        ("tickets_route", "tickets_urgency", "tickets_yesno"), 5
    )
    assert {example.id for example in small} <= {example.id for example in large}
    assert [example for example in everything if example in large] == large
    assert len({example.group for example in large}) > 5  # spread, not the first file


def test_a_draw_keeps_the_two_sides_of_a_pair_together() -> None:
    drawn = draw(load_suite("yes-bias", tasks=["unseen"]), 10)
    assert set(Counter(example.group for example in drawn).values()) == {2}


def test_letter_bias_follows_what_is_there(tmp_path: Path) -> None:
    assert (suite_name("letter-bias"), suite_name("letter-bias", tmp_path)) == (
        "letter-bias:tickets",
        "letter-bias:klue",
    )
    assert "letter-bias" in SUITES


# -- the real rows --------------------------------------------------------------------------------------------------


@pytest.mark.shared
@pytest.mark.parametrize(
    ("suite", "split", "counts"),
    [
        ("klue", "dev", {"klue_nli": 1551, "klue_ynat": 4460, "klue_sts": 238, "klue_re": 3851}),
        (
            "kobest",
            "dev",
            {
                "kobest_boolq": 361,
                "kobest_copa": 255,
                "kobest_hellaswag": 242,
                "kobest_wic": 308,
                "kobest_sentineg": 197,
            },
        ),
        (
            "kobest",
            "test",
            {
                "kobest_boolq": 710,
                "kobest_copa": 502,
                "kobest_hellaswag": 252,
                "kobest_wic": 633,
                "kobest_sentineg": 208,
            },
        ),
    ],
)
def test_the_real_files_are_read_whole(shared: Path, suite: str, split: str, counts: dict[str, int]) -> None:
    examples = load_suite(suite, shared / "data" / suite, split=split)
    assert Counter(example.task for example in examples) == counts
    for example in examples[:: max(1, len(examples) // 400)]:
        render(example.question, example.state)
    if suite == "klue":
        assert all(
            (example.soft_gold is not None) == (example.task in ("klue_nli", "klue_sts")) for example in examples
        )


@pytest.mark.shared
def test_no_training_row_is_a_dev_row(shared: Path) -> None:
    """Leakage in our own readers would show here: same state, same task, both splits."""
    folder = shared / "data" / "klue"
    train, dev = ({(e.task, e.state) for e in load_suite("klue", folder, split=split)} for split in ("train", "dev"))
    assert not {task for task, _ in train & dev} - {"klue_nli"}
    assert len(train & dev) < 10


def stand_in_for_datasets(
    monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]] | Exception, names: list[str] | None = None
) -> list[tuple[str, str | None, str]]:
    """A ``datasets`` with one set; returns the list of what was asked of it."""
    asked: list[tuple[str, str | None, str]] = []

    class Dataset(list[dict[str, Any]]):
        features = {"label": types.SimpleNamespace(names=names)} if names else {}

    def load_dataset(repo: str, config: str | None, *, split: str) -> Dataset:
        asked.append((repo, config, split))
        if isinstance(rows, Exception):
            raise rows
        return Dataset(rows)

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    return asked
