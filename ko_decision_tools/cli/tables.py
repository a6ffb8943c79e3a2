"""Rows in: CSV with a header, JSON Lines, or plain lines.

Every row comes out, a broken one together with what is wrong with it. Only what makes the *file* unusable (a missing
column, the wrong encoding) is an error. Lines that are wholly blank are no rows.
"""

from __future__ import annotations

import codecs
import io
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from ko_decision_tools.cli.csv_records import csv_records
from ko_decision_tools.errors import InvalidInputError, shorten


class Form(StrEnum):
    """What a file of rows looks like."""

    CSV = "csv"
    JSONL = "jsonl"
    LINES = "lines"


BY_SUFFIX = {".csv": Form.CSV, ".jsonl": Form.JSONL, ".ndjson": Form.JSONL, ".txt": Form.LINES}


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the input.

    Attributes:
        number: Counted from 1, blank lines and the header left out.
        line: The line of the file it starts on.
        values: Everything that was in it, by column. Strings, except in JSON Lines.
        text: What is to be judged; empty when ``problem`` is set.
        problem: Why it cannot be judged, or ``None``.
    """

    number: int
    line: int
    values: Mapping[str, Any]
    text: str
    problem: str | None


@dataclass(frozen=True, slots=True)
class Table:
    """A whole input: its columns in order (of first appearance, in JSON Lines), and its rows.

    ``has_bom`` says whether it began with a byte-order mark, which the output then keeps: Excel needs it.
    """

    name: str
    form: Form
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    has_bom: bool

    def check_column(self, column: str, option: str) -> None:
        """Raise InvalidInputError unless there is such a column; ``option`` is what the user chose it with."""
        if column not in self.columns:
            known = ", ".join(map(repr, self.columns)) or "none"
            raise InvalidInputError(self.name, f"has no column {column!r}", f"Pass {option}; its columns are: {known}.")


def read_table(path: Path, *, form: Form | None = None, encoding: str = "utf-8", text_column: str = "text") -> Table:
    """Read a file of rows, or standard input for ``-``.

    Args:
        path: A file; the extension tells its form.
        form: Its form, if the extension does not tell.
        encoding: Of the file; ``utf-8`` reads it with and without a byte-order mark.
        text_column: The column that holds the text; of plain lines, the name it gets.

    Raises:
        InvalidInputError: The file cannot be read, is not in this encoding, or has no such column.
    """
    name = "standard input" if str(path) == "-" else str(path)
    form = form or _form_of(path, name)
    data = _read(path)
    text = _decode(data, encoding, name, form)
    if form is Form.CSV:
        columns, rows = _csv(text, name, text_column)
    elif form is Form.JSONL:
        columns, rows = _jsonl(text, text_column)
    else:
        columns, rows = (text_column,), list(_plain_rows(text, text_column))
    table = Table(name, form, columns, tuple(rows), data.startswith(codecs.BOM_UTF8))
    if table.rows or form is Form.CSV:
        table.check_column(text_column, "--text-column")
    return table


def is_unicode(text: str) -> bool:
    """Whether it can be written as UTF-8: no byte that did not decode, no half of a broken emoji."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


# -- from a path to text -----------------------------------------------------------------------------------------------


def _form_of(path: Path, name: str) -> Form:
    form = BY_SUFFIX.get(path.suffix.lower())
    if form is None:
        raise InvalidInputError(name, "does not tell its format by its name", "Pass --format csv, jsonl or lines.")
    return form


def _read(path: Path) -> bytes:
    # The whole file: it is small beside a model, and cannot change under a run that takes an hour.
    if str(path) == "-":
        return sys.stdin.buffer.read()
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInputError(str(path), f"cannot be read ({error.strerror})", "Check the path.") from None


