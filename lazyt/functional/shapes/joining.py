"""Functions that put tensors together, take them apart and repeat them."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any

from lazyt import ops
from lazyt.errors import DTypeError, LazytError, ShapeError
from lazyt.functional.operands import (
    broadcast_all,
    normalize_dim,
    operand_dtype,
    require_tensor,
    wrong_arguments,
)
from lazyt.functional.results import give
from lazyt.handle.dispatch import lay_out, wrap
from lazyt.handle.function_table import declare, function
from lazyt.handle.layout import suggests_channels_last
from lazyt.handle.tensor import Tensor
from lazyt.handle.views import strides_of_view

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes",
    "broadcast_tensors", "cartesian_prod", "cat", "column_stack", "concat", "concatenate",
    "dstack", "hstack", "meshgrid", "row_stack", "stack", "vstack",
]  # fmt: skip


def _tensors(tensors: Any, function: str) -> list[Tensor]:
    if isinstance(tensors, Tensor):
        raise DTypeError(
            f"{function}(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor"
        )
    if not hasattr(tensors, "__iter__"):
        raise DTypeError(
            f"{function}(): argument 'tensors' (position 1) must be tuple of Tensors, not "
            f"{type(tensors).__name__}"
        )
    found = list(tensors)
    for i, item in enumerate(found):
        if not isinstance(item, Tensor):
            if i and function == "cat":
                raise DTypeError(
                    f"expected Tensor as element {i} in argument 0, but got {type(item).__name__}"
                )
            raise DTypeError(
                f"{function}(): argument 'tensors' (position 1) must be tuple of Tensors, "
                f"but found element of type {type(item).__name__} at pos {i}"
            )
    if not found and function in ("hstack", "vstack", "dstack", "column_stack"):
        raise ShapeError(f"{function} expects a non-empty TensorList")
    return found


@function()
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
    nodes = [item.node for item in items]
    shapes = [node.shape for node in nodes]
    for i, shape in enumerate(shapes):
        if not shape:
            raise ShapeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
    dtype = operand_dtype(items)
    # Empty vectors join anything, as PyTorch keeps it for old programs.
    first = next((shape for shape in shapes if shape != (0,)), (0,))
    place = normalize_dim(dim, len(first)) if first != (0,) else 0
    for i, shape in enumerate(shapes):
        if shape != first and shape != (0,):
            _check_join(first, shape, place, i)
    if any(len(shape) != 1 for shape in shapes):
        nodes = [node for node in nodes if node.shape != (0,)]
    nodes = [ops.cast(node, dtype) for node in nodes]
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


@function()
def stack(
    tensors: Any, dim: int = 0, *, axis: int | None = None, out: Tensor | None = None
) -> Tensor:
    """Tensors of equal size along a new dimension ``dim``. Raises ShapeError for other sizes."""
    items = _tensors(tensors, "stack")
    if axis is not None:
        dim = axis
    if not items:
        raise ShapeError("stack expects a non-empty TensorList")
    nodes = [item.node for item in items]
    first = nodes[0].shape
    for i, node in enumerate(nodes):
        if node.shape != first:
            raise ShapeError(
                "stack expects each tensor to be equal size, but got "
                f"{list(first)} at entry 0 and {list(node.shape)} at entry {i}"
            )
    place = normalize_dim(dim, len(first) + 1)
    if out is None and place < len(first) and all(map(_has_channels_last, items)):
        joined = cat(items, place)
        sizes = (*first[:place], len(items), *first[place:])
        strides = strides_of_view(tuple(joined.shape), joined.strides, sizes)
        if strides is not None:
            return lay_out(give(ops.reshape(joined.node, sizes), "Stack", items), strides)
    dtype = operand_dtype(items)
    shape = (*first[:place], 1, *first[place:])
    nodes = [ops.reshape(ops.cast(node, dtype), shape) for node in nodes]
    return give(nodes[0] if len(nodes) == 1 else ops.concat(nodes, place), "Stack", items, out)


def pad_rows(rows: list[Tensor], length: int, value: float, at_front: bool, dim: int) -> Tensor:
    """Data of different lengths as one tensor, with ``value`` where a row is over.

    One graph for all lengths, longest first or last: their starts and ends are inputs of it, not
    its structure. A gradient would be added up where this reads; joins of each row have a simpler.

    Args:
        rows: at least one, [length_i, *], of one dtype and equal in the other dimensions.
        length: of the result.
        at_front: whether padding stands before a row.
        dim: 0 for a result [N, length, *], 1 for [length, N, *].
    """
    from lazyt.functional.creation.creation import tensor
    from lazyt.functional.creation.ramps import arange

    where = rows[0].device
    counts = [len(row) for row in rows]
    ends = list(itertools.accumulate(counts))
    joined = cat([*rows, rows[0].new_full((1, *rows[0].shape[1:]), value)])
    count, end = (tensor(n, device=where).unsqueeze(dim ^ 1) for n in (counts, ends))
    place = arange(length, device=where).unsqueeze(dim) - (length - count if at_front else 0)
    inside = (place >= 0) & (place < count)
    at = (place + (end - count)).where(inside, tensor(ends[-1], device=where))
    return give(ops.gather(joined.node, at.node, 0), "CopySlices", rows)


def apart(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The same values, no computed one of which is that of another tensor: which of them are would
    be part of the graph of what they are joined to, and differ from call to call."""
    found, seen = list(tensors), set()
    for place, tensor in enumerate(found):
        node = tensor.node
        if node in seen and node.data is not None and not node.needs_grad:
            found[place] = wrap(ops.input_(node.shape, node.dtype, node.data))
        seen.add(node)
    return found


