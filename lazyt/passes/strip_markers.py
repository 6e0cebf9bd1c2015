"""Removes the markers that only gradients need."""

from __future__ import annotations

from collections.abc import Sequence

from lazyt.ir.graph import Node, rebuild, remake


def strip_markers(roots: Sequence[Node]) -> list[Node]:
    """Replaces every ``variable``, ``detach`` and ``put`` by what it marks.

    Leaves everything else alone, and marks of checkpoints, which ``checkpoints.py`` takes. Must run
    after differentiation and before fusion: markers have no kernel, and they hide equal values from
    each other.
    """

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.op.name in ("variable", "detach", "put") and len(inputs) == 1:
            return inputs[0]
        return remake(node, inputs)

    return rebuild(roots, change)
