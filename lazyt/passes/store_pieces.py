"""A concatenation of many large pieces becomes writes of each piece into one memory.

As an expression it chooses a piece for every element: a tree of comparisons as deep as the
logarithm of their number, and a kernel that is as long as there are pieces. The outputs of the
steps of a sequence, stacked, take a tenth of that as a copy each. No bit changes.

When it must run: after slices have been taken from single pieces (``slicing.py``). What it leaves
alone: few pieces, for which loops are cut at the ends, and small ones, for which launches cost
more.
"""

from __future__ import annotations

from collections.abc import Sequence

from lazyt import ops
from lazyt.ir.graph import Node, rebuild, remake

#: Pieces, and elements of the smallest of them, from which on they are written one by one.
FEWEST_PIECES, LEAST_ELEMENTS = 12, 512


def store_pieces(roots: Sequence[Node]) -> list[Node]:
    """The graph without such concatenations."""
    return rebuild(roots, _change)


def _change(node: Node, inputs: tuple[Node, ...]) -> Node:
    node = remake(node, inputs)
    if node.op.name != "concat" or len(inputs) < FEWEST_PIECES:
        return node
    if min(piece.size for piece in inputs) < LEAST_ELEMENTS:
        return node
    axis, result = node.params.axis, ops.zeros_like(node)
    starts = [0] * len(node.shape)
    for piece in inputs:
        result = ops.update(result, piece, starts, [1] * len(starts))
        starts[axis] += piece.shape[axis]
    return result
