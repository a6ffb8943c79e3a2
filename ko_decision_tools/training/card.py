"""A model card written from a run's own records: nothing in it was typed by hand, and what is not known is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from ko_decision_tools.errors import InvalidInputError

CARD = "README.md"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CardBase(_Part):
    """The encoder the run started from."""

    model: str
    revision: str | None = None
    layers: int | None = None
    licence: str | None = None


class CardData(_Part):
    """One task's training rows."""

    task: str
    source: str
    rows: int
    licence: str | None = None


class CardResult(_Part):
    """One measurement. ``baseline`` is always giving the majority class (or, for a score, the median).

    ``interval`` is a 95 % interval, ``on`` says which rows.
    """

    task: str
    metric: str
    value: float
    rows: int
    baseline: float | None = None
    interval: tuple[float, float] | None = None
    on: str | None = None


class CardRecords(_Part):
    """What :func:`write_model_card` reads.

    Attributes:
        name: The checkpoint's name.
        base, data, results: See the classes above.
        licence: Of the weights.
        training: Label to value, printed in order: ``{"steps": 2900, "tokens seen": 4100000, "seed": 1}``.
        export: An :class:`~ko_decision_tools.training.export.ExportReport` as a dictionary.
        limits: What it cannot do, one sentence each.
        notes: A paragraph on how it was made.
    """

    name: str
    base: CardBase
    data: tuple[CardData, ...]
    results: tuple[CardResult, ...] = ()
    licence: str | None = None
    training: dict[str, str | int | float] = {}
    export: dict[str, Any] = {}
    limits: tuple[str, ...] = ()
    notes: str = ""


def write_model_card(folder: Path, records: Mapping[str, Any]) -> Path:
    """Write ``README.md`` into a checkpoint's folder.

    Args:
        folder: An exported checkpoint.
        records: What :class:`CardRecords` holds.

    Returns:
        The file.

    Raises:
        InvalidInputError: The records lack a field, or have one that is not known.
    """
    path = folder / CARD
    path.write_text(render_card(records), encoding="utf-8")
    return path


def render_card(records: Mapping[str, Any]) -> str:
    """The card's text.

    Raises:
        InvalidInputError: See :func:`write_model_card`.

    Example:
        >>> text = render_card({"name": "mini", "base": {"model": "me5-small-ko", "licence": "MIT"}, "data": []})
        >>> print(text.splitlines()[-1])
        Base: `me5-small-ko` (MIT).
    """
    try:
        card = CardRecords.model_validate(records)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, ("records", *first["loc"])))
        raise InvalidInputError(where, f"is unfit ({first['msg']})", "See CardRecords for the fields.") from None
    sections = (_front(card), _intro(card), _results(card), _training(card), _limits(card), _base(card))
    return "\n\n".join(section for section in sections if section) + "\n"


def _front(card: CardRecords) -> str:
    """The hub reads this block."""
    licence = card.licence.lower().replace(" ", "-") if card.licence else "other"
    tags = "- decision\n- classification\n- calibrated"
    return f"---\nlanguage: ko\nlicense: {licence}\nlibrary_name: ko-decision-tools\ntags:\n{tags}\n---"


def _intro(card: CardRecords) -> str:
    use = (
        "A Korean decision encoder: it scores each option of a question against a text, and generates none. One score "
        "per pair (instruction + option, state); a softmax over one question's scores gives its probabilities. A score "
        "alone means nothing."
    )
    code = (
        "```python\nfrom ko_decision_tools import Choice, KoDecisionModel\n\n"
        f'model = KoDecisionModel.from_pretrained("path/to/{card.name}")\n```'
    )
    notes = f"\n\n{card.notes.strip()}" if card.notes.strip() else ""
    return f"# {card.name}\n\n{use}{notes}\n\n{code}"


def _results(card: CardRecords) -> str:
    if not card.results:
        return ""
    rows = [
        (
            result.task,
            result.metric,
            _number(result.value, result.metric),
            " – ".join(_number(end, result.metric) for end in result.interval or ()) or "not measured",
            "–" if result.baseline is None else _number(result.baseline, result.metric),
            f"{result.rows:,}",
            result.on or "",
        )
        for result in card.results
    ]
    head = ("task", "metric", "result", "95 % interval", "always the majority / median", "rows", "on")
    return f"## Results\n\n{_table(head, rows)}"


def _training(card: CardRecords) -> str:
    lines = [f"- {label}: {_plain(value)}" for label, value in card.training.items()]
    if "fold_difference" in card.export:
        lines.append(f"- export: the folded head moves a probability by at most {card.export['fold_difference']:.1e}")
    if "disk_difference" in card.export:
        stored = f"stored as {card.export.get('dtype', 'float16')}"
        lines.append(f"- {stored}, which moves a probability by at most {card.export['disk_difference']:.1e}")
    table = ""
    if card.data:
        rows = [(item.task, item.source, f"{item.rows:,}", item.licence or "not stated") for item in card.data]
        table = f"\n\n{_table(('task', 'source', 'training rows', 'licence'), rows)}"
    return f"## Training\n\n{chr(10).join(lines)}{table}".rstrip() if lines or table else ""


def _limits(card: CardRecords) -> str:
    general = (
        "Probabilities are raw unless the folder holds a `calibration.json`; fitted temperatures do not carry over to "
        "another domain.",
        "Text over the token limit is cut at its end.",
    )
    lines = "\n".join(f"- {limit}" for limit in (*card.limits, *general))
    return f"## Limits\n\n{lines}"


def _base(card: CardRecords) -> str:
    base = card.base
    layers = f", its lowest {base.layers} layers" if base.layers else ""
    revision = f" at `{base.revision}`" if base.revision else ""
    licence = f" ({base.licence})" if base.licence else ""
    weights = f"Licence of the weights: {card.licence}. " if card.licence else ""
    return f"## Licence\n\n{weights}Base: `{base.model}`{revision}{layers}{licence}."


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    cells = [[cell.replace("|", r"\|") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def _number(value: float, metric: str) -> str:
    """Shares as percent, everything else with three decimals."""
    return f"{value:.1%}" if metric in ("accuracy", "macro_f1", "coverage") else f"{value:.3f}"


def _plain(value: str | float) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
