"""Resampling along one dimension: the neighbours of every new place, and their weights.

Places and weights are computed in the graph from a counter, in the precision that PyTorch computes
them in, so that ties fall the same way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from lazyt import ops
from lazyt.errors import DTypeError, LazytError, ShapeError, warn
from lazyt.functional.linalg.products import batched_product
from lazyt.functional.nn.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
)
from lazyt.functional.operands import Build, choose, constant_of, mixed, require_tensor
from lazyt.functional.result_layout import channels_like_first
from lazyt.functional.results import give
from lazyt.functional.type_promotion import require_floating
from lazyt.handle.autocast import in_full_precision
from lazyt.handle.function_table import declare_grad_fn, function
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


declare_grad_fn(
    "UpsampleNearest2D", "UpsampleNearest3D", "UpsampleBilinear2D", "UpsampleBicubic2D",
    "UpsampleLanczos2D", "UpsampleTrilinear3D", layout=channels_like_first,
)  # fmt: skip


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


# Spatial transformers (Jaderberg et al. 2015): grids of places, and images read at them.


_MODES = ("bilinear", "nearest", "bicubic")
_BORDERS = ("zeros", "border", "reflection")


class GridError(LazytError, ValueError):
    """A mode of sampling that does not exist, or a size of a grid that is impossible."""


# ------------------------------------------------------------------ grids


_CORNERS = (
    "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. "
    "Please specify align_corners=True if the old behavior is desired. See the documentation of "
    "grid_sample for details."
)


_UNIT = (
    "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when "
    "align_corners=True. This is not an intended use case of affine_grid. See the documentation of "
    "affine_grid for details."
)


@function()
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The places [N, H, W, 2] (or [N, D, H, W, 3]) that affine maps [N, 2, 3] ([N, 3, 4]) give.

    ``size`` is that of the image to be made, [N, C, H, W] or [N, C, D, H, W]. Without
    ``align_corners`` the corners of the outer elements lie at -1 and 1, else their middles do.
    Raises ShapeError and DTypeError.
    """
    if align_corners is None:
        warn(_CORNERS)
    if theta.dtype.kind != "f":
        raise GridError(f"Expected theta to have floating point type, but got {theta.dtype}")
    wanted = tuple(int(n) for n in size)
    rank = len(wanted) - 2
    if rank not in (2, 3):
        raise GridLimitError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size {tuple(wanted)}."
        )
    shape = "Nx2x3" if rank == 2 else "Nx3x4"
    if theta.ndim != 3 or tuple(theta.shape[1:]) != (rank, rank + 1):
        raise ShapeError(
            f"Expected a batch of {rank}D affine matrices of shape {shape} for size "
            f"{tuple(wanted)}. Got {theta.shape}."
        )
    if align_corners and 1 in wanted[2:]:
        warn(_UNIT)
    if theta.shape[0] != wanted[0]:
        raise ShapeError(
            f"Expected {wanted[0]} affine matrices for size {wanted}, but got {theta.shape[0]}"
        )
    if min(wanted) <= 0:
        raise ShapeError(f"Expected non-zero, positive output size. Got {tuple(wanted)}")
    node = theta.node
    base = _base_grid(wanted[2:], node, bool(align_corners))
    points = math.prod(wanted[2:])
    flat = ops.reshape(base, (1, points, rank + 1))
    flat = ops.broadcast_to(flat, (node.shape[0], points, rank + 1))
    grid = batched_product(flat, ops.permute(node, (0, 2, 1)))
    return give(
        ops.reshape(grid, (node.shape[0], *wanted[2:], rank)), "AffineGridGenerator", (theta,)
    )


class GridLimitError(LazytError, NotImplementedError):
    """A number of dimensions that there are no affine grids for."""


def _spaced(number: Expr, step: Expr, first: Expr) -> Expr:
    place = call("cast", number, dtype=step.dtype)
    return call("add", call("mul", place, step), first)


def _base_grid(sizes: tuple[int, ...], like: Node, corners: bool) -> Node:
    """[*sizes, rank + 1]: coordinates, the last dimension's first, and a 1."""
    rank = len(sizes)
    parts = []
    for axis in reversed(range(rank)):
        n = sizes[axis]
        first = -1.0 if corners else 1.0 / n - 1.0
        step = 2.0 / (n - 1) if corners and n > 1 else 2.0 / n
        if n == 1:
            first, step = 0.0, 0.0
        wide = like.dtype.compute
        nodes = (ops.iota(n), constant_of(step, wide), constant_of(first, wide))
        line = mixed(_spaced, nodes, like.dtype)
        line = ops.reshape(line, (*(n if i == axis else 1 for i in range(rank)), 1))
        parts.append(ops.broadcast_to(line, (*sizes, 1)))
    one = ops.broadcast_to(ops.constant(1, like.dtype), (*sizes, 1))
    return ops.concat([*parts, one], rank)


# ------------------------------------------------------------------ places


