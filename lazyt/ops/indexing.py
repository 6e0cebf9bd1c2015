"""Reads and writes at positions held in a value (gather, scatter), slice assignment (update)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lazyt import ops
from lazyt.errors import BoundsError, DTypeError, InternalError, ShapeError
from lazyt.ir.dtypes import bool_, int64
from lazyt.ir.graph import Node, Type, make
from lazyt.ops.movement import SliceParams, check_slices, numpy_slices
from lazyt.ops.registry import define_op


def _check_index(name: str, node: Node, index: Node, axis: int) -> None:
    if not 0 <= axis < len(node.shape):
        raise BoundsError(f"{name}: no axis {axis} in shape {list(node.shape)}")
    if index.dtype.kind not in "ui":
        raise DTypeError(f"{name}: the index must be of an integer type, not {index.dtype.name}")
    if node.shape[axis] == 0 and index.size:
        raise BoundsError(f"{name}: axis {axis} of shape {list(node.shape)} has no elements")


def _offset_rows(node: Node, index: Node, axis: int) -> tuple[Node, Node]:
    """A batch of tables and of indices as one table: (the table on axis 0, the indices into it).

    ``node`` is [B, ..., n at axis + 1, ...] and ``index`` [B, ...]; out of range clamps first.
    """
    size, extent = node.shape[0], node.shape[axis + 1]
    rows = _to_rows(node, axis + 1)
    limit = ops.constant(extent - 1, int64)
    clamped = ops.apply("maximum", ops.cast(index, int64), ops.constant(0, int64))
    clamped = ops.apply("minimum", clamped, limit)
    strides = (extent, *[0] * (len(index.shape) - 1))
    return rows, ops.apply("add", clamped, ops.positions((size, *[1] * len(strides[1:])), strides))


def _to_rows(node: Node, axis: int, count: int = 1) -> Node:
    """The leading axis and the ``count`` axes from ``axis`` on merged into one leading axis."""
    middle = list(range(axis, axis + count))
    rest = [a for a in range(1, len(node.shape)) if a not in middle]
    moved = ops.permute(node, [0, *middle, *rest])
    merged = 1
    for extent in moved.shape[: count + 1]:
        merged *= extent
    return ops.reshape(moved, (merged, *moved.shape[count + 1 :]))


def _from_rows(node: Node, middle: tuple[int, ...], axis: int) -> Node:
    """The inverse of ``_to_rows``: ``middle`` starts with the leading extent."""
    split = ops.reshape(node, (*middle, *node.shape[1:]))
    count = len(middle) - 1
    rest = list(range(count + 1, len(split.shape)))
    order = [0, *rest[: axis - 1], *range(1, count + 1), *rest[axis - 1 :]]
    return ops.permute(split, order)


# ------------------------------------------------------------------------------ gather


class GatherParams(NamedTuple):
    """The operand's axis that the index replaces."""

    axis: int


def _gather_infer(params: GatherParams, node: Node, index: Node) -> Type:
    axis = params.axis
    _check_index("gather", node, index, axis)
    return Type((*node.shape[:axis], *index.shape, *node.shape[axis + 1 :]), node.dtype)


def _clamped(index: Any, extent: int) -> Any:
    # uint64 beyond int64 would turn negative: clamp it from above in its own type.
    return np.minimum(index, np.asarray(extent - 1).astype(index.dtype)
                      if extent - 1 <= np.iinfo(index.dtype).max
                      else index).astype(np.int64).clip(0)  # fmt: skip


def _gather_evaluate(node: Node, array: Any, index: Any) -> Any:
    axis = node.params.axis
    if index.size == 0:
        return np.empty(node.shape, array.dtype)
    return np.take(array, _clamped(index, array.shape[axis]), axis)


def _gather_vjp(node: Node, cotangent: Node) -> list[Node | None]:
    source, index = node.inputs
    return [scatter(ops.zeros_like(source), index, cotangent, node.params.axis, "add"), None]


