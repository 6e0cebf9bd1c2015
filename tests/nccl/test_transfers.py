"""Values between device memories: what NCCL is called with, and what comes."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import lazyt
import lazyt.distributed as dist
from lazyt.runtime.cuda import device as cuda_device
from lazyt.runtime.ranks import nccl
from tests.nccl.mock import calls, run, variables

MOVES = """
def gathered(x):
    out = lazyt.empty((4, 3), dtype=x.dtype, device=x.device)
    dist.all_gather_into_tensor(out, x)
    return out
def sent_around(x):
    rows = x if rank else lazyt.cat([x, x[:1]])
    given, taken = ([1, 1], [2, 1]) if rank else ([1, 2], [1, 1])
    out = lazyt.empty((sum(taken), 3), dtype=x.dtype, device=x.device)
    dist.all_to_all_single(out, rows, taken, given)
    return out
def told(x):
    dist.broadcast(x, 1)
    return x
def passed(x):
    if rank:
        dist.send(x, 0)
    else:
        dist.recv(x, 1)
    return x
def swapped(x):
    out = lazyt.empty_like(x)
    both = [dist.P2POp(dist.isend, x, 1 - rank), dist.P2POp(dist.irecv, out, 1 - rank)]
    for work in dist.batch_isend_irecv(both):
        work.wait()
    return out
for dtype in (lazyt.float32, lazyt.bfloat16, lazyt.bool, lazyt.int8, lazyt.int64, lazyt.complex64):
    x = (lazyt.arange(6).reshape(2, 3) * 3 + rank * 40).to(dtype)
    for move in (gathered, sent_around, told, passed) if dtype is lazyt.float32 else (gathered,):
        want, got = move(x.clone()), move(x.to(there))
        assert got.device == lazyt.device(there), move
        assert lazyt.equal(got.cpu(), want), (move, dtype, got, want)
got = swapped((lazyt.arange(6.0) + rank).to(there))
assert got.tolist() == [n + 1.0 - rank for n in range(6)]
print("well")
dist.destroy_process_group()
"""

SUMS = """
for dtype, op in (
    (lazyt.float32, dist.ReduceOp.SUM), (lazyt.bfloat16, dist.ReduceOp.AVG),
    (lazyt.int64, dist.ReduceOp.MAX),
):
    x = ((lazyt.arange(7) * 0.37 + rank).sin() * 50).to(dtype)
    want, got = x.clone(), x.to(there)
    dist.all_reduce(want, op)
    dist.all_reduce(got, op)
    assert lazyt.equal(got.cpu(), want), (dtype, op)
x = (lazyt.arange(4.0) * 1.7 + rank).sin()
for name in ("reduce", "gather", "scatter"):
    found = []
    for y in (x.clone(), x.to(there)):
        if name == "reduce":
            dist.reduce(y, 1)
            found.append(y.cpu())
        elif name == "gather":
            parts = [lazyt.empty_like(y) for _ in range(size)] if rank == 0 else None
            dist.gather(y, parts, 0)
            found.append(lazyt.cat(parts).cpu() if parts else lazyt.zeros(1))
        else:
            dist.scatter(y, [y * 2, y * 3] if rank == 0 else None, 0)
            found.append(y.cpu())
    assert lazyt.equal(*found), name
work = dist.all_reduce(got := x.to(there), async_op=True)
work.wait()
assert work.is_completed()
print("well")
dist.destroy_process_group()
"""

GROUPS = """
ends, pair = dist.new_group([0, 2]), dist.new_group([1, 2])
x = lazyt.full((3,), float(rank), device=there)
if rank != 1:
    out = lazyt.empty(6, device=there)
    dist.all_gather_into_tensor(out, x, group=ends)
    assert out.tolist() == [0.0] * 3 + [2.0] * 3
if rank == 2:  # of two of three ranks, before all three have met
    dist.send(x, 1)
elif rank == 1:
    dist.recv(x, 2)
    assert x.tolist() == [2.0] * 3
