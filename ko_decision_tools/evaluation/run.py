"""Run a checkpoint over examples once and keep its raw scores.

Example:
    >>> from tempfile import TemporaryDirectory
    >>> from ko_decision_tools import KoDecisionModel, ScriptedEncoder
    >>> from ko_decision_tools.suites import load_suite
    >>> model = KoDecisionModel.from_encoder(ScriptedEncoder({"참": 1.0}))
    >>> examples = load_suite("yes-bias", tasks=["trained"])
    >>> with TemporaryDirectory() as folder:
    ...     summary = run_suite(model, examples, Path(folder) / "scores.jsonl", header={"suite": "yes-bias"})
    >>> summary.rows, summary.skipped
    ({'yes_bias_trained': 120}, ())
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ko_decision_tools import __version__
from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.evaluation.score_log import ScoreLog
from ko_decision_tools.prompts import Prompt, labels_of, render
from ko_decision_tools.questions import Question, option_count
from ko_decision_tools.records import Record
from ko_decision_tools.states import render_state
from ko_decision_tools.suites.base import Example, unique

if TYPE_CHECKING:
    from ko_decision_tools.model import KoDecisionModel

_CHUNK_PAIRS = 256  # enough for length-sorted batches, little enough to lose in a kill
_TEXT = 200
_LIBRARIES = ("torch", "transformers", "tokenizers")


@dataclass(frozen=True, slots=True)
class Skipped:
    """An example that could not be scored, and why (as a rule: its options are longer than the model reads)."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run did.

    Attributes:
        path: The score file.
        rows: Rows in it, by task.
        scored: Examples scored by this run.
        resumed: Examples that the file held already.
        skipped: Examples that could not be scored.
        cut: Examples whose state was longer than the model reads; its beginning was scored.
    """

    path: Path
    rows: Mapping[str, int]
    scored: int
    resumed: int
    skipped: tuple[Skipped, ...]
    cut: int


@dataclass(frozen=True, slots=True)
class _Scored:
    record: Record
    cut: bool


def run_suite(
    model: KoDecisionModel,
    examples: Iterable[Example],
    out: Path,
    *,
    header: Mapping[str, Any],
    resume: bool = False,
    keep_text: bool = True,
    on_progress: Callable[[int, int], None] | None = None,
) -> RunSummary:
    """Score every example and write :class:`~ko_decision_tools.records.Record` lines, flushed chunk by chunk.

    Temperatures do not matter: raw scores are kept. An example that the model cannot take is skipped, listed in the
    header and in the summary, never dropped silently.

    Args:
        model: Any model.
        examples: From :func:`~ko_decision_tools.suites.load_suite` or ``load_file``.
        out: The score file.
        header: Facts of the run, from :func:`run_header`.
        resume: Continue ``out`` after a kill, or add tasks or a higher limit to it.
        keep_text: Keep the first 200 characters of each state, so that a report can list mistakes.
        on_progress: Called with (examples done, examples in all) after each chunk.

    Raises:
        InvalidInputError: ``out`` exists (without ``resume``), belongs to another checkpoint, suite or split, or cannot
            be written; or two examples share an id.
        EncoderError: A forward pass failed. What was scored is in the file.
    """
    listed = unique(examples)
    skipped: list[Skipped] = []
    scored = cut = 0
    with ScoreLog(out, header, resume=resume) as log:
        waiting = [example for example in listed if not _held(example, log)]
        resumed = [example for example in listed if example.id in log.done]
        done = len(resumed)
        _report(on_progress, done, len(listed))
        for chunk in _chunks(waiting):
            results, refused = _score(model, chunk)
            log.append(result.record if keep_text else replace(result.record, text=None) for result in results)
            skipped += refused
            scored, cut = scored + len(results), cut + sum(result.cut for result in results)
            done += len(chunk)
            _report(on_progress, done, len(listed))
        cut += sum(model.plan(example.state, example.question).truncation is not None for example in resumed)
        log.finish(skipped=[{"id": item.id, "reason": item.reason} for item in skipped], cut=cut)
        return RunSummary(out, dict(log.rows), scored, len(resumed), tuple(skipped), cut)


def run_header(
    *,
    checkpoint: str,
    fingerprint: str | None,
    revision: str | None,
    suite: str,
    split: str,
    wording: int,
    tasks: Sequence[str] | None = None,
    limit: int | None = None,
    **facts: Any,
) -> dict[str, Any]:
    """The header of a score file: what was run on what, with which libraries, and when (UTC).

    Args:
        checkpoint: Its name as asked for.
        fingerprint: Of its weights; what a calibration is tied to.
        revision: The hub commit, if any.
        suite: Full name of the suite, or ``"own"``.
        split: Which rows.
        wording: :data:`ko_decision_tools.suites.WORDING`.
        tasks: The tasks asked for; ``None`` for all.
        limit: Examples per task at most.
        facts: Anything else to keep. ``data`` and ``question`` also have to match when a file is resumed.
    """
    return {
        "checkpoint": checkpoint,
        "fingerprint": fingerprint,
        "revision": revision,
        "suite": suite,
        "split": split,
        "wording": wording,
        "tasks": None if tasks is None else list(tasks),
        "limit": limit,
        **facts,
        "versions": _versions(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _versions() -> dict[str, str]:
    found = {"ko-decision-tools": __version__, "python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _report(on_progress: Callable[[int, int], None] | None, done: int, total: int) -> None:
    if on_progress is not None:
        on_progress(done, total)


def _held(example: Example, log: ScoreLog) -> bool:
    """Whether the file has this example; one of the same id with other options is another run's."""
    record = log.done.get(example.id)
    if record is not None and (record.task, record.labels) != (example.task, labels_of(example.question)):
        problem = f"holds {example.id} with another task or other options"
        raise InvalidInputError(str(log.path), problem, "Write to another file.", value=record.labels)
    return record is not None


