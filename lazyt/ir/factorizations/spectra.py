"""Eigenvalues and singular values in NumPy, of matrices that kernels take one at a time: the same
steps in the same order as in ``codegen/prelude/whole_spectra.h``.

Reflections make a matrix tridiagonal or bidiagonal (Golub, Kahan, "Calculating the singular values
and pseudo-inverse of a matrix", 1965), rotations make that diagonal (Dubrulle, Martin, Wilkinson,
"The implicit QL algorithm", 1968; Golub, Reinsch, "Singular value decomposition and least squares
solutions", 1970). Matrices are taken one by one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyt.ir.factorizations.reflections import largest, orthogonal, powers, reflected

__all__ = ["eigh", "svd"]

Array = np.ndarray[Any, Any]

#: Off-diagonal elements up to this, beside elements of at most 2, are taken as zero.
SMALL = {4: np.float32(2.0**-28), 8: np.float64(2.0**-58)}
#: What is as small beside the elements next to it is taken as zero, too.
UNIT = {4: np.float32(2.0**-24), 8: np.float64(2.0**-53)}
#: Below what lengths are computed of larger numbers, and by what these are larger.
LOW = {4: (2.0**-40, 2.0**80), 8: (2.0**-400, 2.0**600)}
#: Sweeps in which one value has to be found.
TRIES = 60
#: Sums of the products of two rows.
SUMS = 16


def _is_small(x: Any) -> bool:
    return bool(abs(x) <= SMALL[x.itemsize])


def _couples(x: Any, first: Any, second: Any, units: int = 1) -> bool:
    """Whether what stands beside two elements of a diagonal counts, in units of what is not seen
    (LAPACK takes one for eigenvalues, some ten for singular values)."""
    limit = (abs(first) + abs(second)) * (type(x)(units) * UNIT[x.itemsize])
    return not _is_small(x) and bool(abs(x) > limit)


def _length(x: Any, y: Any) -> Any:
    """The root of ``x x + y y``."""
    low, scale = map(type(x), LOW[x.itemsize])
    if abs(x) < low and abs(y) < low:
        x, y = x * scale, y * scale
        return np.sqrt(x * x + y * y) / scale
    return np.sqrt(x * x + y * y)


def _scaled(a: Array) -> tuple[Array, Any]:
    """The matrix with elements below 2, and the power of two that makes them what they were."""
    down, up = powers(largest(a[None]))
    return a * down[0], up[0]


def _rotate(z: Array, i: int, j: int, c: Any, s: Any) -> None:
    """Rotates two rows."""
    x, y = z[i].copy(), z[j].copy()
    z[i], z[j] = x * c + y * s, y * c - x * s


def _packed(vectors: list[Array], rows: int) -> Array:
    """Householder's vectors as columns, each from its place on the diagonal on."""
    packed = np.zeros((1, rows, len(vectors)), vectors[0].dtype)
    for j, v in enumerate(vectors):
        packed[0, j:, j] = v
    return packed


def _with_first(q: Array) -> Array:
    """An orthogonal matrix of one more row and column, which only the others change."""
    n = len(q) + 1
    whole = np.eye(n, dtype=q.dtype)
    whole[1:, 1:] = q
    return whole


# ------------------------------------------------------------------- eigenvalues


def _tridiagonal(a: Array) -> tuple[Array, Array, list[Array], list[Any]]:
    """The diagonal, what is beside it, and the reflections of all rows after the first."""
    x, n, dtype = a.copy(), len(a), a.dtype.type
    d, e = np.zeros(n, a.dtype), np.zeros(n, a.dtype)
    vectors: list[Array] = []
    taus: list[Any] = []
    if n == 1:
        return x[0], e, vectors, taus
    for j in range(n - 2):
        d[j] = x[j, j]
        v, tau, e[j] = reflected(x[j, j + 1 :])
        vectors.append(v)
        taus.append(tau)
        v = v.copy()
        v[0] = 1
        inner = x[j + 1 :, j + 1 :]
        w = inner[0].copy()
        for i in range(1, len(v)):
            w = w + inner[i] * v[i]
        w = w * tau
        size = dtype(0)
        for one in w * v:
            size = size + one
        w = w - v * (size * (tau * dtype(0.5)))
        inner -= np.outer(v, w) + np.outer(w, v)
    d[n - 2], e[n - 2], d[n - 1] = x[n - 2, n - 2], x[n - 2, n - 1], x[n - 1, n - 1]
    return d, e, vectors, taus


