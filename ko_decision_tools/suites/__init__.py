"""Suites: labelled rows as examples to score, fit or train on. Pure readers; nothing here loads a model.

=================  =====================================================  ===================  =====================
suite              tasks                                                  splits               source without folder
=================  =====================================================  ===================  =====================
``klue``           ``klue_nli`` ``klue_ynat`` ``klue_sts`` ``klue_re``    dev, train           hub: klue
``kobest``         ``kobest_boolq`` ``_copa`` ``_hellaswag`` ``_wic``     dev, train, test     hub: skt/kobest_v1
                   ``_sentineg``
``tickets``        ``tickets_route`` ``_urgency`` ``_yesno``              test, train          in the package
``typed-decisions``  one per workflow                                     test, train, dev     hub: LocalLLaMA/…
``letter-bias``    those of ``klue``, ``kobest`` or ``tickets``           theirs               theirs
``yes-bias``       ``yes_bias_trained`` ``yes_bias_unseen``               test                 in the package
=================  =====================================================  ===================  =====================

A caller's own file is read by :func:`load_file`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.suites.base import Example, Suite, draw, unique
from ko_decision_tools.suites.bias import YES_BIAS, letter_bias
from ko_decision_tools.suites.businesses import TICKETS
from ko_decision_tools.suites.klue import KLUE
from ko_decision_tools.suites.kobest import KOBEST
from ko_decision_tools.suites.own import load_file
from ko_decision_tools.suites.typed import TYPED_DECISIONS

# Raise it with every change to what a model reads in any suite: scores under two wordings do not compare.
WORDING = 1

_BASES = (KLUE, KOBEST, TICKETS)
_SUITES = {suite.name: suite for suite in (*_BASES, TYPED_DECISIONS, YES_BIAS, *map(letter_bias, _BASES))}
SUITES = ("klue", "kobest", "tickets", "typed-decisions", "letter-bias", "yes-bias")


def load_suite(
    name: str,
    folder: Path | None = None,
    *,
    split: str | None = None,
    tasks: Sequence[str] | None = None,
    limit: int | None = None,
) -> list[Example]:
    """The examples of a suite, with unique ids.

    Args:
        name: One of :data:`SUITES`. ``"letter-bias:kobest"`` says whose questions; ``"letter-bias"`` alone means those
            of ``klue`` with a folder and of ``tickets`` without.
        folder: Where the files are; ``None`` for the package's own or the hub's (``datasets`` has to be installed).
        split: ``"train"``, ``"dev"`` or ``"test"``; the suite's first by default, never its training rows.
        tasks: ``"klue_nli"`` or ``"nli"``; all by default.
        limit: At most so many examples of each task. Rows are drawn by a digest of their id and kept in order: the same
            on every machine, spread over the file, and a smaller draw is part of a larger one.

    Raises:
        InvalidInputError: An unknown suite, split or task, a missing file, or a row that cannot be read.

    Example:
        >>> example = load_suite("tickets", tasks=["route"], limit=1)[0]
        >>> example.task, example.question.type, example.split
        ('tickets_route', 'choice', 'test')
    """
    suite = _suite(name, folder)
    chosen = split or suite.splits[0]
    if chosen not in suite.splits:
        raise InvalidInputError(
            "split", f"is not one of {suite.name}", f"Use {' or '.join(suite.splits)}.", value=split
        )
    examples = unique(suite.read(folder, chosen, _tasks(suite, tasks)))
    if not examples:
        fix = "Check the folder, the split and the tasks."
        raise InvalidInputError("suite", f"{suite.name} has no examples in its {chosen} split", fix, value=tasks)
    return examples if limit is None else draw(examples, limit)


def suite_name(name: str, folder: Path | None = None) -> str:
    """The suite's full name, as a score file records it (``"letter-bias"`` becomes ``"letter-bias:klue"``).

    Raises:
        InvalidInputError: There is no such suite.
    """
    return _suite(name, folder).name


def _suite(name: str, folder: Path | None) -> Suite:
    full = f"letter-bias:{'tickets' if folder is None else 'klue'}" if name == "letter-bias" else name
    if full not in _SUITES:
        raise InvalidInputError("suite", "is not known", f"Use one of {', '.join(SUITES)}.", value=name)
    return _SUITES[full]


def _tasks(suite: Suite, tasks: Sequence[str] | None) -> Sequence[str]:
    if not suite.tasks or not tasks:
        return tasks or suite.tasks
    by_name = {short: task for task in suite.tasks for short in (task, task.partition("_")[2], task.rpartition("_")[2])}
    unknown = [task for task in tasks if task not in by_name]
    if unknown:
        raise InvalidInputError(
            "tasks", f"has one that {suite.name} lacks", f"Use {', '.join(suite.tasks)}.", value=unknown[0]
        )
    return list(dict.fromkeys(by_name[task] for task in tasks))


__all__ = ["SUITES", "WORDING", "Example", "Suite", "draw", "load_file", "load_suite", "suite_name"]
