"""The scripts in ``examples/`` run offline and print a result; what a better checkpoint would change is not pinned."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.fixture(autouse=True)
def _their_logging_stays_theirs() -> Iterator[None]:
    """A script may quieten the library's logger; the tests after it listen to that logger."""
    ours = logging.getLogger("ko_decision_tools")
    before = ours.level
    yield
    ours.setLevel(before)


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def printed(name: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    script(name).main()
    return capsys.readouterr().out.splitlines()


def test_tool_example(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed("tool_example", capsys)
    assert [line.split("]")[0] for line in lines[::2]] == [
        "[ko_classify, success",
        "[ko_rate, success",
        "[ko_classify, error",
    ]
    assert "options has 1 entry" in lines[4]


def test_gate_example(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed("gate_example", capsys)
    assert len(lines) == 3
    assert all(line.split()[0] in ("allow", "block", "abstain") for line in lines)
    assert all(("not executed" in line) is not line.startswith("allow") for line in lines[:2])
    assert lines[2].startswith("block")
    assert "out of memory" in lines[2]


def test_router_example(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed("router_example", capsys)
    assert len(lines) == 8
    assert "(빈 문의)" in lines[4]
    assert lines[4].startswith("escalated")
    calls = [int(line.split()[-4]) for line in lines[5:]]
    assert calls == sorted(calls, reverse=True)
    assert calls[-1] >= 1  # an empty ticket is never routed
