"""Resampling along one dimension: the neighbours of every new place, and their weights.

Places and weights are computed in the graph from a counter, in the precision that PyTorch computes
them in, so that ties fall the same way.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from lazyt import ops
from lazyt.functional.mixed_types import mixed
from lazyt.functional.operands import Build, constant_of
from lazyt.ir.dtypes import float32, float64, int64, uint8
from lazyt.ir.graph import Node
from lazyt.ir.scalar import Expr, call, const


class Axis(NamedTuple):
    """One dimension: its old and new size, and the step between places in the old one."""

    old: int
    new: int
    scale: float


def _of(value: float, like: Expr) -> Expr:
    return const(value, like.dtype)


def _whole(x: Expr, top: Expr) -> Expr:
    """A float as a position within [0, top]."""
    place = call("cast", x, dtype=int64)
    return call("minimum", call("maximum", place, const(0, int64)), top)


# ------------------------------------------------------------------ nearest


def nearest(place: Expr, scale: Expr, top: Expr) -> Expr:
    """The old place that a new one begins in."""
    return _whole(call("floor", call("mul", call("cast", place, dtype=float32), scale)), top)


def nearest_exact(place: Expr, scale: Expr, top: Expr) -> Expr:
    """The old place that the middle of a new one lies in."""
    half = call("add", call("cast", place, dtype=float32), const(0.5, float32))
    return _whole(call("floor", call("mul", half, scale)), top)


def pick(node: Node, axis: int, size: Axis, build: Build) -> Node:
    """Every new place takes the value of one old place."""
    if size.old == size.new and size.scale == 1:
        return node
    if build is nearest and size.new % size.old == 0 and size.scale == size.old / size.new:
        return _repeat(node, axis, size.new // size.old)
    nodes = (ops.iota(size.new), constant_of(size.scale, float32),
             constant_of(size.old - 1, int64))  # fmt: skip
    return ops.gather(node, mixed(build, nodes), axis)


def _repeat(node: Node, axis: int, count: int) -> Node:
    """Every element ``count`` times along an axis: a view, so that its gradient is a sum."""
    shape = node.shape
    wide = (*shape[: axis + 1], count, *shape[axis + 1 :])
    node = ops.expand(ops.reshape(node, (*shape[: axis + 1], 1, *shape[axis + 1 :])), wide)
    return ops.reshape(node, (*shape[:axis], shape[axis] * count, *shape[axis + 1 :]))


# ------------------------------------------------------------------ linear and cubic


def _source(place: Expr, scale: Expr, like: Expr) -> Expr:
    """Where the middle of a new element lies among the old ones."""
    half = _of(0.5, like)
    middle = call("add", call("cast", place, dtype=like.dtype), half)
    return call("sub", call("mul", scale, middle), half)


def _corner_source(place: Expr, scale: Expr) -> Expr:
    return call("mul", scale, call("cast", place, dtype=scale.dtype))


def _from_zero(place: Expr, scale: Expr) -> Expr:
    return call("maximum", _source(place, scale, scale), _of(0, scale))


def _plain_source(place: Expr, scale: Expr) -> Expr:
    return _source(place, scale, scale)


def _tap(source: Expr, shift: Expr, top: Expr) -> Expr:
    """The position of one neighbour, kept within the dimension."""
    place = call("add", call("cast", call("floor", source), dtype=int64), shift)
    return call("minimum", call("maximum", place, const(0, int64)), top)


def _fraction(x: Expr) -> Expr:
    return call("sub", x, call("floor", x))


def _linear_weight(source: Expr, shift: Expr) -> Expr:
    part = _fraction(source)
    first = call("sub", _of(1, part), part)
    return call("where", call("eq", shift, const(0, int64)), first, part)


def cubic_near(x: Expr, a: float) -> Expr:
    """Keys' cubic kernel (1981) for distances ``x`` up to 1."""
    steep = call("mul", _of(a + 2, x), x)
    inner = call("mul", call("mul", call("sub", steep, _of(a + 3, x)), x), x)
    return call("add", inner, _of(1, x))


