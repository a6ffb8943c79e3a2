"""Calibrated decisions inside LangChain agents and LangGraph: gate, triage, graph parts, model routing, shadow mode.

Install with ``pip install ko-decision-tools[langgraph]``. Names resolve on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # spelled "as", so that type checkers see them exported
    from ko_decision_langgraph.accounting import Accounting as Accounting
    from ko_decision_langgraph.fan_out import FanOutNode as FanOutNode
    from ko_decision_langgraph.fan_out import fan_out_node as fan_out_node
    from ko_decision_langgraph.gate import DecisionGateMiddleware as DecisionGateMiddleware
    from ko_decision_langgraph.gate import make_when as make_when
    from ko_decision_langgraph.gate_people import GateOrderWarning as GateOrderWarning
    from ko_decision_langgraph.graph import DecisionNode as DecisionNode
    from ko_decision_langgraph.graph import DecisionState as DecisionState
    from ko_decision_langgraph.graph import RouteEdge as RouteEdge
    from ko_decision_langgraph.graph import RoutingNode as RoutingNode
    from ko_decision_langgraph.graph import decision_node as decision_node
    from ko_decision_langgraph.graph import route_edge as route_edge
    from ko_decision_langgraph.graph import routing_node as routing_node
    from ko_decision_langgraph.routing import KoModelRouter as KoModelRouter
    from ko_decision_langgraph.routing import Tier as Tier
    from ko_decision_langgraph.shadow import Shadow as Shadow
    from ko_decision_langgraph.triage import TicketTriageMiddleware as TicketTriageMiddleware

_HOMES = {
    "accounting": ("Accounting",),
    "fan_out": ("FanOutNode", "fan_out_node"),
    "gate": ("DecisionGateMiddleware", "make_when"),
    "gate_people": ("GateOrderWarning",),
    "graph": (
        "DecisionNode",
        "DecisionState",
        "RouteEdge",
        "RoutingNode",
        "decision_node",
        "route_edge",
        "routing_node",
    ),
    "routing": ("KoModelRouter", "Tier"),
    "shadow": ("Shadow",),
    "triage": ("TicketTriageMiddleware",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
