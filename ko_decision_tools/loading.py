"""From a model's settings to a running engine: resolve, check, load."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from ko_decision_tools.calibration import CALIBRATION_FILE, TemperatureTable
from ko_decision_tools.checkpoints import Checkpoint, resolve_checkpoint
from ko_decision_tools.engine import Engine

if TYPE_CHECKING:
    from ko_decision_tools.model import KoDecisionModel


class CalibrationWarning(UserWarning):
    """A checkpoint came without temperatures: its probabilities are raw and, as a rule, overconfident."""


def load(settings: KoDecisionModel) -> Engine:
    """Resolve, check and load what the settings name.

    Raises:
        CheckpointError: It cannot be found or is not usable.
        CalibrationError: Its calibration is malformed or belongs to another checkpoint.
    """
    checkpoint = resolve_checkpoint(
        settings.model,
        revision=settings.revision,
        local_files_only=settings.local_files_only,
    )
    temperatures = _temperatures(settings, checkpoint)
    from ko_decision_tools.encoders.pair import PairEncoder, set_threads  # torch: only now

    set_threads(settings.num_threads)
    encoder = PairEncoder.load(checkpoint.folder, device=settings.device)
    revision = checkpoint.revision or checkpoint.fingerprint
    return Engine.of(encoder, name=checkpoint.name, revision=revision, temperatures=temperatures)


def _temperatures(settings: KoDecisionModel, checkpoint: Checkpoint) -> TemperatureTable:
    given = settings.calibration
    if isinstance(given, TemperatureTable):
        table = given
    elif given is not None:
        table = TemperatureTable.read(Path(given))
    elif (own := checkpoint.folder / CALIBRATION_FILE).exists():
        table = TemperatureTable.read(own)
    else:
        warnings.warn(
            f"{checkpoint.name} has no {CALIBRATION_FILE}: its probabilities are raw and overconfident. "
            "Fit temperatures with `ko-decision fit` and pass calibration=…",
            CalibrationWarning,
            stacklevel=4,
        )
        return TemperatureTable()
    if not settings.allow_foreign_calibration:
        table.check_made_for(checkpoint.fingerprint)
    return table
