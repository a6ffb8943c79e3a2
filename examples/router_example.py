"""A router in front of an LLM: sure tickets are routed for free, unsure ones go to the model.

Runs offline: the bundled checkpoint decides, and LangChain's fake chat model stands in for the expensive one.
``python examples/router_example.py``
"""

from __future__ import annotations

import logging

from langchain_core.language_models import FakeListChatModel

from ko_decision_tools import DecisionRouter, KoDecisionModel

TABLE = """
question: 이 문의를 어느 팀이 맡아야 하는가?
routes:
  결제: 결제 오류, 중복 결제, 영수증과 환불
  배송: 배송 지연, 분실, 주소 변경
  계정: {description: "로그인, 비밀번호, 회원 탈퇴", min_top_probability: 0.8}
"""

TICKETS = (
    "카드로 결제했는데 돈이 두 번 빠져나갔어요. 하나는 환불해 주세요.",
    "택배가 일주일째 안 와요. 지금 어디쯤 있나요?",
    "비밀번호를 바꿨는데도 로그인이 안 됩니다.",
    "오늘 점심 뭐 먹죠?",
    "",
)


def main() -> None:
    """Route five tickets in one batch, and see how the bar trades calls of the expensive model for risk."""
    logging.basicConfig(level=logging.ERROR)  # the empty ticket is logged as a warning
    llm = FakeListChatModel(responses=["(LLM이 대신 판단한 답)"])
    router = DecisionRouter.from_yaml(TABLE, model=KoDecisionModel.from_pretrained(), escalate_to=llm)
    results = router.batch(list(TICKETS))
    for ticket, result in zip(TICKETS, results, strict=True):
        sure = f"{result.decision.top_probability:.2f}" if result.decision else "   -"
        why = f"  <- {result.reasons[0]}" if result.escalated else ""
        print(f"{result.route:9} {sure}  {ticket or '(빈 문의)'}{why}")
    for bar in (None, 0.5, 0.3):
        results = router.batch(list(TICKETS), min_top_probability=bar)
        called = sum(result.output is not None for result in results)
        name = "the table's bars" if bar is None else f"a bar of {bar}"
        print(f"with {name}: {len(results) - called} routed without the LLM, {called} calls of it")


if __name__ == "__main__":
    main()
