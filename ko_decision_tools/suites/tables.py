"""Rows out of files (TSV, CSV, JSON, JSONL, Parquet) and out of the ``datasets`` hub, as plain dictionaries.

Nothing is guessed about a row that does not fit its header: it is an error that names the line.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ko_decision_tools.errors import InvalidInputError

# A field is quoted only when its closing quote ends it: KLUE's files are written that way, while in KoBEST's
# `"뷰티 인사이드"는 …` the quotes belong to the text. Python's csv would eat them.
_FIELD = re.compile(r'(?:^|\t)(?:"((?:[^"]|"")*)"(?=\t|$)|([^\t]*))')


def read_rows(path: Path, *, encoding: str = "utf-8") -> list[dict[str, Any]]:
    """The rows of a ``.tsv``, ``.csv``, ``.json`` (a list of objects), ``.jsonl`` or ``.parquet`` file.

    Raises:
        InvalidInputError: The file cannot be read or decoded, its ending is another one, or a row is broken.
    """
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        fix = f"Use one of {', '.join(_READERS)}."
        raise InvalidInputError(str(path), f"ends in {path.suffix!r}, which is not known", fix)
    try:
        # A byte-order mark is never part of the first column's name.
        return reader(path, "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding)
    except (OSError, UnicodeDecodeError, LookupError) as error:
        fix = "Check the path, or name its encoding (cp949, for example)."
        raise InvalidInputError(str(path), f"cannot be read ({error})", fix) from error


def find_files(folder: Path, patterns: Sequence[str]) -> list[Path]:
    """The files of the first pattern that matches any, sorted; in the folder or one level below.

    Raises:
        InvalidInputError: There is no such folder, or nothing matches.
    """
    if not folder.is_dir():
        raise InvalidInputError(
            "data folder", "is not a folder", "Pass the folder that holds the files.", value=str(folder)
        )
    for pattern in patterns:
        for place in (pattern, f"*/{pattern}"):
            if found := sorted(folder.glob(place)):
                return found
    raise InvalidInputError(
        str(folder), f"has no {' or '.join(patterns)}", "Pass another folder, or choose other tasks."
    )


def hub_rows(repo: str, config: str | None, split: str, *, label_names: bool = False) -> list[dict[str, Any]]:
    """The rows of a data set of the ``datasets`` hub.

    Args:
        repo: For example ``"klue"``.
        config: For example ``"nli"``.
        split: The hub's own name for it (``"validation"``).
        label_names: Replace the integers of a class-label column ``label`` by their names.

    Raises:
        InvalidInputError: ``datasets`` is not installed, or the hub cannot be reached or has no such set.
    """
    try:
        from datasets import load_dataset
    except ImportError:
        fix = 'pip install "ko-decision-tools[lab]", or pass a folder.'
        raise InvalidInputError("datasets", "is not installed", fix) from None
    try:
        dataset = load_dataset(repo, config, split=split)
    except (OSError, ValueError) as error:  # its "not found" errors are both
        fix = "Check the connection, or pass a folder."
        raise InvalidInputError(f"{repo}/{config or ''}", f"cannot be loaded from the hub ({error})", fix) from error
    names = getattr(dataset.features.get("label"), "names", None) if label_names else None
    return [{**row, "label": names[row["label"]]} if names else dict(row) for row in dataset]


def _tsv(path: Path, encoding: str) -> list[dict[str, Any]]:
    text = path.read_text(encoding=encoding)
    lines = [(number, line.rstrip("\r")) for number, line in enumerate(text.split("\n"), start=1)]
    return _with_header(((number, split_tsv(line)) for number, line in lines if line), path)


def split_tsv(line: str) -> list[str]:
    r"""The fields of one line.

    Example:
        >>> split_tsv('"그는 ""네""라고 했다."\t"강" 단계로\t')
        ['그는 "네"라고 했다.', '"강" 단계로', '']
    """
    fields = (match.groups() for match in _FIELD.finditer(line))
    return [bare if quoted is None else quoted.replace('""', '"') for quoted, bare in fields]


def _csv(path: Path, encoding: str) -> list[dict[str, Any]]:
    reader = csv.reader(io.StringIO(path.read_text(encoding=encoding), newline=""))
    try:
        return _with_header(((reader.line_num, fields) for fields in reader if fields), path)
    except csv.Error as error:
        raise InvalidInputError(f"{path}:{reader.line_num}", f"is not CSV ({error})", "Correct the line.") from None


def _with_header(lines: Iterable[tuple[int, list[str]]], path: Path) -> list[dict[str, Any]]:
    numbered = iter(lines)
    _, header = next(numbered, (0, []))
    names = [name.strip() for name in header]
    rows = []
    for number, fields in numbered:
        if len(fields) != len(names):
            problem = f"has {len(fields)} fields where the header has {len(names)}"
            raise InvalidInputError(f"{path}:{number}", problem, "Correct the line.", value=fields)
        rows.append(dict(zip(names, fields, strict=True)))
    return rows


def _jsonl(path: Path, encoding: str) -> list[dict[str, Any]]:
    lines = path.read_text(encoding=encoding).split("\n")
    return [_object(line, f"{path}:{number}") for number, line in enumerate(lines, start=1) if line.strip()]


def _object(line: str, where: str) -> dict[str, Any]:
    raw = _parsed(line, where)
    if not isinstance(raw, Mapping):
        raise InvalidInputError(where, "is not a JSON object", "Write one object a line.")
    return dict(raw)


def _json(path: Path, encoding: str) -> list[dict[str, Any]]:
    raw = _parsed(path.read_text(encoding=encoding), str(path))
    if not isinstance(raw, list) or not all(isinstance(row, Mapping) for row in raw):
        raise InvalidInputError(
            str(path), "is not a list of objects", "Write [{…}, {…}], or one object a line as .jsonl."
        )
    return [dict(row) for row in raw]


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(where, f"is not JSON ({error})", "Correct it.") from None


def _parquet(path: Path, encoding: str) -> list[dict[str, Any]]:
    try:
        from pyarrow import ArrowException, parquet  # type: ignore[import-untyped]
    except ImportError:
        fix = 'pip install "ko-decision-tools[lab]", or convert the file to .jsonl.'
        raise InvalidInputError(str(path), "needs pyarrow, which is not installed", fix) from None
    try:
        rows: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
    except ArrowException as error:
        raise InvalidInputError(str(path), f"is not a Parquet file ({error})", "Check the file.") from error
    return rows


_READERS: Mapping[str, Callable[[Path, str], list[dict[str, Any]]]] = {
    ".tsv": _tsv,
    ".csv": _csv,
    ".json": _json,
    ".jsonl": _jsonl,
    ".parquet": _parquet,
}
