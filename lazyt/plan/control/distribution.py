"""Whole values that ranks have parts of, where one is needed: the graph over parts is computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lazyt.ir.graph import Node, source_text, topological
from lazyt.ops.parallel.distribution import LOCALIZE
from lazyt.plan.explain import Explanation
from lazyt.runtime import events
from lazyt.transforms.partition.partition import gathered, part_taken, partition

Realize = Callable[[Sequence[Node]], list[Node]]

__all__ = ["explain_parts", "run_parts"]


def run_parts(nodes: Sequence[Node], realize: Realize) -> list[Node]:
    """Computes nodes that are whole values of parts, or are made from such. All ranks have to come
    here: the parts of a whole value are gathered. Returns what is stored."""
    stored: list[Node] = []
    for node in nodes:
        for item, part in _steps(node):
            if item.data is None:
                stored += realize([part])
                item.data = part.data
        if node.data is None:
            stored += realize([node])
    return [*stored, *nodes]


def explain_parts(
    nodes: Sequence[Node], explain: Callable[[Sequence[Node]], Explanation]
) -> Explanation:
    """The kernels and collectives of this rank."""
    parts = [part for node in nodes for _, part in _steps(node)]
    return explain(list(dict.fromkeys(parts)))


def _steps(node: Node) -> list[tuple[Node, Node]]:
    """What has to be computed by parts for a node, and what that is on this rank."""
    if partition(node) is not None:
        where = source_text(node.source)
        events.record("gather", "a value that ranks have parts of is needed as a whole", where)
        return [(node, gathered(node))]
    order = topological([node], lambda item: item.data is not None or item.op is LOCALIZE)
    return [(item, part_taken(item)) for item in order if item.op is LOCALIZE and item.data is None]
