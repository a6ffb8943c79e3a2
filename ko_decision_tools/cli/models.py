"""Where commands get their model. A seam: tests put a scripted one in the place of ``load_model``."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ko_decision_tools.cli.frame import say

if TYPE_CHECKING:
    from ko_decision_tools.model import KoDecisionModel


def load_model(
    checkpoint: str,
    *,
    revision: str | None = None,
    calibration: Path | None = None,
    device: str | None = None,
    num_threads: int | None = None,
) -> KoDecisionModel:
    """Load a checkpoint, with a spinner on stderr; a warning is one line there.

    Raises:
        CheckpointError, CalibrationError, InvalidInputError: As ``KoDecisionModel.from_pretrained``.
    """
    from ko_decision_tools.calibration import TemperatureTable
    from ko_decision_tools.cli import show

    # The cheap file first: a wrong one should not cost the wait for torch.
    table = None if calibration is None else TemperatureTable.read(calibration)
    with show.working(f"loading {checkpoint}"), _one_line_warnings():
        from ko_decision_tools.model import KoDecisionModel

        return KoDecisionModel.from_pretrained(
            checkpoint, revision=revision, calibration=table, device=device, num_threads=num_threads
        )


@contextmanager
def _one_line_warnings() -> Iterator[None]:
    from ko_decision_tools.loading import CalibrationWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CalibrationWarning)
        yield
    for warning in caught:
        say(f"warning: {warning.message}")
