"""How a stored value can be computed once more, and what that costs."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from lazyt.ir.graph import Node
from lazyt.ir.group import Group, Part
from lazyt.ir.index import Axis
from lazyt.passes.lifetimes import WRITING
from lazyt.passes.targets import is_pointwise, operation_cost

#: What the estimate counts with, a second: bytes moved, operations of a contraction, multiply-adds
#: of other kernels; and the seconds of a launch. Only their ratios decide what is recomputed.
MOVED, CONTRACTED, MAPPED, LAUNCH = 1.5e10, 2e11, 2.5e10, 4e-6


@dataclass(frozen=True, eq=False)
class Recipe:
    """A launch that computes values again.

    Attributes:
        group: what is launched. Other values that it stores can be left out.
        reads: what it reads of other groups, in the order in which that is first stored.
        seconds: the estimate of its time.
    """

    group: Group
    reads: tuple[Node, ...]
    seconds: float


def estimate_seconds(group: Group) -> float:
    """The time of a group's kernel: moving its bytes or doing its work, whichever is longer."""
    moved = sum(n.nbytes for n in group.reads) + sum(n.nbytes for n in group.stored)
    ends = group.reads.union(group.members)
    work = sum(_work(node, ends) for node in group.members)
    parts = [stage.group for stage in group.stages] or [group]
    contracted = sum(_contraction(part.head) for part in parts if part.kind == "contract")
    return LAUNCH + max(moved / MOVED, contracted / CONTRACTED + work / MAPPED)


def find_recipes(groups: Sequence[Group]) -> dict[Node, Recipe]:
    """A recipe for every stored value that has one.

    The launch that made it, or, where that is quicker, a kernel for the value alone that reads
    other stored values: an activation is computed from what the contraction before it left. Groups
    that write over a value have none.
    """
    members = {node for group in groups for node in group.members}
    stored = {node: n for n, node in enumerate(n for group in groups for n in group.stored)}
    found: dict[Node, Recipe] = {}
    for group in groups:
        if group.kind in WRITING:
            continue
        whole = _recipe(group, stored)
        for node in group.stored:
            found[node] = whole
            if is_pointwise(node) and len(group.members) > 1:
                alone = _alone(node, members, stored)
                if alone is not None and alone.seconds < 0.7 * whole.seconds:
                    found[node] = alone
    return found


def _recipe(group: Group, stored: Mapping[Node, int]) -> Recipe:
    reads = sorted((n for n in group.reads if n in stored), key=stored.__getitem__)
    return Recipe(group, tuple(reads), estimate_seconds(group))


def _alone(node: Node, members: Container[Node], stored: Mapping[Node, int]) -> Recipe | None:
    """The kernel of a pointwise value alone, if all that it reads is stored."""
    reads = {n for n in visited(node, members) if n.op.name == "input" or n in members}
    if any(n.op.name != "input" and n not in stored for n in reads):
        return None
    axes = tuple(Axis(f"i{n}", extent) for n, extent in enumerate(node.shape))
    group = Group("map", 0, [Part(axes, outputs=[(node, "full")])])
    group.members[node] = (0, "full")
    group.inside[node] = set()
    group.reads, group.stored = reads, [node]
    return _recipe(group, stored)


def visited(node: Node, ends: Container[Node]) -> list[Node]:
    """What is visited to compute a value from ``ends`` and inputs, these included."""
    seen: dict[Node, None] = {}
    work = [*node.inputs]
    while work:
        item = work.pop()
        if item not in seen:
            seen[item] = None
            if item not in ends and item.op.name != "input":
                work.extend(item.inputs)
    return list(seen)


def _work(node: Node, ends: Container[Node]) -> float:
    """Multiply-adds of a value computed from ``ends``; a contraction's own are left out."""
    if is_pointwise(node):
        total = operation_cost(node) * node.size
    elif node.op.name == "contract":
        total = 0.0
    else:
        source = max((n.size for n in node.inputs), default=node.size)
        total = source * (math.log2(source + 2) if node.op.name == "sort" else 1.0)
    inner = (n for n in visited(node, ends) if n not in ends)
    return total + sum(operation_cost(n) * n.size for n in inner if is_pointwise(n))


def _contraction(head: Node | None) -> float:
    """Operations of a contraction: a multiplication and an addition for each pair."""
    assert head is not None
    left, right = head.inputs
    extents = dict(zip(head.params.left, left.shape)) | dict(zip(head.params.right, right.shape))
    return 2.0 * math.prod(extents.values())
