"""Factorizations in NumPy: the same steps in the same order as in kernels
(``matrices.h``, ``whole_matrices.h`` and ``whole_orthogonal.h`` in ``codegen/prelude``), so that
both give the same bits.

All matrices of a batch are computed together, each by itself: where one needs fewer steps, or
other exchanges, the others do not see it. Arrays have the batch as their first axis. Products and
sums are rounded one by one, not fused, so that machines without fused steps give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lazyt.ir.factorizations import spectra
from lazyt.ir.factorizations.reflections import largest, mirror, orthogonal, powers, reflect
from lazyt.ir.factorizations.sizes import LARGEST, MODES

__all__ = ["evaluate"]

Array = np.ndarray[Any, Any]

#: Sweeps after which rotations end in any case.
SWEEPS = 40
#: Off-diagonal elements up to this, beside elements of at most 2, are taken as zero.
SMALL = {4: np.float32(2.0**-28), 8: np.float64(2.0**-58)}


def evaluate(
    routine: str, mode: str, *arrays: Array, log: Callable[[Array], Array] | None = None
) -> list[Array]:
    """The results of a routine on matrices in the last two axes, for each batch element.

    ``log`` is the logarithm that ``slogdet`` takes; its meaning by default.
    """
    lead = arrays[0].shape[:-2]
    count = int(np.prod(lead, dtype=np.int64))
    flat = [array.reshape(count, *array.shape[-2:]) for array in arrays]
    with np.errstate(all="ignore"):
        if routine == "slogdet":
            found = _log_determinant(flat[0], log or _log)
        else:
            found = _ROUTINES[routine](MODES[routine][mode], *flat)
    return [part.reshape((*lead, *part.shape[1:])) for part in found]


# ------------------------------------------------------------------- Cholesky


def _cholesky(mode: int, a: Array) -> list[Array]:
    """The lower factor; where a leading minor is not positive, the lower triangle itself, and the
    order of the first such minor."""
    n = a.shape[-1]
    low = np.tril(a)
    factor, info = low.copy(), np.zeros(len(a), a.dtype)
    for j in range(n):
        bad = ~(factor[:, j, j] > 0) & (info == 0)
        info = np.where(bad, a.dtype.type(j + 1), info)
        root = np.sqrt(factor[:, j, j])
        factor[:, j, j] = root
        factor[:, j + 1 :, j] *= (1 / root)[:, None]
        column = factor[:, j + 1 :, j]
        factor[:, j + 1 :, j + 1 :] -= np.tril(column[:, :, None] * column[:, None, :])
    return [np.where((info != 0)[:, None, None], low, factor), info]


# ------------------------------------------------------------------- triangular equations


def _substitute(a: Array, x: Array, upper: bool, unit: bool) -> None:
    """Substitution in the place of the right sides."""
    n = a.shape[-1]
    for i in range(n)[:: -1 if upper else 1]:
        if not unit:
            x[:, i] /= a[:, i, i, None]
        rest = slice(0, i) if upper else slice(i + 1, n)
        x[:, rest] -= a[:, rest, i, None] * x[:, i, None, :]


def _triangular(mode: int, a: Array, b: Array) -> list[Array]:
    x = b.copy()
    _substitute(a, x, mode >= 2, mode % 2 == 1)
    return [x]


# ------------------------------------------------------------------- elimination


def _eliminate(a: Array, others: list[Array]) -> Array:
    """L and U in the place of ``a``, its rows exchanged as those of ``others``; gives the rows,
    from 0, that each column exchanged."""
    count, m, n = a.shape
    every = np.arange(count)
    pivots = np.zeros((count, min(m, n)), np.int64)
    for j in range(min(m, n)):
        sizes = np.abs(a[:, j:, j])
        sizes[np.isnan(sizes)] = -1  # larger than nothing, unless it is the first
        best = j + np.where(np.isnan(a[:, j, j]), 0, sizes.argmax(-1))
        pivots[:, j] = best
        for rows in (a, *others):
            moved = rows[every, best]
            rows[every, best] = rows[:, j]
            rows[:, j] = moved
        pivot = a[:, j, j]
        a[:, j + 1 :, j] /= np.where(pivot == 0, 1, pivot).astype(a.dtype)[:, None]
        a[:, j + 1 :, j + 1 :] -= a[:, j + 1 :, j, None] * a[:, j, None, j + 1 :]
    return pivots


def _first_zero(a: Array) -> Array:
    """The number, from 1, of the first zero on the diagonal; 0 for none."""
    info = np.zeros(len(a), a.dtype)
    for j in range(min(a.shape[1:])):
        info = np.where((a[:, j, j] == 0) & (info == 0), a.dtype.type(j + 1), info)
    return info


def _lu(mode: int, a: Array) -> list[Array]:
    packed = a.copy()
    order = np.tile(np.arange(a.shape[1], dtype=a.dtype), (len(a), 1))
    pivots = _eliminate(packed, [order])
    return [packed, (pivots + 1).astype(a.dtype), order, _first_zero(packed)]


def _solve(mode: int, a: Array, b: Array) -> list[Array]:
    packed, x = a.copy(), b.copy()
    _eliminate(packed, [x])
    _substitute(packed, x, False, True)
    _substitute(packed, x, True, False)
    info = _first_zero(packed)
    return [np.where((info != 0)[:, None, None], a.dtype.type(np.nan), x), info]


def _inverse(mode: int, a: Array) -> list[Array]:
    return _solve(mode, a, np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape))


def _pivoted(a: Array) -> tuple[Array, Array]:
    """U and L, and the sign of the exchanges."""
    packed = a.copy()
    pivots = _eliminate(packed, [])
    odd = (pivots != np.arange(a.shape[-1])).sum(-1) % 2 == 1
    return packed, np.where(odd, a.dtype.type(-1), a.dtype.type(1))


def _determinant(mode: int, a: Array) -> list[Array]:
    packed, size = _pivoted(a)
    for j in range(a.shape[-1]):
        size = size * packed[:, j, j]
    return [size]


def _log_determinant(a: Array, log: Callable[[Array], Array]) -> list[Array]:
    packed, sign = _pivoted(a)
    size = np.zeros(len(a), a.dtype)
    for j in range(a.shape[-1]):
        value = packed[:, j, j]
        sign = np.where(value < 0, -sign, sign)
        size = size + log(np.abs(value))
    sign = np.where((size == -np.inf) | np.isnan(size), a.dtype.type(0), sign)
    return [sign, size]


def _log(x: Array) -> Array:
    """The logarithm."""
    from lazyt.ir.scalar import FUNCTIONS

    found: Array = FUNCTIONS["log"].evaluate(x)
    return found.astype(x.dtype)


# ------------------------------------------------------------------- orthogonal factors


def _qr(mode: int, a: Array) -> list[Array]:
    packed = a.copy()
    taus = reflect(packed)
    k = a.shape[1] if mode == 1 else min(a.shape[1:])
    return [orthogonal(packed, taus, k), np.triu(packed[:, :k])]


# ------------------------------------------------------------------- least squares


def _gelsy(mode: int, a: Array, b: Array) -> list[Array]:
    """Solutions of smallest norm, and ranks; the last right side is the tolerance."""
    count, _, n = a.shape
    x = np.zeros((count, n, b.shape[-1] - 1), a.dtype)
    rank = np.zeros(count, a.dtype)
    for i in range(count):
        if np.isfinite(a[i]).all():
            x[i], rank[i] = _least_squares(a[i : i + 1], b[i : i + 1])
        else:
            x[i] = np.nan
    return [x, rank]


def _least_squares(a: Array, b: Array) -> tuple[Array, int]:
    """The solution of one problem: reflections of the column with the largest rest, one after the
    other, until rests are small (Businger, Golub, "Linear least squares solutions by Householder
    transformations", 1965)."""
    n, (down, _) = a.shape[-1], powers(largest(a))
    work, right, tolerance = a * down, b[..., :-1].copy(), b[0, 0, -1]
    squares, order = np.zeros(n, a.dtype), np.arange(n)
    for row in work[0]:
        squares = squares + row * row
    rank, first = 0, a.dtype.type(0)
    for j in range(min(a.shape[1:])):
        best = j + int(np.argmax(squares[j:]))
        for columns in (work[0].T, order[:, None]):
            columns[[j, best]] = columns[[best, j]]
        column = work[:, j:, j, None].copy()
        taus = reflect(column)
        size = np.abs(column[0, 0, 0])
        first = size if j == 0 else first
        if not size > tolerance * first:
            break
        mirror(work[:, j:, j + 1 :], column[:, :, 0], taus[:, 0])
        mirror(right[:, j:], column[:, :, 0], taus[:, 0])
        work[0, j, j] = column[0, 0, 0]
        squares[...] = 0
        for row in work[0, j + 1 :]:
            squares[j + 1 :] = squares[j + 1 :] + row[j + 1 :] * row[j + 1 :]
        rank += 1
    found = np.zeros((1, n, right.shape[-1]), a.dtype)
    found[:, :rank] = right[:, :rank]
    if rank == n:
        _substitute(work[:, :n], found, True, False)
    elif rank:
        lower = np.swapaxes(np.triu(work[:, :rank]), 1, 2).copy()
        taus = reflect(lower)
        factor = np.swapaxes(np.triu(lower[:, :rank]), 1, 2)
        top = found[:, :rank].copy()
        _substitute(factor, top, False, False)
        found[:, :rank] = top
        for j in range(rank)[::-1]:
            mirror(found[:, j:], lower[:, j:, j], taus[:, j])
    solution = np.empty_like(found[0])
    solution[order] = found[0] * down[0]
    return solution, rank


# ------------------------------------------------------------------- eigenvalues


def _rotated(x: Array, y: Array, s: Array, half: Array) -> tuple[Array, Array]:
    """``c x - s y`` and ``s x + c y``, from the sine and the tangent of half of the angle: what
    they differ from x and y is small where the angle is, and so is its error."""
    return x - s * (y + half * x), y + s * (x - half * y)


def _angle(app: Array, aqq: Array, apq: Array) -> tuple[Array, Array, Array]:
    """Cosine, sine and tangent of the rotation that makes ``apq`` zero (Rutishauser, "The Jacobi
    method for real symmetric matrices", 1966)."""
    one = app.dtype.type(1)
    theta = (aqq - app) / (apq + apq)
    size = np.abs(theta)
    tangent = one / (size + np.sqrt(theta * theta + one))
    tangent = np.where(theta < 0, -tangent, tangent)
    tangent = np.where(apq == 0, app.dtype.type(0), tangent)
    cosine = one / np.sqrt(tangent * tangent + one)
    return cosine, tangent * cosine, tangent


def _diagonalize(a: Array, v: Array | None) -> None:
    """Rotations of rows and columns of symmetric ``a`` until it is diagonal, in its place; of the
    rows of ``v`` alike."""
    n, small = a.shape[-1], SMALL[a.dtype.itemsize]
    zero, one = a.dtype.type(0), a.dtype.type(1)
    for _ in range(SWEEPS):
        moved = False
        for p in range(n - 1):
            for q in range(p + 1, n):
                apq = a[:, p, q].copy()
                turns = np.abs(apq) > small
                if not turns.any():
                    continue
                moved = True
                cosine, sine, tangent = _angle(a[:, p, p], a[:, q, q], apq)
                s = np.where(turns, sine, zero)
                half = s / (one + cosine)
                step = np.where(turns, tangent, zero) * apq
                a[:, p, p] -= step
                a[:, q, q] += step
                a[:, p, q] = np.where(turns, zero, apq)
                others = [r for r in range(n) if r not in (p, q)]
                rows = [(min(p, r), max(p, r), min(q, r), max(q, r)) for r in others]
                if rows:
                    pi, pj, qi, qj = map(list, zip(*rows))
                    found = _rotated(a[:, pi, pj], a[:, qi, qj], s[:, None], half[:, None])
                    a[:, pi, pj], a[:, qi, qj] = found
                if v is not None:
                    v[:, p], v[:, q] = _rotated(v[:, p], v[:, q], s[:, None], half[:, None])
        if not moved:
            return


def _ranks(values: Array) -> Array:
    """The place of each value in ascending order; equal ones stay in theirs."""
    n = values.shape[-1]
    ranks = np.zeros(values.shape, np.int64)
    for i in range(n):
        for j in range(n):
            if i != j:
                before = values[:, j] < values[:, i]
                if j < i:
                    before |= values[:, j] == values[:, i]
                ranks[:, i] += before
    return ranks


def _scaled(a: Array) -> tuple[Array, Array, Array]:
    """Matrices with elements below 2, zero where one is not finite; by which power of two they were
    multiplied the other way; and which are finite."""
    finite: Array = np.asarray(np.isfinite(a).all(axis=(1, 2)))
    clean = np.where(finite[:, None, None], a, a.dtype.type(0))
    down, up = powers(largest(clean))
    return clean * down[:, None, None], up, finite


def _eigh(mode: int, a: Array) -> list[Array]:
    n, values_only = a.shape[-1], mode >= 2
    one = np.tril(a) if mode % 2 == 0 else np.swapaxes(np.triu(a), 1, 2)
    if n > LARGEST:
        return _larger_eigh(one, values_only)
    work, up, finite = _scaled(one)
    work = np.swapaxes(work, 1, 2).copy()  # the upper triangle is what rotations see
    v = None
    if not values_only:
        v = np.zeros(a.shape, a.dtype)
        v[:, range(n), range(n)] = 1
    _diagonalize(work, v)
    values = work[:, range(n), range(n)]
    every, ranks = np.arange(len(a))[:, None], _ranks(values)
    sorted_values = np.empty_like(values)
    sorted_values[every, ranks] = values * up[:, None] + a.dtype.type(0)
    nan = a.dtype.type(np.nan)
    unknown = np.isnan(one).any(axis=(1, 2))
    # LAPACK finds out late: NaN stops the iteration, infinities pass as NaN.
    stopped = n - 1 - int(values_only) if n > 2 else 0
    info = np.where(unknown, a.dtype.type(stopped), a.dtype.type(0))
    sorted_values = np.where(finite[:, None], sorted_values, nan)
    if v is None:
        return [sorted_values, info]
    vectors = np.empty_like(v)
    vectors[every, ranks] = v + a.dtype.type(0)
    vectors = np.swapaxes(vectors, 1, 2)
    return [sorted_values, np.where(finite[:, None, None], vectors, nan), info]


def _larger_eigh(lower: Array, values_only: bool) -> list[Array]:
    count, n, _ = lower.shape
    values, info = np.full((count, n), np.nan, lower.dtype), np.zeros(count, lower.dtype)
    vectors = np.full(lower.shape, np.nan, lower.dtype)
    for i, one in enumerate(lower):
        if np.isnan(one).any():
            info[i] = n - 1 - int(values_only)
        if np.isfinite(one).all():
            whole = np.where(np.tri(n, dtype=bool), one, one.T)
            values[i], found, info[i] = spectra.eigh(whole, values_only)
            if found is not None:
                vectors[i] = found
    return [values, info] if values_only else [values, vectors, info]


# ------------------------------------------------------------------- singular values


def _both_angles(w: Array, x: Array, y: Array, z: Array) -> tuple[Array, ...]:
    """Cosines and sines, of rows and of columns, that make ``[[w, x], [y, z]]`` diagonal: a
    rotation that makes it symmetric, and then one of both sides."""
    zero, one = w.dtype.type(0), w.dtype.type(1)
    t, d = w + z, y - x
    r = np.sqrt(t * t + d * d)
    r = np.where(t < 0, -r, r)
    c1, s1 = np.where(r == 0, one, t / r), np.where(r == 0, zero, d / r)
    c2, s2, _ = _angle(c1 * w + s1 * y, c1 * z - s1 * x, c1 * x + s1 * z)
    cl, sl = c1 * c2 + s1 * s2, s2 * c1 - c2 * s1
    length = (w.dtype.type(3) - (cl * cl + sl * sl)) * w.dtype.type(0.5)  # to 1 / its root
    return cl * length, sl * length, c2, s2


def _diagonalize_both(b: Array, u: Array | None, v: Array | None) -> None:
    """Rotations of rows and columns of square ``b`` until it is diagonal (Kogbetliantz, "Solution
    of linear equations by diagonalization of coefficients matrix", 1955), in its place; of the rows
    of ``u`` as its rows, of ``v`` as its columns."""
    n, small = b.shape[-1], SMALL[b.dtype.itemsize]
    zero, one = b.dtype.type(0), b.dtype.type(1)
    for _ in range(SWEEPS):
        moved = False
        for p in range(n - 1):
            for q in range(p + 1, n):
                x, y = b[:, p, q], b[:, q, p]
                turns = (np.abs(x) > small) | (np.abs(y) > small)
                if not turns.any():
                    continue
                moved = True
                angles = _both_angles(b[:, p, p], x, y, b[:, q, q])
                sl, sr = (np.where(turns, angles[i], zero)[:, None] for i in (1, 3))
                hl, hr = sl / (one + angles[0][:, None]), sr / (one + angles[2][:, None])
                b[:, p], b[:, q] = _rotated(b[:, p], b[:, q], sl, hl)
                b[:, :, p], b[:, :, q] = _rotated(b[:, :, p], b[:, :, q], sr, hr)
                b[:, p, q] = np.where(turns, zero, b[:, p, q])
                b[:, q, p] = np.where(turns, zero, b[:, q, p])
                if u is not None:
                    u[:, p], u[:, q] = _rotated(u[:, p], u[:, q], sl, hl)
                if v is not None:
                    v[:, p], v[:, q] = _rotated(v[:, p], v[:, q], sr, hr)
        if not moved:
            return


def _larger_svd(mode: int, a: Array) -> list[Array]:
    count, m, n = a.shape
    rows, columns = max(m, n), min(m, n)
    wanted = 0 if mode == 2 else rows if mode == 1 else columns
    values, info = np.full((count, columns), np.nan, a.dtype), np.full(count, -4, a.dtype)
    left = np.full((count, wanted, rows), np.nan, a.dtype)
    right = np.full((count, columns, columns), np.nan, a.dtype)
    for i, one in enumerate(a):
        if np.isfinite(one).all():
            values[i], u, v, info[i] = spectra.svd(one.T if m < n else one, wanted)
            if u is not None and v is not None:
                left[i], right[i] = u, v
    if mode == 2:
        return [values, info]
    if m < n:
        return [np.swapaxes(right, 1, 2), values, left, info]
    return [np.swapaxes(left, 1, 2), values, right, info]


def _svd(mode: int, a: Array) -> list[Array]:
    count, m, n = a.shape
    if max(m, n) > LARGEST:
        return _larger_svd(mode, a)
    work, up, finite = _scaled(a)
    if m < n:
        work = np.swapaxes(work, 1, 2).copy()
    rows, columns = max(m, n), min(m, n)
    taus = reflect(work)
    b = np.triu(work[:, :columns])
    u = v = None
    if mode < 2:
        q = orthogonal(work, taus, rows if mode == 1 else columns)
        u = np.swapaxes(q, 1, 2).copy()
        v = np.zeros((count, columns, columns), a.dtype)
        v[:, range(columns), range(columns)] = 1
    _diagonalize_both(b, u, v)
    values = b[:, range(columns), range(columns)]
    zero, nan = a.dtype.type(0), a.dtype.type(np.nan)
    negative = values < 0
    every, ranks = np.arange(count)[:, None], _ranks(-np.abs(values))
    found = np.empty_like(values)
    found[every, ranks] = np.abs(values) * up[:, None]
    found = np.where(finite[:, None], found, nan)
    info = np.where(finite, zero, a.dtype.type(-4))
    if u is None or v is None:
        return [found, info]
    left, right = u + zero, np.empty_like(v)
    right[every, ranks] = v + zero
    left[every, ranks] = np.where(
        negative[:, :, None], zero - u[:, :columns], u[:, :columns] + zero
    )
    left, right = (np.where(finite[:, None, None], x, nan) for x in (left, right))
    if m < n:
        return [np.swapaxes(right, 1, 2), found, left, info]
    return [np.swapaxes(left, 1, 2), found, right, info]


def _pinv(mode: int, a: Array, limits: Array) -> list[Array]:
    count, m, n = a.shape
    if mode == 1:
        values, rows, info = _larger_eigh(np.tril(a), False)
        columns = np.swapaxes(rows, 1, 2)
    else:
        rows, values, columns, info = _larger_svd(0, a)
    size, zero = np.abs(values), a.dtype.type(0)
    largest = np.where(np.isnan(size), zero, size).max(-1)
    limit = np.maximum(limits[:, 0, 0], limits[:, 0, 1] * largest)
    inverse = np.where(size > limit[:, None], -(a.dtype.type(1) / values), zero)
    inverse = np.where(np.isnan(values), values, inverse)
    found = np.zeros((count, n, m), a.dtype)
    for r in range(min(m, n)):
        left = columns[:, r] * inverse[:, r, None]
        found = found - rows[:, None, :, r] * left[:, :, None]
    return [found, info]


_ROUTINES: dict[str, Callable[..., list[Array]]] = {
    "cholesky": _cholesky, "triangular": _triangular, "lu": _lu, "solve": _solve,
    "inv": _inverse, "det": _determinant, "qr": _qr,
    "gelsy": _gelsy, "eigh": _eigh, "svd": _svd,
    "pinv": _pinv,
}  # fmt: skip
