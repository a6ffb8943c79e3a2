"""The micro-batcher: shared passes, honest failures, nobody left hanging."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from ko_decision_tools.batcher import MicroBatcher
from ko_decision_tools.distributions import Scores
from ko_decision_tools.encoders.base import Prepared
from ko_decision_tools.encoders.scripted import ScriptedEncoder
from ko_decision_tools.errors import EncoderError, OverloadedError
from ko_decision_tools.prompts import Prompt


def prepared(text: str, tokens: int = 10) -> Prepared:
    prompt = Prompt("choice", "?", ("가", "나"), text, (None, None))
    return Prepared(prompt, ((0,) * (tokens // 2),) * 2, None)


class Gated:
    """An encoder that waits to be let through and remembers its batches."""

    max_tokens = 512

    def __init__(self, fail_on: str | None = None) -> None:
        self.gate, self.started = threading.Event(), threading.Event()
        self.batches: list[list[str]] = []
        self._fail_on = fail_on

    def prepare(self, prompt: Prompt) -> Prepared:
        raise NotImplementedError

    def score(self, items: Sequence[Prepared]) -> list[Scores]:
        self.started.set()
        assert self.gate.wait(timeout=30)
        states = [item.prompt.state for item in items]
        self.batches.append(states)
        if self._fail_on in states:
            raise EncoderError(f"cannot score {self._fail_on}")
        return [Scores((float(len(state)), 0.0)) for state in states]


def test_what_waits_is_scored_together_and_each_gets_its_own_answer() -> None:
    encoder = Gated()
    with MicroBatcher(encoder) as batcher:
        first = batcher.submit(prepared("a"))
        assert encoder.started.wait(timeout=30)
        rest = [batcher.submit(prepared("b" * n)) for n in range(2, 8)]
        encoder.gate.set()
        assert first.result(timeout=30).logits == (1.0, 0.0)
        assert [future.result(timeout=30).logits[0] for future in rest] == [2, 3, 4, 5, 6, 7]
    assert [len(batch) for batch in encoder.batches] == [1, 6]


def test_a_batch_holds_at_most_its_token_budget_but_an_oversized_prompt_goes_alone() -> None:
    encoder = Gated()
    with MicroBatcher(encoder, max_tokens=25) as batcher:
        futures = [batcher.submit(prepared("a"))]
        assert encoder.started.wait(timeout=30)
        futures += [
            batcher.submit(prepared(text, tokens)) for text, tokens in (("b", 10), ("c", 10), ("d", 90), ("e", 10))
        ]
        encoder.gate.set()
        for future in futures:
            future.result(timeout=30)
    assert encoder.batches == [["a"], ["b", "c"], ["d"], ["e"]]


def test_one_bad_prompt_fails_alone() -> None:
    encoder = Gated(fail_on="bad")
    with MicroBatcher(encoder) as batcher:
        batcher.submit(prepared("first"))
        assert encoder.started.wait(timeout=30)
        good, bad = batcher.submit(prepared("good")), batcher.submit(prepared("bad"))
        encoder.gate.set()
        assert good.result(timeout=30).logits == (4.0, 0.0)
        with pytest.raises(EncoderError, match="cannot score bad"):
            bad.result(timeout=30)


def test_callers_who_left_cost_nothing() -> None:
    encoder = Gated()
    with MicroBatcher(encoder) as batcher:
        batcher.submit(prepared("first"))
        assert encoder.started.wait(timeout=30)
        gone, stays = batcher.submit(prepared("gone")), batcher.submit(prepared("stays"))
        assert gone.cancel()
        encoder.gate.set()
        stays.result(timeout=30)
    assert encoder.batches == [["first"], ["stays"]]


def test_a_full_queue_refuses() -> None:
    encoder = Gated()
    with MicroBatcher(encoder, max_waiting=2) as batcher:
        batcher.submit(prepared("taken"))
        assert encoder.started.wait(timeout=30)
        waiting = [batcher.submit(prepared("x")) for _ in range(2)]
        with pytest.raises(OverloadedError, match="2 prompts are waiting"):
            batcher.submit(prepared("too many"))
        encoder.gate.set()
        assert all(future.result(timeout=30) for future in waiting)


def test_closing_finishes_what_is_queued_and_refuses_the_rest() -> None:
    batcher = MicroBatcher(ScriptedEncoder({"가": 1.0}))
    future = batcher.submit(prepared("x"))
    batcher.close()
    assert future.result(timeout=30).logits == (1.0, 0.0)
    with pytest.raises(EncoderError, match="closed"):
        batcher.submit(prepared("y"))
    batcher.close()


def test_the_wrong_number_of_results_reaches_every_caller() -> None:
    class Short(Gated):
        def score(self, items: Sequence[Prepared]) -> list[Scores]:
            return []

    with MicroBatcher(Short()) as batcher, pytest.raises(EncoderError, match="0 results for 1 prompts"):
        batcher.submit(prepared("x")).result(timeout=30)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_crashed_thread_leaves_nobody_hanging() -> None:
    class Crash(BaseException):
        pass

    class Crashing(Gated):
        def score(self, items: Sequence[Prepared]) -> Any:
            self.started.set()
            assert self.gate.wait(timeout=30)
            raise Crash

    encoder = Crashing()
    batcher = MicroBatcher(encoder, max_tokens=10)
    running = batcher.submit(prepared("running"))
    assert encoder.started.wait(timeout=30)
    waiting = batcher.submit(prepared("waiting"))
    encoder.gate.set()
    for future in (running, waiting):
        with pytest.raises(EncoderError, match="stopped"):
            future.result(timeout=30)
    with pytest.raises(EncoderError, match="closed"):
        batcher.submit(prepared("late"))
    batcher.close()  # joins the thread, so that its traceback belongs to this test
