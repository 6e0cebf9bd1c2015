"""Gradients that tensors keep, hooks around them, and gradients at what is no number."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

import lazyt as lt
from lazyt import Tensor
from lazyt.autograd.engine import running


@pytest.fixture(autouse=True)
def interpreted() -> Iterator[None]:
    with lt.config.override(interpret=True):
        yield


def weights(x: Tensor) -> list[object]:
    assert x.grad is not None
    found: list[object] = x.grad.tolist()
    return found


def test_retained_gradient_is_that_of_what_was_written_last() -> None:
    start = lt.tensor([1.0, 2.0], requires_grad=True)
    value = start * 4
    value.retain_grad()
    value.mul_(3)
    value[0] = 7.0
    (value * lt.tensor([5.0, 6.0])).sum().backward()
    assert value.retains_grad
    assert weights(value) == [5.0, 6.0]
    assert weights(start) == [0.0, 72.0]


def test_retained_gradient_of_a_part_follows_writes_to_the_whole() -> None:
    whole = lt.tensor([1.0, 2.0, 3.0], requires_grad=True) * 2
    part = whole[1:]
    part.retain_grad()
    whole.mul_(10)
    (part * 5).sum().backward()
    assert weights(part) == [5.0, 5.0]


def test_hooks_run_without_gradients_unless_the_graph_is_kept() -> None:
    modes = []
    weight = lt.tensor([2.0, 4.0], requires_grad=True)
    weight.register_hook(lambda grad: modes.append(lt.is_grad_enabled()))

    def step(parameter: Tensor) -> None:
        assert parameter.grad is not None
        modes.append(lt.is_grad_enabled())
        parameter.detach().sub_(parameter.grad)

    handle = weight.register_post_accumulate_grad_hook(step)
    weight.square().sum().backward()
    assert modes == [False, False]
    assert weight.tolist() == [-2.0, -4.0]
    handle.remove()
    weight.register_post_accumulate_grad_hook(lambda p: modes.append(lt.is_grad_enabled()))
    weight.square().sum().backward(create_graph=True)
    assert modes[2:] == [True, True]


def test_hooks_after_accumulation_write_to_the_leaf_and_return_nothing() -> None:
    weight = lt.tensor([2.0, 4.0], requires_grad=True)

    def step(parameter: Tensor) -> None:
        assert parameter.grad is not None
        parameter.sub_(parameter.grad)

    handle = weight.register_post_accumulate_grad_hook(step)
    (weight * 0.5).sum().backward()
    assert weight.tolist() == [1.5, 3.5]
    handle.remove()
    weight.register_post_accumulate_grad_hook(cast(Any, lambda p: p.grad))
    with pytest.raises(RuntimeError, match="should return None"):
        weight.sum().backward()


def test_numpy_of_what_requires_a_gradient_under_no_grad() -> None:
    weight = lt.tensor([2.0, 4.0], requires_grad=True)
    with lt.no_grad():
        array = weight.numpy()
        assert (weight * 2).numpy().tolist() == [4.0, 8.0]
        array[0] = 9.0
    assert weight.tolist() == [9.0, 4.0]
    with pytest.raises(RuntimeError, match="requires grad"):
        weight.numpy()


@pytest.mark.parametrize("function", [lt.max, lt.min, lt.median])
def test_gradient_of_an_extreme_that_is_no_number(function: Callable[..., Tensor]) -> None:
    values = lt.tensor([5.0, float("nan"), 1.0, float("nan")], requires_grad=True)
    function(values).backward()
    assert weights(values) == [0.0, 0.5, 0.0, 0.5]


@pytest.mark.parametrize("way", ["backward", "inputs", "grad"])
@pytest.mark.parametrize("create_graph", [False, True])
def test_backward_that_a_hook_ends_holds_no_graph(way: str, create_graph: bool) -> None:
    """The next one that ends well does not put the graph of the failed one back."""
    x = lt.ones(3, requires_grad=True)

    def run(fail: bool) -> weakref.ref[Any]:
        y = x.exp()
        if fail:
            y.register_hook(lambda grad: grad * (1 / 0))
        loss = (y * 2).sum()
        with contextlib.suppress(ZeroDivisionError):
            if way == "grad":
                lt.autograd.grad(loss, x, create_graph=create_graph)
            else:
                wanted = [x] if way == "inputs" else None
                loss.backward(inputs=wanted, create_graph=create_graph)
        x.grad = None
        return weakref.ref(y)

    seen = [run(fail) for fail in (True, False, True, False)]
    gc.collect()
    assert [ref() for ref in seen] == [None] * 4
    assert not running.order
