"""Forward derivatives by dual tensors (``torch.autograd.forward_ad``).

A dual tensor stands for a value and a tangent, the direction in which it moves. What is computed
from dual tensors is an ordinary graph; ``unpack_dual`` asks the transform for its tangent.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

from lazyt import ops
from lazyt.autograd.carrying import replaced
from lazyt.autograd.differentials import check_differentiable, pushed
from lazyt.dispatch import wrap
from lazyt.errors import GradientError, LazytError
from lazyt.grad_mode import enable_grad
from lazyt.ir.graph import Node
from lazyt.storage import Storage
from lazyt.tape import AccumulateGrad, Moves, record
from lazyt.tensor import Tensor

__all__ = [
    "UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual",
    "unpack_dual",
]  # fmt: skip


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
    if tangent.dtype.kind != "f":
        raise ValueError(
            f"Expected tangent to be floating point, but got: torch.{tangent.dtype.name}"
        )
    _check_tangent(tensor, tangent)
    value = tensor.node
    made = Tensor.__new__(Tensor)
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
