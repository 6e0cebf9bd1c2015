"""Running a plan with a clock around every kernel, while a profiler is on."""

from __future__ import annotations

import time
from collections.abc import Sequence

from lazyt.codegen.timed import time_launches
from lazyt.ir.dtypes import float64
from lazyt.ir.program import Program
from lazyt.runtime import events, execute
from lazyt.runtime.memory import Buffer


def run_timed(program: Program, inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> None:
    """Runs the plan as ``Executable.run`` does; tells ``events.watching`` when kernels ran.

    Raises as ``execute.load`` and ``Executable.run``.
    """
    timed = time_launches(program, time.CLOCK_MONOTONIC)
    executable = execute.load(timed, "the profiler runs plans with clocks")
    stamps = Buffer(8 * (len(program.launches) + 1))
    executable.run(inputs, [*outputs, stamps])
    seconds = stamps.as_numpy(float64, (len(program.launches) + 1,)).tolist()
    for note, begin, end in zip(program.notes, seconds, seconds[1:]):
        for timings in events.watching:
            timings.append(events.Timing(note, begin, end))
