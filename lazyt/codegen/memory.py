"""Where the values between launches live: lifetimes, what takes over whose memory, the arena."""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from lazyt.ir.graph import Node
from lazyt.ir.group import Group

_ALIGN = 64


@dataclass(eq=False)
class Place:
    """Memory of one value: an output of the plan, an interval of the arena, or the memory of an
    input that may be overwritten."""

    nbytes: int
    first: int
    last: int
    output: int = -1
    input: int = -1
    offset: int = -1


def find_spare(
    roots: Sequence[Node], inputs: Sequence[Node], donated: Mapping[Node, int]
) -> tuple[dict[Node, int], dict[Node, Node]]:
    """Inputs whose memory may be overwritten, with their numbers, and those of them that one root
    alone may have, by that root."""
    spare: dict[Node, int] = {}
    wanted: dict[Node, Node] = {}
    for number, leaf in enumerate(inputs):
        if leaf not in donated or leaf in roots:
            continue
        if donated[leaf] >= 0:
            root = roots[donated[leaf]]
            if root.op.name == "input" or roots.count(root) > 1 or root.type != leaf.type:
                continue
            wanted[root] = leaf
        spare[leaf] = number
    return spare, wanted


def find_places(
    steps: Sequence[Sequence[Group]],
    outputs: dict[Node, int],
    spare: dict[Node, int],
    wanted: Mapping[Node, Node],
) -> tuple[list[dict[Node, Place]], set[Node]]:
    """Where the values that each step stores live, and the heads that take over their base's
    memory.

    ``steps`` are the groups that run at the same time, one launch after the other. A value may be
    stored by several: each reader has the one that was stored last.
    """
    order = [(step, group) for step, groups in enumerate(steps) for group in groups]
    last = _last_reads(order)
    stores: list[dict[Node, Place]] = [{} for _ in steps]
    places: dict[Node, Place] = {}  # of what was stored last
    begin: dict[Node, int] = {}
    shared: set[Node] = set()
    owners = {spare[leaf]: root for root, leaf in wanted.items()}
    for step, group in order:
        for node in group.stored:
            end = last.get((node, step), step)
            place = Place(node.nbytes, step, end, -1 if group.again else outputs.get(node, -1))
            base = _overwritten(group, node, places, outputs, spare)
            if base is not None and node in outputs:
                memory = spare[base] if base in spare else places[base].input
                owner = owners.get(memory, node)
                base = base if owner is node else None
            if base is not None and last.get((base, begin.get(base, -1))) == step:
                shared.add(node)
                if base in spare:
                    place = Place(node.nbytes, step, end, input=spare[base])
                else:
                    old = places[base]
                    old.last = max(old.last, end)
                    if place.output >= 0 and old.input < 0:
                        old.output = place.output
                    place = old
            stores[step][node] = places[node] = place
            begin[node] = step
    return stores, shared


def all_places(stores: Sequence[dict[Node, Place]]) -> Collection[Place]:
    """Every place once."""
    return {id(p): p for made in stores for p in made.values()}.values()


def number_outputs(stores: Sequence[dict[Node, Place]]) -> None:
    """Numbers the outputs that are left without gaps."""
    every = all_places(stores)
    used = sorted({p.output for p in every if p.output >= 0})
    for place in every:
        if place.output >= 0:
            place.output = used.index(place.output)


def _last_reads(order: Sequence[tuple[int, Group]]) -> dict[tuple[Node, int], int]:
    """The last step that reads a value, by the value and the step that stored it (-1: none)."""
    last: dict[tuple[Node, int], int] = {}
    begin: dict[Node, int] = {}
    for step, group in order:
        for node in group.reads:
            last[node, begin.get(node, -1)] = step
        for node in group.stored:
            begin[node] = step
    return last


def _overwritten(
    group: Group,
    node: Node,
    places: dict[Node, Place],
    outputs: dict[Node, int],
    spare: dict[Node, int],
) -> Node | None:
    """The base whose memory an update or scatter may take over, if nobody reads it later."""
    if group.head is not node or group.kind not in ("update", "scatter"):
        return None
    base = node.inputs[0]
    if (base not in places and base not in spare) or base in outputs:
        return None
    if base in places and places[base].output >= 0:
        return None
    work, seen = [*node.inputs[1:]], set()
    while work:
        item = work.pop()
        if item is base:
            return None
        if item not in seen:
            seen.add(item)
            if item not in group.reads:
                work.extend(item.inputs)
    return base


#: Blocks of so many intervals are split.
_MOST = 96


class _Block:
    """Intervals that are taken, neighbours in their order, and what all of them have in common.

    Attributes:
        taken: begin, end, first and last step of each.
        lives: the earliest and latest first step, and the earliest and latest last one.
        begin, end: where they begin and end.
        gap: the largest room between them.
    """

    __slots__ = ("begin", "end", "gap", "lives", "taken")

    def __init__(self, taken: list[tuple[int, int, int, int]]) -> None:
        self.taken = taken
        firsts, lasts = [t[2] for t in taken], [t[3] for t in taken]
        self.lives = min(firsts), max(firsts), min(lasts), max(lasts)
        self.begin = self.end = taken[0][0]
        self.gap = 0
        for begin, end, _, _ in taken:
            self.gap = max(self.gap, begin - self.end)
            self.end = max(self.end, end)

    def holds_no(self, size: int, offset: int, first: int, last: int) -> bool:
        """Whether all intervals live between two steps and leave no room behind ``offset``."""
        _, latest, earliest, _ = self.lives
        return latest <= last and first <= earliest and max(self.begin - offset, self.gap) < size


def allocate(places: Sequence[Place]) -> int:
    """Gives each place an offset, largest first, at the lowest gap of its lifetime."""
    blocks: list[_Block] = []
    total = 0
    for place in sorted(places, key=lambda p: (-p.nbytes, p.first)):
        size = -(-max(place.nbytes, 1) // _ALIGN) * _ALIGN
        place.offset = offset = _lowest(blocks, size, place.first, place.last)
        _take(blocks, (offset, offset + size, place.first, place.last))
        total = max(total, offset + size)
    return total


def _lowest(blocks: Sequence[_Block], size: int, first: int, last: int) -> int:
    """The lowest offset with room for ``size`` bytes from step ``first`` to ``last``."""
    offset = 0
    for block in blocks:
        if block.lives[0] > last or block.lives[3] < first:
            continue
        if block.holds_no(size, offset, first, last):
            offset = max(offset, block.end)
            continue
        for begin, end, other, until in block.taken:
            if other <= last and first <= until:
                if begin - offset >= size:
                    return offset
                if end > offset:
                    offset = end
    return offset


def _take(blocks: list[_Block], interval: tuple[int, int, int, int]) -> None:
    """Puts an interval where it belongs in the order."""
    place = max(bisect([block.taken[0] for block in blocks], interval) - 1, 0)
    taken = blocks[place].taken if blocks else []
    insort(taken, interval)
    half = len(taken) // 2 if len(taken) > _MOST else len(taken)
    blocks[place : place + 1] = [_Block(part) for part in (taken[:half], taken[half:]) if part]
