"""The tools as an agent meets them: schema, content, artifact, bad arguments, abstaining, failing, copying."""

from __future__ import annotations

import asyncio
import copy
import importlib.util
import json
import logging
import pickle
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from ko_decision_tools import (
    AbstainedError,
    ClassifyTool,
    DecisionToolkit,
    EncoderError,
    GateTool,
    InvalidInputError,
    KoDecisionModel,
    RateTool,
    ScriptedEncoder,
    TemperatureTable,
    UncalibratedError,
)
from ko_decision_tools.tools import ToolInputError

TEAM = {"question": "어느 팀?", "options": ["결제: 결제와 환불", "배송: 배송 지연"]}
URGENCY = {"question": "얼마나 급한가?", "levels": ["천천히", "오늘 안에", "지금"]}
FITTED = TemperatureTable(by_type={"choice": 1.0, "noul": 1.0, "score": 1.0})


def scripted(script: Any = None, *, table: TemperatureTable = FITTED, **settings: Any) -> KoDecisionModel:
    encoder = ScriptedEncoder({"결제": 3.0, "지금": 4.0, "참": 3.0} if script is None else script)
    return KoDecisionModel.from_encoder(encoder, temperatures=table, **settings)


def failing(error: Exception) -> KoDecisionModel:
    def script(_: Any) -> list[float]:
        raise error

    return scripted(script)


def call(tool: BaseTool, **args: Any) -> ToolMessage:
    message = tool.invoke(ToolCall(name=tool.name, args=args, id="1", type="tool_call"))
    assert isinstance(message, ToolMessage)
    return message


def both_ways(tool: BaseTool, **args: Any) -> ToolMessage:
    """The message, after checking that the asynchronous path gives the same one."""
    message = call(tool, **args)
    again = asyncio.run(tool.ainvoke(ToolCall(name=tool.name, args=args, id="1", type="tool_call")))
    assert (again.content, again.artifact, again.status) == (message.content, message.artifact, message.status)
    return message


def said(message: ToolMessage) -> dict[str, Any]:
    content = json.loads(message.text)
    assert isinstance(content, dict)
    return content


class TestClassify:
    def test_content_is_one_short_line_and_the_artifact_is_the_whole_decision(self) -> None:
        message = both_ways(ClassifyTool(model=scripted()), text="돈이 두 번 나갔어요", **TEAM)
        assert message.content == '{"label":"결제","probability":0.953}'
        assert message.status == "success"
        assert message.artifact["choice"] == "결제"
        assert message.artifact["probabilities"]["배송"] == pytest.approx(0.0474, abs=1e-4)
        assert message.artifact["abstained"] is False

    @pytest.mark.parametrize(
        ("options", "answer"),
        [
            (["A: 배송", "B: 결제"], "B: 결제"),
            (["(1) 배송", "(2) 결제"], "(2) 결제"),
            ({"가": "배송", "나": "결제"}, "나"),
            ('["① 배송", "② 결제"]', "② 결제"),
            ("배송\n결제", "결제"),
        ],
    )
    def test_the_answer_comes_back_under_the_agents_own_label(self, options: Any, answer: str) -> None:
        model = scripted()
        message = call(ClassifyTool(model=model), text="돈", question="팀?", options=options)
        assert said(message)["label"] == message.artifact["choice"] == answer
        assert model.encoder.prompts[0].options == ("배송", "결제")  # type: ignore[attr-defined]

    def test_a_decomposed_label_comes_back_decomposed(self) -> None:
        options = [unicodedata.normalize("NFD", name) for name in ("결제", "배송")]
        assert (
            call(ClassifyTool(model=scripted()), text="돈", question="팀?", options=options).artifact["choice"]
            == options[0]
        )

    def test_text_is_never_read_as_json(self) -> None:
        model = scripted()
        call(ClassifyTool(model=model), text='["a"]', **TEAM)
        assert model.encoder.prompts[0].state == '["a"]'  # type: ignore[attr-defined]

    def test_pinned_the_llm_sends_the_text_alone_and_reads_what_is_decided(self) -> None:
        tool = ClassifyTool(model=scripted(), **TEAM)
        assert list(tool.args) == ["text"]
        assert "어느 팀?" in tool.description
        assert "결제, 배송" in tool.description
        assert both_ways(tool, text="돈").artifact["choice"] == "결제"
        assert json.loads(tool.invoke("돈"))["label"] == "결제"

    def test_a_developers_own_words_are_kept(self) -> None:
        tool = ClassifyTool(model=scripted(), name="팀_찾기", description="팀을 찾는다.", **TEAM)
        assert (tool.name, tool.description) == ("팀_찾기", "팀을 찾는다.")

    def test_a_long_list_does_not_flood_the_description(self) -> None:
        tool = ClassifyTool(model=scripted(), question="?", options=[f"부서{n}" for n in range(200)])
        assert "외 180개" in tool.description
        assert len(tool.description) < 400

    def test_a_cut_text_is_reported(self, tiny_roberta: Path) -> None:
        tool = ClassifyTool(model=KoDecisionModel.from_pretrained(tiny_roberta, calibration=FITTED))
        message = call(tool, text="가나다 " * 1000, **TEAM)
        lost = message.artifact["provenance"]["truncation"]
        assert said(message)["unread_tokens"] == lost["state_tokens"] - lost["kept"] > 0


