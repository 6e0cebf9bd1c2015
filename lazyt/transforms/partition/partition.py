"""Makes of a graph over whole values the one that a rank computes: ops over its parts, and
collectives where an op needs another division of an operand than there is.

Each op is decided by itself, and for each axis of the grid of ranks: among the ways in which its
factors (``factors.py``) can be divided, the one for which the least has to be moved. What has no
way (a sort along a divided axis, a loop) is computed as a whole on all ranks. So the division of a
value depends on how it was made and on nothing else, and all ranks make the same collectives in the
same order.

What is equal on all ranks because it is made from constants and random keys alone needs no parts
and costs nothing to divide: of random bits, a rank computes those of the elements that it has.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from math import prod
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakSet

from lazyt.errors import InternalError
from lazyt.ir.dtypes import int64
from lazyt.ir.graph import Node, Shape, make, rebuild, remake, topological
from lazyt.ops import builders as build
from lazyt.ops.parallel.collectives import Ranks
from lazyt.ops.parallel.distribution import DISTRIBUTE, LOCALIZE
from lazyt.ops.parallel.layouts import (
    REPLICATE,
    Layout,
    Part,
    Parts,
    moved,
    partial,
    shard,
)
from lazyt.transforms.partition.factors import PARTIAL, Factor, Rule, resized, rule_of

__all__ = [
    "Placed", "begin_backward", "divided", "gathered", "is_border", "is_whole", "listing",
    "part_of", "part_taken", "partition", "partition_call", "take_part", "take_parts",
]  # fmt: skip


class Placed(NamedTuple):
    """A value on a rank.

    Attributes:
        node: this rank's part.
        layout: how the value is divided.
        why: what had to be done for it, where that was to move operands or to compute the whole.
    """

    node: Node
    layout: Layout
    why: str = ""


class _Turn:
    """What may be remembered at this point of the program.

    Equal nodes are one, and how long one lives that nobody needs differs from rank to rank. So what
    is found again must not decide whether a collective is made. What a call of the program made is
    found anew by the next equal call; what a backward made is remembered until the next one begins.

    Attributes:
        epoch: counts backwards.
        is_call: whether a call of the program is being partitioned.
        moves: values in other divisions than their own.
        walked: what has been looked at for parts since the last backward began.
    """

    epoch = 1
    is_call = False
    moves: dict[tuple[Node, Parts], Node]
    walked: WeakSet[Node]


_turn = _Turn()
_turn.moves, _turn.walked = {}, WeakSet()
#: What has been partitioned, None for what no rank has a part of, and in which backward; 0 for
#: calls of the program.
_known: WeakKeyDictionary[Node, tuple[Placed | None, int]] = WeakKeyDictionary()


#: The parts that the program has taken of whole values, by their ``localize``.
_taken: WeakKeyDictionary[Node, Node] = WeakKeyDictionary()


def take_part(node: Node) -> None:
    """Notes what a ``localize`` that the program makes stands for: its collectives are made now."""
    _taken[node] = part_of(node.inputs[0], node.params.layout)


def take_parts(root: Node) -> None:
    """Takes all parts that a gradient is made of: derivatives that are known from an equal graph
    are made without a call of ``localize``."""
    walked = _turn.walked
    for node in topological([root], lambda n: n.data is not None or n in walked or n in _taken):
        if node.op is LOCALIZE and node.data is None and node not in _taken:
            take_part(node)
        walked.add(node)


def part_taken(node: Node) -> Node:
    """What a ``localize`` stands for."""
    if node not in _taken:
        take_part(node)
    return _taken[node]


def localized(roots: Sequence[Node]) -> list[Node]:
    """Graphs without ``localize``: with the parts that it stands for in its place."""

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.op is LOCALIZE and node.data is None:
            return localized([part_taken(node)])[0]
        return node if node.data is not None else remake(node, inputs)

    def is_end(node: Node) -> bool:
        return node.data is not None or node.op is LOCALIZE

    if not any(n.op is LOCALIZE and n.data is None for n in topological(roots, is_end)):
        return [*roots]
    return rebuild(roots, change, is_end)


def begin_backward() -> None:
    """Forgets what the last backward made."""
    _turn.epoch += 1
    _turn.moves.clear()
    _turn.walked = WeakSet()


def partition(root: Node) -> Placed | None:
    """A value's part on this rank; None for one that is made from nothing that is divided."""
    if not _is_known(root):
        for node in topological([root], is_border):
            if not _is_known(node):
                _note(node)
    return _known[root][0]


