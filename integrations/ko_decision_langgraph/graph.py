"""Parts for your own graphs: a node that decides, an edge that follows, and a node that does both.

::

    builder.add_node("decide", decision_node(model, question))           # state["decision"], plain JSON
    edge = route_edge("decision", {"결제": "billing", "배송": "shipping"}, escalate_to="human")
    builder.add_conditional_edges("decide", edge, [*edge.destinations])

    desk = routing_node(router, max_visits=3)                            # both in one step, with a loop guard
    builder.add_node("desk", desk, destinations=desk.destinations)

    builder.add_conditional_edges("intake", router, [*router.destinations])  # a DecisionRouter needs no node

Nodes keep configuration, never state: what they learn is written into the graph's state as plain JSON, so that any
checkpointer can hold it. Being unsure, failing, being switched off and coming by too often all go to ``escalate_to``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.types import Command

from ko_decision_langgraph.accounting import Accounting
from ko_decision_langgraph.asking import Asker, ModelAsker, OnError, RouterAsker
from ko_decision_langgraph.visits import VISITS, DecisionState, LoopGuard, VisitCounter, read
from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.model import KoDecisionModel, QuestionLike
from ko_decision_tools.policy import Policy
from ko_decision_tools.router import DecisionRouter, RouteResult

logger = logging.getLogger(__name__)

DEFAULT_KEY: Final = "decision"
Destinations = Mapping[Any, str] | Iterable[str]


class DecisionNode(Runnable[Any, dict[str, Any]]):
    """A node that asks one question and stores the decision as plain JSON under ``key``.

    What it stores is ``Decision.to_dict()`` and the ``label``. When nothing could be asked it is
    ``{"abstained": true, "reasons": […], "label": null}``, so ``abstained`` and ``reasons`` can always be read.

    Args:
        model: What answers.
        question: A ``Choice``, ``Noul`` or ``Score``, or its JSON form.
        key: Key of the graph's state that gets the decision.
        text_key: Key of the state that holds the text; ``None`` reads the newest human message.
        task, min_top_probability, policy: As for ``KoDecisionModel.decide``.
        on_error: ``"escalate"`` stores what cannot be judged as abstained, with the reason, and logs it; ``"raise"``
            raises.
        max_visits: Abstain, without asking, from the next visit of a run on. Needs the channel of
            :class:`~ko_decision_langgraph.visits.DecisionState` in the state.
        accounting: Counts the decisions and escalations.
        name: Of the node, where LangGraph asks for one.

    Raises:
        InvalidInputError: At construction, for a question or a setting that cannot be used.

    Example:
        >>> from ko_decision_tools import Choice, KoDecisionModel, ScriptedEncoder
        >>> model = KoDecisionModel.from_encoder(ScriptedEncoder({"결제": 3.0}))
        >>> node = decision_node(model, Choice(instructions="어느 팀?", criteria={"결제": None, "배송": None}))
        >>> stored = node.invoke({"messages": [("user", "두 번 결제됐어요")]})["decision"]
        >>> stored["label"], stored["abstained"]
        ('결제', False)
    """

    def __init__(
        self,
        model: KoDecisionModel,
        question: QuestionLike,
        *,
        key: str = DEFAULT_KEY,
        text_key: str | None = None,
        task: str | None = None,
        min_top_probability: float | None = None,
        policy: Policy | None = None,
        on_error: OnError = "escalate",
        max_visits: int | None = None,
        accounting: Accounting | None = None,
        name: str = "decide",
    ) -> None:
        options: dict[str, Any] = {"task": task, "min_top_probability": min_top_probability}
        options |= {} if policy is None else {"policy": policy}
        self.key, self.name, self.accounting = key, name, accounting
        self._guard = LoopGuard(key, max_visits)
        self._asker: Asker = ModelAsker(
            model,
            question,
            unsure="",
            text_key=text_key,
            on_error=on_error,
            accounting=accounting,
            options=options,
        )

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> dict[str, Any]:
        """The state's update."""
        counted, too_often = self._guard.visit(input)
        return self._update(_refused(too_often) if too_often else self._asker.ask(input), counted)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> dict[str, Any]:
        """:meth:`invoke` off the event loop; concurrent nodes share forward passes."""
        counted, too_often = self._guard.visit(input)
        return self._update(_refused(too_often) if too_often else await self._asker.aask(input), counted)

    def _update(self, result: RouteResult, counted: dict[str, Any]) -> dict[str, Any]:
        _count(result, self.accounting)
        decision = result.decision
        if decision is None:
            stored: dict[str, Any] = {"abstained": True, "reasons": list(result.reasons), "label": None}
        else:
            stored = decision.to_dict() | {"label": decision.label}
        return {self.key: stored, **counted}


