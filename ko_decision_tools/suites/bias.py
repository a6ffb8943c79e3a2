"""Two known faults, as suites: a liking for "A" and "1", and a liking for "yes".

``letter-bias`` asks another suite's choice questions four times: with ``A:`` and with ``1.`` before the options, each
with the enumerators stripped (as this library does) and with them left on. Options are rotated by a number taken from
the row's id, the same in all four, so that the right one stands at every place equally often. A model without the fault
picks "A" as often as it is right, and the stripped rows score exactly as unlabelled ones do.

``yes-bias`` states a thing and its negation about the same text, of which exactly one holds: a model without the fault
says yes to half of them. ``yes_bias_trained`` uses BoolQ's trained wording, ``yes_bias_unseen`` one that nothing was
trained on, with the statement in the question.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from ko_decision_tools.presets import KOBEST_BOOLQ
from ko_decision_tools.questions import Choice, Noul
from ko_decision_tools.suites.base import Example, Row, Suite, build, digest

_SCHEMES = {"letter": [f"{letter}:" for letter in string.ascii_uppercase], "number": [f"{n}." for n in range(1, 27)]}
_MOST_OPTIONS = len(string.ascii_uppercase)
_PAIRS = Path(__file__).parent / "yes_bias.yaml"
_UNSEEN = "글의 내용에 비추어 볼 때 다음 말은 맞는가? “{}”"


def letter_bias(base: Suite) -> Suite:
    """``letter-bias`` over another suite's choice questions with at most 26 options.

    Its tasks are the base's; its examples' tasks are ``"<task>.letter.stripped"``, ``".letter.kept"`` and the same for
    ``number``. Groups are the base's, so that the variants of a row are resampled together.
    """

    def read(folder: Path | None, split: str, tasks: Sequence[str]) -> Iterator[Example]:
        for example in base.read(folder, split, tasks):
            if isinstance(example.question, Choice) and len(example.question.criteria) <= _MOST_OPTIONS:
                yield from _labelled(example, example.question)

    return Suite(f"letter-bias:{base.name}", base.splits, base.tasks, read)


def _labelled(example: Example, question: Choice) -> Iterator[Example]:
    items = list(question.criteria.items())
    shift = int(digest(example.id), 16) % len(items)
    order = [*range(shift, len(items)), *range(shift)]
    for scheme, marks in _SCHEMES.items():
        criteria = {f"{mark} {items[place][0]}": items[place][1] for mark, place in zip(marks, order, strict=False)}
        for strip in (True, False):
            variant = f"{scheme}.{'stripped' if strip else 'kept'}"
            yield replace(
                example,
                id=f"{example.id}@{variant}",
                task=f"{example.task}.{variant}",
                question=Choice(instructions=question.instructions, criteria=criteria),
                gold=None if example.gold is None else order.index(example.gold),
                soft_gold=None if example.soft_gold is None else tuple(example.soft_gold[place] for place in order),
                strip=strip,
            )


def _read_pairs(folder: Path | None, split: str, tasks: Sequence[str]) -> Iterator[Example]:
    pairs: list[dict[str, Any]] = yaml.safe_load(_PAIRS.read_text(encoding="utf-8"))["pairs"]
    statements = [
        {"pair": number, "text": pair["text"], "said": pair[side], "holds": pair["holds"] == side, "side": side}
        for number, pair in enumerate(pairs, start=1)
        for side in ("statement", "negation")
    ]
    for task in tasks:
        yield from build(statements, _trained if task == "yes_bias_trained" else _unseen, task)


YES_BIAS = Suite("yes-bias", ("test",), ("yes_bias_trained", "yes_bias_unseen"), _read_pairs)


def _trained(row: Row, _: int) -> Example:
    state = KOBEST_BOOLQ.state(text=row["text"], question=row["said"])
    return _yes_no("yes_bias_trained", row, state, Noul(instructions=KOBEST_BOOLQ.question.instructions))


def _unseen(row: Row, _: int) -> Example:
    return _yes_no("yes_bias_unseen", row, row["text"], Noul(instructions=_UNSEEN.format(row["said"])))


def _yes_no(task: str, row: Row, state: str, question: Noul) -> Example:
    group = f"pair-{row['pair']:03d}"
    return Example(f"{task}/{group}@{row['side']}", group, task, state, question, int(row["holds"]), None, None, "test")
