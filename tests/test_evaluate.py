"""A run's score file: whole, resumable after a kill at any byte, and honest about what it could not score."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from ko_decision_tools import Choice, KoDecisionModel, Noul, Score, ScriptedEncoder
from ko_decision_tools.decisions import Truncation
from ko_decision_tools.encoders.base import Prepared
from ko_decision_tools.errors import EncoderError, InputTooLongError, InvalidInputError
from ko_decision_tools.evaluation.run import RunSummary, run_header, run_suite
from ko_decision_tools.prompts import Prompt
from ko_decision_tools.records import ScoreFile
from ko_decision_tools.suites import WORDING, Example

TEAM = Choice(instructions="어느 팀?", criteria={"결제": "환불", "배송": None, "계정": None})
URGENT = Noul(instructions="급한가?")
ANGER = Score(instructions="얼마나 화났나?", criteria=["차분", "불만", "분노"])
HEADER = run_header(
    checkpoint="장난감", fingerprint="f00d", revision=None, suite="own", split="own", wording=WORDING, data="rows.csv"
)


def example(number: int, question: Any = TEAM, **facts: Any) -> Example:
    known = {"group": f"g{number}", "task": question.type, "gold": 0, "soft_gold": None, "value": None, "split": "own"}
    return Example(id=f"{number}", state=f"문의 {number}번", question=question, **{**known, **facts})


def examples(count: int) -> list[Example]:
    return [example(number, (TEAM, URGENT, ANGER)[number % 3]) for number in range(count)]


def by_length(prompt: Prompt) -> list[float]:
    """Scores that depend on everything the encoder sees, with digits enough to notice rounding."""
    return [
        len(prompt.state) / 7 + sum(map(ord, option)) / 3e4 + index / 3 for index, option in enumerate(prompt.options)
    ]


def model(script: Any = by_length) -> KoDecisionModel:
    return KoDecisionModel.from_encoder(ScriptedEncoder(script))


def run(out: Path, rows: Iterable[Example], of: KoDecisionModel | None = None, **options: Any) -> RunSummary:
    return run_suite(of or model(), rows, out, **{"header": HEADER, **options})


class Interrupted(BaseException):
    """A kill, as far as Python can see one."""


def interrupt_after(count: int) -> Any:
    def on_progress(done: int, total: int) -> None:
        if done >= count:
            raise Interrupted

    return on_progress


# -- what is written ------------------------------------------------------------------------------------------------


def test_every_example_becomes_one_record_with_its_raw_scores(tmp_path: Path) -> None:
    rows = [
        example(1, gold=2, soft_gold=(0.1, 0.2, 0.7), group="한 묶음"),
        example(2, URGENT, gold=1),
        example(3, ANGER, gold=1, value=1.4),
        example(4, gold=None),
    ]
    asked = model()
    summary = run(tmp_path / "s.jsonl", rows, asked)
    records = ScoreFile.read(tmp_path / "s.jsonl").records
    assert [record.id for record in records] == ["1", "2", "3", "4"]
    for record, row in zip(records, rows, strict=True):
        assert record.scores == asked.decide(row.state, row.question).logits
        assert (record.group, record.task, record.type) == (row.group, row.task, row.question.type)
        assert (record.gold, record.soft_gold, record.value) == (row.gold, row.soft_gold, row.value)
        assert record.text == row.state
    assert [record.labels for record in records[:3]] == [("결제", "배송", "계정"), ("false", "true"), ("0", "1", "2")]
    assert summary.rows == {"choice": 2, "noul": 1, "score": 1}
    assert (summary.scored, summary.resumed, summary.skipped, summary.cut) == (4, 0, (), 0)


def test_the_header_says_what_was_run_and_what_came_of_it(tmp_path: Path) -> None:
    run(
        tmp_path / "s.jsonl",
        examples(5),
        header=run_header(
            checkpoint="mini",
            fingerprint="f",
            revision="r",
            suite="klue",
            split="dev",
            wording=3,
            tasks=["nli"],
            limit=9,
        ),
    )
    header = ScoreFile.read(tmp_path / "s.jsonl").header
    assert {name: header[name] for name in ("checkpoint", "fingerprint", "revision", "suite", "split", "wording")} == {
        "checkpoint": "mini",
        "fingerprint": "f",
        "revision": "r",
        "suite": "klue",
        "split": "dev",
        "wording": 3,
    }
    assert (header["tasks"], header["limit"]) == (["nli"], 9)
    assert (header["rows"], header["skipped"], header["complete"]) == ({"choice": 2, "noul": 2, "score": 1}, [], True)
    assert {"ko-decision-tools", "python", "torch"} <= header["versions"].keys()
    assert header["date"].endswith("+00:00")


def test_hangul_is_written_as_it_is(tmp_path: Path) -> None:
    run(tmp_path / "s.jsonl", [example(1)])
    assert "문의 1번" in (tmp_path / "s.jsonl").read_text(encoding="utf-8")


def test_texts_can_be_left_out(tmp_path: Path) -> None:
    run(tmp_path / "s.jsonl", examples(3), keep_text=False)
    assert {record.text for record in ScoreFile.read(tmp_path / "s.jsonl").records} == {None}
    assert "문의" not in (tmp_path / "s.jsonl").read_text(encoding="utf-8")


def test_progress_ends_at_the_total(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    run(tmp_path / "s.jsonl", examples(700), on_progress=lambda done, total: seen.append((done, total)))
    assert seen[0] == (0, 700)
    assert seen[-1] == (700, 700)
    assert len(seen) > 3
    assert seen == sorted(seen)


# -- enumerators ----------------------------------------------------------------------------------------------------


def test_unstripped_examples_reach_the_model_with_their_letters(tmp_path: Path) -> None:
    lettered = Choice(instructions="어느 팀?", criteria={"A: 결제": "환불", "B: 배송": None, "기타": None})
    rows = [example(1, lettered, strip=True), example(2, lettered, strip=False), example(3, lettered, strip=True)]
    of = model(lambda prompt: [1.0 if option.startswith("A") else 0.0 for option in prompt.options])
    run(tmp_path / "s.jsonl", rows, of)
    assert isinstance(of.encoder, ScriptedEncoder)
    seen = {prompt.state: prompt.options for prompt in of.encoder.prompts}
    assert seen["문의 2번"] == ("A: 결제: 환불", "B: 배송", "기타")
    assert seen["문의 1번"] == seen["문의 3번"] == ("결제: 환불", "배송", "기타")
    first, second, third = ScoreFile.read(tmp_path / "s.jsonl").records
    assert (first.id, second.id, third.id) == ("1", "2", "3")
    assert (first.scores, second.scores) == ((0, 0, 0), (1, 0, 0))
    assert second.labels == first.labels == tuple(lettered.criteria)


# -- resuming -------------------------------------------------------------------------------------------------------


def test_a_killed_run_resumes_where_it_was(tmp_path: Path) -> None:
    rows = examples(900)
    run(tmp_path / "whole.jsonl", rows)
    with pytest.raises(Interrupted):
        run(tmp_path / "s.jsonl", rows, on_progress=interrupt_after(300))
    kept = ScoreFile.read(tmp_path / "s.jsonl")
    assert 300 <= len(kept.records) < 900
    assert "complete" not in kept.header
    of = model()
    summary = run(tmp_path / "s.jsonl", rows, of, resume=True)
    assert (summary.resumed, summary.scored) == (len(kept.records), 900 - len(kept.records))
    assert isinstance(of.encoder, ScriptedEncoder)
    assert len(of.encoder.prompts) == summary.scored
    assert ScoreFile.read(tmp_path / "s.jsonl").records == ScoreFile.read(tmp_path / "whole.jsonl").records


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(st.floats(0, 1))
def test_a_file_cut_at_any_byte_resumes_to_the_same_rows(tmp_path: Path, share: float) -> None:
    whole, part, rows = tmp_path / "whole.jsonl", tmp_path / "part.jsonl", examples(9)
    if not whole.exists():
        run(whole, rows)
    content = whole.read_bytes()
    part.write_bytes(content[: round(share * len(content))])
    run(part, rows, resume=True)
    found, expected = ScoreFile.read(part), ScoreFile.read(whole)
    assert sorted(record.id for record in found.records) == sorted(record.id for record in expected.records)
    assert {record.id: record for record in found.records} == {record.id: record for record in expected.records}
    assert found.header["complete"] is True
    assert found.header["rows"] == expected.header["rows"]


def test_resuming_can_add_rows_and_is_incomplete_meanwhile(tmp_path: Path) -> None:
    out = tmp_path / "s.jsonl"
    run(out, examples(3), header={**HEADER, "limit": 1})
    with pytest.raises(Interrupted):
        run(out, examples(900), header={**HEADER, "limit": 300}, resume=True, on_progress=interrupt_after(200))
    assert "complete" not in ScoreFile.read(out).header
    summary = run(out, examples(900), header={**HEADER, "limit": 300}, resume=True)
    header = ScoreFile.read(out).header
    assert summary.rows == header["rows"] == {"choice": 300, "noul": 300, "score": 300}
    assert (header["limit"], header["complete"]) == (300, True)


def test_resume_starts_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert run(tmp_path / "s.jsonl", examples(3), resume=True).scored == 3


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "s.jsonl"
    out.write_text("소중한 것", encoding="utf-8")
    with pytest.raises(InvalidInputError, match="out exists already"):
        run(out, examples(3))
    assert out.read_text(encoding="utf-8") == "소중한 것"


@pytest.mark.parametrize(
    ("name", "value"),
    [("fingerprint", "beef"), ("suite", "klue"), ("split", "dev"), ("wording", 99), ("data", "other.csv")],
)
def test_another_runs_file_is_refused(tmp_path: Path, name: str, value: object) -> None:
    out = tmp_path / "s.jsonl"
    run(out, examples(3))
    before = out.read_bytes()
    shown = "checkpoint" if name == "fingerprint" else name
    with pytest.raises(InvalidInputError, match=f"was made with another {shown}"):
        run(out, examples(3), header={**HEADER, name: value}, resume=True)
    assert out.read_bytes() == before


def test_the_same_weights_under_another_name_are_the_same_checkpoint(tmp_path: Path) -> None:
    run(tmp_path / "s.jsonl", examples(3))
    assert run(tmp_path / "s.jsonl", examples(4), header={**HEADER, "checkpoint": "./사본"}, resume=True).resumed == 3


def test_rows_with_other_options_are_not_taken_for_ours(tmp_path: Path) -> None:
    run(tmp_path / "s.jsonl", [example(1)])
    other = Choice(instructions="어느 팀?", criteria={"결제": None, "해지": None})
    with pytest.raises(InvalidInputError, match="holds 1 with another task or other options"):
        run(tmp_path / "s.jsonl", [example(1, other)], resume=True)


def test_a_file_that_is_no_score_file_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "s.jsonl"
    out.write_text('{"format": "나의 메모"}\n', encoding="utf-8")
    with pytest.raises(InvalidInputError, match="is not a ko-decision-scores/1 header"):
        run(out, examples(3), resume=True)


# -- what cannot be scored ------------------------------------------------------------------------------------------


class Narrow(ScriptedEncoder):
    """Cuts states of more than 7 characters and refuses options of more than 30."""

    def prepare(self, prompt: Prompt) -> Prepared:
        prepared = super().prepare(prompt)
        if max(map(len, prompt.options)) > 30:
            raise InputTooLongError("options[0]", "takes 40 tokens", "Shorten it.")
        lost = Truncation(len(prompt.state), 7) if len(prompt.state) > 7 else None
        return Prepared(prompt, prepared.rows, lost)


def narrow() -> KoDecisionModel:
    return KoDecisionModel.from_encoder(Narrow(by_length))


LONG = Choice(instructions="어느 팀?", criteria={"결제": "환불 " * 20, "배송": None})


def test_what_does_not_fit_is_listed_and_the_rest_is_scored(tmp_path: Path) -> None:
    rows = [example(1), example(2, LONG), example(3), replace(example(4), state=" ")]
    summary = run(tmp_path / "s.jsonl", rows, narrow())
    found = ScoreFile.read(tmp_path / "s.jsonl")
    assert [record.id for record in found.records] == ["1", "3"]
    assert [item.id for item in summary.skipped] == [item["id"] for item in found.header["skipped"]] == ["2", "4"]
    assert "takes 40 tokens" in found.header["skipped"][0]["reason"]
    assert "state is empty" in found.header["skipped"][1]["reason"]


def test_cut_states_are_counted_over_all_parts_of_a_resumed_run(tmp_path: Path) -> None:
    rows = [example(number) for number in range(990, 1500)]  # from 1000 on a state has 8 characters
    with pytest.raises(Interrupted):
        run(tmp_path / "s.jsonl", rows, narrow(), on_progress=interrupt_after(100))
    summary = run(tmp_path / "s.jsonl", rows, narrow(), resume=True)
    assert summary.resumed >= 100
    assert summary.cut == ScoreFile.read(tmp_path / "s.jsonl").header["cut"] == 500


def test_skipped_rows_are_tried_again_on_resume(tmp_path: Path) -> None:
    rows = [example(1), example(2, LONG)]
    run(tmp_path / "s.jsonl", rows, narrow())
    summary = run(tmp_path / "s.jsonl", rows, resume=True)
    assert (summary.scored, summary.skipped) == (1, ())
    assert ScoreFile.read(tmp_path / "s.jsonl").header["skipped"] == []


def test_a_failing_forward_pass_keeps_what_was_scored(tmp_path: Path) -> None:
    def script(prompt: Prompt) -> list[float]:
        return [float("nan")] * 3 if prompt.state == "문의 650번" else by_length(prompt)

    with pytest.raises(EncoderError):
        run(tmp_path / "s.jsonl", [example(number) for number in range(700)], model(script))
    kept = ScoreFile.read(tmp_path / "s.jsonl")
    assert 0 < len(kept.records) < 650
    assert "complete" not in kept.header


def test_two_examples_of_one_id_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="id stands on two rows"):
        run(tmp_path / "s.jsonl", [example(1), example(1)])
    assert not (tmp_path / "s.jsonl").exists()


@pytest.mark.parametrize("place", ["no/such/folder/s.jsonl", "."])
def test_an_output_that_cannot_be_written_is_one_error(tmp_path: Path, place: str) -> None:
    with pytest.raises(InvalidInputError, match=r"^out cannot be written"):
        run(tmp_path / place, examples(3), resume=True)


def test_a_real_encoder_refuses_an_option_that_leaves_no_room(tmp_path: Path, tiny_roberta: Path) -> None:
    from ko_decision_tools.calibration import TemperatureTable

    endless = Choice(instructions="어느 팀?", criteria={"결제": "환불 " * 900, "배송": None})
    of = KoDecisionModel.from_pretrained(tiny_roberta, calibration=TemperatureTable(), device="cpu")
    summary = run(tmp_path / "s.jsonl", [example(1), example(2, endless), example(3, URGENT)], of)
    assert [item.id for item in summary.skipped] == ["2"]
    assert summary.rows == {"choice": 1, "noul": 1}
    of.close()


def test_a_header_survives_json(tmp_path: Path) -> None:
    assert json.loads(json.dumps(HEADER)) == HEADER


# -- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """``ko-decision evaluate`` with a scripted model in the place of the bundled one."""
    from ko_decision_tools.cli import app, models

    def invoke(*arguments: object, script: Any = by_length) -> Result:
        monkeypatch.setattr(models, "load_model", lambda *_, **__: model(script))
        return CliRunner().invoke(app, ["evaluate", *map(str, arguments)])

    return invoke


TICKETS = "text,label\n두 번 결제됐어요,결제\n언제 오나요,배송\n점심 뭐 먹지,없음\n"


def test_a_suite_is_scored_and_the_next_command_named(tmp_path: Path, command: Callable[..., Result]) -> None:
    out = tmp_path / "s.jsonl"
    result = command("--suite", "tickets", "--tasks", "route,urgency", "--limit", 7, "--out", out)
    assert result.exit_code == 0, result.output
    assert f"next: ko-decision report {out}" in result.stderr
    assert result.stdout == ""
    header = ScoreFile.read(out).header
    assert header["rows"] == {"tickets_route": 7, "tickets_urgency": 7}
    assert (header["checkpoint"], header["suite"], header["split"]) == ("mini", "tickets", "test")
    assert (header["tasks"], header["limit"], header["wording"]) == (["route", "urgency"], 7, WORDING)
    assert len(header["fingerprint"]) == 16


def test_own_rows_with_a_routing_table(tmp_path: Path, command: Callable[..., Result]) -> None:
    (tmp_path / "t.csv").write_text(TICKETS, encoding="utf-8")
    (tmp_path / "r.yaml").write_text(
        "question: 누가 맡나?\nroutes: {결제: 환불, 배송: 늦음, 계정: }\n", encoding="utf-8"
    )
    out = tmp_path / "s.jsonl"
    result = command("--data", tmp_path / "t.csv", "--routes", tmp_path / "r.yaml", "--out", out, "--no-text")
    assert result.exit_code == 0, result.output
    assert "1 of 3 rows have no right option" in result.stderr
    found = ScoreFile.read(out)
    assert [record.gold for record in found.records] == [0, 1, None]
    assert found.records[0].labels == ("결제", "배송", "계정")
    assert {record.text for record in found.records} == {None}
    assert found.header["suite"] == "own"
    assert found.header["question"]["instructions"] == "누가 맡나?"


def test_own_rows_alone(tmp_path: Path, command: Callable[..., Result]) -> None:
    (tmp_path / "t.csv").write_bytes(TICKETS.encode("cp949"))
    result = command(
        "--data", tmp_path / "t.csv", "--encoding", "cp949", "-q", "어디로?", "--out", tmp_path / "s.jsonl"
    )
    assert result.exit_code == 0, result.output
    record = ScoreFile.read(tmp_path / "s.jsonl").records[2]
    assert (record.task, record.labels, record.gold) == ("t", ("결제", "배송", "없음"), 2)


def test_resume_needs_the_same_data(tmp_path: Path, command: Callable[..., Result]) -> None:
    data, out = tmp_path / "t.csv", tmp_path / "s.jsonl"
    data.write_text(TICKETS, encoding="utf-8")
    assert command("--data", data, "--out", out).exit_code == 0
    again = command("--data", data, "--out", out)
    assert (again.exit_code, "exists already" in again.stderr) == (2, True)
    resumed = command("--data", data, "--out", out, "--resume")
    assert "0 scored, 3 were in the file already" in resumed.stderr
    data.write_text(TICKETS + "하나 더,결제\n", encoding="utf-8")
    changed = command("--data", data, "--out", out, "--resume")
    assert (changed.exit_code, "was made with another data" in changed.stderr) == (2, True)


def test_rows_that_could_not_be_scored_end_with_exit_code_1(tmp_path: Path, command: Callable[..., Result]) -> None:
    rows = [{"state": state, "question": URGENT.model_dump(), "gold": "예"} for state in ("급해요", " ")]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    result = command("--data", tmp_path / "q.jsonl", "--out", tmp_path / "s.jsonl")
    assert result.exit_code == 1
    assert "not scored: q/row-00002: state is empty" in result.stderr
    assert "error: 1 of 2 rows could not be scored" in result.stderr
    assert len(ScoreFile.read(tmp_path / "s.jsonl").records) == 1


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (EncoderError("메모리가 모자라요"), 1)])
def test_what_is_kept_is_said(tmp_path: Path, command: Callable[..., Result], error: BaseException, code: int) -> None:
    asked = 0

    def script(prompt: Prompt) -> list[float]:
        nonlocal asked
        asked += 1
        if asked > 600:
            raise error
        return by_length(prompt)

    out = tmp_path / "s.jsonl"
    result = command("--suite", "tickets", "--out", out, script=script)
    kept = len(ScoreFile.read(out).records)
    assert result.exit_code == code
    assert f"{kept} rows are kept in {out}; go on with --resume" in result.stderr
    assert kept > 300


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "--suite is missing"),
        (("--suite", "klu"), "suite is not known: 'klu'"),
        (("--data", "t.csv", "--suite", "klue"), "--suite does not go with --data"),
        (("--data", "t.csv", "--data-dir", "x"), "--data-dir does not go with --data"),
        (("--data", "없는.csv"), "cannot be read"),
        (("--suite", "klue", "--data-dir", "없는-폴더"), "is not a folder"),
        (("--suite", "tickets", "--checkpoint", "./없는-폴더"), "There is no folder"),
    ],
)
def test_misuse_ends_with_exit_code_2_and_no_file(
    tmp_path: Path, command: Callable[..., Result], arguments: tuple[str, ...], problem: str
) -> None:
    result = command(*arguments, "--out", tmp_path / "s.jsonl")
    assert result.exit_code == 2
    assert problem in result.stderr
    assert not (tmp_path / "s.jsonl").exists()
