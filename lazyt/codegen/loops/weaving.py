"""Loops whose index is taken apart by a small divisor: one turn computes a whole group of it.

Elements that are put together in turn (strided windows backwards, a stack along the last axis,
pictures made larger, pixel shuffles) are chosen by the remainder of the loop's index, and read at
its quotient. Compilers make gathers under masks of that. Written out for each remainder, every
element has one source, loads are adjacent, and the stores of a group are interleaved in registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from lazyt.codegen.conv.windows import at_axes
from lazyt.codegen.loops.peeling import decided, over, straight
from lazyt.ir.index import (
    Atom,
    Axis,
    Guard,
    Guarded,
    Linear,
    Load,
    Position,
    Quotient,
    Remainder,
    axes_of,
    constant,
    data_of,
    replace_axes,
    sub_expressions,
    variable,
)
from lazyt.ir.kernel import Phase, Statement, Store
from lazyt.ir.scalar import Expr

#: Largest divisor; most statements of a loop, and of phases for parts; least groups along an axis.
MOST_REMAINDERS, MOST_STATEMENTS, MOST_OF_PARTS, LEAST_GROUPS = 4, 32, 64, 8


def weave(phase: Phase) -> list[Phase]:
    """The phase as one or a few without remainders of its last axes; alone where it has none.

    The last axis becomes groups, with what is left over in a phase of its own. Conditions on a
    remainder of the axis before become phases, one for each remainder. Folds along columns that
    are put together from a few parts become a phase for each part.
    """
    if phase.lanes != "grid" or not phase.grid or _reads_by_value(phase):
        return [phase]
    if not straight(phase):
        return _parts(phase)
    out = [phase]
    if len(phase.grid) > 1:
        place = len(phase.grid) - 2
        divisor = _divisor(phase.grid[place], _conditions(phase))
        if divisor:
            out = [_every(phase, place, divisor, rest) for rest in range(divisor)]
    return [piece for part in out for piece in _groups(part)]


def _groups(phase: Phase) -> list[Phase]:
    """Whole groups of the last axis, and what is left over; an axis of few elements that are chosen
    one by one is one group."""
    axis, place = phase.grid[-1], len(phase.grid) - 1
    short = 1 < axis.extent <= MOST_REMAINDERS and len(phase.grid) > 1
    if short and phase.grid[-2].extent >= LEAST_GROUPS:
        chosen = any(axis in axes_of(index) for index in _conditions(phase))
        divisor = axis.extent if chosen else 0
    else:
        divisor = _divisor(axis, _indices(phase))
    statements = sum(len(stage.body) for stage in phase.stages)
    if not divisor or divisor * statements > MOST_STATEMENTS:
        return [phase]
    whole = axis.extent // divisor
    group = Axis(axis.name, whole)
    first = variable(group) * divisor if whole > 1 else constant(0)
    stages = []
    for stage in phase.stages:
        body: list[Statement] = []
        for rest in range(divisor):
            body += [_at(s, {axis: first + rest}, f"_{rest}") for s in stage.body]
        stages.append(replace(stage, body=tuple(body)))
    grid = (*phase.grid[:-1], group) if whole > 1 else phase.grid[:-1]
    made = replace(phase, grid=grid, stages=tuple(stages), work=phase.work * divisor)
    if whole * divisor == axis.extent:
        return [made]
    return [made, over(phase, place, whole * divisor, axis.extent)]


def _parts(phase: Phase) -> list[Phase]:
    """A phase for each value of a short axis on which alone conditions depend, other than the last:
    compilers leave large loops as they are, and test every element."""
    statements = sum(len(stage.body) for stage in phase.stages)
    for place, axis in enumerate(phase.grid[:-1]):
        if not 1 < axis.extent <= MOST_REMAINDERS or axis.extent * statements > MOST_OF_PARTS:
            continue
        bounded = any(s.guard and axis in axes_of(s.guard.index) for s in phase.stages)
        if not bounded and any(axes_of(index) == {axis} for index in _conditions(phase)):
            return [_every(phase, place, axis.extent, value) for value in range(axis.extent)]
    return [phase]


def _every(phase: Phase, place: int, divisor: int, rest: int) -> Phase:
    """The points of one remainder along an axis of the grid."""
    axis = phase.grid[place]
    part = Axis(axis.name, -(-(axis.extent - rest) // divisor))
    table = {axis: variable(part) * divisor + rest}
    grid = (*phase.grid[:place], part, *phase.grid[place + 1 :])
    stages = tuple(replace(s, body=tuple(_at(b, table) for b in s.body)) for s in phase.stages)
    return replace(phase, grid=grid, stages=stages)


def _divisor(axis: Axis, indices: Iterator[Linear]) -> int:
    """The one small number by which ``axis`` is divided, 0 if there is none or too little of it."""
    found = {
        atom.divisor
        for index in indices
        for atom in _atoms(index)
        if isinstance(atom, Quotient | Remainder) and atom.value.coefficient(axis) == 1
    }
    divisor = max(found, default=0)
    small = 1 < divisor <= MOST_REMAINDERS and all(divisor % other == 0 for other in found)
    return divisor if small and axis.extent >= LEAST_GROUPS * divisor else 0


def _atoms(index: Linear) -> Iterator[Atom]:
    """All atoms of an index, those inside of others too."""
    for atom, _ in index.terms:
        yield atom
        if isinstance(atom, Quotient | Remainder):
            yield from _atoms(atom.value)


def _values(phase: Phase) -> Iterator[Expr]:
    for stage in phase.stages:
        for statement in stage.body:
            yield from sub_expressions(statement.value)


def _conditions(phase: Phase) -> Iterator[Linear]:
    """The indices that decide what is read."""
    for item in _values(phase):
        if isinstance(item, Guarded):
            yield from (guard.index for guard in item.guards)


def _indices(phase: Phase) -> Iterator[Linear]:
    """All indices that values are read at or chosen by."""
    yield from _conditions(phase)
    for item in _values(phase):
        if isinstance(item, Load):
            yield from item.index
        elif isinstance(item, Position):
            yield item.index


def _reads_by_value(phase: Phase) -> bool:
    """Whether an index is a value that the phase computes, known by its name only."""
    stores = (s for stage in phase.stages for s in stage.body if isinstance(s, Store))
    places = (index for store in stores for index in store.index)
    return any(data_of(index) for index in (*_indices(phase), *places))


def _at(statement: Statement, table: Mapping[Axis, Linear], suffix: str = "") -> Statement:
    """A statement at other indices, the names it gives and reads ending in ``suffix``."""
    value = decided(at_axes(statement.value, table), suffix)
    if isinstance(statement, Store):
        index = tuple(replace_axes(i, table) for i in statement.index)
        guards = tuple(Guard(replace_axes(g.index, table), g.low, g.high) for g in statement.guards)
        return replace(statement, value=value, index=index, guards=guards)
    return replace(statement, value=value, name=statement.name + suffix)
