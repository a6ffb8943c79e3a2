"""Training: recipes, rows, plans, batches, the loss, and runs that survive being killed."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch.nn import functional
from transformers import AutoModel, TrainerCallback

from ko_decision_tools.encoders.pair import PairEncoder
from ko_decision_tools.encoders.pair_tokens import PairTokenizer
from ko_decision_tools.errors import CheckpointNotFoundError, EncoderError, InvalidInputError
from ko_decision_tools.prompts import render
from ko_decision_tools.questions import Choice, Noul, Score
from ko_decision_tools.suites import Example
from ko_decision_tools.training.card import render_card
from ko_decision_tools.training.collator import Collator, pack_rows
from ko_decision_tools.training.loss import first_token_loss, row_statistics, soft_cross_entropy
from ko_decision_tools.training.model import OptionScorer, Precision, load_base, mean_pooled
from ko_decision_tools.training.objectives import OptionsObjective
from ko_decision_tools.training.plan import PlannedRows, plan_stage
from ko_decision_tools.training.publish import export_run
from ko_decision_tools.training.recipe import Phrasing, Recipe, Task
from ko_decision_tools.training.recipe_files import bundled_recipes, parse_recipe, read_recipe
from ko_decision_tools.training.rows import RowMaker, TrainingRow, keep_options, target_of
from ko_decision_tools.training.run import train
from ko_decision_tools.training.selection import DevRows, mean_error
from ko_decision_tools.training.sources import load_sources, split_by_group
from ko_decision_tools.training.stages import last_checkpoint
from tests.cli_stand_in import run
from tests.training_stand_in import tiny_encoder, tiny_recipe, tiny_tokenizer, write_rows, write_tiny_base

TEAMS = Choice(instructions="어느 팀인가?", criteria={"결제": "카드와 환불", "배송": None, "계정": "로그인"})
URGENCY = Score(instructions="얼마나 급한가?", criteria=["느긋함", "며칠", "오늘", "지금"])
POSITIVE = Noul(instructions="긍정적인가?")


def _example(question: Any, gold: int | None, *, number: int = 0, **more: Any) -> Example:
    values = {"soft_gold": None, "value": None, "split": "own", **more}
    return Example(f"t/{number}", f"g{number}", "t", f"문의 {number}번입니다", question, gold, **values)


def _maker(question: Any, gold: int | None, rows: int = 1, *, task: dict[str, Any] | None = None) -> RowMaker:
    settings = Task.model_validate({"file": "rows.csv", **(task or {})})
    return RowMaker("t", settings, [_example(question, gold, number=number) for number in range(rows)])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a tiny base and a CSV that it can learn."""
    write_tiny_base(tmp_path / "base")
    write_rows(tmp_path / "rows.csv")
    return tmp_path


def _recipe(place: Path, **changes: Any) -> Recipe:
    return parse_recipe(tiny_recipe(place, **changes))


def _train(recipe: Recipe, out: Path, **more: Any) -> dict[str, Any]:
    return train(recipe, out, device="cpu", threads=1, **more)


def _weights(out: Path, stage: str = "1-only") -> dict[str, torch.Tensor]:
    return load_file(out / "stages" / stage / "weights.safetensors")


# --- recipes ---------------------------------------------------------------------------------------------------------


def test_the_bundled_recipe_is_the_cards() -> None:
    recipe = read_recipe("roberta-large")
    assert recipe.optimizer.model_dump() == {
        "encoder_lr": 1e-5,
        "head_lr": 1e-4,
        "weight_decay": 0.01,
        "betas": (0.9, 0.999),
        "warmup": 0.1,
        "decay": "linear",
        "clip": 1.0,
    }
    assert (recipe.batch_rows, recipe.micro_options, recipe.max_tokens) == (32, 64, 512)
    first, second = recipe.stages
    assert (first.epochs, second.epochs) == (4, 2)
    assert set(recipe.tasks_of(second)) - set(recipe.tasks_of(first)) == {"klue_re"}
    assert set(recipe.tasks_of(first)) < set(recipe.tasks_of(second))  # replay
    for task in ("klue_nli", "klue_ynat", "klue_sts"):
        phrasings = recipe.tasks[task].phrasings
        assert len(phrasings) == 3
        assert len({phrasing.share for phrasing in phrasings}) == 1


def test_bundled_recipes_name_licences_and_the_mini_starts_with_self_distillation() -> None:
    assert bundled_recipes() == ["mini", "own-rows", "roberta-large"]
    mini = read_recipe("mini")
    assert all(task.licence for task in mini.tasks.values())
    assert [stage.objective for stage in mini.stages] == ["first_token", "options"]
    assert mini.base.layers == 8
    assert mini.base.freeze_embeddings
    assert mini.selection.source == "none"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"optimizer": {"encoder_rate": 1e-5}}, "optimizer.encoder_rate"),
        ({"stages": [{"name": "a", "epochs": 1, "steps": 2, "rows": {"desk": 1}}]}, "stages.0"),
        ({"stages": [{"name": "a", "steps": 2}]}, "stages.0"),
        ({"stages": [{"name": "a", "epochs": 1, "tasks": ["elsewhere"]}]}, "elsewhere"),
        ({"stages": [{"name": "a/b", "epochs": 1}]}, "stages.0.name"),
        ({"stages": [{"name": "a", "epochs": 1}, {"name": "a", "epochs": 1}]}, "same name"),
        ({"tasks": {"desk": {"suite": "klue", "file": "a.csv"}}}, "tasks.desk"),
        ({"tasks": {"desk": {"suite": "klue", "phrasings": [{"yes_no": ["참인가?"]}]}}}, "phrasings.0"),
        ({"micro_options": 0}, "micro_options"),
    ],
)
def test_a_recipe_that_is_wrong_is_refused_by_name(change: dict[str, Any], named: str, place: Path) -> None:
    with pytest.raises(InvalidInputError) as caught:
        _recipe(place, **change)
    assert named in str(caught.value)


