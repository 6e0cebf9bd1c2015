"""Loops that nobody looks at are computed in equal parts, so that they meet the same plan again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import lazyt as lt
from lazyt.handle import pending
from lazyt.plan import graph_keys, planning, repeats
from lazyt.plan.repeats import PART, _smallest_period
from lazyt.runtime import events

LONG = 300

#: Without pending graphs there is nothing to cut.
graphs = pytest.mark.skipif(lt.config.eager, reason="nothing is pending: LAZYT_EAGER is on")


@pytest.fixture(autouse=True)
def plans(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The sizes of the graphs that plans were made for."""
    made: list[int] = []
    make = planning._make

    def counted(request: Any, *rest: Any) -> Any:
        made.append(len(request.order))
        return make(request, *rest)

    planning.clear()
    graph_keys.forget_unused(0)  # how many graphs are new says how far cuts are apart
    monkeypatch.setattr(planning, "_make", counted)
    monkeypatch.setattr(pending, "_repeats", pending._Repeats())
    with lt.config.override(max_pending_nodes=400):
        yield made
    pending.budget.renew()


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each search for a period."""
    found: list[int] = []
    find = repeats.find_parts

    def counted(*args: Any) -> Any:
        found.append(1)
        return find(*args)

    monkeypatch.setattr(pending, "find_parts", counted)
    return found


def waves(module: Any, steps: int) -> list[Any]:
    """One state, with a number that changes."""
    x = module.arange(5.0)
    for i in range(steps):
        x = (x * 0.9 + 1).sin() * (1 + i * 0.001) + x.cos()
    return [x]


def averages(module: Any, steps: int) -> list[Any]:
    """Several states, written in place, one of which only the others' values go into."""
    stream = module.tensor([[float((i * 7 + j) % 11) for j in range(4)] for i in range(steps)])
    mean, var, outliers = module.zeros(4), module.ones(4), module.zeros(4)
    for t in range(steps):
        value = stream[t]
        mean.mul_(0.9).add_(value, alpha=0.1)
        deviation = value - mean
        var = 0.9 * var + 0.1 * deviation**2
        outliers += (deviation.abs() > 2 * var.sqrt()).float()
    return [mean, var, outliers]


def listed(module: Any, steps: int) -> list[Any]:
    """States that the program holds on to."""
    x, found = module.ones(3), []
    for _ in range(steps):
        x = x * 0.5 + x.sin() + 0.25
        found.append(x)
    return [module.stack(found).sum(1)]


@pytest.mark.lazy
@pytest.mark.parametrize("program", [waves, averages, listed])
def test_a_long_loop_takes_few_small_plans(program: Any, plans: list[int]) -> None:
    with lt.config.override(max_pending_nodes=10**6):
        wanted = [item.tolist() for item in program(lt, LONG)]
    plans.clear()
    events.forget()
    for _ in range(2):
        found = program(lt, LONG)
        assert [item.tolist() for item in found] == wanted  # to the bit
    assert any("repeats itself" in event.reason for event in events.recorded("realize"))
    plans.clear()
    assert [item.tolist() for item in program(lt, LONG)] == wanted
    assert plans == []


@pytest.mark.lazy
def test_parts_are_small(plans: list[int]) -> None:
    waves(lt, LONG)[0].tolist()
    assert plans and max(plans) < 3 * PART


@pytest.mark.lazy
def test_what_does_not_repeat_itself_is_computed_whole() -> None:
    events.forget()
    x, draw = lt.arange(5.0), np.random.default_rng(3)
    functions = [lt.sin, lt.cos, lt.tanh, lt.abs, lambda t: t + 1, lambda t: t * 0.5]
    for which in draw.integers(0, len(functions), 500):
        x = functions[which](x)
    (event,) = events.recorded("realize")
    assert "more than the budget" in event.reason
    with lt.config.override(max_pending_nodes=10**6):
        y, draw = lt.arange(5.0), np.random.default_rng(3)
        for which in draw.integers(0, len(functions), 500):
            y = functions[which](y)
        assert x.tolist() == y.tolist()


