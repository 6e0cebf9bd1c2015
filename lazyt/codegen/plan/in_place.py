"""Results that take over the memory of what they are computed from.

A step of training replaces parameters by functions of themselves, element by element. Where nobody
needs the old values any more, the kernel writes element i over the element i that it has just read:
half the memory, and half of what passes through the caches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from lazyt.codegen.lower.groups import Lowered
from lazyt.codegen.plan.memory import Lives
from lazyt.ir.graph import Node
from lazyt.ir.group import Group
from lazyt.ir.index import Guarded, Load, Var, data_of, sub_expressions
from lazyt.ir.kernel import Buffer, CallPhase, ContractPhase, Kernel, Let, Phase, Statement, Store
from lazyt.ir.scalar import Call, Expr


def take_over(
    steps: Sequence[Sequence[Group]],
    lives: Lives,
    lowered: Sequence[Lowered],
    wanted: Mapping[Node, Node],
    first: Mapping[Node, int],
) -> tuple[list[Lowered], set[Node]]:
    """The kernels, and the results that are written over what they replace.

    Args:
        steps: the groups of each launch, in order.
        lives: which launches store and read values.
        lowered: the kernel of each launch.
        wanted: by the result that is to have it, the value that is in the memory before. It may be
            overwritten once it is read.
        first: the launch from which on the result, or what it is written over itself, is in memory.
    """
    made = list(lowered)
    found: set[Node] = set()
    for step, kernel in enumerate(lowered):
        pairs: dict[Node, Node] = {}
        for root, old in wanted.items():
            if lives.stored.get(root) != [step] or len(lives.stored.get(old, ())) > 1:
                continue
            end = lives.end_of_last(old)
            if end < first[root]:  # read by earlier launches only: it is free
                found.add(root)
            elif end == step == first[root]:
                pairs[root] = old
        done, made[step] = _share(kernel, pairs)
        found |= done
    return made, found


def _share(made: Lowered, pairs: Mapping[Node, Node]) -> tuple[set[Node], Lowered]:
    """The results among ``pairs`` that are written over their old values, and the kernel in which
    they are."""
    arity = len(made.kernel.arguments)
    count = max(1, len(made.kernel.segments))
    together: dict[tuple[int, int], dict[Node, Node]] = {}
    for root, leaf in pairs.items():
        outs = [n for n, node in enumerate(made.arguments) if node is root]
        ins = [n for n, node in enumerate(made.arguments) if node is leaf]
        if len(outs) == len(ins) == 1 and outs[0] // arity == ins[0] // arity:
            together.setdefault((ins[0] % arity, outs[0] % arity), {})[root] = leaf
    done: dict[Node, Node] = {}
    gone: set[int] = set()
    kernel = made.kernel
    for (old, new), members in together.items():
        if old not in gone and len(members) == count and _have_equal_offsets(made, old, new):
            changed = _merged(kernel, made.kernel.arguments[old], made.kernel.arguments[new])
            if changed is not None:
                kernel, done = changed, done | members
                gone.add(old)
    if not gone:
        return set(), made
    left = [n for n in range(len(made.arguments)) if n % arity not in gone]
    offsets = tuple([made.offsets[n] for n in left]) if made.offsets else ()
    arguments = tuple([made.arguments[n] for n in left])
    return {*done}, Lowered(kernel, arguments, offsets, {**made.replaced, **done})


def _have_equal_offsets(made: Lowered, old: int, new: int) -> bool:
    arity = len(made.kernel.arguments)
    places = range(0, len(made.offsets), arity)
    return all(made.offsets[n + old] == made.offsets[n + new] for n in places)


@dataclass(frozen=True)
class _Access:
    """How a phase that writes a buffer reads the one whose memory it takes over.

    Attributes:
        body: number of the list of statements that writes.
        late: whether the old value is read in a statement behind the one that writes.
    """

    body: int
    late: bool


def _merged(kernel: Kernel, old: Buffer, new: Buffer) -> Kernel | None:
    """The kernel that writes ``new`` over ``old``; None where it reads elements of ``old`` after
    they may have been written."""
    if (old.role, new.role) != ("in", "out") or (old.dtype, old.shape) != (
        new.dtype,
        new.shape,
    ):
        return None
    phases = list(kernel.phases)
    wrote = False
    for number, phase in enumerate(phases):
        if isinstance(phase, CallPhase):
            if {old.name, new.name} & {*phase.reads, *phase.writes, *phase.work}:
                return None
            continue
        writes = any(
            isinstance(s, Store) and s.buffer == new.name for body in _bodies(phase) for s in body
        )
        reads = any(s.buffer == old.name for body in _bodies(phase) for s in _loads(body))
        if wrote and (reads or writes):
            return None
        if reads and not writes and kernel.bands is not None:  # other rows are written by then
            return None
        if writes:
            wrote = True
            found = _access(phase, old, new)
            if found is None:
                return None
            if found.late:
                phase = _read_early(phase, found, old, f"old{number}_{new.name}")
        phases[number] = _renamed(phase, old, new)
    if not wrote:
        return None
    buffers = tuple(
        replace(b, role="inout") if b.name == new.name else b
        for b in kernel.buffers
        if b.name != old.name
    )
    notes = dict(kernel.notes)
    reasons = notes.get("reasons")
    if isinstance(reasons, list):
        line = f"{new.name} is written over the old value"
        notes["reasons"] = [*reasons, line]
    return replace(kernel, buffers=buffers, phases=tuple(phases), notes=notes)


def _bodies(phase: Phase | ContractPhase) -> list[Sequence[Statement]]:
    """The statements of a phase, stage by stage."""
    if isinstance(phase, ContractPhase):
        return [(Let("left", phase.left), Let("right", phase.right)), phase.epilogue]
    return [stage.body for stage in phase.stages]


def _loads(body: Sequence[Statement]) -> Iterator[Load]:
    for statement in body:
        for item in sub_expressions(statement.value):
            if isinstance(item, Load):
                yield item


def _access(phase: Phase | ContractPhase, old: Buffer, new: Buffer) -> _Access | None:
    """How the phase that writes ``new`` reads ``old``; None unless every element of it is read only
    where the one of ``new`` is written."""
    bodies = _bodies(phase)
    stores = [
        (b, n)
        for b, body in enumerate(bodies)
        for n, s in enumerate(body)
        if isinstance(s, Store) and s.buffer == new.name
    ]
    if len(stores) != 1:
        return None
    body, number = stores[0]
    store = bodies[body][number]
    assert isinstance(store, Store)
    if store.guards or store.combine is not None or any(data_of(i) for i in store.index):
        return None
    if isinstance(phase, ContractPhase):
        axes = (*phase.batch, *phase.rows, *phase.columns)
    else:
        stage = phase.stages[body]
        if stage.sequential or stage.guard is not None:
            return None
        axes = (*phase.grid, *(() if stage.axis is None else (stage.axis,)))
    if math.prod(a.extent for a in axes) != math.prod(new.shape):
        return None
    late = False
    for b, statements in enumerate(bodies):
        for n, statement in enumerate(statements):
            for load in _loads((statement,)):
                if load.buffer == old.name:
                    if b != body or load.index != store.index:
                        return None
                    late = late or n > number
    return _Access(body, late)


def _read_early(
    phase: Phase | ContractPhase, found: _Access, old: Buffer, name: str
) -> Phase | ContractPhase:
    """The phase with the old value in a name of its own before the new one is written."""
    body = list(_bodies(phase)[found.body])
    first = next(load for load in _loads(body) if load.buffer == old.name)
    early = Var(name, first.dtype)
    rest = [
        replace(s, value=mapped(s.value, lambda i: early if _reads(i, old) else i)) for s in body
    ]
    return _with_body(phase, found.body, (Let(name, first), *rest))


def _reads(item: Expr, buffer: Buffer) -> TypeGuard[Load]:
    return isinstance(item, Load) and item.buffer == buffer.name


def _with_body(
    phase: Phase | ContractPhase, number: int, body: tuple[Statement, ...]
) -> Phase | ContractPhase:
    if isinstance(phase, ContractPhase):
        return replace(phase, epilogue=body)
    stages = list(phase.stages)
    stages[number] = replace(stages[number], body=body)
    return replace(phase, stages=tuple(stages))


def _renamed(phase: Phase | ContractPhase, old: Buffer, new: Buffer) -> Phase | ContractPhase:
    """The phase, reading ``new`` for ``old``."""

    def leaf(item: Expr) -> Expr:
        return Load(new.name, item.index, item.dtype) if _reads(item, old) else item

    if isinstance(phase, ContractPhase):
        left, right = mapped(phase.left, leaf), mapped(phase.right, leaf)
        body = tuple(replace(s, value=mapped(s.value, leaf)) for s in phase.epilogue)
        return replace(phase, left=left, right=right, epilogue=body)
    stages = tuple(
        replace(stage, body=tuple(replace(s, value=mapped(s.value, leaf)) for s in stage.body))
        for stage in phase.stages
    )
    return replace(phase, stages=stages)


def mapped(root: Expr, leaf: Callable[[Expr], Expr]) -> Expr:
    """``root`` with every leaf replaced; iterative."""
    done: dict[int, Expr] = {}
    for item in sub_expressions(root):
        if isinstance(item, Call):
            args = tuple([done[id(a)] for a in item.args])
            done[id(item)] = Call(item.fn, args, item.dtype)
        elif isinstance(item, Guarded):
            value, other = done[id(item.value)], done[id(item.other)]
            done[id(item)] = Guarded(item.guards, value, other)
        else:
            done[id(item)] = leaf(item)
    return done[id(root)]
