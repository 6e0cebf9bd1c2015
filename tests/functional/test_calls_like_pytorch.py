"""Calls that PyTorch takes, or refuses, and what they give: each was once taken otherwise."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import lazyt as lt
from lazyt import Tensor


@pytest.fixture(autouse=True)
def interpreted() -> Iterator[None]:
    with lt.config.override(interpret=True):
        yield


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda out: lt.arange(5, 9, out=out), [[0, 5, 6], [0, 7, 8]]),
        (lambda out: lt.range(2, 8, 2, out=out), [[0, 2, 4], [0, 6, 8]]),
        (lambda out: lt.linspace(1, 7, 4, out=out), [[0, 1, 3], [0, 5, 7]]),
        (lambda out: lt.logspace(0, 3, 4, 3, out=out), [[0, 1, 3], [0, 9, 27]]),
    ],
)
def test_numbers_in_a_row_fill_an_output_of_as_many(
    function: Callable[[Tensor], Tensor], wanted: list[list[int]]
) -> None:
    whole = lt.zeros(2, 3)
    part = whole[:, 1:]
    assert function(part) is part
    assert part.shape == (2, 2)
    lt.testing.assert_close(whole, lt.tensor(wanted, dtype=lt.float32))


class _Other:
    def __radd__(self, left: Any) -> str:
        return "from the right"


def test_writing_operators_leave_unknown_operands_to_the_other_side() -> None:
    value: Any = lt.ones(2)
    assert value.__imul__(_Other()) is NotImplemented
    value += _Other()
    assert value == "from the right"


def test_choices_of_none() -> None:
    found = lt.combinations(lt.tensor([4, 5, 6]), 0)
    assert found.shape == (0,)
    assert found.dtype is lt.int64
    with pytest.raises(RuntimeError, match="non-negative"):
        lt.combinations(lt.tensor([4]), -1)


@pytest.mark.parametrize("function", [lt.zeros, lt.ones, lambda s, **k: lt.full(s, 3.5, **k)])
def test_outputs_have_the_dtype_that_is_asked_for(function: Callable[..., Tensor]) -> None:
    with pytest.raises(RuntimeError, match="does not match dtype of out"):
        function((2,), dtype=lt.float64, out=lt.empty(2))
    out = lt.empty(2, dtype=lt.float64)
    assert function((2,), dtype=lt.float64, out=out) is out
    assert function((2,), out=out) is out


def test_sizes_of_fractions_are_named() -> None:
    with pytest.raises(TypeError, match="must be tuple of ints"):
        lt.zeros((lt.tensor(2.0), 3))


def test_take_along_dim_takes_as_many_dimensions() -> None:
    values = lt.arange(6).reshape(2, 3)
    with pytest.raises(RuntimeError, match="same number of dimensions"):
        lt.take_along_dim(values, lt.tensor([0, 1, 0]), 0)
    assert lt.take_along_dim(values, lt.tensor([[0, 1, 0]]), 0).tolist() == [[0, 4, 2]]


def test_gather_takes_a_wish_for_sparse_gradients() -> None:
    source = lt.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    lt.gather(source, 1, lt.tensor([[1], [1]]), sparse_grad=True).sum().backward()
    assert source.grad is not None
    assert source.grad.tolist() == [[0.0, 1.0], [0.0, 1.0]]


def test_bernoulli_writes_into_outputs_of_other_dtypes() -> None:
    out = lt.full((3,), 7, dtype=lt.int64)
    assert lt.bernoulli(lt.tensor([1.0, 0.0, 1.0]), out=out).tolist() == [1, 0, 1]


def test_histogram_widens_a_range_that_is_empty() -> None:
    counts, edges = lt.histogram(lt.tensor([-3.0, 0.9, 1.2, 6.0]), 2, range=(1.0, 1.0))
    assert edges.tolist() == [0.5, 1.0, 1.5]
    assert counts.tolist() == [1.0, 1.0]


def test_words_that_are_no_places() -> None:
    with pytest.raises(TypeError, match="must be int, not bool"):
        lt.ones(3, 2).topk(1, True)
    with pytest.raises(TypeError, match="dims"):
        lt.ones(3).flip()


def test_new_and_reversed() -> None:
    assert lt.ones(1, dtype=lt.float64).new(size=(2, 5)).shape == (2, 5)
    backwards: Any = reversed(lt.tensor([[1, 2], [3, 4]]))
    assert backwards.tolist() == [[3, 4], [1, 2]]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_layers_without_sizes_are_copied(copied: Callable[[Any], Any]) -> None:
    layer = copied(lt.nn.LazyLinear(3))
    assert layer.has_uninitialized_params()
    assert layer(lt.ones(2, 5)).shape == (2, 3)
    assert layer.weight.shape == (3, 5)