def test_a_gradient_may_flow_through_it() -> None:
    w = lt.full((3,), 0.5).requires_grad_()
    x = w
    for _ in range(LONG):
        x = x * 0.99 + w.sin() * 0.01
    x.sum().backward()
    grad = w.grad.tolist()  # type: ignore[union-attr]
    with lt.config.override(max_pending_nodes=10**6):
        v = lt.full((3,), 0.5).requires_grad_()
        y = v
        for _ in range(LONG):
            y = y * 0.99 + v.sin() * 0.01
        y.sum().backward()
        assert v.grad.tolist() == grad  # type: ignore[union-attr]


@pytest.mark.lazy
def test_under_strict_laziness_it_is_refused() -> None:
    with lt.config.override(strict_laziness=True), pytest.raises(Exception, match="over 400"):
        waves(lt, LONG)


def test_periods() -> None:
    assert _smallest_period([1, 2, 3] * 5 + [1]) == 3
    assert _smallest_period([1, 1, 1, 1]) == 1
    assert _smallest_period([1, 2, 3, 4]) == 4 and _smallest_period([]) == 0


def changing(module: Any, steps: int) -> list[Any]:
    """A loop that comes to make more than it did, which nothing else hangs on, and less again."""
    x, y, far = module.arange(5.0), module.ones(5), module.zeros(5)
    for i in range(steps):
        x = (x * 0.9 + 1).sin() + x.cos()
        if steps // 4 < i < 3 * steps // 4:
            y = y * 0.5 + x
            far = far + (y - x).abs()
    return [x, y, far]


@pytest.mark.lazy
def test_cuts_of_a_known_loop_take_one_walk(searches: list[int]) -> None:
    for program in (waves, averages):
        program(lt, LONG)
        searches.clear()
        events.forget()
        program(lt, 20 * LONG)
        cuts = [e for e in events.recorded("realize") if "repeats itself" in e.reason]
        assert len(cuts) > 100 and len(searches) < len(cuts) / 10


@pytest.mark.lazy
def test_a_loop_may_change(plans: list[int]) -> None:
    with lt.config.override(max_pending_nodes=10**6):
        wanted = [item.tolist() for item in changing(lt, 4 * LONG)]
    plans.clear()
    for _ in range(3):
        assert [item.tolist() for item in changing(lt, 4 * LONG)] == wanted
    assert max(plans) < 2 * LONG  # what nothing hangs on was computed on the way


@graphs
def test_what_is_there_has_no_parts() -> None:
    """A value that is made in memory may be the one at which a graph is measured."""
    for program in (waves, averages):
        program(lt, LONG)
        for _ in range(3):
            pending.budget.nodes, pending._repeats.tries = 0, 10**6  # no longer waited for
            x = lt.tensor([1.0, 2.0])
            assert pending.budget.nodes > 0
            pending.budget.nodes = 0
            assert (x + 1).tolist() == [2.0, 3.0]


@graphs
def test_behind_a_loop_nobody_goes_on_looking_for_it(searches: list[int]) -> None:
    averages(lt, LONG)
    searches.clear()
    x, rng = lt.arange(5.0), np.random.default_rng(3)
    for number in range(6000):
        x = x.cos() if rng.random() < 0.5 else x.sin() * 0.5
        if number % 200 == 0:
            x.tolist()
    assert 0 < len(searches) <= pending._MOST_MISSES + 1
    assert pending._repeats.last is None and pending._repeats.periods


@pytest.mark.lazy
def test_loops_repeat_while_plans_get_their_kernels() -> None:
    """Plans in tier 0 hold the graphs that they are made of, which share constants with loops."""
    with lt.config.override(tier="auto"):
        runs = [[found.tolist() for found in averages(lt, 600)] for _ in range(3)]
    assert runs[0] == runs[1] == runs[2]


@graphs
def test_a_long_loop_that_does_not_repeat_itself_is_warned_of_once() -> None:
    rng = np.random.default_rng(3)
    x = y = lt.arange(5.0)
    with pytest.warns(
        pending.LongGraphWarning, match=r"test_repeats\.py:\d+: time after time"
    ) as said:
        for _ in range(4000):
            if rng.random() < 0.5:
                x = (x * 0.5 + 1).sin()
            if rng.random() < 0.3:
                y = y.cos() - x
        assert np.isfinite((x + y).numpy()).all()
    assert len([item for item in said if item.category is pending.LongGraphWarning]) == 1


