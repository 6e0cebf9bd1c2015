"""Captured functions do what the functions do, whatever changes around them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyt as lt
import lazyt.nn.functional as F
from lazyt import nn

pytestmark = pytest.mark.lazy
SCALE = 2.0


def replays(function: Any) -> bool:
    """Whether the last thing that happened to a captured function is that it was captured."""
    return bool(function.why()) and function.why()[-1] == "captured"


def numbers(*shape: int) -> lt.Tensor:
    """Computed standard normal numbers."""
    made: lt.Tensor = lt.randn(*shape).realize()
    return made


def check(function: Callable[..., Any], *calls: tuple[Any, ...]) -> Any:
    """Calls a captured function and compares with the plain one; returns the captured."""
    captured = lt.jit(function)
    for call in calls:
        got, want = captured(*call), function(*call)
        got, want = (v if isinstance(v, tuple) else (v,) for v in (got, want))
        for a, b in zip(got, want, strict=True):
            assert type(a) is type(b)
            if isinstance(a, lt.Tensor):
                assert a.dtype is b.dtype and a.stride() == b.stride()
                assert a.detach().numpy().tobytes() == b.detach().numpy().tobytes()
            else:
                assert a == b
    return captured


def test_results_are_the_functions() -> None:
    def function(x: Any, y: Any) -> Any:
        z = x * 2 + y
        return z.sum(), z.relu().T, 3, "text", lt.zeros(0), z[0]

    assert replays(check(function, *[(numbers(3, 4), numbers(3, 4)) for _ in range(4)]))


def test_a_replay_does_not_call_the_function() -> None:
    captured: Any = lt.jit(lambda x: x + 1)
    for _ in range(2):
        captured(lt.ones(2))
    captured.function = None
    assert captured(lt.zeros(2)).tolist() == [1, 1]


def test_other_shapes_and_numbers_are_captured_again() -> None:
    def function(x: Any, n: int, flag: bool) -> Any:
        return x * n if flag else x - n

    x = numbers(3)
    calls = [(x, 2, True)] * 3 + [(x, 3, True)] * 3 + [(numbers(2, 2), 2, False)] * 3
    captured = check(function, *calls)
    assert captured.why().count("captured") == 3


def test_globals_closures_and_attributes_are_watched() -> None:
    global SCALE
    shift = 1.0
    table: dict[str, Any] = {"a": [1, 2], "b": (3.0, None)}

    class Thing:
        factor = 5.0

        def __init__(self) -> None:
            self.inner = {"bias": 0.5}

        def apply(self, x: Any) -> Any:
            return x * self.factor + self.inner["bias"]

    thing = Thing()

    def function(x: Any) -> Any:
        return thing.apply(x * SCALE + shift) + table["a"][1]

    captured = lt.jit(function)

    def agree() -> None:
        for _ in range(3):
            x = numbers(4)
            assert captured(x).tolist() == function(x).tolist()
        assert replays(captured)

    agree()
    SCALE = 3.0
    agree()
    assert "SCALE is 3.0, was 2.0" in captured.why()[-2]
    shift = -4.0
    agree()
    table["a"][1] = 7
    agree()
    thing.inner["bias"] = 1.5
    agree()
    thing.factor = -1.0  # an attribute of the object now hides the class's
    agree()
    del thing.factor
    Thing.factor = 8.0
    agree()
    thing.inner = {"bias": 9.0}
    agree()
    Thing.apply = lambda self, x: x  # type: ignore[method-assign]
    agree()
    SCALE = 2.0


@pytest.mark.parametrize("make", [
    lambda p: lt.optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
    lambda p: lt.optim.AdamW(p, 1e-2, amsgrad=True),
    lambda p: lt.optim.Adagrad(p, 1e-2, lr_decay=0.1),
    lambda p: lt.optim.RMSprop(p, 1e-2, centered=True, momentum=0.5),
])  # fmt: skip
def test_a_training_step_is_captured_whole(make: Callable[[Any], Any]) -> None:
    """Parameters, statistics, optimizer state, rates and random numbers, to the bit."""

    def train(use: bool) -> tuple[list[float], Any, Any]:
        lt.manual_seed(0)
        net = nn.Sequential(
            nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.25), nn.Linear(8, 3)
        )
        optimizer = make(net.parameters())
        schedule = lt.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            schedule.step()
            return loss

        run: Any = lt.jit(step) if use else step
        xs, ys = numbers(8, 5, 6), lt.randint(0, 3, (8, 5)).realize()
        losses = [run(x, y).item() for x, y in zip(xs, ys, strict=True)]
        if use:
            assert replays(run) and run.why() == ["captured"]
        grads = [p.grad.tolist() for p in net.parameters() if p.grad is not None]
        values = [v.tolist() for v in net.state_dict().values()]
        return losses, (values, grads), optimizer.state_dict()["param_groups"]

    plain, captured = train(False), train(True)
    assert plain[0] == captured[0]
    assert plain[1] == captured[1]
    assert plain[2] == captured[2]


def test_a_loss_from_a_replayed_step_says_that_its_graph_is_gone() -> None:
    w = numbers(3).requires_grad_()

    def step(x: Any) -> Any:
        w.grad = None
        loss = (w * x).sum()
        loss.backward()
        return loss

    captured = lt.jit(step)
    for _ in range(4):
        loss = captured(numbers(3))
    assert replays(captured) and loss.requires_grad
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_gradients_go_on_outside() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    captured = lt.jit(net)
    for _ in range(4):
        x = numbers(3, 4).requires_grad_()
        got, want = captured(x), net(x)
        assert got.tolist() == want.tolist() and got.requires_grad
        grads: list[Any] = []
        for result in (got, want):
            net.zero_grad()
            x.grad = None
            result.square().sum().backward()
            assert x.grad is not None
            grads.append([x.grad.tolist(), *[p.grad.tolist() for p in net.parameters()]])
        assert grads[0] == grads[1]
    assert captured.why() == ["captured"]
    (second,) = lt.autograd.grad(captured(x).sum(), x, create_graph=True)
    assert second is not None and second.requires_grad


def test_training_and_evaluation_are_captured_apart() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    captured = lt.jit(net)
    x = numbers(6, 4)
    for training in (True, False, True):
        net.train(training)
        for _ in range(3):
            before = [b.clone() for b in net.buffers()]
            got = captured(x).tolist()
            after = [b.tolist() for b in net.buffers()]
            for buffer, old in zip(net.buffers(), before, strict=True):
                buffer.copy_(old)
            assert got == net(x).tolist()
            assert after == [b.tolist() for b in net.buffers()]


def test_random_numbers_go_on() -> None:
    def function() -> Any:
        return lt.rand(3) + lt.rand(3)

    captured = lt.jit(function)
    lt.manual_seed(5)
    want = [function().tolist() for _ in range(5)]
    lt.manual_seed(5)
    assert [captured().tolist() for _ in range(5)] == want
    assert replays(captured) and len({tuple(w) for w in want}) == 5


def test_tensors_from_outside_are_read_and_written() -> None:
    state = lt.zeros(3).realize()

    def function(x: Any) -> Any:
        state.add_(x)
        return state * 2

    captured = lt.jit(function)
    total = np.zeros(3, np.float32)
    for n in range(5):
        assert captured(lt.full((3,), float(n))).tolist() == list((total := total + n) * 2)
    assert replays(captured)
    view = state[1:]
    state.fill_(1)
    assert captured(lt.ones(3)).tolist() == [4, 4, 4] and view.tolist() == [2, 2]


def test_a_global_named_as_an_attribute_is_another_thing() -> None:
    space: dict[str, Any] = {"__name__": "__main__", "lt": lt, "sum": 1}
    exec("def function(x):\n    return x.sum() + lt.ones(2).mean()", space)
    captured = lt.jit(space["function"])
    for n in range(5):
        space["sum"] = space["mean"] = n
        assert captured(lt.ones(3)).item() == 4
    assert captured.why() == ["captured"]


def test_a_tensor_that_is_kept_for_the_next_call() -> None:
    class Cell:
        hidden: Any = None

    cell = Cell()
    cell.hidden = lt.zeros(2)

    def step(x: Any) -> Any:
        cell.hidden = (cell.hidden + x).tanh()
        return cell.hidden

    captured = lt.jit(step)
    want = np.zeros(2)
    for n in range(5):
        want = np.tanh(want + n)
        np.testing.assert_allclose(captured(lt.full((2,), float(n))).tolist(), want, rtol=1e-6)
        np.testing.assert_allclose(cell.hidden.tolist(), want, rtol=1e-6)
    assert replays(captured)


def test_what_comes_in_can_come_out() -> None:
    kept = numbers(2)

    def function(x: Any) -> Any:
        return x, kept, x.T, x + 1

    captured = lt.jit(function)
    for _ in range(4):
        x = numbers(2, 3)
        a, b, c, _ = captured(x)
        assert a is x and b is kept
        x.zero_()
        assert not c.any()
    assert replays(captured)


def test_parts_of_a_larger_tensor_are_values() -> None:
    data = numbers(6, 4, 2)

    def function(x: Any) -> Any:
        return x.sum(0)

    captured = lt.jit(function)
    for n in range(6):
        assert captured(data[n]).tolist() == data[n].sum(0).tolist()
    assert captured.why() == ["captured"]


def test_memory_shared_with_numpy_is_read_at_each_call() -> None:
    array = np.ones(3, np.float32)
    x = lt.from_numpy(array)
    captured = lt.jit(lambda x: x * 2)
    for n in range(4):
        array[:] = n
        assert captured(x).tolist() == [2 * n] * 3


@pytest.mark.filterwarnings("ignore:lazyt.jit leaves")
def test_writing_to_a_part_that_was_given() -> None:
    data = lt.zeros(3, 2)

    def function(row: Any) -> None:
        row.add_(1)

    captured = lt.jit(function)
    for n in range(6):
        captured(data[n % 3])
    assert data.tolist() == [[2, 2]] * 3


def test_captures_nest_and_decorate() -> None:
    @lt.jit
    def inner(x: Any) -> Any:
        return x * 2

    @lt.compile(fullgraph=True)  # type: ignore[untyped-decorator]
    def outer(x: Any) -> Any:
        return inner(x) + 1

    class Model:
        weight = 3.0

        @lt.jit
        def forward(self, x: Any) -> Any:
            return x * self.weight

    model = Model()
    for n in range(4):
        assert outer(lt.full((2,), float(n))).tolist() == [2 * n + 1] * 2
        assert model.forward(lt.ones(1)).item() == 3
    assert outer.__name__ == "outer" and lt.compile(disable=True, model=len) is len
    with pytest.raises(TypeError, match="takes a function"):
        lt.jit(3)


def test_threads_replay_side_by_side() -> None:
    captured = lt.jit(lambda x: (x * 2).sum())
    failures: list[Any] = []

    def work(number: int) -> None:
        for _ in range(30):
            got = captured(lt.full((8,), float(number))).item()
            if got != 16 * number:
                failures.append((number, got))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
