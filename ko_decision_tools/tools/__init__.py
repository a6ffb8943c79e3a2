"""Decisions as LangChain tools: which one (``ClassifyTool``), may I (``GateTool``), how much (``RateTool``).

Every tool returns one JSON line for the LLM and, as the message's artifact, the whole decision as plain JSON. Not being
sure is a normal result: ``abstained`` is true and the line says what to do. Bad arguments come back as an error message
that names the field, the value and the fix, so that the agent can correct itself and the graph goes on.
"""

from ko_decision_tools.tools.base import DecisionTool, ToolInputError
from ko_decision_tools.tools.classify import ClassifyTool
from ko_decision_tools.tools.gate import GateTool
from ko_decision_tools.tools.rate import RateTool
from ko_decision_tools.tools.toolkit import DecisionToolkit

__all__ = ["ClassifyTool", "DecisionTool", "DecisionToolkit", "GateTool", "RateTool", "ToolInputError"]
