"""Hooks of modules leave what goes through the module as it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

import lazyt as lt
from lazyt import Tensor, nn


class Pair(NamedTuple):
    first: Tensor
    second: Tensor


class Scales(nn.Module):
    def forward(self, left: Tensor, right: Tensor) -> Pair:
        self.needs = (left.requires_grad, right.requires_grad)
        return Pair(left * 2, right * 3)


@pytest.fixture(autouse=True)
def interpreted() -> Iterator[None]:
    with lt.config.override(interpret=True):
        yield


def test_backward_hooks_keep_named_tuples_and_what_requires_a_gradient() -> None:
    module, told = Scales(), []
    module.register_full_backward_hook(lambda m, below, above: told.append((below, above)))
    left = lt.tensor([1.0], requires_grad=True)
    found: Any = module(left, lt.tensor([4.0]))
    assert isinstance(found, Pair)
    assert module.needs == (True, False)
    assert found.first.requires_grad
    assert not found.second.requires_grad
    found.first.sum().backward()
    assert left.grad is not None
    assert left.grad.tolist() == [2.0]
    ((below, above),) = told
    assert [part.tolist() for part in below] == [[2.0], [0.0]]
    assert above[0].tolist() == [1.0]
    assert above[1] is None


def test_functional_call_hands_back_what_a_buffer_became() -> None:
    class Counts(nn.Module):
        count: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", lt.zeros(1))

        def forward(self, step: Tensor) -> Any:
            self.count = self.count + step
            return self.count * 10

    module = Counts()
    given = {"count": lt.tensor([5.0])}
    assert lt.func.functional_call(module, given, lt.ones(1)).tolist() == [60.0]
    assert given["count"].tolist() == [6.0]
    assert module.count.tolist() == [0.0]


def test_loaders_are_generic() -> None:
    kind: Any = lt.utils.data.DataLoader
    loader = kind[Tensor]([lt.ones(1)])
    assert next(iter(loader)).tolist() == [[1.0]]
