"""Tickets: this package's own hand-written support tickets, one YAML file per business, split by business.

Written for this project, not collected (CC0). Each business has its own routes with descriptions, four levels of
urgency and two yes/no questions; tickets that fit no route have ``gold=None``. Test businesses are never trained on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.questions import Choice, Noul, Question, Score
from ko_decision_tools.suites.base import Example, Row, Suite, build
from ko_decision_tools.suites.tables import find_files

FOLDER = Path(__file__).parent / "tickets"
URGENCY = "이 문의는 얼마나 급한가?"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C one is ten times faster, where PyYAML was built with it


def read(folder: Path | None, split: str, tasks: Sequence[str]) -> Iterator[Example]:
    """The examples of ``tickets_route``, ``tickets_urgency`` and ``tickets_yesno``; see :func:`load_suite`.

    Args:
        folder: Other businesses in the same form; ``None`` for the package's own.
    """
    for file in find_files(folder or FOLDER, ["*.yaml"]):
        business = _business(file)
        if business.get("split") == split:
            yield from (example for example in _examples(business, file) if example.task in tasks)


TICKETS = Suite("tickets", ("test", "train"), ("tickets_route", "tickets_urgency", "tickets_yesno"), read)


def _business(file: Path) -> Mapping[str, Any]:
    try:
        raw = yaml.load(file.read_text(encoding="utf-8"), Loader=_LOADER)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidInputError(str(file), f"cannot be read ({error})", "Correct the file.") from error
    if not isinstance(raw, Mapping):
        raise InvalidInputError(str(file), "is not a mapping", "Write business, split, question, routes, … tickets.")
    return raw


def _examples(business: Mapping[str, Any], file: Path) -> Iterator[Example]:
    try:
        name, split, tickets = str(business["business"]), str(business["split"]), list(business["tickets"])
        route = Choice(instructions=business["question"], criteria=business["routes"])
        urgency = Score(instructions=URGENCY, criteria=business["urgency"])
        asked = [Noul(instructions=question) for question in business["yes_no"]]
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(str(file), f"is not a business ({error})", "Compare it with its neighbours.") from None
    labels = list(route.criteria)

    def example(row: Row, number: int, task: str, question: Question, gold: int | None, part: str = "") -> Example:
        return Example(f"{task}/{name}-{number:03d}{part}", name, task, row["text"], question, gold, None, None, split)

    def routed(row: Row, number: int) -> Example:
        gold = None if row["route"] is None else labels.index(row["route"])
        return example(row, number, "tickets_route", route, gold)

    def rated(row: Row, number: int) -> Example:
        level = range(len(urgency.criteria))[row["urgency"]]
        return example(row, number, "tickets_urgency", urgency, level)

    yield from build(tickets, routed, str(file))
    yield from build(tickets, rated, str(file))
    for index, question in enumerate(asked):

        def answered(row: Row, number: int, index: int = index, question: Noul = question) -> Example:
            return example(row, number, "tickets_yesno", question, int(row["yes_no"][index]), f"-{index + 1}")

        yield from build(tickets, answered, str(file))
