"""``ko-decision evaluate``: run a checkpoint over a suite once and keep its raw scores."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ko_decision_tools.cli import models, options
from ko_decision_tools.cli.frame import FAILURE, INTERRUPTED, one_line, say
from ko_decision_tools.errors import EncoderError, InvalidInputError

if TYPE_CHECKING:
    from ko_decision_tools.evaluation.run import RunSummary
    from ko_decision_tools.suites import Example

_SHOWN = 5


def evaluate(
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Score file to write (JSON Lines).")],
    suite: Annotated[
        str | None,
        typer.Option(
            "--suite", help="klue, kobest, tickets, typed-decisions, letter-bias[:SUITE] or yes-bias; or pass --data."
        ),
    ] = None,
    data: options.Data = None,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", metavar="DIR", help="The suite's files; from the hub by default.")
    ] = None,
    split: Annotated[
        str | None, typer.Option("--split", help="train, dev or test; by default one that is never trained on.")
    ] = None,
    tasks: Annotated[str | None, typer.Option("--tasks", help="For example nli,ynat; all by default.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Rows per task, drawn evenly.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the score file after an interruption.")] = False,
    no_text: Annotated[bool, typer.Option("--no-text", help="Keep no text of the rows in the score file.")] = False,
    routes: options.DataRoutes = None,
    question: options.DataQuestion = None,
    text_column: options.TextColumn = "text",
    label_column: options.LabelColumn = "label",
    encoding: options.Encoding = "utf-8",
    checkpoint: options.Checkpoint = "mini",
    revision: options.Revision = None,
    device: options.Device = None,
    num_threads: options.NumThreads = None,
) -> None:
    """Run a checkpoint over labelled rows once and keep its raw scores.

    Everything after (report, compare, fit) reads the score file alone.

    \b
    ko-decision evaluate --suite tickets --out scores.jsonl
    ko-decision evaluate --suite klue --data-dir ../shared/data/klue --limit 200 --out scores.jsonl
    ko-decision evaluate --data tickets.csv --routes routes.yaml --out scores.jsonl
    """
    from ko_decision_tools.checkpoints import resolve_checkpoint
    from ko_decision_tools.evaluation.run import run_header, run_suite
    from ko_decision_tools.evaluation.score_log import refuse_existing
    from ko_decision_tools.suites import WORDING

    if not resume:
        refuse_existing(out)
    if data is not None:
        _refuse_with_data(suite=suite, data_dir=data_dir, split=split, tasks=tasks)
        examples, facts = _own(data, routes, question, text_column, label_column, encoding, limit)
    else:
        examples, facts = _of_suite(suite, data_dir, split, tasks, limit)
    found = resolve_checkpoint(checkpoint, revision=revision)
    header = run_header(
        checkpoint=found.name,
        fingerprint=found.fingerprint,
        revision=found.revision,
        wording=WORDING,
        limit=limit,
        **facts,
    )
    model = models.load_model(checkpoint, revision=found.revision, device=device, num_threads=num_threads)
    started = time.perf_counter()
    with _progress(out, len(examples)) as on_progress:
        summary = run_suite(
            model, examples, out, header=header, resume=resume, keep_text=not no_text, on_progress=on_progress
        )
    _conclude(summary, time.perf_counter() - started)


def _refuse_with_data(**given: object) -> None:
    for name, value in given.items():
        if value is not None:
            option = f"--{name.replace('_', '-')}"
            raise InvalidInputError(option, "does not go with --data", "Leave one of the two out.", value=str(value))


def _of_suite(
    suite: str | None, folder: Path | None, split: str | None, tasks: str | None, limit: int | None
) -> tuple[Sequence[Example], dict[str, Any]]:
    from ko_decision_tools.suites import SUITES, load_suite, suite_name

    if suite is None:
        fix = f"Pass --suite ({', '.join(SUITES)}), or your own rows with --data."
        raise InvalidInputError("--suite", "is missing", fix)
    chosen = [task.strip() for task in tasks.split(",") if task.strip()] if tasks else None
    examples = load_suite(suite, folder, split=split, tasks=chosen, limit=limit)
    return examples, {"suite": suite_name(suite, folder), "split": examples[0].split, "tasks": chosen}


def _own(
    data: Path,
    routes: Path | None,
    question: str | None,
    text_column: str,
    label_column: str,
    encoding: str,
    limit: int | None,
) -> tuple[Sequence[Example], dict[str, Any]]:
    from ko_decision_tools.router.table import load_routing_table
    from ko_decision_tools.suites import draw, load_file

    asked: dict[str, Any] = {}
    if routes is not None:
        table = load_routing_table(routes)
        asked = {"routes": table.to_choice().criteria, "instructions": table.question, "task": table.task}
        asked["unknown_label"] = "none"  # as `route --label-column` counts it: right when no route is accepted
    if question is not None:
        asked["instructions"] = question
    examples = load_file(data, **asked, text_column=text_column, label_column=label_column, encoding=encoding)
    if limit is not None:
        examples = draw(examples, limit)
    none = sum(example.gold is None and example.soft_gold is None for example in examples)
    if none:
        say(f"{none} of {len(examples)} rows have no right option (their label is empty, or no route)")
    content = hashlib.sha256(data.read_bytes()).hexdigest()[:16]
    return examples, {
        "suite": "own",
        "split": "own",
        "data": f"{data.name} sha256:{content}",
        "question": asked or None,
    }


@contextmanager
def _progress(out: Path, total: int) -> Iterator[Callable[[int, int], None]]:
    """A bar; when scoring stops half-way, a line on what is kept."""
    from ko_decision_tools.cli import show

    shown = 0
    try:
        with show.progress("scoring", total=total, done=0) as advance:

            def on_progress(done: int, _: int) -> None:
                nonlocal shown
                advance(done - shown)
                shown = done

            yield on_progress
    except KeyboardInterrupt:
        say(f"interrupted: {_kept(out, shown)}")
        raise typer.Exit(INTERRUPTED) from None
    except EncoderError as error:
        say(one_line(error))
        say(_kept(out, shown))
        raise typer.Exit(FAILURE) from error


def _kept(out: Path, rows: int) -> str:
    return f"{rows} rows are kept in {out}; go on with --resume"


def _conclude(summary: RunSummary, seconds: float) -> None:
    for task, count in summary.rows.items():
        say(f"{task}: {count} rows")
    speed = f", {summary.scored / seconds:.1f} decisions per second" if summary.scored else ""
    say(f"{summary.scored} scored, {summary.resumed} were in the file already{speed}")
    if summary.cut:
        say(f"{summary.cut} texts are longer than the model reads; only their beginning counted")
    for item in summary.skipped[:_SHOWN]:
        say(f"not scored: {item.id}: {item.reason}")
    if len(summary.skipped) > _SHOWN:
        say(f"… and {len(summary.skipped) - _SHOWN} more; the first line of the file lists them all")
    say(f"next: ko-decision report {summary.path}")
    if summary.skipped:
        say(f"error: {len(summary.skipped)} of {summary.scored + len(summary.skipped)} rows could not be scored")
        raise typer.Exit(FAILURE)
