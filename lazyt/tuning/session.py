"""Which plans are tuned, when, and for how long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lazyt import making
from lazyt.config import config
from lazyt.runtime import execute
from lazyt.runtime.memory import Buffer
from lazyt.tuning.plans import PlanReport, PlanTuner, run_seconds
from lazyt.tuning.progress import Progress

if TYPE_CHECKING:
    from lazyt.planning import _Plan


class Session:
    """Plans that are tuned together, within one budget.

    The first turn only looks how long each plan runs, the second tunes: each plan has the share of
    the budget that it has of the time.

    Attributes:
        seconds: the budget.
        weights: seconds that a run of each plan takes, by the graph's name.
        looking: whether this is the first turn.
        reports: what was found.
    """

    def __init__(self, seconds: float, progress: Progress) -> None:
        self.seconds = seconds
        self.progress = progress
        self.weights: dict[str, float] = {}
        self.looking = True
        self.reports: list[PlanReport] = []

    def take(self, plan: _Plan, inputs: Sequence[Buffer]) -> None:
        """Looks at a plan that is about to run on these inputs, or tunes it."""
        subject = plan.subject
        assert subject is not None
        if self.looking:
            self.weights[subject.name] = run_seconds(subject, inputs)
            return
        total = sum(self.weights.values()) or 1.0
        share = self.seconds * self.weights.get(subject.name, 0.0) / total
        self.reports.append(_tune(plan, inputs, share, self.progress))


def take(plan: _Plan, inputs: Sequence[Buffer]) -> None:
    """Tunes a plan that is about to run for the first time, or lets the session decide."""
    session = making.session
    if session is not None:
        session.take(plan, inputs)
        if not session.looking:
            plan.subject = None
        return
    with Progress.shown() as progress:
        _tune(plan, inputs, float(config.tune_seconds), progress)
    plan.subject = None


def _tune(plan: _Plan, inputs: Sequence[Buffer], seconds: float, progress: Progress) -> PlanReport:
    """Tunes a plan and lets it run what was found."""
    subject = plan.subject
    assert subject is not None
    report, program = PlanTuner(subject, list(inputs), seconds, progress).run()
    if program is not None:
        executable = execute.load(program, "tuned")
        sizes = subject.output_sizes(program)
        plan.program, plan.executable, plan.sizes = program, executable, sizes
    return report


@contextmanager
def running(session: Session) -> Iterator[Session]:
    """New plans take part in the session."""
    before = making.session
    making.session = session
    try:
        yield session
    finally:
        making.session = before
