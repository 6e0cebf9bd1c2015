"""The matrix routines behind the ``library`` op, in NumPy and the LAPACK that NumPy brings.

This is the one place where NumPy computes results of compiled programs: dense factorizations are
calls into a library here as in PyTorch, not code that this compiler generates (the op that calls
them is in ``lazyt/ops/libraries.py``). Every routine takes matrices in the last two axes, batched
over the leading ones, and gives its results as a list of parts. None raises for values: what did
not work is said in a part called ``info``, zero for success, with LAPACK's numbers.
``numpy.linalg`` works in double precision where a matrix is given in another type than float32 and
float64, and complex64 and complex128. All results of complex matrices are of their type, those that
are real, such as singular values, with imaginary parts of zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from lazyt.errors import ReproducibilityError, warn
from lazyt.ir.dtypes import float32, float64
from lazyt.ir.factorizations.sizes import (
    LARGEST,
    LARGEST_WHOLE,
    LIMITS,
    MODES,
    WHOLE,
    is_grid_kernel,
    is_kernel,
)
from lazyt.ir.forms import PLACED, common_place
from lazyt.ir.graph import Node, Shape, make
from lazyt.ops import builders as build
from lazyt.ops.leaves import transfer
from lazyt.ops.registry import OPS

# Gaussian elimination and substitution in NumPy, which has no LU factorization of its own.
#
# Batched over leading axes like all of this module's routines. Blocks of columns leave most of the
# work to matrix products.


Array = np.ndarray[Any, Any]

_BLOCK = 64


def substitute_rows(a: Array, b: Array, lower: bool, unit: bool) -> Array:
    """``x`` with ``a @ x = b`` by substitution; divides by zero where the diagonal has zeros."""
    if not lower:
        turned = substitute_rows(a[..., ::-1, ::-1], b[..., ::-1, :], True, unit)
        return turned[..., ::-1, :]
    x = np.array(b, copy=True)
    n = a.shape[-1]
    for start in range(0, n, _BLOCK):
        stop = min(start + _BLOCK, n)
        if start:
            x[..., start:stop, :] -= a[..., start:stop, :start] @ x[..., :start, :]
        block = a[..., start:stop, start:stop]
        x[..., start:stop, :] = _substitute_block(block, x[..., start:stop, :], unit)
    return x


def _substitute_block(a: Array, b: Array, unit: bool) -> Array:
    """A small lower triangle: LAPACK's general solution, or row by row where it refuses."""
    triangle = np.tril(a, -1) + np.eye(a.shape[-1], dtype=a.dtype) if unit else np.tril(a)
    if not b.size:
        return b
    try:
        found: Array = np.linalg.solve(triangle, b)
    except np.linalg.LinAlgError:
        return _divide(triangle, b, unit)
    return found


def _divide(triangle: Array, b: Array, unit: bool) -> Array:
    """Substitution row by row; quotients by zero are infinite."""
    x = np.array(b, copy=True)
    for i in range(triangle.shape[-1]):
        x[..., i : i + 1, :] -= triangle[..., i : i + 1, :i] @ x[..., :i, :]
        if not unit:
            x[..., i, :] /= triangle[..., i, i, None]
    return x


def triangular(mode: str, a: Array, b: Array) -> list[Array]:
    """The solution of a triangular equation."""
    return [substitute_rows(a, b, mode.startswith("lower"), mode.endswith("unit"))]


# ------------------------------------------------------------------- LU


def _eliminate(a: Array, order: Array, pivots: Array, start: int, stop: int) -> None:
    """Gaussian elimination with row exchanges in the columns ``start:stop`` of all matrices."""
    every = np.arange(len(a))
    for j in range(start, stop):
        best = j + np.argmax(_size(a[:, j:, j]), axis=1)
        pivots[:, j] = best + 1
        for rows in (a, order):
            moved = rows[every, best]
            rows[every, best] = rows[:, j]
            rows[:, j] = moved
        pivot = a[:, j, j, None]
        a[:, j + 1 :, j] /= np.where(pivot == 0, 1, pivot)
        if j + 1 < stop:
            a[:, j + 1 :, j + 1 : stop] -= a[:, j + 1 :, j, None] * a[:, j, None, j + 1 : stop]


