"""``KoDecisionModel``: LangChain's surface, many callers, thresholds, copies and pickles."""

from __future__ import annotations

import asyncio
import copy
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables import RunnableLambda

from ko_decision_tools import (
    CalibrationError,
    Choice,
    EncoderError,
    InvalidInputError,
    KoDecisionModel,
    MinMargin,
    Noul,
    Score,
    ScriptedEncoder,
    TemperatureTable,
    UncalibratedError,
    loading,
)

TEAM = Choice(instructions="어느 팀?", criteria={"결제": "환불", "배송": "지연"})
REFUND = Noul(instructions="환불을 원하는가?")
URGENT = Score(instructions="급한가?", criteria=["아니다", "그렇다"])


def scripted(script: Any = None, **settings: Any) -> KoDecisionModel:
    return KoDecisionModel.from_encoder(ScriptedEncoder(script or {"결제": 2.0, "참": 1.0}), **settings)


def test_invoke_answers_every_question_with_usage() -> None:
    response = scripted().invoke({"state": "돈", "questions": {"팀": TEAM, "환불": REFUND, "급함": URGENT}})
    assert response.choices["팀"].choice == "결제"
    assert response.nouls["환불"].noul == pytest.approx(0.731, abs=1e-3)
    assert response.scores["급함"].score == pytest.approx(0.5)
    assert response.usage is not None
    assert response.usage["input_tokens"] > 0


def test_raw_json_questions_are_validated_and_answered() -> None:
    questions: Any = {"q": {"type": "noul", "instructions": "환불?"}}
    assert "q" in scripted().invoke({"state": "돈", "questions": questions}).nouls
    bad: Any = {"q": {"type": "noul"}}
    with pytest.raises(InvalidInputError, match=r"questions\.q\.instructions"):
        scripted().invoke({"state": "돈", "questions": bad})


def test_no_questions_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="non-empty"):
        scripted().invoke({"state": "돈", "questions": {}})


def test_batch_is_one_plan_over_all_requests() -> None:
    calls: list[int] = []

    class Counting(ScriptedEncoder):
        def score(self, prepared: Any) -> Any:
            calls.append(len(prepared))
            return super().score(prepared)

    model = KoDecisionModel.from_encoder(Counting({"결제": 2.0}))
    responses = model.batch([{"state": f"글 {i}", "questions": {"팀": TEAM, "환불": REFUND}} for i in range(5)])
    assert calls == [10]
    assert [response.choices["팀"].choice for response in responses] == ["결제"] * 5


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_bad_request_in_a_batch_gets_its_own_error(asynchronous: bool) -> None:
    requests: Any = [
        {"state": "글", "questions": {"팀": TEAM}},
        {"state": "", "questions": {"팀": TEAM}},
        {"state": "글", "questions": {"팀": TEAM}},
    ]
    model = scripted()
    if asynchronous:
        got = await model.abatch(requests, return_exceptions=True)
    else:
        got = model.batch(requests, return_exceptions=True)
    assert isinstance(got[1], InvalidInputError)
    assert [got[0].choices["팀"].choice, got[2].choices["팀"].choice] == ["결제", "결제"]
    with pytest.raises(InvalidInputError, match="state is empty"):
        model.batch(requests)


async def test_ainvoke_equals_invoke() -> None:
    request: Any = {"state": "돈", "questions": {"팀": TEAM, "환불": REFUND}}
    model = scripted()
    assert await model.ainvoke(request) == model.invoke(request)


def test_runs_nest_and_say_who_answered() -> None:
    seen: list[tuple[str, Any, dict[str, Any]]] = []

    class Spy(BaseCallbackHandler):
        def on_chain_start(self, serialized: Any, inputs: Any, **kwargs: Any) -> None:
            seen.append((kwargs.get("name") or "", kwargs.get("parent_run_id"), kwargs.get("metadata") or {}))

        def on_llm_start(self, serialized: Any, prompts: Any, **kwargs: Any) -> None:
            seen.append(("llm", kwargs.get("parent_run_id"), kwargs.get("metadata") or {}))

    chain = RunnableLambda(lambda text: {"state": text, "questions": {"팀": TEAM}}) | scripted()
    chain.invoke("돈", config={"callbacks": [Spy()]})
    children = [entry for entry in seen if entry[1] is not None]
    assert any(metadata.get("ls_provider") == "ko_decision_tools" for _, _, metadata in children)


# -- thresholds --------------------------------------------------------------------------------------------------------


def test_a_calls_threshold_wins_over_the_models() -> None:
    model = scripted({"결제": 1.0}, min_top_probability=0.9)  # top probability 0.731
    assert model.decide("돈", TEAM).abstained
    assert not model.decide("돈", TEAM, min_top_probability=0.7).abstained
    assert model.decide("돈", TEAM, min_top_probability=0.7, policy=MinMargin(0.9)).reasons == ("margin 0.462 < 0.9",)


def test_the_models_policy_also_has_to_accept() -> None:
    model = scripted({"결제": 1.0}, policy=MinMargin(0.9))
    assert model.decide("돈", TEAM).abstained
    assert not model.decide("돈", TEAM, policy=None).abstained


def test_when_uncalibrated() -> None:
    assert not scripted().decide("돈", TEAM).calibrated
    assert scripted(when_uncalibrated="abstain").decide("돈", TEAM).abstained
    with pytest.raises(UncalibratedError):
        scripted(when_uncalibrated="error").decide("돈", TEAM)
    table = TemperatureTable(by_type={"choice": 2.0})
    assert not scripted(when_uncalibrated="error", temperatures=table).decide("돈", TEAM).abstained


