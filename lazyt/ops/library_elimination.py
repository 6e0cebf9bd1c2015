"""Gaussian elimination and substitution in NumPy, which has no LU factorization of its own.

Batched over leading axes like all of ``library_routines``. Blocks of columns leave most of the
work to matrix products.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_BLOCK = 64


def substitute(a: Array, b: Array, lower: bool, unit: bool) -> Array:
    """``x`` with ``a @ x = b`` by substitution; divides by zero where the diagonal has zeros."""
    if not lower:
        turned = substitute(a[..., ::-1, ::-1], b[..., ::-1, :], True, unit)
        return turned[..., ::-1, :]
    x = np.array(b, copy=True)
    n = a.shape[-1]
    for start in range(0, n, _BLOCK):
        stop = min(start + _BLOCK, n)
        if start:
            x[..., start:stop, :] -= a[..., start:stop, :start] @ x[..., :start, :]
        for i in range(start, stop):
            if i > start:
                known = x[..., start:i, :]
                x[..., i : i + 1, :] -= a[..., i : i + 1, start:i] @ known
            if not unit:
                x[..., i, :] /= a[..., i, i, None]
    return x


def triangular(mode: str, a: Array, b: Array) -> list[Array]:
    """The solution of a triangular equation."""
    return [substitute(a, b, mode.startswith("lower"), mode.endswith("unit"))]


# ------------------------------------------------------------------- LU


def _eliminate(a: Array, order: Array, pivots: Array, start: int, stop: int) -> None:
    """Gaussian elimination with row exchanges of the columns ``start:stop`` of one matrix."""
    for j in range(start, stop):
        size = np.abs(a[j:, j])
        best = j + int(np.argmax(size)) if size.size else j
        pivots[j] = best + 1
        if best != j:
            a[[j, best]] = a[[best, j]]
            order[[j, best]] = order[[best, j]]
        if a[j, j] != 0:
            a[j + 1 :, j] /= a[j, j]
            if j + 1 < stop:
                a[j + 1 :, j + 1 : stop] -= np.outer(a[j + 1 :, j], a[j, j + 1 : stop])


def _lu_matrix(a: Array) -> tuple[Array, Array]:
    """Factors one matrix in place; LAPACK's pivots and the order of the rows."""
    m, n = a.shape
    k = min(m, n)
    order, pivots = np.arange(m), np.zeros(k, np.int64)
    for start in range(0, k, _BLOCK):
        stop = min(start + _BLOCK, k)
        _eliminate(a, order, pivots, start, stop)
        if stop < n:
            block = a[start:stop, start:stop]
            a[start:stop, stop:] = substitute(block, a[start:stop, stop:], True, True)
            a[stop:, stop:] -= a[stop:, start:stop] @ a[start:stop, stop:]
    return pivots, order


def lu(mode: str, a: Array) -> list[Array]:
    """Packed factors, LAPACK's pivots, the order of the rows, and info."""
    lead, (m, n) = a.shape[:-2], a.shape[-2:]
    factors = np.array(a, order="C", copy=True)
    pivots = np.zeros((*lead, min(m, n)), a.dtype)
    order = np.zeros((*lead, m), a.dtype)
    for at in np.ndindex(a.shape[:-2]):
        pivots[at], order[at] = _lu_matrix(factors[at])
    zero = np.diagonal(factors, axis1=-2, axis2=-1) == 0
    info = first_set(zero).astype(a.dtype)
    return [factors, pivots, order, info]


def exchanges(mode: str, pivots: Array) -> list[Array]:
    """The order of rows (``mode`` says how many) after LAPACK's exchanges: row i with row
    ``pivots[i] - 1``, one after the other."""
    order = np.empty((*pivots.shape[:-2], int(mode)), pivots.dtype)
    order[...] = np.arange(int(mode))
    for at in np.ndindex(pivots.shape[:-2]):
        for i, pivot in enumerate(pivots[at][:, 0].astype(np.int64)):
            order[at][[i, pivot - 1]] = order[at][[pivot - 1, i]]
    return [order]


def first_set(flags: Array) -> Array:
    """The number, from 1, of the first set flag along the last axis; 0 for none."""
    if not flags.shape[-1]:
        return np.zeros(flags.shape[:-1], np.int64)
    return np.where(flags.any(-1), flags.argmax(-1) + 1, 0)
