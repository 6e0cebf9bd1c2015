"""Values that come from nowhere (constants, counters, inputs, random bits), and the two identities
that mark where gradients start and stop.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lazyt.errors import DTypeError, ShapeError
from lazyt.ir.dtypes import DType, int64, uint32
from lazyt.ir.forms import place_of
from lazyt.ir.graph import NEVER, Node, NoGradient, Shape, Type, head_of, make, make_leaf, make_like
from lazyt.ir.index import Linear, Position, linearize
from lazyt.ir.index import constant as fixed
from lazyt.ir.scalar import Const, Expr, call
from lazyt.ops import builders as build
from lazyt.ops.builders import IotaParams
from lazyt.ops.compositions import batch_all
from lazyt.ops.registry import define_op, linear_jvp
from lazyt.ops.special_scalars import threefry


def _no_inputs_vjp(node: Node, cotangent: Node) -> list[Node | None]:
    return []


def _no_inputs_jvp(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    return None


def _no_inputs_batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    return node


# ------------------------------------------------------------------------------- const


def _const_infer(literal: Const) -> Type:
    return Type((), literal.dtype)


def _const_evaluate(node: Node) -> Any:
    return np.asarray(node.params.value, node.dtype.compute.numpy)


def _const_lower(node: Node, index: tuple[Linear, ...], read: Any) -> Expr:
    literal: Expr = node.params
    return literal


CONST = define_op(
    "const",
    params=Const,
    infer=_const_infer,
    evaluate=_const_evaluate,
    vjp=_no_inputs_vjp,
    jvp=_no_inputs_jvp,
    batch=_no_inputs_batch,
    lower=_const_lower,
    leaf=True,
)


# -------------------------------------------------------------------------------- iota


def _iota_infer(params: IotaParams) -> Type:
    if params.extent < 0:
        raise ShapeError(f"iota: the extent must not be negative, got {params.extent}")
    if params.dtype.kind == "b":
        raise DTypeError("iota does not make bool")
    return Type((params.extent,), params.dtype)


def _iota_evaluate(node: Node) -> Any:
    return np.arange(node.params.extent).astype(node.dtype.compute.numpy)


def _iota_lower(node: Node, index: tuple[Linear, ...], read: Any) -> Expr:
    return call("cast", Position(index[0], int64), dtype=node.dtype)


IOTA = define_op(
    "iota",
    params=IotaParams,
    infer=_iota_infer,
    evaluate=_iota_evaluate,
    vjp=_no_inputs_vjp,
    jvp=_no_inputs_jvp,
    batch=_no_inputs_batch,
    lower=_iota_lower,
    leaf=True,
)


# ------------------------------------------------------------------------------- input


class InputParams(NamedTuple):
    """``uid`` makes every input a value of its own."""

    uid: int
    shape: Shape
    dtype: DType


def _input_infer(params: InputParams) -> Type:
    return Type(params.shape, params.dtype)


def _input_evaluate(node: Node) -> Any:
    raise ValueError(f"{node!r} has no data")


INPUT = define_op(
    "input",
    params=InputParams,
    infer=_input_infer,
    evaluate=_input_evaluate,
    vjp=_no_inputs_vjp,
    jvp=_no_inputs_jvp,
    batch=_no_inputs_batch,
    lower="input",
    leaf=True,
)
_uids = itertools.count()
_INPUT_HEAD = head_of(INPUT, None, 0)


def input_(shape: Sequence[int], dtype: DType, data: Any = None) -> Node:
    """A new leaf, unequal to all others; ``data`` is the runtime buffer that holds its value."""
    shape = tuple(shape)
    params = InputParams(next(_uids), shape, dtype)
    return make_leaf(_INPUT_HEAD, params, Type(shape, dtype), data)


def become_input(node: Node) -> None:
    """Turn a computed node, which no gradient flows through, into a leaf of the same value: whoever
    refers to it no longer holds on to how it was made."""
    nodes = node.head.nodes
    reference = nodes.get(node.inputs)
    if reference is not None and reference() is node:
        del nodes[node.inputs]
    node.inputs, node.head, node.op = (), _INPUT_HEAD, INPUT
    node.params = InputParams(next(_uids), node.shape, node.dtype)
    node.oldest = NEVER


# ------------------------------------------------------------------------------ random


class RandomParams(NamedTuple):
    """The result's shape."""

    shape: Shape


