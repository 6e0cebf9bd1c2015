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


def refuses(result: lt.Tensor) -> bool:
    """Whether a backward says that what it needs was freed."""
    try:
        result.backward()
    except RuntimeError as error:
        assert "a second time" in str(error)
        return True
    return False


@pytest.mark.parametrize("retained", [False, True])
def test_a_second_backward_of_a_replay_fails_as_the_functions_own(retained: bool) -> None:
    found = []
    for captures in (True, False):
        w = lt.zeros(3, requires_grad=True)

        def function(x: lt.Tensor, w: lt.Tensor = w) -> lt.Tensor:
            return ((w - x) ** 2).sum()

        called = lt.jit(function) if captures else function
        for _ in range(6):
            w.grad = None
            result = called(lt.ones(3))
            result.backward(retain_graph=retained)
            found.append((refuses(result), refuses(result), values(w.grad)))
    assert found[:6] == found[6:]
    assert {two for _, two, _ in found} == {True} and {one for one, _, _ in found} == {not retained}


def test_results_of_a_replay_share_what_backwards_free() -> None:
    """The first two both need the square, the third needs nothing but itself, the last a sum."""
    orders = [(0, 1, 2, 3), (1, 0, 3, 2), (2, 0, 1, 3), (3, 2, 1, 0), (2, 2, 3, 3), (1, 2, 3, 3)]
    found = []
    for captures in (True, False):
        w = lt.ones(3, requires_grad=True)

        def function(x: lt.Tensor, w: lt.Tensor = w) -> tuple[lt.Tensor, ...]:
            square = (w * x) ** 2
            return square.sum(), (square * 2).sum(), (w.exp() * 3).sum(), (w + x).sum()

        called = lt.jit(function) if captures else function
        for order in orders:
            results = called(lt.arange(3.0))
            found.append(([refuses(results[n]) for n in order], values(w.grad)))
    assert found[: len(orders)] == found[len(orders) :]
    assert [any(failed) for failed, _ in found[: len(orders)]] == [True] * 5 + [False]
