"""From a fused group to a Kernel: the group's kind decides the form."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lazyt.codegen.conv.windows import at_axes
from lazyt.codegen.lower.emitter import Buffers, Emitter, indices_of
from lazyt.codegen.lower.heavy import lower_contract, lower_scan, lower_scatter, lower_update
from lazyt.codegen.lower.rows import lower_band_rows, lower_rows
from lazyt.codegen.lower.wide import (
    scan_in_blocks,
    scans_in_blocks,
    scatter_at_once,
    scatters_at_once,
    shares_of,
)
from lazyt.errors import InternalError, LazytError
from lazyt.ir.dtypes import DType, int64
from lazyt.ir.factorizations.sizes import grid_work_size as room_for_grid
from lazyt.ir.factorizations.sizes import sizes_of
from lazyt.ir.factorizations.sizes import work_size as room_for_matrices
from lazyt.ir.fourier.tables import (
    grid_work_size,
    pack_stages,
    plan_of,
    row_sizes,
    work_size,
)
from lazyt.ir.graph import Node, source_text
from lazyt.ir.group import Group
from lazyt.ir.index import Axis, Load, delinearize, replace_axes, sub_expressions, variable
from lazyt.ir.kernel import (
    AnyPhase,
    Buffer,
    CallPhase,
    ContractPhase,
    CustomPhase,
    Kernel,
    Phase,
    Stage,
    Store,
)
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
    elif group.kind in ("scan", "scatter"):
        phases += _lower_ordered(group, buffers, in_place, wide)
    elif group.kind == "sort":
        phases += lower_sort(group, buffers)
    elif group.kind == "fourier":
        phases += lower_fourier(group, buffers, wide)
    elif group.kind == "linalg":
        phases += lower_linalg(group, buffers, wide)
    elif group.kind == "custom":
        phases += lower_custom(group, buffers)
    elif group.kind == "band":
        phases += lower_band(group, buffers, unroll, whole)
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


def _lower_ordered(
    group: Group, buffers: Buffers, in_place: bool, wide: bool
) -> Sequence[AnyPhase]:
    """Scans and scatters: in order, except where thousands of threads may go in any."""
    head = group.head
    assert head is not None
    scans = [item for item in group.members if item.op.name == "scan"]
    is_scan = head in scans
    at_once = wide and all(map(scans_in_blocks, scans))
    if at_once and (is_scan or scatters_at_once(head, in_place)):
        phases: list[AnyPhase] = []
        for scan in scans:
            phases += scan_in_blocks(scan, buffers)
        return phases if is_scan else [*phases, *scatter_at_once(head, buffers, in_place)]
    if is_scan:
        return lower_scan(group, buffers)
    return lower_scatter(group, buffers, in_place, shares_of(head) if wide else 1)


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
    if node.op.name == "custom":
        kind = node.params.name
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


# Lowers sorting: the operand into memory unless it lies there, then one call for all rows.


def lower_sort(group: Group, buffers: Buffers) -> list[AnyPhase]:
    """Sorted values, the permutation, or both at once when the group has both."""
    node = group.head
    assert node is not None
    source = node.inputs[0]
    phases: list[AnyPhase] = []
    if source in buffers.external:
        read = buffers.of(source)
    else:
        read = _scratch(buffers, source.dtype, source.shape)
        phases.append(_fill(read, source, buffers))
    kinds = {member.params.kind: buffers.of(member).name for member in group.members}
    writes = tuple(kinds[kind] for kind in ("values", "order") if kind in kinds)
    if "order" in kinds:
        work = [_scratch(buffers, source.dtype, (2, *source.shape))]
        work.append(_scratch(buffers, int64, source.shape))
    else:
        work = [_scratch(buffers, source.dtype, source.shape)]
    routine = "sort_both" if len(writes) == 2 else f"sort_{node.params.kind}"
    settings = (("descending", int(node.params.descending)),)
    names = tuple(b.name for b in work)
    phases.append(CallPhase(routine, (read.name,), writes, names, settings))
    return phases


def _in_memory(node: Node, buffers: Buffers) -> tuple[list[AnyPhase], list[str]]:
    """The buffers that have the operands of a routine, and what computes them there."""
    phases: list[AnyPhase] = []
    reads: list[str] = []
    for source in node.inputs:
        if source in buffers.external:
            read = buffers.of(source)
        else:
            read = _scratch(buffers, source.dtype, source.shape)
            phases.append(_fill(read, source, buffers))
        reads.append(read.name)
    return phases, reads


# Lowers Fourier transforms: operands into memory unless they lie there, then one call for all rows.


def lower_fourier(group: Group, buffers: Buffers, wide: bool = False) -> list[AnyPhase]:
    """The transforms of all rows; ``wide``: for thousands of threads."""
    node = group.head
    assert node is not None
    phases, reads = _in_memory(node, buffers)
    kind, sign, n, _ = node.params
    plan = plan_of(kind, n)
    assert plan is not None
    count = node.size // row_sizes(kind, n)[1]
    size = grid_work_size if wide else work_size
    work = _scratch(buffers, node.dtype, (size(kind, count, n, node.dtype),))
    settings = (
        ("points", n), ("rows", plan.a), ("columns", plan.b), ("first", pack_stages(plan.first)),
        ("second", pack_stages(plan.second)), ("whole", int(plan.whole)), ("sign", sign),
    )  # fmt: skip
    written = (buffers.of(node).name,)
    phases.append(CallPhase(f"fourier_{kind}", tuple(reads), written, (work.name,), settings))
    return phases


# Lowers factorizations: the same, and one call for all matrices.


def lower_linalg(group: Group, buffers: Buffers, wide: bool = False) -> list[AnyPhase]:
    """One call for the whole batch; ``wide``: for thousands of threads."""
    node = group.head
    assert node is not None
    phases, reads = _in_memory(node, buffers)
    routine, mode = node.params
    shapes = [source.shape for source in node.inputs]
    sizes = sizes_of(routine, shapes, node.shape[-1], node.dtype)
    batch = math.prod(node.shape[:-1])
    room = room_for_grid if wide else room_for_matrices
    work = _scratch(buffers, node.dtype, (room(sizes, batch, node.dtype),))
    sides = shapes[1][-1] if len(shapes) > 1 else 0
    settings = (
        ("batch", batch), ("rows", shapes[0][-2]), ("columns", shapes[0][-1]), ("sides", sides),
        ("results", sizes.results), ("scratch", sizes.scratch),
    )  # fmt: skip
    written = (buffers.of(node).name,)
    name = f"linalg_{routine}_{mode}"
    phases.append(CallPhase(name, tuple(reads), written, (work.name,), settings))
    return phases


# Lowers kernels of users' own: operands into memory unless they lie there, then one call.


def lower_custom(group: Group, buffers: Buffers) -> list[AnyPhase]:
    """A call of a user's kernel; results that nobody asked for go to scratch."""
    node = group.head
    assert node is not None
    params = node.params
    phases: list[AnyPhase] = []
    filled: dict[Node, Buffer] = {}
    for source in node.inputs:
        if source in buffers.external:
            filled[source] = buffers.of(source)
        elif source not in filled:
            filled[source] = _scratch(buffers, source.dtype, source.shape)
            phases.append(_fill(filled[source], source, buffers))
    stored = {m.params.result: m for m in group.members if m in buffers.stored}
    writes: list[str] = []
    for number, (shape, dtype) in enumerate(zip(params.shapes, params.dtypes, strict=True)):
        whole = (params.examples, *shape) if params.examples else shape
        made = stored.get(number)
        into = buffers.of(made) if made is not None else _scratch(buffers, dtype, whole)
        writes.append(into.name)
    phases.append(
        CustomPhase(
            params.function,
            tuple(filled[source].name for source in node.inputs),
            tuple(writes),
            label=params.name,
            text=params.text,
            used=params.used,
            slots=params.slots,
            batched=params.batched,
            examples=params.examples,
            grid=params.grid,
        )
    )
    group.reasons.append(f"{params.name}: a kernel of the user's; nothing is fused into it")
    return phases


