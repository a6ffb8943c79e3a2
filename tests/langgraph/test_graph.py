"""Graph parts in compiled graphs: nodes that decide, edges that follow, the loop guard, fan-out, checkpoints."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import math
import operator
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from pydantic import BaseModel
from typing_extensions import TypedDict

from ko_decision_langgraph.accounting import Accounting
from ko_decision_langgraph.fan_out import FanOutNode, fan_out_node
from ko_decision_langgraph.graph import decision_node, route_edge, routing_node
from ko_decision_langgraph.kill_switch import OFF_REASON, VARIABLE
from ko_decision_langgraph.visits import DecisionState, VisitCounter
from ko_decision_tools import (
    Choice,
    EncoderError,
    InvalidInputError,
    KoDecisionModel,
    MinMargin,
    Noul,
    Route,
    Score,
    ScriptedEncoder,
)
from ko_decision_tools.prompts import Prompt
from tests.langgraph.desk_stand_ins import JSON_TYPES, ROUTES, Held, Runs, by_topic, desk, scripted
from tests.langgraph.gate_stand_ins import RecordingChat, types_within

TEAM = Choice(instructions="어느 팀?", criteria={"배송": None, "결제": None})
TOPICS = ["배송", "결제", "회원"]


class State(MessagesState, DecisionState):
    """A conversation, a decision, and who was reached."""

    reached: Annotated[list[str], operator.add]


def said(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


def reach(name: str) -> Any:
    return lambda state: {"reached": [name]}


def deciding(node: Any, edge: Any, **compiling: Any) -> Any:
    """START → node → (edge) → one of the edge's destinations → END."""
    builder = StateGraph(State)
    builder.add_node("decide", node)
    builder.add_edge(START, "decide")
    builder.add_conditional_edges("decide", edge, [*edge.destinations])
    for name in edge.destinations:
        builder.add_node(name, reach(name))
    return builder.compile(**compiling)


def going(node: Any, **compiling: Any) -> Any:
    """START → a node that goes where it likes → END."""
    builder = StateGraph(State)
    builder.add_node("go", node, destinations=node.destinations)
    builder.add_edge(START, "go")
    for name in node.destinations:
        builder.add_node(name, reach(name))
    return builder.compile(**compiling)


def drawn(graph: Any) -> set[tuple[str, str]]:
    return {(edge.source, edge.target) for edge in graph.get_graph().edges}


async def both(graph: Any, text: str) -> dict[str, Any]:
    """The state after ``invoke``, which is also that after ``ainvoke``."""
    state, again = graph.invoke(said(text)), await graph.ainvoke(said(text))
    assert {key: value for key, value in state.items() if key != "messages"} == {
        key: value for key, value in again.items() if key != "messages"
    }
    return state  # type: ignore[no-any-return]


