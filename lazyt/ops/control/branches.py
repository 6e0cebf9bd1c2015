"""``branch``: one of two graphs, chosen by a truth value when it is there.

Both have the same operands and give results of the same types. The one that is chosen is computed
by its own plan, and the other one is not (``lazyt/plan/control``).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lazyt.errors import DTypeError, ShapeError
from lazyt.ir.dtypes import DType, bool_
from lazyt.ir.graph import Body, Node, Type, make
from lazyt.ops import builders as build
from lazyt.ops.control.bodies import (
    Part,
    batch_body,
    cotangent_of,
    flat,
    inputs_like,
    is_float,
    once,
    run_body,
    taken,
    transforms,
    zeros,
)
from lazyt.ops.registry import OPS, define_op


class BranchParams(NamedTuple):
    """Two bodies, and which of their results: those of ``dtype``.

    Attributes:
        then, other: the graphs for true and for false, over the same operands.
        dtype: of the results that the node has.
    """

    then: Body
    other: Body
    dtype: DType


@functools.lru_cache(1024)
def layout(params: BranchParams) -> tuple[tuple[Part | None, ...], int]:
    """Where each result is, None for those of other dtypes; and the elements of all."""
    found: list[Part | None] = []
    start = 0
    for root in params.then.roots:
        part = Part(start, root.shape) if root.dtype is params.dtype else None
        start += part.size if part is not None else 0
        found.append(part)
    return tuple(found), start


def _infer(params: BranchParams, *inputs: Node) -> Type:
    if not inputs or inputs[0].dtype is not bool_ or inputs[0].shape:
        raise ShapeError("branch: the first operand is one truth value")
    for body in (params.then, params.other):
        if len(body.leaves) != len(inputs) - 1:
            raise ShapeError(f"branch: {len(body.leaves)} operands, not {len(inputs) - 1}")
        for number, (node, leaf) in enumerate(zip(inputs[1:], body.leaves)):
            if node.shape != leaf.shape:
                raise ShapeError(
                    f"branch: operand {number} is {list(node.shape)}, not {list(leaf.shape)}"
                )
            if node.dtype is not leaf.dtype:
                raise DTypeError(
                    f"branch: operand {number} is {node.dtype.name}, not {leaf.dtype.name}"
                )
    if [root.type for root in params.then.roots] != [root.type for root in params.other.roots]:
        raise ShapeError("branch: the two graphs give results of different types")
    return Type((layout(params)[1],), params.dtype)


def _evaluate(node: Node, chosen: Any, *arrays: Any) -> Any:
    parts, size = layout(node.params)
    result = np.zeros(size, node.dtype.compute.numpy)
    found = run_body(node.params.then if chosen else node.params.other, arrays)
    for part, value in zip(parts, found):
        if part is not None:
            result[part.start : part.start + part.size] = value.reshape(-1)
    return result


def branch(chosen: Node, true: Body, false: Body, operands: Sequence[Node]) -> list[Node]:
    """The results of ``true`` where ``chosen`` is true, else of ``false``, on the same operands.

    Raises ShapeError and DTypeError for what does not fit.
    """
    inputs = (chosen, *operands)
    nodes: dict[DType, Node] = {}
    found = []
    for number, root in enumerate(true.roots):
        params = BranchParams(true, false, root.dtype)
        if root.dtype not in nodes:
            nodes[root.dtype] = make(OPS["branch"], inputs, params)
        part = layout(params)[0][number]
        assert part is not None
        found.append(taken(nodes[root.dtype], part))
    return found


def _vjp(node: Node, cotangent: Node) -> list[Node | None]:
    params: BranchParams = node.params
    parts, _ = layout(params)
    given = [None if part is None else cotangent_of(cotangent, part) for part in parts]
    operands = node.inputs[1:]
    wanted = tuple([
        number for number, item in enumerate(operands)
        if is_float(item) and (not node.needs_grad or item.needs_grad)
    ])  # fmt: skip
    key = "vjp", wanted, tuple([item is not None for item in given])
    then, other = (
        once(b, key, functools.partial(_pulled, b, wanted, given)) for b in _both(params)
    )
    result: list[Node | None] = [None] * len(node.inputs)
    if wanted:
        arriving = [item for item in given if item is not None]
        pulled = branch(node.inputs[0], then, other, [*operands, *arriving])
        for number, part in zip(wanted, pulled):
            result[number + 1] = part
    return result


def _both(params: BranchParams) -> tuple[Body, Body]:
    return params.then, params.other


def _pulled(body: Body, wanted: Sequence[int], given: Sequence[Node | None]) -> Body:
    own = inputs_like(body.leaves)
    arriving = [None if g is None else inputs_like([r])[0] for g, r in zip(given, body.roots)]
    wrt = [own[number] for number in wanted]
    found = transforms.vjp(body.over(own), arriving, wrt)
    ends = [zeros(leaf) if part is None else part for leaf, part in zip(wrt, found)]
    return Body.of([*own, *[item for item in arriving if item is not None]], ends)


def _jvp(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    params: BranchParams = node.params
    moving = tuple([number for number, item in enumerate(tangents[1:]) if item is not None])
    if not moving:
        return None
    key = "jvp", moving
    then, other = (once(b, key, functools.partial(_pushed, b, moving)) for b in _both(params))
    moves = [item for item in tangents[1:] if item is not None]
    found = branch(node.inputs[0], then, other, [*node.inputs[1:], *moves])
    chosen = zip(params.then.roots, found)
    return build.concat([flat(part) for root, part in chosen if root.dtype is params.dtype], 0)


def _pushed(body: Body, moving: Sequence[int]) -> Body:
    own = inputs_like(body.leaves)
    along = [own[number] for number in moving]
    tangents = inputs_like(along)
    roots = body.over(own)
    found = transforms.jvp(roots, along, tangents)
    ends = [zeros(root) if part is None else part for root, part in zip(roots, found)]
    return Body.of([*own, *tangents], ends)


def _batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    params: BranchParams = node.params
    size = next(item.shape[0] for item, flag in zip(inputs, batched) if flag)
    key = "batch", size, tuple(batched[1:])
    then, other = (
        once(b, key, functools.partial(batch_body, b, batched[1:], size)) for b in _both(params)
    )
    operands = inputs[1:]
    if not batched[0]:
        results = branch(inputs[0], then, other, operands)
    else:  # each example takes its own way: both are computed
        results = []
        pairs = zip(then.over(operands), other.over(operands))
        for a, b in pairs:
            chosen = build.reshape(inputs[0], (size, *(1,) * (len(a.shape) - 1)))
            results.append(build.apply("where", chosen, a, b))
    chosen_roots = zip(params.then.roots, results)
    rows = [
        build.reshape(item, (size, item.size // size))
        for root, item in chosen_roots
        if root.dtype is params.dtype
    ]
    return build.concat(rows, 1)


BRANCH = define_op(
    "branch",
    params=BranchParams,
    infer=_infer,
    evaluate=_evaluate,
    vjp=_vjp,
    jvp=_jvp,
    batch=_batch,
    lower="branch",
)
