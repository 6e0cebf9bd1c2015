"""How long compiled networks take: ``python -m bench.ecosystem --times``.

A network is called (``forward``), trained with the module alone compiled (``module``), and trained
by a step that is compiled whole (``step``). lazyt does each with and without ``torch.compile``, in
one process, and PyTorch does it eagerly, in another one. The two processes wait for each other, so
that times of one round were measured under the same load; a time is the median of all rounds. All
run with one thread, whose processor time is taken, and everything is warm: compiled, captured and
called before.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from bench.ecosystem import stages, under_torch
from bench.ecosystem.entries import FOLDER, ROOT, Case, Entry, entries

WORKLOADS = ("forward", "module", "step")
#: Seconds that one workload is measured for in a round, about; calls at the most.
SLICE, MOST_CALLS = 0.05, 40
#: Calls before the first round, and seconds after which they are enough. Sizes that come back get
#: kernels of their own after some 64 calls.
WARM, WARM_SECONDS = 80, 2.0

Calls = dict[str, Callable[[], Any]]


# --------------------------------------------------------------- in the process of a framework


def is_network(entry: Entry) -> bool:
    """Whether its program says that it gives a network."""
    return "Case" in str(entry.make.__annotations__.get("return"))


def calls_of(case: Case) -> tuple[Calls, Callable[[], dict[str, str]]]:
    """What is measured, by name: each workload as it is, and ``compiled WORKLOAD``; and what tells
    afterwards how the compiled ones went, by workload."""
    import torch

    network = stages.Network(case)
    network.reset()
    network.inputs = _own(network.inputs)
    compiled: dict[str, Any] = {}
    calls: Calls = {}

    def put(name: str, plain: Callable[[Any], Any], fast: Callable[[Any], Any]) -> None:
        calls[name] = lambda: plain(network.inputs)
        calls[f"compiled {name}"] = lambda: fast(network.inputs)

    def forward(module: Any) -> Callable[[Any], Any]:
        def call(inputs: Any) -> Any:
            with torch.no_grad():
                return network.call(module)

        return call

    for name, make in (("forward", forward), ("module", network.training_step)):
        compiled[name] = torch.compile(network.module)
        put(name, make(network.module), make(compiled[name]))
    compiled["step"] = torch.compile(network.training_step(network.module))
    put("step", network.training_step(network.module), compiled["step"])

    def why() -> dict[str, str]:
        told = {name: fast.why() for name, fast in compiled.items() if hasattr(fast, "why")}
        return {name: reasons[-1] for name, reasons in told.items() if reasons}

    return calls, why


def _own(value: Any) -> Any:
    """Inputs as loaders of data give them: in memory of their own, which NumPy does not see."""
    import torch

    if isinstance(value, Mapping):
        return {name: _own(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_own(part) for part in value])
    return value.clone() if isinstance(value, torch.Tensor) else value


def computed(call: Callable[[], Any]) -> Callable[[], None]:
    """``call``, with all tensors of its result computed."""
    import torch

    realize = getattr(torch, "realize", None)

    def whole() -> None:
        found = [t for _, t in stages.tensors(call()) if isinstance(t, torch.Tensor)]
        if realize is not None:
            realize(*found)

    return whole


def serve(entry: Entry, wanted: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Answers to the lines of standard input: the name of a call gives its seconds, each call's;
    ``why`` what became of captures."""
    import torch

    torch.set_num_threads(1)
    made = entry.make()
    if not isinstance(made, Case) or not made.compiled:
        yield {"skipped": True}
        return
    calls, why = calls_of(made)
    ready = {name: computed(call) for name, call in calls.items() if name in wanted}
    for call in ready.values():
        warm(call)
    for call in ready.values():  # by now there are gradients, which captures depend on
        warm(call, 1)
    yield {"ready": sorted(ready)}
    for line in sys.stdin:
        name = line.strip()
        yield {"why": why()} if name == "why" else {"seconds": measure(ready[name])}


def warm(call: Callable[[], None], times: int = 3) -> None:
    """Calls it until nothing is compiled any more, which is waited for so many times."""
    import torch

    wait = getattr(torch, "wait_for_compiler", None)
    for _ in range(times if wait is not None else 1):
        end = time.monotonic() + WARM_SECONDS
        for _ in range(WARM):
            call()
            if time.monotonic() > end:
                break
        if wait is not None:
            wait(120)


