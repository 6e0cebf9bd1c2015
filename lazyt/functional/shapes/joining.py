"""Functions that put tensors together, take them apart and repeat them."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any

from lazyt import ops
from lazyt.errors import BoundsError, DTypeError, LazytError, NoKernelError, ShapeError
from lazyt.functional.operands import (
    as_shape,
    broadcast_all,
    existing_dim,
    expand_to,
    normalize_dim,
    normalize_dims,
    operand_dtype,
    require_tensor,
    sizes_by_name,
    wrong_arguments,
)
from lazyt.functional.result_layout import (
    channels_last_strides,
    channels_like_first,
    preserving,
    shapes_and_strides,
)
from lazyt.functional.results import give
from lazyt.functional.shapes.view_parts import select_view
from lazyt.functional.type_promotion import torch_name
from lazyt.handle.dispatch import lay_out, type_title, wrap
from lazyt.handle.function_table import declare, function
from lazyt.handle.layout import strides_like, suggests_channels_last
from lazyt.handle.tape import fn_type
from lazyt.handle.tensor import Tensor
from lazyt.handle.views import strides_of_view
from lazyt.ir.dtypes import int32, int64
from lazyt.ir.graph import Node

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes", "broadcast_tensors",
    "cartesian_prod", "cat", "chunk", "column_stack", "concat", "concatenate", "dsplit", "dstack",
    "flip", "fliplr", "flipud", "hsplit", "hstack", "meshgrid", "repeat", "repeat_interleave",
    "roll", "rot90", "row_stack", "split", "split_with_sizes", "stack", "tensor_split", "tile",
    "unbind", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes", "vsplit", "vstack",
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


def _order_of_cat(result: Tensor, parents: Sequence[Any]) -> tuple[int, ...] | None:
    """Channels last where all of the tensors have them last."""
    given = shapes_and_strides(parents)
    if not all(suggests_channels_last(*operand) for operand in given):
        return None
    return channels_last_strides(tuple(result.shape), len(given[0][0]) - 2)


_JOINED = "torch.cat(): input types can't be cast to the desired output type {Got}"


@function(layout=_order_of_cat, out_category=_JOINED, out_separate=True)
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


@function(out_category=_JOINED, out_separate=True)
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
    from lazyt.functional.creation.creation import arange, tensor

    where = rows[0].device
    counts = [len(row) for row in rows]
    ends = list(itertools.accumulate(counts))
    joined = cat([*rows, rows[0].new_full((1, *rows[0].shape[1:]), value)])
    count, end = (tensor(n, device=where).unsqueeze(dim ^ 1) for n in (counts, ends))
    place = arange(length, device=where).unsqueeze(dim) - (length - count if at_front else 0)
    inside = (place >= 0) & (place < count)
    at = (place + (end - count)).where(inside, tensor(ends[-1], device=where))
    return give(ops.gather(joined.node, at.node, 0), "CopySlices", rows)


def with_distinct_nodes(tensors: Sequence[Tensor]) -> list[Tensor]:
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


# Parts of tensors along a dimension, as views.


def _marked(parts: Iterable[Tensor], name: str) -> tuple[Tensor, ...]:
    """The views that one function makes together: autograd forbids writes through them."""
    marked = tuple(parts)
    for number, part in enumerate(marked):
        if part._view is not None:
            part._view.multiple = (name, number)
            part._view.version = part._storage.version_now()
            if part._view.fn is not None:
                part._view.fn.__class__ = fn_type(name)
    return marked


def _whole_number(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, (list, tuple, bool))


def _along(tensor: Tensor, dim: int, function: str) -> int:
    if not tensor.shape:
        raise LazytError(f"{function} expects at least a 1-dimensional tensor")
    return normalize_dim(dim, len(tensor.shape))


def _equal_sizes(extent: int, size: int) -> list[int]:
    if size < 0:
        raise LazytError(f"split expects split_size be non-negative, but got split_size={size}")
    if size == 0 and extent:
        raise LazytError(
            f"split_size can only be 0 if dimension size is 0, but got dimension size of {extent}"
        )
    return [min(size, extent - i) for i in range(0, extent, size)] if extent else [0]


def _cut(tensor: Tensor, axis: int, sizes: Sequence[int]) -> list[Tensor]:
    starts = accumulate(sizes, initial=0)
    return [tensor.narrow(axis, start, size) for start, size in zip(starts, sizes)]


def _given_sizes(tensor: Tensor, sizes: Any, dim: int) -> list[Tensor]:
    if not tensor.shape:
        raise LazytError("split expects at least a 1-dimensional tensor")
    axis = normalize_dim(dim, len(tensor.shape))
    wanted, extent = [operator.index(s) for s in sizes], tensor.shape[axis]
    if any(size < 0 for size in wanted):
        raise LazytError(
            "split_with_sizes expects split_sizes have only non-negative entries, but got "
            f"split_sizes={wanted}"
        )
    if sum(wanted) != extent:
        raise LazytError(
            f"split_with_sizes expects split_sizes to sum exactly to {extent} (input tensor's "
            f"size at dimension {dim}), but got split_sizes={wanted}"
        )
    return _cut(tensor, axis, wanted)


def _split(tensor: Tensor, size: Any, dim: int) -> list[Tensor]:
    if not _whole_number(size):
        return _given_sizes(tensor, size, dim)
    axis = _along(tensor, dim, "split")
    return _cut(tensor, axis, _equal_sizes(tensor.shape[axis], operator.index(size)))


@function(method=True)
def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of parts along ``dim``: of one size, the last perhaps smaller, or of given sizes.

    Raises LazytError for sizes that do not add up.
    """
    several = not _whole_number(split_size_or_sections)
    parts = _split(tensor, split_size_or_sections, dim)
    return _marked(parts, "SplitWithSizes" if several else "Split")


