"""Which weights to keep: the mean error over tasks, on rows that are not trained on.

The card's measure: ``1 - accuracy`` for a ``Choice`` or ``Noul``, the mean absolute error divided by the range for a
``Score`` (so MAE/5 for KLUE-STS), averaged over tasks. Questions are asked in their own wording with all options.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from torch import Tensor

from ko_decision_tools.distributions import Scores
from ko_decision_tools.encoders.base import Prepared
from ko_decision_tools.encoders.batching import plan_batches
from ko_decision_tools.encoders.pair_tokens import PairTokenizer
from ko_decision_tools.prompts import render
from ko_decision_tools.questions import Score
from ko_decision_tools.suites import Example
from ko_decision_tools.training.collator import pad_rows

ScorePairs = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class TaskResult:
    """A task's dev result, beside what knowing only its answers' frequencies gives.

    Attributes:
        rows: How many rows.
        metric: ``"accuracy"``, or ``"mae"`` for a ``Score``.
        value: The result.
        baseline: Always the most frequent answer; for a ``Score``, always the median.
        error: What is averaged: ``1 - accuracy``, or MAE over the range.
    """

    rows: int
    metric: str
    value: float
    baseline: float
    error: float


class DevRows:
    """Rows to choose a checkpoint by, tokenised once.

    Args:
        examples: By task; each has a gold option or a value.
        tokens: The pair tokeniser.
        pad: Id of the padding token.
        batch_tokens: Padded tokens in one forward pass.
    """

    def __init__(
        self, examples: Mapping[str, Sequence[Example]], tokens: PairTokenizer, pad: int, *, batch_tokens: int = 4096
    ) -> None:
        self._rows = [(task, example) for task, rows in examples.items() for example in rows]
        self._prepared = [tokens.prepare(render(example.question, example.state)) for _, example in self._rows]
        self._pad, self._batch_tokens = pad, batch_tokens

    def __len__(self) -> int:
        return len(self._rows)

    def measure(self, score: ScorePairs) -> dict[str, TaskResult]:
        """Each task's result.

        Args:
            score: From token ids and mask, ``[pairs, tokens]``, to scores, ``[pairs]``.
        """
        scores = score_all(self._prepared, score, self._pad, self._batch_tokens)
        found: dict[str, list[tuple[Example, Scores]]] = {}
        for (task, example), item in zip(self._rows, scores, strict=True):
            found.setdefault(task, []).append((example, item))
        return {task: _result(rows) for task, rows in found.items()}


def mean_error(results: Mapping[str, TaskResult]) -> float:
    """The card's selection measure: the mean of the tasks' errors.

    Example:
        >>> mean_error({"a": TaskResult(10, "accuracy", 0.8, 0.5, 0.2), "b": TaskResult(10, "mae", 0.5, 1.2, 0.1)})
        0.15000000000000002
    """
    return sum(result.error for result in results.values()) / len(results)


def score_all(prepared: Sequence[Prepared], score: ScorePairs, pad: int, batch_tokens: int) -> list[Scores]:
    """Scores of every prompt; pairs of all prompts share length-sorted batches."""
    rows = [row for item in prepared for row in item.rows]
    logits: list[Any] = [None] * len(rows)
    for batch in plan_batches(list(map(len, rows)), batch_tokens):
        ids, mask = pad_rows([rows[index] for index in batch], pad)
        for index, logit in zip(batch, score(ids, mask).tolist(), strict=True):
            logits[index] = logit
    values = iter(logits)
    return [Scores(tuple(next(values) for _ in item.rows)) for item in prepared]


def _result(rows: Sequence[tuple[Example, Scores]]) -> TaskResult:
    question = rows[0][0].question
    if isinstance(question, Score):
        return _score_result(rows, len(question.criteria) - 1)
    right = sum(scores.softmax().top == example.gold for example, scores in rows)
    golds = Counter(example.gold for example, _ in rows)
    accuracy = right / len(rows)
    return TaskResult(len(rows), "accuracy", accuracy, max(golds.values()) / len(rows), 1 - accuracy)


def _score_result(rows: Sequence[tuple[Example, Scores]], span: int) -> TaskResult:
    truths = [float(example.gold or 0) if example.value is None else example.value for example, _ in rows]
    guesses = [scores.softmax().expected_level for _, scores in rows]
    middle = median(truths)
    mae = sum(abs(truth - guess) for truth, guess in zip(truths, guesses, strict=True)) / len(rows)
    baseline = sum(abs(truth - middle) for truth in truths) / len(rows)
    return TaskResult(len(rows), "mae", mae, baseline, mae / span)
