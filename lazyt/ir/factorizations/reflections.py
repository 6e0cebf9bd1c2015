"""Householder's reflections in NumPy, batched, step by step as kernels make them."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["largest", "mirror", "orthogonal", "powers", "reflect", "reflected", "vector"]

Array = np.ndarray[Any, Any]


def powers(x: Array) -> tuple[Array, Array]:
    """Powers of two near ``1 / x`` and ``x``, for sizes ``x``."""
    wide = x.dtype.itemsize == 8
    bits, mantissa, top = (np.int64, 52, 2047) if wide else (np.int32, 23, 255)
    pattern: Array = x.view(bits)
    exponent = np.clip(np.right_shift(pattern, mantissa), 1, top - 2)
    down, up = (top - 1 - exponent) << mantissa, exponent << mantissa
    return down.astype(bits).view(x.dtype), up.astype(bits).view(x.dtype)


def largest(a: Array) -> Array:
    """The largest size of each matrix."""
    found = np.zeros(len(a), a.dtype)
    for column in np.abs(a.reshape(len(a), -1)).T:
        found = np.where(column > found, column, found)
    return found


def vector(x: Array) -> tuple[Array, Array, Array]:
    """The vectors that mirror columns ``x`` onto their first elements, where they have the columns'
    own; their factors tau; and what the first elements become."""
    down, up = powers(largest(x))
    scaled = x * down[:, None]
    rest = np.zeros(len(x), x.dtype)
    for i in range(1, x.shape[1]):
        rest = rest + scaled[:, i] * scaled[:, i]
    alpha = scaled[:, 0]
    length = np.sqrt(alpha * alpha + rest)
    beta = np.where(np.signbit(alpha), length, -length)
    flat = rest == 0
    tau = np.where(flat, x.dtype.type(0), (beta - alpha) / beta)
    divisor = np.where(flat, x.dtype.type(1), alpha - beta)
    v = np.where(flat[:, None], x.dtype.type(0), scaled / divisor[:, None])
    return v, tau, np.where(flat, x[:, 0], beta * up)


def reflected(x: Array) -> tuple[Array, Any, Any]:
    """The same of one column."""
    v, tau, head = vector(x[None])
    return v[0], tau[0], head[0]


def reflect(a: Array) -> Array:
    """Householder's vectors below R in the place of ``a``; gives their factors tau."""
    count, m, n = a.shape
    taus = np.zeros((count, min(m, n)), a.dtype)
    for j in range(min(m, n)):
        v, taus[:, j], head = vector(a[:, j:, j])
        a[:, j, j] = head
        a[:, j + 1 :, j] = v[:, 1:]
        mirror(a[:, j:, j + 1 :], v, taus[:, j])
    return taus


def mirror(a: Array, v: Array, tau: Array) -> None:
    """``(1 - tau v v^T) a``, in its place; the first element of v is taken as 1."""
    w = a[:, 0].copy()
    for i in range(1, a.shape[1]):
        w = w + v[:, i, None] * a[:, i]
    w = w * tau[:, None]
    a[:, 0] -= w
    a[:, 1:] -= v[:, 1:, None] * w[:, None, :]


def orthogonal(packed: Array, taus: Array, columns: int) -> Array:
    """The first columns of Q."""
    count, m, _ = packed.shape
    q = np.zeros((count, m, columns), packed.dtype)
    q[:, range(columns), range(columns)] = 1
    for j in range(taus.shape[1])[::-1]:
        mirror(q[:, j:, j + 1 :], packed[:, j:, j], taus[:, j])
        q[:, j, j] = 1 - taus[:, j]
        q[:, j + 1 :, j] = packed[:, j + 1 :, j] * -taus[:, j, None]
    return q