def test_recipe_files_that_cannot_be_read_are_errors(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("name: [", encoding="utf-8")
    with pytest.raises(InvalidInputError, match="cannot be read as YAML"):
        read_recipe(tmp_path / "broken.yaml")
    with pytest.raises(InvalidInputError, match="is no file"):
        read_recipe(tmp_path / "absent.yaml")


def test_a_written_recipe_is_read_back(tmp_path: Path) -> None:
    for name in bundled_recipes():
        recipe = read_recipe(name)
        (tmp_path / "again.yaml").write_text(yaml.safe_dump(recipe.to_dict(), allow_unicode=True), encoding="utf-8")
        assert read_recipe(tmp_path / "again.yaml") == recipe


# --- rows ------------------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from([0.0, 0.0, 0.2, 1.0]), min_size=2, max_size=12), st.integers(1, 5), st.integers(0, 99))
def test_sampling_keeps_every_option_with_weight(weights: list[float], negatives: int, seed: int) -> None:
    kept = keep_options(weights, negatives, Random(seed))
    assert kept == sorted(set(kept))
    if len(set(weights)) > 1:
        positive = {index for index, weight in enumerate(weights) if weight > 0}
        assert positive <= set(kept)
        assert len(kept) == len(positive) + min(negatives, len(weights) - len(positive))
    else:
        assert len(kept) == min(negatives + 1, len(weights))


def test_a_score_keeps_its_levels_neighbours_and_their_numbers() -> None:
    maker = _maker(URGENCY, 1, task={"negatives": 1})
    seen = {maker.make(0, 0, Random(seed)).prompt.options for seed in range(20)}
    assert seen == {("0: 느긋함", "1: 며칠", "2: 오늘", "3: 지금")}  # 1, its neighbours 0 and 2, and one more
    maker = _maker(URGENCY, 0, task={"negatives": 1})
    kept = {maker.make(0, 0, Random(seed)).prompt.options for seed in range(20)}
    assert kept == {("0: 느긋함", "1: 며칠", "2: 오늘"), ("0: 느긋함", "1: 며칠", "3: 지금")}


def test_targets_come_from_votes_then_values_then_labels() -> None:
    votes = (0.6, 0.0, 0.4)
    assert target_of(_example(TEAMS, 0, soft_gold=votes)) == votes
    assert target_of(_example(TEAMS, 0, soft_gold=votes), soft=False) == (1.0, 0.0, 0.0)
    assert target_of(_example(URGENCY, 2, value=2.25)) == (0.0, 0.0, 0.75, 0.25)
    assert target_of(_example(URGENCY, 3, value=3.0)) == (0.0, 0.0, 0.0, 1.0)
    assert target_of(_example(TEAMS, None)) == pytest.approx((1 / 3,) * 3)


def test_phrasings_take_equal_shares_and_every_row_sees_all_of_them() -> None:
    phrasings = [{"instructions": [f"물음 {number}"]} for number in range(3)]
    maker = _maker(TEAMS, 0, 300, task={"phrasings": phrasings})
    asked = [[maker.make(row, turn, Random(0)).prompt.instruction for turn in range(3)] for row in range(300)]
    assert all(len(set(of_a_row)) == 3 for of_a_row in asked)
    first_pass = Counter(of_a_row[0] for of_a_row in asked)
    assert max(first_pass.values()) - min(first_pass.values()) <= 3


def test_phrasings_keep_to_their_weights() -> None:
    phrasings = [{"share": 3, "instructions": ["잦은 물음"]}, {"share": 1, "instructions": ["드문 물음"]}]
    maker = _maker(TEAMS, 0, 400, task={"phrasings": phrasings})
    asked = Counter(maker.make(row, 0, Random(0)).prompt.instruction for row in range(400))
    assert asked["드문 물음"] == pytest.approx(100, abs=3)


def test_other_criteria_keep_the_target_in_place() -> None:
    english = {"billing": "cards and refunds", "shipping": None, "account": None}
    row = _maker(TEAMS, 1, task={"phrasings": [{"criteria": english}]}).make(0, 0, Random(0))
    assert row.prompt.options == ("billing: cards and refunds", "shipping", "account")
    assert row.target == (0.0, 1.0, 0.0)
    bare = _maker(TEAMS, 1, task={"phrasings": [{"bare": True}]}).make(0, 0, Random(0))
    assert bare.prompt.options == ("결제", "배송", "계정")


def test_criteria_of_another_length_are_refused_before_training() -> None:
    with pytest.raises(InvalidInputError, match="does not fit a question with 3 options"):
        _maker(TEAMS, 1, task={"phrasings": [{"criteria": {"하나": None, "둘": None}}]})


def test_a_flipped_wording_swaps_yes_and_no() -> None:
    maker = _maker(POSITIVE, 1, task={"phrasings": [{"flip": True, "instructions": ["불만인가?"]}]})
    row = maker.make(0, 0, Random(0))
    assert (row.prompt.instruction, row.target) == ("불만인가?", (1.0, 0.0))


def test_yes_no_about_a_label_is_half_yes_and_always_true() -> None:
    maker = _maker(TEAMS, 0, task={"phrasings": [{"yes_no": ["{label} 문의인가?"]}]})
    rows = [maker.make(0, 0, Random(seed)) for seed in range(200)]
    assert all((row.target[1] == 1.0) == (row.prompt.instruction == "결제 문의인가?") for row in rows)
    assert sum(row.target[1] for row in rows) == pytest.approx(100, abs=25)
    assert {row.prompt.instruction for row in rows} == {"결제 문의인가?", "배송 문의인가?", "계정 문의인가?"}


def test_yes_no_about_levels_answers_by_the_list_and_skips_the_unclear() -> None:
    phrasing = {"yes_no": ["급한가?"], "yes_if": [3], "skip": [2]}
    answers = [_maker(URGENCY, level, task={"phrasings": [phrasing]}).make(0, 0, Random(0)) for level in range(4)]
    assert [row.target for row in (answers[0], answers[1], answers[3])] == [(1.0, 0.0), (1.0, 0.0), (0.0, 1.0)]
    assert answers[2].prompt.kind == "score"


def test_none_of_these_is_right_only_where_nothing_is() -> None:
    task = {"none_option": {"share": 1.0, "options": {"기타": "그 밖의 글"}}}
    nothing = _maker(TEAMS, None, task=task).make(0, 0, Random(0))
    assert nothing.target == (0.0, 0.0, 0.0, 1.0)
    assert nothing.prompt.options[-1] == "기타: 그 밖의 글"
    assert _maker(TEAMS, 1, task=task).make(0, 0, Random(0)).target == (0.0, 1.0, 0.0, 0.0)


def test_a_borrowed_option_is_wrong_and_shares_the_doubt() -> None:
    other = Choice(instructions="어느 과인가?", criteria={"내과": None, "외과": "수술"})
    task = Task.model_validate({"file": "rows.csv", "borrow": 1.0})
    right = RowMaker("t", task, [_example(TEAMS, 0), _example(other, 0, number=1)])
    rows = [right.make(0, 0, Random(seed)) for seed in range(30)]
    longer = [row for row in rows if len(row.prompt.options) == 4]
    assert longer
    assert all(row.target == (1.0, 0.0, 0.0, 0.0) for row in longer)
    doubtful = RowMaker("t", task, [_example(TEAMS, None), _example(other, 0, number=1)])
    targets = {doubtful.make(0, 0, Random(seed)).target for seed in range(30)}
    assert targets == {(1 / 3,) * 3, (0.25,) * 4}


@given(st.integers(0, 1000), st.sampled_from([None, 1, 2]), st.sampled_from([None, 0, 1, 2]))
def test_every_row_is_a_distribution_over_its_own_options(seed: int, negatives: int | None, gold: int | None) -> None:
    none = {"share": 0.5, "options": {"기타": None}}
    row = _maker(TEAMS, gold, task={"negatives": negatives, "none_option": none}).make(0, 0, Random(seed))
    assert len(row.target) == len(row.prompt.options) == len(row.prompt.markers)
    assert math.fsum(row.target) == pytest.approx(1)


# --- sources ---------------------------------------------------------------------------------------------------------


def test_groups_are_set_aside_whole_and_always_the_same_ones() -> None:
    rows = [_example(TEAMS, 0, number=number % 500) for number in range(1000)]
    kept, aside = split_by_group(rows, 0.2)
    assert {row.group for row in kept}.isdisjoint(row.group for row in aside)
    assert 70 <= len({row.group for row in aside}) <= 130
    assert split_by_group(rows[::-1], 0.2)[1] == [row for row in rows[::-1] if row in aside]


def test_a_routing_table_says_how_a_file_is_asked(place: Path) -> None:
    (place / "routes.yaml").write_text(
        "question: 어느 팀이 맡는가?\nroutes:\n  결제: 카드와 영수증\n  배송: 택배와 도착\n", encoding="utf-8"
    )
    recipe = _recipe(place, tasks={"desk": {"file": "rows.csv", "routes": "routes.yaml"}})
    rows = load_sources(recipe, place).train["desk"]
    assert len(rows) == 60
    assert render(rows[0].question, "글").options == ("결제: 카드와 영수증", "배송: 택배와 도착")
    assert rows[0].question.instructions == "어느 팀이 맡는가?"


def test_labels_alone_are_enough_and_other_columns_too(place: Path) -> None:
    assert set(load_sources(_recipe(place)).train["desk"][0].question.criteria) == {"결제", "배송"}
    (place / "other.csv").write_text("question,answer\n카드가 안 돼요,1\n택배가 와요,0\n", encoding="utf-8")
    task = {"file": str(place / "other.csv"), "text_column": "question", "label_column": "answer"}
    asked = {"type": "noul", "instructions": "문제가 있는가?"}
    rows = load_sources(_recipe(place, tasks={"desk": {**task, "question": asked}})).train["desk"]
    assert [(row.state, row.gold) for row in rows] == [("카드가 안 돼요", 1), ("택배가 와요", 0)]


def test_rows_and_dev_rows_never_share_a_group_and_the_fingerprint_follows_the_rows(place: Path) -> None:
    recipe = _recipe(place, selection={"source": "holdout", "share": 0.3, "fewest": 10})
    sources = load_sources(recipe)
    assert {row.group for row in sources.train["desk"]}.isdisjoint(row.group for row in sources.dev["desk"])
    assert len(sources.train["desk"]) + len(sources.dev["desk"]) == 60
    write_rows(place / "rows.csv", 58)
    assert load_sources(recipe).fingerprint != sources.fingerprint
    write_rows(place / "rows.csv", 20)
    few = load_sources(recipe)  # about six would be set aside: too few to choose by
    assert (len(few.train["desk"]), few.dev) == (20, {})


@pytest.mark.shared
@pytest.mark.parametrize("name", ["mini", "roberta-large"])
def test_bundled_recipes_read_training_rows_only(name: str, shared: Path) -> None:
    recipe = read_recipe(name)
    small = {task: settings.model_copy(update={"limit": 20}) for task, settings in recipe.tasks.items()}
    sources = load_sources(recipe.model_copy(update={"tasks": small}), shared / "data")
    assert set(sources.train) == set(recipe.tasks)
    assert {row.split for rows in sources.train.values() for row in rows} <= {"train", "own"}
    assert set(sources.dev) == (set() if name == "mini" else set(recipe.tasks))
    for task, rows in sources.train.items():  # every phrasing fits its task
        maker = RowMaker(task, recipe.tasks[task], rows)
        assert [maker.make(row, 0, Random(row)).task for row in range(len(rows))] == [task] * len(rows)


# --- plans -----------------------------------------------------------------------------------------------------------


def test_an_epoch_uses_every_row_once_in_an_order_of_its_own(place: Path) -> None:
    recipe = _recipe(place, stages=[{"name": "only", "epochs": 3}])
    plan = plan_stage(recipe, recipe.stages[0], {"desk": 20})
    assert [len(step) for step in plan] == [8, 8, 4] * 3
    epochs = [[draw for step in plan[start : start + 3] for draw in step] for start in (0, 3, 6)]
    for turn, epoch in enumerate(epochs):
        assert sorted(draw.index for draw in epoch) == list(range(20))
        assert {draw.turn for draw in epoch} == {turn}
    assert [draw.index for draw in epochs[0]] != [draw.index for draw in epochs[1]]


def test_a_mixed_step_has_each_tasks_share_and_goes_round_the_rows(place: Path) -> None:
    tasks = {name: {"file": str(place / "rows.csv")} for name in ("many", "few")}
    stages = [{"name": "mixed", "steps": 40, "rows": {"many": 3, "few": 0.5}}]
    recipe = _recipe(place, tasks=tasks, stages=stages)
    plan = plan_stage(recipe, recipe.stages[0], {"many": 30, "few": 50})
    drawn = Counter(draw.task for step in plan for draw in step)
    assert drawn["many"] == 120
    assert 10 <= drawn["few"] <= 30
    assert Counter(draw.index for step in plan for draw in step if draw.task == "many") == dict.fromkeys(range(30), 4)


def test_plans_and_rows_depend_on_the_seed_alone(place: Path) -> None:
    recipe = _recipe(place, stages=[{"name": "only", "epochs": 2}])
    other = recipe.model_copy(update={"seed": 2})
    first, again, second = (plan_stage(each, each.stages[0], {"desk": 50}) for each in (recipe, recipe, other))
    assert first == again != second
    maker = {"desk": _maker(TEAMS, 0, 50, task={"negatives": 1})}
    rows = PlannedRows(first, maker, 1, "only")
    assert rows[2] == PlannedRows(first, maker, 1, "only")[2]
    assert [row.prompt for row in rows[2]] != [row.prompt for row in PlannedRows(first, maker, 2, "only")[2]]


def test_own_rows_join_every_stage_of_another_recipe() -> None:
    task = Task.model_validate({"file": "mine.csv"})
    for name in ("roberta-large", "mini"):
        recipe = read_recipe(name).with_task("mine", task)
        assert all("mine" in recipe.tasks_of(stage) for stage in recipe.stages)
        assert parse_recipe(recipe.to_dict()) == recipe


# --- batches ---------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 60)), min_size=1, max_size=30),
    st.integers(4, 12),
    st.one_of(st.none(), st.integers(50, 400)),
)
def test_micro_batches_hold_whole_rows_within_the_limits(
    rows: list[tuple[int, int]], most: int, budget: int | None
) -> None:
    options, widths = [row[0] for row in rows], [row[1] for row in rows]
    groups = pack_rows(options, widths, most, budget)
    assert sorted(index for group in groups for index in group) == list(range(len(rows)))
    for group in groups:
        pairs = sum(options[index] for index in group)
        assert len(group) == 1 or pairs <= most
        assert len(group) == 1 or budget is None or pairs * max(widths[index] for index in group) <= budget
    order = [widths[index] for group in groups for index in group]
    assert order == sorted(order, reverse=True)


