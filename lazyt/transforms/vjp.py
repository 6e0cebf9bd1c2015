"""Reverse-mode derivatives as a graph transform."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from functools import cache
from typing import NamedTuple

from lazyt import ops
from lazyt.errors import DTypeError, GradientError, ShapeError
from lazyt.ir.dtypes import DType
from lazyt.ir.graph import Node, NoGradient, source_text, topological
from lazyt.ir.scalar import Expr, arg, call
from lazyt.ops.control.bodies import transforms
from lazyt.transforms.derivations import Walk, known


def connected(outputs: Sequence[Node], wrt: Sequence[Node]) -> list[Node]:
    """The nodes on differentiable paths from ``wrt`` to ``outputs``, inputs before users.

    A path runs through floating point values and ends at a ``detach``.
    """
    targets = set(wrt)
    reached: set[Node] = set()
    path: list[Node] = []
    # Whatever hangs on a value that needs a gradient needs one: then the rest need not be visited.
    marked = all(node.needs_grad for node in wrt)

    def ends(node: Node) -> bool:
        return (
            node.dtype.kind not in "fc" or node.op is ops.DETACH or (marked and not node.needs_grad)
        )

    for node in topological(outputs, ends):
        if node in targets or (not ends(node) and any(item in reached for item in node.inputs)):
            reached.add(node)
            path.append(node)
    return path


def vjp(
    outputs: Sequence[Node],
    cotangents: Sequence[Node | None],
    wrt: Sequence[Node],
    watch: Callable[[Node, Node, int, Node], None] | None = None,
) -> list[Node | None]:
    """What the cotangents of ``outputs`` mean for each node of ``wrt``, as new graph nodes.

    Args:
        outputs: the differentiated values.
        cotangents: one per output, of its shape and type; None for zero.
        wrt: any nodes, leaves or not; several may lie on one path.
        watch: told of every contribution: node, its cotangent, number of the input, contribution.

    The result has the node's shape and type; it is None where no differentiable path leads from the
    node to an output. Iterative; only nodes on such paths are visited, and contributions are summed
    from the last user to the first (``total``). The result is an ordinary graph:
    differentiate it again for higher derivatives. Raises GradientError, in the op's words, for one
    without a gradient, and ShapeError or DTypeError for a cotangent that does not fit.
    """
    given: list[Node] = []
    for output, cotangent in zip(outputs, cotangents, strict=True):
        if cotangent is not None:
            _check(output, cotangent)
            given += (output, cotangent)
    if not all(node.needs_grad for node in wrt):
        return _derive(outputs, given, wrt, watch)
    walk = Walk(outputs, wrt, given)
    if watch is not None:
        return _derive(outputs, given, wrt, watch, frozenset(walk.outside))
    found = known.find(walk.key)
    if found is not None:
        return found.apply(walk.numbers)

    def derive(new: dict[Node, Node]) -> list[Node | None]:
        def copied(nodes: Sequence[Node]) -> list[Node]:
            return [new[node] for node in nodes]

        return _derive(copied(outputs), copied(given), copied(wrt), None)

    made = known.offer(walk, derive)
    if made is not None:
        return made.apply(walk.numbers)
    return _derive(outputs, given, wrt, None, frozenset(walk.outside))


def _derive(
    outputs: Sequence[Node],
    given: Sequence[Node],
    wrt: Sequence[Node],
    watch: Callable[[Node, Node, int, Node], None] | None,
    opaque: Container[Node] = (),
) -> list[Node | None]:
    """``vjp`` by the rules of the ops; ``given`` are outputs and their cotangents in turn, and
    ``opaque`` nodes are as for ``total``."""
    received: dict[Node, list[Node]] = {}
    sums: dict[Node, Node] = {}
    for output, cotangent in zip(given[::2], given[1::2]):
        received.setdefault(output, []).append(cotangent)
    path = connected(outputs, wrt)
    active = set(path)
    targets = set(wrt)
    for node in reversed(path):
        parts = received.pop(node, None)
        if parts is None:
            continue
        summed = total(parts, opaque)
        if node in targets:
            sums[node] = summed
        if any(item in active for item in node.inputs):
            pulled = _pull(node, summed)
            for index, (item, part) in enumerate(zip(node.inputs, pulled, strict=True)):
                if part is not None and item in active:
                    if watch is not None:
                        watch(node, summed, index, part)
                    received.setdefault(item, []).append(part)
    return [_result(node, sums, active) for node in wrt]


def _result(node: Node, sums: dict[Node, Node], active: set[Node]) -> Node | None:
    """The summed cotangent; zeros where the path is there but every derivative on it is zero."""
    if node not in active or node.dtype.kind not in "fc":
        return None
    return sums[node] if node in sums else ops.zeros_like(node)


def _pull(node: Node, cotangent: Node) -> Sequence[Node | None]:
    rule = node.op.vjp
    if isinstance(rule, NoGradient):
        where = source_text(node.source)
        raise GradientError(f"{node.op.name} has no gradient: {rule.reason} (made at {where})")
    return rule(node, cotangent)


def _check(output: Node, cotangent: Node) -> None:
    if cotangent.shape != output.shape:
        raise ShapeError(
            f"vjp: a cotangent of shape {list(cotangent.shape)} for an output of shape "
            f"{list(output.shape)}"
        )
    if cotangent.dtype is not output.dtype:
        raise DTypeError(
            f"vjp: a {cotangent.dtype.name} cotangent for a {output.dtype.name} output"
        )


# Sums of the cotangents that one value receives from its users.
#
# They are summed from the last user to the first. Two kinds of them become one node each instead of
# a sum whose every term is as large as the value:
#
# * slices of a value that do not overlap (the steps of a sequence, the gates of a cell, queries
#   beside keys) give zeros with a part that is not zero: these parts stand side by side;
# * a weight that is used at every step gets a product for each: they are one product that sums over
#   the steps, too, where their operands are smaller than the weight.


#: Products of at least this number are computed as one.
FEWEST = 3


class _Part(NamedTuple):
    """A value amid zeros along one axis: where it starts."""

    start: int
    value: Node
    axis: int


#: Of the axes of two operands, and of their product.
Labels = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


class Product(NamedTuple):
    """Two operands, and the labels of their axes and of the result's."""

    left: Node
    right: Node
    labels: Labels


