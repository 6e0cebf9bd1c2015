"""Factorizations of matrices by kernels: bits, errors, hostile matrices, neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lazyt
from lazyt import linalg, ops
from lazyt.ir.factorizations.evaluation import evaluate
from lazyt.ir.factorizations.sizes import LARGEST, LARGEST_WHOLE, LIMITS, MODES, WHOLE

Array = np.ndarray[Any, Any]
#: Of those that are taken one at a time: ends of vectors, of groups of six rows, and of panels.
LARGER = [(33, 33), (40, 40), (47, 47), (64, 64), (33, 70), (70, 41)]
#: Of those that take many rotations.
SPECTRA = [(33, 33), (47, 47), (33, 40), (41, 34)]
SIZES = [(1, 1), (2, 2), (3, 3), (5, 5), (8, 8), (5, 3), (3, 5), (32, 7), (7, 32)]
#: How many matrices of each batch are hostile.
HOSTILE = 12


def matrices(m: int, n: int, dtype: Any, count: int = 21) -> Array:
    """Matrices of zeros, of ones, of low rank, badly scaled, subnormal, not finite, and others."""
    rng = np.random.default_rng(100 * m + n)
    a = rng.standard_normal((count, m, n)).astype(dtype)
    tiny = np.finfo(dtype).tiny
    a[0], a[1], a[2] = 0, 1, np.eye(m, n)
    a[3] = np.outer(a[3][:, 0], a[3][0])
    a[4] *= dtype(1e-18)
    a[5] *= dtype(1e18)
    a[6] *= tiny / 8
    a[7][0, 0], a[8][-1, -1] = np.nan, np.inf
    a[9] = -a[2]
    a[10] *= np.logspace(0, -6, n, dtype=dtype)
    a[11][-1] = a[11][0]
    return a


def positive(a: Array) -> Array:
    """Positive definite matrices of square ones."""
    with np.errstate(all="ignore"):
        square: Array = a @ a.swapaxes(1, 2) + np.eye(a.shape[-1], dtype=a.dtype)
    return square


def operands(routine: str, a: Array) -> tuple[Array, ...]:
    """What a routine of these matrices takes."""
    if routine == "cholesky":
        return (positive(a),)
    if routine == "pinv":
        limits = np.full((*a.shape[:-1], 2), np.finfo(a.dtype).eps * max(a.shape[-2:]), a.dtype)
        limits[..., 0] = 0
        return a, limits
    if routine in ("solve", "triangular", "gelsy"):
        b = np.random.default_rng(3).standard_normal((len(a), a.shape[-2], 3)).astype(a.dtype)
        if routine == "gelsy":
            b[..., -1] = np.finfo(a.dtype).eps * max(a.shape[-2:])
        return a, b
    return (a,)


def by_kernel(routine: str, mode: str, *arrays: Array) -> list[Array]:
    """The results of the op."""
    nodes = [lazyt.tensor(array).node for array in arrays]
    parts = ops.library(routine, *nodes, mode=mode)
    chain = parts[0]
    while chain.op not in (ops.LINALG, ops.LIBRARY):
        chain = chain.inputs[0]
    assert chain.op is ops.LINALG
    return [lazyt.handle.dispatch.wrap(part).numpy() for part in parts]


def same_bits(a: Array, b: Array) -> bool:
    """Whether all numbers are equal to the bit; any NaN is one."""
    kind = f"u{a.itemsize}"
    both: Array = np.isnan(a) & np.isnan(b)
    return bool(np.all(both | (a.view(kind) == np.ascontiguousarray(b).view(kind))))


CASES = [
    (routine, mode, size)
    for routine in MODES
    for mode in MODES[routine]
    for size in [*SIZES, *(SPECTRA if routine in LIMITS else LARGER if routine in WHOLE else ())]
    if size[0] == size[1]
    or routine in ("lu", "qr", "svd", "gelsy")
    or (routine, mode) == ("pinv", "plain")
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("routine", "mode", "size"), sorted(CASES))
def test_kernels_have_the_bits_of_the_interpreter(
    routine: str, mode: str, size: tuple[int, int], dtype: Any
) -> None:
    count = HOSTILE + 1 if max(size) > LARGEST else 21
    given = operands(routine, matrices(*size, dtype, count))
    found = by_kernel(routine, mode, *given)
    expected = evaluate(routine, mode, *given)
    for number, (a, b) in enumerate(zip(found, expected, strict=True)):
        if routine == "slogdet" and number == 1:  # NumPy rounds logarithms in another place
            np.testing.assert_allclose(a, b, rtol=1e-5 if dtype is np.float32 else 1e-14)
        else:
            assert same_bits(a, b)


@pytest.mark.parametrize("routine", sorted(WHOLE))
@pytest.mark.parametrize("threads", [1, 2])
def test_threads_share_one_matrix(routine: str, threads: int) -> None:
    before = lazyt.get_num_threads()
    lazyt.set_num_threads(threads)
    try:
        size = 100 if routine in LIMITS else 257
        a = matrices(size, size, np.float32, 13)[12:]
        found = by_kernel(routine, next(iter(MODES[routine])), *operands(routine, a))
    finally:
        lazyt.set_num_threads(before)
    expected = evaluate(routine, next(iter(MODES[routine])), *operands(routine, a))
    exact = [0] if routine == "slogdet" else range(len(found))
    assert all(same_bits(found[i], expected[i]) for i in exact)


@pytest.mark.parametrize("size", [100, 300])
def test_larger_equations_are_solved(size: int) -> None:
    rng = np.random.default_rng(size)
    a = rng.standard_normal((2, size, size))
    b = rng.standard_normal((2, size, 40))
    x, info = by_kernel("solve", "plain", a, b)
    scale = np.abs(a).sum(-1).max() * np.abs(x).max()
    assert np.abs(a @ x - b).max() < 4e-16 * size * scale and not info.any()
    (inverse, _), square = by_kernel("inv", "plain", a), positive(a)
    assert np.abs(inverse @ a - np.eye(size)).max() < 1e-16 * size * np.linalg.cond(a).max()
    factor, info = by_kernel("cholesky", "plain", square)
    assert not info.any() and (np.triu(factor, 1) == 0).all()
    np.testing.assert_allclose(factor @ factor.swapaxes(1, 2), square, atol=1e-16 * size**2)
    np.testing.assert_allclose(by_kernel("det", "plain", a)[0], np.linalg.det(a), rtol=1e-9)


@pytest.mark.parametrize("size", [(100, 100), (300, 40), (40, 300)])
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_larger_orthogonal_factors(size: tuple[int, int], mode: str) -> None:
    a = np.random.default_rng(size[0]).standard_normal((2, *size))
    q, r = by_kernel("qr", mode, a)
    assert np.abs(q @ r - a).max() < 1e-14 * np.abs(a).max() * size[1]
    assert np.abs(q.swapaxes(1, 2) @ q - np.eye(q.shape[-1])).max() < 1e-14
    assert (np.tril(r, -1) == 0).all()


@pytest.mark.parametrize("size", [(3, 3), (40, 40), (60, 20), (20, 60)])
@pytest.mark.parametrize("rank", [2, 15, 60])
def test_least_squares_of_any_rank(size: tuple[int, int], rank: int) -> None:
    rng = np.random.default_rng(rank)
    a = rng.standard_normal((size[0], rank)) @ rng.standard_normal((rank, size[1]))
    b = rng.standard_normal((size[0], 3))
    x, _, found, _ = linalg.lstsq(lazyt.tensor(a), lazyt.tensor(b))
    expected, _, known, _ = np.linalg.lstsq(a, b, rcond=1e-14)
    assert found.item() == known == min(*size, rank)
    np.testing.assert_allclose(x.numpy(), expected, atol=1e-11 * np.abs(expected).max())
    # A tolerance leaves out what is smaller.
    narrow = np.diag([1.0, 1e-3, 1e-6]) + 0.0
    x, _, found, _ = linalg.lstsq(lazyt.tensor(narrow), lazyt.ones(3, 1).double(), rcond=1e-4)
    assert found.item() == 2 and x[2].item() == 0


@pytest.mark.parametrize("size", [(4, 4), (6, 3), (3, 6)])
def test_gradients_of_least_squares(size: tuple[int, int]) -> None:
    a = lazyt.randn(2, *size, dtype=lazyt.float64, requires_grad=True)
    b = lazyt.randn(2, size[0], 2, dtype=lazyt.float64, requires_grad=True)
    assert lazyt.autograd.gradcheck(lambda a, b: linalg.lstsq(a, b).solution, (a, b))
    assert lazyt.autograd.gradgradcheck(lambda a, b: linalg.lstsq(a, b).solution, (a, b))
    da, db = lazyt.randn(2, *size).double(), lazyt.randn(2, size[0], 2).double()
    _, moved = lazyt.func.jvp(lambda a, b: linalg.lstsq(a, b).solution, (a, b), (da, db))
    step = 1e-6
    ahead = linalg.lstsq(a + step * da, b + step * db).solution
    back = linalg.lstsq(a - step * da, b - step * db).solution
    assert lazyt.allclose(moved, (ahead - back) / (2 * step), rtol=1e-5, atol=1e-6)


def test_larger_matrices_fail_as_small_ones() -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((3, 50, 50))
    square = positive(a)
    square[1, 40, 40] = -1
    factor, info = by_kernel("cholesky", "plain", square)
    assert info.tolist() == [0, 41, 0]
    np.testing.assert_array_equal(factor[1], np.tril(square[1]))
    a[2, :, 7] = 0
    x, info = by_kernel("inv", "plain", a)
    assert info.tolist() == [0, 0, 8] and np.isnan(x[2]).all() and np.isfinite(x[:2]).all()


@pytest.mark.parametrize(("routine", "mode"), [(r, m) for r in MODES for m in MODES[r]])
def test_neighbours_do_not_matter(routine: str, mode: str) -> None:
    given = operands(routine, matrices(4, 4, np.float32))
    together = by_kernel(routine, mode, *given)
    for at in (0, 3, 7, 20):
        alone = by_kernel(routine, mode, *[a[at : at + 1] for a in given])
        assert all(same_bits(a[at : at + 1], b) for a, b in zip(together, alone, strict=True))
    turned = by_kernel(routine, mode, *[a[::-1].copy() for a in given])
    assert all(same_bits(a, b[::-1].copy()) for a, b in zip(together, turned, strict=True))


def errors(size: int, dtype: Any) -> tuple[Array, Array]:
    """Finite matrices of the size, and the largest number of each."""
    a = np.delete(matrices(size, size, dtype, 60), [6, 7, 8], 0)
    largest = np.abs(a).max((1, 2), keepdims=True)
    return a, np.where(largest == 0, 1, largest)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 16, LARGEST])
def test_factors_make_the_matrix(size: int, dtype: Any) -> None:
    a, largest = errors(size, dtype)
    eps = np.finfo(dtype).eps

    def near(x: Array, y: Array, most: float) -> None:
        assert np.abs((x - y) / largest).max() <= most * eps

    def orthogonal(q: Array, most: float) -> None:
        assert np.abs(q.swapaxes(1, 2) @ q - np.eye(q.shape[-1])).max() <= most * eps

    q, r = by_kernel("qr", "reduced", a)
    near(q @ r, a, 4 + size)
    orthogonal(q, 8 + size / 2)
    u, s, vh, info = by_kernel("svd", "reduced", a)
    near((u * s[:, None]) @ vh, a, 8 + 2 * size)
    orthogonal(u, 8 + size / 2)
    orthogonal(vh.swapaxes(1, 2), 8 + size / 2)
    assert not info.any() and (s >= 0).all() and (np.diff(s, axis=-1) <= 0).all()
    near(by_kernel("svd", "values", a)[0][:, None], s[:, None], 0)
    symmetric = a + a.swapaxes(1, 2)
    w, v, info = by_kernel("eigh", "lower", symmetric)
    near((v * w[:, None]) @ v.swapaxes(1, 2), symmetric, 8 + 2 * size)
    orthogonal(v, 8 + size / 2)
    assert not info.any() and (np.diff(w, axis=-1) >= 0).all()
    wide = np.delete(positive(a), [4, 5], 0) if size else a
    factor, info = by_kernel("cholesky", "plain", wide)
    assert not info.any()
    found = factor @ factor.swapaxes(1, 2)
    assert (np.abs(found - wide) / np.abs(wide).max((1, 2), keepdims=True)).max() <= (
        4 + size
    ) * eps


@pytest.mark.parametrize("size", [2, 3, 8, 20])
def test_clustered_eigenvalues(size: int) -> None:
    rng = np.random.default_rng(size)
    q = np.linalg.qr(rng.standard_normal((40, size, size)))[0]
    values = 1 + np.arange(size) % 2 * np.logspace(-16, -1, 40)[:, None]
    a = (q * values[:, None]) @ q.swapaxes(1, 2)
    a = (a + a.swapaxes(1, 2)) / 2
    w, v, _ = by_kernel("eigh", "upper", a)
    np.testing.assert_allclose(w, np.linalg.eigvalsh(a), rtol=0, atol=2e-15 * size)
    np.testing.assert_allclose(v.swapaxes(1, 2) @ v, np.eye(size)[None].repeat(40, 0), atol=1e-14)
    _, s, _, _ = by_kernel("svd", "full", a)
    np.testing.assert_allclose(s, np.linalg.svd(a, compute_uv=False), rtol=0, atol=2e-15 * size)


@pytest.mark.parametrize("size", [2, 3, 5, 12])
def test_equations_are_solved(size: int) -> None:
    rng = np.random.default_rng(size)
    a = rng.standard_normal((50, size, size))
    b = rng.standard_normal((50, size, 2))
    x, info = by_kernel("solve", "plain", a, b)
    scale = (
        np.abs(a).sum(-1, keepdims=True).max(1, keepdims=True)
        * np.abs(x).max((1, 2))[:, None, None]
    )
    assert (np.abs(a @ x - b) / scale).max() < 4e-16 * size and not info.any()
    np.testing.assert_allclose(by_kernel("det", "plain", a)[0], np.linalg.det(a), rtol=1e-10)
    sign, size_of = by_kernel("slogdet", "plain", a)
    np.testing.assert_allclose(sign * np.exp(size_of), np.linalg.det(a), rtol=1e-10)
    packed, pivots, order, info = by_kernel("lu", "plain", a)
    unit, top = np.tril(packed, -1) + np.eye(size), np.triu(packed)
    moved = np.take_along_axis(a, order.astype(np.int64)[:, :, None], 1)
    np.testing.assert_allclose(unit @ top, moved, rtol=0, atol=1e-13)
    assert (pivots >= np.arange(1, size + 1)).all() and not info.any()


def test_larger_complex_and_empty_matrices_go_to_the_library() -> None:
    for a in (
        lazyt.eye(LARGEST_WHOLE + 1),
        lazyt.eye(3, dtype=lazyt.complex64),
        lazyt.zeros(0, 3, 3),
    ):
        (found,) = ops.library("det", a.node)
        assert lazyt.handle.dispatch.wrap(found).numpy().shape == tuple(a.shape[:-2])
        assert not any(k.kind == "linalg" for k in lazyt.explain(linalg.det(a)).kernels)


@pytest.mark.lazy
def test_what_comes_before_and_after_is_in_few_kernels() -> None:
    x, y = lazyt.randn(50, 20, 3), lazyt.randn(50, 20, 3)
    p, q = x - x.mean(1, keepdim=True), y - y.mean(1, keepdim=True)
    u, _, vh = linalg.svd(p.mT @ q)
    sign = linalg.det(u @ vh)
    turn = lazyt.stack([lazyt.ones_like(sign), lazyt.ones_like(sign), sign], -1)
    found = (u * turn[:, None]) @ vh
    report = lazyt.explain(found)
    assert len(report.kernels) <= 4
    # The singular values were looked at, to tell whether the iteration came to an end.
    assert [k.kind for k in report.kernels].count("linalg") == 1
    np.testing.assert_allclose(linalg.det(found).numpy(), 1, rtol=1e-5)


@pytest.mark.parametrize("name", ["inv", "cholesky", "det", "eigvalsh", "svdvals"])
def test_gradients(name: str) -> None:
    lazyt.manual_seed(1)
    a = lazyt.randn(2, 3, 3, dtype=lazyt.float64, requires_grad=True)

    def function(x: lazyt.Tensor) -> Any:
        y = x @ x.mT + lazyt.eye(3, dtype=lazyt.float64)
        return getattr(linalg, name)(y)

    assert lazyt.autograd.gradcheck(function, (a,))
    assert lazyt.autograd.gradgradcheck(function, (a,))
    each = lazyt.vmap(function)(a)
    assert lazyt.equal(each, function(a))
