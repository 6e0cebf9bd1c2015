"""Reading and writing elements by index tensors: gather, scatter and their relatives.

Index tensors are checked when the function is called: an index out of range raises at the line
that makes the mistake, which computes the index tensor when it is still pending.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from lazyt import ops
from lazyt.errors import BoundsError, DTypeError, LazytError, ShapeError
from lazyt.functional.creation.nesting import refuse_number
from lazyt.functional.elementwise.arithmetic import scalar_build
from lazyt.functional.operands import (
    broadcast_pair,
    choose,
    constant_of,
    expand_to,
    mapped,
    normalize_dim,
    require_tensor,
)
from lazyt.functional.results import SAME_DTYPE, give, known_values
from lazyt.functional.type_promotion import torch_name
from lazyt.handle import pending
from lazyt.handle.device import has_no_values
from lazyt.handle.function_table import function
from lazyt.handle.hooks import capturing
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType, bool_, int32, int64
from lazyt.ir.graph import Node, Shape, topological
from lazyt.ir.scalar import Arg, Call, Const, Expr, post_order, real_number

__all__ = ["gather", "index_select", "scatter", "scatter_add", "take", "take_along_dim"]


# Bounds of integer values that follow from how they are computed, without computing them.
#
# Random integers, sorted orders, counters and remainders of those have bounds that their graphs
# show, so an index made of them needs no look at its values.


Bounds = tuple[int, int]
Known = Bounds | None

#: Graphs of more nodes are not worth the walk.
_MOST = 64


def known_range(node: Node) -> Known:
    """Numbers between which all elements of a pending node are, None where none are known.

    Nothing is computed, and values that are known already are not looked at.
    """
    if node.dtype.kind == "f":
        return None
    order = topological([node], lambda n: n.data is not None or n.dtype.kind == "f")
    if len(order) > _MOST:
        return None
    found: dict[Node, Known] = {}
    for item in order:
        bounds = _of_type(item.dtype)
        if item.data is None and 0 not in item.shape and item.dtype.kind != "f":
            given = [found.get(i) for i in item.inputs]
            bounds = _narrower(_of_node(item, given), bounds)
        found[item] = bounds
    return found[node]


def _of_type(dtype: DType) -> Known:
    if dtype.kind == "f":
        return None
    if dtype.kind == "b":
        return (0, 1)
    bits = 8 * dtype.itemsize
    return (0, (1 << bits) - 1) if dtype.kind == "u" else (-1 << (bits - 1), (1 << (bits - 1)) - 1)


def _narrower(bounds: Known, whole: Known) -> Known:
    """``bounds``, unless values beyond the type's would wrap around."""
    if bounds is None or whole is None or bounds[0] < whole[0] or bounds[1] > whole[1]:
        return whole
    return bounds


def _union(parts: Sequence[Known]) -> Known:
    known = [p for p in parts if p is not None]
    if len(known) < len(parts):
        return None
    return min(p[0] for p in known), max(p[1] for p in known)


def _of_node(node: Node, given: Sequence[Known]) -> Known:
    name, params = node.op.name, node.params
    if node.op.is_movement:
        return given[0]
    if name == "map":
        return _of_expression(params, given)
    if name == "iota":
        return (0, params.extent - 1)
    if name == "const":
        return (int(params.value), int(params.value))
    if name == "sort":
        return given[0] if params.kind == "values" else (0, node.shape[-1] - 1)
    if name == "reduce" and params.kind in ("argmax", "argmin"):
        return (0, node.inputs[0].shape[params.axes[0]] - 1)
    if name == "reduce" and params.kind in ("max", "min"):
        return given[0]
    if name == "gather":
        return given[0]
    return _union(given) if name == "concat" else None


def _of_expression(root: Expr, given: Sequence[Known]) -> Known:
    found: dict[Expr, Known] = {}
    for item in post_order(root):
        whole = _of_type(item.dtype)
        if isinstance(item, Arg):
            bounds = given[item.index]
        elif isinstance(item, Const):
            bounds = None if item.dtype.kind == "f" else (int(real_number(item.value)),) * 2
        elif isinstance(item, Call):
            bounds = _of_call(item, found)
        else:
            bounds = None
        found[item] = _narrower(bounds, whole)
    return found[root]


