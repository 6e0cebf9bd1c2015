"""Local rewrites that never change a bit of the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from lazyt import ops
from lazyt.ir.graph import Node, rebuild, remake, topological
from lazyt.passes.slicing import ranges_of, sliced


def simplify(roots: Sequence[Node]) -> list[Node]:
    """Joins movement ops with movement ops, and drops those that do nothing.

    ``reshape(reshape(x)) -> reshape(x)``, ``permute(permute(x)) -> permute(x)``, identities
    vanish, and so do writes of nothing and what a write of everything covers. Slices are taken from
    what elements come from (``slicing.py``). A contraction of which only a permutation is read is
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
    if name == "flip" and not node.params.axes:
        return inputs[0]
    if name in ("update", "scatter") and inputs[-1].size == 0:
        return inputs[0]
    if name == "update" and _writes_all(node):
        return inputs[1]
    return node


def _in_order(node: Node, axes: Sequence[int]) -> Node:
    """A contraction with its axes in another order."""
    params, (left, right) = node.params, node.inputs
    return ops.contract(left, right, params.left, params.right, [params.out[a] for a in axes])


def _writes_all(node: Node) -> bool:
    same = node.inputs[1].shape == node.shape
    return same and not any(node.params.starts) and all(s == 1 for s in node.params.steps)
