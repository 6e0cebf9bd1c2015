"""``contract``: a sum of products over labelled axes, as einsum of two operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lazyt import ops
from lazyt.errors import DTypeError, ShapeError
from lazyt.ir.dtypes import bool_, float32, float64
from lazyt.ir.graph import Node, Type, make
from lazyt.ops.registry import define_op

Labels = tuple[int, ...]


class ContractParams(NamedTuple):
    """Integer labels of each axis; those in both operands and not in ``out`` are summed."""

    left: Labels
    right: Labels
    out: Labels


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
    return [contract(cotangent, right, out, b, a), contract(left, cotangent, a, out, b)]


def _jvp(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    (left, right), (a, b) = node.inputs, tangents
    first = None if a is None else make(CONTRACT, (a, right), node.params)
    second = None if b is None else make(CONTRACT, (left, b), node.params)
    if first is None or second is None:
        return second if first is None else first
    return ops.apply("add", first, second)


def _batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    a, b, out = node.params
    label = max((*a, *b), default=-1) + 1
    left, right = inputs
    return contract(
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


def contract(
    left: Node,
    right: Node,
    left_labels: Sequence[int],
    right_labels: Sequence[int],
    out_labels: Sequence[int],
) -> Node:
    """The sum of products over the labels that both operands have and the result has not.

    Labels work as in einsum: distinct within an operand; those of one operand only must be in the
    result. Types must agree and are kept; 16-bit floats accumulate in float32 and round once.
    Raises ShapeError and DTypeError.
    """
    params = ContractParams(tuple(left_labels), tuple(right_labels), tuple(out_labels))
    return make(CONTRACT, (left, right), params)


def product(
    left: Node,
    right: Node,
    left_labels: Sequence[int],
    right_labels: Sequence[int],
    out_labels: Sequence[int],
    walked: int | None = None,
) -> Node:
    """``contract``, or a plain sum of products where one operand is a vector, or a batch of them.

    Where the vector meets another one, or the axis along which a matrix lies in memory, reading is
    the limit: the order of sums can be followed while rows are read, that of contractions cannot.
    The error grows with the logarithm of the extent. ``walked`` is the label of that axis; without
    it, memory is taken to be row-major. Which of the two it is must depend on the program alone:
    on shapes and strides, not on what is computed already. Arguments and errors are those of
    ``contract``.
    """
    a, b, out = tuple(left_labels), tuple(right_labels), tuple(out_labels)
    if left.dtype is right.dtype and left.dtype.kind == "f":
        first, second = _own_labels(left, a, b), _own_labels(right, b, a)
        if not (first and second):
            if walked is None:
                walked = _innermost(left, a) if first else _innermost(right, b)
            if walked in a and walked in b and walked not in out:
                return _sum_of_products(left, right, a, b, out)
    return contract(left, right, a, b, out)


def _own_labels(node: Node, labels: Labels, others: Labels) -> set[int]:
    """Axes of more than one element that the other operand lacks."""
    return {x for x, extent in zip(labels, node.shape) if extent != 1 and x not in others}


def _innermost(node: Node, labels: Labels) -> int | None:
    """The label of the last axis of more than one element."""
    wide = [x for x, extent in zip(labels, node.shape) if extent != 1]
    return wide[-1] if wide else None


def _sum_of_products(left: Node, right: Node, a: Labels, b: Labels, out: Labels) -> Node:
    """Multiplied and summed in at least float32, rounded once."""
    type_ = make(CONTRACT, (left, right), ContractParams(a, b, out))  # checks, and gives the shape
    wide = float64 if left.dtype is float64 else float32
    spent = [x for x in a if x in b and x not in out]
    order = (*out, *spent)
    factors = (_spread(ops.cast(x, wide), labels, order) for x, labels in ((left, a), (right, b)))
    axes = range(len(out), len(order))
    total = ops.reduce_("sum", ops.apply("mul", *factors), axes)
    return ops.cast(ops.reshape(total, type_.shape), left.dtype)


def _spread(node: Node, labels: Labels, order: Labels) -> Node:
    """The axes of ``node`` in the given order, with ones for those it lacks."""
    node = ops.permute(node, [labels.index(x) for x in order if x in labels])
    extents = iter(node.shape)
    return ops.reshape(node, [next(extents) if x in labels else 1 for x in order])