def partition_call(roots: Sequence[Node], operands: Set[Node]) -> None:
    """Partitions what a call of the program has made from operands that are partitioned."""
    _turn.moves.clear()
    _turn.is_call = True
    try:
        ends = set(roots)
        for node in topological(roots, lambda n: n in operands or n.op in (DISTRIBUTE, LOCALIZE)):
            if node in operands:
                partition(node)
            elif node.op is not DISTRIBUTE or node in ends or not _is_known(node):
                _note(node)
    finally:
        _turn.is_call = False
        _turn.moves.clear()


def _note(node: Node) -> None:
    placed = _placed(node)
    anchored = _turn.is_call or placed is None
    _known[node] = placed, 0 if anchored else _turn.epoch


def _is_known(node: Node) -> bool:
    found = _known.get(node)
    return found is not None and found[1] in (0, _turn.epoch)


def is_border(node: Node) -> bool:
    """Whether a graph over whole values ends at a node: at parts of ranks, or what is known."""
    return node.op is DISTRIBUTE or node.op is LOCALIZE or _is_known(node)


def is_whole(node: Node, most: int = 256) -> bool:
    """Whether a node is a whole value that ranks have parts of, as far as ``most`` nodes tell."""
    seen: set[Node] = set()
    stack = [node]
    while stack and len(seen) < most:
        item = stack.pop()
        if item.op is DISTRIBUTE or _known.get(item, (None,))[0] is not None:
            return True
        if item not in seen and item.op is not LOCALIZE:
            seen.add(item)
            stack += item.inputs
    return False


def part_of(node: Node, layout: Layout) -> Node:
    """This rank's part of a value in a division that is given."""
    found = partition(node)
    if found is None:
        return moved(node, node.shape, layout.but([REPLICATE] * len(layout.parts)), layout.parts)
    if found.layout.parts == layout.parts:
        return found.node
    return divided(node, found, layout.parts)


def gathered(node: Node) -> Node:
    """The whole value, on this rank."""
    found = partition(node)
    if found is None:
        return node
    return divided(node, found, (REPLICATE,) * len(found.layout.parts))


def divided(node: Node, found: Placed, parts: Parts) -> Node:
    """A value in another division than the one it was found in; moved once, however often."""
    if found.layout.parts == parts:
        return found.node
    known = _turn.moves.get((node, parts))
    if known is None:
        known = moved(found.node, node.shape, found.layout, parts)
        _turn.moves[node, parts] = known
    return known


def _placed(node: Node) -> Placed | None:
    if node.op is LOCALIZE:
        return None
    if node.op is DISTRIBUTE:
        return Placed(_own(node.inputs[0]), node.params.layout)
    inputs = [_known[item][0] for item in node.inputs]
    present = [found for found in inputs if found is not None]
    if not present:
        return None
    ranks = present[0].layout.ranks
    if any(found.layout.ranks != ranks for found in present):
        raise InternalError("transforms.partition", "operands on different meshes")
    if node.op.is_identity:
        return None if inputs[0] is None else inputs[0]._replace(why="")
    return _Division(node, inputs, ranks).placed()


def _own(node: Node) -> Node:
    """A part, computed on this rank; one that is cut out of a whole value by its own partition."""
    return part_taken(node) if node.op is LOCALIZE else node


#: Memo: what operands of ops need and how results are divided.
_decisions: dict[Any, tuple[list[list[Part]], list[Part]]] = {}
_MOST_DECISIONS = 4096


class _Way(NamedTuple):
    """One way to divide an op along one axis of the grid: what each operand and the result are."""

    inputs: tuple[Part, ...]
    out: Part
    cost: float


