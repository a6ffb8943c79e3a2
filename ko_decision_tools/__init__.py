"""Calibrated Korean decision encoders as typed tools for agents: classify, yes/no gate, rate.

Names resolve on first use, so ``import ko_decision_tools`` loads neither torch nor transformers nor langchain.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ko_decision_tools.calibration import TemperatureTable
    from ko_decision_tools.decisions import Decision, Provenance, Truncation
    from ko_decision_tools.encoders.scripted import ScriptedEncoder
    from ko_decision_tools.errors import (
        AbstainedError,
        CalibrationError,
        CheckpointError,
        CheckpointNotFoundError,
        EncoderError,
        InputTooLongError,
        InvalidInputError,
        KoDecisionError,
        OverloadedError,
        RoutingTableError,
        UncalibratedError,
    )
    from ko_decision_tools.model import KoDecisionModel
    from ko_decision_tools.policy import MinMargin, MinTopProbability, Policy, WhenUncalibrated, YesNoBand
    from ko_decision_tools.questions import Choice, Noul, NoulCriteria, Score
    from ko_decision_tools.router import DecisionRouter, Route, RouteResult
    from ko_decision_tools.tools import ClassifyTool, DecisionToolkit, GateTool, RateTool

_HOMES = {
    "calibration": ("TemperatureTable",),
    "decisions": ("Decision", "Provenance", "Truncation"),
    "encoders.scripted": ("ScriptedEncoder",),
    "errors": (
        "AbstainedError",
        "CalibrationError",
        "CheckpointError",
        "CheckpointNotFoundError",
        "EncoderError",
        "InputTooLongError",
        "InvalidInputError",
        "KoDecisionError",
        "OverloadedError",
        "RoutingTableError",
        "UncalibratedError",
    ),
    "model": ("KoDecisionModel",),
    "policy": ("MinMargin", "MinTopProbability", "Policy", "WhenUncalibrated", "YesNoBand"),
    "questions": ("Choice", "Noul", "NoulCriteria", "Score"),
    "router": ("DecisionRouter", "Route", "RouteResult"),
    "tools": ("ClassifyTool", "DecisionToolkit", "GateTool", "RateTool"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__version__ = "0.1.0"
__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
