"""Elements repeated, rolled around, mirrored and turned."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from lazyt import ops
from lazyt.errors import DTypeError, LazytError, NoKernelError, ShapeError
from lazyt.functional.operands import (
    as_shape,
    existing_dim,
    expand_to,
    normalize_dim,
    normalize_dims,
    require_tensor,
    sizes_by_name,
)
from lazyt.functional.results import give
from lazyt.handle.dispatch import lay_out, type_title
from lazyt.handle.function_table import function
from lazyt.handle.layout import strides_like
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import int32, int64
from lazyt.ir.graph import Node

__all__ = [
    "flip", "fliplr", "flipud", "repeat", "repeat_interleave", "roll", "rot90", "tile",
]  # fmt: skip


@function(method=True)
@sizes_by_name("repeats")
def repeat(input: Tensor, *repeats: Any) -> Tensor:
    """``input`` copied ``repeats[i]`` times along dimension i. Raises ShapeError for too few."""
    counts = as_shape(repeats, "repeat")
    shape = tuple(input.shape)
    if len(counts) < len(shape):
        raise ShapeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of "
            "tensor"
        )
    if any(n < 0 for n in counts):
        lead = (1,) * (len(counts) - len(shape)) + shape
        sizes = [c * n for c, n in zip(counts, lead)]
        raise ShapeError(f"Trying to create tensor with negative dimension {min(sizes)}: {sizes}")
    return give(tiled_node(input.node, counts), "Repeat", (input,))


def tiled_node(node: Node, counts: Sequence[int]) -> Node:
    """``node`` repeated: each dimension gets a new one before it, which is expanded."""
    shape = (1,) * (len(counts) - len(node.shape)) + node.shape
    spread = tuple(n for extent in shape for n in (1, extent))
    wide = tuple(n for c, extent in zip(counts, shape) for n in (c, extent))
    node = expand_to(ops.reshape(node, spread), wide)
    return ops.reshape(node, tuple(c * n for c, n in zip(counts, shape)))


@function(method=True)
@sizes_by_name("dims")
def tile(input: Tensor, *dims: Any) -> Tensor:
    """As ``repeat``, with missing counts as 1."""
    require_tensor(input, "tile")
    counts = as_shape(dims, "tile")
    counts = (1,) * (len(input.shape) - len(counts)) + counts
    return repeat(input, counts)


@function(method=True, fractions=("repeats",))
def repeat_interleave(
    input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Every element repeated in place: a number of times, or as often as a tensor says.

    With one argument, the positions that a vector of counts repeats. Raises ShapeError for another
    number of counts than elements, LazytError for negative ones.
    """
    require_tensor(input, "repeat_interleave")
    if repeats is None:
        if input.ndim != 1:
            raise LazytError("repeat_interleave only accept 1D vector as repeat")
        return _repeated_positions(input)
    if dim is None:
        input, dim = input.reshape(-1), 0
    axis = normalize_dim(dim, len(input.shape))
    shape = (*input.shape, 1) if not input.shape else tuple(input.shape)
    if isinstance(repeats, (list, tuple)):
        from lazyt.functional.creation.creation import tensor

        repeats = tensor(repeats)
    if isinstance(repeats, Tensor) and repeats.node.size == 1:
        repeats = int(repeats.item())
    if isinstance(repeats, Tensor):
        if repeats.ndim != 1 or repeats.shape[0] != shape[axis]:
            raise ShapeError(
                "repeats must have the same size as input along dim, but got repeats.size(0) = "
                f"{repeats.shape[0]} and input.size({axis}) = {shape[axis]}"
            )
        index = _repeated_positions(repeats).node
        return give(ops.gather(input.node, index, axis), "IndexSelect", (input,))
    repeats = operator.index(repeats)
    if repeats < 0:
        raise LazytError("Repeats must be non-negative")
    head, tail = shape[: axis + 1], shape[axis + 1 :]
    node = ops.reshape(input.node, (*head, 1, *tail))
    node = expand_to(node, (*head, repeats, *tail))
    out = (*shape[:axis], shape[axis] * repeats, *tail)
    return give(ops.reshape(node, out), "RepeatInterleave", (input,))


