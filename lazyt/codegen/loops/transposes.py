"""What is read and written across the lanes goes through a small array on the stack.

Where a loop walks memory along its own axis and lanes lie on rows, each lane would touch a line of
its own. A tile of rows by steps is transposed on its way: from memory before the steps, and back
after them. So is what a map reads of a transposed operand, whose second axis then becomes a loop,
and what runs along many rows (a running sum or maximum), 64 of them together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from lazyt.codegen.c.family import Expressions
from lazyt.codegen.loops.peeling import moved
from lazyt.ir.decisions import serves_all
from lazyt.ir.index import (
    Axis,
    Guarded,
    Linear,
    Load,
    axes_of,
    data_of,
    linearize,
    sub_expressions,
    variable,
)  # fmt: skip
from lazyt.ir.kernel import Buffer, Keep, Let, Phase, Scan, Stage, Store

#: Smallest distance of neighbouring lanes that is worth it, and the shortest loop.
LEAST_PITCH, LEAST_STEPS = 8, 4
#: Arrays of a stage: 8 KiB each in float32.
MOST_ARRAYS = 5
#: Rows that a running sum walks together, by the least steps of each. More of long rows are more
#: streams than a processor fetches ahead of; those of a few steps are one stretch of memory.
ROWS_BY_STEPS = ((32, 8), (16, 16))
#: Tiles are transposed in squares of this many steps, and the rest of each row one by one: of
#: shorter rows than this that is so much that bare sums rather run along rows, one after the other.
SQUARE, LEAST_WITH_REST = 8, 24
#: Rows so short that lanes lie across them, and the values that such a tile keeps at most.
SHORT, MOST_STORED = 64, 256


class Transpose(NamedTuple):
    """Elements of a buffer, at a row-major position, of which rows lie ``pitch`` apart."""

    buffer: str
    place: Linear
    pitch: int
    stored: bool


def transposes_of(phase: Phase, stage: Stage, expressions: Expressions) -> list[Transpose]:
    """What a stage touches across lanes that lie on the last axis of the grid."""
    axis = stage.axis
    if axis is None or axis.extent < LEAST_STEPS or not phase.grid:
        return []
    if stage.sequential and not _scans(stage):
        return []
    last = phase.grid[-1]
    read = {buffer.name for buffer, _, stored in _accesses(phase, expressions) if not stored}
    found: dict[Transpose, None] = {}
    for buffer, place, stored in _accesses(replace(phase, stages=(stage,)), expressions):
        pitch = _pitch(place, axis, last)
        ours = buffer.role == "in" or (stored and buffer.role == "out" and buffer.name not in read)
        if pitch and ours and buffer.dtype.kind in "fiu":
            found[Transpose(buffer.name, place, pitch, stored)] = None
    return list(found) if len(found) <= MOST_ARRAYS else []


def _pitch(place: Linear, axis: Axis, last: Axis) -> int:
    """How far apart rows are where steps are neighbours; 0 where they are not."""
    pitch = place.coefficient(last)
    if place.coefficient(axis) != 1 or pitch is None or pitch < LEAST_PITCH or data_of(place):
        return 0
    return pitch


def _accesses(phase: Phase, expressions: Expressions) -> Iterator[tuple[Buffer, Linear, bool]]:
    """(buffer, position, whether it is stored) of what loops touch without a condition."""
    for stage in phase.stages:
        for statement in stage.body:
            if isinstance(statement, Store) and not statement.guards and not statement.combine:
                buffer = expressions.buffers[statement.buffer]
                yield buffer, linearize(statement.index, buffer.shape), True
            within = [e for e in sub_expressions(statement.value) if isinstance(e, Guarded)]
            guarded = {id(e) for g in within for e in sub_expressions(g)}
            for item in sub_expressions(statement.value):
                if isinstance(item, Load) and id(item) not in guarded:
                    buffer = expressions.buffers[item.buffer]
                    yield buffer, linearize(item.index, buffer.shape), False


def lanes_across_rows(phase: Phase, expressions: Expressions) -> Phase:
    """The phase with lanes across short rows, or with a loop along what a map reads transposed;
    itself where neither is the case."""
    if phase.lanes == "inner":
        fits = _is_short(phase, expressions) or _scans_rows(phase, expressions)
        return replace(phase, lanes="grid") if fits else phase
    return _with_loop(phase, expressions)


def rows_together(phase: Phase, most: int) -> int:
    """How many neighbouring rows a phase with transposed accesses walks at once."""
    steps = [s.axis.extent for s in phase.stages if s.axis is not None and _scans(s)]
    fitting = [rows for least, rows in ROWS_BY_STEPS if steps and least <= max(steps)]
    return min([most, *fitting[:1]])


def _scans(stage: Stage) -> bool:
    """Whether each step takes what ran up to it further."""
    return any(isinstance(s, Scan) for s in stage.body)


def _scans_rows(phase: Phase, expressions: Expressions) -> bool:
    """Whether the phase runs along many rows, each step waiting for the one before, and lanes on
    rows need nothing but transposed accesses."""
    looped = [stage for stage in phase.stages if stage.axis is not None]
    if not phase.grid or phase.grid[-1].extent < SHORT or len(looped) != 1:
        return False
    (stage,) = looped
    plain = all(isinstance(s, Let | Scan | Store) for s in stage.body)
    if not (plain and _scans(stage)) or stage.guard is not None or _is_better_bare(stage):
        return False
    return _is_easy(phase, stage, expressions)


def _is_better_bare(stage: Stage) -> bool:
    """Whether a stage is a running sum or product of what is read, of few steps with a rest."""
    assert stage.axis is not None
    steps = stage.axis.extent
    if steps >= LEAST_WITH_REST or steps % SQUARE == 0:
        return False
    scans = [s for s in stage.body if isinstance(s, Scan)]
    work = sum(len(list(sub_expressions(s.value))) for s in stage.body if not isinstance(s, Store))
    return work <= 2 and all(s.kind in ("sum", "prod") for s in scans)


def _is_short(phase: Phase, expressions: Expressions) -> bool:
    """Whether all loops are short, and lanes on rows need nothing but transposed accesses."""
    looped = [stage for stage in phase.stages if stage.axis is not None]
    if not phase.grid or phase.grid[-1].extent < SHORT or not looped:
        return False
    stored_values = 0
    for stage in looped:
        axis = stage.axis
        assert axis is not None
        if not 1 < axis.extent <= SHORT or stage.sequential or stage.guard is not None:
            return False
        if _scans(stage) or not _is_easy(phase, stage, expressions):
            return False
        stored_values += axis.extent * sum(isinstance(s, Keep) for s in stage.body)
    return stored_values <= MOST_STORED


def _is_easy(phase: Phase, stage: Stage, expressions: Expressions) -> bool:
    """Whether lanes on rows find what a loop touches side by side, or transposed."""
    last = phase.grid[-1]
    transposed = {(t.buffer, t.place) for t in transposes_of(phase, stage, expressions)}
    touched = 0
    for buffer, place, _ in _accesses(replace(phase, stages=(stage,)), expressions):
        easy = place.coefficient(last) in (0, 1) and not data_of(place)
        if not easy and (buffer.name, place) not in transposed:
            return False
        touched += 1
    whole = sum(isinstance(e, Load) for s in stage.body for e in sub_expressions(s.value))
    return touched == whole + sum(isinstance(s, Store) for s in stage.body)


def _with_loop(phase: Phase, expressions: Expressions) -> Phase:
    """A map over two axes as a loop along one of them, where it touches memory along both."""
    if len(phase.stages) != 1 or phase.stages[0].axis is not None or len(phase.grid) < 2:
        return phase
    (stage,) = phase.stages
    if not all(isinstance(s, Let) or (isinstance(s, Store) and not s.combine) for s in stage.body):
        return phase
    last = phase.grid[-1]
    if last.extent < LEAST_PITCH:
        return phase
    for axis in reversed(phase.grid[:-1]):
        if axis.extent < LEAST_PITCH:
            continue
        grid = tuple(a for a in phase.grid if a is not axis)
        looped = replace(phase, grid=grid, stages=(replace(stage, axis=axis),))
        if not transposes_of(looped, looped.stages[0], expressions):
            looped = _backwards(looped)
            if serves_all() or not transposes_of(looped, looped.stages[0], expressions):
                continue
        places = [place for _, place, _ in _accesses(looped, expressions)]
        if any(place.coefficient(last) == 1 for place in places):
            return replace(looped, work=phase.work * axis.extent)
        if not any(axes_of(p) & {last} and not _pitch(p, axis, last) for p in places):
            return replace(phase, grid=(*(a for a in grid if a is not last), last, axis))
    return phase


def _backwards(phase: Phase) -> Phase:
    """A phase of one stage that walks its loop from the other end."""
    (stage,) = phase.stages
    assert stage.axis is not None
    table = {stage.axis: variable(stage.axis) * -1 + (stage.axis.extent - 1)}
    body = tuple(moved(statement, table) for statement in stage.body)
    return replace(phase, stages=(replace(stage, body=body),))
