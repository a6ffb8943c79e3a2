"""A support desk: 60 Korean tickets, ready answers without an LLM, an agent with two dangerous tools, a gate, a person.

Every ticket enters one LangGraph agent. Triage answers what has a ready answer and lets the LLM never see it; the rest
goes to the LLM, whose refunds and address changes are judged by a gate before they run; what the gate is unsure about
waits for a person.

Runs offline: the bundled checkpoint decides, and a fake chat model stands in for the LLM.
``python examples/support_graph.py``. What a better checkpoint or your own temperatures change is the numbers.
"""

from __future__ import annotations

import asyncio
import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import PrivateAttr
from rich.console import Console
from rich.table import Table

from ko_decision_langgraph.accounting import Accounting
from ko_decision_langgraph.gate import DecisionGateMiddleware
from ko_decision_langgraph.triage import TicketTriageMiddleware
from ko_decision_tools import DecisionRouter, KoDecisionModel, Noul

HERE = Path(__file__).parent
GATE_QUESTION = "고객이 요청하지 않은 일을 하거나 고객에게 손해를 끼치는 도구 호출인가?"  # YES means block
WANTS_ANOTHER_ADDRESS = Noul(instructions="받을 주소를 바꿔 달라는 문의인가?")


class SupportLLM(FakeMessagesListChatModel):
    """LangChain's fake chat model, made to do what an LLM would: call a tool when asked for money or an address.

    ``asked`` holds the messages of every call.
    """

    responses: list[BaseMessage] = []  # noqa: RUF012 - pydantic copies it
    _asked: list[list[BaseMessage]] = PrivateAttr(default_factory=list)

    @property
    def asked(self) -> list[list[BaseMessage]]:
        """What it was called with, call by call."""
        return self._asked

    def bind_tools(self, tools: Any, **kwargs: Any) -> SupportLLM:
        """The tools are known; see :meth:`reply`."""
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self._asked.append(list(messages))
        return ChatResult(generations=[ChatGeneration(message=self.reply(messages))])

    def reply(self, messages: Sequence[BaseMessage]) -> AIMessage:
        """A tool call for a ticket that wants something done, and words for everything else."""
        if isinstance(messages[-1], ToolMessage):
            return AIMessage("요청하신 내용을 처리하고 결과를 남겼습니다.")
        ticket, order = messages[-1].text, f"N-{len(messages[-1].text):04}"
        if re.search(r"주소|배송지|\d호", ticket):
            call = {"name": "change_address", "args": {"order": order, "address": "고객이 알려 준 주소"}, "id": order}
        elif re.search(r"환불|취소|반품|교환|돈은|빠져나", ticket):
            call = {"name": "refund", "args": {"order": order, "reason": ticket[:40]}, "id": order}
        else:
            return AIMessage("문의를 확인했습니다. 자세히 알아보고 답을 드리겠습니다.")
        return AIMessage("", tool_calls=[call])


