"""What several test files share: the bundled model, a tiny random checkpoint of the published format, the reference."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(__file__).resolve().parents[1].parent / "shared"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked ``shared`` need real rows that are not in the repository."""
    if SHARED.is_dir():
        return
    for item in items:
        if item.get_closest_marker("shared"):
            item.add_marker(pytest.mark.skip(reason=f"needs {SHARED}, which is not here"))


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """Two threads on a busy two-core machine take longer than one, and results must not depend on them."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="session")
def shared() -> Path:
    """``../shared``; only for tests marked ``shared``."""
    return SHARED


@pytest.fixture(scope="session")
def mini() -> Iterator[Any]:
    """The bundled checkpoint, loaded once."""
    from ko_decision_tools import KoDecisionModel

    model = KoDecisionModel.from_pretrained()
    yield model
    model.close()


@pytest.fixture(scope="session")
def tiny_roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two random RoBERTa layers in the published format: one label, a fast tokenizer, no calibration."""
    from tests.checkpoints import write_tiny_roberta

    folder = tmp_path_factory.mktemp("tiny-roberta")
    write_tiny_roberta(folder)
    return folder
