"""Graphs that grew deep because nobody looked are cut where their code would nest too deeply."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyt

Step = Callable[[Any, Any], Any]


def shifted(x: Any, number: int) -> Any:
    return lazyt.cat([x[1:], lazyt.full((1,), float(number))])


def padded(x: Any, number: int) -> Any:
    return lazyt.nn.functional.pad(x[1:], (0, 1)) * 0.5 + 1


def scaled(x: Any, number: int) -> Any:
    return x * 0.999 + 0.25


def chosen(x: Any, number: int) -> Any:
    return lazyt.where(x > 1, x * 0.5, x + 0.25)


@pytest.mark.parametrize(
    ("step", "count"), [(shifted, 400), (padded, 200), (scaled, 1800), (chosen, 600)]
)
def test_deep_chains_have_the_values_of_single_steps(step: Step, count: int) -> None:
    start = np.linspace(-2, 3, 8, dtype=np.float32)
    deep = lazyt.tensor(start)
    for number in range(count):
        deep = step(deep, number)
    single = lazyt.tensor(start)
    for number in range(count):
        single = step(single, number).realize()
    assert deep.tolist() == single.tolist()


def stepped_by_grad(weight: Any, rate: float) -> Any:
    grad: Any = lazyt.autograd.grad((weight * weight).sum(), weight)[0]
    with lazyt.no_grad():
        weight -= rate * grad
    return weight


def stepped_by_backward(weight: Any, rate: float) -> Any:
    (weight * weight).sum().backward()
    with lazyt.no_grad():
        weight -= rate * weight.grad
    weight.grad = None
    return weight


def stepped_by_data(weight: Any, rate: float) -> Any:
    (weight * weight).sum().backward()
    grad: Any = weight.grad
    weight.data = weight.data - rate * grad
    weight.grad = None
    return weight


def stepped_by_rebinding(weight: Any, rate: float) -> Any:
    grad: Any = lazyt.autograd.grad((weight * weight).sum(), weight)[0]
    return (weight - rate * grad).detach().requires_grad_()


@pytest.mark.parametrize(
    "step", [stepped_by_grad, stepped_by_backward, stepped_by_data, stepped_by_rebinding]
)
@pytest.mark.parametrize(
    "look", [lambda w: w, copy.deepcopy, lambda w: pickle.loads(pickle.dumps(w))]
)
def test_training_that_nobody_looks_at_may_be_long(step: Step, look: Callable[[Any], Any]) -> None:
    """Every update makes a leaf of autograd of the leaf before: more of them than Python's calls
    may nest."""
    count, rate = 700, 1e-3
    weight = lazyt.ones(3, requires_grad=True)
    for _ in range(count):
        weight = step(weight, rate)
    found = look(weight).tolist()
    wanted = np.float32(1)
    for _ in range(count):
        wanted -= np.float32(rate) * (np.float32(2) * wanted)
    assert found == [wanted] * 3
    assert weight.tolist() == found and weight.requires_grad


def test_parameters_of_parameters_are_drawn_in_groups() -> None:
    lazyt.manual_seed(0)
    first = [lazyt.rand(4, requires_grad=True) for _ in range(3)]
    second = [(w * 2).detach().requires_grad_() for w in first]
    third = (second[0] + second[1]).detach().requires_grad_()
    total = (third * sum(second)).sum()
    lazyt.manual_seed(0)
    a, b, c = (lazyt.rand(4).numpy() for _ in range(3))
    assert total.item() == pytest.approx(
        ((2 * a + 2 * b) * (2 * a + 2 * b + 2 * c)).sum(), rel=1e-6
    )
    assert [w.tolist() for w in first] == [a.tolist(), b.tolist(), c.tolist()]