class TestNodeAndEdge:
    async def test_a_choice_goes_to_its_node_and_an_abstention_to_a_person(self) -> None:
        model, _ = scripted()
        graph = deciding(
            decision_node(model, TEAM),
            route_edge("decision", {"배송": "shipping", "결제": "billing"}, escalate_to="human"),
        )
        assert (await both(graph, "결제가 두 번 됐어요"))["reached"] == ["billing"]
        state = await both(graph, "점심 뭐 먹죠")
        assert state["reached"] == ["human"]
        assert state["decision"]["abstained"]
        assert {("decide", "shipping"), ("decide", "billing"), ("decide", "human")} <= drawn(graph)

    async def test_a_yes_no_and_a_score(self) -> None:
        model, _ = scripted(lambda prompt: [0.0, 4.0] if len(prompt.options) == 2 else [0.0, 0.0, 5.0])
        yes = deciding(
            decision_node(model, Noul(instructions="환불을 원하는가?")),
            route_edge("decision", {True: "refunds", False: "chat"}, escalate_to="human"),
        )
        assert (await both(yes, "환불해 주세요"))["reached"] == ["refunds"]
        level = deciding(
            decision_node(model, Score(instructions="얼마나 급한가?", criteria=["천천히", "오늘", "지금"])),
            route_edge("decision", {0: "later", 1: "today", 2: "now"}, escalate_to="human"),
        )
        assert (await both(level, "불났어요"))["reached"] == ["now"]

    async def test_its_own_key_text_and_rules(self) -> None:
        class Ticket(TypedDict, total=False):
            body: str
            team: dict[str, Any]

        model, encoder = scripted()
        node = decision_node(model, TEAM, key="team", text_key="body", min_top_probability=0.999, task="my_task")
        builder = StateGraph(Ticket)
        builder.add_node(node.name, node)
        builder.add_edge(START, node.name)
        found = builder.compile().invoke({"body": "배송"})["team"]
        assert encoder.prompts[0].state == "배송"
        assert (found["label"], found["abstained"], found["provenance"]["task"]) == ("배송", True, "my_task")
        strict = decision_node(model, TEAM, policy=MinMargin(0.999)).invoke(said("배송"))["decision"]
        assert "margin" in strict["reasons"][0]

    async def test_what_cannot_be_judged_escalates_or_raises(self, caplog: pytest.LogCaptureFixture) -> None:
        model, _ = scripted()
        edge = route_edge("decision", ["배송", "결제"], escalate_to="human")
        state = await both(deciding(decision_node(model, TEAM), edge), "폭탄")
        assert state["reached"] == ["human"]
        assert state["decision"] == {
            "abstained": True,
            "reasons": ["the model failed (EncoderError: 메모리 부족)"],
            "label": None,
        }
        assert len(caplog.records) == 2
        raising = deciding(decision_node(model, TEAM, on_error="raise"), edge)
        with pytest.raises(EncoderError):
            raising.invoke(said("폭탄"))
        with pytest.raises(EncoderError):
            await raising.ainvoke(said("폭탄"))

    def test_a_label_without_a_destination_takes_the_capable_path_and_is_logged(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        edge = route_edge("decision", ["배송"], escalate_to="human")
        assert edge({"decision": {"label": "결제", "abstained": False, "reasons": []}}) == "human"
        assert "결제" in caplog.text

    def test_it_follows_a_stored_route_and_objects_too(self) -> None:
        edge = route_edge("ticket_decision", ["배송"], escalate_to="human")
        sure = desk()[0].invoke("배송").to_dict() | {"answered": False}
        unsure = desk()[0].invoke("점심").to_dict()
        assert edge({"ticket_decision": sure}) == "배송"
        assert edge({"ticket_decision": unsure}) == "human"

        @dataclasses.dataclass
        class Held:
            ticket_decision: dict[str, Any]

        assert edge(Held(sure)) == "배송"

    @pytest.mark.parametrize("state", [{}, {"decision": None}, {"decision": {"choice": "배송"}}])
    def test_a_missing_decision_is_a_mistake_in_the_graph(self, state: dict[str, Any]) -> None:
        with pytest.raises(InvalidInputError, match=r"state\.decision"):
            route_edge("decision", ["배송"], escalate_to="human")(state)

    def test_two_edges_of_one_node(self) -> None:
        model, _ = scripted()
        builder = StateGraph(State)
        builder.add_node("decide", decision_node(model, TEAM))
        builder.add_edge(START, "decide")
        for key in ("decision", "other"):
            builder.add_conditional_edges("decide", route_edge(key, {"배송": END}, escalate_to=END), [END])
        builder.compile()

    async def test_the_kill_switch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        model, encoder = scripted()
        accounting = Accounting()
        graph = deciding(
            decision_node(model, TEAM, accounting=accounting),
            route_edge("decision", ["배송", "결제"], escalate_to="human"),
        )
        monkeypatch.setenv(VARIABLE, "true")
        state = await both(graph, "배송")
        assert state["reached"] == ["human"]
        assert state["decision"]["reasons"] == [OFF_REASON]
        assert encoder.prompts == []
        assert accounting.snapshot()["escalations"] == 2

    def test_it_is_a_child_run_without_text(self) -> None:
        runs = Runs()
        model, _ = scripted()
        graph = deciding(decision_node(model, TEAM), route_edge("decision", ["배송", "결제"], escalate_to="human"))
        graph.invoke(said("배송 비밀"), {"callbacks": [runs], "run_name": "상담"})
        assert runs.ancestors("ko_decide") == ["decide", "상담"]
        assert "비밀" not in runs.inputs[runs.of("ko_decide")]


class TestARouterOnAnEdge:
    async def test_it_needs_no_node(self) -> None:
        router, _ = desk()
        builder = StateGraph(State)
        builder.add_conditional_edges(START, router, [*router.destinations])
        for name in router.destinations:
            builder.add_node(name, reach(name))
        graph = builder.compile()
        assert (await both(graph, "배송"))["reached"] == ["배송"]
        assert (await both(graph, "점심"))["reached"] == ["사람"]
        assert {("__start__", "배송"), ("__start__", "사람")} <= drawn(graph)

    @pytest.mark.parametrize(
        ("text", "small", "capable"), [("배송 문의", 1, 0), ("점심", 0, 1), ("폭탄", 0, 1), ("", 0, 1)]
    )
    def test_unsure_and_broken_go_to_the_capable_model_never_down(self, text: str, small: int, capable: int) -> None:
        chats = {name: RecordingChat(replies=[AIMessage("답")]) for name in ("작은 모델", "큰 모델")}
        router, _ = desk(["배송", "결제"], escalate_to="큰 모델")
        node = routing_node(router, {"배송": "작은 모델", "결제": "작은 모델"})
        builder = StateGraph(State)
        builder.add_node("go", node, destinations=node.destinations)
        builder.add_edge(START, "go")
        for name, chat in chats.items():
            builder.add_node(name, lambda state, chat=chat: {"messages": [chat.invoke(state["messages"])]})
        builder.compile().invoke(said(text))
        assert [len(chat.asked) for chat in chats.values()] == [small, capable]


class TestRoutingNode:
    async def test_it_stores_and_goes(self) -> None:
        accounting = Accounting()
        node = routing_node(desk()[0], {"사람": "human", "배송": "shipping"}, accounting=accounting)
        graph = going(node)
        state = await both(graph, "배송")
        assert state["reached"] == ["shipping"]
        assert (state["decision"]["route"], state["decision"]["escalated"]) == ("배송", False)
        assert (await both(graph, "점심"))["reached"] == ["human"]
        assert (await both(graph, "폭탄"))["reached"] == ["human"]
        assert drawn(graph) >= {("go", name) for name in ("shipping", "결제", "회원", "human")}
        assert accounting.snapshot() | {"pairs": 0, "tokens": 0} == {
            "decisions": 4,
            "abstentions": 2,
            "escalations": 4,
            "llm_calls_avoided": 0,
            "pairs": 0,
            "tokens": 0,
        }

    def test_a_wrong_destination_fails_at_once(self) -> None:
        with pytest.raises(InvalidInputError, match=r"destinations\.환불 is no route"):
            routing_node(desk()[0], {"환불": "refunds"})
        with pytest.raises(InvalidInputError, match="escalate_to a name"):
            routing_node(desk(escalate_to=lambda _: "LLM")[0])

    async def test_it_does_not_block_the_loop(self) -> None:
        held = Held()
        model, _ = scripted(held)
        graph = deciding(decision_node(model, TEAM), route_edge("decision", ["배송", "결제"], escalate_to="human"))
        asking = asyncio.create_task(graph.ainvoke(said("배송")))
        await held.until_asked()
        held.release()
        assert (await asking)["reached"] == ["배송"]


class TestLoopGuard:
    """배송 ⇄ go for ever, unless somebody stops it."""

    def loop(self, **settings: Any) -> tuple[Any, ScriptedEncoder]:
        router, encoder = desk()
        node = routing_node(router, **settings)
        builder = StateGraph(State)
        builder.add_node("go", node, destinations=node.destinations)
        builder.add_edge(START, "go")
        for name in node.destinations:
            builder.add_node(name, reach(name))
        builder.add_edge("배송", "go")
        return builder.compile(checkpointer=InMemorySaver()), encoder

    def test_too_many_visits_escalate_without_asking(self, caplog: pytest.LogCaptureFixture) -> None:
        graph, encoder = self.loop(max_visits=3)
        state = graph.invoke(said("배송"), {"configurable": {"thread_id": "1"}})
        assert state["reached"] == ["배송", "배송", "배송", "사람"]
        assert state["decision"]["reasons"] == ["visited 4 times in this run, max_visits is 3"]
        assert len(encoder.prompts) == 3
        assert "visited 4 times" in caplog.text

    async def test_every_run_starts_afresh_and_nothing_of_it_is_checkpointed(self) -> None:
        graph, encoder = self.loop(max_visits=2)
        config: Any = {"configurable": {"thread_id": "1"}}
        graph.invoke(said("배송"), config)
        saved = graph.checkpointer.get(config)["channel_values"]
        assert "decision" in saved
        assert "decision_visits" not in saved
        await graph.ainvoke(said("배송"), config)
        assert len(encoder.prompts) == 4

    def test_a_decision_node_has_one_too(self) -> None:
        model, encoder = scripted()
        node = decision_node(model, TEAM, max_visits=1)
        update = node.invoke({**said("배송"), "decision_visits": {}})
        assert update["decision_visits"] == {"decision": 1}
        again = node.invoke({**said("배송"), **update})
        assert again["decision"]["abstained"]
        assert len(encoder.prompts) == 1

    def test_a_state_that_cannot_count_is_an_error_not_an_endless_loop(self) -> None:
        class Bare(MessagesState):
            decision: dict[str, Any]

        builder = StateGraph(Bare)
        node = routing_node(desk()[0], dict.fromkeys((*[route.label for route in ROUTES], "사람"), END), max_visits=3)
        builder.add_node("go", node, destinations=node.destinations)
        builder.add_edge(START, "go")
        with pytest.raises(InvalidInputError, match="DecisionState"):
            builder.compile().invoke(said("배송"))

    def test_parallel_counts_merge(self) -> None:
        channel = VisitCounter(dict)
        assert channel.get() == {}
        channel.update([{"a": 1}, {"b": 1}, {"a": 2}])
        assert channel.get() == {"a": 2, "b": 1}
        assert not channel.update([])
        assert channel.from_checkpoint(channel.checkpoint()).get() == {}

    @pytest.mark.parametrize("limit", [0, -1, 1.5, True])
    def test_a_limit_that_is_no_count(self, limit: Any) -> None:
        with pytest.raises(InvalidInputError, match="max_visits"):
            routing_node(desk()[0], max_visits=limit)


class TestFanOut:
    def node(self, routes: Any = TOPICS, **settings: Any) -> tuple[FanOutNode, ScriptedEncoder]:
        model, encoder = scripted(by_topic)
        return fan_out_node(model, routes, escalate_to="사람", **settings), encoder

    @pytest.mark.parametrize(
        ("text", "reached", "reason"),
        [
            ("배송이 늦고 결제도 두 번", ["결제", "배송"], None),
            ("배송이 늦어요", ["배송"], None),
            ("배송이 늦고 회원? 도 좀", ["배송", "사람"], "회원: P(yes) 0.500"),
            ("점심 뭐 먹죠", ["사람"], "no route fits"),
            ("배송? 결제? 회원?", ["사람"], "배송: P(yes)"),
            ("", ["사람"], "state is empty"),
        ],
    )
    async def test_every_topic_reaches_its_team_and_doubt_reaches_a_person(
        self, text: str, reached: list[str], reason: str | None
    ) -> None:
        node, _ = self.node()
        state = await both(going(node), text)
        assert sorted(state["reached"]) == reached
        found = state["decision"]
        assert found["escalated"] is ("사람" in reached)
        assert found["routes"] == [topic for topic in TOPICS if topic in reached]
        assert (reason is None and found["reasons"] == []) or str(reason) in found["reasons"][0]
        assert types_within(found) <= JSON_TYPES

    def test_each_node_gets_the_state_with_its_own_part(self) -> None:
        command = self.node()[0].invoke(said("배송이 늦고 결제도 두 번, 회원? 은요"))
        parts = {send.node: send.arg for send in command.goto}
        assert parts["배송"]["messages"][0].text.startswith("배송")
        assert parts["배송"]["decision"]["route"] == "배송"
        assert parts["배송"]["decision"]["decision"]["noul"] > 0.9
        assert parts["사람"]["decision"]["unsure"] == ["회원"]
        short = self.node(payload=lambda state, part: part["route"])[0].invoke(said("배송"))
        assert [send.arg for send in short.goto] == ["배송"]

    def test_a_route_does_not_depend_on_the_others(self) -> None:
        alone = self.node(["배송"])[0].invoke(said("배송과 결제")).update["decision"]["decisions"]["배송"]
        among = self.node()[0].invoke(said("배송과 결제")).update["decision"]["decisions"]["배송"]
        assert alone["probabilities"] == among["probabilities"]

    def test_a_model_that_says_yes_to_everything_is_not_believed(self) -> None:
        node, _ = self.node(max_routes=2)
        found = node.invoke(said("배송 결제 회원")).update["decision"]
        assert (found["routes"], found["escalated"]) == ([], True)
        assert found["reasons"] == ["yes to 3 of 3 routes, max_routes is 2"]
        free, _ = self.node(max_routes=None)
        assert free.invoke(said("배송 결제 회원")).update["decision"]["routes"] == TOPICS

    def test_a_route_may_have_its_own_bar(self) -> None:
        node, _ = self.node([Route("배송", min_top_probability=0.999), Route("결제")])
        found = node.invoke(said("배송과 결제")).update["decision"]
        assert (found["routes"], found["unsure"]) == (["결제"], ["배송"])

    def test_all_routes_share_one_call_of_the_encoder(self) -> None:
        calls = []

        class Counting(ScriptedEncoder):
            def score(self, prepared: Any) -> Any:
                calls.append(len(prepared))
                return super().score(prepared)

        model = KoDecisionModel.from_encoder(Counting(by_topic))
        fan_out_node(model, TOPICS, escalate_to="사람").invoke(said("배송"))
        assert calls == [3]

    def test_the_question_names_route_and_description(self) -> None:
        node, encoder = self.node({"배송": "배송 지연", "결제": None}, question="'{route}' 문의인가? {route}")
        node.invoke(said("배송"))
        assert "'배송'(배송 지연)" in encoder.prompts[0].instruction
        assert "'결제'" in encoder.prompts[1].instruction

    async def test_failure_and_kill_switch(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fail(prompt: Prompt) -> list[float]:
            raise EncoderError("메모리 부족")

        model, encoder = scripted(fail)
        node = fan_out_node(model, TOPICS, escalate_to="사람")
        state = await both(going(node), "배송")
        assert state["reached"] == ["사람"]
        assert "메모리 부족" in state["decision"]["reasons"][0]
        assert len(caplog.records) == 2
        with pytest.raises(EncoderError):
            await fan_out_node(model, TOPICS, escalate_to="사람", on_error="raise").ainvoke(said("배송"))
        asked = len(encoder.prompts)
        monkeypatch.setenv(VARIABLE, "1")
        assert (await both(going(node), "배송"))["decision"]["reasons"] == [OFF_REASON]
        assert len(encoder.prompts) == asked

    def test_it_is_counted_and_drawn(self) -> None:
        accounting = Accounting()
        node, _ = self.node(accounting=accounting, destinations={"사람": "human"})
        graph = going(node)
        graph.invoke(said("배송이 늦고 회원? 도"))
        assert drawn(graph) >= {("go", name) for name in ("배송", "결제", "회원", "human")}
        counts = accounting.snapshot()
        assert (counts["decisions"], counts["abstentions"], counts["escalations"]) == (3, 1, 1)

    @pytest.mark.parametrize("kind", ["pydantic", "dataclass"])
    def test_other_kinds_of_state(self, kind: str) -> None:
        class Model(BaseModel):
            text: str
            decision: dict[str, Any] = {}

        @dataclasses.dataclass
        class Data:
            text: str
            decision: dict[str, Any] = dataclasses.field(default_factory=dict)

        node, _ = self.node(text_key="text")
        state = Model(text="배송") if kind == "pydantic" else Data("배송")
        (send,) = node.invoke(state).goto
        assert (send.node, send.arg["text"], send.arg["decision"]["route"]) == ("배송", "배송", "배송")

    @given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=6))
    def test_no_route_is_lost(self, chances: list[float]) -> None:
        """Whatever the model says: taken, clearly not meant, or a person sees it."""
        odds = iter(chances)

        def script(prompt: Prompt) -> list[float]:
            p = min(max(next(odds), 1e-9), 1 - 1e-9)
            return [math.log(1 - p), math.log(p)]

        labels = [f"길{n}" for n in range(len(chances))]
        node = fan_out_node(scripted(script)[0], labels, escalate_to="사람", max_routes=None)
        command = node.invoke(said("글"))
        sent = [send.node for send in command.goto]
        found = command.update["decision"]
        assert sent
        for label, decision in found["decisions"].items():
            assert (label in sent) == (decision["noul"] >= 0.7)
            assert (label in found["unsure"]) == (0.3 < decision["noul"] < 0.7)
        assert ("사람" in sent) == bool(found["unsure"] or not found["routes"])

    @pytest.mark.parametrize(
        ("settings", "field"),
        [
            ({"routes": []}, "routes"),
            ({"routes": ["배송", "배송"]}, "routes.배송"),
            ({"routes": ["배송", "사람"]}, "routes.사람"),
            ({"no_at": 0.8}, "no_at"),
            ({"yes_at": 7}, "yes_at"),
            ({"routes": [Route("배송", min_top_probability=0.2)]}, "no_at"),
            ({"max_routes": 0}, "max_routes"),
            ({"question": "환불 문의인가?"}, "question"),
            ({"destinations": {"환불": "x"}}, "destinations.환불"),
            ({"on_error": "ignore"}, "on_error"),
        ],
    )
    def test_what_cannot_work_fails_at_once(self, settings: dict[str, Any], field: str) -> None:
        with pytest.raises(InvalidInputError) as caught:
            self.node(**settings)
        assert caught.value.field == field


