"""Factors of matrices that are symmetric or Hermitian and need not be definite."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lazyt
from lazyt import linalg
from lazyt.errors import GradientError

chance = np.random.default_rng(5)


def drawn(kind: str, *shape: int) -> Any:
    numbers = chance.standard_normal(shape)
    if kind != "real":
        numbers = numbers + 1j * chance.standard_normal(shape)
    turned = numbers.swapaxes(-1, -2)
    return numbers + (turned.conj() if kind == "hermitian" else turned)


def product_of(LD: Any, pivots: Any, hermitian: bool) -> Any:
    """``A`` from its factors: LAPACK's ``P(1) L(1) P(2) L(2) ... D ... L(1).T P(1).T``."""
    n = len(pivots)
    left, middle, k = np.eye(n, dtype=LD.dtype), np.zeros_like(LD), 0
    while k < n:
        step = 1 if pivots[k] > 0 else 2
        last, row = k + step - 1, abs(int(pivots[k])) - 1
        exchange = np.eye(n)
        exchange[[last, row]] = exchange[[row, last]]
        below = np.eye(n, dtype=LD.dtype)
        below[k + step :, k : k + step] = LD[k + step :, k : k + step]
        left = left @ exchange @ below
        middle[k : k + step, k : k + step] = np.tril(LD[k : k + step, k : k + step])
        if step == 2:
            middle[k, k + 1] = np.conj(LD[k + 1, k]) if hermitian else LD[k + 1, k]
        k += step
    return left @ middle @ (left.conj().T if hermitian else left.T)


@pytest.mark.parametrize("kind", ["real", "complex", "hermitian"])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 40])
def test_factors_have_the_matrix_as_their_product(kind: str, n: int) -> None:
    for zeros in (False, True):
        a = drawn(kind, n, n)
        if zeros and n > 1:  # blocks of two rows are needed
            a[np.arange(n), np.arange(n)] = 0
        LD, pivots = linalg.ldl_factor(lazyt.tensor(a), hermitian=kind == "hermitian")
        assert pivots.dtype == lazyt.int32
        assert not zeros or n == 1 or (pivots < 0).any()
        got = product_of(LD.numpy(), pivots.numpy(), kind == "hermitian")
        np.testing.assert_allclose(got, a, rtol=1e-9, atol=1e-9)
        assert not np.triu(LD.numpy(), 1).any()


@pytest.mark.parametrize("kind", ["real", "complex", "hermitian"])
def test_solutions_in_batches(kind: str) -> None:
    a, b = drawn(kind, 2, 1, 6, 6), drawn(kind, 3, 6, 6)[..., :2]
    a[:, :, 0, 0] = 0
    hermitian = kind == "hermitian"
    LD, pivots = linalg.ldl_factor(lazyt.tensor(a), hermitian=hermitian)
    x = linalg.ldl_solve(LD, pivots, lazyt.tensor(b), hermitian=hermitian)
    assert x.shape == (2, 3, 6, 2)
    np.testing.assert_allclose(a @ x.numpy(), np.broadcast_to(b, (2, 3, 6, 2)), atol=1e-9)


def test_only_the_lower_triangle_is_read() -> None:
    a = drawn("real", 5, 5)
    first = linalg.ldl_factor(lazyt.tensor(a)).LD
    second = linalg.ldl_factor(lazyt.tensor(np.tril(a))).LD
    assert lazyt.equal(first, second)


def test_singular_matrices() -> None:
    zeros = lazyt.zeros(2, 3, 3)
    zeros[0] = lazyt.eye(3)
    found = linalg.ldl_factor_ex(zeros)
    assert found.info.tolist() == [0, 1]
    assert found.info.dtype == lazyt.int32
    with pytest.raises(linalg.LinAlgError, match="Batch element 1"):
        linalg.ldl_factor(zeros)
    with pytest.raises(linalg.LinAlgError, match="zero"):
        linalg.ldl_factor_ex(zeros, check_errors=True)
    last = lazyt.tensor([[1.0, 1], [1, 1]])
    assert linalg.ldl_factor_ex(last).info.item() == 2


def test_nothing_to_factor() -> None:
    LD, pivots = linalg.ldl_factor(lazyt.zeros(0, 3, 3))
    assert (LD.shape, pivots.shape) == ((0, 3, 3), (0, 3))
    LD, pivots, info = linalg.ldl_factor_ex(lazyt.zeros(0, 0))
    assert (LD.shape, pivots.shape, info.item()) == ((0, 0), (0,), 0)


def test_factors_in_given_tensors() -> None:
    out = (lazyt.empty(0), lazyt.empty(0, dtype=lazyt.int32))
    found = linalg.ldl_factor(lazyt.tensor([[0.0, 1], [1, 0]]), out=out)
    assert found[0] is out[0]
    assert out[0].tolist() == [[0.0, 0.0], [1.0, 0.0]]
    assert out[1].tolist() == [-2, -2]


def test_refusals() -> None:
    square, pivots = lazyt.eye(3), lazyt.tensor([1, 2, 3])
    with pytest.raises(RuntimeError, match="batches of square matrices"):
        linalg.ldl_factor(lazyt.ones(3, 4))
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        linalg.ldl_factor(lazyt.ones(3))
    with pytest.raises(RuntimeError, match="floating point or complex"):
        linalg.ldl_factor(pivots.expand(3, 3))
    with pytest.raises(NotImplementedError):
        linalg.ldl_factor(square.half())
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        linalg.ldl_solve(square, pivots, lazyt.ones(3))
    with pytest.raises(RuntimeError, match="to be the same"):
        linalg.ldl_solve(square, pivots[:2], lazyt.ones(3, 1))
    with pytest.raises(RuntimeError, match="to be integers"):
        linalg.ldl_solve(square, square[0], lazyt.ones(3, 1))
    with pytest.raises(RuntimeError, match="same dtype"):
        linalg.ldl_solve(square, pivots, lazyt.ones(3, 1, dtype=lazyt.float64))
    with pytest.raises(RuntimeError, match="Incompatible matrix sizes"):
        linalg.ldl_solve(square, pivots, lazyt.ones(4, 1))


def test_there_is_no_gradient() -> None:
    a = lazyt.eye(2, requires_grad=True)
    LD, _ = linalg.ldl_factor(a)
    assert LD.requires_grad
    with pytest.raises(GradientError, match="no gradient"):
        LD.sum().backward()
