"""What a gate found out about one tool call, and what follows from it. Plain JSON in and out, so that it can be kept.

Example:
    >>> rules = GateRules()
    >>> [rules.action(verdict) for verdict in ("allow", "abstain", "block", "error")]
    ['run', 'ask', 'refuse', 'refuse']
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.policy import YesNoBand

if TYPE_CHECKING:
    from langchain_core.messages import ToolCall

    from ko_decision_tools.decisions import Decision

Verdict: TypeAlias = Literal["allow", "abstain", "block", "error"]
Action: TypeAlias = Literal["run", "ask", "refuse"]
OnAbstain: TypeAlias = Literal["interrupt", "block"]
OnError: TypeAlias = Literal["block", "interrupt", "allow", "raise"]

_ACTION_OF: Mapping[str, Action] = {"allow": "run", "interrupt": "ask", "block": "refuse"}
_STRICTNESS: tuple[Action, ...] = ("run", "ask", "refuse")


@dataclass(frozen=True, slots=True)
class GateRules:
    """From a probability to an action.

    Attributes:
        allow_at: ``P(yes)`` up to which a call runs. YES means block.
        block_at: ``P(yes)`` from which it is refused.
        on_abstain: In between: ``"interrupt"`` asks a person, ``"block"`` refuses.
        on_error: When the call could not be judged: ``"block"``, ``"interrupt"``, ``"allow"`` or ``"raise"``.

    Raises:
        InvalidInputError: ``allow_at`` is not below ``block_at``, or a setting is unknown.
    """

    allow_at: float = 0.2
    block_at: float = 0.7
    on_abstain: OnAbstain = "interrupt"
    on_error: OnError = "block"

    def __post_init__(self) -> None:
        YesNoBand(self.allow_at, self.block_at)
        for field, known in (("on_abstain", get_args(OnAbstain)), ("on_error", get_args(OnError))):
            if getattr(self, field) not in known:
                names = " or ".join(f'"{name}"' for name in known)
                raise InvalidInputError(field, "is unknown", f"Use {names}.", value=getattr(self, field))

    @property
    def band(self) -> YesNoBand:
        """The rule to decide under."""
        return YesNoBand(self.allow_at, self.block_at)

    def verdict(self, decision: Decision) -> Verdict:
        """What a decision made under :attr:`band` says."""
        if decision.abstained:
            return "abstain"
        return "block" if decision.noul >= self.block_at else "allow"

    def action(self, verdict: Verdict) -> Action:
        """What follows from a verdict. An error that is to be raised has been raised before."""
        if verdict == "abstain":
            return _ACTION_OF[self.on_abstain]
        if verdict == "error":
            return _ACTION_OF.get(self.on_error, "refuse")
        return "run" if verdict == "allow" else "refuse"


@dataclass(frozen=True, slots=True)
class Finding:
    """One question's answer about one call.

    Attributes:
        question: The question's id.
        verdict, action: What it said, and what follows.
        reasons: Why it abstained or could not be asked.
        decision: The whole decision as JSON, or ``None`` after an error.
    """

    question: str
    verdict: Verdict
    action: Action
    reasons: tuple[str, ...] = ()
    decision: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Unread:
    """What the model did not see of the state it judged: cut tokens, media blocks, and older messages."""

    tokens: int = 0
    media: int = 0
    messages: int = 0


@dataclass(frozen=True, slots=True)
class CallVerdict:
    """Everything a gate found out about one call.

    Attributes:
        gate: The gate's name.
        tool: The tool's name.
        fingerprint: Of the tool's name and arguments; see :func:`fingerprint`.
        findings: One per question.
        unread: What was cut.
    """

    gate: str
    tool: str
    fingerprint: str
    findings: tuple[Finding, ...]
    unread: Unread

    @property
    def decisive(self) -> Finding:
        """The finding with the strictest action: any YES blocks, whatever the other questions said."""
        return max(self.findings, key=lambda finding: _STRICTNESS.index(finding.action))

    @property
    def verdict(self) -> Verdict:
        """``"allow"``, ``"abstain"``, ``"block"`` or ``"error"``."""
        return self.decisive.verdict

    @property
    def action(self) -> Action:
        """``"run"``, ``"ask"`` (a person) or ``"refuse"``."""
        return self.decisive.action

    @property
    def p_block(self) -> float | None:
        """The largest ``P(yes)`` over the questions, unrounded; ``None`` when none could be asked."""
        known = [finding.decision["noul"] for finding in self.findings if finding.decision is not None]
        return max(known, default=None)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Every reason; with the question's id in front when there are several questions."""
        several = len(self.findings) > 1
        return tuple(
            f"{finding.question}: {reason}" if several else reason
            for finding in self.findings
            for reason in finding.reasons
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; :meth:`from_dict` reads it back."""
        return {
            "gate": self.gate,
            "tool": self.tool,
            "fingerprint": self.fingerprint,
            "verdict": self.verdict,
            "action": self.action,
            "p_block": self.p_block,
            "reasons": list(self.reasons),
            "unread": asdict(self.unread),
            "findings": [asdict(finding) | {"reasons": list(finding.reasons)} for finding in self.findings],
        }

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> CallVerdict:
        """Read what :meth:`to_dict` wrote."""
        findings = tuple(Finding(**{**each, "reasons": tuple(each["reasons"])}) for each in raw["findings"])
        return cls(raw["gate"], raw["tool"], raw["fingerprint"], findings, Unread(**raw["unread"]))


def fingerprint(call: ToolCall) -> str:
    """A digest of a call's name and arguments, whatever the order of the keys.

    Example:
        >>> one = {"name": "refund", "args": {"order": 7, "won": 100}, "id": "a"}
        >>> two = {"name": "refund", "args": {"won": 100, "order": 7}, "id": "b"}
        >>> fingerprint(one) == fingerprint(two)
        True
    """
    text = json.dumps([call["name"], call["args"]], sort_keys=True, ensure_ascii=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


__all__ = ["Action", "CallVerdict", "Finding", "GateRules", "OnAbstain", "OnError", "Unread", "Verdict", "fingerprint"]
