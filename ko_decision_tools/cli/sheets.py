"""Rows out: what a routed row looks like in CSV and in JSON Lines, and how it is read back when a run is resumed."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ko_decision_tools.cli.csv_records import UNCLOSED, csv_records
from ko_decision_tools.cli.tables import BY_SUFFIX, Form, Row, Table
from ko_decision_tools.errors import InvalidInputError

ADDED = ("route", "top_probability", "abstained", "reasons", "probabilities")


@dataclass(frozen=True, slots=True)
class Routed:
    """A row and where it goes.

    Attributes:
        row: As it was read.
        route: The route, or the escalation's name when ``reasons`` says why.
        reasons: Why it abstained or failed; empty when a route was accepted.
        top_probability, probabilities: Unrounded; ``None`` when the row failed.
        cut: Whether the model read only the beginning of the text.
    """

    row: Row
    route: str
    reasons: tuple[str, ...] = ()
    top_probability: float | None = None
    probabilities: Mapping[str, float] | None = None
    cut: bool = False

    @property
    def abstained(self) -> bool:
        """Whether no route was accepted, for want of confidence or because the row failed."""
        return bool(self.reasons)

    @property
    def failed(self) -> bool:
        """Whether the row could not be judged at all."""
        return self.probabilities is None


@dataclass(frozen=True, slots=True)
class KeptRow:
    """What a resumed run needs to know of a row it finds: ``original`` is comparable to :meth:`Sheet.original`."""

    original: object
    route: str
    abstained: bool
    failed: bool
    end: int  # bytes of the file up to the end of this row


class Sheet(Protocol):
    """One output format. Text is encoded with ``backslashreplace``: what is not Unicode becomes ``\\udc80``."""

    @property
    def head(self) -> str:
        """What stands before the first row."""
        ...

    def line(self, routed: Routed) -> str:
        """One row, with its line end."""
        ...

    def original(self, row: Row) -> object:
        """The columns that were there before, in a form that survives being written and read back."""
        ...

    def kept(self, text: str) -> Iterator[KeptRow]:
        """The whole rows of a file whose last line is whole; a last row that is not whole is left out.

        Raises:
            InvalidInputError: It is not a file of this sheet.
        """
        ...


def sheet_for(out: Path, table: Table, *, prefix: str = "") -> Sheet:
    """The sheet for a file, by its extension; standard output (``-``) is CSV unless the input is JSON Lines.

    Raises:
        InvalidInputError: Another extension, or the table has a column with the name of an added one.
    """
    form = BY_SUFFIX.get(out.suffix.lower())
    if str(out) == "-":
        form = Form.JSONL if table.form is Form.JSONL else Form.CSV
    if form not in (Form.CSV, Form.JSONL):
        raise InvalidInputError("--out", "does not tell its format", "Name it .csv or .jsonl.", value=str(out))
    added = tuple(f"{prefix}{name}" for name in ADDED)
    taken = [name for name in added if name in table.columns]
    if taken:
        raise InvalidInputError(
            table.name,
            f"has columns that the result also has ({', '.join(taken)})",
            "Rename them, or pass --prefix, for example --prefix ko_.",
        )
    return CsvSheet(table.columns, added, table.has_bom) if form is Form.CSV else JsonlSheet(added)


@dataclass(frozen=True, slots=True)
class CsvSheet:
    """A header, then one record per row; lines end in ``\\n``. Cells are data: a leading ``=`` is left as it is."""

    columns: tuple[str, ...]
    added: tuple[str, ...]
    bom: bool = False

    @property
    def head(self) -> str:
        """See :class:`Sheet`."""
        return ("\ufeff" if self.bom else "") + _csv_line([*self.columns, *self.added])

    def line(self, routed: Routed) -> str:
        """See :class:`Sheet`."""
        top, found = routed.top_probability, routed.probabilities
        verdict = [
            routed.route,
            "" if top is None else repr(top),
            "true" if routed.abstained else "false",
            "; ".join(routed.reasons),
            "" if found is None else _json(found),
        ]
        return _csv_line([*self._cells(routed.row), *verdict])

    def original(self, row: Row) -> object:
        """See :class:`Sheet`."""
        return [_written(cell) for cell in self._cells(row)]

    def kept(self, text: str) -> Iterator[KeptRow]:
        """See :class:`Sheet`."""
        offsets = _line_ends(text)
        records = csv_records(text, newline="\n")
        head = next(records, None)
        if head is None:
            return
        names = [_written(name) for name in (*self.columns, *self.added)]
        if head.cells != names:
            raise _other_run("its columns are not those of this input")
        for record in records:
            if record.problem is not None and UNCLOSED in record.problem:
                return  # a row of several lines, cut short
            if record.problem is not None or len(record.cells) != len(names):
                raise _other_run(f"line {record.line} is broken")
            original, (route, _, abstained, _, found) = record.cells[: -len(ADDED)], record.cells[-len(ADDED) :]
            yield KeptRow(original, route, abstained.lower() == "true", not found, offsets[record.end - 2])

    def _cells(self, row: Row) -> list[str]:
        return [_cell(row.values.get(column)) for column in self.columns]


@dataclass(frozen=True, slots=True)
class JsonlSheet:
    """One object per row: its own keys as they were, then the added ones; ``probabilities`` is an object."""

    added: tuple[str, ...]

    @property
    def head(self) -> str:
        """See :class:`Sheet`."""
        return ""

    def line(self, routed: Routed) -> str:
        """See :class:`Sheet`."""
        reasons, found = list(routed.reasons), routed.probabilities
        verdict = (routed.route, routed.top_probability, routed.abstained, reasons, found)
        return _json({**routed.row.values, **dict(zip(self.added, verdict, strict=True))}) + "\n"

    def original(self, row: Row) -> object:
        """See :class:`Sheet`."""
        return _json(json.loads(_written(_json(row.values))))

    def kept(self, text: str) -> Iterator[KeptRow]:
        """See :class:`Sheet`."""
        for number, (line, end) in enumerate(zip(text.split("\n"), _line_ends(text), strict=False), start=1):
            try:
                values = json.loads(line)
                route, _, abstained, _, found = (values.pop(name) for name in self.added)
            except (ValueError, KeyError, AttributeError, TypeError):
                raise _other_run(f"line {number} is no routed row") from None
            yield KeptRow(_json(values), route, abstained, found is None, end)


def _line_ends(text: str) -> list[int]:
    """Bytes up to the end of each line."""
    ends, total = [], 0
    for line in text.split("\n")[:-1]:
        total += len(line.encode("utf-8")) + 1
        ends.append(total)
    return ends


def _csv_line(cells: list[str]) -> str:
    buffer = io.StringIO(newline="")
    # The writer quotes a lone \r only when its own line end holds one, and readers break lines there.
    csv.writer(buffer, lineterminator="\r\n").writerow(cells)
    return buffer.getvalue().removesuffix("\r\n") + "\n"


def _cell(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else _json(value)


def _written(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _other_run(why: str) -> InvalidInputError:
    return InvalidInputError("--out", f"was not written by this run ({why})", "Pass --force, or another file.")


__all__ = ["ADDED", "CsvSheet", "JsonlSheet", "KeptRow", "Routed", "Sheet", "sheet_for"]
