"""Resampling along one dimension: the neighbours of every new place, and their weights.

Places and weights are computed in the graph from a counter, in the precision that PyTorch computes
them in, so that ties fall the same way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from lazyt import ops
from lazyt.errors import LazytError, ShapeError, warn
from lazyt.functional.nn.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
)
from lazyt.functional.operands import Build, constant_of, mixed
from lazyt.functional.results import give
from lazyt.functional.type_promotion import require_floating
from lazyt.handle.function_table import function
from lazyt.handle.layout import channels_last, channels_last_3d
from lazyt.handle.tensor import Tensor
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


# Resizing images and other grids: nearest, linear, cubic and area interpolation.
#
# Interpolation is separable: one dimension after the other, last first, every place of the result
# gathers its few neighbours along the dimension and adds them up by weights that depend on the
# place alone.


_SMOOTH = {"linear": 3, "bilinear": 4, "trilinear": 5}
_FREE = ("nearest", "nearest-exact", "area")
_PLANAR = ("bicubic", "lanczos")


class InterpolationError(LazytError, ValueError):
    """Settings of an interpolation that do not fit together."""


class ModeError(LazytError, NotImplementedError):
    """A mode that does not exist for this number of dimensions."""


# ------------------------------------------------------------------ sizes and scales


def _numbers(value: Any, shape: tuple[int, ...], names: tuple[str, str, str]) -> tuple[Any, ...]:
    """One number for every dimension; ``names`` are those of PyTorch's message."""
    if not isinstance(value, (list, tuple)):
        return (value,) * len(shape)
    if len(value) != len(shape):
        whole, given, letter = names
        letters = ", ".join(f"{letter}{i}" for i in (1, 2)) + f", ...,{letter}K"
        raise InterpolationError(
            f"Input and {whole} must have the same number of spatial dimensions, but got input "
            f"with spatial dimensions of {list(shape)} and {given} {value}. Please provide input "
            f"tensor in (N, C, d1, d2, ...,dK) format and {given.partition(' of')[0]} in "
            f"({letters}) format."
        )
    return tuple(value)


def _axes(
    shape: tuple[int, ...], size: Any, factor: Any, recompute: bool | None, corners: bool
) -> list[Axis]:
    """The new size of every dimension and the step between its places."""
    rank = len(shape)
    if size is not None:
        new: tuple[Any, ...] = _numbers(size, shape, ("output", "output size of", "o"))
        factors: tuple[Any, ...] = (None,) * rank
    else:
        factors = _numbers(factor, shape, ("scale_factor", "scale_factor of shape", "s"))
        new = tuple(math.floor(float(n) * float(f)) for n, f in zip(shape, factors))
        if recompute:
            factors = (None,) * rank
    found = []
    for old, wanted, by in zip(shape, new, factors):
        if wanted <= 0 or old <= 0:
            sides = ("D", "H", "W")[3 - rank :]
            texts = (", ".join(f"{s}: {n}" for s, n in zip(sides, sizes)) for sizes in (shape, new))
            raise ShapeError(
                "Input and output sizes should be greater than 0, but got input ({}) {}output "
                "({})".format(next(texts), "and " if rank == 1 else "", next(texts))
            )
        if corners:
            step = (old - 1) / (wanted - 1) if wanted > 1 else 0.0
        else:
            step = 1.0 / by if by is not None and by > 0 else old / wanted
        found.append(Axis(old, int(wanted), step))
    return found


def _check(
    input: Tensor, size: Any, factor: Any, mode: str, corners: bool | None,
    recompute: bool | None, antialias: bool,
) -> None:  # fmt: skip
    if mode in _FREE and corners is not None:
        raise InterpolationError(
            "align_corners option can only be set with the interpolating modes: linear | "
            "bilinear | bicubic | trilinear"
        )
    if size is not None and factor is not None:
        raise InterpolationError("only one of size or scale_factor should be defined")
    if size is None and factor is None:
        raise InterpolationError("either size or scale_factor should be defined")
    if recompute and size is not None:
        raise InterpolationError("recompute_scale_factor is not meaningful with an explicit size.")
    if antialias and not (mode in ("bilinear", *_PLANAR) and input.ndim == 4):
        raise InterpolationError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires "
            "a 4-D tensor as input"
        )
    if mode == "lanczos" and input.ndim == 4:
        if corners:
            raise InterpolationError("Lanczos mode does not support align_corners=True")
        if not antialias:
            raise InterpolationError("Lanczos mode requires antialias=True")
    wanted = 4 if mode in _PLANAR else _SMOOTH.get(mode, input.ndim if mode in _FREE else 0)
    if wanted == input.ndim and 3 <= input.ndim <= 5:
        return
    if mode in _SMOOTH and 3 <= input.ndim <= 5:
        raise ModeError(f"Got {input.ndim}D input, but {mode} mode needs {wanted}D input")
    raise ModeError(
        "Input Error: Only 3D, 4D and 5D input Tensors supported (got "
        f"{input.ndim}D) for the modes: nearest | linear | bilinear | bicubic | trilinear | "
        f"lanczos | area | nearest-exact (got {mode})"
    )


