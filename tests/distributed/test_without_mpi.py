"""Ranks without MPI: the hub moves what is on the host."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lazyt.distributed as dist
from lazyt.runtime.ranks.engine import TooLong
from lazyt.runtime.ranks.hub import Hub
from lazyt.runtime.ranks.hub_engine import HubCommunicator
from lazyt.runtime.ranks.member import Client
from tests.distributed.launching import finish, start

BEGIN = """
import sys, warnings
sys.modules["mpi4py"] = None
import lazyt
import lazyt.distributed as dist
"""

PROGRAM = """
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    dist.init_process_group()
rank, size = dist.get_rank(), dist.get_world_size()
assert dist.get_backend() == "gloo" and not dist.is_mpi_available()
assert ["pip install mpi4py" in str(w.message) for w in found] == [True]
x = lazyt.arange(4.0) + rank
dist.all_reduce(x)
assert x.tolist() == [3.0 * n + 3 for n in range(4)]
big = lazyt.full((50000,), rank + 1.0)
dist.all_reduce(big)
assert (big == 6).all()
out = [lazyt.empty(2) for _ in range(size)]
dist.all_gather(out, lazyt.full((2,), float(rank)))
assert [o.tolist() for o in out] == [[float(n)] * 2 for n in range(size)]
objects = [None] * size
dist.all_gather_object(objects, {"rank": rank})
assert objects == [{"rank": n} for n in range(size)]
dist.barrier()
pair = dist.new_group([0, 2])
if rank != 1:
    y = lazyt.full((3,), float(rank))
    dist.broadcast(y, 2, group=pair)
    assert y.tolist() == [2.0] * 3
if rank == 0:
    seen = []
    for _ in range(2):  # from anybody, then from each
        source = dist.recv(x)
        seen.append((source, x.tolist()[0]))
    assert sorted(seen) == [(1, 10.0), (2, 20.0)], seen
else:
    dist.send(lazyt.full((4,), rank * 10.0), 0)
dist.destroy_process_group()
print("well")
"""

ENDS = """
dist.init_process_group("gloo")
if dist.get_rank():
    raise ValueError("some mistake")
dist.all_reduce(lazyt.ones(3))
"""

MPI = """
try:
    dist.init_process_group("mpi")
except RuntimeError as error:
    print(error, flush=True)
    import os
    os._exit(0)
"""


def test_what_ranks_do(tmp_path: Path) -> None:
    for found in finish(start(BEGIN + PROGRAM, 3, tmp_path)):
        assert found.status == 0 and found.text.splitlines()[-1] == "well", found.text


def test_a_rank_that_fails(tmp_path: Path) -> None:
    first, second = finish(start(BEGIN + ENDS, 2, tmp_path))
    assert first.status == 1 and second.status == 1
    assert "rank 1 has failed: ValueError: some mistake" in first.text


def test_mpi_that_is_named_is_wanted(tmp_path: Path) -> None:
    for found in finish(start(BEGIN + MPI, 2, tmp_path)):  # none waits for the other
        assert found.status == 0 and "pip install mpi4py mpich" in found.text, found


def test_gloo_is_always_there() -> None:
    assert dist.is_gloo_available() and dist.is_backend_available("gloo")


def test_messages_of_one_rank_come_in_their_order() -> None:
    hub = Hub(2)
    client = Client(hub.address)
    try:
        first, second = (HubCommunicator(client, "pair", rank, 2) for rank in range(2))
        boxes = [np.zeros(4, np.uint8) for _ in range(3)]
        waits = [second.receive(boxes[0], 0, 5), second.receive(boxes[1], -1, 5)]
        waits.append(second.receive(boxes[2], 0, 6))
        assert not any(wait.test() for wait in waits)
        for number, tag in ((1, 5), (2, 6), (3, 5)):
            assert first.send(np.full(4, number, np.uint8), 1, tag).test()
        assert all(wait.test() for wait in reversed(waits))
        assert [box[0] for box in boxes] == [1, 3, 2]
        assert [getattr(wait, "source", -1) for wait in waits] == [0, 0, 0]
        assert client.ask({"do": "count"})[0]["count"] == 0  # nothing stays behind
        short = second.receive(np.zeros(2, np.uint8), 0, 7)
        first.send(np.zeros(4, np.uint8), 1, 7)
        with pytest.raises(TooLong):
            short.test()
    finally:
        client.close()
        hub.close()
