"""COO: how tensors with coordinates are made, ordered, picked from and joined."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lazyt import ops
from lazyt.errors import BoundsError, LazytError, ShapeError
from lazyt.functional.operands import existing_dim
from lazyt.functional.sorting.searching import searchsorted
from lazyt.functional.sparse.tensors import (
    CompressedTensor,
    CooTensor,
    SparseTensor,
    coo,
    picked,
    segments,
)
from lazyt.handle.dispatch import wrap
from lazyt.handle.grad_mode import no_grad
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import int64
from lazyt.ir.graph import Node, Shape

# ---------------------------------------------------------------------- order


def unraveled(keys: Tensor, sizes: Shape) -> Tensor:
    """Positions in row-major order as indices [dimensions, nnz]."""
    rows: list[Tensor] = []
    for extent in reversed(sizes[1:]):
        rows.append(keys.remainder(max(extent, 1)))
        keys = keys.div(max(extent, 1), rounding_mode="floor")
    rows.append(keys)
    first = rows[-1]
    found: Tensor = first.unsqueeze(0) if len(rows) == 1 else joined(rows[::-1])
    return found


def joined(rows: Sequence[Tensor]) -> Tensor:
    """Rows of indices as one tensor."""
    nodes = [ops.reshape(row.node, (1, row.shape[0])) for row in rows]
    return wrap(ops.concat(nodes, 0))


def grouped(keys: Tensor) -> tuple[Tensor, Tensor, Tensor, int]:
    """The order that sorts ``keys``, the keys in that order, the number of the group of equal ones
    that each belongs to, and how many groups there are; looks at the keys."""
    with no_grad():
        ordered, order = keys.sort(stable=True)
        fresh = (ordered[1:] != ordered[:-1]).to(int64)
        number = wrap(ops.concat([ops.broadcast_to(ops.constant(0, int64), (1,)), fresh.node], 0))
        number = number.cumsum(0)
        return order, ordered, number, int(number[-1]) + 1


def coalesced(tensor: CooTensor) -> CooTensor:
    """``Tensor.coalesce``."""
    if tensor._is_coalesced:
        return tensor
    sizes = tensor.sparse_sizes
    keys = wrap(tensor.keys())
    if not sizes:
        total = tensor._held.sum(0, keepdim=True, dtype=tensor.dtype)
        return coo(tensor._places[:, :1], total, tensor._size, True, True)
    if not bool((keys[1:] <= keys[:-1]).any()):
        return coo(tensor._places, tensor._held.clone(), tensor._size, True, True)
    order, ordered, number, count = grouped(keys)
    values = picked(tensor._held, order)
    if count < tensor._nnz():
        values = segments("add", values, number.node, count, "Coalesce")
        zeros = ops.broadcast_to(ops.constant(0, int64), (count,))
        ordered = wrap(ops.scatter(zeros, number.node, ordered.node, 0, "set"))
    with no_grad():
        places = unraveled(ordered, sizes)
    return coo(places, values, tensor._size, True, True)


def ranges(starts: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Which range each position belongs to, and the positions, of ranges that begin at ``starts``
    and have ``counts`` positions, one range after the other; looks at the counts."""
    with no_grad():
        total = int(counts.sum()) if counts.shape[0] else 0
        ends = counts.cumsum(0)
        step = wrap(ops.iota(total))
        owner = searchsorted(ends, step, right=True) if total else step
        before = (starts - (ends - counts)) if counts.shape[0] else starts
        return owner, step + (picked(before, owner) if total else step)


# ---------------------------------------------------------------------- from other layouts


def to_coordinates(tensor: CompressedTensor) -> CooTensor:
    """The same elements with coordinates: in order where rows are compressed, and their columns are
    in order, as PyTorch takes for granted."""
    rows = [wrap(tensor.rows(0)), wrap(tensor.rows(1))]
    with no_grad():
        places = joined(rows)
    return coo(places, tensor._held, tensor._size, tensor.by_rows, True)


