"""Exceptions on the way through a replay leave everything as the function itself would have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lazyt as lt
from tests.tensor.test_jit_histories import Made, values

pytestmark = [pytest.mark.lazy, pytest.mark.filterwarnings("ignore:lazyt.jit leaves")]
FAILING = [2, 3, 6]  # a replay in general, one that would make a fast path, a fast path


def agree(make: Callable[[int], Made], failing: int, raises: bool = True) -> None:
    """Calls both functions ten times: results, exceptions, state and random numbers agree."""
    results: list[Any] = []
    told: list[str] = []
    for use in (False, True):
        lt.manual_seed(1)
        function, state, given = make(failing)
        called: Any = lt.jit(function) if use else function
        found: list[Any] = []
        for n in range(10):
            try:
                found.append(values(called(*given(n))))
            except (ArithmeticError, LookupError) as error:
                found.append((type(error).__name__, str(error)))
            found += [values(state()), lt.rand(1).item() if n == failing else 0.0]
        results.append(found)
        told = called.why() if use else []
    assert results[0] == results[1], told
    assert raises == any(isinstance(part, tuple) for part in results[1])
    assert told == ["captured"]


@pytest.mark.parametrize("failing", FAILING)
def test_a_number_that_cannot_be_divided_by(failing: int) -> None:
    def make(failing: int) -> Made:
        a, b = lt.zeros(2), lt.zeros(2)

        def function(x: Any, k: float) -> Any:
            a.add_(lt.rand(2))
            b.add_(x / (1 / k))
            return a + b + lt.rand(2)

        def given(n: int) -> tuple[Any, ...]:
            return lt.ones(2), 0.0 if n == failing else n + 0.5

        return function, lambda: [a, b], given

    agree(make, failing)


class Failing(lt.optim.lr_scheduler.LRScheduler):
    """Raises once."""

    at = -1

    def get_lr(self) -> list[Any]:
        """The rates."""
        if self.last_epoch == self.at:
            raise KeyError("no rate")
        return [0.1 / (self.last_epoch + 1) for _ in self.base_lrs]


@pytest.mark.parametrize("failing", FAILING)
@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler")
@pytest.mark.parametrize("place", ["first", "between", "last", "caught"])
def test_a_schedule_that_raises(place: str, failing: int) -> None:
    def make(failing: int) -> Made:
        w: Any = lt.ones(2, requires_grad=True)
        count = lt.zeros(2)
        optimizer = lt.optim.SGD([w], lr=0.1, momentum=0.9)
        schedule = Failing(optimizer)
        schedule.at = 2 * failing + 1 if place == "caught" else failing + 1

        def function(x: Any) -> Any:
            if place == "first":
                schedule.step()
            optimizer.zero_grad()
            (w * x * lt.rand(2)).sum().backward()
            optimizer.step()
            count.add_(1)
            try:
                if place in ("between", "caught"):
                    schedule.step()
                count.add_(w.detach() * lt.rand(2))
            except KeyError:
                count.add_(100)
                if place == "between":
                    raise
            if place in ("last", "caught"):
                schedule.step()
            return count * 2

        def state() -> list[Any]:
            return [w, w.grad, count, schedule.last_epoch, schedule.get_last_lr()]

        return function, state, lambda n: (lt.full((2,), n + 1.0),)

    agree(make, failing, place != "caught")


@pytest.mark.parametrize("failing", FAILING)
def test_a_number_behind_the_step_of_an_optimizer(failing: int) -> None:
    def make(failing: int) -> Made:
        weight = lt.ones(3).requires_grad_()
        optimizer = lt.optim.Adam([weight], lr=0.1)
        b = lt.zeros(3)

        def function(x: Any, k: float) -> Any:
            optimizer.zero_grad()
            (weight * x).sum().backward()
            optimizer.step()
            b.add_(x / (1 / k))
            return b + weight.detach()

        def given(n: int) -> tuple[Any, ...]:
            return lt.ones(3), 0.0 if n == failing else n + 0.5

        return function, lambda: [weight.detach(), b], given

    agree(make, failing)
