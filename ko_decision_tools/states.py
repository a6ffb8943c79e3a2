"""Any LangChain ``State`` as one text: strings, messages, and nested JSON.

Encoders cut the end of a long state, so what matters most comes first: a mapping's ``tool_call`` before everything
else, and the newest message before the older ones.

Example:
    >>> print(render_state({"messages": [{"role": "user", "content": "환불해 줘"}],
    ...                     "tool_call": {"name": "refund", "args": {"order": 7}}}))
    도구 호출: {"name": "refund", "args": {"order": 7}}
    사용자: 환불해 줘
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ko_decision_tools.errors import InvalidInputError

SPEAKERS = {
    "human": "사용자",
    "user": "사용자",
    "ai": "상담원",
    "assistant": "상담원",
    "system": "지침",
    "developer": "지침",
    "tool": "도구 결과",
    "function": "도구 결과",
}
_TOOL_CALL_KEYS = ("tool_call", "tool_calls")


def render_state(state: Any) -> str:
    """One text for a string, a message, a list of messages, or nested JSON.

    Raises:
        InvalidInputError: Media (an image, say), an object that is not JSON, a number that is not finite, or nesting
            too deep to walk.
    """
    try:
        return _render(state)
    except RecursionError:
        raise InvalidInputError("state", "is nested too deeply", "Pass only the part the question is about.") from None


def _render(state: Any) -> str:
    if isinstance(state, str):
        return state
    if _is_message(state):
        return _message_line(state)
    if isinstance(state, Mapping):
        return _mapping(state) if _is_agent_state(state) else _dump(state)
    if _is_list(state):
        return _messages(state) if state and all(map(_is_message, state)) else _dump(state)
    return _dump(state)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)


def _is_message(value: Any) -> bool:
    """A LangChain message (recognised by shape, so that this room needs no import) or its role/content form."""
    if isinstance(value, Mapping):
        return value.get("role") in SPEAKERS and "content" in value and set(value) <= {"role", "content", "name", "id"}
    return isinstance(getattr(value, "type", None), str) and hasattr(value, "content")


def _is_agent_state(state: Mapping[Any, Any]) -> bool:
    return any(key in state for key in _TOOL_CALL_KEYS) or (
        _is_list(state.get("messages")) and all(map(_is_message, state["messages"]))
    )


def _mapping(state: Mapping[Any, Any]) -> str:
    calls = [f"도구 호출: {_dump(state[key])}" for key in _TOOL_CALL_KEYS if key in state]
    talk = state.get("messages")
    if talk is None:
        spoken = []
    elif _is_list(talk) and all(map(_is_message, talk)):
        spoken = [_messages(talk)] if talk else []
    else:
        spoken = [f"messages: {_dump(talk)}"]
    rest = [f"{key}: {_render(value)}" for key, value in state.items() if key not in (*_TOOL_CALL_KEYS, "messages")]
    return "\n".join([*calls, *spoken, *rest])


def _messages(messages: Sequence[Any]) -> str:
    return "\n".join(_message_line(message) for message in reversed(messages))


def _message_line(message: Any) -> str:
    if isinstance(message, Mapping):
        role, content, calls = message["role"], message["content"], None
    else:
        role, content, calls = message.type, message.content, getattr(message, "tool_calls", None)
    text = _content(content)
    if calls:
        asked = _dump([{"name": call.get("name"), "args": call.get("args")} for call in calls])
        text = f"{text} {asked}".strip()
    return f"{SPEAKERS.get(role, role)}: {text}"


def _content(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if _is_list(content) else [content]
    return " ".join(filter(None, (_block(block) for block in blocks)))


def _block(block: Any) -> str:
    if isinstance(block, str):
        return block
    if isinstance(block, Mapping):
        kind = block.get("type", "text")
        if kind in ("text", "reasoning") and isinstance(block.get("text", ""), str):
            return str(block.get("text", "")) if kind == "text" else ""
        if kind in ("tool_call", "tool_use"):
            return ""  # the message's own tool_calls are rendered instead
        _refuse_media(block)
    return _dump(block)


def _refuse_media(block: Mapping[Any, Any]) -> None:
    kind = block.get("type")
    if kind in ("image", "image_url", "audio", "video", "file", "input_image", "document") or "base64" in block:
        raise InvalidInputError("state", f"holds a {kind!r} block", "This model reads text only: describe it in words.")


def _dump(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    """JSON values with messages turned into lines; anything else is an error that names its type."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInputError("state", f"holds the number {value}", "JSON has no NaN and no infinity.")
        return value
    if _is_message(value) and not isinstance(value, Mapping):
        return _message_line(value)
    if isinstance(value, Mapping):
        _refuse_media(value)
        return {str(key): _plain(item) for key, item in value.items()}
    if _is_list(value):
        return [_plain(item) for item in value]
    raise InvalidInputError(
        "state", f"holds a {type(value).__name__}, which is not JSON", "Pass text, messages, or JSON values."
    )
