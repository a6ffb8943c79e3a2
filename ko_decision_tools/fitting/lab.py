"""What fitting needs beside the core."""

from __future__ import annotations

from importlib.util import find_spec

from ko_decision_tools.errors import InvalidInputError


def require_scipy() -> None:
    """Say what to install, before anything slow happens.

    Raises:
        InvalidInputError: scipy is not installed.
    """
    if find_spec("scipy") is None:
        raise InvalidInputError("scipy", "is not installed", 'Run: pip install "ko-decision-tools[lab]".')
