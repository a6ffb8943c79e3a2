"""Calibrated Korean decision encoders as typed tools for agents: classify, yes/no gate, rate.

Names resolve on first use, so ``import ko_decision_tools`` loads neither torch nor transformers nor langchain.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ko_decision_tools.calibration import TemperatureTable as TemperatureTable
    from ko_decision_tools.decisions import Decision as Decision
    from ko_decision_tools.decisions import Provenance as Provenance
    from ko_decision_tools.decisions import Truncation as Truncation
    from ko_decision_tools.encoders.scripted import ScriptedEncoder as ScriptedEncoder
    from ko_decision_tools.errors import AbstainedError as AbstainedError
    from ko_decision_tools.errors import CalibrationError as CalibrationError
    from ko_decision_tools.errors import CheckpointError as CheckpointError
    from ko_decision_tools.errors import CheckpointNotFoundError as CheckpointNotFoundError
    from ko_decision_tools.errors import EncoderError as EncoderError
    from ko_decision_tools.errors import InputTooLongError as InputTooLongError
    from ko_decision_tools.errors import InvalidInputError as InvalidInputError
    from ko_decision_tools.errors import KoDecisionError as KoDecisionError
    from ko_decision_tools.errors import OverloadedError as OverloadedError
    from ko_decision_tools.errors import RoutingTableError as RoutingTableError
    from ko_decision_tools.errors import UncalibratedError as UncalibratedError
    from ko_decision_tools.model import KoDecisionModel as KoDecisionModel
    from ko_decision_tools.policy import MinMargin as MinMargin
    from ko_decision_tools.policy import MinTopProbability as MinTopProbability
    from ko_decision_tools.policy import Policy as Policy
    from ko_decision_tools.policy import WhenUncalibrated as WhenUncalibrated
    from ko_decision_tools.policy import YesNoBand as YesNoBand
    from ko_decision_tools.questions import Choice as Choice
    from ko_decision_tools.questions import Noul as Noul
    from ko_decision_tools.questions import NoulCriteria as NoulCriteria
    from ko_decision_tools.questions import Score as Score
    from ko_decision_tools.router import DecisionRouter as DecisionRouter
    from ko_decision_tools.router import Route as Route
    from ko_decision_tools.router import RouteResult as RouteResult
    from ko_decision_tools.tools import ClassifyTool as ClassifyTool
    from ko_decision_tools.tools import DecisionToolkit as DecisionToolkit
    from ko_decision_tools.tools import GateTool as GateTool
    from ko_decision_tools.tools import RateTool as RateTool

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
