"""CSV read strictly, with recovery: a broken record costs itself and not the records after it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

UNCLOSED = "unexpected end of data"  # what the csv module says of a quote that never closes
_NO_LIMIT = 2**31 - 1  # the most that a C long holds on every platform


@dataclass(frozen=True, slots=True)
class Record:
    """One record: the lines it spans (``line`` from 1, ``end`` exclusive) and its cells.

    With a ``problem``, the one cell is the raw first line.
    """

    line: int
    end: int
    cells: list[str]
    problem: str | None = None


def csv_records(text: str, *, newline: str = "") -> Iterator[Record]:
    r"""Records of a CSV text, wholly blank lines left out.

    A quote that never closes swallows everything up to the next quote, or the end. So when a record turns out broken,
    only its first line is given up and reading goes on after that.

    Args:
        text: The CSV.
        newline: ``""`` ends a line at ``\n``, ``\r`` and ``\r\n``; ``"\n"`` at ``\n`` only.

    Example:
        >>> for record in csv_records('id,text\n1,"never closed\n2,fine\n'):
        ...     print(record.line, record.cells, record.problem)
        1 ['id', 'text'] None
        2 ['1,"never closed'] is not CSV (unexpected end of data)
        3 ['2', 'fine'] None
    """
    cursor = _Cursor(list(io.StringIO(text, newline=newline)))
    reader = csv.reader(cursor, strict=True)
    while True:
        start = cursor.position
        try:
            with _no_field_limit():
                cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            cursor.position = start + 1
            reader = csv.reader(cursor, strict=True)
            yield Record(start + 1, start + 2, [cursor.lines[start].rstrip("\r\n")], f"is not CSV ({error})")
        else:
            if cells:
                yield Record(start + 1, cursor.position + 1, cells)


class _Cursor:
    """An iterator over lines that can be set back."""

    def __init__(self, lines: list[str]) -> None:
        self.lines, self.position = lines, 0

    def __iter__(self) -> _Cursor:
        return self

    def __next__(self) -> str:
        if self.position == len(self.lines):
            raise StopIteration
        self.position += 1
        return self.lines[self.position - 1]


@contextmanager
def _no_field_limit() -> Iterator[None]:
    """Python refuses cells over 128 KiB, for the whole process; a pasted log is longer."""
    before = csv.field_size_limit(_NO_LIMIT)
    try:
        yield
    finally:
        csv.field_size_limit(before)
