"""``ClassifyTool``: which one of these?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, Field, field_validator

from ko_decision_tools.decisions import Decision
from ko_decision_tools.tools.arguments import Options, parse_options
from ko_decision_tools.tools.base import DecisionTool, TextOnly, uncertain
from ko_decision_tools.tools.pinning import PinnableTool


class ClassifyArguments(TextOnly):
    """The arguments of a :class:`ClassifyTool` whose options the agent gives."""

    question: str = Field(
        description="무엇을 고르는지 묻는 온전한 질문. The whole question, e.g. '이 문의를 어느 팀이 맡아야 하는가?'"
    )
    options: Options = Field(
        description=(
            "2~255개의 선택지. 각각 '이름' 또는 '이름: 설명'이며, 설명이 있으면 더 정확하다. "
            "The options, each 'label' or 'label: description'; descriptions make the answer better."
        )
    )


class ClassifyTool(PinnableTool):
    """Picks one of several options for a text.

    The agent gives question and options, or the developer pins both and the agent sends ``text`` alone. The answer is
    the option's label exactly as it was given; letters and numbers in front of options are hidden from the model, which
    would otherwise favour the first ones.

    Attributes:
        options: The pinned options: ``{label: description or None}``, or any form an agent may send.

    Example:
        >>> from ko_decision_tools import ClassifyTool, KoDecisionModel, ScriptedEncoder
        >>> model = KoDecisionModel.from_encoder(ScriptedEncoder({"결제": 3.0}))
        >>> tool = ClassifyTool(model=model, question="어느 팀?", options={"결제": "결제와 환불", "배송": None})
        >>> tool.invoke({"text": "돈이 두 번 나갔어요"})
        '{"label":"결제","probability":0.953,"calibrated":false}'
        >>> list(tool.args)
        ['text']
    """

    name: str = "ko_classify"
    description: str = (
        "글을 읽고 선택지 가운데 하나를 고른다. 고른 선택지와 확률을 돌려주며, 확신이 없으면 abstained=true로 알린다. "
        "Use it to sort, label or route a Korean text instead of deciding yourself."
    )
    options: dict[str, Any] | None = None

    _listed: ClassVar[str] = "options"
    _kind: ClassVar[str] = "choice"
    _arguments: ClassVar[type[BaseModel]] = ClassifyArguments
    _argument_of: ClassVar[Mapping[str, str]] = {**DecisionTool._argument_of, "criteria": "options"}
    _pinned_description: ClassVar[str] = (
        "글을 읽고 다음 질문에 답한다: {question} 답은 {names} 가운데 하나이며 확률이 붙는다. "
        "확신이 없으면 abstained=true로 알린다. Send the whole text."
    )

    @field_validator("options", mode="before")
    @classmethod
    def _read_options(cls, value: object) -> dict[str, Any] | None:
        return None if value is None else parse_options(value)

    def _content(self, decision: Decision) -> dict[str, Any]:
        if decision.abstained:
            return uncertain(decision.label, decision)
        return {"label": decision.label, "probability": round(decision.top_probability, 3)}
