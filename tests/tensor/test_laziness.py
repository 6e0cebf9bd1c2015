"""When values are computed: when looked at, or when pending work has outgrown its budget."""

from __future__ import annotations

import resource

import pytest

import lazyt as lt
from lazyt.runtime import events

pytestmark = pytest.mark.lazy


def test_building_computes_nothing() -> None:
    events.forget()
    x = lt.ones(4)
    y = (x + 1) * x.sum()
    y[1:].mul_(2)
    assert y.node.data is None
    assert not lt.why_realized()
    assert y.tolist() == [8, 16, 16, 16]
    reasons = lt.why_realized()
    assert len(reasons) == 1
    assert "test_laziness.py" in reasons[0].where


def test_realize_is_no_implicit_look() -> None:
    events.forget()
    x = lt.ones(4) * 3
    assert x.realize() is x
    assert x.node.data is not None
    lt.realize(x + 1, x + 2)
    assert not lt.why_realized()
    with lt.config.override(strict_laziness=True):
        assert x.tolist() == [3, 3, 3, 3]


def test_strict_laziness_names_the_line() -> None:
    x = lt.ones(3) + 1
    with lt.config.override(strict_laziness=True):
        line = r"test_laziness\.py:\d+: a value is needed .* \(item\(\)\)"
        with pytest.raises(RuntimeError, match=line):
            x.sum().item()
        with pytest.raises(RuntimeError, match="truth"):
            bool(x.sum() > 1)
    assert x.sum().item() == 6


def test_eager_mode() -> None:
    with lt.config.override(eager=True):
        assert (lt.ones(2) + 1)._storage.node.data is not None


def test_pending_work_has_a_budget() -> None:
    """A long loop neither recurses nor grows, and its graph is computed on the way."""
    with lt.config.override(interpret=True):
        x = lt.zeros(10)
        for _ in range(5000):
            x = x + 1
        events.forget()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(30_000):
            x = x + 1
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert x.tolist() == [35_000.0] * 10
    assert grown < 50 * 1024
    reasons = [e.reason for e in lt.why_realized()]
    assert len(reasons) >= 7
    assert "pending nodes" in reasons[0]


@pytest.mark.slow
def test_unbounded_chain_builds_and_frees() -> None:
    with lt.config.override(interpret=True, max_pending_nodes=10**9):
        from lazyt.handle import pending

        pending.budget.nodes = 10**9
        x = lt.zeros(2)
        for _ in range(100_000):
            x = x + 1
        assert x.tolist() == [100_000.0] * 2
        pending.budget.nodes = lt.config.max_pending_nodes


def test_in_place_writes_count_as_work() -> None:
    with lt.config.override(interpret=True, max_pending_nodes=500):
        from lazyt.handle import pending

        pending.budget.nodes = 500
        events.forget()
        x = lt.zeros(4)
        for _ in range(3000):
            x.add_(1)
        assert any("pending nodes" in e.reason for e in lt.why_realized())
        assert x.tolist() == [3000.0] * 4


def test_why_compiled_names_what_differs() -> None:
    def run(rows: int, more: bool) -> str:
        events.forget()
        x = lt.tensor([[0.5] * 7] * rows)
        y = (x * 0.37 + 1).erf().logsumexp(-1)
        (y.cosh() if more else y).realize()
        (event,) = lt.why_compiled()
        return event.reason

    with lt.config.override(disk_cache=False):
        assert run(3, False)
        assert run(5, False) == "sizes differ (3 -> 5): they become arguments of the kernels"
        with lt.config.override(any_size=False):
            assert run(6, False).endswith("inputs: input 0 is float32[6, 7], was float32[5, 7]")
        assert run(5, True).endswith(": 1 cosh more")
