"""What a plan takes: memory and time, as predicted and as measured.

The prediction of memory is the plan itself: what it reads, what it leaves, and the one piece of
memory for all values that live between its kernels, each as the pool hands it out. The prediction
of time is an estimate from this machine's bounds (``runtime/cpu/roofline.py``): kernels come near
to them, or not, by their kind.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple

from lazyt.codegen.generic.program import step_notes, timed
from lazyt.codegen.plan.trials import time_launches
from lazyt.ir.dtypes import float64, int64
from lazyt.ir.program import Program
from lazyt.passes.recompute import NOTHING_SAVED
from lazyt.plan.constant_lifting import table_buffer
from lazyt.runtime import events
from lazyt.runtime.cpu import execute
from lazyt.runtime.memory import Buffer, block_size, pool

if TYPE_CHECKING:
    from lazyt.runtime.cpu.execute import Executable

#: Seconds that a launch takes beside its work, and the share of the machine's arithmetic that
#: contractions and all other kernels reach.
_LAUNCH, _CONTRACTED, _MAPPED = 4e-6, 0.5, 0.1


class Measured(NamedTuple):
    """One run of a plan: bytes that were in use at the most beside what there was before, and
    seconds."""

    bytes: int
    seconds: float


@dataclass(frozen=True)
class Footprint:
    """Memory and time of a plan; prints as two lines.

    Attributes:
        inputs, results: bytes of what the plan reads and leaves.
        between: bytes for the values that live between its kernels, shared by all.
        alone: how many of these the launch that needs most reads and writes by itself: no budget
            leads below.
        launches: the kernels' facts, as code generation left them.
        measured: the last run, None before the first.
    """

    inputs: int
    results: int
    between: int
    launches: Sequence[dict[str, Any]]
    measured: Measured | None = None
    alone: int = 0

    @staticmethod
    def of(program: Program, measured: tuple[int, float] | None = None) -> Footprint:
        """The footprint of a plan, and the bytes and seconds that its last run took."""
        sizes: dict[tuple[str, int], int] = {}
        for slot in program.slots:
            if slot.kind != "arena":
                key = slot.kind, slot.index
                sizes[key] = max(sizes.get(key, 0), slot.nbytes)
        inputs, results = (
            sum(block_size(size) for (kind, _), size in sizes.items() if kind == which)
            for which in ("input", "output")
        )
        between = block_size(program.arena_bytes) if program.arena_bytes else 0
        found = None if measured is None else Measured(*measured)
        own = [{program.slots[number] for number in each.slots} for each in program.launches]
        inner = ([slot.nbytes for slot in slots if slot.kind == "arena"] for slots in own)
        alone = max((sum(sizes) for sizes in inner), default=0)
        return Footprint(inputs, results, between, program.notes, found, alone)

    @property
    def peak(self) -> int:
        """The bytes that a run is predicted to take, its inputs included."""
        return self.inputs + self.results + self.between

    @property
    def measured_peak(self) -> int | None:
        """The bytes that the last run took, its inputs included; None before the first."""
        return None if self.measured is None else self.inputs + self.measured.bytes

    @property
    def seconds(self) -> float:
        """The time that a run is predicted to take. Measures the machine's bounds when nobody did
        before; raises NoCompilerError where it cannot."""
        return self._predicted(self.launches)

    @property
    def again(self) -> Sequence[dict[str, Any]]:
        """The launches that compute values once more, to save memory."""
        return [note for note in self.launches if note.get("again")]

    @property
    def again_seconds(self) -> float:
        """The part of ``seconds`` that computing values once more takes."""
        return self._predicted(self.again)

    def _predicted(self, launches: Sequence[dict[str, Any]]) -> float:
        from lazyt.runtime.cpu.roofline import measure

        bounds = measure()
        total = 0.0
        for note in launches:
            share = _CONTRACTED if note["kind"] == "contract" else _MAPPED
            moved = note["bytes_read"] + note["bytes_written"]
            total += _LAUNCH + bounds.least_seconds(moved, note["flops"] / share)
        return total

    def memory_text(self) -> str:
        """The line about memory."""
        parts = f"inputs {_mega(self.inputs)}, results {_mega(self.results)}, between kernels "
        alone = f" of which one launch needs {_mega(self.alone)}" if self.alone else ""
        text = f"peak memory: predicted {_mega(self.peak)} ({parts}{_mega(self.between)}{alone})"
        found = self.measured_peak
        if found is not None:
            text += f", measured {_mega(found)}"
        reasons = (reason for note in self.launches for reason in note.get("reasons", ()))
        idle = any(reason.startswith(NOTHING_SAVED) for reason in reasons)
        return f"{text}; {NOTHING_SAVED}" if idle else text

    def __str__(self) -> str:
        text = f"time: predicted {1e3 * self.seconds:.3g} ms"
        if self.again:
            count = f"{len(self.again)} of {len(self.launches)} launches"
            text += f" ({1e3 * self.again_seconds:.3g} ms of it for {count} that compute again)"
        if self.measured is not None:
            text += f", measured {1e3 * self.measured.seconds:.3g} ms"
        return f"{self.memory_text()}\n{text}"


def _mega(nbytes: int) -> str:
    return f"{nbytes / 1e6:.2f} MB"


# Running a plan with a clock around every kernel, while a profiler is on.


def run_timed(program: Program, inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> None:
    """Runs the plan as ``Executable.run`` does; tells ``events.watching`` when kernels ran.

    Raises as ``execute.load`` and ``Executable.run``.
    """
    timed = time_launches(program, time.CLOCK_MONOTONIC)
    executable = execute.load(timed, "the profiler runs plans with clocks")
    in_use, me = pool.in_use, get_ident()
    stamps = Buffer(8 * (len(program.launches) + 1))
    started = time.monotonic()
    executable.run(inputs, [*outputs, stamps])
    ended = time.monotonic()
    seconds = stamps.as_numpy(float64, (len(program.launches) + 1,)).tolist()
    found = [events.Timing(_plan_note(program), started, ended, in_use, 0, me)]
    steps = zip(program.notes, seconds, seconds[1:], scratch_in_use(program), strict=False)
    found += [events.Timing(n, begin, end, in_use, held, me) for n, begin, end, held in steps]
    for timings in events.watching:
        timings += found


def run_generic_timed(
    executable: Executable, inputs: Sequence[Buffer], outputs: Sequence[Buffer]
) -> None:
    """Runs a plan in tier 0; tells ``events.watching`` when that was, and when each of its
    instructions ran, as of a kernel.

    Raises as ``Executable.run``.
    """
    program, in_use, me = executable.program, pool.in_use, get_ident()
    given = inputs[-1]
    count = given.nbytes // 8
    words = timed(program, given.as_numpy(int64, (count,)).tolist())
    table = table_buffer(words)
    started = time.monotonic()
    executable.run([*inputs[:-1], table], outputs)
    ended = time.monotonic()
    seconds = table.as_numpy(float64, (len(words),))[count:].tolist()
    notes = step_notes(program)
    plan = {**_plan_note(program), "kernels": len(notes)}
    found = [events.Timing(plan, started, ended, in_use, 0, me)]
    steps = zip(notes, seconds, seconds[1:], strict=False)
    held = program.arena_bytes
    found += [events.Timing(n, begin, end, in_use, held, me) for n, begin, end in steps]
    for timings in events.watching:
        timings += found


def scratch_in_use(program: Program) -> list[int]:
    """Bytes of the arena that hold a value, at each launch. Values that follow each other in the
    very same place cannot be told apart: the place counts from its first use to its last."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for step, launch in enumerate(program.launches):
        for number in launch.slots:
            if program.slots[number].kind == "arena":
                first.setdefault(number, step)
                last[number] = step
    held = []
    for step in range(len(program.launches)):
        alive = [program.slots[n] for n in first if first[n] <= step <= last[n]]
        total = end = 0
        for start, stop in sorted((slot.offset, slot.offset + slot.nbytes) for slot in alive):
            total += max(0, stop - max(start, end))
            end = max(end, stop)
        held.append(total)
    return held


def _plan_note(program: Program) -> dict[str, object]:
    return {
        "kind": "plan",
        "kernels": len(program.launches),
        "arena_bytes": program.arena_bytes,
    }
