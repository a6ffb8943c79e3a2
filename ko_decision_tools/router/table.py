"""Routes, and the YAML file they are written in: checked to the key, with file, line and field in every error.

::

    question: 이 문의를 어느 팀이 맡아야 하는가?
    routes:
      결제: 결제, 환불, 영수증            # label: description
      배송: {description: 배송 지연과 주소 변경, min_top_probability: 0.8}
      계정:                               # a label alone
    escalate_to: 사람                     # the rest is optional
    min_top_probability: 0.6
    task: my_routes                       # a temperature's name in calibration.json
    policy: {min_margin: 0.1, when_uncalibrated: abstain}
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, StrictStr, ValidationError

from ko_decision_tools.errors import InvalidInputError, RoutingTableError
from ko_decision_tools.policy import MinMargin, Policy, WhenUncalibrated, check_probability
from ko_decision_tools.prompts import render_options
from ko_decision_tools.questions import Choice, parse_question
from ko_decision_tools.router.yaml_lines import YamlDocument

DEFAULT_QUESTION = "이 문의를 어디로 보내야 하는가?"
DEFAULT_ESCALATE_TO = "사람"
MAX_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Route:
    """One place a text can go.

    Args:
        label: Its name; also the name of the destination on a graph's conditional edge.
        description: What belongs there. Routes with descriptions are told apart far better.
        min_top_probability: Accept this route from here on; ``None`` takes the router's bar.
        answer: A reply that needs no LLM, carried by every result that took this route.

    Raises:
        InvalidInputError: An empty label, or a bar outside [0, 1].
    """

    label: str
    description: str | None = None
    min_top_probability: float | None = None
    answer: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.label, str) or not self.label.strip():
            raise InvalidInputError("label", "is not a name", "Give every route a non-empty text.", value=self.label)
        if self.min_top_probability is not None:
            check_probability(f"routes.{self.label}.min_top_probability", self.min_top_probability)


@dataclass(frozen=True, slots=True)
class RoutingTable:
    """A question, the routes that answer it, and where everything unsure goes.

    Raises:
        InvalidInputError: Fewer than 2 routes, two the model could not tell apart, or an empty question.
    """

    question: str
    routes: tuple[Route, ...]
    escalate_to: str = DEFAULT_ESCALATE_TO
    min_top_probability: float | None = None
    task: str | None = None
    policy: Policy | None = None

    def __post_init__(self) -> None:
        to_choice(self.question, self.routes)
        if self.min_top_probability is not None:
            check_probability("min_top_probability", self.min_top_probability)
        if not isinstance(self.escalate_to, str) or not self.escalate_to.strip():
            raise InvalidInputError("escalate_to", "is not a name", "Give it a non-empty text.", value=self.escalate_to)

    def to_choice(self) -> Choice:
        """The question a model is asked."""
        return to_choice(self.question, self.routes)


def to_choice(question: str, routes: Iterable[Route]) -> Choice:
    """Routes as a checked :class:`Choice`.

    Raises:
        InvalidInputError: Fewer than 2 or more than 255 routes, two with one label or one meaning, or no question.
    """
    criteria: dict[str, Any] = {}
    for route in routes:
        if route.label in criteria:
            raise InvalidInputError(f"routes.{route.label}", "appears twice", "Give every route its own label.")
        criteria[route.label] = route.description
    try:
        choice = parse_question({"type": "choice", "instructions": question, "criteria": criteria})
        render_options(choice)
    except InvalidInputError as error:
        raise InvalidInputError(
            _in_table(error.field, list(criteria)), error.problem, error.fix, value=error.value
        ) from None
    return cast("Choice", choice)


def load_routing_table(path: str | Path) -> RoutingTable:
    """Read a routing table from a YAML (or JSON) file in UTF-8.

    Raises:
        RoutingTableError: The file cannot be read or is too large, is not YAML, or an entry is unknown, missing,
            repeated or unusable; ``field`` holds the file, the line and the key.
    """
    file = Path(path)
    try:
        with file.open("rb") as source:
            raw = source.read(MAX_BYTES + 1)
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise RoutingTableError(str(file), f"cannot be read ({error.strerror})", "Pass a YAML file.") from None
    except UnicodeDecodeError as error:
        raise RoutingTableError(str(file), f"is not UTF-8 (byte {error.start})", "Save it as UTF-8.") from None
    return parse_routing_table(text, where=str(file))


def parse_routing_table(text: str, *, where: str = "routing table") -> RoutingTable:
    """Read a routing table from YAML text.

    Args:
        text: The YAML.
        where: How errors call it.

    Raises:
        RoutingTableError: As :func:`load_routing_table`.

    Example:
        >>> table = parse_routing_table("question: 어느 팀?\\nroutes: {결제: 결제와 환불, 배송: }")
        >>> [route.label for route in table.routes], table.escalate_to
        (['결제', '배송'], '사람')
        >>> parse_routing_table("question: 어느 팀?\\nroute: {결제: , 배송: }")
        Traceback (most recent call last):
        ...
        ko_decision_tools.errors.RoutingTableError: routing table:1: routes is missing. Add it.
    """
    if len(text) > MAX_BYTES:
        raise RoutingTableError(where, f"is larger than {MAX_BYTES:,} bytes", "A routing table holds 2 to 255 routes.")
    document = YamlDocument.parse(text, where)
    if not isinstance(document.data, Mapping):
        raise RoutingTableError(f"{where}:1", "is not a mapping", "Start with `question:` and `routes:`.")
    try:
        return _TableFile.model_validate(document.data).to_table()
    except ValidationError as error:
        raise _located(error.errors(include_url=False)[0], document) from None
    except InvalidInputError as error:  # what only the whole table can show
        place = document.place(error.field.split(".", 1))
        raise RoutingTableError(place, error.problem, error.fix, value=error.value) from None


def _located(item: Mapping[str, Any], document: YamlDocument) -> RoutingTableError:
    """What pydantic found, at the line where it stands."""
    path, cause = item["loc"], item.get("ctx", {}).get("error")
    place = document.place(path)
    if isinstance(cause, InvalidInputError):
        return RoutingTableError(place, cause.problem, cause.fix, value=cause.value)
    if item["type"] == "extra_forbidden":
        return RoutingTableError(place, "is not a known key", f"Known keys here: {', '.join(_known_keys(path))}.")
    if item["type"] == "missing":
        return RoutingTableError(place, "is missing", "Add it.")
    message = str(item["msg"])
    problem = f"is not usable ({message[:1].lower()}{message[1:]})"
    fix = "Put it in quotes." if item["type"] == "string_type" else "Correct it."
    return RoutingTableError(place, problem, fix, value=item["input"])


def _known_keys(path: Sequence[Any]) -> Iterable[str]:
    home = _RouteFile if path[0] == "routes" else _PolicyFile if path[0] == "policy" else _TableFile
    return home.model_fields if len(path) > 1 else _TableFile.model_fields


def _in_table(field: str, labels: Sequence[str]) -> str:
    """``"question.criteria"``, ``"criteria[1]"`` or ``"options[1]"`` as a table's author would write it."""
    name = re.sub(r"^(criteria|options)", "routes", field.removeprefix("question."))
    entry = re.fullmatch(r"routes\[(\d+)\]", name)
    if entry:
        return f"routes.{labels[int(entry[1])]}"
    return "question" if name == "instructions" else name


