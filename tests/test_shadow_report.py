"""``ko-decision shadow-report`` and the arithmetic behind it."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from ko_decision_tools import InvalidInputError
from ko_decision_tools.cli.frame import Command
from ko_decision_tools.cli.shadow_report import shadow_report as command
from ko_decision_tools.evaluation.shadow import (
    THRESHOLDS,
    ShadowRow,
    read_shadow_log,
    shadow_report,
    wilson,
)

app = typer.Typer()
app.command(cls=Command)(command)


def row(today: str | None, guess: str | None, p: float | None, **other: Any) -> ShadowRow:
    """A row of shadow mode at a bar of 0.6."""
    known = {"id": None, "live": False, "abstained": p is None or p < 0.6, "today_ms": 1_000.0, "judge_ms": 40.0}
    return ShadowRow(today=today, guess=guess, top_probability=p, **(known | other))


def record(today: str | None, guess: str | None, p: float | None, **other: Any) -> dict[str, Any]:
    """The same as a line of the log."""
    known = {"id": None, "mode": "shadow", "abstained": p is None or p < 0.6, "today_ms": 1_000.0, "judge_ms": 40.0}
    return {"today": today, "guess": guess, "top_probability": p} | known | other


ROWS = [
    row("배송", "배송", 0.99, id="a"),
    row("배송", "배송", 0.80, id="b"),
    row("결제", "배송", 0.70, id="c", today_ms=3_000.0),
    row("결제", "결제", 0.60, id="a"),
    row("회원", "결제", 0.40, id="d"),
    row("회원", None, None, id="e"),
]


class TestArithmetic:
    def test_coverage_agreement_and_savings_at_a_threshold(self) -> None:
        (point,) = shadow_report(ROWS, [0.7]).points
        assert (point.rows, point.answered, point.compared, point.agreed) == (6, 3, 3, 2)
        assert (point.coverage, point.agreement) == (0.5, pytest.approx(2 / 3))
        assert (point.saved_calls, point.saved_ms) == (3, 5_000.0)
        assert point.interval == wilson(2, 3)

    def test_under_the_rules_of_that_day(self) -> None:
        current = shadow_report(ROWS).current
        assert (current.threshold, current.answered, current.agreed) == (None, 4, 3)

    def test_what_it_counts_besides(self) -> None:
        report = shadow_report([*ROWS, row(None, "배송", 0.9)])
        assert (report.rows, report.failed, report.unlabelled, report.repeats, report.live) == (7, 1, 1, 1, 0)
        assert report.judge_ms == 40.0
        assert report.pairs == (("결제", "배송", 1), ("회원", "결제", 1))
        assert [each.top_probability for each in report.disagreements] == [0.70, 0.40]

    def test_after_going_live_calls_were_saved_already(self) -> None:
        decided = row(None, "배송", 0.9, live=True, today_ms=None)
        handed_over = row("결제", "배송", 0.5, live=True)
        report = shadow_report([decided, handed_over], [0.0])
        assert (report.live, report.unlabelled) == (2, 0)
        assert (report.points[0].answered, report.points[0].compared, report.points[0].saved_calls) == (2, 1, 1)
        assert (report.current.answered, report.current.saved_calls, report.current.agreement) == (1, 0, None)

    def test_hangul_agrees_however_it_was_composed(self) -> None:
        assert shadow_report([row(unicodedata.normalize("NFD", "배송"), "배송", 0.9)]).current.agreement == 1.0

    @given(
        st.lists(
            st.tuples(st.sampled_from(["가", "나", None]), st.sampled_from(["가", "나"]), st.floats(0, 1)), min_size=1
        )
    )
    def test_a_stricter_threshold_never_answers_more(self, drawn: list[tuple[str | None, str, float]]) -> None:
        report = shadow_report([row(*each) for each in drawn], [0.0, *THRESHOLDS, 1.0])
        answered = [point.answered for point in report.points]
        assert answered == sorted(answered, reverse=True)
        assert answered[0] == len(drawn)
        for point in report.points:
            assert point.agreed <= point.compared <= point.answered
            if point.interval is not None and point.agreement is not None:
                low, high = point.interval
                assert 0 <= low <= point.agreement + 1e-12
                assert point.agreement - 1e-12 <= high <= 1

    def test_the_interval_is_wilsons(self) -> None:
        assert [round(end, 3) for end in wilson(0, 10)] == [0.0, 0.278]
        assert [round(end, 3) for end in wilson(10, 10)] == [0.722, 1.0]

    def test_nothing_to_report_and_a_wrong_threshold(self) -> None:
        with pytest.raises(InvalidInputError, match="no rows"):
            shadow_report([])
        with pytest.raises(InvalidInputError, match="threshold"):
            shadow_report(ROWS, [7])

    def test_it_is_plain_json(self) -> None:
        found = json.loads(json.dumps(shadow_report(ROWS, [0.7]).to_dict(), allow_nan=False))
        assert found["points"][0]["coverage"] == 0.5
        assert found["current"]["agreement"] == 0.75


class TestReading:
    def test_a_line_that_was_cut_short_costs_itself(self) -> None:
        lines = [json.dumps(record("배송", "배송", 0.9)), "", '{"at": "2026-11', json.dumps(record("결제", None, None))]
        rows, broken = read_shadow_log(lines, "log")
        assert (len(rows), broken) == (2, 1)

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            ("[]", "not a JSON object"),
            ("{}", "mode"),
            (json.dumps(record("배송", "배송", 0.9, mode="x")), "'x'"),
            (json.dumps(record("배송", "배송", None)), "without a probability"),
            (json.dumps(record("배송", None, 0.5)), "without a probability"),
            (json.dumps(record("배송", "배송", 1.5)), "outside"),
            (json.dumps(record("배송", 7, 0.5)), "no text"),  # type: ignore[arg-type]
            (json.dumps(record("배송", "배송", 0.5, today_ms="x")), "no number"),
        ],
    )
    def test_another_kind_of_file_is_named_with_its_line(self, line: str, problem: str) -> None:
        with pytest.raises(InvalidInputError, match=problem) as caught:
            read_shadow_log([json.dumps(record("배송", "배송", 0.9)), line], "log")
        assert caught.value.field == "log:2"

    def test_no_readable_line(self) -> None:
        with pytest.raises(InvalidInputError, match="no readable line"):
            read_shadow_log(["id,text", "1,배송"], "tickets.csv")


def run(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def log(tmp_path: Path) -> Path:
    records = [
        record("배송", "배송", 0.99, id="a", text="배송이 [늦어요]"),
        record("결제", "배송", 0.70, id="b", text="두 번\n결제됐어요 " + "아" * 90),
        record("회원", "결제", 0.40, id="c"),
        record("회원", None, None, id="c"),
    ]
    file = tmp_path / "shadow.jsonl"
    lines = [json.dumps(each, ensure_ascii=False) for each in records]
    file.write_text("\n".join([*lines, '{"cut": ']), encoding="utf-8")
    return file


class TestTheCommand:
    def test_what_it_prints(self, log: Path) -> None:
        result = run(log)
        assert result.exit_code == 0, result.output
        out = result.stdout
        assert "4 rows, 1 of them the model could not judge; the model took 40 ms" in out
        cells = {line.split()[0]: line.split() for line in out.splitlines() if line[:1].isdigit() and "%" in line}
        assert cells["0.7"][:5] == ["0.7", "2", "50.0%", "50.0%", "(1/2)"]
        assert cells["0.9"][:5] == ["0.9", "1", "25.0%", "100.0%", "(1/1)"]
        assert "0.700  결제 → 배송  b  두 번 결제됐어요" in out
        assert "아" * 60 not in out
        assert "1 lines are not readable" in out
        assert "1 rows repeat a text" in out
        assert "Agreement is not accuracy" in out

    def test_its_options(self, log: Path, tmp_path: Path) -> None:
        target = tmp_path / "report.json"
        result = run(log, log, "--threshold", "0.5", "--cost", "2.5", "--disagreements", "0", "--json", target)
        assert result.exit_code == 0, result.output
        assert "10.00" in result.stdout
        assert "surest disagreements" not in result.stdout
        found = json.loads(target.read_text(encoding="utf-8"))
        assert [point["threshold"] for point in found["points"]] == [0.5]
        assert (found["rows"], found["unreadable_lines"]) == (8, 2)
        assert run(log, "--json", target).exit_code == 2
        assert run(log, "--json", target, "--force").exit_code == 0

    def test_what_goes_wrong_is_one_line(self, tmp_path: Path) -> None:
        empty = tmp_path / "empty.jsonl"
        empty.write_text("", encoding="utf-8")
        for path, problem in ((tmp_path / "none.jsonl", "cannot be read"), (empty, "has no rows")):
            result = run(path)
            assert result.exit_code == 2
            assert problem in result.stderr
            assert len(result.stderr.splitlines()) == 1

    def test_the_help_shows_how(self) -> None:
        assert "ko-decision shadow-report shadow.jsonl" in run("--help").stdout
