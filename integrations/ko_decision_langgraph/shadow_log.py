"""What shadow mode writes down: one JSON line per answer, without the customer's words unless asked.

``ko-decision shadow-report`` reads these lines. A text is known by a salted hash, so that a line can be joined to your
own records; and today's answer is kept only where it is one of the labels the model chooses from, because an LLM that
is asked for a label may answer with a sentence about the customer.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from langchain_core.messages import BaseMessage

from ko_decision_tools.decisions import Decision
from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.router import RouteResult
from ko_decision_tools.router.text import routed_text
from ko_decision_tools.states import render_state

OTHER: Final = "(other)"
Mode: TypeAlias = Literal["shadow", "live"]
Log: TypeAlias = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Seen:
    """One answer as it happened.

    Attributes:
        input: What was asked about.
        mode: Whether the model was only listening, or decided.
        today_label: Today's answer as a label; ``None`` when today's path was not needed, or its answer is no label.
        today_ms, judge_ms: How long each took, in milliseconds; ``None`` when it was not asked.
        result: The model's; ``None`` when it failed.
        error: The name of the error the model failed with.
    """

    input: Any
    mode: Mode
    today_label: str | None
    today_ms: float | None
    judge_ms: float | None
    result: RouteResult | None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Scribe:
    """Turns what was seen into a record.

    Args:
        labels: The labels today's answer may be logged as; another becomes ``"(other)"``.
        text_key: Key of a graph's state that holds the text; ``None`` reads the newest human message.
        log_text: Keep the customer's words, and whatever today's path said.
        salt: Put before the text that is hashed; without a secret one, short texts can be guessed from their hash.
    """

    labels: Collection[str]
    text_key: str | None = None
    log_text: bool = False
    salt: str = ""

    def record(self, seen: Seen) -> dict[str, Any]:
        """Plain JSON, nothing rounded but the milliseconds."""
        text = self._text(seen.input)
        decision = seen.result.decision if seen.result is not None else None
        return {
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "id": None if text is None else hashlib.sha256((self.salt + text).encode()).hexdigest()[:16],
            "mode": seen.mode,
            "today": self._today(seen.today_label),
            "today_ms": _rounded(seen.today_ms),
            "judge_ms": _rounded(seen.judge_ms),
            "route": None if seen.result is None else seen.result.route,
            "abstained": seen.result is None or seen.result.escalated,
            "reasons": self._reasons(seen.result, decision),
            "error": seen.error,
            **_numbers(decision),
            **({"text": text} if self.log_text else {}),
        }

    def _text(self, value: Any) -> str | None:
        try:
            return _encodable(render_state(routed_text(value, self.text_key)))
        except InvalidInputError:  # an answer about nothing readable is still an answer; it has no name
            return None

    def _today(self, label: str | None) -> str | None:
        if label is None or self.log_text:
            return label
        known = {same(name): name for name in self.labels}
        return known.get(same(label), OTHER)

    def _reasons(self, result: RouteResult | None, decision: Decision | None) -> list[str]:
        """Why it abstained. An error's message may quote the text, so without a decision it says only that much."""
        if result is None or (decision is None and not self.log_text):
            return ["could not be judged"] if result is None or result.escalated else []
        return list(result.reasons)


def as_label(answer: Any) -> str | None:
    """Today's answer as a label, where it is plain: a text, a message's text, or a yes/no.

    Example:
        >>> from langchain_core.messages import AIMessage
        >>> as_label(" 배송 "), as_label(AIMessage("결제")), as_label(True), as_label({"route": "배송"})
        ('배송', '결제', 'true', None)
    """
    if isinstance(answer, bool):
        return str(answer).lower()
    if isinstance(answer, BaseMessage):
        return answer.text.strip()
    return answer.strip() if isinstance(answer, str) else None


def same(label: str) -> str:
    """What equal labels have in common: Hangul arrives composed or decomposed."""
    return unicodedata.normalize("NFC", label.strip())


def to_log(log: Path | str | Log) -> Log:
    """A function that writes a record: the given one, or one that appends a line to a file.

    Raises:
        InvalidInputError: The file's folder does not exist.
    """
    if callable(log):
        return log
    path = Path(log)
    if not path.parent.is_dir():
        raise InvalidInputError("log", "is in a folder that does not exist", "Create the folder.", value=str(path))

    def append(record: dict[str, Any]) -> None:
        # Opened for every line: a log that is rotated away is begun anew, and a line is one write.
        with path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")

    return append


def _numbers(decision: Decision | None) -> dict[str, Any]:
    if decision is None:
        return {"guess": None, "top_probability": None, "probabilities": None}
    source = decision.provenance
    return {
        "guess": decision.label,
        "top_probability": decision.top_probability,
        "probabilities": decision.probabilities,
        "calibrated": decision.calibrated,
        "checkpoint": source.checkpoint,
        "temperature": source.temperature,
    }


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _rounded(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else round(milliseconds, 3)


__all__ = ["OTHER", "Log", "Mode", "Scribe", "Seen", "as_label", "same", "to_log"]
