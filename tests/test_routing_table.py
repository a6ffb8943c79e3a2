"""Routing tables: what a file may say, and that every mistake names file, line and key."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ko_decision_tools import InvalidInputError, MinMargin, RoutingTableError, WhenUncalibrated
from ko_decision_tools.router import load_routing_table
from ko_decision_tools.router.table import MAX_BYTES, Route, RoutingTable, parse_routing_table

FULL = """\
question: 이 문의를 어느 팀이 맡아야 하는가?
routes:
  결제: 결제, 환불, 영수증     # 설명
  배송:
    description: 배송 지연과 주소 변경
    min_top_probability: 0.8
    answer: 배송 조회는 마이페이지에서 하실 수 있어요.
  계정:
escalate_to: 상담원
min_top_probability: 0.55
task: 고객센터
policy: {min_margin: 0.1, when_uncalibrated: abstain}
"""


def test_a_full_table(tmp_path: Path) -> None:
    file = tmp_path / "routes.yaml"
    file.write_text(FULL, encoding="utf-8")
    table = load_routing_table(file)
    assert table == load_routing_table(str(file))
    assert table.question == "이 문의를 어느 팀이 맡아야 하는가?"
    assert table.routes == (
        Route("결제", "결제, 환불, 영수증"),
        Route("배송", "배송 지연과 주소 변경", 0.8, "배송 조회는 마이페이지에서 하실 수 있어요."),
        Route("계정"),
    )
    assert (table.escalate_to, table.min_top_probability, table.task) == ("상담원", 0.55, "고객센터")
    assert table.policy == MinMargin(0.1) & WhenUncalibrated("abstain")
    choice = table.to_choice()
    assert choice.instructions == table.question
    assert list(choice.criteria.items())[2] == ("계정", None)


def test_the_rest_is_optional_and_json_is_yaml() -> None:
    table = parse_routing_table('{"question": "어느 팀?", "routes": {"결제": "환불", "배송": null}}')
    assert (table.escalate_to, table.min_top_probability, table.task, table.policy) == ("사람", None, None, None)


def test_a_byte_order_mark_is_no_part_of_the_table(tmp_path: Path) -> None:
    file = tmp_path / "routes.yaml"
    file.write_text(FULL, encoding="utf-8-sig")
    assert load_routing_table(file).routes[0].label == "결제"


BASE = "question: 팀?\nroutes:\n  결제: 환불\n  배송: 지연\n"


@pytest.mark.parametrize(
    ("text", "where", "problem"),
    [
        ("", "t.yaml:1", "not a mapping"),
        ("- 결제\n- 배송\n", "t.yaml:1", "not a mapping"),
        ("question: 팀?\n", "t.yaml:1: routes", "missing"),
        (BASE + "escalate: 사람\n", "t.yaml:5: escalate", "not a known key"),
        ("question: 팀?\nroutes:\n  결제: {설명: 환불}\n  배송:\n", "t.yaml:3: routes.결제.설명", "not a known key"),
        (BASE + "policy:\n  margin: 0.1\n", "t.yaml:6: policy.margin", "not a known key"),
        (BASE + "policy:\n  when_uncalibrated: maybe\n", "t.yaml:6: policy.when_uncalibrated", "'maybe'"),
        (BASE + "min_top_probability: 60\n", "t.yaml:5: min_top_probability", "60. Use a number from 0 to 1"),
        (BASE + "min_top_probability: true\n", "t.yaml:5: min_top_probability", "not a probability"),
        (BASE + "min_top_probability: .nan\n", "t.yaml:5: min_top_probability", "not a probability"),
        (BASE + "escalate_to:\n", "t.yaml:5: escalate_to", "string"),
        (BASE + "escalate_to: '  '\n", "t.yaml:5: escalate_to", "not a name"),
        (BASE.replace("환불", "119"), "t.yaml:3: routes.결제.description", "119. Put it in quotes"),
        (BASE.replace("결제", "no"), "t.yaml:3", "the key no is not read as text"),
        (BASE.replace("결제", "1"), "t.yaml:3", "the key 1 is not read as text"),
        (BASE.replace("결제", "[가, 나]"), "t.yaml:3", "not read as text"),
        (BASE.replace("결제", "''"), "t.yaml:3", "a key is empty"),
        (BASE.replace("결제", "배송"), "t.yaml:4", "the key 배송 is repeated"),
        (BASE + "question: 또?\n", "t.yaml:5", "the key question is repeated"),
        ("question: 팀?\nroutes: {결제: 환불}\n", "t.yaml:2: routes", "1 option. Give 2 to 255"),
        ("question: ' '\nroutes: {결제: , 배송: }\n", "t.yaml:1: question", "empty"),
        ("question: 팀?\nroutes:\n  'A. 결제':\n  'B. 결제':\n", "t.yaml:4: routes.B. 결제", "equals"),
        ("question: 팀?\nroutes: [결제, 배송]\n", "t.yaml:2: routes", "dictionary"),
        (BASE.replace("환불", "카드: 환불"), "t.yaml:3", "not usable YAML"),
        (BASE + "  계정: [\n", "t.yaml:", "not usable YAML"),
        (BASE + "---\n" + BASE, "t.yaml:5", "another document"),
        (BASE.replace("환불", "&a 환불").replace("지연", "*a"), "t.yaml:4", "aliases"),
        (BASE.replace("환불", "!!python/object/apply:os.getcwd []"), "t.yaml:3", "tags"),
        (BASE.replace("환불", "!!timestamp 어제"), "t.yaml:3", "tags"),
        (BASE + "<<: {task: 가}\n", "t.yaml:5", "not read as text"),
        (BASE.replace("환불", "2026-13-45"), "t.yaml", "month"),
        (BASE + "\x00", "t.yaml", "special characters"),
        ("[" * 20_000, "t.yaml", "recursion"),
        (BASE + "# " + "가" * MAX_BYTES, "t.yaml", "larger"),
    ],
)
def test_every_mistake_names_file_line_and_key(text: str, where: str, problem: str) -> None:
    with pytest.raises(RoutingTableError) as caught:
        parse_routing_table(text, where="t.yaml")
    assert caught.value.field.startswith(where)
    assert problem in str(caught.value)
    assert caught.value.fix


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(RoutingTableError, match="cannot be read"):
        load_routing_table(tmp_path / "none.yaml")
    with pytest.raises(RoutingTableError, match="cannot be read"):
        load_routing_table(tmp_path)
    korean = tmp_path / "cp949.yaml"
    korean.write_bytes(BASE.encode("cp949"))
    with pytest.raises(RoutingTableError, match="not UTF-8"):
        load_routing_table(korean)
    huge = tmp_path / "huge.yaml"
    huge.write_bytes(b"#" * (MAX_BYTES + 10))
    with pytest.raises(RoutingTableError, match="larger"):
        load_routing_table(huge)


def test_an_error_in_a_file_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "routes.yaml"
    file.write_text(BASE + "bar: 1\n", encoding="utf-8")
    with pytest.raises(RoutingTableError) as caught:
        load_routing_table(file)
    assert caught.value.field == f"{file}:5: bar"


@given(st.text(max_size=80))
def test_any_text_is_a_table_or_a_table_error(text: str) -> None:
    try:
        parse_routing_table(text)
    except RoutingTableError as error:
        assert error.field.startswith("routing table")  # noqa: PT017 - most texts fail, a few may not


@given(st.text(max_size=30), st.sampled_from(["policy", "escalate_to", "task", "min_top_probability"]))
def test_any_value_of_a_known_key_is_usable_or_a_table_error(value: str, key: str) -> None:
    try:
        table = parse_routing_table(f"{BASE}{key}: {value}\n")
    except RoutingTableError:
        return
    assert [route.label for route in table.routes] == ["결제", "배송"]


def test_tables_and_routes_made_in_python_are_checked_too() -> None:
    two = (Route("결제"), Route("배송"))
    for make in (
        lambda: Route(" "),
        lambda: Route("결제", min_top_probability=1.2),
        lambda: RoutingTable("팀?", two[:1]),
        lambda: RoutingTable("", two),
        lambda: RoutingTable("팀?", (*two, Route("결제"))),
        lambda: RoutingTable("팀?", two, min_top_probability=-1),
        lambda: RoutingTable("팀?", two, escalate_to=""),
    ):
        with pytest.raises(InvalidInputError):
            make()
