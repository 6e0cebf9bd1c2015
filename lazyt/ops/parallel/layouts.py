"""How a value is divided among ranks in a grid, and how one division becomes another.

Each axis of the grid either divides an axis of the value (``shard``), or its ranks have the same
value (``replicate``), or what they have is to be reduced (``partial``). Parts are those of
``chunk``: the first ones have as many elements as fit, later ones fewer or none. Two axes of the
grid may divide the same axis of the value, the second one the parts of the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from lazyt.errors import InternalError
from lazyt.ir.graph import Node, Shape
from lazyt.ops import builders as build
from lazyt.ops.parallel import collectives, sums
from lazyt.ops.parallel.collectives import Ranks

__all__ = [
    "REPLICATE", "Layout", "Part", "chunk", "full_shape", "moved", "partial", "reduced_zero",
    "shard",
]  # fmt: skip


class Part(NamedTuple):
    """What one axis of a grid of ranks does to a value.

    Attributes:
        kind: ``shard``, ``replicate`` or ``partial``.
        axis: which axis is divided; -1 where none is.
        reduction: by what partial values become one (``sum``, ``avg``, ``product``, ``max``, ...).
    """

    kind: str
    axis: int = -1
    reduction: str = ""

    @property
    def is_shard(self) -> bool:
        """Whether an axis is divided."""
        return self.kind == "shard"

    @property
    def is_partial(self) -> bool:
        """Whether values are to be reduced."""
        return self.kind == "partial"

    @staticmethod
    def parse(text: str) -> Part:
        """The part that a text stands for."""
        if text == "R":
            return REPLICATE
        return partial(text[1:]) if text[0] == "P" else shard(int(text[1:]))

    def __str__(self) -> str:
        return {"shard": f"S{self.axis}", "replicate": "R"}.get(self.kind, f"P{self.reduction}")


REPLICATE = Part("replicate")
Parts = tuple[Part, ...]


def shard(axis: int) -> Part:
    """An axis is divided."""
    return Part("shard", axis)


def partial(reduction: str = "sum") -> Part:
    """Values are to be reduced."""
    return Part("partial", -1, reduction)


class Layout(NamedTuple):
    """How a value is divided, as one rank sees it.

    Attributes:
        ranks: for each axis of the grid, the group of this rank's line along it.
        parts: what each of them does to the value.
    """

    ranks: tuple[Ranks, ...]
    parts: Parts

    def but(self, parts: Sequence[Part]) -> Layout:
        """The same ranks with another division."""
        return Layout(self.ranks, tuple(parts))

    def extents(self, shape: Shape, axis: int) -> list[int]:
        """How many elements of an axis this rank's lines share before each axis of the grid divides
        them, and at last this rank's own."""
        found = [shape[axis]]
        for ranks, part in zip(self.ranks, self.parts):
            divided = part == shard(axis)
            found.append(chunk(found[-1], ranks.size, ranks.rank)[1] if divided else found[-1])
        return found

    def local_shape(self, shape: Shape) -> Shape:
        """The shape of this rank's part of a value."""
        return tuple([self.extents(shape, axis)[-1] for axis in range(len(shape))])

    def offsets(self, shape: Shape) -> tuple[int, ...]:
        """Where this rank's part begins."""
        found = [0] * len(shape)
        extents = list(shape)
        for ranks, part in zip(self.ranks, self.parts):
            if part.is_shard:
                start, size = chunk(extents[part.axis], ranks.size, ranks.rank)
                found[part.axis] += start
                extents[part.axis] = size
        return tuple(found)

    def is_even(self, shape: Shape, axis: int, more: int = 1) -> bool:
        """Whether all ranks have equally many elements of an axis, also where ``more`` ranks divide
        what each has. All ranks answer alike, whatever they have."""
        sizes = [r.size for r, part in zip(self.ranks, self.parts) if part == shard(axis)]
        return shape[axis] % (prod(sizes) * more) == 0


