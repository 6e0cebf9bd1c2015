"""Edges of the graph of grad_fns, in place of the tensors that they lead to."""

from __future__ import annotations

from typing import Any, NamedTuple

from lazyt.autograd.node_hooks import node_of
from lazyt.handle.dispatch import wrap
from lazyt.handle.tape import AccumulateGrad, GradFn
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType
from lazyt.ir.graph import Node


class GradientEdge(NamedTuple):
    """Where a tensor's gradient goes: a grad_fn, and the number of its output."""

    node: GradFn
    output_nr: int


class EdgeEnd:
    """What an edge leads to, with what ``backward`` and ``grad`` ask tensors for."""

    __slots__ = ("_fn", "index", "node")

    def __init__(self, edge: GradientEdge) -> None:
        self._fn, self.index = edge.node, edge.output_nr
        leaf = edge.node.variable if isinstance(edge.node, AccumulateGrad) else None
        self.node: Node = node_of(edge.node) if leaf is None else leaf.node

    @property
    def shape(self) -> Any:
        """The tensor's shape."""
        return wrap(self.node).shape

    @property
    def dtype(self) -> DType:
        """The tensor's dtype."""
        return self.node.dtype


def ends(value: Any) -> tuple[Any, ...]:
    """Tensors, or what stands for them: one, several or none, edges among them."""
    if value is None:
        return ()
    if isinstance(value, (Tensor, GradientEdge)):
        value = (value,)
    return tuple(EdgeEnd(item) if isinstance(item, GradientEdge) else item for item in value)
