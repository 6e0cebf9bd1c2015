"""What only shows on a device that works by itself: order between streams, memory that is used
again while work is under way, graphs whose memory changes, copies that nobody waits for, errors.
Values are compared with the CPU's bits."""

from __future__ import annotations

import functools
import gc
import importlib.util
import random
import subprocess
import sys
import threading
from typing import Any

import numpy as np

import lazyt as lt
from bench.gpu.steps.report import DEVICE, EMULATED, SMALL, Report

TURNS = 10 if SMALL else 200
SIZE = 1 << (8 if SMALL else 20)


def reused_memory() -> str:
    """Buffers come and go while launches are queued; every tenth result is looked at late."""
    held = []
    base = lt.arange(float(SIZE))
    for turn in range(TURNS):
        x = base.to(DEVICE) + turn
        y = (x * 0.5).realize()
        z = (y.reshape(-1, 64).softmax(-1) + x.reshape(-1, 64)).realize()
        del x, y
        if turn % 10 == 0:
            held.append((turn, z))
    for turn, z in held:
        x = base + turn
        want = (x * 0.5).reshape(-1, 64).softmax(-1) + x.reshape(-1, 64)
        assert lt.equal(z.cpu(), want), turn
    return f"{TURNS} turns"


def changing_graphs() -> str:
    """A captured function on memory that is other memory now and then: node updates of graphs."""
    function: Any = lt.jit(lambda x, w: ((x @ w).softmax(-1) * 3 - x.sum(0)).cumsum(0))
    draw = random.Random(1)
    n = 32 if SMALL else 96
    w = lt.randn(n, n, generator=lt.Generator().manual_seed(1))
    there = w.to(DEVICE)
    held: list[Any] = []
    late: list[tuple[Any, Any]] = []
    for turn in range(TURNS):
        x = lt.full((n, n), 0.01 * turn)
        late.append((x, function(x.to(DEVICE), there)))
        held.append(lt.empty(draw.randint(1, 5000), device=DEVICE).realize())
        if len(held) > 7:
            held.pop(draw.randrange(7))
        if len(late) > 20:
            _compare(*late.pop(draw.randrange(20)), w)
    for x, out in late:
        _compare(x, out, w)
    return f"{TURNS} launches"


def _compare(x: Any, out: Any, w: Any) -> None:
    assert lt.equal(out.cpu(), ((x @ w).softmax(-1) * 3 - x.sum(0)).cumsum(0))


