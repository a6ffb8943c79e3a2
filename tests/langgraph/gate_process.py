"""One step of a gated conversation as its own process: ``python -m tests.langgraph.gate_process DB MODE STEP [async]``.

``MODE`` is ``gate`` (the gate interrupts) or ``hitl`` (LangChain's human approval does, on the gate's word).
``STEP`` is ``ask`` or a decision to resume with. Prints one JSON line: what ran, how much was asked, what waits.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.types import Command

from ko_decision_langgraph.gate import DecisionGateMiddleware, make_when
from tests.langgraph.gate_stand_ins import RecordingChat, Refunds, calls, judging, tool_messages, types_within


def middleware(mode: str, gate: DecisionGateMiddleware) -> list[Any]:
    if mode == "gate":
        return [gate]
    review: Any = {"allowed_decisions": ["approve", "edit", "reject"], "when": make_when(gate)}
    return [HumanInTheLoopMiddleware({"refund": review}), gate]


def command(step: str) -> Any:
    return {"messages": [("user", "환불해 주세요")]} if step == "ask" else Command(resume=json.loads(step))


def report(result: Any, values: Any, refunds: Refunds, asked: int) -> dict[str, Any]:
    return {
        "ran": refunds.done,
        "asked": asked,
        "waits": [interrupt.value["action_requests"][0]["args"] for interrupt in result.get("__interrupt__", ())],
        "statuses": [message.status for message in tool_messages(result)],
        "artifacts": [message.artifact for message in tool_messages(result)],
        "types": sorted(kind.__name__ for kind in types_within(values.get("ko_gates"))),
    }


def says(messages: Sequence[BaseMessage]) -> AIMessage:
    """Unlike a list of replies, this does not start over in another process."""
    return AIMessage("끝") if isinstance(messages[-1], ToolMessage) else calls("애매", "위험", "정상")


def agent(mode: str, saver: BaseCheckpointSaver[Any]) -> tuple[Any, Refunds, list[Any]]:
    model, encoder = judging()
    refunds = Refunds()
    chat = RecordingChat(replies=[says])
    gated = middleware(mode, DecisionGateMiddleware(model, ["refund"]))
    graph = create_agent(chat, [refunds.tool()], middleware=gated, checkpointer=saver)
    return graph, refunds, encoder.prompts


CONFIG: Any = {"configurable": {"thread_id": "t"}}


def run(database: str, mode: str, step: str) -> dict[str, Any]:
    from langgraph.checkpoint.sqlite import SqliteSaver

    with SqliteSaver.from_conn_string(database) as saver:
        graph, refunds, prompts = agent(mode, saver)
        result = graph.invoke(command(step), CONFIG)
        return report(result, graph.get_state(CONFIG).values, refunds, len(prompts))


async def arun(database: str, mode: str, step: str) -> dict[str, Any]:
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    async with AsyncSqliteSaver.from_conn_string(database) as saver:
        graph, refunds, prompts = agent(mode, saver)
        result = await graph.ainvoke(command(step), CONFIG)
        return report(result, (await graph.aget_state(CONFIG)).values, refunds, len(prompts))


if __name__ == "__main__":
    where, how, *rest = sys.argv[1:]
    done = asyncio.run(arun(where, how, rest[0])) if rest[1:] == ["async"] else run(where, how, rest[0])
    print(json.dumps(done, ensure_ascii=False))
