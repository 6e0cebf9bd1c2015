"""Graphs run by the NumPy interpreter in place of a plan, with the bits that a plan would give.

As in plans, complex numbers are taken apart into real and imaginary parts first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyt import ops
from lazyt.codegen.prelude import sections_for
from lazyt.ir import scalar
from lazyt.ir.graph import Node, topological
from lazyt.ops.control.bodies import evaluating
from lazyt.runtime.interpreter import interpret
from lazyt.runtime.kernel_bits import KernelBits
from lazyt.transforms import complex_graphs
from lazyt.transforms.complex_graphs import Value

evaluate = KernelBits(sections_for)
scalar.on_redefinition.append(evaluate.forget)


def values_of(roots: Sequence[Node]) -> list[np.ndarray[Any, Any]]:
    """The values of ``roots`` as stored arrays (bfloat16 as uint16 bit patterns)."""
    order = topological(roots, lambda node: node.data is not None)
    given: dict[Node, np.ndarray[Any, Any]] = {}
    taken: Sequence[Node] = roots
    if complex_graphs.has_complex(order):
        taken, given = _in_parts(order, roots)
    token = evaluating.set(evaluate)
    try:
        found = interpret(taken, given, evaluate)
    finally:
        evaluating.reset(token)
    return [
        array.view(node.dtype.numpy).reshape(node.shape) if node.dtype.kind == "c" else array
        for node, array in zip(roots, found, strict=True)
    ]


def _in_parts(
    order: Sequence[Node], roots: Sequence[Node]
) -> tuple[list[Node], dict[Node, np.ndarray[Any, Any]]]:
    """The roots over the parts of complex numbers, and the stored arrays of the parts' leaves."""
    new: dict[Node, Value] = {}
    given: dict[Node, np.ndarray[Any, Any]] = {}
    for node in order:
        if node.dtype.kind == "c" and node.data is not None:
            shape, part = complex_graphs.stored_shape(node.shape, node.dtype), node.dtype.part
            leaf = ops.input_(shape, part)
            stored = np.ascontiguousarray(node.data.as_numpy(node.dtype, node.shape))
            given[leaf] = stored.view(part.numpy).reshape(shape)
            new[node] = complex_graphs.leaf(leaf, node.dtype, node.shape)
        elif node.data is not None or (not node.inputs and node.dtype.kind != "c"):
            new[node] = node
        else:
            new[node] = complex_graphs.rebuilt(node, [new[item] for item in node.inputs])
    return [complex_graphs.joined(new[root]) for root in roots], given
