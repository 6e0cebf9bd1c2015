"""Tensors of which each rank of a group has some rows: how they are divided, gathered, reduced.

Rows are those of axis 0, divided as ``chunk`` does: equal parts, of which the last ones may be
shorter or empty. Small tensors travel together, in one message; large ones by themselves, so that
nothing is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from lazyt import ops
from lazyt.handle.dispatch import unwrap, wrap
from lazyt.handle.tensor import Tensor
from lazyt.ir.forms import place_of
from lazyt.ir.graph import Node
from lazyt.ops.parallel import collectives as build
from lazyt.ops.parallel import sums
from lazyt.ops.parallel.collectives import Ranks

__all__ = ["Division", "division_of", "gather_rows", "own_rows", "scatter_rows", "whole_norms"]

#: Up to this many bytes on each rank tensors travel together.
_SMALL = 32 << 10


class Division(NamedTuple):
    """How the rows of a tensor are divided.

    Attributes:
        shape: of the whole tensor.
        ranks: the group, of which each rank has a part.
        owner: who gathers it for use; it takes part in ``Shares``.
    """

    shape: tuple[int, ...]
    ranks: Ranks
    owner: Any = None

    @property
    def chunk(self) -> int:
        """The rows of the first rank, which has the most."""
        return -(-self.shape[0] // self.ranks.size)

    @property
    def row(self) -> int:
        """The elements of a row."""
        return prod(self.shape[1:])

    def part(self, rank: int) -> tuple[int, int]:
        """First row and number of rows of a rank."""
        first = min(rank * self.chunk, self.shape[0])
        return first, min(self.chunk, self.shape[0] - first)

    @property
    def local_shape(self) -> tuple[int, ...]:
        """The shape of this rank's part."""
        return self.part(self.ranks.rank)[1], *self.shape[1:]


def division_of(tensor: Tensor) -> Division | None:
    """How a tensor is divided; None for one that is whole on this rank."""
    found: Division | None = tensor.__dict__.get("division")
    return found


def own_rows(whole: Node, division: Division) -> Node:
    """This rank's rows of a whole value."""
    first, count = division.part(division.ranks.rank)
    starts = (first, *(0,) * (len(whole.shape) - 1))
    return ops.slice_(whole, starts, (count, *whole.shape[1:]), (1,) * len(whole.shape))


def _filled(node: Node, rows: int) -> Node:
    """Zeros below the rows of a value, up to ``rows`` of them."""
    missing = rows - node.shape[0]
    if not missing:
        return node
    zero = ops.broadcast_to(ops.constant(0, node.dtype), (missing, *node.shape[1:]))
    return ops.concat([node, zero], 0)


def _cut(node: Node, rows: int) -> Node:
    """The first rows of a value."""
    if node.shape[0] == rows:
        return node
    shape = (rows, *node.shape[1:])
    return ops.slice_(node, (0,) * len(shape), shape, (1,) * len(shape))


def _messages(nodes: Sequence[Node], sizes: Sequence[int]) -> list[list[int]]:
    """Which values travel together, by the elements that each rank has of them: all small ones of
    a dtype."""
    found: list[list[int]] = []
    small: dict[Any, list[int]] = {}
    for number, (node, size) in enumerate(zip(nodes, sizes)):
        if size * node.dtype.itemsize > _SMALL:
            found.append([number])
            continue
        if node.dtype not in small:
            small[node.dtype] = []
            found.append(small[node.dtype])
        small[node.dtype].append(number)
    return found


def gather_rows(
    parts: Sequence[Node], divisions: Sequence[Division], resharded: int = 0
) -> list[Node]:
    """Whole values from each rank's rows.

    Args:
        resharded: as in ``CollectiveParams``.
    """
    found: list[Any] = [None] * len(parts)
    sizes = [d.chunk * d.row for d in divisions]
    for some in _messages(parts, sizes):
        ranks = divisions[some[0]].ranks
        if ranks.size == 1:
            for i in some:
                found[i] = parts[i]
            continue
        filled = [_filled(parts[i], divisions[i].chunk) for i in some]
        if len(some) == 1:
            (i,) = some
            found[i] = _cut(
                build.all_gather(filled[0], ranks, resharded=resharded), divisions[i].shape[0]
            )
            continue
        rows = [ops.reshape(node, (1, sizes[i])) for node, i in zip(filled, some)]
        whole = build.all_gather(ops.concat(rows, 1), ranks, resharded=resharded)
        for node, i in zip(_columns(whole, [sizes[i] for i in some]), some):
            division = divisions[i]
            shape = (division.chunk * ranks.size, *division.shape[1:])
            found[i] = _cut(ops.reshape(node, shape), division.shape[0])
    return found


