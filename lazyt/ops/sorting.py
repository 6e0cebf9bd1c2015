"""``sort``: the rows of a value in order, or the permutations that put them in order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lazyt import ops
from lazyt.errors import InternalError, ShapeError
from lazyt.ir.dtypes import int64
from lazyt.ir.graph import Node, Type, make
from lazyt.ops.registry import define_op


class SortParams(NamedTuple):
    """``kind``: values or order (where each value comes from, int64); along the last axis."""

    kind: str
    descending: bool


def _infer(params: SortParams, node: Node) -> Type:
    if params.kind not in ("values", "order"):
        raise InternalError("ops.sorting", f"a sort gives no {params.kind!r}")
    if not node.shape:
        raise ShapeError("sort: a single number has no axis to sort along")
    return Type(node.shape, node.dtype if params.kind == "values" else int64)


def _order(array: Any, descending: bool) -> Any:
    # NumPy sorts ascending only: from the back, equal elements keep their order as well.
    if not descending:
        return np.argsort(array, axis=-1, kind="stable")
    back = np.argsort(np.flip(array, -1), axis=-1, kind="stable")
    return array.shape[-1] - 1 - np.flip(back, -1)


def _evaluate(node: Node, array: Any) -> Any:
    order = _order(array, node.params.descending)
    return order if node.params.kind == "order" else np.take_along_axis(array, order, -1)


def _rows(node: Node) -> Node:
    length = node.shape[-1]
    return ops.reshape(node, (math.prod(node.shape[:-1]), length))


def pick_rows(node: Node, places: Node) -> Node:
    """Elements of each row of ``node`` at the places in the same row of ``places``."""
    count = math.prod(places.shape[:-1])
    flat = ops.reshape(places, (count, places.shape[-1]))
    return ops.reshape(ops.gather(_rows(node), flat, 1, 1), places.shape)


def _vjp(node: Node, cotangent: Node) -> list[Node | None]:
    if node.params.kind == "order" or node.size == 0:
        return [None]
    order = sort("order", node.inputs[0], node.params.descending)
    rows = _rows(cotangent)
    back = ops.scatter(ops.zeros_like(rows), _rows(order), rows, 1, "add", 1)
    return [ops.reshape(back, node.shape)]


def _jvp(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    tangent = tangents[0]
    if tangent is None or node.params.kind == "order" or node.size == 0:
        return None
    return pick_rows(tangent, sort("order", node.inputs[0], node.params.descending))


def _batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    return sort(node.params.kind, inputs[0], node.params.descending)


SORT = define_op(
    "sort",
    params=SortParams,
    infer=_infer,
    evaluate=_evaluate,
    vjp=_vjp,
    jvp=_jvp,
    batch=_batch,
    lower="sort",
)


def sort(kind: str, node: Node, descending: bool = False) -> Node:
    """Each row (along the last axis) of ``node`` in order: its ``values``, of the same type, or
    its ``order``, the int64 position in ``node`` of each of them.

    Equal elements keep their order, 0 and -0 are equal, and NaN is larger than everything, as
    torch.sort(stable=True). ``values`` is what ``order`` picks; asked for both, one kernel finds
    them together, and asked for one it does not pay for the other. Raises ShapeError without axes.
    """
    return make(SORT, (node,), SortParams(kind, descending))
