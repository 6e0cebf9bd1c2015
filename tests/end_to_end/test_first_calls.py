"""How often first steps compile, and reads of numbers that compile nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest

import lazyt as lt
from lazyt import Tensor, nn
from lazyt.plan import planning
from lazyt.runtime import events
from lazyt.runtime.cpu import compile

pytestmark = [
    pytest.mark.lazy,
    pytest.mark.usefixtures("module_cache"),
    pytest.mark.skipif(not compile.available(), reason="needs a C compiler"),
]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    events.forget()
    planning.clear()
    yield
    planning.clear()


def plans() -> int:
    """How many plans this process has."""
    from lazyt.plan.graph_keys import known

    choices = [c for s in known.values() for c in (s.plain, *s._choices.values())]
    return sum(len(made) for made in {id(c.plans): c.plans.made for c in choices}.values())


def training(width: int) -> tuple[Any, Tensor, nn.Module]:
    """A step, what it takes, and the model."""
    lt.manual_seed(width)
    model = nn.Sequential(nn.Linear(width, 9), nn.BatchNorm1d(9), nn.ReLU(), nn.Linear(9, 3))
    optimizer = lt.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    lt.realize(*model.parameters(), *model.buffers())

    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step, lt.randn(6, width).realize(), model


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
@pytest.mark.parametrize("computed", [False, True])
def test_a_captured_step_makes_one_plan(optimizer: str, computed: bool) -> None:
    """The first call's, which the capture finds; parameters that start as the same constant, and
    drawn ones, are inputs of it, though somebody may have computed the constant."""
    lt.manual_seed(3)
    numbers = [lt.ones(()), lt.zeros(())]
    if computed:
        lt.realize(*numbers)
    parts = [nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 6)]
    model = nn.Sequential(*parts, nn.LayerNorm(6), nn.Linear(6, 6), nn.LayerNorm(6))
    chosen = getattr(lt.optim, optimizer)(model.parameters(), lr=0.1)

    def step(x: Tensor) -> Tensor:
        chosen.zero_grad()
        loss: Tensor = model(x).square().mean()
        loss.backward()
        chosen.step()
        return loss

    x, captured = lt.randn(5, 2, 4, 4).realize(), lt.jit(step)
    made = [plans()]
    for _ in range(5):
        captured(x).item()
        made.append(plans())
    assert captured.why() == ["captured"]
    assert [b - a for a, b in pairwise(made)] == [1, 0, 0, 0, 0]


def test_a_captured_forward_pass_makes_one_plan() -> None:
    model = nn.Sequential(nn.Linear(5, 7), nn.LayerNorm(7), nn.Linear(7, 7), nn.LayerNorm(7))
    x, captured = lt.ones(3, 5).realize(), lt.jit(model)
    lt.realize(*model.parameters())
    made, found = [plans()], []
    with lt.no_grad():
        for _ in range(4):
            found.append(captured(x).tolist())
            made.append(plans())
        assert found == [model(x).tolist()] * 4
    assert [b - a for a, b in pairwise(made)] == [1, 0, 0, 0]


def test_what_a_first_call_writes_is_what_it_would_write_without_jit() -> None:
    """Its plan writes over copies: others still have the old values, and views see the new."""
    found = []
    for captures in (True, False):
        state, other = lt.arange(4.0).realize(), lt.zeros(2).realize()
        alias, old, pending = state[1:3], state.clone(), state * 2

        def function(x: Tensor, state: Tensor = state, other: Tensor = other) -> Tensor:
            state.mul_(2).add_(x)
            other.copy_(state[:2])
            return state.sum() + other[0]

        called = lt.jit(function) if captures else function
        results = [called(lt.full((4,), float(n))).tolist() for n in range(3)]
        kept = [t.tolist() for t in (state, other, alias, old, pending)]
        found.append((results, kept))
    assert found[0] == found[1]


def test_values_that_a_first_call_leaves_pending_elsewhere_are_right() -> None:
    left: list[Tensor] = []

    def function(x: Tensor, w: Tensor) -> Tensor:
        hidden = (x @ w).exp()
        if not left:
            left.append(hidden)
        w.add_(1)
        return hidden.sum()

    x, w = lt.ones(2, 3).realize(), lt.ones(3, 2).realize()
    captured = lt.jit(function)
    results = [captured(x, w).item() for _ in range(3)]
    assert np.allclose(results, [4 * math.exp(3 * n) for n in (1, 2, 3)])
    assert np.allclose(left[0].tolist(), math.exp(3)) and w.tolist() == [[4.0] * 2] * 3


def test_a_first_call_inside_of_a_first_call_tells_it_what_it_wrote() -> None:
    total = lt.zeros(3).realize()

    @lt.jit
    def inner(x: Tensor) -> Tensor:
        total.add_(x)
        return total * 1

    @lt.jit
    def outer(x: Tensor) -> Tensor:
        found: Tensor = inner(x * 2).sum()
        return found

    assert [outer(lt.ones(3)).item() for _ in range(5)] == [6.0 * n for n in range(1, 6)]
    assert total.tolist() == [10.0] * 3


def test_equal_constants_are_parameters_of_their_own() -> None:
    first, second = (nn.Parameter(lt.ones(64)) for _ in range(2))
    plain = lt.ones(64)
    lt.realize(first, second, plain)
    with lt.no_grad():
        first.add_(1)
    assert (first.sum().item(), second.sum().item(), plain.sum().item()) == (128, 64, 64)
    (first * second).sum().backward()
    assert first.grad is not None and second.grad is not None
    assert first.grad.tolist() == [1.0] * 64 and second.grad.tolist() == [2.0] * 64


def test_the_capturing_call_gives_what_the_function_gives() -> None:
    losses = []
    for captures in (True, False):
        step, x, model = training(8)
        function = lt.jit(step) if captures else step
        losses.append([function(x).item() for _ in range(5)])
        losses.append(lt.cat([p.flatten() for p in model.parameters()]).tolist())
    assert losses[:2] == losses[2:]


def test_old_values_outlive_the_capturing_call() -> None:
    """Its plan may write over what it reads, which the program may still hold."""
    step, x, model = training(9)
    captured = lt.jit(step)
    captured(x)
    old = [p.detach() for p in model.parameters()]
    kept = [p.detach().clone() for p in model.parameters()]
    before = [k.realize().tolist() for k in kept]
    captured(x)
    assert [k.tolist() for k in kept] == before
    assert [o.tolist() for o in old] == [p.tolist() for p in model.parameters()] != before
    captured(x)
    assert [k.tolist() for k in kept] == before


def test_parameters_are_drawn_by_a_plan_of_their_own() -> None:
    lt.manual_seed(1)
    model = nn.Sequential(nn.Linear(11, 9), nn.Tanh(), nn.Linear(9, 3))
    x = lt.arange(22.0).reshape(2, 11).realize()
    with lt.no_grad():
        first = model(x).tolist()
        made = plans()
        assert model(x).tolist() == first
    assert plans() == made, "the second call is the first one's graph"


class Point(NamedTuple):
    """What is made by code of the standard library."""

    x: Tensor
    factor: int


def test_named_tuples_are_no_code_of_the_program() -> None:
    def function(x: Tensor) -> Tensor:
        point = (x, 2) if lt.is_grad_enabled() else Point(x, 2)
        return point[0] * point[1]

    captured = lt.jit(function)
    assert captured(lt.ones(2)).tolist() == [2, 2]
    with lt.no_grad():
        assert captured(lt.ones(2)).tolist() == [2, 2]
    assert captured.why() == ["captured"], "by the second call"


VIEWS: dict[str, Any] = {
    "element": lambda x: x[2, 1, 3],
    "row": lambda x: x[1, 2],
    "column": lambda x: x[:, 1, 3],
    "turned": lambda x: x.permute(2, 0, 1)[1:3],
    "steps": lambda x: x[::2, 1:, ::3],
    "repeated": lambda x: x[:1, :1].expand(2, 3, 5),
    "diagonal": lambda x: x.diagonal(0, 0, 2),
    "windows": lambda x: x.unfold(2, 3, 2),
    "nothing": lambda x: x[3:, :, 1:1],
}


@pytest.mark.parametrize("dtype", [lt.float32, lt.int64, lt.bool, lt.bfloat16, lt.float16])
@pytest.mark.parametrize("name", list(VIEWS))
def test_views_are_read_where_they_lie(name: str, dtype: Any) -> None:
    array = np.arange(60).reshape(3, 4, 5) % 7
    x = lt.tensor(array).to(dtype).realize()
    made = plans()
    view = VIEWS[name](x)
    wanted = VIEWS[name](x.double() if dtype.is_floating_point else x.to(lt.int64))
    found = view.tolist()
    assert plans() == made
    assert found == view.clone().tolist()
    assert np.array_equal(np.array(found, float), np.array(wanted.clone().tolist(), float))


def test_views_show_what_was_written() -> None:
    x = lt.zeros(4, 4)
    row = x[2]
    assert row[1].item() == 0
    x[2, 1] = 5
    row += 1
    assert row[1].item() == x[2, 1].item() == 6 and float(row[0]) == 1


def test_reads_are_seen_by_a_capture() -> None:
    captured = lt.jit(lambda x: x * x[0].item())
    for n in (2.0, 3.0, 4.0):
        assert captured(lt.full((2,), n)).tolist() == [n * n] * 2
    assert any("looks at a value" in reason for reason in captured.why())
