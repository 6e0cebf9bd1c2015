"""Where values are: ``put`` says where one is made, ``transfer`` copies one from device to device.

``put`` is an identity that kernels do not see: it names the place of what would be nowhere, such as
constants. ``transfer`` cuts a graph in two: what it reads is computed on one device, and what reads
it on another (``lazyt/steps.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from lazyt.ir.forms import place_of
from lazyt.ir.graph import Node, Type, make
from lazyt.ir.index import Linear
from lazyt.ir.scalar import Expr
from lazyt.ops.registry import define_op, linear_jvp


class PlaceParams(NamedTuple):
    """``place``: a device's name, empty for the CPU."""

    place: str


def _infer(params: PlaceParams, node: Node) -> Type:
    return Type(node.shape, node.dtype)


def _evaluate(node: Node, array: Any) -> Any:
    return array


def _lower(node: Node, index: tuple[Linear, ...], read: Any) -> Expr:
    value: Expr = read(node.inputs[0], index)
    return value


def _put_vjp(node: Node, cotangent: Node) -> list[Node | None]:
    return [cotangent]


def _transfer_vjp(node: Node, cotangent: Node) -> list[Node | None]:
    return [transfer(cotangent, place_of(node.inputs[0].form))]


def _batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    return make(node.op, tuple(inputs), node.params)


PUT = define_op(
    "put",
    params=PlaceParams,
    infer=_infer,
    evaluate=_evaluate,
    vjp=_put_vjp,
    jvp=linear_jvp,
    batch=_batch,
    lower=_lower,
    moves=True,
)
TRANSFER = define_op(
    "transfer",
    params=PlaceParams,
    infer=_infer,
    evaluate=_evaluate,
    vjp=_transfer_vjp,
    jvp=linear_jvp,
    batch=_batch,
    lower="transfer",
    moves=True,
)


def put(node: Node, place: str) -> Node:
    """``node``, which may be nowhere yet, at ``place``; itself where it is there already."""
    return node if place_of(node.form) == place else make(PUT, (node,), PlaceParams(place))


def transfer(node: Node, place: str) -> Node:
    """A copy of ``node`` at ``place``; itself where it is there already."""
    return node if place_of(node.form) == place else make(TRANSFER, (node,), PlaceParams(place))
