"""``TicketTriageMiddleware`` in real agents: the auto lane calls no LLM, and everything unsure goes to one."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from ko_decision_langgraph.accounting import Accounting
from ko_decision_langgraph.kill_switch import VARIABLE
from ko_decision_langgraph.triage import TicketTriageMiddleware
from ko_decision_tools import DecisionRouter, InvalidInputError, Route
from tests.langgraph.desk_stand_ins import JSON_TYPES, ROUTES, Held, Runs, desk, scripted
from tests.langgraph.gate_stand_ins import RecordingChat, types_within

READY = "주문하신 물건은 이틀 안에 도착합니다."


def triage(answers: Any = None, **settings: Any) -> TicketTriageMiddleware:
    return TicketTriageMiddleware(desk()[0], {"배송": READY} if answers is None else answers, **settings)


def agent(middleware: TicketTriageMiddleware, **settings: Any) -> tuple[Any, RecordingChat]:
    chat = RecordingChat(replies=[AIMessage("LLM의 답")])
    return create_agent(chat, middleware=[middleware], **settings), chat


def ticket(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


class TestTheAutoLane:
    def test_a_ready_answer_costs_no_llm_call(self) -> None:
        graph, chat = agent(triage())
        state = graph.invoke(ticket("배송이 늦어요"))
        assert [message.text for message in state["messages"]] == ["배송이 늦어요", READY]
        assert isinstance(state["messages"][-1], AIMessage)
        assert state["ticket_decision"]["answered"]
        assert chat.asked == []

    async def test_nor_does_it_when_many_come_at_once(self) -> None:
        graph, chat = agent(triage())
        states = await asyncio.gather(*(graph.ainvoke(ticket(f"배송 {n}일째 안 와요")) for n in range(20)))
        assert [state["messages"][-1].text for state in states] == [READY] * 20
        assert chat.asked == []

    def test_a_routes_own_answer_is_ready_too_and_the_mapping_wins(self) -> None:
        router, _ = desk([Route("배송", answer="표의 답"), Route("결제", answer="표의 답")])
        graph, chat = agent(TicketTriageMiddleware(router, {"결제": "코드의 답"}))
        assert graph.invoke(ticket("배송 문의"))["messages"][-1].text == "표의 답"
        assert graph.invoke(ticket("결제 문의"))["messages"][-1].text == "코드의 답"
        assert chat.asked == []

    def test_it_is_counted(self) -> None:
        accounting = Accounting()
        graph, chat = agent(triage(accounting=accounting))
        for text in ("배송이 늦어요", "배송비 문의", "결제가 안 돼요", "점심 뭐 먹죠", "폭탄"):
            graph.invoke(ticket(text))
        counts = accounting.snapshot()
        assert (counts["llm_calls_avoided"], len(chat.asked)) == (2, 3)
        assert (counts["decisions"], counts["abstentions"], counts["escalations"]) == (4, 1, 2)

    def test_nothing_else_in_the_loop_runs(self) -> None:
        graph, _ = agent(triage())
        steps = [next(iter(update)) for update in graph.stream(ticket("배송 문의"), stream_mode="updates")]
        assert steps == ["ko_triage.before_agent"]
        edges = {(edge.source, edge.target) for edge in graph.get_graph().edges}
        assert {("ko_triage.before_agent", "__end__"), ("ko_triage.before_agent", "model")} <= edges


class TestTheRest:
    def test_a_sure_route_without_an_answer_goes_on_with_the_decision(self) -> None:
        graph, chat = agent(triage())
        state = graph.invoke(ticket("결제가 두 번 됐어요"))
        decision = state["ticket_decision"]
        assert (decision["route"], decision["escalated"], decision["answered"]) == ("결제", False, False)
        assert decision["decision"]["choice"] == "결제"
        assert state["messages"][-1].text == "LLM의 답"
        assert len(chat.asked) == 1

    def test_an_abstained_one_is_marked_and_never_answered(self) -> None:
        graph, chat = agent(triage({"배송": READY, "결제": READY, "회원": READY}))
        decision = graph.invoke(ticket("점심 뭐 먹죠"))["ticket_decision"]
        assert (decision["route"], decision["escalated"], decision["answered"]) == ("사람", True, False)
        assert decision["decision"]["abstained"]
        assert "top probability" in decision["reasons"][0]
        assert len(chat.asked) == 1

    def test_nor_when_the_capable_path_has_the_name_of_a_route(self) -> None:
        graph, chat = agent(TicketTriageMiddleware(desk(escalate_to="배송")[0], {"배송": READY}))
        decision = graph.invoke(ticket("점심 뭐 먹죠"))["ticket_decision"]
        assert (decision["route"], decision["escalated"], decision["answered"]) == ("배송", True, False)
        assert len(chat.asked) == 1

    @pytest.mark.parametrize(("text", "why"), [("폭탄", "메모리 부족"), ("   ", "empty"), ("깨진 \ud83d", "surrogate")])
    async def test_what_cannot_be_judged_goes_to_the_llm_and_is_logged(
        self, text: str, why: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        graph, chat = agent(triage())
        for state in (graph.invoke(ticket(text)), await graph.ainvoke(ticket(text))):
            assert state["ticket_decision"]["escalated"]
            assert why in state["ticket_decision"]["reasons"][0]
            assert state["ticket_decision"]["decision"] is None
        assert len(chat.asked) == 2
        assert sum("escalated" in record.message for record in caplog.records) == 2

    def test_a_turn_that_no_human_begins_is_no_ticket(self) -> None:
        router, encoder = desk()
        graph, chat = agent(TicketTriageMiddleware(router, {"배송": READY}))
        graph.invoke({"messages": [HumanMessage("배송 문의"), AIMessage("확인해 볼게요.")]})
        assert encoder.prompts == []
        assert len(chat.asked) == 1

    def test_the_newest_message_of_a_thread_is_the_ticket(self) -> None:
        graph, chat = agent(triage(), checkpointer=InMemorySaver())
        config = {"configurable": {"thread_id": "1"}}
        assert not graph.invoke(ticket("결제가 두 번 됐어요"), config)["ticket_decision"]["answered"]
        assert graph.invoke(ticket("배송은요?"), config)["ticket_decision"]["answered"]
        assert not graph.invoke(ticket("고마워요"), config)["ticket_decision"]["answered"]
        assert len(chat.asked) == 2

    def test_follow_ups_can_be_left_to_the_llm(self) -> None:
        graph, chat = agent(triage(follow_ups=False), checkpointer=InMemorySaver())
        config = {"configurable": {"thread_id": "1"}}
        assert graph.invoke(ticket("배송 문의"), config)["ticket_decision"]["answered"]
        later = graph.invoke(ticket("배송이요, 두 번째 거"), config)["ticket_decision"]
        assert (later["route"], later["answered"], later["escalated"]) == ("배송", False, False)
        assert len(chat.asked) == 1

    def test_a_caller_cannot_bring_a_decision_along(self) -> None:
        graph, _ = agent(triage())
        forged = {"ticket_decision": {"route": "배송", "answered": True}}
        state = graph.invoke({"messages": [HumanMessage("배송"), AIMessage("네")], **forged})
        assert "ticket_decision" not in state


class TestAnswersThatAreMade:
    def test_from_the_state_and_the_result(self) -> None:
        def look_up(state: Any, result: Any) -> str:
            return f"{state['messages'][-1].text} → {result.route} {result.decision.top_probability:.2f}"

        graph, chat = agent(triage({"배송": look_up}))
        assert graph.invoke(ticket("배송 문의"))["messages"][-1].text == "배송 문의 → 배송 0.99"
        assert chat.asked == []

    async def test_in_any_form(self) -> None:
        async def later(state: Any, result: Any) -> AIMessage:
            return AIMessage("나중에 온 답", name="desk")

        graph, chat = agent(triage({"배송": later, "결제": lambda state, result: AIMessage("바로 온 답")}))
        assert (await graph.ainvoke(ticket("배송 문의")))["messages"][-1].name == "desk"
        assert (await graph.ainvoke(ticket("결제 문의")))["messages"][-1].text == "바로 온 답"
        assert (await graph.ainvoke(ticket("점심")))["messages"][-1].text == "LLM의 답"
        assert len(chat.asked) == 1

    async def test_none_leaves_the_ticket_to_the_llm_unmarked(self) -> None:
        graph, chat = agent(triage({"배송": lambda state, result: None}))
        for state in (graph.invoke(ticket("배송")), await graph.ainvoke(ticket("배송"))):
            assert not state["ticket_decision"]["answered"]
            assert not state["ticket_decision"]["escalated"]
        assert len(chat.asked) == 2

    async def test_a_failing_one_leaves_it_to_the_llm_marked_and_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        def fail(state: Any, result: Any) -> str:
            raise LookupError("송장 조회 서버가 꺼져 있음")

        graph, chat = agent(triage({"배송": fail}))
        with caplog.at_level(logging.ERROR):
            for state in (graph.invoke(ticket("배송")), await graph.ainvoke(ticket("배송"))):
                decision = state["ticket_decision"]
                assert (decision["route"], decision["escalated"]) == ("사람", True)
                assert "LookupError" in decision["reasons"][0]
        assert len(chat.asked) == len(caplog.records) == 2
        raising, _ = agent(triage({"배송": fail}, on_answer_error="raise"))
        with pytest.raises(LookupError):
            raising.invoke(ticket("배송"))

    def test_one_may_ask_a_person(self) -> None:
        def ask(state: Any, result: Any) -> str:
            return f"담당자: {interrupt('뭐라고 할까요?')}"

        graph, chat = agent(triage({"배송": ask}), checkpointer=InMemorySaver())
        config = {"configurable": {"thread_id": "1"}}
        assert graph.invoke(ticket("배송 문의"), config)["__interrupt__"][0].value == "뭐라고 할까요?"
        assert graph.invoke(Command(resume="내일 갑니다"), config)["messages"][-1].text == "담당자: 내일 갑니다"
        assert chat.asked == []

    def test_what_is_wrong_with_a_function_is_said(self) -> None:
        async def later(state: Any, result: Any) -> str:
            return "답"

        graph, _ = agent(triage({"배송": later, "결제": lambda state, result: 7}))  # type: ignore[dict-item]
        with pytest.raises(InvalidInputError, match="ainvoke"):
            graph.invoke(ticket("배송"))
        with pytest.raises(InvalidInputError, match="gave a int"):
            graph.invoke(ticket("결제"))


class TestTheKillSwitch:
    async def test_it_is_read_per_call_and_then_nothing_is_asked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        router, encoder = desk()
        graph, chat = agent(TicketTriageMiddleware(router, {"배송": READY}))
        graph.invoke(ticket("배송 문의"))
        asked = len(encoder.prompts)
        monkeypatch.setenv(VARIABLE, "1")
        for state in (graph.invoke(ticket("배송 문의")), await graph.ainvoke(ticket("배송 문의"))):
            assert state["ticket_decision"]["reasons"] == [f"switched off by {VARIABLE}"]
            assert state["messages"][-1].text == "LLM의 답"
        assert len(encoder.prompts) == asked
        monkeypatch.delenv(VARIABLE)
        assert graph.invoke(ticket("배송 문의"))["ticket_decision"]["answered"]
        assert len(chat.asked) == 2

    @pytest.mark.parametrize(("value", "off"), [("", False), ("0", False), ("False", False), ("on", True), ("x", True)])
    def test_what_counts_as_set(self, value: str, off: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        graph, chat = agent(triage())
        monkeypatch.setenv(VARIABLE, value)
        graph.invoke(ticket("배송 문의"))
        assert len(chat.asked) == off


async def test_a_slow_model_does_not_block_the_loop() -> None:
    held = Held()
    model, _ = scripted(held)
    graph, chat = agent(TicketTriageMiddleware(DecisionRouter(model, ROUTES), {"배송": READY}))
    asking = asyncio.create_task(graph.ainvoke(ticket("배송 문의")))
    await held.until_asked()
    held.release()  # from the loop, which is free, or the encoder gives up
    assert (await asking)["messages"][-1].text == READY
    assert chat.asked == []


async def test_a_slow_answer_function_does_not_block_it_either() -> None:
    held = Held()

    def look_up(state: Any, result: Any) -> str:
        held(model.encoder.prompts[0])  # type: ignore[attr-defined]
        return "답"

    model, _ = scripted()
    graph, _ = agent(TicketTriageMiddleware(DecisionRouter(model, ROUTES), {"배송": look_up}))
    asking = asyncio.create_task(graph.ainvoke(ticket("배송 문의")))
    await held.until_asked()
    held.release()
    assert (await asking)["messages"][-1].text == "답"


@pytest.mark.parametrize("text", ["배송 문의", "결제 문의", "점심", "폭탄"])
def test_only_plain_json_is_left_in_the_state(text: str) -> None:
    graph, _ = agent(triage())
    assert types_within(graph.invoke(ticket(text))["ticket_decision"]) <= JSON_TYPES


class TestTraces:
    @pytest.mark.parametrize("how", ["invoke", "ainvoke"])
    def test_the_routers_run_is_a_child_of_the_agents_and_shows_no_text(self, how: str) -> None:
        runs = Runs()
        graph, _ = agent(triage())
        config = {"callbacks": [runs], "run_name": "상담"}
        if how == "invoke":
            graph.invoke(ticket("배송 비밀"), config)
        else:
            asyncio.run(graph.ainvoke(ticket("배송 비밀"), config))
        assert runs.ancestors("DecisionRouter") == ["ko_triage.before_agent", "상담"]
        assert "비밀" not in runs.inputs[runs.of("DecisionRouter")]

    def test_unless_it_is_asked_for(self) -> None:
        runs = Runs()
        graph, _ = agent(triage(accounting=Accounting(include_text=True)))
        graph.invoke(ticket("배송 비밀"), {"callbacks": [runs]})
        assert "비밀" in runs.inputs[runs.of("DecisionRouter")]


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"answers": {"환불": "답"}}, "answers.환불"),
        ({"answers": {"배송": 7}}, "answers.배송"),
        ({"on_answer_error": "ignore"}, "on_answer_error"),
    ],
)
def test_what_cannot_work_fails_at_once(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        triage(**settings)
    assert caught.value.field == field


def test_a_router_that_escalates_to_a_runnable_has_no_place_here() -> None:
    with pytest.raises(InvalidInputError, match="escalate_to a name"):
        TicketTriageMiddleware(desk(escalate_to=lambda _: "LLM")[0])
