"""NCCL on one GPU, with one rank: it is found, takes lazyt's calls, and is ordered with kernels.

    python -m bench.gpu.steps.nccl

In rehearsals the library of the tests stands for it (``tests/nccl/mock_nccl.c``). Values of several
ranks need several GPUs; what they compute is tested with that library.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lazyt as lt
import lazyt.distributed as dist
from bench.gpu.steps.report import DEVICE, EMULATED, SMALL, Report
from lazyt.distributed import functional
from lazyt.errors import DistributedError
from lazyt.runtime.cuda.device import device_at
from lazyt.runtime.ranks import nccl

MOCK = Path(__file__).resolve().parents[3] / "tests" / "nccl" / "mock_nccl.c"
#: Bytes of a large transfer, and how many of them are under way at a time.
LARGE, SEVERAL = 1 << (16 if SMALL else 28), 4
DTYPES = (
    lt.float32, lt.float64, lt.float16, lt.bfloat16, lt.bool, lt.uint8, lt.int8, lt.int16, lt.int32,
    lt.int64, lt.complex64,
)  # fmt: skip

report = Report("nccl")


def rehearsed() -> None:
    """The tests' library in the place of NCCL."""
    folder = Path(tempfile.mkdtemp())
    compiler = shutil.which("gcc") or shutil.which("clang") or "cc"
    file = folder / "libmock_nccl.so"
    flags = ["-shared", "-fPIC", "-O1", "-o", str(file), str(MOCK)]
    subprocess.run([compiler, *flags], check=True)
    os.environ |= {"LAZYT_NCCL": str(file), "MOCK_NCCL_DIR": str(folder)}


def found() -> str:
    """The library, and its version."""
    library = nccl.load()
    report.put("version", library.version_text)
    return f"{library.version_text} at {library.path}"


def meets() -> str:
    """A communicator of one rank."""
    begun = time.perf_counter()
    dist.init_process_group("nccl", rank=0, world_size=1, device_id=DEVICE)
    return f"{time.perf_counter() - begun:.2f} s"


def values(dtype: Any) -> Any:
    """Some of a dtype."""
    return (lt.arange(1031) * 37 - 512).to(dtype).to(DEVICE)


def gathers() -> str:
    """``ncclAllGather`` of all dtypes."""
    for dtype in DTYPES:
        x = values(dtype)
        got = lt.empty_like(x)
        dist.all_gather_into_tensor(got, x)
        assert lt.equal(got.cpu(), x.cpu()), dtype
    return f"{len(DTYPES)} dtypes"


def sends_to_itself() -> str:
    """``ncclSend`` and ``ncclRecv`` in one group."""
    x = values(lt.float32)
    got = lt.empty_like(x)
    dist.all_to_all_single(got, x)
    assert lt.equal(got.cpu(), x.cpu())
    return ""


def broadcasts() -> str:
    """``ncclBroadcast``."""
    x = values(lt.int64)
    before = x.cpu()
    dist.broadcast(x, 0)
    assert lt.equal(x.cpu(), before)
    return ""


def follows_kernels() -> str:
    """Transfers wait for the kernels before them, and kernels for transfers, many times over."""
    count = LARGE // 4 // SEVERAL
    for turn in range(3):
        x = lt.full((count,), float(turn), device=DEVICE)
        works, outs = [], []
        for _ in range(SEVERAL):
            x = x * 2 + 1
            out = lt.zeros(count, device=DEVICE)
            work = dist.all_gather_into_tensor(out, x, async_op=True)
            assert work is not None
            works.append(work)
            outs.append(out)
        for work in works:
            work.wait()
        want = float(turn)
        for out in outs:
            want = want * 2 + 1
            assert (out + 1 == want + 1).all().item(), (turn, want)
    return ""


def trained(wrap: Callable[[Any], Any]) -> list[float]:
    """Losses of a module, trained for some captured steps."""
    lt.manual_seed(0)
    net = wrap(lt.nn.Sequential(lt.nn.Linear(16, 8), lt.nn.GELU(), lt.nn.Linear(8, 4)).to(DEVICE))
    optimizer = lt.optim.SGD(net.parameters(), 1e-1)

    def train(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        (z,) = functional.all_gather(net(x))  # by NCCL, with its gradient
        loss = (z - y).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    step, draw = lt.jit(train), lt.Generator().manual_seed(3)
    losses = []
    for _ in range(5):
        x, y = (lt.randn(8, n, generator=draw).to(DEVICE) for n in (16, 4))
        losses.append(step(x, y).item())
    assert "moved by NCCL" in str(step.explain())
    return losses


def captured_training() -> str:
    """Data parallel training with transfers, captured, against the same without ranks."""
    parallel = trained(lt.nn.parallel.DistributedDataParallel)
    alone = trained(lambda net: net)
    assert parallel == alone, (parallel, alone)
    return f"loss {parallel[0]:.4f} -> {parallel[-1]:.4f}"


def rate() -> str:
    """How fast a transfer of one rank is: a copy."""
    x = lt.ones(LARGE // 4, device=DEVICE).realize()
    out = lt.empty_like(x).realize()
    device = device_at(str(x.device))
    times = []
    for _ in range(5):
        device.synchronize()
        begun = time.perf_counter()
        dist.all_gather_into_tensor(out, x)
        device.synchronize()
        times.append(time.perf_counter() - begun)
    report.put("all_gather_bytes_per_second", LARGE / min(times))
    return f"{LARGE / min(times) / 1e9:.1f} GB/s"


def says_what_is_wrong() -> str:
    """An error of NCCL's comes with its words."""
    library = nccl.load()
    try:
        library.call("ncclCommGetAsyncError", None, ctypes.byref(ctypes.c_int()))
    except DistributedError as error:
        assert "ncclInvalidArgument" in str(error), error
        return str(error)[:200]
    raise AssertionError("no communicator was taken for one")


def ends() -> str:
    """The communicator is destroyed, and the device is usable."""
    dist.destroy_process_group()
    assert lt.ones(3, device=DEVICE).sum().item() == 3
    return ""


def main() -> None:
    """All checks, the simplest first."""
    if EMULATED:
        rehearsed()
    if nccl.find() is None:
        print("SUMMARY nccl: no NCCL on this machine", flush=True)
        sys.exit(0)
    checks: tuple[Callable[[], str], ...] = (
        found, meets, gathers, sends_to_itself, broadcasts, follows_kernels, captured_training,
        rate, says_what_is_wrong, ends,
    )  # fmt: skip
    for check in checks:
        report.check(check.__name__, check)
    report.end(f"NCCL {report.data.get('version', '')}")


if __name__ == "__main__":
    main()
