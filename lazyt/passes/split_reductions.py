"""Brings reductions into the form that fusion knows: one axis each."""

from __future__ import annotations

from collections.abc import Sequence

from lazyt import ops
from lazyt.ir.graph import Node, rebuild, remake
from lazyt.ir.op import reduction_runs
from lazyt.ops.reduction import IDENTITIES


def split_reductions(roots: Sequence[Node]) -> list[Node]:
    """Merges neighbouring reduced axes into one, then reduces one axis after the other, last first.

    The form depends on the reduction's own shape and axes alone, so the order in which elements are
    folded does too, whatever is fused later. Reductions over nothing become their identity or a
    reshape. Leaves other nodes alone. Must run before fusion.
    """

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.op.name != "reduce":
            return remake(node, inputs)
        return _split(node, inputs[0])

    return rebuild(roots, change)


def _split(node: Node, source: Node) -> Node:
    kind, axes = node.params.kind, sorted(node.params.axes)
    if kind in ("argmax", "argmin"):
        return remake(node, (source,))
    real = [a for a in axes if source.shape[a] != 1]
    if any(source.shape[a] == 0 for a in real) and node.size:
        if kind in IDENTITIES:
            fill = ops.constant(IDENTITIES[kind], node.dtype)
            ones = ops.reshape(fill, (1,) * len(node.shape))
            return ops.expand(ones, node.shape)
        return remake(node, (source,))
    if not real:
        return ops.reshape(source, node.shape)
    # Sums of half values are rounded once, not after each axis.
    runs = reduction_runs(real, source.shape)
    wide = node.dtype.is_half and len(runs) > 1
    value = ops.cast(source, node.dtype.compute) if wide else source
    for first, last in reversed(runs):
        value = _reduce_run(kind, value, first, last)
    value = ops.cast(value, node.dtype) if wide else value
    return ops.reshape(value, node.shape) if value.shape != node.shape else value


def _reduce_run(kind: str, value: Node, first: int, last: int) -> Node:
    """Reduces axes first..last as one; they become size 1 so that later axes keep their number."""
    shape = value.shape
    length = 1
    for extent in shape[first : last + 1]:
        length *= extent
    merged = (*shape[:first], length, *shape[last + 1 :])
    flat = value if merged == shape else ops.reshape(value, merged)
    folded = ops.reduce_(kind, flat, (first,))
    kept = (*shape[:first], *((1,) * (last - first + 1)), *shape[last + 1 :])
    return ops.reshape(folded, kept)
