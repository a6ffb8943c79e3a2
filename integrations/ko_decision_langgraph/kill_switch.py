"""The kill switch: one environment variable sends everything back to today's path, without a deploy.

It is read per call. While it is set nothing asks the model: triage hands every ticket to the LLM, nodes and edges
escalate, and shadow mode is today's path alone.
"""

from __future__ import annotations

import os
from typing import Final

VARIABLE: Final = "KO_DECISION_OFF"
OFF_REASON: Final = f"switched off by {VARIABLE}"
_NOT_SET: Final = ("", "0", "false", "no")


def switched_off() -> bool:
    """Whether ``KO_DECISION_OFF`` is set; ``""``, ``0``, ``false`` and ``no`` count as not set, anything else as set.

    Example:
        >>> switched_off()
        False
        >>> os.environ["KO_DECISION_OFF"] = "1"
        >>> switched_off()
        True
        >>> del os.environ["KO_DECISION_OFF"]
    """
    return os.environ.get(VARIABLE, "").strip().lower() not in _NOT_SET


__all__ = ["OFF_REASON", "VARIABLE", "switched_off"]