def with_coordinates(tensor: Tensor) -> CooTensor:
    """A sparse tensor's elements with coordinates."""
    if isinstance(tensor, CompressedTensor):
        return to_coordinates(tensor)
    assert isinstance(tensor, CooTensor)
    return tensor


def from_dense(tensor: Tensor, sparse_dim: int | None = None) -> CooTensor:
    """The elements of a dense tensor that are not zero, or blocks of them; looks at the values."""
    rank = tensor.ndim
    wanted = rank if sparse_dim is None else sparse_dim
    if not 0 <= wanted <= rank or (wanted == 0 and rank > 0):
        raise LazytError(
            f"dense_to_sparse: sparse_dim argument must be in [0,{rank}] range, but {wanted} is "
            "given"
        )
    sizes, rest = tuple(tensor.shape[:wanted]), tuple(tensor.shape[wanted:])
    with no_grad():
        here = tensor != 0
        if rest:
            here = here.reshape((*sizes, math.prod(rest))).any(-1)
        places = here.nonzero().t().contiguous()
        if not sizes:
            places = places.reshape((0, 1 if bool(here) else 0))
    flat = tensor.reshape((math.prod(sizes), *rest))
    made = coo(places, flat, tensor.shape, True, True)
    keys = wrap(CooTensor.keys(made)) if sizes else wrap(ops.iota(places.shape[1]))
    made._held = picked(flat, keys, "ToSparse")
    return made


def masked(tensor: Tensor, mask: CooTensor) -> CooTensor:
    """The values of ``tensor`` at the indices of ``mask``."""
    if tuple(tensor.shape) != mask._size:
        raise LazytError(
            "sparse_mask(): operands have incompatible sizes; self has size "
            f"{list(tensor.shape)} but mask has size {list(mask._size)}"
        )
    mask.checked()
    sizes = mask.sparse_sizes
    if isinstance(tensor, SparseTensor):
        values = matched(coalesced(with_coordinates(tensor)), wrap(mask.keys()))
        return coo(mask._places, values, mask._size, mask._is_coalesced, True)
    flat = tensor.reshape((math.prod(sizes), *tensor.shape[len(sizes) :]))
    values = picked(flat, wrap(mask.keys()), "SparseMask")
    return coo(mask._places, values, mask._size, mask._is_coalesced, True)


