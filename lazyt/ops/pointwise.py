"""``map``: a scalar expression applied element by element, with NumPy's broadcasting."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from lazyt.errors import DTypeError, GradientError, InternalError, ShapeError
from lazyt.ir.dtypes import DType
from lazyt.ir.graph import Node, Shape, Type, make
from lazyt.ir.index import Linear, constant
from lazyt.ir.op import broadcast_shapes
from lazyt.ir.scalar import (
    Arg,
    Call,
    Const,
    Expr,
    arg,
    call,
    const,
    post_order,
    real_number,
    substitute,
)
from lazyt.ops import builders as build
from lazyt.ops.registry import define_op

# Derivatives of scalar expressions, by forward and reverse accumulation.
#
# Masks multiply through ``where``: a branch that was not chosen contributes 0 even where its own
# derivative is infinite or NaN times an unmasked adjoint.


def scale(adjoint: Expr, slope: Expr | None) -> Expr | None:
    """``adjoint * slope``, None for zero; masks and reciprocals keep their exact form."""
    if slope is None:
        return None
    if isinstance(slope, Const):
        if slope.value == 0:
            return None
        if slope.value == 1:
            return adjoint
        if slope.value == -1:
            return call("neg", adjoint)
    if isinstance(slope, Call):
        if slope.fn.name == "where":
            test, yes, no = slope.args
            zero = const(0, adjoint.dtype)
            return call("where", test, scale(adjoint, yes) or zero, scale(adjoint, no) or zero)
        if slope.fn.name == "reciprocal":
            return call("div", adjoint, slope.args[0])
        if slope.fn.name == "neg":
            inner = scale(adjoint, slope.args[0])
            return None if inner is None else call("neg", inner)
    return call("mul", adjoint, slope)


def _slope(expr: Call, number: int) -> Expr | None:
    """The partial derivative of a call by one argument, None for zero.

    Raises GradientError when the function has none.
    """
    rule = expr.fn.derivative
    if rule is None:
        raise GradientError(f"{expr.fn.name} has no gradient: {expr.fn.reason}")
    return rule(expr, number)


def _scaled(expr: Call, slope: Expr | None, factor: Expr, conjugated: bool) -> Expr | None:
    """``factor`` times a partial derivative of a call, or its conjugate."""
    conjugated = conjugated and slope is not None and slope.dtype.kind == "c"
    if slope is not None and slope in expr.args:
        # A product: the other factor is a value like any other, masks in it included.
        return call("mul", factor, call("conj", slope) if conjugated else slope)
    return scale(factor, _conjugate(slope) if conjugated and slope is not None else slope)


def _conjugate(slope: Expr) -> Expr:
    """The complex conjugate, inside of the forms that ``scale`` keeps."""
    if isinstance(slope, Const):
        return const(complex(slope.value).conjugate(), slope.dtype)
    if isinstance(slope, Call) and slope.fn.name in ("where", "neg", "reciprocal"):
        kept = 1 if slope.fn.name == "where" else 0
        return call(slope.fn, *slope.args[:kept], *map(_conjugate, slope.args[kept:]))
    return call("conj", slope)


def _pulled(expr: Call, number: int, adjoint: Expr) -> Expr | None:
    """The adjoint of an argument, given that of the call, None for zero."""
    if expr.fn.pull is not None:
        return expr.fn.pull(expr, number, adjoint)
    adjoint = call("cast", adjoint, dtype=expr.args[number].dtype)
    return _scaled(expr, _slope(expr, number), adjoint, conjugated=True)


def _pushed(expr: Call, changes: Sequence[Expr | None]) -> Expr | None:
    """The tangent of a call, given those of its arguments, None for zero."""
    if expr.fn.push is not None:
        return expr.fn.push(expr, changes)
    total: Expr | None = None
    for number, change in enumerate(changes):
        if change is not None:
            part = _scaled(expr, _slope(expr, number), change, conjugated=False)
            total = _sum(total, part)
    return total


def _sum(old: Expr | None, new: Expr | None) -> Expr | None:
    if old is None or new is None:
        return new if old is None else old
    return call("add", old, new)


@lru_cache(maxsize=8192)
def gradients(root: Expr, count: int) -> tuple[Expr | None, ...]:
    """For each of the ``count`` arguments: adjoint times partial derivative, None for zero.

    The adjoint of ``root`` is argument number ``count`` of the results.
    """
    adjoints: dict[Expr, Expr | None] = {root: arg(count, root.dtype)}
    results: list[Expr | None] = [None] * count
    for expr in reversed(post_order(root)):
        adjoint = adjoints.get(expr)
        if adjoint is None:
            continue
        if isinstance(expr, Arg):
            results[expr.index] = adjoint
        if not isinstance(expr, Call):
            continue
        for number, item in enumerate(expr.args):
            if item.dtype.kind in "fc" and not isinstance(item, Const):
                adjoints[item] = _sum(adjoints.get(item), _pulled(expr, number, adjoint))
    return tuple(results)


@lru_cache(maxsize=8192)
def tangent(root: Expr, numbers: Sequence[int | None]) -> Expr | None:
    """The directional derivative of ``root``, None for zero.

    ``numbers`` gives for each argument the argument number that holds its tangent, or None.
    """
    tangents: dict[Expr, Expr | None] = {}
    for expr in post_order(root):
        total: Expr | None = None
        if isinstance(expr, Arg):
            number = numbers[expr.index]
            total = None if number is None else arg(number, expr.dtype)
        elif isinstance(expr, Call) and expr.dtype.kind in "fc":
            changes = [tangents.get(item) for item in expr.args]
            if any(change is not None for change in changes):
                total = _pushed(expr, changes)
        tangents[expr] = total
    return tangents[root]


@lru_cache(maxsize=65536)
def arguments(expr: Expr) -> tuple[Arg, ...]:
    """The distinct Args of an expression, in order of their numbers."""
    found = (e for e in post_order(expr) if isinstance(e, Arg))
    return tuple(sorted(found, key=lambda a: a.index))


@lru_cache(maxsize=65536)
def _signature(expr: Expr) -> tuple[tuple[int, DType], ...]:
    return tuple((item.index, item.dtype) for item in arguments(expr))


def _infer(expr: Expr, *inputs: Node) -> Type:
    try:
        for index, dtype in _signature(expr):
            if inputs[index].dtype is not dtype:
                raise IndexError
    except IndexError:
        given = [i.dtype.name for i in inputs]
        raise DTypeError(f"map: {expr!r} does not fit inputs of types {given}") from None
    if not inputs:
        return Type((), expr.dtype)
    shape = inputs[0].shape
    for node in inputs:
        if node.shape != shape:
            return Type(_broadcast(tuple(i.shape for i in inputs)), expr.dtype)
    return Type(shape, expr.dtype)


def _broadcast(shapes: tuple[Shape, ...]) -> Shape:
    try:
        return broadcast_shapes(*shapes)
    except InternalError:
        listed = ", ".join(map(str, map(list, shapes)))
        raise ShapeError(f"map: shapes {listed} do not broadcast") from None


def _evaluate(node: Node, *arrays: Any) -> Any:
    values: dict[Expr, Any] = {}
    for expr in post_order(node.params):
        if isinstance(expr, Arg):
            values[expr] = np.asarray(arrays[expr.index])
        elif isinstance(expr, Const):
            values[expr] = _literal(expr)
        elif isinstance(expr, Call):
            operands = [values[a] for a in expr.args]
            if expr.fn.name in ("cast", "bitcast"):
                values[expr] = expr.fn.evaluate(operands[0], expr.args[0].dtype, expr.dtype)
            else:
                values[expr] = np.asarray(expr.fn.evaluate(*operands))
    result = np.broadcast_to(values[node.params], node.shape)
    return np.ascontiguousarray(result).reshape(node.shape)


def _literal(expr: Const) -> Any:
    storage = expr.dtype.compute.numpy
    if expr.dtype.kind in "ui":
        # Constants wrap into their type, as everything else does.
        bits = expr.dtype.itemsize * 8
        return np.asarray(int(real_number(expr.value)) % (1 << bits), f"u{bits // 8}").astype(
            storage
        )
    return np.asarray(expr.value, storage)


@lru_cache(maxsize=8192)
def _compact(expr: Expr) -> tuple[Expr, tuple[int, ...]]:
    """``expr`` over the Args that it reads, renumbered, and their old numbers."""
    used = arguments(expr)
    renumbered: dict[Expr, Expr] = {a: arg(i, a.dtype) for i, a in enumerate(used)}
    return substitute(expr, renumbered), tuple(a.index for a in used)


def map_over_used(expr: Expr, nodes: Sequence[Node]) -> Node:
    """The map of ``expr`` over those of ``nodes`` that it reads."""
    if isinstance(expr, Arg):
        return nodes[expr.index]
    compact, numbers = _compact(expr)
    return make(MAP, tuple(nodes[i] for i in numbers), compact)


#: Operations of an expression, those that are used again counted again, that stays one map.
MOST_IN_ONE = 256


def map_in_parts(expr: Expr, nodes: Sequence[Node]) -> Node:
    """``expr`` over the broadcast ``nodes``, as ``elementwise`` has it.

    Kernels write an expression out, so a long one that uses values several times would grow with
    each use. Of such a one each value that is used again is a separate map.
    """
    order = post_order(expr)
    uses: dict[Expr, int] = {}
    sizes: dict[Expr, int] = {}
    for item in order:
        sizes[item] = 1
        for part in item.args if isinstance(item, Call) else ():
            uses[part] = uses.get(part, 0) + 1
            sizes[item] += sizes[part]
    if sizes[expr] <= MOST_IN_ONE:
        return build.elementwise(expr, nodes)
    held, now = list(nodes), dict[Expr, Expr]()
    for item in order:
        made = item
        if isinstance(item, Call):
            made = call(item.fn, *[now[part] for part in item.args], dtype=item.dtype)
            if uses.get(item, 0) > 1 and arguments(made):
                held.append(map_over_used(made, held))
                made = arg(len(held) - 1, item.dtype)
        now[item] = made
    whole = _broadcast(tuple(node.shape for node in nodes))
    return build.broadcast_to(map_over_used(now[expr], held), whole)


def _vjp(node: Node, cotangent: Node) -> list[Node | None]:
    nodes = (*node.inputs, cotangent)
    out: list[Node | None] = []
    for item, expr in zip(node.inputs, gradients(node.params, len(node.inputs))):
        if expr is None:
            out.append(None)
        else:
            out.append(build.sum_to(map_over_used(expr, nodes), item.shape))
    return out


def _jvp(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    nodes = list(node.inputs)
    numbers: list[int | None] = []
    for item in tangents:
        numbers.append(None if item is None else len(nodes))
        if item is not None:
            nodes.append(item)
    expr = tangent(node.params, tuple(numbers))
    if expr is None:
        return None
    return build.broadcast_to(map_over_used(expr, nodes), node.shape)


def _batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    rank = len(node.shape)
    aligned = []
    for item, old, flag in zip(inputs, node.inputs, batched):
        if flag and len(old.shape) < rank:
            ones = (1,) * (rank - len(old.shape))
            item = build.reshape(item, (item.shape[0], *ones, *old.shape))
        aligned.append(item)
    return make(MAP, tuple(aligned), node.params)


def broadcast_index(index: tuple[Linear, ...], shape: Shape) -> tuple[Linear, ...]:
    """Where an operand of ``shape`` is read for element ``index`` of the broadcast result."""
    if len(shape) == len(index) and 1 not in shape:
        return index
    skipped = len(index) - len(shape)
    return tuple(
        constant(0) if extent == 1 else index[skipped + axis] for axis, extent in enumerate(shape)
    )


def _lower(node: Node, index: tuple[Linear, ...], read: Any) -> Expr:
    reads: dict[Expr, Expr] = {}
    for item in arguments(node.params):
        source = node.inputs[item.index]
        reads[item] = read(source, broadcast_index(index, source.shape))
    expr = node.params
    if type(expr) is Call and all(type(a) is not Call for a in expr.args):
        # The usual case: one function. Kernel expressions need not be interned.
        return Call(expr.fn, tuple([reads.get(a, a) for a in expr.args]), expr.dtype)
    return substitute(expr, reads)


MAP = define_op(
    "map",
    params=Expr,
    infer=_infer,
    evaluate=_evaluate,
    vjp=_vjp,
    jvp=_jvp,
    batch=_batch,
    lower=_lower,
)
