"""The search for a kernel's best form: from the heuristics' form to its neighbours, and so on."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lazyt.codegen.c.target import print_kernel_c
from lazyt.codegen.plan.choices import Tuned, outline, signature
from lazyt.codegen.plan.printed import PrintedKernel
from lazyt.codegen.plan.trials import forms_program
from lazyt.codegen.prelude import exactly
from lazyt.config import config
from lazyt.errors import CompileError
from lazyt.ir.kernel import Kernel
from lazyt.runtime import devices
from lazyt.runtime.cpu import execute
from lazyt.runtime.memory import Buffer
from lazyt.tuning.clock import MARGIN, Runner, Steps, duel, race, repeats
from lazyt.tuning.space import Space
from lazyt.tuning.strategies import PROGRESS, Trial
from lazyt.tuning.trial_log import SearchOptions

#: Forms that are compiled together: enough for compilers on all cores.
BATCH = 8


@dataclass(frozen=True)
class KernelReport:
    """What the search for a kernel's form found.

    Attributes:
        name: the kernel's signature.
        outline: the kernel in a few words.
        standard, seconds: what it takes in the heuristics' form, and in the best.
        form: the best, None for that of the heuristics.
        tried: forms that were timed.
        why: why the best form is the best, in words.
    """

    name: str
    outline: str
    standard: float
    seconds: float
    form: Tuned | None
    tried: int
    why: str = ""


@dataclass(frozen=True)
class Argument:
    """A kernel's argument in the plan: its address, its bytes, and the buffer's role."""

    pointer: int
    nbytes: int
    role: str


@dataclass(eq=False)
class _Candidate:
    """A form that is compiled."""

    tuned: Tuned
    runner: Runner
    seconds: float = float("inf")

    def trial(self, status: str = "timed") -> Trial:
        """What came of it."""
        samples = tuple(self.runner.samples) if status == "timed" else ()
        return Trial(self.tuned, status, self.seconds, samples)


class KernelSearch:
    """The forms of one kernel, on the arguments that it has in a plan.

    What it writes goes to memory of the search's own.
    """

    def __init__(
        self,
        kernel: Kernel,
        arguments: Sequence[Argument],
        seconds: float,
        say: Callable[[str], None],
        options: SearchOptions | None = None,
    ) -> None:
        device = devices.cpu()
        self.kernel, self.say = kernel, say
        self.machine = device.vector_bytes, (device.l1, device.l2, device.l3)
        self.traits, self.threads = devices.traits(), max(device.cores, 2)
        self.space = Space(kernel, *self.machine, self.traits, self.threads)
        self.standard = self.space.standard()
        self.options = options or SearchOptions()
        self.log = self.options.trial_log()
        self.deadline = time.perf_counter() + seconds
        self.sizes = [a.nbytes for a in arguments]
        self.pointers = [a.pointer for a in arguments]
        self.written: list[tuple[Buffer, Argument]] = []
        for place, argument in enumerate(arguments):
            if argument.role != "in":
                own = Buffer(argument.nbytes)
                self.pointers[place] = own.ptr
                self.written.append((own, argument))
        self.expected: list[Buffer] = []
        self.spaces: list[Buffer] = []
        self.texts: set[str] = set()  # of what was compiled
        self.cost = 0.0  # seconds of compiling a form
        self.tried = 0

    def left(self) -> float:
        """Seconds that are left."""
        return self.deadline - time.perf_counter()

    # ------------------------------------------------------------------- search

    def run(self, known: Tuned | None = None) -> KernelReport | None:
        """Searches, from a form that is known to be good, too; None where there is nothing to
        choose, or no time to do it."""
        if self.standard is None:
            return None
        first = self._compiled([self.standard])
        if not first:
            return None
        self._expect(first[0])
        (base,) = first
        times = repeats(base.runner.seconds(1))
        base.seconds = min(race([base.runner, base.runner], times))
        self._note([base.trial()], times)
        best = self._search(base, times, known)
        name, short = signature(self.kernel), outline(self.kernel)
        if best is base:
            others = self.tried > 1
            why = "no other form looked faster" if others else "there was no time for other forms"
            return KernelReport(name, short, base.seconds, base.seconds, None, self.tried, why)
        rounds = max(3, min(9, int(self.left() / (2.2 * base.seconds * times))))
        old, new, faster = duel(base.runner, best.runner, times, rounds)
        form = best.tuned if faster else None
        why = f"{abs(1 - new / old):.0%} {'faster' if new < old else 'slower'} at its best"
        if not faster:
            why = f"{best.tuned} was {why}: not certainly {MARGIN:.0%}"
        return KernelReport(name, short, old, new if faster else old, form, self.tried, why)

    def _search(self, base: _Candidate, times: int, known: Tuned | None) -> _Candidate:
        """The best form that the strategy finds from ``base`` on, in the time that there is."""
        best = base
        rng = random.Random(signature(self.kernel))
        first = [known] if known is not None else []
        strategy = self.options.make()(self.space, base.trial(), first, rng)
        while self._affords(base, times):
            most = max(1, min(BATCH, int(self.left() / (2 * self.cost))))
            batch = strategy.propose(most)
            if not batch:
                break
            compiled = self._compiled(batch)
            made = [c for c in compiled if self._same_bits(c)]
            for candidate in made:
                candidate.runner.samples.clear()  # of the run that was compared
            found = race([c.runner for c in made], times)
            for candidate, seconds in zip(made, found, strict=True):
                candidate.seconds = seconds
            trials = [c.trial("timed" if c in made else "other bits") for c in compiled]
            there = {trial.form for trial in trials}
            # Either its text is that of another form, or no compiler takes it.
            trials += [Trial(form, "not compiled") for form in batch if form not in there]
            self._note(trials, times)
            strategy.observe(trials)
            winner = min(made, key=lambda c: c.seconds, default=best)
            if winner.seconds < (1.0 - PROGRESS) * best.seconds:
                best = winner
        return best

    def _note(self, trials: Sequence[Trial], times: int) -> None:
        """Notes trials in the log, where there is one."""
        if self.log is not None:
            for trial in trials:
                self.log.add(
                    self.space, trial, kernel=signature(self.kernel), strategy=self.options.name,
                    repeats=times, compile_seconds=self.cost,
                )  # fmt: skip

    def _affords(self, base: _Candidate, times: int) -> bool:
        """Whether there is time for one form more and the comparison at the end."""
        return self.left() > self.cost + 24 * times * base.seconds

    # --------------------------------------------------------------- candidates

    def _compiled(self, batch: Sequence[Tuned]) -> list[_Candidate]:
        """The forms ready to run, those that compile and whose text is new."""
        begin = time.perf_counter()
        texts: dict[str, tuple[Tuned, PrintedKernel]] = {}
        for tuned in batch:
            form = None if tuned == self.standard else tuned
            printed = print_kernel_c(
                self.kernel, *self.machine, tuned=form, threads=self.threads, traits=self.traits
            )
            if printed.source.text not in self.texts:
                texts.setdefault(printed.source.text, (tuned, printed))
        if not texts:
            return []
        with exactly(config.exact):
            program = forms_program([p for _, p in texts.values()], self.sizes)
        pointers = list(self.pointers)
        for slot in program.slots[len(pointers) : -1]:
            self.spaces.append(Buffer(slot.nbytes))
            pointers.append(self.spaces[-1].ptr)
        try:
            steps = Steps(execute.load_once(program), pointers)
        except CompileError as error:
            if len(texts) > 1:
                return [c for tuned, _ in texts.values() for c in self._compiled([tuned])]
            self.say(f"{outline(self.kernel)}: {batch[0]} does not compile: {error}")
            return []
        self.texts.update(texts)
        self.tried += len(texts)
        self.cost = (time.perf_counter() - begin) / len(texts)
        updates = any(a.role == "inout" for _, a in self.written)
        prepare = self._restore if updates else None
        return [
            _Candidate(tuned, Runner(_bound(steps, number), prepare))
            for number, (tuned, _) in enumerate(texts.values())
        ]

    def _restore(self) -> None:
        """What the kernel writes holds what it held in the plan."""
        for own, argument in self.written:
            own.copy_from(argument.pointer, argument.nbytes)

    def _results(self) -> list[Buffer]:
        return [own for own, argument in self.written if argument.role != "work"]

    def _expect(self, standard: _Candidate) -> None:
        """Notes what every form has to compute."""
        self._restore()
        standard.runner.run(1)
        for own in self._results():
            kept = Buffer(own.nbytes)
            kept.copy_from(own.ptr, own.nbytes)
            self.expected.append(kept)

    def _same_bits(self, candidate: _Candidate) -> bool:
        """Whether a form computes what it has to; else says so."""
        self._restore()
        candidate.runner.run(1)
        if all(a.holds(b) for a, b in zip(self._results(), self.expected, strict=True)):
            return True
        self.say(f"{outline(self.kernel)}: {candidate.tuned} gives other bits, and is not used")
        return False


def _bound(steps: Steps, number: int) -> Callable[[int], float]:
    return lambda times: steps.run(number, times)
