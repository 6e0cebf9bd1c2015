"""Transfers of NCCL on a GPU whose work waits in its streams: a missing wait is a wrong value."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import pytest

import lazyt as lt
import lazyt.distributed as dist
from lazyt.distributed import functional
from lazyt.runtime.ranks import nccl
from lazyt.runtime.ranks.device_engine import DeviceTransfer, Traffic
from tests.cuda.mock_driver import MockDriver

COUNT = 3000


class DeferredNccl:
    """NCCL for one rank, whose work goes to the mock driver's streams: it is done as late as it can
    be, or at once."""

    version_text = "of the test"

    def __init__(self, driver: MockDriver) -> None:
        self.driver = driver
        self.names: list[str] = []
        self._sent: list[tuple[int, int]] = []
        self.is_fast = False

    def new_id(self) -> bytes:
        return bytes(128)

    def call(self, name: str, *arguments: Any, comm: Any = None) -> int:
        self.names.append(name)
        if name == "ncclCommInitRankConfig":
            arguments[0]._obj.value = 7
        elif name == "ncclCommGetAsyncError":
            arguments[1]._obj.value = 0
        elif name in ("ncclAllGather", "ncclBroadcast"):
            assert self.driver.current == ("context", 0), "another GPU is this thread's"
            self._copied(arguments[1], arguments[0], arguments[2], arguments[-1])
        elif name == "ncclSend":
            self._sent.append((arguments[0], arguments[1]))
        elif name == "ncclRecv":
            source, nbytes = self._sent.pop(0)
            assert nbytes == arguments[1]
            self._copied(arguments[0], source, nbytes, arguments[-1])
        return 0

    def _copied(self, target: int, source: int, nbytes: int, stream: int) -> None:
        assert self.driver._holds(target) and self.driver._holds(source)
        work = self.driver.CUstream(stream)
        work.add(lambda: self._copy(target, source, nbytes))
        if self.is_fast:
            work.drain()

    def _copy(self, target: int, source: int, nbytes: int) -> None:
        assert self.driver._holds(target) and self.driver._holds(source), "it was given back"
        ctypes.memmove(target, source, nbytes)


@pytest.fixture
def library(mock: MockDriver, monkeypatch: pytest.MonkeyPatch) -> Iterator[DeferredNccl]:
    made = DeferredNccl(mock)
    monkeypatch.setattr(nccl, "load", lambda: made)
    dist.init_process_group("nccl", rank=0, world_size=1)
    yield made
    dist.destroy_process_group()
    ends = [name for name in made.names if name != "ncclCommGetAsyncError"]
    assert ends[-2:] == ["ncclCommFinalize", "ncclCommDestroy"]


def wanted() -> list[float]:
    return [2.0 * n + 2 for n in range(COUNT)]


def gathered() -> list[float]:
    """A kernel, a transfer that waits for it, and a kernel that waits for the transfer."""
    x = lt.arange(float(COUNT), device="cuda").realize() * 2 + 1
    out = lt.zeros(COUNT, device="cuda").realize()
    work = dist.all_gather_into_tensor(out, x, async_op=True)
    assert work is not None
    work.wait()
    found: list[float] = (out + 1).tolist()
    return found


def test_kernels_and_transfers_wait_for_each_other(library: DeferredNccl) -> None:
    for library.is_fast in (False, True):
        assert gathered() == wanted()


@pytest.mark.parametrize("without", ["before", "behind"])
def test_a_missing_wait_is_seen(
    library: DeferredNccl, without: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if without == "before":
        library.is_fast = True
        monkeypatch.setattr(Traffic, "_streams", lambda self, buffers: [])
    else:
        monkeypatch.setattr(DeviceTransfer, "join", lambda self: None)
    assert gathered() != wanted()


def test_memory_goes_back_behind_the_transfer(library: DeferredNccl) -> None:
    outs = []
    for turn in range(6):  # operands die while their transfers have not begun
        x = lt.arange(float(COUNT), device="cuda") + turn
        out = lt.empty(COUNT, device="cuda")
        dist.all_to_all_single(out, x, async_op=True)
        del x
        other = lt.full((COUNT,), -1.0, device="cuda").realize()  # takes what is free
        outs.append(out * 2)
        del other
    for turn, out in enumerate(outs):
        assert out.tolist() == [2.0 * (n + turn) for n in range(COUNT)]


def test_captured_steps(library: DeferredNccl) -> None:
    def step(x: Any) -> Any:
        (y,) = functional.all_gather(x * 2)
        return (y + 1).sum()

    captured = lt.jit(step)
    for turn in range(4):
        x = lt.arange(float(COUNT), device="cuda") + turn
        assert captured(x).item() == step(x.cpu().to("cuda")).item()
        assert captured(x).item() == sum(2.0 * (n + turn) + 1 for n in range(COUNT))


@pytest.mark.lazy
def test_profiles_have_transfers(library: DeferredNccl) -> None:
    with lt.profiler.profile() as found:
        assert gathered() == wanted()
    assert "all_gather" in str(found.key_averages().table())
