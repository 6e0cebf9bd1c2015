"""Programs for tuning: those of a plan one launch at a time, and one kernel in many forms.

Both take two numbers in a slot behind all others: which launch is to run, and how often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lazyt.codegen.assemble import gather_sections, name_after_text
from lazyt.codegen.c import print_entry_c
from lazyt.codegen.printed import PrintedKernel
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


def forms_program(printed: Sequence[PrintedKernel], sizes: Sequence[int]) -> Program:
    """One kernel in several forms; each is a launch. All arguments are inputs, of these sizes; what
    the forms need beside, of the largest size, is the last of them."""
    named = [name_after_text(p, "trial") for p in printed]
    slots = [Slot("input", number, 0, size) for number, size in enumerate(sizes)]
    space = max(p.workspace for p in named)
    if space:
        slots.append(Slot("input", len(slots), 0, space))
    launches = []
    for made in named:
        places = tuple(range(len(sizes) + bool(made.workspace)))
        launches.append(Launch(made.source.name, places, made.offsets, (), made.values))
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
