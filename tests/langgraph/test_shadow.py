"""``Shadow``: today's answer always comes back, whatever the model beside it does; going live; the kill switch."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langgraph.graph import END, START, MessagesState, StateGraph

from ko_decision_langgraph.accounting import Accounting
from ko_decision_langgraph.background import Background
from ko_decision_langgraph.kill_switch import VARIABLE
from ko_decision_langgraph.shadow import Shadow
from ko_decision_langgraph.shadow_log import OTHER
from ko_decision_tools import Choice, InvalidInputError, Noul
from ko_decision_tools.evaluation.shadow import read_shadow_log, shadow_report
from tests.langgraph.desk_stand_ins import JSON_TYPES, PATIENCE, Held, Runs, desk, scripted
from tests.langgraph.gate_stand_ins import RecordingChat, types_within

BOTH = pytest.mark.parametrize("how", ["invoke", "ainvoke"])


class Today:
    """Today's router: everything is billing, and it counts."""

    def __init__(self, answer: Any = "결제") -> None:
        self.asked: list[Any] = []
        self.answer = answer

    def __call__(self, value: Any) -> Any:
        self.asked.append(value)
        return self.answer


def ask(shadow: Shadow, value: Any, how: str = "invoke", config: Any = None) -> Any:
    return shadow.invoke(value, config) if how == "invoke" else asyncio.run(shadow.ainvoke(value, config))


def shadowing(today: Any = None, **settings: Any) -> tuple[Shadow, list[dict[str, Any]], Any]:
    """A shadow over a scripted router, its records, and the router's encoder."""
    records: list[dict[str, Any]] = []
    router, encoder = desk()
    settings = {"log": records.append} | settings
    return Shadow(settings.pop("judge", router), today or Today(), **settings), records, encoder


