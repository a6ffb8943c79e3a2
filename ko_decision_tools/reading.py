"""From raw scores to a :class:`~ko_decision_tools.decisions.Decision`: temperature, answer, verdict, provenance.

The one place where a score becomes a probability and a probability becomes a verdict. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from ko_decision_tools.calibration import TemperatureTable
from ko_decision_tools.decisions import Decision, Provenance, Truncation
from ko_decision_tools.distributions import Distribution, Scores
from ko_decision_tools.errors import EncoderError
from ko_decision_tools.policy import Policy, Reading
from ko_decision_tools.prompts import labels_of
from ko_decision_tools.questions import Question, Score


@dataclass(frozen=True, slots=True)
class Cost:
    """What scoring one question took, and what the model did not see of it."""

    pairs: int
    tokens: int
    truncation: Truncation | None
    markers: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads scores off one checkpoint.

    Args:
        checkpoint: Its name, as decisions report it.
        revision: Its commit or fingerprint.
        temperatures: Its fitted temperatures.
    """

    checkpoint: str
    revision: str | None
    temperatures: TemperatureTable

    def read(self, question: Question, scores: Scores, cost: Cost, *, task: str | None, policy: Policy) -> Decision:
        """One decision.

        Raises:
            EncoderError: The number of scores is not the number of options.
            UncalibratedError: The policy demands a fitted temperature and none applies.
        """
        labels = labels_of(question)
        if len(scores.logits) != len(labels):
            raise EncoderError(f"the encoder returned {len(scores.logits)} scores for {len(labels)} options")
        temperature = self.temperatures.lookup(question.type, len(labels), task=task)
        distribution = scores.softmax(temperature.value)
        reading = Reading(
            kind=question.type,
            top_probability=distribution.top_probability,
            margin=distribution.margin,
            p_true=distribution.probabilities[1] if question.type == "noul" else None,
            calibrated=temperature.calibrated,
        )
        return Decision(
            kind=question.type,
            labels=labels,
            probabilities_in_order=distribution.probabilities,
            logits=scores.logits,
            legend=tuple(question.criteria) if isinstance(question, Score) else None,
            confidence=_confidence(question, distribution),
            top_probability=distribution.top_probability,
            margin=distribution.margin,
            reasons=policy.reasons(reading),
            provenance=Provenance(
                checkpoint=self.checkpoint,
                revision=self.revision,
                task=task,
                temperature=temperature.value,
                temperature_source=temperature.source,
                calibrated=temperature.calibrated,
                stripped_labels=cost.markers,
                truncation=cost.truncation,
                pairs=cost.pairs,
                tokens=cost.tokens,
            ),
        )


def _confidence(question: Question, distribution: Distribution) -> float | None:
    if question.type == "noul":
        return None
    return distribution.score_confidence() if question.type == "score" else distribution.choice_confidence()
