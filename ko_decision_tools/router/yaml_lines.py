"""YAML that remembers its lines: ``safe_load`` without aliases, tags, merges, and keys that repeat or are not text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from ko_decision_tools.errors import RoutingTableError

_TEXT = "tag:yaml.org,2002:str"
_ANY_FIX = 'Check the indentation, and quote texts that hold ": " or begin with a sign.'


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """A parsed document: its data, the nodes they came from, and what errors call it."""

    data: Any
    node: Any
    where: str

    @classmethod
    def parse(cls, text: str, where: str) -> YamlDocument:
        """Parse one document.

        Raises:
            RoutingTableError: Not YAML, or YAML with something refused here; names the line.
        """
        try:
            loader = _PlainLoader(text)
            node = loader.get_single_node()
            data = None if node is None else loader.construct_document(node)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = where if mark is None else f"{where}:{mark.line + 1}"
            raise RoutingTableError(place, f"is not usable YAML ({error.problem})", error.note or _ANY_FIX) from None
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            reason = " ".join(str(error).split())
            raise RoutingTableError(where, f"is not usable YAML ({reason})", "Repair the file.") from None
        return cls(data, node, where)

    def place(self, path: Sequence[Any]) -> str:
        """``"file:line: a.b"`` for a path of keys and indices; the line of the deepest part that exists."""
        line, node, data = 1, self.node, self.data
        for step in path:
            child = _child(node, data, step)
            if child is None:
                break
            line, node, data = child
        return f"{self.where}:{line}: {'.'.join(map(str, path))}"


def _child(node: Any, data: Any, step: Any) -> tuple[int, Any, Any] | None:
    """Line, node and data of one step down. Keys stand in the same order in both, as nothing repeats or merges."""
    if isinstance(node, yaml.MappingNode) and isinstance(data, Mapping):
        for (key_node, value_node), (key, value) in zip(node.value, data.items(), strict=True):
            if key == step:
                return key_node.start_mark.line + 1, value_node, value
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        child = node.value[step]
        return child.start_mark.line + 1, child, data[step]
    return None


class _PlainLoader(yaml.SafeLoader):
    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            raise _refused(event, "aliases are not used here", "Write it out.")
        if getattr(event, "tag", None) is not None:
            raise _refused(event, "tags are not used here", "Leave it out; quote what has to be text.")
        return super().compose_node(parent, index)

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if key.tag != _TEXT:  # YAML reads no, on, 1 and 2026-01-01 as something else than text
                name = key.value if isinstance(key, yaml.ScalarNode) else "?"
                raise _refused(key, f"the key {name} is not read as text", "Put it in quotes.")
            if not key.value.strip():
                raise _refused(key, "a key is empty", "Give it a name.")
            if key.value in seen:
                raise _refused(key, f"the key {key.value} is repeated", "Keep one of them.")
            seen.add(key.value)
        return node


def _refused(at: Any, problem: str, fix: str) -> yaml.MarkedYAMLError:
    """Valid YAML that a table has no use for."""
    return yaml.MarkedYAMLError(problem=problem, problem_mark=at.start_mark, note=fix)
