"""Window functions for spectra: Hann, Hamming, Blackman, Bartlett and Kaiser.

A periodic window of n is the symmetric one of n + 1 without its last element.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lazyt import ops
from lazyt.errors import DTypeError, LazytError
from lazyt.functional.creation.creation import fresh
from lazyt.functional.operands import constant_of, expand_to
from lazyt.functional.type_promotion import as_dtype, get_default_dtype
from lazyt.handle.device import check_device
from lazyt.handle.function_table import function
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType, float64
from lazyt.ir.graph import Node

__all__ = ["bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"]


def _number(value: float) -> Node:
    return constant_of(float(value), float64)


def _window(
    name: str, length: int, periodic: bool, shape: Callable[[Node, int], Node], dtype: Any,
    device: Any, requires_grad: bool,
) -> Tensor:  # fmt: skip
    """``shape`` of the positions 0, 1 ... and of the last one; computed in float64."""
    place = check_device(device)
    if not isinstance(length, int):
        raise DTypeError(
            f"{name}(): argument 'window_length' (position 1) must be int, not "
            f"{type(length).__name__}"
        )
    wanted: DType = get_default_dtype() if dtype is None else as_dtype(dtype)
    if wanted.kind != "f":
        raise LazytError(f"{name} expects floating point dtypes, got: {wanted}")
    if length < 0:
        raise LazytError(f"{name} requires non-negative window_length, got window_length={length}")
    if length == 1:
        node = expand_to(_number(1), (1,))
    else:
        steps = ops.cast(ops.iota(length), float64)
        node = shape(steps, length if periodic else length - 1)
    return fresh(ops.cast(node, wanted), requires_grad, place)


def _cosines(*weights: float) -> Callable[[Node, int], Node]:
    """``w0 - w1 cos(t) + w2 cos(2t)`` over one turn."""

    def shape(place: Node, last: int) -> Node:
        total = expand_to(_number(weights[0]), place.shape)
        for order, weight in enumerate(weights[1:], 1):
            angle = ops.apply("mul", place, _number(2 * math.pi * order / max(last, 1)))
            wave = ops.apply("mul", ops.apply("cos", angle), _number(weight * (-1) ** order))
            total = ops.apply("add", total, wave)
        return total

    return shape


@function()
def hann_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Half a cosine wave raised to zero: ``0.5 - 0.5 cos(2 pi k / n)``.

    Raises LazytError for a negative length or a dtype that is not floating point.
    """
    return _window("hann_window", window_length, periodic, _cosines(0.5, 0.5), dtype, device,
                   requires_grad)  # fmt: skip


@function()
def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *,
    dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """``alpha - beta cos(2 pi k / n)``. Raises as ``hann_window`` does."""
    return _window("hamming_window", window_length, periodic, _cosines(alpha, beta), dtype, device,
                   requires_grad)  # fmt: skip


@function()
def blackman_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """``0.42 - 0.5 cos(2 pi k / n) + 0.08 cos(4 pi k / n)``. Raises as ``hann_window`` does."""
    return _window("blackman_window", window_length, periodic, _cosines(0.42, 0.5, 0.08), dtype,
                   device, requires_grad)  # fmt: skip


def _triangle(place: Node, last: int) -> Node:
    rise = ops.apply("mul", place, _number(2 / max(last, 1)))
    return ops.apply("minimum", rise, ops.apply("sub", _number(2), rise))


@function()
def bartlett_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A triangle. Raises as ``hann_window`` does."""
    return _window("bartlett_window", window_length, periodic, _triangle, dtype, device,
                   requires_grad)  # fmt: skip


@function()
def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """``i0(beta sqrt(1 - x * x)) / i0(beta)`` for x from -1 to 1.

    Raises as ``hann_window`` does.
    """

    def shape(place: Node, last: int) -> Node:
        x = ops.apply("sub", ops.apply("mul", place, _number(2 / max(last, 1))), _number(1))
        inner = ops.apply("sub", _number(1), ops.apply("mul", x, x))
        inner = ops.apply("sqrt", ops.apply("maximum", inner, _number(0)))
        top = ops.apply("i0", ops.apply("mul", inner, _number(beta)))
        return ops.apply("div", top, ops.apply("i0", _number(beta)))

    return _window("kaiser_window", window_length, periodic, shape, dtype, device, requires_grad)
