"""The dial of memory against time on a training step: the character GPT of ``examples/``.

    python bench/memory_dial.py [--json results.json] [--picture dial.png] [--budgets 1 0.5 0.25 0]

Each budget runs in processes of its own, which take turns (``--rounds``): 4 layers of width 128,
contexts of 128, batches of 16, AdamW with clipped gradients, the step captured by
``torch.compile``. It tells for each

- the peak that the plan predicts, and what the pool of memory counted while the step ran;
- how much the process grew at the most, as the system counts it (``VmHWM``);
- the predicted time, and the least and median of the measured ones, profiler off;
- a digest of losses, weights and gradients, which has to be the same for all budgets.

The picture shows the memory in use at each moment of one step.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
WARM_UP = 5


def resident(name: str) -> int:
    """Bytes of this process: ``VmRSS`` now, ``VmHWM`` at the most since ``forget_peak``."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def forget_peak() -> None:
    """Measure ``VmHWM`` anew."""
    Path("/proc/self/clear_refs").write_text("5")


def measure(budget: float, steps: int) -> dict[str, Any]:
    """Trains with one budget."""
    from lazyt.compat import torch_alias

    torch_alias.install()
    sys.path.insert(0, str(ROOT / "examples"))
    import numpy as np

    import lazyt

    lazyt.config.tier = 1  # kernels, before anything runs
    from lazyt.runtime.memory import pool

    char_gpt: Any = importlib.import_module("char_gpt")
    lazyt.config.memory_budget = budget
    lazyt.manual_seed(0)
    text = char_gpt.Text()
    net = char_gpt.GPT(len(text.letters))
    optimizer, _ = char_gpt.make_optimizer(net, 100)
    step = lazyt.compile(char_gpt.make_step(net, optimizer))
    losses, seconds = [], []
    for number in range(WARM_UP + steps):
        batch = char_gpt.draw_batch(text.train)
        lazyt.realize(batch)
        if number == WARM_UP - 1:
            pool.trim()
            held, grown = pool.in_use, resident("VmRSS")
            pool.reset_peak()
            forget_peak()
        begin = time.perf_counter()
        losses.append(step(batch).item())
        seconds.append(time.perf_counter() - begin)
        if number == WARM_UP - 1:
            rise, grown = pool.peak - held, resident("VmHWM") - grown
    tensors = [t for p in net.parameters() for t in (p.detach(), p.grad) if t is not None]
    bits = b"".join(t.numpy().tobytes() for t in tensors) + np.array(losses).tobytes()
    plan = lazyt.explain(step)
    footprint = plan.footprint
    assert footprint is not None
    timed = sorted(seconds[WARM_UP:])
    return {
        "budget": budget,
        "predicted_peak": footprint.peak,
        "measured_peak": footprint.measured_peak,
        "arena": plan.arena_bytes,
        "pool_rise": rise,
        "resident_rise": grown,
        "launches": len(plan.kernels),
        "again": len(footprint.again),
        "predicted_s": footprint.seconds,
        "seconds": timed,
        "loss": losses[-1],
        "digest": hashlib.sha256(bits).hexdigest()[:16],
        "curve": curve(lambda: step(batch).item()),
    }


def curve(step: Any) -> list[tuple[float, int]]:
    """Seconds since the begin of a step, and bytes of the values between kernels."""
    from lazyt.runtime import events

    timings: list[Any] = []
    events.watching.append(timings)
    try:
        step()
    finally:
        events.watching.remove(timings)
    found = [t for t in timings if t.note["kind"] != "plan"]
    return [(t.begin - found[0].begin, t.scratch) for t in found]


def draw(results: list[dict[str, Any]], path: str) -> None:
    """The picture: memory over the step, a line for each budget."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.2), layout="constrained")
    for result in results:
        times, held = zip(*result["curve"], strict=True)
        again = f"{result['again']} of {result['launches']} launches again"
        longer = result["predicted_s"] / results[0]["predicted_s"]
        label = f"budget {result['budget']:g}: {again}, {longer:.2f} of the time predicted"
        axes.step(
            [n / len(times) for n in range(len(times))],
            [n / 1e6 for n in held], where="post", label=label,
        )  # fmt: skip
    axes.set(
        xlabel="share of the step's launches", ylabel="values between kernels, MB", ylim=(0, None),
        title="A training step of the character GPT under four memory budgets",
    )  # fmt: skip
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


def line(result: dict[str, Any], first: dict[str, Any]) -> str:
    """One row of the table."""
    peaks = [result[k] / 1e6 for k in ("predicted_peak", "measured_peak", "resident_rise")]
    times = [1e3 * result[k] for k in ("predicted_s", "least_s", "median_s")]
    same = "same" if result["digest"] == first["digest"] else "OTHER"
    return (
        f"{result['budget']:6g} {peaks[0]:10.1f} {peaks[1]:9.1f} {peaks[2]:9.1f} "
        f"{result['launches']:9} {result['again']:6} {times[0]:10.1f} {times[1]:7.1f} "
        f"{times[2]:7.1f}  {same}"
    )


def run_all(budgets: list[float], rounds: int, steps: int) -> list[dict[str, Any]]:
    """A result for each budget, with the times of all rounds."""
    results: list[dict[str, Any]] = []
    for _ in range(rounds):
        for number, budget in enumerate(budgets):
            command = [sys.executable, __file__, "--one", str(budget), "--steps", str(steps)]
            environment = os.environ | {"PYTHONPATH": str(ROOT)}
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment)
            found = json.loads(done.stdout.splitlines()[-1])
            if number == len(results):
                results.append(found)
            else:
                results[number]["seconds"] += found["seconds"]
    for result in results:
        result["seconds"].sort()
        result["least_s"] = result["seconds"][0]
        result["median_s"] = result["seconds"][len(result["seconds"]) // 2]
    return results


def main() -> None:
    """Runs all budgets and prints a table; exits with 1 when bits differ."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--budgets", type=float, nargs="+", default=[1.0, 0.5, 0.25, 0.0])
    parser.add_argument("--steps", type=int, default=20, help="timed steps (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="processes a budget (%(default)s)")
    parser.add_argument("--json", help="file for the figures")
    parser.add_argument("--picture", help="file for the picture")
    parser.add_argument("--one", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(measure(options.one, options.steps)))
        return
    results = run_all(options.budgets, options.rounds, options.steps)
    print("budget  predicted  measured  resident  launches  again  predicted   least  median  bits")
    print("               MB        MB        MB                         ms      ms      ms")
    print("\n".join(line(result, results[0]) for result in results))
    if options.json:
        machine = {
            "cpu_count": os.cpu_count(), "system": platform.platform(), "load": os.getloadavg()[0],
            "python": platform.python_version(), "date": time.strftime("%Y-%m-%d"),
        }  # fmt: skip
        lines = ",\n".join(json.dumps(result) for result in results)
        head = f'{{"schema": 1, "machine": {json.dumps(machine)}, "results": [\n'
        Path(options.json).write_text(f"{head}{lines}\n]}}\n")
    if options.picture:
        draw(results, options.picture)
    if len({result["digest"] for result in results}) > 1:
        sys.exit("the results differ")


if __name__ == "__main__":
    main()
