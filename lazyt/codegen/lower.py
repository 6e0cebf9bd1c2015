"""From a fused group to a Kernel: the group's kind decides the form, see ``lower_*.py``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lazyt.codegen.emitter import Buffers, indices_of
from lazyt.codegen.lower_bands import lower_band
from lazyt.codegen.lower_heavy import lower_contract, lower_scan, lower_scatter, lower_update
from lazyt.codegen.lower_rows import lower_rows
from lazyt.codegen.lower_sort import lower_sort
from lazyt.errors import InternalError, LazytError
from lazyt.ir.graph import Node, source_text
from lazyt.ir.group import Group
from lazyt.ir.index import Axis
from lazyt.ir.kernel import AnyPhase, Buffer, CallPhase, ContractPhase, Kernel
from lazyt.ir.point import Load, sub_expressions
from lazyt.ir.scalar import Call


@dataclass(frozen=True)
class Lowered:
    """A kernel and what each of its buffers holds: a node, or None for scratch.

    Of a kernel with segments: in those of the first segment, then those of the second, and so on.
    ``offsets`` are the bytes from the beginning of each to what the kernel uses. ``replaced``: of
    an ``inout`` buffer's node, the value that the buffer holds before.
    """

    kernel: Kernel
    arguments: tuple[Node | None, ...]
    offsets: tuple[int, ...] = ()
    replaced: Mapping[Node, Node] = field(default_factory=dict, compare=False)


def lower_group(
    group: Group, unroll: int, in_place: bool = False, whole: bool = False, wide: bool = False
) -> Lowered:
    """The kernel of a group.

    ``unroll``: longest reduction that is written out. ``in_place``: the head's base may be
    overwritten, so its result starts out in the same buffer (update and scatter). ``whole``:
    reductions are one loop, however short or long. ``wide``: for thousands of threads.
    """
    buffers = Buffers(group.reads, list(group.stored))
    phases: list[AnyPhase] = []
    if group.kind in ("map", "row"):
        phases += lower_rows(group, buffers, unroll, whole, wide)
    elif group.kind == "contract":
        phases += lower_contract(group, buffers)
    elif group.kind == "update":
        phases += lower_update(group, buffers, in_place)
    elif group.kind == "scatter":
        phases += lower_scatter(group, buffers, in_place)
    elif group.kind == "scan":
        phases += lower_scan(group, buffers)
    elif group.kind == "sort":
        phases += lower_sort(group, buffers)
    elif group.kind == "band":
        phases += lower_band(group, buffers)
    elif group.kind == "library":
        raise LazytError(
            "a library call is not compiled: a graph with one runs in steps, and only the graphs "
            "before and after it become kernels"
        )
    else:
        raise InternalError("codegen.lower", f"no kernel form for groups of {group.kind}")
    used = _used_buffers(phases)
    declared: list[tuple[Buffer, Node | None]] = [
        (b, n) for n, b in buffers.known.items() if b.name in used
    ]
    declared += [(b, None) for b in buffers.work if b.name in used]
    order = {"in": 0, "inout": 1, "out": 2, "work": 3, "band": 4}
    declared.sort(key=lambda pair: (order[pair[0].role], int(pair[0].name[1:])))
    if in_place and group.head is not None:
        declared = [
            (Buffer(b.name, b.dtype, b.shape, "inout") if n is group.head else b, n)
            for b, n in declared
        ]
    arguments = tuple(None if b.role == "work" else n for b, n in declared if b.role != "band")
    notes = facts(group) | {"flops": _flops(phases), "phases": len(phases)}
    given = tuple(b for b, _ in declared)
    kernel = Kernel("lz_kernel", given, tuple(phases), notes, bands=group.bands)
    head = group.head
    replaced = {head: head.inputs[0]} if in_place and head is not None else {}
    return Lowered(kernel, arguments, replaced=replaced)


def _used_buffers(phases: list[AnyPhase]) -> set[str]:
    """Names of the buffers that anything loads or stores."""
    used: set[str] = set()
    for phase in phases:
        if isinstance(phase, CallPhase):
            used |= {*phase.reads, *phase.writes, *phase.work}
            continue
        if isinstance(phase, ContractPhase):
            statements = list(phase.epilogue)
            for operand in (phase.left, phase.right):
                used |= {e.buffer for e in sub_expressions(operand) if isinstance(e, Load)}
        else:
            statements = [s for stage in phase.stages for s in stage.body]
        for statement in statements:
            used |= {name for name, _ in indices_of(statement) if name is not None}
    return used


def _extent(axes: Iterable[Axis]) -> int:
    return math.prod(a.extent for a in axes)


def _flops(phases: list[AnyPhase]) -> float:
    """Arithmetic operations of all phases, functions counted at their cost; calls have none."""
    total = 0.0
    for phase in phases:
        if isinstance(phase, CallPhase):
            continue
        if isinstance(phase, ContractPhase):
            outer = _extent((*phase.batch, *phase.rows, *phase.columns))
            total += 2.0 * outer * _extent(phase.inner)
            bodies = [(outer, phase.epilogue)]
        else:
            points = _extent(phase.grid)
            bodies = [
                (points * (s.axis.extent if s.axis is not None else 1), s.body)
                for s in phase.stages
            ]
        for times, body in bodies:
            for statement in body:
                calls = [e for e in sub_expressions(statement.value) if isinstance(e, Call)]
                total += times * (sum(e.fn.cost for e in calls) + (not calls))
    return total


def _title(node: Node) -> str:
    """The op, and which one of its kind: ``reduce sum``."""
    kind: str = getattr(node.params, "kind", "")
    return f"{node.op.name} {kind}".rstrip()


def facts(group: Group) -> dict[str, object]:
    """What ``explain()`` says about a group, whatever its kernel is."""
    sources = list(
        dict.fromkeys(source_text(m.source) for m in group.members if m.source is not None)
    )
    return {
        "kind": group.kind,
        "computes": [f"{_title(m)} {m.dtype.name}{list(m.shape)}" for m in group.stored],
        "bytes_read": sum(n.nbytes for n in group.reads),
        "bytes_written": sum(n.nbytes for n in group.stored),
        "reasons": list(group.reasons),
        "sources": sources,
        **({"again": True} if group.again else {}),
    }
