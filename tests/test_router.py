"""``DecisionRouter``: routes, escalates, batches, never calls the expensive path for what it accepted."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import pickle
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableLambda

from ko_decision_tools import (
    Decision,
    DecisionRouter,
    EncoderError,
    InvalidInputError,
    KoDecisionModel,
    MinMargin,
    Route,
    RoutingTableError,
    ScriptedEncoder,
    TemperatureTable,
)
from ko_decision_tools.prompts import Prompt
from ko_decision_tools.router.result import RouteResult

ROUTES = {"결제": "결제와 환불", "배송": "배송 지연", "계정": None}


def by_text(prompt: Prompt) -> list[float]:
    """Sure of a text that names a route, unsure of any other, broken by "폭탄"."""
    if "폭탄" in prompt.state:
        raise EncoderError("메모리 부족")
    return [4.0 if option[:2] in prompt.state else 0.0 for option in prompt.options]


def scripted(script: Any = by_text, **settings: Any) -> KoDecisionModel:
    return KoDecisionModel.from_encoder(ScriptedEncoder(script), **settings)


class Spy:
    """An expensive path that counts."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def __call__(self, value: Any) -> str:
        self.asked.append(value)
        return f"LLM: {value}"


class TestRouting:
    def test_a_sure_text_takes_its_route_and_carries_everything(self) -> None:
        result = DecisionRouter(scripted(), ROUTES).invoke("배송이 늦어요")
        assert result == "배송"
        assert (result.route, result.escalated, result.reasons, result.output) == ("배송", False, (), None)
        assert isinstance(result.decision, Decision)
        assert set(result.decision.probabilities) == set(ROUTES)

    def test_an_unsure_text_goes_to_the_named_destination_with_its_reason(self) -> None:
        result = DecisionRouter(scripted(), ROUTES, escalate_to="상담원").invoke("점심 뭐 먹죠")
        assert result == "상담원"
        assert result.escalated
        assert result.reasons == ("top probability 0.333 < 0.6",)
        assert result.decision is not None
        assert result.decision.abstained

    def test_labels_routes_and_mappings(self) -> None:
        for routes in (["결제", "배송"], [Route("결제"), "배송"], {"결제": None, "배송": None}):
            assert DecisionRouter(scripted(), routes).invoke("결제요") == "결제"  # type: ignore[arg-type]

    def test_the_question_reaches_the_model(self) -> None:
        model = scripted()
        DecisionRouter(model, ROUTES, question="누가 맡나?").invoke("결제")
        assert model.encoder.prompts[0].instruction == "누가 맡나?"  # type: ignore[attr-defined]

    def test_a_ready_made_answer_comes_with_its_route_only(self) -> None:
        router = DecisionRouter(scripted(), [Route("결제", answer="영수증은 메일로 보내드려요."), Route("배송")])
        assert router.invoke("결제").answer == "영수증은 메일로 보내드려요."
        assert router.invoke("배송").answer is None
        assert router.invoke("음").answer is None

    def test_a_policy_has_to_accept_too(self) -> None:
        router = DecisionRouter(scripted(), ROUTES, min_top_probability=0.0, policy=MinMargin(0.5))
        assert router.invoke("음").reasons == ("margin 0.000 < 0.5",)

    def test_a_task_picks_its_temperature(self) -> None:
        model = KoDecisionModel.from_encoder(
            ScriptedEncoder(by_text), temperatures=TemperatureTable({"고객센터": 50.0})
        )
        assert DecisionRouter(model, ROUTES, task="고객센터").invoke("결제").escalated
        assert DecisionRouter(model, ROUTES, task="고객센터", min_top_probability=0.3).invoke("결제") == "결제"

    def test_destinations_for_drawing(self) -> None:
        assert DecisionRouter(scripted(), ROUTES).destinations == ("결제", "배송", "계정", "사람")
        assert DecisionRouter(scripted(), ROUTES, escalate_to="계정").destinations == ("결제", "배송", "계정")
        assert DecisionRouter(scripted(), ROUTES, escalate_to=Spy()).destinations[-1] == "escalated"


