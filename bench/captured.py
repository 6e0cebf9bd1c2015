"""Times captured functions: what a call costs beside the compiled code.

    python bench/captured.py [--peer-python FILE] [--rounds N] [--json FILE]

Each framework runs in a process of its own, and the processes take turns. A time is the best over
all turns of the mean of some calls, in microseconds; results are computed within the timed calls.
``lazyt`` builds its graph at every call, ``jit`` is ``lazyt.jit`` of the same lines, ``torch`` and
``compile`` are PyTorch without and with ``torch.compile``. ``plan`` is the compiled plan of ``jit``
alone, called from Python with its buffers.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FRAMEWORKS = ("lazyt", "jit", "torch", "compile")
WORKLOADS = ("chain", "train", "adam", "drawn")


def best(function: Callable[[], object], seconds: float = 1.0) -> float:
    """The best mean of 20 calls in ``seconds``, in microseconds."""
    for _ in range(10):
        function()
    end, found = time.perf_counter() + seconds, float("inf")
    while time.perf_counter() < end:
        begun = time.perf_counter()
        for _ in range(20):
            function()
        found = min(found, (time.perf_counter() - begun) / 20)
    return found * 1e6


def make(torch: Any, workload: str) -> tuple[Callable[..., Any], list[Any], list[Any]]:
    """The function of a workload, its arguments, and the parameters that it changes."""
    functional = torch.nn.functional
    torch.manual_seed(0)
    if workload == "chain":

        def chain(x: Any) -> Any:
            for _ in range(10):
                x = x * 1.5 + 0.5
            return x

        return chain, [torch.randn(100)], []
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    parameters = list(net.parameters())
    kind = torch.optim.Adam if workload == "adam" else torch.optim.SGD
    optimizer = kind(parameters, lr=0.01)
    data, labels = torch.randn(1000, 64), torch.randint(0, 10, (1000,))

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    def drawn() -> Any:
        chosen = torch.randint(0, 1000, (32,))
        return step(data[chosen], labels[chosen])

    if workload == "drawn":
        return drawn, [], parameters
    return step, [data[:32].clone(), labels[:32].clone()], parameters


def plan_alone(captured: Any) -> float:
    """The plan of a captured function with buffers of its own."""
    from lazyt.runtime.memory import Buffer

    ((replay, _),) = next(iter(captured._captures.values()))
    plan = replay.prepared[0].plan
    sizes = [0] * plan.code.executable.inputs
    for slot in plan.code.program.slots:
        if slot.kind == "input":
            sizes[slot.index] = slot.nbytes
    inputs, outputs = [Buffer(n) for n in sizes], [Buffer(n) for n in plan.code.sizes]
    for buffer in inputs:
        buffer.copy_from(bytes(buffer.nbytes))
    return best(lambda: plan.code.executable.run(inputs, outputs))


def measure(framework: str, workload: str) -> dict[str, float]:
    """Times of one framework in this process."""
    if framework in ("lazyt", "jit"):
        sys.path.insert(0, str(HERE.parent))
        import lazyt

        lazyt.config.tier = 1  # kernels, before anything runs

        function, args, parameters = make(lazyt, workload)
        lazyt.realize(*args, *parameters)
        if framework == "lazyt":
            return {framework: best(lambda: lazyt.realize(function(*args), *parameters))}
        captured: Any = lazyt.jit(function, fullgraph=True)
        found = {framework: best(lambda: captured(*args))}
        assert captured.why() == ["captured"], captured.why()
        return {**found, "plan": plan_alone(captured)}
    import torch

    torch.set_num_threads(2)
    function, args, _ = make(torch, workload)
    if framework == "compile":
        function = torch.compile(function)
    return {framework: best(lambda: function(*args))}


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--peer-python", default="", help="a Python that has PyTorch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", nargs=2, help="a framework and a workload, in this process")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(*options.one)))
        return 0
    results: dict[str, dict[str, float]] = {}
    for workload in WORKLOADS:
        row = results.setdefault(workload, {})
        for _ in range(options.rounds):
            for framework in FRAMEWORKS:
                own = framework in ("lazyt", "jit")
                python = sys.executable if own else options.peer_python
                if not python:
                    continue
                command = [python, __file__, "--one", framework, workload]
                done = subprocess.run(command, capture_output=True, text=True, timeout=300)
                if done.returncode:
                    print(f"{framework} {workload}: {done.stderr.strip().splitlines()[-1]}")
                    continue
                for name, value in json.loads(done.stdout.splitlines()[-1]).items():
                    row[name] = round(min(value, row.get(name, value)), 2)
        print(workload, row, flush=True)
    if options.json:
        facts = {"unit": "us per call, best", "load": os.getloadavg(), "cores": os.cpu_count()}
        options.json.write_text(json.dumps({**facts, "results": results}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
