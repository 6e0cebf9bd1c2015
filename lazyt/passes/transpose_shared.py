"""Values that many kernels would read across their memory are transposed once for all of them.

A step of a recurrent layer multiplies a few rows by a weight along the weight's rows. Register
tiles want neighbours in memory to be neighbours in the result, so each step would transpose the
weight while multiplying, or pad the few rows to a whole vector. Transposed once, every product
reads it in place: 10 rows of 256 numbers times 1024 by 256 take 95 us the one way and 52 the other,
and transposing as long as two or three of these products. The order of sums stays, so no bit
changes.

A sequence whose steps are columns (``x[:, :, t]``) is read a number from each line of memory, so
that every step reads all of it. Steps come first in what is transposed.

What is summed over pairs of rows, such as the distances of all pairs, reads of neighbours in the
result the same place of neighbouring rows. Of what is transposed these are neighbours in memory,
and are summed as columns: all pairs of 500 and 400 rows of 32 numbers take 290 us, not 2,500.

When it must run: on a graph in normal form. What it leaves alone: products of other shapes and few
steps, and pairs of long rows, which gain less than a copy takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from lazyt import ops
from lazyt.ir.decisions import decide
from lazyt.ir.graph import Node, rebuild, remake, topological

#: Products or columns that a value is transposed for, at least; elements of such a column.
FEWEST, LEAST_ELEMENTS = 8, 512
#: Rows of such a product: fewer are sums along the weight's rows as they lie, more pay for packing.
LEAST_ROWS, MOST_ROWS = 9, 48
#: Pairs of rows: how many elements all have together and how many rows there are, at least; how
#: long rows are, at most; how often each is read, at least.
LEAST_PAIRED, FEWEST_PAIRED, LONGEST_PAIRED, LEAST_READ = 1 << 14, 16, 256, 16


def transpose_shared(roots: Sequence[Node]) -> list[Node]:
    """The graph with such values transposed."""
    uses: Counter[Node] = Counter()
    pairs: set[Node] = set()
    for node in topological(roots):
        uses.update([node.inputs[side] for side in _along_rows(node)])
        if _is_column(node):
            uses[node.inputs[0]] += 1
        if _pairs_rows(node):
            pairs.add(node)
    if max(uses.values(), default=0) < FEWEST and not pairs:
        return list(roots)

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        if node in pairs:
            return _along_columns(node, inputs[0])
        if _is_column(node) and uses[node.inputs[0]] >= FEWEST:
            return _row(node, inputs[0])
        sides = [side for side in _along_rows(node) if uses[node.inputs[side]] >= FEWEST]
        if not sides:
            return remake(node, inputs)
        a, b, out = node.params
        left, right = inputs
        if sides[0] == 0:
            return ops.contract(ops.permute(left, (1, 0)), right, a[::-1], b, out)
        return ops.contract(left, ops.permute(right, (1, 0)), a, b[::-1], out)

    return rebuild(roots, change)


def _is_column(node: Node) -> bool:
    """Whether a slice takes one number of every row that lies along memory."""
    if node.op.name != "slice" or len(node.shape) < 2 or node.shape[-1] != 1:
        return False
    return node.inputs[0].shape[-1] >= FEWEST and node.size >= LEAST_ELEMENTS


def _row(node: Node, source: Node) -> Node:
    """The slice of a column as that of a row of what is transposed."""
    rank = len(node.shape)
    starts, sizes, steps = ((axis[-1], *axis[:-1]) for axis in node.params)
    transposed = ops.permute(source, _last_first(rank))
    return ops.permute(ops.slice_(transposed, starts, sizes, steps), (*range(1, rank), 0))


def _last_first(rank: int) -> tuple[int, ...]:
    return (rank - 1, *range(rank - 1))


def _pairs_rows(node: Node) -> bool:
    """Whether a reduction goes along rows, of which some are read again for many others."""
    if node.op.name != "reduce" or node.params.axes != (len(node.inputs[0].shape) - 1,):
        return False
    source = node.inputs[0]
    if source.op.name != "map" or len(source.shape) < 2:
        return False
    rows, length = source.shape[-2:]
    fits = rows >= FEWEST_PAIRED and 1 < length <= LONGEST_PAIRED and source.size >= LEAST_PAIRED
    if not decide("pairs of rows", fits):
        return False
    whole = [x for x in _operands(source) if x.shape[-2:] == source.shape[-2:]]
    return bool(whole) and all(x.size * LEAST_READ <= source.size for x in whole)


def _operands(node: Node) -> list[Node]:
    """What is computed on, seen through maps."""
    found: dict[Node, None] = {}
    work = [node]
    while work:
        for item in work.pop().inputs:
            if item.op.name == "map":
                work.append(item)
            else:
                found[item] = None
    return [*found]


def _along_columns(node: Node, source: Node) -> Node:
    """The reduction with what it reduces transposed: its order depends on the extent alone."""
    known: dict[Node, Node] = {}
    for item in topological([source], lambda x: x.op.name != "map"):
        if item.op.name == "map":
            known[item] = remake(item, tuple(known[x] for x in item.inputs))
        else:
            known[item] = _exchanged(item)
    return ops.reduce_(node.params.kind, known[source], (len(source.shape) - 2,))


def _exchanged(node: Node) -> Node:
    """The value with its last two axes exchanged, where it has them."""
    rank = len(node.shape)
    if rank < 2:
        return ops.reshape(node, (*node.shape, 1)) if rank else node
    axes = _last_two(rank)
    if node.op.name == "reshape" and node.inputs[0].shape[-2:] == node.shape[-2:]:
        return ops.reshape(_exchanged(node.inputs[0]), tuple(node.shape[a] for a in axes))
    if node.op.name == "permute" and node.params.axes == axes:
        return node.inputs[0]
    return ops.permute(node, axes)


def _last_two(rank: int) -> tuple[int, ...]:
    return (*range(rank - 2), rank - 1, rank - 2)


def is_transposed(node: Node, users: Mapping[Node, Sequence[Node]]) -> bool:
    """Whether a node is a value that was transposed for those that use it."""
    if node.op.name != "permute":
        return False
    return _is_paired(node, users) or _is_shared(node, users[node])


def _is_paired(node: Node, users: Mapping[Node, Sequence[Node]]) -> bool:
    """Whether its rows are columns of pairs that are reduced along them."""
    rank = len(node.shape)
    if rank < 2 or node.params.axes != _last_two(rank) or node.shape[-1] < FEWEST_PAIRED:
        return False
    work = [*users[node]]
    while work:
        user = work.pop()
        if user.op.name == "reduce" and user.params.axes == (len(user.inputs[0].shape) - 2,):
            continue
        same = user.op.name == "reshape" and user.shape[-2:] == node.shape[-2:]
        if not same and (user.op.name != "map" or user.size < LEAST_READ * node.size):
            return False
        work.extend(users[user])
    return bool(users[node])


def _is_shared(node: Node, users: Sequence[Node]) -> bool:
    if len(users) < FEWEST:
        return False
    rank = len(node.shape)
    if node.params.axes != _last_first(rank):
        return False
    rows = sum(u.op.name == "slice" and u.shape[0] == 1 for u in users)
    sides = [(user, side) for user in users if (side := _side(user, node)) is not None]
    products = len(sides) if all(_few_rows(*pair) for pair in sides) else 0
    return rows >= FEWEST or (rank == 2 and products >= FEWEST)


def _side(node: Node, matrix: Node) -> int | None:
    """Which operand of a contraction the matrix is, where its columns are columns of the result."""
    if node.op.name == "contract" and node.inputs[0] is not node.inputs[1]:
        for side, labels in enumerate((node.params.left, node.params.right)):
            if node.inputs[side] is matrix and labels[-1] in node.params.out:
                return side
    return None


def _along_rows(node: Node) -> list[int]:
    """Which operands of a product of few rows are matrices whose rows are summed along."""
    if node.op.name != "contract" or node.dtype.kind != "f" or node.inputs[0] is node.inputs[1]:
        return []
    return [
        side
        for side, labels in enumerate((node.params.left, node.params.right))
        if len(labels) == 2 and labels[1] not in node.params.out and _few_rows(node, side)
    ]


def _few_rows(node: Node, side: int) -> bool:
    """Whether the other operand has few rows, and none of its axes is a batch's."""
    labels = (node.params.left, node.params.right)
    if set(labels[side]) & set(labels[1 - side]) & set(node.params.out):
        return False
    matrix = node.inputs[side]
    kept = [n for label, n in zip(labels[side], matrix.shape) if label in node.params.out]
    rows = node.size // max(kept[0], 1) if len(kept) == 1 else 0
    return LEAST_ROWS <= rows <= MOST_ROWS