from lazyt.sharding.functional_collectives import permute_tensor
moved = permute_tensor(lazyt.full((2,), rank + 1.0, device=there), [1, 2, 0], dist.group.WORLD)
assert moved.tolist() == [float((rank - 1) % 3 + 1)] * 2
from lazyt.distributed.process_groups import ranks_of
from lazyt.handle.dispatch import unwrap, wrap
from lazyt.ops.parallel import collectives as build
node = build.permute(unwrap(lazyt.ones(2, device=there)), ranks_of(dist.group.WORLD), [(0, 2)])
assert wrap(node).tolist() == [float(rank == 2)] * 2
print("well")
dist.destroy_process_group()
"""


def test_bytes_come_as_they_do_on_the_host(tmp_path: Path) -> None:
    assert run(MOVES, 2, tmp_path, "cpu:gloo,cuda:nccl") == ["well"] * 2
    mine, others = (
        [re.sub(r" (stream|rank)=\S+", "", c) for c in calls(tmp_path, rank)] for rank in (0, 1)
    )
    gathers = [c for c in mine if c.startswith("ncclAllGather")]
    assert [re.findall(r"count=(\d+)", c)[0] for c in gathers] == ["24", "12", "6", "6", "48", "48"]
    assert gathers == [c for c in others if c.startswith("ncclAllGather")]
    streams = {c.rpartition("stream=")[2] for c in calls(tmp_path, 0) if "stream=" in c}
    assert len(streams) == 1  # never two that could wait for each other in different orders
    assert sum(c.startswith("ncclCommDestroy") for c in mine) == 2


def test_sums_have_the_bits_of_the_host(tmp_path: Path) -> None:
    assert run(SUMS, 2, tmp_path, "cpu:gloo,cuda:nccl") == ["well"] * 2


def test_groups_of_some_ranks(tmp_path: Path) -> None:
    assert run(GROUPS, 3, tmp_path) == ["well"] * 3
    met = [c for c in calls(tmp_path) if c.startswith("ncclCommInitRankConfig")]
    assert [c.partition("size=")[2] for c in met].count("2 blocking=0") == 4
    assert [c.partition("size=")[2] for c in met].count("3 blocking=0") == 3


def test_parts_of_a_communicator(tmp_path: Path) -> None:
    program = """
    x = lazyt.full((2,), float(rank), device=there)
    dist.broadcast(x, 0, async_op=True)
    ends, first = dist.new_group([0, 2]), dist.new_group([0])
    y = lazyt.full((2,), float(rank), device=there)
    if rank != 1:
        dist.broadcast(y, 2, group=ends)
        assert y.tolist() == [2.0] * 2
    assert x.tolist() == [0.0] * 2
    print("well")
    dist.destroy_process_group()
    """
    assert run(program, 3, tmp_path, DEVICE_ID="cuda:emu") == ["well"] * 3
    made = calls(tmp_path)
    assert sum(c.startswith("ncclCommInitRankConfig") for c in made) == 3  # the ranks meet once
    for rank, colors in ((0, ["0", "0"]), (1, ["-1", "-1"]), (2, ["0", "-1"])):
        splits = [c for c in made if c.startswith(f"ncclCommSplit rank={rank} ")]
        assert [re.findall(r"color=(\S+)", c)[0] for c in splits] == colors


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """This process as the only rank, with a GPU."""
    for name, value in variables(tmp_path).items():
        monkeypatch.setenv(name, value)
    nccl.find.cache_clear()
    nccl.load.cache_clear()
    yield tmp_path
    if dist.is_initialized():
        dist.destroy_process_group()
    nccl.find.cache_clear()
    nccl.load.cache_clear()


def test_a_lone_rank_calls_nccl(alone: Path) -> None:
    dist.init_process_group("nccl", rank=0, world_size=1)
    x = lazyt.arange(6.0, device="cuda:emu")
    out = lazyt.zeros(6, device="cuda:emu")
    dist.all_gather_into_tensor(out, x)
    assert out.tolist() == x.tolist()
    out.zero_()
    dist.all_to_all_single(out, x)
    assert out.tolist() == x.tolist()
    dist.broadcast(x, 0)
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    names = [c.partition(" ")[0] for c in calls(alone) if "stream=" in c]
    assert names == ["ncclAllGather", "ncclSend", "ncclRecv", "ncclBroadcast"]


def test_ranks_meet_at_once_where_a_device_is_named(alone: Path) -> None:
    dist.init_process_group("nccl", rank=0, world_size=1, device_id="cuda:emu")
    assert "ncclCommInitRankConfig rank=0 size=1 blocking=0" in calls(alone)


def test_what_is_there_is_taken(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert dist.is_nccl_available() and dist.is_backend_available("nccl")
    monkeypatch.setattr(cuda_device, "_devices", {})
    for gpus, name in ((0, "mpi"), (1, "cpu:mpi,cuda:nccl")):
        with lazyt.config.override(emulate_cuda=gpus):
            dist.init_process_group(rank=0, world_size=1)
            if gpus or not lazyt.cuda.is_available():
                assert dist.get_backend() == name
            dist.destroy_process_group()


@pytest.mark.lazy
def test_explain_says_what_moves_the_values(alone: Path) -> None:
    dist.init_process_group("nccl", rank=0, world_size=1)
    from lazyt.distributed import functional

    (y,) = functional.all_gather(lazyt.ones(3, device="cuda:emu"))
    assert "moved by NCCL 2.27.3" in str(lazyt.explain(y * 2))


def test_structures_are_laid_out_as_in_the_header() -> None:
    assert ctypes.sizeof(nccl.UniqueId) == 128
    assert ctypes.sizeof(nccl.Config) == 48
    offsets = [getattr(nccl.Config, name).offset for name, _ in nccl.Config._fields_]
    assert offsets == [0, 8, 12, 16, 20, 24, 28, 32, 40]
    made = nccl.Config.nonblocking()
    assert (made.size, made.magic, made.version) == (48, 0xCAFEBEEF, 21800)
    assert made.blocking == 0 and made.min_ctas == made.split_share == -(2**31)
