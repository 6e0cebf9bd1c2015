"""Sums, products, largest and smallest values over ranks, in an order that lazyt owns.

Each value is a leaf of one binary tree, which depends on the number of leaves alone. With as many
leaves as ranks, a sum has the same bits whatever engine and network move it. With more (``shares``
of a batch that several ranks divide among them), it has the same bits for any number of ranks: a
rank adds up the whole subtrees that it has, and only those move.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from lazyt.errors import ShapeError
from lazyt.ir.graph import Node
from lazyt.ops import builders as build

if TYPE_CHECKING:
    from lazyt.ops.parallel.collectives import Ranks

#: By how PyTorch calls a reduction, the scalar function of two values.
REDUCTIONS = {
    "sum": "add", "avg": "add", "product": "mul", "max": "maximum", "min": "minimum",
    "band": "bitwise_and", "bor": "bitwise_or", "bxor": "bitwise_xor",
}  # fmt: skip
#: Up to this size every rank gets all values and adds them up itself: one message instead of two.
SMALL = 16 << 10


def combine(values: Sequence[Node], function: str) -> Node:
    """All values by one tree: pairs of neighbours first, then pairs of these."""
    level = list(values)
    while len(level) > 1:
        pairs = [build.apply(function, a, b) for a, b in zip(level[::2], level[1::2])]
        level = pairs + level[len(level) // 2 * 2 :]
    return level[0]


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
    return reduce_shares([node], ranks, ranks.size, reduction)


def reduce_shares(
    values: Sequence[Node], ranks: Ranks, shares: int, reduction: str = "sum"
) -> Node:
    """The reduction of ``shares`` values, of which this rank has its part (``divide``), on all
    ranks: the same bits, however many there are.

    Raises ShapeError for another number of values, and for fewer shares than ranks.
    """
    counts = divide(shares, ranks.size)
    if shares < ranks.size or len(values) != counts[ranks.rank]:
        raise ShapeError(
            f"{len(values)} values on rank {ranks.rank} of {ranks.size}, which should have "
            f"{counts[ranks.rank]} of {shares}"
        )
    function = REDUCTIONS[reduction]
    mine = sum(counts[: ranks.rank])
    partial = [
        combine(values[first - mine : first - mine + size], function)
        for first, size in spans(mine, len(values))
    ]
    first = partial[0]
    if ranks.size == 1:
        return _mean(_finished(partial, spans(0, shares), function), shares, reduction)
    every = [spans(sum(counts[:r]), counts[r]) for r in range(ranks.size)]
    n, held = prod(first.shape), sum(map(len, every))
    flat = [build.reshape(item, (n,)) for item in partial]
    from lazyt.ops.parallel.collectives import all_gather, all_to_all

    order = [span for part in every for span in part]
    if held * n * first.dtype.itemsize <= SMALL:
        most = max(map(len, every))
        rows = build.reshape(build.concat(flat, 0) if len(flat) > 1 else flat[0], (len(flat), n))
        if len(flat) < most:
            rows = _padded(rows, most)
        gathered = all_gather(rows, ranks)
        starts = [r * most + i for r, part in enumerate(every) for i in range(len(part))]
        total = _finished([_row(gathered, i) for i in starts], order, function)
        return build.reshape(_mean(total, shares, reduction), first.shape)
    chunk = -(-n // ranks.size)
    # To each rank its columns of all of this rank's rows.
    parts = [build.reshape(_filled(f, chunk * ranks.size), (ranks.size, 1, chunk)) for f in flat]
    sent = parts[0] if len(parts) == 1 else build.concat(parts, 1)
    sent = build.reshape(sent, (ranks.size * len(flat), chunk))
    received = [len(part) for part in every]
    pieces = all_to_all(sent, ranks, [len(flat)] * ranks.size, received)
    total = _finished([_row(pieces, i) for i in range(held)], order, function)
    whole = all_gather(_mean(total, shares, reduction), ranks)
    if chunk * ranks.size != n:
        whole = build.slice_(whole, (0,), (n,), (1,))
    return build.reshape(whole, first.shape)


def reduce_scatter(node: Node, ranks: Ranks, reduction: str = "sum") -> Node:
    """The reduction over ranks of this rank's part of the rows: ``[n * size, ...]`` becomes
    ``[n, ...]``. Raises ShapeError where the ranks do not divide the rows."""
    if not node.shape or node.shape[0] % ranks.size:
        raise ShapeError(f"reduce_scatter: {ranks.size} ranks do not divide {list(node.shape)}")
    rows = node.shape[0] // ranks.size
    if ranks.size == 1:
        return _mean(node, 1, reduction)
    from lazyt.ops.parallel.collectives import all_to_all

    each = [rows] * ranks.size
    pieces = build.reshape(all_to_all(node, ranks, each, each), (ranks.size, rows, *node.shape[1:]))
    values = [build.reshape(_row(pieces, i), (rows, *node.shape[1:])) for i in range(ranks.size)]
    return _mean(combine(values, REDUCTIONS[reduction]), ranks.size, reduction)


def rows_to(node: Node, ranks: Ranks, root: int) -> Node:
    """The values of all ranks as rows of one on rank ``root``, no rows on the others."""
    from lazyt.ops.parallel.collectives import all_to_all

    sent = [int(rank == root) for rank in range(ranks.size)]
    row = build.reshape(node, (1, *node.shape))
    return all_to_all(row, ranks, sent, [int(ranks.rank == root)] * ranks.size)


def gather_to(node: Node, ranks: Ranks, root: int, reduction: str) -> tuple[Node, Node | None]:
    """What moves the values of all ranks to ``root``, and there their reduction; else None."""
    rows = rows_to(node, ranks, root)
    if ranks.rank != root:
        return rows, None
    values = [build.reshape(_row(rows, i), node.shape) for i in range(ranks.size)]
    return rows, _mean(combine(values, REDUCTIONS[reduction]), ranks.size, reduction)


def reduce(node: Node, ranks: Ranks, root: int, reduction: str = "sum") -> Node:
    """The reduction over ranks on rank ``root``; zeros on the others."""
    _, total = gather_to(node, ranks, root, reduction)
    if total is None:
        return build.broadcast_to(build.constant(0, node.dtype), node.shape)
    return total


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


def _mean(total: Node, count: int, reduction: str) -> Node:
    """``total / count`` of an average."""
    if reduction != "avg" or count == 1:
        return total
    return build.apply("div", total, build.broadcast_to(
        build.constant(count, total.dtype), total.shape
    ))  # fmt: skip


def _row(node: Node, number: int) -> Node:
    starts = (number, *(0,) * (len(node.shape) - 1))
    row = build.slice_(node, starts, (1, *node.shape[1:]), (1,) * len(node.shape))
    return build.reshape(row, node.shape[1:])


def _padded(rows: Node, count: int) -> Node:
    zero = build.broadcast_to(
        build.constant(0, rows.dtype), (count - rows.shape[0], *rows.shape[1:])
    )
    return build.concat([rows, zero], 0)


def _filled(flat: Node, length: int) -> Node:
    """Zeros behind the elements of a row, up to ``length``."""
    return flat if flat.shape[0] == length else _padded(flat, length)