def measure(call: Callable[[], None]) -> list[float]:
    """Seconds of several calls, after one that is not counted: another one was called before."""
    call()
    found: list[float] = []
    while len(found) < MOST_CALLS and sum(found) < SLICE:
        start = time.thread_time()
        call()
        found.append(time.thread_time() - start)
    return found


def main(arguments: list[str]) -> int:
    """``timing.py NAME CALL ...``: serves one network's calls. The exit status."""
    sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() != FOLDER]
    warnings.simplefilter("ignore")
    answers, sys.stdout = sys.stdout, sys.stderr  # what packages print is no answer
    name, *wanted = arguments
    (entry,) = (e for e in entries() if e.name == name)
    if os.environ.get("ECOSYSTEM_RECORDS"):
        under_torch.install(entry.package == "torchvision")
    try:
        for answer in serve(entry, wanted):
            print(json.dumps(answer), file=answers, flush=True)
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), file=answers, flush=True)
        raise
    return 0


# --------------------------------------------------------------- in the process that asks


class Failed(Exception):
    """The process of a framework cannot measure; the text says why."""


class Skipped(Failed):
    """The entry is no network that is compiled."""


class Framework:
    """One framework's process.

    Args:
        command: its interpreter, with options.
        environment: its environment variables.
        entry: the network.
        wanted: the calls to be measured.
        log: the file that gets what it says.
    """

    def __init__(
        self, command: list[str], environment: Mapping[str, str], entry: Entry,
        wanted: Sequence[str], log: Path,
    ) -> None:  # fmt: skip
        self._log = log.open("w", encoding="utf-8")
        self._process = subprocess.Popen(
            [*command, str(Path(__file__).resolve()), entry.name, *wanted],
            env={**environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def answer(self) -> dict[str, Any]:
        """The next answer. Raises Failed."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise Failed(f"the process ended, see {self._log.name}")
        found: dict[str, Any] = json.loads(line)
        if "error" in found:
            raise Failed(found["error"])
        if "skipped" in found:
            raise Skipped("it is not compiled")
        return found

    def ask(self, name: str) -> dict[str, Any]:
        """The answer to a line. Raises Failed."""
        assert self._process.stdin is not None
        self._process.stdin.write(name + "\n")
        self._process.stdin.flush()
        return self.answer()

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._log):
            if stream is not None:
                stream.close()


@contextmanager
def frameworks(
    entry: Entry, python: Path, peer: str | None, packages: Path, build: Path
) -> Iterator[dict[str, Framework]]:
    """The processes, by name: lazyt's, and PyTorch's where ``peer`` is its interpreter."""
    shared = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
        "HF_HUB_OFFLINE": "1",
        "MPLBACKEND": "Agg",
        "LAZYT_CACHE_DIR": str(build / "cache"),
    }
    logs = build / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    plain, fast = [*WORKLOADS], [f"compiled {name}" for name in WORKLOADS]
    made = {
        "lazyt": Framework(
            [str(python), "-m", "lazyt", "run"], {**shared, "PYTHONPATH": str(ROOT)}, entry,
            [*plain, *fast], logs / f"{entry.slug}.times-lazyt.log",
        )
    }  # fmt: skip
    try:
        if peer is not None:
            path = os.pathsep.join([str(ROOT), str(packages)])
            made["torch"] = Framework(
                [peer], {**shared, "PYTHONPATH": path, "ECOSYSTEM_RECORDS": "1"}, entry, plain,
                logs / f"{entry.slug}.times-torch.log",
            )  # fmt: skip
        yield made
    finally:
        for framework in made.values():
            framework.close()


def times_of(made: Mapping[str, Framework], rounds: int) -> dict[str, Any]:
    """Milliseconds of each workload by what does it (``lazyt``, ``compiled``, ``torch``), with what
    became of captures under ``why``. Raises Failed."""
    ready = {name: framework.answer()["ready"] for name, framework in made.items()}
    found: dict[str, dict[str, list[float]]] = {name: {} for name in WORKLOADS}
    for _ in range(rounds):
        for workload in WORKLOADS:
            for framework, calls in ready.items():
                for call in (workload, f"compiled {workload}"):
                    if call in calls:
                        column = framework if call == workload else "compiled"
                        seconds = made[framework].ask(call)["seconds"]
                        found[workload].setdefault(column, []).append(median(seconds))
    told: dict[str, Any] = {
        workload: {column: round(median(s) * 1e3, 4) for column, s in columns.items()}
        for workload, columns in found.items()
    }
    return {**told, "why": made["lazyt"].ask("why")["why"]}


def measure_all(
    chosen: Sequence[Entry], python: Path, peer: str | None, packages: Path, build: Path,
    rounds: int,
) -> dict[str, Any]:  # fmt: skip
    """What ``times_of`` gives of each network, by its name; a line of each when it is measured.
    Those that cannot be measured have an ``error``."""
    found: dict[str, Any] = {}
    for number, entry in enumerate(chosen, 1):
        try:
            with frameworks(entry, python, peer, packages, build) as made:
                found[entry.name] = times_of(made, rounds)
        except Skipped:
            continue
        except Failed as error:
            found[entry.name] = {"error": str(error)[:300]}
        line = found[entry.name]
        print(f"[{number}/{len(chosen)}] {entry.name}: {_shown(line)}", file=sys.stderr, flush=True)
    return found


def _shown(line: Mapping[str, Any]) -> str:
    if "error" in line:
        return f"not measured: {line['error']}"
    return "; ".join(
        f"{name} " + " ".join(f"{column} {ms:.3g}" for column, ms in line[name].items())
        for name in WORKLOADS
    )


# --------------------------------------------------------------- what is said of it


def worst(found: Mapping[str, Any], column: str) -> list[tuple[float, str]]:
    """By how much compiled workloads are slower than ``column``, the slowest first; at most 1 is as
    fast."""
    ratios = [
        (line[workload]["compiled"] / line[workload][column], f"{name}, {workload}")
        for name, line in found.items()
        if "error" not in line
        for workload in WORKLOADS
        if column in line[workload]
    ]
    return sorted(ratios, reverse=True)


def as_json(found: Mapping[str, Any], date: str, rounds: int) -> str:
    """All that was measured, for programs."""
    about = {"date": date, "processor": _processor(), "threads": 1, "rounds": rounds}
    lines = ",\n".join(f" {json.dumps(n)}: {json.dumps(line)}" for n, line in found.items())
    return f'{{"about": {json.dumps(about)},\n "milliseconds": {{\n{lines}\n}}}}\n'


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor()


def section(found: Mapping[str, Any], date: str) -> str:
    """What the page of the docs says about them."""
    rows = []
    for name, line in sorted(found.items(), key=lambda item: item[0].lower()):
        if "error" in line:
            continue
        cells = []
        for workload in WORKLOADS:
            columns = line[workload]
            cells += [_cell(columns.get(column)) for column in ("torch", "lazyt", "compiled")]
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    heads = " | ".join(f"{w}: {c}" for w in WORKLOADS for c in ("PyTorch", "lazyt", "compiled"))
    slower = [
        f"- {_count(found, column)} as fast as {what}{_listed(worst(found, column))}"
        for column, what in (("torch", "PyTorch"), ("lazyt", "uncompiled"))
        if worst(found, column)
    ]
    return _SECTION.format(
        date=date, heads=heads, line="|---" * (1 + 3 * len(WORKLOADS)) + "|", rows="\n".join(rows),
        slower="\n".join(slower), processor=_processor(),
    )  # fmt: skip


def _cell(milliseconds: float | None) -> str:
    return "-" if milliseconds is None else f"{milliseconds:.3g}"


def _count(found: Mapping[str, Any], column: str) -> str:
    ratios = [ratio for ratio, _ in worst(found, column)]
    return f"{sum(ratio <= 1 for ratio in ratios)} of {len(ratios)} are at least"


def _listed(ratios: Sequence[tuple[float, str]]) -> str:
    slow = [f"{what} ({ratio:.2f} of its time)" for ratio, what in ratios if ratio > 1]
    return "; not: " + "; ".join(slow[:12]) + ("; ..." if len(slow) > 12 else "") if slow else ""


_SECTION = """## Times

`make ecosystem ARGS="--times --python PYTHON"` writes this section; PYTHON is an interpreter that
has PyTorch. Milliseconds of the networks above, warm, with one thread: a call without gradients
(*forward*), and a training step of forward, backward and optimizer, with `torch.compile(model)`
(*module*) or with the whole step compiled (*step*). *PyTorch* is PyTorch 2.13 without
`torch.compile`, *lazyt* is lazyt without it, *compiled* is lazyt with it. The processes take turns,
and a time is the median of all rounds; the bench's JSON has the same figures with the reasons why
something was not captured.

Processor time, measured on {date}, {processor}. Of the compiled ones,

{slower}

| network | {heads} |
{line}
{rows}
"""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
