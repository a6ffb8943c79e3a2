"""Question and list from the agent, or pinned by the developer so that the agent sends the text alone."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, field_validator

from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.policy import check_probability
from ko_decision_tools.prompts import render_options
from ko_decision_tools.questions import Question, parse_question
from ko_decision_tools.tools.base import DecisionTool, TextOnly

_SHOWN = 20


class PinnableTool(DecisionTool):
    """Base of the tools that ask about a list: of options, or of levels.

    Attributes:
        question: The pinned question, or ``None``.
        min_top_probability: Abstain below it; ``None`` takes the model's.
    """

    question: str | None = None
    min_top_probability: float | None = None

    _listed: ClassVar[str]
    _kind: ClassVar[str]
    _arguments: ClassVar[type[BaseModel]]
    _pinned_description: ClassVar[str]

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._check_pinned()
        if "args_schema" not in settings:
            self.args_schema = TextOnly if self._pinned else self._arguments
        if self._pinned and "description" not in settings:
            self.description = self._pinned_description.format(question=self.question, names=_names(self._list))

    @field_validator("min_top_probability")
    @classmethod
    def _is_probability(cls, value: float | None) -> float | None:
        return None if value is None else check_probability("min_top_probability", value)

    @property
    def _list(self) -> Any:
        return getattr(self, self._listed)

    @property
    def _pinned(self) -> bool:
        return self._list is not None

    def _check_pinned(self) -> None:
        """What the developer pinned fails now, not later inside an agent."""
        if (self.question is None) == self._pinned:
            missing, partner = ("question", self._listed) if self._pinned else (self._listed, "question")
            raise InvalidInputError(missing, f"is not pinned but {partner} is", f"Pin both, or leave out {partner}.")
        if self._pinned:
            try:
                render_options(self._question())
            except InvalidInputError as error:
                raise InvalidInputError(
                    self._renamed(error.field), error.problem, error.fix, value=error.value
                ) from None

    def _demands(self) -> dict[str, Any]:
        return super()._demands() | {"min_top_probability": self.min_top_probability}

    def _question(self, **asked: Any) -> Question:
        question, entries = (self.question, self._list) if self._pinned else (asked["question"], asked[self._listed])
        return parse_question({"type": self._kind, "instructions": question, "criteria": entries})


def _names(entries: Any) -> str:
    names = list(entries)
    more = f" 외 {len(names) - _SHOWN}개" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
