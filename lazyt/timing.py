"""Running a plan with a clock around every kernel, while a profiler is on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from threading import get_ident
from typing import TYPE_CHECKING

from lazyt.codegen.generic.program import step_notes, timed
from lazyt.codegen.timed import time_launches
from lazyt.ir.dtypes import float64, int64
from lazyt.ir.program import Program
from lazyt.lifting import table_buffer
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
    """Runs a plan in tier 0; tells ``events.watching`` when that was, and when each of its
    instructions ran, as of a kernel.

    Raises as ``Executable.run``.
    """
    program, in_use, me = executable.program, pool.in_use, get_ident()
    given = inputs[-1]
    count = given.nbytes // 8
    words = timed(program, given.as_numpy(int64, (count,)).tolist())
    table = table_buffer(words)
    started = time.monotonic()
    executable.run([*inputs[:-1], table], outputs)
    ended = time.monotonic()
    seconds = table.as_numpy(float64, (len(words),))[count:].tolist()
    notes = step_notes(program)
    plan = {**_plan_note(program), "kernels": len(notes)}
    found = [events.Timing(plan, started, ended, in_use, 0, me)]
    steps = zip(notes, seconds, seconds[1:], strict=False)
    held = program.arena_bytes
    found += [events.Timing(n, begin, end, in_use, held, me) for n, begin, end in steps]
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
