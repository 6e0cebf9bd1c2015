"""Groups that are one program, values and all extents included, are lowered and printed once.

The layers of a network differ in which values they read and write, and in nothing else. Comparing
two groups by their graphs takes a hundredth of the time that it takes to make a kernel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lazyt.codegen.lower.groups import Lowered, facts, lower_group
from lazyt.codegen.plan.printed import PrintedKernel
from lazyt.ir.graph import Node
from lazyt.ir.group import Group
from lazyt.ir.kernel import ContractPhase, Kernel

# Kernels that differ in constants only, made one kernel that takes them as arguments.
#
# A loop that Python unrolls compares with step 3 here and with step 4 there. Compiled for their
# numbers, that is a kernel for every step. Two kernels of the same text are left as they are.


#: Different kernels from which on their numbers become arguments: a compiler makes more of a
#: number that it knows.
FEWEST = 3

#: Kinds of groups whose kernels keep their texts.
UNSHARED = frozenset({"contract"})

Printer = Callable[[Kernel, Mapping[int, str] | None], PrintedKernel]


def share_texts(
    kernels: Sequence[Kernel], printed: Sequence[PrintedKernel], printer: Printer
) -> list[PrintedKernel]:
    """``printed`` kernels, those that differ in their constants only with equal texts.

    ``printer`` writes a kernel with its constants of given numbers (all, for an empty mapping) by
    names.
    """
    families: dict[str, list[int]] = {}
    for number, (kernel, made) in enumerate(zip(kernels, printed, strict=True)):
        if not kernel.segments and not isinstance(kernel.phases[0], ContractPhase):
            families.setdefault(_outline(made.source.text), []).append(number)
    found = list(printed)
    for members in families.values():
        if len({printed[n].source.text for n in members}) < FEWEST:
            continue
        bare: dict[str, list[tuple[int, PrintedKernel]]] = {}
        for number in members:
            made = printer(kernels[number], {})
            bare.setdefault(made.source.text, []).append((number, made))
        for same in bare.values():
            if len({printed[n].source.text for n, _ in same}) >= FEWEST:
                _name_what_differs(same, kernels, printer, found)
    return found


def _outline(text: str) -> str:
    """A text without its numbers."""
    return re.sub(r"[0-9][0-9.]*", "0", text)


def _name_what_differs(
    same: Sequence[tuple[int, PrintedKernel]],
    kernels: Sequence[Kernel],
    printer: Printer,
    found: list[PrintedKernel],
) -> None:
    """Writes kernels that differ in constants with arguments for just those."""
    rows = [made.values for _, made in same]
    names: dict[int, str] = {}
    columns: dict[tuple[str, ...], str] = {}
    for place, column in enumerate(zip(*rows, strict=True)):
        if len(set(column)) > 1:
            names[place] = columns.setdefault(column, f"n{len(columns)}_")
    places = {name: place for place, name in reversed(names.items())}
    source = printer(kernels[same[0][0]], names).source
    for number, made in same:
        values = tuple(made.values[places[name]] for name in columns.values())
        found[number] = replace(made, source=source, values=values)


@dataclass(frozen=True)
class Alike:
    """The kernels of a plan that were made so far, by what they compute.

    Attributes:
        unroll, wide: as of ``lower_group``.
    """

    unroll: int
    wide: bool = False
    _known: dict[Hashable, tuple[Lowered, tuple[int, ...]]] = field(default_factory=dict)

    def lower(self, group: Group, in_place: bool = False, whole: bool = False) -> Lowered:
        """``lower_group``, or the kernel of a group before that was alike, for the values of this
        one."""
        program, nodes = _program(group)
        key = program, in_place, whole
        found = self._known.get(key)
        if found is None:
            made = lower_group(group, self.unroll, in_place, whole, self.wide)
            numbers = {node: number for number, node in enumerate(nodes)}
            places = tuple(-1 if n is None else numbers[n] for n in made.arguments)
            self._known[key] = made, places
            return made
        made, places = found
        notes = {**made.kernel.notes, **facts(group)}
        arguments = tuple(nodes[place] if place >= 0 else None for place in places)
        replaced = dict(made.replaced)
        if replaced and group.head is not None:
            replaced = {group.head: group.head.inputs[0]}
        return Lowered(replace(made.kernel, notes=notes), arguments, made.offsets, replaced)


def _program(group: Group) -> tuple[Hashable, list[Node]]:
    """What decides the kernel of a group, and the values that it computes and reads, numbered."""
    numbers: dict[Node, int] = {}
    lines: list[Hashable] = []
    every = (group, *(stage.group for stage in group.stages))
    begin = [n for each in every for n in (each.head, *each.members) if n is not None]
    stack = [(node, False) for node in reversed(begin)]
    while stack:
        node, ready = stack.pop()
        if node in numbers:
            continue
        if node in group.reads:
            line: Hashable = node.form
        elif ready:
            line = (node.head, node.form, *[numbers[n] for n in node.inputs])
        else:
            stack.append((node, True))
            stack += [(n, False) for n in reversed(node.inputs)]
            continue
        numbers[node] = len(numbers)
        lines.append(line)
    forms = tuple(_form(each, numbers) for each in every)
    exchanged = tuple(stage.exchanged for stage in group.stages)
    return (forms, exchanged, group.bands, tuple(lines)), list(numbers)


def _form(group: Group, numbers: Mapping[Node, int]) -> Hashable:
    """Everything else about a group that lowering looks at."""
    parts = tuple(
        (
            part.axes,
            part.inner,
            tuple(numbers[n] for n in part.reduces),
            tuple((numbers[n], extent) for n, extent in part.outputs),
        )
        for part in group.parts
    )
    members = tuple(
        (numbers[n], where, tuple(sorted(numbers[r] for r in group.inside.get(n, ()))))
        for n, where in group.members.items()
    )
    head = -1 if group.head is None else numbers[group.head]
    stored = tuple(numbers[n] for n in group.stored)
    reads = tuple(sorted(numbers[n] for n in group.reads if n in numbers))
    return group.kind, head, stored, reads, members, parts


def print_alike(
    kernels: Sequence[Kernel], printer: Printer, printed: Callable[[int, PrintedKernel], None]
) -> list[PrintedKernel]:
    """The kernels as text; those that share all but their notes are printed once.

    ``printed`` hears of each text, with the number of the first kernel that has it.
    """
    known: dict[Hashable, PrintedKernel] = {}
    found: list[PrintedKernel] = []
    for number, kernel in enumerate(kernels):
        key = (id(kernel.buffers), id(kernel.phases), kernel.segments, kernel.bands)
        if key not in known:
            known[key] = printer(kernel, None)
            printed(number, known[key])
        found.append(known[key])
    return found