def total(parts: Sequence[Node], opaque: Container[Node] = ()) -> Node:
    """The sum of ``parts``, of one shape and type; there is at least one. How ``opaque`` nodes are
    made does not count: the same structure over other values of these types has to give the same
    graph (``derivations.py``)."""
    if len(parts) > 1:
        parts = _join_products(_join_parts(parts, opaque), opaque)
    result = parts[0]
    for part in parts[1:]:
        result = ops.apply("add", result, part)
    return result


def _join_parts(parts: Sequence[Node], opaque: Container[Node]) -> list[Node]:
    """Parts amid zeros along one axis become one node, in place of the first, where none overlaps
    another."""
    found: dict[int, list[tuple[int, _Part]]] = {}
    for place, node in enumerate(parts):
        part = None if node in opaque else _part_of(node)
        if part is not None:
            found.setdefault(part.axis, []).append((place, part))
    result: list[Node | None] = list(parts)
    for members in found.values():
        joined = _beside([part for _, part in members], parts[0])
        if joined is not None:
            for place, _ in members:
                result[place] = None
            result[members[0][0]] = joined
    return [node for node in result if node is not None]


def _part_of(node: Node) -> _Part | None:
    if node.op.name != "pad" or node.params.fill.value != 0 or any(node.params.interior):
        return None
    low, high = node.params.low, node.params.high
    axes = [axis for axis in range(len(low)) if low[axis] or high[axis]]
    return _Part(low[axes[0]], node.inputs[0], axes[0]) if len(axes) == 1 else None


