"""Sums, products, largest and smallest values over ranks, in an order that lazyt owns.

Each value is a leaf of one binary tree, which depends on the number of leaves alone. With as many
leaves as ranks, a sum has the same bits whatever engine and network move it. With more (``shares``
of a batch that several ranks divide among them), it has the same bits for any number of ranks: a
rank adds up the whole subtrees that it has, and only those move.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from lazyt.errors import ShapeError
from lazyt.ir.graph import Node
from lazyt.ops import builders as build
from lazyt.ops.parallel.collectives import (
    REDUCTIONS,
    Ranks,
    all_gather,
    all_to_all,
    combine,
    mean,
    row,
    written_as,
)

#: Up to this size every rank gets all values and adds them up itself: one message instead of two.
SMALL = 16 << 10


def spans(first: int, count: int) -> list[tuple[int, int]]:
    """The largest subtrees of the tree of pairs that hold the leaves from ``first`` on, ``count``
    of them, and no others: first leaf and number of leaves of each."""
    found = []
    while count:
        size = first & -first or 1 << (count.bit_length() - 1)
        while size > count:
            size //= 2
        found.append((first, size))
        first, count = first + size, count - size
    return found


def divide(total: int, size: int) -> list[int]:
    """How many of ``total`` things each of ``size`` ranks has: the first ones one more."""
    return [total // size + (rank < total % size) for rank in range(size)]


def all_reduce(node: Node, ranks: Ranks, reduction: str = "sum") -> Node:
    """The reduction of the values of all ranks, on each of them."""
    with written_as("all_reduce", node):
        return reduce_shares([node], ranks, ranks.size, reduction)


def reduce_shares(
    values: Sequence[Node], ranks: Ranks, shares: int, reduction: str = "sum"
) -> Node:
    """The reduction of ``shares`` values, of which this rank has its part (``divide``), on all
    ranks: the same bits, however many there are.

    Raises ShapeError for another number of values, and for fewer shares than ranks.
    """
    partial = subtrees(values, ranks, shares, reduction)
    first, function = partial[0], REDUCTIONS[reduction]
    if ranks.size == 1:
        return mean(_finished(partial, spans(0, shares), function), shares, reduction)
    every = _held(ranks.size, shares)
    n, held = prod(first.shape), sum(map(len, every))
    flat = [build.reshape(item, (n,)) for item in partial]
    if held * n * first.dtype.itemsize <= SMALL:
        most = max(map(len, every))
        rows = build.reshape(build.concat(flat, 0) if len(flat) > 1 else flat[0], (len(flat), n))
        if len(flat) < most:
            rows = _padded(rows, most)
        gathered = all_gather(rows, ranks, reduction=reduction)
        starts = [r * most + i for r, part in enumerate(every) for i in range(len(part))]
        order = [span for part in every for span in part]
        total = _finished([row(gathered, i) for i in starts], order, function)
        return build.reshape(mean(total, shares, reduction), first.shape)
    chunk = -(-n // ranks.size)
    filled = [_filled(item, chunk * ranks.size) for item in flat]
    whole = all_gather(scatter_shares(filled, ranks, shares, reduction), ranks, lane=1)
    if chunk * ranks.size != n:
        whole = build.slice_(whole, (0,), (n,), (1,))
    return build.reshape(whole, first.shape)


def subtrees(
    values: Sequence[Node], ranks: Ranks, shares: int, reduction: str = "sum"
) -> list[Node]:
    """The reductions of the whole subtrees among this rank's values. Raises ShapeError for another
    number of values than this rank has shares, and for fewer shares than ranks."""
    counts = divide(shares, ranks.size)
    if shares < ranks.size or len(values) != counts[ranks.rank]:
        raise ShapeError(
            f"{len(values)} values on rank {ranks.rank} of {ranks.size}, which should have "
            f"{counts[ranks.rank]} of {shares}"
        )
    mine = sum(counts[: ranks.rank])
    return [
        combine(values[first - mine : first - mine + size], REDUCTIONS[reduction])
        for first, size in spans(mine, len(values))
    ]


def _held(size: int, shares: int) -> list[list[tuple[int, int]]]:
    """The subtrees that each of ``size`` ranks has."""
    counts = divide(shares, size)
    return [spans(sum(counts[:rank]), counts[rank]) for rank in range(size)]


def scatter_shares(
    partial: Sequence[Node], ranks: Ranks, shares: int, reduction: str = "sum"
) -> Node:
    """This rank's part of the reduction over shares: rows of ``size * n`` elements, one for each
    of this rank's ``subtrees``, become one of ``n``."""
    every, count = _held(ranks.size, shares), len(partial)
    chunk = partial[0].shape[0] // ranks.size
    if ranks.size == 1:
        return mean(_finished(list(partial), every[0], REDUCTIONS[reduction]), shares, reduction)
    # To each rank its columns of all of this rank's rows.
    parts = [build.reshape(item, (ranks.size, 1, chunk)) for item in partial]
    sent = parts[0] if count == 1 else build.concat(parts, 1)
    sent = build.reshape(sent, (ranks.size * count, chunk))
    received = [len(part) for part in every]
    pieces = all_to_all(sent, ranks, [count] * ranks.size, received, reduction)
    order = [span for part in every for span in part]
    values = [row(pieces, i) for i in range(len(order))]
    return mean(_finished(values, order, REDUCTIONS[reduction]), shares, reduction)


def _finished(partial: list[Node], found: list[tuple[int, int]], function: str) -> Node:
    """The root of the tree of pairs from subtrees that cover all of its leaves, in order."""
    level = {first: (size, node) for (first, size), node in zip(found, partial, strict=True)}
    width = 1
    while len(level) > 1:
        for first in sorted(level):
            if first % (2 * width) or first not in level or level[first][0] > width:
                continue
            other = level.get(first + width)
            if other is not None:
                node = build.apply(function, level[first][1], other[1])
                del level[first + width]
                level[first] = (2 * width, node)
        width *= 2
    return next(iter(level.values()))[1]


def _padded(rows: Node, count: int) -> Node:
    zero = build.broadcast_to(
        build.constant(0, rows.dtype), (count - rows.shape[0], *rows.shape[1:])
    )
    return build.concat([rows, zero], 0)


def _filled(flat: Node, length: int) -> Node:
    """Zeros behind the elements of a row, up to ``length``."""
    return flat if flat.shape[0] == length else _padded(flat, length)
