"""The public fake: an encoder whose scores you write down. For your own tests, without weights or torch.

Example:
    >>> from ko_decision_tools import Choice, KoDecisionModel
    >>> model = KoDecisionModel.from_encoder(ScriptedEncoder({"결제": 3.0, "배송": 0.0}))
    >>> model.decide("돈이 두 번 나갔어요", Choice(instructions="팀?", criteria={"결제": None, "배송": None})).choice
    '결제'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ko_decision_tools.distributions import Scores
from ko_decision_tools.encoders.base import Prepared
from ko_decision_tools.prompts import Prompt

Script = Callable[[Prompt], Sequence[float]] | Mapping[str, float]


class ScriptedEncoder:
    """Scores prompts from a script and records what it was asked.

    Args:
        script: A function from a prompt to one score per option (raise in it to simulate a failure), or a mapping from
            a piece of option text to its score; an option none of whose pieces match scores 0.
        max_tokens: Reported limit; one character counts as one token, and nothing is cut.

    Attributes:
        prompts: Every prompt scored so far, in order.
    """

    def __init__(self, script: Script, *, max_tokens: int = 512) -> None:
        self._script = script
        self._max_tokens = max_tokens
        self.prompts: list[Prompt] = []

    @property
    def max_tokens(self) -> int:
        """See :class:`~ko_decision_tools.encoders.base.Encoder`."""
        return self._max_tokens

    def prepare(self, prompt: Prompt) -> Prepared:
        """See :class:`~ko_decision_tools.encoders.base.Encoder`."""
        rows = tuple(tuple(map(ord, f"{prompt.instruction} {option}{prompt.state}")) for option in prompt.options)
        return Prepared(prompt, rows, None)

    def score(self, prepared: Sequence[Prepared]) -> list[Scores]:
        """See :class:`~ko_decision_tools.encoders.base.Encoder`."""
        return [self._score(item.prompt) for item in prepared]

    def _score(self, prompt: Prompt) -> Scores:
        self.prompts.append(prompt)
        if callable(self._script):
            return Scores(tuple(map(float, self._script(prompt))))
        script = self._script
        return Scores(tuple(max((s for k, s in script.items() if k in text), default=0.0) for text in prompt.options))
