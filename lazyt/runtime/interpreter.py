"""The NumPy interpreter: the meaning of the graph, used as test oracle and announced fallback.

Every node is evaluated by its op's own ``evaluate`` rule, one after the other, or by what is given
in its place (``runtime/kernel_bits.py`` has the bits of kernels). 16-bit floats are
float32 arrays in between, rounded to what the type can hold after every node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from lazyt.errors import InternalError
from lazyt.ir.dtypes import DType, bfloat16, decode_bfloat16, encode_bfloat16, float16
from lazyt.ir.graph import Node, topological

#: A node's value from its inputs' values, all in compute types.
Evaluate = Callable[..., Any]
NOTHING: Mapping[Node, np.ndarray] = MappingProxyType({})


def evaluate_op(node: Node, *arrays: np.ndarray) -> Any:
    """The value of a node by its op's own rule."""
    return node.op.evaluate(node, *arrays)


def interpret(
    roots: Sequence[Node],
    given: Mapping[Node, np.ndarray] = NOTHING,
    evaluate: Evaluate = evaluate_op,
) -> list[np.ndarray]:
    """The values of ``roots`` as stored arrays (bfloat16 as uint16 bit patterns).

    Nodes that hold data, and those of which ``given`` has the stored array, are not computed again.
    ``evaluate`` computes the others.

    Raises InternalError for an input without a value and when a computed array has not the inferred
    shape or type.
    """
    order = topological(roots, lambda node: node.data is not None or node in given)
    uses: dict[Node, int] = dict.fromkeys(order, 0)
    for node in order:
        if node.data is None and node not in given:
            for item in node.inputs:
                uses[item] += 1
    for node in roots:
        uses[node] += 1
    values: dict[Node, np.ndarray] = {}
    with np.errstate(all="ignore"):
        for node in order:
            if node in given:
                values[node] = load(given[node], node.dtype)
                continue
            values[node] = _value(node, values, evaluate)
            if node.data is None:
                for item in node.inputs:
                    uses[item] -= 1
                    if uses[item] == 0:
                        del values[item]
        return [store(values[node], node.dtype) for node in roots]


def _value(node: Node, values: dict[Node, np.ndarray], evaluate: Evaluate) -> np.ndarray:
    """One node's value in its compute type."""
    if node.data is not None:
        return load(node.data.as_numpy(node.dtype, node.shape), node.dtype)
    result = np.asarray(evaluate(node, *(values[i] for i in node.inputs)))
    if result.shape != node.shape or result.dtype != node.dtype.compute.numpy:
        raise InternalError(
            "the interpreter",
            f"{node.op.name} was inferred as {node.dtype.name}{list(node.shape)} and evaluated to "
            f"{result.dtype}{list(result.shape)}",
        )
    if node.dtype.is_half:
        return load(store(result, node.dtype), node.dtype)
    return result


def load(stored: np.ndarray, dtype: DType) -> np.ndarray:
    """A stored array as an array of the compute type."""
    if dtype is bfloat16:
        return decode_bfloat16(stored)
    return stored.astype(np.float32) if dtype is float16 else stored


def store(values: np.ndarray, dtype: DType) -> np.ndarray:
    """An array of the compute type as a stored array, 16-bit floats rounded to nearest even."""
    if dtype is bfloat16:
        return encode_bfloat16(values)
    return values.astype(np.float16) if dtype is float16 else values