def _decode(data: bytes, encoding: str, name: str, form: Form) -> str:
    """Text in which a byte that does not decode is a lone surrogate: one bad byte spoils its row, not the file."""
    try:
        utf8 = codecs.lookup(encoding).name == "utf-8"
        text = data.decode("utf-8-sig" if utf8 else encoding, "surrogateescape")
    except LookupError:
        fix = "Use utf-8, cp949, euc-kr or another encoding that Python knows."
        raise InvalidInputError("--encoding", "is unknown", fix, value=encoding) from None
    except UnicodeError as error:
        raise _wrong_encoding(name, encoding, f"({error})") from None
    if not utf8 and not data.isascii() and _is_utf8(data):
        # Read as CP949, most UTF-8 Hangul is valid nonsense: better to stop than to route nonsense.
        raise InvalidInputError(name, f"is UTF-8, not {encoding}", "Leave out --encoding.")
    broken = [number for number, line in enumerate(io.StringIO(text), start=1) if not is_unicode(line)]
    readable = sum(not line.isascii() for line in io.StringIO(text)) - len(broken)
    if broken and (len(broken) > readable or (form is Form.CSV and broken[0] == 1)):
        raise _wrong_encoding(name, encoding, f"(line {broken[0]} does not decode)")
    return text


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _wrong_encoding(name: str, encoding: str, why: str) -> InvalidInputError:
    return InvalidInputError(name, f"is not {encoding} {why}", "Pass --encoding, for example --encoding cp949.")


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Every line that is not blank, with its number."""
    for number, line in enumerate(io.StringIO(text, newline=None), start=1):
        if line.strip():
            yield number, line.rstrip("\n")


# -- from text to rows -------------------------------------------------------------------------------------------------


def _plain_rows(text: str, text_column: str) -> Iterator[Row]:
    for number, (line, raw) in enumerate(_lines(text), start=1):
        yield _row(number, line, {text_column: raw}, text_column)


def _csv(text: str, name: str, text_column: str) -> tuple[tuple[str, ...], list[Row]]:
    records = csv_records(text)
    head = next(records, None)
    if head is None or head.problem is not None:
        problem = "has no header" if head is None else f"has an unusable header ({head.problem})"
        raise InvalidInputError(name, problem, "Its first line has to name the columns.")
    columns = tuple(head.cells)
    repeated = next((column for column in columns if columns.count(column) > 1), None)
    if repeated is not None:
        raise InvalidInputError(name, f"has two columns named {repeated!r}", "Give every column its own name.")
    return columns, [
        _csv_row(number, record.line, columns, record.cells, record.problem, text_column)
        for number, record in enumerate(records, start=1)
    ]


def _csv_row(
    number: int, line: int, columns: tuple[str, ...], cells: list[str], problem: str | None, text_column: str
) -> Row:
    if problem is not None:  # the raw line, where whoever gets the row will look
        return Row(number, line, dict.fromkeys(columns, "") | {text_column: cells[0]}, "", problem)
    surplus = cells[len(columns) :]
    values = dict(zip(columns, [*cells, *[""] * len(columns)], strict=False))
    if len(cells) != len(columns):
        rest = f"; left over: {json.dumps(surplus, ensure_ascii=False)}" if surplus else ""
        return Row(number, line, values, "", f"has {len(cells)} cells for {len(columns)} columns{rest}")
    return _row(number, line, values, text_column)


def _jsonl(text: str, text_column: str) -> tuple[tuple[str, ...], list[Row]]:
    rows: list[Row] = []
    columns: dict[str, None] = {}
    for number, (line, raw) in enumerate(_lines(text), start=1):
        problem = None
        try:
            values = json.loads(raw)
        except (ValueError, RecursionError) as error:
            values, problem = None, f"is not JSON ({error})"
        if isinstance(values, dict):
            columns |= dict.fromkeys(values)
            rows.append(_row(number, line, values, text_column))
        else:
            rows.append(Row(number, line, {text_column: raw}, "", problem or "is not a JSON object"))
    return tuple(columns), rows


def _row(number: int, line: int, values: Mapping[str, Any], text_column: str) -> Row:
    text = values.get(text_column)
    problem = _text_problem(text, text_column)
    return Row(number, line, values, "" if problem else str(text), problem)


def _text_problem(text: object, column: str) -> str | None:
    if text is None:
        return f"{column!r} is missing"
    if not isinstance(text, str):
        return f"{column!r} is not text but {shorten(text, 40)}"
    if not text.strip():
        return f"{column!r} is empty"
    return None if is_unicode(text) else f"{column!r} is not valid Unicode"


__all__ = ["BY_SUFFIX", "Form", "Row", "Table", "is_unicode", "read_table"]
