"""Lowers bands: groups that hand rows to each other, as the phases of one kernel."""

from __future__ import annotations

import math
from dataclasses import replace

from lazyt.codegen.conv.windows import at_axes
from lazyt.codegen.lower.emitter import Buffers
from lazyt.codegen.lower.heavy import lower_contract
from lazyt.codegen.lower.rows import lower_band_rows
from lazyt.ir.group import Group
from lazyt.ir.index import Axis, Load, delinearize, replace_axes, sub_expressions, variable
from lazyt.ir.kernel import AnyPhase, ContractPhase, Phase, Stage, Store


def lower_band(group: Group, buffers: Buffers) -> list[AnyPhase]:
    """The phases of a band's stages; what nobody else reads becomes scratch of the band."""
    read = {node for stage in group.stages for node in stage.group.reads}
    for node in (node for stage in group.stages for node in stage.group.stored):
        if node in read and node not in group.stored:
            buffers.band(node)
    phases: list[AnyPhase] = []
    for stage in group.stages:
        if stage.group.kind == "contract":
            (made,) = lower_contract(stage.group, buffers, stage.exchanged)
            phases += _with_rows_at_hand(made, buffers)
        else:
            phases += lower_band_rows(stage.group, buffers)
    return phases


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