def _size(a: Array) -> Array:
    """What pivots are chosen by: of complex numbers the sum of their parts' sizes, as in LAPACK."""
    if a.dtype.kind != "c":
        return np.abs(a)
    sizes: Array = np.abs(a.real) + np.abs(a.imag)
    return sizes


def lu(mode: str, a: Array) -> list[Array]:
    """Packed factors, LAPACK's pivots, the order of the rows, and info."""
    lead, (m, n) = a.shape[:-2], a.shape[-2:]
    k = min(m, n)
    count = int(np.prod(lead, dtype=np.int64))
    factors = np.array(a, order="C", copy=True).reshape(count, m, n)
    pivots = np.zeros((count, k), a.dtype)
    order = np.tile(np.arange(m, dtype=a.dtype), (count, 1))
    for start in range(0, k, _BLOCK):
        stop = min(start + _BLOCK, k)
        _eliminate(factors, order, pivots, start, stop)
        if stop < n:
            rest = factors[:, start:stop, stop:]
            rest[...] = substitute_rows(factors[:, start:stop, start:stop], rest, True, True)
            factors[:, stop:, stop:] -= factors[:, stop:, start:stop] @ rest
    zero = np.diagonal(factors, axis1=-2, axis2=-1) == 0
    info = first_set(zero).astype(a.dtype).reshape(lead)
    return [factors.reshape(a.shape), pivots.reshape(*lead, k), order.reshape(*lead, m), info]


def exchanges(mode: str, pivots: Array) -> list[Array]:
    """The order of rows (``mode`` says how many) after LAPACK's exchanges: row i with row
    ``pivots[i] - 1``, one after the other."""
    lead, count = pivots.shape[:-2], int(mode)
    rows = pivots.real[..., 0].reshape(-1, pivots.shape[-2]).astype(np.int64) - 1
    order = np.tile(np.arange(count, dtype=pivots.real.dtype), (len(rows), 1))
    every = np.arange(len(rows))
    for i in range(rows.shape[1]):
        other = rows[:, i]
        moved = order[every, other]
        order[every, other] = order[:, i]
        order[:, i] = moved
    return [order.reshape(*lead, count)]


def first_set(flags: Array) -> Array:
    """The number, from 1, of the first set flag along the last axis; 0 for none."""
    if not flags.shape[-1]:
        return np.zeros(flags.shape[:-1], np.int64)
    return np.where(flags.any(-1), flags.argmax(-1) + 1, 0)


# ------------------------------------------------------------------- LDL

# Symmetric matrices that need not be definite as ``L @ D @ L.T``, with D of blocks of one or two
# rows (Bunch, Kaufman, "Some stable methods for calculating inertia and solving symmetric linear
# systems", 1977), with LAPACK's choice and numbers of pivots: from 1, those of a block of two rows
# twice and negative. Only the lower triangle is read. In the mode ``hermitian``, ``L.H`` stands in
# the place of ``L.T``. Earlier columns of L keep the order of rows that they had.

_GROWTH = (1 + 17**0.5) / 8


def _choose_pivot(a: Array, k: int, hermitian: bool) -> tuple[int, int]:
    """The row to exchange with, and how many rows the next block has; 0 where a column is zero."""
    n = len(a)
    here = abs(a[k, k].real) if hermitian else _size(a[k, k])
    below = _size(a[k + 1 :, k])
    best = k + 1 + int(below.argmax()) if len(below) else k
    largest = below.max() if len(below) else 0
    if max(here, largest) == 0 or np.isnan(here):
        return k, 0
    if here >= _GROWTH * largest:
        return k, 1
    row = _size(a[best, k:best]).max()
    if best + 1 < n:
        row = max(row, _size(a[best + 1 :, best]).max())
    if here * row >= _GROWTH * largest * largest:
        return k, 1
    there = abs(a[best, best].real) if hermitian else _size(a[best, best])
    return best, 1 if there >= _GROWTH * row else 2


