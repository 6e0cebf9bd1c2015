"""Which values a plan keeps for others: only those that it computes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

import pytest

import lazyt as lt
from lazyt.handle import pending
from lazyt.ir.graph import Node, clock
from lazyt.nn import functional as F
from lazyt.plan.graph_keys import number_graph
from lazyt.plan.retention import find_long_pending, find_retained
from lazyt.runtime.memory import Buffer


def test_nothing_is_kept_below_a_value_that_is_there() -> None:
    """A window is read off what it is a window of, but not through what is computed already."""
    pending = lt.rand(6).realize() + 1
    padded = F.pad(pending, (1, 1))
    windows = padded.unfold(0, 3, 1)
    looks, pad, result = windows.node, padded.node, (windows * 2).sum().node
    assert looks.op.name == "window" and looks.inputs == (pad,)
    pad.data = Buffer(pad.nbytes)  # computed, and not yet without its origin
    numbers, _ = number_graph([result])
    order = list(numbers)
    assert pending.node.data is None and pending.node not in numbers
    outside = {node: node is looks for node in order if node.data is None}
    kept = find_retained(order, outside, {result}, {looks})
    assert set(kept) <= numbers.keys()


def test_computed_parameters_need_no_other_look(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = lt.tensor([1.0, 2.0]).requires_grad_()
    optimizer = lt.optim.SGD([weight], lr=0.5)
    (weight * weight).sum().backward()
    optimizer.step()
    asked = []
    compute = pending.realize_nodes

    def counted(nodes: Sequence[Node]) -> None:
        asked.append(nodes)
        compute(nodes)

    monkeypatch.setattr(pending, "realize_nodes", counted)
    lt.realize(weight)
    assert len(asked) == 1
    assert weight.tolist() == [0.0, 0.0]  # from here on nothing is pending
    other = lt.ones(2).realize()
    asked.clear()
    lt.realize(weight, other)
    assert not asked


def test_a_chain_that_had_waited_is_gone_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not again at each operation on its end."""
    steps = [0]

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        steps[0] += event == "line"
        return trace if frame.f_code.co_name == "_renew_ages" else None

    def found(node: Node) -> tuple[list[Node], int]:
        steps[0] = 0
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            return find_long_pending(node, clock.now - pending.PATIENCE, clock.now), steps[0]
        finally:
            sys.settrace(before)

    monkeypatch.setattr(clock, "now", clock.now)
    with lt.config.override(strict_laziness=True):
        old = lt.rand(3).realize() + 1
        clock.now += 10
        x = old
        for _ in range(100):
            x = x * 1.5 + 0.25
        assert found(x.node)[0] == [old.node]
        old.node.data = Buffer(12)  # computed, and not yet without its origin
        nodes, lines = found(x.node)
        assert nodes == [] and lines > 200
        nodes, lines = found((x + 1).node)
        assert nodes == [] and lines < 10
