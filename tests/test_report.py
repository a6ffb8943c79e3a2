"""The report: before and after a calibration, safe to send, and readable whatever the score file holds."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from ko_decision_tools.calibration import TemperatureTable
from ko_decision_tools.cli import app
from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.evaluation import formats
from ko_decision_tools.evaluation.arrays import to_rows
from ko_decision_tools.evaluation.metrics import values
from ko_decision_tools.evaluation.page import render_page
from ko_decision_tools.evaluation.report import FITTED, RAW, Report, build_report
from ko_decision_tools.evaluation.slices import Settings
from ko_decision_tools.evaluation.terminal import report_tables
from ko_decision_tools.records import Record, ScoreFile, header_line

QUICK = Settings(replicates=100, ranked_replicates=50, noise_simulations=50, mistakes=3)
HOSTILE = '<script>alert("환불")</script> & [red]빨강[/red] \x1b[31m \u202e \ud83d'
HEADER = {"checkpoint": "장난감", "fingerprint": "f00d", "suite": "own", "split": "own", "complete": True}


def records_of(n: int = 60, *, task: str = "team", type_: str = "choice", seed: int = 0, **facts: Any) -> list[Record]:
    """Overconfident answers: scores are twice what the labels were drawn from."""
    random = np.random.default_rng(seed)
    labels = {"choice": ("환불", "배송", "계정"), "noul": ("거짓", "참"), "score": ("0", "1", "2", "3")}[type_]
    scores = random.normal(scale=1.2, size=(n, len(labels)))
    probabilities = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    gold = [int(random.choice(len(labels), p=p)) for p in probabilities]
    return [
        Record(
            id=f"{task}-{i}",
            group=facts.get("group", f"{task}-{i // 2}"),
            task=task,
            type=type_,  # type: ignore[arg-type]
            labels=labels,
            scores=tuple((2 * scores[i]).tolist()),
            **{"gold": gold[i], "text": f"문의 {i}번", **{k: v for k, v in facts.items() if k != "group"}},
        )
        for i in range(n)
    ]


def report_of(records: Sequence[Record], table: TemperatureTable | None = None, **header: Any) -> Report:
    return build_report(ScoreFile({**HEADER, **header}, tuple(records)), table=table, settings=QUICK)


def terminal(report: Report) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(report_tables(report))
    return console.export_text()


SUITE = [
    *records_of(60),
    *records_of(40, task="urgent", type_="noul"),
    *records_of(40, task="angry", type_="noul"),
    *records_of(50, task="anger", type_="score"),
]
TABLE = TemperatureTable(tasks={"team": 2.0}, by_type={"noul": 2.0, "score": 1.5})


class TestBeforeAndAfter:
    def test_raw_is_t_1_and_fitted_is_the_tables_temperature(self) -> None:
        (team, *_) = report_of(SUITE, TABLE).slices
        rows = [record for record in SUITE if record.task == "team"]
        for view, temperature in ((RAW, 1.0), (FITTED, 2.0)):
            expected = values(to_rows(rows, [temperature] * len(rows)))
            found = {key: one.value for key, one in team.views[view].metrics.items()}
            assert found == pytest.approx(expected)
        assert team.temperatures == ((2.0, "task team", True, 60),)

    def test_the_change_is_paired_and_the_ranking_does_not_change(self) -> None:
        (team,) = report_of(records_of(600), TABLE).slices
        assert (team.change["accuracy"].low, team.change["accuracy"].high) == (0, 0)
        assert team.change["nll"].high is not None
        assert team.change["nll"].high < 0  # the temperature is the true one
        before, after = (team.views[view].metrics["ece10"].value for view in (RAW, FITTED))
        assert team.change["ece10"].value == pytest.approx(after - before)

    def test_tasks_then_types_then_the_mean_over_tasks(self) -> None:
        found = report_of(SUITE, TABLE)
        assert [part.name for part in found.slices] == ["team", "urgent", "angry", "anger", "noul", "macro"]
        macro = found.slices[-1].best.metrics
        tasks = [part.best.metrics for part in found.of("task")]
        assert macro["nll"].value == pytest.approx(np.mean([each["nll"].value for each in tasks]))
        assert (macro["nll"].tasks, macro["score_mae"].tasks) == (4, 1)
        assert "macro_f1" not in found.slices[4].best.metrics  # labels of different tasks

    def test_no_calibration_gives_one_column(self) -> None:
        found = report_of(SUITE)
        assert not found.calibrated
        assert all(set(part.views) == {RAW} and not part.change for part in found.slices)

    def test_one_task_needs_no_summary_of_itself(self) -> None:
        assert [part.name for part in report_of(records_of()).slices] == ["team"]

    def test_a_task_of_several_types_is_also_shown_by_type(self) -> None:
        mixed = [*records_of(20, task="case"), *records_of(40, task="case", type_="score")[20:]]
        found = report_of(mixed)
        assert [part.name for part in found.slices] == ["case", "choice", "score"]
        assert "pearson" not in found.slices[0].best.metrics

    def test_the_same_seed_gives_the_same_report(self) -> None:
        assert report_of(SUITE, TABLE).to_dict() == report_of(SUITE, TABLE).to_dict()


class TestWhatIsSaid:
    def test_hard_ece_is_called_invalid_where_the_gold_is_a_teachers_argmax(self) -> None:
        random = np.random.default_rng(5)
        soft = [tuple(random.dirichlet(np.full(3, 1.2)).tolist()) for _ in range(80)]
        rows = records_of(80)
        copied = [
            Record(r.id, r.group, r.task, r.type, r.labels, tuple(np.log(t).tolist()), int(np.argmax(t)), t)
            for r, t in zip(rows, soft, strict=True)
        ]
        found = report_of(copied)
        (part,) = found.slices
        assert part.argmax_gold is not None
        assert part.argmax_gold.perfect_copy == pytest.approx(part.best.metrics["ece10"].value)
        assert part.best.metrics["soft_ece10"].value == pytest.approx(0, abs=1e-9)
        assert part.best.reliability_of == "soft gold"
        for shown in (terminal(found), render_page(found)):
            assert "not valid here" in shown
            assert f"{part.argmax_gold.perfect_copy:.3f}" in shown
        assert "not valid here" not in terminal(report_of(rows))

    def test_an_invalid_ece_stays_out_of_the_mean_over_tasks(self) -> None:
        fair, copied = records_of(60), records_of(60, task="taught", soft_gold=(0.5, 0.3, 0.2), gold=0)
        found = report_of([*fair, *copied])
        valid, invalid, mean = (part.best.metrics for part in found.slices if part.kind != "type")
        assert mean["ece10"].tasks == 1
        assert mean["ece10"].value == pytest.approx(valid["ece10"].value)
        assert mean["nll"].value == pytest.approx((valid["nll"].value + invalid["nll"].value) / 2)

    def test_the_header_can_say_it_too(self) -> None:
        rows = records_of(30, soft_gold=(0.2, 0.5, 0.3))  # not the argmax in every row
        assert report_of(rows).slices[0].argmax_gold is None
        assert report_of(rows, suite="typed-decisions").slices[0].argmax_gold is not None

    def test_few_clusters_and_one_cluster_are_said(self) -> None:
        few = report_of([*records_of(20, group="쇼핑몰"), *records_of(20, group="은행", seed=1)][:20])
        assert few.slices[0].best.metrics["nll"].low is None
        assert "no intervals" in few.slices[0].notes[0]
        some = report_of(records_of(20))
        assert "Only 10 clusters" in some.slices[0].notes[0]

    def test_a_run_that_is_not_whole_is_said(self) -> None:
        said = report_of(records_of(), complete=False, skipped=[{"id": "x", "reason": "너무 길다"}], cut=3).notes
        assert len(said) == 3
        assert report_of(records_of()).notes == ()

    def test_temperatures_fitted_on_these_very_rows_are_said(self) -> None:
        table = TemperatureTable(by_type={"choice": 2.0}, evidence={"scored": "2026-12-01"})
        assert "this very score file" in report_of(records_of(), table, date="2026-12-01").notes[0]
        assert report_of(records_of(), table, date="2026-12-02").notes == ()

    def test_the_worst_mistake_is_the_surest_one(self) -> None:
        (part,) = report_of(records_of(200)).slices
        wrong = [r for r in records_of(200) if int(np.argmax(r.scores)) != r.gold]
        surest = max(wrong, key=lambda r: to_rows([r], [1.0]).confidence[0])
        assert part.mistakes[0].id == surest.id
        assert len(part.mistakes) == 3
        assert part.mistakes[0].gold == surest.labels[surest.gold or 0]

    def test_a_duplicate_id_or_an_empty_file_is_refused(self) -> None:
        with pytest.raises(InvalidInputError, match="no rows"):
            report_of([])
        with pytest.raises(InvalidInputError, match="2 times"):
            report_of([*records_of(3), *records_of(1)])


class Outside(HTMLParser):
    """Collects whatever would run, load or send something."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.outside: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            loads = name in ("src", "srcset", "data", "action", "poster", "background", "xlink:href")
            leaves = name == "href" and not (value or "").startswith("#")
            if loads or leaves or name.startswith("on"):
                self.outside.append(f"{tag} {name}={value}")


