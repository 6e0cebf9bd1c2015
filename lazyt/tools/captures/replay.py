"""``python -m lazyt replay``: compiles and runs a captured plan, or one kernel of it.

What is compiled is the captured text: whoever changes ``plan.c`` times and checks the change. A
plan runs on the inputs that were captured (``capture --inputs``), else on random ones that fit. A
kernel gets what the launches before it leave. Captured C runs with all rights of who replays it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lazyt.tools.arguments import Parser, UsageError
from lazyt.tools.captures.files import CapturedPlan, CaptureError, plans_at

if TYPE_CHECKING:
    from lazyt.ir.graph import Node
    from lazyt.ir.program import Program
    from lazyt.runtime.cpu.execute import Executable
    from lazyt.runtime.memory import Buffer
    from lazyt.tuning.plans import Memory

#: A trial repeats what it times for about so many seconds.
_TRIAL = 0.002
#: How far results may be from the interpreter's, whose exponential and the like are NumPy's.
_SLACK, _SLACK_HALF = 1e-5, 2e-2


@dataclass(frozen=True)
class Interval:
    """Seconds: the median of some trials, and the quarter of them that was faster and slower."""

    median: float
    low: float
    high: float
    trials: int

    @staticmethod
    def of(run: Callable[[int], float], trials: int) -> Interval:
        """Times ``run``, which runs something so many times and gives the seconds of one."""
        times = max(1, int(_TRIAL / max(run(1), 1e-9)))
        found = sorted(run(times) for _ in range(trials))
        quarter = trials // 4
        return Interval(found[trials // 2], found[quarter], found[trials - 1 - quarter], trials)

    def __str__(self) -> str:
        return (
            f"{_micro(self.median)} ({_micro(self.low)} to {_micro(self.high)}, "
            f"{self.trials} trials)"
        )


def _micro(seconds: float) -> str:
    return f"{1e6 * seconds:.4g} us"


class Replay:
    """A captured plan that is compiled here, with what it runs on.

    Attributes:
        plan: the capture of it.
        edited: whether ``plan.c`` is not what was captured.
        given: ``captured`` or ``random``: where its inputs come from.

    Raises CaptureError for damaged captures and CompileError for text that does not compile.
    """

    def __init__(self, plan: CapturedPlan, seed: int = 0) -> None:
        from lazyt.compiler import program_text

        self.plan, self.program = plan, plan.program
        if self.program.target != "c":
            raise CaptureError(f"{plan.path} is of another device: plans of the CPU are replayed")
        self.leaves, self.roots = self._graph()
        self._check_kernels()
        self.edited = plan.text != program_text(self.program)
        self.arrays, self.given = self._inputs(seed)
        self.whole = self._loaded(None)
        self._steps: Executable | None = None

    def _graph(self) -> tuple[list[Node], list[Node]]:
        """The plan's inputs in its own order, and its roots."""
        leaves, roots = self.plan.nodes()
        order, where = self.plan.facts["order"], self.plan.file("graph.ir")
        if sorted(order) != list(range(len(leaves))):
            raise CaptureError(f"{where}: 'order' does not number its {len(leaves)} inputs")
        pairs = sorted(zip(order, leaves), key=lambda pair: pair[0])
        inputs = [leaf for _, leaf in pairs]
        path = self.plan.file("program.json")
        if len(self.program.results) != len(roots):
            raise CaptureError(f"{path}: not as many results as {where} has")
        for slot in self.program.slots:
            if slot.kind == "input" and not slot.index < len(inputs):
                raise CaptureError(f"{path}: {where} has no input {slot.index}")
            if slot.kind == "input" and slot.nbytes != inputs[slot.index].nbytes:
                raise CaptureError(f"{path}: input {slot.index} is not as large as in {where}")
        count = 1 + max((s.index for s in self.program.slots if s.kind == "output"), default=-1)
        if not all(-len(inputs) <= n < count for n in self.program.results):
            raise CaptureError(f"{path}: a result is no output and no input")
        return inputs, roots

    def _check_kernels(self) -> None:
        kernels, where = self.plan.kernels, self.plan.file("kernels.ir")
        if len(kernels) != len(self.program.launches):
            count = len(self.program.launches)
            raise CaptureError(f"{where} has {len(kernels)} kernels for {count} launches")
        for number, (kernel, launch) in enumerate(zip(kernels, self.program.launches)):
            count = len(kernel.arguments) * max(1, len(kernel.segments))
            if not count <= len(launch.slots) <= count + 1:
                raise CaptureError(f"{where}: the buffers of kernel {number} are not its launch's")

    def _inputs(self, seed: int) -> tuple[list[Any], str]:
        """Stored arrays, one for each input."""
        from lazyt.errors import CheckpointError
        from lazyt.runtime.value_checks import index_limits, make_inputs
        from lazyt.serialization.safetensors import load_file

        path = self.plan.file("inputs.safetensors")
        if not os.path.exists(path):
            made = make_inputs(self.leaves, "uniform", seed, index_limits(self.roots))
            return [made[leaf] for leaf in self.leaves], "random"
        try:
            tensors = load_file(path)
        except (CheckpointError, OSError) as error:
            raise CaptureError(f"{path}: {error}") from None
        arrays = []
        for number, leaf in enumerate(self.leaves):
            found = tensors.get(f"input{number}")
            if found is None or found.dtype is not leaf.dtype or (*found.shape,) != leaf.shape:
                kind = f"{leaf.dtype.name}{list(leaf.shape)}"
                raise CaptureError(f"{path} has no input{number} of {kind}")
            data = found.detach().clone().realize().node.data
            arrays.append(data.as_numpy(leaf.dtype, leaf.shape))
        return arrays, "captured"

    def _loaded(self, stepped: Program | None) -> Executable:
        """The plan's text, compiled; ``stepped`` is the program that runs one launch at a time."""
        from lazyt.runtime.cpu import compile, execute

        wanted = stepped or self.program
        if not self.edited:
            return execute.load(wanted)
        text, where = self.plan.text, self.plan.file("plan.c")
        if stepped is not None:
            if text.count(self.program.entry) != 1:
                raise CaptureError(
                    f"{where}: its entry is not that of program.json, so launches cannot be run "
                    "one by one"
                )
            text = text.replace(self.program.entry, stepped.entry)
        binary = compile.build_text(text, compile.find())
        try:
            entry = execute.open_binary(binary, lambda path: execute.open_library(path)[0])
        except OSError as error:
            raise CaptureError(f"{where} cannot be loaded: {error}") from None
        return execute.Executable(wanted, entry)

    @property
    def steps(self) -> Executable:
        """What runs one launch at a time."""
        from lazyt.codegen.plan.trials import stepping

        if self._steps is None:
            self._steps = self._loaded(stepping(self.program))
        return self._steps

    def memory(self) -> Memory:
        """New memory with the inputs."""
        from lazyt.runtime.memory import Buffer
        from lazyt.tuning.plans import Memory

        buffers = []
        for array in self.arrays:
            buffer = Buffer(array.nbytes)
            buffer.copy_from(array.tobytes())
            buffers.append(buffer)
        sizes = {s.index: s.nbytes for s in self.program.slots if s.kind == "output"}
        listed = [sizes.get(n, 0) for n in range(1 + max(sizes, default=-1))]
        return Memory(self.program, self.plan.kernels, buffers, listed)

    def results(self) -> list[Buffer]:
        """What one run computes."""
        memory = self.memory()
        self.whole.run(memory.inputs, memory.outputs)
        return memory.results(self.program)

    # ------------------------------------------------------------------ times

    def plan_seconds(self, trials: int) -> Interval:
        """The seconds of the whole plan."""
        memory = self.memory()

        def run(times: int) -> float:
            begin = time.perf_counter()
            for _ in range(times):
                self.whole.run(memory.inputs, memory.outputs)
            return (time.perf_counter() - begin) / times

        return Interval.of(run, trials)

    def launch_seconds(self, number: int, trials: int) -> Interval:
        """The seconds of a launch, on what those before it leave."""
        from lazyt.tuning.clock import Steps

        memory = self.memory()
        steps = Steps(self.steps, memory.pointers)
        for before in range(number):
            steps.run(before)
        return Interval.of(lambda times: steps.run(number, times), trials)

    # ------------------------------------------------------------------ checks

    def check(self) -> list[str]:
        """What is wrong with the results: the captured ones differ, or those of the interpreter
        where the inputs are random."""
        from lazyt.tools.captures.recorder import digest

        found = self.results()
        if self.given == "random" and self.leaves:
            return self._compared(found)
        wanted = self.plan.results.get("results")
        if not isinstance(wanted, list) or len(wanted) != len(found):
            where = self.plan.file("results.json")
            raise CaptureError(f"{where}: there are not as many digests as {len(found)} results")
        digests = [digest(b, n.nbytes) for b, n in zip(found, self.roots, strict=True)]
        return [
            f"result {n} is not as captured: {a} rather than {b}"
            for n, (a, b) in enumerate(zip(digests, wanted))
            if a != b
        ]

    def _compared(self, found: Sequence[Buffer]) -> list[str]:
        from lazyt.runtime.value_checks import difference, wanted

        given = dict(zip(self.leaves, self.arrays, strict=True))
        complaints = []
        for number, (buffer, node, want) in enumerate(
            zip(found, self.roots, wanted(self.roots, given), strict=True)
        ):
            slack = 0.0 if want.apart is None else _SLACK_HALF if node.dtype.is_half else _SLACK
            array = buffer.as_numpy(node.dtype, node.shape)
            wrong = difference(array, want, node.dtype, slack)
            if wrong:
                complaints.append(f"result {number} is not the interpreter's: {wrong}")
        return complaints

    def check_launch(self, number: int) -> list[str]:
        """What a launch leaves that is not as captured. Raises CaptureError without digests."""
        from lazyt.tools.captures.recorder import run_launches

        where = self.plan.file("results.json")
        listed = self.plan.results.get("launches")
        if self.given == "random" and self.leaves:
            raise CaptureError(f"{self.plan.path} was captured without --inputs: what a kernel "
                               "leaves cannot be compared")  # fmt: skip
        if not isinstance(listed, list) or len(listed) != len(self.program.launches):
            raise CaptureError(f"{where} has no digests of what launches leave")
        wanted = listed[number]
        written, _ = run_launches(self.program, self.plan.kernels, self.memory(), self.steps, 0)
        if not isinstance(wanted, dict) or wanted.keys() != written[number].keys():
            raise CaptureError(f"{where}: launch {number} writes other slots")
        return [
            f"what it leaves in slot {slot} is not as captured"
            for slot, found in written[number].items()
            if wanted[slot] != found
        ]

    def launches_of(self, name: str) -> list[int]:
        """The launches of a kernel, by its name or a part of it, or by its number. Raises
        UsageError where there are none, or several kernels."""
        launches = self.program.launches
        if name.isdecimal() and int(name) < len(launches):
            return [int(name)]
        names = list(dict.fromkeys(launch.kernel for launch in launches if name in launch.kernel))
        if len(names) != 1 and name not in names:
            known = ", ".join(dict.fromkeys(launch.kernel for launch in launches))
            raise UsageError(f"{len(names)} kernels are called '{name}'; there are {known}")
        wanted = name if name in names else names[0]
        return [n for n, launch in enumerate(launches) if launch.kernel == wanted]