def cubic_far(x: Expr, a: float) -> Expr:
    """Keys' cubic kernel (1981) for distances ``x`` from 1 to 2."""
    inner = call("sub", call("mul", _of(a, x), x), _of(5 * a, x))
    inner = call("add", call("mul", inner, x), _of(8 * a, x))
    return call("sub", call("mul", inner, x), _of(4 * a, x))


def _cubic_weight(source: Expr, shift: Expr) -> Expr:
    step = call("cast", shift, dtype=source.dtype)
    away = call("abs", call("sub", _fraction(source), step))
    near = call("le", away, _of(1, away))
    return call("where", near, cubic_near(away, -0.75), cubic_far(away, -0.75))


def _digits(largest: Expr) -> Expr:
    """How many binary digits weights keep, so that the largest stays below 2**15."""
    room = call("log2", call("div", _of(2**15 - 0.5, largest), largest))
    whole = call("sub", call("ceil", room), _of(1, room))
    return call("minimum", whole, _of(22, room))


def _fixed(weight: Expr, scale: Expr) -> Expr:
    """A weight as a whole number of parts, rounded half away from zero."""
    half = call("copysign", _of(0.5, weight), weight)
    return call("cast", call("add", call("mul", weight, scale), half), dtype=int64)


def _rounded(total: Expr, scale: Expr) -> Expr:
    """A sum of parts as a byte, half a unit rounded up."""
    half = call("floordiv", scale, const(2, int64))
    value = call("floordiv", call("add", total, half), scale)
    value = call("minimum", call("maximum", value, const(0, int64)), const(255, int64))
    return call("cast", value, dtype=uint8)


def _weighted_bytes(found: Node, axis: int, weights: Node) -> Node:
    """Sums of bytes by fixed-point weights, as PyTorch takes them: of one dimension at a time."""
    largest = ops.reduce_("max", weights, (0, 1))
    scale = ops.apply("exp2", mixed(_digits, (largest,)))
    tail = (1,) * (len(found.shape) - axis - 2)
    parts = mixed(_fixed, (weights, scale))
    scaled = ops.apply("mul", ops.cast(found, int64), ops.reshape(parts, (*parts.shape, *tail)))
    total = ops.reduce_("sum", scaled, (axis + 1,))
    return mixed(_rounded, (total, ops.cast(scale, int64)), uint8)


def _weighted(node: Node, axis: int, places: Node, weights: Node) -> Node:
    """The neighbours ``places`` [new, taps] of an axis, added up by ``weights``."""
    found = ops.gather(node, places, axis)
    if node.dtype is uint8:
        return _weighted_bytes(found, axis, weights)
    tail = (1,) * (len(node.shape) - axis - 1)
    scaled = ops.apply("mul", found, ops.reshape(weights, (*weights.shape, *tail)))
    return ops.reduce_("sum", scaled, (axis + 1,))


def blend(node: Node, axis: int, size: Axis, corners: bool, cubic: bool) -> Node:
    """Two neighbours by their distance, or four by Keys' cubic kernel.

    Two at the old size are the element itself, whatever the scale, and so are four of bytes.
    """
    if size.old == size.new and (size.scale == 1 or not cubic or node.dtype is uint8):
        return node
    wide = float64 if node.dtype is uint8 else node.dtype
    build = _corner_source if corners else _plain_source if cubic else _from_zero
    source = mixed(build, (ops.iota(size.new), constant_of(size.scale, wide)))
    source = ops.reshape(source, (size.new, 1))
    shifts = ops.iota(4 if cubic else 2)
    if cubic:
        shifts = ops.apply("sub", shifts, ops.constant(1, int64))
    places = mixed(_tap, (source, shifts, constant_of(size.old - 1, int64)))
    weights = mixed(_cubic_weight if cubic else _linear_weight, (source, shifts))
    return _weighted(node, axis, places, weights)


