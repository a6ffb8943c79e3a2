"""``ko-decision fit``: temperatures from a score file, and a threshold with a guarantee from that or from a CSV."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ko_decision_tools.cli import options
from ko_decision_tools.cli.fit_runs import Fitting, Model, Result, Texts, from_scores, from_texts
from ko_decision_tools.cli.frame import say
from ko_decision_tools.errors import InvalidInputError


def fit(
    file: Annotated[
        Path, typer.Argument(help="A score file from `ko-decision evaluate`; with --routes, a CSV or JSONL of texts.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="JSON", help="Calibration file to write, with its evidence.")
    ] = None,
    max_risk: Annotated[
        float | None, typer.Option("--max-risk", help="Fit the threshold that keeps the error among the answered.")
    ] = None,
    confidence: Annotated[float, typer.Option("--confidence", help="Probability that it is kept.")] = 0.95,
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="JSON", help="Write the threshold's result, wrong answers included."),
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option("--task", metavar="NAME", help="Only this task of the score file; repeatable."),
    ] = None,
    tasks_only: Annotated[
        bool, typer.Option("--tasks-only", help="Fit tasks by name only: other questions stay uncalibrated.")
    ] = False,
    hard_labels: Annotated[
        bool, typer.Option("--hard-labels", help="Fit to the gold label even where soft gold is known.")
    ] = False,
    calibration: Annotated[
        Path | None, typer.Option("--calibration", metavar="FILE", help="Use these temperatures and fit none.")
    ] = None,
    routes: Annotated[
        Path | None, typer.Option("--routes", metavar="YAML", help="FILE has labelled texts, to score with this table.")
    ] = None,
    label_column: Annotated[str, typer.Option("--label-column", help="Column with the right route.")] = "label",
    text_column: options.TextColumn = "text",
    form: options.InputForm = None,
    encoding: options.Encoding = "utf-8",
    checkpoint: options.Checkpoint = "mini",
    revision: options.Revision = None,
    device: options.Device = None,
    num_threads: options.NumThreads = None,
    as_json: options.Json = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the files that are written.")] = False,
) -> None:
    """Fit temperatures to a score file, and a threshold to that or to your own labelled texts.

    ko-decision fit scores.jsonl --out calibration.json

    ko-decision fit tickets.csv --routes routes.yaml --label-column label --max-risk 0.1

    The threshold is the lowest --min-top-probability whose error among the answered is at most --max-risk with
    probability --confidence. A text whose label is no route has no right answer: to answer it is an error. A text
    without a label is left out.

    With --max-risk, one half of a score file's groups is for the temperatures and the other for the threshold; with
    --calibration all of it is for the threshold. Labelled texts are always scored with the temperatures at hand: to fit
    those too, score a few hundred texts with `ko-decision evaluate`, and fit that.

    That no threshold achieves the risk is a result, not an error: the exit code stays 0.
    """
    from ko_decision_tools.fitting.lab import require_scipy
    from ko_decision_tools.fitting.threshold import check_share

    require_scipy()
    check_share("--confidence", confidence)
    if max_risk is not None:
        check_share("--max-risk", max_risk)
    fitting = Fitting(calibration, tuple(task or ()), tasks_only, not hard_labels)
    _check(file, routes, max_risk, fitting)
    _check_targets([out, save], force)
    if save is not None and max_risk is None:
        raise InvalidInputError("--save", "keeps a threshold", "Pass --max-risk.")
    if routes is None or max_risk is None:
        result = from_scores(file, fitting, max_risk, confidence)
    else:
        model = Model(checkpoint, revision, calibration, device, num_threads)
        rows = Texts(file, routes, label_column, text_column, form, encoding)
        result = from_texts(rows, model, max_risk, confidence, needs_table=out is not None)
    _write(result, out, save)
    _print(result, out, as_json)


def _check(file: Path, routes: Path | None, max_risk: float | None, fitting: Fitting) -> None:
    """Options that do not go together are said to, not ignored."""
    if routes is None and file.suffix.lower() in (".csv", ".tsv", ".txt"):
        fix = "Pass --routes if it has labelled texts, or a score file from `ko-decision evaluate`."
        raise InvalidInputError(str(file), "is no score file", fix)
    if routes is not None and max_risk is None:
        raise InvalidInputError(
            "--max-risk", "is missing", "With --routes a threshold is fitted: pass for example 0.1."
        )
    if routes is not None and (fitting.tasks or fitting.tasks_only or not fitting.soft):
        fix = "Leave out --task, --tasks-only and --hard-labels, or fit a score file from `ko-decision evaluate`."
        raise InvalidInputError("--routes", "scores texts with the temperatures at hand and fits none", fix)


def _check_targets(targets: Sequence[Path | None], force: bool) -> None:
    for option, path in zip(("--out", "--save"), targets, strict=True):
        if path is not None and path.exists() and not force:
            raise InvalidInputError(option, "exists already", "Pass --force to overwrite it.", value=str(path))
        if path is not None and not path.absolute().parent.is_dir():
            raise InvalidInputError(option, "lies in a folder that is not there", "Create it first.", value=str(path))


def _write(result: Result, out: Path | None, save: Path | None) -> None:
    if save is not None and result.threshold is not None:
        result.threshold.save(save)
    if out is None:
        return
    table = result.table
    if result.threshold is not None:
        table = replace(table, evidence={**table.evidence, "threshold": result.threshold.evidence()})
    try:
        out.write_text(json.dumps(table.to_dict(), ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise InvalidInputError("--out", f"cannot be written ({error.strerror})", "Choose another file.") from error


def _print(result: Result, out: Path | None, as_json: bool) -> None:
    if as_json:
        found = {
            "calibration": result.table.to_dict(),
            "threshold": None if result.threshold is None else result.threshold.to_dict(),
        }
        typer.echo(json.dumps(found, ensure_ascii=False))
        return
    from ko_decision_tools.cli import fit_show, show

    console = show.console()
    if result.report is not None:
        fit_show.temperatures(console, result.report)
    if result.threshold is not None:
        fit_show.threshold(console, result.threshold, _advice(result, out))
    if out is not None:
        say(f"wrote {out}")


def _advice(result: Result, out: Path | None) -> list[str]:
    """The exact flag and argument; nothing when there is no threshold."""
    assert result.threshold is not None
    bar = result.threshold.threshold
    if bar is None:
        return []
    calibrated = f", calibration={str(out)!r}" if out is not None else ""
    lines = [
        f"Use it: --min-top-probability {bar:g}, or min_top_probability: {bar:g} in a routing table, or "
        f"KoDecisionModel.from_pretrained({result.checkpoint!r}{calibrated}, min_top_probability={bar:g})."
    ]
    tasks = sorted(
        {name.split(":")[0].removeprefix("task ") for name in result.threshold.temperatures if "task " in name}
    )
    if tasks and any(tasks):
        lines.append(f"Name the task when you decide (task={tasks[0]!r}), or another temperature applies.")
    if result.bars:
        lines.append(f"These routes have a bar of their own, which wins over it: {', '.join(result.bars)}.")
    return lines
