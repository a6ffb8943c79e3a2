"""From an example to a training row: which phrasing, which options, and how much of the target each of them gets.

A row's target is a distribution over its options. It comes from human votes where there are any, from a real-valued
score (split between its two neighbouring levels), or from the label; where no option is right it is uniform, so that
the model learns to be unsure rather than to guess. Everything drawn depends on the generator alone: the same row is
drawn again after a resume.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.prompts import Prompt, labels_of, render
from ko_decision_tools.questions import Choice, Noul, Question, Score
from ko_decision_tools.suites import Example
from ko_decision_tools.training.recipe import Phrasing, Task

_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """A prompt and the distribution its options are trained towards.

    Attributes:
        task: The task's name.
        id: The example's id, for error messages.
        prompt: The rendered question, possibly with fewer options than it has.
        target: One share per option of the prompt; they sum to 1.
    """

    task: str
    id: str
    prompt: Prompt
    target: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question about a state with its target, while the recipe is still changing it."""

    question: Question
    target: tuple[float, ...]


class RowMaker:
    """Makes a task's training rows.

    Args:
        name: The task's name.
        task: How its questions are asked.
        examples: Its rows.

    Raises:
        InvalidInputError: A phrasing does not fit the task's questions.
    """

    def __init__(self, name: str, task: Task, examples: Sequence[Example]) -> None:
        self._name, self._task, self._examples = name, task, examples
        total = sum(phrasing.share for phrasing in task.phrasings)
        self._tops = [
            sum(phrasing.share for phrasing in task.phrasings[: index + 1]) / total
            for index in range(len(task.phrasings))
        ]
        for phrasing in task.phrasings:
            self.make(0, 0, Random(0), phrasing=phrasing)

    def __len__(self) -> int:
        return len(self._examples)

    def make(self, index: int, turn: int, rng: Random, *, phrasing: Phrasing | None = None) -> TrainingRow:
        """The row of one example.

        Args:
            index: Which example.
            turn: How often it was seen before: it decides the phrasing, unless that is given.
            rng: Decides everything else.
        """
        example = self._examples[index]
        asked = _Asked(example.question, target_of(example, soft=self._task.soft_gold))
        asked = _ask(asked, example, phrasing or self._phrasing(index, turn), rng)
        asked = self._with_none_option(self._with_borrowed(asked, rng), example, rng)
        prompt = render(asked.question, example.state)
        kept = keep_options(asked.target, self._task.negatives, rng, scale=isinstance(asked.question, Score))
        return TrainingRow(self._name, example.id, _cut(prompt, kept), _renormalised(asked.target, kept))

    def _phrasing(self, index: int, turn: int) -> Phrasing:
        """In turn: an evenly spread point per row, moved on by one phrasing at each pass."""
        point = (index * _GOLDEN + turn / len(self._tops)) % 1.0
        place = next((place for place, top in enumerate(self._tops) if point < top), -1)
        return self._task.phrasings[place]

    def _with_borrowed(self, asked: _Asked, rng: Random) -> _Asked:
        if not isinstance(asked.question, Choice) or rng.random() >= self._task.borrow:
            return asked
        other = self._examples[rng.randrange(len(self._examples))].question
        if not isinstance(other, Choice):
            return asked
        label = rng.choice(list(other.criteria))
        return _with_option(asked, asked.question, label, other.criteria[label], right=False)

    def _with_none_option(self, asked: _Asked, example: Example, rng: Random) -> _Asked:
        none = self._task.none_option
        if none is None or not isinstance(asked.question, Choice) or rng.random() >= none.share:
            return asked
        label = rng.choice(list(none.options))
        nothing_fits = example.gold is None and example.soft_gold is None
        return _with_option(asked, asked.question, label, none.options[label], right=nothing_fits)


def target_of(example: Example, *, soft: bool = True) -> tuple[float, ...]:
    """The distribution an example is trained towards.

    Example:
        >>> levels = Score(instructions="얼마나 급한가?", criteria=["낮음", "보통", "높음"])
        >>> target_of(Example("1", "1", "t", "물이 새요", levels, 1, None, 1.25, "own"))
        (0.0, 0.75, 0.25)
    """
    count = len(labels_of(example.question))
    if soft and example.soft_gold is not None:
        return example.soft_gold
    if example.value is not None:
        low = min(int(example.value), count - 2)
        return tuple(
            max(0.0, 1 - abs(level - example.value)) if level in (low, low + 1) else 0.0 for level in range(count)
        )
    if example.gold is None:
        return (1 / count,) * count
    return tuple(float(index == example.gold) for index in range(count))


