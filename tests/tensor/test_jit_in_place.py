"""Captured functions that write over their own state: nobody else sees that happen."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyt as lt
from lazyt.runtime.cpu import compile
from lazyt.tracing.capture import leaf_of
from tests.tensor.test_jit import numbers
from tests.tensor.test_jit_fast_paths import Training, has_fast_path

pytestmark = [
    pytest.mark.lazy,
    pytest.mark.skipif(not compile.available(), reason="needs a C compiler"),
]


def address(tensor: Any) -> int:
    """Where a computed tensor's memory is."""
    return int(leaf_of(tensor._storage).data.ptr)


@pytest.mark.parametrize("kind", [lt.optim.SGD, lt.optim.Adam])
def test_state_stays_where_it_is(kind: Any) -> None:
    layers = [lt.nn.Linear(40, 64), lt.nn.Tanh(), lt.nn.Linear(64, 30)]
    net = lt.nn.Sequential(*layers)
    optimizer = kind(
        net.parameters(), lr=0.1, **({"momentum": 0.9} if kind is lt.optim.SGD else {})
    )
    step: Any = lt.jit(Training.make_step(net, optimizer))
    x, y = numbers(16, 40), lt.randint(0, 30, (16,)).realize()

    def places() -> list[int]:
        kept = [v for s in optimizer.state.values() for v in s.values()]
        state = [*net.parameters(), *(v for v in kept if isinstance(v, lt.Tensor) and v.ndim)]
        return [address(v) for v in state]

    with lt.config.override(any_size=False):  # as if no other size had been met before
        for _ in range(4):
            step(x, y)
        before = places()
        for _ in range(2):
            step(x, y)
        assert places() == before and has_fast_path(step)


HOLDERS: dict[str, Callable[[Any], Any]] = {
    "pending": lambda w: w * 1,
    "copy": lambda w: w.clone(),
    "alias": lambda w: w.detach(),
    "array": lambda w: w.numpy(),
    "part": lambda w: w[1:3],
    "value": lambda w: w._storage.current(),
    "memory": lambda w: w._storage.current().data,
}


@pytest.mark.parametrize("name", HOLDERS)
@pytest.mark.parametrize("calls", [3, 6])
def test_who_sees_the_old_value_keeps_it(name: str, calls: int) -> None:
    found = []
    for use in (True, False):
        w = lt.linspace(-1, 2, 6).realize()

        def step(x: Any, w: Any = w) -> Any:
            w.mul_(0.5).add_(x)
            return w.sum()

        run: Any = lt.jit(step) if use else step
        results: list[Any] = []
        for _ in range(calls):
            results.append(run(lt.full((6,), 0.25).realize()).item())
        w.realize()
        held = HOLDERS[name](w)
        for _ in range(3):
            results.append(run(lt.ones(6).realize()).item())
        if name == "memory":
            results.append(held.as_numpy(lt.float32, (6,)).tolist())
        elif name == "value":
            results.append(held.data.as_numpy(lt.float32, (6,)).tolist())
        else:
            results.append(np.asarray(held.tolist()).tolist())
        del held
        results += [run(lt.ones(6).realize()).item() for _ in range(3)]
        found.append((results, w.tolist()))
    if name in ("value", "memory"):  # the plain function may take over memory only if it is alone
        assert found[0][0][-4] == found[1][0][-4]
    assert found[0] == found[1]


def test_state_among_arguments_results_and_whole_numbers() -> None:
    def step(cache: Any, counts: Any, x: Any, place: Any) -> Any:
        old = cache.clone()
        cache[:, place] = x
        counts += 2
        return cache.sum(), old.sum(), counts

    captured: Any = lt.jit(step)
    for use in (captured, step):
        cache, counts = lt.zeros(3, 8).realize(), lt.zeros(4, dtype=lt.int64).realize()
        seen = []
        for n in range(8):
            total, old, same = use(cache, counts, lt.full((3,), n + 1.0), n % 8)
            assert same is counts
            seen.append((total.item(), old.item(), counts.tolist()))
        if use is captured:
            first = seen, cache.tolist()
    assert first == (seen, cache.tolist())


def test_a_cache_is_not_copied() -> None:
    cache = lt.zeros(4, 64, 16).realize()

    def step(x: Any, place: Any) -> Any:
        cache.index_copy_(1, place, x[:, None])
        return (cache * x[:, None]).sum()

    captured: Any = lt.jit(step)
    places = set()
    for n in range(8):
        x = lt.full((4, 16), n + 1.0).realize()
        captured(x, lt.tensor([n]))
        if n > 2:
            places.add(address(cache))
    assert captured.why() == ["captured"] and len(places) == 1
    assert cache[:, :8, 0].tolist() == [[n + 1.0 for n in range(8)]] * 4


def test_a_failure_before_the_plan_leaves_everything() -> None:
    w = numbers(5)
    rate = iter([0.5] * 5)
    optimizer = lt.optim.SGD([w.requires_grad_()], 0.1)
    schedule = lt.optim.lr_scheduler.LambdaLR(optimizer, lambda _: next(rate))

    def step() -> None:
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()
        schedule.step()

    captured: Any = lt.jit(step)
    with pytest.raises(StopIteration):
        for _ in range(9):
            before = w.tolist()
            captured()
    after = w.tolist()
    assert after != before  # the step itself was made, as it is without capture
    assert w._version == 5