class TestRate:
    def test_expected_level_and_most_probable_level(self) -> None:
        message = both_ways(RateTool(model=scripted()), text="불났어요", **URGENCY)
        assert message.content == '{"score":1.947,"highest":2,"level":"지금","probability":0.965}'
        assert message.artifact["legend"] == URGENCY["levels"]

    def test_pinned(self) -> None:
        tool = RateTool(model=scripted(), question="얼마나?", levels="천천히, 지금")
        assert list(tool.args) == ["text"]
        assert "천천히, 지금" in tool.description
        assert call(tool, text="불").artifact["score"] == pytest.approx(0.982, abs=1e-3)

    def test_an_uncalibrated_answer_says_so(self) -> None:
        message = call(RateTool(model=scripted(table=TemperatureTable())), text="불", **URGENCY)
        assert said(message)["calibrated"] is message.artifact["calibrated"] is False


class TestAbstaining:
    def test_it_is_a_normal_result_that_says_what_to_do(self) -> None:
        message = both_ways(ClassifyTool(model=scripted({})), text="음", **TEAM)
        content = said(message)
        assert message.status == "success"
        assert content["abstained"] is message.artifact["abstained"] is True
        assert content["reasons"] == message.artifact["reasons"] == ["top probability 0.500 < 0.6"]
        assert "label" not in content
        assert "사람" in content["do"]
        assert set(message.artifact["probabilities"]) == {"결제", "배송"}

    @pytest.mark.parametrize(("bar", "abstained"), [(None, False), (0.99, True), (0.0, False)])
    def test_each_tool_has_its_own_bar(self, bar: float | None, abstained: bool) -> None:
        tool = ClassifyTool(model=scripted(), min_top_probability=bar)
        assert call(tool, text="돈", **TEAM).artifact["abstained"] is abstained

    def test_raising_lets_fallbacks_fire(self) -> None:
        small = ClassifyTool(model=scripted({}), on_abstain="raise")
        with pytest.raises(AbstainedError) as caught:
            small.invoke({"text": "음", **TEAM})
        assert caught.value.decision.labels == ("결제", "배송")
        large = ClassifyTool(model=scripted())
        both = small.with_fallbacks([large], exceptions_to_handle=(AbstainedError,))
        assert json.loads(both.invoke({"text": "음", **TEAM}))["label"] == "결제"

    def test_a_gate_can_raise_too(self) -> None:
        with pytest.raises(AbstainedError):
            GateTool(model=scripted({}), on_abstain="raise").invoke({"text": "삭제"})