@function(cast="full")
def interpolate(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:  # fmt: skip
    """[N, C, *old] resized to [N, C, *new], one to three spatial dimensions.

    Args:
        size: the new size, one number for all dimensions or one each; or
        scale_factor: what the old size is multiplied with (rounded down).
        mode: nearest, nearest-exact, linear (3-D input), bilinear, bicubic or lanczos (4-D; the
            last with ``antialias`` only), trilinear (5-D), or area (adaptive average pooling).
        align_corners: for the smooth modes, whether the corner elements' middles are kept.
        recompute_scale_factor: take the step between places from the sizes, not from the factor.
        antialias: filter over all elements that a new one covers.

    Raises InterpolationError (a ValueError), ModeError (a NotImplementedError) and ShapeError.
    """
    _check(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
    spatial = tuple(input.shape[2:])
    corners = bool(align_corners)
    axes = _axes(spatial, size, scale_factor, recompute_scale_factor, corners)
    if mode == "area":
        new = tuple(a.new for a in axes)
        pools = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)
        return pools[len(spatial) - 1](input, new)
    dtype = input.dtype
    if mode.startswith("nearest"):
        node = input.node
        if mode == "nearest" and _sizes_decide(input, axes):
            plain = [a._replace(scale=a.old / a.new) for a in axes]
            axes = [p if a.new in (a.old, 2 * a.old) else a for a, p in zip(axes, plain)]
        for number, axis in reversed([*enumerate(axes, 2)]):
            node = pick(node, number, axis, nearest if mode == "nearest" else nearest_exact)
        return give(node, f"UpsampleNearest{len(spatial)}D", (input,))
    node = input.node
    if dtype is not uint8 or mode not in ("bilinear", *_PLANAR):
        require_floating(f"compute_indices_weights_{mode}", dtype)
        node = ops.cast(node, dtype.compute)
    for number, axis in reversed([*enumerate(axes, 2)]):
        if antialias:
            node = filtered(node, number, axis, *FILTERS[mode])
        else:
            node = blend(node, number, axis, corners, mode == "bicubic")
    return give(ops.cast(node, dtype), f"Upsample{mode.title()}{len(spatial)}D", (input,))


def _sizes_decide(input: Tensor, axes: Sequence[Axis]) -> bool:
    """Whether ``nearest`` takes a size that stays, or doubles, as it is, whatever the factor.

    PyTorch has two kernels that differ in this: one for channels that lie together, and for planes
    whose sides add up to at most 128; and one for all else.
    """
    rank = len(axes)
    if rank == 1:
        return False
    order = (channels_last, channels_last_3d)[rank - 2]
    if input.shape[1] > 3 and input.is_contiguous(memory_format=order):
        return True
    return rank == 2 and axes[0].new + axes[1].new <= 128


@function(cast="full")
def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:  # fmt: skip
    """``interpolate`` by its old name."""
    _deprecated("upsample", "interpolate")
    return interpolate(input, size, scale_factor, mode, align_corners)


@function(cast="full")
def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """``interpolate`` with ``mode="nearest"``."""
    _deprecated("upsample_nearest", "interpolate")
    return interpolate(input, size, scale_factor, "nearest")


@function(cast="full")
def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """``interpolate`` with ``mode="bilinear"`` and aligned corners."""
    _deprecated("upsample_bilinear", "interpolate")
    return interpolate(input, size, scale_factor, "bilinear", True)


def _deprecated(name: str, instead: str) -> None:
    text = f"`nn.functional.{name}` is deprecated. Use `nn.functional.{instead}` instead."
    warn(text)