class RouteEdge:
    """A conditional edge that follows a stored decision; it asks nothing.

    It reads what :class:`DecisionNode`, :class:`RoutingNode` and ``TicketTriageMiddleware`` store. A label without a
    destination goes to ``escalate_to`` too, and is logged.

    Args:
        key: Key of the state that holds the decision.
        destinations: Label to node, or just the nodes where they are named like the labels. A ``Noul``'s labels are
            ``True`` and ``False``, a ``Score``'s the levels ``0``, ``1``, …
        escalate_to: The node for whatever abstained.

    Attributes:
        destinations: All nodes it can lead to, for ``add_conditional_edges``' third argument and so for drawing.

    Raises:
        InvalidInputError: On a call: the state holds no decision under ``key``.

    Example:
        >>> edge = route_edge("decision", {True: "refund_desk", False: "chat"}, escalate_to="human")
        >>> edge({"decision": {"label": "true", "abstained": False}}), edge.destinations
        ('refund_desk', ('refund_desk', 'chat', 'human'))
    """

    def __init__(self, key: str, destinations: Destinations, *, escalate_to: str) -> None:
        self._key, self._escalate_to = key, escalate_to
        self._node_of = nodes_by_label(destinations)
        self.destinations = _names(self._node_of.values(), escalate_to)
        self.__name__ = f"route_by_{key}"  # what LangGraph calls the branch: two edges of one node may not share it

    def __call__(self, state: Any) -> str:
        """The next node's name."""
        stored = read(state, self._key)
        if not isinstance(stored, Mapping) or not stored.keys() & {"escalated", "abstained"}:
            fix = "Put a decision_node before the edge, and the key into the graph's state."
            raise InvalidInputError(f"state.{self._key}", "holds no decision", fix)
        if stored.get("escalated", stored.get("abstained")):
            return self._escalate_to
        label = str(stored.get("route") or stored.get("label"))
        if label not in self._node_of:
            logger.warning("escalated: no destination for the label %r of %r", label, self._key)
        return self._node_of.get(label, self._escalate_to)


class RoutingNode(Runnable[Any, Command[str]]):
    """A node that asks a router, stores the result as plain JSON under ``key``, and goes there.

    What it stores is ``RouteResult.to_dict()``: ``route``, ``escalated``, ``reasons``, ``answer`` and ``decision``.

    Args:
        router: What decides; its ``escalate_to`` has to be a name.
        destinations: Label to node, for the labels (``escalate_to`` included) that are not named like their node.
        key: Key of the graph's state that gets the result.
        max_visits: Escalate, without asking, from the next visit of a run on. Needs the channel of
            :class:`~ko_decision_langgraph.visits.DecisionState` in the state.
        accounting: Counts the decisions and escalations.
        name: Of the node, where LangGraph asks for one.

    Attributes:
        destinations: All nodes it can lead to, for ``add_node(…, destinations=…)`` and so for drawing.

    Raises:
        InvalidInputError: At construction, for a setting that cannot be used.

    Example:
        >>> from ko_decision_tools import DecisionRouter, KoDecisionModel, ScriptedEncoder
        >>> model = KoDecisionModel.from_encoder(ScriptedEncoder({"결제": 3.0}))
        >>> desk = routing_node(DecisionRouter(model, {"결제": "환불", "배송": None}), {"사람": "human"})
        >>> command = desk.invoke({"messages": [("user", "두 번 결제됐어요")]})
        >>> command.goto, command.update["decision"]["route"], desk.destinations
        ('결제', '결제', ('결제', '배송', 'human'))
    """

    def __init__(
        self,
        router: DecisionRouter,
        destinations: Mapping[Any, str] | None = None,
        *,
        key: str = DEFAULT_KEY,
        max_visits: int | None = None,
        accounting: Accounting | None = None,
        name: str = "route",
    ) -> None:
        self.key, self.name, self.accounting = key, name, accounting
        self._asker: Asker = RouterAsker(router, accounting)
        self._escalate_to = router.table.escalate_to
        self._guard = LoopGuard(key, max_visits)
        self._node_of = named_nodes(self._asker.destinations, destinations)

    @property
    def destinations(self) -> tuple[str, ...]:
        """See the class."""
        return _names(self._node_of.values())

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Command[str]:
        """The state's update, and where to go."""
        counted, too_often = self._guard.visit(input)
        return self._go(_refused(too_often, self._escalate_to) if too_often else self._asker.ask(input), counted)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Command[str]:
        """:meth:`invoke` off the event loop; concurrent nodes share forward passes."""
        counted, too_often = self._guard.visit(input)
        result = _refused(too_often, self._escalate_to) if too_often else await self._asker.aask(input)
        return self._go(result, counted)

    def _go(self, result: RouteResult, counted: dict[str, Any]) -> Command[str]:
        _count(result, self.accounting)
        return Command(update={self.key: result.to_dict(), **counted}, goto=self._node_of[result.route])


def nodes_by_label(destinations: Destinations) -> dict[str, str]:
    """Label to node, from a mapping or from names that are both.

    Example:
        >>> nodes_by_label({True: "refund", False: "chat"}), nodes_by_label(["결제"])
        ({'true': 'refund', 'false': 'chat'}, {'결제': '결제'})
    """
    pairs = destinations.items() if isinstance(destinations, Mapping) else ((name, name) for name in destinations)
    return {str(label).lower() if isinstance(label, bool) else str(label): node for label, node in pairs}


def named_nodes(labels: Iterable[str], destinations: Mapping[Any, str] | None) -> dict[str, str]:
    """The node of every label: its own name, or what ``destinations`` says.

    Raises:
        InvalidInputError: ``destinations`` has a label that is none.
    """
    known, renamed = list(labels), nodes_by_label(destinations or {})
    for label in renamed:
        if label not in known:
            raise InvalidInputError(f"destinations.{label}", "is no route", f"There are: {', '.join(known)}.")
    return {label: renamed.get(label, label) for label in known}


def _names(nodes: Iterable[str], *more: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*nodes, *more)))


def _refused(reason: str, unsure: str = "") -> RouteResult:
    logger.warning("escalated: %s", reason)
    return RouteResult(unsure, reasons=(reason,))


def _count(result: RouteResult, accounting: Accounting | None) -> None:
    if accounting is not None and result.escalated:
        accounting.escalated()


decision_node = DecisionNode
route_edge = RouteEdge
routing_node = RoutingNode

__all__ = [
    "VISITS",
    "DecisionNode",
    "DecisionState",
    "RouteEdge",
    "RoutingNode",
    "VisitCounter",
    "decision_node",
    "route_edge",
    "routing_node",
]