def streams() -> str:
    """Three streams that use each other's results, without any event of the user's."""
    side = [lt.cuda.Stream() for _ in range(3)]
    values = [lt.arange(float(SIZE)) * (n + 1) for n in range(3)]
    there = [v.to(DEVICE) for v in values]
    for turn in range(TURNS // 2):
        which = turn % 3
        with lt.cuda.stream(side[which]):
            there[which] = (there[which] * 0.5 + there[(which + 1) % 3]).realize()
        values[which] = (values[which] * 0.5 + values[(which + 1) % 3]).realize()
        if turn % 7 == 0:
            gc.collect()
    for a, b in zip(there, values):
        assert lt.equal(a.cpu(), b)
    return ""


def pinned_sources() -> str:
    """Pinned memory is given up while the copies from it are under way."""
    sums = []
    for turn in range(TURNS // 4):
        x = (lt.arange(float(SIZE)) + turn).pin_memory()
        y = x.to(DEVICE, non_blocking=True)
        del x
        other = (lt.zeros(SIZE) - 1).pin_memory()  # may get the same memory
        sums.append((turn, y + 1))
        del other
    for turn, y in sums:
        assert lt.equal(y.cpu(), lt.arange(float(SIZE)) + turn + 1), turn
    return ""


def pageable_sources() -> str:
    """A source is overwritten as soon as the call returns; chunks of staging come round."""
    held = []
    for turn in range(TURNS // 10):
        array = np.full(SIZE * 3 + 17, float(turn), np.float32)
        t = lt.from_numpy(array).to(DEVICE).realize()
        array[:] = -1
        held.append((turn, t))
    for turn, t in held:
        found = t.cpu().numpy()
        assert (found == turn).all(), (turn, found[found != turn][:4])
    return ""


def emptied_pools() -> str:
    """The pool is emptied while streams still work on what was freed."""
    base = lt.arange(float(SIZE))
    for turn in range(TURNS // 10):
        x = (base.to(DEVICE) + turn).realize()
        y = (x * 2).realize()
        del x
        lt.cuda.empty_cache()
        other = lt.full((SIZE,), -1.0, device=DEVICE).realize()
        assert lt.equal(y.cpu(), (base + turn) * 2), turn
        del other
    return ""


def threads() -> str:
    """Several threads launch the same plans at once."""
    faults: list[str] = []
    function: Any = lt.jit(lambda x: (x.cumsum(0) @ x.T).softmax(-1))

    def work(number: int) -> None:
        try:
            for turn in range(TURNS // 10):
                x = lt.full((40, 40), 0.001 * (number * 100 + turn))
                if not lt.equal(function(x.to(DEVICE)).cpu(), (x.cumsum(0) @ x.T).softmax(-1)):
                    faults.append(f"thread {number}, turn {turn}")
        except Exception as error:
            faults.append(f"thread {number}: {type(error).__name__}: {error}")

    running = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert not faults, faults[:4]
    return ""


def views_with_offsets() -> str:
    """Views that begin anywhere: no access of 16 bytes may be misaligned."""
    for dtype in (lt.float32, lt.float16, lt.bfloat16, lt.int8, lt.float64):
        base = (lt.arange(1 << (14 if SMALL else 21)) % 97).to(dtype)
        there = base.to(DEVICE)
        for start in (0, 1, 4):
            for stop in (0, 1):
                a, b = there[start : there.numel() - stop], base[start : base.numel() - stop]
                assert lt.equal((a + a).cpu(), b + b), (dtype, start, stop)
        m, n = there[: 1 << 12].reshape(64, 64), base[: 1 << 12].reshape(64, 64)
        for i in (0, 1):
            assert lt.equal((m[:, i:] + m.t()[:, i:]).cpu(), n[:, i:] + n.t()[:, i:]), (dtype, i)
            if dtype.is_floating_point:
                left, right = (m[i:, i:] @ m[i:, i:].t()).cpu(), n[i:, i:] @ n[i:, i:].t()
                assert lt.equal(left, right), (dtype, i, "product")
    return ""


def out_of_memory() -> str:
    """What has no room raises, and the device stays usable."""
    _, total = lt.cuda.mem_get_info()
    try:
        lt.zeros(4 * total, dtype=lt.uint8, device=DEVICE).add_(1).realize()
    except lt.cuda.OutOfMemoryError as error:
        assert "Tried to allocate" in str(error)
    else:
        raise AssertionError("there was room for four times the memory")
    assert (lt.ones(1000, device=DEVICE) + 1).sum().item() == 2000
    return ""


def child(text: str, wanted: str) -> None:
    """Run a program, which has to print ``wanted``."""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120)
    told = done.returncode, done.stdout[-500:], done.stderr[-1500:]
    assert wanted in done.stdout, told


FORK = f"""
import os, warnings, lazyt as lt
warnings.simplefilter("ignore")
x = lt.ones(5, device={DEVICE!r}).realize()
pid = os.fork()
if pid == 0:
    try:
        (x + 1).sum().item()
    except Exception as error:
        os._exit(0 if "fork" in str(error) else 3)
    os._exit(0 if os.environ.get("LAZYT_EMULATE_CUDA") else 4)
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print("parent", (x + 1).sum().item(), "child", code)
"""


def fork() -> str:
    """A forked child is told that it cannot use the GPU; the parent goes on."""
    child(FORK, "parent 10.0 child 0")
    return ""


def beside_torch(first: str) -> str:
    """PyTorch and lazyt in one process, whichever begins: neither disturbs the other's context."""
    if importlib.util.find_spec("torch") is None:
        assert EMULATED, "no PyTorch"
        return "no PyTorch"
    theirs = "import torch\n"
    if not EMULATED:
        theirs += (
            "a = torch.randn(300, 300, device='cuda'); b = (a @ a).sum().item()\n"
            "torch.cuda.synchronize()\n"
        )
    ours = (
        f"import lazyt as lt; x = lt.ones(300, 300, device={DEVICE!r})\n"
        "assert (x @ x).softmax(-1).sum().item() > 299.9\n"
    )
    order = [theirs, ours] if first == "torch" else [ours, theirs]
    child("".join(order * 2) + "print('both')\n", "both")
    return ""


LOST = """
import lazyt as lt
from lazyt.codegen.cuda.target import device_helpers
from lazyt.ir.program import Grid
from lazyt.runtime.cuda.device import device_at
driver = device_at("cuda:0").driver
text = device_helpers("cuda") + '''
extern "C" __global__ void bad(float *x) { x[1ll << 40] = 1; }'''
function = driver.load(driver.compile(text, ["bad"]).data, {"bad": 0})["bad"]
x = lt.ones(4, device="cuda").realize()
driver.launch(function, Grid("bad", 1, 32, 0, False), [driver.allocate(512, None)], None)
try:
    (x + 1).sum().item()
    print("no error")
except Exception as error:
    print("said", type(error).__name__, str(error)[:300])
print("cpu", (lt.ones(3) + 1).sum().item())
"""


def lost_device() -> str:
    """An illegal address ends the device for this process, says where, and leaves the CPU alone."""
    if EMULATED:
        return "not on the emulator"
    child(LOST, "cpu 6.0")
    return ""


def main() -> None:
    """All checks."""
    report = Report("stress")
    for check in (
        reused_memory, changing_graphs, streams, pinned_sources, pageable_sources, emptied_pools,
        threads, views_with_offsets, out_of_memory, fork, lost_device,
    ):  # fmt: skip
        report.check(check.__name__, check, 5)
    for first in ("torch", "lazyt"):
        report.check(f"beside torch, {first} first", functools.partial(beside_torch, first), 20)
    report.end()


if __name__ == "__main__":
    main()