def chunk(extent: int, count: int, number: int) -> tuple[int, int]:
    """Where the part of a number begins and its size, of ``count`` parts as PyTorch's ``chunk``."""
    size = -(-extent // count)
    start = min(number * size, extent)
    return start, min(size, extent - start)


def full_shape(layout: Layout, local: Shape) -> Shape:
    """The shape of a value whose parts are equal and have this shape."""
    found = list(local)
    for ranks, part in zip(layout.ranks, layout.parts):
        if part.is_shard:
            found[part.axis] *= ranks.size
    return tuple(found)


def moved(node: Node, shape: Shape, layout: Layout, parts: Sequence[Part]) -> Node:
    """This rank's part of a value of a shape in another division; ``node`` is that in ``layout``.

    All ranks have to call this alike: it makes collectives.
    """
    goal, now = tuple(parts), list(layout.parts)
    if len(goal) != len(now):
        raise InternalError("ops.parallel", f"{len(goal)} parts for {len(now)} axes of ranks")
    for i in reversed(range(len(goal))):
        if now[i] == goal[i] and not _moves_below(now, goal, i):
            continue
        step = _Step(layout.ranks, now, i, shape)
        part = goal[i]
        if part.is_shard and not _settled(now, goal, i, part.axis):
            part = REPLICATE  # divided below, once what divides this axis before is in its place
        node = step.to(node, part)
        now[i] = part if step.reached == part else REPLICATE
    for i, part in enumerate(goal):
        if now[i] != part:
            node = _Step(layout.ranks, now, i, shape).to(node, part)
            now[i] = part
    return node


def _moves_below(now: Sequence[Part], goal: Sequence[Part], i: int) -> bool:
    """Whether an axis of the grid before this one changes how the same axis is divided."""
    part = now[i]
    return part.is_shard and any(now[j] != goal[j] and part in (now[j], goal[j]) for j in range(i))


def _settled(now: Sequence[Part], goal: Sequence[Part], i: int, axis: int) -> bool:
    """Whether nothing else that divides an axis has to change before or behind this."""
    part = shard(axis)
    before = all(now[j] == goal[j] or part not in (now[j], goal[j]) for j in range(i))
    return before and all(now[j] != part for j in range(i + 1, len(now)))


class _Step:
    """The change of what one axis of the grid does.

    Attributes:
        reached: the part that ``to`` has come to.
    """

    def __init__(
        self, ranks: Sequence[Ranks], now: Sequence[Part], number: int, shape: Shape
    ) -> None:
        self.layout = Layout(tuple(ranks), tuple(now))
        self.ranks, self.part, self.number = ranks[number], now[number], number
        self.shape = shape
        self.reached = self.part

    def to(self, node: Node, goal: Part) -> Node:
        """This rank's value in another part."""
        part = self.part
        self.reached = goal
        if part == goal or (self.ranks.size == 1 and not goal.is_partial):
            return node
        if part.is_shard:
            if goal.is_shard and self._may_exchange(goal.axis):
                return self._exchanged(node, part.axis, goal.axis)
            node, part = self._gathered(node, part.axis), REPLICATE
        if part.is_partial:
            if goal.is_shard and self.layout.is_even(self.shape, goal.axis, self.ranks.size):
                return self._reduce_scattered(node, goal.axis, part.reduction)
            node = sums.all_reduce(node, self.ranks, part.reduction)
        if goal.is_shard:
            start, size = chunk(node.shape[goal.axis], self.ranks.size, self.ranks.rank)
            return _slice(node, goal.axis, start, size)
        if goal.is_partial and self.ranks.rank:
            return reduced_zero(node, goal.reduction)
        return node

    def _gathered(self, node: Node, axis: int) -> Node:
        extent = self.layout.extents(self.shape, axis)[self.number]
        size = self.ranks.size
        most = -(-extent // size)
        short = most - node.shape[axis]
        if short:
            low = (0,) * len(node.shape)
            high = tuple(short if a == axis else 0 for a in range(len(low)))
            node = build.pad(node, low, high, low, 0)
        rows = collectives.all_gather(_front(node, axis), self.ranks)
        return _slice(_back(rows, axis), axis, 0, extent)

    def _may_exchange(self, axis: int) -> bool:
        layout, old = self.layout, self.part.axis
        later = layout.parts[self.number + 1 :]
        return layout.is_even(self.shape, old) and not {shard(axis), shard(old)} & set(later)

    def _exchanged(self, node: Node, old: int, new: int) -> Node:
        size = self.ranks.size
        rows = _front(node, new)
        sent = [chunk(rows.shape[0], size, r)[1] for r in range(size)]
        mine = sent[self.ranks.rank]
        got = collectives.all_to_all(rows, self.ranks, sent, [mine] * size)
        got = build.reshape(got, (size, mine, *rows.shape[1:]))
        # [from, new, rest with the old axis in it] becomes [new, rest with the old one whole].
        at = old + 1 if old < new else old
        order = list(range(1, len(got.shape)))
        order.insert(at, 0)
        got = build.permute(got, order)
        shape = list(rows.shape)
        shape[0], shape[at] = mine, rows.shape[at] * size
        return _back(build.reshape(got, tuple(shape)), new)

    def _reduce_scattered(self, node: Node, axis: int, reduction: str) -> Node:
        rows = collectives.reduce_scatter(_front(node, axis), self.ranks, reduction)
        return _back(rows, axis)


def reduced_zero(node: Node, reduction: str) -> Node:
    """What other ranks have where one has a value: zeros for sums, the value for extremes."""
    if reduction not in ("sum", "product"):
        return node
    return build.broadcast_to(build.constant(int(reduction == "product"), node.dtype), node.shape)


def _slice(node: Node, axis: int, start: int, size: int) -> Node:
    if size == node.shape[axis]:
        return node
    starts = tuple(start if a == axis and size else 0 for a in range(len(node.shape)))
    sizes = tuple(size if a == axis else n for a, n in enumerate(node.shape))
    return build.slice_(node, starts, sizes, (1,) * len(sizes))


def _front(node: Node, axis: int) -> Node:
    return build.permute(node, (axis, *(a for a in range(len(node.shape)) if a != axis)))


def _back(node: Node, axis: int) -> Node:
    order = list(range(1, len(node.shape)))
    order.insert(axis, 0)
    return build.permute(node, order)
