"""Results are views of operands, operands themselves, or copies, as in PyTorch, in any layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lazyt as lt
from tests.functional.aliases import failures


@pytest.mark.filterwarnings("ignore")
def test_sample_calls_give_views_and_copies_where_pytorch_does() -> None:
    wrong = failures()
    assert not wrong, "\n".join(wrong[:20])


@pytest.mark.parametrize("is_jit", [False, True])
@pytest.mark.parametrize(
    ("call", "seen"),
    [
        (lambda x: lt.einsum("ij->ij", x), [[9, 9], [9, 9]]),
        (lambda x: lt.einsum("ij->ji", x), [[9, 9], [9, 9]]),
        (lambda x: lt.einsum("ii->i", x), [[9, 1], [2, 9]]),
        (lambda x: lt.einsum("ij->i", x), [[0, 1], [2, 3]]),
        (lambda x: lt.broadcast_tensors(x, x[:1])[0], [[9, 9], [9, 9]]),
        (lambda x: lt.chain_matmul(x), [[0, 1], [2, 3]]),
        (lambda x: lt.nn.functional.pad(x, (0, 0)), [[0, 1], [2, 3]]),
    ],
)
def test_writes_to_results_reach_what_they_are_views_of(
    call: Callable[[Any], Any], seen: list[list[int]], is_jit: bool
) -> None:
    def step(x: lt.Tensor) -> lt.Tensor:
        call(x).fill_(9.0)
        return x * 1

    function = lt.jit(step) if is_jit else step
    for _ in range(4):
        x = lt.arange(4.0).reshape(2, 2).clone()
        assert function(x).tolist() == seen and x.tolist() == seen


def test_one_channel_in_the_other_order_is_a_copy() -> None:
    x = lt.arange(36.0).reshape(1, 1, 6, 6)
    assert x.to(memory_format=lt.channels_last) is not x
    assert x.to(memory_format=lt.contiguous_format) is x
    last = x.to(memory_format=lt.channels_last)
    assert last.to(memory_format=lt.channels_last) is last
    assert x.contiguous(memory_format=lt.channels_last) is x  # it is that, too


def test_gradients_go_through_einsum_views() -> None:
    x = lt.arange(9.0).reshape(3, 3).requires_grad_()
    (lt.einsum("ii->i", x) * lt.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[1, 0, 0], [0, 2, 0], [0, 0, 3]]
