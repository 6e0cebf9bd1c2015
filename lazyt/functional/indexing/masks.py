"""Functions of bool masks whose result size depends on the values."""

from __future__ import annotations

import operator
import weakref
from typing import Any

from lazyt import ops
from lazyt.errors import DTypeError, LazytError, NoKernelError, ShapeError
from lazyt.functional.elementwise.arithmetic import scalar_build
from lazyt.functional.indexing.picking import value_range
from lazyt.functional.operands import broadcast_pair, choose, expand_to, mapped, require_tensor
from lazyt.functional.results import give
from lazyt.handle.dispatch import lay_out, type_title
from lazyt.handle.function_table import function
from lazyt.handle.hooks import capturing
from lazyt.handle.interop.numpy import read_values
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import bool_, float32, float64, int64
from lazyt.ir.graph import Node

__all__ = [
    "argwhere", "bincount", "masked_scatter", "masked_select", "nonzero",
    "nonzero_static",
]  # fmt: skip

_SUB, _FLOORDIV, _MOD = (scalar_build(n) for n in ("sub", "floordiv", "mod"))
#: what ``why_realized()`` tells of a look that finds the size of a result
COUNTING = "the number of true elements"
_counts: weakref.WeakKeyDictionary[Node, int] = weakref.WeakKeyDictionary()


def count_true(mask: Node) -> int:
    """How many elements of a bool node are true; looks at the values."""
    watcher = capturing()
    found = _counts.get(mask) if watcher is None else None
    if found is None:
        total = ops.reduce_("sum", ops.cast(mask, int64), tuple(range(len(mask.shape))))
        bits = None if watcher is None else watcher.number(total, COUNTING)
        if bits is not None:
            return bits
        found = _counts[mask] = int(read_values(give(total, "sum", ()), COUNTING).item())
    return found


def true_positions(mask: Node) -> Node:
    """The row-major positions of true elements as an int64 vector; looks at the values.

    Every element is written to the place that the count of true ones before it says, one after the
    other: the last to be written to a place is the true element, after which the count goes on.
    """
    count = count_true(mask)
    size = mask.size
    base = expand_to(ops.constant(0, int64), (count + 1,))
    if count:
        flat = ops.cast(ops.reshape(mask, (size,)), int64)
        first = expand_to(ops.constant(0, int64), (1,))
        earlier = ops.concat([first, ops.slice_(flat, (0,), (size - 1,), (1,))], 0)
        base = ops.scatter(base, ops.scan("sum", earlier, 0), ops.iota(size), 0, "set")
    return ops.slice_(base, (0,), (count,), (1,))


def coordinates(mask: Node) -> list[Node]:
    """One int64 vector per dimension: where the true elements are."""
    places = true_positions(mask)
    parts: list[Node] = []
    for extent in reversed(mask.shape[1:]):
        size = ops.constant(extent, int64)
        parts.append(mapped(_MOD, (places, size), int64, None))
        places = mapped(_FLOORDIV, (places, size), int64, None)
    parts.append(places)
    parts.reverse()
    return parts


@function(
    method=True,
    out_dtype="nonzero: Expected out tensor to have scalar type Long but got scalar type{Got}",
)
def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: bool = False) -> Any:
    """Where elements are not zero: a (count, rank) tensor, or one vector per dimension.

    Looks at the values, because the size of the result depends on them.
    """
    require_tensor(input, "nonzero")
    mask = ops.cast(input.node, bool_)
    if as_tuple:  # parts of one tensor, as in PyTorch
        return nonzero(input if input.shape else input.reshape(1)).unbind(1)
    if not mask.shape:
        empty = expand_to(ops.constant(0, int64), (count_true(mask), 0))
        return give(empty, "nonzero", (), out)
    columns = [ops.reshape(part, (part.shape[0], 1)) for part in coordinates(mask)]
    found = give(ops.concat(columns, 1), "nonzero", (), out)
    count = found.shape[0]  # PyTorch puts the coordinates of one dimension side by side
    return lay_out(found, (1, count)) if out is None else found


