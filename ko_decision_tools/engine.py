"""What a model does once its weights are in memory: prepare, score and read questions, for one caller or many."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ko_decision_tools.batcher import MicroBatcher
from ko_decision_tools.calibration import TemperatureTable
from ko_decision_tools.decisions import Decision
from ko_decision_tools.distributions import Scores
from ko_decision_tools.encoders.base import Encoder, Prepared
from ko_decision_tools.errors import EncoderError, InputTooLongError
from ko_decision_tools.policy import MinTopProbability, Policy, WhenUncalibrated
from ko_decision_tools.prompts import render
from ko_decision_tools.questions import Question
from ko_decision_tools.reading import Cost, Reader

Work = tuple[Question, Prepared]


@dataclass(frozen=True, slots=True)
class Asks:
    """What may differ from call to call: the task a temperature is looked up for, and the policy."""

    task: str | None
    policy: Policy

    @classmethod
    def of(
        cls,
        options: Mapping[str, Any],
        *,
        min_top_probability: float,
        when_uncalibrated: Literal["allow", "abstain", "error"],
        policy: Policy | None,
    ) -> Asks:
        """A call's ``task``, ``min_top_probability`` and ``policy`` over the model's own; the call's win.

        Raises:
            TypeError: An option of another name.
            InvalidInputError: A threshold outside [0, 1].
        """
        unknown = options.keys() - {"task", "min_top_probability", "policy"}
        if unknown:
            raise TypeError(f"unknown option {min(unknown)!r}; use task, min_top_probability or policy")
        bar = options.get("min_top_probability")
        rule = MinTopProbability(min_top_probability if bar is None else bar) & WhenUncalibrated(when_uncalibrated)
        extra = options.get("policy", policy)
        return cls(options.get("task"), rule if extra is None else rule & extra)


@dataclass(frozen=True, slots=True)
class Engine:
    """An encoder, the reader for its scores, and the batcher its asynchronous callers share."""

    encoder: Encoder
    reader: Reader
    batcher: MicroBatcher

    @classmethod
    def of(cls, encoder: Encoder, *, name: str, revision: str | None, temperatures: TemperatureTable) -> Engine:
        """Put the three together."""
        return cls(encoder, Reader(name, revision, temperatures), MicroBatcher(encoder))

    def prepare(self, state: Any, question: Question, *, truncation: Literal["cut", "error"] = "cut") -> Work:
        """Render and tokenise one checked question.

        Raises:
            InvalidInputError: It cannot be rendered, or does not fit.
        """
        prepared = self.encoder.prepare(render(question, state))
        lost = prepared.truncation
        if lost is not None and truncation == "error":
            raise InputTooLongError(
                "state",
                f"has {lost.state_tokens} tokens, of which {lost.kept} fit beside the longest option",
                'Shorten it, or use truncation="cut" to score its beginning.',
            )
        return question, prepared

    def score(self, work: Sequence[Work], asks: Asks) -> list[Decision]:
        """Decide them all under one plan, in order.

        Raises:
            EncoderError: The forward pass failed, or the encoder returned the wrong number of results.
        """
        if not work:
            return []
        scored = self.encoder.score([prepared for _, prepared in work])
        if len(scored) != len(work):
            raise EncoderError(f"the encoder returned {len(scored)} results for {len(work)} prompts")
        return [self._read(item, scores, asks) for item, scores in zip(work, scored, strict=True)]

    async def ascore(self, work: Work, asks: Asks) -> Decision:
        """Decide one through the micro-batcher, sharing forward passes with whoever else asks now."""
        return self._read(work, await asyncio.wrap_future(self.batcher.submit(work[1])), asks)

    def _read(self, work: Work, scores: Scores, asks: Asks) -> Decision:
        question, prepared = work
        cost = Cost(prepared.pairs, prepared.tokens, prepared.truncation, prepared.prompt.markers)
        return self.reader.read(question, scores, cost, task=asks.task, policy=asks.policy)
