"""Constant borders, and flat positions as coordinates."""

from __future__ import annotations

import math
from typing import Any

from lazyt import ops
from lazyt.errors import DTypeError, LazytError, ShapeError
from lazyt.functional.borders import as_cut
from lazyt.functional.creation import tensor
from lazyt.functional.operands import as_number, as_shape
from lazyt.ir.dtypes import int64
from lazyt.tensor import Tensor

__all__ = ["constant_pad_nd", "unravel_index"]


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
    if input.dtype.kind in "ui":
        number = int(number)
    low, high = tuple(max(a, 0) for a in before), tuple(max(b, 0) for b in after)
    return as_cut(ops.pad(node, low, high, (0,) * rank, number), input, max((*low, *high, 0)))


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
