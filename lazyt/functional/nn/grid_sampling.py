"""Spatial transformers (Jaderberg et al. 2015): grids of places, and images read at them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lazyt import ops
from lazyt.errors import DTypeError, LazytError, ShapeError, warn
from lazyt.functional.linalg.products import batched_product
from lazyt.functional.nn.interpolation import cubic_far, cubic_near
from lazyt.functional.operands import choose, constant_of, mixed, require_tensor
from lazyt.functional.results import give
from lazyt.functional.type_promotion import require_floating
from lazyt.handle.autocast import in_full_precision
from lazyt.handle.function_table import function
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import int64
from lazyt.ir.graph import Node
from lazyt.ir.scalar import Expr, call, const

_MODES = ("bilinear", "nearest", "bicubic")
_BORDERS = ("zeros", "border", "reflection")


class GridError(LazytError, ValueError):
    """A mode of sampling that does not exist, or a size of a grid that is impossible."""


def _of(value: float, like: Expr) -> Expr:
    return const(value, like.dtype)


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


def _rounded(x: Expr) -> Expr:
    return call("round", x)


_LINEAR = ((0, _low_weight), (1, _high_weight))
_CUBIC = ((-1, _cubic_outer_low), (0, _cubic_low), (1, _cubic_high), (2, _cubic_outer_high))


def _taps(place: Node, extent: int, mode: str, border: str, corners: bool) -> list[Any]:
    """The neighbours along one dimension: whole coordinates and weights (None for 1)."""
    if mode == "nearest":
        bounded = _bounded(place, extent, border, corners)
        return [(mixed(_rounded, (bounded,)), None)]
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


def _check(input: Tensor, grid: Tensor, mode: str, border: str) -> None:
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
    _check(input, grid, mode, padding_mode)
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
