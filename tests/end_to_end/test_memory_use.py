"""Long programs without a realize: they end, soon, and memory does not grow."""

from __future__ import annotations

import gc
import json
import resource
from typing import TYPE_CHECKING

import pytest

import lazyt as lt
from lazyt.ir import op
from lazyt.runtime.memory import pool

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Run

MEASURE = """
import json, resource, sys, time
import lazyt as lt
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
"""
LOOP = (
    MEASURE
    + """
x = lt.zeros(16)
for _ in range(10_000):  # compiles the plans of a pending graph over its budget
    x = x + 1
x = (x * 0).realize()
before, begun, clock = resident(), time.process_time(), time.perf_counter()
for _ in range({count}):
    x = x + 1
spent = time.process_time() - begun, time.perf_counter() - clock
grown, implicit = resident() - before, len(lt.why_realized())
print(json.dumps([x[3].item(), *spent, grown, implicit]))
"""
)


@pytest.mark.slow
def test_a_loop_without_realize_ends_and_does_not_grow(run_child: Run) -> None:
    # Processor time on one thread, and twice the 30 s that a million may take on a quiet machine:
    # cores that are shared with other work do about half as much.
    count = 1_000_000
    output = run_child(LOOP.format(count=count), timeout=300, LAZYT_THREADS="1")
    value, seconds, elapsed, grown, implicit = json.loads(output)
    assert value == count and implicit > count / 5_000
    print(f"{count} additions: {seconds:.1f} s of work, {elapsed:.1f} s [30 are meant]")
    assert seconds < 60
    assert grown < 100e6, f"{grown / 1e6:.0f} MB more"


CHAIN = (
    MEASURE
    + """
from lazyt.ir import op
lt.config.max_pending_nodes = 10**9
before, known = resident(), op.count_living()
x = lt.zeros(16)
for _ in range(100_000):
    x = x + 1
pending = op.count_living() - known
if {computed}:
    print(json.dumps([pending, x.tolist() == [100_000.0] * 16]))
del x
print(json.dumps([op.count_living() - known, resident() - before]))
"""
)


def test_a_chain_of_a_hundred_thousand_is_freed_uncomputed(run_child: Run) -> None:
    left, grown = json.loads(run_child(CHAIN.format(computed=False)))
    assert left < 50, f"{left} nodes are still alive"
    assert grown < 100e6


@pytest.mark.slow
def test_a_chain_of_a_hundred_thousand_is_one_graph(run_child: Run) -> None:
    # One plan of 250 kernels with 400 additions each: the compiler takes its time.
    first, last = run_child(CHAIN.format(computed=True), timeout=500).splitlines()
    pending, right = json.loads(first)
    assert pending >= 100_000 and right
    left, _ = json.loads(last)
    assert left < 50


def test_deleted_tensors_leave_nothing() -> None:
    gc.collect()
    nodes, used = op.count_living(), pool.stats().in_use
    big = lt.tensor([1.0, 2.0]).reshape(2, 1).expand(2, 200_000)
    pending = [(big * n).exp().sum() for n in range(50)]
    computed = pending[7].item()
    del pending, big
    assert computed > 0
    assert pool.stats().in_use - used < 1 << 16
    assert op.count_living() - nodes < 50


HOLD = """
import lazyt as lt
from lazyt.runtime.memory import pool
total = lt.zeros(256, 1024)
for step in range(300):  # every computed megabyte waits for the sum
    total = total + lt.full((256, 1024), step).realize()
print(pool.stats().peak >> 20, total[0, 0].item())
"""


def test_pending_bytes_are_bounded(run_child: Run) -> None:
    peak, value = run_child(HOLD, LAZYT_MAX_PENDING_BYTES=str(64 << 20)).split()
    assert float(value) == sum(range(300))
    assert int(peak) < 100


def test_a_training_loop_reuses_its_memory() -> None:
    weight = lt.zeros(256, 256).requires_grad_()
    inputs = lt.ones(64, 256)
    peaks = []
    for _ in range(16):
        pool.reset_peak()
        ((inputs @ weight.t() - 1) ** 2).mean().backward()
        with lt.no_grad():
            assert weight.grad is not None
            weight -= 0.1 * weight.grad
        weight.grad = None
        weight.realize()
        peaks.append(pool.stats().peak)
    # The plan settles when it is known what the loop keeps: after four computed graphs.
    assert len(set(peaks[8:])) == 1, f"the peak moves: {peaks}"
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert resident < 4 << 20  # KiB


def test_steps_hold_no_earlier_steps() -> None:
    layers = lt.nn.Sequential(lt.nn.Linear(64, 64), lt.nn.ReLU(), lt.nn.Linear(64, 8))
    optimizer = lt.optim.Adam(layers.parameters())
    x = lt.rand(32, 64).realize()
    used = []
    for _ in range(10):
        loss = layers(x).pow(2).sum()
        loss.item()  # before the update: gradients and weights are pending when it is looked at
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        used.append(pool.in_use)
    assert used[-1] <= used[4] + 1000, used
