"""Labelled texts in, scored records out: what lets ``ko-decision fit`` start from a CSV."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ko_decision_tools.cli.tables import Row, Table
from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.records import Record

if TYPE_CHECKING:
    from ko_decision_tools.decisions import Decision
    from ko_decision_tools.model import KoDecisionModel
    from ko_decision_tools.questions import Choice
    from ko_decision_tools.router.table import RoutingTable

CHUNK: Final = 64
_TEXT: Final = 200


@dataclass(frozen=True, slots=True)
class Labels:
    """Which rows have a label, and which route it names.

    Attributes:
        gold: The labelled rows that can be judged, each with its route's index, or ``None`` when no route has its name.
        strange: Those labels, counted.
        unlabelled: Rows without a label.
        broken: Rows without a usable text.
    """

    gold: tuple[tuple[Row, int | None], ...]
    strange: Counter[str]
    unlabelled: int
    broken: int

    @classmethod
    def of(cls, source: Table, column: str, routing: RoutingTable) -> Labels:
        """Compare labels to route names, in NFC and without outer spaces.

        Raises:
            InvalidInputError: There is no such column, or no label names a route.
        """
        source.check_column(column, "--label-column")
        index = {_plain(route.label): place for place, route in enumerate(routing.routes)}
        labels = {row.number: _plain(row.values.get(column)) for row in source.rows if row.problem is None}
        usable = [row for row in source.rows if labels.get(row.number)]
        gold = tuple((row, index.get(labels[row.number])) for row in usable)
        if all(place is None for _, place in gold):
            routes = ", ".join(route.label for route in routing.routes)
            fix = f"Pass --label-column, or correct the labels; the routes are: {routes}."
            raise InvalidInputError(source.name, f"names no route in its column {column!r}", fix)
        strange = Counter(labels[row.number] for row, place in gold if place is None)
        broken = len(source.rows) - len(labels)
        return cls(gold, strange, len(labels) - len(usable), broken)


def score(
    model: KoDecisionModel, routing: RoutingTable, labels: Labels, advance: Callable[[int], None]
) -> list[Record]:
    """One record per labelled row, scored as ``ko-decision route`` would score it.

    Rows of one text are one group. A row that cannot be scored is left out: there is no record of it.

    Raises:
        InvalidInputError: A route is longer than the model reads.
        EncoderError: A forward pass failed.
    """
    choice = routing.to_choice()
    model.plan("글", choice)  # a route that is too long fails here once, not in every row
    records = []
    for start in range(0, len(labels.gold), CHUNK):
        chunk = labels.gold[start : start + CHUNK]
        for (row, gold), decision in zip(chunk, _decide(model, choice, [row.text for row, _ in chunk]), strict=True):
            if decision is not None:
                records.append(_record(row, gold, decision, routing.task))
        advance(len(chunk))
    return records


def _decide(model: KoDecisionModel, choice: Choice, texts: Sequence[str]) -> list[Decision | None]:
    """All at once; if one of them is refused, one by one, ``None`` for those that are."""
    try:
        return list(model.decide_many(texts, choice))
    except InvalidInputError:
        if len(texts) == 1:
            return [None]
    return [_decide(model, choice, [text])[0] for text in texts]


def _record(row: Row, gold: int | None, decision: Decision, task: str | None) -> Record:
    return Record(
        id=f"line {row.line}",
        group=row.text,
        task=task or "",
        type="choice",
        labels=decision.labels,
        scores=decision.logits,
        gold=gold,
        text=row.text[:_TEXT],
    )


def _plain(label: object) -> str:
    return "" if label is None else unicodedata.normalize("NFC", str(label)).strip()
