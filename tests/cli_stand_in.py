"""What the command line's tests share: a scripted model in the place of a loaded one, and a way to run commands."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ko_decision_tools import KoDecisionModel, ScriptedEncoder
from ko_decision_tools.cli import app
from ko_decision_tools.encoders.scripted import Script
from ko_decision_tools.prompts import Prompt

ROUTES = """\
question: 이 문의를 어느 팀이 맡아야 하는가?
routes:
  결제: 결제와 환불
  배송: 배송 지연과 주소 변경
  회원: 로그인과 적립금
escalate_to: 상담원
"""


def names_its_route(prompt: Prompt) -> list[float]:
    """Sure of the option whose label stands in the text; of none when none does."""
    return [6.0 if option.split(":")[0] in prompt.state else 0.0 for option in prompt.options]


def use_model(monkeypatch: pytest.MonkeyPatch, script: Script = names_its_route, **settings: Any) -> list[str]:
    """Let commands load a scripted model; returns the list that the checkpoints they asked for are put in."""
    asked: list[str] = []

    def load_model(checkpoint: str, **_: Any) -> KoDecisionModel:
        asked.append(checkpoint)
        return KoDecisionModel.from_encoder(ScriptedEncoder(script), **settings)

    monkeypatch.setattr("ko_decision_tools.cli.models.load_model", load_model)
    return asked


def failing_at(count: int, error: Callable[[], BaseException]) -> Script:
    """A script that raises from its ``count``-th prompt on."""
    seen: list[str] = []

    def script(prompt: Prompt) -> list[float]:
        seen.append(prompt.state)
        if len(seen) >= count:
            raise error()
        return names_its_route(prompt)

    return script


def run(*words: str | Path, stdin: bytes | None = None) -> Result:
    """Run ``ko-decision`` in this process."""
    return CliRunner().invoke(app, [str(word) for word in words], input=stdin)


def rows_of(text: str) -> list[dict[str, str]]:
    """The records of a CSV."""
    return list(csv.DictReader(io.StringIO(text)))


def objects_of(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