def _scratch(buffers: Buffers, dtype: DType, shape: tuple[int, ...]) -> Buffer:
    """Scratch of a storage type: routines take elements as they are stored."""
    made = buffers.scratch(dtype, shape)
    buffers.work[-1] = stored = Buffer(made.name, dtype, shape, made.role)
    return stored


def _fill(target: Buffer, source: Node, buffers: Buffers) -> Phase:
    emitter = Emitter(buffers, (), None, keep=False)
    axes = tuple(Axis(f"i{n}", extent) for n, extent in enumerate(source.shape))
    place = tuple(variable(a) for a in axes)
    value = emitter.evaluate(source, place)
    emitter.place(Store(target.name, place, value), 0, False)
    return Phase(axes, (Stage(None, tuple(emitter.straight[0])),), "grid", 2.0)


# Lowers bands: groups that hand rows to each other, as the phases of one kernel.


def lower_band(group: Group, buffers: Buffers, unroll: int, whole: bool) -> list[AnyPhase]:
    """The phases of a band's stages; what nobody else reads becomes scratch of the band."""
    read = {node for stage in group.stages for node in stage.group.reads}
    for node in (node for stage in group.stages for node in stage.group.stored):
        if node in read and node not in group.stored:
            buffers.band(node)
    phases: list[AnyPhase] = []
    if group.bands is not None and group.bands.rows == 1:
        for stage in group.stages:
            phases += _lower_matrices(stage.group, buffers, unroll, whole)
        return phases
    for stage in group.stages:
        if stage.group.kind == "contract":
            (made,) = lower_contract(stage.group, buffers, stage.exchanged)
            phases += _with_rows_at_hand(made, buffers)
        else:
            phases += lower_band_rows(stage.group, buffers)
    return phases


