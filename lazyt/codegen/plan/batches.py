"""Which groups share a launch: finds those that are the same program, and makes one kernel of them.

Fusion puts results that read a common value into one kernel. Where that value is a single number (a
learning rate), nothing is gained by it, and what many parameters have in common is hidden: such
groups are taken apart again where all their pieces are programs that other groups are, too.
"""

from __future__ import annotations

import graphlib
import math
from collections import Counter
from collections.abc import Container, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lazyt.codegen.loops.flat import Flat, flatten, unite
from lazyt.codegen.lower.groups import Lowered, facts
from lazyt.codegen.plan.duplicates import Alike
from lazyt.ir.graph import Node
from lazyt.ir.group import Group, Part

# Which kernels of a plan run at the same time: independent runs of one program, as one launch.
#
# A step of an optimizer is the same small program for every parameter; one launch a parameter costs
# more than the arithmetic. The order is a list schedule: kernels run in the order given, but one
# that has independent partners waits until nothing else can run. Then all partners that are ready
# go as one. Whatever waits keeps its operands alive, so only so many bytes of them may wait.


#: Bytes of values of the plan's own that kernels may keep alive by waiting for each other.
MOST_WAITING_BYTES = 32 << 20
#: The same of a single kernel, where memory is to be saved.
SPARING_BYTES = 4096
#: Most kernels of one launch: what a launch needs per kernel is collected on the stack.
MOST_SEGMENTS = 1024


def schedule(
    groups: Sequence[Group], programs: Sequence[Hashable | None], kept: set[Node]
) -> list[list[int]]:
    """The numbers of the groups, in launches: those of one launch are independent of each other.

    ``groups`` are in an order in which they can run. Only groups with equal ``programs`` go
    together, those with None never. ``kept`` are values that stay in memory anyway. Where values
    are computed again to save memory only what keeps none alive waits for others.
    """
    common = {p for p, count in Counter(programs).items() if p is not None and count > 1}
    if not common:
        return [[number] for number in range(len(groups))]
    return _Schedule(groups, [p if p in common else None for p in programs], kept).run()


class _Schedule:
    """A list schedule under construction.

    Attributes:
        before: for every group a bit set of the groups that it needs, directly or not.
        waiting: groups that are ready and wait for partners, by program.
    """

    def __init__(
        self, groups: Sequence[Group], programs: Sequence[Hashable | None], kept: set[Node]
    ) -> None:
        self.programs = list(programs)
        sparing = any(group.again for group in groups)
        self.needs: list[set[int]] = []
        self.before: list[int] = []
        self.bytes: list[int] = []
        home: dict[Node, int] = {}
        ahead: set[int] = set()  # the last group that does not wait for partners
        for number, group in enumerate(groups):
            needs = {home[r] for r in group.reads if r in home}
            if group.again:  # made just before it is needed, to save memory: not earlier
                needs |= ahead
            self.needs.append(needs)
            before = 0
            for other in needs:
                before |= self.before[other] | 1 << other
            self.before.append(before)
            local = [r for r in group.reads if r in home] + group.stored
            self.bytes.append(sum(n.nbytes for n in local if n not in kept))
            home.update(dict.fromkeys(group.stored, number))
            if sparing and self.bytes[number] > SPARING_BYTES:
                self.programs[number] = None
            ahead = ahead if self.programs[number] is not None else {number}
        self.partners: dict[Hashable, list[int]] = {}
        for number, program in enumerate(self.programs):
            if program is not None:
                self.partners.setdefault(program, []).append(number)
        self.done: set[int] = set()
        self.waiting: dict[Hashable, list[int]] = {}
        self.launches: list[list[int]] = []

    def run(self) -> list[list[int]]:
        """All launches."""
        rest = list(range(len(self.programs)))
        while rest or self.waiting:
            rest = [number for number in rest if not self._take(number)]
            if self.waiting:
                self._launch(self.waiting.pop(self._best()))
        return self.launches

    def _take(self, number: int) -> bool:
        """Launches a group or lets it wait for partners; False when it is not ready."""
        if not self.needs[number] <= self.done:
            return False
        program = self.programs[number]
        if program is None or not self._has_partner(number, program):
            self._launch([number])
            return True
        waiting = self.waiting.get(program, [])
        size = sum(self.bytes[n] for n in waiting) + self.bytes[number]
        if waiting and (size > MOST_WAITING_BYTES or len(waiting) >= MOST_SEGMENTS):
            self._launch(self.waiting.pop(program))
        self.waiting.setdefault(program, []).append(number)
        return True

    def _has_partner(self, number: int, program: Hashable) -> bool:
        """Whether a group with the same program remains that does not need this one."""
        return any(
            other != number and other not in self.done and not self.before[other] >> number & 1
            for other in self.partners[program]
        )

    def _best(self) -> Hashable:
        """The program whose waiting groups have nothing to gain from more waiting: all its others
        are there, or need one of these. Else the one that waits longest."""
        for program, waiting in self.waiting.items():
            mine = sum(1 << n for n in waiting)
            others = (n for n in self.partners[program] if n not in self.done and n not in waiting)
            if all(self.before[n] & mine for n in others):
                return program
        return next(iter(self.waiting))

    def _launch(self, numbers: list[int]) -> None:
        self.launches.append(numbers)
        self.done.update(numbers)


