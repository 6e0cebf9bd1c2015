"""The corpus of generated kernels: compiled for GPUs, run on the emulator, and taken apart.

    python -m tests.cuda.corpus [--share N] [--only compile,run,cut] [--workers N] [--arch A ...]

``compile``: NVRTC takes every kernel; none spills, none asks for more shared memory than there is,
and aligned elementwise kernels access 16 bytes at a time. ``run``: the same texts, by hash, give
the interpreter's values on the emulator, and the same bits under four schedules; no two threads use
an element of global memory, one of them writing, with nothing to put them in order. ``cut``: a
kernel without one of its barriers is found out, and so is one that does not wait for a copy.
``--share 10`` takes every tenth cell.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from lazyt.codegen.cuda.threads import MOST_SHARED_BYTES
from lazyt.errors import LazytError
from lazyt.ir.program import Grid, KernelSource
from lazyt.ops.registry import OPS
from lazyt.runtime.cuda import nvrtc
from lazyt.runtime.cuda.emulated import Emulator
from tests.cuda import corpus_plans as plans
from tests.cuda.corpus_cells import WITHOUT_KERNELS, all_cells
from tests.cuda.corpus_plans import Plan
from tests.cuda.cubins import accesses

ARCHITECTURES = ("sm_80", "sm_90a")
SEEDS = (0, 1, 2, 3)
#: What may be deleted, by the helper.
KINDS = {
    "lz_sync_block": "barriers", "lz_sync_warp": "warps' barriers",
    "lz_wait_copies": "waits for copies", "lz_commit_copies": "commits of copies",
}  # fmt: skip
_HEAD = re.compile(r'extern "C" __global__ .*\) (\w+)\(')
_WAITING = re.compile(rf" *({'|'.join(KINDS)})\(")


@dataclass
class Corpus:
    """Plans of cells, their distinct kernels, and these in parts that are compiled as one."""

    plans: list[Plan]
    kernels: dict[str, KernelSource]
    parts: list[list[KernelSource]]
    workers: int = 2
    watched: bool = False
    machines: dict[str, Emulator] = field(default_factory=dict)

    def emulators(self) -> dict[str, Emulator]:
        """An emulator that holds each kernel, by the kernel's name."""
        if not self.machines:
            with ThreadPoolExecutor(self.workers) as pool:
                made = pool.map(lambda part: plans.emulate(part, self.watched), self.parts)
                self.machines = {
                    kernel.name: machine
                    for part, machine in zip(self.parts, made, strict=True)
                    for kernel in part
                }
        return self.machines


def gather(share: int = 1, first: int = 0, workers: int = 2) -> Corpus:
    """The corpus, or every ``share``-th cell of it from number ``first`` on."""
    made = [plan for cell in all_cells()[first::share] if (plan := plans.make_plan(cell))]
    kernels = plans.distinct(made)
    for kernel in kernels.values():
        require_hash(kernel)
    return Corpus(made, kernels, plans.parts(kernels.values()), workers)


def require_hash(kernel: KernelSource) -> None:
    """Kernels are named after their text, so that what is run is what is compiled."""
    kind, digest = kernel.name.rsplit("_", 1)
    text = kernel.text.replace(kernel.name, "lz_kernel")
    assert hashlib.sha256(text.encode()).hexdigest().startswith(digest), (kind, digest)


def missing_ops(corpus: Corpus) -> set[str]:
    """Ops of the registry that no plan has."""
    found = {node.op.name for plan in corpus.plans for node in plans.every_node(plan.roots)}
    return set(OPS) - found - WITHOUT_KERNELS


# -------------------------------------------------------------------- compile


@dataclass
class Compiled:
    """What NVRTC made of the corpus for one architecture."""

    functions: int
    seconds: float
    registers: int
    faults: list[str]


def compile_all(corpus: Corpus, arch: str) -> Compiled:
    """All kernels as cubins, and what is wrong with these."""
    begun = time.monotonic()
    with ThreadPoolExecutor(corpus.workers) as pool:
        cubins = list(pool.map(lambda p: _cubin(p, arch), corpus.parts))
    seconds = time.monotonic() - begun
    owners = {
        grid.function: (plan, grid)
        for plan in corpus.plans
        for kernel in plan.program.kernels
        for grid in kernel.grids
    }
    faults: list[str] = []
    compiled: set[str] = set()
    for cubin in cubins:
        widths = accesses(cubin.image)
        for function in cubin.registers:
            plan, grid = owners[function]
            compiled.add(function)
            for fault in _faults(plan, grid, cubin, widths[function]):
                faults.append(f"{arch} {function} of {plan.cell.name}: {fault}")
    faults += [f"{arch}: {name} is missing" for name in owners.keys() - compiled]
    most = max(max(c.registers.values()) for c in cubins)
    return Compiled(len(compiled), seconds, most, faults)


def _cubin(part: Sequence[KernelSource], arch: str) -> nvrtc.Cubin:
    return nvrtc.compile_cubin(plans.program_text(part, "cuda"), arch)


def _faults(
    plan: Plan, grid: Grid, cubin: nvrtc.Cubin, widths: dict[tuple[str, int], int]
) -> Iterable[str]:
    spilled, stack = cubin.spilled[grid.function], cubin.stack[grid.function]
    if plan.cell.light and (spilled or stack):
        yield f"{spilled} bytes spilled, {stack} bytes of stack"
    if grid.shared_bytes > MOST_SHARED_BYTES:
        yield f"{grid.shared_bytes} bytes of shared memory"
    if cubin.registers[grid.function] * grid.threads > 1 << 16:
        yield f"{cubin.registers[grid.function]} registers for each of {grid.threads} threads"
    narrow = {key: n for key, n in widths.items() if key[1] < 16}
    if plan.cell.aligned and (narrow or not widths):
        yield f"accesses of less than 16 bytes: {narrow}"


