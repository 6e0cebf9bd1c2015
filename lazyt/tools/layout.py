"""Where the nodes of a picture go: layers by depth, few crossings within a layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lazyt.ir.graph import Node, topological

#: Sweeps over the layers that reorder nodes by the middle of their neighbours.
SWEEPS = 6


class Place(NamedTuple):
    """A node's layer, counted from the inputs, and its centre in columns."""

    layer: int
    column: float


def _layers(order: Sequence[Node]) -> dict[Node, int]:
    """Longest distance from a leaf; leaves stand just above their first user."""
    layer: dict[Node, int] = {}
    nearest: dict[Node, int] = {}
    for node in order:
        layer[node] = 1 + max((layer[i] for i in node.inputs), default=-1)
    for node in order:
        for item in node.inputs:
            nearest[item] = min(nearest.get(item, layer[node]), layer[node])
    for node in order:
        if not node.inputs and node in nearest:
            layer[node] = nearest[node] - 1
    return layer


def _spread(row: list[Node], wish: dict[Node, float], columns: dict[Node, float]) -> None:
    """Orders a row by where its nodes wish to be, one column apart at least, centred on wishes."""
    row.sort(key=lambda n: (wish[n], columns[n]))
    at = -1e9
    for node in row:
        at = max(at + 1, wish[node])
        columns[node] = at
    shift = sum(wish[n] - columns[n] for n in row) / len(row)
    for node in row:
        columns[node] += shift


def place_nodes(roots: Sequence[Node]) -> dict[Node, Place]:
    """A place for every node that ``roots`` depend on, columns starting at 0. Iterative."""
    order = topological(roots)
    layer = _layers(order)
    rows: list[list[Node]] = [[] for _ in range(max(layer.values(), default=-1) + 1)]
    users: dict[Node, list[Node]] = {n: [] for n in order}
    columns: dict[Node, float] = {}
    for node in order:
        columns[node] = float(len(rows[layer[node]]))
        rows[layer[node]].append(node)
        for item in node.inputs:
            users[item].append(node)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            wish = {}
            for node in row:
                near = node.inputs if down else users[node]
                total = sum(columns[n] for n in near)
                wish[node] = total / len(near) if near else columns[node]
            _spread(row, wish, columns)
    least = min(columns.values(), default=0.0)
    return {n: Place(layer[n], columns[n] - least) for n in order}