def _of_call(item: Call, found: dict[Expr, Known]) -> Known:
    if item.fn.name == "where":
        return _of_choice(item, found)
    rule = _RULES.get(item.fn.name)
    parts = [found[argument] for argument in item.args]
    if rule is None or any(part is None for part in parts):
        return None
    return rule(*parts)


def _of_choice(item: Call, found: dict[Expr, Known]) -> Known:
    """``where``: of both branches, or of the smaller or larger of two values."""
    condition, first, second = item.args
    a, b = found[first], found[second]
    if a is None or b is None:
        return None
    if isinstance(condition, Call) and set(condition.args) == {first, second}:
        smaller = condition.args == (first, second)
        if condition.fn.name in ("lt", "le", "gt", "ge"):
            smaller ^= condition.fn.name in ("gt", "ge")
            pick: Callable[[int, int], int] = min if smaller else max
            return pick(a[0], b[0]), pick(a[1], b[1])
    return _union([a, b])


def _mul(a: Bounds, b: Bounds) -> Bounds:
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


def _mod(a: Bounds, b: Bounds) -> Known:
    """A remainder of the divisor's sign, as Python's."""
    return (0, b[1] - 1) if b[0] > 0 else None


def _shift_right(a: Bounds, b: Bounds) -> Known:
    return (a[0] >> b[0], a[1] >> b[0]) if b[0] == b[1] and 0 <= b[0] < 64 else None


_RULES: dict[str, Callable[..., Known]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": _mul,
    "neg": lambda a: (-a[1], -a[0]),
    "minimum": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "maximum": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "mod": _mod,
    "shift_right": _shift_right,
    "cast": lambda a: a,
}

#: From the least to the greatest smallest value, and the same of the largest.
Range = tuple[tuple[int, int], tuple[int, int]]

_ADD, _MUL = scalar_build("add"), scalar_build("mul")

# The smallest and largest value of index nodes that were looked at; values never change.
_ranges: weakref.WeakKeyDictionary[Node, tuple[int, int]] = weakref.WeakKeyDictionary()


def value_range(
    node: Node, *safe: Range, reason: str = "the values of an index are checked"
) -> tuple[int, int]:
    """The smallest and largest value of a non-empty integer node; looks at pending values, unless
    it follows from their graph that they are within one of the ranges ``safe``: then bounds.

    Args:
        safe: ranges of smallest and largest values within which the caller does the same. A
            captured function is replayed within the first of them that holds now, or where
            there is none, for the same two values alone.
        reason: what ``why_realized()`` tells.
    """
    if safe and has_no_values(node):
        return safe[0][0][0], safe[0][0][0]
    source = node
    while source.op.is_movement and source.data is None:
        source = source.inputs[0]
    if source.op.name == "iota":
        return 0, source.shape[0] - 1
    watcher = capturing()
    if watcher is not None:
        node = watcher.whole(node)
    found = _ranges.get(node)
    if found is None and safe and node.data is None:
        bounds = known_range(node)
        for lowest, highest in safe:
            if bounds and lowest == highest and lowest[0] <= bounds[0] and bounds[1] <= lowest[1]:
                return bounds
    if found is None:
        if watcher is not None:
            pending.realize_nodes([node])
            values = node.data.as_numpy(node.dtype, node.shape)
        else:
            values = known_values(node, reason)
        found = _ranges[node] = (int(values.min()), int(values.max()))
    if watcher is not None:
        low, high = found
        exact = ((low, low), (high, high))
        fits = [r for r in safe if r[0][0] <= low <= r[0][1] and r[1][0] <= high <= r[1][1]]
        watcher.checked(node, (fits or [exact])[0])
    return found


def within(low: int, high: int) -> Range:
    """All ranges from ``low`` to ``high``."""
    return ((low, high), (low, high))


def checked_index(index: Tensor, extent: int, complain: Callable[[int], Exception]) -> Node:
    """The index as non-negative int64 values; ``complain(bad)`` makes the error for a bad one."""
    node = index.node
    if node.size:
        some_negative = ((-extent, -1), (-extent, extent - 1))
        low, high = value_range(node, within(0, extent - 1), some_negative)
        if low < -extent or high >= extent:
            raise complain(low if low < -extent else high)
        if low < 0:
            return wrapped(ops.cast(node, int64), extent)
    return ops.cast(node, int64)


