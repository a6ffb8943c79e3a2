"""The cluster bootstrap: paired, seeded, honest about clusters; and comparing two models with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ko_decision_tools.calibration import TemperatureTable
from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.evaluation.arrays import to_rows
from ko_decision_tools.evaluation.bootstrap import Clusters, Job, bootstrap, clusters_of, interval, resample
from ko_decision_tools.evaluation.compare import Difference, compare
from ko_decision_tools.evaluation.metrics import METRICS, statistics, values
from ko_decision_tools.evaluation.slices import MACRO, Settings
from ko_decision_tools.records import Record, ScoreFile

LABELS = ("환불", "배송", "계정")
QUICK = Settings(replicates=300, ranked_replicates=300)


def rows_of(n: int, *, seed: int = 0, skill: float = 1.0, per_group: int = 2, **facts: Any) -> list[Record]:
    """``n`` choices with soft gold; the gold and the soft gold depend on the row alone, the scores on the seed too."""
    truth = np.random.default_rng(99)
    gold = truth.integers(3, size=n)
    soft = truth.dirichlet(np.ones(3), size=n)
    scores = np.random.default_rng(seed).normal(size=(n, 3)) + skill * np.eye(3)[gold]
    given = {"task": "demo", "type": "choice", **facts}
    return [
        Record(
            f"{given['task']}-{i}",
            f"{given['task']}-g{i // per_group}",
            labels=LABELS,
            scores=tuple(scores[i].tolist()),
            gold=int(gold[i]),
            soft_gold=tuple(soft[i].tolist()),
            value=float(gold[i]) / 1.5 if given["type"] == "score" else None,
            **given,
        )
        for i in range(n)
    ]


def file_of(records: Sequence[Record], **header: Any) -> ScoreFile:
    return ScoreFile(header, tuple(records))


def job_of(records: Sequence[Record]) -> tuple[Job, Clusters]:
    clusters = clusters_of(records)
    return Job(statistics(to_rows(records, [1.0] * len(records))), clusters.of_row), clusters


class TestResampling:
    def test_every_replicate_draws_as_many_clusters_as_there_are_in_each_stratum(self) -> None:
        records = [*rows_of(40), *rows_of(30, task="other", per_group=3)]
        clusters = clusters_of(records)
        counts = np.concatenate(list(resample(clusters, 50, seed=3)))
        assert counts.shape == (50, 30)
        assert sorted(map(len, clusters.strata)) == [10, 20]
        for stratum in clusters.strata:
            assert (counts[:, stratum].sum(axis=1) == len(stratum)).all()

    def test_every_cluster_is_as_likely_as_the_others(self) -> None:
        counts = np.concatenate(list(resample(clusters_of(rows_of(20)), 5000, seed=0)))
        assert counts.mean(axis=0) == pytest.approx(np.ones(10), abs=0.06)
        assert counts.var(axis=0) == pytest.approx(np.full(10, 0.9), abs=0.1)

    def test_tasks_that_share_a_case_are_drawn_together(self) -> None:
        """Also through a chain: a and b share a case, b and c share one, d is alone."""
        places = [("a", "1"), ("b", "1"), ("b", "2"), ("c", "2"), ("c", "3"), ("d", "4"), ("d", "5")]
        rows = zip(rows_of(7), places, strict=True)
        found = clusters_of([replace(row, task=task, group=group) for row, (task, group) in rows])
        assert sorted(stratum.tolist() for stratum in found.strata) == [[0, 1, 2], [3, 4]]

    def test_the_same_seed_gives_the_same_numbers_in_blocks_of_any_size(self) -> None:
        clusters = clusters_of(rows_of(40))
        whole = np.concatenate(list(resample(clusters, 40, seed=5)))
        assert np.array_equal(whole, np.concatenate(list(resample(clusters, 40, seed=5, widest=300_000))))
        assert not np.array_equal(whole, np.concatenate(list(resample(clusters, 40, seed=6))))

    def test_a_replicate_is_the_metric_of_the_rows_it_drew(self) -> None:
        records = [*rows_of(16, type="score")]
        job, clusters = job_of(records)
        drawn = bootstrap({"demo": job}, clusters, replicates=6, ranked=6, seed=2)["demo"]
        for place, counts in enumerate(np.concatenate(list(resample(clusters, 6, seed=2)))):
            copies = [r for r, c in zip(records, clusters.of_row, strict=True) for _ in range(int(counts[c]))]
            expected = values(to_rows(copies, [1.0] * len(copies)))
            assert {key: drawn[key][place] for key in expected} == pytest.approx(expected, abs=1e-9)

    def test_ranked_metrics_use_the_first_of_the_same_draws(self) -> None:
        job, clusters = job_of(rows_of(30))
        few = bootstrap({"demo": job}, clusters, replicates=50, ranked=20)["demo"]
        all_ = bootstrap({"demo": job}, clusters, replicates=50, ranked=50)["demo"]
        assert len(few["aurc"]) == 20
        assert np.array_equal(few["aurc"], all_["aurc"][:20])
        assert np.array_equal(few["nll"], all_["nll"])

    def test_a_metric_that_is_mostly_undefined_has_no_interval(self) -> None:
        assert interval(np.array([np.nan, np.nan, 1.0])) is None
        assert interval(np.array([np.nan, 1.0, 1.0])) == (1, 1)
        assert interval(np.array([])) is None


class TestCoverage:
    """Does a 95 % interval hold the truth in 95 % of data sets? Sixty clusters of five rows that mostly agree."""

    TRUTH, CLUSTERS, ROWS, DATASETS = 0.7, 60, 5, 300

    def hits(self, *, clustered: bool) -> float:
        random = np.random.default_rng(21)
        hit = 0
        for _ in range(self.DATASETS):
            whole_cluster = random.random(self.CLUSTERS) < self.TRUTH
            own = random.random((self.CLUSTERS, self.ROWS)) < self.TRUTH
            same = random.random((self.CLUSTERS, self.ROWS)) < 0.8
            right = np.where(same, whole_cluster[:, None], own).ravel()
            records = [
                Record(
                    f"{i}",
                    f"g{i // self.ROWS if clustered else i}",
                    "t",
                    "noul",
                    LABELS[:2],
                    (1.0, 0.0),
                    gold=int(not r),
                )
                for i, r in enumerate(right)
            ]
            clusters = clusters_of(records)
            accuracy = statistics(to_rows(records, [1.0] * len(records)))[:1]
            drawn = bootstrap({"t": Job(accuracy, clusters.of_row)}, clusters, replicates=200)["t"]["accuracy"]
            bounds = interval(drawn)
            assert bounds is not None
            hit += bounds[0] <= self.TRUTH <= bounds[1]
        return hit / self.DATASETS

    def test_with_the_clusters_it_does(self) -> None:
        assert 0.92 <= self.hits(clustered=True) <= 0.98

    def test_without_them_it_would_not(self) -> None:
        assert self.hits(clustered=False) < 0.8


class TestCompare:
    @settings(max_examples=8, deadline=None)
    @given(seed=st.integers(0, 1000), type_=st.sampled_from(["choice", "score"]))
    def test_a_model_against_itself_differs_by_exactly_nothing(self, seed: int, type_: str) -> None:
        file = file_of([*rows_of(30, seed=seed, type=type_), *rows_of(12, seed=seed, task="other")])
        found = compare(file, file, settings=QUICK)
        assert {part.name for part in found.slices} >= {"demo", "other", MACRO}
        for part in found.slices:
            assert set(part.differences) <= set(METRICS)
            for key, difference in part.differences.items():
                assert (difference.low, difference.difference, difference.high) == (0, 0, 0), key
                assert not difference.excludes_zero

    def test_the_better_model_wins_on_what_it_is_better_at(self) -> None:
        worse, better = file_of(rows_of(400, skill=0.3)), file_of(rows_of(400, skill=2.0, seed=1))
        (demo,) = compare(worse, better, settings=QUICK).slices
        for key in ("accuracy", "nll", "aurc", "macro_f1", "brier"):
            assert demo.differences[key].winner(key) == "b", key
        (swapped,) = compare(better, worse, settings=QUICK).slices
        for key, difference in demo.differences.items():
            other = swapped.differences[key]
            assert other.difference == pytest.approx(-difference.difference)
            assert (other.low, other.high) == pytest.approx((-(difference.high or 0), -(difference.low or 0)))
        assert demo.differences["confidence"].winner("confidence") is None  # neither way is better

    def test_pairing_makes_the_interval_narrower_than_two_models_apart(self) -> None:
        records = rows_of(300)
        nudged = [replace(r, scores=(r.scores[0] + 0.05, *r.scores[1:])) for r in records]
        (demo,) = compare(file_of(records), file_of(nudged), settings=QUICK).slices
        job, clusters = job_of(records)
        alone = interval(bootstrap({"demo": job}, clusters, replicates=300)["demo"]["nll"])
        nll = demo.differences["nll"]
        assert alone is not None
        assert nll.low is not None
        assert nll.high is not None
        assert nll.high - nll.low < (alone[1] - alone[0]) / 5

    def test_rows_are_joined_by_id_whatever_their_order(self) -> None:
        a, b = rows_of(60), rows_of(60, seed=4)
        straight = compare(file_of(a), file_of(b), settings=QUICK)
        assert compare(file_of(a), file_of(b[::-1]), settings=QUICK).slices == straight.slices

    def test_it_says_how_many_rows_it_left_out(self) -> None:
        a, b = rows_of(20), rows_of(20, seed=1)
        changed = replace(b[5], gold=((b[5].gold or 0) + 1) % 3)
        found = compare(file_of(a[:15]), file_of([*b[3:5], changed, *b[6:]]), settings=QUICK)
        assert (found.common, found.only_a, found.only_b, found.differing) == (11, 3, 5, 1)

    def test_labels_may_be_spelled_differently(self) -> None:
        a = rows_of(10)
        lettered = [replace(r, labels=tuple(f"{c}: {x}" for c, x in zip("ABC", r.labels, strict=True))) for r in a]
        assert compare(file_of(a), file_of(lettered), settings=QUICK).common == 10

    @pytest.mark.parametrize(
        ("b", "problem"),
        [
            ([replace(r, id=f"x{r.id}") for r in rows_of(5)], "no row in common"),
            ([replace(r, task="other") for r in rows_of(5)], "never the same question"),
            ([], "no rows"),
            ([*rows_of(5), rows_of(1)[0]], "2 times"),
        ],
    )
    def test_files_that_do_not_belong_together_are_refused(self, b: list[Record], problem: str) -> None:
        with pytest.raises(InvalidInputError, match=problem):
            compare(file_of(rows_of(5)), file_of(b), settings=QUICK)

    def test_each_model_has_its_own_temperatures(self) -> None:
        file = file_of(rows_of(80))
        found = compare(file, file, table_b=TemperatureTable(tasks={"demo": 5.0}), settings=QUICK)
        differences = found.slices[0].differences
        assert differences["accuracy"].difference == 0
        assert differences["confidence"].difference < -0.1
        assert differences["confidence"].excludes_zero

    def test_one_cluster_gives_no_interval_and_no_verdict(self) -> None:
        rows = [replace(r, group="only") for r in rows_of(20)]
        other = [replace(r, group="only") for r in rows_of(20, seed=1, skill=5)]
        for difference in compare(file_of(rows), file_of(other), settings=QUICK).slices[0].differences.values():
            assert difference.low is None
            assert not difference.excludes_zero

    def test_the_json_names_the_winner(self) -> None:
        found = compare(file_of(rows_of(200, skill=0)), file_of(rows_of(200, skill=3)), settings=QUICK).to_dict()
        assert found["slices"][0]["differences"]["accuracy"]["excludes_zero"] is True
        assert found["slices"][0]["differences"]["accuracy"]["winner"] == "b"

    @pytest.mark.parametrize(
        ("low", "high", "excluded"), [(-1, 1, False), (0, 1, False), (0.1, 1, True), (-1, -0.1, True)]
    )
    def test_an_end_at_zero_does_not_exclude_it(self, low: float, high: float, excluded: bool) -> None:
        assert Difference(0, 1, 1, low, high).excludes_zero is excluded
