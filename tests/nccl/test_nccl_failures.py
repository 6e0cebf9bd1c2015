"""What is missing, wrong or late: errors that say which rank, which call and which line."""

from __future__ import annotations

import ctypes.util
from collections.abc import Iterator
from pathlib import Path

import pytest

import lazyt
import lazyt.distributed as dist
from lazyt.errors import DeviceError, DistributedError
from lazyt.runtime.cuda import device as cuda_device
from lazyt.runtime.ranks import nccl
from tests.nccl.mock import BEGIN, ended, run, variables

LATE = """
import time
x = lazyt.zeros(3, device=there)
out = lazyt.empty(6, device=there)
for step in range(2):
    if step and rank:
        time.sleep(6)
    dist.all_gather_into_tensor(out, x)  # the line
    out.tolist()
"""

DIFFERENT = """
x = lazyt.zeros(3) if rank else lazyt.zeros(3, device=there)
dist.broadcast(x, 0)
x.tolist()
"""

ENDS = """
x = lazyt.zeros(3, device=there)
out = lazyt.empty(6, device=there)
for step in range(2):
    if step and rank:
        os._exit(3)
    dist.all_gather_into_tensor(out, x)
    out.tolist()
"""

ABSENT = """
if rank == 0:
    x = lazyt.zeros(3, device=there)
    dist.send(x, 1)
else:
    import time
    time.sleep(5)
"""

HOST = """
import warnings
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    x = lazyt.full((3,), float(rank), device=there)
    for _ in range(2):
        dist.all_reduce(x)
    assert x.device == lazyt.device(there) and x.tolist() == [2.0] * 3
    if rank:
        dist.send(x, 0)
    else:
        dist.recv(x, 1)
    assert x.device == lazyt.device(there)
texts = [str(w.message) for w in found if "backend='nccl'" in str(w.message)]
assert len(texts) == 1 and "cuda:emu" in texts[0], texts
print("well")
dist.destroy_process_group()
"""


@pytest.fixture(autouse=True)
def anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """NCCL is looked for again in each test."""
    nccl.find.cache_clear()
    nccl.load.cache_clear()
    yield
    if dist.is_initialized():
        dist.destroy_process_group()
    nccl.find.cache_clear()
    nccl.load.cache_clear()


def begin(folder: Path, monkeypatch: pytest.MonkeyPatch, **more: str) -> None:
    """This process as the only rank."""
    for name, value in variables(folder, **more).items():
        monkeypatch.setenv(name, value)
    dist.init_process_group("nccl", rank=0, world_size=1)


def test_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LAZYT_NCCL", str(tmp_path / "libnccl.so.2"))
    assert not dist.is_nccl_available() and not dist.is_backend_available("nccl")
    with pytest.raises(DistributedError, match=r"lazyt-compiler\[nccl\].*LAZYT_NCCL"):
        dist.init_process_group("nccl", rank=0, world_size=1)
    assert not dist.is_initialized()
    dist.init_process_group("cpu:gloo,cuda:nccl", rank=0, world_size=1)  # through the host
    x = lazyt.ones(2, device="cuda:emu")
    out = lazyt.empty(2, device="cuda:emu")
    with pytest.warns(UserWarning, match="copied to the host and back"):
        dist.all_gather_into_tensor(out, x)
    assert out.tolist() == [1.0, 1.0]


def test_an_old_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(DistributedError, match=r"NCCL 2\.10\.3 at .* too old: .* 2\.18 or later"):
        begin(tmp_path, monkeypatch, MOCK_NCCL_VERSION="21003")
    nccl.load.cache_clear()
    with pytest.raises(DistributedError, match=r"NCCL 2\.7\.8 at .* too old"):
        begin(tmp_path, monkeypatch, MOCK_NCCL_VERSION="2708")


def test_another_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = tmp_path / "libnccl.so.2"
    other.write_text("no library")
    monkeypatch.setenv("LAZYT_NCCL", str(other))
    with pytest.raises(DistributedError, match="cannot be loaded from"):
        dist.init_process_group("nccl", rank=0, world_size=1)
    found = ctypes.util.find_library("m")
    if found is not None:
        with pytest.raises(DistributedError, match="is no NCCL that lazyt can use"):
            nccl.Library(found)


