"""KoBEST: BoolQ, COPA, HellaSwag, WiC and SentiNeg, from its tab-separated files or the hub set ``skt/kobest_v1``.

BoolQ, COPA and SentiNeg use the checkpoints' trained wording. WiC and HellaSwag have no published one: see ``presets``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

from ko_decision_tools.presets import KOBEST_BOOLQ, KOBEST_SENTINEG, KOBEST_WIC, Preset, kobest_copa, kobest_hellaswag
from ko_decision_tools.suites.base import Example, Row, Suite, build, digest, truth
from ko_decision_tools.suites.tables import find_files, hub_rows, read_rows

HUB = "skt/kobest_v1"
_HUB_SPLITS = {"train": "train", "dev": "validation", "test": "test"}
_FILES = {
    "kobest_boolq": "BoolQ",
    "kobest_copa": "COPA",
    "kobest_hellaswag": "HellaSwag",
    "kobest_wic": "WiC",
    "kobest_sentineg": "SentiNeg",
}


def read(folder: Path | None, split: str, tasks: Sequence[str]) -> Iterator[Example]:
    """The examples of ``kobest_boolq``, ``_copa``, ``_hellaswag``, ``_wic``, ``_sentineg``; see :func:`load_suite`."""
    for task in tasks:
        if folder is None:
            rows = hub_rows(HUB, task.removeprefix("kobest_"), _HUB_SPLITS[split])
        else:
            rows = _rows(folder, _FILES[task], split)
        yield from build(rows, partial(_MAKERS[task], split), task)


KOBEST = Suite("kobest", ("dev", "train", "test"), tuple(_FILES), read)


def _rows(folder: Path, name: str, split: str) -> list[dict[str, Any]]:
    # The repository keeps BoolQ/dev.tsv; copies often flatten it to BoolQ_dev.tsv.
    nested = folder / name / f"{split}.tsv"
    files = [nested] if nested.exists() else find_files(folder, [f"{name}_{split}.tsv"])
    return [row for file in files for row in read_rows(file)]


def _text(row: Row, *columns: str) -> str:
    """The first of the columns (the file's name for it, then the hub's) that the row has."""
    for column in columns:
        if column in row:
            return str(row[column]).strip()
    raise KeyError(columns[0])


def _boolq(split: str, row: Row, number: int) -> Example:
    text = _text(row, "Text", "paragraph")
    state = {"text": text, "question": _text(row, "Question", "question")}
    gold = int(truth(_text(row, "Answer", "label")))
    return _example(KOBEST_BOOLQ, state, gold, number, split, group=f"text-{digest(text)}")


def _copa(split: str, row: Row, number: int) -> Example:
    first, second = _text(row, "1", "alternative_1"), _text(row, "2", "alternative_2")
    # The files count the alternatives from 1, the hub from 0.
    gold = int(row["Answer"]) - 1 if "Answer" in row else int(row["label"])
    preset = kobest_copa(cast("Literal['원인', '결과']", _text(row, "question")), first, second)
    return _example(preset, {"sentence": _text(row, "sentence", "premise")}, gold, number, split)


def _hellaswag(split: str, row: Row, number: int) -> Example:
    endings = [_text(row, f"choice{index}", f"ending_{index}") for index in range(1, 5)]
    preset = kobest_hellaswag(endings)
    return _example(preset, {"context": _text(row, "context")}, int(row["label"]), number, split)


def _wic(split: str, row: Row, number: int) -> Example:
    word = _text(row, "Target", "word")
    state = {
        "word": word,
        "sentence1": _marked(_text(row, "SENTENCE1", "context_1"), word),
        "sentence2": _marked(_text(row, "SENTENCE2", "context_2"), word),
    }
    return _example(KOBEST_WIC, state, int(truth(_text(row, "ANSWER", "label"))), number, split)


def _marked(sentence: str, word: str) -> str:
    """A few rows come without brackets around the word that is asked about."""
    return sentence if "[" in sentence else sentence.replace(word, f"[{word}]", 1)


def _sentineg(split: str, row: Row, number: int) -> Example:
    state = {"text": _text(row, "Text", "sentence")}
    return _example(KOBEST_SENTINEG, state, int(truth(_text(row, "Label", "label"))), number, split)


def _example(
    preset: Preset, state: dict[str, str], gold: int, number: int, split: str, *, group: str | None = None
) -> Example:
    if not 0 <= gold < (4 if preset.task == "kobest_hellaswag" else 2):
        raise ValueError(f"{gold} is not one of its answers")
    name = f"{preset.task}/{split}-{number:05d}"
    return Example(name, group or name, preset.task, preset.state(**state), preset.question, gold, None, None, split)


_MAKERS: dict[str, Callable[[str, Row, int], Example]] = {
    "kobest_boolq": _boolq,
    "kobest_copa": _copa,
    "kobest_hellaswag": _hellaswag,
    "kobest_wic": _wic,
    "kobest_sentineg": _sentineg,
}
