"""``ctc_loss`` goes through time in a loop of the graph, or as one graph: the same bits."""

from __future__ import annotations

import numpy as np
import pytest

import lazyt as lt
import lazyt.nn.functional as F
from lazyt.ir.graph import topological


def test_a_loop_and_one_graph_have_the_same_bits() -> None:
    lt.manual_seed(3)
    logs = lt.randn(20, 3, 7).realize()
    goals, lengths = lt.randint(1, 7, (3, 5)).realize(), lt.tensor([20, 13, 11])

    def both(x: lt.Tensor) -> tuple[lt.Tensor, lt.Tensor]:
        x = x.detach().requires_grad_()
        loss = F.ctc_loss(x.log_softmax(-1), goals, lengths, lt.tensor([5, 4, 2]))
        (gradient,) = lt.autograd.grad(loss, x)
        assert gradient is not None
        return loss.detach(), gradient

    found, captured = both(logs), lt.jit(both)
    for _ in range(3):
        for looped, unrolled in zip(found, captured(logs), strict=True):
            np.testing.assert_array_equal(looped.numpy(), unrolled.numpy())


@pytest.mark.lazy
def test_the_graph_does_not_grow_with_the_steps() -> None:
    def count(steps: int) -> int:
        x = lt.zeros(steps, 2, 4).realize()
        loss = F.ctc_loss(x, lt.ones(2, 3, dtype=lt.int64), (steps,) * 2, (3, 3))
        return len(topological([loss.node], lambda node: node.data is not None))

    assert count(30) == count(90)
