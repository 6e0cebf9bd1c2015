"""Local rewrites that never change a bit of the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from lazyt import ops
from lazyt.ir.graph import Node, Shape, rebuild, remake, topological


def simplify(roots: Sequence[Node]) -> list[Node]:
    """Joins movement ops with movement ops, and drops those that do nothing.

    ``reshape(reshape(x)) -> reshape(x)``, ``permute(permute(x)) -> permute(x)``, identities
    vanish, and so do writes of nothing and what a write of everything covers; a value that is put
    together again from its slices is that value. Slices are taken from
    what elements come from (``sliced``). A contraction of which only a permutation is read is
    computed in that order. Leaves arithmetic alone: rewriting it could change rounding, NaN or
    signed zeros. May run at any time.
    """
    uses = Counter(roots)
    for node in topological(roots):
        uses.update(set(node.inputs))
    return rebuild(roots, lambda node, inputs: _change(node, inputs, uses))


def _change(node: Node, inputs: tuple[Node, ...], uses: Counter[Node]) -> Node:
    read_once = len(node.inputs) == 1 and uses[node.inputs[0]] == 1
    node = remake(node, inputs)
    name = node.op.name
    if node.size == 0 and name != "input":
        return ops.zeros_like(node)  # nothing will read it: no kernel, no memory
    if name == "reshape":
        source = inputs[0]
        while source.op.name == "reshape":
            source = source.inputs[0]
        return source if source.shape == node.shape else ops.reshape(source, node.shape)
    if name == "permute":
        axes, source = tuple(node.params.axes), inputs[0]
        if source.op.name == "permute":
            axes = tuple(source.params.axes[a] for a in axes)
            source = source.inputs[0]
        elif source.op.name == "contract" and read_once:
            return _in_order(source, axes)
        return source if axes == tuple(range(len(axes))) else ops.permute(source, axes)
    if name == "expand" and inputs[0].shape == node.shape:
        return inputs[0]
    if name == "slice":
        return sliced(inputs[0], ranges_of(node), not read_once)
    if name == "concat":
        return _rejoined(node) or node
    if name == "flip" and not node.params.axes:
        return inputs[0]
    if name in ("update", "scatter") and inputs[-1].size == 0:
        return inputs[0]
    if name == "update" and _writes_all(node):
        return inputs[1]
    return node


def _rejoined(node: Node) -> Node | None:
    """The value that a concatenation puts together again from its slices; None for others."""
    axis, start, source = node.params.axis, 0, None
    for piece in node.inputs:
        if piece.op.name != "slice" or source not in (None, piece.inputs[0]):
            return None
        source = piece.inputs[0]
        for number, (first, size, step) in enumerate(ranges_of(piece)):
            whole = (first, size) == (
                (start, size) if number == axis else (0, source.shape[number])
            )
            if not whole or (step != 1 and size > 1):
                return None
        start += piece.shape[axis]
    return source if source is not None and source.shape == node.shape else None


def _in_order(node: Node, axes: Sequence[int]) -> Node:
    """A contraction with its axes in another order."""
    params, (left, right) = node.params, node.inputs
    return ops.contract(left, right, params.left, params.right, [params.out[a] for a in axes])


def _writes_all(node: Node) -> bool:
    same = node.inputs[1].shape == node.shape
    return same and not any(node.params.starts) and all(s == 1 for s in node.params.steps)


# Slices of moved elements: taken from what the elements come from.
#
# A slice of a concatenation that is in one piece is a slice of that piece, and one of a padded
# value that is in the border is the fill. What is not read is then not made: the last step of a
# stack of steps needs no stack, and the gradient of that step is zero at all others. No bit
# changes.


#: A range of an axis: its first element, how many, and how far they are apart.
Range = tuple[int, int, int]


def sliced(node: Node, ranges: Sequence[Range], shared: bool = True) -> Node:
    """The elements of ``node`` in ``ranges``, one range for each axis; from as far below as slices
    move. ``shared``: others read the node, too, so that it is made in any case."""
    if all(r == (0, n, 1) for r, n in zip(ranges, node.shape, strict=True)):
        return node
    rule = _RULES.get(node.op.name)
    found = None if rule is None else rule(node, ranges, shared)
    if found is not None:
        return found
    starts, sizes, steps = zip(*ranges, strict=True)
    return ops.slice_(node, starts, sizes, steps)


def ranges_of(node: Node) -> list[Range]:
    """The ranges that a slice takes."""
    return list(zip(*node.params, strict=True))


def _of_slice(node: Node, ranges: Sequence[Range], shared: bool) -> Node:
    outer = [
        (start + first * step, size, step * stride)
        for (start, _, step), (first, size, stride) in zip(ranges_of(node), ranges, strict=True)
    ]
    return sliced(node.inputs[0], outer)


def _of_permute(node: Node, ranges: Sequence[Range], shared: bool) -> Node:
    axes = node.params.axes
    inner = [ranges[axes.index(axis)] for axis in range(len(axes))]
    return ops.permute(sliced(node.inputs[0], inner), axes)


def _of_expand(node: Node, ranges: Sequence[Range], shared: bool) -> Node:
    (source,) = node.inputs
    inner = [(0, 1, 1) if n == 1 else r for n, r in zip(source.shape, ranges, strict=True)]
    return ops.expand(sliced(source, inner), _shape(ranges))


def _of_concat(node: Node, ranges: Sequence[Range], shared: bool) -> Node | None:
    axis = node.params.axis
    start, size, step = ranges[axis]
    if size == 0:
        return None
    low, high = sorted((start, start + (size - 1) * step))
    inside: list[tuple[Node, int]] = []
    first = 0
    for piece in node.inputs:
        if first <= high and low < first + piece.shape[axis]:
            inside.append((piece, first))
        first += piece.shape[axis]
    if len(inside) == 1:
        piece, first = inside[0]
        return sliced(piece, [*ranges[:axis], (start - first, size, step), *ranges[axis + 1 :]])
    if shared or step != 1 or len(inside) == len(node.inputs):
        return None
    parts: list[Node] = []
    for piece, first in inside:
        begin, end = max(low - first, 0), min(high + 1 - first, piece.shape[axis])
        own = (begin, end - begin, 1)
        parts.append(sliced(piece, [*ranges[:axis], own, *ranges[axis + 1 :]]))
    return ops.concat(parts, axis)


def _of_pad(node: Node, ranges: Sequence[Range], shared: bool) -> Node | None:
    (source,) = node.inputs
    low, _, interior, fill = node.params
    inner: list[Range] = []
    before: list[int] = []
    after: list[int] = []
    for (start, size, step), n, border, gap in zip(ranges, source.shape, low, interior):
        if (step != 1 and size > 1) or gap:
            return None
        begin, end = max(start - border, 0), min(start + size - border, n)
        if begin >= end:
            return ops.broadcast_to(ops.constant(fill.value, node.dtype), _shape(ranges))
        inner.append((begin, end - begin, 1))
        before.append(max(border - start, 0))
        after.append(size - before[-1] - (end - begin))
    return ops.pad(sliced(source, inner), before, after, [0] * len(before), fill.value)


def _shape(ranges: Sequence[Range]) -> Shape:
    return tuple(size for _, size, _ in ranges)


_RULES = {
    "concat": _of_concat, "expand": _of_expand, "pad": _of_pad, "permute": _of_permute,
    "slice": _of_slice,
}  # fmt: skip