def _rows(count: int = 6) -> list[TrainingRow]:
    questions = [(TEAMS, 0), (URGENCY, 2), (POSITIVE, 1)]
    return [_maker(*questions[n % 3], n + 1).make(n, 0, Random(n)) for n in range(count)]


def _collator(**more: Any) -> Collator:
    tokenizer = tiny_tokenizer()
    return Collator(PairTokenizer(tokenizer.backend_tokenizer, 64), tokenizer.pad_token_id, micro_options=5, **more)


def test_the_collator_gives_the_ids_of_inference_and_each_rows_own_target() -> None:
    tokenizer, rows = tiny_tokenizer(), _rows()
    batch = _collator()([rows])
    assert batch["rows"] == 6
    found = []
    for micro in batch["micro"]:
        assert len(micro["ids"]) <= 5
        assert micro["mask"].equal((micro["ids"] != tokenizer.pad_token_id).long())
        for place, task in enumerate(micro["tasks"]):
            pairs = micro["row"] == place
            ids = [
                ids[mask.bool()].tolist() for ids, mask in zip(micro["ids"][pairs], micro["mask"][pairs], strict=True)
            ]
            found.append((task, tuple(map(tuple, ids)), tuple(micro["target"][pairs].tolist())))
    expected = [
        (
            row.task,
            tuple(
                tuple(tokenizer(f"{row.prompt.instruction} {option}", row.prompt.state)["input_ids"])
                for option in row.prompt.options
            ),
            row.target,
        )
        for row in rows
    ]
    assert sorted(found) == sorted(expected)
    assert batch["tokens"] == sum(len(ids) for _, pairs, _ in expected for ids in pairs)


