"""Sorting and what is read off sorted rows, against NumPy's stable sort and values from PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyt as lt
from lazyt.config import config

Array = np.ndarray[Any, Any]
NAN, INF = math.nan, math.inf


def stable_order(array: Array, descending: bool) -> Array:
    """NumPy's stable order along the last axis; descending keeps equals in order as well."""
    back: Array = np.argsort(np.flip(array, -1) if descending else array, -1, kind="stable")
    return array.shape[-1] - 1 - np.flip(back, -1) if descending else back


def mixed(dtype: str, *shape: int) -> Array:
    """Values with many equal ones and, for floats, with NaN, infinities and both zeros."""
    rng = np.random.default_rng([*shape, len(dtype)])
    values = np.round(rng.standard_normal(shape) * 40)
    if np.dtype(dtype).kind == "f":
        values = np.where(rng.random(shape) < 0.5, rng.standard_normal(shape), values)
        for special in (NAN, 0.0, -0.0, INF, -INF):
            values[rng.random(shape) < 0.07] = special
    return values.astype(dtype) if np.dtype(dtype).kind != "u" else np.abs(values).astype(dtype)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "int64", "int32", "int8", "uint8", "bool"]
)
def test_sort_is_stable_to_the_bit(dtype: str, descending: bool) -> None:
    arrays = [mixed(dtype, *shape) for shape in ((3, 17), (2, 300))]
    pairs = [lt.sort(lt.from_numpy(a), descending=descending) for a in arrays]
    lt.realize(*(t for pair in pairs for t in pair))
    for array, (values, indices) in zip(arrays, pairs):
        order = stable_order(array, descending)
        np.testing.assert_array_equal(indices.numpy(), order)
        wanted = np.take_along_axis(array, order, -1)
        np.testing.assert_array_equal(values.numpy(), wanted)
        np.testing.assert_array_equal(np.signbit(values.numpy().astype("f8")), np.signbit(wanted))
        assert indices.dtype is lt.int64 and values.numpy().dtype == array.dtype


