"""Guards of plans accept the graphs that they were written for, and give the values that planning
gives, whatever a program changes between two looks."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import lazyt as lt
from lazyt.errors import LazinessError
from lazyt.ir.graph import Node
from lazyt.plan import graph_keys, guarded_plans, planning
from lazyt.runtime import events

pytestmark = pytest.mark.lazy

ROUNDS = guarded_plans.OFTEN + 2


class Counted:
    """How often planning was asked."""

    def __init__(self) -> None:
        self.times = 0


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> Counted:
    found, realize = Counted(), planning.realize

    def counted(nodes: Any) -> list[Node]:
        found.times += 1
        return realize(nodes)

    monkeypatch.setattr(planning, "realize", counted)
    return found


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Plans that will not get kernels for their own sizes: those are guarded later."""
    planning.clear()
    with lt.config.override(any_size=False):
        yield
    planning.clear()


def later(planned: Counted, look: Callable[[], Any]) -> tuple[list[Any], int]:
    """What looks give, and how often planning was asked for the last of them."""
    found = [look() for _ in range(ROUNDS)]
    planned.times = 0
    return [*found, look()], planned.times


def test_what_comes_back_is_planned_no_more(planned: Counted) -> None:
    x = lt.arange(8.0).realize()
    found, times = later(planned, lambda: ((x * 2 + 1) * x).sum().item())
    assert times == 0 and found == [float((np.arange(8) * 2 + 1) @ np.arange(8))] * (ROUNDS + 1)


def test_numbers_may_change_each_time(planned: Counted) -> None:
    x = lt.arange(8.0).realize()
    numbers = iter(range(100))
    found, times = later(planned, lambda: (x * next(numbers)).sum().item())
    assert times == 0 and found == [28.0 * n for n in range(ROUNDS + 1)]
    small = iter([1e-3 * n for n in range(100)])
    found, times = later(planned, lambda: (x + next(small)).tolist()[1])
    wanted = [float(np.float32(1) + np.float32(1e-3 * n)) for n in range(ROUNDS + 1)]
    assert times == 0 and found == wanted


def test_slices_may_move(planned: Counted) -> None:
    x = lt.arange(40.0).realize()
    starts = iter(range(100))

    def look() -> Any:
        start = next(starts)
        return (x[start : start + 4] * 2).sum().item()

    found, times = later(planned, look)
    assert times == 0 and found == [2.0 * (4 * n + 6) for n in range(ROUNDS + 1)]


def test_writes_and_reads_that_are_the_result_may_move(planned: Counted) -> None:
    x = lt.zeros(40, 3).realize()
    row = lt.arange(3.0).realize()
    for i in range(40):
        x[i] = row * 2 + i
        x.realize()
        if i == ROUNDS:
            planned.times = 0
    assert planned.times == 0
    assert x.tolist() == [[float(i), i + 2.0, i + 4.0] for i in range(40)]


def test_many_graphs_may_end_alike(planned: Counted) -> None:
    """More than are tried one after the other, as in a suite of assertions."""
    functions = [lt.sin, lt.cos, lt.tanh, lt.abs, lt.exp, lt.sqrt, lt.square, lt.neg]
    shapes = [(2,), (3,), (2, 3), (3, 3), (1, 4), (2, 2, 2)]
    values = [lt.full(shape, 0.5).realize() for shape in shapes]
    cases = [(function, x) for function in functions for x in values]
    assert len(cases) > 2 * guarded_plans.MOST

    def look() -> list[bool]:
        return [lt.equal(function(x), function(x + 0)) for function, x in cases]

    found, times = later(planned, look)
    assert times == 0 and all(map(all, found))


def test_several_values_at_once(planned: Counted) -> None:
    x = lt.arange(6.0).realize()
    numbers = iter(range(100))

    def look() -> Any:
        number = next(numbers)
        double, square = x * number, x * x
        lt.realize(double, square, double + square)
        return double.tolist()[1], square.tolist()[2]

    found, times = later(planned, look)
    assert times == 0 and found == [(float(n), 4.0) for n in range(ROUNDS + 1)]
    y = x * 3
    for _ in range(2):  # one value under two names
        lt.realize(y, y.detach())
        assert y[1].item() == 3.0


def test_memory_is_written_over_while_nobody_knows_it(planned: Counted) -> None:
    state = {"x": lt.zeros(64).realize() + 1}
    seen: list[Any] = []

    def look(hold: bool) -> Any:
        x = state["x"]
        x[3:7] = x[8:12] + 1
        total: float = x.sum().item()
        if hold:
            seen.append((x.clone(), total))
        return total

    totals, times = later(planned, lambda: look(False))
    assert times == 0
    assert totals[0] == 68.0 and len(set(totals)) == 1
    held = state["x"].detach().clone()
    before = held.tolist()
    state["x"][3:7] = 9.0
    look(True)
    state["x"].mul_(2)
    look(True)
    assert held.tolist() == before  # nobody wrote over what is held
    assert [copy.sum().item() for copy, _ in seen] == [total for _, total in seen]


