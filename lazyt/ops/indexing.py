"""Reads and writes at positions held in a value (gather, scatter), slice assignment (update),
and the order of rows (sort)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyt.errors import BoundsError, DTypeError, InternalError, ShapeError
from lazyt.ir.dtypes import bool_, int64
from lazyt.ir.graph import Node, Type
from lazyt.ir.scalar import FUNCTIONS
from lazyt.ops import builders as build
from lazyt.ops.builders import GatherParams, ScatterParams, SliceParams, SortParams, UpdateParams
from lazyt.ops.compositions import batch_all, matrix_rows, pick_rows, zeros_like
from lazyt.ops.movement import check_slices, numpy_slices
from lazyt.ops.registry import define_op


def _check_index(name: str, node: Node, index: Node, axis: int, batch: int) -> None:
    if not 0 <= axis < len(node.shape):
        raise BoundsError(f"{name}: no axis {axis} in shape {list(node.shape)}")
    if index.dtype.kind not in "ui":
        raise DTypeError(f"{name}: the index must be of an integer type, not {index.dtype.name}")
    if batch > axis or node.shape[:batch] != index.shape[:batch]:
        raise ShapeError(
            f"{name}: {batch} leading axes must agree, got {list(node.shape)} and an index of "
            f"{list(index.shape)}"
        )
    if node.shape[axis] == 0 and index.size:
        raise BoundsError(f"{name}: axis {axis} of shape {list(node.shape)} has no elements")


def _rows(index: Any, batch: int) -> tuple[Any, ...]:
    """Open grids over the batch axes, to stand before an index array."""
    return tuple(
        np.arange(index.shape[n]).reshape([-1 if m == n else 1 for m in range(index.ndim)])
        for n in range(batch)
    )


# ------------------------------------------------------------------------------ gather


def _gather_infer(params: GatherParams, node: Node, index: Node) -> Type:
    axis, batch = params
    _check_index("gather", node, index, axis, batch)
    shape = (*node.shape[:axis], *index.shape[batch:], *node.shape[axis + 1 :])
    return Type(shape, node.dtype)


def _clamped(index: Any, extent: int) -> Any:
    # uint64 beyond int64 would turn negative: clamp it from above in its own type.
    return np.minimum(index, np.asarray(extent - 1).astype(index.dtype)
                      if extent - 1 <= np.iinfo(index.dtype).max
                      else index).astype(np.int64).clip(0)  # fmt: skip


def _gather_evaluate(node: Node, array: Any, index: Any) -> Any:
    axis, batch = node.params
    if index.size == 0:
        return np.empty(node.shape, array.dtype)
    at = _clamped(index, array.shape[axis])
    if not batch:
        return np.take(array, at, axis)
    found = np.moveaxis(array, axis, batch)[(*_rows(at, batch), at)]
    between = list(range(at.ndim, at.ndim + axis - batch))
    rest = list(range(at.ndim + axis - batch, found.ndim))
    return found.transpose([*range(batch), *between, *range(batch, at.ndim), *rest])


def _gather_vjp(node: Node, cotangent: Node) -> list[Node | None]:
    source, index = node.inputs
    axis, batch = node.params
    if batch and all(extent == 1 for extent in index.shape[batch:]):
        return [_spread(source, index, cotangent, axis, batch), None]
    zeros = zeros_like(source)
    return [build.scatter(zeros, index, cotangent, axis, "add", batch), None]


def _spread(source: Node, index: Node, cotangent: Node, axis: int, batch: int) -> Node:
    """The gradient of one element picked per row: a comparison, cheaper than a scatter."""
    shape = source.shape
    row = (*shape[:batch], *(1,) * (len(shape) - batch))
    limit = build.constant(shape[axis] - 1, int64)
    at = build.apply("maximum", build.cast(index, int64), build.constant(0, int64))
    at = build.reshape(build.apply("minimum", at, limit), row)
    ramp = tuple(extent if n == axis else 1 for n, extent in enumerate(shape))
    here = build.apply("eq", build.reshape(build.iota(shape[axis]), ramp), at)
    picked = build.reshape(cotangent, (*shape[:axis], 1, *shape[axis + 1 :]))
    spread = build.apply("where", here, picked, build.constant(0, source.dtype))
    return build.broadcast_to(spread, shape)


def _gather_jvp(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    tangent = tangents[0]
    return None if tangent is None else build.gather(tangent, node.inputs[1], *node.params)


def _gather_batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    axis, batch = node.params
    if not batched[1] and not batch:
        return build.gather(inputs[0], inputs[1], axis + 1)
    if not batched[0] and not batch:
        found = build.gather(inputs[0], inputs[1], axis)
        rest = [a for a in range(len(found.shape)) if a != axis]
        return build.permute(found, [axis, *rest])
    source, index = batch_all(inputs, batched)
    return build.gather(source, index, axis + 1, batch + 1)


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


# ----------------------------------------------------------------------------- scatter


_MEET: dict[str, Any] = {
    "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum,
}  # fmt: skip


def _scatter_infer(params: ScatterParams, base: Node, index: Node, updates: Node) -> Type:
    axis, kind, batch = params
    if kind != "set" and kind not in _MEET:
        raise InternalError("ops.indexing", f"no scatter is called {kind!r}")
    _check_index("scatter", base, index, axis, batch)
    if base.dtype is not updates.dtype:
        raise DTypeError(f"scatter: {updates.dtype.name} into {base.dtype.name}")
    sums = kind in ("add", "mul") and (base.dtype is bool_ or base.dtype.is_half)
    if sums or (base.dtype.kind == "c" and kind not in ("add", "set")):
        raise DTypeError(f"scatter {kind} does not take {base.dtype.name}")
    expected = (*base.shape[:axis], *index.shape[batch:], *base.shape[axis + 1 :])
    if updates.shape != expected:
        raise ShapeError(
            f"scatter: updates of shape {list(updates.shape)}, expected {list(expected)}"
        )
    return Type(base.shape, base.dtype)


def _scatter_evaluate(node: Node, base: Any, index: Any, updates: Any) -> Any:
    axis, kind, batch = node.params
    if updates.size == 0:
        return base
    out = np.moveaxis(base, axis, batch).copy()
    middle = list(range(axis, axis + index.ndim - batch))
    between = list(range(batch, axis))
    rest = list(range(axis + index.ndim - batch, updates.ndim))
    values = updates.transpose([*range(batch), *middle, *between, *rest])
    rows = index.shape[:batch]
    values = values.reshape((*rows, -1, *values.shape[index.ndim :]))
    at = _clamped(index, out.shape[batch]).reshape((*rows, -1))
    places = (*_rows(at, batch), at)
    if kind == "set":
        out[places] = values
    elif kind in ("max", "min") and node.dtype.kind == "f" and (values == 0).any():
        # Of zeros of two signs the first stays; NumPy's extremes are not that particular.
        meet = FUNCTIONS["maximum" if kind == "max" else "minimum"].evaluate
        for n in range(at.shape[-1]):
            place = (*(row[..., 0] for row in places[:-1]), at[..., n])
            out[place] = meet(out[place], values[(slice(None),) * batch + (n,)])
    else:
        _MEET[kind].at(out, places, values)
    return np.moveaxis(out, batch, axis)


def _two(node: Node) -> Node:
    return build.constant(2, node.dtype)


def _weights(node: Node) -> tuple[Node, Node]:
    """For add, mul, max, min: the partial derivatives by the base and by the updates."""
    base, index, updates = node.inputs
    axis, kind, batch = node.params
    one, zero = build.constant(1, node.dtype), build.constant(0, node.dtype)
    zeros = zeros_like(base)
    if kind == "mul":
        ones = build.broadcast_to(one, base.shape)
        is_zero = build.apply("eq", updates, zero)
        safe = build.apply("where", is_zero, one, updates)
        count = build.scatter(zeros, index, build.cast(is_zero, node.dtype), axis, "add", batch)
        product = build.gather(
            build.scatter(base, index, safe, axis, "mul", batch), index, axis, batch
        )
        found = build.gather(count, index, axis, batch)
        # The product of the others, as what it is by each of them: one more 0 among them is a
        # factor, and the product itself holds all that a factor other than 0 is multiplied with.
        naught = build.apply("where", is_zero, updates, zero)
        naughts = build.gather(
            build.scatter(zeros, index, naught, axis, "add", batch), index, axis, batch
        )
        pair = build.apply("mul", build.apply("sub", naughts, updates), product)
        pair = build.apply("where", build.apply("eq", found, _two(node)), pair, zero)
        alone = build.apply("where", build.apply("eq", found, one), product, pair)
        rest = build.apply("div", build.gather(node, index, axis, batch), safe)
        weights = build.apply("where", is_zero, alone, rest)
        return build.scatter(ones, index, updates, axis, "mul", batch), weights
    wide = node.dtype.compute  # 16 bits cannot count beyond 65504, and lose numbers before that
    mine = build.cast(build.apply("eq", base, node), wide)
    theirs = build.cast(build.apply("eq", updates, build.gather(node, index, axis, batch)), wide)
    count = build.scatter(mine, index, theirs, axis, "add", batch)
    # Where nothing equals the result (NaN) nothing gets a gradient: keep the division finite.
    count = build.apply("maximum", count, build.constant(1, wide))
    found = build.gather(count, index, axis, batch)
    shares = (build.apply("div", mine, count), build.apply("div", theirs, found))
    return build.cast(shares[0], node.dtype), build.cast(shares[1], node.dtype)


def _scatter_vjp(node: Node, cotangent: Node) -> list[Node | None]:
    _, index, updates = node.inputs
    axis, kind, batch = node.params
    found = build.gather(cotangent, index, axis, batch)
    if kind == "add":
        return [cotangent, None, found]
    if kind == "set":
        cleared = build.scatter(cotangent, index, zeros_like(updates), axis, "set", batch)
        return [cleared, None, found]
    by_base, by_updates = _weights(node)
    return [
        build.apply("mul", cotangent, by_base),
        None,
        build.apply("mul", found, by_updates),
    ]


def _scatter_jvp(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    base, index, updates = node.inputs
    axis, kind, batch = node.params
    into, _, change = tangents
    if into is None and change is None:
        return None
    if kind not in ("add", "set"):
        by_base, by_updates = _weights(node)
        into = into and build.apply("mul", into, by_base)
        change = change and build.apply("mul", change, by_updates)
    if into is None:
        into = zeros_like(base)
    if change is None:
        if kind != "set":
            return into
        change = zeros_like(updates)
    return build.scatter(into, index, change, axis, "set" if kind == "set" else "add", batch)


def _scatter_batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    axis, kind, batch = node.params
    if not batched[1] and not batch:
        base, updates = batch_all((inputs[0], inputs[2]), (batched[0], batched[2]))
        return build.scatter(base, inputs[1], updates, axis + 1, kind)
    base, index, updates = batch_all(inputs, batched)
    return build.scatter(base, index, updates, axis + 1, kind, batch + 1)


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


# ------------------------------------------------------------------------------ update


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
    cleared = build.update(cotangent, zeros_like(value), starts, steps)
    return [cleared, build.slice_(cotangent, starts, value.shape, steps)]


def _update_jvp(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    into, change = tangents
    if into is None and change is None:
        return None
    base, value = node.inputs
    into = zeros_like(base) if into is None else into
    change = zeros_like(value) if change is None else change
    return build.update(into, change, *node.params)


def _update_batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    starts, steps = node.params
    base, value = batch_all(inputs, batched)
    return build.update(base, value, (0, *starts), (1, *steps))


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


# ------------------------------------------------------------------------------ sort


def _sort_infer(params: SortParams, node: Node) -> Type:
    if params.kind not in ("values", "order"):
        raise InternalError("ops.sorting", f"a sort gives no {params.kind!r}")
    if not node.shape:
        raise ShapeError("sort: a single number has no axis to sort along")
    return Type(node.shape, node.dtype if params.kind == "values" else int64)


def _sort_order(array: Any, descending: bool) -> Any:
    # NumPy sorts ascending only: from the back, equal elements keep their order as well.
    if not descending:
        return np.argsort(array, axis=-1, kind="stable")
    back = np.argsort(np.flip(array, -1), axis=-1, kind="stable")
    return array.shape[-1] - 1 - np.flip(back, -1)


def _sort_evaluate(node: Node, array: Any) -> Any:
    order = _sort_order(array, node.params.descending)
    return order if node.params.kind == "order" else np.take_along_axis(array, order, -1)


def _sort_vjp(node: Node, cotangent: Node) -> list[Node | None]:
    if node.params.kind == "order" or node.size == 0:
        return [None]
    order = build.sort("order", node.inputs[0], node.params.descending)
    rows = matrix_rows(cotangent)
    back = build.scatter(zeros_like(rows), matrix_rows(order), rows, 1, "add", 1)
    return [build.reshape(back, node.shape)]


def _sort_jvp(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    tangent = tangents[0]
    if tangent is None or node.params.kind == "order" or node.size == 0:
        return None
    return pick_rows(tangent, build.sort("order", node.inputs[0], node.params.descending))


def _sort_batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    return build.sort(node.params.kind, inputs[0], node.params.descending)


SORT = define_op(
    "sort",
    params=SortParams,
    infer=_sort_infer,
    evaluate=_sort_evaluate,
    vjp=_sort_vjp,
    jvp=_sort_jvp,
    batch=_sort_batch,
    lower="sort",
)
