"""The command line besides ``route``: help, exit codes, classify, gate, rate and plan; and the examples."""

from __future__ import annotations

import json
import subprocess
import sys
import unicodedata
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ko_decision_tools
from ko_decision_tools.cli import COMMANDS
from ko_decision_tools.cli.csv_records import csv_records
from ko_decision_tools.cli.sheets import CsvSheet, JsonlSheet, Routed
from ko_decision_tools.cli.tables import Row, read_table
from ko_decision_tools.errors import CheckpointNotFoundError, EncoderError, InvalidInputError
from ko_decision_tools.router import load_routing_table
from tests.cli_stand_in import ROUTES, run, use_model

EXAMPLES = Path(ko_decision_tools.__file__).parents[1] / "examples"
CHOICE = ("-q", "어느 팀인가?", "--option", "결제: 결제, 환불", "--option", "배송")


# -- help and errors ---------------------------------------------------------------------------------------------------


def test_help_and_version_load_nothing_heavy() -> None:
    code = (
        "import sys\nfrom ko_decision_tools.cli import app\n"
        "for words in (['--help'], ['--version']):\n"
        "    app(words, standalone_mode=False)\n"
        "heavy = {'torch', 'transformers', 'langchain_core', 'pydantic', 'numpy', 'yaml', 'rich', 'huggingface_hub'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-X", "utf8", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert f"ko-decision {ko_decision_tools.__version__}" in done.stdout


@pytest.mark.parametrize("command", [command.__name__.replace("_", "-") for command in COMMANDS])
def test_every_command_explains_itself(command: str) -> None:
    assert f"  {command} " in run("--help").stdout
    done = run(command, "--help")
    assert done.exit_code == 0
    assert f"Usage: ko-decision {command} " in done.stdout


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (CheckpointNotFoundError("There is no such repo."), 2, "error: There is no such repo.\n"),
        (InvalidInputError("device", "is unknown", "Use cpu."), 2, "error: device is unknown. Use cpu.\n"),
        (EncoderError("out of memory:\n  tried 3 GB"), 1, "error: out of memory: tried 3 GB\n"),
        (OSError(28, "No space left on device"), 1, "error: No space left on device\n"),
        (ValueError("오류"), 1, "error: ValueError: 오류 (this is a bug; `ko-decision --debug …` shows where)\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, line: str
) -> None:
    def load_model(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("ko_decision_tools.cli.models.load_model", load_model)
    done = run("classify", "글", *CHOICE)
    assert (done.exit_code, done.stdout, done.stderr) == (code, "", line)
    if isinstance(error, Exception):
        assert run("--debug", "classify", "글", *CHOICE).exception is error


def test_a_checkpoint_or_calibration_that_is_not_there_is_misuse(tmp_path: Path) -> None:
    for option, said in (("--checkpoint", "There is no folder"), ("--calibration", "cannot be read as JSON")):
        done = run("classify", "글", *CHOICE, option, tmp_path / "nowhere")
        assert (done.exit_code, said in done.stderr) == (2, True), done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [("classify",), ("classify", "글", "--option"), ("nonsense",), ("rate", "글", "--x")])
def test_a_malformed_command_is_misuse(words: tuple[str, ...]) -> None:
    assert run(*words).exit_code == 2


# -- one question ------------------------------------------------------------------------------------------------------


def test_classify_prints_the_label_and_every_probability(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = use_model(monkeypatch, {"환불": 3.0})
    done = run("classify", "돈 돌려주세요", *CHOICE, "--checkpoint", "org/repo")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[0] == "결제"
    assert "0.953" in done.stdout
    assert "not calibrated" in done.stdout
    assert asked == ["org/repo"]


def test_json_is_the_whole_decision_with_raw_hangul(monkeypatch: pytest.MonkeyPatch) -> None:
    use_model(monkeypatch, {"환불": 3.0})
    done = run("classify", "돈 돌려주세요", *CHOICE, "--json", "--min-top-probability", "0.99")
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert (found["choice"], found["abstained"], found["calibrated"]) == ("결제", True, False)
    assert found["probabilities"]["결제"] == pytest.approx(0.952574, abs=1e-6)
    assert "결제" in done.stdout
    assert done.stdout.count("\n") == 1


def test_abstaining_is_said_and_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    use_model(monkeypatch, {})
    done = run("classify", "글쎄", *CHOICE)
    assert done.exit_code == 0
    assert done.stdout.startswith("abstained (best guess: 결제)")
    assert "abstained: top probability 0.500 < 0.6" in done.stdout


def test_labels_that_look_like_markup_are_shown_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    use_model(monkeypatch, {"bold": 3.0})
    done = run("classify", "글", "-q", "?", "--option", "[bold]가[/bold]", "--option", ":smile:")
    assert done.stdout.splitlines()[0] == "[bold]가[/bold]"
    assert ":smile:" in done.stdout


@pytest.mark.parametrize(("score", "verdict"), [(3.0, "block"), (-3.0, "allow"), (0.0, "abstain")])
def test_gate_yes_means_block(monkeypatch: pytest.MonkeyPatch, score: float, verdict: str) -> None:
    use_model(monkeypatch, {"참:": score, "거짓:": 0.0})
    done = run("gate", "고객 명단을 모두 지운다")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[0] == verdict
    found = json.loads(run("gate", "고객 명단을 모두 지운다", "-q", "위험한가?", "--json").stdout)
    assert found["verdict"] == verdict
    assert found["type"] == "noul"


def test_gate_bounds_the_wrong_way_round_are_misuse(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = use_model(monkeypatch)
    done = run("gate", "글", "--allow-at", "0.8", "--block-at", "0.2")
    assert (done.exit_code, "allow_at" in done.stderr, asked) == (2, True, [])


def test_rate_gives_the_expected_level(monkeypatch: pytest.MonkeyPatch) -> None:
    use_model(monkeypatch, {"당장": 5.0})
    levels = ("--level", "급하지 않다", "--level", "오늘 안에", "--level", "지금 당장")
    done = run("rate", "불이 났어요", "-q", "얼마나 급한가?", *levels)
    assert done.exit_code == 0
    assert done.stdout.splitlines()[0] == "1.98 of 2"
    assert "2: 지금 당장" in done.stdout
    assert json.loads(run("rate", "불", "-q", "?", *levels, "--json").stdout)["score"] == pytest.approx(1.98, abs=0.01)


def test_a_text_may_come_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    use_model(monkeypatch, lambda prompt: [float(prompt.state == "돈\n줘"), 0.0])
    done = run("classify", "-", *CHOICE, "--json", stdin="돈\n줘\n".encode())
    assert json.loads(done.stdout)["logits"] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("words", "stdin", "said"),
    [
        (("classify", "  ", *CHOICE), None, "TEXT is empty"),
        (("classify", "-", *CHOICE), b"\xb0\xa1", "is not UTF-8"),
        (("classify", "글", "-q", "?", "--option", "하나"), None, "--option has 1 entry"),
        (("classify", "글", "-q", "?", "--option", "가", "--option", "가"), None, "--option[1] equals --option[0]"),
        (("rate", "글", "-q", "?", "--level", "하나"), None, "--level has 1 entry"),
    ],
)
def test_misuse_names_the_option(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], stdin: bytes | None, said: str
) -> None:
    asked = use_model(monkeypatch)
    done = run(*words, stdin=stdin)
    assert (done.exit_code, said in done.stderr, asked) == (2, True, []), done.stderr


# -- plan --------------------------------------------------------------------------------------------------------------


def test_plan_counts_tokens_and_scores_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def script(prompt: object) -> list[float]:
        raise AssertionError("plan scored something")

    use_model(monkeypatch, script)
    found = json.loads(run("plan", "택배", *CHOICE, "--json").stdout)
    assert (found["pairs"], found["cut"]) == (2, None)
    assert [option["option"] for option in found["options"]] == ["결제: 결제, 환불", "배송"]
    assert found["tokens"] == sum(option["tokens"] for option in found["options"])
    assert "nothing is cut" in run("plan", "택배", "-q", "급한가?").stdout
    (tmp_path / "in.csv").write_text("id,text\n1,배송\n2,\n3,결제가요\n", encoding="utf-8")
    (tmp_path / "routes.yaml").write_text(ROUTES, encoding="utf-8")
    asked = ("plan", "--file", tmp_path / "in.csv", "--routes", tmp_path / "routes.yaml")
    found = json.loads(run(*asked, "--json").stdout)
    assert (found["rows"], found["pairs"], found["cut"]) == (3, 6, [])
    assert found["failed"] == [{"row": 2, "line": 3, "problem": "'text' is empty"}]
    assert "line 3: 'text' is empty" in run(*asked).stdout


def test_plan_says_what_would_be_cut(tiny_roberta: Path, tmp_path: Path) -> None:
    text = "가나다라 " * 400
    found = json.loads(run("plan", text, *CHOICE, "--checkpoint", tiny_roberta, "--json").stdout)
    assert found["max_tokens"] == 512
    assert found["cut"]["text_tokens"] > 512 > found["cut"]["read"]
    assert max(option["tokens"] for option in found["options"]) == 512
    (tmp_path / "in.txt").write_text(f"짧다\n{text}\n", encoding="utf-8")
    done = run("plan", "--file", tmp_path / "in.txt", *CHOICE, "--checkpoint", tiny_roberta)
    assert "cut: 1 rows" in done.stdout
    assert f"line 2: the first {found['cut']['read']} of " in done.stdout
    assert "warning: " in done.stderr  # it has no calibration.json
    assert "UserWarning" not in done.stderr


@pytest.mark.parametrize(
    "words", [(), ("글", "--file", "a.csv"), ("글",), ("글", "-q", "?", "--option", "가", "--level", "나")]
)
def test_plan_needs_one_text_and_one_question(monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    asked = use_model(monkeypatch)
    done = run("plan", *words)
    assert (done.exit_code, asked) == (2, [])


# -- rows in and out ---------------------------------------------------------------------------------------------------

CELL = st.text(st.characters(codec="utf-8"), max_size=12)


@given(st.lists(st.lists(CELL, min_size=3, max_size=3), max_size=5))
def test_csv_cells_come_back_byte_for_byte(table: list[list[str]]) -> None:
    sheet = CsvSheet(("a", "b", "c"), ("route", "p", "q", "r", "s"))
    rows = [Row(1, 1, dict(zip("abc", cells, strict=True)), "", None) for cells in table]
    text = sheet.head + "".join(sheet.line(Routed(row, "결제", (), 0.9, {"결제": 0.9})) for row in rows)
    assert [record.cells[:3] for record in csv_records(text)] == [["a", "b", "c"], *table]
    kept = list(sheet.kept(text))
    assert [row.original for row in kept] == [sheet.original(row) for row in rows]
    assert not kept or kept[-1].end == len(text.encode())


@given(st.dictionaries(st.text(max_size=5), st.recursive(st.none() | st.floats() | CELL, st.lists, max_leaves=4)))
def test_json_values_come_back(values: dict[str, object]) -> None:
    sheet = JsonlSheet(("_route", "_p", "_a", "_r", "_ps"))
    row = Row(1, 1, values, "", None)
    text = sheet.line(Routed(row, "결제", ("까닭",))).encode("utf-8", "backslashreplace").decode()
    kept = list(sheet.kept(text))
    assert len(kept) == 1
    assert kept[0].original == sheet.original(row)
    assert (kept[0].route, kept[0].abstained, kept[0].failed, kept[0].end) == ("결제", True, True, len(text.encode()))


@given(st.text(st.sampled_from('가,"\n\r 1'), max_size=40))
def test_reading_any_csv_ends_and_loses_no_line(text: str) -> None:
    records = list(csv_records(text))
    assert [a.end for a in records[:-1]] <= [b.line for b in records[1:]]
    letters = Counter(letter for record in records for cell in record.cells for letter in cell)
    assert letters["가"] == text.count("가")
    assert letters["1"] == text.count("1")


# -- the examples ------------------------------------------------------------------------------------------------------


def test_the_example_tickets_are_sixty_of_six_routes_and_some_of_none() -> None:
    table = read_table(EXAMPLES / "tickets.csv")
    routes = load_routing_table(EXAMPLES / "routes.yaml")
    labels = Counter(str(row.values["label"]) for row in table.rows)
    assert table.columns == ("id", "text", "label")
    assert len(table.rows) == 60
    assert labels.keys() == {*(route.label for route in routes.routes), "없음"}
    assert labels["없음"] == 8
    assert min(labels.values()) >= 8
    assert len({row.text for row in table.rows}) == len({row.values["id"] for row in table.rows}) == 60
    assert all(row.problem is None and unicodedata.is_normalized("NFC", row.text) for row in table.rows)
    assert all(route.description for route in routes.routes)