def _ql(d: Array, e: Array, z: Array | None) -> bool:
    """Eigenvalues in the place of the diagonal ``d``; rotates rows of ``z``. Gives whether all were
    found."""
    n, zero, one = len(d), d.dtype.type(0), d.dtype.type(1)
    found = True
    for low in range(n):
        for tries in range(TRIES + 1):
            m = low
            while m < n - 1 and _couples(e[m], d[m], d[m + 1]):
                m += 1
            if m == low:
                break
            if tries == TRIES:
                found = False
                break
            g = (d[low + 1] - d[low]) / (e[low] + e[low])
            r = _length(g, one)
            g = d[m] - d[low] + e[low] / (g + (-r if g < 0 else r))
            s, c, p = one, one, zero
            for i in range(m - 1, low - 1, -1):
                f, b = s * e[i], c * e[i]
                r = e[i + 1] = _length(f, g)
                if r == 0:
                    d[i + 1] = d[i + 1] - p
                    break
                s, c = f / r, g / r
                g = d[i + 1] - p
                r = (d[i] - g) * s + (c + c) * b
                p = s * r
                d[i + 1] = g + p
                g = c * r - b
                if z is not None:
                    _rotate(z, i + 1, i, c, s)
            else:
                d[low] = d[low] - p
                e[low] = g
            e[m] = zero
    return found


def eigh(one: Array, values_only: bool) -> tuple[Array, Array | None, int]:
    """Rising eigenvalues of a finite symmetric matrix, its vectors as columns, and 1 where not all
    were found."""
    a, up = _scaled(one)
    d, e, vectors, taus = _tridiagonal(a)
    z = None
    if not values_only and len(a) < 3:
        z = np.eye(len(a), dtype=a.dtype)
    elif not values_only:
        packed = _packed(vectors, len(a) - 1)
        z = _with_first(orthogonal(packed, np.array([taus]), len(a) - 1)[0]).T.copy()
    failed = not _ql(d, e, z)
    order, zero = np.argsort(d, kind="stable"), a.dtype.type(0)
    return d[order] * up + zero, None if z is None else z[order].T + zero, int(failed)


# ------------------------------------------------------------------- singular values


