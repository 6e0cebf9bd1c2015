"""Gradients where operands were written to without autograd knowing, or have lost their values."""

from __future__ import annotations

from typing import Any

import pytest

import lazyt
from lazyt import Tensor


def _leaf() -> Tensor:
    return ((lazyt.arange(4.0) + 5) / 8).requires_grad_()


@pytest.mark.parametrize("again", [False, True], ids=["once", "twice"])
@pytest.mark.parametrize(
    "use, to_copy, to_start",
    [
        (lambda copy, start: copy * start, [5 / 8, 6 / 8, 7 / 8, 1.0], [5 / 4, 6 / 4, 7 / 4, 2.0]),
        (lambda copy, start: start * copy, [5 / 8, 6 / 8, 7 / 8, 1.0], [5 / 4, 6 / 4, 7 / 4, 2.0]),
        (lambda copy, start: copy - start, [1.0] * 4, [-1.0] * 4),
    ],
    ids=["product", "turned", "difference"],
)
def test_a_write_to_one_of_two_operands_of_equal_value(
    use: Any, to_copy: list[float], to_start: list[float], again: bool
) -> None:
    """A clone is the same value as its original, but not the same memory."""
    start = _leaf()
    copy = start.clone()
    copy.retain_grad()
    result = use(copy, start)
    copy.data.mul_(2)
    if again:  # through a gradient that is one everywhere
        (ones,) = lazyt.autograd.grad(result.sum(), [result], create_graph=True)
        assert ones is not None
        (result * ones.detach()).sum().backward()
    else:
        result.sum().backward()
    assert copy.grad is not None and start.grad is not None
    assert copy.grad.tolist() == to_copy
    assert start.grad.tolist() == [a + b for a, b in zip(to_copy, to_start, strict=True)]


@pytest.mark.parametrize(
    "overwrite",
    [
        lambda target, source: target.copy_(source),
        lambda target, source: target.__setitem__(slice(None), source),
        lambda target, source: target.fill_(source.sum()),
    ],
    ids=["copy_", "setitem", "fill_"],
)
def test_the_gradient_of_what_was_overwritten_is_zero_and_made_of_nothing(overwrite: Any) -> None:
    start = _leaf()
    below = start * start
    target = below.sin()
    overwrite(target, start)
    calls: list[Any] = []
    target.register_hook(lambda g: calls.append(g.tolist()))
    loss = target.sum() + 2 * start.sum()
    (gradient,) = lazyt.autograd.grad(loss * loss, [below], create_graph=True)
    assert gradient is not None
    assert len(calls) == 1 and gradient.tolist() == [0.0] * 4
    gradient.square().sum().backward()
    assert len(calls) == 1
    assert start.grad is not None and start.grad.tolist() == [0.0] * 4


def test_a_write_to_all_of_a_tensor_is_a_copy() -> None:
    source = lazyt.ones(4, requires_grad=True)
    target = source * 2
    target[:] = source
    assert target.grad_fn is not None and target.grad_fn.name().startswith("Copy")
    assert "Slices" not in target.grad_fn.name()
    target[:2] = source[2:]
    assert target.grad_fn.name().endswith("CopySlices")
