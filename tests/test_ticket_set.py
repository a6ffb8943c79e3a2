"""The bundled ticket set is what its description says: large, varied, split by business, without near-duplicates."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).parents[1] / "ko_decision_tools" / "suites" / "tickets"


@pytest.fixture(scope="module")
def businesses() -> list[dict[str, Any]]:
    return [yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.yaml"))]


def test_it_is_large_and_a_third_of_the_businesses_is_unseen(businesses: list[dict[str, Any]]) -> None:
    splits = Counter(business["split"] for business in businesses)
    assert len(businesses) >= 25
    assert splits["test"] >= len(businesses) / 3
    assert sum(len(business["tickets"]) for business in businesses) >= 1200


def test_every_label_is_one_of_the_business_own(businesses: list[dict[str, Any]]) -> None:
    for business in businesses:
        assert 3 <= len(business["routes"]) <= 10, business["business"]
        assert len(business["urgency"]) == 4
        assert len(business["yes_no"]) == 2
        routes = Counter(ticket["route"] for ticket in business["tickets"])
        assert set(routes) == {*business["routes"], None}
        assert min(routes.values()) >= 3, business["business"]
        for ticket in business["tickets"]:
            assert ticket["urgency"] in (0, 1, 2, 3), ticket
            assert [type(answer) for answer in ticket["yes_no"]] == [bool, bool], ticket


def test_registers_and_lengths_vary(businesses: list[dict[str, Any]]) -> None:
    lengths = [len(ticket["text"]) for business in businesses for ticket in business["tickets"]]
    share = Counter("short" if n < 20 else "middle" if n <= 60 else "long" for n in lengths)
    assert all(count / len(lengths) > 0.2 for count in share.values()), share
    assert max(lengths) >= 150


def test_no_two_tickets_are_nearly_the_same(businesses: list[dict[str, Any]]) -> None:
    """Character-trigram overlap, over the whole set: a near-duplicate across the split would leak."""
    texts = [ticket["text"] for business in businesses for ticket in business["tickets"]]
    grams = [frozenset(text[i : i + 3] for i in range(max(1, len(text) - 2))) for text in texts]
    holders: dict[str, list[int]] = {}
    for index, own in enumerate(grams):
        for gram in own:
            holders.setdefault(gram, []).append(index)
    shared: Counter[tuple[int, int]] = Counter()
    for indices in holders.values():
        if len(indices) < 60:  # an ending such as "습니다" alone makes no duplicate
            shared.update(combinations(indices, 2))
    close = [(texts[a], texts[b]) for (a, b), n in shared.items() if n / len(grams[a] | grams[b]) > 0.6]
    assert close == []
