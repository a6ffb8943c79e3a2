"""Recipes as YAML files: two come with the package (``roberta-large``, ``mini``) and one for your own rows."""

from __future__ import annotations

from pathlib import Path

import yaml
from pydantic import ValidationError

from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.training.recipe import Recipe

FOLDER = Path(__file__).parent / "recipes"


def bundled_recipes() -> list[str]:
    """The names of the recipes that come with the package.

    Example:
        >>> bundled_recipes()
        ['mini', 'own-rows', 'roberta-large']
    """
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def recipe_path(name: str) -> Path:
    """The file of a bundled recipe's name, or the path itself.

    Raises:
        InvalidInputError: There is no such file.
    """
    path = FOLDER / f"{name}.yaml" if name in bundled_recipes() else Path(name)
    if not path.is_file():
        fix = f"Pass a YAML file, or one of {', '.join(bundled_recipes())}."
        raise InvalidInputError("recipe", "is no file", fix, value=name)
    return path


def read_recipe(name: str | Path) -> Recipe:
    """Read and check a recipe.

    Raises:
        InvalidInputError: It is not there, not YAML, or a key of it (which is named) is unknown, missing or unfit.

    Example:
        >>> read_recipe("roberta-large").optimizer.encoder_lr
        1e-05
    """
    path = recipe_path(str(name))
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidInputError(str(path), f"cannot be read as YAML ({error})", "Correct the file.") from error
    return parse_recipe(raw, str(path))


def parse_recipe(raw: object, where: str = "recipe") -> Recipe:
    """A recipe from its parsed form.

    Raises:
        InvalidInputError: See :func:`read_recipe`.
    """
    try:
        return Recipe.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"])) or "the recipe"
        fix = "Compare it with the recipes in ko_decision_tools/training/recipes."
        raise InvalidInputError(f"{where}: {key}", f"is unfit ({first['msg']})", fix, value=first["input"]) from None