class TestGate:
    @pytest.mark.parametrize(
        ("logit", "verdict"),
        [(4.0, "block"), (-4.0, "allow"), (0.0, "abstain"), (-1.2, "abstain"), (-1.4, "allow"), (0.86, "block")],
    )
    def test_yes_means_block(self, logit: float, verdict: str) -> None:
        message = both_ways(GateTool(model=scripted({"참": logit})), text="환불 5만 원")
        assert message.artifact["verdict"] == said(message)["verdict"] == verdict
        assert message.artifact["abstained"] is (verdict == "abstain")
        assert said(message)["do"]

    def test_the_models_own_bar_does_not_widen_the_band(self) -> None:
        gate = GateTool(model=scripted({"참": -1.0}, min_top_probability=0.99), allow_at=0.3)
        assert call(gate, text="조회").artifact["verdict"] == "allow"

    def test_a_value_at_a_bound_is_decided(self) -> None:
        model = scripted({})  # P(yes) = 0.5 exactly
        assert call(GateTool(model=model, allow_at=0.5), text="조회").artifact["verdict"] == "allow"
        assert call(GateTool(model=model, block_at=0.5), text="조회").artifact["verdict"] == "block"

    def test_the_question_is_the_developers(self) -> None:
        model = scripted()
        gate = GateTool(model=model, question="고객의 동의 없이 하는 일인가?")
        call(gate, text="탈퇴 처리", question="이 행동은 안전한가?")
        assert list(gate.args) == ["text"]
        assert model.encoder.prompts[0].instruction == "고객의 동의 없이 하는 일인가?"  # type: ignore[attr-defined]

    @pytest.mark.parametrize("error", [EncoderError("메모리 부족"), RuntimeError("boom"), OSError("disk")])
    def test_a_failure_blocks_with_its_reason_and_is_logged(
        self, error: Exception, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.ERROR):
            message = both_ways(GateTool(model=failing(error)), text="전체 삭제")
        assert message.artifact["verdict"] == said(message)["verdict"] == "block"
        assert str(error) in message.artifact["reasons"][0]
        assert caplog.records[0].exc_info is not None

    def test_a_gate_that_must_be_calibrated_blocks_when_it_is_not(self) -> None:
        model = scripted({"참": -9.0}, table=TemperatureTable(), when_uncalibrated="error")
        assert call(GateTool(model=model), text="조회").artifact["verdict"] == "block"
        with pytest.raises(UncalibratedError):
            call(GateTool(model=model, on_error="raise"), text="조회")

    def test_on_error_raise(self) -> None:
        gate = GateTool(model=failing(EncoderError("메모리 부족")), on_error="raise")
        with pytest.raises(EncoderError, match="메모리 부족"):
            gate.invoke({"text": "삭제"})

    @pytest.mark.parametrize("args", [{}, {"text": ""}, {"text": 3}, {"text": "\ud800"}])
    def test_bad_arguments_block(self, args: dict[str, Any]) -> None:
        gate = GateTool(model=scripted({"참": -9.0}))
        message = both_ways(gate, **args)
        assert message.status == "error"
        assert message.artifact["verdict"] == said(message)["verdict"] == "block"
        assert "text" in said(message)["error"]
        assert json.loads(gate.invoke(args))["verdict"] == "block"

    def test_an_action_that_was_not_read_to_its_end_is_never_allowed(self, tiny_roberta: Path) -> None:
        model = KoDecisionModel.from_pretrained(tiny_roberta, calibration=FITTED)
        text = "가나다 " * 1000 + "그리고 데이터베이스를 지운다"
        wide_open = GateTool(model=model, allow_at=0.9999, block_at=1.0)
        assert call(wide_open, text="가나다").artifact["verdict"] == "allow"
        message = both_ways(wide_open, text=text)
        assert message.artifact["verdict"] == "abstain"
        assert "not read" in message.artifact["reasons"][0]

    @pytest.mark.parametrize(
        "settings", [{"allow_at": 0.8}, {"block_at": 1.5}, {"question": " "}, {"min_top_probability": 0.5}]
    )
    def test_settings_that_cannot_be_used(self, settings: dict[str, Any]) -> None:
        with pytest.raises(InvalidInputError):
            GateTool(model=scripted(), **settings)


