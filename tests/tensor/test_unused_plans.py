"""Plans that nobody uses are unloaded, by age: a program may have any number of graphs."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import lazyt
from lazyt.plan import graph_keys
from lazyt.runtime.cpu import compile, execute

pytestmark = [
    pytest.mark.lazy,
    pytest.mark.skipif(not compile.available(), reason="needs a C compiler"),
]


def graph(number: int, x: Any) -> Any:
    """The number decides the structure, but few of them the kernels."""
    parts = [x * 2 if number >> bit & 1 else x.flip(0) for bit in range(3)]
    return sum(part[: bit + 1].sum() for bit, part in enumerate(parts))


def test_structures_are_bounded_and_the_oldest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    x = lazyt.arange(4.0).realize()
    wanted = [graph(number, x).item() for number in range(8)]
    lazyt.plan.planning.clear()
    monkeypatch.setattr(graph_keys, "MOST", 4)
    for _ in range(2):
        assert [graph(number, x).item() for number in range(8)] == wanted
        assert len(graph_keys.known) <= 4
    used = sorted(structure.used for structure in graph_keys.known.values())
    graph(7, x).item()
    graph_keys.forget_unused(1)
    (left,) = graph_keys.known.values()
    assert left.used > used[-2]
    assert [graph(number, x).item() for number in range(8)] == wanted


def test_libraries_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    x = lazyt.arange(4.0).realize()
    wanted = [graph(number, x).item() for number in range(8)]
    lazyt.plan.planning.clear()
    execute.forget()
    gc.collect()
    before = execute.libraries.loaded
    monkeypatch.setattr(execute.libraries, "most", before + 2)
    monkeypatch.setattr(execute, "_LATEST", 1)
    monkeypatch.setattr(graph_keys, "FEWEST", 1)
    for _ in range(2):
        for number, value in enumerate(wanted):
            assert graph(number, x).item() == value
            gc.collect()
            assert execute.libraries.loaded <= before + 4


def test_a_captured_function_goes_on_with_a_plan_that_was_forgotten() -> None:
    @lazyt.jit
    def step(x: Any) -> Any:
        return (x * 3 + 1).sum()

    x = lazyt.arange(5.0).realize()
    for _ in range(6):
        assert step(x).item() == 35
    lazyt.plan.planning.clear()
    execute.forget()
    gc.collect()
    for _ in range(3):
        assert step(x).item() == 35
    assert step.why() == ["captured"]
