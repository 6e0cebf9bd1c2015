"""How often first steps compile, and reads of numbers that compile nothing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest

import lazyt as lt
from lazyt import Tensor, nn, planning
from lazyt.runtime import compile, events

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
    from lazyt.graph_keys import known

    choices = [c for s in known.values() for c in (s.plain, *s._choices.values())]
    return sum(len(choice.plans) for choice in choices)


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


def test_a_captured_step_makes_one_plan_a_call_and_none_from_the_third_on() -> None:
    step, x, _ = training(7)
    captured = lt.jit(step)
    made = [plans()]
    for _ in range(5):
        captured(x).item()
        made.append(plans())
    assert captured.why() == ["captured"]
    assert [b - a for a, b in pairwise(made)] == [1, 1, 0, 0, 0]


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
