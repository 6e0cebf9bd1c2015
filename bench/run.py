"""Time lazyt beside other frameworks.

    python bench/run.py [--only chain,axpy] [--peers torch,jax] [--peer-python FILE]
                        [--json FILE] [--quick]

Every framework runs every workload in a process of its own; the processes of one workload take
turns, so that a busy minute of the machine hits all of them alike. See README.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from frameworks import FRAMEWORKS, ONLY, WITHOUT  # noqa: E402
from report import Result, describe_machine, format_time, to_json, to_table  # noqa: E402
from workloads import WORKLOADS  # noqa: E402

PEERS = [name for name in FRAMEWORKS if name not in ("lazyt", "C")]
CALL_LIMIT = 300.0  # seconds that one request may take


class Worker:
    """A process that runs one workload in one framework."""

    def __init__(self, result: Result, python: str, quick: bool, folder: str) -> None:
        self.result = result
        caches = {
            "LAZYT_CACHE_DIR": os.path.join(folder, "lazyt"),
            "TORCHINDUCTOR_CACHE_DIR": os.path.join(folder, "inductor"),
            "XDG_CACHE_HOME": os.path.join(folder, "cache"),
        }
        path = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            [python, str(HERE / "worker.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **caches, "PYTHONPATH": path.rstrip(os.pathsep)},
            text=True,
        )
        self.first = {
            "workload": result.workload,
            "framework": result.framework,
            "quick": quick,
        }

    def ask(self, request: dict[str, object]) -> dict[str, Any]:
        """Send a request and wait for the reply; a dead or stuck process replies so."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return {"failed": f"the process ended with {self.process.wait()}"}
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(CALL_LIMIT):
                return {"failed": f"no answer in {CALL_LIMIT:.0f} s"}
        line = self.process.stdout.readline()
        if not line:
            return {"failed": f"the process ended with {self.process.wait()}"}
        reply: dict[str, Any] = json.loads(line)
        return reply

    def begin(self) -> bool:
        """First call and check; False when there is nothing to time."""
        reply = self.ask(self.first)
        result = self.result
        if "missing" in reply:
            result.problem = f"not installed: {reply['missing']}"
        elif "failed" in reply:
            result.problem = reply["failed"]
        else:
            result.version, result.kernels = reply["version"], reply["kernels"]
            result.first_call_s, result.error = reply["first_call_s"], reply["error"]
            if not reply["correct"]:
                result.problem = f"wrong result: error {result.error:.2g}"
        return not result.problem

    def sample(self, samples: int) -> None:
        """Time some calls."""
        reply = self.ask({"samples": samples})
        if "failed" in reply:
            self.result.problem = reply["failed"]
            return
        self.result.seconds += reply["seconds"]
        self.result.peak_bytes = reply["peak_bytes"]

    def end(self) -> None:
        """Close the process's input, and kill it when that is not enough."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def runs(framework: str, workload: str) -> bool:
    """Whether the framework has this workload."""
    only = ONLY.get(framework)
    return (only is None or workload in only) and workload not in WITHOUT.get(framework, ())


def measure(
    workload: str, frameworks: list[str], pythons: dict[str, str], options: argparse.Namespace
) -> list[Result]:
    """One workload in all frameworks, turn by turn."""
    with tempfile.TemporaryDirectory() as folder:
        workers = [
            Worker(Result(workload, name), pythons[name], options.quick, folder)
            for name in frameworks
            if runs(name, workload)
        ]
        try:
            ready = [worker for worker in workers if worker.begin()]
            for _ in range(options.rounds):
                for worker in ready:
                    if not worker.result.problem:
                        worker.sample(options.samples)
        finally:
            for worker in workers:
                worker.end()
        for worker in ready:
            if worker.result.framework == "lazyt" and not worker.result.problem:
                worker.result.warm_first_call_s = call_again(workload, pythons, options, folder)
    return [worker.result for worker in workers]


def call_again(
    workload: str, pythons: dict[str, str], options: argparse.Namespace, folder: str
) -> float | None:
    """lazyt's first call in a new process, with the disk cache that an earlier one filled."""
    worker = Worker(Result(workload, "lazyt"), pythons["lazyt"], options.quick, folder)
    try:
        worker.begin()
    finally:
        worker.end()
    return worker.result.first_call_s


def parse_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = ",".join(WORKLOADS)
    parser.add_argument("--only", default=names, help=f"workloads, with commas: {names}")
    parser.add_argument("--peers", default=",".join(PEERS), help="frameworks beside lazyt and C")
    parser.add_argument("--peer-python", default=sys.executable, help="the Python that has them")
    parser.add_argument("--json", type=Path, help="write everything there")
    parser.add_argument("--quick", action="store_true", help="small sizes: does it still work?")
    parser.add_argument("--rounds", type=int, help="turns of every process (9, quick 2)")
    parser.add_argument("--samples", type=int, default=3, help="timed calls a turn")
    options = parser.parse_args()
    options.only = [name for name in options.only.split(",") if name]
    options.peers = [name for name in options.peers.split(",") if name]
    for given, known in ((options.only, list(WORKLOADS)), (options.peers, PEERS)):
        if unknown := [name for name in given if name not in known]:
            parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
    options.rounds = options.rounds or (2 if options.quick else 9)
    return options


def main() -> int:
    """Measure, print, write; 1 when lazyt failed at anything."""
    options = parse_options()
    frameworks = ["lazyt", "C", *options.peers]
    pythons = {n: options.peer_python if n in options.peers else sys.executable for n in FRAMEWORKS}
    results: list[Result] = []
    missing: set[str] = set()
    for workload in options.only:
        wanted = [name for name in frameworks if name not in missing]
        found = measure(workload, wanted, pythons, options)
        absent = [r for r in found if r.problem.startswith("not installed")]
        for result in absent:
            print(f"{result.framework} is left out: {result.problem}")
        missing |= {r.framework for r in absent}
        results += [r for r in found if r not in absent]
        for result in found:
            if result not in absent:
                text = result.problem or format_time(result.median)
                print(f"{workload}, {result.framework}: {text}", flush=True)
    shown = [name for name in frameworks if name not in missing]
    print()
    titles = {name: workload.title for name, workload in WORKLOADS.items()}
    print(to_table(results, titles, shown))
    if options.quick:
        print("small sizes, few samples (--quick): these times say only that everything works")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        facts = to_json(results, describe_machine(), options.quick)
        options.json.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        print(f"\nwritten to {options.json}")
    return int(any(r.problem for r in results if r.framework == "lazyt"))


if __name__ == "__main__":
    sys.exit(main())
