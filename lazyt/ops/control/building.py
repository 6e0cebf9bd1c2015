"""Loops are built: their parameters, where their results are, and the functions that make nodes.

These stand below the op's rules, which build loops of their own.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

from lazyt.ir.dtypes import DType
from lazyt.ir.graph import Body, Node, make
from lazyt.ops.control.bodies import Part, taken
from lazyt.ops.registry import OPS


class LoopParams(NamedTuple):
    """A loop, and which of its results.

    Attributes:
        body: a step, from constants, carries and slices to the next carries, and slices.
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
    """The body without constants and slices that nothing reads, and which leaves are left."""
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
            nodes[dtype] = make(OPS["loop"], inputs, own)
        return nodes[dtype], own

    carries: list[Node] = []
    slices: list[Node] = []
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
        found.append(taken(make(OPS["loop"], inputs, own), part))
    return found
