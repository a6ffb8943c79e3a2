"""A score file while it is being written: appended to, resumed after a kill, and finished with what happened.

Lines are flushed chunk by chunk. A kill can leave the last line torn; resuming drops it. The header says
``"complete": true`` only once every example was either scored or listed under ``"skipped"``.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.records import Record, ScoreFile, header_line

# What two runs must share for their rows to belong in one file. Tasks and limit may differ: more rows of the same kind.
IDENTITY = ("checkpoint", "suite", "split", "wording", "data", "question")
_OUTCOME = ("rows", "skipped", "cut", "complete")


class ScoreLog:
    """An open score file. Use as a context manager.

    Args:
        path: The file; its folder has to exist.
        header: The facts of the run. Not ``rows``, ``skipped``, ``cut`` or ``complete``: :meth:`finish` adds those.
        resume: Continue a file that exists; without it such a file is refused.

    Attributes:
        done: The rows that the file held already, by id.
        rows: Rows per task, those included.

    Raises:
        InvalidInputError: The file exists and ``resume`` is false, belongs to another run, or cannot be written.
    """

    def __init__(self, path: Path, header: Mapping[str, Any], *, resume: bool = False) -> None:
        self.path = path
        self.done: dict[str, Record] = {}
        self._header = dict(header)
        if not resume:
            refuse_existing(path)
        if self._exists():
            self._take_up(header)
        self.rows = Counter(record.task for record in self.done.values())
        self._lines = self._open("a")
        if self._lines.tell() == 0:
            self._write(header_line(self._header) + "\n")

    def append(self, records: Iterable[Record]) -> None:
        """Add rows and flush them.

        Raises:
            InvalidInputError: The disk refuses.
        """
        listed = list(records)
        self._write("".join(record.to_json() + "\n" for record in listed))
        self.rows.update(record.task for record in listed)

    def finish(self, *, skipped: Iterable[Mapping[str, str]], cut: int) -> None:
        """Write the outcome into the header.

        Args:
            skipped: ``{"id", "reason"}`` of every example that could not be scored.
            cut: How many examples had a state longer than the model reads.
        """
        self._rewrite({**self._header, "rows": dict(self.rows), "skipped": list(skipped), "cut": cut, "complete": True})

    def close(self) -> None:
        """Close the file; what was appended stays."""
        self._lines.close()

    def __enter__(self) -> ScoreLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _exists(self) -> bool:
        """Whether there is anything to take up, once a torn last line is gone."""
        if not self.path.exists():
            return False
        try:
            with self.path.open("r+b") as file:
                content = file.read()
                whole = content.rfind(b"\n") + 1
                file.truncate(whole)
        except OSError as error:
            raise _unwritable(self.path, error) from error
        return whole > 0

    def _take_up(self, header: Mapping[str, Any]) -> None:
        found = ScoreFile.read(self.path)
        ours, theirs = _identity(header), _identity(found.header)
        different = [name for name in IDENTITY if ours[name] != theirs[name]]
        if different:
            name = different[0]
            problem = f"was made with another {name} ({theirs[name]!r}, not {ours[name]!r})"
            raise InvalidInputError(str(self.path), problem, "Write to another file.")
        self.done = {record.id: record for record in found.records}
        asked = {name: header[name] for name in ("tasks", "limit") if name in header}
        self._header = {
            name: value for name, value in found.header.items() if name not in ("format", *_OUTCOME)
        } | asked
        if found.header.get("complete"):
            self._rewrite(self._header)  # it is not, until this run ends

    def _rewrite(self, header: Mapping[str, Any]) -> None:
        """Replace the first line, all or nothing."""
        draft = self.path.with_name(self.path.name + ".tmp")
        try:
            with self.path.open("rb") as old, draft.open("wb") as new:
                old.readline()
                new.write((header_line(header) + "\n").encode("utf-8"))
                shutil.copyfileobj(old, new)
            os.replace(draft, self.path)
        except OSError as error:
            raise _unwritable(self.path, error) from error

    def _open(self, mode: str) -> IO[str]:
        try:
            return self.path.open(mode, encoding="utf-8", newline="\n")
        except OSError as error:
            raise _unwritable(self.path, error) from error

    def _write(self, text: str) -> None:
        try:
            self._lines.write(text)
            self._lines.flush()
        except OSError as error:
            raise _unwritable(self.path, error) from error


def refuse_existing(path: Path) -> None:
    """Scores cost hours: they are never overwritten.

    Raises:
        InvalidInputError: There is such a file.
    """
    if path.exists():
        fix = "Resume it (--resume), delete it, or write to another file."
        raise InvalidInputError("out", "exists already", fix, value=str(path))


def _identity(header: Mapping[str, Any]) -> dict[str, Any]:
    """A checkpoint is its fingerprint; its name only stands in where there is none."""
    return {
        **{name: header.get(name) for name in IDENTITY},
        "checkpoint": header.get("fingerprint") or header.get("checkpoint"),
    }


def _unwritable(path: Path, error: OSError) -> InvalidInputError:
    return InvalidInputError("out", f"cannot be written ({error})", "Check the folder and the disk.", value=str(path))
