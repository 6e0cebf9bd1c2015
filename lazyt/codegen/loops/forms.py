"""What may be chosen freely about a phase of loops on a CPU, and how its threads share a loop; no
choice changes a bit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from lazyt.ir.kernel import LANES, Keep, Phase, Reduce, Scan, reduction_levels

#: Bytes that a tile may hold on a thread's stack.
TILE_BYTES = 512 * 1024
#: What divides the steps of a block evenly.
STEPS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class LoopForm:
    """How a phase's loops are laid out. What is 0 or empty is left to the heuristics.

    Attributes:
        tile: grid points of a tile, where lanes are on the grid.
        steps: steps of a sum that are taken at once, there.
        lanes: which axis is vectorised: ``grid`` or ``inner``.
        share: tiles that a thread takes at a time; -1 for one thread.
    """

    tile: int = 0
    steps: int = 0
    lanes: str = ""
    share: int = 0


def sums_only(phase: Phase) -> bool:
    """Whether loops of the phase keep nothing but sums: several steps may go together."""
    bodies = [s for stage in phase.stages if stage.axis is not None for s in stage.body]
    positional = any(isinstance(s, Reduce) and s.kind.startswith("arg") for s in bodies)
    return not positional and not any(isinstance(s, Scan | Keep) for s in bodies)


def may_turn(phase: Phase) -> bool:
    """Whether lanes may lie on the phase's other axis: sums whose steps are in no order, and
    nothing kept that every point of a tile would need room for."""
    looped = [stage for stage in phase.stages if stage.axis is not None]
    bodies = [s for stage in looped for s in stage.body]
    if not phase.grid or not any(isinstance(s, Reduce) for s in bodies):
        return False
    kept = any(isinstance(s, Keep | Scan) for s in bodies)
    return not kept and not any(stage.sequential for stage in looped)


def suits(phase: Phase, form: LoopForm) -> bool:
    """Whether the phase can be written in the form. Forms come from files: nothing is believed."""
    if form.lanes and form.lanes != phase.lanes and not may_turn(phase):
        return False
    grid = (form.lanes or phase.lanes) == "grid" and bool(phase.grid)
    if form.tile and not (
        grid
        and 0 < form.tile <= max(phase.grid[-1].extent, 1)
        and form.tile * point_bytes(phase) <= TILE_BYTES
    ):
        return False
    if form.steps and form.steps not in STEPS:
        return False
    if form.steps > 1 and not (grid and sums_only(phase)):
        return False
    return form.share >= -1


def point_bytes(phase: Phase) -> int:
    """Bytes that a tile holds for each of its points, at most."""
    total = 0
    for stage in phase.stages:
        extent = 1 if stage.axis is None else stage.axis.extent
        lanes = sum(min(LANES, n) for n in reduction_levels(extent))
        for statement in stage.body:
            if isinstance(statement, Keep):
                total += 8 * extent
            elif isinstance(statement, Reduce):
                total += 16 * (lanes + 1)  # a position goes with some
            else:
                total += 8
    return max(total, 1)


def moves(phase: Phase, form: LoopForm) -> list[LoopForm]:
    """Forms that differ from a complete one in one thing each."""
    lanes = form.lanes or phase.lanes
    found = [replace(form, share=share) for share in (-1, 0, 1, 4, 16) if share != form.share]
    other = "inner" if lanes == "grid" else "grid"
    if other == "inner":
        found.append(replace(form, lanes=other, tile=0, steps=0))
    else:
        found.append(replace(form, lanes=other))
    if lanes == "grid" and phase.grid:
        extent = phase.grid[-1].extent
        tile = form.tile or extent
        sizes = {tile // 4, tile // 2, tile * 2, tile * 4, extent}
        found += [
            replace(form, tile=min(max(size, 8), extent))
            for size in sorted(sizes)
            if min(max(size, 8), extent) != tile
        ]
        found += [replace(form, steps=n) for n in (1, 2, 4, 8) if n != max(form.steps, 1)]
    return [f for f in dict.fromkeys(found) if suits(phase, f)]


# How the threads of the CPU share a loop.


#: Shares that the threads take turns at.
SHARES = 64
#: Estimated multiply-adds below which starting threads costs more than it saves.
SERIAL_WORK = 40_000


_is_alone: ContextVar[bool] = ContextVar("is_alone", default=False)


@contextmanager
def on_one_thread(is_alone: bool) -> Iterator[None]:
    """A block in which text is for a single thread, one of several that run it, or is not."""
    token = _is_alone.set(is_alone)
    try:
        yield
    finally:
        _is_alone.reset(token)


def is_alone() -> bool:
    """Whether text is for a single thread, and must share nothing with others."""
    return _is_alone.get()


def parallel_clause(count: int, work: float, any_size: bool = False) -> str:
    """The pragma in front of a loop of ``count`` steps and so much ``work`` in all; empty where one
    thread does it. With ``any_size`` that is decided when the kernel runs."""
    if is_alone():
        return ""
    begin = "omp parallel for num_threads(threads)"
    if any_size:
        enough = f"threads > 1 && {int(work)} >= {SERIAL_WORK}"
        return f"{begin} if({enough}) schedule(dynamic, {max(1, count // SHARES)})"
    if work < SERIAL_WORK:
        return ""
    # A thread that loses its core for a while loses one share.
    share = steps_in_turn(count)
    kind = f"dynamic, {share}" if share else "static"
    return f"{begin} if(threads > 1) schedule({kind})"


def steps_in_turn(count: int) -> int:
    """How many steps of ``count`` a thread takes before it asks for more; 0 where each takes its
    part at once."""
    return count // SHARES if count >= 2 * SHARES else 0