# ------------------------------------------------------------------------ run


def run_all(corpus: Corpus) -> list[str]:
    """What differs on the emulator from the interpreter, or between schedules."""
    machines = corpus.emulators()
    faults: list[str] = []
    for plan in corpus.plans:
        want = plans.wanted(plan)
        bits: list[bytes] | None = None
        for seed in SEEDS:
            try:
                got = plans.run(plan, machines, seed)
            except LazytError as error:
                faults.append(f"{plan.cell.name}, schedule {seed}: {error}")
                break
            wrong = plans.difference(plan, got, want)
            mine = [array.tobytes() for array in got]
            if wrong or (bits is not None and mine != bits):
                faults.append(f"{plan.cell.name}, schedule {seed}: {wrong or 'other bits'}")
                break
            bits = mine
    return faults


# ------------------------------------------------------------------------ cut


@dataclass
class Cuts:
    """Deleted barriers, waits and commits: how many there were, and which nobody noticed.

    ``kinds``: how many of each of ``KINDS`` there were, and were noticed.
    """

    count: int = 0
    kinds: dict[str, tuple[int, int]] = field(default_factory=dict)
    unnoticed: list[str] = field(default_factory=list)
    by_value: int = 0

    @property
    def share(self) -> float:
        """The share that was noticed."""
        return 1 - len(self.unnoticed) / max(self.count, 1)


def barriers(kernels: Sequence[KernelSource]) -> dict[str, list[tuple[int, str]]]:
    """Lines, and what of ``KINDS`` is there, in the text that the emulator compiles, by kernel."""
    found: dict[str, list[tuple[int, str]]] = {}
    functions = {g.function: kernel.name for kernel in kernels for g in kernel.grids}
    owner = ""
    for number, line in enumerate(plans.program_text(kernels, "emulator").splitlines(), 1):
        if head := _HEAD.match(line):
            owner = functions[head.group(1)]
        elif owner and (call := _WAITING.match(line)):
            found.setdefault(owner, []).append((number, call.group(1)))
    return found


def cut_all(corpus: Corpus) -> Cuts:
    """Runs every kernel without each of its barriers, waits and commits, under four schedules at
    most."""
    machines = corpus.emulators()
    result = Cuts()
    users = {kernel.name: plan for plan in corpus.plans for kernel in plan.program.kernels}
    for part in corpus.parts:
        for name, lines in barriers(part).items():
            plan, machine = users[name], machines[name]
            want = [array.tobytes() for array in plans.run(plan, machines, SEEDS[0])]
            for number, (line, kind) in enumerate(lines):
                result.count += 1
                machine.leave_out(line)
                try:
                    how = _noticed(plan, machines, want)
                finally:
                    machine.leave_out(0)
                result.by_value += how == "value"
                there, noticed = result.kinds.get(kind, (0, 0))
                result.kinds[kind] = there + 1, noticed + bool(how)
                if not how:
                    result.unnoticed.append(
                        f"{kind}, number {number} of {name} of {plan.cell.name}"
                    )
    return result


def _noticed(plan: Plan, machines: dict[str, Emulator], want: Sequence[bytes]) -> str:
    """How a run differs from a right one: a report of the emulator, or other bits."""
    for seed in SEEDS:
        try:
            got = plans.run(plan, machines, seed)
        except LazytError:
            return "report"
        if [array.tobytes() for array in got] != list(want):
            return "value"
    return ""


# -------------------------------------------------------------------- command


def main() -> int:
    """Everything, with a report; 1 when something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.cuda.corpus")
    parser.add_argument("--share", type=int, default=1, help="take every so many-th cell")
    parser.add_argument("--only", default="compile,run,cut", help="some of compile, run, cut")
    parser.add_argument("--workers", type=int, default=2, help="compilers side by side")
    parser.add_argument("--arch", nargs="+", default=ARCHITECTURES, help="GPU architectures")
    chosen = parser.parse_args()
    wanted = chosen.only.split(",")
    begun = time.monotonic()

    def tell(text: str) -> None:
        print(f"{time.monotonic() - begun:7.1f} s  {text}", flush=True)

    corpus = gather(chosen.share, workers=chosen.workers)
    corpus.watched = True
    tell(f"{len(corpus.plans)} graphs, {len(corpus.kernels)} kernels")
    faults: list[str] = []
    if chosen.share == 1:
        faults += [f"no kernel for the op {name}" for name in sorted(missing_ops(corpus))]
    for arch in chosen.arch if "compile" in wanted else ():
        made = compile_all(corpus, arch)
        tell(f"NVRTC {nvrtc.version()} {arch}: {made.functions} functions in {made.seconds:.1f} s, "
             f"{made.registers} registers at most, {len(made.faults)} faults")  # fmt: skip
        faults += made.faults
    if "run" in wanted:
        found = run_all(corpus)
        tell(f"emulator: {len(corpus.plans)} graphs, {len(SEEDS)} schedules, {len(found)} failed")
        faults += found
    if "cut" in wanted:
        cuts = cut_all(corpus)
        each = ", ".join(f"{b} of {a} {KINDS[k]}" for k, (a, b) in sorted(cuts.kinds.items()))
        tell(f"{cuts.count} deletions, {cuts.share:.1%} noticed "
             f"({cuts.by_value} by their values): {each}")  # fmt: skip
        faults += [f"not noticed: {name}" for name in cuts.unnoticed] if cuts.share < 0.95 else []
        for name in cuts.unnoticed:
            print(f"           not noticed: {name}")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
