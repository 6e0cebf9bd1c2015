"""The transforms of rows in NumPy: the same sums and products in the same order as in kernels
(``codegen/prelude/fourier.h``), so that both give the same bits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyt.ir.fourier.tables import Plan, plan_of, row_sizes, turn_count

Array = np.ndarray[Any, Any]
Pair = tuple[Array, Array]

_HALF = {4: np.float32(math.sqrt(0.5)), 8: np.float64(math.sqrt(0.5))}


def _cross(x: Array, y: Array, u: Array, v: Array) -> Pair:
    """The product of two complex numbers."""
    return x * u - y * v, x * v + y * u


def _two(x: Sequence[Pair]) -> list[Pair]:
    (a, b), (c, d) = x
    return [(a + c, b + d), (a - c, b - d)]


def _four(x: Sequence[Pair]) -> list[Pair]:
    (ar, ai), (br, bi), (cr, ci), (dr, di) = x
    er, ei, fr, fi = ar + cr, ai + ci, ar - cr, ai - ci
    gr, gi, hr, hi = br + dr, bi + di, br - dr, bi - di
    return [(er + gr, ei + gi), (fr + hi, fi - hr), (er - gr, ei - gi), (fr - hi, fi + hr)]


def _eight(x: Sequence[Pair]) -> list[Pair]:
    even = [(x[j][0] + x[j + 4][0], x[j][1] + x[j + 4][1]) for j in range(4)]
    odd = [(x[j][0] - x[j + 4][0], x[j][1] - x[j + 4][1]) for j in range(4)]
    half = _HALF[x[0][0].dtype.itemsize]
    odd[1] = (odd[1][0] + odd[1][1]) * half, (odd[1][1] - odd[1][0]) * half
    odd[2] = odd[2][1], -odd[2][0]
    odd[3] = (odd[3][1] - odd[3][0]) * half, -((odd[3][0] + odd[3][1]) * half)
    return [pair for both in zip(_four(even), _four(odd)) for pair in both]


def _odd(x: Sequence[Pair], circle: Array) -> list[Pair]:
    """``circle`` has the cosine and sine of each part of a turn."""
    r = len(x)
    both = [(x[j][0] + x[r - j][0], x[j][1] + x[r - j][1]) for j in range(1, r // 2 + 1)]
    less = [(x[j][0] - x[r - j][0], x[j][1] - x[r - j][1]) for j in range(1, r // 2 + 1)]
    zr, zi = x[0]
    for real, imaginary in both:
        zr, zi = zr + real, zi + imaginary
    found = [(zr, zi)] * r
    for q in range(1, r // 2 + 1):
        (cr, ci), er, ei = x[0], None, None
        for j, ((sr, si), (dr, di)) in enumerate(zip(both, less), 1):
            cos, sin = circle[q * j % r]
            cr, ci = cr + sr * cos, ci + si * cos
            er, ei = (dr * sin, di * sin) if er is None else (er + dr * sin, ei + di * sin)
        found[q], found[r - q] = (cr + ei, ci - er), (cr - ei, ci + er)
    return found


def _stage(x: Sequence[Pair], circle: Array) -> list[Pair]:
    """The transform of as many points as there are; ``circle`` is for odd numbers of them."""
    if len(x) % 2:
        return _odd(x, circle)
    return {2: _two, 4: _four, 8: _eight}[len(x)](x)


def _columns(re: Array, im: Array, stages: tuple[int, ...], turns: Array) -> tuple[Pair, Array]:
    """Transforms along the second axis of [batch, n, columns], in natural order; and the rest of
    the table."""
    batch, n, width = re.shape
    count, left = 1, n
    for size in stages:
        left //= size
        shape = (batch, count, size, left, width)
        circle = turns[: 2 * size * (size % 2)].reshape(-1, 2)
        turns = turns[circle.size :]
        factors = turns[: left * 2 * (size - 1)].reshape(left, size - 1, 2)
        turns = turns[factors.size :]
        both = re.reshape(shape), im.reshape(shape)
        made = _stage([(both[0][:, :, j], both[1][:, :, j]) for j in range(size)], circle)
        if left > 1:
            for j in range(1, size):
                (x, y), turn = made[j], factors[:, j - 1]
                made[j] = _cross(x, y, turn[:, :1], turn[:, 1:])
        re = np.stack([part for part, _ in made], 2).reshape(batch, n, width)
        im = np.stack([part for _, part in made], 2).reshape(batch, n, width)
        count *= size
    shape = (batch, *stages, width)
    axes = (0, *range(len(stages), 0, -1), len(stages) + 1)
    re, im = (x.reshape(shape).transpose(axes).reshape(batch, n, width) for x in (re, im))
    return (re, im), turns


def _rows(re: Array, im: Array, plan: Plan, table: Array, wide: int) -> tuple[Pair, Array]:
    """Transforms of [batch, n] with a negative sign; and the rest of the table."""
    (batch, n), (a, b, first, second, _) = re.shape, plan
    (re, im), table = _columns(re.reshape(batch, a, b), im.reshape(batch, a, b), first, table)
    rest = table[turn_count(b, second) :]
    blocks = -(-b // wide)
    middle = rest[: blocks * a * 2 * wide].reshape(blocks, a, 2, wide).transpose(1, 2, 0, 3)
    middle = middle.reshape(a, 2, blocks * wide)[:, :, :b]
    re, im = _cross(re, im, middle[:, 0], middle[:, 1])
    flipped = [np.ascontiguousarray(part.transpose(0, 2, 1)) for part in (re, im)]
    (re, im), _ = _columns(flipped[0], flipped[1], second, table)
    return (re.reshape(batch, n), im.reshape(batch, n)), rest[blocks * a * 2 * wide :]


def _halved(z: Pair, cos: Array, sin: Array, sign: Any) -> Pair:
    """The spectrum of real points from that of their pairs."""
    (zr, zi), n = z, z[0].shape[1]
    k = np.arange(1, n // 2 + 1)
    xr, xi, yr, yi = zr[:, k], zi[:, k], zr[:, n - k], zi[:, n - k]
    er, ei, dr, di = xr + yr, xi - yi, xi + yi, yr - xr
    pr, pi = _cross(dr, di, cos[k], -sin[k])
    re, im = (np.zeros((len(zr), n + 1), zr.dtype) for _ in range(2))
    re[:, 0], re[:, n] = (zr[:, 0] + zi[:, 0]) * 2, (zr[:, 0] - zi[:, 0]) * 2
    re[:, n - k], im[:, n - k] = er - pr, (pi - ei) * sign
    re[:, k], im[:, k] = er + pr, (ei + pi) * sign
    return re, im


def _joined(x: Pair, cos: Array, sin: Array, sign: Any) -> Pair:
    """The spectrum of pairs from that of real points."""
    (re, im), n = x, x[0].shape[1] - 1
    k = np.arange(1, n // 2 + 1)
    xr, xi, yr, yi = re[:, k], im[:, k], re[:, n - k], im[:, n - k]
    er, ei, dr, di = xr + yr, (xi - yi) * sign, xr - yr, (xi + yi) * sign
    pr, pi = _cross(dr, di, cos[k], sin[k])
    zr, zi = (np.zeros((len(re), n), re.dtype) for _ in range(2))
    zr[:, 0], zi[:, 0] = re[:, 0] + re[:, n], re[:, 0] - re[:, n]
    zr[:, n - k], zi[:, n - k] = er + pi, pr - ei
    zr[:, k], zi[:, k] = er - pi, ei + pr
    return zr, zi


def _whole(
    kind: str, sign: int, n: int, rows: Array, plan: Plan, table: Array, wide: int
) -> Array:  # fmt: skip
    """Rows of points that are complex ones whatever the kind, perhaps by a convolution."""
    length = plan.a * plan.b
    if kind == "half":
        re, im = rows, np.zeros_like(rows)
    else:
        re, im = rows[:, ::2].copy(), rows[:, 1::2].copy()
    if kind == "real":
        im[:, 0] = 0
        if n % 2 == 0:
            im[:, -1] = 0
        rest = np.arange(n - re.shape[1], 0, -1)
        re, im = np.hstack([re, re[:, rest]]), np.hstack([im, -im[:, rest]])
    if sign > 0:
        re, im = im, re
    if length == n:
        (re, im), _ = _rows(re, im, plan, table, wide)
    else:
        begin = turn_count(plan.a, plan.first) + turn_count(plan.b, plan.second)
        begin += -(-plan.b // wide) * plan.a * 2 * wide
        u, v = table[begin:].reshape(-1, 2).T
        re, im = _cross(re, im, u[:n], v[:n])
        gap = ((0, 0), (0, length - n))
        (re, im), _ = _rows(np.pad(re, gap), np.pad(im, gap), plan, table, wide)
        re, im = _cross(re, im, u[n : n + length], v[n : n + length])
        (im, re), _ = _rows(im, re, plan, table, wide)
        re, im = _cross(re[:, :n], im[:, :n], u[n + length :][:n], v[n + length :][:n])
    if sign > 0:
        re, im = im, re
    if kind == "real":
        return re
    if kind == "half":
        re, im = re[:, : n // 2 + 1], im[:, : n // 2 + 1].copy()
        im[:, 0] = 0
        if n % 2 == 0:
            im[:, -1] = 0
    return np.stack([re, im], -1).reshape(len(re), -1)


def transformed(kind: str, sign: int, n: int, rows: Array, table: Array, wide: int) -> Array:
    """Rows of as many elements as the kind has of ``n`` points, transformed; ``wide``: lanes."""
    plan = plan_of(kind, n)
    assert plan is not None
    if plan.whole:
        return _whole(kind, sign, n, rows, plan, table, wide)
    count, one = plan.a * plan.b, rows.dtype.type(1)
    re, im = rows[:, ::2], rows[:, 1::2]
    if kind == "half":
        z, turns = _rows(re, im, plan, table, wide)
        cos, sin = np.split(turns, 2)
        re, im = _halved(z, cos, sin, -one if sign > 0 else one)
        return np.stack([re, im], -1).reshape(len(rows), -1)
    if kind == "real":
        cos, sin = np.split(table[-2 * (count // 2 + 1) :], 2)
        re, im = _joined((re, im), cos, sin, one if sign > 0 else -one)
    if kind == "real" or sign > 0:
        (im, re), _ = _rows(im, re, plan, table, wide)
    else:
        (re, im), _ = _rows(re, im, plan, table, wide)
    return np.stack([re, im], -1).reshape(len(rows), -1)


def of_any_shape(
    kind: str, sign: int, n: int, array: Array, shape: tuple[int, ...], table: Array, wide: int
) -> Array:  # fmt: skip
    """The same of an operand of the ``fourier`` op, to a result of this shape."""
    if not array.size:
        return np.zeros(shape, array.dtype)
    size, _ = row_sizes(kind, n)
    return transformed(kind, sign, n, array.reshape(-1, size), table, wide).reshape(shape)
