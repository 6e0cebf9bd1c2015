"""Which plans are tuned, when, and for how long."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lazyt.config import config
from lazyt.errors import LazytError
from lazyt.plan import build
from lazyt.plan.build import Subject
from lazyt.runtime import events
from lazyt.runtime.cpu import execute
from lazyt.runtime.memory import Buffer
from lazyt.tuning.clock import Progress
from lazyt.tuning.plans import PlanReport, PlanTuner, run_seconds
from lazyt.tuning.trial_log import SearchOptions

if TYPE_CHECKING:
    from lazyt.plan.build import Plan


class Session:
    """Plans that are tuned together, within one budget.

    The first turn only looks how long each plan runs, the second tunes: each plan has the share of
    the budget that it has of the time.

    Attributes:
        seconds: the budget.
        options: how searches go.
        weights: seconds that a run of each plan takes, by the graph's name.
        looking: whether this is the first turn.
        reports: what was found.
    """

    def __init__(
        self, seconds: float, progress: Progress, options: SearchOptions | None = None
    ) -> None:
        self.seconds = seconds
        self.progress = progress
        self.options = options
        self.weights: dict[str, float] = {}
        self.looking = True
        self.reports: list[PlanReport] = []

    def take(self, plan: Plan, inputs: Sequence[Buffer]) -> None:
        """Looks at a plan that is about to run on these inputs, or tunes it."""
        subject, plan.subject = plan.subject, None
        assert subject is not None
        if self.looking:
            self.weights[subject.name] = run_seconds(subject, inputs)
            return
        total = sum(self.weights.values()) or 1.0
        share = self.seconds * self.weights.get(subject.name, 0.0) / total
        self.reports.append(_tune(plan, subject, inputs, share, self.progress, self.options))


def take(plan: Plan, inputs: Sequence[Buffer]) -> None:
    """Tunes a plan that is about to run for the first time, or lets the session decide."""
    session = build.session
    if session is not None:
        session.take(plan, inputs)
        return
    subject, plan.subject = plan.subject, None
    assert subject is not None
    _announce()
    with Progress.shown() as progress:
        try:
            _tune(plan, subject, inputs, float(config.tune_seconds), progress)
        except LazytError as error:  # no memory for copies, say: the program goes on without
            progress.say(f"{subject.name} is not tuned: {error}")
        for message in progress.messages:
            events.record("tune", message)


@functools.cache
def _announce() -> None:
    """Says once, on standard error, why the program waits; on a terminal the bar shows it."""
    if not sys.stderr.isatty():
        sys.stderr.write(
            "lazyt: tuning. Each new plan tries other forms of its kernels against the clock, for "
            f"at most {config.tune_seconds} s, and what is found is kept on disk. "
            "LAZYT_TUNE_SECONDS sets the time. This was asked for by LAZYT_TUNE, config.tune or "
            "torch.compile's max-autotune: without them nothing is tuned.\n"
        )


def _tune(
    plan: Plan,
    subject: Subject,
    inputs: Sequence[Buffer],
    seconds: float,
    progress: Progress,
    options: SearchOptions | None = None,
) -> PlanReport:
    """Tunes a plan and lets it run what was found."""
    report, program = PlanTuner(subject, list(inputs), seconds, progress, options).run()
    if program is not None:
        executable = execute.load(program, "tuned")
        sizes = subject.output_sizes(program)
        plan.code = type(plan.code)(program, executable, sizes)
    return report


@contextmanager
def running(session: Session) -> Iterator[Session]:
    """New plans take part in the session."""
    before = build.session
    build.session = session
    try:
        yield session
    finally:
        build.session = before