def test_an_option_that_leaves_no_room_names_its_row() -> None:
    long = Choice(instructions="어느 팀인가?", criteria={"가" * 80: None, "배송": None})
    row = _maker(long, 1).make(0, 0, Random(0))
    with pytest.raises(InvalidInputError, match="t/0: options"):
        _collator()([[row]])


# --- loss ------------------------------------------------------------------------------------------------------------


def test_the_loss_is_cross_entropy_of_each_row_over_its_own_options() -> None:
    torch.manual_seed(0)
    sizes = [2, 7, 3, 1]
    scores = torch.randn(sum(sizes), dtype=torch.float64) * 5 + 100
    row = torch.repeat_interleave(torch.arange(4), torch.tensor(sizes))
    target = torch.cat([torch.rand(size, dtype=torch.float64).softmax(0) for size in sizes])
    expected = [
        functional.cross_entropy(part[None], share[None])
        for part, share in zip(scores.split(sizes), target.split(sizes), strict=True)
    ]
    torch.testing.assert_close(soft_cross_entropy(scores, target, row, 4), torch.stack(expected))
    interleaved = torch.randperm(len(row))
    mixed = soft_cross_entropy(scores[interleaved], target[interleaved], row[interleaved], 4)
    torch.testing.assert_close(mixed, torch.stack(expected))


