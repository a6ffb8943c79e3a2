"""Where the gate meets people: interrupting and resuming, also in another process, and beside LangChain's approval."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AutoModeMiddleware, HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import ValidationError

from ko_decision_langgraph.gate import DecisionGateMiddleware, make_when
from ko_decision_langgraph.gate_people import GateOrderWarning
from ko_decision_tools.prompts import Prompt
from tests.langgraph.gate_stand_ins import RecordingChat, Refunds, calling, calls, judging, tool_messages

ASK = {"messages": [("user", "환불해 주세요")]}
APPROVE = {"type": "approve"}
REJECT = {"type": "reject", "message": "영수증이 없습니다"}
ROOT = Path(__file__).parents[2]


class Conversation:
    """One agent on one thread with a checkpointer."""

    def __init__(self, chat: RecordingChat, *middleware: Any, tools: Any = None) -> None:
        self.refunds = Refunds()
        self.chat = chat
        self.config: Any = {"configurable": {"thread_id": "1"}}
        self.agent = create_agent(
            chat, tools or [self.refunds.tool()], middleware=middleware, checkpointer=InMemorySaver()
        )

    def start(self) -> Any:
        return self.agent.invoke(ASK, self.config)

    def resume(self, answer: Any) -> Any:
        return self.agent.invoke(Command(resume=answer), self.config)

    async def astart(self) -> Any:
        return await self.agent.ainvoke(ASK, self.config)

    async def aresume(self, answer: Any) -> Any:
        return await self.agent.ainvoke(Command(resume=answer), self.config)


def gated(memo: str, **settings: Any) -> tuple[Conversation, list[Prompt]]:
    model, encoder = judging()
    return Conversation(calling(memo), DecisionGateMiddleware(model, ["refund"], **settings)), encoder.prompts


def hitl(gate: DecisionGateMiddleware | None = None, **settings: Any) -> HumanInTheLoopMiddleware[Any]:
    review: Any = {"allowed_decisions": ["approve", "edit", "reject"]}
    return HumanInTheLoopMiddleware({"refund": review | ({"when": make_when(gate)} if gate else {})}, **settings)


def edited(memo: str) -> dict[str, Any]:
    return {"type": "edit", "edited_action": {"name": "refund", "args": {"memo": memo}}}


class TestInterrupt:
    """Row 10: an interrupt in a tool hook runs the hook again on resume."""

    def test_unsure_asks_a_person_in_langchains_own_form(self) -> None:
        talk, _ = gated("애매")
        (interrupt,) = talk.start()["__interrupt__"]
        assert talk.refunds.done == []
        (action,) = interrupt.value["action_requests"]
        assert (action["name"], action["args"]) == ("refund", {"memo": "애매"})
        assert interrupt.value["review_configs"] == [
            {"action_name": "refund", "allowed_decisions": ["approve", "reject"]}
        ]
        assert interrupt.value["gate"]["p_block"] == pytest.approx(0.5)
        assert "lies between allow_at" in action["description"]

    @pytest.mark.parametrize("answer", [APPROVE, {"decisions": [APPROVE]}])
    def test_approved_runs_and_is_not_asked_again(self, answer: Any) -> None:
        talk, prompts = gated("애매")
        talk.start()
        talk.resume(answer)
        assert talk.refunds.done == ["애매"]
        assert len(prompts) == 1

    @pytest.mark.parametrize("answer", [REJECT, {"decisions": [REJECT]}])
    def test_rejected_does_not_run_and_tells_the_model_why(self, answer: Any) -> None:
        talk, prompts = gated("애매")
        talk.start()
        (message,) = tool_messages(talk.resume(answer))
        assert talk.refunds.done == []
        assert message.status == "error"
        assert "영수증이 없습니다" in message.text
        assert "Do not retry" in message.text
        assert len(prompts) == 1

    async def test_async(self) -> None:
        talk, prompts = gated("애매")
        await talk.astart()
        await talk.aresume(APPROVE)
        assert talk.refunds.done == ["애매"]
        assert len(prompts) == 1

    @pytest.mark.parametrize("answer", ["네", {"type": "edit"}, {"decisions": []}, {"decisions": [APPROVE, APPROVE]}])
    def test_an_answer_that_is_none_can_be_given_again(self, answer: Any) -> None:
        talk, _ = gated("애매")
        talk.start()
        with pytest.raises(ValidationError):
            talk.resume(answer)
        assert talk.refunds.done == []
        talk.resume(APPROVE)
        assert talk.refunds.done == ["애매"]

    def test_parallel_calls_wait_side_by_side_and_each_gets_its_own_answer(self) -> None:
        model, encoder = judging()
        chat = calling("애매 1", "정상", "애매 2")
        talk = Conversation(chat, DecisionGateMiddleware(model, ["refund"]))
        waiting = talk.start()["__interrupt__"]
        memo = {each.id: each.value["action_requests"][0]["args"]["memo"] for each in waiting}
        assert sorted(memo.values()) == ["애매 1", "애매 2"]
        talk.resume({key: APPROVE if value == "애매 2" else REJECT for key, value in memo.items()})
        assert sorted(talk.refunds.done) == ["애매 2", "정상"]
        assert len(encoder.prompts) == 3

    def test_several_gates_ask_in_turn(self) -> None:
        model, encoder = judging()
        gates = [DecisionGateMiddleware(model, ["refund"], name=name) for name in ("first", "second")]
        talk = Conversation(calling("애매"), *gates)
        (one,) = talk.start()["__interrupt__"]
        (two,) = talk.resume(APPROVE)["__interrupt__"]
        assert [one.value["gate"]["gate"], two.value["gate"]["gate"]] == ["first", "second"]
        assert talk.refunds.done == []
        talk.resume(APPROVE)
        assert talk.refunds.done == ["애매"]
        assert len(encoder.prompts) == 2

    def test_a_failure_may_ask_a_person(self) -> None:
        talk, _ = gated("폭탄", on_error="interrupt")
        (interrupt,) = talk.start()["__interrupt__"]
        assert "메모리 부족" in interrupt.value["action_requests"][0]["description"]
        talk.resume(APPROVE)
        assert talk.refunds.done == ["폭탄"]

    def test_a_verdict_does_not_flip_between_asking_and_resuming(self) -> None:
        answers = iter([[0.0, 0.0], [4.0, 0.0]])
        model, _ = judging(lambda prompt: next(answers))
        talk = Conversation(calling("환불"), DecisionGateMiddleware(model, ["refund"]))
        talk.start()
        talk.resume(REJECT)
        assert talk.refunds.done == []

    def test_without_a_checkpointer_nothing_runs(self) -> None:
        model, _ = judging()
        refunds = Refunds()
        agent = create_agent(calling("애매"), [refunds.tool()], middleware=[DecisionGateMiddleware(model, ["refund"])])
        assert "__interrupt__" in agent.invoke(ASK)
        assert refunds.done == []

    def test_rejected_again_and_again_ends_the_run(self) -> None:
        model, _ = judging()
        chat = RecordingChat(replies=[calls("애매")])
        talk = Conversation(chat, DecisionGateMiddleware(model, ["refund"], max_refusals=1, farewell="여기까지입니다."))
        talk.start()
        assert talk.resume(REJECT)["messages"][-1].text == "여기까지입니다."


class TestInsideHumanApproval:
    """Row 8: a gate outside human approval checks a stale call."""

    @pytest.mark.parametrize("mode", ["batched", "per_call"])
    def test_the_gate_judges_what_the_reviewer_made_of_the_call(self, mode: Any) -> None:
        model, encoder = judging()
        talk = Conversation(calling("정상"), hitl(interrupt_mode=mode), DecisionGateMiddleware(model, ["refund"]))
        talk.start()
        result = talk.resume(edited("위험") if mode == "per_call" else {"decisions": [edited("위험")]})
        assert talk.refunds.done == []
        assert tool_messages(result)[0].artifact["verdict"] == "block"
        assert len(encoder.prompts) == 2

    def test_an_edit_the_gate_is_unsure_about_is_asked_about_once(self) -> None:
        model, encoder = judging()
        talk = Conversation(calling("정상"), hitl(), DecisionGateMiddleware(model, ["refund"]))
        talk.start()
        (interrupt,) = talk.resume({"decisions": [edited("애매")]})["__interrupt__"]
        assert interrupt.value["gate"]["verdict"] == "abstain"
        talk.resume(APPROVE)
        assert talk.refunds.done == ["애매"]
        assert len(encoder.prompts) == 2

    def test_approving_an_unchanged_call_costs_no_second_question(self) -> None:
        model, encoder = judging()
        talk = Conversation(calling("정상"), hitl(), DecisionGateMiddleware(model, ["refund"]))
        talk.start()
        talk.resume({"decisions": [APPROVE]})
        assert talk.refunds.done == ["정상"]
        assert len(encoder.prompts) == 1

    def test_inside_there_is_no_warning(self) -> None:
        model, _ = judging()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for mode, answer in (("per_call", edited("정상 2")), ("batched", {"decisions": [edited("정상 2")]})):
                approval = hitl(interrupt_mode=mode)
                talk = Conversation(calling("정상"), approval, DecisionGateMiddleware(model, ["refund"]))
                talk.start()
                talk.resume(answer)
                assert talk.refunds.done == ["정상 2"]


class TestOutsideHumanApproval:
    def test_an_edit_is_noticed_warned_about_and_judged(self) -> None:
        model, _ = judging()
        talk = Conversation(calling("정상"), DecisionGateMiddleware(model, ["refund"]), hitl())
        talk.start()
        with pytest.warns(GateOrderWarning, match=r"middleware=\[HumanInTheLoopMiddleware"):
            talk.resume({"decisions": [edited("위험")]})
        assert talk.refunds.done == []

    def test_per_call_approval_further_in_is_warned_about(self) -> None:
        model, _ = judging()
        approval = hitl(interrupt_mode="per_call")
        talk = Conversation(calling("정상"), DecisionGateMiddleware(model, ["refund"]), approval)
        with pytest.warns(GateOrderWarning, match="outside human approval"):
            talk.start()

    async def test_async(self) -> None:
        model, _ = judging()
        approval = hitl(interrupt_mode="per_call")
        talk = Conversation(calling("정상"), DecisionGateMiddleware(model, ["refund"]), approval)
        with pytest.warns(GateOrderWarning):
            await talk.astart()


@pytest.mark.parametrize("mode", ["batched", "per_call"])
class TestMakeWhen:
    """People review what the gate is unsure about, through LangChain's own middleware."""

    @staticmethod
    def talk(mode: Any, *memos: str) -> tuple[Conversation, list[Prompt], Any]:
        model, encoder = judging()
        gate = DecisionGateMiddleware(model, ["refund"])
        answer = (lambda decision: decision) if mode == "per_call" else (lambda decision: {"decisions": [decision]})
        return Conversation(calling(*memos), hitl(gate, interrupt_mode=mode), gate), encoder.prompts, answer

    def test_clear_calls_bother_nobody(self, mode: Any) -> None:
        talk, prompts, _ = self.talk(mode, "정상", "위험")
        assert "__interrupt__" not in talk.start()
        assert talk.refunds.done == ["정상"]
        assert len(prompts) == 2

    def test_an_approved_call_runs_without_a_second_review_or_question(self, mode: Any) -> None:
        talk, prompts, answer = self.talk(mode, "애매", "정상")
        assert len(talk.start()["__interrupt__"]) == 1
        assert "__interrupt__" not in talk.resume(answer(APPROVE))
        assert sorted(talk.refunds.done) == ["애매", "정상"]
        assert len(prompts) == 2

    def test_a_rejected_call_does_not_run(self, mode: Any) -> None:
        talk, _, answer = self.talk(mode, "애매")
        talk.start()
        assert "영수증이 없습니다" in tool_messages(talk.resume(answer(REJECT)))[0].text
        assert talk.refunds.done == []

    @pytest.mark.parametrize(("memo", "ran"), [("정상 2", True), ("애매 2", True), ("위험 2", False)])
    def test_an_edited_call_runs_unless_the_gate_blocks_it(self, mode: Any, memo: str, ran: bool) -> None:
        talk, _, answer = self.talk(mode, "애매")
        talk.start()
        assert "__interrupt__" not in talk.resume(answer(edited(memo)))
        assert (talk.refunds.done == [memo]) is ran

    def test_a_later_call_with_the_same_id_is_reviewed_again(self, mode: Any) -> None:
        talk, _, answer = self.talk(mode, "애매")
        talk.chat.replies[:] = [calls("애매"), calls("애매"), AIMessage("끝")]
        talk.start()
        assert "__interrupt__" in talk.resume(answer(APPROVE))
        assert talk.refunds.done == ["애매"]