def found_in(tensor: CooTensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """Where the coalesced ``tensor`` has each of ``keys``, and whether it has it."""
    with no_grad():
        own = wrap(tensor.keys())
        at = searchsorted(own, keys).clamp(max=own.shape[0] - 1)
        return at, picked(own, at) == keys


def matched(tensor: CooTensor, keys: Tensor) -> Tensor:
    """The values of a coalesced tensor by position, zeros where it has none."""
    rest = tuple(tensor._held.shape[1:])
    if not tensor._nnz():
        return tensor._held.new_zeros((keys.shape[0], *rest))
    at, there = found_in(tensor, keys)
    values = picked(tensor._held, at)
    shape = (keys.shape[0], *(1 for _ in rest))
    found: Tensor = values * there.reshape(shape).to(values.dtype)
    return found


# ---------------------------------------------------------------------- moving and picking


def transposed(tensor: CooTensor, first: int, second: int) -> CooTensor:
    """Two sparse, or two dense, dimensions exchanged."""
    one, two = existing_dim(first, tensor.ndim), existing_dim(second, tensor.ndim)
    if one == two:
        return coo(tensor._places, tensor._held, tensor._size, tensor._is_coalesced,
                   tensor._checked)  # fmt: skip
    size, sparse = list(tensor._size), tensor.sparse_dim()
    size[one], size[two] = size[two], size[one]
    if one >= sparse and two >= sparse:
        held = tensor._held.transpose(one - sparse + 1, two - sparse + 1)
        return coo(tensor._places, held, size, tensor._is_coalesced, tensor._checked)
    if one >= sparse or two >= sparse:
        raise LazytError(
            f"sparse transpose: transposed dimensions must be sparse Got sparse_dim: {sparse}, "
            f"d0: {one}, d1: {two}"
        )
    order = list(range(sparse))
    order[one], order[two] = order[two], order[one]
    return coo(_reordered(tensor, order), tensor._held.clone(), size, False, tensor._checked)


def _reordered(tensor: CooTensor, order: Sequence[int]) -> Tensor:
    with no_grad():
        return joined([tensor._places[axis] for axis in order])


def permuted(tensor: CooTensor, dims: Sequence[int]) -> CooTensor:
    """Dimensions in another order, sparse ones among themselves and dense ones as well."""
    rank, sparse = tensor.ndim, tensor.sparse_dim()
    if len(dims) != rank:
        raise LazytError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the "
            f"length of the desired ordering of dimensions i.e. input.dim() = {rank} is not equal "
            f"to len(dims) = {len(dims)}"
        )
    order = [existing_dim(d, rank) for d in dims]
    if len(set(order)) != rank:
        raise LazytError("permute(sparse_coo): duplicate dims are not allowed")
    if order == list(range(rank)):
        return tensor
    if any(axis >= sparse for axis in order[:sparse]):
        raise LazytError(
            "permute(sparse_coo): transpositions between sparse and dense dimensions are not "
            "allowed.Only transpositions within sparse and dense dimensions are supported."
        )
    size = [tensor._size[axis] for axis in order]
    held, moved = tensor._held.clone(), order[:sparse] != list(range(sparse))
    if order[sparse:] != list(range(sparse, rank)):
        held = held.permute(0, *(axis - sparse + 1 for axis in order[sparse:]))
    places = _reordered(tensor, order[:sparse]) if moved else tensor._places
    return coo(places, held, size, tensor._is_coalesced and not moved, tensor._checked)


def selected(tensor: CooTensor, dim: int, index: int) -> Tensor:
    """``tensor.select(dim, index)``: dense where no sparse dimension is left; looks at indices."""
    axis = existing_dim(dim, tensor.ndim)
    extent, sparse = tensor._size[axis], tensor.sparse_dim()
    if not -extent <= index < extent:
        raise BoundsError(
            f"select(): index {index} out of range for tensor of size {list(tensor._size)} at "
            f"dimension {axis}"
        )
    index += extent if index < 0 else 0
    size = (*tensor._size[:axis], *tensor._size[axis + 1 :])
    if axis >= sparse:
        held = tensor._held.select(axis - sparse + 1, index)
        return coo(tensor._places, held, size, tensor._is_coalesced, tensor._checked)
    with no_grad():
        at = (wrap(tensor.rows(axis)) == index).nonzero().reshape(-1)
    values = picked(tensor._held, at)
    if sparse == 1:
        total: Tensor = values[0] if at.shape[0] == 1 else values.sum(0, dtype=tensor.dtype)
        return total
    with no_grad():
        kept = [picked(tensor._places[a], at) for a in range(sparse) if a != axis]
        places = joined(kept)
    return coo(places, values, size, tensor._is_coalesced, True)


def index_selected(tensor: CooTensor, dim: int, index: Tensor) -> CooTensor:
    """``tensor.index_select(dim, index)``: looks at indices. Raises BoundsError."""
    axis = existing_dim(dim, tensor.ndim)
    if index.ndim > 1:
        raise ShapeError(
            f"index_select() argument index must be 1-D long-tensor, but got {index.ndim}-D tensor"
        )
    index = index.reshape(-1).to(int64)
    extent, sparse = tensor._size[axis], tensor.sparse_dim()
    size = (*tensor._size[:axis], index.shape[0], *tensor._size[axis + 1 :])
    if axis >= sparse:
        held = tensor._held.index_select(axis - sparse + 1, index)
        return coo(tensor._places, held, size, tensor._is_coalesced, tensor._checked)
    with no_grad():
        if index.shape[0]:
            low, high = int(index.min()), int(index.max())
            for bad in (low, high):
                if not -extent <= bad < extent:
                    raise BoundsError(
                        f"index_select(): index contains {bad} that is out of range for tensor of "
                        f"size {list(tensor._size)} at dimension {axis}"
                    )
            index = index.remainder(extent)
        ordered, order = wrap(tensor.rows(axis)).sort(stable=True)
        first = searchsorted(ordered, index) if tensor._nnz() else index * 0
        last = searchsorted(ordered, index, right=True) if tensor._nnz() else index * 0
        owner, at = ranges(first, last - first)
        source = picked(order, at)
        rows = [owner if a == axis else picked(tensor._places[a], source) for a in range(sparse)]
        places = joined(rows)
    return coo(places, picked(tensor._held, source), size, False, True)