class _Division:
    """The choice of how to divide one op.

    Attributes:
        needed: for each operand, what each axis of the grid does to it.
        out: the same of the result.
    """

    def __init__(
        self, node: Node, inputs: Sequence[Placed | None], ranks: tuple[Ranks, ...]
    ) -> None:
        self.node, self.inputs, self.ranks = node, inputs, ranks
        self.rule: Rule = rule_of(node)
        self.needed: list[list[Part]] = [[] for _ in inputs]
        self.out: list[Part] = []

    def placed(self) -> Placed:
        """The result's part. Makes the collectives for the operands."""
        self._decide()
        operands, moves = [], []
        for n, (item, found, parts) in enumerate(zip(self.node.inputs, self.inputs, self.needed)):
            wanted = tuple(parts)
            if found is None:
                whole = Layout(self.ranks, (REPLICATE,) * len(wanted))
                operands.append(moved(item, item.shape, whole, wanted))
            else:
                operands.append(divided(item, found, wanted))
                if found.layout.parts != wanted:
                    before = " ".join(map(str, found.layout.parts))
                    moves.append(f"operand {n} from {before} to {' '.join(map(str, wanted))}")
        layout = Layout(self.ranks, tuple(self.out))
        made = self._made(operands, layout.local_shape(self.node.shape))
        return Placed(made, layout, "; ".join(moves))

    # ------------------------------------------------------------------ the choice

    def _decide(self) -> None:
        """Chooses for one axis of the grid after the other; the same for equal types and parts."""
        node = self.node
        types = tuple([(item.shape, item.dtype) for item in node.inputs])
        parts = tuple([found and found.layout.parts for found in self.inputs])
        key = (node.op, node.params, types, parts, tuple([r.size for r in self.ranks]))
        known = _decisions.get(key)
        if known is not None:
            self.needed, self.out = known
            return
        for number in range(len(self.ranks)):
            way = min(self._ways(number), key=lambda item: item.cost)
            for row, part in zip(self.needed, way.inputs):
                row.append(part)
            self.out.append(way.out)
        if len(_decisions) >= _MOST_DECISIONS:
            _decisions.clear()
        _decisions[key] = self.needed, self.out

    def _ways(self, number: int) -> list[_Way]:
        """All ways for one axis of the grid, the whole op on all ranks among them."""
        whole = (REPLICATE,) * len(self.inputs)
        found = [self._way(number, whole, REPLICATE, 1e-4)]
        now = [self._part(n, number) for n in range(len(self.inputs))]
        for factor in self.rule.factors:
            parts = tuple(self._needs(a) for a in factor.inputs)
            if not any(p.is_shard and p == q for p, q in zip(parts, now)):
                continue
            if self._fits(factor, number):
                out = shard(factor.out) if factor.out >= 0 else partial(factor.reduction)
                found.append(self._way(number, parts, out))
        kinds = [p.reduction for p in now if p is not None and p.is_partial]
        for reduction in dict.fromkeys(kinds):  # in one order on all ranks
            for some in self.rule.linear if reduction in ("sum", "avg") else ():
                if any(now[n] == partial(reduction) for n in some):
                    parts = tuple(
                        partial(reduction) if n in some else REPLICATE for n in range(len(now))
                    )
                    found.append(self._way(number, parts, partial(reduction)))
            if self.rule.moves:
                parts = (partial(reduction),) * len(now)
                found.append(self._way(number, parts, partial(reduction)))
        picked = self._by_index(number, now)
        return [*found, picked] if picked is not None else found

    def _part(self, operand: int, number: int) -> Part | None:
        found = self.inputs[operand]
        return None if found is None else found.layout.parts[number]

    @staticmethod
    def _needs(axis: int | None) -> Part:
        if axis is None:
            return REPLICATE
        return partial() if axis == PARTIAL else shard(axis)

    def _way(self, number: int, parts: tuple[Part, ...], out: Part, extra: float = 0.0) -> _Way:
        size, cost = self.ranks[number].size, extra
        for n, part in enumerate(parts):
            now = self._part(n, number)
            if now is not None:
                cost += _cost(now, part, size) * self.node.inputs[n].nbytes
        return _Way(parts, out, cost)

    def _fits(self, factor: Factor, number: int) -> bool:
        """Whether parts of the loop are parts of all axes that it runs along."""
        ranks = [
            self.ranks[i].size
            for i, part in enumerate(self.out)
            if (factor.out >= 0 and part == shard(factor.out))
            or any(
                a is not None and a >= 0 and row[i] == shard(a)
                for a, row in zip(factor.inputs, self.needed)
            )
        ]
        count = prod(ranks) * self.ranks[number].size
        even = all(extent % count == 0 for extent in factor.extents)
        if factor.out < 0:
            return even or factor.reduction not in ("max", "min")
        return even or len(set(factor.extents)) == 1

    def _by_index(self, number: int, now: Sequence[Part | None]) -> _Way | None:
        """A read by index along a divided axis: each rank reads what it has, zeros elsewhere."""
        if self.node.op.name != "gather":
            return None
        axis = self.node.params.axis
        if now[0] != shard(axis) or self.node.dtype.kind == "b":
            return None
        return self._way(number, (shard(axis), REPLICATE), partial())

    # ------------------------------------------------------------------ the result

    def _made(self, operands: Sequence[Node], local: Shape) -> Node:
        node = self.node
        if node.op.name == "gather" and shard(node.params.axis) in self.needed[0]:
            return self._picked(operands, local)
        params = node.params
        if tuple(item.shape for item in operands) != tuple(item.shape for item in node.inputs):
            params = resized(params, node.shape, local)
        made = make(node.op, tuple(operands), params)
        if made.shape != local:
            raise InternalError(
                "transforms.partition",
                f"{node.op.name} has a part of {list(made.shape)} instead of {list(local)}",
            )
        if node.source is not None and made.source is None:
            made.source = node.source
        return made

    def _picked(self, operands: Sequence[Node], local: Shape) -> Node:
        source, index = operands
        axis, batch = self.node.params
        layout = Layout(self.ranks, tuple(self.needed[0]))
        whole = self.node.inputs[0].shape
        start, size = layout.offsets(whole)[axis], source.shape[axis]
        zero = build.constant(0, source.dtype)
        if not size:
            return build.broadcast_to(zero, local)
        limit = build.constant(whole[axis] - 1, int64)
        at = build.apply("minimum", build.cast(index, int64), limit)
        at = build.apply("maximum", at, build.constant(0, int64))
        at = build.apply("sub", at, build.constant(start, int64))
        mine = build.apply(
            "logical_and",
            build.apply("ge", at, build.constant(0, int64)),
            build.apply("lt", at, build.constant(size, int64)),
        )
        found = build.gather(source, at, axis, batch)
        shape = [1] * len(local)
        many = len(index.shape) - batch
        shape[:batch] = index.shape[:batch]
        shape[axis : axis + many] = index.shape[batch:]
        return build.apply("where", build.reshape(mine, tuple(shape)), found, zero)


