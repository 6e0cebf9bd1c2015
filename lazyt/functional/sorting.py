"""Sorting along a dimension, and the largest or smallest elements.

Equal elements keep their order whether or not ``stable`` is asked for, and NaN is larger than
everything. Positions are only computed when somebody uses them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lazyt import ops
from lazyt.errors import DTypeError, LazytError
from lazyt.functional import return_types
from lazyt.functional.arithmetic import scalar_build
from lazyt.functional.choice import choose
from lazyt.functional.operands import constant_of, mapped, normalize_dim, require_tensor
from lazyt.functional.results import give
from lazyt.ir.dtypes import DType, bool_, int64
from lazyt.ir.graph import Node
from lazyt.tape import remember
from lazyt.tensor import Tensor

__all__ = ["argsort", "msort", "sort", "topk"]

_ADD, _MUL = scalar_build("add"), scalar_build("mul")
#: Rows from this length on are cut into blocks when fewer than one in _FEW elements are wanted.
_LONG, _FEW = 4096, 64


def rows_of(node: Node, axis: int) -> Node:
    """``node`` with ``axis`` last; a number as a row of one."""
    rank = len(node.shape)
    if not rank:
        return ops.reshape(node, (1,))
    if axis == rank - 1:
        return node
    return ops.permute(node, [*(a for a in range(rank) if a != axis), axis])


def rows_back(node: Node, axis: int, rank: int) -> Node:
    """``node`` with its last axis moved to ``axis``, the inverse of ``rows_of``."""
    if not rank:
        return ops.reshape(node, ())
    if axis == rank - 1:
        return node
    order = [*range(axis), rank - 1, *range(axis, rank - 1)]
    return ops.permute(node, order)


def front(node: Node, count: int) -> Node:
    """The first ``count`` elements of every row."""
    shape = node.shape
    if shape[-1] == count:
        return node
    return ops.slice_(node, (0,) * len(shape), (*shape[:-1], count), (1,) * len(shape))


def give_pair(
    nodes: tuple[Node, Node],
    name: str,
    input: Tensor,
    out: Sequence[Tensor] | None,
    pack: type[return_types.Named],
) -> return_types.Named:
    """Values and positions as a named result, written to the two tensors of ``out`` if given."""
    targets = (None, None) if out is None else out
    values = give(nodes[0], name, (input,), targets[0])
    places = give(nodes[1], name, (input,), targets[1])
    remember(values, places)
    return pack((values, places))


def _sorted(node: Node, dim: int, descending: bool) -> tuple[Node, Node]:
    rank = len(node.shape)
    axis = normalize_dim(dim, rank)
    rows = rows_of(node, axis)
    values, order = (ops.sort(kind, rows, bool(descending)) for kind in ("values", "order"))
    return rows_back(values, axis, rank), rows_back(order, axis, rank)


def sort(
    input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool | None = None,
    out: Sequence[Tensor] | None = None,
) -> Any:  # fmt: skip
    """``(values, indices)`` in order along ``dim``; indices are int64 positions along it.

    Always stable. ``out``: a pair of tensors. Raises BoundsError for a dimension that is not
    there. The gradient goes to where each value came from.
    """
    nodes = _sorted(require_tensor(input, "sort").node, dim, descending)
    return give_pair(nodes, "Sort", input, out, return_types.sort)


def argsort(
    input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool | None = None,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The int64 positions that put ``input`` in order along ``dim``; always stable."""
    order = _sorted(require_tensor(input, "argsort").node, dim, descending)[1]
    return give(order, "Sort", (input,), out)


