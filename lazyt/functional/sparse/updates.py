"""What optimizers do with the elements of sparse gradients, and of their state at these."""

from __future__ import annotations

from typing import Any

from lazyt import ops
from lazyt.functional.sparse.coordinates import coalesced, masked
from lazyt.functional.sparse.tensors import CooTensor, need_coo
from lazyt.handle.dispatch import assign_value
from lazyt.handle.tensor import Tensor
from lazyt.handle.tensor_protocol import realize
from lazyt.ir.graph import Node
from lazyt.ops.leaves import DETACH, VARIABLE


def elements(grad: Tensor) -> CooTensor:
    """A sparse gradient. Raises LazytError for other layouts than COO."""
    return need_coo(grad, "step")


def unique_elements(grad: Tensor) -> CooTensor:
    """A sparse gradient whose indices are each there once. Raises LazytError for other layouts than
    COO; looks at the indices."""
    return coalesced(need_coo(grad, "coalesce"))


def elements_of(state: Tensor, grad: CooTensor) -> Tensor:
    """The elements of a dense tensor at the indices of a gradient, computed before others are
    written there."""
    return masked(state, grad)._held.realize()


def add_elements_(target: Tensor, grad: CooTensor, values: Tensor) -> None:
    """Adds values to the elements of a dense tensor at the indices of a gradient, in place and in
    their order; no gradients are recorded.

    The values are computed first: where nothing but this write depends on what the tensor held, it
    is written to in its own memory, and a step takes as long as its elements, not as the table.
    """
    if not grad._nnz():
        return
    realize(*grad.parts(), values)
    node, updates = _without_history(target.node), ops.cast(values.node, target.dtype)
    sizes = grad.sparse_sizes
    if len(sizes) == 1:
        assign_value(target, ops.scatter(node, grad.rows(0), updates, 0, "add"))
        return
    flat = ops.reshape(node, (grad.count_of_keys(), *updates.shape[1:]))
    found = ops.scatter(flat, grad.keys(), updates, 0, "add")
    assign_value(target, ops.reshape(found, node.shape))


def _without_history(node: Node) -> Node:
    """A value below the marks that autograd sets on it."""
    while node.op in (VARIABLE, DETACH):
        node = node.inputs[0]
    return node


def scaled(values: Tensor, factor: Any) -> Tensor:
    """Values times a number that the step computes, in the dtype of the values."""
    if isinstance(factor, Tensor):
        factor = factor.to(values.dtype)
    found: Tensor = values * factor
    return found