@function(method=True)
def nonzero_static(
    input: Tensor, *, size: int, fill_value: int = -1, out: Tensor | None = None
) -> Tensor:
    """``nonzero`` cut or filled with ``fill_value`` to ``size`` rows: looks at no values.

    Raises LazytError for a negative size.
    """
    size = operator.index(size)
    if size < 0:
        raise LazytError("nonzero_static: 'size' must be an non-negative integer")
    shape = tuple(input.shape)
    if not shape or not size:
        empty = expand_to(ops.constant(0, int64), (size, len(shape)))
        return give(empty, "nonzero_static", (), out)
    count = input.shape.numel()
    flat = ops.reshape(ops.cast(input.node, bool_), (count,))
    running = ops.scan("sum", ops.cast(flat, int64), 0)
    slot = mapped(_SUB, (running, ops.constant(1, int64)), int64, None)
    beyond = ops.constant(size, int64)  # one place past the end takes what is cut off
    slot = choose(flat, ops.apply("minimum", slot, beyond), beyond, int64)
    columns, pitch = [], count
    for extent in shape:
        pitch //= max(extent, 1)
        place = mapped(
            _FLOORDIV, (ops.iota(count), ops.constant(max(pitch, 1), int64)), int64, None
        )
        place = mapped(_MOD, (place, ops.constant(max(extent, 1), int64)), int64, None)
        base = expand_to(ops.constant(fill_value, int64), (size + 1,))
        column = ops.scatter(base, slot, place, 0, "set") if count else base
        columns.append(ops.reshape(ops.slice_(column, (0,), (size,), (1,)), (size, 1)))
    return give(ops.concat(columns, 1), "nonzero_static", (), out)


@function(method=True)
def argwhere(input: Tensor) -> Tensor:
    """``nonzero`` as a (count, rank) tensor."""
    require_tensor(input, "argwhere")
    found: Tensor = nonzero(input)
    return found


@function(
    method=True,
    saves="a",
    indices=1,
    out_dtype="masked_select(): self and result must have the same scalar type",
    out_separate=True,
)
def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements where ``mask`` holds, as a vector; both broadcast. Looks at the mask."""
    require_tensor(input, "masked_select")
    if mask.dtype is not bool_:
        raise DTypeError("masked_select: expected BoolTensor for mask")
    shape = broadcast_pair(tuple(mask.shape), tuple(input.shape))
    node = expand_to(input.node, shape)
    places = true_positions(expand_to(mask.node, shape))
    picked = ops.gather(ops.reshape(node, (node.size,)), places, 0)
    return give(picked, "MaskedSelect", (input, mask), out)


@function(method=True, inplace="method")
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """``input`` with the elements where ``mask`` holds replaced by those of ``source`` in order."""
    if mask.dtype is not bool_:
        raise DTypeError("masked_scatter_ only supports boolean masks, but got mask with dtype "
                         f"{type_title(mask.dtype)}")  # fmt: skip
    if source.dtype is not input.dtype:
        raise DTypeError(
            "masked_scatter: expected self and source to have same dtypes but got"
            f"{type_title(input.dtype)} and {type_title(source.dtype)}"
        )
    shape = broadcast_pair(tuple(input.shape), tuple(mask.shape))
    size = source.shape.numel()
    if size < _size(shape) and size < count_true(expand_to(mask.node, shape)):
        raise LazytError("Number of elements of source < number of ones in mask")
    test = ops.reshape(expand_to(mask.node, shape), (_size(shape),))
    running = ops.scan("sum", ops.cast(test, int64), 0)
    place = mapped(_SUB, (running, ops.constant(1, int64)), int64, None)
    values = ops.gather(ops.reshape(source.node, (source.node.size,)), place, 0)
    base = ops.reshape(expand_to(input.node, shape), (_size(shape),))
    result = choose(test, values, base, input.dtype)
    return give(ops.reshape(result, shape), "MaskedScatter", (input, source))


def _size(shape: tuple[int, ...]) -> int:
    total = 1
    for extent in shape:
        total *= extent
    return total


@function(method=True)
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each whole number occurs, or the sum of its weights; looks at the values.

    int64, or float32 for weights of float32, and float64 for all others. Raises NoKernelError,
    LazytError and ShapeError.
    """
    require_tensor(input, "bincount")
    if input.dtype.kind not in "ui":
        raise NoKernelError(f"\"bincount_cpu\" not implemented for '{type_title(input.dtype)}'")
    if minlength < 0:
        raise LazytError("minlength should be >= 0")
    node = ops.cast(input.node, int64)
    if input.ndim != 1 or (node.size and value_range(node)[0] < 0):
        raise LazytError("bincount only supports 1-d non-negative integral inputs.")
    if weights is not None and weights.shape != input.shape:
        raise ShapeError("weights should be 1-d and have the same length as input")
    size = max(minlength, value_range(node)[1] + 1 if node.size else 0)
    dtype = int64 if weights is None else float32 if weights.dtype is float32 else float64
    one = ops.constant(1, dtype) if weights is None else ops.cast(weights.node, dtype)
    base = expand_to(ops.constant(0, dtype), (size,))
    counted = ops.scatter(base, node, expand_to(one, node.shape), 0, "add")
    return give(counted, "bincount", ())