def test_one_value_for_two_and_two_for_one() -> None:
    x, y = lt.arange(4.0).realize(), lt.ones(4).realize()

    def look(a: Any, b: Any) -> Any:
        return ((a * 2) * (b * 2 + 1)).sum().item()

    for _ in range(ROUNDS):
        assert look(x, y) == 36.0
    for _ in range(ROUNDS):
        assert look(x, x) == 2 * (1 * 3 + 2 * 5 + 3 * 7)
        assert look(x, y) == 36.0


def test_a_value_that_somebody_holds_is_kept(planned: Counted) -> None:
    """A product is not computed twice because it was not in use when the guards were written."""
    x = lt.arange(16.0).reshape(4, 4).realize()

    def look(hold: bool) -> Any:
        product = x @ x
        total = (product + 1).sum()
        if not hold:
            del product
            return total.item()
        value: float = total.item()
        assert product.node.data is not None
        return value + product[0, 0].item()

    for hold in (False, True, False, True):
        found, _ = later(planned, lambda hold=hold: look(hold))  # type: ignore[misc]
        product = np.arange(16.0).reshape(4, 4) @ np.arange(16.0).reshape(4, 4)
        assert found == [product.sum() + 16 + hold * product[0, 0]] * (ROUNDS + 1)


def test_a_chain_that_grows_from_look_to_look(planned: Counted) -> None:
    """It began as a constant, and meets few plans: making one must not renew its nodes."""
    x = lt.zeros(8)
    planning.clear()
    for number in range(1, 30):
        x = x + 1
        planned.times = 0
        assert x.sum().item() == 8.0 * number
    assert planned.times == 0 and len(graph_keys.known) <= 4


def test_gradients_flow_through_what_was_computed(planned: Counted) -> None:
    w = lt.arange(3.0).requires_grad_()
    for number in range(ROUNDS):
        square = w * w
        loss = (square * number).sum()
        planned.times = 0
        assert loss.item() == 5.0 * number
        loss.backward()
        assert w.grad.tolist() == [0.0, 2.0 * number, 4.0 * number]  # type: ignore[union-attr]
        w.grad = None


def test_settings_and_other_kernels_are_noticed(planned: Counted) -> None:
    x = lt.arange(8.0).realize()

    def look() -> Any:
        return (x * 3).sum().item()

    assert later(planned, look)[1] == 0
    planned.times = 0
    with lt.config.override(interpret=True):
        assert look() == 84.0 and planned.times == 1
    made: list[Any] = [pair[0] for alike in guarded_plans._known.values() for pair in alike.few]
    (plan,) = [guarded.__globals__["plan"] for guarded in made]
    with lt.config.override(inline_reduce=2):
        assert look() == 84.0 and planned.times == 2
    assert look() == 84.0 and planned.times == 2
    plan.code = plan.code._replace(sizes=plan.code.sizes)  # as when it gets other kernels
    assert look() == 84.0 and planned.times == 3
    with lt.config.override(strict_laziness=True), pytest.raises(LazinessError):
        look()
    planning.clear()
    assert look() == 84.0 and planned.times == 4


def test_looks_are_recorded_with_their_lines() -> None:
    x = lt.arange(8.0).realize()
    for _ in range(ROUNDS):
        events.forget()
        (x * 3).sum().item()
        (event,) = events.recorded("realize")
        assert "test_guarded_plans.py:" in event.where and event.reason == "item()"


def test_threads_look_at_once() -> None:
    wrong: list[Any] = []

    def work(seed: int) -> None:
        x = lt.full((64,), float(seed)).realize()
        for number in range(200):
            found = ((x * 2 + number) * x).sum().item()
            if found != 64.0 * (2 * seed + number) * seed:
                wrong.append((seed, number, found))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def _program(draw: random.Random, module: Any) -> list[Any]:
    """Random operations on random tensors, some of them held, with looks in between."""
    held = [module.tensor([float(n), 1.0, -n / 2.0]) for n in range(3)]
    seen: list[Any] = []
    for _ in range(draw.randrange(4, 14)):
        a, b = draw.choice(held), draw.choice(held)
        kind = draw.randrange(8)
        if kind < 3:
            made = (a * draw.choice((0.5, 2.0, draw.random())), a + b, a * b - a)[kind]
            held[draw.randrange(len(held))] = made
        elif kind == 3:
            a += draw.choice((1.0, b))
        elif kind == 4:
            a[draw.randrange(3)] = draw.choice((0.25, b[draw.randrange(3)]))
        elif kind == 5:
            seen.append(a[draw.randrange(3)].item())
        elif kind == 6:
            seen.append(bool((a > b).all()))
        else:
            seen.append((a * b + a).sum().item())
    return [*seen, *[item.tolist() for item in held]]


def test_random_programs_give_what_planning_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    # Few programs, each many times in turn: their graphs come back under other circumstances.
    order = [random.Random(7).randrange(12) for _ in range(240)]
    found = [_program(random.Random(seed), lt) for seed in order]
    monkeypatch.setattr(guarded_plans, "run_known", lambda roots: -1)
    wanted = {seed: _program(random.Random(seed), lt) for seed in set(order)}
    for seed, values in zip(order, found, strict=True):
        assert values == wanted[seed], seed