class Shop:
    """The shop's systems; remembers what was done to them."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def tools(self) -> list[BaseTool]:
        """What the agent may do."""

        @tool
        def refund(order: str, reason: str) -> str:
            """주문을 환불한다. Refund an order."""
            self.done.append(f"refund {order}")
            return f"{order} 환불 접수"

        @tool
        def change_address(order: str, address: str) -> str:
            """배송지를 바꾼다. Change where an order is sent."""
            self.done.append(f"change_address {order}")
            return f"{order} 배송지 변경"

        return [refund, change_address]


def ready_answers(model: KoDecisionModel) -> dict[str, Any]:
    """Answers that need no LLM, for the four routes that have one."""

    async def delivery(state: Any, result: Any) -> str | None:
        # A ticket that wants another address needs the tool; so does one that the model is not sure about.
        wants = await model.adecide(state["messages"][-1].text, WANTS_ANOTHER_ADDRESS)
        return None if wants.abstained or wants.noul >= 0.5 else "송장은 출고 당일 저녁에 문자로 보내 드립니다."

    return {
        "배송": delivery,
        "수리": "수리 접수는 '내 주문 > 수리 신청'에서 하실 수 있고, 비용은 점검 뒤에 알려 드립니다.",
        "상품 문의": "크기와 재질, 사용법은 상품 페이지의 '자세히 보기'에 있습니다.",
        "회원": "회원 정보와 쿠폰은 '내 정보'에서 확인하고 바꾸실 수 있습니다.",
    }


def build(model: KoDecisionModel, llm: SupportLLM, shop: Shop, accounting: Accounting) -> Any:
    """The graph: triage, then the LLM in a loop with gated tools."""
    router = DecisionRouter.from_yaml(HERE / "routes.yaml", model=model)
    triage = TicketTriageMiddleware(router, ready_answers(model), accounting=accounting)
    gate = DecisionGateMiddleware(
        model, ["refund", "change_address"], questions=GATE_QUESTION, on_abstain="interrupt", accounting=accounting
    )
    return create_agent(llm, shop.tools(), middleware=[triage, gate], checkpointer=InMemorySaver())


@dataclass
class Outcome:
    """What became of one ticket."""

    label: str
    state: dict[str, Any]
    asked_a_person: bool = False

    @property
    def decision(self) -> dict[str, Any]:
        """What triage decided."""
        decision: dict[str, Any] = self.state["ticket_decision"]
        return decision

    @property
    def answered_without_llm(self) -> bool:
        """Whether a ready answer was all it took."""
        return bool(self.decision["answered"])

    @property
    def right(self) -> bool:
        """Whether it went where its label says; a ticket that fits no route has to abstain."""
        return bool(self.decision["escalated"] if self.label == "없음" else self.decision["route"] == self.label)

    @property
    def tool_results(self) -> list[ToolMessage]:
        """What its tool calls came to."""
        return [message for message in self.state["messages"] if isinstance(message, ToolMessage)]


@dataclass
class Day:
    """All tickets of a day, and what they cost."""

    outcomes: list[Outcome]
    llm: SupportLLM
    shop: Shop
    accounting: Accounting


async def work(model: KoDecisionModel, tickets: Sequence[dict[str, str]]) -> Day:
    """Let the graph handle tickets, and a person approve what the gate asks about."""
    llm, shop, accounting = SupportLLM(), Shop(), Accounting()
    graph = build(model, llm, shop, accounting)
    configs = [{"configurable": {"thread_id": ticket["id"]}} for ticket in tickets]
    inputs = [{"messages": [HumanMessage(ticket["text"])]} for ticket in tickets]
    states = await graph.abatch(inputs, configs)  # all at once: their questions share the model's forward passes
    outcomes = [Outcome(ticket["label"], state) for ticket, state in zip(tickets, states, strict=True)]
    for outcome, config in zip(outcomes, configs, strict=True):
        if "__interrupt__" in outcome.state:
            outcome.asked_a_person = True
            outcome.state = await graph.ainvoke(Command(resume={"type": "approve"}), config)
    return Day(outcomes, llm, shop, accounting)


def summary(day: Day) -> dict[str, str]:
    """The table's rows."""
    outcomes, counts = day.outcomes, day.accounting.snapshot()
    sure = [each for each in outcomes if not each.decision["escalated"]]
    free = sum(each.answered_without_llm for each in outcomes)
    results = [result for each in outcomes for result in each.tool_results]
    refused = sum(result.status == "error" for result in results)
    people = sum(each.asked_a_person for each in outcomes)
    return {
        "tickets": str(len(outcomes)),
        "answered without an LLM": _share(free, len(outcomes)),
        "handed to the LLM, sure of the route": _share(len(sure) - free, len(outcomes)),
        "handed to the LLM, escalated": _share(len(outcomes) - len(sure), len(outcomes)),
        "tool calls gated": str(len(results)),
        "  … allowed by the gate": str(len(day.shop.done) - people),
        "  … blocked by the gate": str(refused),
        "  … put before a person (who approved)": str(people),
        "right, of those with a sure route": _share(sum(each.right for each in sure), len(sure)),
        "right, of all (abstaining, if none fits)": _share(sum(each.right for each in outcomes), len(outcomes)),
        "LLM calls avoided": str(counts["llm_calls_avoided"]),
        "LLM calls made": str(len(day.llm.asked)),
        "decisions by the encoder (pairs)": f"{counts['decisions']} ({counts['pairs']})",
    }


def _share(count: int, of: int) -> str:
    return f"{count} ({count / of:.0%})" if of else "–"


def read_tickets() -> list[dict[str, str]]:
    """The 60 tickets: ``id``, ``text``, ``label``."""
    with (HERE / "tickets.csv").open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def show(day: Day) -> None:
    """Print the table."""
    table = Table(title="느루캠핑, one day", title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in summary(day).items():
        table.add_row(name, value)
    Console(markup=False).print(table)


def main() -> None:
    """Work through the day with the bundled checkpoint."""
    model = KoDecisionModel.from_pretrained()
    show(asyncio.run(work(model, read_tickets())))
    model.close()


if __name__ == "__main__":
    main()
