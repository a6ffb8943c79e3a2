"""Metrics equal scikit-learn's and scipy's, mean the same under weights, and say what they claim to say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, brier_score_loss, f1_score, log_loss

from ko_decision_tools.evaluation.arrays import Rows, softmax, to_rows
from ko_decision_tools.evaluation.details import argmax_gold, confusion, mistakes, reliability, selection
from ko_decision_tools.evaluation.metrics import (
    METRICS,
    Linear,
    Targets,
    ece,
    noise_floor,
    statistics,
    values,
)
from ko_decision_tools.evaluation.selective import curve
from ko_decision_tools.records import Record

TOPICS = ("정치", "경제", "사회", "생활문화", "세계", "스포츠", "IT과학")
LEVELS = tuple("012345")


def choice(
    number: int, scores: Sequence[float], gold: int | None, labels: Sequence[str] = TOPICS, **facts: Any
) -> Record:
    kind = facts.pop("type", "choice")
    given = tuple(map(float, scores))
    return Record(f"r{number}", f"g{number}", "demo", kind, tuple(labels), given, gold=gold, **facts)


def topics(n: int = 400, seed: int = 1) -> list[Record]:
    random = np.random.default_rng(seed)
    gold = random.choice(7, size=n, p=[0.4, 0.2, 0.1, 0.1, 0.1, 0.08, 0.02])
    scores = random.normal(size=(n, 7)) + 1.5 * np.eye(7)[gold]
    return [choice(place, scores[place], int(gold[place])) for place in range(n)]


def rated(n: int = 300, seed: int = 2) -> list[Record]:
    """Scores with a real-valued gold, seven annotators, and ties in it."""
    random = np.random.default_rng(seed)
    rows = []
    for place in range(n):
        votes = np.clip(random.normal(random.uniform(0, 5), 0.8, size=7).round(), 0, 5).astype(int)
        value, soft = round(float(votes.mean()), 1), np.bincount(votes, minlength=6) / 7
        scores = -((np.arange(6) - value - random.normal(scale=0.8)) ** 2)
        facts = {"value": value, "soft_gold": tuple(soft.tolist())}
        rows.append(choice(place, scores, round(value), LEVELS, type="score", **facts))
    return rows


def ones(records: Sequence[Record], temperature: float = 1.0) -> Rows:
    return to_rows(records, [temperature] * len(records))


def every_kind(n: int, seed: int) -> list[Record]:
    """Choices with soft gold, hard gold, and no right option at all, offering 2 to 5 of 5 labels, with tied scores."""
    random = np.random.default_rng(seed)
    rows = []
    for place in range(n):
        width = int(random.integers(2, 6))
        scores = random.integers(0, 3, size=width) / 2
        soft = tuple(random.dirichlet(np.ones(width)).tolist()) if place % 3 == 0 else None
        gold = None if place % 7 == 1 and soft is None else int(random.integers(width))
        rows.append(choice(place, scores, gold, TOPICS[:width], soft_gold=soft))
    return rows


def weighted(rows: Rows, weights: Sequence[int]) -> dict[str, float]:
    """Every metric with these weights, the way the bootstrap takes them."""
    found: dict[str, float] = {}
    for statistic in statistics(rows):
        if isinstance(statistic, Linear):
            found[statistic.key] = float(statistic.finish(np.array(weights) @ statistic.columns))
        else:
            numbers = statistic.of_weights(np.array([weights], dtype=float))[0]
            found |= dict(zip(statistic.keys, numbers.tolist(), strict=True))
    return found


class TestLibraries:
    @pytest.mark.parametrize("temperature", [1.0, 2.7])
    def test_hard_metrics_are_scikit_learns(self, temperature: float) -> None:
        records = topics()
        rows, gold = ones(records, temperature), [record.gold for record in records]
        found = values(rows)
        assert found["accuracy"] == pytest.approx(accuracy_score(gold, rows.predicted), abs=1e-12)
        assert found["macro_f1"] == pytest.approx(f1_score(gold, rows.predicted, average="macro"), abs=1e-12)
        assert found["nll"] == pytest.approx(log_loss(gold, rows.probabilities, labels=range(7)), abs=1e-12)
        hot = np.eye(7)[gold]
        assert found["brier"] == pytest.approx(((rows.probabilities - hot) ** 2).sum(axis=1).mean(), abs=1e-12)

    def test_a_label_that_never_occurs_is_no_part_of_macro_f1(self) -> None:
        records = [record for record in topics(60) if record.gold in (0, 1)]
        rows, gold = ones(records, 1.0), [record.gold for record in records]
        assert values(rows)["macro_f1"] == pytest.approx(f1_score(gold, rows.predicted, average="macro"), abs=1e-12)

    def test_the_brier_of_a_yes_or_no_is_twice_scikit_learns(self) -> None:
        random = np.random.default_rng(3)
        records = [
            choice(i, random.normal(size=2), int(random.integers(2)), ("거짓", "참"), type="noul") for i in range(99)
        ]
        rows = ones(records)
        halved = brier_score_loss([record.gold for record in records], rows.probabilities[:, 1])
        assert values(rows)["brier"] == pytest.approx(2 * halved, abs=1e-12)

    def test_correlations_are_scipys(self) -> None:
        records = rated()
        rows, value = ones(records), [record.value for record in records]
        assert values(rows)["pearson"] == pytest.approx(pearsonr(rows.expected, value).statistic, abs=1e-12)
        assert values(rows)["spearman"] == pytest.approx(spearmanr(rows.expected, value).statistic, abs=1e-12)

    def test_soft_metrics_are_their_formulas(self) -> None:
        rows = ones(rated(80))
        p, t, levels = rows.probabilities, rows.soft, np.arange(6)
        expected = {
            "soft_nll": -(t * np.log(p)).sum(axis=1).mean(),
            "soft_brier": ((p - t) ** 2).sum(axis=1).mean(),
            "soft_accuracy": (p * t).sum(axis=1).mean(),
            "soft_mae": np.abs((levels * (p - t)).sum(axis=1)).mean(),
            "score_mae": np.abs((levels * p).sum(axis=1) - rows.value).mean(),
        }
        found = values(rows)
        assert {key: found[key] for key in expected} == pytest.approx(expected, abs=1e-12)

    def test_confusion_counts_by_label_and_lists_the_worst_pair_first(self) -> None:
        records = [choice(0, [9, 0], 0, ("환불", "배송")), choice(1, [0, 9], 0, ("환불", "배송"))]
        records += [choice(2 + i, [0, 9], 1, ("배송", "환불")) for i in range(3)]
        records += [choice(9 + i, [9, 0], None, ("배송", "환불")) for i in range(2)]
        found = confusion(ones(records))
        assert found is not None
        assert found.gold_labels == ("환불", "배송", "(none of these)")
        assert found.labels == ("환불", "배송")
        assert found.matrix == ((4, 1), (0, 0), (0, 2))
        assert found.pairs[0] == ("(none of these)", "배송", 2)


class TestWeights:
    @settings(max_examples=40, deadline=None)
    @given(weights=st.lists(st.integers(0, 3), min_size=24, max_size=24).filter(any), seed=st.integers(0, 99))
    def test_a_weight_is_that_many_copies_of_the_row(self, weights: list[int], seed: int) -> None:
        """So a bootstrap replicate is the metric of the resampled rows, for every metric there is."""
        for records in (every_kind(24, seed), rated(24, seed)):
            copies = [record for record, weight in zip(records, weights, strict=True) for _ in range(weight)]
            expected = values(ones(copies))
            if len({record.value for record in copies}) == 1:  # no correlation with a constant
                expected = {key: value for key, value in expected.items() if key not in ("pearson", "spearman")}
            found = weighted(ones(records), weights)
            assert {key: found[key] for key in expected} == pytest.approx(expected, abs=1e-9, nan_ok=True)

    def test_every_metric_is_described(self) -> None:
        found = {**values(ones(every_kind(60, 0))), **values(ones(rated(30)))}
        assert list(METRICS) == [key for key in METRICS if key in found]


class TestCalibrationError:
    def test_it_is_the_textbook_loop(self) -> None:
        rows = ones(topics())
        confidence, right = rows.confidence, rows.correct.astype(float)
        total = 0.0
        for low in range(10):
            inside = (confidence > low / 10) & (confidence <= (low + 1) / 10)
            if inside.any():
                total += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
        assert values(rows)["ece10"] == pytest.approx(total, abs=1e-12)
        assert ece(confidence, right) == pytest.approx(total, abs=1e-12)

    def test_a_confidence_on_an_edge_belongs_to_the_bin_below_it(self) -> None:
        even = ones([choice(i, [0, 0], i % 2, ("환불", "배송")) for i in range(4)])
        (bin_,) = reliability(even, soft=False)
        assert (bin_.low, bin_.high, bin_.n) == (0.4, 0.5, 4)

    def test_a_calibrated_simulation_lies_within_the_noise_floor_and_an_overconfident_one_does_not(self) -> None:
        """Forty data sets whose labels are drawn from the softmax; by its own definition two of them may stand out."""
        random = np.random.default_rng(11)
        above = {1.0: 0, 0.5: 0}
        for _ in range(40):
            scores = random.normal(scale=1.5, size=(400, 5))
            drawn = (softmax(scores, np.ones(400))[0].cumsum(axis=1) < random.random((400, 1))).sum(axis=1)
            records = [choice(i, s, int(g), TOPICS[:5]) for i, (s, g) in enumerate(zip(scores, drawn, strict=True))]
            for temperature in above:
                rows = ones(records, temperature)
                above[temperature] += values(rows)["ece10"] > noise_floor(rows.confidence, simulations=200).p95
        assert above[1.0] <= 5
        assert above[0.5] == 40

    def test_the_noise_floor_is_exceeded_once_in_twenty_times(self) -> None:
        random = np.random.default_rng(12)
        confidence = random.uniform(0.5, 1, size=500)
        floor = noise_floor(confidence, seed=1)
        drawn = [ece(confidence, (random.random(500) < confidence).astype(float)) for _ in range(1000)]
        assert np.mean(np.array(drawn) > floor.p95) == pytest.approx(0.05, abs=0.025)
        assert np.mean(drawn) == pytest.approx(floor.mean, rel=0.05)
        assert noise_floor(confidence, seed=1) == floor

    def test_a_perfect_copy_of_a_teacher_looks_miscalibrated_on_its_argmax(self) -> None:
        """On LocalLLaMA/typed-decisions a perfect copy scores 0.326; here as well, by the shape of the opinions."""
        soft = np.random.default_rng(13).dirichlet(np.full(4, 1.1), size=1500)
        records = [choice(i, np.log(t), int(t.argmax()), TOPICS[:4], soft_gold=tuple(t)) for i, t in enumerate(soft)]
        found = values(ones(records))
        assert found["accuracy"] == 1
        assert found["ece10"] == pytest.approx(1 - soft.max(axis=1).mean())
        assert found["ece10"] > 0.3
        assert found["soft_ece10"] == pytest.approx(0, abs=1e-12)
        assert found["soft_brier"] == pytest.approx(0, abs=1e-12)
        warned = argmax_gold(ones(records, 3.0))  # whatever the model says
        assert warned is not None
        assert warned.perfect_copy == pytest.approx(found["ece10"])

    @pytest.mark.parametrize(
        ("soft", "gold", "valid"),
        [
            ((0.6, 0.4), 0, False),
            ((0.6, 0.4), 1, True),
            ((1.0, 0.0), 0, True),
            (None, 0, True),
            ((0.5, 0.5), 1, False),
        ],
    )
    def test_hard_ece_is_valid_unless_the_gold_is_the_argmax_of_a_doubtful_soft_gold(
        self, soft: tuple[float, float] | None, gold: int, valid: bool
    ) -> None:
        rows = ones([choice(0, [1, 0], gold, ("참", "거짓"), soft_gold=soft)])
        assert (argmax_gold(rows) is None) is valid

    def test_where_most_rows_have_no_soft_gold_the_gold_counts(self) -> None:
        rows = [choice(0, [1, 0], 0, ("참", "거짓"), soft_gold=(0.6, 0.4))]
        assert argmax_gold(ones(rows)) is not None
        assert argmax_gold(ones([*rows, *(choice(i, [1, 0], 0, ("참", "거짓")) for i in (1, 2))])) is None

    def test_reliability_bins_hold_every_row_once(self) -> None:
        rows = ones(topics())
        found = reliability(rows, soft=False)
        assert sum(bin_.n for bin_ in found) == 400
        assert sum(bin_.n * abs(bin_.hits - bin_.confidence) for bin_ in found) / 400 == pytest.approx(
            values(rows)["ece10"]
        )
        for bin_ in found:
            assert bin_.hits_low is not None
            assert bin_.hits_high is not None
            assert bin_.low < bin_.confidence <= bin_.high
            assert bin_.hits_low <= bin_.hits <= bin_.hits_high


class TestRiskAndCoverage:
    @given(
        st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=30),
    )
    def test_coverage_rises_thresholds_fall_and_the_end_is_the_error_rate(self, rows: list[tuple[int, bool]]) -> None:
        confidence = np.array([c / 10 for c, _ in rows])
        wrong = np.array([w for _, w in rows])
        found = curve(confidence, wrong)
        assert (np.diff(found.thresholds) < 0).all()
        assert (np.diff(found.coverage) > 0).all()
        assert found.coverage[-1] == 1
        assert found.risk[-1] == pytest.approx(wrong.mean())
        for threshold, coverage, risk in zip(found.thresholds, found.coverage, found.risk, strict=True):
            answered = confidence >= threshold
            assert coverage == pytest.approx(answered.mean())
            assert risk == pytest.approx(wrong[answered].mean())
        order = np.random.default_rng(0).permutation(len(rows))
        assert curve(confidence[order], wrong[order]).risk.tolist() == found.risk.tolist()

    def test_aurc_without_ties_is_the_mean_of_the_running_risks(self) -> None:
        rows = ones(topics())
        order = np.argsort(-rows.confidence)
        risks = np.cumsum(~rows.correct[order]) / np.arange(1, 401)
        assert values(rows)["aurc"] == pytest.approx(risks.mean(), abs=1e-12)

    def test_perfect_sorting_cannot_be_beaten(self) -> None:
        """Half right, all of those surer: the risk is 0 up to half of the rows, and nothing can be below that."""
        records = [choice(i, [10 - i / 100, 0], int(i >= 50), ("환불", "배송")) for i in range(100)]
        found = values(ones(records), Targets(risk=0.0, coverage=0.5))
        assert found["coverage_at_risk"] == 0.5
        assert found["accuracy_at_coverage"] == 1
        assert (
            found["aurc"]
            < values(ones([choice(i, [i / 100, -9], int(i >= 50), ("환불", "배송")) for i in range(100)]))["aurc"]
        )

    def test_no_threshold_is_coverage_zero(self) -> None:
        assert values(ones([choice(0, [1, 0], 1, ("환불", "배송"))]))["coverage_at_risk"] == 0

    def test_a_row_that_no_option_fits_is_an_error_when_answered_and_right_when_left_out(self) -> None:
        labels = ("환불", "배송")
        records = [choice(i, [5, 0], 0, labels) for i in range(8)] + [
            choice(8 + i, [1, 0], None, labels) for i in range(2)
        ]
        found, picked = values(ones(records)), selection(ones(records))
        assert found["accuracy"] == 1
        assert found["accuracy_with_none"] == 0.8
        assert found["coverage_at_risk"] == 0.8
        assert picked is not None
        assert [(row.target, row.none_abstained) for row in picked.by_coverage[:3:2]] == [(1.0, 0.0), (0.8, 1.0)]
        assert picked.by_coverage[0].risk == pytest.approx(0.2)
        assert mistakes(records, ones(records), 5)[0].gold is None

    def test_an_unlabelled_yes_or_no_is_no_none_row(self) -> None:
        labelled = choice(0, [5, 0], 0, ("거짓", "참"), type="noul")
        bare = choice(1, [5, 0], None, ("거짓", "참"), type="noul")
        found = values(ones([labelled, bare]))
        assert found["accuracy"] == 1
        assert "accuracy_with_none" not in found


class TestArrays:
    def test_padding_gets_no_probability_and_costs_nothing(self) -> None:
        short, long = choice(0, [1, 0], 0, ("가나", "다라")), choice(1, [1, 0, 2], 2, ("가나", "다라", "마바"))
        rows = to_rows([short, long], [2.0, 1.0])
        assert rows.probabilities[0, 2] == 0
        assert rows.probabilities.sum(axis=1) == pytest.approx(1)
        assert values(rows)["nll"] == pytest.approx(
            (values(ones([short], 2.0))["nll"] + values(ones([long]))["nll"]) / 2
        )

    def test_huge_scores_keep_a_finite_likelihood(self) -> None:
        assert values(ones([choice(0, [4000, 0], 1, ("환불", "배송"))]))["nll"] == pytest.approx(4000)

    def test_options_that_differ_in_every_question_are_counted_by_their_place(self) -> None:
        records = [choice(i, [1, 0], i % 2, (f"후보 {i}가", f"후보 {i}나")) for i in range(6)]
        assert ones(records).classes == ("option 1", "option 2")

    def test_routes_of_several_businesses_are_counted_by_name(self) -> None:
        records = [choice(i, [1, 0], i % 2, (("환불", "배송"), ("배송", "계정"))[i % 2]) for i in range(6)]
        assert ones(records).classes == ("환불", "배송", "계정")

    def test_a_score_falls_back_from_value_to_level_to_soft_gold(self) -> None:
        facts: dict[str, Any] = {"labels": ("0", "1", "2"), "type": "score"}
        records = [
            choice(0, [0, 0, 0], 1, value=1.5, **facts),
            choice(1, [0, 0, 0], 2, **facts),
            choice(2, [0, 0, 0], None, soft_gold=(0.5, 0.0, 0.5), **facts),
        ]
        assert ones(records).value.tolist() == [1.5, 2, 1]
