"""``pad``: borders of zeros, mirrored, repeated or wrapped around, made of slices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lazyt import ops
from lazyt.errors import DTypeError, LazytError, ShapeError
from lazyt.functional.creation.creation import tensor
from lazyt.functional.creation.nesting import refuse_number
from lazyt.functional.operands import as_number, as_shape, require_tensor
from lazyt.functional.result_layout import channels_like_first
from lazyt.functional.results import give
from lazyt.functional.type_promotion import c_name
from lazyt.handle.autocast import raised
from lazyt.handle.dispatch import lay_out, wrap
from lazyt.handle.function_table import declare_grad_fn, function
from lazyt.handle.layout import strides_like
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import int64
from lazyt.ir.graph import Node

__all__ = [
    "constant_pad_nd",
    "unravel_index",
]

_MODES = ("constant", "reflect", "replicate", "circular")


class PaddingError(LazytError, NotImplementedError):
    """A combination of dimensions, padding length and mode that does not exist."""


def padded(
    node: Node, low: Sequence[int], high: Sequence[int], fill: float | int | bool = 0.0
) -> Node:
    """The last dimensions with ``fill`` around them; negative amounts cut off."""
    lead = len(node.shape) - len(low)
    if any(v < 0 for v in (*low, *high)):
        starts = (*(0,) * lead, *(max(-v, 0) for v in low))
        cut = (*(0,) * lead, *(max(-v, 0) for v in high))
        sizes = tuple(n - a - b for n, a, b in zip(node.shape, starts, cut))
        node = ops.slice_(node, starts, sizes, (1,) * len(sizes))
        low, high = tuple(max(v, 0) for v in low), tuple(max(v, 0) for v in high)
    if not any(low) and not any(high):
        return node
    zeros = (0,) * lead
    return ops.pad(node, (*zeros, *low), (*zeros, *high), (0,) * len(node.shape), fill)


_TITLES = {"reflect": "Reflection", "replicate": "Replication", "circular": "Circular"}
declare_grad_fn("ReflectionPad1D", "ReplicationPad1D", second_order="zeros")
declare_grad_fn(
    "ReflectionPad2D", "ReflectionPad3D", "ReplicationPad2D", "ReplicationPad3D",
    second_order="zeros", layout=channels_like_first,
)  # fmt: skip


def as_cut(node: Node, input: Tensor, most: int) -> Tensor:
    """The result of padding with a number: in the order of ``input`` where it only cuts.

    Args:
        most: the largest amount.
    """
    if most > 0 or input._view is None:
        return give(node, "ConstantPadNd", (input,))
    result = wrap(node, input, name="ConstantPadNd")
    return lay_out(result, strides_like(tuple(result.shape), input.strides))


@function()
def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """``input`` padded at (low, high) of the last dimension, then the one before, and so on.

    Negative amounts cut off. ``mode`` is constant (any dimensions), reflect, replicate or circular
    (the last one to three of a tensor of two to five dimensions). Raises ShapeError for amounts
    that do not fit, PaddingError (a NotImplementedError) for modes and dimensions that do not
    exist, LazytError for a ``value`` without its mode.
    """
    require_tensor(input, "pad")
    if not isinstance(pad, (tuple, list)):
        raise DTypeError(
            f"pad(): argument 'pad' (position 2) must be tuple of ints, not {type(pad).__name__}"
        )
    pad = as_shape((pad,), "pad")
    if len(pad) % 2:
        raise ShapeError("Padding length must be divisible by 2")
    if len(pad) > 2 * len(input.shape):
        raise ShapeError(
            "Padding length should be less than or equal to two times the input dimension but got "
            f"padding length {len(pad)} and input of dimension {len(input.shape)}"
        )
    low, high = tuple(pad[-2::-2]), tuple(pad[::-2])
    if mode not in _MODES:
        raise PaddingError(f"Unrecognised padding mode {mode}")
    if mode == "constant":
        _check_room(tuple(input.shape), low, high)
        fill = 0.0 if value is None else float(value)
        refuse_number(fill, input.dtype)
        return as_cut(padded(input.node, low, high, fill), input, max((*low, *high), default=0))
    if value is not None and value != 0:
        raise LazytError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if not 2 <= len(input.shape) <= 5 or len(input.shape) - len(low) not in (1, 2):
        raise PaddingError(
            f"Padding size {len(pad)} is not supported for {len(input.shape)}D input tensor."
        )
    if mode == "replicate" or (mode == "reflect" and len(low) < 3):  # as autocast's list has it
        input = raised(input)
    node = input.node
    first = len(node.shape) - len(low)
    build = {"reflect": _mirrored, "replicate": _repeated, "circular": _wrapped}[mode]
    for axis, (a, b) in enumerate(zip(low, high), first):
        if a or b:
            node = build(node, axis, a, b)
    return give(node, f"{_TITLES[mode]}Pad{len(low)}D", (input,))


def _check_room(shape: tuple[int, ...], low: Sequence[int], high: Sequence[int]) -> None:
    lead = len(shape) - len(low)
    for axis, (a, b) in enumerate(zip(low, high), lead):
        if shape[axis] + a + b < 0:
            raise ShapeError(
                f"The input size {shape[axis]}, plus negative padding {a} and {b}, resulted in a "
                f"negative output size, which is invalid. Check dimension {axis} of your input."
            )


def _part(node: Node, axis: int, start: int, stop: int) -> Node:
    """Elements [start, stop) along an axis; raises ShapeError where the padding ate them up."""
    if stop < start:
        raise ShapeError(
            f"pad: negative padding leaves nothing of dimension {axis} of size {node.shape[axis]}"
        )
    starts, sizes = [0] * len(node.shape), list(node.shape)
    starts[axis], sizes[axis] = start, stop - start
    return ops.slice_(node, starts, sizes, (1,) * len(sizes))


def _join(parts: list[Node], axis: int) -> Node:
    return ops.concat([p for p in parts if p.shape[axis]] or parts[1:2], axis)


def _mirrored(node: Node, axis: int, low: int, high: int) -> Node:
    extent = node.shape[axis]
    if max(low, high) >= extent:
        raise ShapeError(
            "Argument #4: Padding size should be less than the corresponding input dimension, but "
            f"got: padding ({low}, {high}) at dimension {axis} of input {list(node.shape)}"
        )
    before = _part(node, axis, 1, max(low, 0) + 1)
    middle = _part(node, axis, max(-low, 0), extent - max(-high, 0))
    after = _part(node, axis, extent - 1 - max(high, 0), extent - 1)
    return _join([ops.flip(before, (axis,)), middle, ops.flip(after, (axis,))], axis)


def _repeated(node: Node, axis: int, low: int, high: int) -> Node:
    extent = node.shape[axis]
    if not extent:
        raise ShapeError(f"pad: nothing to repeat in dimension {axis} of size 0")
    middle = _part(node, axis, max(-low, 0), extent - max(-high, 0))
    return _join([_edge(node, axis, 0, low), middle, _edge(node, axis, extent - 1, high)], axis)


def _edge(node: Node, axis: int, place: int, count: int) -> Node:
    """One place along an axis, ``count`` times (not at all for negative counts)."""
    shape = (*node.shape[:axis], max(count, 0), *node.shape[axis + 1 :])
    return ops.expand(_part(node, axis, place, place + 1), shape)


def _wrapped(node: Node, axis: int, low: int, high: int) -> Node:
    extent = node.shape[axis]
    if max(low, high) > extent:
        raise ShapeError("Padding value causes wrapping around more than once.")
    if low + high + extent < 0:
        raise ShapeError("Negative padding value is resulting in an empty dimension")
    middle = _part(node, axis, max(-low, 0), extent - max(-high, 0))
    left = middle.shape[axis]
    if max(low, high) > left:
        raise ShapeError("Padding value causes wrapping around more than once.")
    parts = [
        _part(middle, axis, left - max(low, 0), left), middle,
        _part(middle, axis, 0, max(high, 0)),
    ]  # fmt: skip
    return _join(parts, axis)


# Constant borders, and flat positions as coordinates.


@function(layout=channels_like_first)
def constant_pad_nd(input: Tensor, pad: Any, value: Any = 0) -> Tensor:
    """``input`` with borders of ``value``.

    Args:
        pad: so many elements before and after, for the last dimension first; negative ones cut.

    Raises LazytError for an odd number of pads, too many, or cuts beyond the other end.
    """
    widths, shape = as_shape((pad,), "constant_pad_nd"), tuple(input.shape)
    if len(widths) % 2:
        raise LazytError(f"Length of pad must be even but instead it equals {len(widths)}")
    if len(widths) > 2 * len(shape):
        raise LazytError(
            "Length of pad should be no more than twice the number of dimensions of the input. Pad "
            f"length is {len(widths)}while the input has {len(shape)}dimensions."
        )
    rank = len(shape)
    before, after = [0] * rank, [0] * rank
    for place in range(len(widths) // 2):
        before[rank - 1 - place], after[rank - 1 - place] = widths[2 * place : 2 * place + 2]
    sizes = [n + min(a, 0) + min(b, 0) for n, a, b in zip(shape, before, after)]
    if any(n < 0 for n in sizes):
        raise LazytError("narrow(): length must be non-negative.")
    node = input.node
    if tuple(sizes) != shape:
        starts = tuple(max(-a, 0) for a in before)
        node = ops.slice_(node, starts, tuple(sizes), (1,) * rank)
    number = as_number(value)
    if number is None:
        raise DTypeError(f"constant_pad_nd(): argument 'value' (position 3) must be Number, not "
                         f"{type(value).__name__}")  # fmt: skip
    if isinstance(number, complex):
        if input.dtype.kind != "c":
            name = c_name(input.dtype)
            raise LazytError(f"value cannot be converted to type {name} without overflow")
    elif input.dtype.kind in "ui":
        number = int(number)
    low, high = tuple(max(a, 0) for a in before), tuple(max(b, 0) for b in after)
    return as_cut(ops.pad(node, low, high, (0,) * rank, number), input, max((*low, *high, 0)))


@function()
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Positions in the flattened ``shape`` as one coordinate tensor per dimension.

    Raises DTypeError for indices that are no whole numbers and ShapeError for negative extents.
    """
    if indices.dtype.kind not in "ui":
        raise DTypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    extents = (int(shape),) if isinstance(shape, int) else tuple(int(n) for n in shape)
    if any(n < 0 for n in extents):
        raise ShapeError(f"'shape' cannot have negative values, but got {extents}")
    pitches = [math.prod(extents[place + 1 :]) for place in range(len(extents))]
    table = indices.to(int64).unsqueeze(-1) // tensor(pitches, dtype=int64)
    found: tuple[Tensor, ...] = (table % tensor(extents, dtype=int64)).unbind(-1)
    return found
