"""Distinct values, searches and histograms, against NumPy and values from PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyt as lt

NAN = math.nan


@pytest.mark.parametrize("right", [False, True])
def test_searchsorted_as_numpy(right: bool) -> None:
    rng = np.random.default_rng(1)
    side: Any = "right" if right else "left"
    for length in (1, 2, 7, 8, 300):
        sequence = np.sort(np.round(rng.standard_normal(length) * 3))
        values = np.round(rng.standard_normal((2, 9)) * 3)
        found = lt.searchsorted(lt.from_numpy(sequence), lt.from_numpy(values), right=right)
        wanted = np.searchsorted(sequence, values, side=side)
        assert found.dtype is lt.int64
        np.testing.assert_array_equal(found.numpy(), wanted)
        sorter = rng.permutation(length)
        shuffled = np.empty_like(sequence)
        shuffled[sorter] = sequence
        again = lt.searchsorted(lt.from_numpy(shuffled), lt.from_numpy(values), side=side,
                                sorter=lt.from_numpy(sorter), out_int32=True)  # fmt: skip
        assert again.dtype is lt.int32
        np.testing.assert_array_equal(again.numpy(), wanted)


def test_rows_are_searched_by_themselves() -> None:
    sequence = lt.tensor([[[1, 3, 5], [2, 4, 6]]])
    values = lt.tensor([[[3, 0], [3, 9]]])
    assert lt.searchsorted(sequence, values).tolist() == [[[1, 0], [1, 3]]]
    assert lt.searchsorted(sequence[0, 0], 4).tolist() == 2
    assert lt.bucketize(lt.tensor([[1, 9]]), sequence[0, 0], right=True).tolist() == [[1, 3]]


def test_nan_leads_a_search_where_pytorch_goes() -> None:
    sequence = lt.tensor([-math.inf, -3, -0.0, 0, 1, 2, 2, math.inf, NAN, NAN])
    values = lt.tensor([1.0, NAN, 0, math.inf, 2, -3])
    assert lt.searchsorted(sequence, values).tolist() == [4, 10, 2, 10, 5, 1]
    assert lt.searchsorted(sequence, values, right=True).tolist() == [5, 10, 4, 10, 10, 2]


@pytest.mark.lazy
def test_a_search_is_one_kernel() -> None:
    sequence = lt.from_numpy(np.arange(1000.0)) + 0
    sequence.realize()
    found = lt.searchsorted(sequence, lt.from_numpy(np.linspace(0, 999, 50)) * 0.5)
    assert len(lt.explain(found).kernels) == 1


def test_unique_as_numpy() -> None:
    array = np.random.default_rng(0).integers(0, 40, (6, 50))
    values, inverse, counts = lt.unique(lt.from_numpy(array), True, True, True)
    wanted = np.unique(array, return_inverse=True, return_counts=True)
    np.testing.assert_array_equal(values.numpy(), wanted[0])
    np.testing.assert_array_equal(inverse.numpy(), wanted[1].reshape(array.shape))
    np.testing.assert_array_equal(counts.numpy(), wanted[2])


@pytest.mark.parametrize("shape, dim", [((40, 3), 0), ((2, 5, 30), -1), ((1, 6), 0), ((9, 1), 0)])
def test_unique_slices_as_numpy(shape: tuple[int, ...], dim: int) -> None:
    array = np.random.default_rng(3).integers(-1, 2, shape).astype("f4")
    found = lt.unique(lt.from_numpy(array), return_inverse=True, return_counts=True, dim=dim)
    wanted = np.unique(array, return_inverse=True, return_counts=True, axis=dim)
    for one, two in zip(found, wanted):
        np.testing.assert_array_equal(one.numpy(), np.asarray(two).reshape(tuple(one.shape)))


def test_unique_edges() -> None:
    values, counts = lt.unique(lt.tensor([NAN, 1.0, NAN, -0.0, 0.0]), return_counts=True)
    assert str(values.tolist()) == "[-0.0, 1.0, nan, nan]" and counts.tolist() == [2, 1, 1, 1]
    empty = lt.unique(lt.zeros(0, 3), return_inverse=True, return_counts=True, dim=0)
    assert [tuple(t.shape) for t in empty] == [(0, 3), (0,), (0,)]
    assert lt.unique(lt.tensor(3.0), return_inverse=True)[1].shape == ()
    assert isinstance(lt.unique(lt.tensor([2, 1])), lt.Tensor)


def test_unique_consecutive() -> None:
    x = lt.tensor([[1, 1, 2], [1, 1, 2], [0, 0, 0]])
    values, inverse, counts = x.unique_consecutive(True, True)
    assert values.tolist() == [1, 2, 1, 2, 0] and counts.tolist() == [2, 1, 2, 1, 3]
    assert inverse.tolist() == [[0, 0, 1], [2, 2, 3], [4, 4, 4]]
    values, inverse = x.unique_consecutive(True, dim=1)
    assert values.tolist() == [[1, 2], [1, 2], [0, 0]] and inverse.tolist() == [0, 0, 1]


def test_isin() -> None:
    rng = np.random.default_rng(5)
    elements, tests = rng.integers(0, 100, (7, 9)), rng.integers(0, 100, 30)
    found = lt.isin(lt.from_numpy(elements), lt.from_numpy(tests))
    np.testing.assert_array_equal(found.numpy(), np.isin(elements, tests))
    turned = lt.isin(lt.from_numpy(elements), lt.from_numpy(tests), invert=True)
    np.testing.assert_array_equal(turned.numpy(), ~np.isin(elements, tests))
    special = lt.tensor([1.0, math.inf, NAN, 2.0])
    assert lt.isin(special, lt.tensor([NAN, math.inf, 1.0, NAN])).tolist() == [True, True, False,
                                                                              False]  # fmt: skip
    assert lt.isin(special, 2).tolist() == [False, False, False, True]
    assert lt.isin(special, lt.tensor([])).tolist() == [False] * 4


def test_histograms_as_numpy() -> None:
    array = np.random.default_rng(6).standard_normal(400).astype("f4")
    x = lt.from_numpy(array)
    np.testing.assert_array_equal(lt.histc(x, 7, -2, 2).numpy(), np.histogram(array, 7, (-2, 2))[0])
    hist, edges = lt.histogram(x, 7)
    wanted = np.histogram(array, 7)
    np.testing.assert_array_equal(hist.numpy(), wanted[0])
    np.testing.assert_allclose(edges.numpy(), wanted[1], 1e-6)
    bounds = np.array([-1.0, 0.0, 0.25, 2.0], "f4")
    weight = np.arange(400).astype("f4") % 7
    found = lt.histogram(x, lt.from_numpy(bounds), weight=lt.from_numpy(weight), density=True).hist
    density = np.histogram(array, bounds, weights=weight, density=True)[0]
    np.testing.assert_allclose(found.numpy(), density, 1e-5)


def test_histograms_of_little() -> None:
    assert lt.histc(lt.tensor([1.0, 1.0]), 4).tolist() == [0, 0, 2, 0]
    assert lt.histc(lt.tensor([1.0, 5.0, NAN]), 4, 0, 2).tolist() == [0, 0, 1, 0]
    assert lt.histc(lt.tensor([]), 3).tolist() == [0, 0, 0]
    assert lt.histogram(lt.tensor([1.0, 1.0]), 2).bin_edges.tolist() == [0.5, 1.0, 1.5]


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda x: lt.searchsorted(x, x, side="x"), RuntimeError, "but got x"),
        (lambda x: lt.searchsorted(x, 1, side="left", right=True), RuntimeError, "opposites"),
        (lambda x: lt.searchsorted(lt.tensor(1), x), RuntimeError, "should have positive dimens"),
        (lambda x: lt.searchsorted(x.reshape(1, 3), x), RuntimeError, "first N-1 dimensions"),
        (lambda x: lt.searchsorted(x, x, sorter=lt.tensor([0, 1, 3])), IndexError, "out of range"),
        (lambda x: lt.searchsorted(x, x, out=lt.zeros(3)), RuntimeError, "output tensor's dtype"),
        (lambda x: lt.bucketize(x, x.reshape(1, 3)), RuntimeError, "must be 1 dimension"),
        (lambda x: lt.unique(lt.tensor(1), dim=0), IndexError, "tensor has no dimensions"),
        (lambda x: lt.unique(lt.zeros(3, 0), dim=0), RuntimeError, "There are 0 sized dimensions"),
        (lambda x: lt.isin(x > 0, x), RuntimeError, "Unsupported input type encountered"),
        (lambda x: lt.histc(x.long()), NotImplementedError, "not implemented for 'Long'"),
        (lambda x: lt.histc(x, 3, 2, 1), RuntimeError, "max must be larger than min"),
        (lambda x: lt.histc(x / 0), RuntimeError, "is not finite"),
        (lambda x: lt.histc(x, 0), RuntimeError, "bins must be > 0, but got 0"),
    ],
)
def test_errors(call: Callable[[Any], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        call(lt.tensor([1.0, 2.0, 3.0]))
    assert text in str(caught.value)
