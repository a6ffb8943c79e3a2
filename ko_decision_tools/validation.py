"""What pydantic finds wrong, in this library's own words: the field, what is wrong with it, the fix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from ko_decision_tools.errors import InvalidInputError


def problems_of(error: ValidationError, *, root: str = "", fix: str) -> list[InvalidInputError]:
    """Every problem as an :class:`InvalidInputError`; one that already is, raised in a validator, comes out as it was.

    Args:
        error: What pydantic raised; it lists at least one problem.
        root: How to call what was validated; field names are put behind it.
        fix: What to do about a value of the wrong kind.
    """
    return [_problem(item, root, fix) for item in error.errors(include_url=False)]


def _problem(item: Mapping[str, Any], root: str, fix: str) -> InvalidInputError:
    cause = item.get("ctx", {}).get("error")
    if isinstance(cause, InvalidInputError):
        return cause
    field = ".".join(map(str, (root, *item["loc"]) if root else item["loc"])) or "arguments"
    if item["type"] == "missing":
        return InvalidInputError(field, "is missing", "It is required.")
    message = str(item["msg"])
    problem = f"is not usable ({message[:1].lower()}{message[1:]})"
    return InvalidInputError(field, problem, fix, value=item["input"])
