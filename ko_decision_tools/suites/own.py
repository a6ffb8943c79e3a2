"""The caller's own file: a CSV, TSV, JSON or JSONL of texts with labels, or of states with questions and gold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.questions import Choice, Question, parse_question
from ko_decision_tools.suites.base import Example, Row, build, unique
from ko_decision_tools.suites.rows import label_example, row_example
from ko_decision_tools.suites.tables import read_rows

INSTRUCTIONS = "다음 글에 가장 알맞은 것을 고르라."
SPLIT = "own"


def load_file(
    path: Path,
    *,
    question: Question | None = None,
    routes: Mapping[str, str | None] | None = None,
    instructions: str = INSTRUCTIONS,
    task: str | None = None,
    text_column: str = "text",
    label_column: str = "label",
    unknown_label: Literal["error", "none"] = "error",
    encoding: str = "utf-8",
) -> list[Example]:
    """Read a file of labelled rows; :mod:`~ko_decision_tools.suites.rows` describes them.

    Args:
        path: A ``.csv``, ``.tsv``, ``.json``, ``.jsonl`` or ``.parquet`` file. Rows that hold their question need
            nothing else.
        question: What is asked about every text; overrides ``routes`` and ``instructions``.
        routes: Label to description. Without it the options are the file's own labels, sorted, without descriptions.
        instructions: The question's text when it is made from labels.
        task: The task's name; the file's name without its ending by default.
        text_column: Column of the text.
        label_column: Column of the label; an empty label means that no option is right.
        unknown_label: What a label that is no option means: a mistake, or that no option is right.
        encoding: ``"utf-8"`` (with or without a byte-order mark), ``"cp949"``, …

    Raises:
        InvalidInputError: The file or a row of it cannot be used; the row is named.
    """
    rows = read_rows(path, encoding=encoding)
    if not rows:
        raise InvalidInputError(str(path), "has no rows", "Give it a header and at least one row.")
    name = task or path.stem
    if "question" in rows[0]:
        if question is not None or routes is not None:
            fix = "Leave out the other question or the routing table."
            raise InvalidInputError(str(path), "holds its own questions", fix)
        return unique(build(rows, partial(row_example, task=name, split=SPLIT), str(path)))
    asked = question or _choice(rows, routes, instructions, label_column, path)
    make = partial(
        label_example,
        task=name,
        split=SPLIT,
        question=asked,
        text=text_column,
        label=label_column,
        unknown=unknown_label,
    )
    return unique(build(rows, make, str(path)))


def _choice(
    rows: Sequence[Row], routes: Mapping[str, str | None] | None, instructions: str, column: str, path: Path
) -> Question:
    if routes is None:
        labels = {str(row[column]).strip() for row in rows if row.get(column) is not None}
        routes = dict.fromkeys(sorted(labels - {""}))
    if not routes:
        fix = f"Name the label column; the file has {', '.join(map(str, rows[0]))}."
        raise InvalidInputError(str(path), f"has no labels in {column!r}", fix)
    return parse_question(Choice(instructions=instructions, criteria=dict(routes)), field=str(path))
