"""Which values a plan keeps for others: only those that it computes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import lazyt as lt
from lazyt import pending
from lazyt.graph_keys import number_graph
from lazyt.ir.graph import Node
from lazyt.keeping import find_kept
from lazyt.nn import functional as F
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
    kept = find_kept(order, outside, {result}, {looks})
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
