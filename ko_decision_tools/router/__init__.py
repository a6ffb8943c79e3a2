"""Sending a text to one of several routes, or, when unsure, to the capable path; routes from Python or a YAML file."""

from __future__ import annotations

from ko_decision_tools.router.result import RouteResult
from ko_decision_tools.router.router import DecisionRouter
from ko_decision_tools.router.table import Route, RoutingTable, load_routing_table, parse_routing_table

__all__ = ["DecisionRouter", "Route", "RouteResult", "RoutingTable", "load_routing_table", "parse_routing_table"]
