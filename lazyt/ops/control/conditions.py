"""``while``: a graph that runs on what it gave last, for as long as another graph says so.

How many steps there are is known when it has run. So it has no gradient: ``lazyt.func.while_loop``
counts the steps first where one is wanted, and makes a ``loop`` of as many.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lazyt.errors import DTypeError, ShapeError
from lazyt.ir.dtypes import DType, bool_, uint8
from lazyt.ir.graph import Body, Node, NoGradient, Type, make
from lazyt.ops import builders as build
from lazyt.ops.control.bodies import Part, batch_body, inputs_like, once, run_body, taken
from lazyt.ops.registry import OPS, define_op


class WhileParams(NamedTuple):
    """A loop with a condition, and which of its results.

    Attributes:
        test: from constants and carries to one truth value, whether there is another step.
        body: from the same to the next carries.
        constants: how many of the operands are the same in every step.
        dtype: of the results that the node has.
    """

    test: Body
    body: Body
    constants: int
    dtype: DType


@functools.lru_cache(1024)
def layout(params: WhileParams) -> tuple[tuple[Part | None, ...], int]:
    """Where each carry is, None for those of other dtypes; and the elements of all."""
    found: list[Part | None] = []
    start = 0
    for root in params.body.roots:
        part = Part(start, root.shape) if root.dtype is params.dtype else None
        start += part.size if part is not None else 0
        found.append(part)
    return tuple(found), start


def _infer(params: WhileParams, *inputs: Node) -> Type:
    for title, body in (("test", params.test), ("body", params.body)):
        if len(body.leaves) != len(inputs):
            raise ShapeError(
                f"while: {len(body.leaves)} operands of the {title}, not {len(inputs)}"
            )
        for number, (node, leaf) in enumerate(zip(inputs, body.leaves)):
            if node.shape != leaf.shape:
                raise ShapeError(
                    f"while: operand {number} is {list(node.shape)}, not {list(leaf.shape)}"
                )
            if node.dtype is not leaf.dtype:
                raise DTypeError(
                    f"while: operand {number} is {node.dtype.name}, not {leaf.dtype.name}"
                )
    if [root.type for root in params.test.roots] != [Type((), bool_)]:
        raise ShapeError("while: the test gives one truth value")
    after = [root.type for root in params.body.roots]
    if after != [leaf.type for leaf in params.body.leaves[params.constants :]]:
        raise ShapeError("while: the carries do not go on as they begin")
    return Type((layout(params)[1],), params.dtype)


def _evaluate(node: Node, *arrays: Any) -> Any:
    params: WhileParams = node.params
    fixed, state = list(arrays[: params.constants]), list(arrays[params.constants :])
    while run_body(params.test, [*fixed, *state])[0]:
        state = run_body(params.body, [*fixed, *state])
    parts, size = layout(params)
    result = np.zeros(size, node.dtype.compute.numpy)
    for part, value in zip(parts, state):
        if part is not None:
            result[part.start : part.start + part.size] = value.reshape(-1)
    return result


def repeat(
    test: Body, body: Body, constants: Sequence[Node], carries: Sequence[Node]
) -> list[Node]:
    """The carries when ``test`` gives false, after steps of ``body``.

    Raises ShapeError and DTypeError for what does not fit.
    """
    inputs = (*constants, *carries)
    nodes: dict[DType, Node] = {}
    found = []
    for number, root in enumerate(body.roots):
        params = WhileParams(test, body, len(constants), root.dtype)
        if root.dtype not in nodes:
            nodes[root.dtype] = make(OPS["while"], inputs, params)
        part = layout(params)[0][number]
        assert part is not None
        found.append(taken(nodes[root.dtype], part))
    return found


def _batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    """Steps go on while any example has one, and leave those alone that have none."""
    params: WhileParams = node.params
    first = params.constants
    size = next(item.shape[0] for item, flag in zip(inputs, batched) if flag)
    flags = (*batched[:first], *(True for _ in batched[first:]))
    key = "batch", first, size, flags, params.test
    test, body = once(params.body, key, lambda: _batched(params, flags, size))
    carries = [
        item if flag else build.broadcast_to(item, (size, *item.shape))
        for item, flag in zip(inputs[first:], batched[first:])
    ]
    found = repeat(test, body, inputs[:first], carries)
    rows = [
        build.reshape(item, (size, item.size // size))
        for root, item in zip(params.body.roots, found)
        if root.dtype is params.dtype
    ]
    return build.concat(rows, 1)


def _batched(params: WhileParams, flags: Sequence[bool], size: int) -> tuple[Body, Body]:
    test, body = (batch_body(b, flags, size) for b in (params.test, params.body))
    leaves = inputs_like(test.leaves)
    (going,) = test.over(leaves)
    some = build.reduce_("max", build.cast(going, uint8), (0,))
    any_left = Body.of(leaves, [build.apply("ne", some, build.constant(0, uint8))])
    leaves = inputs_like(test.leaves)
    (going,) = test.over(leaves)
    after = []
    for old, new in zip(leaves[params.constants :], body.over(leaves)):
        chosen = build.reshape(going, (size, *(1,) * (len(new.shape) - 1)))
        after.append(build.apply("where", chosen, new, old))
    return any_left, Body.of(leaves, after)


_REASON = (
    "how many steps it has is known when it has run: lazyt.func.while_loop counts them first, "
    "where an operand requires a gradient"
)

WHILE = define_op(
    "while",
    params=WhileParams,
    infer=_infer,
    evaluate=_evaluate,
    vjp=NoGradient(_REASON),
    jvp=NoGradient(_REASON),
    batch=_batch,
    lower="while",
)
