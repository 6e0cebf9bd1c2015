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
from lazyt.ops.registry import batch_all, define_op


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


class GatherParams(NamedTuple):
    """The operand's axis that the index replaces; ``batch`` leading axes run along with it."""

    axis: int
    batch: int = 0


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
    zeros = ops.zeros_like(source)
    return [scatter(zeros, index, cotangent, axis, "add", batch), None]


def _spread(source: Node, index: Node, cotangent: Node, axis: int, batch: int) -> Node:
    """The gradient of one element picked per row: a comparison, cheaper than a scatter."""
    shape = source.shape
    row = (*shape[:batch], *(1,) * (len(shape) - batch))
    limit = ops.constant(shape[axis] - 1, int64)
    at = ops.apply("maximum", ops.cast(index, int64), ops.constant(0, int64))
    at = ops.reshape(ops.apply("minimum", at, limit), row)
    ramp = tuple(extent if n == axis else 1 for n, extent in enumerate(shape))
    here = ops.apply("eq", ops.reshape(ops.iota(shape[axis]), ramp), at)
    picked = ops.reshape(cotangent, (*shape[:axis], 1, *shape[axis + 1 :]))
    spread = ops.apply("where", here, picked, ops.constant(0, source.dtype))
    return ops.broadcast_to(spread, shape)


def _gather_jvp(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    tangent = tangents[0]
    return None if tangent is None else gather(tangent, node.inputs[1], *node.params)


def _gather_batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    axis, batch = node.params
    if not batched[1] and not batch:
        return gather(inputs[0], inputs[1], axis + 1)
    if not batched[0] and not batch:
        found = gather(inputs[0], inputs[1], axis)
        rest = [a for a in range(len(found.shape)) if a != axis]
        return ops.permute(found, [axis, *rest])
    source, index = batch_all(inputs, batched)
    return gather(source, index, axis + 1, batch + 1)


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


def gather(node: Node, index: Node, axis: int, batch: int = 0) -> Node:
    """Elements of ``axis`` by an integer ``index``, whose shape takes the axis' place.

    The first ``batch`` axes of both run together: row b of the index picks from row b. Positions
    out of range clamp. Raises DTypeError for an index that is not of an integer type.
    """
    return make(GATHER, (node, index), GatherParams(axis, batch))


# ----------------------------------------------------------------------------- scatter


class ScatterParams(NamedTuple):
    """The axis that the index walks on, and how values meet: set add mul max min.

    ``batch`` leading axes of base and index run together.
    """

    axis: int
    kind: str
    batch: int = 0


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
    if kind in ("add", "mul") and (base.dtype is bool_ or base.dtype.is_half):
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
    else:
        _MEET[kind].at(out, places, values)
    return np.moveaxis(out, batch, axis)


def _two(node: Node) -> Node:
    return ops.constant(2, node.dtype)


def _weights(node: Node) -> tuple[Node, Node]:
    """For add, mul, max, min: the partial derivatives by the base and by the updates."""
    base, index, updates = node.inputs
    axis, kind, batch = node.params
    one, zero = ops.constant(1, node.dtype), ops.constant(0, node.dtype)
    zeros = ops.zeros_like(base)
    if kind == "mul":
        ones = ops.broadcast_to(one, base.shape)
        is_zero = ops.apply("eq", updates, zero)
        safe = ops.apply("where", is_zero, one, updates)
        count = scatter(zeros, index, ops.cast(is_zero, node.dtype), axis, "add", batch)
        product = gather(scatter(base, index, safe, axis, "mul", batch), index, axis, batch)
        found = gather(count, index, axis, batch)
        # The product of the others, as what it is by each of them: one more 0 among them is a
        # factor, and the product itself holds all that a factor other than 0 is multiplied with.
        naught = ops.apply("where", is_zero, updates, zero)
        naughts = gather(scatter(zeros, index, naught, axis, "add", batch), index, axis, batch)
        pair = ops.apply("mul", ops.apply("sub", naughts, updates), product)
        pair = ops.apply("where", ops.apply("eq", found, _two(node)), pair, zero)
        alone = ops.apply("where", ops.apply("eq", found, one), product, pair)
        rest = ops.apply("div", gather(node, index, axis, batch), safe)
        weights = ops.apply("where", is_zero, alone, rest)
        return scatter(ones, index, updates, axis, "mul", batch), weights
    wide = node.dtype.compute  # 16 bits cannot count beyond 65504, and lose numbers before that
    mine = ops.cast(ops.apply("eq", base, node), wide)
    theirs = ops.cast(ops.apply("eq", updates, gather(node, index, axis, batch)), wide)
    count = scatter(mine, index, theirs, axis, "add", batch)
    # Where nothing equals the result (NaN) nothing gets a gradient: keep the division finite.
    count = ops.apply("maximum", count, ops.constant(1, wide))
    found = gather(count, index, axis, batch)
    shares = (ops.apply("div", mine, count), ops.apply("div", theirs, found))
    return ops.cast(shares[0], node.dtype), ops.cast(shares[1], node.dtype)


def _scatter_vjp(node: Node, cotangent: Node) -> list[Node | None]:
    _, index, updates = node.inputs
    axis, kind, batch = node.params
    found = gather(cotangent, index, axis, batch)
    if kind == "add":
        return [cotangent, None, found]
    if kind == "set":
        cleared = scatter(cotangent, index, ops.zeros_like(updates), axis, "set", batch)
        return [cleared, None, found]
    by_base, by_updates = _weights(node)
    return [
        ops.apply("mul", cotangent, by_base),
        None,
        ops.apply("mul", found, by_updates),
    ]


def _scatter_jvp(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    base, index, updates = node.inputs
    axis, kind, batch = node.params
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
    return scatter(into, index, change, axis, "set" if kind == "set" else "add", batch)


def _scatter_batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    axis, kind, batch = node.params
    if not batched[1] and not batch:
        base, updates = batch_all((inputs[0], inputs[2]), (batched[0], batched[2]))
        return scatter(base, inputs[1], updates, axis + 1, kind)
    base, index, updates = batch_all(inputs, batched)
    return scatter(base, index, updates, axis + 1, kind, batch + 1)


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


def scatter(base: Node, index: Node, updates: Node, axis: int, kind: str, batch: int = 0) -> Node:
    """``base`` with ``updates`` written or folded in at positions ``index`` of ``axis``.

    ``updates`` has the shape of ``gather(base, index, axis, batch)``. Later duplicates win for
    ``set``; their gradient goes to all of them, as PyTorch's. Positions out of range clamp.
    Sums and products of 16-bit floats are taken in float32 and rounded once, like all others.
    Raises ShapeError and DTypeError.
    """
    if kind in ("add", "mul") and base.dtype.is_half:
        wide = base.dtype.compute
        found = scatter(ops.cast(base, wide), index, ops.cast(updates, wide), axis, kind, batch)
        return ops.cast(found, base.dtype)
    return make(SCATTER, (base, index, updates), ScatterParams(axis, kind, batch))


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