SCRIPT = """
import json, sys
from langchain.agents import create_agent
from langchain_core.language_models import FakeListChatModel
from langgraph.checkpoint.sqlite import SqliteSaver
from ko_decision_langgraph.triage import TicketTriageMiddleware
from tests.langgraph.test_graph import *

step, path = sys.argv[1:]
model, _ = scripted()
topics, _ = scripted(by_topic)
edge = route_edge("decision", ["배송", "결제"], escalate_to="human")
with SqliteSaver.from_conn_string(path) as saver:
    saving = {"checkpointer": saver, "interrupt_before": ["배송"]}
    triage = TicketTriageMiddleware(desk()[0], {"배송": "이틀 안에 도착합니다."})
    graphs = {
        "decision": deciding(decision_node(model, TEAM, max_visits=3), edge, **saving),
        "route": going(routing_node(desk()[0], max_visits=3), **saving),
        "fan_out": going(fan_out_node(topics, TOPICS, escalate_to="사람"), **saving),
        "triage": create_agent(FakeListChatModel(responses=["never"]), middleware=[triage], checkpointer=saver),
    }
    for name, graph in graphs.items():
        config = {"configurable": {"thread_id": name}}
        if step == "1":
            graph.invoke(said("배송이 늦어요"), config)
            continue
        held = graph.get_state(config)
        values = graph.invoke(None, config) if held.next else held.values
        key = "ticket_decision" if name == "triage" else "decision"
        types = sorted(each.__name__ for each in types_within(values[key]))
        print(json.dumps([name, list(held.next), values.get("reached"), types], ensure_ascii=False))
"""


def test_checkpoints_survive_strict_msgpack_and_another_process(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    environment = os.environ | {
        "LANGGRAPH_STRICT_MSGPACK": "true",
        "PYTHONPATH": os.pathsep.join([str(root), str(root / "integrations"), os.environ.get("PYTHONPATH", "")]),
        "PYTHONUTF8": "1",
    }
    outputs = []
    for step in ("1", "2"):
        command = [sys.executable, "-W", "error", "-c", SCRIPT, step, str(tmp_path / "checkpoints.sqlite")]
        ran = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=240)
        assert ran.returncode == 0, ran.stderr
        assert "Blocked" not in ran.stderr
        outputs.append(ran.stdout)
    rows = {name: rest for name, *rest in map(json.loads, outputs[1].splitlines())}
    plain = {each.__name__ for each in JSON_TYPES}
    assert rows.keys() == {"decision", "route", "fan_out", "triage"}
    for name, (waiting, reached, types) in rows.items():
        assert set(types) <= plain
        if name != "triage":
            assert (waiting, reached) == (["배송"], ["배송"])


def test_logging_says_nothing_when_all_is_well(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        going(routing_node(desk()[0])).invoke(said("배송"))
    assert caplog.records == []
