"""What a graph has to compute, and what it should keep.

A value is kept when computing it again would be costly and somebody outside of the graph still
refers to it. Memory of a value that nobody else can see is given to what overwrites it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence

from lazyt import ops
from lazyt.ir.dtypes import float32
from lazyt.ir.graph import Node, become
from lazyt.ops.leaves import VARIABLE

_FREE = frozenset({"reshape", "permute", "expand", "slice", "flip", "variable", "detach"})


def number_graph(roots: Sequence[Node]) -> tuple[dict[Node, int], bool, bool]:
    """Numbers of all nodes that have to be computed and of their leaves, inputs first; whether any
    is costly; whether any is a library call. It is ``topological``, written out: all calls pay."""
    numbers: dict[Node, int] = {}
    costly = calls = False
    stack = list(roots)
    stack.reverse()
    while stack:
        node = stack[-1]
        if node in numbers:
            stack.pop()
            continue
        depth = len(stack)
        if node.data is None:
            for item in node.inputs:
                if item not in numbers:
                    stack.append(item)
            if node.op.heavy:
                costly = True
                calls = calls or node.op.lower == "library"
        if len(stack) == depth:
            stack.pop()
            numbers[node] = len(numbers)
        elif len(stack) > depth + 1:
            stack[depth:] = stack[: depth - 1 : -1]
    return numbers, costly, calls


def _references(order: list[Node], numbers: dict[Node, int]) -> list[int]:
    """References to each node, less those from within the graph."""
    counts = [sys.getrefcount(node) for node in order]
    for node in order:
        if node.data is None:
            for item in node.inputs:
                counts[numbers[item]] -= 1
    return counts


@functools.cache
def _baseline() -> int:
    """What ``_references`` counts for a node that nobody outside of the graph refers to."""
    probe = ops.apply("neg", ops.apply("neg", ops.input_((), float32)))
    numbers, *_ = number_graph([probe])
    return _references(list(numbers), numbers)[1]


def find_outside(order: list[Node], numbers: dict[Node, int]) -> dict[Node, bool]:
    """Whether somebody outside of this graph refers to a node: a tensor, or a pending graph such
    as the gradients. It is read off the reference count."""
    baseline = _baseline()
    counts = _references(order, numbers)
    return {node: count > baseline for node, count in zip(order, counts, strict=True)}


def find_kept(order: list[Node], outside: dict[Node, bool], roots: set[Node]) -> list[Node]:
    """Values to keep: costly to compute again, and referred to from outside of this graph."""
    costly: set[Node] = set()
    kept: dict[Node, None] = {}
    for node in order:
        if node.data is not None or node in roots or 0 in node.shape:
            continue
        if node.op.heavy or any(i in costly for i in node.inputs):
            if not outside[node]:
                costly.add(node)
                continue
            value = node
            while value.op.name in _FREE:
                value = value.inputs[0]
            if value.data is None and value not in roots:
                kept[value] = None
                costly.discard(value)
    return list(kept)


def find_spare(order: list[Node], outside: dict[Node, bool]) -> set[Node]:
    """Leaves whose memory a write into them may take over: the old value is needed by nothing
    else, inside or outside, and its memory belongs to the leaf alone."""
    users: dict[Node, int] = {}
    for node in order:
        if node.data is None:
            for item in node.inputs:
                users[item] = users.get(item, 0) + 1
    spare: set[Node] = set()
    for node in order:
        if node.data is None and node.op.name in ("update", "scatter") and not node.needs_grad:
            base = node.inputs[0]
            # Only leaves: another node of equal meaning would be found again, with the new value.
            leaf = base.data is not None and base.op.name == "input"
            alone = leaf and users[base] == 1 and not outside[base]
            if alone and not base.data.is_foreign and sys.getrefcount(base.data) == _ALONE:
                spare.add(base)
    return spare


def forget_origins(order: Sequence[Node]) -> None:
    """Parameters that are computed now forget how: gradients end at them, and a pending gradient
    would hold, through the parameter of its step, the values of all steps before."""
    for node in order:
        if node.op is VARIABLE:
            top = value = node.inputs[0]
            while value.data is None and value.op.name in ("variable", "detach"):
                value = value.inputs[0]
            if value.data is not None and top.inputs and not top.needs_grad:
                top.data = value.data
                become(top, ops.input_(top.shape, top.dtype))


#: References to an object that only one slot holds, as ``sys.getrefcount`` counts them.
_ALONE = sys.getrefcount([object()][0]) + 1