def _as_route(value: object) -> object:
    """``label: description`` and a bare ``label:`` are short for ``label: {description: …}``."""
    return value if isinstance(value, Mapping) else {"description": value}


def _probability(value: object) -> float:
    return check_probability("", value)


_Probability = Annotated[float, BeforeValidator(_probability)]


class _RouteFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    description: StrictStr | None = None
    min_top_probability: _Probability | None = None
    answer: StrictStr | None = None


class _PolicyFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    min_margin: _Probability | None = None
    when_uncalibrated: Literal["allow", "abstain", "error"] | None = None

    def to_policy(self) -> Policy | None:
        rules: list[Policy] = [] if self.min_margin is None else [MinMargin(self.min_margin)]
        rules += [] if self.when_uncalibrated is None else [WhenUncalibrated(self.when_uncalibrated)]
        return reduce(and_, rules) if rules else None


class _TableFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    question: StrictStr = DEFAULT_QUESTION
    routes: dict[StrictStr, Annotated[_RouteFile, BeforeValidator(_as_route)]]
    escalate_to: StrictStr = DEFAULT_ESCALATE_TO
    min_top_probability: _Probability | None = None
    task: StrictStr | None = None
    policy: _PolicyFile | None = None

    def to_table(self) -> RoutingTable:
        return RoutingTable(
            question=self.question,
            routes=tuple(Route(label, **entry.model_dump()) for label, entry in self.routes.items()),
            escalate_to=self.escalate_to,
            min_top_probability=self.min_top_probability,
            task=self.task,
            policy=self.policy.to_policy() if self.policy else None,
        )