def _lower_matrices(group: Group, buffers: Buffers, unroll: int, whole: bool) -> list[AnyPhase]:
    """The phases of a stage that goes over the matrices of a batch; all scratch is the band's."""
    fixed = len(buffers.work)
    found: list[AnyPhase] = []
    if group.kind == "linalg":
        found += lower_linalg(group, buffers)
    elif group.kind == "contract":
        assert group.head is not None
        params = group.head.params
        found += lower_contract(group, buffers, params.out[0] not in params.left)
    else:
        found += lower_rows(group, buffers, unroll, whole)
    buffers.work[fixed:] = [replace(b, role="band") for b in buffers.work[fixed:]]
    return found


def _with_rows_at_hand(phase: ContractPhase, buffers: Buffers) -> list[ContractPhase | Phase]:
    """The contraction; where its left operand is more than a load from scratch, behind a phase that
    computes it there. Register tiles then read rows where they lie."""
    loads = {e.buffer for e in sub_expressions(phase.left) if isinstance(e, Load)}
    mine = {b.name for b in buffers.known.values() if b.role == "band"}
    dtype = phase.accumulator
    at_hand = isinstance(phase.left, Load) or not loads & mine
    if at_hand or len(phase.inner) != 1 or dtype.is_half or phase.left.dtype is not dtype:
        return [phase]
    axes = (*phase.batch, *phase.rows, *phase.inner)
    made = buffers.loose_band(dtype, tuple(a.extent for a in axes))
    index = tuple(variable(a) for a in axes)
    extents = tuple(a.extent for a in axes[:-1])
    row = Axis("row", math.prod(extents))
    table = dict(zip(axes[:-1], delinearize(variable(row), extents), strict=True))
    place = tuple(replace_axes(i, table) for i in index)
    stage = Stage(phase.inner[0], (Store(made.name, place, at_axes(phase.left, table)),))
    before = Phase((row,), (stage,), "inner", 2.0 * phase.inner[0].extent)
    return [before, replace(phase, left=Load(made.name, index, dtype))]
