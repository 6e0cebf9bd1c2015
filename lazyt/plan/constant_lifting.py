"""Numbers that change from call to call, made into inputs of a plan.

A plan is compiled for fixed numbers first. When the same structure comes back with another value
of a constant, or another start of a slice, that number becomes an input of the next plan. So a loop
over ``x[i:i+32]`` or ``x[i] = y`` compiles twice and no more.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from lazyt import ops
from lazyt.ir.dtypes import DType, float32, int64
from lazyt.ir.graph import Node, Op
from lazyt.runtime.memory import Buffer

#: Ops whose ``starts`` are numbers of the plan.
SLICING = frozenset({"slice", "update"})


class Number:
    """One number in a graph: a constant, or the start of one axis of a slice.

    Attributes:
        node: the node that holds it.
        axis: the axis of a start, -1 for a constant.
        value: what tells it apart from other values of the same number.
        dtype: the type of the input that takes its place.
    """

    __slots__ = ("axis", "dtype", "node", "value")

    def __init__(self, node: Node, axis: int, value: Any, dtype: DType) -> None:
        self.node = node
        self.axis = axis
        self.value = value
        self.dtype = dtype


def numbers_of(node: Node) -> list[Number]:
    """The numbers of a node, in a fixed order."""
    if node.op.name == "const":
        return [Number(node, -1, node.params, node.dtype)]
    return [Number(node, axis, start, int64) for axis, start in enumerate(node.params.starts)]


def structure(op: Op, params: Any) -> tuple[Any, ...]:
    """What identifies op and parameters of a node with numbers beside them."""
    if op.name == "slice":
        return (params.sizes, params.steps)
    return (params.steps,) if op.name == "update" else (params.dtype,)


def rebuild_with_inputs(node: Node, inputs: Sequence[Node], starts: Mapping[int, Node]) -> Node:
    """A slice or update whose starts on some axes are values of the graph."""
    axes = sorted(starts)
    params = node.params
    if node.op.name == "slice":
        whole = inputs[0].shape
        value = ops.slice_(
            inputs[0],
            tuple(0 if a in starts else n for a, n in enumerate(params.starts)),
            tuple(whole[a] if a in starts else n for a, n in enumerate(params.sizes)),
            tuple(1 if a in starts else n for a, n in enumerate(params.steps)),
        )
        for axis in axes:
            places = _strided_indices(starts[axis], node.shape[axis], params.steps[axis])
            value = ops.gather(value, places, axis)
        return value
    return _write(inputs[0], inputs[1], list(params.starts), params.steps, dict(starts), axes)


def number_buffer(number: Number) -> Buffer:
    """A number as a buffer of one element, the input that takes its place."""
    buffer = Buffer(number.dtype.itemsize)
    if number.axis >= 0:
        buffer.copy_from(struct.pack("q", number.value))
    elif number.dtype is float32:
        buffer.copy_from(struct.pack("f", number.value.value))
    else:
        from lazyt.runtime.interpreter import interpret

        buffer.copy_from(interpret([number.node])[0].tobytes())
    return buffer


def table_buffer(values: Sequence[int | float]) -> Buffer:
    """Numbers of 8 bytes each, as a program that takes sizes as arguments reads them."""
    kinds = "".join("d" if isinstance(value, float) else "q" for value in values)
    buffer = Buffer(8 * len(values))
    buffer.copy_from(struct.pack(f"={kinds}", *values))
    return buffer


def _strided_indices(start: Node, count: int, step: int) -> Node:
    """``start + i * step``."""
    ramp = ops.iota(count)
    if step != 1:
        ramp = ops.apply("mul", ramp, ops.constant(step, int64))
    return ops.apply("add", ramp, start)


def _write(
    base: Node,
    value: Node,
    fixed: list[int],
    steps: Sequence[int],
    starts: dict[int, Node],
    axes: list[int],
) -> Node:
    """Writes the rows that the first of ``axes``, whose slices begin at inputs, names, and the
    other axes within those rows."""
    if not axes:
        return ops.update(base, value, tuple(fixed), tuple(steps))
    axis, rest = axes[0], axes[1:]
    places = _strided_indices(starts[axis], value.shape[axis], steps[axis])
    rows = ops.gather(base, places, axis)
    inner = [0 if a == axis else s for a, s in enumerate(fixed)]
    pace = [1 if a == axis else s for a, s in enumerate(steps)]
    written = _write(rows, value, inner, pace, starts, rest)
    return ops.scatter(base, places, written, axis, "set")
