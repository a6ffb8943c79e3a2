"""README.md is executed: Python blocks in order with their printed output compared, ``ko-decision`` lines run."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [(match[1], match[2]) for match in BLOCK.finditer(README)]


def test_python_blocks_print_what_they_say() -> None:
    namespace: dict[str, Any] = {}
    checked = 0
    for index, (language, code) in enumerate(BLOCKS):
        if language != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, f"README.md, block {index}", "exec"), namespace)
        if index + 1 < len(BLOCKS) and BLOCKS[index + 1][0] == "text":
            assert printed.getvalue() == BLOCKS[index + 1][1], f"block {index}"
            checked += 1
    assert checked >= 3


def commands() -> list[str]:
    """Every ``ko-decision`` line of the README, the one inside the two-command install included."""
    lines = [line for language, code in BLOCKS if language == "bash" for line in code.splitlines()]
    parts = [part.strip().removeprefix(".venv/bin/") for line in lines for part in line.split("&&")]
    return [part for part in parts if part.startswith("ko-decision ")]


@pytest.mark.parametrize("command", commands())
def test_command_lines_run(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ko_decision_tools.cli import app

    if "../shared" in command and not (ROOT.parent / "shared").is_dir():
        pytest.skip("needs ../shared, which is not here")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, shlex.split(command)[1:])
    assert result.exit_code == 0, result.output


def test_both_commands_are_marked_for_ci() -> None:
    assert "<!-- main job -->\n```bash" in README
    assert "<!-- tests -->\n```bash" in README
