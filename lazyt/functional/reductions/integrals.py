"""Integrals by the trapezoidal rule, and derivatives by differences, of sampled functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazyt import ops
from lazyt.errors import BoundsError, DTypeError, LazytError, ShapeError
from lazyt.functional.operands import as_number, normalize_dim, normalize_dims, require_tensor
from lazyt.functional.results import give
from lazyt.functional.shapes.joining import cat
from lazyt.functional.type_promotion import get_default_dtype
from lazyt.handle.function_table import function
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import bool_, uint8

__all__ = ["cumulative_trapezoid", "gradient", "trapezoid", "trapz"]


def _neighbours(y: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """All elements along ``axis`` but the last, and all but the first."""
    count = max(y.shape[axis] - 1, 0)
    return y.narrow(axis, 0, count), y.narrow(axis, min(1, y.shape[axis]), count)


def _check_samples(y: Tensor, x: Tensor | None, dim: int, function: str) -> int:
    if not y.shape:
        raise BoundsError(f"Dimension specified as {dim} but tensor has no dimensions")
    axis = normalize_dim(dim, len(y.shape))
    for name, item in (("y", y), ("x", x)):
        if item is not None and item.dtype is bool_:
            raise DTypeError(
                f"{function}: received a bool input for `{name}`, but bool is not supported"
            )
    if x is not None and len(x.shape) == 1 and x.shape[0] != y.shape[axis]:
        raise ShapeError(f"{function}: There must be one `x` value for each sample point")
    return axis


def _widths(y: Tensor, x: Tensor, axis: int) -> Tensor:
    """The distances of neighbouring sample points, of a shape that broadcasts with ``y``."""
    if len(x.shape) == 1:
        x = x.reshape([-1 if i == axis else 1 for i in range(len(y.shape))])
    elif len(x.shape) < len(y.shape):
        x = x.reshape([1] * (len(y.shape) - len(x.shape)) + list(x.shape))
    left, right = _neighbours(x, axis)
    gaps: Tensor = right - left
    return gaps


@function()
def trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1
) -> Tensor:
    """The integral along ``dim`` of samples ``dx`` (1 by default) apart, or taken at ``x``.

    Whole numbers give the default float type. Raises BoundsError, ShapeError, and DTypeError for
    bool.
    """
    require_tensor(y, "trapezoid", "y")
    axis = _check_samples(y, x, dim, "trapezoid")
    if y.shape[axis] == 0:
        shape = tuple(n for i, n in enumerate(y.shape) if i != axis)
        return give(ops.broadcast_to(ops.constant(0, y.dtype), shape), "", ())
    result: Tensor
    if x is not None:
        left, right = _neighbours(y, axis)
        result = ((left + right) * _widths(y, x, axis)).sum(axis) / 2.0
        return result
    ends = y.select(axis, 0) + y.select(axis, y.shape[axis] - 1)
    result = (y.sum(axis) - ends * 0.5) * (1.0 if dx is None else dx)
    return result


@function()
def trapz(y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1) -> Tensor:
    """``trapezoid``."""
    require_tensor(y, "trapz", "y")
    return trapezoid(y, x, dx=dx, dim=dim)


@function()
def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1
) -> Tensor:
    """The integral along ``dim`` up to each sample but the first; arguments as ``trapezoid``."""
    require_tensor(y, "cumulative_trapezoid", "y")
    axis = _check_samples(y, x, dim, "cumulative_trapezoid")
    left, right = _neighbours(y, axis)
    result: Tensor
    if x is not None:
        result = ((left + right) * _widths(y, x, axis)).cumsum(axis) / 2.0
    else:
        result = (left + right).cumsum(axis) * ((1.0 if dx is None else dx) / 2.0)
    return result


# ------------------------------------------------------------------- derivatives


@function()
def gradient(
    input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """The derivatives of samples along every dimension, or along those of ``dim``.

    Args:
        spacing: the distance of samples, one for each dimension, or a vector of coordinates for
            each.
        edge_order: 1 or 2, the order of the one-sided differences at the ends.

    Second order inside (Fornberg, "Generation of finite difference formulas on arbitrarily spaced
    grids", 1988). Raises LazytError, ShapeError and BoundsError.
    """
    if require_tensor(input, "gradient").dtype is uint8:
        raise DTypeError("torch.gradient does not support uint8 input.")
    rank = len(input.shape)
    axes = [*range(rank)] if dim is None else _axes(dim, rank)
    steps = _spacings(spacing, axes, rank, dim is not None)
    if edge_order not in (1, 2):
        raise LazytError("torch.gradient only supports edge_order=1 and edge_order=2.")
    for axis in axes:
        if input.shape[axis] < edge_order + 1:
            raise ShapeError(
                "torch.gradient expected each dimension size to be at least edge_order+1"
            )
    return tuple(_derivative(input, axis, step, edge_order) for axis, step in zip(axes, steps))


def _axes(dim: Any, rank: int) -> list[int]:
    places = list(dim) if isinstance(dim, (tuple, list)) else [dim]
    axes = [normalize_dim(d, rank) for d in places]
    if axes:
        normalize_dims(axes, rank)
    return axes


def _spacings(spacing: Any, axes: Sequence[int], rank: int, given: bool) -> list[Any]:
    """A number or a vector of coordinates for each axis."""
    number = as_number(spacing)
    if spacing is None:
        return [1] * len(axes)
    if isinstance(spacing, Tensor) and not spacing.shape:
        return [spacing] * len(axes)
    if number is not None:
        return [number] * len(axes)
    if not isinstance(spacing, (tuple, list)):
        raise DTypeError(
            "gradient() received an invalid combination of arguments: spacing must be a number or "
            f"a list of numbers or vectors, not {type(spacing).__name__}"
        )
    if len(spacing) != len(axes) and given:
        raise LazytError(
            "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim "
            f"arguments to have the same length, but got a spacing argument of length "
            f"{len(spacing)} and a dim argument of length {len(axes)}."
        )
    if len(spacing) != len(axes):
        raise LazytError(
            "torch.gradient expected spacing to be unspecified, a scalar, or a list of length "
            f"equal to 'self.dim() = {rank}', since dim argument was not given, but got a list of "
            f"length {len(spacing)}"
        )
    return list(spacing)


def _derivative(y: Tensor, axis: int, step: Any, edge_order: int) -> Tensor:
    if y.dtype.kind not in "fbc":
        y = y.to(get_default_dtype())
    count = y.shape[axis]
    parts = [y.narrow(axis, i, count - 2) for i in range(3)] if count > 2 else []
    low = [y.narrow(axis, i, 1) for i in range(min(3, count))]
    high = [y.narrow(axis, count - min(3, count) + i, 1) for i in range(min(3, count))]
    if isinstance(step, Tensor) and step.shape:
        return _on_coordinates(parts, low, high, step, axis, edge_order)
    pieces = [(parts[2] - parts[0]) / (2 * step)] if parts else []
    if edge_order == 1:
        first, last = (low[1] - low[0]) / step, (high[-1] - high[-2]) / step
    else:
        first = (low[0] * -1.5 + low[1] * 2 - low[2] * 0.5) / step
        last = (high[-1] * 1.5 - high[-2] * 2 + high[-3] * 0.5) / step
    return cat([first, *pieces, last], axis)


def _on_coordinates(
    parts: list[Tensor], low: list[Tensor], high: list[Tensor], x: Tensor, axis: int,
    edge_order: int,
) -> Tensor:  # fmt: skip
    """Differences between samples at the points ``x``."""
    rank, count = len(low[0].shape), x.shape[0]
    points = x.reshape([-1 if i == axis else 1 for i in range(rank)])
    left, right = _neighbours(points, axis)
    widths = right - left
    pieces = []
    if parts:
        a, b = widths.narrow(axis, 0, count - 2), widths.narrow(axis, 1, count - 2)
        inner = parts[1] * ((b - a) / (a * b)) + parts[2] * (a / (b * (a + b)))
        pieces.append(inner - parts[0] * (b / (a * (a + b))))
    start, stop = widths.narrow(axis, 0, 1), widths.narrow(axis, count - 2, 1)
    if edge_order == 1:
        first, last = (low[1] - low[0]) / start, (high[-1] - high[-2]) / stop
    else:
        a, b = start, widths.narrow(axis, 1, 1)
        first = low[1] * ((a + b) / (a * b)) - low[2] * (a / (b * (a + b)))
        first = first - low[0] * ((2 * a + b) / (a * (a + b)))
        a, b = widths.narrow(axis, count - 3, 1), stop
        last = high[-3] * (b / (a * (a + b))) - high[-2] * ((a + b) / (a * b))
        last = last + high[-1] * ((2 * b + a) / (b * (a + b)))
    return cat([first, *pieces, last], axis)
