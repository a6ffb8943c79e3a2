"""What the tests of triage, graph parts and shadow mode share: scripted models, encoders that wait, recorded runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler

from ko_decision_tools import DecisionRouter, EncoderError, KoDecisionModel, Route, ScriptedEncoder
from ko_decision_tools.prompts import Prompt

ROUTES = [Route("배송", "배송 지연과 송장"), Route("결제", "결제와 환불"), Route("회원", "로그인과 적립금")]
JSON_TYPES = {dict, list, str, int, float, bool, type(None)}
PATIENCE = 30  # seconds after which a test that waits for something fails instead


def by_text(prompt: Prompt) -> list[float]:
    """Sure of the option whose label stands in the text, unsure when none does, broken by "폭탄"."""
    if "폭탄" in prompt.state:
        raise EncoderError("메모리 부족")
    return [5.0 if option.split(":")[0] in prompt.state else 0.0 for option in prompt.options]


def by_topic(prompt: Prompt) -> list[float]:
    """[no, yes] for "is '…' in it?": yes when the text names the topic, unsure when it says "topic?"."""
    topic = prompt.instruction.split("'")[1]
    if f"{topic}?" in prompt.state:
        return [0.0, 0.0]
    return [0.0, 5.0] if topic in prompt.state else [5.0, 0.0]


def scripted(
    script: Callable[[Prompt], Sequence[float]] = by_text, **settings: Any
) -> tuple[KoDecisionModel, ScriptedEncoder]:
    """A decision model, and the encoder inside it, whose ``prompts`` are everything that was asked."""
    encoder = ScriptedEncoder(script)
    return KoDecisionModel.from_encoder(encoder, **settings), encoder


def desk(routes: Any = ROUTES, **settings: Any) -> tuple[DecisionRouter, ScriptedEncoder]:
    """A router over a scripted model, and its encoder."""
    model, encoder = scripted()
    return DecisionRouter(model, routes, **settings), encoder


class Held:
    """A script that waits for :meth:`release`; :meth:`until_asked` says when it began to wait."""

    def __init__(self) -> None:
        self._asked, self._released = threading.Event(), threading.Event()

    def __call__(self, prompt: Prompt) -> list[float]:
        self._asked.set()
        if not self._released.wait(PATIENCE):
            raise EncoderError("nobody released it: whoever should have was blocked")
        return by_text(prompt)

    async def until_asked(self) -> None:
        """Wait, off the loop, for the encoder to be at work."""
        assert await asyncio.to_thread(self._asked.wait, PATIENCE)

    def release(self) -> None:
        """Let it go on."""
        self._released.set()


class Runs(BaseCallbackHandler):
    """Every chain run: its name, its parent and what was shown of its input."""

    def __init__(self) -> None:
        self.names: dict[UUID, str] = {}
        self.parents: dict[UUID, UUID | None] = {}
        self.inputs: dict[UUID, str] = {}

    def on_chain_start(self, serialized: Any, inputs: Any, **kwargs: Any) -> None:
        run = kwargs["run_id"]
        self.names[run], self.parents[run], self.inputs[run] = kwargs["name"], kwargs["parent_run_id"], repr(inputs)

    def of(self, name: str) -> UUID:
        """The only run of this name."""
        (run,) = (run for run, each in self.names.items() if each == name)
        return run

    def ancestors(self, name: str) -> list[str]:
        """Names of the runs above it, the nearest first."""
        found, run = [], self.parents[self.of(name)]
        while run is not None:
            found.append(self.names[run])
            run = self.parents[run]
        return found
