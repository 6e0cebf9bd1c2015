"""Judging: rounds of calls on fresh inputs, each of them timed and looked at."""

from __future__ import annotations

import math
import secrets
import statistics
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lazyt.bench.judge import build
from lazyt.bench.judge.budget import judge_result
from lazyt.bench.judge.memory import POISONS
from lazyt.bench.judge.process import Limits, adopt
from lazyt.bench.judge.sides import NativeSide, PythonSide, Side
from lazyt.bench.judge.tasks import Case, Task, draw, draw_numbers
from lazyt.bench.judge.verdicts import Refusal, Times, Verdict
from lazyt.bench.problems import Array, Dims, described
from lazyt.bench.statistics import bootstrap_ratio
from lazyt.runtime.cpu import roofline

#: Calls in a row last about this long together, so that starting them costs little beside it.
_TURN_SECONDS, _MOST_CALLS, _TURN_BYTES = 2e-3, 64, 1 << 28
#: Processor time beside calls, as a share, that no honest process needs.
_IDLE_SHARE = 0.3
#: Exact results that are remembered, to tell a result of another call.
_REMEMBERED = 1 << 25
#: No measurement is so far off that it halves a time.
_POSSIBLE = 0.5
#: How often each way of spreading values is drawn among usual ones.
_UNUSUAL = 0.3


@dataclass(frozen=True)
class Options:
    """How to judge.

    Attributes:
        rounds: of timing; each has calls with warm and with cold caches.
        warm_up: rounds before those, which are checked as all others.
        checks: rounds at other sizes, in between.
        limits: of the submission.
        baseline: a framework of the bench (``lazyt``, ``torch`` ...), or ``""`` for none.
        python: the interpreter that has the baseline's and the submission's framework.
        load: files that register tasks.
        quick: sizes of the bench's workloads are small.
        allow_framework: whether submissions in Python may compute by the framework's operations.
    """

    rounds: int = 9
    warm_up: int = 3
    checks: int = 6
    limits: Limits = field(default_factory=Limits)
    baseline: str = "lazyt"
    python: str = ""
    load: Sequence[str] = ()
    quick: bool = False
    allow_framework: bool = False


class Draws(ABC):
    """Fresh inputs of a task. The seed is secret, and no two sets are the same.

    Attributes:
        task: what is judged.
        seed, source: of all that is drawn.
        names: of inputs and results.
        moves_all: whether every byte of the inputs has to be read.
    """

    def __init__(self, task: Task, moves_all: bool) -> None:
        self.task, self.moves_all = task, moves_all
        self.seed = secrets.randbits(128)
        self.source = np.random.default_rng(self.seed)
        self.names = [*task.inputs, *task.outputs]

    @abstractmethod
    def cases(self, dims: Dims, spreads: Sequence[str]) -> list[Case]:
        """Sets of inputs, with results."""

    def all_spreads(self) -> list[str]:
        """Every way of spreading values once."""
        return [s for s in self.task.spreads if s != "special" or self.task.nan == "propagate"]

    def spread(self) -> str:
        """How values are spread in the next set."""
        unusual = [spread for spread in self.all_spreads() if spread != "usual"]
        if not unusual or self.source.random() > _UNUSUAL:
            return "usual"
        return str(self.source.choice(unusual))


class TaskDraws(Draws):
    """Inputs as a task describes them."""

    def __init__(self, task: Task) -> None:
        super().__init__(task, not any("labels" in text for text in task.inputs.values()))

    def cases(self, dims: Dims, spreads: Sequence[str]) -> list[Case]:
        """Sets of inputs, with results."""
        numbers = draw_numbers(self.task, self.source)
        return [draw(self.task, dims, spread, self.source, numbers) for spread in spreads]


