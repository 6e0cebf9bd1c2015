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
    return [substitute(a, b, mode.startswith("lower"), mode.endswith("unit"))]


# ------------------------------------------------------------------- LU


def _eliminate(a: Array, order: Array, pivots: Array, start: int, stop: int) -> None:
    """Gaussian elimination with row exchanges in the columns ``start:stop`` of all matrices."""
    every = np.arange(len(a))
    for j in range(start, stop):
        best = j + np.argmax(np.abs(a[:, j:, j]), axis=1)
        pivots[:, j] = best + 1
        for rows in (a, order):
            moved = rows[every, best]
            rows[every, best] = rows[:, j]
            rows[:, j] = moved
        pivot = a[:, j, j, None]
        a[:, j + 1 :, j] /= np.where(pivot == 0, 1, pivot)
        if j + 1 < stop:
            a[:, j + 1 :, j + 1 : stop] -= a[:, j + 1 :, j, None] * a[:, j, None, j + 1 : stop]


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
            rest[...] = substitute(factors[:, start:stop, start:stop], rest, True, True)
            factors[:, stop:, stop:] -= factors[:, stop:, start:stop] @ rest
    zero = np.diagonal(factors, axis1=-2, axis2=-1) == 0
    info = first_set(zero).astype(a.dtype).reshape(lead)
    return [factors.reshape(a.shape), pivots.reshape(*lead, k), order.reshape(*lead, m), info]


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
