"""``ko-decision fit``: from a labelled CSV in one command, and from a score file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from ko_decision_tools import KoDecisionModel, ScriptedEncoder
from ko_decision_tools.calibration import TemperatureTable
from ko_decision_tools.cli import app, models
from ko_decision_tools.distributions import Scores
from ko_decision_tools.fitting import ThresholdFit, fit_threshold
from ko_decision_tools.fitting.threshold import DATA_LIKE_THIS
from ko_decision_tools.prompts import Prompt
from ko_decision_tools.records import Record, header_line

ROUTES = "question: 어느 팀이 맡아야 하는가?\nroutes: {결제: 결제와 환불, 배송: 배송 지연, 계정: 로그인}\n"


def script(prompt: Prompt) -> list[float]:
    """Sure of 결제 when the text says so, a little for 배송 otherwise."""
    return [4.0, 0.0, 0.0] if "결제" in prompt.state else [0.0, 0.4, 0.0]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def load_model(checkpoint: str, *, calibration: Path | None = None, **_: Any) -> KoDecisionModel:
        table = TemperatureTable(by_type={"choice": 2.0}) if calibration is None else TemperatureTable.read(calibration)
        return KoDecisionModel.from_encoder(ScriptedEncoder(script), name=checkpoint, temperatures=table)

    monkeypatch.setattr(models, "load_model", load_model)
    (tmp_path / "routes.yaml").write_text(ROUTES, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tickets(folder: Path, *extra: str, sure: int = 60) -> Path:
    lines = [f"결제가 {i}번 됐어요,결제" for i in range(sure)]
    lines += [f"택배 {i}번 어디예요,배송" for i in range(10)]
    lines += [f"오늘 날씨 {i}도,없음" for i in range(10)]
    file = folder / "tickets.csv"
    file.write_text("\n".join(["text,label", *lines, *extra, ""]), encoding="utf-8")
    return file


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["fit", *map(str, arguments)])


def test_a_labelled_csv_gives_a_threshold_in_one_command(folder: Path) -> None:
    result = run(tickets(folder), "--routes", "routes.yaml", "--label-column", "label", "--max-risk", "0.1")
    assert result.exit_code == 0, result.output
    bar = np.floor(1e4 * Scores((4.0, 0.0, 0.0)).softmax(2.0).top_probability) / 1e4
    assert f"--min-top-probability {bar:g}" in result.stdout
    assert f"from_pretrained('mini', min_top_probability={bar:g})" in result.stdout
    assert "60 of 80 rows are answered (coverage 75.0%; the other 25.0% escalate), 0 of them wrongly" in result.stdout
    assert "80 rows; 10 of them fit no option" in result.stdout
    assert "type choice: T = 2" in result.stdout
    assert DATA_LIKE_THIS in result.stdout
    assert "10 rows have a label that is no route: 없음 (10)" in result.stderr


def test_too_few_rows_say_how_many_it_takes(folder: Path) -> None:
    result = run(tickets(folder, sure=5), "--routes", "routes.yaml", "--max-risk", "0.1")
    assert result.exit_code == 0
    assert "on 25 rows: at least 29 would be needed" in result.stdout
    assert "--min-top-probability" not in result.stdout


def test_rows_without_a_label_or_a_text_are_left_out_and_said(folder: Path) -> None:
    file = tickets(folder, "라벨이 없어요,", ",결제")
    result = run(file, "--routes", "routes.yaml", "--max-risk", "0.1", "--json")
    assert json.loads(result.stdout)["threshold"]["n"] == 80
    assert "1 row is left out: no label" in result.stderr
    assert "1 row is left out: no usable text" in result.stderr


def test_the_whole_result_and_the_calibration_are_kept(folder: Path) -> None:
    command = (tickets(folder), "--routes", "routes.yaml", "--max-risk", "0.3")
    result = run(*command, "--save", "threshold.json", "--out", "calibration.json")
    assert result.exit_code == 0, result.output
    kept = ThresholdFit.load(folder / "threshold.json")
    table = TemperatureTable.read(folder / "calibration.json")
    assert dict(table.by_type) == {"choice": 2.0}
    assert table.evidence["threshold"]["threshold"] == kept.threshold
    assert "errors" not in table.evidence["threshold"]
    assert {error.answered for error in kept.errors} <= {"배송"}
    again = run(*command, "--save", "threshold.json")
    assert again.exit_code == 2
    assert "--force" in again.stderr
    assert run(*command, "--save", "threshold.json", "--force").exit_code == 0


def test_the_fitted_bar_is_the_one_that_routes(folder: Path) -> None:
    from ko_decision_tools.router import DecisionRouter, load_routing_table

    file = tickets(folder)
    run(file, "--routes", "routes.yaml", "--max-risk", "0.1", "--save", "threshold.json")
    kept = ThresholdFit.load(folder / "threshold.json")
    model = models.load_model("mini")
    router = DecisionRouter.from_table(load_routing_table(folder / "routes.yaml"), model=model)
    texts = [line.split(",")[0] for line in file.read_text(encoding="utf-8").splitlines()[1:]]
    results = [router.invoke(text, min_top_probability=kept.threshold) for text in texts]
    assert sum(not result.reasons for result in results) == kept.answered == 60


def test_labels_that_name_no_route_at_all_are_misuse(folder: Path) -> None:
    (folder / "other.csv").write_text("text,label\n결제,payment\n배송,shipping\n", encoding="utf-8")
    result = run("other.csv", "--routes", "routes.yaml", "--max-risk", "0.1")
    assert result.exit_code == 2
    assert "names no route in its column 'label'" in result.stderr
    assert "결제, 배송, 계정" in result.stderr


def scores(folder: Path, *, n: int = 600, fingerprint: str = "0f1e") -> Path:
    draw = np.random.default_rng(3)
    lines = [header_line({"checkpoint": "mini", "fingerprint": fingerprint, "suite": "demo", "date": "2026-11-30"})]
    for task, options, temperature in (("three", 3, 2.0), ("two", 2, 4.0)):
        for i in range(n // 2):
            logits = draw.normal(0, 6, options)
            weights = np.exp(logits / temperature)
            gold = int(draw.choice(options, p=weights / weights.sum()))
            labels = tuple("가나다"[:options])
            lines.append(
                Record(f"{task}-{i}", f"{task}-{i // 2}", task, "choice", labels, tuple(logits), gold).to_json()
            )
    file = folder / "scores.jsonl"
    file.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return file


def test_a_score_file_gives_temperatures_with_their_evidence(folder: Path) -> None:
    result = run(scores(folder), "--out", "calibration.json")
    assert result.exit_code == 0, result.output
    table = TemperatureTable.read(folder / "calibration.json")
    assert table.tasks["three"] == pytest.approx(2.0, rel=0.3)
    assert table.tasks["two"] == pytest.approx(4.0, rel=0.4)
    assert set(table.by_bucket) == {"choice:2", "choice:3-5"}
    assert table.checkpoint == "0f1e"
    assert table.evidence["suite"] == "demo"
    assert table.evidence["fitted"]["task three"]["groups"] == 150
    assert {"date", "method", "rows", "scored"} <= table.evidence.keys()
    assert "task three" in result.stdout


def test_with_a_threshold_the_rows_are_shared_out_by_group(folder: Path) -> None:
    result = run(scores(folder), "--max-risk", "0.2", "--tasks-only", "--json", "--task", "three")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["calibration"]["evidence"]["rows"] == found["threshold"]["n"] == 150
    assert "by_type" not in found["calibration"]
    assert "temperatures on 150 rows, the threshold on the other 150" in result.stderr
    assert found["threshold"]["notes"][0].startswith(
        "The guarantee is for independent rows. These 150 come in 75 groups"
    )


def test_given_temperatures_leave_every_row_for_the_threshold(folder: Path) -> None:
    file = scores(folder)
    run(file, "--out", "calibration.json")
    result = run(file, "--calibration", "calibration.json", "--max-risk", "0.2", "--json")
    assert json.loads(result.stdout)["threshold"]["n"] == 600
    shown = run(file, "--calibration", "calibration.json", "--max-risk", "0.2")
    assert "Name the task when you decide (task='three')" in shown.stdout


def test_temperatures_of_another_checkpoint_are_refused(folder: Path) -> None:
    run(scores(folder), "--out", "calibration.json")
    result = run(scores(folder, fingerprint="beef"), "--calibration", "calibration.json", "--max-risk", "0.2")
    assert result.exit_code == 2
    assert "fitted on checkpoint 0f1e, not on beef" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--calibration", "scores.jsonl"], "leaves nothing to fit"),
        (["--save", "threshold.json"], "Pass --max-risk"),
        (["--task", "four"], "has no task 'four'"),
        (["--routes", "routes.yaml"], "--max-risk is missing"),
        (["--routes", "routes.yaml", "--max-risk", "0.1", "--hard-labels"], "fits none"),
        (["--max-risk", "1.5"], "--max-risk is not between 0 and 1"),
        (["--out", "no-such-folder/calibration.json"], "--out lies in a folder that is not there"),
    ],
)
def test_misuse_is_one_line_and_exit_code_2(folder: Path, arguments: list[str], message: str) -> None:
    result = run(scores(folder), *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_a_csv_without_routes_is_told_what_is_missing(folder: Path) -> None:
    result = run(tickets(folder), "--max-risk", "0.1")
    assert result.exit_code == 2
    assert "is no score file. Pass --routes" in result.stderr


def test_without_scipy_it_says_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ko_decision_tools.fitting.lab.find_spec", lambda _: None)
    result = run(scores(folder), "--max-risk", "0.2")
    assert result.exit_code == 2
    assert 'pip install "ko-decision-tools[lab]"' in result.stderr


def test_the_command_and_the_library_agree(folder: Path) -> None:
    run(scores(folder), "--out", "calibration.json")
    from ko_decision_tools.records import ScoreFile

    table = TemperatureTable.read(folder / "calibration.json")
    wanted = fit_threshold(ScoreFile.read(folder / "scores.jsonl").records, table, max_risk=0.2)
    run("scores.jsonl", "--calibration", "calibration.json", "--max-risk", "0.2", "--save", "threshold.json")
    assert ThresholdFit.load(folder / "threshold.json") == wanted
