"""Which part of an input is routed: the text, a chosen key of a graph's state, or the newest human message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.decisions import State

from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.states import SPEAKERS

_HUMAN = ("human", "user")
_MISSING: Any = object()


def routed_text(value: Any, text_key: str | None = None) -> State:
    """Find what is to be routed.

    Args:
        value: A text, a message, a list of messages, or a graph's state (a mapping or an object with attributes).
        text_key: The state's key that holds it; without one, its ``messages`` are read.

    Raises:
        InvalidInputError: There is no such key, or no human message.

    Example:
        >>> routed_text({"messages": [("user", "환불해 주세요"), ("assistant", "주문번호를 알려 주세요")]})
        '환불해 주세요'
        >>> routed_text({"ticket": "택배가 안 와요"}, "ticket")
        '택배가 안 와요'
    """
    if isinstance(value, str):
        return value
    if _role(value) is not None:
        return _text(value)
    if isinstance(value, Sequence):
        return _newest_human(value)
    key = "messages" if text_key is None else text_key
    found = value.get(key, _MISSING) if isinstance(value, Mapping) else getattr(value, key, _MISSING)
    if found is _MISSING:
        raise InvalidInputError(
            "state", f"has no {key!r}", "Set text_key to the key that holds the text.", value=_keys(value)
        )
    return _newest_human(found) if text_key is None or _is_talk(found) else found


def _newest_human(messages: Any) -> State:
    listed = [messages] if isinstance(messages, str) or not isinstance(messages, Sequence) else messages
    for message in reversed(listed):
        if isinstance(message, str) or _role(message) in _HUMAN:
            return _text(message)
    raise InvalidInputError("messages", "holds no human message", "Route a text or a conversation that has one.")


def _text(message: Any) -> State:
    """A message's words. One that also holds media is passed on whole, for the model to refuse by name."""
    if isinstance(message, str):
        return message
    content = _content(message)
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, Sequence) else [content]
    texts = [block if isinstance(block, str) else _block_text(block) for block in blocks]
    return {"messages": [message]} if None in texts else "\n".join(filter(None, texts))


def _block_text(block: Any) -> str | None:
    is_text = isinstance(block, Mapping) and block.get("type") == "text" and isinstance(block.get("text"), str)
    return block["text"] if is_text else None


def _is_talk(value: Any) -> bool:
    return _role(value) is not None or (
        isinstance(value, Sequence) and not isinstance(value, str) and bool(value) and all(map(_role, value))
    )


def _role(value: Any) -> str | None:
    """``"human"``, ``"ai"``, … for a message in any of LangChain's forms; ``None`` for anything else."""
    if isinstance(value, Mapping):
        role = value.get("role") if "content" in value else None
    elif isinstance(value, tuple) and len(value) == 2:
        role = value[0]
    else:
        return getattr(value, "type", None) if hasattr(value, "content") else None
    return role if isinstance(role, str) and role in SPEAKERS else None


def _content(message: Any) -> Any:
    if isinstance(message, Mapping):
        return message["content"]
    return message[1] if isinstance(message, tuple) else message.content


def _keys(value: Any) -> Any:
    return list(value) if isinstance(value, Mapping) else type(value).__name__
