"""Graphs run by the NumPy interpreter in place of a plan, with the bits that a plan would give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyt import ops
from lazyt.codegen.prelude import sections_for
from lazyt.ir import scalar
from lazyt.ir.graph import Node
from lazyt.ops.control.bodies import evaluating
from lazyt.runtime.interpreter import interpret
from lazyt.runtime.kernel_bits import KernelBits
from lazyt.transforms import complex_graphs

Array = np.ndarray[Any, Any]
#: What computes complex numbers, by their real and imaginary parts in plans. Other ops move them,
#: or run graphs or libraries.
_COMPUTING = frozenset({"map", "reduce", "scan", "contract"})

_real = KernelBits(sections_for)
scalar.on_redefinition.append(_real.forget)


def values_of(roots: Sequence[Node]) -> list[Array]:
    """The values of ``roots`` as stored arrays (bfloat16 as uint16 bit patterns)."""
    token = evaluating.set(evaluate)
    try:
        return interpret(roots, evaluate=evaluate)
    finally:
        evaluating.reset(token)


def evaluate(node: Node, *arrays: Array) -> Any:
    """The value of a node from its inputs' values, all in compute types."""
    types = (node.dtype, *[item.dtype for item in node.inputs])
    if node.op.name in _COMPUTING and any(dtype.kind == "c" for dtype in types):
        return _by_parts(node, arrays)
    return _real(node, *arrays)


def _by_parts(node: Node, arrays: Sequence[Array]) -> Any:
    """The value of a node that computes with complex numbers, as plans do, part by part."""
    given: dict[Node, Array] = {}
    values: list[complex_graphs.Value] = []
    for item, array in zip(node.inputs, arrays, strict=True):
        part = item.dtype.part
        leaf = ops.input_(complex_graphs.stored_shape(item.shape, item.dtype), part)
        given[leaf] = np.ascontiguousarray(array, item.dtype.numpy).view(part.numpy)
        given[leaf] = given[leaf].reshape(leaf.shape)
        values.append(complex_graphs.leaf(leaf, item.dtype, item.shape))
    (found,) = interpret(
        [complex_graphs.joined(complex_graphs.rebuilt(node, values))], given, _real
    )
    return found.view(node.dtype.numpy).reshape(node.shape)
