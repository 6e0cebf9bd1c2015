"""The matrix routines behind the ``library`` op, in NumPy and the LAPACK that NumPy brings.

This is the one place where NumPy computes results of compiled programs: dense factorizations are
calls into a library here as in PyTorch, not code that this compiler generates. Every routine takes
matrices in the last two axes, batched over the leading ones, and gives its results as a list of
parts. None raises for values: what did not work is said in a part called ``info``, zero for
success, with LAPACK's numbers. ``numpy.linalg`` works in double precision where a matrix is given
in another type than float32 and float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any, NamedTuple

import numpy as np

from lazyt.ops.library_elimination import exchanges, first_set, lu, triangular

Array = np.ndarray[Any, Any]
Shapes = list[tuple[int, ...]]


class Routine(NamedTuple):
    """One routine.

    Attributes:
        operands: how many matrices it takes.
        square: whether the first has to be square.
        parts: shapes of the results for one batch element, from the operands' matrix shapes
            and the mode.
        run: ``(mode, *arrays) -> parts``, batched.
        cost: about how many operations it takes, per element and smaller extent of the first
            operand.
    """

    operands: int
    square: bool
    parts: Callable[..., Shapes]
    run: Callable[..., list[Array]]
    cost: float = 2.0


def _each(array: Array) -> Iterator[tuple[int, ...]]:
    """The batch indices of ``array``."""
    return iter(np.ndindex(array.shape[:-2]))


def _transposed(array: Array) -> Array:
    return array.swapaxes(-1, -2)


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


def _cofactors(mode: str, a: Array) -> list[Array]:
    """The derivative of the determinant. Where the inverse does not exist it comes from the
    singular values: ``det(U) det(V) U diag(product of the others) V.T``."""
    inverse, info = _inverse("", a)
    result = np.asarray(np.linalg.det(a), a.dtype)[..., None, None] * _transposed(inverse)
    for at in _each(a):
        if info[at] and np.isfinite(a[at]).all():
            u, s, v = np.linalg.svd(a[at])
            others = np.array([prod(s[:i]) * prod(s[i + 1 :]) for i in range(len(s))], a.dtype)
            result[at] = np.linalg.det(u) * np.linalg.det(v) * ((u * others) @ v)
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
        square = lower[j, j] - lower[j, :j] @ lower[j, :j]
        if not square > 0:
            return j + 1
        lower[j, j] = np.sqrt(square)
        lower[j + 1 :, j] -= lower[j + 1 :, :j] @ lower[j, :j]
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


def _pinv(mode: str, a: Array, absolute: Array, relative: Array) -> list[Array]:
    """Moore-Penrose inverse; singular values up to ``max(absolute, relative * largest)`` count
    as zero. ``hermitian``: by eigenvalues."""
    if mode == "hermitian":
        values, vectors, info = _eigh("lower", a)
        left, right, size = vectors, _transposed(vectors), np.abs(values)
    else:
        left, values, right, info = _svd("reduced", a)
        size = values
    if not size.shape[-1]:
        return [np.zeros(_transposed(a).shape, a.dtype), info]
    largest = size.max(-1, keepdims=True)
    kept = size > np.maximum(absolute[..., 0], relative[..., 0] * largest)
    inverse = np.where(kept, 1 / np.where(kept, values, 1), 0).astype(a.dtype)
    return [(_transposed(right) * inverse[..., None, :]) @ _transposed(left), info]


def _lstsq(mode: str, a: Array, b: Array, relative: Array) -> list[Array]:
    """The least squares solution of smallest norm, the rank, and the singular values."""
    u, s, v, _ = _svd("reduced", a)
    kept = s > relative[..., 0] * s.max(-1, keepdims=True, initial=0)
    inverse = np.where(kept, 1 / np.where(kept, s, 1), 0).astype(a.dtype)
    x = _transposed(v) @ (inverse[..., None] * (_transposed(u) @ b))
    return [x, kept.sum(-1).astype(a.dtype), s]


# ------------------------------------------------------------------- exponential

#: Coefficients of the diagonal Padé approximant of order 13 to the exponential, and the norm up to
#: which it is exact to double precision (Higham, "The scaling and squaring method for the matrix
#: exponential revisited", SIAM J. Matrix Anal. Appl. 26, 2005).
_PADE = (
    64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000,
    10559470521600, 670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1,
)  # fmt: skip
_PADE_NORM = 5.371920351148152


def _exponential_of(a: Array) -> Array:
    """The exponential of one double precision matrix."""
    norm = float(np.abs(a).sum(0).max(initial=0))
    if not np.isfinite(norm):
        return np.full(a.shape, np.nan)
    halvings = max(0, int(np.ceil(np.log2(norm / _PADE_NORM)))) if norm else 0
    a = a / 2.0**halvings
    one = np.eye(len(a))
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a4 @ a2
    c = [float(x) for x in _PADE]
    odd = a6 @ (c[13] * a6 + c[11] * a4 + c[9] * a2) + c[7] * a6 + c[5] * a4 + c[3] * a2
    even = a6 @ (c[12] * a6 + c[10] * a4 + c[8] * a2) + c[6] * a6 + c[4] * a4 + c[2] * a2
    u, v = a @ (odd + c[1] * one), even + c[0] * one
    result: Array = np.linalg.solve(v - u, v + u)
    for _ in range(halvings):
        result = result @ result
    return result


def _exponential(mode: str, a: Array) -> list[Array]:
    result = np.empty_like(a)
    for at in _each(a):
        result[at] = _exponential_of(a[at].astype(np.float64))
    return [result]


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


ROUTINES: dict[str, Routine] = {
    "cholesky": Routine(1, True, _with_info, _cholesky, 0.333),
    "cofactors": Routine(1, True, _like_first, _cofactors, 4),
    "det": Routine(1, True, lambda mode, a: [()], _determinant, 0.667),
    "eigh": Routine(1, True, _eigh_parts, _eigh, 9),
    "exchanges": Routine(1, False, lambda mode, a: [(int(mode),)], exchanges, 0),
    "exp": Routine(1, True, _like_first, _exponential, 30),
    "geqrf": Routine(1, False, lambda mode, a: [a, (min(a),)], _reflectors),
    "inv": Routine(1, True, _with_info, _inverse),
    "lstsq": Routine(
        3, False, lambda mode, a, b, tolerance: [(a[1], b[1]), (), (min(a),)], _lstsq, 20
    ),
    "lu": Routine(1, False, lambda mode, a: [a, (min(a),), a[:1], ()], lu, 0.667),
    "pinv": Routine(3, False, lambda mode, a, s, t: [(a[1], a[0]), ()], _pinv, 20),
    "qr": Routine(1, False, _qr_parts, _qr),
    "slogdet": Routine(1, True, lambda mode, a: [(), ()], _log_determinant, 0.667),
    "solve": Routine(2, True, lambda mode, a, b: [b, ()], _solve),
    "svd": Routine(1, False, _svd_parts, _svd, 20),
    "triangular": Routine(2, True, lambda mode, a, b: [b], triangular, 1),
}
