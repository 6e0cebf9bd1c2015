"""``contract``: a sum of products over labelled axes, as einsum of two operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyt.errors import DTypeError, ShapeError
from lazyt.ir.dtypes import bool_
from lazyt.ir.graph import Node, Type, make
from lazyt.ops import builders as build
from lazyt.ops.builders import ContractParams
from lazyt.ops.registry import define_op


def _infer(params: ContractParams, left: Node, right: Node) -> Type:
    if left.dtype is not right.dtype:
        raise DTypeError(f"contract: {left.dtype.name} with {right.dtype.name}")
    if left.dtype is bool_:
        raise DTypeError("contract does not take bool")
    extents: dict[int, int] = {}
    for labels, node in ((params.left, left), (params.right, right)):
        if len(set(labels)) != len(labels) or len(labels) != len(node.shape):
            raise ShapeError(f"contract: labels {labels} do not fit {list(node.shape)}")
        for label, extent in zip(labels, node.shape):
            if extents.setdefault(label, extent) != extent:
                raise ShapeError(
                    f"contract: {list(left.shape)} by {params.left} with {list(right.shape)} by "
                    f"{params.right}: axis {label} has extents {extents[label]} and {extent}"
                )
    alone = set(params.left) ^ set(params.right)
    known = len(set(params.out)) == len(params.out) and extents.keys() >= set(params.out)
    if not known or not alone <= set(params.out):
        raise ShapeError(f"contract: {params} leaves an axis without meaning")
    return Type(tuple(extents[label] for label in params.out), left.dtype)


def _evaluate(node: Node, left: Any, right: Any) -> Any:
    numbers: dict[int, int] = {}
    for label in (*node.params.left, *node.params.right):
        numbers.setdefault(label, len(numbers))
    labels = [[numbers[label] for label in axes] for axes in node.params]
    result = np.einsum(left, labels[0], right, labels[1], labels[2], optimize=True)
    return np.asarray(result, left.dtype)


def _vjp(node: Node, cotangent: Node) -> list[Node | None]:
    left, right = node.inputs
    a, b, out = node.params
    return [build.contract(cotangent, right, out, b, a), build.contract(left, cotangent, a, out, b)]


def _jvp(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    (left, right), (a, b) = node.inputs, tangents
    first = None if a is None else make(CONTRACT, (a, right), node.params)
    second = None if b is None else make(CONTRACT, (left, b), node.params)
    if first is None or second is None:
        return second if first is None else first
    return build.apply("add", first, second)


def _batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    a, b, out = node.params
    label = max((*a, *b), default=-1) + 1
    left, right = inputs
    return build.contract(
        left,
        right,
        (label, *a) if batched[0] else a,
        (label, *b) if batched[1] else b,
        (label, *out),
    )


CONTRACT = define_op(
    "contract",
    params=ContractParams,
    infer=_infer,
    evaluate=_evaluate,
    vjp=_vjp,
    jvp=_jvp,
    batch=_batch,
    lower="contract",
)