def _chunks(examples: Sequence[Example]) -> Iterator[list[Example]]:
    chunk: list[Example] = []
    pairs = 0
    for example in examples:
        chunk.append(example)
        pairs += option_count(example.question)
        if pairs >= _CHUNK_PAIRS:
            yield chunk
            chunk, pairs = [], 0
    if chunk:
        yield chunk


def _score(model: KoDecisionModel, chunk: Sequence[Example]) -> tuple[list[_Scored], list[Skipped]]:
    """All at once; if one of them is refused, one by one, to find out which."""
    try:
        return _score_all(model, chunk), []
    except InvalidInputError as error:
        if len(chunk) == 1:
            return [], [Skipped(chunk[0].id, str(error))]
    parts = [_score(model, [example]) for example in chunk]
    return [item for results, _ in parts for item in results], [item for _, refused in parts for item in refused]


def _score_all(model: KoDecisionModel, chunk: Sequence[Example]) -> list[_Scored]:
    usual = [example for example in chunk if example.strip]
    by_hand = [example for example in chunk if not example.strip]
    found: dict[str, _Scored] = {}
    decisions = model.decide_many([example.state for example in usual], [example.question for example in usual])
    for example, decision in zip(usual, decisions, strict=True):
        cut = decision.provenance.truncation is not None
        found[example.id] = _Scored(_record(example, decision.labels, decision.logits), cut)
    prepared = [model.encoder.prepare(_unstripped(example.question, example.state)) for example in by_hand]
    for example, item, scores in zip(by_hand, prepared, model.encoder.score(prepared), strict=True):
        record = _record(example, labels_of(example.question), scores.logits)
        found[example.id] = _Scored(record, item.truncation is not None)
    return [found[example.id] for example in chunk]


def _unstripped(question: Question, state: Any) -> Prompt:
    """The prompt as it would be without this library's stripping: every enumerator is put back where it was."""
    prompt = render(question, state)
    options = tuple(
        text if mark is None else f"{mark} {text}" for mark, text in zip(prompt.markers, prompt.options, strict=True)
    )
    return replace(prompt, options=options, markers=(None,) * len(options))


def _record(example: Example, labels: tuple[str, ...], scores: tuple[float, ...]) -> Record:
    return Record(
        id=example.id,
        group=example.group,
        task=example.task,
        type=example.question.type,
        labels=labels,
        scores=scores,
        gold=example.gold,
        soft_gold=example.soft_gold,
        value=example.value,
        text=render_state(example.state)[:_TEXT],
    )
