"""From groups to a Program: kernels as text, memory from lifetimes, launches in order.

Values that live between kernels get a place in one arena; places are shared by values whose
lifetimes do not overlap. A slice assignment or scatter takes over the memory of its base when
nothing reads the base afterwards.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

from lazyt.codegen.c import PrintedKernel, print_entry_c
from lazyt.codegen.lower import Lowered, lower_group
from lazyt.codegen.prelude import sections_for
from lazyt.ir.graph import Node
from lazyt.ir.group import Group
from lazyt.ir.kernel import Kernel
from lazyt.ir.program import KernelSource, Launch, Program, Slot

_ALIGN = 64
Printer = Callable[[Kernel], PrintedKernel]


@dataclass(eq=False)
class _Place:
    """Memory of one value: an output of the plan, an interval of the arena, or the memory of an
    input that may be overwritten."""

    nbytes: int
    first: int
    last: int
    output: int = -1
    input: int = -1
    offset: int = -1


def assemble(
    groups: Sequence[Group],
    roots: Sequence[Node],
    inputs: Sequence[Node],
    printer: Printer,
    unroll: int,
    check: Callable[[Kernel], None] | None = None,
    donated: Container[Node] = (),
) -> tuple[Program, list[Kernel]]:
    """The Program that computes ``roots`` from ``inputs``, and its kernels as IR.

    ``printer`` writes one kernel for the target; ``check`` is called with every kernel. The memory
    of ``donated`` inputs may be overwritten: nobody else refers to them.
    """
    spare = {n: i for i, n in enumerate(inputs) if n in donated and n not in roots}
    places, shared = _find_places(groups, _outputs(roots), spare)
    lowered = [lower_group(group, unroll, group.head in shared) for group in groups]
    if check is not None:
        for made in lowered:
            check(made.kernel)
    printed = [_renamed(printer(m.kernel), g.kind) for m, g in zip(lowered, groups, strict=True)]
    scratch = [
        [_Place(size, step, step) for size in _scratch_sizes(made, text)]
        for step, (made, text) in enumerate(zip(lowered, printed, strict=True))
    ]
    intervals = {id(p): p for p in places.values()}
    everything = [*intervals.values(), *(p for step in scratch for p in step)]
    arena = _allocate([p for p in everything if p.output < 0 and p.input < 0])
    slots, launches = _launches(lowered, printed, places, scratch, inputs)
    kernels = {p.source.name: p.source for p in printed}
    program = Program(
        target="c",
        sections=_sections(printed),
        kernels=tuple(kernels.values()),
        entry=print_entry_c(tuple(kernels.values()), launches),
        slots=tuple(slots),
        launches=tuple(launches),
        arena_bytes=arena,
        results=_results(roots, inputs, places),
        notes=tuple(_note(low, text) for low, text in zip(lowered, printed, strict=True)),
    )
    return program, [low.kernel for low in lowered]


def _scratch_sizes(made: Lowered, text: PrintedKernel) -> list[int]:
    """Bytes of each piece of memory that only the kernel itself uses."""
    work = [b for b in made.kernel.buffers if b.role == "work"]
    sizes = [b.dtype.itemsize * math.prod(b.shape) for b in work]
    return [*sizes, text.workspace] if text.workspace else sizes


def _outputs(roots: Sequence[Node]) -> dict[Node, int]:
    """The distinct values that have to be computed, numbered."""
    computed = (n for n in roots if n.op.name != "input")
    return {node: number for number, node in enumerate(dict.fromkeys(computed))}


def _results(
    roots: Sequence[Node], inputs: Sequence[Node], places: dict[Node, _Place]
) -> tuple[int, ...]:
    """Where each root is: the number of an output, or ``-n - 1`` for input n."""
    out: list[int] = []
    for root in roots:
        if root.op.name == "input":
            out.append(-1 - inputs.index(root))
        elif root in places and places[root].input >= 0:
            out.append(-1 - places[root].input)
        else:  # an empty value has no place: whoever asks for one needs no plan
            out.append(places[root].output if root in places else 0)
    return tuple(out)


def _find_places(
    groups: Sequence[Group], outputs: dict[Node, int], spare: dict[Node, int]
) -> tuple[dict[Node, _Place], set[Node]]:
    """Where every stored value lives, and the heads that take over their base's memory."""
    last: dict[Node, int] = {}
    for step, group in enumerate(groups):
        for node in group.reads:
            last[node] = step
    places: dict[Node, _Place] = {}
    shared: set[Node] = set()
    for step, group in enumerate(groups):
        for node in group.stored:
            end = last.get(node, step)
            place = _Place(node.nbytes, step, end, outputs.get(node, -1))
            base = _overwritten(group, node, last, step, places, outputs, spare)
            if base is not None:
                shared.add(node)
                if base in spare:
                    places[node] = _Place(node.nbytes, step, end, input=spare[base])
                    continue
                old = places[base]
                old.last = max(old.last, end)
                if place.output >= 0 and old.input < 0:
                    old.output = place.output
                place = old
            places[node] = place
    used = sorted({p.output for p in places.values() if p.output >= 0})
    for place in {id(p): p for p in places.values()}.values():
        if place.output >= 0:
            place.output = used.index(place.output)
    return places, shared


