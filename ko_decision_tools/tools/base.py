"""What the tools share: ask, answer in one JSON line, keep the decision as the artifact, explain bad arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, ToolException
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ko_decision_tools.decisions import Decision
from ko_decision_tools.errors import AbstainedError, InvalidInputError
from ko_decision_tools.model import KoDecisionModel
from ko_decision_tools.questions import Question
from ko_decision_tools.validation import problems_of

DECIDE_YOURSELF = (
    "확신이 부족합니다. best_guess를 답으로 쓰지 말고 직접 판단하거나 사람에게 넘기세요. "
    "(Not sure enough: decide yourself or hand over to a person.)"
)
SEE_SCHEMA = "See the tool's schema."
CORRECT_AND_RETRY = "인자를 고쳐서 다시 호출하세요. (Correct the arguments and call again.)"


class ToolInputError(InvalidInputError, ToolException):
    """An agent's argument cannot be used.

    It is a ``ToolException``, so ``handle_tool_error`` turns it into a message; with ``handle_tool_error=False`` it
    comes out as the :class:`~ko_decision_tools.errors.InvalidInputError` it also is.
    """


def json_line(values: Mapping[str, Any]) -> str:
    """One compact JSON line with raw Hangul; entries that are ``None`` are left out."""
    kept = {key: value for key, value in values.items() if value is not None}
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))


def error_text(error: Exception) -> str:
    """Field, value and fix of everything that is wrong, in one line."""
    if isinstance(error, ValidationError):
        return " ".join(map(str, problems_of(error, fix=SEE_SCHEMA)))
    return str(error)


def explain_bad_arguments(error: Exception) -> str:
    """The default ``handle_validation_error`` and ``handle_tool_error``: what is wrong, and how to go on."""
    return json_line({"error": error_text(error), "do": CORRECT_AND_RETRY})


class TextOnly(BaseModel):
    """The arguments of a tool whose question the developer has pinned."""

    text: str = Field(description="판단할 글 전체를 고치지 말고 그대로. The whole text to judge, verbatim.")


class DecisionTool(BaseTool):
    """Base of the tools. Holds a model and asks it one question per call.

    Content is one JSON line; the artifact is :meth:`Decision.to_dict`, or for a handled error
    ``{"error": …, "abstained": true, "reasons": […]}``, so ``artifact["abstained"]`` can always be read.

    A tool can be pickled and deep-copied: a pickle carries the model's settings and loads its weights again, a copy
    shares them.

    Attributes:
        model: What answers.
        task: Name of the temperature in the checkpoint's ``calibration.json``, if this question has one.
        on_abstain: ``"return"`` says so in the result. ``"raise"`` raises
            :class:`~ko_decision_tools.errors.AbstainedError`, which ``with_fallbacks`` can catch; not for use inside an
            agent, whose graph it would stop.

    Raises:
        InvalidInputError: At construction, for a setting that cannot be used.
        AbstainedError: On a call, with ``on_abstain="raise"``.
        EncoderError, CheckpointError, CalibrationError, UncalibratedError: On a call, as the model's ``decide``.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    model: KoDecisionModel
    task: str | None = None
    on_abstain: Literal["return", "raise"] = "return"
    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    handle_validation_error: bool | str | Callable[[Any], str] | None = explain_bad_arguments
    handle_tool_error: bool | str | Callable[[Any], Any] | None = explain_bad_arguments

    # What the model calls a thing, and what the agent called it.
    _argument_of: ClassVar[Mapping[str, str]] = {"state": "text", "instructions": "question"}

    def __init__(self, **settings: Any) -> None:
        try:
            super().__init__(**settings)
        except ValidationError as error:
            raise problems_of(error, fix=SEE_SCHEMA)[0] from None

    def run(self, tool_input: str | dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """LangChain's ``run``; a handled error keeps an artifact too."""
        return self._with_artifact(super().run(tool_input, *args, **kwargs))

    async def arun(self, tool_input: str | dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """LangChain's ``arun``; a handled error keeps an artifact too."""
        return self._with_artifact(await super().arun(tool_input, *args, **kwargs))

    def _run(self, text: str, **asked: Any) -> tuple[str, dict[str, Any]]:
        try:
            decision = self.model.decide(text, self._question(**asked), **self._demands())
        except Exception as error:  # nothing is swallowed: _failed raises whatever the tool has no answer to
            return self._failed(error)
        return self._answer(decision)

    async def _arun(self, text: str, **asked: Any) -> tuple[str, dict[str, Any]]:
        try:
            decision = await self.model.adecide(text, self._question(**asked), **self._demands())
        except Exception as error:
            return self._failed(error)
        return self._answer(decision)

    def _question(self, **asked: Any) -> Question:
        """The question to ask, from the agent's arguments and the pinned settings."""
        raise NotImplementedError

    def _content(self, decision: Decision) -> dict[str, Any]:
        """What the LLM reads of a decision, most important first."""
        raise NotImplementedError

    def _demands(self) -> dict[str, Any]:
        """The options of ``decide``."""
        return {"task": self.task}

    def _answer(self, decision: Decision) -> tuple[str, dict[str, Any]]:
        if decision.abstained and self.on_abstain == "raise":
            raise AbstainedError(decision)
        return json_line(self._content(decision) | _caveats(decision)), self._artifact(decision)

    def _artifact(self, decision: Decision) -> dict[str, Any]:
        return decision.to_dict()

    def _failed(self, error: Exception) -> tuple[str, dict[str, Any]]:
        if isinstance(error, InvalidInputError):
            raise ToolInputError(self._renamed(error.field), error.problem, error.fix, value=error.value) from error
        raise error

    def _renamed(self, field: str) -> str:
        """``"question.criteria"`` or ``"criteria[1]"`` in the words of this tool's arguments."""
        tail = field.removeprefix("question.")
        return re.sub(r"\w+", lambda head: self._argument_of.get(head[0], head[0]), tail, count=1)

    def _with_artifact(self, output: Any) -> Any:
        if isinstance(output, ToolMessage) and output.artifact is None:
            output.artifact = self._error_artifact(_error_in(str(output.text)))
        return output

    def _error_artifact(self, text: str) -> dict[str, Any]:
        return {"error": text, "abstained": True, "reasons": [text]}


def uncertain(best_guess: str, decision: Decision) -> dict[str, Any]:
    """What an LLM reads of an abstained decision."""
    return {
        "abstained": True,
        "reasons": list(decision.reasons),
        "best_guess": best_guess,
        "probability": round(decision.top_probability, 3),
        "do": DECIDE_YOURSELF,
    }


def _error_in(content: str) -> str:
    """What a handler said went wrong: ours say it in JSON, a developer's own in any words."""
    try:
        said = json.loads(content)
    except (ValueError, RecursionError):
        return content
    return str(said["error"]) if isinstance(said, dict) and "error" in said else content


def _caveats(decision: Decision) -> dict[str, Any]:
    cut = decision.provenance.truncation
    return {"calibrated": None if decision.calibrated else False, "unread_tokens": cut.cut if cut else None}
