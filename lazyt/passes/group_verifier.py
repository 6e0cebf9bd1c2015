"""Checks that groups keep the rules that lowering relies on.

Groups run one after the other: each reads inputs and what earlier ones stored, and every root is
stored once. Inside of a group, a member reads another one exactly at the point where that is
computed; what it reads elsewhere has to come from memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lazyt.errors import LazytError, VerifyError
from lazyt.ir.graph import Node
from lazyt.ir.group import Group, Index
from lazyt.ir.index import Linear, Quotient, Remainder, axes_of, data_of
from lazyt.passes.probe import Probe


def verify_groups(groups: Sequence[Group], roots: Sequence[Node]) -> None:
    """Check groups that compute ``roots``, in the order of their launches.

    Raises VerifyError that names the group and says what is wrong with it.
    """
    ready: set[Node] = set()
    for number, group in enumerate(groups):
        found = [*_order_complaints(group, ready), *_point_complaints(group)]
        if found:
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            raise VerifyError(f"group {number} ({describe(group)}): {found[0]}{more}")
        ready |= set(group.stored)
    for number, root in enumerate(roots):
        if root.op.name != "input" and root.data is None and root.size and root not in ready:
            raise VerifyError(f"root {number}, {root!r}, is stored by no group")


def describe(group: Group) -> str:
    """The kind of a group and what it stores, in one line."""
    return f"{group.kind}: {', '.join(map(repr, group.stored))}"


def _order_complaints(group: Group, ready: set[Node]) -> Iterator[str]:
    for node in group.reads:
        if node.op.name != "input" and node.data is None and node not in ready:
            yield f"it reads {node!r} before an earlier group has stored it"
        if node in group.members:
            yield f"it reads {node!r} from memory and computes it"
    for node in group.stored:
        if node not in group.members:
            yield f"it stores {node!r}, which it does not compute"
        if node in ready and not group.again:
            yield f"it stores {node!r}, which an earlier group has stored"


def _point_complaints(group: Group) -> Iterator[str]:
    if group.kind not in ("map", "row"):
        return
    for member, (number, extent) in group.members.items():
        part = group.parts[number]
        if member in part.reduces:
            source = member.inputs[0]
            walked = source, part.place(source.shape, "full")
        else:
            walked = member, part.place(member.shape, extent)
        try:
            found = reads_of(*walked, group)
        except LazytError as error:  # it goes on into what no kernel of this kind can compute
            yield f"{member!r} cannot be computed from what is there: {error}"
            continue
        for read, index in found:
            if read not in group.members:
                if read not in group.reads:
                    yield f"{member!r} reads {read!r}, which is not among what the group reads"
                continue
            if group.members[read][0] == number and not _same(index, group.place(read)):
                there, here = _text(index), _text(group.place(read))
                yield f"{member!r} reads {read!r} at {there}, where it is computed at {here}"


def reads_of(node: Node, index: Index, group: Group) -> list[tuple[Node, Index]]:
    """What the value of ``node`` at ``index`` reads: members of the group, what it reads from
    memory, and inputs, each with where."""
    known = {*group.members, *group.reads}
    probe = Probe(lambda other: other in known or other.data is not None)
    if node in group.members and not any(node in part.reduces for part in group.parts):
        probe.run(node, index)
    else:
        probe.evaluate(node, index)
    return [(pair[0], pair[1]) for pair in probe.reads]


#: Points at which two ways of writing an index are compared.
_POINTS = 64


def _same(a: Index, b: Index) -> bool:
    """Whether two indices are the same, however they are written: compared at some points where
    their text differs."""
    if a == b:
        return True
    if len(a) != len(b):
        return False
    axes = sorted({axis for item in (*a, *b) for axis in axes_of(item)}, key=lambda axis: axis.name)
    if any(data_of(item) for item in (*a, *b)):
        return False
    for number in range(_POINTS):
        # The corners first, then points that step through every axis at a pace of its own.
        point = {
            axis.name: (axis.extent - 1) * (number >> place & 1)
            if number < min(1 << len(axes), _POINTS // 2)
            else (number * (2654435761 + 40503 * place) >> 7) % max(axis.extent, 1)
            for place, axis in enumerate(axes)
        }
        if any(_value(x, point) != _value(y, point) for x, y in zip(a, b, strict=True)):
            return False
    return True


def _value(index: Linear, point: Mapping[str, int]) -> int:
    total = index.const
    for atom, factor in index.terms:
        if isinstance(atom, Quotient):
            value = _value(atom.value, point) // atom.divisor
        elif isinstance(atom, Remainder):
            value = _value(atom.value, point) % atom.divisor
        else:
            value = point[atom.name]
        total += factor * value
    return total


def _text(index: Index) -> str:
    return f"[{', '.join(map(str, index))}]"