def _exchange_rows(a: Array, i: int, j: int, first: int, hermitian: bool) -> None:
    """Rows and columns ``i < j`` of what is left from ``first`` on, of the lower triangle."""
    turn = np.conj if hermitian else np.asarray
    a[j + 1 :, [i, j]] = a[j + 1 :, [j, i]]
    a[i + 1 : j, i], a[j, i + 1 : j] = turn(a[j, i + 1 : j]), turn(a[i + 1 : j, i].copy())
    a[j, i] = turn(a[j, i])
    a[i, i], a[j, j] = a[j, j], a[i, i]
    a[[i, j], first:i] = a[[j, i], first:i]


def _ldl_of(a: Array, hermitian: bool) -> tuple[Array, Array, int]:
    """Factors of one matrix, in its place, pivots, and the first column of zeros."""
    n, k, info = len(a), 0, 0
    pivots = np.empty(n, np.int64)
    turn = np.conj if hermitian else np.asarray
    while k < n:
        row, count = _choose_pivot(a, k, hermitian)
        if not count:
            info = info or k + 1
        step = max(count, 1)
        last = k + step - 1
        if row != last:
            _exchange_rows(a, last, row, k, hermitian)
        if hermitian:
            for i in {k, last, row}:
                a[i, i] = a[i, i].real
        below = a[k + step :, k : k + step].copy()
        if count and len(below):
            block = a[k : k + step, k : k + step].copy()
            if step == 2:
                block[0, 1] = turn(block[1, 0])
            factor = np.linalg.solve(block.T, below.T).T if step == 2 else below / block
            a[k + step :, k + step :] -= factor @ turn(below).T
            a[k + step :, k : k + step] = factor
        pivots[k : k + step] = row + 1 if step == 1 else -(row + 1)
        k += step
    if hermitian:
        diagonal = np.arange(n)
        a[diagonal, diagonal] = a[diagonal, diagonal].real
    return np.tril(a), pivots, info


def ldl(mode: str, a: Array) -> list[Array]:
    """Packed factors, pivots, and info."""
    factors = np.array(a, order="C", copy=True)
    pivots = np.empty(a.shape[:-1], a.dtype)
    info = np.empty(a.shape[:-2], a.dtype)
    for at in np.ndindex(a.shape[:-2]):
        factors[at], pivots[at], info[at] = _ldl_of(factors[at], mode == "hermitian")
    return [factors, pivots, info]


def ldl_solution(mode: str, factors: Array, pivots: Array, b: Array) -> list[Array]:
    """``x`` with ``A @ x = b`` from what ``ldl`` gives; pivots are a matrix of one column."""
    result = np.array(b, copy=True)
    numbers = pivots.real[..., 0].astype(np.int64)
    for at in np.ndindex(b.shape[:-2]):
        _substitute_ldl(factors[at], numbers[at], result[at], mode == "hermitian")
    return [result]


def _substitute_ldl(a: Array, pivots: Array, x: Array, hermitian: bool) -> None:
    n, k = len(a), 0
    turn = np.conj if hermitian else np.asarray
    starts = []
    while k < n:
        step = 1 if pivots[k] > 0 or k + 1 == n else 2
        starts.append((k, step))
        last, row = k + step - 1, abs(int(pivots[k])) - 1
        x[[last, row]] = x[[row, last]]
        x[k + step :] -= a[k + step :, k : k + step] @ x[k : k + step]
        if step == 1:
            x[k] /= a[k, k].real if hermitian else a[k, k]
        else:
            block = np.tril(a[k : k + 2, k : k + 2])
            block[0, 1] = turn(block[1, 0])
            x[k : k + 2] = np.linalg.solve(block, x[k : k + 2])
        k += step
    for k, step in reversed(starts):
        x[k : k + step] -= turn(a[k + step :, k : k + step]).T @ x[k + step :]
        last, row = k + step - 1, abs(int(pivots[k])) - 1
        x[[last, row]] = x[[row, last]]


Shapes = list[tuple[int, ...]]


