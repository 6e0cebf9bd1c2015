"""Folds of arrays in the order of kernels, which ``reduction_levels`` in ``ir/kernel.py`` states:
blocks of 1024 elements, 32 running results in each, folded by halves, and blocks by the same rule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyt.ir.arithmetic.fused import fused_multiply_add
from lazyt.ir.dtypes import DType
from lazyt.ir.kernel import BLOCK, LANES
from lazyt.ir.op import reduction_runs
from lazyt.ir.scalar import FUNCTIONS

Array = np.ndarray[Any, Any]
#: Elements of a product of matrices that are computed together.
_TOGETHER = 1 << 14
_FOLDS = {
    "sum": "add", "prod": "mul", "max": "maximum", "min": "minimum",
    "any": "logical_or", "all": "logical_and",
}  # fmt: skip


def identity(kind: str, dtype: DType) -> Any:
    """The neutral element of a fold, in the type in which it is computed."""
    wanted = dtype.compute.numpy
    if kind in ("sum", "any"):
        return wanted.type(0)
    if kind in ("prod", "all"):
        return wanted.type(1)
    low = kind in ("max", "argmax")
    if wanted == np.bool_:
        return wanted.type(not low)
    if wanted.kind == "f":
        return wanted.type(-math.inf if low else math.inf)
    limits = np.iinfo(wanted)
    return wanted.type(limits.min if low else limits.max)


def fold(kind: str, left: Array, right: Array) -> Array:
    """One step of a fold; ``left`` stays where both are equal."""
    if left.dtype == np.bool_ and kind in ("sum", "prod"):
        return np.asarray(left | right if kind == "sum" else left & right)
    return np.asarray(FUNCTIONS[_FOLDS[kind]].evaluate(left, right))


def reduce_in_order(kind: str, values: Array, dtype: DType) -> Array:
    """The fold of values along the last axis, in the order of ``reduction_levels``."""
    neutral = identity(kind, dtype)
    rows = values.shape[:-1]
    while True:
        count = values.shape[-1]
        blocks = max(-(-count // BLOCK), 1)
        steps = -(-min(count, BLOCK) // LANES)
        size = blocks * steps * LANES
        if size != count:
            filled = np.full((*rows, size), neutral, values.dtype)
            filled[..., :count] = values
            values = filled
        parts = values.reshape(*rows, blocks, steps, LANES)
        lanes = np.full((*rows, blocks, LANES), neutral, values.dtype)
        for step in range(steps):
            lanes = fold(kind, lanes, parts[..., step, :])
        half = LANES // 2
        while half:
            lanes = fold(kind, lanes[..., :half], lanes[..., half : 2 * half])
            half //= 2
        values = lanes[..., 0]
        if blocks == 1:
            return values[..., 0]


def reduce_axes(kind: str, values: Array, axes: Sequence[int], dtype: DType) -> Array:
    """The fold over some axes, which are gone from the result: each run of them as one axis, the
    last one first."""
    shape = values.shape
    for first, last in reversed(reduction_runs([a for a in sorted(axes) if shape[a] != 1], shape)):
        length = math.prod(values.shape[first : last + 1])
        flat = values.reshape(*values.shape[:first], length, *values.shape[last + 1 :])
        folded = reduce_in_order(kind, np.moveaxis(flat, first, -1), dtype)
        ones = (1,) * (last - first + 1)
        values = folded.reshape(*values.shape[:first], *ones, *values.shape[last + 1 :])
    kept = [n for a, n in enumerate(shape) if a not in axes]
    return np.ascontiguousarray(values).reshape(kept)


def contract(
    left: Array, right: Array, left_labels: Sequence[int], right_labels: Sequence[int],
    out_labels: Sequence[int],
) -> Array:  # fmt: skip
    """The sum of products over the labels that are not in the result, in the order of the left
    operand's axes, with one fused multiply-add for each step."""
    out = tuple(out_labels)
    labels = [*out, *(label for label in left_labels if label not in out)]
    extents = dict(zip((*left_labels, *right_labels), (*left.shape, *right.shape)))
    summed = [extents[label] for label in labels[len(out) :]]
    shape = tuple(extents[label] for label in out)

    def spread(array: Array, own: Sequence[int]) -> Array:
        """The axes in order, the summed ones first and as one."""
        order = [own.index(label) for label in labels if label in own]
        ones = [extents[label] if label in own else 1 for label in labels]
        moved = array.transpose(order).reshape(ones)
        across = moved.shape[: len(out)]
        flat = np.broadcast_to(moved, (*across, *summed)).reshape(*across, math.prod(summed))
        return np.ascontiguousarray(np.moveaxis(flat, -1, 0))

    total = np.zeros(shape, left.dtype)
    if total.size:
        first, second = spread(left, left_labels), spread(right, right_labels)
        axis = int(np.argmax(shape)) if shape else 0
        for part in _parts(shape, axis):
            total[part] = _accumulated(_taken(first, part), _taken(second, part), total[part])
    return total


def _parts(shape: tuple[int, ...], axis: int) -> list[tuple[slice, ...]]:
    """Parts of an array along an axis, each of which a cache holds."""
    if not shape:
        return [()]
    rows = max(_TOGETHER * shape[axis] // math.prod(shape), 1)
    starts = range(0, shape[axis], rows)
    return [(slice(None),) * axis + (slice(start, start + rows),) for start in starts]


def _taken(operand: Array, part: tuple[slice, ...]) -> Array:
    """What an operand, whose first axis is the summed one, has for a part of the result."""
    if part and operand.shape[len(part)] == 1:
        return operand
    return operand[(slice(None), *part)]


def _accumulated(left: Array, right: Array, total: Array) -> Array:
    for a, b in zip(left, right):
        total = fused_multiply_add(a, b, total)
    return total