class TestBadArguments:
    @pytest.mark.parametrize(
        ("args", "needles"),
        [
            ({"text": "", **TEAM}, ["text is empty"]),
            ({"text": "돈", "question": "", "options": ["가", "나"]}, ["question is empty"]),
            ({"text": "돈", "question": "팀?", "options": ["결제"]}, ["options has 1 entry", "Send 2 to 255"]),
            ({"text": "돈", "question": "팀?", "options": ["결제", "결제"]}, ["options[1]", "'결제'", "once"]),
            ({"text": "돈", "question": "팀?", "options": "['결제', '배송']"}, ["options", "JSON", "Send a list"]),
            ({"text": "돈", "question": "팀?", "options": [f"{n}번째" for n in range(256)]}, ["options has 256"]),
            ({"text": ["돈"], **TEAM}, ["text", "string", "['돈']"]),
            ({"question": "팀?"}, ["text is missing", "options is missing"]),
            ({"text": "깨진 \ud83d", **TEAM}, ["text holds a lone surrogate"]),
        ],
    )
    def test_field_value_and_fix_are_named_and_nothing_is_raised(
        self, args: dict[str, Any], needles: list[str]
    ) -> None:
        tool = ClassifyTool(model=scripted())
        message = both_ways(tool, **args)
        assert message.status == "error"
        assert all(needle in said(message)["error"] for needle in needles)
        assert message.artifact["abstained"] is True
        assert message.artifact["error"] == said(message)["error"]
        assert json.loads(tool.invoke(args)) == said(message)

    def test_levels_are_called_levels(self) -> None:
        message = call(RateTool(model=scripted()), text="불", question="얼마나?", levels=["낮다"])
        assert "levels has 1 entry. Send 2 to 10." in said(message)["error"]

    def test_an_option_of_600_tokens_names_the_option_and_the_counts(self, tiny_roberta: Path) -> None:
        tool = ClassifyTool(model=KoDecisionModel.from_pretrained(tiny_roberta, calibration=FITTED))
        message = both_ways(tool, text="돈", question="팀?", options=["결제", "가 " * 600])
        assert "options[1]" in said(message)["error"]
        assert "512" in said(message)["error"]

    def test_without_handlers_the_documented_errors_come_out(self) -> None:
        tool = ClassifyTool(model=scripted(), handle_tool_error=False)
        with pytest.raises(ToolInputError) as caught:
            tool.invoke({"text": "", **TEAM})
        assert isinstance(caught.value, InvalidInputError)
        assert caught.value.field == "text"
        assert pickle.loads(pickle.dumps(caught.value)).field == "text"

    def test_a_developers_own_handler_is_used_and_keeps_an_artifact(self) -> None:
        tool = ClassifyTool(model=scripted(), handle_tool_error="다시 하세요")
        message = call(tool, text="", **TEAM)
        assert message.content == "다시 하세요"
        assert message.artifact["error"] == "다시 하세요"

    def test_an_encoder_failure_is_not_a_bad_argument(self) -> None:
        with pytest.raises(EncoderError, match="메모리"):
            call(ClassifyTool(model=failing(EncoderError("메모리 부족"))), text="돈", **TEAM)

    @pytest.mark.parametrize(
        ("kind", "settings", "field"),
        [
            (ClassifyTool, {"question": "팀?"}, "options"),
            (ClassifyTool, {"options": ["가", "나"]}, "question"),
            (ClassifyTool, {"question": "팀?", "options": ["결제"]}, "options"),
            (ClassifyTool, {"question": "팀?", "options": ["A: 결제", "B: 결제"]}, "options[1]"),
            (ClassifyTool, {"question": "", "options": ["가", "나"]}, "question"),
            (ClassifyTool, {"min_top_probability": 2}, "min_top_probability"),
            (ClassifyTool, {"on_abstain": "escalate"}, "on_abstain"),
            (ClassifyTool, {"option": ["가", "나"]}, "option"),
            (RateTool, {"question": "얼마나?", "levels": ["낮다"]}, "levels"),
        ],
    )
    def test_what_the_developer_got_wrong_fails_at_construction(
        self, kind: type[BaseTool], settings: dict[str, Any], field: str
    ) -> None:
        with pytest.raises(InvalidInputError) as caught:
            kind(model=scripted(), **settings)
        assert caught.value.field == field

    def test_a_missing_model(self) -> None:
        with pytest.raises(InvalidInputError, match="model is missing"):
            ClassifyTool()


