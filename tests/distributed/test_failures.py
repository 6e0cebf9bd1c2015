"""A rank that fails, ends, stops or does something else is an error on all ranks, never a hang."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.distributed.launching import BEGIN, finish, start

LOOP = (
    BEGIN
    + """
x = lazyt.ones(1000)
print("there", flush=True)
while True:
    dist.all_reduce(x)
    x /= size
"""
)


def test_different_collectives(tmp_path: Path) -> None:
    program = (
        BEGIN + "x = lazyt.ones(3)\nif rank == 1:\n    dist.broadcast(x, 0)\ndist.all_reduce(x)\n"
    )
    for status, text in finish(start(program, 2, tmp_path)):
        assert status == 1
        assert "ranks 0 and 1 do not call the same" in text
        assert "program.py:10 on rank 0" in text and "broadcast float32[3] from 0" in text


def test_different_shapes(tmp_path: Path) -> None:
    program = BEGIN + "dist.all_reduce(lazyt.ones(3 + rank))\n"
    for status, text in finish(start(program, 2, tmp_path)):
        assert status == 1
        assert "is all_reduce float32[3] for sum at " in text, text
        assert "program.py:7 on rank 0, and all_reduce float32[4] for sum at " in text, text


@pytest.mark.parametrize("count", [3, 100_000])
def test_different_reductions(count: int, tmp_path: Path) -> None:
    op = "[dist.ReduceOp.MAX, dist.ReduceOp.SUM][rank]"
    program = BEGIN + f"dist.all_reduce(lazyt.ones({count}), {op})\n"
    for status, text in finish(start(program, 2, tmp_path)):
        assert status == 1
        assert "] for max at" in text and "] for sum at" in text


def test_an_exception(tmp_path: Path) -> None:
    program = (
        BEGIN + "if rank == 1:\n    raise KeyError('no data')\ndist.all_reduce(lazyt.ones(3))\n"
    )
    first, second = finish(start(program, 2, tmp_path))
    assert first.status == 1 and second.status == 1
    assert "rank 1 has failed: KeyError: 'no data' at" in first.text
    assert "program.py:8" in first.text


def test_a_rank_that_ends(tmp_path: Path) -> None:
    program = BEGIN + "if rank == 1:\n    sys.exit(0)\ndist.all_reduce(lazyt.ones(3))\n"
    first, second = finish(start(program, 2, tmp_path))
    assert first.status == 1, first.text
    assert (
        "rank 1 has ended, without an error, and rank 0 waits for it in collective 0" in first.text
    )
    assert "all_reduce float32[3] for sum at " in first.text and "failed" not in first.text
    assert second.status == 0, second.text


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (signal.SIGKILL, "its process has ended"),
        (signal.SIGSTOP, "it has not been heard of for 12 s"),
    ],
)
def test_a_rank_that_is_killed_or_stopped(tmp_path: Path, number: int, why: str) -> None:
    ranks = start(LOOP, 3, tmp_path, LAZYT_RANK_TIMEOUT="12")
    assert ranks[0].stdout is not None
    while "there" not in (line := ranks[0].stdout.readline()):
        assert line, "rank 0 has ended"
    time.sleep(0.5)
    ranks[2].send_signal(number)
    others = finish(ranks[:2])
    finish(ranks[2:], 1.0)
    for status, text in others:
        assert status == 1 and f"rank 2 has failed: {why}" in text, text


def test_a_rank_that_does_not_come(tmp_path: Path) -> None:
    program = (
        BEGIN
        + """
import datetime, time
if rank == 1:
    time.sleep(4)
dist.monitored_barrier(timeout=datetime.timedelta(seconds=1))
"""
    )
    first, second = finish(start(program, 2, tmp_path))
    assert first.status == 1 and "rank 1 has not come to it" in first.text
    assert second.status == 1 and "rank 0 has failed" in second.text


@pytest.mark.parametrize("how", ["sys.exit(0)", "dist.destroy_process_group()"])
def test_a_rank_that_ends_without_sending(tmp_path: Path, how: str) -> None:
    program = (
        BEGIN
        + f"""
x = lazyt.zeros(2)
if rank == 1:
    dist.send(x + 1, 0)
    {how}
    sys.exit(0)
dist.recv(x, 1)
print(x.tolist())
dist.recv(x, 1)
"""
    )
    first, second = finish(start(program, 2, tmp_path))
    assert first.status == 1 and "[1.0, 1.0]" in first.text
    assert "rank 1 has ended, and has not sent" in first.text and second.status == 0, second.text


def test_recv_of_another_size(tmp_path: Path) -> None:
    program = """
for count in (4, 2):
    if rank == 1:
        dist.send(lazyt.ones(count), 0)
    else:
        try:
            dist.recv(lazyt.zeros(3), 1)
        except ValueError as error:
            print(type(error).__name__, error)
dist.barrier()
"""
    first, _ = finish(start(BEGIN + program, 2, tmp_path))
    assert first.status == 0, first.text
    assert "ShapeError recv: the tensor is float32[3], 12 bytes, and more came" in first.text
    assert "ShapeError recv: the tensor is float32[3], 12 bytes, and 8 bytes came" in first.text