def test_the_gradient_of_a_score_is_probability_minus_target() -> None:
    scores = torch.tensor([1.0, -1.0, 0.5], requires_grad=True)
    target = torch.tensor([0.2, 0.5, 0.3])
    soft_cross_entropy(scores, target, torch.zeros(3, dtype=torch.long), 1).sum().backward()
    torch.testing.assert_close(scores.grad, scores.detach().softmax(0) - target)


def test_extreme_scores_stay_finite() -> None:
    scores, row = torch.tensor([1e4, -1e4]), torch.zeros(2, dtype=torch.long)
    assert soft_cross_entropy(scores, torch.tensor([1.0, 0.0]), row, 1).tolist() == [0.0]
    assert soft_cross_entropy(scores, torch.tensor([0.0, 1.0]), row, 1).tolist() == [2e4]


def test_statistics_see_hits_and_the_plateau() -> None:
    row, target = torch.tensor([0, 0, 1, 1]), torch.tensor([1.0, 0.0, 1.0, 0.0])
    right, spread = row_statistics(torch.tensor([2.0, 0.0, 3.0, 3.5]), target, row, 2)
    assert right.tolist() == [True, False]
    assert spread.tolist() == [1.0, 0.25]


def test_micro_batches_add_up_to_the_gradient_of_the_whole_step() -> None:
    """Rows are whole in the loss, so how a step is cut must not matter."""
    rows = _rows(9)
    grads = []
    for most in (4, 100):
        scorer = OptionScorer(tiny_encoder(seed=3).eval())
        torch.nn.init.constant_(scorer.head.weight, 0.1)
        tokenizer = tiny_tokenizer()
        tokens = PairTokenizer(tokenizer.backend_tokenizer, 64)
        batch = Collator(tokens, tokenizer.pad_token_id, micro_options=most)([rows])
        for micro in batch["micro"]:
            (OptionsObjective()(scorer, micro).loss.sum() / batch["rows"]).backward()
        grads.append(torch.cat([p.grad.flatten() for p in scorer.parameters() if p.grad is not None]))
    assert grads[0].abs().max() > 1e-3
    torch.testing.assert_close(grads[0], grads[1], rtol=1e-4, atol=1e-6)


def test_self_distillation_ignores_the_common_direction() -> None:
    torch.manual_seed(0)
    pooled = torch.randn(5, 8)
    torch.testing.assert_close(first_token_loss(pooled * 3 + 100, pooled), torch.zeros(5), atol=1e-5, rtol=0)
    assert float(first_token_loss(-pooled, pooled).mean()) == pytest.approx(2, abs=1e-5)


# --- the model -------------------------------------------------------------------------------------------------------


def test_a_base_keeps_its_lowest_layers_and_gets_a_head_from_the_seed(place: Path) -> None:
    recipe = _recipe(place, base={"model": str(place / "base"), "layers": 1, "freeze_embeddings": True, "dropout": 0.0})
    precision = Precision(torch.float32, float32_attention=False)
    scorer, tokenizer = load_base(recipe, precision)
    whole = AutoModel.from_pretrained(place / "base")
    assert len(scorer.encoder.encoder.layer) == 1
    assert scorer.encoder.encoder.layer[0].output.dense.weight.equal(whole.encoder.layer[0].output.dense.weight)
    assert not any(p.requires_grad for p in scorer.encoder.embeddings.parameters())
    assert scorer.encoder.config.hidden_dropout_prob == 0.0
    torch.rand(3)  # whatever was drawn before
    assert scorer.head.weight.equal(load_base(recipe, precision)[0].head.weight)
    assert tokenizer.pad_token_id == 1


def test_a_pair_checkpoint_as_base_keeps_its_head(place: Path) -> None:
    _train(_recipe(place), place / "run")
    folder = place / "run" / "checkpoint"
    recipe = _recipe(place, base={"model": str(folder)})
    scorer, _ = load_base(recipe, Precision(torch.float32, float32_attention=False))
    loaded = PairEncoder.load(folder, device="cpu")
    prepared = loaded.prepare(render(TEAMS, "택배가 언제 오나요"))
    ids = [torch.tensor([row]) for row in prepared.rows]
    with torch.inference_mode():
        scores = [float(scorer.eval()(row, torch.ones_like(row))) for row in ids]
    assert scores == pytest.approx(loaded.score([prepared])[0].logits, abs=1e-5)


