"""The forms that a kernel may have beside the one that heuristics choose, for tuning by the clock.

``standard`` is the heuristics' own form, in full; ``neighbours`` are forms that differ from a given
one in one thing each. A search starts at the first and follows the second.
"""

from __future__ import annotations

from dataclasses import replace

from lazyt.codegen.c.family import Expressions
from lazyt.codegen.c.steps import CpuPhase
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
from lazyt.codegen.plan.choices import Tuned
from lazyt.codegen.plan.printed import find_origins
from lazyt.ir.decisions import PLAIN, Traits
from lazyt.ir.kernel import ContractPhase, Kernel, Phase


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
