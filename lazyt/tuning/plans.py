"""Tuning a plan: how much is fused, then the form of each kernel, on the data that it is run on.

The plan is run launch by launch, so that each kernel finds the arguments that it has in the plan.
What it overwrites are copies: whoever runs the plan afterwards sees nothing of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lazyt.codegen.plan.choices import NONE, Choices, Fusing, Tuned, signature
from lazyt.codegen.plan.trials import stepping
from lazyt.errors import CompileError
from lazyt.ir.kernel import Kernel
from lazyt.ir.program import Program
from lazyt.plan.build import Subject
from lazyt.runtime import winners
from lazyt.runtime.cpu import execute
from lazyt.runtime.cpu.execute import Executable
from lazyt.runtime.memory import Buffer
from lazyt.tuning.clock import Progress, Runner, Steps, duel, repeats
from lazyt.tuning.kernels import Argument, KernelReport, KernelSearch
from lazyt.tuning.trial_log import SearchOptions

#: How much may be fused: the heuristics' choice, and less.
FUSINGS = (
    Fusing(members=1), Fusing(members=2), Fusing(members=4), Fusing(members=8),
    Fusing(inline=4), Fusing(inline=64),
)  # fmt: skip
#: Share of the budget for these, and kernels from which a plan takes too long to compile for it.
FUSING_SHARE, FUSING_KERNELS = 0.3, 60
#: Kernels that take a smaller share of a plan's time are left alone.
LEAST_SHARE = 0.005


@dataclass(frozen=True)
class PlanReport:
    """What tuning a plan found.

    Attributes:
        name: the graph's name.
        before, after: seconds of a run, as heuristics have it and as it is now.
        fusing: how much is fused, None for what heuristics decide.
        kernels: what was found for each kernel that was looked at.
        kept: whether the winners are kept: together they make the plan faster.
        why: why they are not, in words, where there were any.
    """

    name: str
    before: float
    after: float
    fusing: Fusing | None
    kernels: tuple[KernelReport, ...]
    kept: bool
    why: str = ""


class Memory:
    """What a program runs on: inputs, of which it may overwrite copies only, outputs, scratch.

    Attributes:
        inputs, outputs: the buffers.
        pointers: the address behind each slot.
    """

    def __init__(
        self,
        program: Program,
        kernels: Sequence[Kernel],
        inputs: Sequence[Buffer],
        sizes: Sequence[int],
    ) -> None:
        self.inputs = list(inputs)
        for number in _overwritten(program, kernels):
            own = Buffer(inputs[number].nbytes)
            own.copy_from(inputs[number].ptr, own.nbytes)
            self.inputs[number] = own
        self.outputs = [Buffer(size) for size in sizes]
        self.arena = Buffer(program.arena_bytes)
        self.pointers = [self._pointer(s.kind, s.index, s.offset) for s in program.slots]

    def _pointer(self, kind: str, index: int, offset: int) -> int:
        if kind == "arena":
            return self.arena.ptr + offset
        return (self.inputs if kind == "input" else self.outputs)[index].ptr

    def results(self, program: Program) -> list[Buffer]:
        """Where the requested values are."""
        return [self.outputs[n] if n >= 0 else self.inputs[-1 - n] for n in program.results]


def _roles(program: Program, kernels: Sequence[Kernel]) -> list[list[tuple[int, str]]]:
    """For every launch its slots with the role of the buffer; scratch of a target's own has none
    of the kernel's roles, but is scratch."""
    found = []
    for launch, kernel in zip(program.launches, kernels, strict=True):
        roles = [b.role for b in kernel.arguments] * max(1, len(kernel.segments))
        roles += ["work"] * (len(launch.slots) - len(roles))
        found.append(list(zip(launch.slots, roles, strict=True)))
    return found


def _overwritten(program: Program, kernels: Sequence[Kernel]) -> set[int]:
    pairs = [pair for launch in _roles(program, kernels) for pair in launch]
    places = [program.slots[number] for number, role in pairs if role != "in"]
    return {place.index for place in places if place.kind == "input"}


