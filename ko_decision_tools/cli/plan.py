"""``ko-decision plan``: what a question costs and what would be cut, without a forward pass."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ko_decision_tools.cli import models, options
from ko_decision_tools.cli.ask import read_text
from ko_decision_tools.cli.tables import Row, read_table
from ko_decision_tools.errors import InvalidInputError

if TYPE_CHECKING:
    from ko_decision_tools.encoders.base import Prepared
    from ko_decision_tools.model import KoDecisionModel
    from ko_decision_tools.questions import Question

SHOWN: Final = 10  # rows listed by name before "… and n more"


def plan(
    text: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="One text; - reads standard input.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="A file of rows instead, read as `route` reads it.")
    ] = None,
    routes: Annotated[Path | None, typer.Option("--routes", metavar="YAML", help="Ask this routing table.")] = None,
    question: Annotated[str | None, typer.Option("--question", "-q", help="Or ask this question …")] = None,
    option: Annotated[list[str] | None, typer.Option("--option", help="… with these options, …")] = None,
    level: Annotated[list[str] | None, typer.Option("--level", help="… or these levels; yes or no without.")] = None,
    as_json: options.Json = False,
    form: options.InputForm = None,
    encoding: options.Encoding = "utf-8",
    text_column: options.TextColumn = "text",
    checkpoint: options.Checkpoint = "mini",
    revision: options.Revision = None,
) -> None:
    """Count tokens and show what would be cut, for one text or a file of rows. Nothing is scored.

    Every option is read together with the text, so a question with n options reads the text n times.
    """
    if (text is None) == (file is None):
        raise InvalidInputError("TEXT", "or --file is needed, not both", "Pass one of them.")
    asked = _question(routes, question, option or [], level or [])
    rows: tuple[Row, ...] = ()
    if file is not None:
        rows = read_table(file, form=form, encoding=encoding, text_column=text_column).rows
    state = None if text is None else read_text(text)
    model = models.load_model(checkpoint, revision=revision)
    limit = model.encoder.max_tokens
    if state is not None:
        prepared = model.plan(state, asked)
        _print_json(_one(prepared, limit)) if as_json else _show_one(prepared, limit)
    else:
        model.plan("글", asked)  # an option that is too long fails here once, not in every row
        planned = plan_rows(model, asked, rows)
        _print_json(asdict(planned) | {"max_tokens": limit}) if as_json else _show_rows(planned, limit)


@dataclass(frozen=True, slots=True)
class RowsPlan:
    """What routing a file would take.

    Attributes:
        rows: All of them.
        pairs, tokens: Rows of tokens the encoder would read, and the tokens in them.
        longest: Tokens in the longest of those.
        cut: Rows whose text does not fit: number, line, tokens of the text, tokens read.
        failed: Rows that cannot be judged: number, line, problem.
    """

    rows: int
    pairs: int
    tokens: int
    longest: int
    cut: tuple[dict[str, int], ...]
    failed: tuple[dict[str, Any], ...]


def plan_rows(model: KoDecisionModel, asked: Question, rows: Sequence[Row]) -> RowsPlan:
    """Tokenise every row; nothing is scored."""
    pairs = tokens = longest = 0
    cut: list[dict[str, int]] = []
    failed: list[dict[str, Any]] = []
    for row in rows:
        where = {"row": row.number, "line": row.line}
        if row.problem is not None:
            failed.append(where | {"problem": row.problem})
            continue
        prepared = model.plan(row.text, asked)
        pairs, tokens = pairs + prepared.pairs, tokens + prepared.tokens
        longest = max(longest, *map(len, prepared.rows))
        if prepared.truncation is not None:
            cut.append(where | {"text_tokens": prepared.truncation.state_tokens, "read": prepared.truncation.kept})
    return RowsPlan(len(rows), pairs, tokens, longest, tuple(cut), tuple(failed))


def _question(routes: Path | None, question: str | None, option: list[str], level: list[str]) -> Question:
    if (routes is None) == (question is None):
        raise InvalidInputError("--routes", "or --question is needed, not both", "Pass one of them.")
    if routes is not None and (option or level):
        raise InvalidInputError("--routes", "has its own options", "Leave out --option and --level.")
    if option and level:
        raise InvalidInputError("--option", "and --level exclude each other", "Pass one of them.")
    if routes is not None:
        from ko_decision_tools.router.table import load_routing_table

        return load_routing_table(routes).to_choice()
    from ko_decision_tools.questions import parse_question
    from ko_decision_tools.tools.arguments import parse_levels, parse_options

    raw: dict[str, Any] = {"type": "choice" if option else "score" if level else "noul", "instructions": question}
    if option:
        raw["criteria"] = parse_options(option, "--option")
    elif level:
        raw["criteria"] = parse_levels(level, "--level")
    return parse_question(raw)


def _one(prepared: Prepared, limit: int) -> dict[str, Any]:
    lost = prepared.truncation
    lengths = map(len, prepared.rows)
    return {
        "pairs": prepared.pairs,
        "tokens": prepared.tokens,
        "max_tokens": limit,
        "options": [
            {"option": option, "tokens": length}
            for option, length in zip(prepared.prompt.options, lengths, strict=True)
        ],
        "cut": None if lost is None else {"text_tokens": lost.state_tokens, "read": lost.kept},
    }


def _show_one(prepared: Prepared, limit: int) -> None:
    from ko_decision_tools.cli import show

    out = show.console()
    out.print(f"{prepared.pairs} pairs, {prepared.tokens} tokens (a pair holds at most {limit})")
    for option, row in zip(prepared.prompt.options, prepared.rows, strict=True):
        out.print(f"{len(row):>6}  {option}")
    lost = prepared.truncation
    out.print(
        "nothing is cut"
        if lost is None
        else f"cut: only the first {lost.kept} of {lost.state_tokens} tokens of the text would be read"
    )


def _show_rows(planned: RowsPlan, limit: int) -> None:
    from ko_decision_tools.cli import show

    out = show.console()
    out.print(f"{planned.rows} rows, {planned.pairs} pairs, {planned.tokens} tokens")
    out.print(f"longest pair: {planned.longest} of at most {limit} tokens")
    out.print(f"cut: {len(planned.cut)} rows")
    _list(out, [f"line {row['line']}: the first {row['read']} of {row['text_tokens']} tokens" for row in planned.cut])
    out.print(f"cannot be judged: {len(planned.failed)} rows")
    _list(out, [f"line {row['line']}: {row['problem']}" for row in planned.failed])


def _list(out: Any, lines: list[str]) -> None:
    for line in lines[:SHOWN]:
        out.print(f"  {line}")
    if len(lines) > SHOWN:
        out.print(f"  … and {len(lines) - SHOWN} more")


def _print_json(values: dict[str, Any]) -> None:
    typer.echo(json.dumps(values, ensure_ascii=False))


__all__ = ["RowsPlan", "plan", "plan_rows"]
