"""The table of structural ops, and the constructor that accepts only complete ones."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from lazyt import ops
from lazyt.errors import InternalError
from lazyt.ir.dtypes import int64
from lazyt.ir.graph import Node, NoGradient, Op, Shape, Type, make

OPS: dict[str, Op] = {}

Vjp = Callable[[Node, Node], Sequence[Node | None]] | NoGradient
Jvp = Callable[[Node, Sequence[Node | None]], Node | None] | NoGradient
Batch = Callable[[Node, Sequence[Node], Sequence[bool]], Node]


def define_op(
    name: str,
    *,
    params: type | None,
    infer: Callable[..., Type],
    evaluate: Callable[..., Any],
    vjp: Vjp,
    jvp: Jvp,
    batch: Batch,
    lower: Callable[..., Any] | str,
    marks: bool | None = None,
    moves: bool = False,
) -> Op:
    """Register an op. Every rule is required: what has no gradient says why in a NoGradient.

    Raises InternalError when the name is taken or a rule is missing; see ``ir.graph.Op`` for the
    rules' signatures.
    """
    if name in OPS:
        raise InternalError("ops.registry", f"op {name} is defined twice")
    for rule, value in (("infer", infer), ("evaluate", evaluate), ("batch", batch)):
        if not callable(value):
            raise InternalError("ops.registry", f"op {name} has no {rule} rule")
    for rule, gradient in (("vjp", vjp), ("jvp", jvp)):
        if isinstance(gradient, NoGradient):
            if not gradient.reason:
                raise InternalError("ops.registry", f"op {name} has no {rule} and no reason")
        elif not callable(gradient):
            raise InternalError("ops.registry", f"op {name} has no {rule} rule")
    if not (callable(lower) or (isinstance(lower, str) and lower)):
        raise InternalError("ops.registry", f"op {name} has no lower rule")
    home = sys._getframe(1).f_globals.get("__name__", "")
    OPS[name] = op = Op(name, params, infer, evaluate, vjp, jvp, batch, lower, marks, moves, home)
    return op


def linear_jvp(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    """The jvp of an op with one differentiable input, in which it is linear."""
    tangent = tangents[0]
    if tangent is None:
        return None
    return make(node.op, (tangent, *node.inputs[1:]), node.params)


# Small compositions that several ops' rules share.


def zeros_like(node: Node) -> Node:
    """Zeros of ``node``'s shape and type, which take no memory until they are computed."""
    return ops.broadcast_to(ops.constant(0, node.dtype), node.shape)


def batch_all(inputs: Sequence[Node], batched: Sequence[bool]) -> list[Node]:
    """``inputs`` of a batch rule, those that are not batched repeated along a new leading axis."""
    size = next(item.shape[0] for item, flag in zip(inputs, batched) if flag)
    return [
        item if flag else ops.broadcast_to(item, (size, *item.shape))
        for item, flag in zip(inputs, batched)
    ]


def positions(shape: Shape, strides: Sequence[int], offset: int = 0) -> Node:
    """int64 values ``offset + i * strides[0] + j * strides[1] + ...`` of ``shape``."""
    total = ops.constant(offset, int64)
    for axis, (extent, stride) in enumerate(zip(shape, strides)):
        if extent > 1 and stride:
            ones = (1,) * (len(shape) - axis - 1)
            count = ops.reshape(ops.iota(extent), (extent, *ones))
            total = ops.apply("add", total, ops.apply("mul", count, ops.constant(stride, int64)))
    return ops.broadcast_to(total, shape)


def along_axis(index: Node, axis: int, shape: Shape) -> Node:
    """Flat positions, in a value of ``shape``, of an index into ``axis`` per element."""
    strides = list(ops.row_major(shape))
    pitch = ops.constant(strides[axis], int64)
    strides[axis] = 0
    rest = positions(index.shape, strides)
    flat = ops.apply("add", rest, ops.apply("mul", ops.cast(index, int64), pitch))
    return ops.reshape(flat, (index.size,))
