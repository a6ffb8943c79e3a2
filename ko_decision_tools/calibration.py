"""Which temperature a question's scores are divided by, where it came from, and whether it counts as calibrated.

Lookup goes from the most to the least specific: the task by name, then (type, option-count bucket), then the type,
then a declared fallback. The fallback is the largest temperature fitted for that type: temperatures do not transfer
between domains, so an unknown question errs towards abstaining, and is *not* called calibrated.

Two published files are read: the model card's ``{"temperatures": {task: T}}``, and our own superset of it::

    {"temperatures": {"klue_nli": 3.3},           task -> T
     "by_bucket": {"choice:3-5": 1.9},            (type, option-count bucket) -> T
     "by_type": {"choice": 2.1},                  type -> T
     "checkpoint": "9f2c…",                       fingerprint of the weights it was fitted on
     "evidence": {…}}                             kept as it is: n, NLL before and after, date

Example:
    >>> table = TemperatureTable(tasks={"klue_nli": 3.3}, by_type={"noul": 1.5})
    >>> table.lookup("choice", 3, task="klue_nli")
    Temperature(value=3.3, source='task klue_nli', calibrated=True)
    >>> table.lookup("choice", 4)
    Temperature(value=3.3, source='fallback: largest fitted for choice', calibrated=False)
    >>> table.lookup("score", 6)
    Temperature(value=1.0, source='none', calibrated=False)
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ko_decision_tools.errors import CalibrationError

if TYPE_CHECKING:
    from ko_decision_tools.questions import Kind

CALIBRATION_FILE = "calibration.json"
KINDS: tuple[Kind, ...] = ("choice", "noul", "score")
BUCKETS = ("2", "3-5", "6-10", "11+")
_BUCKET_TOPS = (2, 5, 10)

# The card names tasks, not types; these are the ones it (and we) fitted.
TASK_KINDS: Mapping[str, Kind] = {
    "klue_nli": "choice",
    "klue_ynat": "choice",
    "klue_re": "choice",
    "klue_sts": "score",
    "kobest_boolq": "noul",
    "kobest_copa": "choice",
    "kobest_hellaswag": "choice",
    "kobest_wic": "noul",
    "kobest_sentineg": "noul",
}


def bucket_of(options: int) -> str:
    """The option-count bucket: ``"2"``, ``"3-5"``, ``"6-10"`` or ``"11+"``."""
    return next((name for top, name in zip(_BUCKET_TOPS, BUCKETS, strict=False) if options <= top), BUCKETS[-1])


@dataclass(frozen=True, slots=True)
class Temperature:
    """The divisor applied to a question's scores, where it came from, and whether it was fitted for such questions."""

    value: float
    source: str
    calibrated: bool


@dataclass(frozen=True, slots=True)
class TemperatureTable:
    """Fitted temperatures by task, by ``"type:bucket"`` and by type.

    Args:
        tasks: Task name to temperature.
        by_bucket: ``"choice:3-5"`` to temperature; see :func:`bucket_of`.
        by_type: ``"choice" | "noul" | "score"`` to temperature.
        checkpoint: Fingerprint of the weights the fit was made on, when the file says so.
        evidence: Whatever the fit recorded about itself; carried, never interpreted.

    Raises:
        CalibrationError: A temperature that is not a positive finite number, or an unknown type or bucket.
    """

    tasks: Mapping[str, float] = field(default_factory=dict)
    by_bucket: Mapping[str, float] = field(default_factory=dict)
    by_type: Mapping[str, float] = field(default_factory=dict)
    checkpoint: str | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for group, known in (("tasks", None), ("by_bucket", _bucket_keys()), ("by_type", set(KINDS))):
            for key, value in getattr(self, group).items():
                if known is not None and key not in known:
                    raise CalibrationError(f"{group}[{key!r}] is not one of {', '.join(sorted(known))}")
                if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                    raise CalibrationError(f"{group}[{key!r}] is {value!r}; a temperature is a positive, finite number")

    def lookup(self, kind: Kind, options: int, *, task: str | None = None) -> Temperature:
        """The temperature for a question of ``kind`` with ``options`` options, most specific first."""
        if task is not None and task in self.tasks:
            return Temperature(self.tasks[task], f"task {task}", True)
        bucket = f"{kind}:{bucket_of(options)}"
        if bucket in self.by_bucket:
            return Temperature(self.by_bucket[bucket], f"bucket {bucket}", True)
        if kind in self.by_type:
            return Temperature(self.by_type[kind], f"type {kind}", True)
        related = [value for name, value in self.tasks.items() if TASK_KINDS.get(name) == kind]
        related += [value for name, value in self.by_bucket.items() if name.startswith(f"{kind}:")]
        if related:
            return Temperature(max(related), f"fallback: largest fitted for {kind}", False)
        return Temperature(1.0, "none", False)

    @classmethod
    def from_dict(cls, raw: object, *, where: str = CALIBRATION_FILE) -> TemperatureTable:
        """Read the card's form or ours.

        Raises:
            CalibrationError: Not an object, no temperatures in it, or a value that is not a temperature.
        """
        if not isinstance(raw, Mapping):
            raise CalibrationError(f'{where}: expected an object such as {{"temperatures": {{"klue_nli": 3.3}}}}')
        groups: list[Any] = [raw.get(name) or {} for name in ("temperatures", "by_bucket", "by_type")]
        if not all(isinstance(group, Mapping) for group in groups) or not any(groups):
            raise CalibrationError(
                f'{where}: "temperatures", "by_bucket" and "by_type" map names to numbers; none found'
            )
        checkpoint = raw.get("checkpoint")
        evidence = raw.get("evidence")
        try:
            return cls(
                tasks=dict(groups[0]),
                by_bucket=dict(groups[1]),
                by_type=dict(groups[2]),
                checkpoint=checkpoint if isinstance(checkpoint, str) else None,
                evidence=evidence if isinstance(evidence, Mapping) else {},
            )
        except CalibrationError as error:
            raise CalibrationError(f"{where}: {error}") from None

    @classmethod
    def read(cls, path: Path) -> TemperatureTable:
        """Read a calibration file.

        Raises:
            CalibrationError: The file cannot be read, is not JSON, or holds something that is not a temperature.
        """
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise CalibrationError(f"{path}: cannot be read as JSON ({error})") from error
        return cls.from_dict(raw, where=str(path))

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, which :meth:`from_dict` reads back."""
        out: dict[str, Any] = {"temperatures": dict(self.tasks)}
        out |= {"by_bucket": dict(self.by_bucket)} if self.by_bucket else {}
        out |= {"by_type": dict(self.by_type)} if self.by_type else {}
        out |= {"checkpoint": self.checkpoint} if self.checkpoint else {}
        out |= {"evidence": dict(self.evidence)} if self.evidence else {}
        return out

    def check_made_for(self, fingerprint: str) -> None:
        """Refuse a table that says it was fitted on other weights; one that says nothing passes.

        Raises:
            CalibrationError: ``checkpoint`` is set and differs.
        """
        if self.checkpoint is not None and self.checkpoint != fingerprint:
            raise CalibrationError(
                f"this calibration was fitted on checkpoint {self.checkpoint}, not on {fingerprint}; "
                "fit a new one with `ko-decision fit`, or allow_foreign_calibration=True if it applies anyway"
            )


def _bucket_keys() -> set[str]:
    return {f"{kind}:{bucket}" for kind in KINDS for bucket in BUCKETS}