_BITS = NoGradient("random bits are integers, which carry no gradient")


def _random_infer(params: RandomParams, key: Node) -> Type:
    if key.shape != (2,):
        raise ShapeError(f"random: the key must have shape [2], not {list(key.shape)}")
    if key.dtype is not uint32:
        raise DTypeError(f"random: the key must be uint32, not {key.dtype.name}")
    return Type(params.shape, uint32)


def _random_evaluate(node: Node, key: Any) -> Any:
    return threefry(key[0], key[1], np.arange(node.size)).reshape(node.shape)


def _random_batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    # Each key of the batch counts from 0 on its own.
    (key,) = inputs
    size, count = key.shape[0], node.size
    low = build.slice_(key, (0, 0), (size, 1), (1, 1))
    high = build.slice_(key, (0, 1), (size, 1), (1, 1))
    counter = build.reshape(build.iota(count), (1, count))
    return build.reshape(build.apply("threefry", low, high, counter), (size, *node.shape))


def _random_lower(node: Node, index: tuple[Linear, ...], read: Any) -> Expr:
    (key,) = node.inputs
    position = Position(linearize(index, node.shape), int64)
    return call("threefry", read(key, (fixed(0),)), read(key, (fixed(1),)), position, dtype=uint32)


RANDOM = define_op(
    "random",
    params=RandomParams,
    infer=_random_infer,
    evaluate=_random_evaluate,
    vjp=_BITS,
    jvp=_BITS,
    batch=_random_batch,
    lower=_random_lower,
)


def random(key: Node, shape: Sequence[int]) -> Node:
    """uint32 random bits from a ``uint32[2]`` key.

    Element i in row-major order is the first word of Threefry-2x32 with 20 rounds under the key,
    with i as the 64-bit counter (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as
    1, 2, 3", SC'11).
    """
    return make(RANDOM, (key,), RandomParams(tuple(shape)))


# -------------------------------------------------------------------- variable, detach


class VariableParams(NamedTuple):
    """``uid`` tells variables over equal values apart."""

    uid: int


def _same_type(params: Any, node: Node, *since: Node) -> Type:
    return Type(node.shape, node.dtype)


def _identity_evaluate(node: Node, array: Any, *since: Any) -> Any:
    return array


def _identity_vjp(node: Node, cotangent: Node) -> list[Node | None]:
    return [cotangent]


def _stopped_vjp(node: Node, cotangent: Node) -> list[Node | None]:
    return [None for _ in node.inputs]


def _stopped_jvp(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    return None


def _identity_jvp(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    return tangents[0]


def _variable_batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    return variable(inputs[0], node.params.uid)


def _detach_batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    return detach(inputs[0] if batched[0] else batch_all(inputs, batched)[0])


def _identity_lower(node: Node, index: tuple[Linear, ...], read: Any) -> Expr:
    value: Expr = read(node.inputs[0], index)
    return value


VARIABLE = define_op(
    "variable",
    params=VariableParams,
    infer=_same_type,
    evaluate=_identity_evaluate,
    vjp=_identity_vjp,
    jvp=_identity_jvp,
    batch=_variable_batch,
    lower=_identity_lower,
    marks=True,
)
DETACH = define_op(
    "detach",
    params=None,
    infer=_same_type,
    evaluate=_identity_evaluate,
    vjp=_stopped_vjp,
    jvp=_stopped_jvp,
    batch=_detach_batch,
    lower=_identity_lower,
    marks=False,
)


def variable(node: Node, uid: int) -> Node:
    """``node`` as a differentiable leaf: what uses it needs gradients, which are taken by it."""
    head = head_of(VARIABLE, VariableParams(uid), 1)
    return make_like(head, (node,), node.source)


_DETACH_HEAD = head_of(DETACH, None, 1)


def detach(node: Node, *since: Node) -> Node:
    """``node`` without its history: gradients stop here.

    ``since`` marks a checkpoint: what lies between these values and ``node`` is to be computed
    again where it is needed later, not kept.
    """
    if since:
        return make(DETACH, (node, *since))
    return make_like(_DETACH_HEAD, (node,), node.source)


# Where values are: ``put`` says where one is made, ``transfer`` copies one from device to device.
#
# ``put`` is an identity that kernels do not see: it names the place of what would be nowhere, such
# as constants. ``transfer`` cuts a graph in two: what it reads is computed on one device, and what
# reads it on another (``lazyt/plan/steps.py``).


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
