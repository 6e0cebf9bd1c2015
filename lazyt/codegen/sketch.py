"""What groups without a shape compute, told from their graphs: cheaper than making their kernels.

Two groups with equal sketches are one program, over values of different sizes perhaps. So of many
groups that do the same, only one has to be lowered.
"""

from __future__ import annotations

import graphlib
import math
from collections.abc import Container, Hashable, Iterator
from dataclasses import dataclass

from lazyt.ir.graph import Node
from lazyt.ir.group import Group, Part


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
        elif node.op.name in ("reshape", "expand"):  # element i stays element i
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
