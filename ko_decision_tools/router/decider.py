"""From inputs to destinations: what the router does once LangChain's plumbing and the escalation are taken away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

from langchain_core.decisions import State

from ko_decision_tools.decisions import Decision
from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.model import KoDecisionModel
from ko_decision_tools.policy import MinTopProbability, Reading, check_probability
from ko_decision_tools.router.result import RouteResult
from ko_decision_tools.router.table import RoutingTable
from ko_decision_tools.router.text import routed_text

logger = logging.getLogger(__name__)


class RouteDecider:
    """Decides for many inputs at once; each gets a result, or with ``on_error="raise"`` the error it met.

    Args:
        model: What decides.
        table: The question, the routes and where unsure texts go.
        text_key: Key of a graph's state that holds the text; ``None`` reads the newest human message.
        on_error: ``"escalate"`` or ``"raise"``.
    """

    def __init__(
        self,
        model: KoDecisionModel,
        table: RoutingTable,
        *,
        text_key: str | None,
        on_error: Literal["escalate", "raise"],
    ) -> None:
        self._model, self._table, self._text_key, self._on_error = model, table, text_key, on_error
        self._choice = table.to_choice()
        self._route_of = {route.label: route for route in table.routes}

    def decide(self, inputs: Sequence[Any], bar: float | None) -> list[Exception | RouteResult]:
        """One result per input, scored in shared batches.

        Args:
            inputs: Texts, conversations or graph states.
            bar: The top probability demanded in this call, over every other bar; ``None`` leaves those.
        """
        _check_bar(bar)
        return self._results(self._outcomes(inputs), bar)

    async def adecide(self, inputs: Sequence[Any], bar: float | None) -> list[Exception | RouteResult]:
        """:meth:`decide` off the event loop; a lone input joins the micro-batch of its neighbours."""
        _check_bar(bar)
        if len(inputs) == 1:
            return self._results([await self._aoutcome(inputs[0])], bar)
        return self._results(await asyncio.to_thread(self._outcomes, inputs), bar)

    # -- from an input to a decision or the error it met -----------------------------------------------------------

    def _outcomes(self, inputs: Sequence[Any]) -> list[Decision | Exception]:
        states = [self._state(value) for value in inputs]
        decided = iter(self._decide_all([state for state in states if not isinstance(state, Exception)]))
        return [state if isinstance(state, Exception) else next(decided) for state in states]

    async def _aoutcome(self, value: Any) -> Decision | Exception:
        state = self._state(value)
        if isinstance(state, Exception):
            return state
        try:
            return await self._model.adecide(state, self._choice, **self._demands())
        except Exception as error:  # reported by _failed: escalated and logged, or raised
            return error

    def _decide_all(self, states: Sequence[State]) -> list[Decision | Exception]:
        """All together; when that fails, half by half, so that one bad text costs the others little."""
        try:
            return list(self._model.decide_many(states, self._choice, **self._demands()))
        except Exception as error:  # reported by _failed: escalated and logged, or raised
            if len(states) == 1:
                return [error]
            half = len(states) // 2
            return [*self._decide_all(states[:half]), *self._decide_all(states[half:])]

    def _state(self, value: Any) -> State | InvalidInputError:
        try:
            return routed_text(value, self._text_key)
        except InvalidInputError as error:
            return error

    def _demands(self) -> dict[str, Any]:
        # The bar depends on which route is on top, so it is applied to the decision afterwards.
        policy = {} if self._table.policy is None else {"policy": self._table.policy}
        return {"task": self._table.task, "min_top_probability": 0.0} | policy

    # -- from a decision to a destination ----------------------------------------------------------------------------

    def _results(self, outcomes: Iterable[Decision | Exception], bar: float | None) -> list[Exception | RouteResult]:
        return [
            self._failed(outcome) if isinstance(outcome, Exception) else self._judged(outcome, bar)
            for outcome in outcomes
        ]

    def _judged(self, decision: Decision, bar: float | None) -> RouteResult:
        route = self._route_of[decision.label]
        bars = (bar, route.min_top_probability, self._table.min_top_probability, self._model.min_top_probability)
        reading = Reading(decision.kind, decision.top_probability, decision.margin, None, decision.calibrated)
        rule = MinTopProbability(next(value for value in bars if value is not None))
        reasons = (*rule.reasons(reading), *decision.reasons)
        decision = replace(decision, reasons=reasons)
        if reasons:
            return RouteResult(self._table.escalate_to, decision=decision, reasons=reasons)
        return RouteResult(route.label, decision=decision, answer=route.answer)

    def _failed(self, error: Exception) -> Exception | RouteResult:
        if self._on_error == "raise":
            return error
        return escalate_failure(error, self._table.escalate_to)


def escalate_failure(error: Exception, escalate_to: str) -> RouteResult:
    """A failure as an escalation, logged with its reason; a bug or a broken encoder with its traceback too."""
    if isinstance(error, InvalidInputError):
        reason = str(error)
        logger.warning("escalated: %s", reason)
    else:
        reason = f"the model failed ({type(error).__name__}: {error})"
        logger.error("escalated: %s", reason, exc_info=error)
    return RouteResult(escalate_to, reasons=(reason,))


def _check_bar(bar: float | None) -> None:
    if bar is not None:
        check_probability("min_top_probability", bar)