class TestListening:
    @BOTH
    def test_todays_answer_comes_back_and_both_are_logged(self, how: str) -> None:
        today = Today()
        shadow, records, _ = shadowing(today)
        with shadow:
            assert [ask(shadow, text, how) for text in ("배송이 늦어요", "결제 문의", "점심")] == ["결제"] * 3
        assert len(today.asked) == 3
        assert [(each["today"], each["guess"], each["abstained"]) for each in records] == [
            ("결제", "배송", False),
            ("결제", "결제", False),
            ("결제", "배송", True),
        ]
        first = records[0]
        assert (first["mode"], first["route"], first["error"]) == ("shadow", "배송", None)
        assert first["probabilities"]["배송"] == first["top_probability"] > 0.9
        assert first["today_ms"] >= 0
        assert first["judge_ms"] >= 0
        assert "top probability" in records[2]["reasons"][0]

    def test_the_file_has_one_json_line_per_answer_that_the_report_reads(self, tmp_path: Path) -> None:
        log = tmp_path / "shadow.jsonl"
        for _ in range(2):  # a second process appends
            shadow, _, _ = shadowing(log=log)
            with shadow:
                ask(shadow, "배송이 늦어요")
                ask(shadow, "결제 문의")
        lines = log.read_text(encoding="utf-8").splitlines()
        assert len(lines) == 4
        assert "배송" in lines[0]  # raw Hangul
        assert all(types_within(json.loads(line)) <= JSON_TYPES for line in lines)
        rows, broken = read_shadow_log(lines, "log")
        assert (broken, shadow_report(rows).current.agreement) == (0, 0.5)

    @BOTH
    def test_a_slow_model_keeps_nobody_waiting(self, how: str) -> None:
        held = Held()
        model, _ = scripted(held)
        question = Choice(instructions="어느 팀?", criteria={"배송": None, "결제": None})
        shadow, records, _ = shadowing(judge=model, question=question)
        with shadow:
            assert ask(shadow, "배송", how) == "결제"
            assert records == []  # the model is still at it
            held.release()
        assert records[0]["guess"] == "배송"

    @BOTH
    @pytest.mark.parametrize(
        "settings",
        [
            {"log": lambda record: 1 / 0},
            {"as_label": lambda answer: answer["no such key"]},
        ],
    )
    def test_whatever_breaks_disturbs_nobody_and_is_logged(
        self, how: str, settings: dict[str, Any], caplog: pytest.LogCaptureFixture
    ) -> None:
        shadow, records, _ = shadowing(**settings)
        with shadow:
            assert ask(shadow, "배송", how) == "결제"
        assert any(record.exc_info for record in caplog.records)
        assert [each["guess"] for each in records] == (["배송"] if "as_label" in settings else [])

    @BOTH
    @pytest.mark.parametrize("text", ["폭탄", "", "깨진 \ud83d"])
    def test_what_cannot_be_judged_is_logged_as_that(self, how: str, text: str) -> None:
        shadow, records, _ = shadowing()
        with shadow:
            assert ask(shadow, text, how) == "결제"
        assert (records[0]["today"], records[0]["guess"], records[0]["abstained"]) == ("결제", None, True)
        assert records[0]["reasons"] == ["could not be judged"]

    @BOTH
    def test_a_model_that_raises_is_named(self, how: str) -> None:
        model, _ = scripted()
        shadow, records, _ = shadowing(judge=model, question=Noul(instructions="환불을 원하는가?"))
        with shadow:
            assert ask(shadow, "폭탄", how) == "결제"
        assert (records[0]["error"], records[0]["guess"]) == ("EncoderError", None)

    @BOTH
    def test_todays_own_failure_is_todays(self, how: str) -> None:
        def fail(_: Any) -> None:
            raise ConnectionError("LLM이 꺼져 있음")

        shadow, records, encoder = shadowing(fail)
        with shadow, pytest.raises(ConnectionError):
            ask(shadow, "배송", how)
        assert records == encoder.prompts == []

    def test_a_full_queue_drops_instead_of_waiting(self, caplog: pytest.LogCaptureFixture) -> None:
        held = Held()
        model, _ = scripted(held)
        question = Choice(instructions="어느 팀?", criteria={"배송": None, "결제": None})
        shadow, records, _ = shadowing(judge=model, question=question, max_waiting=2)
        with shadow:
            assert [ask(shadow, "배송") for _ in range(5)] == ["결제"] * 5
            assert shadow.dropped == 3
            held.release()
        assert len(records) == 2
        assert "dropped" in caplog.text

    def test_after_closing_it_still_answers(self) -> None:
        shadow, records, _ = shadowing()
        shadow.close()
        shadow.close()
        assert ask(shadow, "배송") == "결제"
        assert (records, shadow.dropped) == ([], 1)

    def test_flush_waits_for_what_is_queued(self) -> None:
        shadow, records, _ = shadowing()
        ask(shadow, "배송")
        assert shadow.flush(PATIENCE)
        assert len(records) == 1
        held = Held()
        model, _ = scripted(held)
        slow, _, _ = shadowing(judge=model, question=Choice(instructions="?", criteria={"배송": None, "결제": None}))
        with slow:
            ask(slow, "배송")
            assert not slow.flush(0)
            held.release()

    def test_a_state_that_changes_afterwards_is_judged_as_it_was(self) -> None:
        held = Held()
        model, encoder = scripted(held)
        shadow, _, _ = shadowing(judge=model, question=Choice(instructions="?", criteria={"배송": None, "결제": None}))
        state = {"messages": [HumanMessage("배송이 늦어요")]}
        with shadow:
            ask(shadow, "결제")  # keeps the model busy, so that the state has to wait
            ask(shadow, state)
            state["messages"].append(HumanMessage("결제요"))
            held.release()
        assert [prompt.state for prompt in encoder.prompts] == ["결제", "배송이 늦어요"]