# What groups without a shape compute, told from their graphs: cheaper than making their kernels.
#
# Two groups with equal sketches are one program, over values of different sizes perhaps. So of many
# groups that do the same, only one has to be lowered.


@dataclass(frozen=True)
class Sketch:
    """A group whose members all compute element i from element i of what they read, or from single
    numbers, or from i and a random key; or which reduces such values to single numbers.

    Attributes:
        extent: the elements that are computed or reduced.
        key: the program; equal for equal programs.
        forms: for everything read, whether it is read element by element. Empty for a group of one
            element, where a single number is the same.
        reads, stored: the values that are read and written, in the order of the program.
    """

    extent: int
    key: Hashable
    forms: tuple[bool, ...]
    reads: tuple[Node, ...]
    stored: tuple[Node, ...]


def sketch(group: Group) -> Sketch | None:
    """The sketch of a group; None where it is not of this kind."""
    if group.kind not in ("map", "row") or len(group.parts) != 1:
        return None
    extent = math.prod(axis.extent for axis in group.parts[0].axes)
    numbers: dict[Node, int] = {}
    program: list[Hashable] = []
    reads: list[Node] = []
    order = list(_in_order(group))
    keys = {n.inputs[0] for n in order if n.op.name == "random" and n not in group.reads}
    behind: set[Node] = set()  # what depends on a reduction
    for node in order:
        if node not in group.reads and not behind.isdisjoint(node.inputs):
            behind.add(node)
            if node.size > 1:
                return None
        if node.size not in (extent, 1) and node not in keys:
            return None
        if node in group.reads:
            reads.append(node)
            line: Hashable = (node.dtype, node in keys)
        elif node in keys:
            return None
        elif node.op.name == "random":
            line = ("random", numbers[node.inputs[0]])
        elif node.op.name == "reduce" and node.inputs[0].size == extent and node.size == 1:
            line = (node.params.kind, numbers[node.inputs[0]])
            behind.add(node)
        elif node.op.movement == "ordered":  # element i stays element i
            numbers[node] = numbers[node.inputs[0]]
            continue
        elif node.op.name in ("map", "const"):
            line = (node.params, *(numbers[n] for n in node.inputs))
        else:
            return None
        numbers[node] = len(program)
        program.append(line)
    stored = tuple(group.stored)
    results = tuple((numbers[m], m in stored) for m in group.members)
    forms = tuple(n.size == extent and n not in keys for n in reads) if extent > 1 else ()
    return Sketch(extent, (tuple(program), results), forms, tuple(reads), stored)


def _in_order(group: Group) -> Iterator[Node]:
    """Everything that the group computes, and what it reads, operands first."""
    seen: set[Node] = set()
    stack = [(m, False) for m in reversed(group.members)]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            if node not in group.reads:
                stack.extend((n, False) for n in reversed(node.inputs))


def components(group: Group, numbers: Container[Node]) -> list[Group]:
    """The groups into which a group of one part, without a head, falls when having one of
    ``numbers`` in common does not hold it together, in an order in which they can run. Such a
    number may be computed by one of them: all that are read by several are stored.
    """
    reads = {member: _read_by(member, group) for member in group.members}
    label: dict[Node, Node] = {}  # towards a common representative

    def find(node: Node) -> Node:
        while label.setdefault(node, node) is not node:
            label[node] = node = label[label[node]]
        return node

    for member, read in reads.items():
        for node in read:
            if node not in numbers or (node in reads and node not in group.stored):
                label[find(node)] = find(member)
    found: dict[Node, list[Node]] = {}
    for member in group.members:
        found.setdefault(find(member), []).append(member)
    home = {member: found[find(member)][0] for member in group.members}
    needs = {
        first: [home[r] for r in group.members if r in wanted and home[r] is not first]
        for first, wanted in ((ms[0], {r for m in ms for r in reads[m]}) for ms in found.values())
    }
    try:
        order = [*graphlib.TopologicalSorter(needs).static_order()]
    except graphlib.CycleError:  # two parts that read numbers of each other are one
        return [group]
    if len(order) == 1:
        return [group]
    return [_part(group, found[find(first)], reads) for first in order]


