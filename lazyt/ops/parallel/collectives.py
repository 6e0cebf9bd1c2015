"""``collective``: values move between the ranks of a group.

All ranks have the same op at the same place of their order. Only movement is an op; a sum over
ranks is an ordinary graph on what was gathered (``sums.py``), so that its order is lazyt's, it is
differentiated and fused like any other, and prints. The op cannot stand in a kernel: a graph with
collectives runs in steps (``lazyt/plan/collectives.py``), and what does not depend on one is
computed while it is under way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from weakref import WeakSet

from lazyt.errors import InternalError, ShapeError
from lazyt.ir.graph import Node, Type, make
from lazyt.ops import builders as build
from lazyt.ops.parallel import sums
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
    if params.kind == "all_gather":
        return [sums.reduce_scatter(cotangent, like(params))]
    if params.kind == "all_to_all":
        return [all_to_all(cotangent, like(params), params.received, params.sent)]
    if params.kind == "permute":
        return [permute(cotangent, like(params), [(b, a) for a, b in params.pairs])]
    return [sums.reduce(cotangent, like(params), params.root)]


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


def _made(node: Node, ranks: Ranks, kind: str, **more: Any) -> Node:
    """A new collective. Equal nodes are one, and a collective that was run already is another: so
    it has the next number with which there is none."""
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


def all_gather(node: Node, ranks: Ranks) -> Node:
    """The values of all ranks, one below the other: ``[n, ...]`` becomes ``[n * size, ...]``."""
    return _made(node, ranks, "all_gather")


def all_to_all(node: Node, ranks: Ranks, sent: Sequence[int], received: Sequence[int]) -> Node:
    """``sent[r]`` of the rows go to rank r, and ``received[r]`` come from it, in order."""
    return _made(node, ranks, "all_to_all", sent=tuple(sent), received=tuple(received))


def broadcast(node: Node, ranks: Ranks, root: int) -> Node:
    """The value of rank ``root``."""
    return _made(node, ranks, "broadcast", root=root)


def permute(node: Node, ranks: Ranks, pairs: Sequence[tuple[int, int]]) -> Node:
    """For each pair, the value of the first rank on the second; zeros elsewhere."""
    return _made(node, ranks, "permute", pairs=tuple(pairs))
