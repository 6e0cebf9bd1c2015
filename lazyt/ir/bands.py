"""Rows of a kernel that runs band by band: what counts as a row, and who stays in his own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from lazyt.ir.index import Axis, Linear, linearize, variable
from lazyt.ir.kernel import AnyPhase, Bands, ContractPhase, Kernel, Phase, Statement, Store
from lazyt.ir.point import Load, sub_expressions

#: Times a core's cache up to which all bands may read the right operands of a kernel from the next
#: level. Where these are larger, bands have as many rows as a block of a plain product, so that
#: each of their elements is read as rarely.
PANELS = 8
#: Rows of such a block, or a few less.
BLOCK_ROWS = 96


def row_of(axes: Sequence[Axis]) -> Linear:
    """The number of the row at a point of some axes, row-major."""
    return linearize(tuple(variable(a) for a in axes), tuple(a.extent for a in axes))


def in_own_row(index: Sequence[Linear], shape: Sequence[int], row: Linear, rows: int) -> bool:
    """Whether an index into a value of ``shape`` stays in the share of row ``row`` of ``rows``."""
    size = math.prod(shape)
    if not rows or size % rows:
        return False
    width = size // rows
    low, high = (linearize(tuple(index), tuple(shape)) - row * width).bounds
    return low >= 0 and high < width


def band_complaints(kernel: Kernel) -> Iterator[tuple[object, str]]:
    """What forbids a kernel's bands, with the phase that it is about."""
    bands = kernel.bands
    mine = {b.name: b.shape for b in kernel.buffers if b.role == "band"}
    if bands is None:
        if mine:
            yield kernel, "a kernel without bands has no band buffers"
        return
    for phase in kernel.phases:
        axes = _row_axes(phase, bands)
        if axes is None:
            yield phase, f"the phase does not go over {bands.points} times {bands.rows} rows"
            continue
        row = row_of(axes)
        for name, index in _accesses(phase):
            if name in mine and not in_own_row(index, mine[name], row, bands.points * bands.rows):
                yield phase, f"{name} is not used in the phase's own row only"


def _row_axes(phase: AnyPhase, bands: Bands) -> tuple[Axis, ...] | None:
    """The axes that count a phase's rows; None where they are others than the bands'."""
    if isinstance(phase, ContractPhase):
        found = (math.prod(a.extent for a in phase.batch), math.prod(a.extent for a in phase.rows))
        return (*phase.batch, *phase.rows) if found == (bands.points, bands.rows) else None
    if not isinstance(phase, Phase) or phase.lanes != "inner":
        return None
    points = math.prod(a.extent for a in phase.grid)
    return phase.grid if points == bands.points * bands.rows else None


def _accesses(phase: AnyPhase) -> Iterator[tuple[str, tuple[Linear, ...]]]:
    """Buffers and indices of all loads and stores."""
    statements: Sequence[Statement] = ()
    values = []
    if isinstance(phase, ContractPhase):
        statements, values = phase.epilogue, [phase.left, phase.right]
    elif isinstance(phase, Phase):
        statements = [s for stage in phase.stages for s in stage.body]
    for statement in statements:
        values.append(statement.value)
        if isinstance(statement, Store):
            yield statement.buffer, statement.index
    for value in values:
        for item in sub_expressions(value):
            if isinstance(item, Load):
                yield item.buffer, item.index
