"""What the summary counts."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field


@dataclass(slots=True)
class Tally:
    """Counts over all rows of a result, those of an earlier run included.

    ``answered``, ``abstained`` and ``failed`` share the rows out. A row is right when it went where its label says, or
    when its label is no route and no route was accepted.

    Args:
        routes: The labels of all routes, in order.

    Example:
        >>> tally = Tally(("결제", "배송"))
        >>> tally.add("결제", label="결제")
        >>> tally.add("사람", label="없음", abstained=True)
        >>> tally.add("사람", label="배송", abstained=True)
        >>> round(tally.accuracy, 3), tally.accuracy_answered, round(tally.coverage, 3)
        (0.667, 1.0, 0.333)
    """

    routes: Collection[str]
    answered: Counter[str] = field(default_factory=Counter)
    right_answered: Counter[str] = field(default_factory=Counter)
    abstained: int = 0
    failed: int = 0
    cut: int = 0
    labelled: int = 0
    labelled_answered: int = 0
    right: int = 0
    strange_labels: set[str] = field(default_factory=set)

    def add(
        self, route: str, *, label: str | None = None, abstained: bool = False, failed: bool = False, cut: bool = False
    ) -> None:
        """Count one row; ``label`` is ``None`` or empty when it has none."""
        if failed:
            self.failed += 1
        elif abstained:
            self.abstained += 1
        else:
            self.answered[route] += 1
        self.cut += cut
        if label:
            self._compare(route, label, abstained)

    def _compare(self, route: str, label: str, abstained: bool) -> None:
        same, known = _nfc(route) == _nfc(label), _nfc(label) in map(_nfc, self.routes)
        right = same or (abstained and not known)
        self.labelled += 1
        self.right += right
        if not known:
            self.strange_labels.add(label)
        if not abstained:
            self.labelled_answered += 1
            self.right_answered[route] += right

    @property
    def rows(self) -> int:
        """All rows."""
        return self.answered.total() + self.abstained + self.failed

    @property
    def coverage(self) -> float:
        """Share of the rows that a route was accepted for; 0 when there are none."""
        return self.answered.total() / self.rows if self.rows else 0.0

    @property
    def accuracy(self) -> float:
        """Share of the labelled rows that are right; 0 when there are none."""
        return self.right / self.labelled if self.labelled else 0.0

    @property
    def accuracy_answered(self) -> float:
        """The same among the labelled rows that a route was accepted for."""
        return self.right_answered.total() / self.labelled_answered if self.labelled_answered else 0.0


def _nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)