class PlanTuner:
    """Searches for what makes a plan faster, within some seconds."""

    def __init__(
        self,
        subject: Subject,
        inputs: list[Buffer],
        seconds: float,
        progress: Progress,
        options: SearchOptions | None = None,
    ) -> None:
        self.subject, self.inputs, self.progress = subject, inputs, progress
        self.options = options
        self.begin = time.perf_counter()
        self.seconds = seconds
        self.reports: list[KernelReport] = []

    def left(self) -> float:
        """Seconds that are left."""
        return self.begin + self.seconds - time.perf_counter()

    def run(self) -> tuple[PlanReport, Program | None]:
        """What was found, and the program as it is best; None where that is the one there was."""
        known = self.subject.choices() or NONE
        standard, kernels = self.subject.compile(NONE)
        old = self._runner(execute.load(standard), kernels)
        times = repeats(old.seconds(1), 1000)
        old.seconds(times)
        fusing = self._fusing(standard, kernels, old, times)
        program = standard
        if fusing is not None:
            program, kernels = self.subject.compile(NONE, fusing)
        self._search(program, kernels, known)
        found = {r.name: r.form for r in self.reports if r.form is not None}
        before = after = old.seconds(times)
        kept, why = False, ""
        if found or fusing is not None:
            choices = Choices({**known.kernels, **found})
            program, kernels = self.subject.compile(choices, fusing)
            new = self._runner(execute.load(program, "tuned"), kernels)
            before, after, _ = duel(old, new, times, 5)
            kept = after < 0.99 * before
            if not kept:
                why = f"with what was found it took {1e6 * after:.1f} us: nothing is kept"
        self._keep(kept, fusing)
        report = PlanReport(
            self.subject.name, before, after if kept else before, fusing if kept else None,
            tuple(self.reports), kept, why,
        )  # fmt: skip
        return report, program if kept else None

    def _keep(self, kept: bool, fusing: Fusing | None) -> None:
        """Remembers what was found, and what was looked at without finding anything better."""
        tables: dict[str, dict[str, dict[str, Any]]] = {"kernels": {}, "graphs": {}}
        for r in self.reports:
            if r.tried < 2:  # no time: what was known before stays
                continue
            form = r.form.to_dict() if kept and r.form is not None else None
            seconds = r.seconds if form else r.standard
            tables["kernels"][r.name] = {
                "form": form, "standard_us": _micro(r.standard), "tuned_us": _micro(seconds),
            }  # fmt: skip
        chosen = asdict(fusing) if kept and fusing is not None else None
        tables["graphs"][self.subject.name] = {"form": chosen}
        winners.add(tables)

    # ------------------------------------------------------------------ fusion

    def _fusing(
        self, standard: Program, kernels: Sequence[Kernel], old: Runner, times: int
    ) -> Fusing | None:
        """How much is best fused, None for what heuristics decide."""
        if len(kernels) > FUSING_KERNELS:
            return None
        known = {standard.text_hash()}
        expected = self._values(execute.load(standard), kernels)
        best: tuple[float, Fusing | None] = (1.0, None)
        longest = 0.0
        for fusing in FUSINGS:
            begin = time.perf_counter()
            if begin - self.begin + longest > FUSING_SHARE * self.seconds:
                break
            self._show(f"fusion: {fusing}")
            program, parts = self.subject.compile(NONE, fusing)
            if program.text_hash() in known:
                continue
            known.add(program.text_hash())
            made = execute.load_once(program)
            found = self._values(made, parts)
            if not all(a.holds(b) for a, b in zip(found, expected, strict=True)):
                self.progress.say(f"{fusing} gives other bits, and is not used")
                continue
            before, after, faster = duel(old, self._runner(made, parts), times, 5)
            if faster and after / before < best[0]:
                best = after / before, fusing
            longest = max(longest, time.perf_counter() - begin)
        return best[1]

    def _values(self, executable: Executable, kernels: Sequence[Kernel]) -> list[Buffer]:
        """What a program computes."""
        memory = self._memory(executable.program, kernels)
        executable.run(memory.inputs, memory.outputs)
        return memory.results(executable.program)

    def _memory(self, program: Program, kernels: Sequence[Kernel]) -> Memory:
        return Memory(program, kernels, self.inputs, self.subject.output_sizes(program))

    def _runner(self, executable: Executable, kernels: Sequence[Kernel]) -> Runner:
        """A program ready to be timed."""
        memory = self._memory(executable.program, kernels)
        return Runner(_timed(executable, memory.inputs, memory.outputs))

    # ----------------------------------------------------------------- kernels

    def _search(self, program: Program, kernels: Sequence[Kernel], known: Choices) -> None:
        """Goes through the launches; each has the share of the time left that it has of the
        plan's."""
        memory = self._memory(program, kernels)
        numbers = range(len(program.launches))
        weights = [1.0]
        steps: Steps | None = None
        if len(numbers) > 1:
            made = execute.load_once(stepping(program))
            steps = Steps(made, memory.pointers)
            for number in numbers:
                steps.run(number)
            weights = [steps.run(number) for number in numbers]
            memory = self._memory(program, kernels)
            steps = Steps(made, memory.pointers)
        total = sum(weights) or 1.0
        roles = _roles(program, kernels)
        done: set[str] = set()
        for number, kernel in enumerate(kernels):
            name = signature(kernel)
            rest = sum(weights[number:]) or 1.0
            if name not in done and weights[number] >= LEAST_SHARE * total:
                done.add(name)
                slots = [(program.slots[s], memory.pointers[s], r) for s, r in roles[number]]
                arguments = [Argument(p, s.nbytes, role) for s, p, role in slots]
                share = self.left() * weights[number] / rest
                self._look(kernel, arguments[: len(kernel.buffers)], share, known.kernels.get(name))
            if steps is not None:
                steps.run(number)

    def _look(
        self, kernel: Kernel, arguments: list[Argument], seconds: float, known: Tuned | None
    ) -> None:
        """Searches for a kernel's form."""
        if seconds <= 0 or kernel.segments:
            return
        search = KernelSearch(kernel, arguments, seconds, self.progress.say, self.options)
        self._show(signature(kernel).partition(" #")[0])
        try:
            report = search.run(known)
        except CompileError as error:
            self.progress.say(f"{signature(kernel)}: {error}")
            return
        if report is not None:
            self.reports.append(report)

    def _show(self, text: str) -> None:
        self.progress.show(1.0 - self.left() / max(self.seconds, 1e-9), text)


def _timed(
    executable: Executable, inputs: Sequence[Buffer], outputs: Sequence[Buffer]
) -> Callable[[int], float]:
    """What runs a program so many times, and gives the seconds of one."""

    def run(times: int) -> float:
        begin = time.perf_counter()
        for _ in range(times):
            executable.run(inputs, outputs)
        return (time.perf_counter() - begin) / times

    return run


def _micro(seconds: float) -> float:
    return round(1e6 * seconds, 3)


def run_seconds(subject: Subject, inputs: Sequence[Buffer]) -> float:
    """The time of a warm run of a graph's program, on copies of what it overwrites."""
    program, kernels = subject.compile(NONE)
    memory = Memory(program, kernels, inputs, subject.output_sizes(program))
    run = _timed(execute.load(program), memory.inputs, memory.outputs)
    return min(run(1) for _ in range(3))
