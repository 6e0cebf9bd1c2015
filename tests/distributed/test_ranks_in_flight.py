"""Transfers of several sums overlap, in whatever order ranks wait for them."""

from __future__ import annotations

from pathlib import Path

from lazyt.runtime.ranks.hub import Hub
from lazyt.runtime.ranks.links import Link
from lazyt.runtime.ranks.member import Member, RankFailure
from tests.distributed.launching import run

SUMS = """
import random, time
random.seed(rank)
for turn in range(4):
    xs = [lazyt.ones(9000 + i) * (rank + i) for i in range(8)]
    works = []
    for i, x in enumerate(xs):
        works.append(dist.all_reduce(x, async_op=True))
        time.sleep(random.random() * 0.004)
        if random.random() < 0.3:
            random.choice(works).wait()
        if random.random() < 0.2:
            lazyt.ones(3).sum().item()  # whatever computes moves them on
    for i in random.sample(range(8), 8):
        assert xs[i].sum().item() == (9000 + i) * (2 * i + 1), (turn, i)
print("well")
"""

BUCKETS = """
import hashlib
from lazyt import nn
def trained(size):
    lazyt.manual_seed(1)
    net = nn.Sequential(nn.Linear(30, 200), nn.ReLU(), nn.Linear(200, 200), nn.Linear(200, 2))
    net = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=size)
    optimizer = lazyt.optim.SGD(net.parameters(), 0.1)
    for step in range(2):
        x = (lazyt.arange(240.0).reshape(8, 30) * (rank + 1 + step)).sin()
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()
    data = b"".join(p.detach().numpy().tobytes() for p in net.parameters())
    return hashlib.sha256(data).hexdigest(), len(net._buckets.groups), net._buckets.size
measured, one, many = trained(None), trained(25), trained(0.0001)
assert measured[0] == one[0] == many[0]
assert one[1] == 1 and many[1] == 6
print("size", measured[2])
"""


def test_sums_in_any_order_of_waits(tmp_path: Path) -> None:
    assert [t.splitlines()[-1] for t in run(SUMS, 2, tmp_path)] == ["well"] * 2


def test_buckets_of_any_size_have_the_same_bits(tmp_path: Path) -> None:
    first, second = [t.splitlines()[-1] for t in run(BUCKETS, 2, tmp_path)]
    assert first == second  # what the ranks measured is agreed on
    assert (1 << 16) <= int(first.split()[1]) <= 25 << 20


def test_messages_are_worth_their_latency() -> None:
    assert Link(1e-4, 125e6).message == 1 << 17  # 1 Gbit/s
    assert Link(1e-6, 1e9).message == 1 << 16
    assert Link(1e-3, 1e10).message == 25 << 20
    assert Link(1e-4, 1e8).seconds(10**8) == 1.0001


def _members(hub: Hub) -> list[Member]:
    return [Member(hub.address, rank, 2) for rank in range(2)]


def test_the_hub_compares_lists() -> None:
    """What one rank says as a list, another may say one by one, now or later."""
    from threading import Thread

    hub = Hub(2)
    members = _members(hub)
    both = (0, 1)
    calls = [("sum float32[2]", "a.py:1"), ("sum float32[3]", "a.py:2")]
    try:
        for seconds in (5.0, None):  # the second time by the key
            first = 0 if seconds else 2
            done: list[bool] = []

            def come(
                first: int = first, seconds: float | None = seconds, done: list[bool] = done
            ) -> None:
                done.append(members[0].come_to_all("g", both, first, calls, "key", seconds))

            thread = Thread(target=come)
            thread.start()
            assert members[1].come_to("g", both, first, *calls[0], 5.0) or seconds is None
            members[0].catch_up()
            assert members[1].come_to("g", both, first + 1, *calls[1], 5.0)
            thread.join()
            assert done == [True]
        members[0].come_to_all("g", both, 4, calls, "key", None)
        try:
            members[1].come_to("g", both, 4, "sum float32[7]", "b.py:9", 0.0)
            members[0].catch_up()
            failure = members[1].reason(5.0)
        except RankFailure as error:
            failure = error
        assert failure is not None
        assert "sum float32[2] at a.py:1 on rank 0, and sum float32[7] at b.py:9" in str(failure)
    finally:
        for member in members:
            member.close()
        hub.close()


def test_the_hub_compares_lengths() -> None:
    from threading import Thread

    hub = Hub(2)
    members = _members(hub)
    calls = [("sum float32[2]", "a.py:1"), ("sum float32[3]", "a.py:2")]
    found: list[str] = []

    def come(rank: int, count: int) -> None:
        try:
            members[rank].come_to_all("g", (0, 1), 0, calls[:count], f"key{count}", 5.0)
        except RankFailure as error:
            found.append(str(error))

    try:
        threads = [Thread(target=come, args=(0, 2)), Thread(target=come, args=(1, 1))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 2
        assert "collective 1 of group 'g' is sum float32[3] at a.py:2 on rank 0" in found[0]
        assert "rank 1 ends with the one before, at a.py:1" in found[0]
    finally:
        for member in members:
            member.close()
        hub.close()
