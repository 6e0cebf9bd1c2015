"""Hand-written training loops cost the same at every step: memory, nodes, plans and time."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyt
from lazyt.ir import graph, op
from lazyt.plan import graph_keys
from lazyt.runtime.memory import pool

State = dict[Any, Any]
STEPS = 160


def start() -> tuple[list[Any], Callable[[list[Any]], Any]]:
    source = np.random.default_rng(0)
    x, y, w = (
        lazyt.tensor(source.standard_normal(s, np.float32)) for s in ((16, 8), (16, 4), (8, 4))
    )
    weights = [w.requires_grad_(), lazyt.zeros(4).realize().requires_grad_()]

    def loss(parameters: list[Any]) -> Any:
        return ((x @ parameters[0] + parameters[1] - y) ** 2).mean()

    return weights, loss


def momentum(parameters: list[Any], loss: Callable[[list[Any]], Any], state: State) -> Any:
    found = loss(parameters)
    found.backward()
    with lazyt.no_grad():
        for place, p in enumerate(parameters):
            state[place] = 0.9 * state.get(place, 0) + p.grad
            p -= 0.01 * state[place]
            p.grad = None
    return found


def held_gradients(parameters: list[Any], loss: Callable[[list[Any]], Any], state: State) -> Any:
    found = loss(parameters)
    found.backward()
    state["held"] = [p.grad for p in parameters]
    with lazyt.no_grad():
        for p in parameters:
            p -= 0.01 * p.grad
            p.grad = None
    return found


def adam(parameters: list[Any], loss: Callable[[list[Any]], Any], state: State) -> Any:
    found = loss(parameters)
    found.backward()
    with lazyt.no_grad():
        for place, p in enumerate(parameters):
            mean, square = state.get(place, (0, 0))
            mean, square = 0.9 * mean + 0.1 * p.grad, 0.99 * square + 0.01 * p.grad * p.grad
            p -= 0.01 * mean / (square.sqrt() + 1e-8)
            state[place] = mean, square
            p.grad.zero_()
    return found


def averaged(parameters: list[Any], loss: Callable[[list[Any]], Any], state: State) -> Any:
    """Averages and counts that nobody looks at on the way."""
    found = momentum(parameters, loss, state)
    state["total"] = state.get("total", 0) + found.detach()
    state["large"] = state.get("large", 0) + (found > 1).sum()
    state["mean"] = [
        0.9 * a + 0.1 * p.detach() for a, p in zip(state.get("mean", [0, 0]), parameters)
    ]
    return found


def rebound(parameters: list[Any], loss: Callable[[list[Any]], Any], state: State) -> Any:
    found = loss(parameters)
    slopes: Any = lazyt.autograd.grad(found, parameters)
    parameters[:] = [
        (p - 0.01 * s).detach().requires_grad_() for p, s in zip(parameters, slopes, strict=True)
    ]
    return found


def counted(parameters: list[Any], loss: Callable[[list[Any]], Any], state: State) -> Any:
    """A cheap chain, looked at all the time."""
    state["count"] = state.get("count", lazyt.zeros(4).realize()) + 1
    return state["count"].sum()


@pytest.mark.lazy
@pytest.mark.parametrize(
    "step", [momentum, held_gradients, adam, averaged, rebound, counted], ids=lambda f: f.__name__
)
def test_every_step_costs_the_same(step: Callable[..., Any]) -> None:
    parameters, loss = start()
    state: State = {}
    values, times, measured = [], [], []
    for number in range(STEPS):
        begin = time.thread_time()  # other processes take the clock's
        values.append(step(parameters, loss, state).item())
        times.append(time.thread_time() - begin)
        if number >= STEPS // 2:  # what waits for some steps may be there or not
            measured.append((op.count_living(), pool.stats().in_use, len(graph_keys.known)))
    half = len(measured) // 2
    for before, after in zip(zip(*measured[:half]), zip(*measured[half:])):
        assert max(after) <= max(before), step.__name__
    first, second = times[STEPS // 4 : STEPS // 2], times[STEPS // 2 :]
    assert statistics.median(second) < 3 * statistics.median(first)
    if step is not counted:
        assert values[-1] < values[0]


def test_values_are_those_of_computing_each_step_at_once() -> None:
    def final(at_once: bool) -> list[Any]:
        parameters, loss = start()
        state: State = {}
        for _ in range(12):
            averaged(parameters, loss, state).item()
            if at_once:
                rest = [state["total"], state["large"], *state["mean"], state[0], state[1]]
                lazyt.realize(*parameters, *rest)
        return [v.tolist() for v in (*parameters, state["total"], state["large"], *state["mean"])]

    lazy, eager = final(False), final(True)
    gc.collect()
    assert lazy == eager


@pytest.mark.lazy
def test_what_waits_for_long_is_computed_unless_laziness_is_strict() -> None:
    def waiting(strict: bool) -> bool:
        total, number = lazyt.zeros(3).realize(), lazyt.ones(3).realize()
        with lazyt.config.override(strict_laziness=strict):
            for _ in range(9):
                total = total + 1
                (number * 2).realize()
            deep = len(graph.topological([total.node], lambda n: n.data is not None)) > 9
        assert total.tolist() == [9.0] * 3
        return deep

    assert waiting(True) and not waiting(False)
