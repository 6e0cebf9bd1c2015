"""Derivatives of functions, backwards and forwards, by levels."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from lazyt import ops
from lazyt.autograd.carrying import Table, replaced
from lazyt.autograd.engine import Backward, find_variables
from lazyt.autograd.levels import Level, entered
from lazyt.dispatch import assign, wrap
from lazyt.errors import GradientError, LazytError, ShapeError
from lazyt.grad_mode import enable_grad
from lazyt.ir.graph import Node
from lazyt.memory_formats import lay_out, strides_like
from lazyt.storage import Storage
from lazyt.tape import AccumulateGrad, GradFn, boundaries
from lazyt.tensor import Tensor


class Differential:
    """A function that runs on leaves of its own, and how its results depend on them.

    Attributes:
        leaves: the differentiable leaves.
        level: entered while the function runs.
    """

    def __init__(self) -> None:
        self.level = Level()
        self.leaves: list[Node] = []
        self._table: Table = {}
        self._copies: list[tuple[Tensor, Tensor]] = []

    def running(self) -> AbstractContextManager[Level]:
        """The context to run the function in."""
        return entered(self.level)

    def own(self, tensor: Tensor, forward: bool | None) -> Tensor:
        """The tensor that the function gets for ``tensor``.

        Args:
            forward: whether derivatives are taken forwards or (False) backwards; None where none
                is taken by this tensor.

        Raises GradientError for derivatives by whole numbers.
        """
        node, fn = tensor.node, None
        made = Tensor.__new__(Tensor)
        made._view = None
        if forward is not None:
            check_differentiable(tensor, forward)
            fn = AccumulateGrad(made)
            value, node = node, fn.mark(node)
            self.leaves.append(node)
            self._table[node] = value
        with enable_grad():
            made._storage = Storage(node, None if forward else fn)
        if tensor._view is not None:
            strides = strides_like(tuple(tensor.shape), tensor.strides)
            lay_out(made, strides)
        self._copies.append((tensor, made))
        return made

    def result(self, tensor: Tensor) -> Tensor:
        """A result of the function for those outside; tensors from there stay as they are."""
        node = tensor.node
        (outer,) = self.outer([node])
        if outer is node and not any(tensor is made for _, made in self._copies):
            return tensor
        found = wrap(outer, name="Clone")
        if tensor._view is not None:
            lay_out(found, strides_like(tuple(tensor.shape), tensor.strides))
        return found

    def outer(self, nodes: Sequence[Node]) -> list[Node]:
        """``nodes`` over the values that the leaves stand for."""
        return replaced(nodes, self._table)

    def tensor(self, node: Node) -> Tensor:
        """What was computed over the leaves, as a tensor for those outside."""
        return wrap(self.outer([node])[0], name="Clone")

    def tensors(self, nodes: Sequence[Node | None]) -> list[Tensor]:
        """What arrived at the leaves; zeros where nothing did."""
        return [
            self.tensor(ops.zeros_like(leaf) if node is None else node)
            for node, leaf in zip(nodes, self.leaves)
        ]

    def write_back(self) -> None:
        """What the function wrote into its arguments is written into those outside."""
        for tensor, made in self._copies:
            if made._storage.was_written:
                assign(tensor, wrap(self.outer([made.node])[0], name="Clone"))

    def pull(self, outputs: Sequence[Node], cotangents: Sequence[Node | None]) -> list[Node | None]:
        """What cotangents of ``outputs`` mean for the leaves; still over the leaves."""
        pairs = [(n, c) for n, c in zip(outputs, cotangents) if c is not None]
        with enable_grad():
            found = pulled(pairs, self.leaves)
        return found

    def push(self, outputs: Sequence[Node], tangents: Sequence[Node]) -> list[Node | None]:
        """How ``outputs`` move when the leaves do; still over the leaves."""
        return pushed(outputs, self.leaves, tangents)


def check_differentiable(tensor: Tensor, forward: bool) -> None:
    """Raise GradientError (or ShapeError, a ValueError, forwards) for whole numbers."""
    if tensor.dtype.kind == "f":
        return
    if forward:
        raise ShapeError(
            f"Expected primal to be floating point or complex, but got: torch.{tensor.dtype.name}"
        )
    raise GradientError("only Tensors of floating point dtype can require gradients")


def pulled(pairs: Sequence[tuple[Node, Node]], targets: Sequence[Node]) -> list[Node | None]:
    """What cotangents of nodes mean for ``targets``, as a graph that can be differentiated."""
    from lazyt.transforms.vjp import vjp

    pairs = [(node, cotangent) for node, cotangent in pairs if node.needs_grad]
    if not pairs:
        return [None] * len(targets)
    if any(n in boundaries for n in find_variables([node for node, _ in pairs])):
        received = Backward(pairs, targets, True).received
        return [received.get(target) for target in targets]
    return vjp([n for n, _ in pairs], [c for _, c in pairs], targets)


def pushed(
    outputs: Sequence[Node], leaves: Sequence[Node], tangents: Sequence[Node]
) -> list[Node | None]:
    """How ``outputs`` move when ``leaves`` move along ``tangents``, across boundaries.

    Raises GradientError for a custom function without ``jvp``.
    """
    from lazyt.transforms.jvp import jvp

    known: dict[Node, Node | None] = dict(zip(leaves, tangents))
    done: dict[GradFn, list[Node | None]] = {}
    for node in find_variables(outputs):
        if node in known or node not in boundaries:
            continue
        fn, index = boundaries[node]
        if fn not in done:
            moved = jvp(fn.below(), list(known), list(known.values()))
            done[fn] = push_boundary(fn, moved)
        parts = done[fn]
        known[node] = parts[index] if index < len(parts) else None
    return jvp(outputs, list(known), list(known.values()))


def push_boundary(fn: GradFn, tangents: list[Node | None]) -> list[Node | None]:
    """How the values behind a boundary move when those below it do."""
    if all(tangent is None for tangent in tangents):
        return []
    push: Any = getattr(fn, "push", None)
    if push is not None:
        found: list[Node | None] = push(tangents)
        return found
    if fn._extra is not None and fn._extra.history is not None:
        return tangents
    raise LazytError(f"forward-mode derivatives of {fn.name()} are not implemented")