def _long_rows(kind: str, dtype: str, count: int) -> Any:
    """Rows whose keys differ in many digits, in few, in none, or only far down."""
    rng = np.random.default_rng(count)
    spread = rng.standard_normal(count) * 1e6
    if kind == "mixed":
        return mixed(dtype, count)
    if kind == "few":
        return rng.integers(0, 5, count).astype(dtype)
    if kind == "equal":
        return np.full(count, 7).astype(dtype)
    if kind == "pairs":  # neighbours that are equal in all but the last bits
        near = np.repeat(spread[: count // 2 + 1], 2)[:count].astype(dtype)
        return near + rng.integers(0, 3, count).astype(dtype) * (np.abs(near) * 1e-15).astype(dtype)
    crowd = (1e9 + rng.random(count)).astype(dtype)  # and one far from the crowd
    crowd[count // 3] = -crowd[0]
    return crowd


@pytest.mark.fused_values
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("kind", ["mixed", "few", "equal", "pairs", "crowd"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32"])
def test_long_rows_are_stable_to_the_bit(dtype: str, kind: str, descending: bool) -> None:
    array = np.stack([_long_rows(kind, dtype, 1500), mixed(dtype, 1500)])
    values, indices = lt.sort(lt.from_numpy(array), descending=descending)
    alone = lt.argsort(lt.from_numpy(array), descending=descending, stable=True)
    lt.realize(values, indices)
    order = stable_order(array, descending)
    np.testing.assert_array_equal(indices.numpy(), order)
    np.testing.assert_array_equal(alone.numpy(), order)
    assert values.numpy().tobytes() == np.take_along_axis(array, order, -1).tobytes()


def test_runs_begin_with_their_first_element() -> None:
    row = np.repeat(np.array([0.0, -0.0, 2.0, NAN, 2.0, 2.0, -0.0, 0.0]), [2, 1, 3, 2, 1, 2, 2, 1])
    found, inverse, counts = lt.unique_consecutive(lt.from_numpy(row), True, True)
    wanted = np.array([0.0, 2.0, NAN, NAN, 2.0, -0.0])
    assert found.numpy().tobytes() == wanted.tobytes()
    np.testing.assert_array_equal(inverse.numpy(), [0] * 3 + [1] * 3 + [2, 3] + [4] * 3 + [5] * 3)
    np.testing.assert_array_equal(counts.numpy(), [3, 3, 1, 1, 3, 3])
    assert lt.unique_consecutive(lt.empty(0)).shape == (0,)


def test_values_alone_have_the_same_bits() -> None:
    arrays = [mixed(dtype, 2, 300) for dtype in ("float32", "float64", "int16")]
    found = [lt.sort(lt.from_numpy(a)).values for a in arrays]
    down = [lt.sort(lt.from_numpy(a), descending=True).values for a in arrays]
    lt.realize(*found, *down)
    for descending, results in ((False, found), (True, down)):
        for array, values in zip(arrays, results):
            wanted = np.take_along_axis(array, stable_order(array, descending), -1)
            assert values.numpy().tobytes() == wanted.tobytes()


def test_bfloat16_sorts_as_its_values() -> None:
    x = lt.from_numpy(mixed("float32", 2, 90)).to(lt.bfloat16)
    values, indices = x.sort()
    wide = x.to(lt.float32).numpy()
    order = stable_order(wide, False)
    np.testing.assert_array_equal(indices.numpy(), order)
    np.testing.assert_array_equal(
        values.to(lt.float32).numpy(), np.take_along_axis(wide, order, -1)
    )


@pytest.mark.fused_values
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_long_rows_do_not_depend_on_threads(threads: int) -> None:
    array = np.round(mixed("float32", 70_001), 1)
    with config.override(threads=threads):
        x = lt.from_numpy(array)
        values, indices = x.sort(descending=True)
        alone = x.sort(descending=True).values + 0  # another plan: of values only
        lt.realize(values, indices)
        order = stable_order(array, True)
        np.testing.assert_array_equal(indices.numpy(), order)
        np.testing.assert_array_equal(values.numpy(), array[order])
        np.testing.assert_array_equal(alone.numpy(), array[order])


def test_any_dimension_and_layout() -> None:
    array = mixed("float32", 4, 5, 6)
    x = lt.from_numpy(array)
    for dim in (0, 1, -1):
        np.testing.assert_array_equal(x.sort(dim).values.numpy(), np.sort(array, dim))
    turned = x.permute(2, 0, 1)[::2, :, 1:]
    order = np.argsort(array.transpose(2, 0, 1)[::2, :, 1:], 1, kind="stable")
    np.testing.assert_array_equal(turned.argsort(1).numpy(), order)
    np.testing.assert_array_equal((x * 2).msort().numpy(), np.sort(array * 2, 0))


def test_nothing_and_numbers() -> None:
    assert [t.tolist() for t in lt.tensor(3.0).sort()] == [3.0, 0]
    assert [tuple(t.shape) for t in lt.zeros(0, 3).sort(0)] == [(0, 3), (0, 3)]
    assert [t.tolist() for t in lt.tensor(2.0).topk(1)] == [2.0, 0]
    assert [tuple(t.shape) for t in lt.zeros(3, 0).topk(0)] == [(3, 0), (3, 0)]
    assert lt.argsort(lt.tensor(1.0)).shape == ()


@pytest.mark.lazy
@pytest.mark.fused
def test_results_that_nobody_uses_cost_nothing() -> None:
    x = lt.from_numpy(mixed("float32", 3, 100))
    values = lt.explain(x.sort().values).kernels
    assert [k.computes for k in values] == [("sort values float32[3, 100]",)]
    both = lt.explain(*(x * 2).sort()).kernels
    assert len(both) == 1 and len(both[0].computes) == 2


def test_out_takes_both_results() -> None:
    values, indices = lt.empty(3), lt.empty(3, dtype=lt.int64)
    found = lt.sort(lt.tensor([3.0, 1.0, 2.0]), out=(values, indices))
    assert values.tolist() == [1.0, 2.0, 3.0] and indices.tolist() == [1, 2, 0]
    assert found.values is values and found.indices is indices


@pytest.mark.parametrize("largest", [True, False])
def test_topk_of_long_rows(largest: bool) -> None:
    arrays = [mixed("float32", 2, 5003), mixed("int32", 2, 4096), np.full((1, 4500), -INF, "f4")]
    arrays[0][1, :5000] = NAN  # more NaN than the row has anything else
    pairs = [lt.topk(lt.from_numpy(a), 12, largest=largest) for a in arrays]
    lt.realize(*(t for pair in pairs for t in pair))
    for array, (values, indices) in zip(arrays, pairs):
        order = stable_order(array, largest)[:, :12]
        np.testing.assert_array_equal(indices.numpy(), order)
        np.testing.assert_array_equal(values.numpy(), np.take_along_axis(array, order, -1))


@pytest.mark.parametrize(
    ("rows", "length", "count"), [(170, 100, 10), (40, 700, 3), (9, 3000, 700)]
)
def test_topk_of_many_rows(rows: int, length: int, count: int) -> None:
    array = np.round(mixed("float32", rows, length), 1)  # with equal elements
    values, indices = lt.topk(lt.from_numpy(array), count)
    order = stable_order(array, True)[:, :count]
    np.testing.assert_array_equal(indices.numpy(), order)
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(array, order, -1))


# -------------------------------------------------------------- what is read off sorted rows


def test_order_statistics() -> None:
    array = np.random.default_rng(2).permutation(60).reshape(4, 15).astype("f4")
    x, ordered = lt.from_numpy(array), np.sort(array, -1)
    values, indices = x.kthvalue(4)
    np.testing.assert_array_equal(values.numpy(), ordered[:, 3])
    np.testing.assert_array_equal(indices.numpy(), np.argsort(array, -1)[:, 3])
    values, indices = x.median(1, keepdim=True)
    np.testing.assert_array_equal(values.numpy(), ordered[:, 7:8])
    np.testing.assert_array_equal(indices.numpy(), np.argsort(array, -1)[:, 7:8])
    assert x.median().item() == 29.0  # the lower of 29 and 30


def test_medians_and_nan() -> None:
    x = lt.tensor([[4.0, NAN, 1.0, NAN], [2.0, 8.0, 6.0, 4.0], [NAN] * 4])
    assert [t.tolist() for t in x.nanmedian(1)] == [[1.0, 4.0, pytest.approx(NAN, nan_ok=True)],
                                                    [2, 3, 0]]  # fmt: skip
    values, indices = x.median(1)
    assert np.isnan(values.numpy()).tolist() == [True, False, True]
    assert indices.tolist() == [1, 3, 0]
    assert math.isnan(x.median()) and x.nanmedian().item() == 4.0
    assert math.isnan(lt.tensor([]).median())


@pytest.mark.parametrize("dtype", [lt.int64, lt.uint8, lt.float32, lt.bfloat16, lt.bool])
def test_mode_says_where_its_value_occurs_last(dtype: lt.dtype) -> None:
    lt.manual_seed(0)
    rows = lt.randint(0, 5, (20, 33)).to(dtype)
    values, places = rows.mode(1)
    for row, value, place in zip(rows.tolist(), values.tolist(), places.tolist(), strict=True):
        most = max(map(row.count, row))
        assert value == min(x for x in row if row.count(x) == most)
        assert place == max(i for i, x in enumerate(row) if x == value)


def test_mode_among_nan_and_zeros_of_both_signs() -> None:
    nan = float("nan")
    values, places = lt.tensor([[nan, nan, nan], [nan, 2.0, nan], [-0.0, 1.0, 0.0]]).mode(1)
    assert places.tolist() == [0, 1, 2]
    assert values[0].isnan() and values[1:].tolist() == [2.0, 0.0]


def test_mode_is_the_smallest_of_the_most_frequent() -> None:
    values, indices = lt.tensor([[2, 2, 1, 1, 3], [5, 4, 4, 5, 5]]).mode()
    assert values.tolist() == [1, 5] and indices.tolist() == [3, 4]


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantiles_as_numpy(interpolation: Any) -> None:
    array = np.random.default_rng(4).standard_normal((3, 8))
    q = [0.0, 0.31, 0.5, 1.0]
    found = lt.quantile(lt.from_numpy(array), lt.tensor(q, dtype=lt.float64), 1, True,
                        interpolation=interpolation)  # fmt: skip
    wanted = np.quantile(array, q, 1, keepdims=True, method=interpolation)
    np.testing.assert_allclose(found.numpy(), wanted, 1e-12)
    array[1, 2] = NAN
    x = lt.from_numpy(array)
    assert np.isnan(lt.quantile(x, 0.4, 1).numpy()).tolist() == [False, True, False]
    wanted = np.nanquantile(array, 0.4, 1, method=interpolation)
    found = lt.nanquantile(x, 0.4, 1, interpolation=interpolation)
    np.testing.assert_allclose(found.numpy(), wanted, 1e-12)


# ------------------------------------------------------------------------------- gradients

#: Gradients of the sum of results weighted 1, 2, 3 ..., from PyTorch 2.13.
_GRADIENTS: dict[str, tuple[Callable[[Any], Any], list[float]]] = {
    "sort": (lambda x: x.sort().values, [4, 2, 3, 1, 5]),
    "descending": (lambda x: x.sort(descending=True).values, [2, 3, 4, 5, 1]),
    "topk": (lambda x: x.topk(2).values, [2, 0, 0, 0, 1]),
    "kthvalue": (lambda x: x.kthvalue(4).values, [1, 0, 0, 0, 0]),
    "median along": (lambda x: x.median(0).values, [0, 0, 1, 0, 0]),
    "median": (lambda x: x.median(), [0, 0.5, 0.5, 0, 0]),
    "mode": (lambda x: x.mode().values, [0, 0, 1, 0, 0]),
    "quantile": (lambda x: x.quantile(0.3), [0, 0.8, 0.2, 0, 0]),
    "quantile at the end": (lambda x: x.quantile(0.9), [0.4, 0, 0, 0, 0.6]),
}


@pytest.mark.parametrize("name", _GRADIENTS)
def test_gradients(name: str) -> None:
    function, wanted = _GRADIENTS[name]
    x = lt.tensor([3.0, 2.0, 2.0, -1.0, 7.0], dtype=lt.float64, requires_grad=True)
    result = function(x)
    (result * lt.arange(1, result.numel() + 1).reshape(result.shape)).sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), wanted, 1e-6, 1e-6)


# ---------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda x: x.sort(2), IndexError, "Dimension out of range (expected to be in range of"),
        (lambda x: x.topk(4), RuntimeError, "selected index k out of range"),
        (lambda x: (x > 0).topk(1), RuntimeError, "topk does not support bool dtypes on CPU"),
        (lambda x: x.kthvalue(0), RuntimeError, "kthvalue(): selected number k out of range for"),
        (lambda x: lt.zeros(0, 3).median(0), IndexError, "median(): Expected reduction dim 0 to"),
        (lambda x: (x > 0).median(), NotImplementedError, "not implemented for 'Bool'"),
        (lambda x: x.quantile(1.5), RuntimeError, "q must be in the range [0, 1] but got 1.5"),
        (lambda x: x.int().quantile(0.5), RuntimeError, "must be either float or double dtype"),
        (lambda x: x.quantile(0.5, interpolation="x"), RuntimeError, "interpolation must be one"),
        (lambda x: x.quantile(lt.tensor([2.0])), RuntimeError, "q values must be in the range"),
    ],
)
def test_errors(call: Callable[[Any], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        call(lt.tensor([3.0, 1.0, 2.0]))
    assert text in str(caught.value)