def _parser() -> Parser:
    parser = Parser(loads=True, prog="lazyt replay", description=__doc__)
    parser.add_argument("folder", help="a capture, or the folder of one of its plans")
    parser.add_argument("--plan", help="of a capture: the plans with this in their name")
    parser.add_argument("--kernel", help="one kernel: its name, a part of it, or a launch's number")
    parser.add_argument("--time", action="store_true", help="time the plan, and each launch")
    parser.add_argument("--check", action="store_true", help="compare results; 1 if they differ")
    parser.add_argument("--trials", type=int, default=21, help="trials of each time (21)")
    parser.add_argument("--seed", type=int, default=0, help="of random inputs (0)")
    return parser


def run(argv: Sequence[str]) -> int:
    """The command: 1 where results differ. Raises UsageError, CaptureError and CompileError."""
    given = _parser().parse_args(argv)
    if given.trials < 1:
        raise UsageError(f"--trials has to be 1 or more, not {given.trials}")
    plans = [p for p in plans_at(given.folder) if not given.plan or given.plan in p.name]
    if not plans:
        raise UsageError(f"no plan of {given.folder} is called '{given.plan or ''}'")
    if given.kernel is not None and len(plans) > 1:
        names = ", ".join(plan.name for plan in plans[:6])
        raise UsageError(f"--kernel is of one plan; say --plan, one of {names}")
    wrong = 0
    for plan in plans:
        replay = Replay(plan, given.seed)
        print(f"{plan.name}: {len(plan.program.launches)} launches, {replay.given} inputs"
              f"{', plan.c was changed' if replay.edited else ''}")  # fmt: skip
        lines, complaints = _replayed(replay, given.kernel, given.time, given.check, given.trials)
        print("\n".join(f"  {line}" for line in [*lines, *complaints]))
        wrong += len(complaints)
    return int(wrong > 0)


