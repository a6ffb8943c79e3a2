"""The package's surface: what importing costs, what is exported, which way imports go."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import ko_decision_tools

PACKAGE = Path(ko_decision_tools.__file__).parent


def test_importing_loads_no_heavy_library() -> None:
    code = (
        "import sys, ko_decision_tools\n"
        "heavy = {'torch', 'transformers', 'langchain_core', 'tokenizers', 'numpy', 'scipy', 'sklearn'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_exported_name_resolves_and_is_what_type_checkers_see() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name for node in guarded.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert seen == set(ko_decision_tools.__all__)
    for name in ko_decision_tools.__all__:
        assert getattr(ko_decision_tools, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(ko_decision_tools, "configure")


def test_torch_stays_in_its_rooms() -> None:
    allowed = {"encoders/pair.py", "training"}
    for path in PACKAGE.rglob("*.py"):
        where = path.relative_to(PACKAGE).as_posix()
        if any(where == room or where.startswith(f"{room}/") for room in allowed):
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            assert not {name.split(".")[0] for name in names} & {"torch", "transformers"}, where
