"""What decisions cost and what they saved: counters, traces that nest, spans without customer text.

Everything is opt-in and local: counters live in the object you pass around, child runs appear under whatever run is
going on, and OpenTelemetry spans are made only when it is installed.

Example:
    >>> from ko_decision_tools import KoDecisionModel, Noul, ScriptedEncoder
    >>> model, accounting = KoDecisionModel.from_encoder(ScriptedEncoder({"참": 3.0})), Accounting()
    >>> accounting.record(model.decide("고객 명단을 밖으로 보낸다", Noul(instructions="위험한가?")))
    >>> accounting.llm_call_avoided()
    >>> {name: count for name, count in accounting.snapshot().items() if name != "tokens"}
    {'decisions': 1, 'abstentions': 0, 'escalations': 0, 'llm_calls_avoided': 1, 'pairs': 2}
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from langchain_core.runnables import RunnableLambda

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from ko_decision_tools.decisions import Decision

COUNTERS = ("decisions", "abstentions", "escalations", "llm_calls_avoided", "pairs", "tokens")
PREFIX = "ko_decision"
T = TypeVar("T")


class Accounting:
    """Counters that any number of threads and tasks may share, and spans that know what may be shown.

    Args:
        include_text: Put the judged text on spans. Off by default: it is the customer's.
    """

    def __init__(self, *, include_text: bool = False) -> None:
        self.include_text = include_text
        self._counts = dict.fromkeys(COUNTERS, 0)
        self._lock = threading.Lock()

    def record(self, decision: Decision) -> None:
        """Count one decision, what it cost in pairs and tokens, and whether it abstained."""
        cost = decision.provenance
        self._add(decisions=1, abstentions=int(decision.abstained), pairs=cost.pairs, tokens=cost.tokens)

    def escalated(self, times: int = 1) -> None:
        """Count something handed to a person or to the capable path."""
        self._add(escalations=times)

    def llm_call_avoided(self, times: int = 1) -> None:
        """Count an LLM call that would have been made without the decision."""
        self._add(llm_calls_avoided=times)

    def snapshot(self) -> dict[str, int]:
        """All counters at one moment, under the names in :data:`COUNTERS`."""
        with self._lock:
            return dict(self._counts)

    @contextmanager
    def span(self, name: str, decision: Decision | None = None, *, text: str | None = None) -> Iterator[Span | None]:
        """An OpenTelemetry span around what is done with a decision; without OpenTelemetry, nothing.

        Args:
            name: The span's name, for example ``"ko_gate"``.
            decision: What to describe: type, label, probability, verdict, calibration and cost.
            text: The judged text; left out unless ``include_text``.

        Yields:
            The span, to which :func:`describe` can add a decision made inside it, or ``None``.
        """
        try:
            from opentelemetry import trace
        except ImportError:
            yield None
            return
        with trace.get_tracer("ko_decision_langgraph").start_as_current_span(name) as span:
            if decision is not None:
                describe(span, decision)
            if text is not None and self.include_text:
                span.set_attribute(f"{PREFIX}.text", text)
            yield span

    def _add(self, **counts: int) -> None:
        with self._lock:
            for name, count in counts.items():
                self._counts[name] += count


def describe(span: Span | None, decision: Decision) -> None:
    """Put a decision's numbers and verdict on a span; see :func:`attributes_of`."""
    if span is not None:
        span.set_attributes(attributes_of(decision))


def attributes_of(decision: Decision) -> dict[str, Any]:
    """What a trace shows of a decision. No judged text: labels and reasons are the developer's own."""
    cost = decision.provenance
    return {
        f"{PREFIX}.{key}": value
        for key, value in {
            "type": decision.kind,
            "label": decision.label,
            "top_probability": decision.top_probability,
            "abstained": decision.abstained,
            "reasons": list(decision.reasons),
            "calibrated": decision.calibrated,
            "truncated": cost.truncation is not None,
            "checkpoint": cost.checkpoint,
            "pairs": cost.pairs,
            "tokens": cost.tokens,
        }.items()
    }


def traced(name: str, ask: Callable[[], T]) -> T:
    """Call ``ask`` as a child run, named ``name``, of whatever LangChain run is going on.

    What was asked is in the closure, so no input is traced; the output is.
    """

    def run(_: None) -> T:
        return ask()

    return RunnableLambda(run, name=name).invoke(None)


async def atraced(name: str, ask: Callable[[], Awaitable[T]]) -> T:
    """:func:`traced` for a coroutine function."""

    async def run(_: None) -> T:
        return await ask()

    return await RunnableLambda(run, name=name).ainvoke(None)


__all__ = ["COUNTERS", "PREFIX", "Accounting", "atraced", "attributes_of", "describe", "traced"]