def _repeated_positions(counts: Tensor) -> Tensor:
    """Every position as often as ``counts`` says, whose values are looked at."""
    from lazyt.functional.creation.creation import tensor

    if counts.dtype not in (int32, int64):
        raise NoKernelError(
            f"\"repeat_interleave_cpu\" not implemented for '{type_title(counts.dtype)}'"
        )
    numbers = counts.tolist()
    if any(n < 0 for n in numbers):
        raise LazytError("repeats can not be negative")
    found: Tensor = tensor([i for i, n in enumerate(numbers) for _ in range(n)], dtype=int64)
    return found


@function(method=True)
def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """Elements moved along dimensions; what falls off an end comes back at the other."""
    require_tensor(input, "roll")
    moves = shifts if isinstance(shifts, (tuple, list)) else (shifts,)
    if not moves:
        raise LazytError("`shifts` required")
    places = () if dims is None else dims if isinstance(dims, (tuple, list)) else (dims,)
    if not places and len(moves) == 1:
        flat = ops.reshape(input.node, (input.node.size,))
        return give(ops.reshape(_rolled(flat, moves[0], 0), input.node.shape), "Roll", (input,))
    if len(moves) != len(places):
        raise ShapeError(
            f"shifts and dimensions must align. shifts: {len(moves)}, dims:{len(places)}"
        )
    node = input.node
    for shift, dim in zip(moves, places):
        node = _rolled(node, shift, existing_dim(dim, len(node.shape)))
    return give(node, "Roll", (input,))


def _rolled(node: Node, shift: int, axis: int) -> Node:
    extent = node.shape[axis]
    cut = (extent - operator.index(shift)) % extent if extent else 0
    if not cut:
        return node
    ones, starts = (1,) * len(node.shape), [0] * len(node.shape)
    starts[axis] = cut
    head, tail = list(node.shape), list(node.shape)
    head[axis], tail[axis] = extent - cut, cut
    late = ops.slice_(node, tuple(starts), tuple(head), ones)
    early = ops.slice_(node, (0,) * len(node.shape), tuple(tail), ones)
    return ops.concat((late, early), axis)


@function(method=True)
@sizes_by_name("dims")
def flip(input: Tensor, *axes: Any, dims: Any = None) -> Tensor:
    """A copy with the order of elements reversed along ``dims``: ``flip(x, 0, 1)`` or a tuple.

    Raises BoundsError for dimensions that do not exist, ShapeError for repeated ones.
    """
    require_tensor(input, "flip")
    if not axes and dims is None:
        raise DTypeError('flip() missing 1 required positional arguments: "dims"')
    axes = as_shape(axes if dims is None else (dims,), "flip")
    axes = normalize_dims(axes, len(input.shape)) if axes else ()
    return give(ops.flip(input.node, axes) if axes else input.node, "Flip", (input,))


@function(method=True)
def fliplr(input: Tensor) -> Tensor:
    """Columns in reverse order. Raises LazytError for fewer than two dimensions."""
    require_tensor(input, "fliplr")
    if input.ndim < 2:
        raise LazytError("Input must be >= 2-d.")
    return flip(input, 1)


@function(method=True)
def flipud(input: Tensor) -> Tensor:
    """Rows in reverse order. Raises LazytError for no dimensions."""
    require_tensor(input, "flipud")
    if input.ndim < 1:
        raise LazytError("Input must be >= 1-d.")
    return flip(input, 0)


@function(method=True)
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """A copy turned by ``k`` quarter turns in the plane of two dimensions."""
    require_tensor(input, "rot90")
    if len(dims) != 2:
        raise LazytError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise LazytError(f"expected total dims >= 2, but got total dims = {input.ndim}")
    a, b = (normalize_dim(d, len(input.shape)) for d in dims)
    if a == b:
        raise LazytError(
            f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}"
        )
    node, turns = input.node, k % 4
    order = list(range(len(node.shape)))
    order[a], order[b] = b, a
    if turns == 1:
        node = ops.permute(ops.flip(node, (b,)), tuple(order))
    elif turns == 2:
        node = ops.flip(node, tuple(sorted((a, b))))
    elif turns == 3:
        node = ops.flip(ops.permute(node, tuple(order)), (b,))
    result = give(node, "Rot90", (input,))
    if not turns:
        return result
    strides = list(strides_like(tuple(input.shape), input.strides))
    if turns != 2:
        strides[a], strides[b] = strides[b], strides[a]
    return lay_out(result, tuple(strides))