def _has_channels_last(item: Tensor) -> bool:
    return item._view is not None and suggests_channels_last(tuple(item.shape), item.strides)


def _at_least(tensor: Tensor, rank: int) -> Tensor:
    found = require_tensor(tensor, f"atleast_{rank}d", "tensors")
    while len(found.shape) < rank:
        found = found.unsqueeze(0) if len(found.shape) != 2 else found.unsqueeze(2)
    return found


@function()
def atleast_1d(*tensors: Any) -> Any:
    """Tensors with at least one dimension."""
    return _each(tensors, 1)


@function()
def atleast_2d(*tensors: Any) -> Any:
    """Tensors with at least two dimensions; new ones come first."""
    return _each(tensors, 2)


@function()
def atleast_3d(*tensors: Any) -> Any:
    """Tensors with at least three dimensions."""
    return _each(tensors, 3)


def _each(tensors: Any, rank: int) -> Any:
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return _at_least(tensors[0], rank)
    items = tensors[0] if len(tensors) == 1 else tensors
    if not isinstance(items, (tuple, list)):
        forms = ("Tensor input", "tuple of Tensors tensors")
        raise wrong_arguments(f"atleast_{rank}d", tensors, forms)
    return tuple(_at_least(t, rank) for t in items)


@function()
def hstack(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    """Tensors joined along the columns; vectors along themselves."""
    items = [_at_least(t, 1) for t in _tensors(tensors, "hstack")]
    return cat(items, 0 if len(items[0].shape) == 1 else 1, out=out)


@function()
def vstack(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    """Tensors joined along the rows; vectors become rows."""
    return cat([_at_least(t, 2) for t in _tensors(tensors, "vstack")], 0, out=out)


@function()
def dstack(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    """Tensors joined along the third dimension."""
    return cat([_at_least(t, 3) for t in _tensors(tensors, "dstack")], 2, out=out)


@function()
def column_stack(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    """Tensors joined along the columns; vectors become columns."""
    items = _tensors(tensors, "column_stack")
    return hstack([t.reshape(-1, 1) if len(t.shape) <= 1 else t for t in items], out=out)


@function()
def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Views of the tensors, expanded to their common shape."""
    items = tensors[0] if len(tensors) == 1 and not isinstance(tensors[0], Tensor) else tensors
    shape = broadcast_all([tuple(t.shape) for t in items])
    return tuple(t if tuple(t.shape) == shape else t.expand(shape) for t in items)


@function()
def broadcast_shapes(*shapes: Any) -> Any:
    """The common shape of several. Raises ShapeError when there is none."""
    from lazyt.handle.tensor import Size

    given = [
        (operator.index(s),) if hasattr(s, "__index__") else tuple(map(operator.index, s))
        for s in shapes
    ]
    rank = max((len(s) for s in given), default=0)
    common = [1] * rank
    for number, shape in enumerate(given):
        for back in range(1, len(shape) + 1):
            extent = shape[-back]
            if extent in (1, common[-back]):
                continue
            if common[-back] != 1 or extent < 0:
                raise ShapeError(
                    f"Attempting to broadcast a dimension of length {extent} at {-back}! "
                    f"Mismatching argument at index {number} had {shape}; but expected shape "
                    f"should be broadcastable to {common}"
                )
            common[-back] = extent
    return Size(common)


@function()
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


@function()
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of the elements of vectors, one a row. Raises LazytError for others."""
    for tensor in tensors:
        if len(require_tensor(tensor, "cartesian_prod", "tensors").shape) != 1:
            raise LazytError(f"Expect a 1D vector, but got shape {list(tensor.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    return stack([g.reshape(-1) for g in meshgrid(*tensors)], dim=1)


@function()
def block_diag(*tensors: Tensor) -> Tensor:
    """Matrices along the diagonal of a larger one, zeros elsewhere."""
    items = [_at_least(t, 2) for t in tensors]
    for place, item in enumerate(items):
        if len(item.shape) > 2:
            raise ShapeError(
                "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input "
                f"{place} has {len(item.shape)} dimensions"
            )
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
concat = declare("concat", cat)
concatenate = declare("concatenate", cat)
row_stack = declare("row_stack", vstack)
