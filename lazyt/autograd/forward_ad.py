"""Derivatives of functions, backwards and forwards, by levels."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from lazyt import ops
from lazyt.autograd.engine import Backward, find_variables, walk_tape
from lazyt.autograd.levels import Level, Table, entered, replaced
from lazyt.autograd.retracing import behind, link
from lazyt.errors import GradientError, LazytError, ShapeError
from lazyt.handle.dispatch import assign, lay_out, wrap
from lazyt.handle.grad_mode import enable_grad
from lazyt.handle.layout import strides_like
from lazyt.handle.storage import Storage
from lazyt.handle.tape import (
    AccumulateGrad,
    GradFn,
    Moves,
    boundaries,
    next_number,
    output_number,
    record,
)
from lazyt.handle.tensor import Tensor
from lazyt.ir.graph import Node
from lazyt.ops.leaves import VARIABLE

__all__ = [
    "UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual",
    "unpack_dual",
]  # fmt: skip


class Differential:
    """A function that runs on leaves of its own, and how its results depend on them.

    Attributes:
        leaves: the differentiable leaves.
        level: entered while the function runs.
    """

    def __init__(self) -> None:
        self.level = Level()
        self.leaves: list[Node] = []
        self._places: dict[tuple[GradFn, int], Node] = {}
        self._since = next_number()
        self._given: dict[GradFn, Node] = {}  # what those outside made of the arguments
        self._outputs: list[GradFn] = []
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
        if tensor._fn is not None:
            self._given[tensor._fn] = node
        made = object.__new__(Tensor)
        made._view = None
        if forward is not None:
            check_differentiable(tensor, forward)
            fn = AccumulateGrad(made)
            value, node = node, fn.mark(node)
            self.leaves.append(node)
            self._places[fn, 0] = node
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
        found = self._linked(outer, [] if tensor._fn is None else [tensor._fn])
        if tensor._view is not None:
            lay_out(found, strides_like(tuple(tensor.shape), tensor.strides))
        return found

    def outer(self, nodes: Sequence[Node]) -> list[Node]:
        """``nodes`` over the values that the leaves stand for."""
        return replaced(nodes, self._table)

    def tensor(self, node: Node) -> Tensor:
        """What was computed over the leaves, as a tensor for those outside."""
        return self._linked(self.outer([node])[0], self._outputs)

    def _linked(self, node: Node, makers: Sequence[GradFn]) -> Tensor:
        """A tensor for those outside, of what the functions ``makers`` made or a derivative of
        theirs, made of the tensors outside that they depend on: these may have hooks."""
        found = wrap(node, name="Clone")
        fn = found._storage.fn
        if fn is not None and makers:
            known = _outside(makers, self._since, self._given)
            if known is not None:
                fn.parents = tuple(known)
                fn.operands = tuple(weakref.ref(item) for item in known.values())
        return found

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

    def pull(
        self, outputs: Sequence[Tensor], nodes: Sequence[Node], cotangents: Sequence[Node | None]
    ) -> list[Node | None]:
        """What cotangents of ``outputs``, with ``nodes``, mean for the leaves; still over the
        leaves.

        Hooks that the function registered are called, as in a backward.
        """
        given = [(t, n, c) for t, n, c in zip(outputs, nodes, cotangents) if c is not None]
        self._outputs = [fn for tensor, _, _ in given if (fn := tensor._fn) is not None]
        with enable_grad():
            if self._meets_hooks(self._outputs):
                return self._along_tape([(t, c) for t, _, c in given])
            return pulled([(n, c) for _, n, c in given], self.leaves)

    def _meets_hooks(self, fns: Sequence[GradFn]) -> bool:
        hidden = behind(fns)
        if not any(
            fn._extra is not None and fn._extra.interferes for fn in hidden or walk_tape(fns, None)
        ):
            return False
        link(fns)
        return True

    def _along_tape(self, given: Sequence[tuple[Tensor, Node]]) -> list[Node | None]:
        from lazyt.autograd.traversal import Root, Traversal, plain

        roots = [
            Root(fn, output_number(fn, tensor.node) if fn.several else 0, plain(cotangent, True))
            for tensor, cotangent in given
            if (fn := tensor._fn) is not None
        ]
        found = Traversal(roots, self._places, True, lambda *_: None, False).captured
        return [found[place].node if place in found else None for place in self._places]

    def push(self, outputs: Sequence[Node], tangents: Sequence[Node]) -> list[Node | None]:
        """How ``outputs`` move when the leaves do; still over the leaves."""
        return pushed(outputs, self.leaves, tangents)


def _outside(
    makers: Sequence[GradFn], since: float, given: dict[GradFn, Node]
) -> dict[GradFn, Node] | None:
    """The grad_fns older than number ``since`` that ``makers`` depend on, and ``given``, each with
    the node that it made; None where the tape does not tell all of them."""
    found = dict(given)
    stack, seen = [*makers], set(makers)
    while stack:
        fn = stack.pop()
        if fn.number < since:
            node = found.get(fn) or _made_by(fn)
            if node is None:
                return None
            found[fn] = node
        elif fn.parents:
            new = [p for p in fn.parents if p is not None and p not in seen]
            seen.update(new)
            stack += new
        elif not isinstance(fn, AccumulateGrad):
            return None
    return found


def _made_by(fn: GradFn) -> Node | None:
    """The node of what ``fn`` made, or of a leaf."""
    if not isinstance(fn, AccumulateGrad):
        return None if fn.made is None else fn.made()
    variable = fn.variable
    node = None if variable is None else variable.node
    if node is None or node.op is not VARIABLE or node.params.uid != fn.uid:
        return None
    return node


def check_differentiable(tensor: Tensor, forward: bool) -> None:
    """Raise GradientError (or ShapeError, a ValueError, forwards) for whole numbers."""
    if tensor.dtype.kind in "fc":
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


# Forward derivatives by dual tensors (``torch.autograd.forward_ad``).
#
# A dual tensor stands for a value and a tangent, the direction in which it moves. What is computed
# from dual tensors is an ordinary graph; ``unpack_dual`` asks the transform for its tangent.


class UnpackedDualTensor(NamedTuple):
    """A dual tensor taken apart; ``tangent`` is None for a tensor that does not move."""

    primal: Tensor
    tangent: Tensor | None


class _State(threading.local):
    """The level of one thread: leaves of its dual tensors with their values and tangents."""

    def __init__(self) -> None:
        self.level = -1
        self.values: dict[Node, Node] = {}
        self.tangents: dict[Node, Node] = {}
        self.leaves: list[AccumulateGrad] = []


_state = _State()


def enter_dual_level() -> int:
    """Begin a level, in which dual tensors can be made; returns its number.

    Raises LazytError inside of another.
    """
    if _state.level >= 0:
        raise LazytError("Nested forward mode AD is not supported at the moment")
    _state.level += 1
    return _state.level


def exit_dual_level(*, level: int | None = None) -> None:
    """End the level: its tangents are forgotten. Raises LazytError where it is not the last."""
    if level is None:
        level = _state.level
    if level < 0:
        raise LazytError("Dual level must be a positive number.")
    if level != _state.level:
        raise LazytError(
            "Trying to exit a forward AD level that was not the last one that was created. This is "
            "not supported."
        )
    _state.level -= 1
    _state.values, _state.tangents, _state.leaves = {}, {}, []


class dual_level:
    """A ``with`` block that is a level; gives its number."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *_: object) -> None:
        exit_dual_level(level=0)


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A dual tensor of ``tensor`` that moves along ``tangent``, of the same shape.

    Raises LazytError outside of a level, ShapeError (a ValueError) for whole numbers, GradientError
    for a tangent of another shape.
    """
    if level is None and _state.level < 0:
        raise LazytError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to "
            "enter_dual_level() first."
        )
    check_differentiable(tensor, True)
    if tangent.dtype.kind not in "fc":
        raise ValueError(
            f"Expected tangent to be floating point, but got: torch.{tangent.dtype.name}"
        )
    _check_tangent(tensor, tangent)
    value = tensor.node
    made = object.__new__(Tensor)
    made._view = None
    leaf = AccumulateGrad(made)
    node = leaf.mark(value)
    with enable_grad():
        fn = None
        if tensor._fn is not None:
            fn = record("MakeDual", (tensor,), None)
            fn.operands = Moves((), value.shape, value.dtype, fn.output_of_parent(0))
        made._storage = Storage(node, fn)
    _state.values[node] = value
    _state.tangents[node] = ops.cast(tangent.node, value.dtype)
    _state.leaves.append(leaf)
    return made


def _check_tangent(tensor: Tensor, tangent: Tensor) -> None:
    if tangent.shape != tensor.shape:
        raise GradientError(
            "Trying to set a forward gradient that has a different size than that of the original "
            f"Tensor, this is not supported. Tensor is of size {list(tensor.shape)} while the "
            f"given forward gradient is of size {list(tangent.shape)}."
        )


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Value and tangent of a tensor; the tangent is None outside of levels."""
    if level is None and _state.level < 0:
        return UnpackedDualTensor(tensor, None)
    node = tensor.node
    table = dict(_state.values)
    leaves = list(table)
    with enable_grad():
        (moved,) = pushed([node], leaves, [_state.tangents[leaf] for leaf in leaves])
    outer: Any = replaced([node] if moved is None else [node, moved], table)
    if moved is None:
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(wrap(outer[0], name="Clone"), wrap(outer[1], name="Clone"))
