"""Tensors with a live history that captured functions meet, make anew, and differentiate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lazyt as lt

pytestmark = [pytest.mark.lazy, pytest.mark.filterwarnings("ignore:lazyt.jit leaves")]
Made = tuple[Callable[..., Any], Callable[[], list[Any]], Callable[[int], tuple[Any, ...]]]


def values(parts: Any) -> Any:
    """Values of tensors in lists and tuples."""
    if isinstance(parts, (list, tuple)):
        return [values(part) for part in parts]
    return parts.detach().tolist() if isinstance(parts, lt.Tensor) else parts


def agree(make: Callable[[], Made], count: int = 9) -> list[str]:
    """Calls a captured function, and one that is not, of two makings: results and state agree."""
    (function, state, given), (twin, other, same) = make(), make()
    captured = lt.jit(function)
    for n in range(count):
        got, want = values(captured(*given(n))), values(twin(*same(n)))
        assert got == want and values(state()) == values(other()), (n, captured.why())
    found: list[str] = captured.why()
    return found


def test_state_whose_history_grows_with_every_call() -> None:
    def make() -> Made:
        w: Any = lt.ones(3, requires_grad=True)
        held: dict[str, Any] = {"h": lt.zeros(3)}

        def function(x: Any) -> Any:
            held["h"] = held["h"] * 0.5 + w * x
            loss = held["h"].sum()
            loss.backward(retain_graph=True)
            return loss.detach()

        return function, lambda: [w.grad, held["h"]], lambda n: (lt.full((3,), float(n)),)

    told = agree(make)
    assert "differentiates through the history of held['h']" in told[0] and "detach()" in told[0]


def test_a_loss_that_is_summed_up_and_differentiated_now_and_then() -> None:
    def make() -> Made:
        w: Any = lt.ones(2, requires_grad=True)
        total: dict[str, Any] = {"t": w.sum() * 0}

        def function(x: Any, last: bool) -> Any:
            total["t"] = total["t"] + (w * x).sum()
            if last:
                total["t"].backward()
                total["t"] = w.sum() * 0
            return x

        def given(n: int) -> tuple[Any, ...]:
            return lt.full((2,), float(n)), n % 3 == 2

        return function, lambda: [w.grad, total["t"]], given

    told = agree(make, 16)
    assert "captured" in told and any("history of total['t']" in text for text in told)


def test_histories_that_are_only_carried_on_are_captured() -> None:
    def make() -> Made:
        w: Any = lt.ones(3, requires_grad=True)
        held: dict[str, Any] = {"h": w * 2}

        def function(x: Any, y: Any) -> Any:
            loss = (held["h"] * x * y).sum()
            held["h"] = w * 3
            (grad,) = lt.autograd.grad((y * y).sum(), y)
            return loss, grad

        def given(n: int) -> tuple[Any, ...]:
            return lt.full((3,), float(n)), w * float(n)

        return function, lambda: [held["h"]], given

    assert agree(make) == ["captured"]