def narrowed(tensor: CooTensor, dim: int, start: int, length: int) -> CooTensor:
    """``tensor.narrow_copy(dim, start, length)``: looks at indices."""
    axis, sparse = existing_dim(dim, tensor.ndim), tensor.sparse_dim()
    extent = tensor._size[axis]
    if not 0 <= start <= extent or length < 0 or start + length > extent:
        raise BoundsError(
            f"Invalid range to narrow. range(start, start+length) must be a subset of range(0, "
            f"{extent})."
        )
    size = (*tensor._size[:axis], length, *tensor._size[axis + 1 :])
    if axis >= sparse:
        held = tensor._held.narrow(axis - sparse + 1, start, length)
        return coo(tensor._places, held, size, tensor._is_coalesced, tensor._checked)
    with no_grad():
        row = wrap(tensor.rows(axis))
        at = ((row >= start) & (row < start + length)).nonzero().reshape(-1)
        rows = [picked(tensor._places[a], at) for a in range(sparse)]
        rows[axis] = rows[axis] - start
        places = joined(rows)
    return coo(places, picked(tensor._held, at), size, tensor._is_coalesced, True)


def unsqueezed(tensor: CooTensor, dim: int) -> CooTensor:
    """``tensor.unsqueeze(dim)``: a sparse dimension among sparse ones, a dense one behind them."""
    axis, sparse = existing_dim(dim, tensor.ndim + 1), tensor.sparse_dim()
    size = (*tensor._size[:axis], 1, *tensor._size[axis:])
    if axis > sparse:
        held = tensor._held.unsqueeze(axis - sparse + 1)
        return coo(tensor._places, held, size, tensor._is_coalesced, tensor._checked)
    with no_grad():
        rows = [tensor._places[a] for a in range(sparse)]
        zeros = wrap(ops.broadcast_to(ops.constant(0, int64), (tensor._nnz(),)))
        places = joined([*rows[:axis], zeros, *rows[axis:]])
    return coo(places, tensor._held.clone(), size, tensor._is_coalesced, tensor._checked)


# ---------------------------------------------------------------------- joining


def concatenated(tensors: Sequence[Any], dim: int) -> CooTensor:
    """``torch.cat`` of tensors with coordinates. Raises LazytError and ShapeError."""
    first = tensors[0]
    for place, other in enumerate(tensors):
        if not isinstance(other, CooTensor):
            kind = "sparse csr" if isinstance(other, SparseTensor) else "dense"
            raise LazytError(
                f"Concatenating sparse tensors, but a {kind} tensor was found at position {place}."
            )
        if other.sparse_dim() != first.sparse_dim():
            raise LazytError(
                "All tensors must have the same number of sparse and dense dimensions; found "
                f"{first.sparse_dim()} and {other.sparse_dim()} sparse ones"
            )
    axis, sparse = existing_dim(dim, first.ndim), first.sparse_dim()
    for other in tensors:
        if (other._size[:axis], other._size[axis + 1 :]) != (
            first._size[:axis], first._size[axis + 1 :]
        ):  # fmt: skip
            raise ShapeError(
                "All tensors must have the same shape: "
                f"{list(first._size)} and {list(other._size)} differ in another dimension than "
                f"{axis}, along which they are joined"
            )
    extent = sum(other._size[axis] for other in tensors)
    size = (*first._size[:axis], extent, *first._size[axis + 1 :])
    checked = all(other._checked for other in tensors)
    places: list[Node] = []
    values: list[Tensor] = []
    before = 0
    for other in tensors:
        index, held = other._places, other._held
        if axis < sparse:
            index = _shifted(index, axis, before) if before else index
        else:
            held = _padded(held, axis - sparse + 1, before, extent)
        before += other._size[axis]
        places.append(index.node)
        values.append(held)
    dtype = values[0].dtype
    if any(v.dtype is not dtype for v in values):
        from lazyt.functional.elementwise.arithmetic import result_type

        for value in values[1:]:
            dtype = result_type(values[0].new_empty((1,), dtype=dtype), value)
        values = [v.to(dtype) for v in values]
    held = wrap(ops.concat([v.node for v in values], 0), *values, name="Cat")
    in_order = axis == 0 < sparse and all(other._is_coalesced for other in tensors)
    return coo(wrap(ops.concat(places, 1)), held, size, in_order, checked)


