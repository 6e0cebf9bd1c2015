"""Python numbers that change from call to call are followed through captured functions."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyt as lt
from lazyt import nn
from lazyt.errors import LazytError
from lazyt.tracing.symbolic_numbers import Numbers, is_symbolic
from tests.tensor.test_jit import numbers

pytestmark = pytest.mark.lazy


def agree(function: Callable[..., Any], values: Any) -> Any:
    """Calls the captured and the plain function with ``numbers(4)`` and each of the values."""
    captured = lt.jit(function)
    for value in values:
        x = numbers(4)
        got, want = captured(x, value), function(x, value)
        if not isinstance(want, tuple):
            got, want = (got,), (want,)
        for a, b in zip(got, want, strict=True):
            assert type(a) is type(b)
            assert a.tolist() == b.tolist() if isinstance(a, lt.Tensor) else a == b
    return captured


RATES = [0.5, 0.25, 1e-3, 3.0, -0.0, 0.1, 7e37]


@pytest.mark.parametrize("function", [
    lambda x, n: x * n,
    lambda x, n: n - x / (n + 2.0),
    lambda x, n: x.add(x, alpha=-n * 0.5) + (n**2 + 1),
    lambda x, n: (x.double() * n, x.half() + n),
    lambda x, n: lt.lerp(x, x + 1, n) - n % 3,
    lambda x, n: (x + n, n * 2),
])  # fmt: skip
def test_rates_become_inputs(function: Callable[..., Any]) -> None:
    assert agree(function, RATES * 2).why() == ["captured"]


def test_whole_numbers_become_inputs() -> None:
    def function(x: Any, n: int) -> Any:
        return (x * 10).long() * n + n // 3, n % 4, x / (n + 1)

    assert agree(function, [*range(12), 2**40, -7]).why() == ["captured"]


def test_what_a_function_decides_by_a_number_is_a_condition() -> None:
    captured = agree(
        lambda x, n: x * n if n > 4 else x - n, [0.0, 1.0, 2.0, 3.0, 5.0, 6.0, 7.0, 2.5]
    )
    assert captured.why() == ["captured", captured.why()[1], "captured"]
    line = (agree.__code__.co_filename, test_what_a_function_decides_by_a_number_is_a_condition)
    where = f"{line[0]}:{line[1].__code__.co_firstlineno + 2}"
    assert captured.why()[1] == (
        f"captured again: n is 5.0, was 3.0, and the comparison > at {where} is True, was False"
    )


@pytest.mark.parametrize("function", [
    lambda x, n: x[:n],
    lambda x, n: x.repeat(n),
    lambda x, n: sum((x for _ in range(n)), x),
    lambda x, n: x * math.sqrt(n),
    lambda x, n: x * float(f"{n}.5"),
    lambda x, n: x * {1: 5.0}.get(n, 2.0),
    lambda x, n: x + lt.full((2, 1), n) + lt.tensor([n, 1])[0] + np.float32(n),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:lazyt.jit leaves")
def test_numbers_that_are_looked_at(function: Callable[..., Any]) -> None:
    agree(function, [1, 2, 3, 1, 2, 3, 1, 2, 3, 4])


@pytest.mark.filterwarnings("ignore:lazyt.jit leaves")
def test_a_function_that_asks_for_types_gets_numbers() -> None:
    agree(lambda x, n: x * n if type(n) is float else x, RATES)


@pytest.mark.filterwarnings("ignore:lazyt.jit leaves")
def test_nothing_but_numbers_stays_behind() -> None:
    state: dict[str, Any] = {"last": 0.0, "all": []}

    def function(x: Any, n: float) -> Any:
        state["last"] = n
        state["all"].append((n, n * 2))
        return x + n

    agree(function, RATES)
    assert type(state["last"]) is float
    assert all(type(v) is float for pair in state["all"] for v in pair)


def test_a_training_step_with_its_rate_as_argument() -> None:
    def train(use: bool) -> Any:
        lt.manual_seed(1)
        net = nn.Linear(3, 2)

        def step(x: Any, rate: float) -> Any:
            loss = net(x).square().mean()
            grads = lt.autograd.grad(loss, list(net.parameters()))
            with lt.no_grad():
                for parameter, grad in zip(net.parameters(), grads, strict=True):
                    parameter.sub_(grad, alpha=rate)
            return loss

        run: Any = lt.jit(step) if use else step
        losses = [run(lt.ones(4, 3) * n, 0.1 / (n + 1)).item() for n in range(8)]
        assert not use or run.why() == ["captured"]
        return losses, [p.tolist() for p in net.parameters()]

    assert train(True) == train(False)


def test_a_symbolic_number_passes_for_a_number() -> None:
    made = Numbers([2.5, 3])
    rate, count = made.symbols()
    assert isinstance(rate, float) and isinstance(count, int) and not isinstance(count, bool)
    assert is_symbolic(rate * count + 1) and is_symbolic(2**-count) and is_symbolic(abs(-rate))
    assert rate * count + 1 == 8.5 and divmod(rate, 2) == (1.0, 0.5) and f"{count:03d}" == "003"
    assert [10, 20, 30, 40][count] == 40 and round(rate, 0) == 2.0 and rate.is_integer() is False
    assert hash(count) == hash(3) and {3: 1}[count] == 1 and copy.deepcopy(count) == 3
    assert np.array([rate]).dtype == np.float64 and math.floor(rate) == 2 and count << 1 == 6
    with pytest.raises(TypeError):
        [1, 2][rate]
    with pytest.raises(ZeroDivisionError):
        rate / (count - 3)
    assert not made.hold([2.5, 4]) and made.hold([2.5, 3]) and not made.hold([-2.5, 3])


state = lt.zeros(2)
groups: list[Any] = []


def test_a_variable_named_like_state_of_optimizers_is_not_that_state() -> None:
    w: Any = lt.ones(2, requires_grad=True)
    optimizer = lt.optim.Adam([w], lr=0.5)
    schedule = lt.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)

    def step() -> Any:
        optimizer.zero_grad()
        (w * state.detach()).sum().backward()
        optimizer.step()
        schedule.step()
        state.add_(w.detach())
        return state + 0

    captured = lt.jit(step)
    for _ in range(6):
        captured()
    assert captured.why() == ["captured"] and optimizer.param_groups[0]["lr"] == 0.5**7
    groups[:] = optimizer.param_groups
    reads = lt.jit(lambda x: x * groups[0]["lr"])
    for rate in (1.0, 1.0, 1.0, 2.0, 3.0):
        optimizer.param_groups[0]["lr"] = rate
        assert reads(lt.ones(1)).item() == rate


def test_powers_whose_type_depends_on_the_numbers() -> None:
    values = [1, 2, 3, 4, -1, -2, 3]
    agree(lambda x, n: (x * 10).long() * (2**n), values)
    agree(lambda x, n: x * (n**2 + n**-2), values)


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args).tolist()
    except LazytError as error:
        return str(error)


@pytest.mark.parametrize("function", [
    lambda x, n: x[lt.full((2,), n)],
    lambda x, n: lt.bincount(lt.full((2,), n)),
    lambda x, n: nn.functional.one_hot(lt.full((2,), n), 3),
    lambda x, n: (x * 10).long() // n,
    lambda x, n: (x * 10).long() % (n - 1),
    lambda x, n: (x * 10).to(lt.int8) // n,
])  # fmt: skip
def test_numbers_as_indices_and_divisors_stay_in_range(function: Callable[..., Any]) -> None:
    captured = lt.jit(function)
    for value in [1, 2, 1, 2, 0, 7, -9, 258, 256, 2, 1]:
        x = numbers(4)
        assert outcome(captured, x, value) == outcome(function, x, value), value


@pytest.mark.parametrize("function", [
    lambda x, n: x.topk(n).values,
    lambda x, n: nn.functional.pad(x, (n, 1), value=n),
])  # fmt: skip
def test_sizes_are_python_numbers(function: Callable[..., Any]) -> None:
    captured = lt.jit(function)
    for value in [0, 1, 3, 1, 2, 3]:
        x = numbers(4)
        got, want = captured(x, value), function(x, value)
        assert got.tolist() == want.tolist()
        assert all(type(extent) is int for extent in (*got.shape, *want.shape))