def test_make_when_without_the_gate_in_the_list_asks_itself_and_once() -> None:
    model, encoder = judging()
    talk = Conversation(calling("애매"), hitl(DecisionGateMiddleware(model, ["refund"])))
    assert "__interrupt__" in talk.start()
    talk.resume({"decisions": [APPROVE]})
    assert talk.refunds.done == ["애매"]
    assert len(encoder.prompts) == 1


class TestAcrossProcesses:
    """Rows 10 and 36: what one process asked, another resumes without asking, from strict msgpack."""

    @staticmethod
    def step(database: Path, mode: str, step: str, *how: str) -> dict[str, Any]:
        command = [sys.executable, "-W", "error", "-m", "tests.langgraph.gate_process", str(database), mode, step, *how]
        environment = os.environ | {
            "LANGGRAPH_STRICT_MSGPACK": "true",
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "integrations"), os.environ.get("PYTHONPATH", "")]),
        }
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    @pytest.mark.parametrize("how", [[], ["async"]])
    def test_approved_in_another_process(self, tmp_path: Path, how: list[str]) -> None:
        database = tmp_path / "memory.sqlite"
        asked = self.step(database, "gate", "ask", *how)
        assert asked["waits"] == [{"memo": "애매"}]
        assert (asked["asked"], asked["ran"]) == (3, ["정상"])
        done = self.step(database, "gate", json.dumps(APPROVE), *how)
        assert (done["asked"], done["ran"], done["waits"]) == (0, ["애매"], [])
        assert done["statuses"] == ["success", "error", "success"]
        assert done["artifacts"][1]["verdict"] == "block"
        assert set(done["types"]) <= {"dict", "list", "str", "int", "float", "bool", "NoneType"}

    def test_rejected_in_another_process(self, tmp_path: Path) -> None:
        database = tmp_path / "memory.sqlite"
        self.step(database, "gate", "ask")
        done = self.step(database, "gate", json.dumps(REJECT))
        assert (done["asked"], done["ran"]) == (0, [])
        assert done["statuses"] == ["error", "error", "success"]

    def test_through_langchains_approval(self, tmp_path: Path) -> None:
        database = tmp_path / "memory.sqlite"
        asked = self.step(database, "hitl", "ask")
        assert (asked["asked"], asked["ran"], asked["waits"]) == (3, [], [{"memo": "애매"}])
        done = self.step(database, "hitl", json.dumps({"decisions": [APPROVE]}))
        assert (done["asked"], sorted(done["ran"]), done["waits"]) == (0, ["애매", "정상"], [])


