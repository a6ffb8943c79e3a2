"""``DecisionToolkit``: the three tools around one model."""

from __future__ import annotations

from typing import Any, Literal

from langchain_core.tools import BaseTool, BaseToolkit
from pydantic import ConfigDict, ValidationError

from ko_decision_tools.model import KoDecisionModel
from ko_decision_tools.tools.base import SEE_SCHEMA
from ko_decision_tools.tools.classify import ClassifyTool
from ko_decision_tools.tools.gate import GateTool
from ko_decision_tools.tools.rate import RateTool
from ko_decision_tools.validation import problems_of


class DecisionToolkit(BaseToolkit):
    """The three tools with options and levels left to the agent, sharing one model's weights.

    Attributes:
        model: What answers.
        min_top_probability: For classifying and rating; ``None`` takes the model's. The gate has its own band.
        on_abstain: For all three.

    Example:
        >>> from ko_decision_tools import DecisionToolkit, KoDecisionModel, ScriptedEncoder
        >>> toolkit = DecisionToolkit(KoDecisionModel.from_encoder(ScriptedEncoder({})))
        >>> [tool.name for tool in toolkit.get_tools()]
        ['ko_classify', 'ko_gate', 'ko_rate']
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    model: KoDecisionModel
    min_top_probability: float | None = None
    on_abstain: Literal["return", "raise"] = "return"

    def __init__(self, model: KoDecisionModel, **settings: Any) -> None:
        settings["model"] = model
        try:
            super().__init__(**settings)
        except ValidationError as error:
            raise problems_of(error, fix=SEE_SCHEMA)[0] from None

    def get_tools(self) -> list[BaseTool]:
        """A :class:`ClassifyTool`, a :class:`GateTool` and a :class:`RateTool`."""
        shared: dict[str, Any] = {"model": self.model, "on_abstain": self.on_abstain}
        return [
            ClassifyTool(min_top_probability=self.min_top_probability, **shared),
            GateTool(**shared),
            RateTool(min_top_probability=self.min_top_probability, **shared),
        ]
