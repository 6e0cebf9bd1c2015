"""Transfers go on while a rank computes: the thread that looks for them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lazyt.errors import DistributedError
from lazyt.runtime.ranks.progress import Mover
from tests.distributed.launching import run

#: Neither rank calls anything between the start of a transfer and the look whether it is over: the
#: message is too large for what MPI puts aside.
IDLE = """
import time
import numpy as np
from lazyt.runtime.ranks import progress
from lazyt.runtime.ranks.groups import Collective
group = dist.group.WORLD._group
source, target = np.full(1 << 23, rank, np.uint8), np.full(1 << 23, 9, np.uint8)
what = Collective("all_to_all", (1 << 22,) * 2, (1 << 22,) * 2)
number = group.come_to("a large message", "a line")
transfer = group.start(what, source, target)
end = time.monotonic() + float(os.environ["IDLE"])
while transfer._requests and time.monotonic() < end:
    time.sleep(0.01)
print("over" if not transfer._requests else "under way", progress.mover._thread is not None)
group.wait(transfer, number, nbytes=2 * source.nbytes)
assert (target == np.repeat([0, 1], 1 << 22)).all()
x = lazyt.ones(100_000) * (rank + 1)
dist.all_reduce(x)
assert (x == 3).all()
"""


class _Counting:
    """A transfer that is complete after some looks, or fails at the last of them."""

    def __init__(self, looks: int, error: DistributedError | None = None) -> None:
        self.left, self._error = looks, error

    def test(self) -> bool:
        self.left -= 1
        if self.left <= 0 and self._error is not None:
            raise self._error
        return self.left <= 0


def _wait_for(moving: _Counting, seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while moving.left > 0 and time.monotonic() < end:
        time.sleep(0.001)
    return moving.left <= 0


@pytest.fixture
def mover() -> Iterator[Mover]:
    made = Mover()
    yield made
    made.stop()


def test_transfers_are_moved_on_until_they_are_over(mover: Mover) -> None:
    first, second = _Counting(20), _Counting(5)
    mover.watch(first)
    mover.watch(second)
    assert _wait_for(first) and _wait_for(second)
    later = _Counting(3)
    mover.watch(later)
    assert _wait_for(later)
    left = later.left
    time.sleep(0.01)
    assert later.left == left  # nobody looks at what is over


def test_one_that_fails_does_not_stop_others(mover: Mover) -> None:
    failing, other = _Counting(2, DistributedError("gone")), _Counting(30)
    mover.watch(failing)
    mover.watch(other)
    assert _wait_for(other)


def test_the_thread_stands_back_while_others_look(mover: Mover) -> None:
    moving = _Counting(1000)
    end = time.monotonic() + 0.1
    mover.watch(moving)
    while time.monotonic() < end:
        mover.looks += 1
    assert moving.left > 900  # three looks at a visit, some of which may come through
    assert _wait_for(moving)


def test_it_can_be_stopped_and_used_again(mover: Mover) -> None:
    mover.watch(_Counting(1 << 40))
    mover.stop()
    assert mover._thread is None
    moving = _Counting(3)
    mover.watch(moving)
    assert _wait_for(moving)


def test_large_messages_arrive_while_ranks_do_nothing(tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    texts = run(IDLE, 2, tmp_path, LOCAL_WORLD_SIZE="1", IDLE="10")
    assert [text.split() for text in texts] == [["over", "True"]] * 2


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"LOCAL_WORLD_SIZE": "2"}, id="one machine"),
        pytest.param(
            {"LOCAL_WORLD_SIZE": "1", "MPI4PY_RC_THREAD_LEVEL": "funneled"}, id="one thread"
        ),
    ],
)
def test_where_there_is_no_thread(tmp_path: Path, more: dict[str, str]) -> None:
    """Between ranks of one machine, and where MPI may be called by one thread alone."""
    pytest.importorskip("mpi4py")
    texts = run(IDLE, 2, tmp_path, IDLE="0.05", **more)
    assert [text.split()[-1] for text in texts] == ["False"] * 2