def _read_by(member: Node, group: Group) -> set[Node]:
    """The members and the values of other groups that a member is computed from."""
    found: set[Node] = set()
    seen: set[Node] = set()
    work = list(member.inputs)
    while work:
        node = work.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in group.members or node in group.reads:
            found.add(node)
        else:
            work.extend(node.inputs)
    return found


def _part(group: Group, members: list[Node], reads: dict[Node, set[Node]]) -> Group:
    """The group that computes some members of another."""
    whole = group.parts[0]
    outputs = [output for output in whole.outputs if output[0] in members]
    read = set[Node]().union(*(reads[m] for m in members))
    common = len(group.reasons) - len(group.members)  # then one for each member, in order
    lines = dict(zip(group.members, group.reasons[common:], strict=True))
    return Group(
        group.kind,
        group.number,
        [Part(whole.axes, whole.inner, [r for r in whole.reduces if r in members], outputs)],
        members={m: group.members[m] for m in members},
        reads=read - set(members),
        inside={m: group.inside[m].intersection(members) for m in members},
        stored=[m for m in group.stored if m in members],
        reasons=[*group.reasons[:common], *(lines[m] for m in members)],
    )


@dataclass(frozen=True)
class Batch:
    """What one launch computes.

    Attributes:
        groups: a group, or several that are one program and independent of each other.
        lowered: the kernel of several, or of one where it is known already.
    """

    groups: tuple[Group, ...]
    lowered: Lowered | None = None


@dataclass(frozen=True)
class _Piece:
    """A group and what is known about it.

    Attributes:
        sketch: what it computes, when it is of that kind.
        lowered: its kernel, or that of another group of the same program.
        arguments: the nodes in the buffers of ``lowered``.
        flat: ``lowered`` without shapes, for this group's extent; None when it is not flat, or has
            no partner.
    """

    group: Group
    sketch: Sketch | None = None
    lowered: Lowered | None = None
    arguments: tuple[Node | None, ...] = ()
    flat: Flat | None = None


def make_batches(groups: Sequence[Group], alike: Alike, kept: set[Node]) -> list[Batch]:
    """All launches of a plan, in an order in which they can run.

    ``alike`` lowers groups; ``kept`` are values that stay in memory anyway.
    """
    kinds = [group.kind for group in groups]
    if kinds.count("map") < 2 and kinds.count("row") < 2:
        return [Batch((group,)) for group in groups]
    pieces = _looked_at(_with_split_groups([_piece(g) for g in groups]), alike)
    # What an update overwrites in place has to be read before: it must not wait.
    bases = {p.group.head.inputs[0] for p in pieces if p.group.head and p.group.head.inputs}
    programs = [
        None if p.group.reads & bases else program
        for p, program in zip(pieces, _programs(pieces), strict=True)
    ]
    launches = schedule([p.group for p in pieces], programs, kept)
    return [_batch([pieces[number] for number in launch]) for launch in launches]


def split_groups(groups: Sequence[Group]) -> list[Group]:
    """The groups, those that compute values which have nothing but numbers in common as several.

    On a GPU a kernel that does different things one after the other leaves most of it idle.
    """
    found: list[Group] = []
    for group in groups:
        alone = group.kind in ("map", "row") and len(group.parts) == 1 and not group.again
        if alone and len(group.members) > 1:
            found += components(group, {node for node in group.reads if node.size == 1})
        else:
            found.append(group)
    return found


def _piece(group: Group) -> _Piece:
    """The group; what is computed again, to save memory, is so where it is: it has no partners."""
    return _Piece(group, None if group.again else sketch(group))


def _with_split_groups(pieces: Sequence[_Piece]) -> list[_Piece]:
    """The pieces, with groups taken apart where all that they consist of occurs elsewhere."""
    # What larger groups read as one number is one in groups of single elements, too.
    larger = [p.sketch for p in pieces if p.sketch is not None and p.sketch.extent > 1]
    numbers = {node for s in larger for node in s.reads if node.size == 1}
    several = [_parts_of(piece, numbers) for piece in pieces]
    known = Counter(key for parts in several for key in {p.sketch.key for p in parts if p.sketch})
    found: list[_Piece] = []
    for piece, parts in zip(pieces, several, strict=True):
        apart = len(parts) > 1 and all(p.sketch and known[p.sketch.key] > 1 for p in parts)
        found += parts if apart else [piece]
    return found


def _parts_of(piece: _Piece, numbers: set[Node]) -> list[_Piece]:
    """What a group falls into when common numbers do not hold it together."""
    if piece.sketch is None or piece.group.kind != "map" or len(piece.group.members) < 2:
        return [piece]
    parts = components(piece.group, numbers)
    return [piece] if len(parts) < 2 else [_Piece(part, sketch(part)) for part in parts]