def test_an_unknown_option_or_setting_is_refused() -> None:
    with pytest.raises(TypeError, match="'threshold'"):
        scripted().decide("돈", TEAM, threshold=0.5)
    with pytest.raises(InvalidInputError, match=r"min_top_probability is not a probability: 1\.5"):
        KoDecisionModel(min_top_probability=1.5)
    with pytest.raises(InvalidInputError, match=r"treshold is not usable \(extra inputs"):
        KoDecisionModel(treshold=0.5)


def test_decide_many_takes_one_question_or_one_each() -> None:
    model = scripted()
    assert [d.kind for d in model.decide_many(["가", "나"], TEAM)] == ["choice", "choice"]
    assert [d.kind for d in model.decide_many(["가", "나"], [TEAM, REFUND])] == ["choice", "noul"]
    assert model.decide_many([], TEAM) == []
    with pytest.raises(InvalidInputError, match="has 1 entries for 2 states"):
        model.decide_many(["가", "나"], [TEAM])


# -- failures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [[1.0], [1.0, 2.0, 3.0], [float("nan"), 0.0], [float("inf"), 0.0]])
def test_a_broken_encoder_is_an_error_never_an_answer(answer: list[float]) -> None:
    with pytest.raises(EncoderError):
        scripted(lambda prompt: answer).decide("돈", TEAM)


async def test_a_broken_encoder_reaches_every_asynchronous_caller() -> None:
    def fail(prompt: Any) -> Any:
        raise EncoderError("no")

    model = scripted(fail)
    results = await asyncio.gather(*(model.adecide("돈", TEAM) for _ in range(8)), return_exceptions=True)
    assert all(isinstance(result, EncoderError) for result in results)


# -- many callers ------------------------------------------------------------------------------------------------------


async def test_the_event_loop_stays_free_while_a_slow_encoder_runs() -> None:
    release = threading.Event()

    def slow(prompt: Any) -> Any:
        assert release.wait(timeout=30)
        return [1.0, 0.0]

    task = asyncio.create_task(scripted(slow).adecide("돈", TEAM))
    for _ in range(20):  # the loop turns while the encoder is stuck; it would hang here otherwise
        await asyncio.sleep(0.001)
    assert not task.done()
    release.set()
    assert (await task).choice == "결제"


async def test_concurrent_callers_share_forward_passes() -> None:
    batches: list[int] = []
    release = threading.Event()

    class Counting(ScriptedEncoder):
        def score(self, prepared: Any) -> Any:
            batches.append(len(prepared))
            assert release.wait(timeout=30)
            return super().score(prepared)

    model = KoDecisionModel.from_encoder(Counting({"결제": 2.0}))
    tasks = [asyncio.create_task(model.adecide(f"글 {i}", TEAM)) for i in range(32)]
    await asyncio.sleep(0.3)  # let them queue behind the first
    release.set()
    assert len(await asyncio.gather(*tasks)) == 32
    assert sum(batches) == 32
    assert len(batches) < 32


def test_twenty_first_calls_load_once(tiny_roberta: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[float] = []
    resolve = loading.resolve_checkpoint

    def counting(*args: Any, **kwargs: Any) -> Any:
        loads.append(time.monotonic())
        time.sleep(0.05)
        return resolve(*args, **kwargs)

    monkeypatch.setattr(loading, "resolve_checkpoint", counting)
    model = KoDecisionModel(model=str(tiny_roberta), calibration=TemperatureTable(by_type={"choice": 2.0}))
    assert loads == []
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: model.decide("돈", TEAM).probabilities_in_order, range(20)))
    assert len(loads) == 1
    assert all(answer == pytest.approx(answers[0], abs=1e-6) for answer in answers)


# -- calibration and copies --------------------------------------------------------------------------------------------


def test_a_checkpoint_without_temperatures_says_so_once(tiny_roberta: Path) -> None:
    model = KoDecisionModel(model=str(tiny_roberta))
    with pytest.warns(loading.CalibrationWarning, match="ko-decision fit"):
        model.decide("돈", TEAM)
    decision = model.decide("돈", TEAM)  # a second warning would fail the test
    assert (decision.calibrated, decision.provenance.temperature) == (False, 1.0)


def test_a_calibration_file_is_used_and_a_foreign_one_refused(tiny_roberta: Path, tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    path.write_text('{"temperatures": {"내 일": 3.0}, "checkpoint": "other"}', encoding="utf-8")
    with pytest.raises(CalibrationError, match="fitted on checkpoint other"):
        KoDecisionModel.from_pretrained(tiny_roberta, calibration=path)
    model = KoDecisionModel.from_pretrained(tiny_roberta, calibration=path, allow_foreign_calibration=True)
    decision = model.decide("돈", TEAM, task="내 일")
    assert (decision.provenance.temperature, decision.calibrated) == (3.0, True)


def test_copies_share_the_weights_and_pickles_leave_them_behind(tiny_roberta: Path) -> None:
    table = TemperatureTable(by_type={"choice": 2.0})
    model = KoDecisionModel.from_pretrained(tiny_roberta, calibration=table, min_top_probability=0.3)
    assert copy.deepcopy(model).encoder is model.encoder
    assert model.model_copy(update={"min_top_probability": 0.9}).encoder is model.encoder
    packed = pickle.dumps(model)
    assert len(packed) < 5_000
    again = pickle.loads(packed)
    assert again.min_top_probability == 0.3
    assert again.decide("돈", TEAM).probabilities == pytest.approx(model.decide("돈", TEAM).probabilities)


def test_plan_counts_without_scoring() -> None:
    encoder = ScriptedEncoder(lambda prompt: pytest.fail("scored"))
    plan = KoDecisionModel.from_encoder(encoder).plan("돈을 돌려주세요", TEAM)
    assert plan.pairs == 2
    assert plan.tokens == sum(map(len, plan.rows))
