"""Batching: a graph of one example becomes a graph of many."""

from __future__ import annotations

from collections.abc import Sequence

from lazyt import ops
from lazyt.errors import DTypeError, ShapeError
from lazyt.ir.graph import Node, topological
from lazyt.ops.control.bodies import transforms


def batch(
    outputs: Sequence[Node], inputs: Sequence[Node], batched: Sequence[Node], size: int
) -> list[Node]:
    """``outputs`` computed for ``size`` examples at once, as new graph nodes.

    Args:
        outputs: values of the graph of one example.
        inputs: nodes of that graph that differ from example to example.
        batched: for each of them its values: the same type, with a new leading axis of ``size``.
        size: the number of examples.

    Every result has the new leading axis, repeated where the output does not depend on ``inputs``.
    What does not depend on them stays as it is and is computed once. Iterative. Raises ShapeError
    or DTypeError for batched values that do not fit.
    """
    table: dict[Node, Node] = {}
    for node, values in zip(inputs, batched, strict=True):
        if values.shape != (size, *node.shape):
            raise ShapeError(
                f"batch: expected shape {[size, *node.shape]}, got {list(values.shape)}"
            )
        if values.dtype is not node.dtype:
            raise DTypeError(f"batch: {values.dtype.name} values for a {node.dtype.name} input")
        table[node] = values
    for node in topological(outputs, stop=lambda item: item in table):
        flags = [item in table for item in node.inputs]
        if node not in table and any(flags):
            items = [table.get(item, item) for item in node.inputs]
            table[node] = node.op.batch(node, items, flags)
    return [
        table[node] if node in table else ops.broadcast_to(node, (size, *node.shape))
        for node in outputs
    ]


transforms.batch = batch
