"""The longest time the event loop stands still while a gate asks a slow encoder. ``pytest -m bench -s``."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from langchain.agents import create_agent

from ko_decision_langgraph.gate import DecisionGateMiddleware
from tests.langgraph.gate_stand_ins import Refunds, calling, judging

SLOW_S = 0.3
LIMIT_MS = 50.0


@pytest.mark.bench
async def test_the_loop_stands_still_less_than_50_ms(capsys: pytest.CaptureFixture[str]) -> None:
    def script(prompt: Any) -> list[float]:
        time.sleep(SLOW_S)
        return [4.0, 0.0]

    model, encoder = judging(script)
    refunds = Refunds()
    agent = create_agent(
        calling("정상", "보통"), [refunds.tool()], middleware=[DecisionGateMiddleware(model, ["refund"])]
    )
    await agent.ainvoke({"messages": [("user", "한 번 돌려 둔다")]})
    calm = await _longest_gap(asyncio.sleep(len(encoder.prompts) * SLOW_S))
    gap = await _longest_gap(agent.ainvoke({"messages": [("user", "환불")]}))
    model.close()
    with capsys.disabled():
        print(f"\nlongest gap while a {SLOW_S * 1000:.0f} ms encoder runs: {gap:.1f} ms (with no agent: {calm:.1f} ms)")
    assert gap < LIMIT_MS


async def _longest_gap(work: Any) -> float:
    """Milliseconds between two turns of the loop at most, while ``work`` goes on."""
    task = asyncio.ensure_future(work)
    longest, last = 0.0, time.perf_counter()
    while not task.done():
        await asyncio.sleep(0.001)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    await task
    return longest * 1000
