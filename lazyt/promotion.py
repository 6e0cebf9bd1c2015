"""Sizes that run often get kernels of their own.

From the second size of a graph on, its kernels take sizes as arguments (``sizes.py``), which saves
the compiler's time and costs some of theirs: a transposed copy takes five times as long, a roll six
times, most others a few percent. Where a size comes back and back that is the wrong trade. So a
plan of such kernels counts its runs, and once it has been run for about as long as compiling takes,
or very often, its graph is compiled for the sizes that it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazyt import sizes
from lazyt.config import config
from lazyt.errors import CompileError, NoCompilerError
from lazyt.ir.graph import source_text

if TYPE_CHECKING:
    from lazyt.making import Subject
    from lazyt.planning import _Plan

#: Runs after which a plan is promoted, and the fewest: what is in flight comes back.
OFTEN, LEAST = 64, 4
#: Seconds that compiling takes, and for each kernel more, about.
BASE, EACH = 0.3, 0.15


class Heat:
    """What a plan of kernels for any size has been run.

    Attributes:
        subject: its graph.
        runs, seconds: how often, and for how long together.
    """

    __slots__ = ("runs", "seconds", "subject")

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.runs = 0
        self.seconds = 0.0

    def expect(self) -> None:
        """A captured function runs the plan, which changes nothing: its runs are counted."""

    def note(self, plan: _Plan, seconds: float) -> None:
        """Notes one more run of the plan, which may get kernels of its own."""
        if self.is_enough(len(plan.code.program.launches), seconds):
            promote(plan)

    def is_enough(self, kernels: int, seconds: float) -> bool:
        """Notes one more run that took ``seconds``; whether kernels of its own are worth it."""
        self.runs += 1
        self.seconds += seconds
        if self.runs < LEAST:
            return False
        return self.runs >= OFTEN or self.seconds >= BASE + EACH * kernels


def heat_of(subject: Subject) -> Heat | None:
    """What a new plan of kernels for any size counts its runs by; None where enough sizes of its
    graph have kernels of their own."""
    return Heat(subject) if sizes.may_have_own(subject.sized) else None


def promote(plan: _Plan) -> None:
    """Lets a plan run kernels for its own sizes, if its family may still have some: from now on,
    or from when they are compiled in the background."""
    from lazyt import planning, tiers
    from lazyt.runtime import events

    with planning.lock:
        heat = plan.code.heat
        if not isinstance(heat, Heat):  # another thread was faster
            return
        subject = heat.subject
        if not sizes.may_have_own(subject.sized):
            plan.code = plan.code._replace(heat=None)
            return
        sizes.has_own(subject.sized)
        reason = f"these sizes were run {heat.runs} times: they get kernels of their own"
        meter = tiers.Meter(subject, reason, own=True)
        meter.runs, meter.seconds = heat.runs, heat.seconds
        plan.code = plan.code._replace(heat=meter)
    try:
        if config.tier == "auto":
            tiers.ask(plan)
        else:
            tiers.compile_now(plan)
    except (CompileError, NoCompilerError) as error:  # what there is goes on
        plan.code = plan.code._replace(heat=None)
        where = source_text(subject.roots[0].source)
        events.record("compile", f"no kernels for these sizes: {error}", where)
