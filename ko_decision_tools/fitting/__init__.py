"""Fitting: temperatures and thresholds from labelled, scored rows, with the evidence kept beside them.

Pure functions of a score file's records; nothing here loads a model.
"""

from __future__ import annotations

from ko_decision_tools.fitting.answers import halves
from ko_decision_tools.fitting.findings import Mistake, Point
from ko_decision_tools.fitting.temperature import (
    FittedTemperature,
    RefusedTemperature,
    TemperatureFit,
    TemperatureReport,
    fit_temperatures,
)
from ko_decision_tools.fitting.threshold import ThresholdFit, fit_threshold

__all__ = [
    "FittedTemperature",
    "Mistake",
    "Point",
    "RefusedTemperature",
    "TemperatureFit",
    "TemperatureReport",
    "ThresholdFit",
    "fit_temperatures",
    "fit_threshold",
    "halves",
]