def test_gradients_that_were_assigned_take_fast_paths() -> None:
    weights = [numbers(3, 4).requires_grad_(), numbers(5).requires_grad_()]
    plain = [w.detach().clone().requires_grad_() for w in weights]
    given = [numbers(3, 4), numbers(5)]
    captured: list[Any] = []
    for group, use in ((weights, True), (plain, False)):
        optimizer = lt.optim.Adam(group, 0.1)
        own = [gradient.clone().realize() for gradient in given]
        for weight, gradient in zip(group, own, strict=True):
            weight.grad = gradient

        def step(optimizer: Any = optimizer, given: Any = own) -> None:
            optimizer.step()

        run: Any = lt.jit(step) if use else step
        for n in range(8):
            if n == 6:
                own[1].mul_(0.5)
            run()
        captured.append(run)
    assert has_fast_path(captured[0]) and captured[0].why() == ["captured"]
    for a, b in zip(weights, plain, strict=True):
        assert a._version == b._version and a.tolist() == b.tolist()


ALIASES: dict[str, Callable[[Any], Any]] = {
    "detached": lambda w: w.detach(),
    "data": lambda w: w.data,
    "written data": lambda w: w.data.add_(1),
    "part": lambda w: w.detach()[1:3],
    "two": lambda w: (w.detach(), w.data, w.detach()),
}


@pytest.mark.parametrize("name", ALIASES)
def test_results_share_the_memory_of_parameters(name: str) -> None:
    seen = []
    for use in (True, False):
        w = lt.linspace(-1, 2, 6).requires_grad_()
        optimizer = lt.optim.SGD([w], 0.1)

        def step(x: Any, w: Any = w, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            (w * x).square().sum().backward()
            optimizer.step()
            return ALIASES[name](w)

        run: Any = lt.jit(step) if use else step
        held: Any = []
        for n in range(6):
            result = run(lt.full((6,), 0.5 + n).realize())
            held = [*held, *(result if isinstance(result, tuple) else (result,))][-4:]
            if n == 3:  # whoever holds an alias writes to the parameter, and is counted
                with lt.no_grad():
                    held[-1].mul_(0.5)
            seen.append((w.tolist(), w._version, [(h.tolist(), h._version) for h in held]))
            assert all(not h.requires_grad and h.is_leaf for h in held)
        if use:
            assert run.why() == ["captured"]
            first, seen = seen, []
    assert first == seen


def test_memory_that_nobody_shares_any_more_is_a_parameters_own() -> None:
    w = numbers(4)

    def step(x: Any) -> Any:
        w.add_(x)
        return x * 2

    captured: Any = lt.jit(step)
    x = lt.ones(4).realize()
    for _ in range(4):
        captured(x)
    array = w.numpy()
    alias = w.detach()
    captured(x)
    assert array.tolist() == alias.tolist() == w.tolist()
    version = w._version
    del array
    captured(x)
    assert w._storage.share is not None and alias._version == w._version == version + 1
    del alias
    for _ in range(3):
        captured(x)
    assert w._storage.share is None and w._version == version + 4
    place = address(w)
    captured(x)
    assert place == address(w)


def test_first_calls_that_overlap_leave_nothing_behind() -> None:
    """The one that begins first ends first, so neither is within the other."""
    within, begun, ended = threading.Event(), threading.Event(), threading.Event()
    total = numbers(3)

    @lt.jit
    def first(x: lt.Tensor) -> lt.Tensor:
        within.set()
        assert begun.wait(60)
        return total.add_(x)

    @lt.jit
    def second(x: lt.Tensor) -> lt.Tensor:
        begun.set()
        assert ended.wait(60)
        return x + 1

    def other() -> None:
        first(numbers(3))
        ended.set()

    thread = threading.Thread(target=other)
    thread.start()
    assert within.wait(60)
    second(numbers(3))
    thread.join()
    written = numbers(3)
    written.add_(1)
    storage = weakref.ref(written._storage)
    del written
    assert storage() is None


def _first_column(buffer: Any, x: Any) -> None:
    buffer[:, 0] = x.sum()
    buffer.mul_(2)


def _first_column_and_more(buffer: Any, x: Any) -> None:
    buffer[:, 0] = x.sum()
    buffer.mul_(2)
    x.add_(buffer[0, 0])


def _a_constant(buffer: Any, x: Any) -> None:
    buffer[:, 0] = 5.0
    buffer.mul_(x[0])


def _scattered(buffer: Any, x: Any) -> None:
    buffer.index_add_(1, lt.tensor([0, 2]), lt.ones(2, 2))
    buffer.copy_(buffer.flip(1) * x.sum())


KEEPERS: dict[str, Callable[[Any], Any]] = {
    "clone": lambda b: b.clone(),
    "sum": lambda b: b.sum(),
    "row": lambda b: b[0] * 1,
    "turned": lambda b: b.t().clone(),
}


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize(
    "function", [_first_column, _first_column_and_more, _a_constant, _scattered]
)
def test_what_a_plan_overwrites_on_the_way_is_nobody_elses(function: Any, held: bool) -> None:
    """The last value of a buffer may be in other memory than its old one, which steps in between
    were written over: pending clones of it still read that."""

    def run(use: bool, keep: Callable[[Any], Any]) -> Any:
        buffer, x = lt.zeros(2, 3), lt.ones(3)
        given = () if held else (buffer, x)
        step: Any = (lambda: function(buffer, x)) if held else function
        step = lt.jit(step) if use else step
        found = []
        for _ in range(7):
            step(*given)
            found.append(keep(buffer))
        if use:
            assert step.why() == ["captured"]
        return [value.tolist() for value in found], buffer.tolist(), x.tolist()

    for keep in KEEPERS.values():
        assert run(True, keep) == run(False, keep)