def wrapped(node: Node, extent: int) -> Node:
    """Negative indices counted from the end."""
    zero = ops.constant(0, int64)
    negative = ops.apply("lt", node, zero)
    moved = mapped(_ADD, (node, ops.constant(extent, int64)), int64, None)
    return choose(negative, moved, node, int64)


def plain_index(index: Tensor, extent: int, dim: int, function: str) -> Node:
    """The index of functions that take no negative values; raises as PyTorch does."""
    if index.dtype not in (int32, int64):
        raise DTypeError(f"{function}(): Expected dtype int32/int64 for index")
    node = index.node
    if node.size:
        low, high = value_range(node, within(0, extent - 1))
        bad = low if low < 0 else high
        if bad < 0 or bad >= extent:
            raise BoundsError(
                f"index {bad} is out of bounds for dimension {dim} with size {extent}"
            )
    return ops.cast(node, int64)


def _last(axis: int, rank: int) -> list[int]:
    """The permutation that brings ``axis`` to the end."""
    return [*(a for a in range(rank) if a != axis), axis]


def _cut(node: Node, shape: Shape, axis: int) -> Node:
    """``node`` cut to the extents of ``shape`` on every axis but ``axis``."""
    sizes = tuple(n if i == axis else m for i, (n, m) in enumerate(zip(node.shape, shape)))
    if sizes == node.shape:
        return node
    return ops.slice_(node, (0,) * len(sizes), sizes, (1,) * len(sizes))


def gather_node(node: Node, index: Node, axis: int) -> Node:
    """``torch.gather`` on nodes; the index holds checked, non-negative int64 values."""
    rank = len(node.shape)
    if rank < 2:
        return ops.gather(node, index, 0)
    order = _last(axis, rank)
    rows = ops.permute(_cut(node, index.shape, axis), order)
    found = ops.gather(rows, ops.permute(index, order), rank - 1, rank - 1)
    return ops.permute(found, [order.index(a) for a in range(rank)])


def scatter_of(base: Node, places: Node, updates: Node, axis: int, kind: str) -> Node:
    """``ops.scatter``; the sum of truth values is whether any holds."""
    if base.dtype is bool_ and kind in ("add", "mul"):
        kind = "max" if kind == "add" else "min"
    return ops.scatter(base, places, updates, axis, kind)


def scattered(base: Node, places: Node, updates: Node, axis: int, kind: str) -> Node:
    """``torch.scatter`` on nodes, row by row along ``axis``."""
    rank = len(base.shape)
    if rank < 2:
        places, updates = (ops.reshape(n, (n.size,)) for n in (places, updates))
        return ops.reshape(
            scatter_of(ops.reshape(base, (base.size,)), places, updates, 0, kind), base.shape
        )
    order = _last(axis, rank)
    back = [order.index(a) for a in range(rank)]
    part = _cut(base, places.shape, axis)
    moved = (ops.permute(n, order) for n in (part, places, updates))
    rows, at, values = moved
    if base.dtype is bool_ and kind in ("add", "mul"):
        kind = "max" if kind == "add" else "min"
    written = ops.permute(ops.scatter(rows, at, values, rank - 1, kind, rank - 1), back)
    if part is base:
        return written
    return ops.update(base, written, (0,) * rank, (1,) * rank)


def _check_sizes(
    input: Tensor, index: Tensor, axis: int, name: str = "input", src: Any = None
) -> None:
    """Every size of the index but that along ``axis`` fits within the tensor's."""
    if not index.shape.numel():
        return
    if max(len(index.shape), 1) != max(len(input.shape), 1):
        raise ShapeError(f"Index tensor must have the same number of dimensions as {name} tensor")
    for i, (n, limit) in enumerate(zip(index.shape, input.shape)):
        if i != axis and n > limit and isinstance(src, Tensor):
            raise ShapeError(
                f"Expected index {list(index.shape)} to be no larger than self "
                f"{list(input.shape)} apart from dimension {axis} and to be no larger size than "
                f"src {list(src.shape)}"
            )
        if i != axis and n > limit:
            raise ShapeError(
                f"Size does not match at dimension {i} expected index {list(index.shape)} to be "
                f"no larger than self {list(input.shape)} apart from dimension {axis}"
            )


