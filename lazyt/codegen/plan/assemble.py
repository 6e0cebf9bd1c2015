"""From groups to a Program: kernels as text, memory from lifetimes, launches in order.

Independent groups that are one program become one launch (``codegen/plan/batches.py``).

Values that live between kernels get a place in one arena; places are shared by values whose
lifetimes do not overlap. A slice assignment or scatter takes over the memory of its base when
nothing reads the base afterwards.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from lazyt.codegen.lower.groups import Lowered, lower_group
from lazyt.codegen.plan.batches import Batch, make_batches, split_groups
from lazyt.codegen.plan.duplicates import UNSHARED, Alike, Printer, print_alike, share_texts
from lazyt.codegen.plan.in_place import take_over
from lazyt.codegen.plan.memory import (
    Donations,
    Lives,
    Place,
    all_placements,
    allocate,
    assign_placements,
    number_outputs,
)
from lazyt.codegen.plan.printed import Announce, PrintedKernel
from lazyt.codegen.plan.target import PLAIN, Launching
from lazyt.codegen.prelude import sections_for
from lazyt.codegen.proof.plan import check_plan
from lazyt.ir.graph import Node
from lazyt.ir.group import Group
from lazyt.ir.kernel import Kernel
from lazyt.ir.program import KernelSource, Launch, Program, Slot

#: Hears of the groups of each launch, and of its kernel.
Launched = Callable[[Sequence[Sequence[Group]], Sequence[Lowered]], None]

#: Bytes and multiply-adds from which on a plan may take long enough for somebody to interrupt it.
_LONG = 100_000_000
#: What printers call a kernel; those of CUDA add the number of a phase.
_FUNCTION = re.compile(r"\blz_kernel(?=(_p\d+)?(\(|$))")


def assemble(
    groups: Sequence[Group],
    roots: Sequence[Node],
    inputs: Sequence[Node],
    printer: Printer,
    unroll: int,
    check: Callable[[Kernel], None] | None = None,
    donated: Mapping[Node, int] = MappingProxyType({}),
    launching: Launching = PLAIN,
    share: bool = True,
    announce: Announce | None = None,
    change: Callable[[Kernel], Kernel] | None = None,
    launched: Launched | None = None,
) -> tuple[Program, list[Kernel]]:
    """The Program that computes ``roots`` from ``inputs``, and its kernels as IR.

    ``printer`` writes one kernel for the target; ``check`` is called with every kernel. The memory
    of ``donated`` inputs may be overwritten: by the root of that number alone, where it is not
    negative. ``launching`` is how the target wants its launches: where these are joined and with
    ``share``, kernels that differ in constants are one. ``announce`` hears of every kernel once it
    is known. ``change`` gives another kernel in the place of each, with the same buffers.
    ``launched`` hears of all launches: their groups, and their kernels with what the buffers hold.

    Raises InternalError where ``check_plan`` finds that memory is read after it was written over.
    """
    alike = Alike(unroll, wide=launching.wide)
    if launching.joins:
        batches = make_batches(groups, alike, {*roots, *inputs})
    else:
        batches = [Batch((g,)) for g in split_groups(groups)]
    lowered, stores = _lower_all(batches, roots, inputs, donated, alike, change)
    if check is not None:
        _check_all(batches, lowered, unroll, check)
    kernels, kinds = [made.kernel for made in lowered], [batch.groups[0].kind for batch in batches]
    printed = _print_all(kernels, kinds, printer, launching.joins and share, announce)
    scratch = _scratch(lowered, printed)
    known = {node: place for made in reversed(stores) for node, place in made.items()}
    intervals = {id(p): p for made in stores for p in made.values()}
    everything = [*intervals.values(), *(p for step in scratch for p in step)]
    arena = allocate([p for p in everything if p.output < 0 and p.input < 0])
    slots, launches = _launches(lowered, printed, stores, scratch, inputs)
    sources = tuple({p.source.name: p.source for p in printed}.values())
    results = _results(roots, inputs, known)
    notes = tuple(_note(low, text) for low, text in zip(lowered, printed, strict=True))
    program = Program(
        target=launching.target,
        sections=gather_sections(printed),
        kernels=sources,
        entry=_entry(launching, sources, launches, _listening(stores, notes)),
        slots=tuple(slots),
        launches=tuple(launches),
        arena_bytes=arena,
        results=results,
        donated=_donated(stores, results),
        notes=notes,
    )
    check_plan(program, lowered, roots, inputs, donated)
    if launched is not None:
        launched([batch.groups for batch in batches], lowered)
    return program, kernels


def _listening(
    stores: Sequence[Mapping[Node, Place]], notes: Sequence[Mapping[str, object]]
) -> int:
    """How many launches, from the first, listen for interrupts: none of a short plan, else those
    before the first that writes to an input."""
    names = ("bytes_read", "bytes_written", "flops")
    work = sum(found for note in notes for n in names if isinstance(found := note.get(n), int))
    if work < _LONG:
        return 0
    steps = range(len(stores))
    return next((n for n in steps if any(p.input >= 0 for p in stores[n].values())), len(stores))


def _entry(
    launching: Launching,
    sources: Sequence[KernelSource],
    launches: Sequence[Launch],
    listening: int,
) -> str:
    """The function that makes all launches, where the target has one."""
    return "" if launching.entry is None else launching.entry(sources, launches, listening)


def _change_all(lowered: list[Lowered], change: Callable[[Kernel], Kernel] | None) -> list[Lowered]:
    """The kernels after a change, which those that differ in their notes only have in common."""
    if change is None:
        return lowered
    known: dict[tuple[object, ...], Kernel] = {}
    found = []
    for made in lowered:
        kernel = made.kernel
        key = (id(kernel.buffers), id(kernel.phases), kernel.segments, kernel.bands)
        if key not in known:
            known[key] = change(kernel)
        found.append(replace(made, kernel=replace(known[key], notes=kernel.notes)))
    return found


def _check_all(
    batches: Sequence[Batch],
    lowered: Sequence[Lowered],
    unroll: int,
    check: Callable[[Kernel], None],
) -> None:
    """Checks all kernels, and those that launches of several groups are made of."""
    alone = [g for batch in batches if len(batch.groups) > 1 for g in batch.groups]
    for made in (*lowered, *(lower_group(group, unroll) for group in alone)):
        check(made.kernel)


def _lowered(batch: Batch, alike: Alike, shared: Container[Node | None]) -> Lowered:
    """The kernel of a launch."""
    if batch.lowered is not None:
        return batch.lowered
    (group,) = batch.groups
    return alike.lower(group, group.head in shared)


def _print_all(
    kernels: Sequence[Kernel],
    kinds: Sequence[str],
    printer: Printer,
    share: bool,
    announce: Announce | None,
) -> list[PrintedKernel]:
    """The kernels of groups of these kinds as text, each with a name after its text."""
    texts = print_alike(kernels, printer, partial(_announce, announce, kinds))
    if share:
        texts = share_texts(kernels, texts, printer)
    printed = [name_after_text(text, kind) for text, kind in zip(texts, kinds, strict=True)]
    if announce is not None:
        for text in {p.source.name: p for p in printed}.values():
            announce(text.source, gather_sections([text]))
    return printed


def _announce(
    announce: Announce | None, kinds: Sequence[str], number: int, text: PrintedKernel
) -> None:
    """Announces a kernel of which it is sure that nothing else will be printed for it."""
    if announce is not None and kinds[number] in UNSHARED:
        named = name_after_text(text, kinds[number])
        announce(named.source, gather_sections([named]))


def _scratch(lowered: Sequence[Lowered], printed: Sequence[PrintedKernel]) -> list[list[Place]]:
    """Memory of each launch that only its kernel uses."""
    return [
        [Place(size, step, step) for size in _scratch_sizes(made, text)]
        for step, (made, text) in enumerate(zip(lowered, printed, strict=True))
    ]


def _scratch_sizes(made: Lowered, text: PrintedKernel) -> list[int]:
    """Bytes of each piece of memory that only the kernel itself uses."""
    work = [b for b in made.kernel.buffers if b.role == "work"]
    sizes = [b.dtype.itemsize * math.prod(b.shape) for b in work]
    return [*sizes, text.workspace] if text.workspace else sizes


def _lower_all(
    batches: Sequence[Batch],
    roots: Sequence[Node],
    inputs: Sequence[Node],
    donated: Mapping[Node, int],
    alike: Alike,
    change: Callable[[Kernel], Kernel] | None,
) -> tuple[list[Lowered], list[dict[Node, Place]]]:
    """The kernels of all launches, and where the values live that each launch stores. Results are
    written over the inputs that they replace."""
    donations = Donations.of(roots, inputs, donated)
    steps = [batch.groups for batch in batches]
    lives = Lives(steps)
    stores, shared = assign_placements(steps, lives, _outputs(roots), donations)
    lowered = [_lowered(batch, alike, shared) for batch in batches]
    lent = {p.input: p for p in all_placements(stores) if p.lent}
    held = {n: place.node for n, place in lent.items() if place.node is not None}
    lowered = _write_over(steps, lives, lowered, stores, donations, held)
    for place in lent.values():
        if place.lent:  # no root goes on from there: a copy costs less than a new result
            place.input, place.lent = -1, False
            head = next(n for n, p in stores[place.first].items() if p is place)
            lowered[place.first] = _lowered(batches[place.first], alike, shared - {head})
    taken = {place.input for place in all_placements(stores)}
    free = {n: leaf for leaf, n in donations.numbers.items() if n not in taken}
    lowered = _write_over(steps, lives, lowered, stores, donations, free)
    number_outputs(stores)
    return _change_all(lowered, change), stores


def _write_over(
    steps: Sequence[Sequence[Group]],
    lives: Lives,
    lowered: Sequence[Lowered],
    stores: Sequence[dict[Node, Place]],
    donations: Donations,
    held: Mapping[int, Node],
) -> list[Lowered]:
    """The kernels, those changed that write a root over what the memory of an input that is donated
    to it holds before, by the number of the input."""
    wanted = {donations.owners[n]: (n, node) for n, node in held.items() if n in donations.owners}
    places: dict[Node, Place] = {}
    for made in stores:
        places |= {root: made[root] for root in wanted.keys() & made.keys()}
    # What goes on from the memory of an input has to stay there.
    first = {root: place.first for root, place in places.items() if place.input < 0}
    old = {root: node for root, (_, node) in wanted.items() if root in first}
    changed, found = take_over(steps, lives, lowered, old, first)
    lent = {p.input: p for p in all_placements(stores) if p.lent}
    for root in found:
        place, number = places[root], wanted[root][0]
        place.output, place.input = -1, number
        if number in lent:
            lent[number].lent = False
    return changed


def _outputs(roots: Sequence[Node]) -> dict[Node, int]:
    """The distinct values that have to be computed, numbered."""
    computed = (n for n in roots if n.op.name != "input")
    return {node: number for number, node in enumerate(dict.fromkeys(computed))}


def _results(
    roots: Sequence[Node], inputs: Sequence[Node], places: dict[Node, Place]
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


def _donated(
    stores: Sequence[dict[Node, Place]], results: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    """The inputs whose memory is written to, each with the root that is there in the end."""
    numbers = sorted({place.input for place in all_placements(stores)} - {-1})
    return tuple([(n, results.index(-1 - n) if -1 - n in results else -1) for n in numbers])


def name_after_text(printed: PrintedKernel, kind: str) -> PrintedKernel:
    """Names a kernel after its text, so that equal kernels are one."""
    source = printed.source
    digest = hashlib.sha256(source.text.encode()).hexdigest()[:10]
    name = f"lz_{kind}_{digest}"
    text = _FUNCTION.sub(name, source.text)
    grids = tuple(g._replace(function=_FUNCTION.sub(name, g.function)) for g in source.grids)
    own = [n for n, _ in printed.sections]
    shared = sections_for(n for n in source.prelude if n not in own)
    needed = tuple(n for n, _ in shared) + tuple(own)
    return replace(
        printed, source=replace(source, name=name, text=text, prelude=needed, grids=grids)
    )


def gather_sections(printed: Sequence[PrintedKernel]) -> tuple[tuple[str, str], ...]:
    """Name and text of the helpers that kernels call."""
    own = {name: text for p in printed for name, text in p.sections}
    out = dict(sections_for({n for p in printed for n in p.source.prelude if n not in own}))
    out.update(own)
    return tuple(out.items())


def _launches(
    lowered: Sequence[Lowered],
    printed: Sequence[PrintedKernel],
    stores: Sequence[dict[Node, Place]],
    scratch: Sequence[list[Place]],
    inputs: Sequence[Node],
) -> tuple[list[Slot], list[Launch]]:
    slots: dict[Slot, int] = {}

    def slot(item: Slot) -> int:
        return slots.setdefault(item, len(slots))

    numbers = {node: n for n, node in enumerate(inputs)}
    for number, item in enumerate(inputs):
        slot(Slot("input", number, 0, item.nbytes))
    every = {id(p): p for made in stores for p in made.values() if p.output >= 0}
    for place in sorted(every.values(), key=lambda p: p.output):
        slot(Slot("output", place.output, 0, place.nbytes))
    launches: list[Launch] = []
    places: dict[Node, Place] = {}  # of what was stored last
    for made, text, stored, extra in zip(lowered, printed, stores, scratch, strict=True):
        places |= stored
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
        offsets = made.offsets or text.offsets
        segments = made.kernel.segments
        name, values = text.source.name, text.values
        launches.append(Launch(name, tuple(arguments), offsets, segments, values))
    return list(slots), launches


def _slot_of(place: Place) -> Slot:
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
