"""What the gate's and the model router's tests share: a chat model that records its calls, tools, scripted models."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, tool
from pydantic import PrivateAttr

from ko_decision_tools import EncoderError, KoDecisionModel, ScriptedEncoder
from ko_decision_tools.prompts import Prompt

Reply = AIMessage | Callable[[Sequence[BaseMessage]], AIMessage]


class RecordingChat(BaseChatModel):
    """Says its replies in order (the last one for ever) and records what it was asked."""

    label: str = "chat"
    replies: list[Any]
    _asked: list[list[BaseMessage]] = PrivateAttr(default_factory=list)
    _lock: Any = PrivateAttr(default_factory=threading.Lock)

    @property
    def asked(self) -> list[list[BaseMessage]]:
        return self._asked

    @property
    def _llm_type(self) -> str:
        return "recording"

    def bind_tools(self, tools: Any, **kwargs: Any) -> RecordingChat:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        with self._lock:
            reply = self.replies[min(len(self._asked), len(self.replies) - 1)]
            self._asked.append(list(messages))
        message = reply(messages) if callable(reply) else reply.model_copy(update={"id": None})
        return ChatResult(generations=[ChatGeneration(message=message)])


def calls(*memos: str, name: str = "refund", text: str = "", start: int = 1) -> AIMessage:
    """A message with one refund per memo, called c1, c2, …"""
    made = [{"name": name, "args": {"memo": memo}, "id": f"c{n}"} for n, memo in enumerate(memos, start)]
    return AIMessage(text, tool_calls=made)


def calling(*memos: str, **settings: Any) -> RecordingChat:
    """A chat model that makes these calls at once, then says goodbye."""
    return RecordingChat(replies=[calls(*memos, **settings), AIMessage("끝났습니다.")])


class Refunds:
    """The dangerous tool; remembers what it did."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def tool(self) -> BaseTool:
        @tool("refund")
        def refund(memo: str) -> str:
            """돈을 돌려준다."""
            self.done.append(memo)
            return f"환불 완료: {memo}"

        return refund


def by_memo(prompt: Prompt) -> list[float]:
    """[no, yes] scores from the call itself: "위험" blocks, "애매" is unsure, "폭탄" fails, anything else is fine."""
    call = prompt.state.splitlines()[0]
    if "폭탄" in call:
        raise EncoderError("메모리 부족")
    return [0.0, 4.0] if "위험" in call else [0.0, 0.0] if "애매" in call else [4.0, 0.0]


def judging(script: Any = by_memo, **settings: Any) -> tuple[KoDecisionModel, ScriptedEncoder]:
    """A decision model and the encoder inside it, whose ``prompts`` are everything that was asked."""
    encoder = ScriptedEncoder(script)
    return KoDecisionModel.from_encoder(encoder, **settings), encoder


def tool_messages(result: Any) -> list[ToolMessage]:
    """The tool messages of a run, oldest first."""
    return [message for message in result["messages"] if isinstance(message, ToolMessage)]


def types_within(value: Any) -> set[type]:
    """Every type inside a value that claims to be JSON."""
    if isinstance(value, dict):
        return {dict, *map(type, value)}.union(*map(types_within, value.values()))
    return {list}.union(*map(types_within, value)) if isinstance(value, list) else {type(value)}
