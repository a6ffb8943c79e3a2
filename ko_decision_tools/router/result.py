"""``RouteResult``: a destination's name that knows why it was chosen."""

from __future__ import annotations

from typing import Any

from ko_decision_tools.decisions import Decision


class RouteResult(str):
    """The destination, as a ``str``, with everything behind it.

    Being the name itself, it can go wherever a name goes: a graph's conditional edge, a dictionary key, JSON.

    Attributes:
        decision: What the model said, or ``None`` when it said nothing (an error). When escalated, ``decision.choice``
            is only its best guess.
        reasons: Why it was escalated; empty when a route was accepted.
        answer: The accepted route's ready-made reply, if it has one.
        output: What the ``escalate_to`` runnable returned, if one was invoked.

    Example:
        >>> result = RouteResult("사람", reasons=("top probability 0.410 < 0.6",))
        >>> result == "사람", result.escalated, result.reasons[0]
        (True, True, 'top probability 0.410 < 0.6')
    """

    decision: Decision | None
    reasons: tuple[str, ...]
    answer: str | None
    output: Any

    def __new__(
        cls,
        route: str,
        *,
        decision: Decision | None = None,
        reasons: tuple[str, ...] = (),
        answer: str | None = None,
        output: Any = None,
    ) -> RouteResult:
        self = super().__new__(cls, route)
        self.decision, self.reasons, self.answer, self.output = decision, reasons, answer, output
        return self

    @property
    def route(self) -> str:
        """The destination's name as a plain ``str``."""
        return str(self)

    @property
    def escalated(self) -> bool:
        """Whether it goes to the capable path instead of a route."""
        return bool(self.reasons)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, except that ``output`` is whatever the runnable returned; left out when there is none."""
        out: dict[str, Any] = {
            "route": self.route,
            "escalated": self.escalated,
            "reasons": list(self.reasons),
            "answer": self.answer,
            "decision": self.decision.to_dict() if self.decision else None,
        }
        return out if self.output is None else out | {"output": self.output}

    def with_output(self, output: Any) -> RouteResult:
        """The same result with what the escalation returned."""
        return RouteResult(self.route, decision=self.decision, reasons=self.reasons, answer=self.answer, output=output)

    def __repr__(self) -> str:
        why = f", reasons={self.reasons!r}" if self.reasons else ""
        return f"RouteResult({self.route!r}{why})"