def test_float32_attention_changes_nothing_but_the_precision(place: Path) -> None:
    """Under a bfloat16 autocast it is closer to float32 than plain sdpa is, and without one it is the same."""
    recipe = _recipe(place, base={"model": str(place / "base"), "dropout": 0.0})
    ids = torch.randint(4, 60, (4, 20), generator=torch.Generator().manual_seed(0))
    mask = (torch.arange(20) < torch.tensor([[20], [12], [7], [3]])).long()
    plain = load_base(recipe, Precision(torch.float32, float32_attention=False))[0].eval()
    mixed = load_base(recipe, Precision(torch.bfloat16, float32_attention=True))[0].eval()
    with torch.inference_mode():
        exact = plain.first_token(ids, mask)
        torch.testing.assert_close(mixed.first_token(ids, mask), exact)
        with Precision(torch.bfloat16, float32_attention=True).autocast("cpu"):
            rounded = mixed.first_token(ids, mask)
    assert 0 < float((rounded - exact).abs().mean()) < 0.05


def test_precision_follows_the_hardware(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"amx_bf16": True})
    assert Precision.choose("auto", "cpu") == Precision(torch.bfloat16, float32_attention=True)
    assert Precision.choose("float32", "cpu") == Precision(torch.float32, float32_attention=False)
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict)
    assert Precision.choose("auto", "cpu") == Precision(torch.float32, float32_attention=False)
    assert Precision.choose("bfloat16", "cpu") == Precision(torch.bfloat16, float32_attention=False)
    assert Precision.choose("auto", "mps") == Precision(torch.float32, float32_attention=False)


# --- runs ------------------------------------------------------------------------------------------------------------


def test_a_run_learns_and_leaves_a_checkpoint_with_its_records(place: Path) -> None:
    recipe = _recipe(
        place,
        base={"model": str(place / "base"), "dropout": 0.0, "licence": "CC0"},
        stages=[{"name": "only", "epochs": 8}],
        selection={"source": "holdout", "share": 0.2, "fewest": 1, "every": 20},
    )
    records = _train(recipe, place / "run")
    (stage,) = records["stages"]
    assert stage["curve"][0]["loss"] > 0.3 > stage["dev"]["error"]
    assert stage["steps"] == 56
    best = min(entry["eval_error"] for entry in stage["curve"] if "eval_error" in entry)
    assert stage["dev"]["error"] == best
    assert stage["dev"]["tasks"]["desk"]["baseline"] <= 0.7
    assert records["export"]["fold_difference"] < 1e-6
    assert json.loads((place / "run" / "checkpoint" / "records.json").read_text(encoding="utf-8")) == records

    encoder = PairEncoder.load(place / "run" / "checkpoint", device="cpu")
    question = load_sources(recipe).train["desk"][0].question
    sure = encoder.score([encoder.prepare(render(question, text)) for text in ("카드가 나요 3", "택배가 나요 4")])
    assert [scores.softmax().top for scores in sure] == [0, 1]

    card = (place / "run" / "checkpoint" / "README.md").read_text(encoding="utf-8")
    assert "Base: `base` (CC0)" in card
    assert f"tokens seen: {stage['tokens']:,}" in card
    assert "| desk | accuracy |" in card
    assert "| desk | file rows.csv | 50 | CC0 |" in card


class _Stop(TrainerCallback):
    """Interrupts a stage after some step, as Ctrl-C would."""

    def __init__(self, step: int) -> None:
        self._step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self._step:
            raise KeyboardInterrupt


def _curve(stage: dict[str, Any]) -> list[dict[str, Any]]:
    """Losses, rates and dev results of every log entry; not the clock's."""
    return [
        {name: value for name, value in entry.items() if name not in ("seconds", "tokens_per_second")}
        for entry in stage["curve"]
    ]


@pytest.mark.parametrize(
    ("stopped_in", "step", "source"), [("warm", 1, "none"), ("only", 5, "none"), ("only", 5, "holdout")]
)
def test_an_interrupted_run_resumes_to_the_same_weights(stopped_in: str, step: int, source: str, place: Path) -> None:
    """Bit for bit, with dropout, sampled options and three phrasings: on one CPU thread nothing else is random."""
    task = {
        "file": str(place / "rows.csv"),
        "negatives": 1,
        "phrasings": [{}, {"bare": True}, {"yes_no": ["{label}?"]}],
    }
    stages = [
        {"name": "warm", "objective": "first_token", "steps": 4, "rows": {"desk": 6}},
        {"name": "only", "epochs": 1},
    ]
    selection = {"source": source, "share": 0.2, "fewest": 1, "every": 3}
    recipe = _recipe(place, tasks={"desk": task}, stages=stages, selection=selection)
    whole = _train(recipe, place / "whole")
    stop = {stopped_in: [_Stop(step)]}
    with pytest.raises(KeyboardInterrupt):
        _train(recipe, place / "cut", callbacks=lambda stage: stop.get(stage, []))
    assert not (place / "cut" / "checkpoint").exists()
    resumed = _train(recipe, place / "cut", resume=True)
    for stage in ("1-warm", "2-only"):
        expected, found = _weights(place / "whole", stage), _weights(place / "cut", stage)
        assert all(torch.equal(expected[name], found[name]) for name in expected)
    for one, other in zip(whole["stages"], resumed["stages"], strict=True):
        assert [one[key] for key in ("steps", "tokens", "kept_step", "dev")] == [
            other[key] for key in ("steps", "tokens", "kept_step", "dev")
        ]
        assert [entry["step"] for entry in _curve(one)] == [entry["step"] for entry in _curve(other)]
        assert _curve(one)[-1] == _curve(other)[-1]
    assert whole["export"]["fingerprint"] == resumed["export"]["fingerprint"]


