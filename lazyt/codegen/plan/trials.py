"""What tuning tries: programs of a plan one launch at a time, and one kernel in many forms.

Both take two numbers in a slot behind all others: which launch is to run, and how often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lazyt.codegen.c.family import Expressions
from lazyt.codegen.c.steps import CpuPhase
from lazyt.codegen.c.target import print_entry_c
from lazyt.codegen.conv.blocks import SlideForm
from lazyt.codegen.conv.lanes import LanesForm, choose_lanes
from lazyt.codegen.conv.panels import choose_slide
from lazyt.codegen.conv.sums import SumsForm, choose_sums
from lazyt.codegen.loops.forms import LoopForm, moves
from lazyt.codegen.matmul.axes import Shapes
from lazyt.codegen.matmul.contraction import (
    DOT_MOST_COLUMNS,
    DotForm,
    PackedForm,
    RowForm,
    choose_form,
    choose_packed_form,
)
from lazyt.codegen.matmul.forms import contract_moves, form_fits, slide_moves
from lazyt.codegen.matmul.phase import Contraction, describe
from lazyt.codegen.matmul.spec import transpose_spec
from lazyt.codegen.plan.assemble import gather_sections, name_after_text
from lazyt.codegen.plan.choices import Tuned
from lazyt.codegen.plan.printed import PrintedKernel, find_origins
from lazyt.ir.decisions import PLAIN, Traits
from lazyt.ir.kernel import ContractPhase, Kernel, Phase
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


# The forms that a kernel may have beside the one that heuristics choose, for tuning by the clock.
#
# ``standard`` is the heuristics' own form, in full; ``neighbours`` are forms that differ from a
# given one in one thing each. A search starts at the first and follows the second.


class Field:
    """The forms of one kernel."""

    def __init__(
        self,
        kernel: Kernel,
        vector_bytes: int,
        caches: tuple[int, int, int],
        traits: Traits = PLAIN,
        threads: int = 64,
    ) -> None:
        self.kernel = kernel
        self.expressions = Expressions(kernel.buffers, find_origins(kernel))
        self.expressions.traits = traits
        self.second, self.threads = caches[1], threads
        self.made: Contraction | None = None
        first = kernel.phases[0]
        if isinstance(first, ContractPhase) and not kernel.bands:
            self.made = describe(kernel, first, self.expressions, vector_bytes, caches)

    def standard(self) -> Tuned | None:
        """The form that heuristics choose; None for a kernel that has no other."""
        if self.kernel.segments or self.kernel.bands:
            return None
        if self.made is not None:
            shapes = {name: b.shape for name, b in self.expressions.buffers.items()}
            return _contraction(self.made, shapes)
        loops = tuple(self._loops(phase, n) for n, phase in enumerate(self.kernel.phases))
        if not any(isinstance(phase, Phase) for phase in self.kernel.phases):
            return None
        return Tuned(loops=loops)

    def neighbours(self, tuned: Tuned) -> list[Tuned]:
        """Forms near a form in full."""
        if self.made is None:
            return self._other_loops(tuned)
        form, plan, found = tuned.form, self.made.slide, list[Tuned]()
        if isinstance(form, SlideForm) and plan is not None:
            found += [Tuned(f) for f in slide_moves(plan, form)]
        if not isinstance(form, PackedForm | RowForm | DotForm):
            other, exchanged, _ = choose_form(self.made.spec)
            return [*found, Tuned(other, exchanged)]
        spec = transpose_spec(self.made.spec) if tuned.exchanged else self.made.spec
        found += [Tuned(f, tuned.exchanged) for f in contract_moves(spec, form)]
        turned = transpose_spec(spec)
        if spec.k and min(spec.m, spec.n) > DOT_MOST_COLUMNS:
            packed = choose_packed_form(turned, getattr(form, "parallel", True))
            if form_fits(turned, packed):
                found.append(Tuned(packed, not tuned.exchanged))
        return found

    # -------------------------------------------------------------------- loops

    def _loops(self, phase: object, number: int, form: LoopForm | None = None) -> LoopForm:
        """A phase's form in full."""
        if not isinstance(phase, Phase):
            return LoopForm()
        made = CpuPhase(phase, self.expressions, number, self.second, form, self.threads)
        return made.form()

    def _other_loops(self, tuned: Tuned) -> list[Tuned]:
        found: list[Tuned] = []
        for number, phase in enumerate(self.kernel.phases):
            if not isinstance(phase, Phase):
                continue
            for form in moves(phase, tuned.loops[number]):
                full = self._loops(phase, number, form)
                loops = (*tuned.loops[:number], full, *tuned.loops[number + 1 :])
                found.append(replace(tuned, loops=loops))
        return [f for f in dict.fromkeys(found) if f != tuned]


def _contraction(made: Contraction, shapes: Shapes) -> Tuned | None:
    """The form that heuristics choose for a contraction."""
    spec = made.spec
    if 0 in (spec.batch, spec.m, spec.n):
        return None
    chosen: SlideForm | SumsForm | LanesForm | None = None
    if made.slide is not None:
        chosen = choose_slide(made.slide)
    elif made.sums is not None:
        sums = choose_sums(made.sums)
        chosen = choose_lanes(made.sums, shapes, sums) or sums
    if chosen is not None:
        return Tuned(chosen)
    form, exchanged, _ = choose_form(spec)
    return Tuned(form, exchanged)