def _shifted(places: Tensor, axis: int, by: int) -> Tensor:
    row = ops.reshape(ops.iota(places.shape[0]), (places.shape[0], 1))
    here = ops.cast(ops.apply("eq", row, ops.constant(axis, int64)), int64)
    return wrap(ops.apply("add", places.node, ops.apply("mul", here, ops.constant(by, int64))))


def _padded(values: Tensor, axis: int, before: int, extent: int) -> Tensor:
    """Values amid zeros along a dense dimension."""
    own = values.shape[axis]
    parts = []
    for count in (before, own, extent - before - own):
        shape = list(values.shape)
        shape[axis] = count
        parts.append(shape)
    left, right = values.new_zeros(parts[0]), values.new_zeros(parts[2])
    node: Node = ops.concat([left.node, values.node, right.node], axis)
    return wrap(node, values, name="Cat")


def stacked(tensors: Sequence[Any], dim: int) -> CooTensor:
    """``torch.stack`` of tensors with coordinates."""
    first = tensors[0]
    for place, other in enumerate(tensors):
        if not isinstance(other, CooTensor):
            raise LazytError(
                f"Concatenating sparse tensors, but a dense tensor was found at position {place}."
            )
        if other._size != first._size:
            raise ShapeError(
                f"stack expects each tensor to be equal size, but got {list(first._size)} at "
                f"entry 0 and {list(other._size)} at entry {place}"
            )
    axis = existing_dim(dim, first.ndim + 1)
    return concatenated([unsqueezed(other, axis) for other in tensors], axis)


def from_diagonals(diagonals: Tensor, offsets: Tensor, shape: Sequence[int]) -> CooTensor:
    """``torch.sparse.spdiags``. Looks at the offsets."""
    rows = diagonals.unsqueeze(0) if diagonals.ndim == 1 else diagonals
    at = [int(v) for v in offsets.reshape(-1).tolist()]
    if rows.ndim != 2 or len(shape) != 2:
        raise LazytError("Output shape must be 2d, and diagonals must be vector or matrix")
    if len(at) != rows.shape[0]:
        raise LazytError(
            f"Number of diagonals ({rows.shape[0]}) does not match the number of offsets "
            f"({len(at)})"
        )
    if len(set(at)) != len(at):
        raise LazytError("Offset tensor contains duplicate values")
    height, width = (int(extent) for extent in shape)
    values, first, second = [], [], []
    for number, offset in enumerate(at):
        low, high = max(offset, 0), min(width, rows.shape[1], height + offset)
        columns = ops.iota(max(high - low, 0))
        column = ops.apply("add", columns, ops.constant(low, int64))
        second.append(column)
        first.append(ops.apply("sub", column, ops.constant(offset, int64)))
        values.append(rows[number][low : max(high, low)])
    places = joined([wrap(ops.concat(first, 0)), wrap(ops.concat(second, 0))])
    held = wrap(ops.concat([v.node for v in values], 0), *values, name="Spdiags")
    return coo(places, held, (height, width), False, True)
