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
    input that may be overwritten.

    Attributes:
        nbytes: its size.
        first, last: the launches between which it is taken.
        output, input: number of the output or input whose memory it is, -1 for none.
        offset: where it begins in the arena.
        node: the value that was stored last.
        lent: whether it is the memory of an input that is donated to a root, and no root has it
            yet: values on the way to that root may use it, if the root takes it over from them.
    """

    nbytes: int
    first: int
    last: int
    output: int = -1
    input: int = -1
    offset: int = -1
    node: Node | None = None
    lent: bool = False


@dataclass(frozen=True)
class Donations:
    """The inputs whose memory a plan may overwrite.

    Attributes:
        numbers: of these inputs.
        owners: the root that is to have the memory, for those that one root alone may have.
    """

    numbers: Mapping[Node, int]
    owners: Mapping[int, Node]

    @staticmethod
    def of(roots: Sequence[Node], inputs: Sequence[Node], donated: Mapping[Node, int]) -> Donations:
        """What a plan can use of what its caller donates: ``donated`` inputs, each with the number
        of the root that may have its memory, negative for any. An input that is a result itself
        stays as it is."""
        numbers: dict[Node, int] = {}
        owners: dict[int, Node] = {}
        for number, leaf in enumerate(inputs):
            if leaf not in donated or leaf in roots:
                continue
            if donated[leaf] >= 0:
                root = roots[donated[leaf]]
                if root.op.name == "input" or roots.count(root) > 1 or root.type != leaf.type:
                    continue
                owners[number] = root
            numbers[leaf] = number
        return Donations(numbers, owners)


class Lives:
    """Which launches store and read values. A value that is stored again begins a life anew.

    Attributes:
        last: the last launch that reads a value and how many groups of it do, by the value and the
            launch that stored it (-1: none, it is an input).
        stored: the launches that store a value.
    """

    def __init__(self, steps: Sequence[Sequence[Group]]) -> None:
        self.last: dict[tuple[Node, int], tuple[int, int]] = {}
        self.stored: dict[Node, list[int]] = {}
        for step, groups in enumerate(steps):
            for group in groups:
                for node in group.reads:
                    key = node, self.stored[node][-1] if node in self.stored else -1
                    before, count = self.last.get(key, (-1, 0))
                    self.last[key] = step, count + 1 if before == step else 1
            for group in groups:
                for node in group.stored:
                    self.stored.setdefault(node, []).append(step)

    def end(self, node: Node, stored: int) -> int:
        """The last launch that needs what a launch stored."""
        return self.last.get((node, stored), (stored, 0))[0]

    def end_of_last(self, node: Node) -> int:
        """The last launch that needs a value, -1 for an input that none reads."""
        return self.end(node, self.stored.get(node, (-1,))[-1])

    def is_last_reader(self, node: Node, stored: int, step: int) -> bool:
        """Whether only one group of a launch, and none later, reads what a launch stored."""
        return self.last.get((node, stored)) == (step, 1)


def assign_placements(
    steps: Sequence[Sequence[Group]],
    lives: Lives,
    outputs: Mapping[Node, int],
    donations: Donations,
) -> tuple[list[dict[Node, Place]], set[Node]]:
    """Where the values that each step stores live, and the heads that take over their base's
    memory.

    ``steps`` are the groups that run at the same time, one launch after the other. A value may be
    stored by several: each reader has the one that was stored last.
    """
    stores: list[dict[Node, Place]] = [{} for _ in steps]
    places: dict[Node, Place] = {}  # of what was stored last
    begin: dict[Node, int] = {}
    shared: set[Node] = set()
    for step, group in [(step, group) for step, groups in enumerate(steps) for group in groups]:
        for node in group.stored:
            end = lives.end(node, step)
            output = -1 if group.again else outputs.get(node, -1)
            place = Place(node.nbytes, step, end, output, node=node)
            base = _overwritten(group, node, places, outputs, donations.numbers)
            if base is not None and lives.is_last_reader(base, begin.get(base, -1), step):
                old = places.get(base) or Place(
                    node.nbytes, step, end, input=donations.numbers[base], lent=True
                )
                owner = donations.owners.get(old.input, node)
                if owner is node or node not in outputs:
                    shared.add(node)
                    old.last, old.node = max(old.last, end), node
                    old.lent = old.lent and owner is not node and old.input in donations.owners
                    if place.output >= 0 and old.input < 0:
                        old.output = place.output
                    place = old
            stores[step][node] = places[node] = place
            begin[node] = step
    return stores, shared


def all_placements(stores: Sequence[dict[Node, Place]]) -> Collection[Place]:
    """Every place once."""
    return {id(p): p for made in stores for p in made.values()}.values()


def number_outputs(stores: Sequence[dict[Node, Place]]) -> None:
    """Numbers the outputs that are left without gaps."""
    every = all_placements(stores)
    used = sorted({p.output for p in every if p.output >= 0})
    for place in every:
        if place.output >= 0:
            place.output = used.index(place.output)


def _overwritten(
    group: Group,
    node: Node,
    places: Mapping[Node, Place],
    outputs: Mapping[Node, int],
    spare: Mapping[Node, int],
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