class Routine(NamedTuple):
    """One routine.

    Attributes:
        operands: how many matrices it takes.
        square: whether the first has to be square.
        parts: shapes of the results for one batch element, from the operands' matrix shapes
            and the mode.
        run: ``(mode, *arrays) -> parts``, batched.
        real: the numbers of the parts that are real for complex matrices, too; all parts are in
            modes that end with ``values``.
        cost: about how many operations it takes, per element and smaller extent of the first
            operand.
    """

    operands: int
    square: bool
    parts: Callable[..., Shapes]
    run: Callable[..., list[Array]]
    real: tuple[int, ...] = ()
    cost: float = 2.0


def _each(array: Array) -> Iterator[tuple[int, ...]]:
    """The batch indices of ``array``."""
    return iter(np.ndindex(array.shape[:-2]))


def _transposed(array: Array) -> Array:
    return array.swapaxes(-1, -2)


def _adjoint(array: Array) -> Array:
    return np.conj(_transposed(array))


def _no_info(array: Array) -> Array:
    return np.zeros(array.shape[:-2], array.dtype)


# ------------------------------------------------------------------- solve, inverse, determinant


def _solve(mode: str, a: Array, b: Array) -> list[Array]:
    try:
        return [np.linalg.solve(a, b), _no_info(a)]
    except np.linalg.LinAlgError:
        info = lu("", a)[3]
    result = np.full(b.shape, np.nan, b.dtype)
    good = info == 0
    if good.any():
        result[good] = np.linalg.solve(a[good], b[good])
    return [result, info]


def _inverse(mode: str, a: Array) -> list[Array]:
    try:
        return [np.linalg.inv(a), _no_info(a)]
    except np.linalg.LinAlgError:
        info = lu("", a)[3]
    result = np.full(a.shape, np.nan, a.dtype)
    good = info == 0
    if good.any():
        result[good] = np.linalg.inv(a[good])
    return [result, info]


def _determinant(mode: str, a: Array) -> list[Array]:
    return [np.asarray(np.linalg.det(a), a.dtype)]


def _log_determinant(mode: str, a: Array) -> list[Array]:
    sign, size = np.linalg.slogdet(a)
    return [np.where(np.isnan(size), 0, sign).astype(a.dtype), np.asarray(size, a.dtype)]


def _cofactors(mode: str, a: Array, info: Array) -> list[Array]:
    """The derivative of the determinant of matrices whose inverse ``info`` says is not there:
    ``det(U) det(V) conj(U) diag(product of the others) conj(V.H)``. Zeros for the others, NaN for
    values that are not finite."""
    result = np.zeros_like(a)
    missing = info[..., 0, 0] != 0
    for at in _each(a) if missing.any() else ():
        if missing[at] and not np.isfinite(a[at]).all():
            result[at] = np.nan
        elif missing[at]:
            u, s, v = np.linalg.svd(a[at])
            others = np.array([prod(s[:i]) * prod(s[i + 1 :]) for i in range(len(s))], a.dtype)
            turns = np.linalg.det(u) * np.linalg.det(v)
            result[at] = turns * ((np.conj(u) * others) @ np.conj(v))
    return [result]


# ------------------------------------------------------------------- Cholesky


def _cholesky(mode: str, a: Array) -> list[Array]:
    try:
        result = np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        result = np.zeros_like(a)
    else:
        unknown = np.isnan(np.diagonal(result, axis1=-2, axis2=-1))
        return [result, first_set(unknown).astype(a.dtype)]
    info = _no_info(a)
    for at in _each(a):
        try:
            result[at] = np.linalg.cholesky(a[at])
        except np.linalg.LinAlgError:
            info[at] = _first_bad_minor(a[at])
            result[at] = np.tril(a[at])
    return [result, info]


def _first_bad_minor(a: Array) -> int:
    """The order of the first leading minor that is not positive."""
    lower = np.tril(a)
    for j in range(len(a)):
        square = (lower[j, j] - lower[j, :j] @ np.conj(lower[j, :j])).real
        if not square > 0:
            return j + 1
        lower[j, j] = np.sqrt(square)
        lower[j + 1 :, j] -= lower[j + 1 :, :j] @ np.conj(lower[j, :j])
        lower[j + 1 :, j] /= lower[j, j]
    return len(a)