def _folded(x: Array, y: Array, start: int) -> Any:
    """The sum of products from a column on, in sums that are folded by halves."""
    both = x * y
    size = -(-len(both) // SUMS) * SUMS
    both = np.pad(both, (0, size - len(both)))[start:].reshape(-1, SUMS)
    sums = np.zeros(SUMS, x.dtype)
    for part in both:
        sums = sums + part
    while len(sums) > 1:
        half = len(sums) // 2
        sums = sums[:half] + sums[half:]
    return sums[0]


def _bidiagonal(a: Array) -> tuple[Array, Array, list[Array], list[Any], list[Array], list[Any]]:
    """The diagonal, what is right of it, and the reflections of rows and of columns."""
    x, (m, n) = a.copy(), a.shape
    d, e = np.zeros(n, a.dtype), np.zeros(n, a.dtype)
    lefts: tuple[list[Array], list[Any]] = ([], [])
    rights: tuple[list[Array], list[Any]] = ([], [])
    for j in range(n):
        v, tau, d[j] = reflected(x[j:, j])
        lefts[0].append(v)
        lefts[1].append(tau)
        if j == n - 1:
            break
        w = x[j, j + 1 :].copy()
        for i in range(1, m - j):
            w = w + x[j + i, j + 1 :] * v[i]
        w = w * tau
        x[j, j + 1 :] -= w
        right, turn, e[j + 1] = reflected(x[j, j + 1 :])
        rights[0].append(right)
        rights[1].append(turn)
        whole = np.zeros(n, a.dtype)
        whole[j + 1 :] = right
        whole[j + 1] = 1
        for i in range(1, m - j):
            row = x[j + i]
            row[j + 1 :] -= w * v[i]
            size = _folded(row, whole, (j + 1) // SUMS * SUMS) * turn
            row[j + 1 :] -= whole[j + 1 :] * size
    return d, e, *lefts, *rights


def _cancel(d: Array, e: Array, u: Array | None, low: int, k: int) -> None:
    """Rotates away the row before row ``low``, whose diagonal element is zero."""
    c, s = d.dtype.type(0), d.dtype.type(1)
    for i in range(low, k + 1):
        f, g = s * e[i], d[i]
        e[i] = c * e[i]
        if _is_small(f):
            return
        h = d[i] = _length(f, g)
        c, s = g / h, -(f / h)
        if u is not None:
            _rotate(u, low - 1, i, c, s)


def _shift(d: Array, e: Array, low: int, k: int) -> Any:
    one = d.dtype.type(1)
    x, y, z, h = d[low], d[k - 1], d[k], e[k]
    g = e[k - 1] if k - 1 != low else one - one
    f = ((y - z) * (y + z) + (g - h) * (g + h)) / ((h + h) * y)
    g = _length(f, one)
    return ((x - z) * (x + z) + h * (y / (f + (-g if f < 0 else g)) - h)) / x


def _cosine(f: Any, h: Any) -> tuple[Any, Any, Any]:
    z = _length(f, h)
    one = type(z)(1)
    return (z, one, one - one) if z == 0 else (z, f / z, h / z)


def _qr_steps(d: Array, e: Array, u: Array | None, v: Array | None) -> bool:
    """Singular values, with signs, in the place of the diagonal; ``e[i]`` is left of ``d[i]``.
    Rotates rows of ``u`` and ``v``. Gives whether all were found."""
    found = True
    for k in range(len(d) - 1, -1, -1):
        for tries in range(TRIES + 1):
            low = k
            while low > 0 and not _is_small(d[low - 1]):
                if not _couples(e[low], d[low - 1], d[low], 8):
                    break
                low -= 1
            if low > 0 and _couples(e[low], d[low - 1], d[low], 8):
                _cancel(d, e, u, low, k)
            if low == k:
                break
            if tries == TRIES:
                found = False
                break
            x, f = d[low], _shift(d, e, low, k)
            c = s = d.dtype.type(1)
            for j in range(low, k):
                g, y = e[j + 1], d[j + 1]
                h, g = s * g, c * g
                e[j], c, s = _cosine(f, h)
                if v is not None:
                    _rotate(v, j, j + 1, c, s)
                f, g = x * c + g * s, g * c - x * s
                h, y = y * s, y * c
                d[j], c, s = _cosine(f, h)
                if u is not None:
                    _rotate(u, j, j + 1, c, s)
                f, x = c * g + s * y, c * y - s * g
            e[low], e[k], d[k] = 0, f, x
    return found


def svd(one: Array, count: int) -> tuple[Array, Array | None, Array | None, int]:
    """Of a finite matrix with as many rows as columns or more: ``count`` left vectors as rows
    (``count`` 0: none at all), falling singular values, right vectors as rows, and 1 where not all
    were found; in the order values, left, right, failure."""
    a, up = _scaled(one)
    m, n = a.shape
    d, e, lefts, tu, rights, tv = _bidiagonal(a)
    u = v = None
    if count:
        u = orthogonal(_packed(lefts, m), np.array([tu]), count)[0].T.copy()
        v = np.eye(n, dtype=a.dtype)
        if n > 1:
            inner = orthogonal(_packed(rights, n - 1), np.array([tv]), n - 1)[0]
            v = _with_first(inner).T.copy()
    failed = not _qr_steps(d, e, u, v)
    order = np.argsort(-np.abs(d), kind="stable")
    values, zero = np.abs(d)[order] * up, a.dtype.type(0)
    if u is None or v is None:
        return values, None, None, int(failed)
    negative = d[order] < 0
    first = u[order]
    u[:n] = np.where(negative[:, None], zero - first, first + zero)
    u[n:] += zero
    return values, u, v[order] + zero, int(failed)
