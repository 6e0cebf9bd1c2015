"""Lowers sorting: the operand into memory unless it lies there, then one call for all rows."""

from __future__ import annotations

from lazyt.codegen.emitter import Buffers, Emitter
from lazyt.ir.dtypes import DType, int64
from lazyt.ir.graph import Node
from lazyt.ir.group import Group
from lazyt.ir.index import Axis, variable
from lazyt.ir.kernel import AnyPhase, Buffer, CallPhase, Phase, Stage, Store


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
