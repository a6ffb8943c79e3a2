"""A tool in an agent's hands: the call an LLM would make, what it reads back, and what the program can keep.

Runs offline on the bundled checkpoint: ``python examples/tool_example.py``
"""

from __future__ import annotations

from langchain_core.messages import ToolCall

from ko_decision_tools import DecisionToolkit, KoDecisionModel


def main() -> None:
    """Let the three tools answer one call each."""
    tools = {tool.name: tool for tool in DecisionToolkit(KoDecisionModel.from_pretrained()).get_tools()}
    text = "어제 주문한 운동화가 아직도 출발을 안 했네요. 내일 꼭 신어야 하는데 오늘 안에 알려 주세요."
    calls = [
        ToolCall(
            name="ko_classify",
            args={
                "text": text,
                "question": "이 문의를 어느 팀이 맡아야 하는가?",
                "options": ["A: 결제·환불", "B: 배송", "C: 회원 정보"],
            },
            id="1",
            type="tool_call",
        ),
        ToolCall(
            name="ko_rate",
            args={
                "text": text,
                "question": "이 문의는 얼마나 급한가?",
                "levels": "급하지 않다\n오늘 안에 답해야 한다\n지금 답해야 한다",
            },
            id="2",
            type="tool_call",
        ),
        ToolCall(
            name="ko_classify",
            args={"text": text, "question": "어느 팀?", "options": ["배송"]},
            id="3",
            type="tool_call",
        ),
    ]
    for call in calls:
        message = tools[call["name"]].invoke(call)
        print(f"[{call['name']}, {message.status}] {message.text}")
        print(f"    kept beside it: {', '.join(message.artifact)}")


if __name__ == "__main__":
    main()
