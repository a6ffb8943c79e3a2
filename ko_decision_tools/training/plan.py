"""Which rows each step of a stage trains on: drawn up beforehand, from the seed alone.

A plan is a list of steps, a step a list of draws. So the position in the data is the number of the step, which is all
that a resumed run has to know; and a row is drawn with the same phrasing and the same sampled options again, because
its generator is seeded by its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.training.recipe import Recipe, Stage
from ko_decision_tools.training.rows import RowMaker, TrainingRow


@dataclass(frozen=True, slots=True)
class Draw:
    """One use of one row: its task, its place among the task's rows, and how often it was used before."""

    task: str
    index: int
    turn: int


Plan = Sequence[Sequence[Draw]]


def plan_stage(recipe: Recipe, stage: Stage, rows: Mapping[str, int]) -> Plan:
    """The steps of a stage.

    Stages of epochs shuffle all rows of their tasks anew for each epoch and cut them into steps of ``batch_rows`` (the
    last step of an epoch may be smaller: no row is dropped). Stages of steps take each task's rows in a shuffled order,
    shuffled anew when they run out.

    Args:
        recipe: Gives the seed and the rows of a step.
        stage: What to plan.
        rows: Number of rows of each task.

    Example:
        >>> from ko_decision_tools.training.recipe_files import read_recipe
        >>> recipe = read_recipe("roberta-large")
        >>> plan = plan_stage(recipe, recipe.stages[0], dict.fromkeys(recipe.tasks, 10))
        >>> len(plan), len(plan[0]), len(plan[1])
        (8, 32, 18)
    """
    rng = Random(f"{recipe.seed}/{stage.name}")
    tasks = {name: rows[name] for name in recipe.tasks_of(stage)}
    if stage.epochs is not None:
        return [step for turn in range(stage.epochs) for step in _epoch(tasks, turn, recipe.batch_rows, rng)]
    cycles = {name: _cycle(name, count, rng) for name, count in tasks.items()}
    return [_mixed_step(cycles, stage.rows, rng) for _ in range(stage.steps or 0)]


def _epoch(tasks: Mapping[str, int], turn: int, size: int, rng: Random) -> Iterator[list[Draw]]:
    draws = [Draw(name, index, turn) for name, count in tasks.items() for index in range(count)]
    rng.shuffle(draws)
    for start in range(0, len(draws), size):
        yield draws[start : start + size]


def _cycle(name: str, count: int, rng: Random) -> Iterator[Draw]:
    order, turn = list(range(count)), 0
    while True:
        rng.shuffle(order)
        yield from [Draw(name, index, turn) for index in order]
        turn += 1


def _mixed_step(cycles: Mapping[str, Iterator[Draw]], shares: Mapping[str, float], rng: Random) -> list[Draw]:
    """``2.5`` rows are two or three, half and half; a step that would be empty takes one row of the first task."""
    draws = []
    for name, cycle in cycles.items():
        whole, part = divmod(shares[name], 1)
        draws += [next(cycle) for _ in range(int(whole) + (rng.random() < part))]
    return draws or [next(next(iter(cycles.values())))]


class PlannedRows:
    """A plan as a data set: item ``i`` is the list of rows of step ``i``.

    Args:
        plan: The steps.
        makers: Makes the rows of each task.
        seed: Of the recipe.
        stage: The stage's name; two stages draw differently.
    """

    def __init__(self, plan: Plan, makers: Mapping[str, RowMaker], seed: int, stage: str) -> None:
        self._plan, self._makers, self._seed, self._stage = plan, makers, seed, stage

    def __len__(self) -> int:
        return len(self._plan)

    def __getitem__(self, step: int) -> list[TrainingRow]:
        return [self._row(draw) for draw in self._plan[step]]

    def _row(self, draw: Draw) -> TrainingRow:
        rng = Random(f"{self._seed}/{self._stage}/{draw.task}/{draw.index}/{draw.turn}")
        try:
            return self._makers[draw.task].make(draw.index, draw.turn, rng)
        except InvalidInputError as error:
            where = f"tasks.{draw.task}, row {draw.index + 1}: {error.field}"
            raise InvalidInputError(where, error.problem, error.fix, value=error.value) from error
