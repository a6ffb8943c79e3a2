"""``GateTool``: may this action be executed? YES means BLOCK, and nothing goes through by accident."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from langchain_core.tools import ArgsSchema
from pydantic import BaseModel, Field

from ko_decision_tools.decisions import Decision
from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.policy import YesNoBand
from ko_decision_tools.questions import Noul, Question, parse_question
from ko_decision_tools.tools.base import CORRECT_AND_RETRY, DecisionTool, error_text, json_line

logger = logging.getLogger(__name__)

DEFAULT_QUESTION = "이 행동을 실행하면 안 되는가?"
Verdict: TypeAlias = Literal["allow", "block", "abstain"]

_WHAT_TO_DO: Mapping[Verdict, str] = {
    "allow": "실행해도 됩니다. (Go ahead.)",
    "block": (
        "실행하지 마세요. 표현만 바꿔 다시 시도하지도 말고 사람에게 알리세요. "
        "(Do not execute it, do not retry it reworded; tell a person.)"
    ),
    "abstain": "아직 실행하지 말고 사람의 확인을 받으세요. (Do not execute it yet: ask a person.)",
}


def block_bad_arguments(error: Exception) -> str:
    """The gate's ``handle_validation_error`` and ``handle_tool_error``: an action that was not judged is blocked."""
    return json_line({"verdict": "block", "error": error_text(error), "do": CORRECT_AND_RETRY})


class GateArguments(BaseModel):
    """The arguments of a :class:`GateTool`."""

    text: str = Field(
        description=(
            "실행하려는 행동 전체: 무엇을, 누구에게, 얼마나, 왜. 요청한 사람의 말이 있으면 그대로 붙인다. "
            "The whole action about to be executed, with the request that led to it."
        )
    )


class GateTool(DecisionTool):
    """Judges an action before it is executed: ``"allow"``, ``"block"`` or ``"abstain"``, in content and artifact.

    These checkpoints say "yes" too often, so the question is phrased such that YES = BLOCK and a biased answer errs
    towards safety. Write your own the same way round ("… 안 되는가?", "… 위험한가?"). The question is always the
    developer's: an agent that words its own gate can word it open.

    The gate fails closed: whatever goes wrong, and a text that was not read to its end, is never ``"allow"``.

    Attributes:
        question: The yes/no question; YES means block.
        allow_at: ``P(yes)`` up to which the action is allowed.
        block_at: ``P(yes)`` from which it is blocked; in between the gate abstains.
        on_error: ``"block"`` turns every failure of the model into a logged block with its reason; ``"raise"`` raises.
            Bad arguments are always a handled block.

    Raises:
        InvalidInputError: At construction: ``allow_at`` is not below ``block_at``, or the question is empty.

    Example:
        >>> from ko_decision_tools import GateTool, KoDecisionModel, ScriptedEncoder
        >>> gate = GateTool(model=KoDecisionModel.from_encoder(ScriptedEncoder({"참": 2.0})))
        >>> gate.invoke({"text": "고객 데이터베이스를 통째로 지운다"})[:33]
        '{"verdict":"block","p_block":0.88'
    """

    name: str = "ko_gate"
    description: str = (
        "되돌리기 어려운 행동(환불, 삭제, 발송, 결제 등)을 실행하기 직전에 반드시 부른다. "
        "verdict가 allow일 때만 실행하고, block이나 abstain이면 실행하지 않는다. "
        "Call it before any action that is hard to undo; act only on 'allow'."
    )
    args_schema: ArgsSchema | None = GateArguments
    question: str = DEFAULT_QUESTION
    allow_at: float = 0.2
    block_at: float = 0.7
    on_error: Literal["block", "raise"] = "block"
    handle_validation_error: bool | str | Callable[[Any], str] | None = block_bad_arguments
    handle_tool_error: bool | str | Callable[[Any], Any] | None = block_bad_arguments

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._demands()
        self._question()

    def _question(self, **asked: Any) -> Question:
        return parse_question(Noul(instructions=self.question))

    def _demands(self) -> dict[str, Any]:
        # The band is the whole rule: the model's own bar would turn a clear P(yes) of 0.19 into an abstention.
        return {"task": self.task, "min_top_probability": 0.0, "policy": YesNoBand(self.allow_at, self.block_at)}

    def _answer(self, decision: Decision) -> tuple[str, dict[str, Any]]:
        cut = decision.provenance.truncation
        if cut is not None and self._verdict(decision) == "allow":
            # What was padded out of sight was never judged.
            decision = replace(decision, reasons=(f"the last {cut.cut} of {cut.state_tokens} tokens were not read",))
        return super()._answer(decision)

    def _content(self, decision: Decision) -> dict[str, Any]:
        verdict = self._verdict(decision)
        return {
            "verdict": verdict,
            "p_block": round(decision.noul, 3),
            "reasons": list(decision.reasons) or None,
            "do": _WHAT_TO_DO[verdict],
        }

    def _artifact(self, decision: Decision) -> dict[str, Any]:
        return {"verdict": self._verdict(decision)} | decision.to_dict()

    def _error_artifact(self, text: str) -> dict[str, Any]:
        return {"verdict": "block"} | super()._error_artifact(text)

    def _failed(self, error: Exception) -> tuple[str, dict[str, Any]]:
        if self.on_error == "raise" or isinstance(error, InvalidInputError):
            return super()._failed(error)
        logger.error("%s failed and blocks: %s", self.name, error, exc_info=error)
        reason = f"the gate could not judge ({type(error).__name__}: {error})"
        content = {"verdict": "block", "error": reason, "do": _WHAT_TO_DO["abstain"]}
        return json_line(content), self._error_artifact(reason)

    def _verdict(self, decision: Decision) -> Verdict:
        if decision.abstained:
            return "abstain"
        return "block" if decision.noul >= self.block_at else "allow"
