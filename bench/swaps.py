"""How long a program stands still when its plans get their kernels.

    python bench/swaps.py [--plans 20] [--layers 6]

Steps of training of several sizes run in tier 0 until all their plans are queued. A tight loop then
looks at the clock while the process that compiles hands over one plan after the other. Printed are
how long other threads of this process computed between two looks, at the most, and how long these
gaps were: the same where no other process wants the cores.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable

import lazyt as lt
from lazyt import nn
from lazyt.plan import tiers


def trainer(layers: int, width: int) -> Callable[[], None]:
    """A step of training a small network, whose graph is of its own size."""
    model = nn.Sequential(
        *(part for _ in range(layers) for part in (nn.Linear(width, width), nn.GELU()))
    )
    optimizer = lt.optim.AdamW(model.parameters())
    x = lt.rand(8, width)

    def step() -> None:
        optimizer.zero_grad()
        loss = (model(x) - 1).square().mean()
        loss.backward()
        optimizer.step()
        loss.item()

    return step


def gaps_until(is_over: Callable[[], bool], most: float) -> list[tuple[float, float]]:
    """The gaps between looks at the clock until something is over, those first in which other
    threads computed longest, and how long these did."""
    found = [(0.0, 0.0)] * 8
    begun = checked = time.perf_counter()
    last, others = begun, time.process_time() - time.thread_time()
    while last - begun < most:
        now, computed = time.perf_counter(), time.process_time() - time.thread_time()
        if computed - others > found[-1][0]:
            found[-1] = computed - others, now - last
            found.sort(reverse=True)
        last, others = now, computed
        if now - checked > 0.01:
            if is_over():
                break
            checked = last = time.perf_counter()
            others = time.process_time() - time.thread_time()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plans", type=int, default=20)
    parser.add_argument("--layers", type=int, default=6)
    options = parser.parse_args()
    tiers.BASE = tiers.LOOK = 1e-9  # all are worth it
    tiers.EACH = tiers.LOOK_EACH = 0.0
    with tempfile.TemporaryDirectory() as folder, lt.config.override(cache_dir=folder):
        steps = [trainer(options.layers, 17 + n) for n in range(options.plans)]
        for step in steps:
            for _ in range(3):
                step()
        queue = tiers._queue
        waiting = len(queue.requests)
        begun = time.perf_counter()
        with_swaps = gaps_until(lambda: not (queue.requests or queue.running), 600)
        seconds = time.perf_counter() - begun
        without = gaps_until(lambda: False, min(seconds, 5.0))
    print(f"{waiting} plans swapped in {seconds:.1f} s")
    for name, found in (("with swaps", with_swaps), ("without", without)):
        gaps = " ".join(f"{1000 * held:5.2f} ({1000 * gap:.2f})" for held, gap in found)
        print(f"{name:11} ms of other threads (of all): {gaps}")


if __name__ == "__main__":
    main()
