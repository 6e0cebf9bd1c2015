"""Lines of memory that are prefetched.

What comes from memory comes late: a processor fetches some lines by itself where it sees a stream
of reads, hardly for those that are written, and stops at each page. So loops over arrays that no
cache holds prefetch the lines 2 KB further on, of what they read and of what they write. Two cores,
arrays of 64 MB of which three take turns: a relu takes 0.84 of the time, GELU 0.8, RMS norm 0.78,
layer norm 0.8, softmax 0.7. Where arrays stay in the last cache, loops that compute gain (Sapphire
Rapids, 1,000,000 elements of float32: exp 0.85, log and GELU 0.9), others do not. All that is so on
Intel's processors: Zen's fetch streams by themselves, and only rows are prefetched.

A phase with several loops over each row waits for memory in the first and for arithmetic in the
others. There one of the others prefetches the next row instead: memory works all the time. Where
rows are only folded, Zen's processors get several at once (``JamPhase``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from lazyt.codegen.c.family import Expressions
from lazyt.codegen.loops.row_folds import folded_rows
from lazyt.codegen.lower.emitter import indices_of
from lazyt.ir.index import (
    Axis,
    Linear,
    Load,
    axes_of,
    constant,
    data_of,
    linearize,
    replace_axes,
    sub_expressions,
    variable,
)
from lazyt.ir.kernel import Phase, Scan, Stage, Store
from lazyt.ir.scalar import Call

#: How far ahead a loop prefetches, in bytes; less was as good, 4 KiB a little slower.
DISTANCE = 2048
#: Bytes of a kernel's arrays from which they count as being in memory.
FAR = 16 << 20
#: Bytes of a row, and cost of a step of the loop that prefetches (an exponential's is 10), from
#: which prefetching the next row, or the next points, pays though the arrays are not far.
LEAST_ROW, LEAST_COST = 2048, 8.0

#: Bytes of a row from which several are folded at once.
LEAST_FOLDED = 1024


class Prefetch(NamedTuple):
    """Elements of a buffer that a loop prefetches, at the step at which they have ``place``."""

    buffer: str
    place: Linear


def prefetches_of(
    phase: Phase, e: Expressions, second: int, any_size: bool = False
) -> dict[int, list[Prefetch]]:
    """What the stages of a phase prefetch; ``second`` is the size of the second-level cache, which
    must hold what is prefetched, and does not hold everything. A kernel for ``any_size``
    prefetches points as if there were many: a few take as long. Rows of it are not prefetched, as
    their text would depend on sizes in more ways.

    The keys are the stages' identities: equal stages of a phase are two, and the phase, which holds
    them, outlives what prints it."""
    if e.bands or not phase.grid or (any_size and phase.lanes != "grid"):
        return {}
    sizes = {name: math.prod(b.shape) * b.dtype.itemsize for name, b in e.buffers.items()}
    far = any_size or sum(sizes.values()) >= FAR
    if phase.lanes != "grid":
        return _along_rows(phase, e, second, far)
    if "streams" in e.traits.fetches:
        return {}
    found: dict[int, list[Prefetch]] = {}
    seen: set[tuple[str, Linear]] = set()
    last = phase.grid[-1]
    for stage in phase.stages:
        if not far and cost_of(stage) < LEAST_COST:
            continue
        if any(s.axis is not None for s in phase.stages) or _jumps(stage, last, e):
            continue
        for name, place, _ in _accesses(stage, last, e):
            if (name, place) not in seen and (any_size or sizes[name] > second):
                seen.add((name, place))
                found.setdefault(id(stage), []).append(_further(e, name, place))
    return found


def scatters(phase: Phase, e: Expressions) -> bool:
    """Whether a phase waits for rows that it only folds, and gets them sooner from several places
    at once."""
    rows = folded_rows(phase, e)
    if "streams" not in e.traits.fetches or not rows or cost_of(rows[0][0]) >= LEAST_COST:
        return False
    known = [row for _, row in rows if row > 0]
    sizes = [math.prod(b.shape) * b.dtype.itemsize for b in e.buffers.values()]
    return sum(sizes) >= FAR and max(known, default=0) >= LEAST_FOLDED


def _along_rows(phase: Phase, e: Expressions, second: int, far: bool) -> dict[int, list[Prefetch]]:
    """What the loops of a phase prefetch whose points are rows."""
    across = [axis for axis in phase.grid if axis.extent > 1]
    looped = [(s, s.axis) for s in phase.stages if s.axis is not None]
    found: dict[int, list[Prefetch]] = {}
    if not across:
        return found
    last, points = across[-1], math.prod(axis.extent for axis in across)
    seen: set[tuple[str, Linear]] = set()
    for number, (stage, axis) in enumerate(looped):
        for name, place, write in _accesses(stage, axis, e):
            row = (name, replace_axes(place, {axis: constant(0)}))
            size = axis.extent * e.buffers[name].dtype.itemsize
            suits = LEAST_ROW <= size <= second // 4 and size * points > second
            distant = (place.coefficient(last) or 0) >= axis.extent
            if row in seen or not distant or not suits:
                continue
            seen.add(row)
            if write:
                others, least, rows_on = looped[:number], LEAST_COST, 0
            elif far:
                others, least, rows_on = looped[number + 1 :], 0.0, 1
            else:
                others, least, rows_on = looped if len(looped) > 1 else [], LEAST_COST, 1
            suited = [s for s, a in others if a.extent == axis.extent and _goes_by_lanes(s, e)]
            if "streams" in e.traits.fetches:  # where loops do as much, the last
                suited.reverse()
            host = max(suited, key=cost_of, default=None)
            if host is not None and cost_of(host) >= least:
                assert host.axis is not None
                there = {last: variable(last) + constant(rows_on), axis: variable(host.axis)}
                found.setdefault(id(host), []).append(Prefetch(name, replace_axes(place, there)))
            elif far and _goes_by_lanes(stage, e) and _does_more_than_fold(stage):
                found.setdefault(id(stage), []).append(_further(e, name, place))
    return found


def _further(e: Expressions, name: str, place: Linear) -> Prefetch:
    return Prefetch(name, place + constant(DISTANCE // e.buffers[name].dtype.itemsize))


def _accesses(stage: Stage, axis: Axis, e: Expressions) -> Iterator[tuple[str, Linear, bool]]:
    """Where a stage goes from neighbour to neighbour along an axis, and whether it writes there."""
    found = [(s.buffer, s.index, True) for s in stage.body if isinstance(s, Store)]
    for statement in stage.body:
        reads = [x for x in sub_expressions(statement.value) if isinstance(x, Load)]
        found += [(x.buffer, x.index, False) for x in reads]
    for name, index, write in found:
        place = linearize(index, e.buffers[name].shape)
        rest = place - variable(axis)
        past = write and name in e.streamed
        if axis not in axes_of(rest) and not data_of(place) and not past:
            yield name, place, write


def _goes_by_lanes(stage: Stage, e: Expressions) -> bool:
    ordered = stage.sequential or any(isinstance(x, Scan) for x in stage.body)
    if ordered or stage.guard is not None or stage.axis is None or stage.axis in e.ends:
        return False
    return not _jumps(stage, stage.axis, e)


def _jumps(stage: Stage, axis: Axis, e: Expressions) -> bool:
    """Whether a stage takes every other element of something along an axis: gcc then takes the last
    vector of each group one by one, for it would read past the end."""
    for statement in stage.body:
        for name, index in indices_of(statement):
            at = index if name is None else [linearize(index, e.buffers[name].shape)]
            if any(abs(x.coefficient(axis) or 0) > 1 for x in at):
                return True
    return False


def _does_more_than_fold(stage: Stage) -> bool:
    """Whether a loop does more than to fold what it reads: such loops only wait for memory."""
    return any(isinstance(s, Store) for s in stage.body) or cost_of(stage) >= LEAST_COST


def cost_of(stage: Stage) -> float:
    """Multiply-adds of the functions that a stage calls for an element."""
    items = [x for s in stage.body for x in sub_expressions(s.value)]
    return sum(x.fn.cost for x in items if isinstance(x, Call))
