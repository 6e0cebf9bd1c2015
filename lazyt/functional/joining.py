"""Functions that put tensors together, take them apart and repeat them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazyt import ops
from lazyt.errors import DTypeError, LazytError, ShapeError
from lazyt.functional.operands import (
    as_shape,
    broadcast_all,
    expand_to,
    existing_dim,
    normalize_dim,
    normalize_dims,
    operand_dtype,
)
from lazyt.functional.results import give
from lazyt.ir.dtypes import int64
from lazyt.ir.graph import Node
from lazyt.tensor import Tensor

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes",
    "broadcast_tensors", "cartesian_prod", "cat", "column_stack", "concat", "concatenate",
    "dstack", "flip", "fliplr", "flipud", "hstack", "meshgrid", "repeat",
    "repeat_interleave", "roll", "rot90", "row_stack", "stack", "tile", "vstack",
]  # fmt: skip


def _tensors(tensors: Any, function: str) -> list[Tensor]:
    found = list(tensors)
    for i, item in enumerate(found):
        if not isinstance(item, Tensor):
            raise DTypeError(
                f"{function}(): argument 'tensors' (position 1) must be tuple of Tensors, "
                f"but found element of type {type(item).__name__} at pos {i}"
            )
    return found


def cat(
    tensors: Any, dim: int = 0, *, axis: int | None = None, out: Tensor | None = None
) -> Tensor:
    """The tensors one after another along ``dim``, in their promoted dtype.

    Raises ShapeError for other sizes that differ.
    """
    items = _tensors(tensors, "cat")
    if axis is not None:
        dim = axis
    if not items:
        raise ShapeError("torch.cat(): expected a non-empty list of Tensors")
    for i, item in enumerate(items):
        if not item.shape:
            raise ShapeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
    dtype = operand_dtype(items)
    # Empty vectors join anything, as PyTorch keeps it for old programs.
    used = [t for t in items if tuple(t.shape) != (0,)] or items[:1]
    first = tuple(used[0].shape)
    place = normalize_dim(dim, len(first))
    for i, item in enumerate(items):
        if tuple(item.shape) != (0,):
            _check_join(first, tuple(item.shape), place, i)
    nodes = [ops.cast(t.node, dtype) for t in used]
    node = nodes[0] if len(nodes) == 1 else ops.concat(tuple(nodes), place)
    return give(node, "Cat", items, out)


def _check_join(first: tuple[int, ...], shape: tuple[int, ...], place: int, number: int) -> None:
    if len(first) != len(shape):
        raise ShapeError(
            f"Tensors must have same number of dimensions: got {len(first)} and {len(shape)}"
        )
    for i, (m, n) in enumerate(zip(first, shape)):
        if i != place and m != n:
            raise ShapeError(
                f"Sizes of tensors must match except in dimension {place}. Expected size {m} but "
                f"got size {n} for tensor number {number} in the list."
            )


def stack(
    tensors: Any, dim: int = 0, *, axis: int | None = None, out: Tensor | None = None
) -> Tensor:
    """Tensors of equal size along a new dimension ``dim``. Raises ShapeError for other sizes."""
    items = _tensors(tensors, "stack")
    if axis is not None:
        dim = axis
    if not items:
        raise ShapeError("stack expects a non-empty TensorList")
    first = tuple(items[0].shape)
    for i, item in enumerate(items):
        if tuple(item.shape) != first:
            raise ShapeError(
                "stack expects each tensor to be equal size, but got "
                f"{list(first)} at entry 0 and {list(item.shape)} at entry {i}"
            )
    place = normalize_dim(dim, len(first) + 1)
    dtype = operand_dtype(items)
    shape = (*first[:place], 1, *first[place:])
    nodes = tuple(ops.reshape(ops.cast(t.node, dtype), shape) for t in items)
    return give(nodes[0] if len(nodes) == 1 else ops.concat(nodes, place), "Stack", items, out)


def _at_least(tensor: Tensor, rank: int) -> Tensor:
    found = tensor
    while len(found.shape) < rank:
        found = found.unsqueeze(0) if len(found.shape) != 2 else found.unsqueeze(2)
    return found


def atleast_1d(*tensors: Any) -> Any:
    """Tensors with at least one dimension."""
    return _each(tensors, 1)


def atleast_2d(*tensors: Any) -> Any:
    """Tensors with at least two dimensions; new ones come first."""
    return _each(tensors, 2)


def atleast_3d(*tensors: Any) -> Any:
    """Tensors with at least three dimensions."""
    return _each(tensors, 3)


def _each(tensors: Any, rank: int) -> Any:
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return _at_least(tensors[0], rank)
    items = tensors[0] if len(tensors) == 1 else tensors
    return tuple(_at_least(t, rank) for t in items)


def hstack(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    """Tensors joined along the columns; vectors along themselves."""
    items = [_at_least(t, 1) for t in _tensors(tensors, "hstack")]
    return cat(items, 0 if len(items[0].shape) == 1 else 1, out=out)


def vstack(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    """Tensors joined along the rows; vectors become rows."""
    return cat([_at_least(t, 2) for t in _tensors(tensors, "vstack")], 0, out=out)


def dstack(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    """Tensors joined along the third dimension."""
    return cat([_at_least(t, 3) for t in _tensors(tensors, "dstack")], 2, out=out)


def column_stack(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    """Tensors joined along the columns; vectors become columns."""
    items = _tensors(tensors, "column_stack")
    return hstack([t.reshape(-1, 1) if len(t.shape) <= 1 else t for t in items], out=out)


def repeat(input: Tensor, *repeats: Any) -> Tensor:
    """``input`` copied ``repeats[i]`` times along dimension i. Raises ShapeError for too few."""
    counts = as_shape(repeats, "repeat")
    shape = tuple(input.shape)
    if len(counts) < len(shape):
        raise ShapeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of "
            "tensor"
        )
    return give(tiled_node(input.node, counts), "Repeat", (input,))


def tiled_node(node: Node, counts: Sequence[int]) -> Node:
    """``node`` repeated: each dimension gets a new one before it, which is expanded."""
    shape = (1,) * (len(counts) - len(node.shape)) + node.shape
    spread = tuple(n for extent in shape for n in (1, extent))
    wide = tuple(n for c, extent in zip(counts, shape) for n in (c, extent))
    node = expand_to(ops.reshape(node, spread), wide)
    return ops.reshape(node, tuple(c * n for c, n in zip(counts, shape)))


def tile(input: Tensor, *dims: Any) -> Tensor:
    """As ``repeat``, with missing counts as 1."""
    counts = as_shape(dims, "tile")
    counts = (1,) * (len(input.shape) - len(counts)) + counts
    return repeat(input, counts)


def repeat_interleave(input: Tensor, repeats: Any, dim: int | None = None) -> Tensor:
    """Every element repeated in place: a number of times, or as often as a tensor says."""
    if dim is None:
        input, dim = input.reshape(-1), 0
    axis = normalize_dim(dim, len(input.shape))
    if isinstance(repeats, Tensor) and repeats.node.size == 1:
        repeats = int(repeats.item())
    shape = tuple(input.shape)
    if isinstance(repeats, Tensor):
        places = [i for i, n in enumerate(repeats.tolist()) for _ in range(n)]
        if len(repeats.shape) != 1 or repeats.shape[0] != shape[axis]:
            raise ShapeError("repeats must have the same size as input along dim")
        from lazyt.functional.creation import tensor

        index = tensor(places, dtype=int64).node
        return give(ops.gather(input.node, index, axis), "IndexSelect", (input,))
    if repeats < 0:
        raise LazytError("repeats can not be negative")
    head, tail = shape[: axis + 1], shape[axis + 1 :]
    node = expand_to(ops.reshape(input.node, (*head, 1, *tail)), (*head, repeats, *tail))
    out = (*shape[:axis], shape[axis] * repeats, *tail)
    return give(ops.reshape(node, out), "RepeatInterleave", (input,))


def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """Elements moved along dimensions; what falls off an end comes back at the other."""
    moves = shifts if isinstance(shifts, (tuple, list)) else (shifts,)
    if dims is None:
        flat = ops.reshape(input.node, (input.node.size,))
        return give(ops.reshape(_rolled(flat, moves[0], 0), input.node.shape), "Roll", (input,))
    places = dims if isinstance(dims, (tuple, list)) else (dims,)
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
    cut = (extent - shift) % extent if extent else 0
    if not cut:
        return node
    ones, starts = (1,) * len(node.shape), [0] * len(node.shape)
    starts[axis] = cut
    head, tail = list(node.shape), list(node.shape)
    head[axis], tail[axis] = extent - cut, cut
    late = ops.slice_(node, tuple(starts), tuple(head), ones)
    early = ops.slice_(node, (0,) * len(node.shape), tuple(tail), ones)
    return ops.concat((late, early), axis)


def flip(input: Tensor, *dims: Any) -> Tensor:
    """A copy with the order of elements reversed along ``dims``."""
    axes = as_shape(dims, "flip")
    axes = normalize_dims(axes, len(input.shape)) if axes else ()
    return give(ops.flip(input.node, axes) if axes else input.node, "Flip", (input,))


def fliplr(input: Tensor) -> Tensor:
    """Columns in reverse order."""
    return flip(input, 1)


def flipud(input: Tensor) -> Tensor:
    """Rows in reverse order."""
    return flip(input, 0)


def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """A copy turned by ``k`` quarter turns in the plane of two dimensions."""
    a, b = (normalize_dim(d, len(input.shape)) for d in dims)
    node, turns = input.node, k % 4
    order = list(range(len(node.shape)))
    order[a], order[b] = b, a
    if turns == 1:
        node = ops.permute(ops.flip(node, (b,)), tuple(order))
    elif turns == 2:
        node = ops.flip(node, tuple(sorted((a, b))))
    elif turns == 3:
        node = ops.flip(ops.permute(node, tuple(order)), (b,))
    return give(node, "Rot90", (input,))


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Views of the tensors, expanded to their common shape."""
    items = tensors[0] if len(tensors) == 1 and not isinstance(tensors[0], Tensor) else tensors
    shape = broadcast_all([tuple(t.shape) for t in items])
    return tuple(t.expand(shape) for t in items)