def _overwritten(
    group: Group,
    node: Node,
    last: dict[Node, int],
    step: int,
    places: dict[Node, _Place],
    outputs: dict[Node, int],
    spare: dict[Node, int],
) -> Node | None:
    """The base whose memory an update or scatter may take over, if nobody needs it any more."""
    if group.head is not node or group.kind not in ("update", "scatter"):
        return None
    base = node.inputs[0]
    if (base not in places and base not in spare) or base in outputs or last.get(base) != step:
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


def _allocate(places: Sequence[_Place]) -> int:
    """Gives each place an offset, largest first, at the lowest gap of its lifetime."""
    done: list[_Place] = []
    total = 0
    for place in sorted(places, key=lambda p: (-p.nbytes, p.first)):
        size = -(-max(place.nbytes, 1) // _ALIGN) * _ALIGN
        taken = sorted(
            (p.offset, p.offset + -(-max(p.nbytes, 1) // _ALIGN) * _ALIGN)
            for p in done
            if p.first <= place.last and place.first <= p.last
        )
        offset = 0
        for start, stop in taken:
            if start - offset >= size:
                break
            offset = max(offset, stop)
        place.offset = offset
        done.append(place)
        total = max(total, offset + size)
    return total


def _renamed(printed: PrintedKernel, kind: str) -> PrintedKernel:
    """Names a kernel after its text, so that equal kernels are one."""
    source = printed.source
    digest = hashlib.sha256(source.text.encode()).hexdigest()[:10]
    name = f"lz_{kind}_{digest}"
    text = source.text.replace("lz_kernel(", f"{name}(")
    own = [n for n, _ in printed.sections]
    shared = sections_for(n for n in source.prelude if n not in own)
    needed = tuple(n for n, _ in shared) + tuple(own)
    named = KernelSource(name, text, needed, source.arity)
    return PrintedKernel(named, printed.sections, printed.workspace, printed.note)


def _sections(printed: Sequence[PrintedKernel]) -> tuple[tuple[str, str], ...]:
    own = {name: text for p in printed for name, text in p.sections}
    out = dict(sections_for({n for p in printed for n in p.source.prelude if n not in own}))
    out.update(own)
    return tuple(out.items())


def _launches(
    lowered: Sequence[Lowered],
    printed: Sequence[PrintedKernel],
    places: dict[Node, _Place],
    scratch: Sequence[list[_Place]],
    inputs: Sequence[Node],
) -> tuple[list[Slot], list[Launch]]:
    slots: dict[Slot, int] = {}

    def slot(item: Slot) -> int:
        return slots.setdefault(item, len(slots))

    numbers = {node: n for n, node in enumerate(inputs)}
    for number, item in enumerate(inputs):
        slot(Slot("input", number, 0, item.nbytes))
    for place in sorted((p for p in places.values() if p.output >= 0), key=lambda p: p.output):
        slot(Slot("output", place.output, 0, place.nbytes))
    launches: list[Launch] = []
    for made, text, extra in zip(lowered, printed, scratch, strict=True):
        waiting = iter(extra)
        arguments: list[int] = []
        for node in made.arguments:
            if node is not None and node in numbers:
                arguments.append(slot(Slot("input", numbers[node], 0, node.nbytes)))
            elif node is not None and node in places:
                arguments.append(slot(_slot_of(places[node])))
            else:
                arguments.append(slot(_slot_of(next(waiting))))
        if text.workspace:
            arguments.append(slot(_slot_of(next(waiting))))
        launches.append(Launch(text.source.name, tuple(arguments)))
    return list(slots), launches


def _slot_of(place: _Place) -> Slot:
    if place.input >= 0:
        return Slot("input", place.input, 0, place.nbytes)
    if place.output >= 0:
        return Slot("output", place.output, 0, place.nbytes)
    return Slot("arena", 0, place.offset, place.nbytes)


def _note(made: Lowered, text: PrintedKernel) -> dict[str, object]:
    note = dict(made.kernel.notes)
    note["scratch"] = sum(n for n in _scratch_sizes(made, text) if n > 1)  # 1 stands for none
    note["name"] = text.source.name
    if text.note:
        note["form"] = text.note
    return note
