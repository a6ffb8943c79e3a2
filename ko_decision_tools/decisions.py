"""What comes out: :class:`Decision`, an answer with its whole distribution, a verdict and its provenance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_core.decisions import ChoiceAnswer, NoulAnswer, ScoreAnswer

    from ko_decision_tools.questions import Kind


@dataclass(frozen=True, slots=True)
class Truncation:
    """How much of the state the model did not see. ``kept`` is the smallest count over the question's rows."""

    state_tokens: int
    kept: int

    @property
    def cut(self) -> int:
        """State tokens that were dropped from the end."""
        return self.state_tokens - self.kept


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a decision came from.

    Attributes:
        checkpoint: The checkpoint's name as asked for.
        revision: Commit of a hub checkpoint, or the fingerprint of a local one.
        task: The task named by the caller, if any.
        temperature: What the scores were divided by.
        temperature_source: For example ``"task klue_nli"``, ``"type choice"`` or ``"none"``.
        calibrated: Whether that temperature was fitted for this kind of question.
        stripped_labels: The enumerator taken off each option before scoring (``"A:"``), or ``None``; in option order.
        truncation: Set when part of the state was cut.
        pairs: Rows the encoder scored for this question.
        tokens: Tokens in those rows.
    """

    checkpoint: str
    revision: str | None
    task: str | None
    temperature: float
    temperature_source: str
    calibrated: bool
    stripped_labels: tuple[str | None, ...]
    truncation: Truncation | None
    pairs: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Decision:
    """One answered (or abstained) question.

    An abstained decision keeps everything: its answer is what the model *would* have said. Check ``abstained`` first.

    Attributes:
        kind: ``"choice"``, ``"noul"`` or ``"score"``.
        labels: The caller's own labels, byte for byte, in the caller's order (``("false", "true")`` for a ``Noul``,
            ``("0", "1", …)`` for a ``Score``).
        probabilities_in_order: One probability per label, unrounded, summing to 1.
        logits: The raw scores behind them.
        legend: A ``Score``'s level descriptions, else ``None``.
        confidence: The reference measure: ``(max p - 1/n)/(1 - 1/n)`` for a choice, a spread measure for a score,
            ``None`` for a noul. Abstaining never looks at it.
        top_probability, margin: Largest probability, and its lead over the second.
        reasons: Why it abstained; empty when the answer is accepted.
        provenance: Checkpoint, temperature, truncation and cost.
    """

    kind: Kind
    labels: tuple[str, ...]
    probabilities_in_order: tuple[float, ...]
    logits: tuple[float, ...]
    legend: tuple[Any, ...] | None
    confidence: float | None
    top_probability: float
    margin: float
    reasons: tuple[str, ...]
    provenance: Provenance

    @property
    def abstained(self) -> bool:
        """Whether a human or an LLM should take over."""
        return bool(self.reasons)

    @property
    def calibrated(self) -> bool:
        """Whether a temperature fitted for this kind of question was applied."""
        return self.provenance.calibrated

    @property
    def probabilities(self) -> dict[str, float]:
        """Probability of every option under the caller's own label."""
        return dict(zip(self.labels, self.probabilities_in_order, strict=True))

    @property
    def label(self) -> str:
        """The most probable label, whatever the question's type (the first one on a tie)."""
        best = max(range(len(self.labels)), key=self.probabilities_in_order.__getitem__)
        return self.labels[best]

    @property
    def choice(self) -> str:
        """The chosen label of a ``Choice``."""
        self._expect("choice")
        return self.label

    @property
    def noul(self) -> float:
        """``P(yes)`` of a ``Noul``."""
        self._expect("noul")
        return self.probabilities_in_order[1]

    @property
    def score(self) -> float:
        """The expected level of a ``Score``, from 0 to n-1."""
        self._expect("score")
        return sum(level * p for level, p in enumerate(self.probabilities_in_order))

    def _expect(self, kind: Kind) -> None:
        if self.kind != kind:
            raise AttributeError(f"a {self.kind!r} decision has no .{kind}; read .{self.kind}")

    @property
    def answer(self) -> str | float:
        """``choice``, ``noul`` or ``score``, whichever the type has."""
        return self.label if self.kind == "choice" else self.noul if self.kind == "noul" else self.score

    def to_answer(self) -> ChoiceAnswer | NoulAnswer | ScoreAnswer:
        """The typed LangChain answer. It has no field for the verdict: keep the decision if you need one."""
        from langchain_core.decisions import ChoiceAnswer, NoulAnswer, ScoreAnswer

        if self.kind == "choice":
            return ChoiceAnswer(
                type="choice", choice=self.label, probabilities=self.probabilities, confidence=self.confidence or 0.0
            )
        if self.kind == "noul":
            return NoulAnswer(type="noul", noul=self.noul)
        return ScoreAnswer(
            type="score",
            score=self.score,
            legend=dict(enumerate(self.legend or ())),
            probabilities=dict(enumerate(self.probabilities_in_order)),
            confidence=self.confidence or 0.0,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values only, so that it survives a checkpointer, a log or a queue. Nothing is rounded."""
        out: dict[str, Any] = {"type": self.kind, self.kind: self.answer, "probabilities": self.probabilities}
        out |= {"legend": list(self.legend)} if self.legend is not None else {}
        out |= {"confidence": self.confidence} if self.confidence is not None else {}
        out |= {
            "top_probability": self.top_probability,
            "margin": self.margin,
            "abstained": self.abstained,
            "reasons": list(self.reasons),
            "calibrated": self.calibrated,
        }
        return out | {"provenance": _plain(asdict(self.provenance)), "logits": list(self.logits)}


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
