"""A concatenation of many large pieces becomes writes of each piece into one memory.

As an expression it chooses a piece for every element: a tree of comparisons as deep as the
logarithm of their number, and a kernel that is as long as there are pieces. The outputs of the
steps of a sequence, stacked, take a tenth of that as a copy each. No bit changes.

When it must run: after slices have been taken from single pieces (``simplify.py``). What it leaves
alone: few pieces, for which loops are cut at the ends, and up to 48 small ones, for which launches
cost more.
"""

from __future__ import annotations

from collections.abc import Sequence

from lazyt import ops
from lazyt.ir.graph import Node, rebuild, remake

#: Pieces, and elements of the smallest of them, from which on they are written one by one.
FEWEST_PIECES, LEAST_ELEMENTS = 12, 512
#: Pieces beyond which one kernel would read too many values, and elements of the smallest of them;
#: single numbers (norms of all gradients) are computed and read by one launch for many.
MOST_PIECES, FEW_ELEMENTS = 48, 32


def store_pieces(roots: Sequence[Node]) -> list[Node]:
    """The graph without such concatenations."""
    return rebuild(roots, _change)


def _change(node: Node, inputs: tuple[Node, ...]) -> Node:
    node = remake(node, inputs)
    if node.op.name != "concat" or len(inputs) < FEWEST_PIECES:
        return node
    least = LEAST_ELEMENTS if len(inputs) <= MOST_PIECES else FEW_ELEMENTS
    if min(piece.size for piece in inputs) < least:
        return node
    axis, last = node.params.axis, len(node.shape) - 1
    if axis == last > 0 and all(piece.shape[axis] == 1 for piece in inputs):
        # Columns of one number each are rows of what is transposed once, when all are there.
        rows = [ops.permute(piece, (last, *range(last))) for piece in inputs]
        return ops.permute(_written(rows, 0), (*range(1, last + 1), 0))
    return _written(inputs, axis)


def _written(pieces: Sequence[Node], axis: int) -> Node:
    """The pieces in one memory."""
    extents = list(pieces[0].shape)
    extents[axis] = sum(piece.shape[axis] for piece in pieces)
    result = ops.broadcast_to(ops.constant(0, pieces[0].dtype), tuple(extents))
    starts = [0] * len(extents)
    for piece in pieces:
        result = ops.update(result, piece, starts, [1] * len(starts))
        starts[axis] += piece.shape[axis]
    return result
