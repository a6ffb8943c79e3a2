"""``ko-decision route``: what goes in comes out, with a route; whatever goes wrong, rows are kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ko_decision_tools
from ko_decision_tools.cli.route import CHUNK
from ko_decision_tools.cli.sheets import ADDED
from ko_decision_tools.errors import CheckpointError, EncoderError, InputTooLongError
from ko_decision_tools.prompts import Prompt
from tests.cli_stand_in import ROUTES, failing_at, names_its_route, objects_of, rows_of, run, use_model

TICKETS = "id,text,label\n1,배송이 늦어요,배송\n2,결제가 두 번 됐어요,결제\n3,심심하네요,없음\n"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a routing table and a table of tickets, which is also the working directory."""
    (tmp_path / "routes.yaml").write_text(ROUTES, encoding="utf-8")
    (tmp_path / "tickets.csv").write_text(TICKETS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A scripted model; the list of checkpoints that were loaded."""
    return use_model(monkeypatch)


def many(count: int) -> str:
    """A table with texts of one and of several lines."""
    return "id,text\n" + "".join(f'{n},"배송 {n}번이\n늦어요"\n' if n % 3 else f"{n},회원 {n}\n" for n in range(count))


# -- the rows ----------------------------------------------------------------------------------------------------------


def test_every_column_comes_out_and_the_decision_after_it(files: Path, loaded: list[str]) -> None:
    done = run("route", "tickets.csv", "--routes", "routes.yaml", "--out", "routed.csv")
    assert done.exit_code == 0, done.stderr
    text = (files / "routed.csv").read_text(encoding="utf-8")
    rows = rows_of(text)
    assert list(rows[0]) == ["id", "text", "label", *ADDED]
    assert [row["text"] for row in rows] == ["배송이 늦어요", "결제가 두 번 됐어요", "심심하네요"]
    assert [row["route"] for row in rows] == ["배송", "결제", "상담원"]
    assert [row["abstained"] for row in rows] == ["false", "false", "true"]
    assert [row["reasons"] for row in rows] == ["", "", "top probability 0.333 < 0.6"]
    for row in rows:
        found = json.loads(row["probabilities"])
        assert list(found) == ["결제", "배송", "회원"]
        assert sum(found.values()) == pytest.approx(1)
        assert float(row["top_probability"]) == max(found.values())
    assert '""결제""' in text
    assert loaded == ["mini"]


def test_the_summary_is_on_stderr_and_counts_right_answers(files: Path, loaded: list[str]) -> None:
    (files / "tickets.csv").write_text(TICKETS + "4,결제와 상관없는 말,없음\n5,글쎄요,회원\n", encoding="utf-8")
    done = run("route", "tickets.csv", "--routes", "routes.yaml", "--out", "routed.csv", "--label-column", "label")
    assert done.stdout == ""
    assert "5 rows: 3 answered (coverage 60.0%), 2 abstained, 0 failed" in done.stderr
    assert "accuracy: 60.0% over all 5 labelled rows, 66.7% among the 3 answered" in done.stderr
    assert "label is no route, here 없음, counts as right only when no route was accepted" in done.stderr
    assert "decisions per second" in done.stderr


def test_standard_output_holds_nothing_but_the_table(files: Path, loaded: list[str]) -> None:
    done = run("route", "-", "--format", "csv", "--routes", "routes.yaml", "--out", "-", stdin=TICKETS.encode())
    assert done.exit_code == 0, done.stderr
    assert [row["route"] for row in rows_of(done.stdout)] == ["배송", "결제", "상담원"]
    assert "3 rows" in done.stderr


def test_json_lines_keep_their_values(files: Path, loaded: list[str]) -> None:
    lines = ['{"n": 7, "text": "배송 언제?", "tags": ["급함", null]}', '{"text": "결제 취소", "extra": {"깊이": 1.50}}']
    (files / "in.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert run("route", "in.jsonl", "--routes", "routes.yaml", "--out", "out.jsonl").exit_code == 0
    first, second = objects_of(files / "out.jsonl")
    assert list(first) == ["n", "text", "tags", *ADDED]
    assert (first["n"], first["tags"], first["route"], first["abstained"], first["reasons"]) == (
        7,
        ["급함", None],
        "배송",
        False,
        [],
    )
    assert second["extra"] == {"깊이": 1.5}
    assert max(second["probabilities"], key=second["probabilities"].get) == "결제"
    assert "깊이" in (files / "out.jsonl").read_text(encoding="utf-8")
    assert run("route", "in.jsonl", "--routes", "routes.yaml", "--out", "out.csv").exit_code == 0
    rows = rows_of((files / "out.csv").read_text(encoding="utf-8"))
    assert [(row["n"], row["tags"], row["extra"]) for row in rows] == [
        ("7", '["급함", null]', ""),
        ("", "", '{"깊이": 1.5}'),
    ]


def test_plain_lines_become_rows_and_blank_ones_do_not(files: Path, loaded: list[str]) -> None:
    (files / "in.txt").write_bytes("배송 늦음\r\n\r\n  \r\n결제, 오류\r\n".encode())
    assert run("route", "in.txt", "--routes", "routes.yaml", "--out", "out.csv").exit_code == 0
    rows = rows_of((files / "out.csv").read_text(encoding="utf-8"))
    assert [(row["text"], row["route"]) for row in rows] == [("배송 늦음", "배송"), ("결제, 오류", "결제")]


def test_another_text_column_and_bars_per_route(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_model(monkeypatch, {"배송": 1.5})  # P(배송) = 0.69
    table = ROUTES.replace("배송: 배송 지연과 주소 변경", "배송: {description: 배송 지연, min_top_probability: 0.8}")
    (files / "strict.yaml").write_text(table, encoding="utf-8")
    (files / "in.csv").write_text("text,말\n결제,늦어요\n", encoding="utf-8")
    asked = ("route", "in.csv", "--text-column", "말", "--out", "out.csv", "--force")
    for routes, bar, route in (("routes", "0.6", "배송"), ("routes", "0.7", "상담원"), ("strict", "0.1", "상담원")):
        assert run(*asked, "--routes", f"{routes}.yaml", "--min-top-probability", bar).exit_code == 0
        assert rows_of((files / "out.csv").read_text(encoding="utf-8"))[0]["route"] == route


def test_no_rows_is_a_header(files: Path, loaded: list[str]) -> None:
    (files / "in.csv").write_text("id,text\n", encoding="utf-8")
    assert run("route", "in.csv", "--routes", "routes.yaml", "--out", "out.csv").exit_code == 0
    assert (files / "out.csv").read_text(encoding="utf-8") == f"id,text,{','.join(ADDED)}\n"
    assert loaded == []


# -- encodings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("encoding", "option"), [("utf-8", "utf-8"), ("utf-8-sig", "UTF8"), ("cp949", "cp949"), ("utf-16", "utf-16")]
)
def test_encodings_are_read_and_the_output_is_utf_8(files: Path, loaded: list[str], encoding: str, option: str) -> None:
    (files / "in.csv").write_text(TICKETS, encoding=encoding)
    done = run("route", "in.csv", "--routes", "routes.yaml", "--out", "out.csv", "--encoding", option)
    assert done.exit_code == 0, done.stderr
    data = (files / "out.csv").read_bytes()
    assert data.startswith(b"\xef\xbb\xbf") == (encoding == "utf-8-sig")
    rows = rows_of(data.decode("utf-8-sig"))
    assert [row["id"] for row in rows] == ["1", "2", "3"]
    assert [row["route"] for row in rows] == ["배송", "결제", "상담원"]


@pytest.mark.parametrize(
    ("written", "asked", "hint"),
    [("cp949", "utf-8", "--encoding cp949"), ("utf-8", "cp949", "is UTF-8"), ("utf-8", "klingon", "is unknown")],
)
def test_the_wrong_encoding_is_misuse(files: Path, loaded: list[str], written: str, asked: str, hint: str) -> None:
    (files / "in.csv").write_text(TICKETS, encoding=written)
    done = run("route", "in.csv", "--routes", "routes.yaml", "--out", "out.csv", "--encoding", asked)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")
    assert hint in done.stderr
    assert not (files / "out.csv").exists()
    assert loaded == []


# -- broken rows -------------------------------------------------------------------------------------------------------

BROKEN = {
    "too few cells": ("csv", b"1", "has 1 cells for 2 columns"),
    "too many cells": ("csv", "1,배송,왜,또".encode(), 'left over: ["왜", "또"]'),
    "an empty text": ("csv", b"1,", "'text' is empty"),
    "a blank text": ("csv", b'1,"  \n "', "'text' is empty"),
    "a quote that never closes": ("csv", '1,"배송'.encode(), "is not CSV"),
    "text after a quote": ("csv", '1,"배송"왜'.encode(), "is not CSV"),
    "a byte that does not decode": ("csv", "1,배송".encode() + b"\xff", "is not valid Unicode"),
    "no JSON": ("jsonl", '{"text": "배송'.encode(), "is not JSON"),
    "JSON, but no object": ("jsonl", '"배송"'.encode(), "is not a JSON object"),
    "a lone surrogate": ("jsonl", rb'{"text": "\ud83d!"}', "is not valid Unicode"),
    "no text": ("jsonl", rb'{"txt": 1}', "'text' is missing"),
    "a number": ("jsonl", rb'{"text": 12}', "'text' is not text but 12"),
    "deep nesting": ("jsonl", b"[" * 200_000, "is not JSON"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_row_is_kept_escalated_and_counted(files: Path, loaded: list[str], name: str) -> None:
    form, raw, problem = BROKEN[name]
    sound = ["0,배송 전".encode(), "2,결제 후".encode()]
    if form == "jsonl":
        sound = [json.dumps({"text": text}, ensure_ascii=False).encode() for text in ("배송 전", "결제 후")]
    lines = [*([b"id,text"] if form == "csv" else []), sound[0], raw, sound[1]]
    (files / f"in.{form}").write_bytes(b"\n".join(lines) + b"\n")
    done = run("route", f"in.{form}", "--routes", "routes.yaml", "--out", "out.jsonl")
    assert done.exit_code == 1
    assert "error: 1 of 3 rows could not be judged" in done.stderr
    assert "2 answered" in done.stderr
    first, broken, last = objects_of(files / "out.jsonl")
    assert (first["route"], last["route"]) == ("배송", "결제")
    assert (broken["route"], broken["abstained"], broken["probabilities"]) == ("상담원", True, None)
    assert broken["reasons"][0].startswith(f"row: line {len(lines) - 1}: ")
    assert problem in broken["reasons"][0]


def test_what_stood_in_a_broken_row_is_still_there(files: Path, loaded: list[str]) -> None:
    raw = '1,"닫히지 않은 따옴표, 배송'
    (files / "in.csv").write_text(f"id,text\n{raw}\n2,결제\n", encoding="utf-8")
    run("route", "in.csv", "--routes", "routes.yaml", "--out", "out.csv")
    assert [row["text"] for row in rows_of((files / "out.csv").read_text(encoding="utf-8"))] == [raw, "결제"]


def test_a_text_of_100_000_characters_and_a_cell_over_pythons_limit(files: Path, loaded: list[str]) -> None:
    for length in (100_000, 200_000):
        (files / "in.csv").write_text(f"id,text\n1,{'배송 ' * (length // 3)}\n", encoding="utf-8")
        assert run("route", "in.csv", "--routes", "routes.yaml", "--out", "out.csv", "--force").exit_code == 0
        assert run("route", "in.csv", "--routes", "routes.yaml", "--out", "out.csv", "--resume").exit_code == 0


def test_a_row_that_the_model_fails_on_is_kept_and_the_others_are_routed(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def script(prompt: Prompt) -> list[float]:
        if "심심" in prompt.state:
            raise EncoderError("the scores are not finite")
        return names_its_route(prompt)

    use_model(monkeypatch, script)
    done = run("route", "tickets.csv", "--routes", "routes.yaml", "--out", "out.jsonl")
    assert done.exit_code == 1
    assert [row["route"] for row in objects_of(files / "out.jsonl")] == ["배송", "결제", "상담원"]
    assert objects_of(files / "out.jsonl")[2]["reasons"] == ["model: the scores are not finite"]


def test_texts_longer_than_the_model_reads_are_counted(files: Path, tiny_roberta: Path) -> None:
    (files / "in.txt").write_text(f"배송\n{'길다 ' * 900}\n", encoding="utf-8")
    done = run("route", "in.txt", "--routes", "routes.yaml", "--out", "out.csv", "--checkpoint", tiny_roberta)
    assert done.exit_code == 0, done.stderr
    assert "1 texts were longer than the model reads" in done.stderr
    assert "not calibrated for this question" in done.stderr


def test_a_table_that_demands_calibration_stops_the_run(files: Path, loaded: list[str]) -> None:
    (files / "routes.yaml").write_text(ROUTES + "policy: {when_uncalibrated: error}\n", encoding="utf-8")
    done = run("route", "tickets.csv", "--routes", "routes.yaml", "--out", "out.csv")
    assert (done.exit_code, "no fitted temperature" in done.stderr) == (1, True)
    assert not (files / "out.csv").exists()


# -- misuse ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "asked", "said"),
    [
        ("id,말", (), "has no column 'text'"),
        ("id,text", ("--label-column", "정답"), "has no column '정답'"),
        ("text,text", (), "has two columns named 'text'"),
        ("text,route", (), "--prefix"),
        ("id,text", ("--resume", "--force"), "exclude each other"),
        ("id,text", ("--out", "out.xlsx"), "Name it .csv or .jsonl"),
        ("id,text", ("--out", "-", "--resume"), "needs a file"),
        ("id,text", ("--out", "nowhere/out.csv"), "cannot be written"),
        ("id,text", ("--out", "in.csv", "--force"), "is the input itself"),
        ("id,text", ("--routes", "in.csv"), "in.csv:"),
        ("id,text", ("--min-top-probability", "1.5"), "--min-top-probability"),
    ],
)
def test_misuse_is_said_before_the_model_is_loaded(
    files: Path, loaded: list[str], head: str, asked: tuple[str, ...], said: str
) -> None:
    (files / "in.csv").write_text(f"{head}\n1,배송\n", encoding="utf-8")
    done = run("route", "in.csv", "--routes", "routes.yaml", "--out", "out.csv", *asked)
    assert done.exit_code == 2
    assert said in done.stderr
    assert loaded == []
    assert not (files / "out.csv").exists()


def test_an_empty_file_and_a_file_that_is_not_there(files: Path, loaded: list[str]) -> None:
    (files / "empty.csv").write_bytes(b"")
    for name, said in (("empty.csv", "has no header"), ("no.csv", "No such file"), ("routes.yaml", "--format")):
        done = run("route", name, "--routes", "routes.yaml", "--out", "out.csv")
        assert (done.exit_code, said in done.stderr) == (2, True), done.stderr


def test_added_columns_can_be_given_a_prefix(files: Path, loaded: list[str]) -> None:
    (files / "in.csv").write_text("text,route\n배송,원래 값\n", encoding="utf-8")
    assert run("route", "in.csv", "--routes", "routes.yaml", "--out", "out.csv", "--prefix", "ko_").exit_code == 0
    row = rows_of((files / "out.csv").read_text(encoding="utf-8"))[0]
    assert (row["route"], row["ko_route"]) == ("원래 값", "배송")


def test_an_option_that_is_too_long_is_misuse_and_no_row_is_blamed(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_model(monkeypatch)

    def refuse(self: object, prompt: Prompt) -> None:
        raise InputTooLongError("options[0]", "takes 600 tokens", "Shorten it.")

    monkeypatch.setattr("ko_decision_tools.encoders.scripted.ScriptedEncoder.prepare", refuse)
    done = run("route", "tickets.csv", "--routes", "routes.yaml", "--out", "out.csv")
    assert (done.exit_code, "takes 600 tokens" in done.stderr) == (2, True)
    assert not (files / "out.csv").exists()


# -- what is kept ------------------------------------------------------------------------------------------------------


def test_an_existing_output_is_overwritten_only_on_request(files: Path, loaded: list[str]) -> None:
    asked = ("route", "tickets.csv", "--routes", "routes.yaml", "--out", "out.csv")
    (files / "out.csv").write_text("소중한 것", encoding="utf-8")
    done = run(*asked)
    assert (done.exit_code, "--resume" in done.stderr, "--force" in done.stderr) == (2, True, True)
    assert (files / "out.csv").read_text(encoding="utf-8") == "소중한 것"
    assert run(*asked, "--force").exit_code == 0
    assert len(rows_of((files / "out.csv").read_text(encoding="utf-8"))) == 3


def test_a_model_that_cannot_be_loaded_costs_no_file(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load_model(*_: object, **__: object) -> None:
        raise CheckpointError("its weights are damaged")

    monkeypatch.setattr("ko_decision_tools.cli.models.load_model", load_model)
    (files / "old.csv").write_text("소중한 것", encoding="utf-8")
    for out in ("new.csv", "old.csv"):
        done = run("route", "tickets.csv", "--routes", "routes.yaml", "--out", out, "--force")
        assert (done.exit_code, done.stderr) == (1, "error: its weights are damaged\n")
    assert not (files / "new.csv").exists()
    assert (files / "old.csv").read_text(encoding="utf-8") == "소중한 것"


@pytest.mark.parametrize(
    ("error", "code"), [(KeyboardInterrupt, 130), (lambda: EncoderError("out of memory"), 1), (ZeroDivisionError, 1)]
)
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_what_ends_a_run_costs_no_routed_row(
    files: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException], code: int, form: str
) -> None:
    (files / "in.csv").write_text(many(CHUNK + 30), encoding="utf-8")
    asked = ("route", "in.csv", "--routes", "routes.yaml")
    use_model(monkeypatch)
    assert run(*asked, "--out", f"whole.{form}").exit_code == 0
    use_model(monkeypatch, failing_at(CHUNK + 1, error))
    done = run(*asked, "--out", f"out.{form}")
    assert done.exit_code == code
    assert f"{CHUNK} of the rows are kept in out.{form}; run the same command with --resume" in done.stderr
    assert "Traceback" not in done.stderr
    use_model(monkeypatch)
    done = run(*asked, "--out", f"out.{form}", "--resume")
    assert done.exit_code == 0, done.stderr
    assert f"{CHUNK + 30} rows: {CHUNK + 30} answered" in done.stderr
    assert (files / f"out.{form}").read_bytes() == (files / f"whole.{form}").read_bytes()


@pytest.mark.parametrize(("form", "bom"), [("csv", b""), ("csv", b"\xef\xbb\xbf"), ("jsonl", b"")])
def test_resuming_after_a_cut_anywhere_gives_the_same_bytes(
    files: Path, loaded: list[str], form: str, bom: bytes
) -> None:
    text = many(4) + '4,"배송 ""인용"", 쉼표\r\n두 줄"\n5,"한 \r 되돌림 회원"\n6,\n7,"열린\n'
    (files / "in.csv").write_bytes(bom + text.encode())
    asked = ("route", "in.csv", "--routes", "routes.yaml", "--out", f"out.{form}", "--resume")
    assert run(*asked).exit_code == 1  # two rows are broken
    whole = (files / f"out.{form}").read_bytes()
    for length in [*range(0, len(whole), 97), *range(len(whole) - 3, len(whole))]:
        (files / f"out.{form}").write_bytes(whole[:length])
        done = run(*asked)
        assert (files / f"out.{form}").read_bytes() == whole, (length, done.stderr)
        assert "8 rows: 6 answered" in done.stderr


def test_resuming_a_finished_run_loads_no_model(files: Path, loaded: list[str]) -> None:
    asked = ("route", "tickets.csv", "--routes", "routes.yaml", "--out", "out.csv", "--resume")
    assert run(*asked).exit_code == 0
    before = (files / "out.csv").read_bytes()
    done = run(*asked, "--label-column", "label")
    assert (done.exit_code, "100.0% over all 3" in done.stderr) == (0, True)
    assert (files / "out.csv").read_bytes() == before
    assert loaded == ["mini"]


@pytest.mark.parametrize(
    ("out", "said"),
    [
        ("아무 말\n", "its columns are not those of this input"),
        (f"id,text,label,{','.join(ADDED)}\n1,다른 글,배송,배송,0.9,false,,{{}}\n", "row 1 differs"),
        (f"id,text,label,{','.join(ADDED)}\n1,배송이 늦어요,배송,반품,0.9,false,,{{}}\n", "holds the route '반품'"),
        (
            f"id,text,label,{','.join(ADDED)}\n1,2\n2,결제가 두 번 됐어요,결제,결제,0.9,false,,{{}}\n",
            "line 2 is broken",
        ),
    ],
)
def test_resuming_what_another_run_wrote_is_refused(files: Path, loaded: list[str], out: str, said: str) -> None:
    (files / "out.csv").write_text(out, encoding="utf-8")
    done = run("route", "tickets.csv", "--routes", "routes.yaml", "--out", "out.csv", "--resume")
    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr
    assert (files / "out.csv").read_text(encoding="utf-8") == out
    assert loaded == []


# -- the main job ------------------------------------------------------------------------------------------------------


def test_the_main_job_on_the_bundled_checkpoint(tmp_path: Path) -> None:
    root = Path(ko_decision_tools.__file__).parents[1]
    examples, out = root / "examples", tmp_path / "routed.csv"
    command = [sys.executable, "-m", "ko_decision_tools.cli", "route", examples / "tickets.csv"]
    command += ["--routes", examples / "routes.yaml", "--out", out, "--label-column", "label", "--num-threads", "1"]
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        cwd=root,
        env=os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONUTF8": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "accuracy" in done.stderr
    assert "Warning" not in done.stderr
    tickets = rows_of((examples / "tickets.csv").read_text(encoding="utf-8"))
    routed = rows_of(out.read_text(encoding="utf-8"))
    assert [{key: row[key] for key in ("id", "text", "label")} for row in routed] == tickets
    assert {row["route"] for row in routed} <= {"결제", "배송", "교환·반품", "수리", "상품 문의", "회원", "사람"}
    for row in routed:
        assert sum(json.loads(row["probabilities"]).values()) == pytest.approx(1)