def _columns(rows: Node, sizes: Sequence[int]) -> list[Node]:
    """Parts of the columns of a matrix, side by side."""
    found, start = [], 0
    for size in sizes:
        found.append(ops.slice_(rows, (0, start), (rows.shape[0], size), (1, 1)))
        start += size
    return found


def scatter_rows(
    wholes: Sequence[Sequence[Node]], divisions: Sequence[Division], shares: int, reduction: str
) -> list[Node]:
    """Each rank's rows of the reduction over ranks, or over shares that ranks divide.

    Args:
        wholes: for each tensor its whole values on this rank: one for each of the subtrees that
            this rank has (``sums.subtrees``).
        shares: leaves of the tree of the reduction; as many as ranks without ``Shares``.
    """
    found: list[Any] = [None] * len(wholes)
    sizes = [d.chunk * d.row for d in divisions]
    for some in _messages([values[0] for values in wholes], sizes):
        ranks = divisions[some[0]].ranks
        rows = []
        for subtree in range(len(wholes[some[0]])):
            parts = [
                ops.reshape(
                    _filled(wholes[i][subtree], divisions[i].chunk * ranks.size),
                    (ranks.size, sizes[i]),
                )
                for i in some
            ]
            row = parts[0] if len(parts) == 1 else ops.concat(parts, 1)
            rows.append(ops.reshape(row, (prod(row.shape),)))
        total = sums.scatter_shares(rows, ranks, shares, reduction)
        total = ops.reshape(total, (1, total.shape[0]))
        for node, i in zip(_columns(total, [sizes[i] for i in some]), some):
            division = divisions[i]
            part = ops.reshape(node, (division.chunk, *division.shape[1:]))
            found[i] = _cut(part, division.local_shape[0])
    return found


def whole_norms(parts: Sequence[Tensor], divisions: Sequence[Division], norm: Any) -> list[Tensor]:
    """The norms of tensors that are divided, on all ranks.

    Each rank gets some of the tensors as a whole, one at a time, and takes their norms: the same
    bits as for tensors that are not divided.

    Args:
        norm: gives the norm of a whole tensor, a single number.
    """
    found: list[Any] = [None] * len(parts)
    ordered = sorted(range(len(parts)), key=lambda i: (-prod(divisions[i].shape), i))
    by_kind: dict[Any, list[int]] = {}
    for i in ordered:
        by_kind.setdefault((divisions[i].ranks, parts[i].dtype), []).append(i)
    for (ranks, _), numbers in by_kind.items():
        for start in range(0, len(numbers), ranks.size):
            some = numbers[start : start + ranks.size]
            nodes = [unwrap(parts[i].detach()) for i in some]
            sent = [prod(node.shape) for node in nodes] + [0] * (ranks.size - len(some))
            row = [ops.reshape(node, (prod(node.shape),)) for node in nodes]
            mine = some[ranks.rank] if ranks.rank < len(some) else None
            received = [0] * ranks.size
            if mine is not None:
                division = divisions[mine]
                received = [division.part(r)[1] * division.row for r in range(ranks.size)]
            joined = row[0] if len(row) == 1 else ops.concat(row, 0)
            if ranks.size > 1:
                joined = build.all_to_all(joined, ranks, sent, received)
            if mine is not None:
                number = unwrap(norm(wrap(ops.reshape(joined, divisions[mine].shape))))
            else:
                number = ops.put(ops.constant(0.0, nodes[0].dtype), place_of(nodes[0].form))
            number = ops.reshape(number, (1,))
            numbers_of = build.all_gather(number, ranks) if ranks.size > 1 else number
            for place, i in enumerate(some):
                found[i] = wrap(build.row(numbers_of, place))
    return found
