"""Hooks and retained gradients of tensors that captured functions make or are given."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import lazyt as lt


def hooked(w: Any, x: Any) -> Any:
    y = w * x
    y.register_hook(lambda g: g * 10)
    return (y * y).sum()


def hooked_view(w: Any, x: Any) -> Any:
    y = (w * x)[1:]
    y.register_hook(lambda g: g * 10)
    return y


def hooked_inside(w: Any, x: Any) -> Any:
    y = w * x
    y.register_hook(lambda g: g * 10)
    y.retain_grad()
    (y * y).sum().backward()
    return (y.grad * w).sum()


@pytest.mark.parametrize("function", [hooked, hooked_view, hooked_inside])
def test_hooks_that_a_captured_function_registers_are_called(function: Callable[..., Any]) -> None:
    def gradients(wrapper: Callable[..., Any]) -> list[object]:
        found: list[object] = []
        called = wrapper(function)
        for number in range(5):
            w: Any = lt.ones(3, requires_grad=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it says that it leaves the function alone
                called(w, lt.full((3,), float(number + 1))).sum().backward()
            found.append(w.grad.tolist())
        return found

    assert gradients(lt.jit) == gradients(lambda plain: plain)


def test_hooks_on_what_a_captured_function_is_given_are_called() -> None:
    @lt.jit
    def function(y: Any) -> Any:
        return (y * y).sum()

    for _ in range(5):
        x: Any = lt.arange(4.0).requires_grad_()
        y = x * 2
        y.retain_grad()
        result = function(y)
        y.register_hook(lambda g: g * 10)
        result.backward()
        assert y.grad.tolist() == [0.0, 40.0, 80.0, 120.0]
        assert x.grad.tolist() == [0.0, 80.0, 160.0, 240.0]