# -------------------------------------------------------------- programs


def _looked_at(pieces: Sequence[_Piece], alike: Alike) -> list[_Piece]:
    """The pieces with kernels, where they may have partners."""
    families: dict[Hashable, list[int]] = {}
    for number, piece in enumerate(pieces):
        if piece.sketch is not None:
            families.setdefault(piece.sketch.key, []).append(number)
        elif piece.group.kind == "map" and not piece.group.again:
            families.setdefault(_outline(piece.group), []).append(number)
    found = list(pieces)
    for members in families.values():
        if len(members) == 1:
            continue
        examples: dict[tuple[bool, ...], _Piece] = {}
        for number in sorted(members, key=lambda n: -_extent(pieces[n])):
            piece = pieces[number]
            if piece.sketch is None:
                found[number] = _lowered(piece, alike)
                continue
            forms = piece.sketch.forms or next(iter(examples), ())
            if forms not in examples:
                examples[forms] = piece = _lowered(piece, alike)
            found[number] = _like(examples[forms], piece)
    return found


def _outline(group: Group) -> Hashable:
    """What is certainly equal for groups that are one program."""
    return len(group.reads), group.weight, tuple(m.dtype for m in group.stored)


def _extent(piece: _Piece) -> int:
    return piece.sketch.extent if piece.sketch is not None else 0


def _lowered(piece: _Piece, alike: Alike) -> _Piece:
    made = alike.lower(piece.group, whole=piece.group.kind == "row")
    return replace(piece, lowered=made, arguments=made.arguments, flat=flatten(made.kernel))


def _like(example: _Piece, piece: _Piece) -> _Piece:
    """A piece with the kernel of another that has an equal sketch."""
    theirs, mine = example.sketch, piece.sketch
    if piece is example or theirs is None or mine is None or example.flat is None:
        return piece
    place = dict(zip((*theirs.reads, *theirs.stored), (*mine.reads, *mine.stored), strict=True))
    arguments = tuple(place[n] for n in example.arguments if n is not None)
    forms = example.flat.forms if mine.extent > 1 else ()
    flat = replace(example.flat, extent=mine.extent, forms=forms)
    return replace(piece, lowered=example.lowered, arguments=arguments, flat=flat)


def _programs(pieces: Iterable[_Piece]) -> list[Hashable | None]:
    """What the pieces are, equal for those that can share a launch; None for what is not flat.

    A kernel of one element goes with those of any form that have the same key.
    """
    flats = [piece.flat for piece in pieces]
    forms: dict[str, Counter[tuple[int, ...]]] = {}
    for flat in flats:
        if flat is not None and flat.forms:
            forms.setdefault(flat.key, Counter())[flat.forms] += 1
    found: list[Hashable | None] = []
    for flat in flats:
        if flat is None:
            found.append(None)
        elif flat.forms or flat.key not in forms:
            found.append((flat.key, flat.forms))
        else:
            found.append((flat.key, forms[flat.key].most_common(1)[0][0]))
    return found


# -------------------------------------------------------------- launches


def _batch(pieces: Sequence[_Piece]) -> Batch:
    """One launch for pieces of one program."""
    groups = tuple(p.group for p in pieces)
    if len(pieces) == 1:
        made = pieces[0].lowered
        own = made is not None and made.arguments == pieces[0].arguments
        return Batch(groups, made if own and groups[0].kind == "map" else None)
    flats = [p.flat for p in pieces if p.flat is not None]
    kernel = replace(unite(flats), notes=_notes(pieces, flats))
    offsets = tuple(
        first * buffer.dtype.itemsize
        for flat in flats
        for first, buffer in zip(flat.origins, kernel.buffers, strict=True)
    )
    arguments = tuple(node for piece in pieces for node in piece.arguments)
    return Batch(groups, Lowered(kernel, arguments, offsets))


def _notes(pieces: Sequence[_Piece], flats: Sequence[Flat]) -> dict[str, object]:
    """What ``explain()`` says about groups that share a launch."""
    extents = [flat.extent for flat in flats]
    every: list[dict[str, Any]] = [facts(piece.group) for piece in pieces]
    sizes = f"{min(extents)} to {max(extents)}" if len(set(extents)) > 1 else f"{extents[0]}"
    reason = f"one launch: {len(pieces)} independent runs of one program, over {sizes} elements"
    return every[0] | {
        "phases": 1,
        "segments": len(pieces),
        "reasons": [reason, *every[0]["reasons"]],
        "sources": list(dict.fromkeys(s for note in every for s in note["sources"])),
        "bytes_read": sum(note["bytes_read"] for note in every),
        "bytes_written": sum(note["bytes_written"] for note in every),
        "flops": sum(flat.flops for flat in flats),
    }