def _pixel(x: Expr, extent: Expr) -> Expr:
    """A coordinate in [-1, 1] in units of elements, the corners of the outer ones at the ends."""
    grown = call("mul", call("add", x, _of(1, x)), extent)
    return call("div", call("sub", grown, _of(1, x)), _of(2, x))


def _corner_pixel(x: Expr, extent: Expr) -> Expr:
    half = call("div", call("add", x, _of(1, x)), _of(2, x))
    return call("mul", half, call("sub", extent, _of(1, x)))


def _clipped(x: Expr, extent: Expr) -> Expr:
    """Kept inside; NaN becomes 0, and outside the gradient is 0."""
    zero, top = _of(0, x), call("sub", extent, _of(1, extent))
    low = call("where", call("gt", x, zero), x, zero)
    return call("where", call("lt", low, top), low, top)


def _mirrored(x: Expr, low: Expr, span: Expr) -> Expr:
    """``x`` reflected into [low, low + span] as often as it takes."""
    away = call("abs", call("sub", x, low))
    flips = call("floor", call("div", away, span))
    rest = call("sub", away, call("mul", flips, span))
    odd = call("eq", call("fmod", flips, _of(2, x)), _of(1, x))
    inside = call("where", odd, call("sub", span, rest), rest)
    folded = call("add", inside, low)
    return call("where", call("eq", span, _of(0, x)), _of(0, x), folded)


def _reflected(x: Expr, extent: Expr) -> Expr:
    # Mirrors lie at the outer elements' borders.
    return _clipped(_mirrored(x, _of(-0.5, x), extent), extent)


def _corner_reflected(x: Expr, extent: Expr) -> Expr:
    # Mirrors lie at the outer elements' middles.
    return _clipped(_mirrored(x, _of(0, x), call("sub", extent, _of(1, x))), extent)


def _bounded(place: Node, extent: int, border: str, corners: bool) -> Node:
    """A coordinate in units of elements, by the rule for what lies outside."""
    if border == "zeros":
        return place
    build = _clipped
    if border == "reflection":
        build = _corner_reflected if corners else _reflected
    return mixed(build, (place, constant_of(float(extent), place.dtype)))


def _position(x: Expr, extent: Expr) -> Expr:
    """A whole coordinate as a position; outside, and for NaN, any position within."""
    top = call("sub", extent, _of(1, x))
    safe = call("minimum", call("maximum", x, _of(0, x)), top)
    return call("cast", call("where", call("isnan", x), _of(0, x), safe), dtype=int64)


def _within(x: Expr, extent: Expr) -> Expr:
    return call("logical_and", call("ge", x, _of(0, x)), call("lt", x, extent))


def _read(flat: Node, spatial: tuple[int, ...], places: list[Node]) -> Node:
    """[N, C, P]: the image [N, C, *spatial] at whole coordinates [N, P] each; 0 outside."""
    total = keep = None
    for place, n in zip(places, spatial):
        extent = constant_of(float(n), place.dtype)
        at = mixed(_position, (place, extent))
        inside = mixed(_within, (place, extent))
        if total is None or keep is None:
            total, keep = at, inside
        else:
            total = ops.apply("add", ops.apply("mul", total, constant_of(n, int64)), at)
            keep = ops.apply("logical_and", keep, inside)
    assert total is not None and keep is not None
    found = ops.gather(flat, total, 2, 1)
    keep = ops.reshape(keep, (keep.shape[0], 1, keep.shape[1]))
    return choose(keep, found, constant_of(0, flat.dtype), flat.dtype)


# ------------------------------------------------------------------ weights


def _low_weight(x: Expr) -> Expr:
    return call("sub", call("add", call("floor", x), _of(1, x)), x)


def _high_weight(x: Expr) -> Expr:
    return call("sub", x, call("floor", x))


def _cubic_outer_low(x: Expr) -> Expr:
    return cubic_far(call("add", _high_weight(x), _of(1, x)), -0.75)


def _cubic_low(x: Expr) -> Expr:
    return cubic_near(_high_weight(x), -0.75)


def _cubic_high(x: Expr) -> Expr:
    return cubic_near(call("sub", _of(1, x), _high_weight(x)), -0.75)


def _cubic_outer_high(x: Expr) -> Expr:
    return cubic_far(call("sub", _of(2, x), _high_weight(x)), -0.75)


def _shifted(x: Expr, by: Expr) -> Expr:
    return call("add", call("floor", x), by)


def _nearest_place(x: Expr) -> Expr:
    return call("round", x)


_LINEAR = ((0, _low_weight), (1, _high_weight))
_CUBIC = ((-1, _cubic_outer_low), (0, _cubic_low), (1, _cubic_high), (2, _cubic_outer_high))