# ------------------------------------------------------------------ with antialiasing


def _middle(place: Expr, scale: Expr) -> Expr:
    half = call("add", call("cast", place, dtype=scale.dtype), _of(0.5, scale))
    return call("mul", scale, half)


def _first_place(middle: Expr, support: Expr) -> Expr:
    edge = call("add", call("sub", middle, support), _of(0.5, middle))
    return call("maximum", call("cast", edge, dtype=int64), const(0, int64))


def _end_place(middle: Expr, support: Expr, extent: Expr) -> Expr:
    edge = call("add", call("add", middle, support), _of(0.5, middle))
    return call("minimum", call("cast", edge, dtype=int64), extent)


def _distance(tap: Expr, first: Expr, middle: Expr, inverse: Expr) -> Expr:
    place = call("cast", call("add", tap, first), dtype=middle.dtype)
    return call("mul", call("add", call("sub", place, middle), _of(0.5, middle)), inverse)


def _triangle(tap: Expr, first: Expr, end: Expr, middle: Expr, inverse: Expr) -> Expr:
    away = call("abs", _distance(tap, first, middle, inverse))
    value = call("maximum", call("sub", _of(1, away), away), _of(0, away))
    return call("where", call("lt", call("add", tap, first), end), value, _of(0, away))


def _cubic_filter(tap: Expr, first: Expr, end: Expr, middle: Expr, inverse: Expr) -> Expr:
    away = call("abs", _distance(tap, first, middle, inverse))
    zero = _of(0, away)
    far = call("where", call("lt", away, _of(2, away)), cubic_far(away, -0.5), zero)
    value = call("where", call("lt", away, _of(1, away)), cubic_near(away, -0.5), far)
    return call("where", call("lt", call("add", tap, first), end), value, zero)


def _lanczos_filter(tap: Expr, first: Expr, end: Expr, middle: Expr, inverse: Expr) -> Expr:
    away = call("abs", _distance(tap, first, middle, inverse))
    zero, one = _of(0, away), _of(1, away)
    safe = call("where", call("eq", away, zero), one, away)
    turn = call("mul", safe, _of(math.pi, away))
    third = call("div", turn, _of(3, away))
    wave = call("mul", call("div", call("sin", turn), turn), call("div", call("sin", third), third))
    value = call("where", call("eq", away, zero), one, wave)
    value = call("where", call("lt", away, _of(3, away)), value, zero)
    return call("where", call("lt", call("add", tap, first), end), value, zero)


#: By mode: the filter, and how far it reaches.
FILTERS: dict[str, tuple[Build, float]] = {
    "bilinear": (_triangle, 1.0),
    "bicubic": (_cubic_filter, 2.0),
    "lanczos": (_lanczos_filter, 3.0),
}


def filtered(node: Node, axis: int, size: Axis, build: Build, reach: float) -> Node:
    """Every new element as the weighted mean of all old ones that it covers; at the old size it
    is the old one, whatever the scale."""
    if size.old == size.new:
        return node
    wide = float64 if node.dtype is uint8 else node.dtype
    support = reach * max(size.scale, 1.0)
    taps = min(math.ceil(support) * 2 + 1, size.old)
    middle = mixed(_middle, (ops.iota(size.new), constant_of(size.scale, wide)))
    middle = ops.reshape(middle, (size.new, 1))
    half = constant_of(support, wide)
    first = mixed(_first_place, (middle, half))
    end = mixed(_end_place, (middle, half, constant_of(size.old, int64)))
    inverse = constant_of(1 / size.scale if size.scale >= 1 else 1.0, wide)
    counter = ops.iota(taps)
    weights = mixed(build, (counter, first, end, middle, inverse))
    total = ops.reduce_("sum", weights, (1,))
    weights = ops.apply("div", weights, ops.reshape(total, (size.new, 1)))
    top = constant_of(size.old - 1, int64)
    places = ops.apply("minimum", ops.apply("add", first, counter), top)
    return _weighted(node, axis, places, weights)
