"""Where routed rows go: a new file, the end of a file that an earlier run left, or standard output.

Rows are written whole and flushed at once, so whatever ends a run, what was routed stays. A file that got no row is
taken away again, and an existing one is not touched before the first row.
"""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ko_decision_tools.cli.sheets import KeptRow, Routed, Sheet
from ko_decision_tools.cli.tables import Row, Table
from ko_decision_tools.errors import InvalidInputError


class Sink:
    """An open output.

    Args:
        stream: Where bytes go.
        sheet: What rows look like.
        kept: Rows of an earlier run that stay.
        starts_at: Byte to cut an existing file at before the first row is written; ``None`` cuts nothing.
    """

    def __init__(
        self, stream: BinaryIO, sheet: Sheet, *, kept: Sequence[KeptRow] = (), starts_at: int | None = None
    ) -> None:
        self._stream, self._sheet, self._starts_at = stream, sheet, starts_at
        self._head = "" if kept else sheet.head
        self.kept = tuple(kept)
        self.rows = len(self.kept)
        self.started = False

    def write(self, rows: Sequence[Routed]) -> None:
        """Write rows and hand them to the operating system. Call it with none to write at least the header."""
        text = ("" if self.started else self._head) + "".join(map(self._sheet.line, rows))
        if not self.started and self._starts_at is not None:
            self._stream.seek(self._starts_at)
            self._stream.truncate()
        self.started = True
        self._stream.write(text.encode("utf-8", "backslashreplace"))
        self._stream.flush()
        self.rows += len(rows)


@contextmanager
def open_sink(out: Path, sheet: Sheet, table: Table, *, resume: bool = False, force: bool = False) -> Iterator[Sink]:
    """Open an output, checked: it can be written, and overwrites nothing that it was not told to.

    Args:
        out: A file, or ``-`` for standard output.
        sheet: What rows look like.
        table: The input; a resumed file has to hold its first rows.
        resume: Go on after the rows that are there; a file that is not there is begun.
        force: Overwrite a file that is there.

    Raises:
        InvalidInputError: Any of that is not so.
    """
    if str(out) == "-":
        if resume:
            raise InvalidInputError("--resume", "needs a file", "Pass --out FILE.")
        yield Sink(sys.stdout.buffer, sheet)
        return
    _check_is_not_the_input(out, table)
    existed, regular = os.path.exists(out), os.path.isfile(out)
    kept, whole = _read_kept(out, sheet, table) if resume and existed else ((), 0)
    with _open(out, "xb" if not existed or not (resume or force) else "r+b" if regular else "wb") as stream:
        sink = Sink(stream, sheet, kept=kept, starts_at=whole if regular else None)
        try:
            yield sink
        finally:
            if not existed and not sink.started:
                stream.close()
                out.unlink()


def _open(out: Path, mode: str) -> BinaryIO:
    try:
        return out.open(mode)  # type: ignore[return-value]
    except FileExistsError:
        fix = "Pass --resume to go on after its rows, or --force to overwrite it."
        raise InvalidInputError("--out", "exists already", fix, value=str(out)) from None
    except OSError as error:
        fix = "Choose a file in a folder that exists and that you may write to."
        raise InvalidInputError("--out", f"cannot be written ({error.strerror})", fix, value=str(out)) from None


def _check_is_not_the_input(out: Path, table: Table) -> None:
    source = Path(table.name)
    if os.path.exists(out) and os.path.exists(source) and out.samefile(source):
        raise InvalidInputError("--out", "is the input itself", "Choose another file.", value=str(out))


def _read_kept(out: Path, sheet: Sheet, table: Table) -> tuple[tuple[KeptRow, ...], int]:
    """The whole rows of an earlier run, checked against the input, and the byte up to which they reach."""
    try:
        data = out.read_bytes()
        data = data[: data.rfind(b"\n") + 1]  # a row that a crash cut short goes
        mark = len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0
        kept = tuple(sheet.kept(data[mark:].decode("utf-8")))
    except OSError as error:
        raise InvalidInputError("--out", f"cannot be read ({error.strerror})", "Pass another file.") from None
    except UnicodeDecodeError:
        raise InvalidInputError("--out", "is not UTF-8", "Pass --force, or another file.", value=str(out)) from None
    for number, old in enumerate(kept):
        _check_same(sheet, old, table.rows[number] if number < len(table.rows) else None, number + 1)
    return kept, mark + kept[-1].end if kept else 0


def _check_same(sheet: Sheet, old: KeptRow, row: Row | None, number: int) -> None:
    if row is None or sheet.original(row) != old.original:
        raise InvalidInputError(
            "--out", f"does not belong to this input (row {number} differs)", "Pass --force, or another file."
        )


__all__ = ["Sink", "open_sink"]
