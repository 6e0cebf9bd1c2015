"""Takes the borders off: points whose conditions fail get loops of their own.

Where a window reaches beyond its input, every element is tested, although the tests fail only at
the edges of the picture. Loads under a condition that lie two apart are not even vectorised. The
inside of the grid, where each test is known to hold, becomes a phase without them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lazyt.codegen.slide import at_axes
from lazyt.ir.index import Axis, Linear, replace_axes, variable
from lazyt.ir.kernel import Let, Phase, Statement, Store
from lazyt.ir.point import Guard, Guarded, Load, sub_expressions

#: Shortest inside that is worth loops of its own, and its least share of the axis.
LEAST_INSIDE, LEAST_SHARE = 8, 0.5


def peel(phase: Phase) -> list[Phase]:
    """The phase as one for its inside and some for its borders; alone where that gains nothing.

    Only straight-line phases whose lanes run along the grid are taken apart, on their last two
    axes, and only where elements are read under conditions that are not adjacent.
    """
    if phase.lanes != "grid" or not phase.grid or not straight(phase) or not _has_gaps(phase):
        return [phase]
    inside, borders = phase, list[Phase]()
    for place in range(len(phase.grid) - 1, max(len(phase.grid) - 3, -1), -1):
        axis = phase.grid[place]
        low, high = _inside(axis, inside)
        if (low, high) == (0, axis.extent):
            continue
        if high - low < max(LEAST_INSIDE, LEAST_SHARE * axis.extent):
            return [phase]
        for begin, end in ((0, low), (high, axis.extent)):
            if begin < end:
                borders.append(over(inside, place, begin, end))
        inside = over(inside, place, low, high)
    return [inside, *borders]


def straight(phase: Phase) -> bool:
    """Whether every point computes and stores its values, and nothing else."""
    return all(
        stage.axis is None and all(isinstance(s, Let) or _is_plain(s) for s in stage.body)
        for stage in phase.stages
    )


def _is_plain(statement: Statement) -> bool:
    return isinstance(statement, Store) and statement.combine is None


def _inside(axis: Axis, phase: Phase) -> tuple[int, int]:
    """Where all conditions on the axis alone hold."""
    low, high = 0, axis.extent
    for guard in (guard for item in _guarded(phase) for guard in item.guards):
        factor = guard.index.coefficient(axis)
        if factor is None or factor <= 0 or guard.index.terms != ((axis, factor),):
            continue
        low = max(low, -(-(guard.low - guard.index.const) // factor))
        high = min(high, -(-(guard.high - guard.index.const) // factor))
    return low, max(low, high)


def _guarded(phase: Phase) -> Iterator[Guarded]:
    """What is read under conditions."""
    for stage in phase.stages:
        for statement in stage.body:
            yield from (i for i in sub_expressions(statement.value) if isinstance(i, Guarded))


def _has_gaps(phase: Phase) -> bool:
    """Whether elements that lie apart along the last axis are read under conditions."""
    last = phase.grid[-1]
    inner = (item for g in _guarded(phase) for item in sub_expressions(g.value))
    loads = [item for item in inner if isinstance(item, Load) and item.index]
    steps = [item.index[-1].coefficient(last) for item in loads]
    return any(step is not None and step > 1 for step in steps)


def over(phase: Phase, place: int, begin: int, end: int) -> Phase:
    """The phase from ``begin`` to before ``end`` of one axis of its grid."""
    axis = phase.grid[place]
    part = Axis(axis.name, end - begin)
    table = {axis: variable(part) + begin}
    grid = (*phase.grid[:place], part, *phase.grid[place + 1 :])
    stages = tuple(replace(s, body=tuple(_moved(b, table) for b in s.body)) for s in phase.stages)
    return replace(phase, grid=grid, stages=stages)


def _moved(statement: Statement, table: dict[Axis, Linear]) -> Statement:
    """A statement at other indices."""
    value = at_axes(statement.value, table)
    if isinstance(statement, Store):
        index = tuple(replace_axes(i, table) for i in statement.index)
        guards = tuple(Guard(replace_axes(g.index, table), g.low, g.high) for g in statement.guards)
        return replace(statement, value=value, index=index, guards=guards)
    return replace(statement, value=value)
