"""Where the microseconds of Python go, without ``jit``: run ``python bench/overhead.py``.

A training step of a small perceptron is timed by the parts that a user writes, and within them the
parts that find and run its plan. Then single operations, and chains per graph node. All figures are
the best of many in microseconds: on a busy machine the others measure the neighbours.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import lazyt
from lazyt.nn import functional
from lazyt.plan import graph_keys, planning
from lazyt.runtime.cpu.execute import Executable

lazyt.config.tier = 1  # kernels, before anything runs

Parts = dict[str, float]
clock = time.perf_counter


class Timed:
    """Adds up the time that functions take, by name, while it is entered."""

    def __init__(self, *functions: tuple[Any, str]) -> None:
        self._functions = functions
        self.spent: Parts = {}

    def __enter__(self) -> Timed:
        self._old = [(owner, name, getattr(owner, name)) for owner, name in self._functions]
        for owner, name, function in self._old:
            setattr(owner, name, self._timing(name, function))
        return self

    def __exit__(self, *_: object) -> None:
        for owner, name, function in self._old:
            setattr(owner, name, function)

    def _timing(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            begin = clock()
            try:
                return function(*args, **kwargs)
            finally:
                self.spent[name] = self.spent.get(name, 0.0) + clock() - begin

        return call


def best(function: Callable[[], object], calls: int, rounds: int = 30) -> float:
    """Microseconds of one call."""
    found = float("inf")
    for _ in range(rounds):
        begin = clock()
        for _ in range(calls):
            function()
        found = min(found, (clock() - begin) / calls)
    return found * 1e6


def training_step() -> Callable[[], Parts]:
    """A step of the 64-64-10 perceptron on 32 examples; gives the time of its parts."""
    lazyt.manual_seed(0)
    layers = (lazyt.nn.Linear(64, 64), lazyt.nn.ReLU(), lazyt.nn.Linear(64, 10))
    model = lazyt.nn.Sequential(*layers)
    optimizer = lazyt.optim.SGD(model.parameters(), lr=0.01)
    x = lazyt.randn(32, 64).realize()
    y = lazyt.randint(0, 10, (32,)).realize()

    def step() -> Parts:
        times = [clock()]
        loss = functional.cross_entropy(model(x), y)
        times.append(clock())
        optimizer.zero_grad()  # computes the step before
        times.append(clock())
        loss.backward()
        times.append(clock())
        optimizer.step()
        times.append(clock())
        names = ("forward", "zero_grad and launch", "backward", "step")
        spans = {name: b - a for name, a, b in zip(names, times, times[1:])}
        return {"whole step": times[-1] - times[0], **spans}

    return step


def least(samples: list[Parts]) -> Parts:
    """The smallest of each part, in microseconds."""
    return {name: min(s[name] for s in samples if name in s) * 1e6 for name in samples[-1]}


def measure() -> dict[str, Parts]:
    """All figures."""
    step = training_step()
    for _ in range(20):
        step()
    found = {"perceptron": least([step() for _ in range(2000)])}
    inside = []
    for _ in range(300):
        parts = ((planning, "number_graph"), (planning, "structure_of"), (planning, "_find"))
        with Timed(*parts, (graph_keys.Structure, "choose"), (Executable, "run")) as timed:
            step()
        inside.append(timed.spent)
    found["finding and running its plan"] = least(inside)
    a, b = (lazyt.randn(100).realize() for _ in range(2))

    def chain() -> Any:
        x = a
        for _ in range(50):
            x = x * b + 1
        return x

    found["operations"] = {
        "x + 1": best(lambda: a + 1, 1000),
        "x + y": best(lambda: a + b, 1000),
        "x.sum()": best(lambda: a.sum(), 1000),
        "(x + 1).realize()": best(lambda: (a + 1).realize(), 300),
        "chain of 100, per node": best(chain, 20) / 100,
        "the same, computed": best(lambda: chain().realize(), 20) / 100,
    }
    return found


if __name__ == "__main__":
    figures = measure()
    if "--json" in sys.argv:
        print(json.dumps(figures, indent=1))
    else:
        for title, parts in figures.items():
            print(title)
            for name, value in parts.items():
                print(f"  {name:28s}{value:8.1f} us")