_KILLED = """
    import os, signal, sys
    from pathlib import Path
    import torch
    from transformers import TrainerCallback
    from ko_decision_tools.training.recipe_files import read_recipe
    from ko_decision_tools.training.run import train

    class Kill(TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            if state.global_step == 5:
                os.kill(os.getpid(), signal.SIGKILL)

    train(read_recipe(sys.argv[1]), Path(sys.argv[2]), device="cpu", threads=1, callbacks=lambda stage: [Kill()])
"""


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL on Windows")
def test_a_killed_process_resumes_to_the_same_weights(place: Path) -> None:
    recipe = _recipe(place)
    (place / "recipe.yaml").write_text(yaml.safe_dump(recipe.to_dict(), allow_unicode=True), encoding="utf-8")
    arguments = [sys.executable, "-c", textwrap.dedent(_KILLED), str(place / "recipe.yaml"), str(place / "cut")]
    killed = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=120)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert last_checkpoint(place / "cut" / "stages" / "1-only") is not None
    _train(recipe, place / "whole")
    _train(recipe, place / "cut", resume=True)
    expected, found = _weights(place / "whole"), _weights(place / "cut")
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_a_checkpoint_that_was_cut_short_is_passed_over(tmp_path: Path) -> None:
    for number, state in ((2, "{}"), (4, '{"global'), (10, None)):
        (tmp_path / f"checkpoint-{number}").mkdir()
        if state is not None:
            (tmp_path / f"checkpoint-{number}" / "trainer_state.json").write_text(state)
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-2"
    assert last_checkpoint(tmp_path / "checkpoint-2") is None


def test_a_folder_with_something_else_in_it_is_refused(place: Path) -> None:
    recipe = _recipe(place)
    (place / "run").mkdir()
    (place / "run" / "notes.txt").write_text("mine")
    with pytest.raises(InvalidInputError, match="is not empty"):
        _train(recipe, place / "run")
    _train(recipe, place / "other")
    with pytest.raises(InvalidInputError, match="another seed"):
        _train(recipe.model_copy(update={"seed": 7}), place / "other", resume=True)
    write_rows(place / "rows.csv", 40)
    with pytest.raises(InvalidInputError, match="another set of rows"):
        _train(recipe, place / "other", resume=True)


def test_rates_warm_up_then_fall_to_zero_in_two_groups(place: Path) -> None:
    stages = [{"name": "only", "steps": 20, "rows": {"desk": 2}}]
    seen: list[list[float]] = []

    class Watch(TrainerCallback):
        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, optimizer: Any = None, **_: Any) -> None:
            seen.append([group["lr"] for group in optimizer.param_groups])

    recipe = _recipe(place, stages=stages, optimizer={"encoder_lr": 1e-5, "head_lr": 1e-4, "warmup": 0.1})
    _train(recipe, place / "run", callbacks=lambda stage: [Watch()])
    encoder = [rates[0] for rates in seen]
    assert encoder[:3] == pytest.approx([0.0, 0.5e-5, 1e-5])
    assert encoder[-1] == pytest.approx(1e-5 / 18)
    assert all(rates[1] == pytest.approx(10 * rates[0]) for rates in seen)
    assert all(len(rates) == 2 for rates in seen)


def test_frozen_embeddings_stay_and_everything_else_moves(place: Path) -> None:
    recipe = _recipe(place, base={"model": str(place / "base"), "freeze_embeddings": True})
    _train(recipe, place / "run")
    before, after = AutoModel.from_pretrained(place / "base").state_dict(), _weights(place / "run")
    matrices = {name: value for name, value in after.items() if name.startswith("encoder.") and value.dim() == 2}
    assert len(matrices) == 15
    for name, value in matrices.items():
        inner = name.removeprefix("encoder.")
        assert torch.equal(value, before[inner]) == inner.startswith("embeddings."), name


def test_a_second_stage_goes_on_from_the_first(place: Path) -> None:
    stages = [{"name": "one", "epochs": 1}, {"name": "two", "steps": 1, "rows": {"desk": 1}}]
    _train(_recipe(place, stages=stages, optimizer={"encoder_lr": 1e-3, "warmup": 0.5}), place / "run")
    one, two = _weights(place / "run", "1-one"), _weights(place / "run", "2-two")
    # With half of one step as warm-up the only step has rate 0: the second stage is the first one's weights.
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_self_distillation_brings_the_first_token_to_the_mean(place: Path) -> None:
    warm = {"name": "warm", "objective": "first_token", "steps": 60, "rows": {"desk": 16}}
    base = {"model": str(place / "base"), "dropout": 0.0}
    recipe = _recipe(place, base=base, stages=[warm], optimizer={"encoder_lr": 3e-3, "decay": "none"})
    curve = _train(recipe, place / "run")["stages"][0]["curve"]
    assert curve[-1]["loss"] < 0.7 * curve[0]["loss"]
    teacher = AutoModel.from_pretrained(place / "base").eval()
    ids, mask = torch.randint(4, 60, (2, 9)), torch.ones(2, 9, dtype=torch.long)
    mask[1, 5:] = 0
    by_hand = teacher(input_ids=ids[1:, :5]).last_hidden_state[0].mean(0)
    torch.testing.assert_close(mean_pooled(teacher, ids, mask)[1], by_hand, atol=1e-5, rtol=1e-4)


def test_a_loss_that_is_not_finite_stops_the_run(place: Path) -> None:
    recipe = _recipe(place, optimizer={"encoder_lr": 1e30, "head_lr": 1e30, "warmup": 0.0, "clip": 1e30})
    with pytest.raises(EncoderError, match="the loss became"):
        _train(recipe, place / "run")


