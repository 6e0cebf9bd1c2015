"""``loop``: a graph that runs as many times as there are slices, each time on what it gave last.

The operands are constants, which every step reads, the carries that the first step begins with, and
scanned values, of which every step reads one slice along the first axis. A step gives the next
carries, and the slices of further results. So a loop of any length has one graph, its body, which
is compiled once and launched once for each step (``lazyt/plan/control``). No kernel contains it.

Of a carry the value has the last state, or the whole history: what every step began with, and the
last state. Slices that are the next carry are that history, without the first.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lazyt.errors import DTypeError, ShapeError
from lazyt.ir.dtypes import DType
from lazyt.ir.graph import Body, Node, Type, make
from lazyt.ops.control.bodies import Part, rule, run_body, taken
from lazyt.ops.registry import define_op


class LoopParams(NamedTuple):
    """A loop, and which of its results.

    Attributes:
        body: a step: leaves are constants, carries and slices; results the next carries, and slices.
        constants, carries: how many of them there are.
        length: how many steps there are.
        reverse: whether the first step reads the last slices.
        history: for each carry, whether its whole history is a result.
        dtype: of the results that the node has.
    """

    body: Body
    constants: int
    carries: int
    length: int
    reverse: bool
    history: tuple[int, ...]
    dtype: DType


class Layout(NamedTuple):
    """Where the results of one dtype are.

    Attributes:
        carries: for each carry, its history or last state; None for another dtype.
        slices: for each further result, its slices; None for another dtype.
        shared: for each further result, the carry whose history it is part of, or -1.
        size: elements of all.
    """

    carries: tuple[Part | None, ...]
    slices: tuple[Part | None, ...]
    shared: tuple[int, ...]
    size: int

    def last(self, number: int, params: LoopParams) -> Part | None:
        """The last state of a carry."""
        whole = self.carries[number]
        if whole is None or not params.history[number]:
            return whole
        step = whole.size // (params.length + 1)
        start = 0 if params.reverse else params.length * step
        return Part(whole.start + start, whole.shape[1:])

    def before(self, number: int, params: LoopParams) -> Part | None:
        """What every step began with, of a carry with its history; as the slices are ordered."""
        whole = self.carries[number]
        if whole is None or not params.history[number]:
            return None
        step = whole.size // (params.length + 1)
        start = step if params.reverse else 0
        return Part(whole.start + start, (params.length, *whole.shape[1:]))


@functools.lru_cache(1024)
def layout(params: LoopParams) -> Layout:
    """Where the results of a loop are."""
    nexts = params.body.roots[: params.carries]
    start, length = 0, params.length
    carries: list[Part | None] = []
    for root, whole in zip(nexts, params.history):
        part = None
        if root.dtype is params.dtype:
            part = Part(start, (length + 1, *root.shape) if whole else root.shape)
            start += part.size
        carries.append(part)
    slices: list[Part | None] = []
    shared: list[int] = []
    for root in params.body.roots[params.carries :]:
        same = [n for n, other in enumerate(nexts) if other is root and params.history[n]]
        shared.append(same[0] if same else -1)
        if root.dtype is not params.dtype:
            slices.append(None)
        elif same:
            part = carries[same[0]]
            assert part is not None
            first = 0 if params.reverse else root.size
            slices.append(Part(part.start + first, (length, *root.shape)))
        else:
            slices.append(Part(start, (length, *root.shape)))
            start += length * root.size
    return Layout(tuple(carries), tuple(slices), tuple(shared), start)


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
            raise DTypeError(
                f"loop: operand {number} is {node.dtype.name}, not {leaf.dtype.name}"
            )
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


LOOP = define_op(
    "loop",
    params=LoopParams,
    infer=_infer,
    evaluate=_evaluate,
    vjp=rule("loop", "vjp"),
    jvp=rule("loop", "jvp"),
    batch=rule("loop", "batch"),
    lower="loop",
)


class Results(NamedTuple):
    """What a loop gives: the last carries, and slices."""

    carries: list[Node]
    slices: list[Node]


def loop(
    body: Body,
    constants: Sequence[Node],
    carries: Sequence[Node],
    scanned: Sequence[Node],
    length: int,
    reverse: bool = False,
    history: bool = False,
) -> Results:
    """The results of a loop over ``body``, whose leaves are constants, carries and slices.

    ``history``: whether what every step began with is held in memory, for derivatives. Raises
    ShapeError and DTypeError for operands that do not fit.
    """
    body, used = _without_unread(body, len(constants), len(carries))
    constants = [node for node, flag in zip(constants, used) if flag]
    scanned = [n for n, flag in zip(scanned, used[len(used) - len(scanned) :]) if flag]
    nexts, slices = body.roots[: len(carries)], body.roots[len(carries) :]
    wholes = tuple([int(history or root in slices) for root in nexts])
    params = LoopParams(
        body, len(constants), len(carries), length, reverse, wholes, body.roots[0].dtype
    )
    return results_of((*constants, *carries, *scanned), params)


@functools.lru_cache(1024)
def _without_unread(body: Body, constants: int, carries: int) -> tuple[Body, list[bool]]:
    """The body without constants and slices that no result depends on, and which leaves are left."""
    read = set(body.nodes)
    first = constants + carries
    flags = [leaf in read or constants <= n < first for n, leaf in enumerate(body.leaves)]
    if all(flags):
        return body, flags
    leaves = [leaf for leaf, flag in zip(body.leaves, flags) if flag]
    return Body.of(leaves, body.roots), flags


def results_of(inputs: tuple[Node, ...], params: LoopParams) -> Results:
    """All results of a loop, of whatever dtype."""
    nodes: dict[DType, Node] = {}

    def node_of(dtype: DType) -> tuple[Node, LoopParams]:
        own = params._replace(dtype=dtype)
        if dtype not in nodes:
            nodes[dtype] = make(LOOP, inputs, own)
        return nodes[dtype], own

    carries, slices = [], []
    for number, root in enumerate(params.body.roots):
        node, own = node_of(root.dtype)
        found = layout(own)
        if number < params.carries:
            part = found.last(number, own)
        else:
            part = found.slices[number - params.carries]
        assert part is not None
        (carries if number < params.carries else slices).append(taken(node, part))
    return Results(carries, slices)


def histories_of(inputs: tuple[Node, ...], params: LoopParams) -> list[Node]:
    """What every step began with, of every carry; ``params.history`` is of all."""
    found = []
    for number, root in enumerate(params.body.roots[: params.carries]):
        own = params._replace(dtype=root.dtype)
        part = layout(own).before(number, own)
        assert part is not None
        found.append(taken(make(LOOP, inputs, own), part))
    return found