class TestWhatIsLogged:
    def test_no_customer_text_and_a_hash_that_can_be_joined(self) -> None:
        shadow, records, _ = shadowing(salt="비밀")
        with shadow:
            ask(shadow, "배송이 늦어요 010-1234-5678")
        assert "010" not in json.dumps(records, ensure_ascii=False)
        assert records[0]["id"] == hashlib.sha256("비밀배송이 늦어요 010-1234-5678".encode()).hexdigest()[:16]

    def test_the_hash_is_of_the_ticket_in_whatever_it_comes(self) -> None:
        shadow, records, _ = shadowing(salt="s")
        talk = [HumanMessage("배송"), AIMessage("네"), HumanMessage("배송이 늦어요")]
        with shadow:
            for value in ("배송이 늦어요", HumanMessage("배송이 늦어요"), talk, {"messages": talk, "other": 1}):
                ask(shadow, value)
        assert len({each["id"] for each in records}) == 1
        assert {each["guess"] for each in records} == {"배송"}

    def test_errors_do_not_quote_it_either(self) -> None:
        shadow, records, _ = shadowing()
        with shadow:
            ask(shadow, {"subject": "010-1234-5678"})
            ask(shadow, "010-1234-5678 \ud83d")
        assert "010" not in json.dumps(records)
        assert records[0]["id"] is None

    @pytest.mark.parametrize("asked", [False, True])
    def test_an_llm_that_chats_is_not_written_down_unless_asked(self, asked: bool) -> None:
        chat = RecordingChat(replies=[AIMessage("김민수 고객님은 배송 문의입니다"), AIMessage(" 배송 ")])
        shadow, records, _ = shadowing(chat, log_text=asked)
        with shadow:
            assert ask(shadow, "배송이 늦어요").text.startswith("김민수")
            assert ask(shadow, "배송이 늦어요").text == " 배송 "
        assert [each["today"] for each in records] == [
            "김민수 고객님은 배송 문의입니다" if asked else OTHER,
            "배송",
        ]
        assert [each.get("text") for each in records] == (["배송이 늦어요"] * 2 if asked else [None, None])

    def test_labels_are_read_as_told_and_in_any_composition(self) -> None:
        shadow, records, _ = shadowing(Today({"팀": unicodedata.normalize("NFD", "배송")}), as_label=lambda a: a["팀"])
        with shadow:
            ask(shadow, "배송")
        assert records[0]["today"] == "배송"

    def test_an_answer_that_is_no_label(self) -> None:
        shadow, records, _ = shadowing(Today({"팀": "배송"}))
        with shadow:
            ask(shadow, "배송")
        assert records[0]["today"] is None

    def test_a_yes_no_question_beside_a_rule(self) -> None:
        model, _ = scripted(lambda prompt: [0.0, 4.0])
        shadow, records, _ = shadowing(
            lambda text: "환불" in text, judge=model, question=Noul(instructions="환불을 원하는가?")
        )
        with shadow:
            assert ask(shadow, "돈 돌려줘요") is False
            assert ask(shadow, "환불해 주세요") is True
        assert [(each["today"], each["guess"]) for each in records] == [("false", "true"), ("true", "true")]


class TestGoingLive:
    @BOTH
    def test_sure_answers_save_the_call_and_the_rest_goes_to_today(self, how: str) -> None:
        today, accounting = Today(), Accounting()
        shadow, records, _ = shadowing(today, live=True, accounting=accounting)
        with shadow:
            answers = [ask(shadow, text, how) for text in ("배송이 늦어요", "점심", "폭탄")]
        assert answers == ["배송", "결제", "결제"]
        assert type(answers[0]) is str
        assert today.asked == ["점심", "폭탄"]
        assert [(each["mode"], each["today"], each["abstained"]) for each in records] == [
            ("live", None, False),
            ("live", "결제", True),
            ("live", "결제", True),
        ]
        counts = accounting.snapshot()
        assert (counts["decisions"], counts["llm_calls_avoided"], counts["escalations"]) == (2, 1, 2)

    def test_zero_llm_calls_where_it_is_sure(self) -> None:
        chat = RecordingChat(replies=[AIMessage("결제")])
        shadow, _, _ = shadowing(chat, live=True, as_answer=lambda result: AIMessage(result.route))
        with shadow:
            assert ask(shadow, "배송이 늦어요") == AIMessage("배송")
            assert chat.asked == []
            assert ask(shadow, "점심").text == "결제"
        assert len(chat.asked) == 1

    @BOTH
    def test_a_broken_conversion_takes_todays_path(self, how: str, caplog: pytest.LogCaptureFixture) -> None:
        shadow, records, _ = shadowing(live=True, as_answer=lambda result: 1 / 0)
        with shadow:
            assert ask(shadow, "배송", how) == "결제"
        assert records[0]["error"] == "ZeroDivisionError"
        assert caplog.records[0].exc_info

    def test_the_flag_is_read_per_call(self) -> None:
        flag = {"live": False}
        shadow, _, _ = shadowing(live=lambda: flag["live"])
        with shadow:
            assert ask(shadow, "배송") == "결제"
            flag["live"] = True
            assert shadow.live
            assert ask(shadow, "배송") == "배송"
            flag["live"] = False
            assert ask(shadow, "배송") == "결제"