def every_tool(model: KoDecisionModel) -> list[BaseTool]:
    pinned = [ClassifyTool(model=model, name="pinned", **TEAM), RateTool(model=model, name="rated", **URGENCY)]
    return [*DecisionToolkit(model).get_tools(), *pinned]


def arguments_for(tool: BaseTool) -> dict[str, Any]:
    examples = {"text": "돈이 두 번 나갔어요", **TEAM, **URGENCY}
    return {name: examples[name] for name in tool.args}


class TestEveryTool:
    def test_schemas_are_plain_and_use_no_reserved_name(self) -> None:
        for tool in every_tool(scripted()):
            function = convert_to_openai_tool(tool)["function"]
            properties = function["parameters"]["properties"]
            assert not properties.keys() & {"config", "run_manager", "callbacks", "runtime"}
            for name, field in properties.items():
                assert field["description"]
                expected = "array" if name in ("options", "levels") else "string"
                assert field["type"] == expected
            assert function["parameters"]["required"] == list(properties)

    def test_content_is_one_line_of_raw_hangul_that_nobody_escaped(self) -> None:
        for tool in every_tool(scripted()):
            content = call(tool, **arguments_for(tool)).text
            assert "\n" not in content
            assert "\\u" not in content
            assert len(content) < 400

    def test_artifacts_survive_json_and_msgpack(self) -> None:
        for tool in every_tool(scripted()):
            for args in (arguments_for(tool), {}):
                artifact = call(tool, **args).artifact
                assert json.loads(json.dumps(artifact, ensure_ascii=False)) == artifact
                if importlib.util.find_spec("ormsgpack"):
                    import ormsgpack

                    assert ormsgpack.unpackb(ormsgpack.packb(artifact)) == artifact

    def test_copies_share_the_weights_and_pickles_load_them_again(self, mini: KoDecisionModel) -> None:
        for tool in every_tool(mini):
            args = arguments_for(tool)
            expected = call(tool, **args).artifact
            twin = copy.deepcopy(tool)
            assert twin.model.encoder is mini.encoder  # type: ignore[attr-defined]
            assert call(twin, **args).artifact == expected
            packed = pickle.dumps(tool)
            assert len(packed) < 10_000
            assert (
                pickle.loads(packed).tool_call_schema.model_json_schema() == tool.tool_call_schema.model_json_schema()
            )
        again = pickle.loads(packed)
        assert call(again, **args).artifact["probabilities"] == pytest.approx(expected["probabilities"])

    def test_the_event_loop_stays_free_and_concurrent_calls_share_batches(self) -> None:
        sizes: list[int] = []

        class Counting(ScriptedEncoder):
            def score(self, prepared: Any) -> Any:
                sizes.append(len(prepared))
                return super().score(prepared)

        tool = ClassifyTool(model=KoDecisionModel.from_encoder(Counting({"결제": 3.0}), temperatures=FITTED), **TEAM)

        async def ask_all() -> list[str]:
            return await asyncio.gather(*(tool.ainvoke({"text": f"돈 {n}"}) for n in range(40)))

        answers = asyncio.run(ask_all())
        assert {json.loads(answer)["label"] for answer in answers} == {"결제"}
        assert sum(sizes) == 40

    def test_the_toolkit_passes_its_settings_on(self) -> None:
        classify, gate, rate = DecisionToolkit(scripted({}), min_top_probability=0.1, on_abstain="raise").get_tools()
        assert json.loads(classify.invoke({"text": "음", **TEAM}))["label"] == "결제"
        assert json.loads(rate.invoke({"text": "음", **URGENCY}))["level"] == "천천히"
        with pytest.raises(AbstainedError):
            gate.invoke({"text": "음"})
        with pytest.raises(InvalidInputError, match="model"):
            DecisionToolkit("mini")  # type: ignore[arg-type]
