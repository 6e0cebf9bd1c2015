"""Four ranks in a square, emulated in one process: graphs of all of them, and their collectives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from lazyt.ir.graph import Node
from lazyt.ops.parallel import collectives
from lazyt.ops.parallel.collectives import Ranks
from lazyt.ops.parallel.distribution import distribute
from lazyt.ops.parallel.layouts import REPLICATE, Layout, Part, moved
from lazyt.runtime.interpreter import interpret
from lazyt.runtime.memory import Buffer
from lazyt.transforms.partition.partition import gathered

COUNT = 4
Parts = tuple[Part, ...]


def layout(rank: int, parts: Parts) -> Layout:
    """How one of the ranks of the square sees a division."""
    row, column = divmod(rank, 2)
    return Layout((Ranks(f"column{column}", row, 2), Ranks(f"row{row}", column, 2)), parts)


@contextmanager
def collected() -> Iterator[list[Node]]:
    """A block in which collectives are collected instead of started."""
    before = list(collectives.on_made)
    made: list[Node] = []
    collectives.on_made[:] = [made.append]
    try:
        yield made
    finally:
        collectives.on_made[:] = before


def distributed(node: Node, rank: int, parts: Parts) -> Node:
    """A value that all ranks have, as one of which each has its part."""
    whole = layout(rank, (REPLICATE, REPLICATE))
    part = moved(node, node.shape, whole, parts)
    return distribute(part, layout(rank, parts), node.shape)


def run(
    function: Callable[..., Sequence[Node]], operands: Sequence[tuple[Node, Parts]]
) -> list[list[Any]]:
    """What each rank finds as the whole values of results of a function of divided operands."""
    results, calls = [], []
    for rank in range(COUNT):
        with collected() as made:
            given = [distributed(node, rank, parts) for node, parts in operands]
            results.append([gathered(node) for node in function(*given)])
        calls.append(made)
    finish(calls)
    return [interpret(nodes) for nodes in results]


def finish(calls: Sequence[Sequence[Node]]) -> None:
    """Runs the collectives of all ranks. Fails where ranks do not make the same ones."""
    kinds = [[(call.params.kind, call.params.group[:3], call.dtype) for call in made]
             for made in calls]  # fmt: skip
    assert all(found == kinds[0] for found in kinds), kinds
    for step in zip(*calls):
        groups: dict[str, dict[int, Node]] = {}
        for call in step:
            groups.setdefault(call.params.group, {})[call.params.rank] = call
        for members in groups.values():
            _run([members[rank] for rank in range(len(members))])


def _run(calls: Sequence[Node]) -> None:
    values = [interpret([call.inputs[0]])[0] for call in calls]
    for rank, call in enumerate(calls):
        params = call.params
        assert params.rank == rank and params.size == len(calls)
        if params.kind == "all_gather":
            found = np.concatenate(values)
        elif params.kind == "broadcast":
            found = values[params.root]
        else:
            assert params.kind == "all_to_all"
            parts = []
            for other, value in zip(calls, values):
                start = sum(other.params.sent[:rank])
                parts.append(value[start : start + other.params.sent[rank]])
            found = np.concatenate(parts)
            assert [len(part) for part in parts] == list(params.received)
        call.data = Buffer(call.nbytes)
        if call.size:
            call.data.as_numpy(call.dtype, call.shape)[...] = found
