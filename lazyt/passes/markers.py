"""Takes markers out of a graph: those that only gradients need, and those of ``checkpoint``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lazyt.ir.graph import Node, rebuild, remake, topological


def strip_markers(roots: Sequence[Node]) -> list[Node]:
    """Replaces every ``variable``, ``detach`` and ``put`` by what it marks.

    Leaves everything else alone, and marks of checkpoints, which ``take_checkpoints`` reads. Must
    run after differentiation and before fusion: markers have no kernel, and they hide equal values
    from each other.
    """

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.op.name in ("variable", "detach", "put") and len(inputs) == 1:
            return inputs[0]
        return remake(node, inputs)

    return rebuild(roots, change)


# What ``checkpoint`` marked: values that are to be computed again, not kept.


@dataclass(frozen=True)
class Checkpoint:
    """One call of a checkpointed function: its results, and what lies between them and its
    arguments."""

    inside: set[Node]
    results: set[Node]


def take_checkpoints(roots: Sequence[Node]) -> tuple[list[Node], list[Checkpoint]]:
    """The graph without marks of checkpoints, and what was marked.

    A mark is a ``detach`` that names, behind the value, what that was computed from: inside is what
    lies between. Leaves everything else alone. Must run last before fusion: until then the marks
    keep track of what becomes of the values.
    """
    order = topological(roots)
    marks = [node for node in order if _is_mark(node)]
    if not marks:
        return list(roots), []
    done: dict[Node, Node] = {}
    for node in order:
        new = tuple(done[item] for item in node.inputs)
        done[node] = new[0] if _is_mark(node) else remake(node, new)
    ends = {done[mark] for mark in marks}
    found: dict[tuple[Node, ...], Checkpoint] = {}
    for mark in marks:
        before = tuple(done[item] for item in mark.inputs[1:])
        if before not in found:  # the results of one call have the same arguments
            outside = set(topological(before))
            results = {done[m] for m in marks if m.inputs[1:] == mark.inputs[1:]}
            inside = set(topological(results, outside.__contains__))
            found[before] = Checkpoint(inside - outside - ends, results)
    return [done[root] for root in roots], list(found.values())


def _is_mark(node: Node) -> bool:
    return node.op.name == "detach" and len(node.inputs) > 1