# ------------------------------------------------------------------- orthogonal factorizations


def _qr(mode: str, a: Array) -> list[Array]:
    q, r = np.linalg.qr(a, "complete" if mode == "complete" else "reduced")
    return [q, r]


def _reflectors(mode: str, a: Array) -> list[Array]:
    """LAPACK's geqrf: R with the Householder vectors below it, and their factors tau."""
    k = min(a.shape[-2:])
    if a.size == 0:
        return [a, np.zeros((*a.shape[:-2], k), a.dtype)]
    vectors, tau = np.linalg.qr(a, "raw")
    return [_transposed(vectors).astype(a.dtype), tau.astype(a.dtype)]


def _per_matrix(run: Callable[[Array], tuple[Array, ...]], a: Array) -> list[Array]:
    """``run`` on every matrix, those that fail give NaN; with ``info`` as the last part: 1 for a
    matrix without convergence, -4 for one with elements that are not finite (LAPACK 3.10)."""
    info = _no_info(a)
    finite = np.asarray(np.isfinite(a).all(axis=(-2, -1)))
    info[~finite] = -4
    clean = np.where(finite[..., None, None], a, np.zeros((), a.dtype))
    try:
        parts = run(clean)
    except np.linalg.LinAlgError:
        parts = run(np.zeros_like(a))
        for at in _each(a):
            try:
                for part, found in zip(parts, run(clean[at])):
                    part[at] = found
            except np.linalg.LinAlgError:
                info[at] = 1
    for part in parts:
        part[info != 0] = np.nan
    return [*parts, info]


def _svd(mode: str, a: Array) -> list[Array]:
    if mode == "values":
        return _per_matrix(lambda x: (np.linalg.svd(x, compute_uv=False),), a)
    return _per_matrix(lambda x: tuple(np.linalg.svd(x, full_matrices=mode == "full")), a)


def _eigh(mode: str, a: Array) -> list[Array]:
    side: Any = "U" if mode.startswith("upper") else "L"
    if mode.endswith("values"):
        parts = _per_matrix(lambda x: (np.linalg.eigvalsh(x, side),), a)
    else:
        parts = _per_matrix(lambda x: tuple(np.linalg.eigh(x, side)), a)
    info, n = parts[-1], a.shape[-1]
    # LAPACK finds out late: NaN stops the iteration, infinities pass as NaN.
    stopped = n - 1 - (len(parts) == 2) if n > 2 else 0
    unknown = np.isnan(a).any(axis=(-2, -1))
    info[info < 0] = np.where(unknown, stopped, 0)[info < 0]
    return parts


def _pinv(mode: str, a: Array, limits: Array) -> list[Array]:
    """Moore-Penrose inverse; singular values up to ``max(absolute, relative * largest)`` count
    as zero, which the columns of ``limits`` are. ``hermitian``: by eigenvalues."""
    absolute, relative = limits[..., :1, :1], limits[..., :1, 1:]
    if mode == "hermitian":
        values, vectors, info = _eigh("lower", a)
        left, right, size = vectors, _adjoint(vectors), np.abs(values)
    else:
        left, values, right, info = _svd("reduced", a)
        size = values
    if not size.shape[-1]:
        return [np.zeros(_transposed(a).shape, a.dtype), info]
    largest = size.max(-1, keepdims=True)
    kept = size > np.maximum(absolute[..., 0].real, relative[..., 0].real * largest)
    inverse = np.where(kept, 1 / np.where(kept, values, 1), 0).astype(a.dtype)
    return [(_adjoint(right) * inverse[..., None, :]) @ _adjoint(left), info]


