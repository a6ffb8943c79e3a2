"""Temperatures and thresholds: what they recover, what they refuse, and whether the promise holds."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ko_decision_tools import Choice, KoDecisionModel, ScriptedEncoder
from ko_decision_tools.calibration import CALIBRATION_FILE, TemperatureTable
from ko_decision_tools.distributions import Scores
from ko_decision_tools.errors import CalibrationError, InvalidInputError
from ko_decision_tools.fitting import ThresholdFit, fit_temperatures, fit_threshold, halves
from ko_decision_tools.fitting.guarantee import Ladder, fewest_rows, first_count, rows_needed, upper_bound
from ko_decision_tools.fitting.likelihood import HIGHEST, LOWEST, Likelihood
from ko_decision_tools.fitting.temperature import MIN_ROWS, target_of
from ko_decision_tools.policy import MinTopProbability, Reading
from ko_decision_tools.questions import Kind
from ko_decision_tools.records import Record

NOUL = ("false", "true")


def record(
    name: str,
    scores: Sequence[float],
    gold: int | None,
    *,
    task: str = "demo",
    kind: Kind = "choice",
    group: str | None = None,
    soft: tuple[float, ...] | None = None,
    value: float | None = None,
) -> Record:
    labels = NOUL if kind == "noul" else tuple(map(str, range(len(scores))))
    return Record(name, group or name, task, kind, labels, tuple(scores), gold, soft, value, f"{name}의 글")


def simulated(
    n: int, *, temperature: float, options: int = 4, seed: int = 0, task: str = "demo", kind: Kind = "choice"
) -> list[Record]:
    """Rows whose gold is drawn from softmax(scores / temperature): that temperature calibrates them exactly."""
    draw = np.random.default_rng(seed)
    scores = draw.normal(0, 3, size=(n, options))
    weights = np.exp(scores / temperature)
    gold = (draw.random((n, 1)) > np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)).sum(axis=1)
    return [
        record(f"{task}-{i}", row, int(min(g, options - 1)), task=task, kind=kind)
        for i, (row, g) in enumerate(zip(scores.tolist(), gold, strict=True))
    ]


# -- temperatures ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.3])
def test_a_known_temperature_lies_in_the_interval(temperature: float) -> None:
    fit = fit_temperatures(simulated(2_000, temperature=temperature, seed=1), checkpoint=None).report.fitted[0]
    assert fit.interval is not None
    low, high = fit.interval
    assert low < temperature < high
    assert low < fit.temperature < high
    assert high / low < 1.25


def test_the_interval_covers_as_often_as_it_says() -> None:
    hits = 0
    for seed in range(60):
        rows = simulated(300, temperature=2.0, seed=seed)
        likelihood = Likelihood.of([row.scores for row in rows], [target_of(row) or () for row in rows])
        low, high = likelihood.interval(likelihood.best_temperature(), np.arange(300), seed=0) or (0.0, 0.0)
        hits += low < 2.0 < high
    assert hits >= 51  # 57 expected; fewer has probability 0.002 at 95 %


def test_the_interval_is_that_of_refitting_on_resampled_rows() -> None:
    rows = simulated(120, temperature=2.0)
    targets = [target_of(row) or () for row in rows]
    likelihood = Likelihood.of([row.scores for row in rows], targets)
    draw = np.random.default_rng(9)
    refitted = []
    for _ in range(500):
        drawn = draw.integers(0, 120, 120)
        again = Likelihood.of([rows[i].scores for i in drawn], [targets[i] for i in drawn])
        refitted.append(again.best_temperature())
    interval = likelihood.interval(likelihood.best_temperature(), np.arange(120), seed=0)
    assert interval == pytest.approx(np.percentile(refitted, [2.5, 97.5]), rel=0.05)


def test_repeated_rows_do_not_make_the_interval_narrower() -> None:
    rows = simulated(300, temperature=2.0)
    copies = [dataclasses.replace(row, id=f"{row.id}/{i}", group=row.id) for row in rows for i in range(10)]
    once, often = (fit_temperatures(each, checkpoint=None).report.fitted[0] for each in (rows, copies))
    assert (once.n, often.n, once.groups, often.groups) == (300, 3_000, 300, 300)
    assert often.temperature == pytest.approx(once.temperature)
    assert often.interval == pytest.approx(once.interval)


def test_too_few_groups_give_no_interval() -> None:
    rows = [dataclasses.replace(row, group=str(i % 9)) for i, row in enumerate(simulated(300, temperature=2.0))]
    assert fit_temperatures(rows, checkpoint=None).report.fitted[0].interval is None


rows_of_scores = st.integers(2, 6).flatmap(
    lambda n: st.tuples(st.lists(st.floats(-30, 30), min_size=n, max_size=n), st.integers(0, n - 1))
)


@given(st.lists(rows_of_scores, min_size=2, max_size=8))
def test_a_fit_never_raises_the_nll_and_never_changes_a_ranking(rows: list[tuple[list[float], int]]) -> None:
    records = [record(f"r{i}", *rows[i % len(rows)]) for i in range(MIN_ROWS)]
    try:
        fit = fit_temperatures(records, checkpoint=None)
    except CalibrationError:
        return  # these rows determine no temperature
    for fitted in fit.report.fitted:
        before, after = fitted.nll
        assert after <= before + 1e-12
        assert LOWEST < fitted.temperature < HIGHEST
    for each in records:
        temperature = fit.table.lookup("choice", len(each.labels), task="demo").value
        raw, fitted_probabilities = Scores(each.scores), Scores(each.scores).softmax(temperature).probabilities
        for low, high in zip(np.argsort(raw.logits)[:-1], np.argsort(raw.logits)[1:], strict=True):
            assert fitted_probabilities[low] <= fitted_probabilities[high]


@given(st.lists(rows_of_scores, min_size=5, max_size=30), st.floats(0.06, 19.0))
def test_no_other_temperature_is_more_likely(rows: list[tuple[list[float], int]], other: float) -> None:
    targets = [[float(i == gold) for i in range(len(scores))] for scores, gold in rows]
    likelihood = Likelihood.of([scores for scores, _ in rows], targets)
    try:
        best = likelihood.best_temperature()
    except CalibrationError:
        return
    assert likelihood.nll(best) <= likelihood.nll(other) + 1e-9


def test_the_nll_and_ece_are_those_of_scipy_and_of_counting() -> None:
    from scipy.special import log_softmax

    rows = simulated(400, temperature=3.0)
    fit = fit_temperatures(rows, checkpoint=None).report.fitted[0]
    scores, gold = np.array([row.scores for row in rows]), np.array([row.gold for row in rows])
    for temperature, nll, ece in zip((1.0, fit.temperature), fit.nll, fit.ece10 or (), strict=True):
        logs = log_softmax(scores / temperature, axis=1)
        assert nll == pytest.approx(-logs[np.arange(400), gold].mean())
        top, right = np.exp(logs).max(axis=1), logs.argmax(axis=1) == gold
        counted = sum(
            abs(top[inside].mean() - right[inside].mean()) * inside.mean()
            for low, high in zip(np.linspace(0, 0.9, 10), np.linspace(0.1, 1, 10), strict=True)
            if (inside := (top > low) & (top <= high)).any()
        )
        assert ece == pytest.approx(counted)
    assert fit.ece10 is not None
    assert fit.ece10[1] < fit.ece10[0] / 2


@pytest.mark.parametrize(
    ("scores", "gold", "reason"),
    [
        ((0.0, 3.0), 1, "pinned at 0.05"),
        ((0.0, 3_000.0), 1, "pinned at 0.05"),
        ((0.0, 3.0), 0, "pinned at 20"),
        ((1.0, 1.0), 0, "equal scores"),
    ],
    ids=["separable", "separable, underflowing", "always wrong", "constant"],
)
def test_rows_that_determine_no_temperature_are_refused(scores: tuple[float, ...], gold: int, reason: str) -> None:
    with pytest.raises(CalibrationError, match=reason):
        fit_temperatures([record(f"r{i}", scores, gold) for i in range(100)], checkpoint=None)


def test_one_refused_task_costs_the_others_nothing() -> None:
    perfect = [record(f"p{i}", (0.0, 9.0), 1, task="perfect") for i in range(80)]
    fit = fit_temperatures([*simulated(500, temperature=2.0), *perfect], checkpoint=None, tasks_only=True)
    assert list(fit.table.tasks) == ["demo"]
    assert [(refused.scope, refused.n) for refused in fit.report.refused] == [("task perfect", 80)]


def test_a_small_bucket_falls_back_to_its_type_and_a_small_type_to_nothing() -> None:
    rows = [
        *simulated(300, temperature=2.0, options=4, task="four"),
        *simulated(MIN_ROWS - 1, temperature=4.0, options=7, seed=1, task="seven"),
        *simulated(MIN_ROWS - 1, temperature=4.0, options=2, seed=2, task="yesno", kind="noul"),
    ]
    table = fit_temperatures(rows, checkpoint=None).table
    assert set(table.by_bucket) == {"choice:3-5"}
    assert set(table.by_type) == {"choice"}
    assert table.lookup("choice", 7, task="seven").source == "type choice"
    assert table.lookup("noul", 2, task="yesno").source == "none"
    more = fit_temperatures([*rows, *simulated(1, temperature=4.0, options=7, seed=3, task="seven")], checkpoint=None)
    assert set(more.table.by_bucket) == {"choice:3-5", "choice:6-10"}


def test_tasks_only_leaves_unknown_questions_uncalibrated() -> None:
    table = fit_temperatures(simulated(300, temperature=2.0), checkpoint=None, tasks_only=True).table
    assert table.lookup("choice", 4, task="demo").calibrated
    assert not table.lookup("choice", 4).calibrated


def test_a_task_without_a_name_gets_no_entry() -> None:
    table = fit_temperatures(simulated(300, temperature=2.0, task=""), checkpoint=None).table
    assert not table.tasks
    assert table.by_bucket.keys() == {"choice:3-5"}


def test_rows_without_gold_are_left_out_and_counted() -> None:
    rows = simulated(300, temperature=2.0)
    nones = [record(f"none-{i}", (5.0, 0.0, 0.0, 0.0), None) for i in range(40)]
    alone, mixed = (fit_temperatures(each, checkpoint=None) for each in (rows, [*rows, *nones]))
    assert mixed.table.tasks == alone.table.tasks
    assert (mixed.report.n, mixed.report.left_out) == (300, 40)
    with pytest.raises(CalibrationError, match="40 rows without gold"):
        fit_temperatures(nones, checkpoint=None)


def test_soft_gold_is_preferred_and_recovers_the_annotators_temperature() -> None:
    rows = [
        dataclasses.replace(row, soft_gold=Scores(row.scores).softmax(5.0).probabilities)
        for row in simulated(200, temperature=1.0)
    ]
    assert fit_temperatures(rows, checkpoint=None).table.tasks["demo"] == pytest.approx(5.0, rel=1e-6)
    hard = fit_temperatures(rows, checkpoint=None, soft=False).table.tasks["demo"]
    assert hard == pytest.approx(fit_temperatures(simulated(200, temperature=1.0), checkpoint=None).table.tasks["demo"])
    only_soft = [dataclasses.replace(row, gold=None) for row in rows]
    fit = fit_temperatures(only_soft, checkpoint=None, soft=False).report.fitted[0]
    assert fit.temperature == pytest.approx(5.0, rel=1e-6)
    assert fit.ece10 is None


@given(st.integers(2, 10).flatmap(lambda n: st.tuples(st.just(n), st.floats(0, n - 1))))
def test_a_value_is_split_between_its_neighbours_with_its_mean(case: tuple[int, float]) -> None:
    levels, value = case
    target = target_of(record("s", [0.0] * levels, None, kind="score", value=value))
    assert target is not None
    assert math.fsum(target) == pytest.approx(1)
    assert math.fsum(level * share for level, share in enumerate(target)) == pytest.approx(value)
    assert sum(share > 0 for share in target) <= 2
    assert all(share >= 0 for share in target)


def test_a_value_outside_the_levels_names_its_row() -> None:
    with pytest.raises(InvalidInputError, match="value of sts-7 lies outside 0 to 5"):
        fit_temperatures([record("sts-7", [0.0] * 6, None, kind="score", value=5.2)], checkpoint=None)


def test_the_table_survives_its_file_and_a_model_uses_it(tmp_path: Path) -> None:
    about = {"date": "2026-11-30", "suite": "demo", "checkpoint": "scripted"}
    fit = fit_temperatures(simulated(300, temperature=2.5), checkpoint="0f1e", about=about)
    file = tmp_path / CALIBRATION_FILE
    file.write_text(json.dumps(fit.table.to_dict(), ensure_ascii=False), encoding="utf-8")
    table = TemperatureTable.read(file)
    assert table.to_dict() == json.loads(json.dumps(fit.table.to_dict()))
    assert table.evidence["date"] == "2026-11-30"
    evidence = table.evidence["fitted"]["task demo"]
    assert evidence["n"] == 300
    assert evidence["nll"][1] < evidence["nll"][0]
    assert evidence["interval"][0] < evidence["temperature"] < evidence["interval"][1]

    encoder = ScriptedEncoder({"결제": 4.0, "배송": 1.0})
    model = KoDecisionModel.from_encoder(encoder, temperatures=table)
    ask = Choice(instructions="어느 팀?", criteria={"결제": None, "배송": None, "계정": None})
    decision = model.decide("두 번 빠져나갔어요", ask, task="demo")
    wanted = Scores((4.0, 1.0, 0.0)).softmax(fit.table.tasks["demo"]).probabilities
    assert decision.probabilities_in_order == pytest.approx(wanted, abs=1e-12)
    assert decision.calibrated
    assert decision.provenance.temperature_source == "task demo"


def test_a_foreign_checkpoint_is_refused() -> None:
    table = fit_temperatures(simulated(100, temperature=2.0), checkpoint="0f1e").table
    table.check_made_for("0f1e")
    with pytest.raises(CalibrationError, match="fitted on checkpoint 0f1e, not on beef"):
        table.check_made_for("beef")


# -- thresholds ------------------------------------------------------------------------------------------------------


def noul_rows(tops: Sequence[float], wrong: Sequence[bool], **fields: str) -> list[Record]:
    """Yes/no rows whose top probability at T = 1 is ``tops``."""
    return [
        record(f"r{i}", (0.0, math.log(top / (1 - top))), int(not bad), kind="noul", **fields)
        for i, (top, bad) in enumerate(zip(tops, wrong, strict=True))
    ]


def risk_of(kind: str, u: np.ndarray) -> np.ndarray:
    """P(wrong) of the row at rank ``u`` (0 is the surest)."""
    curves = {
        "flat": np.full_like(u, 0.1),
        "rising": 0.02 + 0.5 * u**2,
        "steep": np.where(u < 0.35, 0.03, 0.6),
        "none": np.full_like(u, 0.4),
    }
    return curves[kind]


PLACES = np.linspace(0, 1, 20_001)


def true_risk(kind: str) -> np.ndarray:
    """The risk of answering the surest share of the population, at each of ``PLACES``."""
    return np.cumsum(risk_of(kind, PLACES)) / np.arange(1, len(PLACES) + 1)


def sample(kind: str, n: int, ties: bool, draw: np.random.Generator) -> Ladder:
    """Rows whose top probability is 1 - 0.9 of their rank; with ``ties`` there are 25 probabilities in all."""
    u = draw.random(n)
    wrong = draw.random(n) < risk_of(kind, u)
    return Ladder.of(1 - 0.9 * (np.ceil(u * 25) / 25 if ties else u), wrong)


@pytest.mark.parametrize("kind", ["flat", "rising", "steep", "none"])
@pytest.mark.parametrize(("n", "ties"), [(60, False), (300, False), (300, True)])
def test_the_guarantee_holds_over_a_thousand_draws(kind: str, n: int, ties: bool) -> None:
    """Violations of a 10 % risk at 90 % confidence; "flat" lies on the bar at every threshold: the worst case."""
    draws, max_risk, confidence = 1_000, 0.1, 0.9
    draw, risk = np.random.default_rng(n), true_risk(kind)
    violations = found = 0
    for _ in range(draws):
        ladder = sample(kind, n, ties, draw)
        chosen = ladder.lowest(max_risk=max_risk, confidence=confidence)
        if chosen is not None:
            found += 1
            answered = (1 - ladder.thresholds[chosen]) / 0.9  # share of the population
            violations += bool(np.interp(answered, PLACES, risk) > max_risk - 1e-9)
    slack = 3 * math.sqrt(confidence * (1 - confidence) / draws)  # three standard errors of 1,000 draws: 2.8 points
    assert violations / draws <= 1 - confidence + slack
    if kind == "flat":
        assert violations == found > 0  # each threshold counts as a violation there, so that this test can fail
    if kind == "rising" and n == 300:
        assert found / draws > 0.5


def test_choosing_the_best_passing_threshold_without_an_order_would_break_the_promise() -> None:
    """What the fixed order is for: the same bounds, but the lowest threshold that passes anywhere."""
    draw, violations = np.random.default_rng(0), 0
    for _ in range(400):
        ladder = sample("flat", 300, False, draw)
        violations += bool((upper_bound(ladder.wrong, ladder.answered, 0.9) <= 0.1).any())
    assert violations / 400 > 0.2


def test_more_rows_answer_more() -> None:
    draw = np.random.default_rng(0)
    coverage = []
    for n in (60, 300, 3_000):
        runs = []
        for _ in range(100):
            ladder = sample("rising", n, False, draw)
            chosen = ladder.lowest(max_risk=0.1, confidence=0.95)
            runs.append(0.0 if chosen is None else ladder.answered[chosen] / n)
        coverage.append(np.mean(runs))
    assert coverage[0] < coverage[1] < coverage[2]
    assert coverage[2] > 0.6  # 0.69 would be answered if the risk were known


def test_the_bound_is_clopper_pearson() -> None:
    from scipy.stats import binom, binomtest

    for wrong, answered in ((0, 1), (0, 59), (3, 40), (17, 200)):
        bound = float(upper_bound(np.array([wrong]), np.array([answered]), 0.95)[0])
        assert binom.cdf(wrong, answered, bound) == pytest.approx(0.05)
        wanted = binomtest(wrong, answered, alternative="less").proportion_ci(0.95, method="exact").high
        assert bound == pytest.approx(wanted)


@given(st.integers(0, 6), st.sampled_from([0.02, 0.05, 0.1, 0.3]), st.sampled_from([0.8, 0.9, 0.95, 0.99]))
def test_fewest_rows_is_the_first_count_that_passes(wrong: int, max_risk: float, confidence: float) -> None:
    count = fewest_rows(wrong, max_risk, confidence)
    bounds = upper_bound(np.array([wrong, wrong]), np.array([count - 1, count]), confidence)
    assert bounds[1] <= max_risk < bounds[0]


def test_a_bar_at_the_threshold_accepts_exactly_the_answered_rows() -> None:
    draw = np.random.default_rng(5)
    tops = draw.uniform(0.5, 1, 400)
    rows = noul_rows(tops.tolist(), (draw.random(400) < (1 - tops) ** 1.5).tolist())
    fit = fit_threshold(rows, TemperatureTable(), max_risk=0.1)
    assert fit.threshold is not None
    assert fit.wrong > 0
    rule = MinTopProbability(fit.threshold)
    tops = [Scores(row.scores).softmax().top_probability for row in rows]
    accepted = [not rule.reasons(Reading("noul", top, 0.0, top, False)) for top in tops]
    assert sum(accepted) == fit.answered
    assert sum(ok and row.gold == 0 for ok, row in zip(accepted, rows, strict=True)) == fit.wrong == len(fit.errors)
    assert fit.threshold == float(f"{fit.threshold:.4f}")  # what is printed is what was tested


def test_no_threshold_on_too_few_rows_says_how_many() -> None:
    fit = fit_threshold(noul_rows([0.9] * 28, [False] * 28), TemperatureTable(), max_risk=0.1)
    assert fit.threshold is None
    assert fit.rows_needed == 29
    assert fit.reason is not None
    assert fit.reason.endswith("on 28 rows: at least 29 would be needed, even if every answer were right.")
    assert (fit.answered, fit.coverage, fit.risk, fit.interval) == (0, 0.0, None, None)
    assert fit.summary().startswith("No threshold keeps the risk at 10% with 95% confidence")
    assert fit_threshold(noul_rows([0.9] * 29, [False] * 29), TemperatureTable(), max_risk=0.1).answered == 29


def test_no_threshold_because_the_surest_answers_are_wrong_lists_them() -> None:
    tops = [0.99 - i / 1_000 for i in range(60)]
    fit = fit_threshold(noul_rows(tops, [i in (3, 40) for i in range(60)]), TemperatureTable(), max_risk=0.1)
    assert fit.threshold is None
    assert "1 of the 29 surest answers are wrong" in (fit.reason or "")
    assert [(mistake.id, mistake.gold, mistake.answered) for mistake in fit.errors] == [("r3", "false", "true")]
    assert fit.errors[0].text == "r3의 글"
    assert fit.rows_needed is not None
    assert fit.rows_needed > 60


def test_no_number_of_rows_helps_a_model_that_is_always_too_wrong() -> None:
    fit = fit_threshold(noul_rows([0.9] * 200, [i % 2 == 0 for i in range(200)]), TemperatureTable(), max_risk=0.1)
    assert fit.threshold is None
    assert fit.rows_needed is None
    assert "More rows like these would not help" in (fit.reason or "")


def test_rows_needed_would_do_if_they_looked_the_same() -> None:
    ladder = Ladder.of(np.linspace(0.99, 0.3, 100), np.isin(np.arange(100), [2, 30, 60, 85]))
    assert ladder.lowest(max_risk=0.1, confidence=0.95) is None
    needed = rows_needed(ladder, max_risk=0.1, confidence=0.95)
    assert needed is not None
    copies = math.ceil(needed / 100)
    again = Ladder(ladder.thresholds, ladder.answered * copies, ladder.wrong * copies)
    assert (upper_bound(again.wrong, again.answered, 0.95) <= 0.1).any()


def test_none_of_these_rows_are_errors_when_answered() -> None:
    right = noul_rows([0.99] * 200, [False] * 200)
    nones = [record(f"none-{i}", (5.0, 0.0), None) for i in range(50)]
    fit = fit_threshold([*right, *nones], TemperatureTable(), max_risk=0.05)
    assert fit.none_of_these == 50
    assert fit.curve[0].wrong == 50
    assert fit.threshold is None
    unsure = [record(f"none-{i}", (0.5, 0.0), None) for i in range(50)]
    fit = fit_threshold([*right, *unsure], TemperatureTable(), max_risk=0.05)
    assert fit.threshold == pytest.approx(0.99, abs=1e-4)
    assert (fit.answered, fit.wrong, fit.coverage) == (200, 0, 0.8)


def test_rows_that_can_be_neither_right_nor_wrong_are_left_out() -> None:
    unlabelled = [
        record("yes-no", (0.0, 1.0), None, kind="noul"),
        record("votes", (0.0, 1.0), None, soft=(0.4, 0.6)),
        record("level", (0.0, 1.0), None, kind="score", value=0.3),
    ]
    fit = fit_threshold([*noul_rows([0.9] * 40, [False] * 40), *unlabelled], TemperatureTable(), max_risk=0.1)
    assert (fit.n, fit.left_out, fit.none_of_these) == (40, 3, 0)
    with pytest.raises(InvalidInputError, match="no row with gold"):
        fit_threshold(unlabelled, TemperatureTable(), max_risk=0.1)


def test_the_temperatures_that_decisions_would_use_are_used() -> None:
    rows = noul_rows([0.9] * 60, [False] * 60)
    table = TemperatureTable(tasks={"demo": 2.0})
    fit = fit_threshold(rows, table, max_risk=0.1)
    assert fit.threshold == pytest.approx(math.floor(1e4 * 3 / 4) / 1e4)  # odds 9 become odds 3
    assert fit.temperatures == {"task demo: T = 2": 60}
    assert not fit.notes
    assert fit_threshold(rows, TemperatureTable(), max_risk=0.1).notes[0].startswith("No temperature was fitted")


def test_repeated_groups_and_mixed_tasks_are_said_aloud() -> None:
    rows = [
        *noul_rows([0.9] * 60, [False] * 60, group="one business"),
        *noul_rows([0.9] * 9, [False] * 9, task="other"),
    ]
    notes = fit_threshold(rows, TemperatureTable(by_type={"noul": 1.0}), max_risk=0.1).notes
    assert "69 come in 10 groups" in notes[0]
    assert "mix 2 tasks" in notes[1]


def test_a_fit_survives_its_file(tmp_path: Path) -> None:
    rows = noul_rows([0.9] * 60 + [0.7] * 20, [False] * 60 + [True] * 20)
    for max_risk in (0.1, 0.01):
        fit = fit_threshold(rows, TemperatureTable(checkpoint="0f1e"), max_risk=max_risk)
        fit.save(tmp_path / "threshold.json")
        assert ThresholdFit.load(tmp_path / "threshold.json") == fit
    assert "r0의 글" not in json.dumps(fit.evidence(), ensure_ascii=False)
    for broken in ("", "[]", '{"format": "ko-decision-threshold/1"}', '{"format": "other"}'):
        (tmp_path / "broken.json").write_text(broken, encoding="utf-8")
        with pytest.raises(InvalidInputError, match="not a saved threshold"):
            ThresholdFit.load(tmp_path / "broken.json")
    with pytest.raises(InvalidInputError, match="cannot be written"):
        fit.save(tmp_path / "no-such-folder" / "threshold.json")


@pytest.mark.parametrize("bad", [0, 1, -0.1, math.nan, True])
def test_a_risk_or_confidence_that_is_none_is_refused(bad: float) -> None:
    rows = noul_rows([0.9] * 60, [False] * 60)
    with pytest.raises(InvalidInputError, match="max_risk"):
        fit_threshold(rows, TemperatureTable(), max_risk=bad)
    with pytest.raises(InvalidInputError, match="confidence"):
        fit_threshold(rows, TemperatureTable(), max_risk=0.1, confidence=bad)


@given(st.lists(st.integers(0, 20), min_size=2, max_size=60), st.integers(0, 5))
def test_halves_never_tear_a_group_apart_and_lose_nothing(groups: list[int], seed: int) -> None:
    rows = [record(f"r{i}", (0.0, 1.0), 0, group=str(group)) for i, group in enumerate(groups)]
    first, second = halves(rows, seed=seed)
    assert sorted(row.id for row in [*first, *second]) == sorted(row.id for row in rows)
    assert not {row.group for row in first} & {row.group for row in second}
    assert abs(len({row.group for row in first}) - len({row.group for row in second})) <= 1


@given(st.integers(1, 5_000), st.sampled_from([0.02, 0.05, 0.1, 0.3]), st.sampled_from([0.8, 0.95]))
def test_the_first_test_can_pass_without_errors(n: int, max_risk: float, confidence: float) -> None:
    count = first_count(n, max_risk, confidence)
    assert upper_bound(np.array([0]), np.array([count]), confidence)[0] <= max_risk
    assert count <= max(n / 2, fewest_rows(0, max_risk, confidence))
