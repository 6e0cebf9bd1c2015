"""Cuts loops where conditions change: each piece has one source for what it reads.

Where a window reaches beyond its input, every element is tested, although the tests fail only at
the edges of the picture. What is put together of parts (a roll, a concatenation, padding that
reflects) chooses a part for every element. Loads under a condition that lie two apart are not even
vectorised, and each part is another load under a mask, which takes hundreds of cycles where all of
it is masked and memory there is not mapped. A phase whose grid is cut where the tests turn has none
left to do inside.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from math import prod

from lazyt.codegen.conv.windows import at_axes
from lazyt.ir.decisions import serves_all, slack
from lazyt.ir.index import (
    Axis,
    Guard,
    Guarded,
    Linear,
    Load,
    Var,
    axes_of,
    replace_axes,
    sub_expressions,
    variable,
)
from lazyt.ir.kernel import Let, Phase, Statement, Store
from lazyt.ir.scalar import Call, Expr, call

#: Shortest piece that is worth loops of its own beside others, and the least share of an axis that
#: such pieces have to cover. A shorter one is, too, where its inner axes have so many points.
LEAST_INSIDE, LEAST_SHARE, MANY_POINTS = 8, 0.5, 512
#: Most pieces along an axis, and most statements of all pieces of a phase: twice as many where
#: each then reads one source. A statement in a loop is many lines.
MOST_PIECES, MOST_STATEMENTS, IN_LOOP = 16, 128, 4


def peel(phase: Phase) -> list[Phase]:
    """The phase as pieces, the largest first; alone where cutting gains nothing.

    Straight-line phases whose lanes run along the grid are cut where elements are read under
    conditions that are not adjacent, or chosen from several places; phases with loops only along
    the axes on which such a choice depends.
    """
    chosen = _chosen_along(phase)
    plain = straight(phase)
    if not phase.grid or (plain and phase.lanes != "grid"):
        return [phase]
    if not chosen and not (plain and _has_gaps(phase)):
        return [phase]
    if not plain and not _parts_well(phase):
        return [phase]
    pieces = [phase]
    for place in range(len(phase.grid) - 1, -1, -1):
        along = phase.grid[place] in chosen
        if not (plain or along):
            continue
        cut = [part for piece in pieces for part in _cut(piece, place)]
        if sum(map(_statements, cut)) > MOST_STATEMENTS * (2 if along else 1):
            break
        pieces = cut
    if serves_all():  # another size would put them in another order
        return pieces
    return sorted(pieces, key=lambda p: -prod(a.extent for a in p.grid))


def straight(phase: Phase) -> bool:
    """Whether every point computes and stores its values, and nothing else."""
    return all(
        stage.axis is None and all(isinstance(s, Let) or _is_plain(s) for s in stage.body)
        for stage in phase.stages
    )


def _is_plain(statement: Statement) -> bool:
    return isinstance(statement, Store) and statement.combine is None


def _parts_well(phase: Phase) -> bool:
    """Whether the points of a phase with loops do nothing that is in an order."""
    return all(
        not stage.sequential and all(_is_plain(s) or not isinstance(s, Store) for s in stage.body)
        for stage in phase.stages
    )


def _statements(phase: Phase) -> int:
    return sum(len(s.body) * (1 if s.axis is None else IN_LOOP) for s in phase.stages)


def _cut(phase: Phase, place: int) -> list[Phase]:
    """The phase in pieces along an axis of its grid. Short ones that are neighbours stay together,
    with their tests."""
    axis = phase.grid[place]
    ends = sorted({0, axis.extent, *_turns(axis, phase)})
    inner = 1 if serves_all() else prod(a.extent for a in phase.grid[place + 1 :])
    least = 1 if inner >= MANY_POINTS else LEAST_INSIDE
    pieces: list[tuple[int, int, bool]] = []
    for begin, end in pairwise(ends):
        long = end - begin >= least
        if pieces and not long and not pieces[-1][2]:
            pieces[-1] = (pieces[-1][0], end, False)
        else:
            pieces.append((begin, end, long))
    covered = sum(end - begin for begin, end, long in pieces if long)
    if not 1 < len(pieces) <= MOST_PIECES or covered < LEAST_SHARE * axis.extent:
        return [phase]
    return [over(phase, place, begin, end) for begin, end, _ in pieces]


def _turns(axis: Axis, phase: Phase) -> Iterator[int]:
    """Where along the axis a condition on it alone begins or ceases to hold."""
    for guard in (guard for item in _guarded(phase) for guard in item.guards):
        factor = guard.index.coefficient(axis)
        if not factor or guard.index.terms != ((axis, factor),):
            continue
        low, high = guard.low - guard.index.const, guard.high - guard.index.const
        if factor > 0:
            found = (-(-low // factor), -(-high // factor))
            near = slack(guard.index)
            if near and 0 <= found[1] - axis.extent <= near:
                found = (found[0], axis.extent - 1)
        else:
            found = (high // factor + 1, low // factor + 1)
        yield from (turn for turn in found if 0 < turn < axis.extent)


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


def _chosen_along(phase: Phase) -> set[Axis]:
    """The axes on which it depends from which of several places an element comes."""
    found: set[Axis] = set()
    for item in _guarded(phase):
        if any(isinstance(e, Load) for e in sub_expressions(item.other)):
            found.update(*(axes_of(guard.index) for guard in item.guards))
    return found


def over(phase: Phase, place: int, begin: int, end: int) -> Phase:
    """The phase from ``begin`` to before ``end`` of one axis of its grid, without the conditions
    that this decides."""
    axis = phase.grid[place]
    part = Axis(axis.name, end - begin)
    table = {axis: variable(part) + begin}
    grid = (*phase.grid[:place], part, *phase.grid[place + 1 :])
    stages = tuple(
        replace(
            s,
            body=tuple(moved(b, table, part) for b in s.body),
            guard=_guard_at(s.guard, table) if s.guard is not None else None,
        )
        for s in phase.stages
    )
    return replace(phase, grid=grid, stages=stages)


def _guard_at(guard: Guard, table: dict[Axis, Linear]) -> Guard:
    return Guard(replace_axes(guard.index, table), guard.low, guard.high)


def moved(statement: Statement, table: dict[Axis, Linear], part: Axis | None = None) -> Statement:
    """A statement at other indices, along a part of an axis if one is given."""
    value = decided(at_axes(statement.value, table), part=part)
    if isinstance(statement, Store):
        index = tuple(replace_axes(i, table) for i in statement.index)
        guards = tuple(_guard_at(g, table) for g in statement.guards)
        return replace(statement, value=value, index=index, guards=guards)
    return replace(statement, value=value)


def decided(value: Expr, suffix: str = "", part: Axis | None = None) -> Expr:
    """An expression without the conditions that the axes' ranges decide, the names that it reads
    ending in ``suffix``. ``part``: the axis that was cut; where kernels serve all sizes, only
    conditions on it are decided, and by a short one only those that it decides at all sizes."""
    made: dict[int, Expr] = {}
    for item in sub_expressions(value):
        new = item
        if isinstance(item, Var):
            new = Var(item.name + suffix, item.dtype)
        elif isinstance(item, Call):
            new = call(item.fn, *(made[id(a)] for a in item.args), dtype=item.dtype)
        elif isinstance(item, Guarded):
            new = _open_guards(item.guards, made[id(item.value)], made[id(item.other)], part)
        made[id(item)] = new
    return made[id(value)]


def _open_guards(guards: tuple[Guard, ...], value: Expr, other: Expr, part: Axis | None) -> Expr:
    """``value`` under those guards that are open, or what closed ones leave."""
    left = []
    for guard in guards:
        low, high = guard.index.bounds
        unsure = part is not None and (
            part.extent < LEAST_INSIDE or part not in axes_of(guard.index)
        )
        near = slack(guard.index) if unsure else 0
        if high < guard.low or low >= guard.high + near:
            return other
        if low < guard.low or high >= guard.high - near:
            left.append(guard)
    return Guarded(tuple(left), value, other) if left else value
