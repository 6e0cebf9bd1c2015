"""A machine of one's own: what tests find by tuning is nobody else's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lazyt.plan import planning
from lazyt.runtime import winners


@pytest.fixture(autouse=True)
def own_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No winners at the beginning, and none left at the end."""
    monkeypatch.setattr(winners, "known", winners._Known())
    monkeypatch.setattr(winners, "_key", lambda: str(tmp_path))
    planning.clear()
    yield
    planning.clear()
