"""Small collectives of captured functions that become one: the same bits, and only where the
program lets them and none depends on another."""

from __future__ import annotations

from pathlib import Path

import pytest

import lazyt
import lazyt.distributed as dist
from lazyt import ops
from lazyt.ops.parallel.collectives import Ranks, all_gather
from lazyt.plan.control.coalescing import LARGEST, coalesce
from tests.distributed.launching import run

PROGRAM = """
lazyt.config.coalesce_collectives = True
def step(x):
    mean, most, other = x.mean(), x.max(), x[:2] * 3
    count = x.to(lazyt.int64).sum()
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    dist.all_reduce(most, dist.ReduceOp.MAX)
    dist.all_reduce(other)
    dist.all_reduce(count)
    rows = x.reshape(2, -1)
    dist.all_reduce(rows)
    scaled = rows * mean
    dist.all_reduce(scaled)  # depends on some of these
    parts = [lazyt.zeros(5) for _ in range(size)]
    dist.all_gather(parts, x[:5])
    more = [lazyt.zeros(3) for _ in range(size)]
    dist.all_gather(more, x[5:8])
    return mean, most, other, count, rows, scaled, parts[1 - rank], more[rank] + more[1 - rank]
captured = lazyt.jit(step)
for i in range(5):
    x = lazyt.arange(16.0).sin() * (rank + 1.25) + i * 0.3
    got, want = ([v.numpy().tobytes() for v in f(x.clone())] for f in (captured, step))
    assert got == want, i
if not lazyt.config.eager:
    assert captured.why() == ["captured"], captured.why()
    text = str(captured.explain())
    assert text.count("started") == 6, text  # of eight
    # Averages are sums of another kind: they have a message to themselves.
    assert "2 collectives as one for sum over 2 ranks" in text, text
    assert text.count("several small collectives are one: ") == 2, text
    assert "all_reduce float32[2] for sum at " in text and "all_gather float32[3] at " in text, text
    assert captured.explain() is not None
print("well")
"""

DIFFERENT = """
lazyt.config.coalesce_collectives = rank == 0
@lazyt.jit
def f(x):
    y, z = x * 2, x * 3
    dist.all_reduce(y)
    dist.all_reduce(z)
    return y + z
try:
    for i in range(4):
        f(lazyt.ones(2)).tolist()
except lazyt.errors.DistributedError as error:
    assert "do not call the same" in str(error) and "2 collectives as one" in str(error), error
    print("told", flush=True)
    os._exit(0)
assert lazyt.config.eager
print("told")
"""


@pytest.mark.lazy
def test_values_are_the_same(tmp_path: Path) -> None:
    assert [t.splitlines()[-1] for t in run(PROGRAM, 2, tmp_path)] == ["well"] * 2


@pytest.mark.lazy
def test_ranks_that_differ_are_told(tmp_path: Path) -> None:
    assert [t.splitlines()[-1] for t in run(DIFFERENT, 2, tmp_path)] == ["told"] * 2


@pytest.mark.lazy
def test_what_becomes_one() -> None:
    """No collective comes behind one that depends on it, and no large one is copied."""
    dist.init_process_group("gloo", rank=0, world_size=1)
    try:
        group = dist.group.WORLD
        assert group is not None
        ranks = Ranks(group.group_name, 0, 1)
        x = lazyt.arange(12.0).reshape(3, 4).realize().node
        calls = [all_gather(x, ranks)]
        calls.append(all_gather(ops.apply("mul", x, x), ranks))
        calls.append(all_gather(ops.apply("exp", calls[0]), ranks))  # behind the first
        calls.append(all_gather(ops.apply("sin", x), ranks))
        large = lazyt.ones(LARGEST // 4 + 1).realize().node
        calls.append(all_gather(large, ranks))
        calls.append(all_gather(lazyt.ones(4, dtype=lazyt.int32).realize().node, ranks))
        root = ops.apply("add", calls[2], calls[3])
        found = coalesce([root], calls)
        kinds = [call.params.written or "single" for call in found.calls]
        two = "2 collectives as one"
        assert kinds == [two, two, "single", "single"]
        assert [len(some) for some in found.members.values()] == [2, 2]
        assert found.calls[0].shape == (24,) and found.calls[2] is calls[4]
        unchanged = coalesce([root], calls[4:])
        assert unchanged.roots == [root] and not unchanged.members
    finally:
        dist.destroy_process_group()
