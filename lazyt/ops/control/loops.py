"""``loop``: a graph that runs as many times as there are slices, each time on what it gave last.

The operands are constants, which every step reads, the carries that the first step begins with, and
scanned values, of which every step reads one slice along the first axis. A step gives the next
carries, and the slices of further results. So a loop of any length has one graph, its body, which
is compiled once and launched once for each step (``lazyt/plan/control``). No kernel contains it.

Of a carry the value has the last state, or the whole history: what every step began with, and the
last state. Slices that are the next carry are that history, without the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyt.errors import DTypeError, ShapeError
from lazyt.ir.graph import Node, Type
from lazyt.ops.control.bodies import Part, run_body
from lazyt.ops.control.building import LoopParams, layout
from lazyt.ops.registry import define_op


def _infer(params: LoopParams, *inputs: Node) -> Type:
    body, constants, carries = params.body, params.constants, params.carries
    if len(inputs) != len(body.leaves):
        raise ShapeError(f"loop: {len(body.leaves)} operands, not {len(inputs)}")
    if len(params.history) != carries or constants + carries > len(inputs) or params.length < 1:
        raise ShapeError("loop: the numbers of operands, carries and steps do not fit")
    for number, (node, leaf) in enumerate(zip(inputs, body.leaves)):
        scanned = number >= constants + carries
        wanted = (params.length, *leaf.shape) if scanned else leaf.shape
        if node.shape != wanted:
            raise ShapeError(f"loop: operand {number} is {list(node.shape)}, not {list(wanted)}")
        if node.dtype is not leaf.dtype:
            raise DTypeError(f"loop: operand {number} is {node.dtype.name}, not {leaf.dtype.name}")
    for number, (leaf, root) in enumerate(zip(body.leaves[constants:], body.roots[:carries])):
        if leaf.type != root.type:
            raise ShapeError(
                f"loop: carry {number} begins as {leaf.dtype.name}{list(leaf.shape)} and goes on "
                f"as {root.dtype.name}{list(root.shape)}"
            )
    return Type((layout(params).size,), params.dtype)


def _evaluate(node: Node, *arrays: Any) -> Any:
    params: LoopParams = node.params
    first = params.constants + params.carries
    state, scanned = list(arrays[params.constants : first]), arrays[first:]
    found = layout(params)
    result = np.zeros(found.size, node.dtype.compute.numpy)

    def rows(part: Part) -> Any:
        return result[part.start : part.start + part.size].reshape(part.shape)

    def note(place: int) -> None:
        for number, part in enumerate(found.carries):
            if part is not None and params.history[number]:
                rows(part)[place] = state[number]

    steps = range(params.length)
    note(params.length if params.reverse else 0)
    for place in reversed(steps) if params.reverse else steps:
        slices = [item[place] for item in scanned]
        roots = run_body(params.body, [*arrays[: params.constants], *state, *slices])
        state = roots[: params.carries]
        note(place if params.reverse else place + 1)
        for part, value in zip(found.slices, roots[params.carries :]):
            if part is not None:
                rows(part)[place] = value
    for number in range(params.carries):
        last = found.last(number, params)
        if last is not None:
            rows(last)[...] = state[number]
    return result


# The derivatives are a module of their own, for programs that use them.


def _vjp(node: Node, cotangent: Node) -> Sequence[Node | None]:
    from lazyt.ops.control.derivatives import loop_vjp

    return loop_vjp(node, cotangent)


def _jvp(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    from lazyt.ops.control.derivatives import loop_jvp

    return loop_jvp(node, tangents)


def _batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    from lazyt.ops.control.derivatives import loop_batch

    return loop_batch(node, inputs, batched)


LOOP = define_op(
    "loop",
    params=LoopParams,
    infer=_infer,
    evaluate=_evaluate,
    vjp=_vjp,
    jvp=_jvp,
    batch=_batch,
    lower="loop",
)