def test_an_unfinished_run_can_be_exported(place: Path) -> None:
    recipe = _recipe(place)
    with pytest.raises(KeyboardInterrupt):
        _train(recipe, place / "run", callbacks=lambda stage: [_Stop(5)])
    records = export_run(place / "run", place / "out", dtype="float32")
    assert records["stages"] == []
    assert "none finished" in (place / "out" / "README.md").read_text(encoding="utf-8")
    state = load_file(place / "run" / "stages" / "1-only" / "checkpoint-4" / "model.safetensors")
    exported = load_file(place / "out" / "model.safetensors")
    name = "encoder.layer.0.output.dense.weight"
    assert torch.equal(exported[f"bert.{name}"], state[f"encoder.{name}"])
    with pytest.raises(CheckpointNotFoundError, match="holds no weights of a run"):
        export_run(place / "base", place / "elsewhere")


# --- choosing the weights --------------------------------------------------------------------------------------------


def test_the_selection_measure_is_the_cards() -> None:
    tokenizer = tiny_tokenizer()
    tokens = PairTokenizer(tokenizer.backend_tokenizer, 64)
    levels = Score(instructions="얼마나?", criteria=[f"단계 {level}" for level in range(6)])
    examples = {
        "choice": [_example(TEAMS, gold, number=gold) for gold in (0, 0, 1, 2)],
        "score": [_example(levels, 3, value=3.4), _example(levels, 1, number=1, value=1.0)],
    }
    results = DevRows(examples, tokens, 1).measure(lambda ids, mask: torch.zeros(len(ids)))
    # All scores equal: the first option wins, and the expected level is the middle one, 2.5.
    assert results["choice"].value == 0.5
    assert results["choice"].baseline == 0.5
    assert results["score"].value == pytest.approx((0.9 + 1.5) / 2)
    assert results["score"].baseline == pytest.approx(1.2)
    assert mean_error(results) == pytest.approx((0.5 + 1.2 / 5) / 2)


# --- the card --------------------------------------------------------------------------------------------------------


def test_a_card_shows_numbers_beside_the_majority_and_what_was_not_measured() -> None:
    result = {"task": "klue_ynat", "metric": "accuracy", "value": 0.827, "rows": 4460, "baseline": 0.406}
    card = render_card(
        {
            "name": "mini",
            "base": {"model": "me5-small-ko", "layers": 8, "licence": "MIT"},
            "licence": "CC BY-SA 4.0",
            "data": [{"task": "klue_ynat", "source": "suite klue, train", "rows": 44931, "licence": "CC BY-SA 4.0"}],
            "results": [{**result, "interval": [0.81, 0.84], "on": "dev"}, {**result, "metric": "mae", "value": 0.61}],
            "limits": ["NLI is not learned."],
        }
    )
    assert "| klue_ynat | accuracy | 82.7% | 81.0% – 84.0% | 40.6% | 4,460 | dev |" in card
    assert "| klue_ynat | mae | 0.610 | not measured | 0.406 | 4,460 |  |" in card
    assert "license: cc-by-sa-4.0" in card
    assert "- NLI is not learned." in card
    assert "its lowest 8 layers (MIT)" in card


def test_a_card_refuses_what_it_does_not_know() -> None:
    with pytest.raises(InvalidInputError, match=r"records\.accuracy"):
        render_card({"name": "mini", "base": {"model": "m"}, "data": [], "accuracy": 0.9})


def test_a_phrasing_without_anything_is_the_question_itself() -> None:
    assert _maker(TEAMS, 0).make(0, 0, Random(0)).prompt == render(TEAMS, "문의 0번입니다")
    assert Phrasing() == Phrasing.model_validate({})


# --- the commands ----------------------------------------------------------------------------------------------------


def test_one_command_fine_tunes_on_a_csv_and_another_exports_again(place: Path) -> None:
    (place / "routes.yaml").write_text("question: 어느 팀인가?\nroutes: {결제: 카드, 배송: 택배}\n", encoding="utf-8")
    out, base = str(place / "run"), str(place / "base")
    arguments = [
        "--data",
        str(place / "rows.csv"),
        "--routes",
        str(place / "routes.yaml"),
        "--base",
        base,
        "--out",
        out,
    ]
    done = run("train", *arguments, "--device", "cpu", "--num-threads", "1", "--dtype", "float32")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.strip() == str(place / "run" / "checkpoint")
    records = json.loads((place / "run" / "checkpoint" / "records.json").read_text(encoding="utf-8"))
    assert records["rows"]["train"] == {"rows": 60}
    again = run("export", out, "--out", str(place / "half"))
    assert again.exit_code == 0, again.stderr
    encoder = PairEncoder.load(place / "half", device="cpu")
    other = PairEncoder.load(place / "run" / "checkpoint", device="cpu")
    prompt = render(TEAMS, "택배가 언제 오나요")
    scores = [each.score([each.prepare(prompt)])[0].softmax().probabilities for each in (encoder, other)]
    assert scores[0] == pytest.approx(scores[1], abs=5e-3)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "recipe is missing"),
        (["--routes", "routes.yaml"], "--data is missing"),
        (["nowhere.yaml"], "recipe is no file"),
        (["--data", "rows.csv", "--routes", "routes.yaml", "-q", "어디?"], "--question does not go with --routes"),
    ],
)
def test_misuse_of_train_is_one_line_and_exit_code_2(arguments: list[str], said: str, tmp_path: Path) -> None:
    done = run("train", *arguments, "--out", str(tmp_path / "run"))
    assert done.exit_code == 2
    assert said in done.stderr
    assert not (tmp_path / "run").exists()