def _beside(parts: Sequence[_Part], like: Node) -> Node | None:
    """The parts where they start, and zeros between them; None for one part, and where two
    overlap."""
    axis, extent = parts[0].axis, like.shape[parts[0].axis]
    pieces: list[Node] = []
    reached = 0
    for start, value, _ in sorted(parts, key=lambda part: part.start):
        if start < reached or len(parts) < 2:
            return None
        if start > reached:
            pieces.append(_zeros(like, axis, start - reached))
        pieces.append(value)
        reached = start + value.shape[axis]
    if reached < extent:
        pieces.append(_zeros(like, axis, extent - reached))
    return ops.concat(pieces, axis)


def _zeros(like: Node, axis: int, extent: int) -> Node:
    shape = (*like.shape[:axis], extent, *like.shape[axis + 1 :])
    return ops.broadcast_to(ops.constant(0, like.dtype), shape)


def _join_products(parts: Sequence[Node], opaque: Container[Node]) -> list[Node]:
    """Products that differ in their operands only become one, in place of the first, that sums over
    a new axis as well."""
    found: dict[object, list[tuple[int, Product]]] = {}
    for place, node in enumerate(parts):
        product = None if node in opaque else product_of(node, opaque)
        if product is not None and product.left.size + product.right.size < node.size:
            key = (product.labels, product.left.shape, product.right.shape)
            found.setdefault(key, []).append((place, product))
    result: list[Node | None] = list(parts)
    for members in found.values():
        if len(members) >= FEWEST:
            for place, _ in members:
                result[place] = None
            first = members[0][0]  # the first step comes first
            every = [product for _, product in reversed(members)]
            sides = _stack([p.left for p in every]), _stack([p.right for p in every])
            joined = over_all(every[0].labels, *sides)
            result[first] = ops.reshape(joined, parts[first].shape)
    return [node for node in result if node is not None]


def product_of(node: Node, opaque: Container[Node]) -> Product | None:
    """A contraction, or a product of values that are repeated along axes of each other."""
    if node.op.name == "contract":
        left, right = node.inputs
        return Product(left, right, tuple(node.params))
    if node.op.name != "map" or node.dtype.kind != "f" or node.params not in _products(node.dtype):
        return None
    left, right = (
        x.inputs[0] if x.op.name == "expand" and x not in opaque else x for x in node.inputs
    )
    a, b = _own_axes(left), _own_axes(right)
    out = [axis for axis in range(len(node.shape)) if axis in a or axis in b]
    if out != _own_axes(node):  # both are repeated along the same axis
        return None
    left = ops.reshape(left, [left.shape[axis] for axis in a])
    right = ops.reshape(right, [right.shape[axis] for axis in b])
    return Product(left, right, (tuple(a), tuple(b), tuple(out)))


def _own_axes(node: Node) -> list[int]:
    """The axes that a factor has elements along."""
    return [axis for axis, extent in enumerate(node.shape) if extent != 1]


@cache
def _products(dtype: DType) -> tuple[Expr, ...]:
    """The expressions of a product of two values."""
    a, b = arg(0, dtype), arg(1, dtype)
    return call("mul", a, b), call("mul", b, a)


def over_all(labels: Labels, left: Node, right: Node) -> Node:
    """The product of operands with labelled axes, summed over a new first axis of both as well."""
    new = max((*labels[0], *labels[1]), default=0) + 1
    return ops.contract(left, right, (new, *labels[0]), (new, *labels[1]), labels[2])


def _stack(nodes: Sequence[Node]) -> Node:
    return ops.concat([ops.reshape(node, (1, *node.shape)) for node in nodes], 0)


transforms.vjp, transforms.total, transforms.fewest = vjp, total, FEWEST
transforms.product_of, transforms.over_all = product_of, over_all
