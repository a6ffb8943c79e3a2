"""``examples/support_graph.py``: offline, on the bundled checkpoint, and with a model that is always right."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from ko_decision_langgraph.kill_switch import VARIABLE
from ko_decision_tools import KoDecisionModel, ScriptedEncoder
from ko_decision_tools.prompts import Prompt

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "support_graph.py"


@pytest.fixture(scope="module")
def example() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("support_graph", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def all_knowing(example: ModuleType) -> KoDecisionModel:
    """Right about every route; sure about addresses; a gate that blocks, asks and allows."""
    label_of = {ticket["text"]: ticket["label"] for ticket in example.read_tickets()}

    def script(prompt: Prompt) -> list[float]:
        if len(prompt.options) > 2:
            return [9.0 if option.split(":")[0] == label_of[prompt.state] else 0.0 for option in prompt.options]
        if prompt.instruction == example.WANTS_ANOTHER_ADDRESS.instructions:
            return [0.0, 9.0] if re.search(r"주소|배송지|\d호", prompt.state) else [9.0, 0.0]
        return [0.0, 9.0] if "취소" in prompt.state else [0.0, 0.0] if "반품" in prompt.state else [9.0, 0.0]

    return KoDecisionModel.from_encoder(ScriptedEncoder(script))


async def test_every_ticket_is_accounted_for(example: ModuleType) -> None:
    tickets = example.read_tickets()
    assert len(tickets) == 60
    day = await example.work(all_knowing(example), tickets)
    rows = example.summary(day)
    free = [each for each in day.outcomes if each.answered_without_llm]
    assert all(each.right for each in day.outcomes)
    assert len(free) >= 30
    assert {each.label for each in free} == {"배송", "수리", "상품 문의", "회원"}
    assert sum(int(rows[name].split()[0]) for name in rows if "LLM" in name and "calls" not in name) == 60

    seen = {messages[0].text for messages in day.llm.asked}  # what an LLM was called with, ticket by ticket
    assert seen.isdisjoint(each.state["messages"][0].text for each in free)
    assert len(seen) == 60 - len(free)
    assert rows["LLM calls avoided"] == str(len(free))
    assert rows["LLM calls made"] == str(len(day.llm.asked))

    gated, allowed, blocked, asked = (int(rows[name]) for name in rows if "gate" in name or "person" in name)
    assert gated == allowed + blocked + asked
    assert min(allowed, blocked, asked) >= 1
    assert len(day.shop.done) == allowed + asked
    assert any(done.startswith("change_address") for done in day.shop.done)


async def test_with_the_kill_switch_everything_goes_to_the_llm_and_no_tool_runs(
    example: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    day = await example.work(all_knowing(example), example.read_tickets()[:12])
    assert not any(each.answered_without_llm for each in day.outcomes)
    assert day.shop.done == []  # a gate that cannot judge fails closed
    assert day.accounting.snapshot()["decisions"] == 0


def test_it_runs_offline_on_the_bundled_checkpoint(example: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    example.main()
    printed = capsys.readouterr().out
    for row in ("answered without an LLM", "tool calls gated", "right, of all", "LLM calls avoided"):
        assert row in printed
    assert re.search(r"tickets\s+│\s+60", printed)