def test_names_of_backends() -> None:
    with pytest.raises(ValueError, match="not that of the host"):
        dist.init_process_group("cpu:nccl,cuda:nccl", rank=0, world_size=1)
    with pytest.raises(ValueError, match="mpi, gloo, nccl"):
        dist.init_process_group("cuda:ucc", rank=0, world_size=1)


def test_a_tensor_on_the_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    begin(tmp_path, monkeypatch)
    with pytest.raises(DeviceError, match=r"all_gather: no backend .* \(nccl\) moves .* the CPU"):
        dist.all_gather_into_tensor(lazyt.empty(2), lazyt.ones(2))
    found: list[object] = [None]
    dist.all_gather_object(found, {"a": 1})  # objects are the host's
    assert found == [{"a": 1}]


def test_another_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cuda_device, "_devices", {})
    with lazyt.config.override(emulate_cuda=2):
        begin(tmp_path, monkeypatch)
        for device in ("cuda:0", "cuda:0"):
            dist.broadcast(lazyt.ones(2, device=device), 0)
        x = lazyt.ones(2, device="cuda:1")
        with pytest.raises(DeviceError, match="with cuda:0, and this tensor is on cuda:1"):
            dist.broadcast(x, 0)


def test_words_of_nccl(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    begin(tmp_path, monkeypatch, MOCK_NCCL_FAIL="ncclAllGather=4")
    x = lazyt.ones(2, device="cuda:emu")
    with pytest.raises(DistributedError) as caught:
        dist.all_gather_into_tensor(lazyt.empty(2, device="cuda:emu"), x)
    text = str(caught.value)
    assert "NCCL: ncclAllGather: invalid argument (ncclInvalidArgument): mock: " in text
    assert (
        "rank 0 of group 'world" in text and "all_gather_into_tensor float32[2] on cuda at " in text
    )
    assert "test_nccl_failures.py:" in text
    monkeypatch.setenv("MOCK_NCCL_FAIL", "ncclCommInitRankConfig=3")
    other = dist.new_group([0])
    with pytest.raises(DistributedError, match=r"ncclCommInitRankConfig: .*ncclInternalError"):
        dist.broadcast(lazyt.ones(2, device="cuda:emu"), 0, group=other)
    assert x.tolist() == [1.0, 1.0]  # nothing was under way: the device is as it was


def test_errors_that_come_later(tmp_path: Path) -> None:
    program = "x = lazyt.ones(2, device=there)\ndist.broadcast(x, 0)\nprint(x)"
    (found,) = ended(program, 1, tmp_path, MOCK_NCCL_ASYNC="ncclBroadcast=6")
    assert found.status == 1 and "(ncclRemoteError)" in found.text
    assert "broadcast float32[2] on cuda from 0 at " in found.text


def test_a_rank_that_is_late(tmp_path: Path) -> None:
    first, second = ended(LATE, 2, tmp_path, seconds="2")
    assert first.status == 1 and second.status == 1
    line = 1 + (BEGIN + LATE).partition("# the line")[0].count("\n")
    assert "rank 0: all_gather_into_tensor float32[3] on cuda at " in first.text
    assert f"program.py:{line}: a collective of group 'world1' has taken 2." in first.text
    assert "longer than allowed: rank 1 has not come to it" in first.text
    assert "rank 0 has failed" in second.text


def test_a_rank_that_never_comes_to_a_message(tmp_path: Path) -> None:
    first, _ = ended(ABSENT, 2, tmp_path, seconds="2")
    assert first.status == 1
    assert "a communicator of 2 ranks of group 'world1'" in first.text
    assert "longer than allowed" in first.text


def test_ranks_that_call_with_other_devices(tmp_path: Path) -> None:
    for found in ended(DIFFERENT, 2, tmp_path, "cpu:gloo,cuda:nccl"):
        assert found.status == 1 and "do not call the same" in found.text
        assert "broadcast float32[3] on cuda from 0" in found.text


def test_a_rank_that_ends(tmp_path: Path) -> None:
    first, second = ended(ENDS, 2, tmp_path)
    assert second.status == 3 and first.status == 1
    assert "RankFailure: rank 1 has failed: its process has ended" in first.text


def test_without_nccl_values_go_through_the_host(tmp_path: Path) -> None:
    assert run(HOST, 2, tmp_path, "gloo") == ["well"] * 2
