"""Routines for a GPU: sorting as ranks and merges, a launch for each doubling of the sorted runs.

Every thread places one element: first by its rank among the 256 of its tile, then, run by run, by
its place in its own run and a binary search in the neighbouring one. Threads never wait for each
other, any length will do, and equal elements keep their order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from lazyt.codegen import c_tree as ct
from lazyt.codegen.c_family import Expressions
from lazyt.codegen.routines import order_constants, unsigned
from lazyt.ir.kernel import CallPhase

THREADS = 256
#: Elements that are ranked at once by the first launch.
TILE = 256


@dataclass(frozen=True)
class PointLaunch:
    """One thread for each element: calls ``function(*before, element, *after)``."""

    function: str
    before: tuple[ct.Node, ...]
    after: tuple[ct.Node, ...]
    points: int
    most_blocks: int

    threads = THREADS
    shared_bytes = 0
    collective = False

    @property
    def tiles(self) -> int:
        """How many blocks' worth of work there is."""
        return -(-self.points // self.threads)

    @property
    def blocks(self) -> int:
        """Blocks of the launch."""
        return min(self.tiles, self.most_blocks)

    def statements(self) -> list[ct.Node]:
        """What a block does for its ``tile_``."""
        start = ct.binary("*", ct.name("tile_"), ct.integer(self.threads))
        point = ct.binary("+", start, ct.call("lz_thread", ()))
        inside = ct.binary("<", ct.name("point_"), ct.integer(self.points))
        call = ct.call(self.function, (*self.before, ct.name("point_"), *self.after))
        return [ct.declare("lz_i64", "point_", point, const=True), ct.branch(inside, [call])]


def routine_cuda(phase: CallPhase, e: Expressions, most_blocks: int) -> list[PointLaunch]:
    """The launches of a sorting routine, in order."""
    source = e.buffers[phase.reads[0]]
    size, suffix = math.prod(source.shape), unsigned(source.dtype)
    if size == 0:
        return []
    length = source.shape[-1]
    down = -1 if dict(phase.settings)["descending"] else 0
    keys = (*order_constants(source.dtype), ct.integer(down))
    widths, sorted_run = [0], TILE
    while sorted_run < length:
        widths.append(sorted_run)
        sorted_run *= 2
    carried = "values" if phase.routine == "sort_values" else "order"
    name = f"lz_merge_{carried}_{suffix}"
    result, spare = phase.writes[-1], phase.work[-1]
    before: tuple[ct.Node, ...] = () if carried == "values" else (ct.name(source.name),)
    first = source.name if carried == "values" else spare
    launches: list[PointLaunch] = []
    e.used.add(name)
    for number, width in enumerate(widths):
        left = len(widths) - 1 - number
        here, other = (result, spare) if left % 2 == 0 else (spare, result)
        come = first if number == 0 else other
        arguments = (*before, ct.name(come), ct.name(here))
        after = (ct.integer(length), ct.integer(width), *keys)
        launches.append(PointLaunch(name, arguments, after, size, most_blocks))
    if phase.routine == "sort_both":
        pick = f"lz_pick_row_{suffix}"
        e.used.add(pick)
        arguments = tuple(ct.name(n) for n in (source.name, *phase.writes))
        launches.append(PointLaunch(pick, arguments, (ct.integer(length),), size, most_blocks))
    return launches
