"""Where the values between launches live: lifetimes, what takes over whose memory, the arena."""

from __future__ import annotations

from bisect import insort
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


def allocate(places: Sequence[Place]) -> int:
    """Gives each place an offset, largest first, at the lowest gap of its lifetime."""
    done: list[tuple[int, int, int, int]] = []  # begin, end, first, last; in order
    total = 0
    for place in sorted(places, key=lambda p: (-p.nbytes, p.first)):
        size = -(-max(place.nbytes, 1) // _ALIGN) * _ALIGN
        first, last, offset = place.first, place.last, 0
        for begin, end, other, until in done:
            if other <= last and first <= until:
                if begin - offset >= size:
                    break
                if end > offset:
                    offset = end
        place.offset = offset
        insort(done, (offset, offset + size, first, last))
        total = max(total, offset + size)
    return total