class TestBars:
    @pytest.mark.parametrize(
        ("model_bar", "router_bar", "route_bar", "call_bar", "accepted"),
        [
            (0.6, None, None, None, True),  # P = 0.965
            (0.99, None, None, None, False),
            (0.99, 0.5, None, None, True),
            (0.5, 0.99, 0.5, None, True),
            (0.5, 0.5, 0.99, None, False),
            (0.5, 0.5, 0.99, 0.5, True),
            (0.5, 0.5, 0.5, 0.99, False),
            (0.99, 0.99, 0.99, 0.0, True),
        ],
    )
    def test_the_most_specific_bar_wins(
        self, model_bar: float, router_bar: Any, route_bar: Any, call_bar: Any, accepted: bool
    ) -> None:
        router = DecisionRouter(
            scripted(min_top_probability=model_bar),
            [Route("결제", min_top_probability=route_bar), Route("배송"), Route("계정")],
            min_top_probability=router_bar,
        )
        options = {} if call_bar is None else {"min_top_probability": call_bar}
        results = [
            router.invoke("결제", **options),
            router.batch(["결제", "결제"], **options)[1],
            asyncio.run(router.ainvoke("결제", **options)),
            asyncio.run(router.abatch(["결제", "결제"], **options))[1],
        ]
        assert [result.escalated for result in results] == [not accepted] * 4
        assert router("결제", **options) == ("결제" if accepted else "사람")

    def test_a_route_with_its_own_bar_leaves_the_others_alone(self) -> None:
        router = DecisionRouter(scripted(), [Route("결제", min_top_probability=0.99), Route("배송"), Route("계정")])
        assert [router("결제"), router("배송")] == ["사람", "배송"]

    def test_a_value_exactly_at_the_bar_is_accepted(self) -> None:
        router = DecisionRouter(scripted(), {"결제": None, "배송": None}, min_top_probability=0.5)
        assert router("음") == "결제"

    def test_a_wrong_bar_is_the_callers_mistake_and_never_escalates(self) -> None:
        with pytest.raises(InvalidInputError, match="min_top_probability"):
            DecisionRouter(scripted(), ROUTES).invoke("결제", min_top_probability=2)
        with pytest.raises(TypeError):
            DecisionRouter(scripted(), ROUTES).invoke("결제", min_top_prob=0.2)


class TestEscalation:
    def test_what_is_accepted_never_touches_the_expensive_path(self) -> None:
        spy = Spy()
        router = DecisionRouter(scripted(), ROUTES, escalate_to=spy)
        router.invoke("결제")
        router.batch(["결제", "배송", "계정"])
        asyncio.run(router.ainvoke("배송"))
        asyncio.run(router.abatch(["계정", "결제"]))
        assert spy.asked == []

    def test_nor_does_an_empty_batch_reach_it(self) -> None:
        class Untouchable(RunnableLambda[Any, Any]):
            def batch(self, *_: Any, **__: Any) -> Any:
                pytest.fail("called")

            async def abatch(self, *_: Any, **__: Any) -> Any:
                pytest.fail("called")

        router = DecisionRouter(scripted(), ROUTES, escalate_to=Untouchable(str))
        assert router.batch(["결제"]) == asyncio.run(router.abatch(["결제"])) == ["결제"]

    def test_what_is_not_gets_the_original_input_and_its_output_is_kept(self) -> None:
        spy = Spy()
        state = {"messages": [HumanMessage("점심 뭐 먹죠")]}
        result = DecisionRouter(scripted(), ROUTES, escalate_to=spy).invoke(state)
        assert spy.asked == [state]
        assert (result.route, result.output) == ("escalated", f"LLM: {state}")
        assert result.reasons

    def test_a_chat_model_can_stand_behind(self) -> None:
        llm = FakeListChatModel(responses=["사람에게 물어보세요."])
        result = DecisionRouter(scripted(), ROUTES, escalate_to=llm).invoke("점심")
        assert isinstance(result.output, AIMessage)
        assert result.output.text == "사람에게 물어보세요."

    def test_a_cascade_of_routers(self) -> None:
        large = DecisionRouter(scripted({"배송": 5.0}), ROUTES)
        small = DecisionRouter(scripted(), ROUTES, escalate_to=large)
        assert small.invoke("그거 언제 와요").output == "배송"

    def test_on_an_edge_only_the_name_is_given(self) -> None:
        spy = Spy()
        router = DecisionRouter(scripted(), ROUTES, escalate_to=spy)
        assert router({"messages": [("user", "점심")]}, {"tags": ["edge"]}) == "escalated"
        assert spy.asked == []

    def test_its_own_failure_is_raised_or_returned(self) -> None:
        def fail(_: Any) -> None:
            raise ConnectionError("LLM이 꺼져 있음")

        router = DecisionRouter(scripted(), ROUTES, escalate_to=fail)
        with pytest.raises(ConnectionError):
            router.invoke("점심")
        with pytest.raises(ConnectionError):
            asyncio.run(router.ainvoke("점심"))
        results = router.batch(["결제", "점심"], return_exceptions=True)
        assert results[0] == "결제"
        assert isinstance(results[1], ConnectionError)