def _gather_jvp(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    tangent = tangents[0]
    return None if tangent is None else gather(tangent, node.inputs[1], node.params.axis)


def _gather_batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    axis = node.params.axis
    source, index = inputs
    if not batched[1]:
        return gather(source, index, axis + 1)
    if not batched[0]:
        found = gather(source, index, axis)
        rest = [a for a in range(len(found.shape)) if a != axis]
        return ops.permute(found, [axis, *rest])
    rows, places = _offset_rows(source, index, axis)
    flat = gather(rows, ops.reshape(places, (places.size,)), 0)
    return _from_rows(flat, index.shape, axis + 1)


GATHER = define_op(
    "gather",
    params=GatherParams,
    infer=_gather_infer,
    evaluate=_gather_evaluate,
    vjp=_gather_vjp,
    jvp=_gather_jvp,
    batch=_gather_batch,
    lower="gather",
)


def gather(node: Node, index: Node, axis: int) -> Node:
    """Elements of ``axis`` by an integer ``index``, whose shape takes the axis' place.

    Positions out of range clamp. Raises DTypeError for an index that is not of an integer type.
    """
    return make(GATHER, (node, index), GatherParams(axis))


# ----------------------------------------------------------------------------- scatter


class ScatterParams(NamedTuple):
    """The axis that the index walks on, and how values meet: set add mul max min."""

    axis: int
    kind: str


_MEET: dict[str, Any] = {
    "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum,
}  # fmt: skip


def _scatter_infer(params: ScatterParams, base: Node, index: Node, updates: Node) -> Type:
    axis, kind = params
    if kind != "set" and kind not in _MEET:
        raise InternalError("ops.indexing", f"no scatter is called {kind!r}")
    _check_index("scatter", base, index, axis)
    if base.dtype is not updates.dtype:
        raise DTypeError(f"scatter: {updates.dtype.name} into {base.dtype.name}")
    if kind in ("add", "mul") and base.dtype is bool_:
        raise DTypeError(f"scatter {kind} does not take bool")
    expected = (*base.shape[:axis], *index.shape, *base.shape[axis + 1 :])
    if updates.shape != expected:
        raise ShapeError(
            f"scatter: updates of shape {list(updates.shape)}, expected {list(expected)}"
        )
    return Type(base.shape, base.dtype)


def _scatter_evaluate(node: Node, base: Any, index: Any, updates: Any) -> Any:
    axis, kind = node.params
    if updates.size == 0:
        return base
    out = np.moveaxis(base, axis, 0).copy()
    order = [*range(axis, axis + index.ndim), *range(axis),
             *range(axis + index.ndim, updates.ndim)]  # fmt: skip
    values = updates.transpose(order).reshape((index.size, *out.shape[1:]))
    at = _clamped(index, out.shape[0]).reshape(-1)
    if kind == "set":
        out[at] = values
    else:
        _MEET[kind].at(out, at, values)
    return np.moveaxis(out, 0, axis)


def _weights(node: Node) -> tuple[Node, Node]:
    """For add, mul, max, min: the partial derivatives by the base and by the updates."""
    base, index, updates = node.inputs
    axis, kind = node.params
    one, zero = ops.constant(1, node.dtype), ops.constant(0, node.dtype)
    zeros = ops.zeros_like(base)
    if kind == "mul":
        ones = ops.broadcast_to(one, base.shape)
        is_zero = ops.apply("eq", updates, zero)
        safe = ops.apply("where", is_zero, one, updates)
        count = scatter(zeros, index, ops.cast(is_zero, node.dtype), axis, "add")
        product = gather(scatter(base, index, safe, axis, "mul"), index, axis)
        found = gather(count, index, axis)
        lone = ops.apply("logical_and", is_zero, ops.apply("eq", found, one))
        free = ops.apply("eq", found, zero)
        rest = ops.apply("where", free, ops.apply("div", product, safe), zero)
        return scatter(ones, index, updates, axis, "mul"), ops.apply("where", lone, product, rest)
    mine = ops.cast(ops.apply("eq", base, node), node.dtype)
    theirs = ops.cast(ops.apply("eq", updates, gather(node, index, axis)), node.dtype)
    count = scatter(mine, index, theirs, axis, "add")
    # Where nothing equals the result (NaN) nothing gets a gradient: keep the division finite.
    count = ops.apply("maximum", count, one)
    return ops.apply("div", mine, count), ops.apply("div", theirs, gather(count, index, axis))


def _scatter_vjp(node: Node, cotangent: Node) -> list[Node | None]:
    _, index, updates = node.inputs
    axis, kind = node.params
    found = gather(cotangent, index, axis)
    if kind == "add":
        return [cotangent, None, found]
    if kind == "set":
        cleared = scatter(cotangent, index, ops.zeros_like(updates), axis, "set")
        return [cleared, None, found]
    by_base, by_updates = _weights(node)
    return [
        ops.apply("mul", cotangent, by_base),
        None,
        ops.apply("mul", found, by_updates),
    ]


def _scatter_jvp(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    base, index, updates = node.inputs
    axis, kind = node.params
    into, _, change = tangents
    if into is None and change is None:
        return None
    if kind not in ("add", "set"):
        by_base, by_updates = _weights(node)
        into = into and ops.apply("mul", into, by_base)
        change = change and ops.apply("mul", change, by_updates)
    if into is None:
        into = ops.zeros_like(base)
    if change is None:
        if kind != "set":
            return into
        change = ops.zeros_like(updates)
    return scatter(into, index, change, axis, "set" if kind == "set" else "add")


def _scatter_batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    axis, kind = node.params
    if not batched[1]:
        base, updates = ops.batch_all((inputs[0], inputs[2]), (batched[0], batched[2]))
        return scatter(base, inputs[1], updates, axis + 1, kind)
    base, index, updates = ops.batch_all(inputs, batched)
    rows, places = _offset_rows(base, index, axis)
    values = _to_rows(updates, axis + 1, len(index.shape) - 1)
    flat = scatter(rows, ops.reshape(places, (places.size,)), values, 0, kind)
    return _from_rows(flat, (base.shape[0], base.shape[axis + 1]), axis + 1)


SCATTER = define_op(
    "scatter",
    params=ScatterParams,
    infer=_scatter_infer,
    evaluate=_scatter_evaluate,
    vjp=_scatter_vjp,
    jvp=_scatter_jvp,
    batch=_scatter_batch,
    lower="scatter",
)


def scatter(base: Node, index: Node, updates: Node, axis: int, kind: str) -> Node:
    """``base`` with ``updates`` written or folded in at positions ``index`` of ``axis``.

    ``updates`` has the shape of ``gather(base, index, axis)``. Later duplicates win for ``set``;
    their gradient goes to all of them, as PyTorch's. Positions out of range clamp. Raises
    ShapeError and DTypeError.
    """
    return make(SCATTER, (base, index, updates), ScatterParams(axis, kind))


# ------------------------------------------------------------------------------ update


class UpdateParams(NamedTuple):
    """Element i of the value goes to ``starts + i * steps``."""

    starts: tuple[int, ...]
    steps: tuple[int, ...]


def _slices(node: Node) -> SliceParams:
    return SliceParams(node.params.starts, node.inputs[1].shape, node.params.steps)


def _update_infer(params: UpdateParams, base: Node, value: Node) -> Type:
    if base.dtype is not value.dtype:
        raise DTypeError(f"update: {value.dtype.name} into {base.dtype.name}")
    check_slices("update", base.shape, SliceParams(params.starts, value.shape, params.steps))
    return Type(base.shape, base.dtype)


def _update_evaluate(node: Node, base: Any, value: Any) -> Any:
    out = base.copy()
    out[numpy_slices(_slices(node))] = value
    return out


def _update_vjp(node: Node, cotangent: Node) -> list[Node | None]:
    starts, steps = node.params
    value = node.inputs[1]
    cleared = update(cotangent, ops.zeros_like(value), starts, steps)
    return [cleared, ops.slice_(cotangent, starts, value.shape, steps)]


def _update_jvp(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    into, change = tangents
    if into is None and change is None:
        return None
    base, value = node.inputs
    into = ops.zeros_like(base) if into is None else into
    change = ops.zeros_like(value) if change is None else change
    return update(into, change, *node.params)


def _update_batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    starts, steps = node.params
    base, value = ops.batch_all(inputs, batched)
    return update(base, value, (0, *starts), (1, *steps))


UPDATE = define_op(
    "update",
    params=UpdateParams,
    infer=_update_infer,
    evaluate=_update_evaluate,
    vjp=_update_vjp,
    jvp=_update_jvp,
    batch=_update_batch,
    lower="update",
)


def update(base: Node, value: Node, starts: Sequence[int], steps: Sequence[int]) -> Node:
    """``base`` with ``value`` assigned to a slice: ``base[starts + i * steps] = value[i]``.

    Raises DTypeError when the types differ, BoundsError when the slice leaves ``base``.
    """
    return make(UPDATE, (base, value), UpdateParams(tuple(starts), tuple(steps)))