@BOTH
@pytest.mark.parametrize("live", [False, True])
def test_the_kill_switch_leaves_today_alone(how: str, live: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    shadow, records, encoder = shadowing(live=live)
    with shadow:
        monkeypatch.setenv(VARIABLE, "1")
        assert ask(shadow, "배송", how) == "결제"
        assert shadow.flush(PATIENCE)
        assert records == encoder.prompts == []
        monkeypatch.delenv(VARIABLE)
        assert ask(shadow, "배송", how) == ("배송" if live else "결제")
    assert len(records) == 1


@pytest.mark.parametrize("live", [False, True])
async def test_the_loop_stays_free(live: bool) -> None:
    held = Held()
    model, _ = scripted(held)
    question = Choice(instructions="어느 팀?", criteria={"배송": None, "결제": None})
    shadow, records, _ = shadowing(judge=model, question=question, live=live)
    asking = asyncio.create_task(shadow.ainvoke("배송"))
    await held.until_asked()
    held.release()
    assert await asking == ("배송" if live else "결제")
    assert await asyncio.to_thread(shadow.flush, PATIENCE)
    assert len(records) == 1
    shadow.close()


class TestInAGraph:
    def graph(self, shadow: Shadow) -> Any:
        builder = StateGraph(MessagesState)
        builder.add_conditional_edges(START, shadow, ["배송", "결제"])
        for name in ("배송", "결제"):
            builder.add_node(name, lambda state, name=name: {"messages": [AIMessage(f"{name}팀")]})
            builder.add_edge(name, END)
        return builder.compile()

    @pytest.mark.parametrize(("live", "reached"), [(False, "결제팀"), (True, "배송팀")])
    async def test_as_a_conditional_edge(self, live: bool, reached: str) -> None:
        shadow, records, _ = shadowing(live=live)
        graph = self.graph(shadow)
        asked = {"messages": [HumanMessage("배송이 늦어요")]}
        with shadow:
            assert graph.invoke(asked)["messages"][-1].text == reached
            assert (await graph.ainvoke(asked))["messages"][-1].text == reached
        assert [each["guess"] for each in records] == ["배송", "배송"]

    @BOTH
    @pytest.mark.parametrize("live", [False, True])
    def test_the_routers_run_nests_even_from_another_thread_and_shows_no_text(self, how: str, live: bool) -> None:
        runs = Runs()
        shadow, _, _ = shadowing(live=live)
        config = {"callbacks": [runs], "run_name": "상담"}
        asked = {"messages": [HumanMessage("배송 비밀")]}
        graph = self.graph(shadow)
        with shadow:
            if how == "invoke":
                graph.invoke(asked, config)
            else:
                asyncio.run(graph.ainvoke(asked, config))
        assert runs.ancestors("DecisionRouter")[0] == "shadow"
        assert runs.ancestors("DecisionRouter")[-1] == "상담"
        assert "비밀" not in runs.inputs[runs.of("DecisionRouter")] + runs.inputs[runs.of("shadow")]

    def test_in_a_chain_and_over_one(self) -> None:
        shadow, records, _ = shadowing(RunnableLambda(lambda text: "결제") | str)
        with shadow:
            assert (shadow | (lambda team: f"{team}팀")).invoke("배송") == "결제팀"
            assert shadow.batch(["배송", "결제"]) == ["결제", "결제"]
        assert len(records) == 3


class TestConstruction:
    @pytest.mark.parametrize(
        ("make", "field"),
        [
            (lambda: Shadow(scripted()[0], Today(), log=print), "question"),
            (lambda: Shadow(desk()[0], Today(), log=print, question=Noul(instructions="?")), "question"),
            (lambda: Shadow(desk()[0], Today(), log=print, min_top_probability=0.5), "min_top_probability"),
            (lambda: Shadow(desk()[0], Today(), log="/no/such/folder/log.jsonl"), "log"),
            (lambda: Shadow(desk(escalate_to=str)[0], Today(), log=print), "router"),
        ],
    )
    def test_what_cannot_work_fails_at_once(self, make: Callable[[], Shadow], field: str) -> None:
        with pytest.raises(InvalidInputError) as caught:
            make()
        assert caught.value.field == field


def test_the_background_runs_in_order_in_the_callers_context() -> None:
    from contextvars import ContextVar

    colour: ContextVar[str] = ContextVar("colour", default="none")
    seen: list[tuple[int, str, str]] = []
    background = Background(10)
    for number, name in enumerate(("빨강", "파랑")):
        colour.set(name)
        background.submit(
            lambda number=number: seen.append((number, colour.get(), threading.current_thread().name))  # type: ignore[misc]
        )
    background.close()
    assert [each[:2] for each in seen] == [(0, "빨강"), (1, "파랑")]
    assert all("ko-decision-shadow" in each[2] for each in seen)
