"""Which values of a graph are retained, and what may be forgotten.

A value is retained when somebody outside of the graph still refers to it, and computing it again
would be costly or would compute once more what was computed before. A value that is known forgets
how it was made, unless a gradient flows through it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lazyt import ops
from lazyt.ir.graph import NEVER, Node, find, head_of, move_onto
from lazyt.ops.leaves import become_input

_HIDING = head_of(ops.DETACH, None, 1)


def find_retained(
    order: list[Node], outside: dict[Node, bool], roots: set[Node], old: set[Node]
) -> list[Node]:
    """Values to retain, of those that are referred to from outside of this graph.

    Args:
        outside: whether a pending node is; leaves, roots and repeated constants are left out.
        old: those that hang on what was pending already when a graph was computed before. They
            are retained however cheap they are: a chain that grows from look to look would be
            computed from its start each time, as another graph, and hold everything that it began
            with.
    """
    costly: set[Node] = set()
    retained: dict[Node, None] = {}
    for node in order:
        if node.data is not None or node in roots or 0 in node.shape or not node.inputs:
            continue
        heavy = node.op.heavy or any(i in costly for i in node.inputs)
        if not outside.get(node):
            if heavy:
                costly.add(node)
        elif heavy or node in old:
            value = _below(node)
            if value.data is None and value not in roots and value.inputs:
                retained[value] = None
                costly.discard(value)
    return list(retained)


def _below(node: Node) -> Node:
    """What ``node`` only looks at. Windows repeat their operand's elements, and what reads them
    reads them off the operand, padding included, as easily."""
    through_window = False
    while True:
        name = node.op.name
        through_window = through_window or name == "window"
        if node.data is not None:  # what lies below a value that is there is no part of the graph
            return node
        free = node.op.is_movement or name == "put" or (name == "pad" and through_window)
        if not free:
            return node
        node = node.inputs[0]


def depends_on_pending(node: Node, now: int) -> bool:
    """Whether ``node`` needs what was pending already when the last graph was computed."""
    return any(i.data is None and i.made < now and i.oldest != NEVER for i in node.inputs)


def find_long_pending(node: Node, since: int, now: int) -> list[Node]:
    """What ``node`` hangs on that was there when the last graph was computed, and holds what has
    been pending since before ``since``.

    How old a node's operands are is noted when it is made; some may be computed by now, so that is
    found out anew.
    """
    _renew_ages(node, since)
    found: list[Node] = []
    stack, seen = [node], {node}
    while stack:
        item = stack.pop()
        if item.made < now:
            found.append(item)
            continue
        for below in item.inputs:
            if below not in seen and below.data is None and below.oldest < since:
                seen.add(below)
                stack.append(below)
    return found if node.oldest < since else []


def _renew_ages(root: Node, since: int) -> None:
    """Finds out anew how old what nodes hang on is. It only gets newer, as operands are computed,
    so what is new enough is not looked into."""
    if root.oldest >= since:
        return
    seen = {root}
    node, inputs = root, iter(root.inputs)
    stack: list[tuple[Node, Iterator[Node]]] = []
    while True:
        for item in inputs:
            if item.oldest < since and item.data is None and item not in seen:
                seen.add(item)
                stack.append((node, inputs))
                node, inputs = item, iter(item.inputs)
                break
        else:
            oldest = node.made
            for item in node.inputs:
                if item.oldest < oldest and item.data is None:
                    oldest = item.oldest
            node.oldest = oldest
            if not stack:
                return
            node, inputs = stack.pop()


def forget_origins(nodes: Sequence[Node]) -> None:
    """Computed nodes forget how: what refers to a value of one step would hold, through it, the
    values of all steps before. Where a gradient flows through a value, it is what cuts that off
    that forgets."""
    for node in nodes:
        if node.needs_grad:
            hidden = find(_HIDING, (node,))
            if hidden is None:
                continue
            hidden.data = node.data
            node = hidden
        if node.inputs and node.data is not None:
            become_input(node)


def separate_constants(nodes: Sequence[Node]) -> None:
    """Computed leaves of autograd that began as the same constant are one value no more, as they
    will not be one after a step of training: the first step is the same graph as all others."""
    taken: set[Node] = set()
    for node in nodes:
        if node.op.name != "variable" or node.data is None:
            continue
        (value,) = node.inputs
        if value.op.movement == "ordered" and _spreads_constant(value):
            if value in taken:
                node.data = node.data.copy()
            taken.add(value)
            move_onto(node, ops.input_(node.shape, node.dtype, node.data))


def _spreads_constant(node: Node) -> bool:
    """Whether a value is a constant repeated. Somebody may have computed the constant itself."""
    while node.op.movement == "ordered":
        (node,) = node.inputs
    return node.op.name == "const"
