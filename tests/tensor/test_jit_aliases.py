"""Arguments of captured functions that are one tensor, or a part of one that is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lazyt as lt
from tests.tensor.test_jit import numbers

pytestmark = [pytest.mark.lazy, pytest.mark.filterwarnings("ignore:lazyt.jit leaves")]


def test_one_tensor_given_twice_and_two_tensors() -> None:
    captured = lt.jit(lambda x, y, z: x + 10 * y["y"] + 100 * z)
    a, b, c = numbers(3), numbers(3), numbers(3)
    calls = [(a, a, b), (a, b, b), (a, b, a), (a, a, a), (a, b, c)]
    for x, y, z in [call for call in calls for _ in range(4)] + calls + calls[::-1]:
        want = [i + 10 * j + 100 * k for i, j, k in zip(x.tolist(), y.tolist(), z.tolist())]
        assert captured(x, {"y": y}, z).tolist() == pytest.approx(want), captured.why()
    assert captured.why().count("captured") == len(calls)


@pytest.mark.parametrize("function", [
    lambda a, row: a.mul_(2) + row,
    lambda a, row: (row.clone(), a.mul_(2) + row)[1],
])  # fmt: skip
def test_a_part_of_what_is_written(function: Callable[..., Any]) -> None:
    captured, data = lt.jit(function), numbers(3, 16)
    for n in range(5):
        got, want = (f(lt.ones(3, 16), data[n % 3]).tolist() for f in (captured, function))
        assert got == want
    for _ in range(3):
        a = lt.arange(48.0).reshape(3, 16).clone()
        b = a.clone()
        assert captured(a, a[1]).tolist() == function(b, b[1]).tolist()
        assert a.tolist() == b.tolist()


def test_a_gradient_that_is_written_given_as_argument() -> None:
    p: Any = lt.ones(4, requires_grad=True)

    def function(given: Any) -> Any:
        p.grad.add_(1.0)
        return given * 2

    captured = lt.jit(function)
    p.grad = lt.zeros(4)
    for n in range(5):
        assert captured(lt.full((4,), float(n))).tolist() == [2.0 * n] * 4
    for n in range(6, 10):
        assert captured(p.grad).tolist() == [2.0 * n] * 4


def _adds_to_both(held: lt.Tensor, given: lt.Tensor) -> lt.Tensor:
    held.add_(1)
    given.mul_(2)
    return given + held


def _reads_what_is_held(held: lt.Tensor, given: lt.Tensor) -> lt.Tensor:
    given.mul_(2)
    return held * 1


def _reads_what_is_given(held: lt.Tensor, given: lt.Tensor) -> lt.Tensor:
    held.mul_(3)
    return given * 1


@pytest.mark.parametrize("is_gradient", [False, True])
@pytest.mark.parametrize("order", ["ooooooaaooaao", "aaaaaaaoooaao", "ooaoaooaaaooa"])
@pytest.mark.parametrize("function", [_adds_to_both, _reads_what_is_held, _reads_what_is_given])
def test_an_argument_that_is_held_elsewhere(
    function: Callable[..., Any], order: str, is_gradient: bool
) -> None:
    def results(wrap: Callable[..., Any]) -> list[Any]:
        leaf = lt.ones(4, requires_grad=True)
        leaf.grad = lt.arange(4.0)
        state = {"held": lt.arange(4.0)}

        def held() -> Any:
            return leaf.grad if is_gradient else state["held"]

        def on_gradient(given: lt.Tensor) -> Any:
            return function(leaf.grad, given)

        def on_table(given: lt.Tensor) -> Any:
            return function(state["held"], given)

        step, found = wrap(on_gradient if is_gradient else on_table), []
        for number, letter in enumerate(order):
            given = held() if letter == "a" else lt.ones(4) * number
            found.append((step(given).tolist(), given.tolist(), held().tolist()))
        return found

    assert results(lt.jit) == results(lambda function: function)


def test_a_view_that_was_read_before_the_capture() -> None:
    whole = lt.zeros(12)
    part = whole[:6]

    @lt.jit
    def step(x: lt.Tensor) -> lt.Tensor:
        return part * 1 + x

    @lt.jit
    def add(x: lt.Tensor) -> None:
        part.add_(x)

    for number in range(6):
        whole.add_(1)
        assert part.tolist() == [2 * number + 1] * 6
        assert step(lt.zeros(6)).tolist() == [2 * number + 1] * 6
        add(lt.ones(6))
        assert whole[0].item() == 2 * number + 2


@pytest.mark.parametrize("looked_at", [False, True])
def test_writes_past_a_parameter_whose_alias_is_read(looked_at: bool) -> None:
    """Both count the same writes; replays take theirs back, and neither ends below zero."""
    parameter = lt.nn.Parameter(lt.ones(4))
    alias = parameter.detach()
    if looked_at:
        lt.realize(parameter)

    @lt.jit
    def function(x: lt.Tensor) -> lt.Tensor:
        parameter.data.mul_(0.5)
        return alias + x

    for n in range(1, 9):
        assert function(lt.zeros(4)).tolist() == [0.5**n] * 4, function.why()
        assert not parameter.is_inference() and parameter._version == alias._version == 0
    with lt.no_grad():
        parameter.add_(1)
    assert alias.tolist() == [1 + 0.5**8] * 4 and alias._version == 1


def _words(k: int) -> lt.Tensor:
    return lt.tensor([10 * k + 1, 5, 7, 9], dtype=lt.int32)


@pytest.mark.parametrize("function, make", [
    (lambda x: x.view(lt.int32) + 1, lambda k: _words(k).view(lt.float32)),
    (lambda x: x.view(lt.uint8) + 1, lambda k: _words(k).view(lt.float32)),
    (lambda x: x.view(lt.uint8) + 1, lambda k: _words(k).view(lt.uint8).view(lt.float16)),
    (lambda x: x.view(lt.uint8) + 1, lambda k: (_words(k) > 8).view(lt.uint8).view(lt.bool)),
    (lambda x: x.view(lt.int32) + 1, lambda k: _words(k)[:2].view(lt.float32)),
    (lambda x: x.view(lt.int32) + 1, lambda k: _words(k).view(2, 2).view(lt.float32)),
    (lambda x: x.view(lt.int32) + 1, lambda k: _words(k).view(lt.float32).detach()),
    (lambda x: x.view(lt.int32).clone() + 1, lambda k: (_words(k) * 1).realize().view(lt.float32)),
    (lambda x: x.as_strided((4,), (1,), 0) * 2, lambda k: _words(k).view(lt.int16)[2:6]),
    (lambda x: x.untyped_storage()[0] * x, lambda k: _words(k).view(lt.int16)),
    (lambda x: x.abs() * 2, lambda k: _words(k).view(lt.float32)),
    (lambda x: x.mul_(2).view(lt.int8), lambda k: _words(k).half().view(lt.int16).view(lt.float32)),
])  # fmt: skip
@pytest.mark.parametrize("where", ["argument", "global", "two"])
def test_memory_behind_a_view_of_bits(
    function: Callable[..., Any], make: Callable[[int], Any], where: str
) -> None:
    """What a function reads there is that of the call, not of the one that was captured."""
    held: list[Any] = [None]
    run: Any = {
        "argument": function,
        "global": lambda _: function(held[0]),
        "two": lambda pair: function(pair[0]) + function(pair[1]),
    }[where]
    captured = lt.jit(run)
    for k in range(6):
        results = []
        for call in (run, captured):
            x = held[0] = make(k)
            results.append(call((x, make(k + 1)) if where == "two" else x).tolist())
        assert results[0] == results[1], captured.why()


def test_memory_is_written_and_read_as_other_bits() -> None:
    words = _words(0)
    floats = words.view(lt.float32)

    def function(given: lt.Tensor) -> lt.Tensor:
        words.add_(given)
        return floats.clone()

    captured = lt.jit(function)
    expected = _words(0)
    for k in range(6):
        expected.add_(k)
        got = captured(lt.full((4,), k, dtype=lt.int32))
        assert got.view(lt.int32).tolist() == expected.tolist(), captured.why()
