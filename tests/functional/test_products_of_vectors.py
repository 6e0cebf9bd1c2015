"""Products of which one side is a vector: sums of products, in the order of sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyt as lt
from lazyt.nn import functional as F
from tests.codegen.sum_order import ordered_sum

ROWS = (1, 2, 7, 8, 17, 31, 32, 33, 47, 64, 65, 100, 1000, 3000)


def _numbers(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize("k", ROWS)
def test_a_matrix_times_a_vector_has_the_order_of_sums(k: int) -> None:
    """Rows of up to 64 elements are folded as they lie, longer ones in a loop of each."""
    a, v = _numbers(83, k), _numbers(k)
    want = ordered_sum((a * v).T)
    assert np.array_equal((lt.from_numpy(a) @ lt.from_numpy(v)).numpy(), want)
    wide = a.astype(np.float64), v.astype(np.float64)
    found = lt.from_numpy(wide[0]) @ lt.from_numpy(wide[1])
    assert np.array_equal(found.numpy(), ordered_sum((wide[0] * wide[1]).T))


_Call = Callable[[Any, Any], Any]
SAME: dict[str, _Call] = {
    "matmul": lambda a, v: a @ v,
    "mv": lt.mv,
    "linear": lambda a, v: F.linear(v[None], a)[0],
    "transposed": lambda a, v: (v[None] @ a.t())[0],
    "column": lambda a, v: (a @ v[:, None])[:, 0],
    "einsum": lambda a, v: lt.einsum("nk,k->n", a, v),
    "inner": lt.inner,
    "tensordot": lambda a, v: lt.tensordot(a, v, 1),
    "bmm": lambda a, v: lt.bmm(a[None], v[None, :, None])[0, :, 0],
    "addmv": lambda a, v: lt.addmv(lt.zeros(len(a)), a, v),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_all_calls_agree_to_the_bit(name: str) -> None:
    a, v = lt.from_numpy(_numbers(50, 300)), lt.from_numpy(_numbers(300))
    want = (a * v).sum(1).numpy()
    assert np.array_equal(SAME[name](a, v).numpy(), want)
    with lt.config.override(eager=True):
        assert np.array_equal(SAME[name](a, v).numpy(), want)


def test_a_million_products_are_summed_closely() -> None:
    a, b = np.random.default_rng(0).random((2, 1_000_000), dtype=np.float32)
    found = lt.dot(lt.from_numpy(a), lt.from_numpy(b)).item()
    want = float(a.astype(np.float64) @ b.astype(np.float64))
    assert abs(found - want) < 2e-6 * want


@pytest.mark.parametrize("turned", [False, True])
def test_a_row_times_a_column(turned: bool) -> None:
    a, b = _numbers(1, 500), _numbers(500, 1)
    x, y = lt.from_numpy(a), lt.from_numpy(b)
    if turned:
        x, y = lt.from_numpy(a.T.copy()).t(), lt.from_numpy(b.T.copy()).t()
    assert (x @ y).item() == ordered_sum(a[0] * b[:, 0])


def test_derivatives() -> None:
    a = lt.from_numpy(_numbers(6, 5).astype(np.float64)).requires_grad_()
    v = lt.from_numpy(_numbers(5).astype(np.float64)).requires_grad_()
    assert lt.autograd.gradcheck(lambda a, v: a @ v, (a, v))
    assert lt.autograd.gradgradcheck(lambda a, v: (a @ v).sin(), (a, v))


@pytest.mark.parametrize("dtype", [lt.float16, lt.bfloat16])
def test_halves_are_rounded_once(dtype: Any) -> None:
    a, v = lt.from_numpy(_numbers(40, 200)).to(dtype), lt.from_numpy(_numbers(200)).to(dtype)
    want = (a.float() @ v.float()).to(dtype)
    assert lt.equal(a @ v, want)


def test_captured_calls_of_any_size_have_the_same_bits() -> None:
    """One row is a vector, more are a matrix: earlier calls change nothing."""
    w = lt.from_numpy(_numbers(30, 200))
    call = lt.jit(lambda x: F.linear(x, w))
    for rows in (5, 7, 11, 1, 3, 1):
        x = lt.from_numpy(_numbers(rows, 200))
        assert np.array_equal(call(x).numpy(), F.linear(x, w).numpy())


def test_a_vector_of_costly_numbers() -> None:
    a, v = _numbers(2000, 500), _numbers(500)
    want = a.astype(np.float64) @ np.exp(v.astype(np.float64))
    found = lt.from_numpy(a) @ lt.from_numpy(v).exp()
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("make", [lt.Tensor.t, lambda a: a.t().contiguous()])
def test_columns_of_memory_keep_the_order_of_contractions(make: Any) -> None:
    """A vector times a matrix, by either call, with or without a copy of it before."""
    a, v = _numbers(300, 40), _numbers(300)
    want = np.zeros(40)
    for k in range(300):  # one rounding a step, as a product of two float32 is exact in float64
        want = (want + np.multiply(a[k], v[k], dtype=np.float64)).astype(np.float32).astype(float)
    x, y = lt.from_numpy(a), lt.from_numpy(v)
    assert np.array_equal((y @ x).numpy(), want)
    assert np.array_equal(lt.mv(x.t(), y).numpy(), want)
    with lt.config.override(eager=True):
        assert np.array_equal(lt.mv(x.t(), y).numpy(), want)
    rows = make(lt.from_numpy(a))
    assert np.allclose((rows @ y).numpy(), want, atol=1e-4)


def test_no_products_are_zero() -> None:
    assert lt.dot(lt.zeros(0), lt.zeros(0)).item() == 0
    assert (lt.zeros(3, 0) @ lt.zeros(0)).tolist() == [0, 0, 0]
    assert (lt.zeros(0, 3) @ lt.zeros(3)).shape == (0,)


@pytest.mark.parametrize(("rows", "k"), [(64, 4096), (67, 5001), (100, 65536), (9, 8192)])
def test_long_rows_side_by_side_keep_their_order(rows: int, k: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(lt.config, "verify", True)
    a, v = _numbers(rows, k), _numbers(k)
    x, y = lt.from_numpy(a), lt.from_numpy(v)
    assert np.array_equal((x @ y).numpy(), ordered_sum((a * v).T))
    scaled = lt.relu(x @ y) + 1
    assert np.array_equal(scaled.numpy(), np.maximum(ordered_sum((a * v).T), 0) + 1)
    largest = (x * y).amax(1)
    assert np.array_equal(largest.numpy(), (a * v).max(1))
