"""Counters, runs that nest under the agent's, spans: what is counted, who is whose parent, and what is never shown."""

from __future__ import annotations

import builtins
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import ko_decision_langgraph
from ko_decision_langgraph.accounting import COUNTERS, Accounting, atraced, describe, traced
from ko_decision_langgraph.gate import DecisionGateMiddleware
from ko_decision_langgraph.routing import KoModelRouter, Tier
from ko_decision_tools import Decision, Noul
from tests.langgraph.gate_stand_ins import RecordingChat, Refunds, calling, judging

SECRET = "주문번호 8812-7731"
ASK = {"messages": [("user", f"{SECRET} 환불해 주세요")]}


def decision(memo: str = "위험") -> Decision:
    return judging(lambda prompt: [0.0, 4.0] if memo == "위험" else [0.0, 0.0])[0].decide(
        SECRET, Noul(instructions="위험한가?")
    )


class TestCounters:
    def test_they_start_at_zero_and_count_what_happened(self) -> None:
        accounting = Accounting()
        assert accounting.snapshot() == dict.fromkeys(COUNTERS, 0)
        for memo in ("위험", "애매"):
            accounting.record(decision(memo))
        accounting.escalated()
        accounting.llm_call_avoided(3)
        counts = accounting.snapshot()
        tokens = counts.pop("tokens")
        assert counts == {
            "decisions": 2,
            "abstentions": 1,
            "escalations": 1,
            "llm_calls_avoided": 3,
            "pairs": 4,
        }
        assert tokens == 2 * decision().provenance.tokens

    def test_a_snapshot_is_a_copy(self) -> None:
        accounting = Accounting()
        accounting.snapshot()["decisions"] = 9
        assert accounting.snapshot()["decisions"] == 0

    def test_no_count_is_lost_between_threads(self) -> None:
        accounting, one = Accounting(), decision()
        start = threading.Barrier(8)

        def count() -> None:
            start.wait(30)
            for _ in range(500):
                accounting.record(one)

        threads = [threading.Thread(target=count) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert accounting.snapshot()["decisions"] == 4000

    def test_a_gate_counts_decisions_doubts_and_people_once(self) -> None:
        accounting = Accounting()
        model, _ = judging()
        gate = DecisionGateMiddleware(model, ["refund"], accounting=accounting)
        create_agent(calling("정상", "위험", "애매"), [Refunds().tool()], middleware=[gate]).invoke(ASK)
        counts = accounting.snapshot()
        assert (counts["decisions"], counts["abstentions"], counts["escalations"], counts["pairs"]) == (3, 1, 1, 6)


class Runs(BaseCallbackHandler):
    """Every run's name, parent, input and output; spans of work are found orphaned here when they are."""

    def __init__(self) -> None:
        self.names: dict[UUID, str] = {}
        self.parents: dict[UUID, UUID | None] = {}
        self.inputs: dict[UUID, Any] = {}
        self.outputs: dict[UUID, Any] = {}

    def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: UUID, parent_run_id: Any, **kwargs: Any) -> None:
        self.names[run_id], self.parents[run_id] = kwargs.get("name") or "", parent_run_id
        self.inputs[run_id] = inputs

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        self.outputs[run_id] = outputs

    def named(self, name: str) -> list[UUID]:
        return [run for run, called in self.names.items() if called == name]

    def line(self, run: UUID) -> list[str]:
        """The names from a run up to the root."""
        parent = self.parents[run]
        return [self.names[run], *(self.line(parent) if parent is not None else [])]


