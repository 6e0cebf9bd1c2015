"""Where the operands and results of a contraction lie, and along which of its axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lazyt.codegen.c_family import Expressions
from lazyt.codegen.contract_axes import Groups
from lazyt.codegen.contract_spec import Place, Strides
from lazyt.ir.dtypes import DType
from lazyt.ir.index import Axis, linearize
from lazyt.ir.kernel import ContractPhase, Store
from lazyt.ir.point import Load, Var, sub_expressions
from lazyt.ir.scalar import Expr

#: Elements from one step to the next up to which a row is put together before it is turned.
_NEAR = 8


def operand_place(e: Expressions, dtype: DType, value: Expr, groups: Groups) -> Place | None:
    """Where an operand lies, if it is nothing but elements of ``dtype`` of a buffer, over its axes
    of the batch, along the panel and of k."""
    return _lies(e, dtype, value, groups) if isinstance(value, Load) else None


def result_place(e: Expressions, phase: ContractPhase) -> Place | None:
    """Where sums go, if they are stored once and as they are, over the axes of the batch, of rows
    and of columns."""
    if len(phase.epilogue) != 1:
        return None
    (store,) = phase.epilogue
    if not isinstance(store, Store) or store.guards or store.combine is not None:
        return None
    if not isinstance(store.value, Var) or store.value.name != phase.name:
        return None
    groups = (phase.batch, phase.rows, phase.columns)
    return _lies(e, phase.accumulator.compute, store, groups)


def _lies(e: Expressions, dtype: DType, item: Load | Store, groups: Groups) -> Place | None:
    """Where elements of ``dtype`` of a buffer lie, over three groups of axes."""
    buffer = e.buffers[item.buffer]
    if buffer.dtype is not dtype or buffer.role == "band":
        return None
    flat = linearize(item.index, buffer.shape)
    strides = {a: flat.coefficient(a) or 0 for axes in groups for a in axes if a.extent > 1}
    if any(atom not in strides or factor < 0 for atom, factor in flat.terms):
        return None
    found: list[Strides] = []
    for axes in groups:
        places, divisor = [], 1
        for axis in reversed([a for a in axes if a.extent > 1]):
            places.append((divisor, axis.extent, strides[axis]))
            divisor *= axis.extent
        found.append(tuple(reversed(places)))
    return Place(item.buffer, flat.const - e.origins.get(buffer.name, 0), *found)


def unit_axis(value: Expr, e: Expressions, groups: dict[str, Sequence[Axis]]) -> str | None:
    """Along which group elements of the largest operand are neighbours in memory; along ``k``, a
    few others may lie between them."""
    best: tuple[int, int, str] | None = None
    for item in sub_expressions(value):
        if not isinstance(item, Load):
            continue
        buffer = e.buffers[item.buffer]
        flat = linearize(item.index, buffer.shape)
        for label, axes in groups.items():
            last = next((a for a in reversed(axes) if a.extent > 1), None)
            step = abs(flat.coefficient(last) or 0) if last is not None else 0
            near = _NEAR if label == "k" else 1
            if 0 < step <= near and (best is None or (math.prod(buffer.shape), -step) > best[:2]):
                best = (math.prod(buffer.shape), -step, label)
    return best[2] if best else None


def store_axis(phase: ContractPhase, e: Expressions) -> str:
    """``n`` unless the outputs are contiguous along the rows."""
    for statement in phase.epilogue:
        if isinstance(statement, Store):
            flat = linearize(statement.index, e.buffers[statement.buffer].shape)
            last = next((a for a in reversed(phase.columns) if a.extent > 1), None)
            rows = next((a for a in reversed(phase.rows) if a.extent > 1), None)
            if last is not None and flat.coefficient(last) == 1:
                return "n"
            if rows is not None and flat.coefficient(rows) == 1:
                return "m"
    return "n"
