"""In-place functions that are no in-place form of another function."""

from __future__ import annotations

from typing import Any

from lazyt import ops
from lazyt.dispatch import check_writable
from lazyt.errors import DTypeError, LazytError, ShapeError
from lazyt.functional.choice import without_slope
from lazyt.functional.nesting import refuse_number
from lazyt.functional.operands import (
    as_number,
    broadcast_pair,
    constant_of,
    expand_to,
    require_tensor,
)
from lazyt.functional.results import give, overwrite
from lazyt.ir.forms import use
from lazyt.overlap import refuse_overlap
from lazyt.tape import titled
from lazyt.tensor import Tensor

__all__ = ["fill"]


def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Write ``src``, broadcast and converted, into this tensor. Raises ShapeError."""
    if as_number(src) is not None:
        return fill_(self, src)
    if not isinstance(src, Tensor):
        raise DTypeError(
            f"copy_(): argument 'other' (position 1) must be Tensor, not {type(src).__name__}"
        )
    check_writable(self)
    shape = tuple(self.shape)
    refuse_overlap(self, (src,))
    if use.any:
        src = src.to(self.device)
    common = broadcast_pair(shape, tuple(src.shape))
    if common != shape:
        raise ShapeError(
            f"output with shape {list(shape)} doesn't match the broadcast shape {list(common)}"
        )
    node = expand_to(ops.cast(src.node, self.dtype), shape)
    if self._view is not None:
        self._view.refuse_repeats()
    return overwrite(self, node, "Copy", (self, src))


def fill_(self: Tensor, value: Any) -> Tensor:
    """Write one value everywhere. Raises LazytError for a tensor with dimensions."""
    if isinstance(value, Tensor):
        if value.shape:
            raise LazytError(
                "fill_ only supports 0-dimension value tensor but got tensor with "
                f"{len(value.shape)} dimensions."
            )
        filler = ops.cast(value.node, self.dtype)
    else:
        number = as_number(value)
        if number is None:
            raise DTypeError(
                f"fill_(): argument 'value' (position 1) must be Number, not {type(value).__name__}"
            )
        refuse_number(number, self.dtype)
        filler = constant_of(number, self.dtype)
    return overwrite(self, expand_to(filler, tuple(self.shape)), "Fill", (self, value))


def fill(input: Tensor, value: Any) -> Tensor:
    """A copy of ``input``'s size and dtype with one value everywhere. Raises as ``fill_`` does."""
    if isinstance(value, Tensor) or not require_tensor(input, "fill").requires_grad:
        return fill_(input.clone(), value)
    filled = fill_(input.detach().clone(), value)
    return give(without_slope(filled.node, input.node), "Fill", (input,))


def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Write one value on the main diagonal.

    Args:
        wrap: whether the diagonal of a tall matrix begins anew below its square part.

    Raises LazytError for a vector, and for more than two dimensions of unequal size.
    """
    shape = tuple(self.shape)
    if len(shape) < 2:
        raise LazytError("dimensions must larger than 1")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise LazytError("all dimensions of input must be of equal length")
    step, extent = sum(self.strides), min(shape)
    fill_(self.as_strided((extent,), (step,), self.storage_offset()), fill_value)
    if wrap and len(shape) == 2 and shape[0] > shape[1] + 1:
        for top in range(shape[1] + 1, shape[0], shape[1] + 1):
            fill_(self[top : top + shape[1]].diagonal(), fill_value)
    return self


def zero_(self: Tensor) -> Tensor:
    """Write zeros everywhere."""
    before = self._fn
    fill_(self, 0)
    return self if self._view is not None or self._fn is before else titled(self, "ZeroBackward0")