def _lstsq(mode: str, a: Array, b: Array, relative: Array) -> list[Array]:
    """The least squares solution of smallest norm, the rank, and the singular values."""
    u, s, v, _ = _svd("reduced", a)
    kept = s > relative[..., 0].real * s.max(-1, keepdims=True, initial=0)
    inverse = np.where(kept, 1 / np.where(kept, s, 1), 0).astype(a.dtype)
    x = _adjoint(v) @ (inverse[..., None] * (_adjoint(u) @ b))
    return [x, kept.sum(-1).astype(a.dtype), s]


def _gelsy(mode: str, a: Array, b: Array) -> list[Array]:
    """The same without singular values; the last right side is the tolerance."""
    return _lstsq(mode, a, b[..., :-1], b[..., :1, -1:])[:2]


def _eig(mode: str, a: Array) -> list[Array]:
    """Eigenvalues of general matrices, and their vectors of length one unless ``mode`` says
    ``alone``. Matrices without imaginary parts give conjugate pairs."""

    def found(x: Array) -> tuple[Array, ...]:
        x = x if x.imag.any() else x.real
        parts = (np.linalg.eigvals(x),) if mode == "alone" else np.linalg.eig(x)
        return tuple([np.asarray(part, a.dtype) for part in parts])

    return _per_matrix(found, a)


# ------------------------------------------------------------------- exponential

#: Coefficients of the diagonal Padé approximant of order 13 to the exponential, and the norm up to
#: which it is exact to double precision (Higham, "The scaling and squaring method for the matrix
#: exponential revisited", SIAM J. Matrix Anal. Appl. 26, 2005).
_PADE = (
    64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000,
    10559470521600, 670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1,
)  # fmt: skip
_PADE_NORM = 5.371920351148152
#: The same of order 7, to single precision.
_SHORT_PADE = (17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1)
_SHORT_NORM = 3.92572478313866


def _exponential(mode: str, a: Array) -> list[Array]:
    """Computed in double precision; a matrix of values that are not finite gives NaN. All together:
    where one takes fewer squarings than others, its result stays."""
    single = a.dtype.itemsize == (8 if a.dtype.kind == "c" else 4)
    most, pade = (_SHORT_NORM, _short_pade) if single else (_PADE_NORM, _pade)
    x = a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)
    norm = np.abs(x).sum(-2).max(-1, initial=0)
    finite = np.isfinite(norm)
    if not finite.all():
        x, norm = np.where(finite[..., None, None], x, 0), np.where(finite, norm, 0)
    wanted = np.ceil(np.log2(np.maximum(norm, most) / most)).astype(np.int64)
    result = pade(x / np.ldexp(1.0, wanted)[..., None, None])
    for done in range(int(wanted.max(initial=0))):
        again = (wanted > done)[..., None, None]
        if again.all():
            result = result @ result
            continue
        result = np.where(again, np.where(again, result, 0) @ result, result)
    result[~finite] = np.nan
    return [result.astype(a.dtype)]


def _pade(a: Array) -> Array:
    """The approximant of matrices of small norms."""
    one = np.eye(a.shape[-1])
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a4 @ a2
    c = [float(x) for x in _PADE]
    odd = a6 @ (c[13] * a6 + c[11] * a4 + c[9] * a2) + c[7] * a6 + c[5] * a4 + c[3] * a2
    even = a6 @ (c[12] * a6 + c[10] * a4 + c[8] * a2) + c[6] * a6 + c[4] * a4 + c[2] * a2
    u, v = a @ (odd + c[1] * one), even + c[0] * one
    found: Array = np.linalg.solve(v - u, v + u)
    return found


def _short_pade(a: Array) -> Array:
    """The approximant of order 7."""
    every = np.arange(a.shape[-1])
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a4 @ a2
    c = [float(x) for x in _SHORT_PADE]
    odd = a6 + c[5] * a4 + c[3] * a2
    v = c[6] * a6 + c[4] * a4 + c[2] * a2
    odd[..., every, every] += c[1]
    v[..., every, every] += c[0]
    u = a @ odd
    found: Array = np.linalg.solve(v - u, v + u)
    return found


# ------------------------------------------------------------------- the table


def _like_first(mode: str, a: Any, *others: Any) -> Shapes:
    return [a]


