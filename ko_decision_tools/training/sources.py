"""A recipe's tasks as examples: training rows from their source, and rows to choose a checkpoint by.

Training rows come from files and suites' ``train`` splits alone. Dev rows are read only to choose between checkpoints,
and only when the recipe says so; test rows are never read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.questions import Question, parse_question
from ko_decision_tools.router.table import load_routing_table
from ko_decision_tools.suites import Example, draw, load_file, load_suite
from ko_decision_tools.suites.base import build, digest
from ko_decision_tools.suites.own import SPLIT
from ko_decision_tools.suites.rows import label_example
from ko_decision_tools.suites.tables import read_rows
from ko_decision_tools.training.recipe import Recipe, Task

_HAVE_DEV_ROWS = ("klue", "kobest", "typed-decisions")
_BUCKETS = 10_000


@dataclass(frozen=True, slots=True)
class Sources:
    """The examples of every task of a recipe.

    Attributes:
        train: Rows to train on.
        dev: Rows to choose a checkpoint by; none of them is among ``train``, and neither is another row of its group.
    """

    train: Mapping[str, Sequence[Example]]
    dev: Mapping[str, Sequence[Example]]

    @property
    def fingerprint(self) -> str:
        """12 hex digits that change with the rows: a run is only resumed on the rows it began with."""
        parts = (self.train, self.dev)
        return digest(
            "\n".join(f"{name} {e.id} {e.gold}" for part in parts for name, rows in part.items() for e in rows)
        )


def load_sources(recipe: Recipe, data_dir: Path | None = None) -> Sources:
    """Read every task that a stage of the recipe trains on.

    Args:
        recipe: Its tasks' files are looked for under ``data_dir``, else as they are written.
        data_dir: Folder with the suites' files (in a folder of the suite's name, or directly); ``None``: the hub's.

    Raises:
        InvalidInputError: A source cannot be read, or has no rows that can be trained on.
    """
    used = [name for name in recipe.tasks if any(name in recipe.tasks_of(stage) for stage in recipe.stages)]
    train, dev = {}, {}
    for name in used:
        train[name], dev[name] = _task_rows(name, recipe, data_dir)
        if not train[name]:
            raise InvalidInputError(f"tasks.{name}", "has no rows to train on", "Check its source and its limit.")
    return Sources(train, {name: rows for name, rows in dev.items() if rows})


def split_by_group(examples: Sequence[Example], share: float) -> tuple[list[Example], list[Example]]:
    """Examples to keep, and about ``share`` of the groups set aside: the same ones on every machine.

    Two tasks that share a group (a business's routes and its urgency) agree on where it goes.
    """
    kept: list[Example] = []
    aside: list[Example] = []
    for example in examples:
        place = int(digest(example.group), 16) % _BUCKETS
        (aside if place < share * _BUCKETS else kept).append(example)
    return kept, aside


def _task_rows(name: str, recipe: Recipe, data_dir: Path | None) -> tuple[list[Example], list[Example]]:
    task, selection = recipe.tasks[name], recipe.selection
    rows = _examples(name, task, data_dir, "train")
    dev: list[Example] = []
    if selection.source == "dev" and task.suite in _HAVE_DEV_ROWS:
        dev = _examples(name, task, data_dir, "dev")
    elif selection.source != "none":
        kept, aside = split_by_group(rows, selection.share)
        if len(_measurable(aside)) >= selection.fewest:
            rows, dev = kept, aside
    dev = _measurable(dev)
    return draw(rows, task.limit) if task.limit else rows, draw(dev, selection.limit) if dev else []


def _measurable(examples: Sequence[Example]) -> list[Example]:
    return [example for example in examples if example.gold is not None or example.value is not None]


def _examples(name: str, task: Task, data_dir: Path | None, split: str) -> list[Example]:
    if task.suite is not None:
        return load_suite(task.suite, _suite_folder(task.suite, data_dir), split=split, tasks=[name])
    assert task.file is not None  # the recipe's own check: one of the two
    path, question = _find(task.file, data_dir), _file_question(task, data_dir)
    if question is None:
        examples = load_file(
            path,
            instructions=task.instructions,
            task=name,
            text_column=task.text_column,
            label_column=task.label_column,
            encoding=task.encoding,
        )
    else:  # load_file takes a column called "question" for whole questions; here it may be the text
        make = partial(
            label_example,
            task=name,
            split=SPLIT,
            question=question,
            text=task.text_column,
            label=task.label_column,
            unknown="none" if task.routes else "error",
        )
        examples = list(build(read_rows(path, encoding=task.encoding), make, str(path)))
    if any(example.split not in (SPLIT, "train") for example in examples):
        raise InvalidInputError(str(path), "is not a training file", "Train on rows that nothing is measured on.")
    return examples


def _file_question(task: Task, data_dir: Path | None) -> Question | None:
    """What is asked about a file's texts; nothing when its own labels decide."""
    if task.question is not None:
        return parse_question(task.question)
    return None if task.routes is None else load_routing_table(_find(task.routes, data_dir)).to_choice()


def _suite_folder(suite: str, data_dir: Path | None) -> Path | None:
    """The suite's folder in the data folder; the package's own for the tickets, unless there is one."""
    if data_dir is None:
        return None
    inside = data_dir / suite
    if inside.is_dir():
        return inside
    return None if suite == "tickets" else data_dir


def _find(path: Path, data_dir: Path | None) -> Path:
    inside = data_dir / path if data_dir is not None else path
    return inside if inside.exists() else path