@function(method=True, saves="a", indices=1, out_dtype=SAME_DTYPE, out_separate=True)
def gather(
    input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``out[i][j] = input[index[i][j]][j]`` for dim 0, and so on.

    The gradient is dense, also with ``sparse_grad``. Raises ShapeError for sizes that do not fit,
    BoundsError for an index out of range.
    """
    axis = normalize_dim(dim, len(input.shape))
    _check_sizes(input, index, axis)
    if not input.shape:
        plain_index(index, 1, axis, "gather")
        return give(expand_to(input.node, tuple(index.shape)), "Gather", (input, index), out)
    if not index.shape.numel():
        none = ops.slice_(ops.reshape(input.node, (input.node.size,)), (0,), (0,), (1,))
        empty = ops.reshape(none, tuple(index.shape))
        return give(empty, "Gather", (input, index), out)
    places = plain_index(index, input.shape[axis], axis, "gather")
    return give(gather_node(input.node, places, axis), "Gather", (input, index), out)


@function(method=True)
def take_along_dim(
    input: Tensor, indices: Tensor, dim: int | None = None, *, out: Tensor | None = None
) -> Tensor:
    """``gather`` with broadcasting, of the flattened tensor without ``dim``.

    Along a ``dim`` indices count modulo its size, as in PyTorch, so none is out of range.
    """
    require_tensor(input, "take_along_dim")
    if dim is None:
        flat = ops.reshape(input.node, (input.node.size,))
        index = ops.reshape(indices.node, (indices.node.size,))
        return gather(give(flat, "View", (input,)), 0, give(index, "View", (indices,)), out=out)
    if len(input.shape) != len(indices.shape):
        raise ShapeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, "
            f"but got {len(input.shape)} dimensions for input, and {len(indices.shape)} dimensions "
            "for indices"
        )
    axis = normalize_dim(dim, len(input.shape))
    left = tuple(1 if i == axis else n for i, n in enumerate(input.shape))
    right = tuple(1 if i == axis else n for i, n in enumerate(indices.shape))
    common = broadcast_pair(left, right)
    shape = (*common[:axis], input.shape[axis], *common[axis + 1 :])
    places = (*common[:axis], indices.shape[axis], *common[axis + 1 :])
    source = give(expand_to(input.node, shape), "Expand", (input,))
    picks = give(expand_to(indices.node, places), "Expand", (indices,))
    size = shape[axis]
    if not size:
        return gather(source, axis, picks, out=out)
    if picks.dtype is not int64:
        plain_index(picks, size, axis, "gather")
    turned = ops.apply("mod", picks.node, constant_of(size, int64))
    node = gather_node(source.node, turned, axis) if shape else source.node
    return give(node, "Gather", (source, picks), out)


@function(
    method=True,
    saves="k",
    indices=1,
    out_dtype="index_select(): self and result must have the same scalar type",
    out_separate=True,
)
def index_select(input: Tensor, dim: int, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The slices of ``input`` along ``dim`` that the vector ``index`` names."""
    if len(index.shape) > 1:
        raise BoundsError("index_select(): Index is supposed to be a vector")
    axis = normalize_dim(dim, len(input.shape))
    if len(input.shape) > 1 and not input.shape[axis] and index.shape.numel():
        raise LazytError("index_select(): self indexing axis dim should be positive")
    if not input.shape:
        if index.shape.numel() != 1:
            raise ShapeError(
                "index_select(): Index to scalar can have only 1 value, got "
                f"{index.shape.numel()} value(s)"
            )
        vector_index(index, 1)
        return give(input.node, "IndexSelect", (input, index), out)
    places = vector_index(index, input.shape[axis])
    return give(ops.gather(input.node, places, axis), "IndexSelect", (input, index), out)


def vector_index(index: Tensor, extent: int) -> Node:
    """An index of slices as an int64 vector. Raises BoundsError for one out of range."""
    if index.dtype.kind != "i":
        raise DTypeError("index_select(): Expected dtype int32 or int64 for index")
    node = index.node
    if node.size:
        low, high = value_range(node, within(0, extent - 1))
        if low < 0 or high >= extent:
            raise BoundsError("index out of range in self")
    node = ops.cast(node, int64)
    return node if node.shape else ops.reshape(node, (1,))


@function(
    method=True,
    saves="a",
    indices=1,
    out_dtype=(
        "take(): self and out expected to have the same dtype, but got self.dtype = {Want} and "
        "out.dtype = {Got}"
    ),
    out_separate=True,
)
def take(input: Tensor, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements of the flattened tensor at ``index``, in its shape.

    Raises DTypeError unless the index is int64, BoundsError for one out of range.
    """
    require_tensor(input, "take")
    if index.dtype is not int64:
        raise DTypeError(
            f"take(): Expected a long tensor for index, but got {torch_name(index.dtype)}"
        )
    size = input.node.size

    def complain(bad: int) -> Exception:
        return BoundsError(
            f"out of range: tried to access index {bad} on a tensor of {size} elements."
        )

    places = checked_index(index, size, complain)
    flat = ops.reshape(input.node, (size,))
    return give(ops.gather(flat, places, 0), "Take", (input, index), out)


def scatter_updates(input: Tensor, axis: int, index: Tensor, src: Any) -> tuple[Node, Node]:
    """The checked index of a scatter along ``axis``, and its updates in the index' shape.

    Raises ShapeError, DTypeError and BoundsError as ``scatter`` does.
    """
    base = input.node
    _check_sizes(input, index, axis, "self", src)
    several = isinstance(src, Tensor) and index.shape.numel()
    if several and max(len(index.shape), 1) != max(len(src.shape), 1):
        raise ShapeError("Index tensor must have the same number of dimensions as src tensor")
    places = plain_index(index, (*base.shape, 1)[axis], axis, "scatter")
    if not places.size:
        return places, expand_to(constant_of(0, input.dtype), places.shape)
    if not isinstance(src, Tensor):
        refuse_number(src, input.dtype)
        return places, expand_to(constant_of(src, input.dtype), places.shape)
    if src.dtype is not input.dtype:
        raise DTypeError("scatter(): Expected self.dtype to be equal to src.dtype")
    updates = src.node
    if len(updates.shape) != len(places.shape) or any(
        n > m for n, m in zip(places.shape, updates.shape)
    ):
        raise ShapeError(
            f"Expected index {list(places.shape)} to be no larger than src {list(updates.shape)}"
        )
    if updates.shape != places.shape:
        rank = len(places.shape)
        updates = ops.slice_(updates, (0,) * rank, places.shape, (1,) * rank)
    return places, updates


def _scatter(input: Tensor, dim: int, index: Tensor, src: Any, kind: str) -> Node:
    axis = normalize_dim(dim, len(input.shape))
    places, updates = scatter_updates(input, axis, index, src)
    return scattered(input.node, places, updates, axis, kind) if places.size else input.node


@function(method=True, inplace="method", separate=True, saves="k", indices=2, out_dtype=SAME_DTYPE)
def scatter(
    input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None,
    reduce: str | None = None, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """A copy of ``input`` with ``out[index[i][j]][j] = src[i][j]`` for dim 0, and so on."""
    kind = "set"
    if reduce is not None:
        if reduce not in ("add", "multiply"):
            raise LazytError("reduce argument must be either add or multiply.")
        kind = "add" if reduce == "add" else "mul"
    given = src if src is not None else value
    return give(_scatter(input, dim, index, given, kind), "Scatter", (input, given, index), out)


@function(
    method=True,
    inplace="method",
    cast="widest",
    separate=True,
    saves="K",
    indices=2,
    out_dtype=SAME_DTYPE,
)
def scatter_add(
    input: Tensor, dim: int, index: Tensor, src: Tensor, *, out: Tensor | None = None
) -> Tensor:
    """``scatter`` that adds to what is there; duplicates add up."""
    return give(_scatter(input, dim, index, src, "add"), "ScatterAdd", (input, src, index), out)
