"""The file of raw scores: run a checkpoint once, and everything after is a pure function of this file.

JSON Lines, UTF-8. The first line is a header; every other line is one scored decision. Fit, report and compare read
nothing else, so a result can be sent, archived and recomputed without the model.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ko_decision_tools.calibration import KINDS
from ko_decision_tools.errors import InvalidInputError

if TYPE_CHECKING:
    from ko_decision_tools.questions import Kind

FORMAT = "ko-decision-scores/1"


@dataclass(frozen=True, slots=True)
class Record:
    """One scored decision.

    Attributes:
        id: Unique within the file.
        group: What is resampled together (an NLI premise, a business); the id itself when rows are independent.
        task: The suite's task, for example ``"klue_nli"``; also the temperature's name.
        type: ``"choice"``, ``"noul"`` or ``"score"``.
        labels: The options, in scoring order.
        scores: One raw logit per option.
        gold: Index of the right option; ``None`` when no option is right or only soft gold is known.
        soft_gold: Human distribution over the options, summing to 1, or ``None``.
        value: A ``Score``'s real-valued gold (KLUE-STS's 3.71), or ``None``.
        text: The state's first characters, for listing mistakes, or ``None``.
    """

    id: str
    group: str
    task: str
    type: Kind
    labels: tuple[str, ...]
    scores: tuple[float, ...]
    gold: int | None = None
    soft_gold: tuple[float, ...] | None = None
    value: float | None = None
    text: str | None = None

    def to_json(self) -> str:
        """One line, raw Hangul, scores at full precision."""
        return json.dumps({k: v for k, v in asdict(self).items() if v is not None}, ensure_ascii=False)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], where: str) -> Record:
        """Read one line.

        Raises:
            InvalidInputError: A field is missing or does not fit the others; ``where`` names the line.
        """
        try:
            record = cls(
                id=str(raw["id"]),
                group=str(raw.get("group", raw["id"])),
                task=str(raw["task"]),
                type=raw["type"],
                labels=tuple(map(str, raw["labels"])),
                scores=tuple(map(float, raw["scores"])),
                gold=None if raw.get("gold") is None else int(raw["gold"]),
                soft_gold=None if raw.get("soft_gold") is None else tuple(map(float, raw["soft_gold"])),
                value=None if raw.get("value") is None else float(raw["value"]),
                text=raw.get("text"),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInputError(
                where, f"is not a score record ({error!r})", "Write it with `ko-decision evaluate`."
            ) from None
        record._check(where)
        return record

    def _check(self, where: str) -> None:
        n = len(self.labels)
        if self.type not in KINDS:
            problem = f"has type {self.type!r}"
        elif n < 2 or len(self.scores) != n:
            problem = f"has {len(self.scores)} scores for {n} labels"
        elif not all(map(math.isfinite, self.scores)):
            problem = "has a score that is not finite"
        elif self.gold is not None and not 0 <= self.gold < n:
            problem = f"has gold {self.gold} for {n} labels"
        elif self.soft_gold is not None and (len(self.soft_gold) != n or abs(sum(self.soft_gold) - 1) > 1e-6):
            problem = "has a soft_gold that is not a distribution over its labels"
        else:
            return
        raise InvalidInputError(where, problem, "Write it with `ko-decision evaluate`.")


@dataclass(frozen=True, slots=True)
class ScoreFile:
    """A header (checkpoint, fingerprint, suite, versions, date) and its records."""

    header: Mapping[str, Any]
    records: tuple[Record, ...] = field(default=())

    @classmethod
    def read(cls, path: Path) -> ScoreFile:
        """Read a whole file.

        Raises:
            InvalidInputError: It cannot be read, or a line is not what it should be (named by number).
        """
        try:
            with path.open(encoding="utf-8") as lines:
                rows = list(_lines(lines, path))
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInputError(
                str(path), f"cannot be read ({error})", "Pass a file from `ko-decision evaluate`."
            ) from error
        if not rows or rows[0].get("format") != FORMAT:
            raise InvalidInputError(
                f"{path}:1", f"is not a {FORMAT} header", "Pass a file from `ko-decision evaluate`."
            )
        header, *records = rows
        parsed = tuple(Record.from_dict(raw, f"{path}:{number}") for number, raw in enumerate(records, start=2))
        return cls(header, parsed)


def header_line(header: Mapping[str, Any]) -> str:
    """The first line of a score file."""
    return json.dumps({"format": FORMAT, **header}, ensure_ascii=False)


def _lines(lines: Iterable[str], path: Path) -> Iterator[Mapping[str, Any]]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                raw = json.loads(line)
            except ValueError as error:
                raise InvalidInputError(
                    f"{path}:{number}", f"is not JSON ({error})", "Was the run cut short? Resume it."
                ) from None
            if not isinstance(raw, Mapping):
                raise InvalidInputError(f"{path}:{number}", "is not a JSON object", "Pass a score file.")
            yield raw