@function(method=True)
def split_with_sizes(input: Tensor, split_sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of parts of given sizes along ``dim``. Raises LazytError for another total."""
    require_tensor(input, "split_with_sizes")
    return _marked(_given_sizes(input, split_sizes, dim), "SplitWithSizes")


def _chunked(input: Tensor, chunks: int, dim: int) -> list[Tensor]:
    axis = _along(input, dim, "chunk")
    if chunks <= 0:
        raise LazytError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    extent = input.shape[axis]
    if not extent:
        return _cut(input, axis, [0] * chunks)
    return _cut(input, axis, _equal_sizes(extent, -(-extent // chunks)))


@function(method=True)
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most ``chunks`` views of nearly equal parts along ``dim``."""
    require_tensor(input, "chunk")
    return _marked(_chunked(input, chunks, dim), "Split")


_TENSOR_SPLIT = (
    "Tensor input, Tensor tensor_indices_or_sections, int dim = 0",
    "Tensor input, int sections, int dim = 0",
    "Tensor input, tuple of ints indices, int dim = 0",
)


@function(method=True, fractions=("indices_or_sections", "sections"))
def tensor_split(
    input: Tensor, indices_or_sections: Any = None, dim: int = 0, *, sections: Any = None,
    indices: Any = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Views of parts along ``dim``: so many of nearly equal size, or cut before given places.

    Raises LazytError for no sections.
    """
    require_tensor(input, "tensor_split")
    given = indices_or_sections if sections is None else sections
    given = indices if given is None else given
    if given is None:
        raise wrong_arguments("tensor_split", (input,), _TENSOR_SPLIT)
    if isinstance(given, Tensor):
        if given.dtype.name != "int64":
            raise LazytError("tensor_split expected tensor_indices_or_sections to have dtype of "
                             f"long, but got {torch_name(given.dtype)}")  # fmt: skip
        given = given.tolist()
    if not input.shape:
        raise LazytError("tensor_split expected at least a 1-dimensional tensor, but got a tensor "
                         "with 0 dims")  # fmt: skip
    axis = normalize_dim(dim, len(input.shape))
    extent = input.shape[axis]
    if hasattr(given, "__index__"):
        given = operator.index(given)
        if given <= 0:
            raise LazytError(f"number of sections must be larger than 0, got {given}")
        small, larger = divmod(extent, given)
        return tuple(_cut(input, axis, [small + (i < larger) for i in range(given)]))
    places = range(extent)
    edges = [0, *(_edge(operator.index(i), extent) for i in given), extent]
    return tuple(
        input.narrow(axis, min(max(a, 0), extent), len(places[max(a, 0) : max(b, 0)]))
        for a, b in pairwise(edges)
    )


def _edge(index: int, extent: int) -> int:
    return index + extent if index < 0 else min(index, extent)


def _evenly(input: Tensor, given: Any, dim: int, rank: int, name: str) -> tuple[Tensor, ...]:
    """``tensor_split`` that refuses sections of different size."""
    if len(input.shape) < rank:
        raise LazytError(
            f"torch.{name} requires a tensor with at least {rank} dimension, but got a tensor with "
            f"{len(input.shape)} dimensions!"
        )
    if given is None or isinstance(given, (str, float)):
        forms = ("Tensor input, int sections", "Tensor input, tuple of ints indices")
        raise wrong_arguments(name, (input,) if given is None else (input, given), forms)
    if hasattr(given, "__index__") and not isinstance(given, Tensor):
        given = operator.index(given)
        extent = input.shape[dim]
        if given == 0 or extent % given:
            raise LazytError(
                f"torch.{name} attempted to split along dimension {dim}, but the size of the "
                f"dimension {extent} is not divisible by the split_size {given}!"
            )
    return tensor_split(input, given, dim)


@function(method=True)
def hsplit(
    input: Tensor, indices_or_sections: Any = None, *, sections: Any = None, indices: Any = None
) -> tuple[Tensor, ...]:
    """``tensor_split`` along the columns into equal parts. Raises LazytError for others."""
    require_tensor(input, "hsplit")
    given = next((v for v in (indices_or_sections, sections, indices) if v is not None), None)
    return _evenly(input, given, 0 if len(input.shape) == 1 else 1, 1, "hsplit")


@function(method=True)
def vsplit(
    input: Tensor, indices_or_sections: Any = None, *, sections: Any = None, indices: Any = None
) -> tuple[Tensor, ...]:
    """``tensor_split`` along the rows into equal parts. Raises LazytError for others."""
    require_tensor(input, "vsplit")
    given = next((v for v in (indices_or_sections, sections, indices) if v is not None), None)
    return _evenly(input, given, 0, 2, "vsplit")


@function(method=True)
def dsplit(
    input: Tensor, indices_or_sections: Any = None, *, sections: Any = None, indices: Any = None
) -> tuple[Tensor, ...]:
    """``tensor_split`` along the third dimension into equal parts. Raises LazytError for others."""
    require_tensor(input, "dsplit")
    given = next((v for v in (indices_or_sections, sections, indices) if v is not None), None)
    return _evenly(input, given, 2, 3, "dsplit")


@function(method=True)
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of all slices along ``dim``, without that dimension."""
    require_tensor(input, "unbind")
    axis = normalize_dim(dim, len(input.shape))
    if not input.shape:
        raise BoundsError("Dimension specified as 0 but tensor has no dimensions")
    slices = (select_view(input, axis, i) for i in range(input.shape[axis]))
    return _marked(slices, "Unbind")


# ------------------------------------------------------------------ for autograd alone
#
# PyTorch's unsafe functions share memory but tell autograd nothing of it. Here the graph knows
# which values a write changes, so they are the safe ones without the ban on writes in place.


def _unknown(parts: list[Tensor]) -> tuple[Tensor, ...]:
    for part in parts:
        if part._view is not None:
            part._view.source = None
    return tuple(parts)


@function(method=True)
def unsafe_split(input: Tensor, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """``split`` whose parts may be written to in place."""
    require_tensor(input, "unsafe_split")
    return _unknown(_split(input, split_size, dim))


@function(method=True)
def unsafe_split_with_sizes(input: Tensor, split_sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """``split`` into given sizes whose parts may be written to in place."""
    require_tensor(input, "unsafe_split_with_sizes")
    return _unknown(_given_sizes(input, split_sizes, dim))


@function(method=True)
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """``chunk`` whose parts may be written to in place."""
    require_tensor(input, "unsafe_chunk")
    return _unknown(_chunked(input, chunks, dim))


# Elements repeated, rolled, flipped and rotated.


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


@function(method=True, layout=channels_like_first)
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


@function(method=True, layout=preserving)
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
    """A copy rotated by ``k`` quarter turns in the plane of two dimensions."""
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
