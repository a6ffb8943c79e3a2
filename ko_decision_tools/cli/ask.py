"""``ko-decision classify | gate | rate``: one text, one question, one answer."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from ko_decision_tools.cli import models, options
from ko_decision_tools.errors import InvalidInputError


def classify(
    text: options.Text,
    question: options.Question,
    option: Annotated[
        list[str], typer.Option("--option", help='"label" or "label: description"; give it once per option.')
    ],
    min_top_probability: options.MinTopProbability = None,
    as_json: options.Json = False,
    checkpoint: options.Checkpoint = "mini",
    revision: options.Revision = None,
    calibration: options.Calibration = None,
    device: options.Device = None,
    num_threads: options.NumThreads = None,
) -> None:
    """Pick one of several options for TEXT.

    Not being sure is a result, not an error: the exit code stays 0 and the reasons are printed.
    """
    from ko_decision_tools.questions import parse_question
    from ko_decision_tools.tools.arguments import parse_options

    state = read_text(text)
    choice = parse_question({"type": "choice", "instructions": question, "criteria": parse_options(option, "--option")})
    model = models.load_model(
        checkpoint, revision=revision, calibration=calibration, device=device, num_threads=num_threads
    )
    decision = model.decide(state, choice, min_top_probability=min_top_probability)
    _print(_unless_abstained(decision.label, decision.abstained), decision.to_dict(), as_json)


def gate(
    text: options.Text,
    question: Annotated[
        str | None, typer.Option("--question", "-q", help='A yes/no question whose YES means "block it".')
    ] = None,
    allow_at: Annotated[
        float, typer.Option("--allow-at", min=0, max=1, help="P(yes) up to which it is allowed.")
    ] = 0.2,
    block_at: Annotated[float, typer.Option("--block-at", min=0, max=1, help="P(yes) from which it is blocked.")] = 0.7,
    as_json: options.Json = False,
    checkpoint: options.Checkpoint = "mini",
    revision: options.Revision = None,
    calibration: options.Calibration = None,
    device: options.Device = None,
    num_threads: options.NumThreads = None,
) -> None:
    """Judge the action that TEXT describes: allow, block, or abstain in between.

    YES means BLOCK, so that a model that says yes too often errs towards safety. A text that was not read to its end
    is never allowed. The verdict is printed; the exit code is 0 for all three.
    """
    from ko_decision_tools.policy import YesNoBand

    state = read_text(text)
    YesNoBand(allow_at, block_at)  # before the model is loaded
    model = models.load_model(
        checkpoint, revision=revision, calibration=calibration, device=device, num_threads=num_threads
    )
    from ko_decision_tools.tools.gate import GateTool

    asked = {} if question is None else {"question": question}
    tool = GateTool(
        model=model, allow_at=allow_at, block_at=block_at, on_error="raise", handle_tool_error=False, **asked
    )
    call = {"type": "tool_call", "id": "cli", "name": tool.name, "args": {"text": state}}
    found: dict[str, Any] = tool.invoke(call).artifact
    _print(found["verdict"], found, as_json, names=("no", "yes = block"))


def rate(
    text: options.Text,
    question: options.Question,
    level: Annotated[list[str], typer.Option("--level", help="A level, from the lowest to the highest; 2 to 10.")],
    min_top_probability: options.MinTopProbability = None,
    as_json: options.Json = False,
    checkpoint: options.Checkpoint = "mini",
    revision: options.Revision = None,
    calibration: options.Calibration = None,
    device: options.Device = None,
    num_threads: options.NumThreads = None,
) -> None:
    """Rate TEXT on levels counted from 0; the answer is the expected level.

    Not being sure is a result, not an error: the exit code stays 0 and the reasons are printed.
    """
    from ko_decision_tools.questions import parse_question
    from ko_decision_tools.tools.arguments import parse_levels

    state, levels = read_text(text), parse_levels(level, "--level")
    score = parse_question({"type": "score", "instructions": question, "criteria": levels})
    model = models.load_model(
        checkpoint, revision=revision, calibration=calibration, device=device, num_threads=num_threads
    )
    decision = model.decide(state, score, min_top_probability=min_top_probability)
    answer = _unless_abstained(f"{decision.score:.2f} of {len(levels) - 1}", decision.abstained)
    names = [f"{number}: {name}" for number, name in enumerate(levels)]
    _print(answer, decision.to_dict(), as_json, names=names)


def read_text(text: str) -> str:
    """The argument itself, or standard input for ``-`` (its last line end is no part of the text).

    Raises:
        InvalidInputError: There is nothing in it, or standard input is not UTF-8.
    """
    if text == "-":
        try:
            text = sys.stdin.buffer.read().decode("utf-8-sig").removesuffix("\n")
        except UnicodeDecodeError:
            raise InvalidInputError("standard input", "is not UTF-8", "Convert it, for example with iconv.") from None
    if not text.strip():
        raise InvalidInputError("TEXT", "is empty", "Pass the text the question is about.")
    return text


def _unless_abstained(answer: str, abstained: bool) -> str:
    return f"abstained (best guess: {answer})" if abstained else answer


def _print(answer: str, found: dict[str, Any], as_json: bool, *, names: Any = None) -> None:
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
        return
    from ko_decision_tools.cli import show

    show.decision(answer, found, names=names)
