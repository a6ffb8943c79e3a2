"""What reports need beside the core."""

from __future__ import annotations

from importlib.util import find_spec

from ko_decision_tools.errors import InvalidInputError

MODULES = {"scipy": "scipy", "sklearn": "scikit-learn", "jinja2": "jinja2"}


def require_lab() -> None:
    """Say what to install, before anything slow happens.

    Raises:
        InvalidInputError: scipy, scikit-learn or jinja2 is not installed.
    """
    for module, name in MODULES.items():
        if find_spec(module) is None:
            raise InvalidInputError(name, "is not installed", 'Run: pip install "ko-decision-tools[lab]".')
