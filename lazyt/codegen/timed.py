"""A plan that tells when each of its kernels ran, for the profiler."""

from __future__ import annotations

from dataclasses import replace

from lazyt.codegen.c import print_entry_c
from lazyt.ir.program import Program, Slot

# Declared rather than included: system headers cost more to compile than a kernel.
_CLOCK = """struct lz_time {{ long seconds, nanoseconds; }};
int clock_gettime(int, struct lz_time *);
static double lz_now(void)
{{
  struct lz_time t;
  clock_gettime({clock}, &t);
  return t.seconds + 1e-9 * t.nanoseconds;
}}
"""


def time_launches(program: Program, clock: int) -> Program:
    """``program`` with one output more: float64 seconds at the start of every launch and, last,
    at the end. ``clock`` is the number that the system's ``clock_gettime`` knows it by."""
    count = 1 + max((s.index for s in program.slots if s.kind == "output"), default=-1)
    place = len(program.slots)
    nbytes = 8 * (len(program.launches) + 1)
    stamps = f"  double *stamps = (double *)slots[{place}];"
    lines: list[str] = []
    number = 0
    calls = {f"  {launch.kernel}(" for launch in program.launches}
    for line in print_entry_c(program.kernels, program.launches).splitlines():
        if any(line.startswith(call) for call in calls):
            lines.append(f"  stamps[{number}] = lz_now();")
            number += 1
        elif line == "}":
            lines.append(f"  stamps[{number}] = lz_now();")
        lines.append(line)
        if line == "{":
            lines.append(stamps)
    return replace(
        program,
        entry=_CLOCK.format(clock=clock) + "\n".join(lines) + "\n",
        slots=(*program.slots, Slot("output", count, 0, nbytes)),
    )
