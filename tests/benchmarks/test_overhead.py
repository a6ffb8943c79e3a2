"""What the library adds to the raw forward passes, as a ratio in one run. Off by default: ``pytest -m bench -s``.

Both sides tokenise, score and normalise one 7-option question on the bundled checkpoint, interleaved so that whatever
else the machine does hits both.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ko_decision_tools.presets import KLUE_YNAT
from ko_decision_tools.prompts import render
from tests.checkpoints import CardReference

ROUNDS = 40


@pytest.mark.bench
def test_the_library_adds_at_most_five_percent(mini: Any, capsys: pytest.CaptureFixture[str]) -> None:
    card = CardReference(Path(__file__).parents[2] / "ko_decision_tools" / "mini")
    title = "지하철 요금 다음 달부터 150원 오른다"
    prompt = render(KLUE_YNAT.question, title)
    temperature = mini.decide(title, KLUE_YNAT.question).provenance.temperature

    def raw() -> Any:
        return card.decide(prompt.instruction, list(prompt.options), prompt.state, temperature)

    def ours() -> Any:
        return mini.decide(title, KLUE_YNAT.question)

    ratio = _median_ratio(ours, raw)
    with capsys.disabled():
        print(f"\nlibrary / raw forward passes, K=7, bundled checkpoint: {ratio:.3f} (median of {ROUNDS} pairs)")
    assert ratio <= 1.05


def _median_ratio(ours: Callable[[], Any], raw: Callable[[], Any]) -> float:
    for warm in (ours, raw, ours, raw):
        warm()
    return statistics.median(_seconds(ours) / _seconds(raw) for _ in range(ROUNDS))


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
