"""``RateTool``: how much, on these levels?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, Field, field_validator

from ko_decision_tools.decisions import Decision
from ko_decision_tools.prompts import as_text
from ko_decision_tools.tools.arguments import Levels, parse_levels
from ko_decision_tools.tools.base import DecisionTool, TextOnly, uncertain
from ko_decision_tools.tools.pinning import PinnableTool


class RateArguments(TextOnly):
    """The arguments of a :class:`RateTool` whose levels the agent gives."""

    question: str = Field(description="정도를 묻는 온전한 질문. The whole question, e.g. '이 문의는 얼마나 급한가?'")
    levels: Levels = Field(
        description=(
            "낮은 단계부터 높은 단계까지 2~10개의 단계 설명. "
            "What each level means, lowest first, e.g. ['급하지 않다', '오늘 안에 답해야 한다', '지금 답해야 한다']."
        )
    )


class RateTool(PinnableTool):
    """Rates a text on ordered levels; the score is the expected level, from 0 to n-1.

    The agent gives question and levels, or the developer pins both and the agent sends ``text`` alone.

    Attributes:
        levels: The pinned level descriptions, lowest first, or any form an agent may send.

    Example:
        >>> from ko_decision_tools import KoDecisionModel, RateTool, ScriptedEncoder
        >>> model = KoDecisionModel.from_encoder(ScriptedEncoder({"지금": 4.0}))
        >>> tool = RateTool(model=model, question="얼마나 급한가?", levels=["천천히", "오늘 안에", "지금"])
        >>> tool.invoke({"text": "불났어요"})
        '{"score":1.947,"highest":2,"level":"지금","probability":0.965,"calibrated":false}'
    """

    name: str = "ko_rate"
    description: str = (
        "글을 읽고 단계로 나눈 정도를 매긴다. 기대 단계(score, 0이 가장 낮음)와 가장 그럴듯한 단계, 확률을 돌려주며, "
        "확신이 없으면 abstained=true로 알린다. Use it to rate urgency, severity, similarity and the like."
    )
    levels: list[str] | None = None

    _listed: ClassVar[str] = "levels"
    _kind: ClassVar[str] = "score"
    _arguments: ClassVar[type[BaseModel]] = RateArguments
    _argument_of: ClassVar[Mapping[str, str]] = {**DecisionTool._argument_of, "criteria": "levels", "options": "levels"}
    _pinned_description: ClassVar[str] = (
        "글을 읽고 다음 질문에 단계로 답한다: {question} 단계는 낮은 것부터 {names}. "
        "score는 기대 단계(0이 가장 낮음)이며, 확신이 없으면 abstained=true로 알린다. Send the whole text."
    )

    @field_validator("levels", mode="before")
    @classmethod
    def _read_levels(cls, value: object) -> list[str] | None:
        return None if value is None else parse_levels(value)

    def _content(self, decision: Decision) -> dict[str, Any]:
        levels = decision.legend or ()
        level = as_text(levels[int(decision.label)])
        rated = {"score": round(decision.score, 3), "highest": len(levels) - 1}
        if decision.abstained:
            return uncertain(level, decision) | rated
        return rated | {"level": level, "probability": round(decision.top_probability, 3)}