def _replayed(
    replay: Replay, kernel: str | None, timed: bool, checked: bool, trials: int
) -> tuple[list[str], list[str]]:
    """What there is to say of a replay, and what is wrong."""
    launches = replay.program.launches
    numbers = list(range(len(launches))) if kernel is None else replay.launches_of(kernel)
    lines: list[str] = []
    complaints: list[str] = []
    if kernel is None and timed:
        lines.append(f"plan: {replay.plan_seconds(trials)}")
    for number in numbers if timed else ():
        found = replay.launch_seconds(number, trials)
        lines.append(f"launch {number}, {launches[number].kernel}: {found}")
    if checked and kernel is None:
        complaints = replay.check()
    elif checked:
        complaints = [f"launch {n}: {text}" for n in numbers for text in replay.check_launch(n)]
    elif not timed and kernel is None:
        replay.results()
        lines.append("it runs; --time and --check say more")
    elif not timed:
        for number in numbers:
            replay.launch_seconds(number, 1)
        lines.append("it runs; --time and --check say more")
    if checked and not complaints:
        oracle = "the interpreter's" if replay.given == "random" and replay.leaves else "captured"
        lines.append(f"results are equal to the {oracle} ones" if oracle == "captured"
                     else "results are those of the interpreter")  # fmt: skip
    return lines, complaints
