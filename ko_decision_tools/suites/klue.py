"""KLUE: NLI, YNAT, STS and RE, from the official JSON files, the tab-separated forms of them, or the hub set ``klue``.

Human soft gold comes with the official files (five annotators of NLI, five to seven of STS) or stands beside a TSV in
``nli_dev_annotators.jsonl`` and ``sts_dev_annotators.jsonl``; the hub set has none. Test rows have no public labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ko_decision_tools.presets import KLUE_NLI, KLUE_RE, KLUE_STS, KLUE_YNAT, Preset
from ko_decision_tools.prompts import labels_of
from ko_decision_tools.suites.base import Example, Row, Suite, build, digest, fractions, nearest_level
from ko_decision_tools.suites.tables import find_files, hub_rows, read_rows

HUB = "klue"
_HUB_SPLITS = {"train": "train", "dev": "validation"}
_VOTES = ("author", "label2", "label3", "label4", "label5")
_LEVELS = 6


def read(folder: Path | None, split: str, tasks: Sequence[str]) -> Iterator[Example]:
    """The examples of ``klue_nli``, ``klue_ynat``, ``klue_sts`` and ``klue_re``; see :func:`load_suite`."""
    for task in tasks:
        short = task.removeprefix("klue_")
        rows = (
            hub_rows(HUB, short, _HUB_SPLITS[split], label_names=True)
            if folder is None
            else _rows(folder, short, split)
        )
        yield from build(rows, partial(_MAKERS[task], split), task)


KLUE = Suite("klue", ("dev", "train"), ("klue_nli", "klue_ynat", "klue_sts", "klue_re"), read)


def _rows(folder: Path, short: str, split: str) -> list[dict[str, Any]]:
    official = f"ynat-v1*_{split}.json" if short == "ynat" else f"klue-{short}-v1*_{split}.json"
    patterns = [official, *(f"{short}_{split}{part}.{kind}" for part in ("", "_*") for kind in ("tsv", "csv"))]
    files = find_files(folder, patterns)
    rows = [row for file in files for row in read_rows(file)]
    beside = files[0].parent / f"{short}_{split}_annotators.jsonl"
    if not beside.exists():
        return rows
    votes = {row["guid"]: row.get("annotators", row.get("annotations")) for row in read_rows(beside)}
    return [{**row, "votes": votes.get(row.get("guid"))} for row in rows]


def _nli(split: str, row: Row, number: int) -> Example:
    labels = labels_of(KLUE_NLI.question)
    votes = row.get("votes") or [row[name] for name in _VOTES if row.get(name)]
    return _example(
        KLUE_NLI,
        row,
        number,
        split,
        state={"premise": row["premise"], "hypothesis": row["hypothesis"]},
        group=f"premise-{digest(row['premise'])}",
        gold=labels.index(row["gold_label"] if "gold_label" in row else row["label"]),
        soft_gold=fractions([labels.index(vote) for vote in votes], len(labels)) if votes else None,
    )


def _ynat(split: str, row: Row, number: int) -> Example:
    gold = labels_of(KLUE_YNAT.question).index(row["label"])
    return _example(KLUE_YNAT, row, number, split, state={"title": row["title"]}, gold=gold)


def _sts(split: str, row: Row, number: int) -> Example:
    labels = row.get("labels") or row
    value = float(labels.get("real-label", labels.get("real_label", labels.get("label"))))
    votes = row.get("votes") or (row.get("annotations") or {}).get("annotations")
    return _example(
        KLUE_STS,
        row,
        number,
        split,
        state={"sentence1": row["sentence1"], "sentence2": row["sentence2"]},
        gold=nearest_level(value, _LEVELS),
        soft_gold=fractions(votes, _LEVELS) if votes else None,
        value=value,
    )


def _re(split: str, row: Row, number: int) -> Example:
    return _example(
        KLUE_RE,
        row,
        number,
        split,
        state={"sentence": row["sentence"], **_entity(row, "subject", "subj"), **_entity(row, "object", "obj")},
        group=f"sentence-{digest(row['sentence'])}",  # a sentence is asked about with several pairs
        gold=labels_of(KLUE_RE.question).index(row["label"]),
    )


def _entity(row: Row, name: str, column: str) -> dict[str, str]:
    entity = row.get(f"{name}_entity")
    word, kind = (entity["word"], entity["type"]) if entity else (row[column], row[f"{column}_type"])
    return {name: word, f"{name}_type": kind}


def _example(
    preset: Preset,
    row: Row,
    number: int,
    split: str,
    *,
    state: dict[str, str],
    gold: int,
    group: str | None = None,
    soft_gold: tuple[float, ...] | None = None,
    value: float | None = None,
) -> Example:
    guid = str(row.get("guid") or "")
    # Some copies have no guid, or number their rows file by file.
    name = f"{preset.task}/{guid}" if guid and not guid.isdigit() else f"{preset.task}/{split}-{number:05d}"
    text = preset.state(**{field: content.strip() for field, content in state.items()})
    return Example(name, group or name, preset.task, text, preset.question, gold, soft_gold, value, split)


_MAKERS: dict[str, Callable[[str, Row, int], Example]] = {
    "klue_nli": _nli,
    "klue_ynat": _ynat,
    "klue_sts": _sts,
    "klue_re": _re,
}