def broadcast_shapes(*shapes: Any) -> Any:
    """The common shape of several. Raises ShapeError when there is none."""
    from lazyt.tensor import Size

    return Size(broadcast_all([(s,) if isinstance(s, int) else tuple(s) for s in shapes]))


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Coordinate grids of vectors, as views; ``indexing`` is ``ij`` or ``xy``."""
    items = list(
        tensors[0] if len(tensors) == 1 and not isinstance(tensors[0], Tensor) else tensors
    )
    if indexing not in ("ij", "xy"):
        raise LazytError(
            f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}'
        )
    if not items:
        raise LazytError("meshgrid expects a non-empty TensorList")
    for item in items:
        if item.ndim > 1:
            raise LazytError(
                "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: "
                f"{item.type()}{{{','.join(map(str, item.shape))}}}"
            )
        if item.dtype is not items[0].dtype:
            raise LazytError("meshgrid expects all tensors to have the same dtype")
    swap = indexing == "xy" and len(items) >= 2
    if swap:
        items[0], items[1] = items[1], items[0]
    shape = tuple(t.node.size for t in items)
    grids = []
    for i, item in enumerate(items):
        place = [1] * len(shape)
        place[i] = -1
        grids.append(item.reshape(place).expand(shape))
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of the elements of vectors, one a row."""
    if len(tensors) == 1:
        return tensors[0]
    return stack([g.reshape(-1) for g in meshgrid(*tensors)], dim=1)


def block_diag(*tensors: Tensor) -> Tensor:
    """Matrices along the diagonal of a larger one, zeros elsewhere."""
    items = [_at_least(t, 2) for t in tensors]
    for item in items:
        if len(item.shape) > 2:
            raise ShapeError("Input tensors must have 2 or fewer dimensions.")
    dtype = operand_dtype(items)
    width = sum(t.shape[1] for t in items)
    rows, left = [], 0
    for item in items:
        right = width - left - item.shape[1]
        node = ops.cast(item.node, dtype)
        rows.append(ops.pad(node, (0, left), (0, right), (0, 0), 0))
        left += item.shape[1]
    return give(rows[0] if len(rows) == 1 else ops.concat(tuple(rows), 0), "BlockDiag", tensors)


# Other names that PyTorch has for the same functions.
concat = cat
concatenate = cat
row_stack = vstack