class TestNesting:
    """Row 37: orphaned when work goes to threads."""

    def test_the_gates_run_is_a_child_of_the_agents(self) -> None:
        runs = Runs()
        model, _ = judging()
        agent = create_agent(
            calling("정상", "위험"),
            [Refunds().tool()],
            middleware=[DecisionGateMiddleware(model, ["refund"])],
            name="desk",
        )
        agent.invoke(ASK, {"callbacks": [runs]})
        (gate,) = runs.named("ko_gate")
        assert runs.line(gate) == ["ko_gate", "ko_gate.after_model", "desk"]

    async def test_async(self) -> None:
        runs = Runs()
        model, _ = judging()
        agent = create_agent(
            calling("정상"), [Refunds().tool()], middleware=[DecisionGateMiddleware(model, ["refund"])], name="desk"
        )
        await agent.ainvoke(ASK, {"callbacks": [runs]})
        (gate,) = runs.named("ko_gate")
        assert runs.line(gate) == ["ko_gate", "ko_gate.after_model", "desk"]
        model.close()

    def test_a_call_changed_on_the_way_is_judged_under_its_tool(self) -> None:
        from tests.langgraph.test_gate import rewrite

        runs = Runs()
        model, _ = judging()
        agent = create_agent(
            calling("정상"),
            [Refunds().tool()],
            middleware=[rewrite, DecisionGateMiddleware(model, ["refund"])],
            name="desk",
        )
        agent.invoke(ASK, {"callbacks": [runs]})
        first, second = runs.named("ko_gate")
        assert runs.line(first) == ["ko_gate", "ko_gate.after_model", "desk"]
        assert (runs.line(second)[0], runs.line(second)[-1]) == ("ko_gate", "desk")
        assert "tools" in runs.line(second)

    def test_the_model_routers_run_too(self) -> None:
        runs = Runs()
        small, large = (RecordingChat(replies=[AIMessage("답")]) for _ in range(2))
        router = KoModelRouter(judging()[0], {"간단": Tier(small), "복잡": Tier(large)})
        create_agent(large, middleware=[router], name="desk").invoke(ASK, {"callbacks": [runs]})
        (chosen,) = runs.named("ko_model_router")
        assert runs.line(chosen) == ["ko_model_router", "ko_model_router.before_agent", "desk"]

    def test_what_was_asked_is_not_in_our_runs(self) -> None:
        runs = Runs()
        model, _ = judging()
        small, large = calling(SECRET), RecordingChat(replies=[AIMessage("답")])
        agent = create_agent(
            large,
            [Refunds().tool()],
            middleware=[
                KoModelRouter(judging(lambda prompt: [4.0, 0.0])[0], {"간단": Tier(small), "복잡": Tier(large)}),
                DecisionGateMiddleware(model, ["refund"]),
            ],
        )
        agent.invoke(ASK, {"callbacks": [runs]})
        for name in ("ko_gate", "ko_model_router"):
            (run,) = runs.named(name)
            shown = f"{runs.inputs[run]!r} {runs.outputs[run]!r}"
            assert SECRET not in shown
            assert "8812" not in shown

    async def test_traced_without_a_run_around_it_just_calls(self) -> None:
        async def ask() -> int:
            return 2

        assert traced("x", lambda: 1) == 1
        assert await atraced("x", ask) == 2

    def test_errors_come_out_of_traced_runs_as_they_are(self) -> None:
        def ask() -> int:
            raise ZeroDivisionError("은행")

        with pytest.raises(ZeroDivisionError, match="은행"):
            RunnableLambda(lambda _: traced("x", ask)).invoke(None)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """OpenTelemetry recording into memory, for one test."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", lambda name, *args, **kwargs: provider.get_tracer(name))
    return exporter


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


@contextmanager
def without_opentelemetry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    real = builtins.__import__

    def absent(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.split(".")[0] == "opentelemetry":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(builtins, "__import__", absent)
        yield


class TestSpans:
    def test_a_span_describes_its_decision_without_the_text(self, spans: InMemorySpanExporter) -> None:
        with Accounting().span("ko_route", decision(), text=SECRET):
            pass
        (span,) = spans.get_finished_spans()
        seen = attributes(span)
        assert span.name == "ko_route"
        assert seen["ko_decision.type"] == "noul"
        assert seen["ko_decision.label"] == "true"
        assert seen["ko_decision.top_probability"] == pytest.approx(0.982, abs=1e-3)
        assert (seen["ko_decision.abstained"], seen["ko_decision.pairs"]) == (False, 2)
        assert "ko_decision.text" not in seen

    def test_the_text_is_there_when_asked_for(self, spans: InMemorySpanExporter) -> None:
        with Accounting(include_text=True).span("ko_route", text=SECRET) as span:
            describe(span, decision("애매"))
        seen = attributes(spans.get_finished_spans()[0])
        assert seen["ko_decision.text"] == SECRET
        assert seen["ko_decision.abstained"] is True

    def test_without_opentelemetry_nothing_happens(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with without_opentelemetry(monkeypatch), Accounting().span("ko_route", decision(), text=SECRET) as span:
            describe(span, decision())
            assert span is None

    def test_a_gate_works_without_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        model, _ = judging()
        refunds = Refunds()
        gate = DecisionGateMiddleware(model, ["refund"])
        with without_opentelemetry(monkeypatch):
            create_agent(calling("정상", "위험"), [refunds.tool()], middleware=[gate]).invoke(ASK)
        assert refunds.done == ["정상"]

    @pytest.mark.parametrize("include_text", [False, True])
    async def test_a_gates_span_has_one_event_per_decision_and_its_callers_span_above(
        self, spans: InMemorySpanExporter, include_text: bool
    ) -> None:
        model, _ = judging()

        def agent() -> Any:
            gate = DecisionGateMiddleware(model, ["refund"], accounting=Accounting(include_text=include_text))
            return create_agent(calling("정상", "위험"), [Refunds().tool()], middleware=[gate])

        with trace.get_tracer("app").start_as_current_span("request") as request:
            agent().invoke(ASK)
            await agent().ainvoke(ASK)
        asked = [span for span in spans.get_finished_spans() if span.name == "ko_gate"]
        assert len(asked) == 2
        for span in asked:
            assert span.parent is not None
            assert span.parent.span_id == request.get_span_context().span_id
            seen = [dict(event.attributes or {}) for event in span.events]
            assert [each["ko_decision.label"] for each in seen] == ["false", "true"]
            assert [each["ko_decision.tool"] for each in seen] == ["refund", "refund"]
            assert (SECRET in json.dumps(seen, ensure_ascii=False)) is include_text
        model.close()


def test_every_exported_name_resolves() -> None:
    for name in ko_decision_langgraph.__all__:
        assert getattr(ko_decision_langgraph, name) is not None
    assert not hasattr(ko_decision_langgraph, "configure")
