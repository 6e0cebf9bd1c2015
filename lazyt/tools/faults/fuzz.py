"""``python -m lazyt fuzz``: random graphs through the compiler, each stage compared with the last.

Every fault is made smaller and written to a folder: the graph, the small one, the same as a
program, and what is wrong.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lazyt.config import config
from lazyt.tools.arguments import Parser, UsageError

TARGETS = ("c", "cuda", "none")
#: A seed that takes longer than this has hung.
LIMIT = 120.0
#: Seconds after which a process says again what its graphs have reached.
TELLING = 5.0


def _arguments(argv: Sequence[str]) -> Any:
    parser = Parser(
        prog="lazyt fuzz", description="Random graphs through the compiler, stage by stage.",
        loads=True,
    )  # fmt: skip
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (60)")
    parser.add_argument("--seed", type=int, default=0, help="the first graph (0)")
    parser.add_argument(
        "--target", choices=TARGETS, default="c",
        help="what kernels are printed and run for; none stops at kernels (c)",
    )  # fmt: skip
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (cores)")
    parser.add_argument("--out", default="fuzz-out", help="folder for what is found (fuzz-out)")
    parser.add_argument(
        "--programs", action="store_true",
        help="random Python programs instead, run under settings that must not change anything",
    )  # fmt: skip
    parser.add_argument("--most", type=int, default=20, help="faults after which to stop (20)")
    parser.add_argument("--no-reduce", action="store_true", help="leave graphs as they are")
    parser.add_argument(
        "--work", nargs=2, type=int, metavar=("FIRST", "STEP"),
        help="be one of the processes: print what is found as JSON lines",
    )  # fmt: skip
    given = parser.parse_args(argv)
    if given.seconds <= 0 or given.jobs < 1 or given.most < 1:
        raise UsageError("--seconds, --jobs and --most have to be larger than 0")
    if not given.programs:
        require_compiler(given.target)
    return given


def require_compiler(target: str) -> None:
    """Raises UsageError where nothing compiles what is printed for a target, which would look like
    a fault of the printer."""
    from lazyt.errors import NoCompilerError
    from lazyt.runtime.cpu import compile
    from lazyt.runtime.cuda import emulated

    try:
        if target == "cuda":
            emulated.find_compiler()
        if target != "none":  # lowered groups of both are also run as C
            compile.find()
    except NoCompilerError as error:
        raise UsageError(f"--target {target}: {error} (--target none stops at kernels)") from error


def _work_on_programs(given: Any) -> int:
    """Runs programs, and says what it begins with and finds, a line each."""
    from lazyt.testing import fuzzing

    seed, step = given.work
    end = time.monotonic() + given.seconds
    while time.monotonic() < end:
        print(json.dumps({"begin": seed}), flush=True)
        fault = fuzzing.look_at_program(seed, reduce=not given.no_reduce)
        if fault is not None:
            finding = {"stage": f"programs ({fault.setting})", "text": str(fault.found)}
            told = {
                "fault": seed, "finding": finding, "program": fuzzing.text_of(fault.program),
                "original": fuzzing.text_of(fault.original),
            }  # fmt: skip
            print(json.dumps(told), flush=True)
        seed += step
    return 0


def _work(given: Any) -> int:
    """Looks at graphs, and says what it begins with, finds, and reaches, a line each."""
    import dataclasses

    from lazyt.ir.printer import print_graph
    from lazyt.testing import fuzzing

    target = "" if given.target == "none" else given.target
    search = fuzzing.Search(target)
    seed, step = given.work
    end = time.monotonic() + given.seconds
    told_at = time.monotonic()
    while time.monotonic() < end:
        for turn, item in enumerate(search.subjects(seed)):
            grown = print_graph(item.roots) if turn and not item.passes_only else ""
            print(json.dumps({"begin": seed, "grown": grown}), flush=True)
            fault = search.look(item)
            if fault is not None:
                original = print_graph(fault.roots)
                if not given.no_reduce:
                    left = max(end - time.monotonic(), 20.0)
                    fault = fuzzing.reduce_fault(fault, target, seconds=min(left, fuzzing.PATIENCE))
                told = {
                    "fault": seed, "finding": dataclasses.asdict(fault.finding),
                    "kinds": fault.kinds, "graph": original, "reduced": print_graph(fault.roots),
                    "program": fuzzing.program_of(fault), "grown": bool(turn),
                }  # fmt: skip
                print(json.dumps(told), flush=True)
                break  # what else its graphs show is mostly the same
        if time.monotonic() - told_at > TELLING:
            told_at = time.monotonic()
            print(json.dumps(search.reached()), flush=True)
        seed += step
    print(json.dumps(search.reached()), flush=True)
    return 0


class _Worker:
    """A process that looks at graphs, started again behind a graph that ends it."""

    def __init__(self, given: Any, first: int, end: float) -> None:
        self.given, self.end = given, end
        self.step = given.jobs
        self.seed, self.since = first, time.monotonic()
        self.grown = ""
        self.process = self._start(first)

    def _start(self, first: int) -> subprocess.Popen[str]:
        given = self.given
        command = [sys.executable, "-m", "lazyt", "fuzz", "--target", given.target]
        command += ["--seconds", str(max(self.end - time.monotonic(), 0.1))]
        command += ["--work", str(first), str(self.step)] + ["--no-reduce"] * given.no_reduce
        command += ["--programs"] * given.programs
        for path in given.load:
            command += ["--load", path]
        environment = os.environ | {"LAZYT_THREADS": os.environ.get("LAZYT_THREADS", "2")}
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)

    def lines(self) -> Iterator[dict[str, Any]]:
        """What it says, and what it does not: that a graph has ended it."""
        while True:
            assert self.process.stdout is not None
            line = self.process.stdout.readline()
            if line:
                told = json.loads(line)
                if "begin" in told:
                    self.seed, self.since = told["begin"], time.monotonic()
                    self.grown = told.get("grown", "")
                yield told
                continue
            code = self.process.wait()
            if code == 0:
                return
            if time.monotonic() < self.end:
                yield {"ended": self.seed, "code": code, "grown": self.grown}
                self.process = self._start(self.seed + self.step)
            else:
                return


def _describe(folder: Path, told: dict[str, Any], target: str) -> str:
    """Writes a fault down; a line about it."""
    folder.mkdir(parents=True, exist_ok=True)
    if "ended" in told:
        line = f"the process ends with status {told['code']}"
        (folder / "finding.txt").write_text(f"crash: {line}\n")
        if told["grown"]:
            (folder / "graph.ir").write_text(told["grown"])
        return f"seed {told['ended']}: crash: {line} ({folder})"
    finding = told["finding"]
    if "original" in told:
        (folder / "finding.txt").write_text(f"{finding['stage']}: {finding['text']}\n")
        (folder / "program.py").write_text(told["program"])
        (folder / "original.py").write_text(told["original"])
        first = finding["text"].splitlines()[0]
        return f"seed {told['fault']}: {finding['stage']}: {first} ({folder})"
    kinds = ", ".join(told["kinds"] or ("the graph's own",))
    seed = "a graph that was grown: see graph.ir" if told["grown"] else f"seed: {told['fault']}"
    text = f"{finding['stage']}: {finding['text']}\ninputs: {kinds}\n{seed}\n"
    again = f"again: lazyt bisect graph.ir --target {target} --seed {told['fault']}"
    again += "".join(
        f" --load {shlex.quote(path)}" for path in config.load.split(os.pathsep) if path
    )
    if told["kinds"]:
        text += f"{again} --kinds {','.join(told['kinds'])}\n"
    (folder / "finding.txt").write_text(text + "\n" + finding["ir"])
    (folder / "graph.ir").write_text(told["graph"])
    (folder / "reduced.ir").write_text(told["reduced"])
    (folder / "program.py").write_text(told["program"])
    nodes = sum("=" in line for line in told["reduced"].splitlines())
    first = finding["text"].splitlines()[0]
    return f"seed {told['fault']}: {finding['stage']}: {first} ({nodes} nodes in {folder})"


class _Tally:
    """What the processes have said so far.

    Attributes:
        out: where what was found is written to.
        target: what kernels are printed for.
        looked: how many graphs or programs were looked at.
        stages: how many faults each stage has.
        fired, reached: which passes changed how many graphs, and the lines of each file that ran.
    """

    def __init__(self, out: Path, target: str) -> None:
        self.out, self.target = out, target
        self.looked = 0
        self.stages: Counter[str] = Counter()
        self.fired: Counter[str] = Counter()
        self.reached: dict[str, set[int]] = {}

    @property
    def faults(self) -> int:
        """How many were found."""
        return sum(self.stages.values())

    def take(self, told: dict[str, Any]) -> None:
        """One line of a process."""
        if "begin" in told:
            self.looked += 1
        elif "fired" in told:
            self.fired.update(told["fired"])
            for file, lines in told["lines"].items():
                self.reached.setdefault(file, set()).update(lines)
        elif told:
            seed = told.get("fault", told.get("ended"))
            name = f"seed{seed}grown" if told.get("grown") else f"seed{seed}"
            print(_describe(self.out / name, told, self.target), flush=True)
            self.stages[told["finding"]["stage"] if "finding" in told else "crash"] += 1

    def tell(self, what: str, seconds: float) -> None:
        """Says what was found, which passes never changed a graph, and writes down the lines that
        never ran."""
        found = ", ".join(f"{stage}: {n}" for stage, n in self.stages.most_common())
        noun = "fault" if self.faults == 1 else "faults"
        counts = f"{self.looked} {what} in {seconds:.0f} s, {self.faults} {noun}"
        print(f"{counts} ({found or 'nothing is wrong'})")
        if self.reached:
            from lazyt.testing.coverage import report

            short, long = report(self.fired, self.reached)
            self.out.mkdir(parents=True, exist_ok=True)
            (self.out / "unreached.txt").write_text(long + "\n")
            print(f"{short} ({self.out / 'unreached.txt'} has the others)")


def run(argv: Sequence[str]) -> int:
    """The command: 0 where nothing was found, 1 where something was."""
    import queue
    import threading

    given = _arguments(argv)
    if given.work:
        return _work_on_programs(given) if given.programs else _work(given)
    out = Path(given.out)
    begun = time.monotonic()
    end = begun + given.seconds
    workers = [_Worker(given, given.seed + n, end) for n in range(given.jobs)]
    said: queue.Queue[dict[str, Any] | None] = queue.Queue()

    def listen(worker: _Worker) -> None:
        for told in worker.lines():
            said.put(told)
        said.put(None)

    for worker in workers:
        threading.Thread(target=listen, args=(worker,), daemon=True).start()
    tally, listening, shown = _Tally(out, given.target), len(workers), begun
    try:
        while listening and tally.faults < given.most:
            try:
                told = said.get(timeout=1.0)
            except queue.Empty:
                told = {}
            if told is None:
                listening -= 1
            else:
                tally.take(told)
            now = time.monotonic()
            for worker in workers:
                if now - worker.since > LIMIT + 2 * 60 and worker.process.poll() is None:
                    worker.process.kill()  # it hangs, and is told of as such
            if now - shown > 5 and sys.stderr.isatty():
                shown = now
                line = f"\r{tally.looked} looked at, {tally.faults} faults, {end - now:.0f} s left "
                print(line, end="", file=sys.stderr, flush=True)
    finally:
        for worker in workers:
            if worker.process.poll() is None:
                worker.process.kill()
            worker.process.wait()
    tally.tell("programs" if given.programs else "graphs", time.monotonic() - begun)
    return 1 if tally.faults else 0