class TestPage:
    def test_it_is_self_contained(self) -> None:
        page = render_page(report_of(SUITE, TABLE))
        found = Outside(page)
        assert found.outside == []
        assert not {"script", "link", "img", "iframe", "object", "embed", "form", "base"} & set(found.tags)
        assert not re.search(r"https?://|url\(|@import|@font-face", page)
        assert "default-src 'none'" in page

    def test_it_holds_the_drawings_and_the_tables(self) -> None:
        page = render_page(report_of(SUITE, TABLE))
        for expected in (
            "Reliability diagram of team",
            "Risk-coverage curve of team",
            "T = 2.00",
            "환불",
            "문의",
            "noise floor",
        ):
            assert expected in page
        assert page.count('class="confusion') == 4
        assert "nan" not in re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL).lower().replace("none", "")

    def test_hostile_texts_are_shown_and_not_run(self) -> None:
        hostile = records_of(30, task=HOSTILE, text=HOSTILE)
        hostile = [
            Record(
                f"{r.id}{HOSTILE}", r.group, r.task, r.type, (HOSTILE, "배송", "계정"), r.scores, r.gold, text=r.text
            )
            for r in hostile
        ]
        table = TemperatureTable(tasks={HOSTILE: 2.0}, evidence={HOSTILE: HOSTILE})
        found = report_of(hostile, table, checkpoint=HOSTILE, suite=HOSTILE)
        page = render_page(found)
        assert "script" not in Outside(page).tags
        assert "&lt;script&gt;" in page
        for text in (page, terminal(found), json.dumps(found.to_dict(), ensure_ascii=False)):
            text.encode("utf-8")
            assert not set(text) & {"\x1b", "\u202e"}
        assert "[red]빨강[/red]" in terminal(found)

    @pytest.mark.parametrize(
        "records",
        [
            pytest.param(records_of(1), id="one row"),
            pytest.param(records_of(5, gold=None), id="nothing fits"),
            pytest.param(records_of(5, gold=None, type_="noul"), id="unlabelled"),
            pytest.param(records_of(5, gold=None, soft_gold=(0.2, 0.3, 0.5)), id="soft gold only"),
            pytest.param(records_of(8, gold=None, type_="score", value=1.3), id="one value only"),
            pytest.param(records_of(5, text=None), id="no texts"),
            pytest.param([r for r in records_of(60) if int(np.argmax(r.scores)) == r.gold], id="all right"),
            pytest.param([r for r in records_of(60) if int(np.argmax(r.scores)) != r.gold], id="all wrong"),
            pytest.param(
                [
                    Record(
                        f"{i}",
                        f"{i}",
                        "re",
                        "choice",
                        tuple(f"관계 {k}" for k in range(40)),
                        tuple(map(float, np.roll(range(40), i))),
                        i % 40,
                    )
                    for i in range(80)
                ],
                id="forty labels",
            ),
        ],
    )
    @pytest.mark.parametrize("table", [None, TemperatureTable(by_type={"choice": 2.0, "noul": 2.0, "score": 2.0})])
    def test_odd_files_make_all_three(self, records: list[Record], table: TemperatureTable | None) -> None:
        found = report_of(records, table)
        assert records[0].task in render_page(found)
        assert records[0].task in terminal(found)
        json.dumps(found.to_dict(), allow_nan=False)


