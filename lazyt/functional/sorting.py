"""Sorting along a dimension, and the largest or smallest elements.

Equal elements keep their order whether or not ``stable`` is asked for, and NaN is larger than
everything. Positions are only computed when somebody uses them.
"""

from __future__ import annotations

from collections.abc import Sequence

from lazyt import ops
from lazyt.errors import DTypeError, LazytError
from lazyt.functional import return_types
from lazyt.functional.operands import normalize_dim, require_tensor
from lazyt.functional.results import give
from lazyt.ir.dtypes import bool_
from lazyt.ir.graph import Node
from lazyt.tensor import Tensor

__all__ = ["argsort", "msort", "sort", "topk"]


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
    return pack((values, give(nodes[1], name, (), targets[1])))


def _sorted(node: Node, dim: int, descending: bool) -> tuple[Node, Node]:
    rank = len(node.shape)
    axis = normalize_dim(dim, rank)
    rows = rows_of(node, axis)
    values, order = (ops.sort(kind, rows, bool(descending)) for kind in ("values", "order"))
    return rows_back(values, axis, rank), rows_back(order, axis, rank)


def sort(
    input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool | None = None,
    out: Sequence[Tensor] | None = None,
) -> return_types.Named:  # fmt: skip
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
    return give(order, "argsort", (), out)


def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``input`` in ascending order along its first dimension."""
    values = _sorted(require_tensor(input, "msort").node, 0, False)[0]
    return give(values, "Sort", (input,), out)


def topk(
    input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True, *,
    out: Sequence[Tensor] | None = None,
) -> return_types.Named:  # fmt: skip
    """``(values, indices)`` of the ``k`` largest (or smallest) elements along ``dim``.

    In order, best first, also when not asked for; among equals the first are taken. Raises
    LazytError for a ``k`` that is out of range, DTypeError for bool.
    """
    node = require_tensor(input, "topk").node
    rank = len(node.shape)
    axis = normalize_dim(dim, rank)
    if not 0 <= k <= (node.shape[axis] if rank else 1):
        raise LazytError("selected index k out of range")
    if node.dtype is bool_:
        raise DTypeError("topk does not support bool dtypes on CPU")
    rows = rows_of(node, axis)
    count = k if rank else 1
    order = front(ops.sort("order", rows, bool(largest)), count)
    if node.needs_grad:  # the few that are taken need no gradient of a whole sort
        values = ops.pick_rows(rows, order) if order.size else front(rows, count)
    else:
        values = front(ops.sort("values", rows, bool(largest)), count)
    nodes = rows_back(values, axis, rank), rows_back(order, axis, rank)
    return give_pair(nodes, "Topk", input, out, return_types.topk)
