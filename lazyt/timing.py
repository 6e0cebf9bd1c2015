"""Running a plan with a clock around every kernel, while a profiler is on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from threading import get_ident
from typing import TYPE_CHECKING

from lazyt.codegen.timed import time_launches
from lazyt.ir.dtypes import float64
from lazyt.ir.program import Program
from lazyt.runtime import events, execute
from lazyt.runtime.memory import Buffer, pool

if TYPE_CHECKING:
    from lazyt.runtime.execute import Executable


def run_timed(program: Program, inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> None:
    """Runs the plan as ``Executable.run`` does; tells ``events.watching`` when kernels ran.

    Raises as ``execute.load`` and ``Executable.run``.
    """
    timed = time_launches(program, time.CLOCK_MONOTONIC)
    executable = execute.load(timed, "the profiler runs plans with clocks")
    in_use, me = pool.in_use, get_ident()
    stamps = Buffer(8 * (len(program.launches) + 1))
    started = time.monotonic()
    executable.run(inputs, [*outputs, stamps])
    ended = time.monotonic()
    seconds = stamps.as_numpy(float64, (len(program.launches) + 1,)).tolist()
    found = [events.Timing(_plan_note(program), started, ended, in_use, 0, me)]
    steps = zip(program.notes, seconds, seconds[1:], scratch_in_use(program), strict=False)
    found += [events.Timing(n, begin, end, in_use, held, me) for n, begin, end, held in steps]
    for timings in events.watching:
        timings += found


def run_generic_timed(
    executable: Executable, inputs: Sequence[Buffer], outputs: Sequence[Buffer]
) -> None:
    """Runs a plan in tier 0; tells ``events.watching`` when that was, as of one kernel.

    Raises as ``Executable.run``.
    """
    program, in_use, me = executable.program, pool.in_use, get_ident()
    started = time.monotonic()
    executable.run(inputs, outputs)
    ended = time.monotonic()
    note = {**program.notes[0], "computes": (), "name": "generic kernels (tier 0)"}
    found = [
        events.Timing(_plan_note(program), started, ended, in_use, 0, me),
        events.Timing(note, started, ended, in_use, program.arena_bytes, me),
    ]
    for timings in events.watching:
        timings += found


def scratch_in_use(program: Program) -> list[int]:
    """Bytes of the arena that hold a value, at each launch. Values that follow each other in the
    very same place cannot be told apart: the place counts from its first use to its last."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for step, launch in enumerate(program.launches):
        for number in launch.slots:
            if program.slots[number].kind == "arena":
                first.setdefault(number, step)
                last[number] = step
    held = []
    for step in range(len(program.launches)):
        alive = [program.slots[n] for n in first if first[n] <= step <= last[n]]
        total = end = 0
        for start, stop in sorted((slot.offset, slot.offset + slot.nbytes) for slot in alive):
            total += max(0, stop - max(start, end))
            end = max(end, stop)
        held.append(total)
    return held


def _plan_note(program: Program) -> dict[str, object]:
    return {
        "kind": "plan",
        "kernels": len(program.launches),
        "arena_bytes": program.arena_bytes,
    }
