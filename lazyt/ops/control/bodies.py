"""What ops that run graphs have in common: packed results, and the meaning of a body.

A node has one value, and a body has many results. Those of one dtype lie one after the other in a
row, the node's value, which ``parts`` takes apart with slices: the rules of slices and of their
concatenation then serve the derivatives, too. Results of other dtypes are nodes of their own, with
the same parameters but ``dtype``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from math import prod
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from lazyt.ir.dtypes import DType, bfloat16, decode_bfloat16, encode_bfloat16
from lazyt.ir.graph import Body, Node, Shape
from lazyt.ir.scalar import Expr, arg, call
from lazyt.ops import builders as build
from lazyt.ops.leaves import input_


class Transforms:
    """The graph transforms by which bodies are transformed. They lie above the ops, and their
    modules put them here.

    Attributes:
        vjp, jvp, batch: as in the modules of these names.
        total: the sum of the contributions to one value, in the order of ``vjp``.
        product_of: a product among them, or None.
        over_all: the product that stands for those of many steps.
        fewest: how many products become one.
    """

    vjp: Callable[..., Any]
    jvp: Callable[..., Any]
    batch: Callable[..., Any]
    total: Callable[..., Node]
    product_of: Callable[..., Any]
    over_all: Callable[..., Node]
    fewest: int


transforms = Transforms()


class Part(NamedTuple):
    """A result in a packed row: where it starts, and its shape."""

    start: int
    shape: Shape

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)


def taken(packed: Node, part: Part) -> Node:
    """One part of a packed row."""
    piece = build.slice_(packed, (part.start,), (part.size,), (1,))
    return build.reshape(piece, part.shape)


def flat(node: Node) -> Node:
    """A value as a row."""
    return build.reshape(node, (node.size,))


def cotangent_of(packed: Node, part: Part) -> Node | None:
    """The cotangent of one part of a row, None for zeros. Where the row was put together from
    parts, it is taken from there: what stands beside zeros is not added to them."""
    found = _taken_from(packed, part.start, part.start + part.size)
    return None if found is None else build.reshape(found, part.shape)


def _taken_from(node: Node, start: int, stop: int) -> Node | None:
    if node.op.name == "concat":
        place = 0
        for item in node.inputs:
            if place <= start and stop <= place + item.size:
                return _taken_from(item, start - place, stop - place)
            place += item.size
    elif node.op.name == "pad" and node.params.fill.value == 0 and not any(node.params.interior):
        low, (inner,) = node.params.low[0], node.inputs
        if stop <= low or start >= low + inner.size:
            return None
        if start >= low and stop <= low + inner.size:
            return _taken_from(inner, start - low, stop - low)
    elif node.op.name == "map" and node.params is _sum(node.dtype):
        pieces = [
            _taken_from(item, start, stop) for item in node.inputs if item.shape == node.shape
        ]
        if len(pieces) == 2:
            left, right = pieces
            if left is None or right is None:
                return right if left is None else left
            return build.apply("add", left, right)
    elif is_zero(node):
        return None
    return build.slice_(node, (start,), (stop - start,), (1,))


@functools.cache
def _sum(dtype: DType) -> Expr:
    return call("add", arg(0, dtype), arg(1, dtype))


def is_zero(node: Node) -> bool:
    """Whether a node is the number zero, repeated."""
    while node.op.movement == "ordered":
        node = node.inputs[0]
    return node.op.name == "const" and node.params.value == 0


#: What evaluates the nodes of bodies, beside their ops' own rules.
evaluating: ContextVar[Callable[..., Any] | None] = ContextVar("lazyt_evaluating", default=None)


def run_body(body: Body, arrays: Sequence[Any]) -> list[Any]:
    """The results of a body in NumPy, by the rules of its ops, or by what ``evaluating`` holds."""
    evaluate = evaluating.get() or _by_rule
    values: dict[Node, Any] = dict(zip(body.leaves, arrays, strict=True))
    for node in body.nodes:
        if node not in values:
            if node.data is not None and not node.inputs and node.op.leaf:
                found = _loaded(node)
            else:
                found = np.asarray(evaluate(node, *[values[item] for item in node.inputs]))
            values[node] = _rounded(found, node.dtype)
    return [values[root] for root in body.roots]


def _by_rule(node: Node, *arrays: Any) -> Any:
    return node.op.evaluate(node, *arrays)


def _loaded(node: Node) -> Any:
    if node.op.name == "const":
        return np.asarray(node.op.evaluate(node))
    stored = node.data.as_numpy(node.dtype, node.shape)
    return (
        decode_bfloat16(stored)
        if node.dtype is bfloat16
        else stored.astype(node.dtype.compute.numpy)
    )


def _rounded(array: Any, dtype: DType) -> Any:
    """An array of the compute type with values that the type has."""
    if dtype is bfloat16:
        return decode_bfloat16(encode_bfloat16(array))
    return array.astype(dtype.numpy).astype(np.float32) if dtype.is_half else array


# What the rules of ops with bodies have in common.

T = TypeVar("T")
_derived: WeakKeyDictionary[Body, dict[Any, Any]] = WeakKeyDictionary()


def once(body: Body, key: Any, derive: Callable[[], T]) -> T:
    """What ``derive`` makes of a body, once for each key."""
    known = _derived.setdefault(body, {})
    if key not in known:
        known[key] = derive()
    found: T = known[key]
    return found


def inputs_like(nodes: Sequence[Node], lead: int = 0) -> list[Node]:
    """New leaves with the types of ``nodes``; with a leading axis of ``lead``, if it is given."""
    return [input_((lead, *n.shape) if lead else n.shape, n.dtype) for n in nodes]


def is_float(node: Node) -> bool:
    """Whether gradients flow through values of its type."""
    return node.dtype.kind in "fc"


def zeros(node: Node, value: float = 0.0) -> Node:
    """A number, repeated to the shape of a node."""
    return build.broadcast_to(build.constant(value, node.dtype), node.shape)


def batch_body(body: Body, batched: Sequence[bool], size: int) -> Body:
    """The body for many examples: leaves flagged ``batched`` have a new leading axis, and so have
    all results."""
    own = inputs_like(body.leaves)
    differing = [leaf for leaf, flag in zip(own, batched) if flag]
    wide = inputs_like(differing, size)
    found = transforms.batch(body.over(own), differing, wide, size)
    table = dict(zip(differing, wide))
    return Body.of([table.get(leaf, leaf) for leaf in own], found)
