"""From rows to routed rows. A row that cannot be judged is escalated with the reason; only a failing model raises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ko_decision_tools.cli.sheets import Routed
from ko_decision_tools.cli.tables import Row
from ko_decision_tools.errors import EncoderError, InvalidInputError

if TYPE_CHECKING:
    from ko_decision_tools.router import DecisionRouter, RouteResult


def route_rows(router: DecisionRouter, rows: Sequence[Row]) -> list[Routed]:
    """Route rows in shared batches, in order.

    Args:
        router: One with ``on_error="raise"``, so that errors can be told from abstaining.
        rows: Any rows; those with a ``problem`` are escalated unseen.

    Raises:
        EncoderError: Scoring failed for every row: that is the model's fault, not a row's.
        KoDecisionError: Whatever else the router raises that does not lie in a row.
    """
    sound = [row for row in rows if row.problem is None]
    outcomes: list[RouteResult | BaseException] = list(
        router.batch([row.text for row in sound], return_exceptions=True)
    )
    _raise_what_no_row_caused(outcomes)
    found = iter(outcomes)
    escalate_to = router.table.escalate_to
    return [
        _broken(row, row.problem, escalate_to) if row.problem is not None else _routed(row, next(found), escalate_to)
        for row in rows
    ]


def _raise_what_no_row_caused(outcomes: Sequence[object]) -> None:
    for outcome in outcomes:
        # batch returns everything that was raised, a Ctrl-C included
        if isinstance(outcome, BaseException) and not isinstance(outcome, InvalidInputError | EncoderError):
            raise outcome
    if outcomes and all(isinstance(outcome, EncoderError) for outcome in outcomes):
        raise outcomes[0]  # type: ignore[misc]


def _routed(row: Row, outcome: RouteResult | BaseException, escalate_to: str) -> Routed:
    if isinstance(outcome, InvalidInputError):
        return _broken(row, f"{outcome.field} {outcome.problem}", escalate_to)
    if isinstance(outcome, BaseException):
        return Routed(row, escalate_to, (f"model: {outcome}",))
    decision = outcome.decision
    assert decision is not None  # a result without one is an error, and those were raised
    return Routed(
        row,
        outcome.route,
        outcome.reasons,
        decision.top_probability,
        decision.probabilities,
        cut=decision.provenance.truncation is not None,
    )


def _broken(row: Row, problem: str, escalate_to: str) -> Routed:
    return Routed(row, escalate_to, (f"row: line {row.line}: {problem}",))
