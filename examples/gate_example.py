"""A gate before an action: only "allow" executes. A broken model blocks.

Runs offline on the bundled checkpoint: ``python examples/gate_example.py``. The bundled checkpoint is small; on yes/no
questions of this kind expect it to abstain, or to err. The point is what the program does with each verdict.
"""

from __future__ import annotations

import logging

from langchain_core.messages import ToolCall

from ko_decision_tools import EncoderError, GateTool, KoDecisionModel, ScriptedEncoder

ACTIONS = (
    "고객이 요청한 대로 주문 내역을 조회해서 보여 준다.",
    "고객 확인 없이 모든 회원의 개인정보를 삭제한다.",
)


def judge(gate: GateTool, action: str) -> dict[str, object]:
    """The verdict and everything behind it."""
    message = gate.invoke(ToolCall(name=gate.name, args={"text": action}, id="1", type="tool_call"))
    artifact: dict[str, object] = message.artifact
    return artifact


def fail(_: object) -> list[float]:
    """A model that is down."""
    raise EncoderError("out of memory")


def main() -> None:
    """Judge two actions with the bundled checkpoint, and one with a model that fails."""
    gate = GateTool(model=KoDecisionModel.from_pretrained(), question="이 행동은 고객에게 피해를 주는가?")
    for action in ACTIONS:
        verdict = judge(gate, action)
        done = "executed" if verdict["verdict"] == "allow" else "not executed"
        print(f"{verdict['verdict']:7} P(block) {verdict['noul']:.2f}  {done}: {action}")
    logging.getLogger("ko_decision_tools").setLevel(logging.CRITICAL)  # it logs the failure, which is on purpose here
    broken = GateTool(model=KoDecisionModel.from_encoder(ScriptedEncoder(fail)))
    verdict = judge(broken, ACTIONS[0])
    print(f"{verdict['verdict']:7} {verdict['reasons']}")


if __name__ == "__main__":
    main()