def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``input`` in ascending order along its first dimension."""
    values = _sorted(require_tensor(input, "msort").node, 0, False)[0]
    return give(values, "Sort", (input,), out)


def _best_places(rows: Node, count: int, largest: bool) -> Node:
    """The positions of the ``count`` first elements of each sorted row.

    Of long rows not everything is sorted: cut into blocks, they are in the ``count`` blocks with
    the best first elements. That also holds for equal elements, of which earlier ones are better.
    """
    length = rows.shape[-1]
    if count == 0 or length < _LONG or count > length // _FEW:
        return front(ops.sort("order", rows, largest), count)
    width = max(math.isqrt(length // count), 1)  # as many blocks as candidates
    padded, blocks = _blocks(rows, width, largest)
    chosen = front(ops.sort("order", _best_of(blocks, largest), largest), count)
    starts = mapped(_MUL, (ops.sort("values", chosen), constant_of(width, int64)), int64, None)
    shape = (*starts.shape, width)
    steps = mapped(_ADD, (ops.reshape(starts, (*starts.shape, 1)), ops.iota(width)), int64, None)
    places = ops.reshape(ops.broadcast_to(steps, shape), (*starts.shape[:-1], count * width))
    order = front(ops.sort("order", ops.pick_rows(padded, places), largest), count)
    return ops.pick_rows(places, order)


def _blocks(rows: Node, width: int, largest: bool) -> tuple[Node, Node]:
    """Rows filled up with what comes last, and the same cut into blocks of ``width``."""
    count = -(-rows.shape[-1] // width)
    short = count * width - rows.shape[-1]
    if short:
        last = _lowest(rows.dtype) if largest else _highest(rows.dtype)
        none = [0] * len(rows.shape)
        rows = ops.pad(rows, none, [*none[1:], short], none, last)
    return rows, ops.reshape(rows, (*rows.shape[:-1], count, width))


def _lowest(dtype: DType) -> float:
    if dtype.kind == "f":
        return -math.inf
    return -(1 << (8 * dtype.itemsize - 1)) if dtype.kind == "i" else 0


def _highest(dtype: DType) -> float:
    if dtype.kind == "f":
        return math.nan
    return (1 << (8 * dtype.itemsize - (dtype.kind == "i"))) - 1


def _best_of(blocks: Node, largest: bool) -> Node:
    """The first element of each sorted block. NaN is the largest, as ``max`` has it."""
    axis = (len(blocks.shape) - 1,)
    if largest or blocks.dtype.kind != "f":
        return ops.reduce_("max" if largest else "min", blocks, axis)
    dtype = blocks.dtype
    missing = ops.apply("isnan", ops.cast(blocks, dtype.compute))
    present = choose(missing, constant_of(math.inf, dtype), blocks, dtype)
    least, nothing = ops.reduce_("min", present, axis), ops.reduce_("all", missing, axis)
    return choose(nothing, constant_of(math.nan, dtype), least, dtype)


def topk(
    input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True, *,
    out: Sequence[Tensor] | None = None,
) -> Any:  # fmt: skip
    """``(values, indices)`` of the ``k`` largest (or smallest) elements along ``dim``.

    In order, best first, also when not asked for; among equals the first are taken. Raises
    LazytError for a ``k`` that is out of range, DTypeError for bool.
    """
    node = require_tensor(input, "topk").node
    rank = len(node.shape)
    if isinstance(dim, bool):
        raise DTypeError("topk(): argument 'dim' (position 2) must be int, not bool")
    axis = normalize_dim(dim, rank)
    if not hasattr(k, "__index__"):
        raise DTypeError(f"topk(): argument 'k' (position 2) must be int, not {type(k).__name__}")
    if not 0 <= k <= (node.shape[axis] if rank else 1):
        raise LazytError("selected index k out of range")
    if node.dtype is bool_:
        raise DTypeError("topk does not support bool dtypes on CPU")
    rows = rows_of(node, axis)
    count = k if rank else 1
    order = _best_places(ops.detach(rows), count, bool(largest))
    values = ops.pick_rows(rows, order) if order.size else front(rows, count)
    nodes = rows_back(values, axis, rank), rows_back(order, axis, rank)
    return give_pair(nodes, "Topk", input, out, return_types.topk)