class Judge:
    """One judgement: a submission, a process that does nothing, and the baseline.

    Args:
        draws: where inputs come from.
        side: the submission.
        null: a process of the same kind that does nothing; None where nothing is timed.
        baselines: the baseline and its own process that does nothing.
        options: how to judge.
    """

    def __init__(
        self, draws: Draws, side: Side, null: Side | None, baselines: tuple[Side, Side] | None,
        options: Options,
    ) -> None:  # fmt: skip
        self.draws, self.side, self.null, self.options = draws, side, null, options
        self.baselines = baselines
        self.calls, self.worst = 0, 0.0
        #: Seconds that a call takes without a kernel: what is shorter cannot be told well.
        self.empty: list[float] = []
        self._busy = 0
        self._seen: list[list[Array]] = []
        self._seen_bytes = 0

    # ------------------------------------------------------------------ calls

    def _turn(self, cases: list[Case], dims: Dims, cold: bool) -> tuple[float, float]:
        """Seconds of a call of the submission and of the baseline (0 without), all results of the
        submission examined."""
        source = self.draws.source
        how: dict[str, Any] = {
            "at_end": bool(source.integers(2)),
            "readonly": bool(source.integers(2)) and not self.draws.task.in_place,
            "remap": bool(source.integers(3) == 0),
            "poison": int(source.choice(POISONS)),
            "order": [int(n) for n in source.permutation(len(cases))],
        }
        sides = [self.side]
        if self.null is not None:
            sides += [self.null, *(self.baselines or ())]
        seconds: dict[int, float] = {}
        for number in source.permutation(len(sides)):
            side = sides[number]
            try:
                seconds[id(side)] = _run(side, cases, dims, how, cold)
            except Refusal as refusal:
                if side is self.side:
                    raise
                raise ValueError(f"the baseline does not work: {refusal}") from None
            if side is self.side:
                self._examine()
        if self.null is None:
            return 0.0, 0.0
        self.empty.append(seconds[id(self.null)] / len(cases))
        own = _less(seconds[id(self.side)], seconds[id(self.null)]) / len(cases)
        if self.baselines is None:
            return own, 0.0
        whole, empty = (seconds[id(side)] for side in self.baselines)
        return own, _less(whole, empty) / len(cases)

    def _examine(self) -> None:
        side, draws = self.side, self.draws
        taken = [[a.copy() for a in side.results(n)] for n in range(len(side.cases))]
        for number, case in enumerate(side.cases):
            side.require_untouched(number, draws.task.in_place, draws.names)
            names = draws.names[len(case.inputs) :]
            for result, (got, name) in enumerate(zip(taken[number], names)):
                try:
                    used = judge_result(got, case, result, side.poison, draws.task.allowance, name)
                except Refusal as refusal:
                    raise self._refined(refusal, number, result, taken) from None
                self.worst = max(self.worst, used)
            self.calls += 1
            self._remember(case)
        share = side.process.idle(0.004)
        self._require_final(taken)
        if share > _IDLE_SHARE:  # once may be the end of something; twice is not
            share = min(share, side.process.idle(0.04))
            self._require_final(taken)
            self._busy = self._busy + 1 if share > _IDLE_SHARE else 0
            if self._busy >= 3:
                evidence = f"between calls it has work for {share:.1f} processors"
                raise Refusal("background", evidence)
        else:
            self._busy = 0

    def _require_final(self, taken: list[list[Array]]) -> None:
        for number, before in enumerate(taken):
            for name, then, now in zip(
                self.draws.names[-len(before) :], before, self.side.results(number)
            ):
                if then.tobytes() != now.tobytes():
                    evidence = f"{name} changed after the call was said to be over"
                    raise Refusal("late", evidence)

    def _refined(
        self, refusal: Refusal, number: int, result: int, taken: list[list[Array]]
    ) -> Refusal:
        """The same, unless what is wrong has a better name."""
        if refusal.kind in ("unwritten", "wrong", "nan", "precision"):
            self.side.process.idle(0.05)
            try:
                self._require_final(taken)
            except Refusal as late:
                return late
        got = taken[number][result].astype(np.float64)
        for exact in self._seen:
            other = exact[result] if result < len(exact) else None
            if other is None or other.shape != got.shape or got.size < 2:
                continue
            with np.errstate(all="ignore"):
                close = np.allclose(got, other, rtol=1e-4, atol=1e-6, equal_nan=True)
            if close:
                return Refusal("stale", f"{refusal.evidence}; it is the result of another call")
        return refusal

    def _remember(self, case: Case) -> None:
        nbytes = sum(part.nbytes for part in case.exact)
        if case.spread == "usual" and self._seen_bytes + nbytes <= _REMEMBERED:
            self._seen.append(case.exact)
            self._seen_bytes += nbytes

    # ------------------------------------------------------------------ rounds

    def _calls_in_a_row(self, dims: Dims) -> int:
        """How many calls last long enough to be timed."""
        cases = self.draws.cases(dims, ["usual"])
        seconds = [self._turn(cases, dims, False)[0]]
        seconds.append(self._turn(self.draws.cases(dims, ["usual"]), dims, False)[0])
        nbytes = sum(a.nbytes for a in (*cases[0].inputs, *cases[0].rounded))
        wanted = math.ceil(_TURN_SECONDS / max(min(seconds), 1e-6))
        return max(1, min(wanted, _MOST_CALLS, _TURN_BYTES // max(nbytes, 1)))

    def run(self) -> tuple[Times, Times]:
        """All rounds; the times of the submission and of the baseline. Raises Refusal."""
        draws, options, source = self.draws, self.options, self.draws.source
        timed = draws.task.sizes[0]
        count = self._calls_in_a_row(timed) if self.null is not None else 1
        rounds = options.warm_up + options.rounds
        others = draws.task.sizes[1:] or draws.task.sizes
        checks = {int(r) for r in source.integers(0, rounds, options.checks)} | {0, rounds - 1}
        every = draws.all_spreads()
        own, theirs = Times(), Times()
        for turn in range(rounds):
            for cold in source.permutation(2):
                spreads = [draws.spread() for _ in range(count)]
                spent = self._turn(draws.cases(timed, spreads), timed, bool(cold))
                if turn >= options.warm_up:
                    (own.cold if cold else own.warm).append(spent[0])
                    (theirs.cold if cold else theirs.warm).append(spent[1])
            if turn in checks:
                self._check(others[int(source.integers(len(others)))], every)
                self._check(timed, [str(source.choice(every))])
        return own, theirs

    def _check(self, dims: Dims, spreads: list[str]) -> None:
        """Calls that are not timed, though the submission cannot know."""
        null, self.null = self.null, None
        try:
            self._turn(self.draws.cases(dims, spreads), dims, False)
        finally:
            self.null = null


def _run(
    side: Side, cases: list[Case], dims: Dims, how: dict[str, Any], cold: bool
) -> float:  # fmt: skip
    """Seconds of the calls on fresh arrays."""
    side.prepare(cases, dims, **how)
    side.fill()
    if cold:
        side.forget()
    return side.run()


def _less(whole: float, empty: float) -> float:
    """A time without what is spent without a kernel; what is too short to be told from it counts
    as a fiftieth of it."""
    return max(whole - empty, 0.02 * empty)


def judge_c(text: str, task: Task, options: Options, name: str = "kernel.c") -> Verdict:
    """Judges a kernel in C.

    Args:
        text: C, complete; ``build.signature(task)`` is the head of its function.
        task: what it has to compute.
        options: how to judge.
        name: of the submission.

    Raises ValueError for a baseline that does not work; never for what a submission does.
    """

    def sides(draws: Draws, folder: Path) -> tuple[Side, Side | None]:
        case = draws.cases(task.sizes[-1], ["usual"])[0]
        dtypes = [str(array.dtype) for array in (*case.inputs, *case.rounded)]
        function, parameters = build.function_of(text)
        entry = build.entry_text(task, function, parameters, dtypes)
        library = build.build(text, entry, folder)
        null = NativeSide(build.driver()[1], options.limits, draws.names)
        try:
            return NativeSide(library, options.limits, draws.names), null
        except Refusal:
            null.close()
            raise

    return judged(name, TaskDraws(task), options, sides, baseline_sides)


Sides = Callable[[Draws, Path], tuple[Side, Side | None]]


Baselines = Callable[[Task, Options], tuple[Side, Side]]


def judged(
    name: str, draws: Draws, options: Options, make: Sides, make_baselines: Baselines
) -> Verdict:
    """The verdict on what ``make`` starts: the submission's side, and one that does nothing (None
    where nothing is to be timed). ``make_baselines`` starts the two of the baseline.

    Raises ValueError for a baseline that does not work.
    """
    adopt()
    verdict = Verdict(name, draws.task.name, seed=draws.seed)
    started: list[Side] = []
    with tempfile.TemporaryDirectory(prefix="judge-") as folder:
        try:
            side, null = make(draws, Path(folder))
            started += [side, *([null] if null is not None else [])]
            baselines = None
            if null is not None and options.baseline:
                try:
                    baselines = make_baselines(draws.task, options)
                except Refusal as refusal:
                    what = f"the baseline {options.baseline} does not work: {refusal}"
                    raise ValueError(what) from None
                started += baselines
                verdict.baseline_name = options.baseline
            judge = Judge(draws, side, null, baselines, options)
            try:
                verdict.times, verdict.baseline = judge.run()
            finally:
                verdict.calls, verdict.worst = judge.calls, judge.worst
            if null is None:
                verdict.notes.append("not timed")
                verdict.times, verdict.baseline = Times(), Times()
            else:
                _conclude(verdict, draws, baselines is not None, statistics.median(judge.empty))
        except Refusal as refusal:
            verdict.kind, verdict.evidence = refusal.kind, refusal.evidence
            verdict.times, verdict.baseline = Times(), Times()
        finally:
            for one in started:
                one.close()
    return verdict


def baseline_sides(task: Task, options: Options) -> tuple[Side, Side]:
    """The task's reference in a framework, and nothing in the same."""
    settings = {
        "module": "lazyt" if options.baseline in ("lazyt", "lazy") else "torch",
        "threads": options.limits.threads,
    }
    what = {
        "kind": "task", "task": task.name, "load": list(options.load), "quick": options.quick,
        "framework": options.baseline,
    }  # fmt: skip
    limits = Limits(max(60.0, options.limits.seconds), 0, options.limits.threads)
    side = PythonSide({**settings, **what}, limits, options.python)
    try:
        return side, PythonSide({**settings, "kind": "null"}, limits, options.python)
    except Refusal:
        side.close()
        raise


def _conclude(verdict: Verdict, draws: Draws, compared: bool, empty: float) -> None:
    """Ratios, and the refusal of what no machine can do, where that takes longer than a call
    without a kernel."""
    task, own, theirs = draws.task, verdict.times, verdict.baseline
    case = draws.cases(task.sizes[0], ["usual"])[0]
    limit = roofline.measure()
    nbytes = sum(a.nbytes for a in case.inputs) if draws.moves_all else 0
    verdict.floor = limit.least_seconds(nbytes, case.flops)
    cold, warm = statistics.median(own.cold), statistics.median(own.warm)
    verdict.share = verdict.floor / cold
    is_float32 = all(described(text)[1] == "float32" for text in task.inputs.values())
    for what, seconds, least in (
        ("with warm caches", warm, case.flops / limit.peak if is_float32 else 0.0),
        ("with cold caches", cold, verdict.floor if is_float32 else nbytes / limit.bandwidth),
    ):
        if seconds < _POSSIBLE * least and least > empty:
            evidence = f"{seconds:.3g} s {what}; this machine needs {least:.3g} s at least"
            raise Refusal("impossible", evidence)
    if compared:
        found = bootstrap_ratio(own.warm, theirs.warm, paired=True)
        verdict.speedup = (found.ratio, found.low, found.high)
        found = bootstrap_ratio(own.cold, theirs.cold, paired=True)
        verdict.speedup_cold = (found.ratio, found.low, found.high)
