"""Programs for tuning: those of a plan one launch at a time, and one kernel in many forms.

Both take two numbers in a slot behind all others: which launch is to run, and how often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lazyt.codegen.c.target import print_entry_c
from lazyt.codegen.plan.assemble import gather_sections, name_after_text
from lazyt.codegen.plan.printed import PrintedKernel
from lazyt.ir.program import Launch, Program, Slot

#: Bytes of the two numbers.
WANTED_BYTES = 16


def stepping(program: Program) -> Program:
    """``program``, of which a run does one launch, some number of times."""
    inputs = 1 + max((s.index for s in program.slots if s.kind == "input"), default=-1)
    wanted = f"  const long long *lz_wanted = (const long long *)slots[{len(program.slots)}];"
    calls = [f"  {launch.kernel}(" for launch in program.launches]
    lines: list[str] = []
    number = 0
    for line in program.entry.splitlines():
        if number < len(calls) and line.startswith(calls[number]):
            lines.append(f"  if (lz_wanted[0] == {number})")
            lines.append("  for (long long lz_turn = 0; lz_turn < lz_wanted[1]; lz_turn++)")
            number += 1
        lines.append(line)
        if line == "{":
            lines.append(wanted)
    slots = (*program.slots, Slot("input", inputs, 0, WANTED_BYTES))
    return replace(program, entry="\n".join(lines) + "\n", slots=slots)


def forms_program(
    printed: Sequence[PrintedKernel], sizes: Sequence[int], segments: tuple[int, ...] = ()
) -> Program:
    """One kernel in several forms; each is a launch.

    All arguments are inputs, of these sizes: those of its first segment, then those of the second,
    and so on. What the forms need beside, of the largest size, is the last of them.
    """
    named = [name_after_text(p, "trial") for p in printed]
    slots = [Slot("input", number, 0, size) for number, size in enumerate(sizes)]
    space = max(p.workspace for p in named)
    if space:
        slots.append(Slot("input", len(slots), 0, space))
    launches = []
    for made in named:
        places = tuple(range(len(sizes) + bool(made.workspace)))
        launches.append(Launch(made.source.name, places, made.offsets, segments, made.values))
    kernels = tuple({p.source.name: p.source for p in named}.values())
    program = Program(
        target="c",
        sections=gather_sections(named),
        kernels=kernels,
        entry=print_entry_c(kernels, launches),
        slots=tuple(slots),
        launches=tuple(launches),
        arena_bytes=0,
    )
    return stepping(program)


# A plan that tells when each of its kernels ran, for the profiler.


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