@pytest.mark.filterwarnings("error")
def test_loops_that_repeat_themselves_or_are_looked_at_are_not_warned_of() -> None:
    (found,) = waves(lt, 4 * LONG)
    assert np.isfinite(found.numpy()).all()
    rng = np.random.default_rng(3)
    x = lt.arange(5.0)
    for _ in range(1200):
        x = (x * 0.5 + 1).sin() if rng.random() < 0.5 else x.cos()
        x.realize()


def triangle(module: Any, size: int) -> list[Any]:
    """A loop whose rounds get longer, with columns written in place."""
    a = module.sin(module.arange(1.0 * size * size).reshape(size, size) ** 2)
    q, r = module.zeros(size, size), module.zeros(size, size)
    for j in range(size):
        v = a[:, j].clone()
        for i in range(j):
            r[i, j] = module.dot(q[:, i], v)
            v -= r[i, j] * q[:, i]
        r[j, j] = v.norm()
        q[:, j] = v / r[j, j]
    return [q, r]


def branches(module: Any, steps: int) -> list[Any]:
    """A loop that takes one of two branches, by numbers of Python's."""
    rng = np.random.default_rng(3)
    x = y = module.arange(5.0)
    for _ in range(steps):
        if rng.random() < 0.5:
            x = (x * 0.5 + 1).sin()
        x = x.cos() * 0.75
        y = y * 0.9 + x if rng.random() < 0.3 else y - x
    return [x, y]


@pytest.mark.lazy
@pytest.mark.filterwarnings("error::lazyt.handle.pending.LongGraphWarning")
@pytest.mark.parametrize(("program", "size"), [(triangle, 50), (branches, 2500)])
def test_loops_that_nearly_repeat_themselves_are_cut_at_landmarks(program: Any, size: int) -> None:
    with lt.config.override(max_pending_nodes=4000, tier=0):
        pending.budget.renew()
        events.forget()
        found = [item.tolist() for item in program(lt, size)]
        cuts = [e for e in events.recorded("realize") if "nearly repeats" in e.reason]
        assert len(cuts) > 20
        for _ in range(3):  # from its beginning on, the loop is cut from the second call on
            before = len(graph_keys.known)
            assert [item.tolist() for item in program(lt, size)] == found  # to the bit
        assert len(graph_keys.known) - before < len(cuts) / 10
    with lt.config.override(max_pending_nodes=10**6):
        pending.budget.renew()
        events.forget()
        pending._repeats.landmarks = frozenset()
        assert [item.tolist() for item in program(lt, size)] == found
        assert not [e for e in events.recorded("realize") if "repeats" in e.reason]


@graphs
@pytest.mark.parametrize("more", range(6))
def test_landmarks_are_forgotten_behind_their_loop(more: int) -> None:
    with lt.config.override(max_pending_nodes=4000, tier=0):
        pending.budget.renew()
        pending.budget.nodes += more  # another value is looked at where the graph is too long
        branches(lt, 2000)
        assert pending._repeats.landmarks
        x = lt.arange(5.0)
        for _ in range(2 * pending._MOST_PASSED):
            x = x.exp().clamp(max=2.0)
            x.tolist()
        for _ in range(2 * pending._MOST_PASSED):
            x = x.exp().clamp(max=2.0)
        assert not pending._repeats.landmarks
        assert np.isfinite(x.numpy()).all()


@graphs
def test_gradients_flow_through_what_has_landmarks() -> None:
    def gradient(limit: int) -> list[float]:
        with lt.config.override(max_pending_nodes=limit):
            pending.budget.renew()
            branches(lt, 2000)
            w = lt.arange(5.0).requires_grad_()
            x, rng = w, np.random.default_rng(3)
            for _ in range(400):
                x = (x * 0.5 + 1).sin() if rng.random() < 0.5 else x.cos() * 0.75
            x.sum().backward()
            return w.grad.tolist()  # type: ignore[union-attr, no-any-return]

    assert gradient(4000) == gradient(10**6)
