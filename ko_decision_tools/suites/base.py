"""What every suite yields, and the few things that all readers need: groups, ids, votes, yes and no."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.prompts import clean
from ko_decision_tools.questions import Question

Row = Mapping[str, Any]

_YES = frozenset({"true", "yes", "1", "예", "네", "참"})
_NO = frozenset({"false", "no", "0", "아니오", "아니요", "거짓"})


@dataclass(frozen=True, slots=True)
class Example:
    """One question about one state, with what is known of its answer.

    Attributes:
        id: Unique within its suite, and the same on every machine.
        group: What is resampled together: an NLI premise, a business; the id itself when rows are independent.
        task: For example ``"klue_nli"``; also the temperature's name.
        state: Text, messages or nested JSON: whatever a model's ``decide`` takes.
        question: A ``Choice``, ``Noul`` or ``Score``.
        gold: Index of the right option (``[false, true]`` for a ``Noul``). ``None``: no option is right, or only
            ``soft_gold`` is known.
        soft_gold: Distribution over the options (human votes, a teacher), summing to 1, or ``None``.
        value: A ``Score``'s real-valued gold, from 0 to levels - 1, or ``None``.
        split: ``"train"``, ``"dev"``, ``"test"``, or ``"own"`` for a caller's file.
        strip: ``False`` leaves option enumerators in what the model reads: the control of ``letter-bias``.
    """

    id: str
    group: str
    task: str
    state: Any
    question: Question
    gold: int | None
    soft_gold: tuple[float, ...] | None
    value: float | None
    split: str
    strip: bool = True


Read = Callable[[Path | None, str, Sequence[str]], Iterator[Example]]


@dataclass(frozen=True, slots=True)
class Suite:
    """A named set of tasks and its reader.

    Attributes:
        name: As ``--suite`` spells it.
        splits: What there is; the first is the default.
        tasks: Full task names; empty when only the rows know.
        read: Yields the examples of the given full task names, from a folder or (``None``) from the suite's own source.
    """

    name: str
    splits: tuple[str, ...]
    tasks: tuple[str, ...]
    read: Read


def digest(text: str) -> str:
    """12 hex digits that stand for a text: a group's name that does not depend on where its rows came from.

    Example:
        >>> digest("비가 온다.")
        'a6fb1ba36dc6'
    """
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def fractions(votes: Sequence[int], options: int) -> tuple[float, ...]:
    """Votes for option indices as a distribution.

    Example:
        >>> fractions([0, 0, 2, 0], 3)
        (0.75, 0.0, 0.25)
    """
    if not votes:
        raise ValueError("there are no votes")
    counts = [0] * options
    for vote in votes:
        if not 0 <= vote < options:
            raise ValueError(f"a vote for option {vote} of {options}")
        counts[vote] += 1
    return tuple(count / len(votes) for count in counts)


def nearest_level(value: float, levels: int) -> int:
    """The level closest to a real-valued gold; halves go up, so that 2.5 of 0-5 is level 3.

    Raises:
        ValueError: The value lies outside the scale.
    """
    if not 0 <= value <= levels - 1:
        raise ValueError(f"{value} lies outside 0 to {levels - 1}")
    return int(value + 0.5)


def truth(value: object) -> bool:
    """A yes or no as data files spell it: booleans, 0 and 1, true/false, yes/no, 예/아니오, 참/거짓.

    Raises:
        ValueError: Anything else.

    Example:
        >>> truth("FALSE"), truth("예"), truth(1)
        (False, True, True)
    """
    word = str(value).strip().lower()
    if word in _YES | _NO:
        return word in _YES
    raise ValueError(f"{value!r} is neither yes nor no")


def build(rows: Iterable[Row], make: Callable[[Row, int], Example], where: str) -> Iterator[Example]:
    """One example per row, numbered from 1; what is wrong with a row becomes an error that names it.

    Raises:
        InvalidInputError: See :func:`build_one`.
    """
    for number, row in enumerate(rows, start=1):
        yield build_one(row, number, make, f"{where}, row {number}")


def build_one(row: Row, number: int, make: Callable[[Row, int], Example], where: str) -> Example:
    """``make(row, number)``, with errors that say where.

    Raises:
        InvalidInputError: It raised a ``KeyError`` (a missing column), ``TypeError``, ``ValueError`` or ``IndexError``.
    """
    try:
        return make(row, number)
    except InvalidInputError as error:
        raise InvalidInputError(f"{where}: {error.field}", error.problem, error.fix, value=error.value) from error
    except KeyError as error:
        columns = ", ".join(map(str, row)) or "no columns"
        raise InvalidInputError(where, f"has no {error.args[0]!r}", f"The row has {columns}.") from None
    except (TypeError, ValueError, IndexError) as error:
        raise InvalidInputError(where, f"cannot be read ({error})", "Correct the row.") from None


def unique(examples: Iterable[Example]) -> list[Example]:
    """The examples as a list, once their ids are known to differ.

    Raises:
        InvalidInputError: Two share an id, or one cannot be written to a file.
    """
    listed = list(examples)
    seen: set[str] = set()
    for example in listed:
        clean(f"{example.id} {example.group} {example.task}", "id")
        if example.id in seen:
            raise InvalidInputError("id", "stands on two rows", "Give every row its own id.", value=example.id)
        seen.add(example.id)
    return listed


def draw(examples: Sequence[Example], limit: int) -> list[Example]:
    """At most ``limit`` examples of each task, in order.

    Drawn by a digest of the id between ``/`` and ``@``: the same on every machine, spread over the rows, a smaller draw
    part of a larger one, and the variants ``…@one`` and ``…@two`` of a row together.

    Raises:
        InvalidInputError: ``limit`` is not positive.
    """
    if limit < 1:
        raise InvalidInputError("limit", "is not positive", "Use 1 or more.", value=limit)
    taken: dict[str, int] = {}
    kept = set()
    for example in sorted(examples, key=lambda example: digest(example.id.partition("@")[0].partition("/")[2])):
        taken[example.task] = taken.get(example.task, 0) + 1
        if taken[example.task] <= limit:
            kept.add(example.id)
    return [example for example in examples if example.id in kept]