def keep_options(target: Sequence[float], negatives: int | None, rng: Random, *, scale: bool = False) -> list[int]:
    """Which options stay: those with weight (of a scale, and the levels next to them) and ``negatives`` others.

    Where every option has weight because none is right, ``negatives + 1`` of them stay.

    Example:
        >>> keep_options((0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0), 2, Random(1))
        [1, 3, 5]
        >>> keep_options((0.0, 0.0, 0.0, 0.3, 0.7, 0.0), 1, Random(1), scale=True)
        [1, 3, 4]
    """
    everything = list(range(len(target)))
    if negatives is None:
        return everything
    if _is_uniform(target):
        return sorted(rng.sample(everything, min(len(target), negatives + 1)))
    kept = {index for index in everything if target[index] > 0}
    if scale and len(kept) == 1:
        kept |= {index for index in everything if abs(index - min(kept)) == 1}
    rest = [index for index in everything if index not in kept]
    return sorted([*kept, *rng.sample(rest, min(len(rest), negatives))])


def _is_uniform(target: Sequence[float]) -> bool:
    return len(set(target)) == 1


def _ask(asked: _Asked, example: Example, phrasing: Phrasing, rng: Random) -> _Asked:
    if phrasing.yes_no:
        return _as_yes_no(asked, example, phrasing, rng)
    question = asked.question
    wording = rng.choice(phrasing.instructions) if phrasing.instructions else question.instructions
    if isinstance(question, Noul):
        target = asked.target[::-1] if phrasing.flip else asked.target
        return _Asked(question.model_copy(update={"instructions": wording}), target)
    criteria = _other_criteria(question, phrasing)
    return _Asked(question.model_copy(update={"instructions": wording, "criteria": criteria}), asked.target)


def _other_criteria(question: Choice | Score, phrasing: Phrasing) -> object:
    given = phrasing.criteria
    if given is None:
        bare = phrasing.bare and isinstance(question, Choice)
        return dict.fromkeys(question.criteria) if bare else question.criteria
    if isinstance(given, dict) != isinstance(question, Choice) or len(given) != len(question.criteria):
        problem = f"does not fit a question with {len(question.criteria)} options"
        raise InvalidInputError(
            "phrasings.criteria", problem, "Give one per option, in the question's order.", value=given
        )
    return dict(given) if isinstance(given, dict) else list(given)


def _as_yes_no(asked: _Asked, example: Example, phrasing: Phrasing, rng: Random) -> _Asked:
    """The question as one about a single option; as it is where the answer would not be clear."""
    if isinstance(asked.question, Noul):
        raise InvalidInputError("phrasings.yes_no", "is given for a yes/no question", "Use instructions, with flip.")
    labels, gold = labels_of(asked.question), example.gold
    right = None if gold is None else labels[gold]
    wording = rng.choice(phrasing.yes_no)
    if right is None and example.soft_gold is not None:
        return asked
    if "{label}" not in wording:
        if right is None or right in map(str, phrasing.skip):
            return asked
        return _noul(wording, float(right in map(str, phrasing.yes_if)))
    wrong = [label for label in labels if label != right]
    said = right if right is not None and rng.random() < 0.5 else rng.choice(wrong)
    return _noul(wording.replace("{label}", said), float(said == right))


def _noul(wording: str, yes: float) -> _Asked:
    return _Asked(Noul(instructions=wording), (1 - yes, yes))


def _with_option(asked: _Asked, question: Choice, label: str, description: object, *, right: bool) -> _Asked:
    if label in question.criteria:
        return asked
    if right:
        target = (*(0.0 for _ in asked.target), 1.0)
    elif _is_uniform(asked.target):  # nothing fits, so the new option does not either
        target = (1 / (len(asked.target) + 1),) * (len(asked.target) + 1)
    else:
        target = (*asked.target, 0.0)
    return _Asked(question.model_copy(update={"criteria": {**question.criteria, label: description}}), target)


def _cut(prompt: Prompt, kept: Sequence[int]) -> Prompt:
    """The prompt with fewer options. They are cut after rendering, so that levels keep their own numbers."""
    options = tuple(prompt.options[index] for index in kept)
    return replace(prompt, options=options, markers=tuple(prompt.markers[index] for index in kept))


def _renormalised(target: Sequence[float], kept: Sequence[int]) -> tuple[float, ...]:
    total = math.fsum(target[index] for index in kept)
    return tuple(target[index] / total for index in kept)
