"""What every part does to ask: respect the kill switch, keep the customer's text out of traces, count the decision.

Whatever is asked, a :class:`~ko_decision_tools.route_result.RouteResult` comes back: where to go, and when it is
``escalated``, why. Being unsure, failing and being switched off all escalate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ko_decision_langgraph.accounting import Accounting, atraced, describe, traced
from ko_decision_langgraph.kill_switch import OFF_REASON, switched_off
from ko_decision_tools.decisions import Decision
from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.model import KoDecisionModel, QuestionLike
from ko_decision_tools.prompts import labels_of
from ko_decision_tools.questions import parse_question
from ko_decision_tools.router import DecisionRouter, RouteResult
from ko_decision_tools.router.decider import escalate_failure
from ko_decision_tools.router.text import routed_text

if TYPE_CHECKING:
    from opentelemetry.trace import Span


OnError = Literal["escalate", "raise"]
SWITCHED_OFF = (OFF_REASON,)


class Asker(Protocol):
    """Something that can be asked where an input goes."""

    @property
    def destinations(self) -> tuple[str, ...]:
        """Every name an answer can be."""
        ...

    def ask(self, state: Any) -> RouteResult:
        """Where it goes."""
        ...

    async def aask(self, state: Any) -> RouteResult:
        """:meth:`ask` off the event loop."""
        ...


class RouterAsker:
    """Asks a router.

    Args:
        router: Its ``escalate_to`` has to be a name: in a graph the runnable stands behind a node.
        accounting: Counts the decisions; with ``include_text`` the router's run shows what was asked.

    Raises:
        InvalidInputError: The router has a runnable to escalate to.
    """

    def __init__(self, router: DecisionRouter, accounting: Accounting | None = None) -> None:
        if router.escalation is not None:
            raise InvalidInputError(
                "router", "escalates to a runnable", "Give escalate_to a name, and put the runnable behind it."
            )
        self.router, self._accounting = router, accounting

    @property
    def destinations(self) -> tuple[str, ...]:
        """The routes in order, then where unsure texts go."""
        return self.router.destinations

    def ask(self, state: Any) -> RouteResult:
        """See :class:`Asker`."""
        if switched_off():
            return RouteResult(self.router.table.escalate_to, reasons=SWITCHED_OFF)
        with recorded("ko_route", self._accounting) as record:
            result = self.router.invoke(self._shown(state))
            record(result.decision)
        return result

    async def aask(self, state: Any) -> RouteResult:
        """See :class:`Asker`."""
        if switched_off():
            return RouteResult(self.router.table.escalate_to, reasons=SWITCHED_OFF)
        with recorded("ko_route", self._accounting) as record:
            result = await self.router.ainvoke(self._shown(state))
            record(result.decision)
        return result

    def _shown(self, state: Any) -> Any:
        shows_text = self._accounting is not None and self._accounting.include_text
        return state if shows_text else Veil(state)


class ModelAsker:
    """Asks a model one question; the answer's label is the destination.

    Args:
        model: What answers.
        question: A ``Choice``, ``Noul`` or ``Score``, or its JSON form.
        unsure: The name for an abstained or failed answer.
        text_key: Key of the state that holds the text; ``None`` reads the newest human message.
        on_error: ``"escalate"`` logs a failure and gives it as the reason; ``"raise"`` raises it.
        accounting: Counts the decisions.
        options: ``task``, ``min_top_probability`` and ``policy`` of ``decide``.
    """

    def __init__(
        self,
        model: KoDecisionModel,
        question: QuestionLike,
        *,
        unsure: str,
        text_key: str | None = None,
        on_error: OnError = "escalate",
        accounting: Accounting | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._model, self._question, self._unsure = model, parse_question(question), unsure
        self._text_key, self._on_error, self._accounting = text_key, check_on_error(on_error), accounting
        self._options = dict(options or {})

    @property
    def destinations(self) -> tuple[str, ...]:
        """The labels in order, then ``unsure``."""
        return (*labels_of(self._question), self._unsure)

    def ask(self, state: Any) -> RouteResult:
        """See :class:`Asker`."""
        if switched_off():
            return RouteResult(self._unsure, reasons=SWITCHED_OFF)
        try:
            with recorded("ko_decide", self._accounting) as record:
                text = routed_text(state, self._text_key)
                decision = traced("ko_decide", lambda: self._model.decide(text, self._question, **self._options))
                record(decision)
        except Exception as error:  # reported: raised, or logged and given as the reason
            return failed(error, self._unsure, self._on_error)
        return self._judged(decision)

    async def aask(self, state: Any) -> RouteResult:
        """See :class:`Asker`."""
        if switched_off():
            return RouteResult(self._unsure, reasons=SWITCHED_OFF)
        try:
            with recorded("ko_decide", self._accounting) as record:
                text = routed_text(state, self._text_key)
                decision = await atraced(
                    "ko_decide", lambda: self._model.adecide(text, self._question, **self._options)
                )
                record(decision)
        except Exception as error:  # as in ask
            return failed(error, self._unsure, self._on_error)
        return self._judged(decision)

    def _judged(self, decision: Decision) -> RouteResult:
        name = self._unsure if decision.abstained else decision.label
        return RouteResult(name, decision=decision, reasons=decision.reasons)


class Veil:
    """A state that can be routed but not read in a trace: keys are attributes, and its ``repr`` says nothing.

    Example:
        >>> from ko_decision_tools.router.text import routed_text
        >>> veil = Veil({"messages": [("user", "환불해 주세요")]})
        >>> routed_text(veil), veil
        ('환불해 주세요', <not traced>)
    """

    __slots__ = ("_look_up",)

    def __init__(self, state: Any) -> None:
        def look_up(name: str) -> Any:
            return hidden[name] if isinstance(hidden, Mapping) else getattr(hidden, name)

        if isinstance(state, str):
            hidden: Any = {"type": "human", "content": state}
        elif isinstance(state, Sequence):
            hidden = {"messages": state}
        else:
            hidden = state
        self._look_up = look_up  # a closure: whatever dumps attributes finds a function, not the text

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._look_up(name)
        except KeyError:
            raise AttributeError(name) from None

    def __repr__(self) -> str:
        return "<not traced>"


@contextmanager
def recorded(name: str, accounting: Accounting | None) -> Iterator[Callable[[Decision | None], None]]:
    """A span around asking; the yielded function counts and describes what came out."""
    if accounting is None:
        yield lambda decision: None
        return

    def record(decision: Decision | None) -> None:
        if decision is not None:
            accounting.record(decision)
            describe(span, decision)

    span: Span | None
    with accounting.span(name) as span:
        yield record


def failed(error: Exception, unsure: str, on_error: OnError) -> RouteResult:
    """A failure as an escalation: logged, with the reason."""
    if on_error == "raise":
        raise error
    return escalate_failure(error, unsure)


def check_on_error(on_error: OnError, field: str = "on_error") -> OnError:
    """Return it.

    Raises:
        InvalidInputError: It is neither ``"escalate"`` nor ``"raise"``.
    """
    if on_error not in ("escalate", "raise"):
        raise InvalidInputError(field, "is unknown", 'Use "escalate" or "raise".', value=on_error)
    return on_error


__all__ = ["Asker", "ModelAsker", "OnError", "RouterAsker", "Veil", "check_on_error", "failed", "recorded"]
