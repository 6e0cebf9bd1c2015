"""Sizes that come back often get kernels of their own: when, how many, and with the same bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Thread
from typing import Any

import pytest

import lazyt as lt
from lazyt import Tensor
from lazyt.errors import CompileError
from lazyt.plan import planning, tiers
from lazyt.runtime import events
from lazyt.runtime.cpu import execute

pytestmark = [pytest.mark.usefixtures("module_cache"), pytest.mark.lazy]

#: Enough runs for any plan.
OFTEN = tiers.PROMOTED


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    events.forget()
    planning.clear()
    yield
    planning.clear()


def reasons() -> list[str]:
    return [event.reason for event in lt.why_compiled() if event.kind == "compile"]


def promoted() -> int:
    return sum("kernels of their own" in reason for reason in reasons())


def run(function: Callable[[Tensor], Tensor], x: Tensor, times: int) -> bytes:
    """The result of the last of some runs; all of them have to be the same."""
    found = {function(x).realize().numpy().tobytes() for _ in range(times)}
    (result,) = found
    return result


@pytest.mark.parametrize("captured", [False, True])
def test_a_size_that_is_run_often_gets_kernels_of_its_own(captured: bool) -> None:
    def program(x: Tensor) -> Tensor:
        return lt.roll(x.t() * 2 + captured, 3, 1).cumsum(0)

    function: Any = lt.jit(program) if captured else program
    run(function, lt.rand(30, 41).realize(), 3)
    x = lt.rand(33, 52).realize()
    few = run(function, x, tiers.LEAST_RUNS)
    assert promoted() == 0
    assert run(function, x, OFTEN) == few
    assert promoted() == 1
    assert run(function, x, 2 * OFTEN) == few == run(program, x, 1)
    assert not captured or len(function._fast_paths.calls) == 2, "one for each size"
    number = len(reasons())
    planning.clear()  # as in another process: the plan on disk is the one for these sizes
    assert run(program, x, OFTEN) == few
    assert len(reasons()) == number


def test_long_runs_count_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def program(x: Tensor) -> Tensor:
        return lt.roll(x.t() - 1, 3, 1).cumsum(0)

    run(program, lt.rand(30, 41).realize(), 1)
    x = lt.rand(33, 52).realize()
    run(program, x, tiers.LEAST_RUNS + 1)
    assert promoted() == 0
    monkeypatch.setattr(tiers, "PROMOTION_BASE", 0.0)
    monkeypatch.setattr(tiers, "PROMOTION_EACH", 0.0)
    run(program, x, 1)
    assert promoted() == 1


def test_a_graph_has_few_sizes_with_kernels_of_their_own() -> None:
    def program(x: Tensor) -> Tensor:
        return (x * 3).t().contiguous().exp()

    for size in range(40, 47):
        run(program, lt.rand(size, 9).realize(), OFTEN + 1)
    assert promoted() == 4
    number = len(reasons())
    run(program, lt.rand(47, 9).realize(), OFTEN + 1)
    assert len(reasons()) == number, reasons()


def test_results_that_are_arguments_keep_their_places() -> None:
    """What a plan for any size is given last are its sizes, which its successor does not take."""

    @lt.jit
    def step(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return y, x + y.sum(), x

    for size in (21, 34):
        x, y = lt.rand(size).realize(), lt.rand(7).realize()
        wanted = (x + y.sum()).numpy().tobytes()
        for _ in range(2 * OFTEN):
            same, total, first = step(x, y)
            assert same is y and first is x and total.numpy().tobytes() == wanted
    assert promoted() <= 1


def test_a_failing_compiler_leaves_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def program(x: Tensor) -> Tensor:
        return lt.roll(x.t() * 5, 3, 1).cumsum(0)

    run(program, lt.rand(30, 41).realize(), 1)
    x = lt.rand(33, 52).realize()
    few = run(program, x, 2)

    def fail(*_: object) -> None:
        raise CompileError(["cc"], "it is out of order", None)

    with monkeypatch.context() as patched:
        patched.setattr(execute, "load", fail)
        assert run(program, x, OFTEN) == few
    assert run(program, x, 3) == few
    assert any("out of order" in event.reason for event in lt.why_compiled())


def test_threads_may_run_a_plan_while_it_is_promoted() -> None:
    @lt.jit
    def program(x: Tensor) -> Tensor:
        return lt.roll(x.t() * 7, 3, 1).cumsum(0)

    run(program, lt.rand(30, 41).realize(), 2)
    x = lt.rand(33, 52).realize()
    few = run(program, x, 1)
    found: list[bytes] = []
    threads = [Thread(target=lambda: found.append(run(program, x, 2 * OFTEN))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [few] * 3 and promoted() == 1


def test_graphs_without_inputs_get_kernels_of_their_own() -> None:
    """Its nodes may be the program's own, which become leaves when they are computed."""
    kept = [(lt.arange(n) * 2.5).sin().realize() for n in (1000, 1100, 1200)]
    for _ in range(OFTEN):
        result = (lt.arange(1200) * 2.5).sin().realize()
    assert promoted() == 1
    assert result.tolist() == kept[-1].tolist()
