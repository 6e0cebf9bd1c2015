"""Whole slices written where a vector of indices says: index_add, index_copy and index_fill."""

from __future__ import annotations

from typing import Any

from lazyt import ops
from lazyt.dispatch import type_title, wrap
from lazyt.errors import BoundsError, DTypeError, ShapeError
from lazyt.functional.choice import choose
from lazyt.functional.nesting import refuse_number, refuse_value
from lazyt.functional.operands import constant_of, expand_to, normalize_dim
from lazyt.functional.picking import scatter_of, value_range, within, wrapped
from lazyt.functional.results import give
from lazyt.ir.dtypes import bool_, int64
from lazyt.ir.graph import Node, Shape
from lazyt.tensor import Tensor

__all__ = ["index_add", "index_copy", "index_fill"]


def _along(
    input: Tensor, dim: int, index: Tensor, source: Any, kind: str, function: str
) -> Node:  # fmt: skip
    """Whole slices of ``input`` along ``dim`` written at ``index``."""
    axis = normalize_dim(dim, len(input.shape))
    base = input.node
    if len(index.shape) > 1:  # before its dtype is looked at
        raise BoundsError("index is supposed to be a vector")
    shape = base.shape or (1,)
    extent = shape[axis]

    def complain(bad: int) -> Exception:
        if function == "index_add" and len(input.shape) < 2:
            return BoundsError("index out of range in self")
        said = f"{function}_(): " if function == "index_copy" else ""
        return BoundsError(
            f"{said}index {bad} is out of bounds for dimension {axis} with size {extent}"
        )

    node = index.node
    if node.size and 0 not in shape[:axis] + shape[axis + 1 :]:
        low, high = value_range(node, within(0, extent - 1))
        if high >= extent or low < (-extent if function == "index_fill" else 0):
            raise complain(high if high >= extent else low)
        if low < 0:
            node = wrapped(ops.cast(node, int64), extent)
    places = ops.reshape(ops.cast(node, int64), (node.size,))
    slices = (*shape[:axis], node.size, *shape[axis + 1 :])
    if isinstance(source, Tensor):
        _check_source(input, source, slices, axis, function)
        updates = ops.reshape(source.node, slices)
    else:
        refuse_number(source, base.dtype)
        updates = expand_to(constant_of(source, base.dtype), slices)
    if not updates.size:
        return base
    return ops.reshape(
        scatter_of(ops.reshape(base, shape), places, updates, axis, kind), base.shape
    )


def _check_source(input: Tensor, source: Tensor, slices: Shape, axis: int, function: str) -> None:
    own, given = tuple(input.shape), tuple(source.shape)
    if source.dtype is not input.dtype:
        kinds = type_title(input.dtype), type_title(source.dtype)
        if function == "index_copy":
            raise DTypeError(
                "index_copy_(): self and source expected to have the same dtype, but got (self) "
                f"{kinds[0]} and (source) {kinds[1]}"
            )
        raise DTypeError(
            f"{function}_(): self ({kinds[0]}) and source ({kinds[1]}) must have the same "
            "scalar type"
        )
    if (own and given == slices) or (not given and len(own) < 2 and slices == (1,)):
        return
    if function == "index_copy" and own and given and len(given) != len(own):
        raise BoundsError(
            "index_copy_(): When source and destination are not scalars, their dimensionality must "
            f"match. Source dimensionality ({len(given)}), destination dimensionality ({len(own)})"
        )
    if own and len(given) == len(own) and given[axis] != slices[axis]:
        if function == "index_copy":
            raise BoundsError(
                f"index_copy_(): Number of indices ({slices[axis]}) should be equal to "
                f"source.size(dim) ({given[axis]})"
            )
        raise ShapeError(
            f"{function}_(): Number of indices ({slices[axis]}) should be equal to "
            f"source.size(dim): ({given[axis]}), for dim: {axis}"
        )
    raise ShapeError(
        "source tensor shape must match self tensor shape, excluding the specified "
        f"dimension. Got self.shape = {list(own)} source.shape = {list(given)}"
    )


def index_add(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """A copy of ``input`` with slices of ``alpha * source`` added at ``index``.

    Raises ShapeError, DTypeError and BoundsError as PyTorch does.
    """
    if source.dtype.kind in "uif":
        refuse_number(alpha, source.dtype)
        alpha = alpha if source.dtype.kind == "f" else int(alpha)
    scaled = source if alpha == 1 else source * alpha
    node = _along(input, dim, index, scaled, "add", "index_add")
    return give(node, "IndexAdd", (input, source, index), out)


def index_copy(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, out: Tensor | None = None
) -> Tensor:
    """A copy of ``input`` with the slices at ``index`` replaced by ``source``.

    Raises ShapeError, DTypeError and BoundsError as PyTorch does.
    """
    if index.dtype is not int64 and len(index.shape) < 2:
        raise DTypeError(
            "index_copy_(): Expected a long tensor for index, but got " + type_title(index.dtype)
        )
    node = _along(input, dim, index, source, "set", "index_copy")
    return give(node, "IndexCopy", (input, source, index), out)


def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """A copy of ``input`` with the slices at ``index`` filled with a number.

    Raises ShapeError and BoundsError as PyTorch does.
    """
    if index.dtype is not int64:
        raise BoundsError("index_fill_(): Expected dtype int64 for index.")
    if isinstance(value, Tensor):
        if value.shape:
            raise ShapeError(
                "index_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                f"{len(value.shape)} dimension(s)."
            )
        refuse_value(value, input.dtype)
        fill = value.to(input.dtype)
        shape = list(input.shape) or [1]
        shape[normalize_dim(dim, len(input.shape))] = index.shape.numel()
        value = value.to(input.dtype).expand(shape)
        value = value if input.shape else value.reshape(())
    if isinstance(value, Tensor) and value.requires_grad:
        # Where an index is named twice, the value gets the gradient of the element once.
        filled = expand_to(constant_of(False, bool_), tuple(input.shape))
        hit = _along(wrap(filled), dim, index, True, "set", "index_fill")
        node = choose(hit, expand_to(fill.node, hit.shape), input.node, input.dtype)
        return give(node, "IndexFill", (input, value, index))
    node = _along(input, dim, index, value, "set", "index_fill")
    return give(node, "IndexFill", (input, index))
