"""What a threshold's fit says in words and rows: the curve, the mistakes, why there is none, and what weakens it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ko_decision_tools.fitting.answers import Answer
from ko_decision_tools.fitting.guarantee import Ladder, fewest_rows, rows_needed, upper_bound

SHOWN = (0.0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class Point:
    """What answering from one threshold up means on the rows.

    Attributes:
        threshold: Answer when the top probability is at least this.
        answered, coverage: How many rows that is, and their share.
        wrong, risk: Errors among them, and their share.
        risk_upper: One-sided Clopper-Pearson bound, for this threshold alone: it does not pay for choosing among them.
    """

    threshold: float
    answered: int
    coverage: float
    wrong: int
    risk: float
    risk_upper: float


@dataclass(frozen=True, slots=True)
class Mistake:
    """An answer that is wrong; ``gold`` is ``None`` where no option is right."""

    id: str
    text: str | None
    gold: str | None
    answered: str
    top_probability: float


def point(ladder: Ladder, index: int, threshold: float, confidence: float) -> Point:
    """One threshold of a ladder."""
    answered, wrong = int(ladder.answered[index]), int(ladder.wrong[index])
    bound = float(upper_bound(ladder.wrong[[index]], ladder.answered[[index]], confidence)[0])
    return Point(threshold, answered, answered / ladder.n, wrong, wrong / answered, bound)


def curve(ladder: Ladder, chosen: Point | None, confidence: float) -> tuple[Point, ...]:
    """Readable thresholds, each only if it answers fewer rows than the one before, and the chosen one."""
    points: dict[int, Point] = {}
    for threshold in SHOWN:
        index = int((ladder.thresholds >= threshold).sum()) - 1
        if index >= 0:
            points.setdefault(index, point(ladder, index, threshold, confidence))
    rest = [each for each in points.values() if chosen is None or each.threshold != chosen.threshold]
    return tuple(sorted([*rest, *([] if chosen is None else [chosen])], key=lambda each: each.threshold))


def mistakes(answers: Sequence[Answer], threshold: float) -> tuple[Mistake, ...]:
    """The wrong answers at or above a threshold, the surest first."""
    found = [
        Mistake(
            id=each.record.id,
            text=each.record.text,
            gold=None if each.record.gold is None else each.record.labels[each.record.gold],
            answered=each.record.labels[each.distribution.top],
            top_probability=each.distribution.top_probability,
        )
        for each in answers
        if each.wrong and each.distribution.top_probability >= threshold
    ]
    return tuple(sorted(found, key=lambda mistake: -mistake.top_probability))


def obstacle(ladder: Ladder, *, max_risk: float, confidence: float) -> tuple[str, int | None]:
    """Why no threshold passed, and how many rows it would take at the least (``None``: no number would do)."""
    start = (
        f"no threshold keeps the risk at {percent(max_risk)} with {percent(confidence)} confidence on {ladder.n} rows"
    )
    fewest = fewest_rows(0, max_risk, confidence)
    if ladder.n < fewest:
        return f"{start}: at least {fewest} would be needed, even if every answer were right.", fewest
    first = point(ladder, ladder.first(max_risk=max_risk, confidence=confidence), 0.0, confidence)
    needed = rows_needed(ladder, max_risk=max_risk, confidence=confidence)
    seen = (
        f"{first.wrong} of the {first.answered} surest answers are wrong, so their risk may be {first.risk_upper:.1%}."
    )
    more = (
        "More rows like these would not help: no threshold has a lower risk on them."
        if needed is None
        else f"If further rows look like these, at least {needed} would be needed in all."
    )
    return f"{start}: {seen} {more}", needed


def percent(share: float) -> str:
    """A round share as it was given.

    Example:
        >>> percent(0.95), percent(0.999), percent(0.07)
        ('95%', '99.9%', '7%')
    """
    return f"{100 * share:g}%"


def sources(answers: Sequence[Answer]) -> dict[str, int]:
    """Which temperatures served how many rows."""
    counts: dict[str, int] = {}
    for each in answers:
        used = each.temperature
        name = f"{used.source}: T = {used.value:.3g}" + ("" if used.calibrated else " (uncalibrated)")
        counts[name] = counts.get(name, 0) + 1
    return counts


def notes(answers: Sequence[Answer]) -> tuple[str, ...]:
    """What weakens the guarantee, or what it does not say, on these rows."""
    groups = len({each.record.group for each in answers})
    tasks = len({each.record.task for each in answers})
    found = []
    if groups < len(answers):
        found.append(
            f"The guarantee is for independent rows. These {len(answers)} come in {groups} groups whose rows may be "
            "alike: it is weaker than stated."
        )
    if tasks > 1:
        found.append(f"These rows mix {tasks} tasks. The guarantee is for the mixture, not for each of them.")
    if not all(each.temperature.calibrated for each in answers):
        found.append(
            "No temperature was fitted for such questions. The guarantee holds without one, but a probability is then "
            "only a rank."
        )
    return tuple(found)
