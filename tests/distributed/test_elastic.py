"""Programs that begin again with the machines and ranks that are left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lazyt.distributed import run as launcher
from lazyt.errors import DistributedError
from lazyt.runtime.ranks.machines import Meeting, Round, Terms
from tests.distributed.launching import BEGIN, environment, free_port

#: Counts up, saves every step, and says who has counted. Rank 1 stays in its third step the first
#: time, until it is killed.
COUNTING = (
    BEGIN
    + """
import time
turn, step = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), 0
x = lazyt.zeros(1)
if os.path.exists("checkpoint"):
    x, step = lazyt.load("checkpoint")
begun = step
while step < 6:
    if turn == 0 and step == 3 and rank == 1:
        {failure}
    one = lazyt.ones(1)
    dist.all_reduce(one)
    x, step = x + one / size, step + 1
    if rank == 0:
        lazyt.save((x, step), "new")
        os.replace("new", "checkpoint")
    dist.barrier()
os.write(1, f"rank {rank} of {size}: turn {turn} from {begun} to {x.item()}\\n".encode())
"""
)
STUCK = "os.write(1, f'stuck {os.getpid()}\\n'.encode()); time.sleep(300)"


class _Machine:
    """A launcher in a thread: what it is told, one after the other."""

    def __init__(self, meeting: Meeting, count: int = 1) -> None:
        self.meeting, self.count = meeting, count
        self.told: list[Any] = []
        self.come()

    def come(self) -> None:
        def ask() -> None:
            try:
                self.told.append(self.meeting.come(self.count, 5000 + self.count))
            except DistributedError as error:
                self.told.append(str(error))

        threading.Thread(target=ask, daemon=True).start()

    def next(self, seconds: float = 5.0) -> Any:
        end = time.monotonic() + seconds
        while not self.told and time.monotonic() < end:
            time.sleep(0.005)
        return self.told.pop(0) if self.told else "nothing"

    def news(self, seconds: float = 5.0) -> str:
        end = time.monotonic() + seconds
        while not self.meeting.news() and time.monotonic() < end:
            time.sleep(0.005)
        return self.meeting.news()


class _Meetings:
    """Makes machines that meet at one address."""

    def __init__(self) -> None:
        self._address = "127.0.0.1", free_port()
        self.made: list[Meeting] = []

    def machine(self, terms: Terms, count: int = 1) -> _Machine:
        self.made.append(Meeting(self._address, terms))
        return _Machine(self.made[-1], count)


@pytest.fixture
def meetings() -> Iterator[_Meetings]:
    made = _Meetings()
    yield made
    for meeting in reversed(made.made):
        meeting.close()


def test_a_round_begins_when_all_have_come(meetings: _Meetings) -> None:
    terms = Terms(2, 2)
    a, b = meetings.machine(terms, 1), meetings.machine(terms, 3)
    first, second = a.next(), b.next()
    assert {first.node, second.node} == {0, 1} and first.nodes == second.nodes == 2
    assert first.total == second.total == 4
    before, after = sorted((first, second))
    assert before.first == 0 and after.first == (1 if before is first else 3)
    assert first.port == second.port == 5000 + (1 if before is first else 3)
    ends = [threading.Thread(target=m.meeting.finish) for m in (a, b)]
    for end in ends:
        end.start()
    for end in ends:
        end.join(5)
        assert not end.is_alive()


def test_enough_machines_begin_after_a_last_call(meetings: _Meetings) -> None:
    a = meetings.machine(Terms(1, 3, last_call=0.2))
    assert a.told == []
    found = a.next()
    assert (found.nodes, found.total) == (1, 1)


def test_too_few_machines_give_up(meetings: _Meetings) -> None:
    a = meetings.machine(Terms(2, 3, last_call=0.05, patience=0.3))
    assert "1 machines have come, and there have to be 2" in a.next()


def test_a_lost_machine_and_a_new_one(meetings: _Meetings) -> None:
    terms = Terms(1, 2, last_call=30, restarts=3)
    a, b = meetings.machine(terms), meetings.machine(terms)
    assert isinstance(a.next(), Round) and isinstance(b.next(), Round)
    b.meeting.close()
    assert a.news() == "a machine is gone"
    a.come()
    found = a.next()  # at once: nobody else is expected
    assert (found.number, found.nodes) == (1, 1)
    c = meetings.machine(terms)
    assert a.news() == "one more machine has come"
    a.come()
    assert a.next().nodes == 2 and c.next().number == 1


def test_failures_are_counted(meetings: _Meetings) -> None:
    terms = Terms(2, 2, restarts=1)
    a, b = meetings.machine(terms), meetings.machine(terms)
    for turn in range(2):
        assert a.next().number == b.next().number == turn
        b.meeting.fail("rank 1 has failed first: no data")
        assert "no data" in a.news()
        a.meeting.fail("rank 0 has ended because of it")  # is none of its own
        a.come()
        b.come()
    assert "no data" in a.next() and "no data" in b.next()


def test_numbers_of_processes() -> None:
    cores = os.cpu_count() or 1
    assert launcher._counts("3") == (3, 3)
    assert launcher._counts("auto") == (cores, cores)
    assert launcher._counts("1:1000") == (1, cores)
    assert launcher._counts("1000:2000") == (1000, 1000)
    for wrong in ("0", "4:2", "1:2:3", "many"):
        with pytest.raises(SystemExit, match="--nproc-per-node is a number"):
            launcher._counts(wrong)
    parse = launcher.get_args_parser().parse_args
    assert parse(["--nnodes", "2:4", "x.py"]).nnodes == (2, 4)
    for options, why in (
        (["--nnodes", "2"], "need --rdzv-endpoint"),
        (["--nnodes", "2", "--rdzv-backend", "etcd"], "is c10d or static"),
        (["--nnodes", "1:2", "--rdzv-endpoint", "here"], "should be host:port"),
    ):
        with pytest.raises(SystemExit, match=why):
            launcher.run(parse([*options, "x.py"]))


def _start(folder: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "lazyt.distributed.run", *options, "program.py"]
    return subprocess.Popen(
        command, env=environment(), cwd=folder, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip


def test_survivors_go_on_when_a_machine_is_killed(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(COUNTING.replace("{failure}", STUCK))
    meet = ["--rdzv-endpoint", f"127.0.0.1:{free_port()}", "--rdzv-backend", "c10d"]
    options = ["--nnodes", "1:2", "--max-restarts", "1", *meet]
    machines = [_start(tmp_path, *options), _start(tmp_path, *options)]
    # Rank 0 is on the machine that listens, whose end would be that of the run.
    found: dict[int, int] = {}

    def read(number: int) -> None:
        for line in machines[number].stdout or ():
            if line.startswith("stuck"):
                found[number] = int(line.split()[1])
            else:
                lines.append(line)

    lines: list[str] = []
    readers = [threading.Thread(target=read, args=(n,), daemon=True) for n in range(2)]
    for reader in readers:
        reader.start()
    end = time.monotonic() + 60
    while not found and time.monotonic() < end:
        time.sleep(0.01)
    ((lost, rank),) = found.items()
    machines[lost].kill()
    os.kill(rank, signal.SIGKILL)
    survivor = machines[1 - lost]
    assert survivor.wait(60) == 0, survivor.stderr and survivor.stderr.read()
    machines[lost].wait(10)
    for reader in readers:
        reader.join(10)
    assert lines == ["rank 0 of 1: turn 1 from 3 to 6.0\n"]
    assert survivor.stderr is not None
    said = survivor.stderr.read()
    assert "starts 2 ranks on 2 machines" in said and "starts 1 ranks on 1 machines" in said
    for machine in machines:
        for stream in (machine.stdout, machine.stderr):
            assert stream is not None
            stream.close()


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="two ranks need two cores here")
def test_fewer_ranks_begin_again_when_one_is_killed(tmp_path: Path) -> None:
    program = textwrap.dedent(COUNTING).replace("{failure}", "os.kill(os.getpid(), 9)")
    (tmp_path / "program.py").write_text(program)
    done = _start(tmp_path, "--nproc-per-node", "1:2", "--max-restarts", "1")
    out, err = done.communicate(timeout=60)
    assert done.returncode == 0, err
    assert re.findall(r"rank .*", out) == ["rank 0 of 1: turn 1 from 3 to 6.0"]
    assert "starts all 1 ranks again (1 of 1)" in err
