"""Which chat model a run gets: our ``KoModelRouter``, and our model inside LangChain's ``ModelRouterMiddleware``."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelChoice, ModelRouterMiddleware
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver

from ko_decision_langgraph.accounting import Accounting
from ko_decision_langgraph.kill_switch import VARIABLE
from ko_decision_langgraph.routing import KoModelRouter, Tier
from ko_decision_tools import EncoderError, InvalidInputError, KoDecisionModel
from ko_decision_tools.prompts import Prompt
from tests.langgraph.gate_stand_ins import RecordingChat, Refunds, calls, judging, types_within

EASY, HARD, UNSURE, BROKEN = "몇 시까지 하나요?", "계약서를 검토하고 요약해 주세요", "음", "폭탄"


def by_need(prompt: Prompt) -> list[float]:
    """Scores for [간단, 복잡]."""
    if BROKEN in prompt.state:
        raise EncoderError("메모리 부족")
    return [4.0, 0.0] if "몇 시" in prompt.state else [0.0, 4.0] if "계약서" in prompt.state else [0.0, 0.0]


def chats() -> tuple[RecordingChat, RecordingChat]:
    small = RecordingChat(label="small", replies=[AIMessage("작은 모델의 답")])
    return small, RecordingChat(label="large", replies=[AIMessage("큰 모델의 답")])


def router(small: RecordingChat, large: RecordingChat, model: KoDecisionModel | None = None, **settings: Any) -> Any:
    tiers = {"간단": Tier(small, "인사, 영업시간"), "복잡": Tier(large, "여러 단계의 추론")}
    return KoModelRouter(model or judging(by_need)[0], tiers, **settings)


def ask(text: str) -> dict[str, Any]:
    return {"messages": [("user", text)]}


class TestKoModelRouter:
    """Rows 7 and 9: tiers by confidence, and what is unsure never goes to the cheaper model."""

    @pytest.mark.parametrize(
        ("text", "answered_by"),
        [(EASY, "작은"), (HARD, "큰"), (UNSURE, "큰"), (BROKEN, "큰")],
    )
    async def test_the_tier_follows_the_decision_and_doubt_goes_up(self, text: str, answered_by: str) -> None:
        unused = RecordingChat(replies=[AIMessage("쓰이지 않는다")])
        agent = create_agent(unused, middleware=[router(*chats())])
        assert answered_by in agent.invoke(ask(text))["messages"][-1].text
        agent = create_agent(unused, middleware=[router(*chats())])
        assert answered_by in (await agent.ainvoke(ask(text)))["messages"][-1].text
        assert unused.asked == []

    def test_the_route_is_in_the_output_as_json_with_its_reasons(self) -> None:
        result = create_agent(chats()[0], middleware=[router(*chats())]).invoke(ask(UNSURE))
        route = result["ko_model_route"]
        assert (route["route"], route["escalated"]) == ("복잡", True)
        assert route["reasons"] == ["top probability 0.500 < 0.6"]
        assert types_within(route) <= {dict, list, str, int, float, bool, type(None)}
        assert UNSURE not in json.dumps(route, ensure_ascii=False)

    def test_the_capable_model_may_be_any_tier(self) -> None:
        small, large = chats()
        create_agent(large, middleware=[router(small, large, capable="간단")]).invoke(ask(UNSURE))
        assert (len(small.asked), len(large.asked)) == (1, 0)

    def test_one_decision_for_all_model_calls_of_a_run(self) -> None:
        model, encoder = judging(by_need)
        refunds = Refunds()
        small = RecordingChat(replies=[calls("정상"), AIMessage("끝")])
        large = chats()[1]
        create_agent(large, [refunds.tool()], middleware=[router(small, large, model)]).invoke(ask(EASY))
        assert (len(small.asked), len(large.asked), len(encoder.prompts)) == (2, 0, 1)
        assert refunds.done == ["정상"]

    def test_every_run_of_a_conversation_decides_anew(self) -> None:
        small, large = chats()
        agent = create_agent(large, middleware=[router(small, large)], checkpointer=InMemorySaver())
        config: Any = {"configurable": {"thread_id": "1"}}
        for text in (EASY, HARD):
            agent.invoke(ask(text), config)
        assert (len(small.asked), len(large.asked)) == (1, 1)

    def test_a_tiers_own_bar(self) -> None:
        small, large = chats()
        tiers = {"간단": Tier(small, "인사", min_top_probability=0.99), "복잡": Tier(large)}
        create_agent(large, middleware=[KoModelRouter(judging(by_need)[0], tiers)]).invoke(ask(EASY))
        assert (len(small.asked), len(large.asked)) == (0, 1)

    def test_a_failure_is_logged_or_raised(self, caplog: pytest.LogCaptureFixture) -> None:
        """Row 41: routers fail to the capable path; configurable and logged."""
        small, large = chats()
        with caplog.at_level(logging.ERROR):
            create_agent(large, middleware=[router(small, large)]).invoke(ask(BROKEN))
        assert "메모리 부족" in caplog.text
        with pytest.raises(EncoderError, match="메모리 부족"):
            create_agent(large, middleware=[router(small, large, on_error="raise")]).invoke(ask(BROKEN))

    def test_the_kill_switch_takes_the_capable_model(self, monkeypatch: pytest.MonkeyPatch) -> None:
        model, encoder = judging(by_need)
        small, large = chats()
        agent = create_agent(large, middleware=[router(small, large, model)])
        monkeypatch.setenv(VARIABLE, "1")
        result = agent.invoke(ask(EASY))
        assert (len(small.asked), len(large.asked), encoder.prompts) == (0, 1, [])
        assert VARIABLE in result["ko_model_route"]["reasons"][0]

    def test_it_counts(self) -> None:
        accounting = Accounting()
        small, large = chats()
        agent = create_agent(large, middleware=[router(small, large, accounting=accounting)])
        for text in (EASY, UNSURE, BROKEN):
            agent.invoke(ask(text))
        counts = accounting.snapshot()
        assert (counts["decisions"], counts["abstentions"], counts["escalations"]) == (2, 1, 2)

    async def test_the_event_loop_is_free_while_it_decides(self) -> None:
        inside, loop_ran = threading.Event(), threading.Event()

        def script(prompt: Prompt) -> list[float]:
            inside.set()
            assert loop_ran.wait(30), "the event loop was blocked"
            return [4.0, 0.0]

        async def beside() -> None:
            while not inside.is_set():
                await asyncio.sleep(0)
            loop_ran.set()

        model, _ = judging(script)
        small, large = chats()
        agent = create_agent(large, middleware=[router(small, large, model)])
        await asyncio.gather(agent.ainvoke(ask(EASY)), beside())
        assert len(small.asked) == 1
        model.close()

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"tiers": {"하나": Tier(RecordingChat(replies=[]))}}, "tiers"),
            ({"capable": "없음"}, "capable"),
            ({"on_error": "block"}, "on_error"),
            ({"min_top_probability": 2}, "min_top_probability"),
            ({"question": " "}, "question"),
        ],
    )
    def test_bad_settings_are_named(self, change: dict[str, Any], field: str) -> None:
        small, large = chats()
        settings = {"tiers": {"간단": Tier(small), "복잡": Tier(large)}} | change
        with pytest.raises(InvalidInputError) as caught:
            KoModelRouter(judging(by_need)[0], **settings)
        assert caught.value.field.startswith(field)


# LangChain marks the class as beta on construction; nothing of ours is meant.
@pytest.mark.filterwarnings("ignore:The middleware `ModelRouterMiddleware` is in beta")
class TestLangChainsModelRouter:
    """Our model as the classifier of ``ModelRouterMiddleware``."""

    @staticmethod
    def agent(small: RecordingChat, large: RecordingChat, model: KoDecisionModel, **settings: Any) -> Any:
        choices = {
            "간단": ModelChoice(model=small, criteria="인사, 영업시간"),
            "복잡": ModelChoice(model=large, criteria="여러 단계의 추론"),
        }
        middleware = ModelRouterMiddleware(choices=choices, instructions="어느 모델이 필요한가?", classifier=model)
        return create_agent(large, middleware=[middleware], **settings)

    @pytest.mark.parametrize(("text", "small_calls"), [(EASY, 1), (HARD, 0)])
    async def test_it_routes(self, text: str, small_calls: int) -> None:
        model, encoder = judging(by_need)
        small, large = chats()
        self.agent(small, large, model).invoke(ask(text))
        assert (len(small.asked), len(large.asked)) == (small_calls, 1 - small_calls)
        assert encoder.prompts[0].instruction == "어느 모델이 필요한가?"
        assert encoder.prompts[0].options == ("간단: 인사, 영업시간", "복잡: 여러 단계의 추론")
        small, large = chats()
        await self.agent(small, large, model).ainvoke(ask(text))
        assert (len(small.asked), len(large.asked)) == (small_calls, 1 - small_calls)
        model.close()

    def test_its_route_carries_every_probability(self) -> None:
        model, _ = judging(by_need)
        small, large = chats()
        answer = self.agent(small, large, model).invoke(ask(EASY))["model_route"]
        assert answer.choice == "간단"
        assert answer.probabilities["간단"] == pytest.approx(0.982, abs=1e-3)

    def test_failures_come_out_as_they_are(self) -> None:
        small, large = chats()
        with pytest.raises(EncoderError, match="메모리 부족"):
            self.agent(small, large, judging(by_need)[0]).invoke(ask(BROKEN))