def _cost(now: Part, goal: Part, size: int) -> float:
    """What share of a value has to be moved."""
    if now == goal:
        return 0.0
    share = (size - 1) / size
    if now == REPLICATE:
        return 1e-6 if goal.is_shard else 2e-6
    if now.is_partial:
        return share if goal.is_shard else 2 * share if goal == REPLICATE else 3 * share
    if goal.is_shard:
        return share / size
    return share if goal == REPLICATE else 1.5 * share


def listing(root: Node) -> str:
    """The graph that a value is made by, one op a line, with the division of each value (``S0``:
    axis 0 is divided, ``R``: replicated, ``Psum``: to be summed; one for each axis of the grid)
    and what had to be moved.
    """
    partition(root)
    order = topological([root], lambda item: item.op is DISTRIBUTE or item.op is LOCALIZE)
    names: dict[Node, str] = {}
    lines = []
    for node in order:
        found = _known.get(node, (None,))[0]
        if found is None:
            continue
        names[node] = f"%{len(names)}"
        operands = [names.get(item, item.op.name) for item in node.inputs]
        parts = " ".join(map(str, found.layout.parts))
        text = f"{names[node]} = {node.op.name}({', '.join(operands)})"
        if node.op is DISTRIBUTE:
            text = f"{names[node]} = {node.op.name}"
        text += f" : {node.dtype.name}{list(node.shape)} [{parts}] part {list(found.node.shape)}"
        lines.append(text + (f"  # {found.why}" if found.why else ""))
    return "\n".join(lines)