class TestFormats:
    def test_nothing_is_rounded_to_a_negative_zero(self) -> None:
        assert formats.number("nll", -0.0001, signed=True) == "+0.000"

    def test_an_exactly_unchanged_metric_says_so(self) -> None:
        (team, *_) = report_of(SUITE, TABLE).slices
        assert formats.estimate("accuracy", team.change["accuracy"], signed=True) == "same"


class TestCommandLine:
    @pytest.fixture
    def scores(self, tmp_path: Path) -> Path:
        path = tmp_path / "scores.jsonl"
        lines = [header_line(HEADER), *(record.to_json() for record in SUITE)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    @staticmethod
    def run(*arguments: object) -> Any:
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    def calibration(self, folder: Path, **facts: Any) -> Path:
        path = folder / "calibration.json"
        path.write_text(json.dumps({**TABLE.to_dict(), **facts}), encoding="utf-8")
        return path

    def test_report_writes_the_table_the_json_and_the_page(self, scores: Path, tmp_path: Path) -> None:
        html, as_json = tmp_path / "report.html", tmp_path / "report.json"
        options = ["--calibration", self.calibration(tmp_path), "--html", html, "--json", as_json, "--replicates", 100]
        result = self.run("report", scores, *options)
        assert result.exit_code == 0, result.stderr
        assert "team" in result.stdout
        assert "T = 2.00" in result.stdout
        found = json.loads(as_json.read_text(encoding="utf-8"))
        assert found["format"] == "ko-decision-report/1"
        assert found["slices"][0]["views"]["fitted"]["metrics"]["ece10"]["high"] > 0
        assert "환불" in as_json.read_text(encoding="utf-8")
        assert html.read_text(encoding="utf-8").startswith("<!doctype html>")

    def test_an_output_that_exists_is_kept_unless_forced(self, scores: Path, tmp_path: Path) -> None:
        html = tmp_path / "report.html"
        html.write_text("mine", encoding="utf-8")
        result = self.run("report", scores, "--html", html, "--replicates", 100)
        assert (result.exit_code, html.read_text(encoding="utf-8")) == (2, "mine")
        assert "--force" in result.stderr
        assert self.run("report", scores, "--html", html, "--replicates", 100, "--force").exit_code == 0
        assert html.read_text(encoding="utf-8") != "mine"

    def test_temperatures_of_another_checkpoint_are_refused_unless_allowed(self, scores: Path, tmp_path: Path) -> None:
        foreign = self.calibration(tmp_path, checkpoint="beef")
        result = self.run("report", scores, "--calibration", foreign, "--replicates", 100)
        assert result.exit_code == 2
        assert "beef" in result.stderr
        allowed = self.run(
            "report", scores, "--calibration", foreign, "--allow-foreign-calibration", "--replicates", 100
        )
        assert allowed.exit_code == 0

    def test_compare_with_itself(self, scores: Path, tmp_path: Path) -> None:
        out = tmp_path / "comparison.json"
        result = self.run("compare", scores, scores, "--json", out, "--replicates", 100)
        assert result.exit_code == 0, result.stderr
        assert "same" in result.stdout
        for part in json.loads(out.read_text(encoding="utf-8"))["slices"]:
            for difference in part["differences"].values():
                assert (difference["low"], difference["high"]) == (0, 0)

    @pytest.mark.parametrize("command", ["report", "compare"])
    def test_a_missing_file_is_misuse_in_one_line(self, command: str, tmp_path: Path) -> None:
        missing = tmp_path / "missing.jsonl"
        result = self.run(command, missing, *([missing] if command == "compare" else []))
        assert result.exit_code == 2
        assert result.stderr.count("\n") == 1
