"""Typed decisions: the four workflows' rows (``LocalLLaMA/typed-decisions`` on the hub) and files of the same form.

A row is a case: ``state``, ``questions`` (``{id: {type, instructions, criteria}}``) and ``gold``
(``{id: {"label", "probabilities": {label: p}}}``), each as JSON or as a string that holds JSON, with ``id`` and
``workflow``. A row with one ``question`` is read as in :mod:`~ko_decision_tools.suites.rows`. The soft gold is a
teacher's opinion and ``gold`` its argmax: hard-label calibration measures are not valid on it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.suites.base import Example, Row, Suite, build_one
from ko_decision_tools.suites.rows import row_example
from ko_decision_tools.suites.tables import find_files, hub_rows, read_rows

HUB = "LocalLLaMA/typed-decisions"
TASK = "typed_decisions"


def read(folder: Path | None, split: str, tasks: Sequence[str]) -> Iterator[Example]:
    """One example per question of each case, grouped by case; the workflow is the task; see :func:`load_suite`."""
    rows = hub_rows(HUB, "all", split) if folder is None else _rows(folder, split)
    wanted = {task if task.startswith("typed_") else f"typed_{task}" for task in tasks}
    make = partial(row_example, task=TASK, split=split)
    for number, row in enumerate(rows, start=1):
        for question in _questions(row, number):
            example = build_one(question, number, make, f"{TASK}, row {number}")
            if not wanted or example.task in wanted:
                yield example


TYPED_DECISIONS = Suite("typed-decisions", ("test", "train", "dev"), (), read)


def _rows(folder: Path, split: str) -> list[dict[str, Any]]:
    files = find_files(folder, [f"{split}.jsonl", f"{split}-*.jsonl", f"{split}-*.parquet", f"{split}.parquet"])
    merged = [file for file in files if file.parent.name == "all"]  # it repeats the four workflows
    return [row for file in merged or files for row in read_rows(file)]


def _questions(row: Row, number: int) -> Iterator[Row]:
    """A case as one row per question; a row with a single question as it is.

    Raises:
        InvalidInputError: ``questions`` or ``gold`` is not an object.
    """
    row = {**row, "state": _state(row.get("state"))}
    if "questions" not in row:
        yield row
        return
    questions, golds = _object(row, "questions", number), _object(row, "gold", number)
    case = str(row.get("id") or f"case-{number:05d}")
    for key, question in questions.items():
        gold = golds.get(key) or {}
        yield {
            "id": f"{case}/{key}",
            "group": case,
            "task": f"typed_{row['workflow']}" if row.get("workflow") else TASK,
            "state": row["state"],
            "question": question,
            "gold": gold.get("label"),
            "soft_gold": gold.get("probabilities"),
        }


def _object(row: Row, name: str, number: int) -> Mapping[str, Any]:
    found = _parsed(row.get(name) or {})
    if not isinstance(found, Mapping):
        raise InvalidInputError(
            f"{TASK}, row {number}: {name}", "is not an object", "Write {question id: …}.", value=row[name]
        )
    return found


def _state(raw: object) -> object:
    """A JSON object or list that was stored as a string is nested again; any other text stays text."""
    if isinstance(raw, str) and raw.lstrip()[:1] in ("{", "[", '"'):
        parsed = _parsed(raw)
        return raw if parsed is None else parsed
    return raw


def _parsed(raw: object) -> Any:
    if not isinstance(raw, str):
        return raw
    try:
        return json.loads(raw)
    except ValueError:
        return None