def _with_info(mode: str, a: Any, *others: Any) -> Shapes:
    return [a, ()]


def _qr_parts(mode: str, a: Any) -> Shapes:
    (m, n), k = a, min(a)
    return [(m, m), (m, n)] if mode == "complete" else [(m, k), (k, n)]


def _svd_parts(mode: str, a: Any) -> Shapes:
    (m, n), k = a, min(a)
    if mode == "values":
        return [(k,), ()]
    return [(m, m), (k,), (n, n), ()] if mode == "full" else [(m, k), (k,), (k, n), ()]


def _eigh_parts(mode: str, a: Any) -> Shapes:
    return [a[:1], ()] if mode.endswith("values") else [a[:1], a, ()]


def _eig_parts(mode: str, a: Any) -> Shapes:
    return [a[:1], ()] if mode == "alone" else [a[:1], a, ()]


ROUTINES: dict[str, Routine] = {
    "cholesky": Routine(1, True, _with_info, _cholesky, (1,), 0.333),
    "cofactors": Routine(2, True, _like_first, _cofactors, cost=4),
    "det": Routine(1, True, lambda mode, a: [()], _determinant, cost=0.667),
    "eig": Routine(1, True, _eig_parts, _eig, (-1,), 25),
    "eigh": Routine(1, True, _eigh_parts, _eigh, (0, 2), 9),
    "exchanges": Routine(1, False, lambda mode, a: [(int(mode),)], exchanges, (0,), 0),
    "exp": Routine(1, True, _like_first, _exponential, cost=30),
    "geqrf": Routine(1, False, lambda mode, a: [a, (min(a),)], _reflectors),
    "gelsy": Routine(2, False, lambda mode, a, b: [(a[1], b[1] - 1), ()], _gelsy, (1,), 20),
    "inv": Routine(1, True, _with_info, _inverse, (1,)),
    "ldl": Routine(1, True, lambda mode, a: [a, a[:1], ()], ldl, (1, 2), 0.333),
    "ldl_solve": Routine(3, True, lambda mode, a, pivots, b: [b], ldl_solution),
    "lstsq": Routine(
        3, False, lambda mode, a, b, tolerance: [(a[1], b[1]), (), (min(a),)], _lstsq, (1, 2), 20
    ),
    "lu": Routine(1, False, lambda mode, a: [a, (min(a),), a[:1], ()], lu, (1, 2, 3), 0.667),
    "pinv": Routine(2, False, lambda mode, a, limits: [(a[1], a[0]), ()], _pinv, (1,), 20),
    "qr": Routine(1, False, _qr_parts, _qr),
    "slogdet": Routine(1, True, lambda mode, a: [(), ()], _log_determinant, (1,), 0.667),
    "solve": Routine(2, True, lambda mode, a, b: [b, ()], _solve, (1,)),
    "svd": Routine(1, False, _svd_parts, _svd, (1, 3), 20),
    "triangular": Routine(2, True, lambda mode, a, b: [b], triangular, cost=1),
}


class LibraryParams(NamedTuple):
    """``routine``: a name in ``ROUTINES``; ``mode``: which of its variants, ``plain`` for one."""

    routine: str
    mode: str


def part_shapes(params: LibraryParams, inputs: Sequence[Any]) -> list[Shape]:
    """The shapes of a routine's results for one batch element."""
    matrices = [item.shape[-2:] for item in inputs]
    return ROUTINES[params.routine].parts(params.mode, *matrices)


def library(routine: str, *operands: Node, mode: str = "plain") -> list[Node]:
    """The results of a routine on matrices with equal leading axes; see ``ROUTINES``. Small real
    matrices are factorized by kernels, others by a library.

    Integers among them (pivots, ranks, ``info``) are numbers of the operands' float type, of
    complex matrices of their parts' type. Operands that are real beside complex ones, such as
    tolerances, are converted. Raises ShapeError and DTypeError.
    """
    wide = next((item.dtype for item in operands if item.dtype.kind == "c"), None)
    if wide is not None:
        operands = tuple([build.cast(i, wide) if i.dtype is wide.part else i for i in operands])
    params = LibraryParams(routine, mode)
    place = common_place([item.form for item in operands])
    if place and not has_kernel(routine, mode, operands) and _has_own(routine, mode, operands):
        # The CPU's kernel, so that results have its bits.
        announce_host(routine, place)
        there = tuple([transfer(item, "") for item in operands])
        node = make(OPS["linalg"], there, params)
        return parts_of(node, transfer(node, place))
    op = OPS["linalg" if has_kernel(routine, mode, operands) else "library"]
    return library_parts(make(op, operands, params))