def _taps(place: Node, extent: int, mode: str, border: str, corners: bool) -> list[Any]:
    """The neighbours along one dimension: whole coordinates and weights (None for 1)."""
    if mode == "nearest":
        bounded = _bounded(place, extent, border, corners)
        return [(mixed(_nearest_place, (bounded,)), None)]
    if mode == "bilinear":
        place = _bounded(place, extent, border, corners)
    found = []
    for shift, weight in _LINEAR if mode == "bilinear" else _CUBIC:
        tap = mixed(_shifted, (place, constant_of(float(shift), place.dtype)))
        if mode == "bicubic":
            tap = _bounded(tap, extent, border, corners)
        tap = ops.detach(tap) if tap.needs_grad else tap
        found.append((tap, mixed(weight, (place,))))
    return found


def _sampled(image: Node, grid: Node, mode: str, border: str, corners: bool) -> Node:
    """[N, C, P] of an image [N, C, *spatial] and places [N, P, rank], both in one float type."""
    spatial = image.shape[2:]
    rank = len(spatial)
    flat = ops.reshape(image, (*image.shape[:2], math.prod(spatial)))
    choices = []
    for axis, extent in enumerate(spatial):
        column = rank - 1 - axis  # the grid names the last dimension first
        x = ops.slice_(grid, (0, 0, column), (*grid.shape[:2], 1), (1, 1, 1))
        x = ops.reshape(x, grid.shape[:2])
        build = _corner_pixel if corners else _pixel
        x = mixed(build, (x, constant_of(float(extent), x.dtype)))
        choices.append(_taps(x, extent, mode, border, corners))
    total = None
    for combined in _combinations(choices):
        part = _read(flat, spatial, [place for place, _ in combined])
        for _, weight in combined:
            if weight is not None:
                row = ops.reshape(weight, (weight.shape[0], 1, weight.shape[1]))
                part = ops.apply("mul", part, row)
        total = part if total is None else ops.apply("add", total, part)
    assert total is not None
    return total


def _combinations(choices: list[list[Any]]) -> list[list[Any]]:
    found: list[list[Any]] = [[]]
    for taps in choices:
        found = [[*head, tap] for head in found for tap in taps]
    return found


def _check_grid(input: Tensor, grid: Tensor, mode: str, border: str) -> None:
    if mode not in _MODES:
        raise GridError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', "
            f"but got: '{mode}'"
        )
    if border not in _BORDERS:
        raise GridError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
            f"'reflection', but got: '{border}'"
        )
    name, shape, places = "grid_sampler()", tuple(input.shape), tuple(grid.shape)
    if shape[:1] != places[:1]:
        raise ShapeError(
            f"{name}: expected grid and input to have same batch size, but got input with sizes "
            f"{list(shape)} and grid with sizes {list(places)}"
        )
    if places[-1:] != (len(shape) - 2,):
        raise ShapeError(
            f"{name}: expected grid to have size {len(shape) - 2} in last dimension, but got grid "
            f"with sizes {list(places)}"
        )
    for axis in range(2, len(shape)):
        if shape[axis] == 0:
            raise ShapeError(
                f"{name}: expected input to have non-empty spatial dimensions, but input has "
                f"sizes {list(shape)} with dimension {axis} being empty"
            )
    if len(shape) not in (4, 5) or len(places) != len(shape):
        raise ShapeError(
            f"{name}: expected {'5D' if len(shape) == 5 else '4D'} input and grid with same number "
            f"of dimensions, but got input with sizes {list(shape)} and grid with sizes "
            f"{list(places)}"
        )
    if len(shape) == 5 and mode == "bicubic":
        raise LazytError(f"{name}: bicubic interpolation only supports 4D input")
    if input.dtype is not grid.dtype:
        raise DTypeError(
            f"{name}: expected input and grid to have same dtype, but input has "
            f"{input.dtype.name} and grid has {grid.dtype.name}"
        )


declare_grad_fn("GridSampler2D", "GridSampler3D", second_order="none")


@function(cast="widest")
@in_full_precision
def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:  # fmt: skip
    """Images [N, C, H, W] read at places [N, h, w, 2] (x, y), or the same in three dimensions.

    -1 and 1 are the outer borders of the image, with ``align_corners`` the middles of its outer
    elements. Only the elements that are needed are gathered.

    Args:
        mode: bilinear (trilinear in three dimensions), nearest, or bicubic (two dimensions).
        padding_mode: what lies outside: zeros, the border element, or the image's reflection.

    Raises GridError (a ValueError), ShapeError and DTypeError.
    """
    require_tensor(input, "grid_sample")
    _check_grid(input, grid, mode, padding_mode)
    if align_corners is None:
        warn(_CORNERS)
    require_floating("grid_sampler_2d_cpu", input.dtype)
    wide = input.dtype.compute
    image, places = ops.cast(input.node, wide), ops.cast(grid.node, wide)
    sizes = places.shape[1:-1]
    flat = ops.reshape(places, (places.shape[0], math.prod(sizes), places.shape[-1]))
    node = _sampled(image, flat, mode, padding_mode, bool(align_corners))
    node = ops.cast(ops.reshape(node, (*image.shape[:2], *sizes)), input.dtype)
    return give(node, f"GridSampler{len(sizes)}D", (input, grid))