class TestWhatCannotBeJudged:
    @pytest.mark.parametrize(
        ("state", "reason"),
        [
            ("", "state is empty"),
            ("   ", "state is empty"),
            ("깨진 \ud83d", "lone surrogate"),
            ({}, "messages"),
            ({"messages": []}, "no human message"),
            ({"messages": [AIMessage("안녕하세요")]}, "no human message"),
            (17, "messages"),
            ({"messages": [HumanMessage([{"type": "image", "base64": "aGk=", "mime_type": "image/png"}])]}, "image"),
            ("폭탄", "EncoderError: 메모리 부족"),
        ],
    )
    def test_it_escalates_with_the_reason_and_is_logged(
        self, state: Any, reason: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        spy = Spy()
        router = DecisionRouter(scripted(), ROUTES, escalate_to=spy)
        with caplog.at_level(logging.WARNING):
            results = [router.invoke(state), asyncio.run(router.ainvoke(state)), router.batch(["결제", state])[1]]
        for result in results:
            assert result.escalated
            assert result.decision is None
            assert reason in result.reasons[0]
        assert len(spy.asked) == len(caplog.records) == 3
        assert router(state) == "escalated"

    def test_on_error_raise(self) -> None:
        router = DecisionRouter(scripted(), ROUTES, on_error="raise")
        with pytest.raises(InvalidInputError, match="empty"):
            router.invoke("")
        with pytest.raises(EncoderError, match="메모리"):
            asyncio.run(router.ainvoke("폭탄"))
        with pytest.raises(EncoderError):
            router("폭탄")
        results = router.batch(["결제", "폭탄", "", "배송"], return_exceptions=True)
        assert [type(result) for result in results] == [RouteResult, EncoderError, InvalidInputError, RouteResult]
        with pytest.raises(EncoderError):
            router.batch(["결제", "폭탄"])
        assert router.invoke("음").escalated  # being unsure is not an error

    def test_a_bug_in_an_encoder_also_takes_the_capable_path(self, caplog: pytest.LogCaptureFixture) -> None:
        def script(_: Prompt) -> list[float]:
            raise ZeroDivisionError("bug")

        result = DecisionRouter(scripted(script), ROUTES).invoke("결제")
        assert result == "사람"
        assert "ZeroDivisionError" in result.reasons[0]
        assert caplog.records[0].exc_info is not None


class TestBatches:
    def test_all_pairs_share_one_call_of_the_encoder(self) -> None:
        class Counting(ScriptedEncoder):
            calls: list[int] = []  # noqa: RUF012

            def score(self, prepared: Any) -> Any:
                self.calls.append(len(prepared))
                return super().score(prepared)

        encoder = Counting(by_text)
        router = DecisionRouter(KoDecisionModel.from_encoder(encoder), ROUTES)
        texts = ["결제", "배송", "계정", "점심"]
        assert router.batch(texts) == ["결제", "배송", "계정", "사람"]
        assert asyncio.run(router.abatch(texts)) == ["결제", "배송", "계정", "사람"]
        assert encoder.calls == [4, 4]

    @pytest.mark.parametrize("bad", ["", "폭탄"])
    def test_one_bad_text_costs_the_others_nothing(self, bad: str) -> None:
        texts = ["결제", "배송", bad, "계정", "결제"]
        router = DecisionRouter(scripted(), ROUTES)
        expected = ["결제", "배송", "사람", "계정", "결제"]
        assert router.batch(texts) == expected
        assert asyncio.run(router.abatch(texts)) == expected

    def test_a_batch_is_what_its_items_are(self, mini: KoDecisionModel) -> None:
        router = DecisionRouter(mini, ROUTES)
        texts = ["결제가 두 번 됐어요", "택배 언제 와요?", "비밀번호를 잊었습니다. 어떻게 다시 정하나요?"]
        for together, text in zip(router.batch(texts), texts, strict=True):
            alone = router.invoke(text)
            assert alone == together
            assert alone.decision is not None
            assert together.decision is not None
            assert alone.decision.probabilities == pytest.approx(together.decision.probabilities, abs=1e-4)

    def test_an_empty_batch(self) -> None:
        assert DecisionRouter(scripted(), ROUTES).batch([]) == []
        assert asyncio.run(DecisionRouter(scripted(), ROUTES).abatch([])) == []

    def test_stream_and_pipes_work_as_for_any_runnable(self) -> None:
        router = DecisionRouter(scripted(), ROUTES)
        assert list(router.stream("결제")) == ["결제"]
        assert (router | RunnableLambda(lambda result: f"{result}팀")).invoke("결제") == "결제팀"
        assert router.get_output_jsonschema()["type"] == "string"


class TestStates:
    @pytest.mark.parametrize(
        "state",
        [
            "결제",
            HumanMessage("결제"),
            [SystemMessage("너는 상담원"), HumanMessage("결제"), AIMessage("배송?")],
            {"messages": [HumanMessage("배송"), AIMessage("네"), HumanMessage("결제")]},
            {"messages": [{"role": "user", "content": "결제"}, {"role": "assistant", "content": "배송"}]},
            {"messages": [("user", "결제"), ("ai", "배송")]},
            {"messages": HumanMessage("결제")},
            {"messages": [HumanMessage([{"type": "text", "text": "결제"}, "요"])], "other": "배송"},
        ],
    )
    def test_the_newest_human_message_is_routed(self, state: Any) -> None:
        assert DecisionRouter(scripted(), ROUTES)(state) == "결제"

    def test_the_words_alone_reach_the_model(self) -> None:
        model = scripted()
        DecisionRouter(model, ROUTES).invoke({"messages": [HumanMessage("결제")]})
        assert model.encoder.prompts[0].state == "결제"  # type: ignore[attr-defined]

    def test_a_chosen_key(self) -> None:
        class Ticket:
            body = "결제"

        router = DecisionRouter(scripted(), ROUTES, text_key="body")
        assert router({"body": "결제", "messages": [HumanMessage("배송")]}) == "결제"
        assert router(Ticket()) == "결제"
        assert router({"body": [HumanMessage("결제"), AIMessage("배송")]}) == "결제"
        assert router({"body": {"제목": "결제 문의", "본문": "…"}}) == "결제"
        assert "has no 'body'" in router.invoke({"text": "결제"}).reasons[0]


class TestResults:
    def test_json_pickle_and_copies(self) -> None:
        results = DecisionRouter(scripted(), [Route("결제", answer="답"), Route("배송")]).batch(["결제", "음", ""])
        for result in results:
            assert json.loads(json.dumps({"next": result}, ensure_ascii=False)) == {"next": result.route}
            assert json.loads(json.dumps(result.to_dict())) == result.to_dict()
            for twin in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
                assert isinstance(twin, RouteResult)
                assert (twin, twin.to_dict()) == (result, result.to_dict())
        assert type(results[0].route) is str
        assert repr(results[0]) == "RouteResult('결제')"
        assert "empty" in repr(results[2])

    def test_an_output_is_in_the_dict(self) -> None:
        result = DecisionRouter(scripted(), ROUTES, escalate_to=lambda _: "LLM").invoke("음")
        assert result.to_dict()["output"] == "LLM"

    def test_a_router_can_be_pickled(self, mini: KoDecisionModel) -> None:
        router = DecisionRouter(mini, ROUTES)
        packed = pickle.dumps(router)
        assert len(packed) < 10_000
        again, text = pickle.loads(packed), "결제가 두 번 됐어요"
        assert again.invoke(text).to_dict()["decision"]["probabilities"] == pytest.approx(
            router.invoke(text).to_dict()["decision"]["probabilities"]
        )


class Runs(BaseCallbackHandler):
    """Records runs by name with their parents."""

    def __init__(self) -> None:
        self.parents: dict[str, UUID | None] = {}
        self.ids: dict[str, UUID] = {}
        self.ends: list[Any] = []

    def on_chain_start(self, serialized: Any, inputs: Any, **kwargs: Any) -> None:
        self.parents[kwargs["name"]], self.ids[kwargs["name"]] = kwargs["parent_run_id"], kwargs["run_id"]

    def on_chain_end(self, outputs: Any, **kwargs: Any) -> None:
        self.ends.append(outputs)


@pytest.mark.parametrize("how", ["invoke", "batch", "ainvoke", "abatch"])
def test_the_escalation_is_a_child_run_of_the_router(how: str) -> None:
    runs = Runs()
    llm = RunnableLambda(lambda _: "답").with_config(run_name="llm")
    router = DecisionRouter(scripted(), ROUTES, escalate_to=llm, name="팀_찾기")
    config: Any = {"callbacks": [runs]}
    if how == "invoke":
        router.invoke("음", config)
    elif how == "batch":
        router.batch(["결제", "음"], config)
    elif how == "ainvoke":
        asyncio.run(router.ainvoke("음", config))
    else:
        asyncio.run(router.abatch(["결제", "음"], config))
    assert runs.parents["llm"] is not None
    assert runs.parents["팀_찾기"] is None
    if "batch" not in how:
        assert runs.parents["llm"] == runs.ids["팀_찾기"]


class TestConstruction:
    @pytest.mark.parametrize(
        ("routes", "settings", "field"),
        [
            (["결제"], {}, "routes"),
            (["결제", "결제"], {}, "routes.결제"),
            (["A. 결제", "B. 결제"], {}, "routes.B. 결제"),
            ({"결제": None, " ": None}, {}, "label"),
            (ROUTES, {"question": ""}, "question"),
            (ROUTES, {"min_top_probability": 7}, "min_top_probability"),
            (ROUTES, {"on_error": "ignore"}, "on_error"),
            (ROUTES, {"escalate_to": ""}, "escalate_to"),
            (["escalated", "배송"], {"escalate_to": Spy()}, "routes"),
        ],
    )
    def test_what_cannot_work_fails_at_once(self, routes: Any, settings: dict[str, Any], field: str) -> None:
        with pytest.raises(InvalidInputError) as caught:
            DecisionRouter(scripted(), routes, **settings)
        assert caught.value.field == field

    def test_from_yaml_text_and_file(self, tmp_path: Path) -> None:
        text = "question: 어느 팀?\nroutes: {결제: 환불, 배송: {min_top_probability: 0.99}}\nescalate_to: 상담원\n"
        file = tmp_path / "routes.yaml"
        file.write_text(text, encoding="utf-8")
        for source in (text, file, str(file)):
            router = DecisionRouter.from_yaml(source, model=scripted())
            assert [router("결제"), router("배송"), router("음")] == ["결제", "상담원", "상담원"]
        spy = Spy()
        DecisionRouter.from_yaml(text, model=scripted(), escalate_to=spy).invoke("음")
        assert spy.asked == ["음"]
        with pytest.raises(RoutingTableError, match="cannot be read"):
            DecisionRouter.from_yaml("없는 파일.yaml", model=scripted())