#: Routines, with devices, of which ``announce_host`` has told.
_announced: set[tuple[str, str]] = set()


def announce_host(routine: str, place: str) -> None:
    """Warns, once for each routine, that the host computes what a device has no kernel for."""
    if (routine, place) not in _announced:
        _announced.add((routine, place))
        warn(
            f"{routine} of such matrices is computed on the CPU: tensors on {place} are copied to "
            "the host for it, and its results back"
        )


def refuse_library(routine: str, operands: Sequence[Node]) -> None:
    """Raises ReproducibilityError, for ``config.exact``, where a library computes a routine, unless
    nothing is rounded in it."""
    if routine in _EXACT or not all(item.size for item in operands):
        return
    first = operands[0]
    kinds: dict[int, list[str]] = {}
    for name in sorted(MODES):
        most = LIMITS.get(name, LARGEST_WHOLE if name in WHOLE else LARGEST)
        kinds.setdefault(most, []).append(_CALLED.get(name, name))
    own = "; ".join(
        f"{', '.join(names)} of up to {n} rows and columns" for n, names in kinds.items()
    )
    raise ReproducibilityError(
        f"{_CALLED.get(routine, routine)} of {first.dtype.name}{list(first.shape)} is computed by "
        "the LAPACK that NumPy brings, whose bits differ between machines. lazyt's own kernels "
        f"factorize real matrices on CPUs: {own}. Set config.exact (LAZYT_EXACT) to False to have "
        "it computed nevertheless"
    )


#: What people call routines that have names here that differ.
_CALLED = {"exp": "matrix_exp", "gelsy": "lstsq", "triangular": "solve_triangular"}
#: Routines that round nothing.
_EXACT = frozenset({"exchanges"})


def has_kernel(routine: str, mode: str, operands: Sequence[Node]) -> bool:
    """Whether kernels compute a routine where its operands are: of small real matrices."""
    if not _has_own(routine, mode, operands):
        return False
    placed = any(item.form < PLACED for item in operands)
    return not placed or is_grid_kernel(routine, mode, [item.shape for item in operands])


def _has_own(routine: str, mode: str, operands: Sequence[Node]) -> bool:
    """Whether kernels of the CPU compute it."""
    return (
        operands[0].dtype in (float32, float64)
        and all(item.size for item in operands)
        and is_kernel(routine, mode, [item.shape for item in operands])
    )


def library_parts(node: Node) -> list[Node]:
    """The results that a ``library`` node packs."""
    return parts_of(node, node)


def parts_of(node: Node, packed: Node) -> list[Node]:
    """What is packed as the results of a ``library`` node, such as cotangents, taken apart."""
    shapes = part_shapes(node.params, node.inputs)
    found = split_parts(packed, shapes)
    if packed.dtype.kind == "c":
        routine, mode = node.params
        known = range(len(shapes)) if mode.endswith("values") else ROUTINES[routine].real
        for number in known:
            found[number] = build.apply("real", found[number])
    return found


def split_parts(packed: Node, shapes: Sequence[Shape]) -> list[Node]:
    """A value packed from parts of ``shapes``, taken apart."""
    lead = packed.shape[:-1]
    found, start = [], 0
    for shape in shapes:
        size = prod(shape)
        starts, sizes = (*(0,) * len(lead), start), (*lead, size)
        piece = packed
        if size != packed.shape[-1]:
            piece = build.slice_(packed, starts, sizes, (1,) * len(sizes))
        found.append(build.reshape(piece, (*lead, *shape)))
        start += size
    return found
