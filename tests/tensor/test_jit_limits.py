"""What a captured function must not get wrong: refusals, errors, and state that changes."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

import lazyt as lt
import lazyt.nn.functional as F
from lazyt import nn
from lazyt.tracing.jit import CaptureError
from tests.tensor.test_jit import numbers

pytestmark = pytest.mark.lazy


@pytest.mark.filterwarnings("ignore:lazyt.jit leaves")
@pytest.mark.parametrize(("body", "reason"), [
    (lambda x: x * float(x.sum()), "looks at a value"),
    (lambda x: x * x.max().item(), "looks at a value"),
    (lambda x: x * random.random(), "calls random"),
    (lambda x: (print(end=""), x)[1], "prints"),
    (lambda x: x + lt.from_numpy(np.ones(2, np.float32) * float(x[0])), "looks at a value"),
])  # fmt: skip
def test_what_cannot_be_replayed_runs_as_always(body: Any, reason: str) -> None:
    captured = lt.jit(body)
    for n in range(7):
        x = lt.full((2,), float(n - 3))
        random.seed(n)
        got = captured(x).tolist()
        random.seed(n)
        assert got == body(x).tolist()
    assert reason in captured.why()[-1]
    with pytest.raises(CaptureError, match=reason):
        strict = lt.jit(body, fullgraph=True)
        strict(lt.ones(2))
        strict(lt.ones(2))


@pytest.mark.filterwarnings("ignore:lazyt.jit leaves")
def test_changes_of_python_state_are_not_lost() -> None:
    history: list[Any] = []
    count = {"n": 0}

    def function(x: Any) -> Any:
        count["n"] += 1
        history.append(x.sum())
        return x

    captured = lt.jit(function)
    for _ in range(6):
        captured(lt.ones(2))
    assert count["n"] == 6 and len(history) == 6
    assert any("changes" in reason for reason in captured.why())


def test_an_exception_passes_and_leaves_nothing_behind() -> None:
    def function(x: Any) -> Any:
        return x.reshape(2, 3) + 1

    captured = lt.jit(function)
    for _ in range(3):
        captured(numbers(6))
        with pytest.raises(RuntimeError, match="invalid for input"):
            captured(numbers(5))
    assert captured(lt.zeros(6)).tolist() == [[1, 1, 1], [1, 1, 1]]


def test_an_index_out_of_range_is_an_error_at_every_call() -> None:
    table = numbers(4, 2)
    captured = lt.jit(lambda i: F.embedding(i, table))
    good = lt.tensor([0, 3])
    for _ in range(4):
        assert captured(good).tolist() == table[good].tolist()
    with pytest.raises(IndexError, match="out of range"):
        captured(lt.tensor([0, 4]))
    assert captured(lt.tensor([1, 2])).tolist() == table[1:3].tolist()


def test_state_that_is_exchanged_is_found() -> None:
    net = nn.Linear(2, 2)
    optimizer = lt.optim.SGD(net.parameters(), 0.5, momentum=0.9)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()

    captured = lt.jit(step)
    other = nn.Linear(2, 2)
    twin = lt.optim.SGD(other.parameters(), 0.5, momentum=0.9)
    other.load_state_dict(net.state_dict())
    x = numbers(3, 2)
    for n in range(8):
        if n == 4:
            net.load_state_dict({k: v * 2 for k, v in net.state_dict().items()})
            other.load_state_dict({k: v * 2 for k, v in other.state_dict().items()})
        if n == 6:
            optimizer.load_state_dict(optimizer.state_dict())
            optimizer.param_groups[0]["lr"] = twin.param_groups[0]["lr"] = 0.1
        captured(x)
        twin.zero_grad()
        other(x).sum().backward()
        twin.step()
        assert net.weight.tolist() == other.weight.tolist(), n
    net.bias = nn.Parameter(lt.zeros(2))
    captured(x)
    assert net.bias.grad is not None


def test_attributes_that_the_user_gives_to_tensors_are_watched() -> None:
    w: Any = numbers(3)
    w.frozen = False

    def function() -> Any:
        return w * 2 if not w.frozen else w

    captured = lt.jit(function)
    for n in range(8):
        w.frozen = n >= 4
        assert captured().tolist() == function().tolist()
    assert captured.why() == ["captured", *captured.why()[1:-1], "captured"]


def test_seeding_inside_of_the_function() -> None:
    def function() -> Any:
        lt.manual_seed(3)
        first = lt.rand(2)
        with lt.random.fork_rng():
            inner = lt.rand(2)
        return first, inner, lt.rand(2)

    captured = lt.jit(function)
    want = [v.tolist() for v in function()]
    for _ in range(4):
        lt.rand(5)
        assert [v.tolist() for v in captured()] == want
    assert want[1] == want[2] and captured.why() == ["captured"]


@pytest.mark.filterwarnings("ignore:lazyt.jit leaves")
def test_tensors_that_become_others() -> None:
    w = numbers(2, 3)

    def function() -> Any:
        w.data = w.data.T
        return w.sum()

    captured = lt.jit(function)
    for n in range(6):
        captured()
        assert tuple(w.shape) == ((3, 2) if n % 2 == 0 else (2, 3))


def test_one_tensor_given_twice_is_one() -> None:
    def function(x: Any) -> Any:
        y = x + 1
        return y, [y], y[0]

    captured = lt.jit(function)
    for _ in range(4):
        a, (b,), c = captured(lt.zeros(2))
        assert a is b
        a.zero_()
        assert c.item() == 0
    assert captured.why() == ["captured"]


def test_numbers_that_are_looked_at_and_differ_at_every_call() -> None:
    captured = lt.jit(lambda x, n: x * math.sqrt(n))
    x = lt.ones(2)
    with pytest.warns(UserWarning, match="give numbers that change as tensors"):
        for n in range(30):
            assert captured(x, n * n / 4).tolist() == [n / 2] * 2
    assert len(captured.why()) < 30


def test_shapes_that_come_once_are_not_captured_and_those_that_come_again_are() -> None:
    captured = lt.jit(lambda x: x * 2 + 1)

    def call(size: int) -> str:
        assert captured(lt.full((size,), 3.0)).tolist() == [7.0] * size
        return str(["", *captured.why()][-1])

    assert [call(size) for size in range(2, 30)][-1].startswith("not captured: none of the last 12")
    assert len(captured.why()) < 30
    assert call(29) == "captured", "it comes again"
    assert call(29) == "captured" and call(300) == "captured", "captures are of use now"
    captured = lt.jit(lambda x: x * 2 - x)
    for _ in range(3):
        for size in range(2, 100):  # more than are kept
            captured(lt.ones(size))
    assert sum(reason == "captured" for reason in captured.why()) < 100
    for _ in range(6):
        captured(lt.ones(200))
    assert captured.why()[-1] == "captured"


@pytest.mark.filterwarnings("ignore:lazyt.jit leaves")
def test_lists_and_dicts_that_are_given_change_at_every_call() -> None:
    def step(x: Any, found: dict[str, Any], history: list[Any]) -> Any:
        found["loss"] = x.sum()
        history.append(1.0)
        return x + len(history)

    captured = lt.jit(step)
    found: dict[str, Any] = {}
    history: list[Any] = []
    for n in range(6):
        assert captured(lt.full((2,), float(n)), found, history).tolist() == [2 * n + 1.0] * 2
        assert found["loss"].item() == 2 * n
    assert len(history) == 6
    same = lt.jit(lambda pair: pair)
    for _ in range(4):
        pair = [lt.ones(1), lt.ones(2)]
        assert same(pair) is pair


@pytest.mark.filterwarnings("ignore:lazyt.jit leaves")
def test_numpys_random_numbers_differ_at_every_call() -> None:
    captured = lt.jit(lambda x: x * np.random.rand())
    assert len({captured(lt.ones(1)).item() for _ in range(6)}) == 6


@pytest.mark.filterwarnings("ignore:lazyt.jit leaves")
def test_steps_that_follow_values_say_what_to_do() -> None:
    net = nn.Linear(2, 1)
    by_tensor = lt.optim.SGD(net.parameters(), lr=lt.tensor(0.1))
    schedule = lt.optim.lr_scheduler.CosineAnnealingLR(by_tensor, 9)
    scaler, newton = lt.amp.GradScaler("cpu"), lt.optim.LBFGS(net.parameters())

    def loss() -> Any:
        net.zero_grad()
        found = net(lt.ones(4, 2)).square().mean()
        found.backward()
        return found

    def scheduled() -> None:
        loss()
        by_tensor.step()
        schedule.step()

    def scaled() -> None:
        scaler.scale(net(lt.ones(4, 2)).sum()).backward()
        scaler.step(by_tensor)
        scaler.update()

    here = f"{scheduled.__code__.co_filename}:"
    for function, text in (
        (scheduled, "call the schedule's step() outside of the captured function, or make"),
        (
            scaled,
            "GradScaler.step, which leaves a step out where gradients are not finite; capture",
        ),
        (lambda: newton.step(loss), "LBFGS.step, whose number of evaluations follows the loss; "),
    ):
        captured = lt.jit(function)
        for _ in range(2):
            captured()
        (told,) = captured.why()
        assert text in told and here in told
    outside = lt.jit(lambda: (loss(), by_tensor.step())[0])
    for _ in range(4):
        outside()
        schedule.step()
    assert outside.why() == ["captured"]
