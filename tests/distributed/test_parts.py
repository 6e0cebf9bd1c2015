"""The parts alone: trees of sums, stores, the hub, and PMI."""

from __future__ import annotations

import contextlib
import socket
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from lazyt import distributed as dist
from lazyt import ops
from lazyt.errors import DistributedError, ShapeError
from lazyt.ir.dtypes import float32
from lazyt.ir.graph import Node
from lazyt.ops.parallel import collectives, sums
from lazyt.ops.parallel.collectives import Ranks
from lazyt.runtime.ranks.hub import Hub
from lazyt.runtime.ranks.member import Member, RankFailure


def _text(node: Node) -> str:
    """The tree of a sum."""
    if node.op.name != "map":
        return str(node.inputs[0].op.params if node.inputs else node.params)
    return "(" + " ".join(_text(item) for item in node.inputs) + ")"


def _leaves(count: int) -> list[Node]:
    return [ops.constant(float(2 << i), float32) for i in range(count)]


@pytest.mark.parametrize("shares", [1, 2, 3, 5, 7, 8, 13])
def test_every_division_has_the_tree_of_all(shares: int) -> None:
    """Subtrees that ranks add up by themselves are parts of the one tree over all shares."""
    values = [ops.variable(ops.input_((1,), float32), i) for i in range(shares)]
    whole = collectives.combine(values, "add")
    for size in range(1, shares + 1):
        counts = sums.divide(shares, size)
        found, order = [], []
        for rank in range(size):
            start = sum(counts[:rank])
            for first, count in sums.spans(start, counts[rank]):
                found.append(collectives.combine(values[first : first + count], "add"))
                order.append((first, count))
        assert sums._finished(found, order, "add") is whole  # equal nodes are one


def test_too_few_shares_are_refused() -> None:
    with pytest.raises(ShapeError, match="should have 1 of 2"):
        sums.reduce_shares(_leaves(2), Ranks("none", 1, 3), 2)
    with pytest.raises(ShapeError, match="do not divide"):
        collectives.reduce_scatter(ops.input_((5,), float32), Ranks("none", 1, 3))


@pytest.mark.parametrize("kind", ["hash", "file", "tcp", "prefix"])
def test_stores(kind: str, tmp_path: Path) -> None:
    made: dist.Store
    if kind == "hash":
        made = dist.HashStore()
    elif kind == "file":
        made = dist.FileStore(str(tmp_path / "values"))
    elif kind == "tcp":
        made = dist.TCPStore("127.0.0.1", 0, is_master=True)
    else:
        made = dist.PrefixStore("epoch", dist.HashStore())
    made.set("a", "1")
    assert made.get("a") == b"1"
    assert (made.add("n", 3), made.add("n", -1), made.get("n")) == (3, 2, b"2")
    assert made.compare_set("a", "2", "3") == b"1"
    assert made.compare_set("a", "1", "3") == b"3" == made.get("a")
    assert made.check(["a", "n"]) and not made.check(["a", "b"])
    assert made.num_keys() == 2
    assert made.delete_key("a") and not made.delete_key("a")
    timer = threading.Timer(0.1, lambda: made.set("late", b"\x00\xff"))
    timer.start()
    made.wait(["n", "late"])
    timer.join()
    assert made.get("late") == b"\x00\xff"
    made.set_timeout(timedelta(seconds=0.05))
    with pytest.raises(dist.DistStoreError, match="wait timeout"):
        made.get("never")
    if isinstance(made, dist.TCPStore):
        made.close()


def test_the_hub_compares_and_tells() -> None:
    hub = Hub(2)
    a, b = Member(hub.address, 0, 2), Member(hub.address, 1, 2)
    with pytest.raises(DistributedError, match="rank 1 already"):
        Member(hub.address, 1, 2)
    with pytest.raises(DistributedError, match="none has the number 2"):
        Member(hub.address, 2, 2)
    assert a.come_to("g", (0, 1), 0, "sum", "x.py:1", None)
    assert b.come_to("g", (0, 1), 0, "sum", "y.py:1", 10.0)
    assert not a.come_to("g", (0, 1), 1, "sum", "x.py:2", 0.01)  # the other has not come
    assert hub.missing("g", 1) == [1]
    with pytest.raises(RankFailure, match=r"collective 1 .* is sum at x\.py:2 on rank 0"):
        b.come_to("g", (0, 1), 1, "max", "y.py:2", 10.0)
    assert a.reason(10.0) is not None
    for member in (a, b):
        member.close()
    hub.close()


def test_nonsense_at_the_hubs_port() -> None:
    hub = Hub(1)
    for data in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff" * 64,
        b"cmd=nonsense\n",
        b"\0\0\0\2\0\0\0\0\0\0\0\0[]",
    ):
        with socket.create_connection(hub.address) as connection:
            connection.sendall(data)
            connection.settimeout(5.0)
            with contextlib.suppress(OSError):  # it was closed already
                connection.shutdown(socket.SHUT_WR)
                assert connection.recv(100) == b""
    member = Member(hub.address, 0, 1)
    assert member.failure is None
    member.close()
    hub.close()


def test_placements_are_values() -> None:
    from lazyt.distributed.placements import Partial, Replicate, Shard, StridedShard

    assert Shard(1) == Shard(1) != Shard(0) != Replicate()
    assert len({Replicate(), Replicate(), Partial(), Partial("avg")}) == 3
    assert Shard(1).is_shard(1) and not Shard(1).is_shard(0) and not Shard(1).is_replicate()
    assert Partial().is_partial("sum") and not Partial().is_partial("avg")
    assert StridedShard(0, split_factor=2).is_shard(0)
    assert StridedShard(0, split_factor=2) != Shard(0)
    assert [repr(p) for p in (Shard(0), Replicate(), Partial("max"))] == [
        "Shard(dim=0)", "Replicate()", "Partial(max)",
    ]  # fmt: skip