class TestAutoMode:
    """Our model inside LangChain's own ``AutoModeMiddleware``."""

    def test_it_blocks_and_allows(self) -> None:
        model, encoder = judging()
        talk = Conversation(calling("위험", "정상"), AutoModeMiddleware(tools=["refund"], classifier=model))
        result = talk.start()
        assert talk.refunds.done == ["정상"]
        assert [message.status for message in tool_messages(result)] == ["error", "success"]
        assert len(encoder.prompts) == 2

    async def test_async(self) -> None:
        model, _ = judging()
        talk = Conversation(calling("위험", "정상"), AutoModeMiddleware(tools=["refund"], classifier=model))
        await talk.astart()
        assert talk.refunds.done == ["정상"]
        model.close()

    def test_the_tool_call_comes_before_the_messages_it_puts_first(self) -> None:
        model, encoder = judging()
        Conversation(calling("정상"), AutoModeMiddleware(tools=["refund"], classifier=model)).start()
        lines = encoder.prompts[0].state.splitlines()
        assert lines[0].startswith('도구 호출: {"id": "c1", "name": "refund", "args": {"memo": "정상"}')
        assert "사용자: 환불해 주세요" in lines
        assert any("돈을 돌려준다" in line for line in lines)

    def test_a_failing_model_runs_nothing(self) -> None:
        model, _ = judging()
        talk = Conversation(calling("폭탄"), AutoModeMiddleware(tools=["refund"], classifier=model))
        with pytest.raises(RuntimeError, match="메모리 부족"):
            talk.start()
        assert talk.refunds.done == []
