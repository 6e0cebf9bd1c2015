"""``collective``: values move between the ranks of a group.

All ranks have the same op at the same place of their order. Only movement is an op; a sum over
ranks is an ordinary graph on what was gathered (here and in ``sums.py``), so that its order is
lazyt's, it is differentiated and fused like any other, and prints. The op cannot stand in a kernel:
a graph with collectives runs in steps (``lazyt/plan/control/collectives.py``), and what does not
depend on one is computed while it is under way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from weakref import WeakSet

from lazyt.errors import InternalError, ShapeError
from lazyt.ir.forms import PLACED, place_of
from lazyt.ir.graph import Node, Type, make
from lazyt.ops import builders as build
from lazyt.ops.leaves import put
from lazyt.ops.registry import define_op, linear_jvp


class CollectiveParams(NamedTuple):
    """One collective, as this rank sees it.

    Attributes:
        kind: ``all_gather`` (the operands of all ranks, one below the other), ``all_to_all`` (of
            the operand's rows ``sent[r]`` go to rank r, and ``received[r]`` come from it),
            ``broadcast`` (the operand of ``root``) or ``permute`` (for each of ``pairs`` from the
            first rank to the second; zeros where nothing arrives).
        group: the group's name.
        rank, size: this rank's number in it, and how many there are.
        number: which of the collectives of a graph it is. Ranks run them in this order, and two
            that are alike are two.
        lane: ranks start the collectives of a lane in one order, and those of different lanes in
            any: the second half of a sum does not hold up the first half of the next one.
        reduction: what ranks make of what they receive, where that has to be the same on all.
        written: what the program called, with dtype and shape, where that is not ``kind``.
        resharded: of an ``all_gather`` of parameters that are to be divided again after each use,
            the module's number, from 1 on; negative numbers for what is gathered again. Else 0.
    """

    kind: str
    group: str
    rank: int
    size: int
    number: int
    sent: tuple[int, ...] = ()
    received: tuple[int, ...] = ()
    root: int = 0
    pairs: tuple[tuple[int, int], ...] = ()
    lane: int = 0
    reduction: str = ""
    written: str = ""
    resharded: int = 0


#: What runs a collective alone, for the interpreter: ``(node, array) -> array``. The module that
#: runs them in plans registers it.
runners: list[Callable[[Node, Any], Any]] = []


def _infer(params: CollectiveParams, node: Node) -> Type:
    size = params.size
    if not 0 <= params.rank < size:
        raise InternalError("ops.parallel", f"rank {params.rank} of {size}")
    if params.kind in ("broadcast", "permute"):
        return Type(node.shape, node.dtype)
    if not node.shape:
        raise ShapeError(f"{params.kind}: a tensor without axes has no rows")
    if params.kind == "all_gather":
        return Type((node.shape[0] * size, *node.shape[1:]), node.dtype)
    if params.kind != "all_to_all":
        raise InternalError("ops.parallel", f"there is no collective {params.kind!r}")
    sent, received = params.sent, params.received
    if len(sent) != size or len(received) != size or min(*sent, *received) < 0:
        raise ShapeError(f"all_to_all: {size} ranks, with rows {list(sent)} and {list(received)}")
    if sum(sent) != node.shape[0]:
        raise ShapeError(f"all_to_all: {list(sent)} rows of {list(node.shape)}")
    return Type((sum(received), *node.shape[1:]), node.dtype)


def _evaluate(node: Node, array: Any) -> Any:
    if not runners:
        raise InternalError("ops.parallel", "nothing is there that runs collectives")
    return runners[0](node, array)


def _vjp(node: Node, cotangent: Node) -> list[Node | None]:
    params: CollectiveParams = node.params
    if node.form < PLACED:  # where a constant is not yet
        cotangent = put(cotangent, place_of(node.form))
    if params.kind == "all_gather":
        return [reduce_scatter(cotangent, like(params))]
    if params.kind == "all_to_all":
        return [all_to_all(cotangent, like(params), params.received, params.sent)]
    if params.kind == "permute":
        return [permute(cotangent, like(params), [(b, a) for a, b in params.pairs])]
    return [reduce(cotangent, like(params), params.root)]


def _batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    (x,) = inputs
    if not batched[0] or node.params.kind in ("broadcast", "permute"):
        return make(node.op, (x,), node.params)
    order = (1, 0, *range(2, len(x.shape)))
    made = make(node.op, (build.permute(x, order),), node.params)
    return build.permute(made, order)


COLLECTIVE = define_op(
    "collective",
    params=CollectiveParams,
    infer=_infer,
    evaluate=_evaluate,
    vjp=_vjp,
    jvp=linear_jvp,
    batch=_batch,
    lower="collective",
)


class Ranks(NamedTuple):
    """A group, as nodes refer to it: its name, this rank's number in it, and its size."""

    group: str
    rank: int
    size: int


def like(params: CollectiveParams) -> Ranks:
    """The group of another collective."""
    return Ranks(params.group, params.rank, params.size)


#: Called with every collective that a program makes, in order: ranks run them in this order, also
#: where nobody looks at the value.
on_made: list[Callable[[Node], None]] = []
#: All that are still there, and the number of the next one.
_known: WeakSet[Node] = WeakSet()
_next = [0]


def renumber() -> None:
    """All that were made have been started: the next one is the first of a new graph."""
    _next[0] = 0


class _Calling(threading.local):
    """What the program has called, while its collectives are made."""

    written = ""


_calling = _Calling()


@contextmanager
def written_as(name: str, node: Node) -> Iterator[None]:
    """Notes in the collectives that the block makes which function of a value the program has
    called: the outermost block counts."""
    before = _calling.written
    _calling.written = before or f"{name} {node.dtype.name}[{', '.join(map(str, node.shape))}]"
    try:
        yield
    finally:
        _calling.written = before


def _made(node: Node, ranks: Ranks, kind: str, **more: Any) -> Node:
    """A new collective. Equal nodes are one, and a collective that was run already is another: so
    it has the next number with which there is none."""
    more.setdefault("written", _calling.written)
    while True:
        params = CollectiveParams(kind, ranks.group, ranks.rank, ranks.size, _next[0], **more)
        made = make(COLLECTIVE, (node,), params)
        _next[0] += 1
        if made not in _known:
            break
    _known.add(made)
    for function in on_made:
        function(made)
    return made


def again(node: Node, params: CollectiveParams) -> Node:
    """Another collective like one that there was, of another operand."""
    kind, group, rank, size, _, *rest = params
    more = dict(zip(CollectiveParams._fields[5:], rest, strict=True))
    return _made(node, Ranks(group, rank, size), kind, **more)


def all_gather(
    node: Node, ranks: Ranks, lane: int = 0, reduction: str = "", resharded: int = 0
) -> Node:
    """The values of all ranks, one below the other: ``[n, ...]`` becomes ``[n * size, ...]``."""
    more = {"lane": lane, "reduction": reduction, "resharded": resharded}
    return _made(node, ranks, "all_gather", **more)


def all_to_all(
    node: Node, ranks: Ranks, sent: Sequence[int], received: Sequence[int], reduction: str = ""
) -> Node:
    """``sent[r]`` of the rows go to rank r, and ``received[r]`` come from it, in order."""
    counts = tuple(sent), tuple(received)
    return _made(node, ranks, "all_to_all", sent=counts[0], received=counts[1], reduction=reduction)


def broadcast(node: Node, ranks: Ranks, root: int) -> Node:
    """The value of rank ``root``."""
    return _made(node, ranks, "broadcast", root=root)


def permute(node: Node, ranks: Ranks, pairs: Sequence[tuple[int, int]]) -> Node:
    """For each pair, the value of the first rank on the second; zeros elsewhere."""
    return _made(node, ranks, "permute", pairs=tuple(pairs))


# Reductions of what was gathered, by one tree.

#: By how PyTorch calls a reduction, the scalar function of two values.
REDUCTIONS = {
    "sum": "add", "avg": "add", "product": "mul", "max": "maximum", "min": "minimum",
    "band": "bitwise_and", "bor": "bitwise_or", "bxor": "bitwise_xor",
}  # fmt: skip


def combine(values: Sequence[Node], function: str) -> Node:
    """All values by one tree: pairs of neighbours first, then pairs of these."""
    level = list(values)
    while len(level) > 1:
        pairs = [build.apply(function, a, b) for a, b in zip(level[::2], level[1::2])]
        level = pairs + level[len(level) // 2 * 2 :]
    return level[0]


def reduce_scatter(node: Node, ranks: Ranks, reduction: str = "sum") -> Node:
    """The reduction over ranks of this rank's part of the rows: ``[n * size, ...]`` becomes
    ``[n, ...]``. Raises ShapeError where the ranks do not divide the rows."""
    if not node.shape or node.shape[0] % ranks.size:
        raise ShapeError(f"reduce_scatter: {ranks.size} ranks do not divide {list(node.shape)}")
    rows = node.shape[0] // ranks.size
    if ranks.size == 1:
        return mean(node, 1, reduction)
    each = [rows] * ranks.size
    with written_as("reduce_scatter", node):
        moved = all_to_all(node, ranks, each, each, reduction)
    pieces = build.reshape(moved, (ranks.size, rows, *node.shape[1:]))
    values = [build.reshape(row(pieces, i), (rows, *node.shape[1:])) for i in range(ranks.size)]
    return mean(combine(values, REDUCTIONS[reduction]), ranks.size, reduction)


def rows_to(node: Node, ranks: Ranks, root: int, reduction: str = "") -> Node:
    """The values of all ranks as rows of one on rank ``root``, no rows on the others."""
    sent = [int(rank == root) for rank in range(ranks.size)]
    one = build.reshape(node, (1, *node.shape))
    return all_to_all(one, ranks, sent, [int(ranks.rank == root)] * ranks.size, reduction)


def gather_to(node: Node, ranks: Ranks, root: int, reduction: str) -> tuple[Node, Node | None]:
    """What moves the values of all ranks to ``root``, and there their reduction; else None."""
    with written_as("reduce", node):
        rows = rows_to(node, ranks, root, reduction)
    if ranks.rank != root:
        return rows, None
    values = [build.reshape(row(rows, i), node.shape) for i in range(ranks.size)]
    return rows, mean(combine(values, REDUCTIONS[reduction]), ranks.size, reduction)


def reduce(node: Node, ranks: Ranks, root: int, reduction: str = "sum") -> Node:
    """The reduction over ranks on rank ``root``; zeros on the others."""
    _, total = gather_to(node, ranks, root, reduction)
    if total is None:
        return build.broadcast_to(build.constant(0, node.dtype), node.shape)
    return total


def mean(total: Node, count: int, reduction: str) -> Node:
    """``total / count`` of an average."""
    if reduction != "avg" or count == 1:
        return total
    return build.apply("div", total, build.broadcast_to(
        build.constant(count, total.dtype), total.shape
    ))  # fmt: skip


def row(node: Node, number: int) -> Node:
    """One of the rows of a value."""
    starts = (number, *(0,) * (len(node.shape) - 1))
    found = build.slice_(node, starts, (1, *node.shape[1:]), (1,) * len(node.shape))
    return build.reshape(found, node.shape[1:])
