"""Ranks find each other however they are started."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import lazyt.distributed as dist
from tests.distributed.launching import BEGIN, environment, free_port

PROGRAM = (
    BEGIN
    + """
x = lazyt.ones(2)
dist.all_reduce(x)
print(f"rank {rank} of {size}: {x.tolist()}")
"""
)
WANTED = ["rank 0 of 2: [2.0, 2.0]", "rank 1 of 2: [2.0, 2.0]"]


def _run(folder: Path, *command: str) -> list[str]:
    done = subprocess.run(
        command, env=environment(), cwd=folder, text=True, capture_output=True, timeout=200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # Processes may write at the same time.
    return sorted(re.findall(r"rank \d of \d: \[.*?\]", done.stdout))


def test_mpiexec(tmp_path: Path) -> None:
    mpiexec = Path(sys.executable).parent / "mpiexec"
    (tmp_path / "program.py").write_text(PROGRAM)
    assert _run(tmp_path, str(mpiexec), "-n", "2", sys.executable, "program.py") == WANTED


def test_the_launcher(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        PROGRAM.replace("import lazyt\n", "import torch as lazyt\n")
    )
    command = [sys.executable, "-m", "lazyt.distributed.run", "--nproc-per-node", "2", "--lazyt"]
    assert _run(tmp_path, *command, "program.py") == WANTED


@pytest.mark.parametrize("method", ["tcp", "file"])
def test_multiprocessing(tmp_path: Path, method: str) -> None:
    address = f"tcp://127.0.0.1:{free_port()}" if method == "tcp" else f"file://{tmp_path}/meet"
    program = f"""
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def work(rank, size):
    dist.init_process_group("gloo", init_method={address!r}, rank=rank, world_size=size)
    x = torch.ones(2)
    dist.all_reduce(x)
    print(f"rank {{rank}} of {{size}}: {{x.tolist()}}", flush=True)
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(work, args=(2,), nprocs=2)
"""
    (tmp_path / "program.py").write_text(program)
    assert _run(tmp_path, sys.executable, "-m", "lazyt", "run", "program.py") == WANTED


def test_a_lone_process() -> None:
    assert dist.is_available() and not dist.is_initialized()
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        dist.get_rank()
    with pytest.raises(ValueError, match="rank and world_size have to be given"):
        dist.init_process_group("gloo", init_method="tcp://127.0.0.1:1")
    with pytest.raises(ValueError, match="RANK expected, but not set"):
        dist.init_process_group("gloo")
    with pytest.raises(ValueError, match="nccl"):
        dist.init_process_group("cpu:nccl", rank=0, world_size=1)
    dist.init_process_group("gloo", rank=0, world_size=1)
    try:
        assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "gloo")
        with pytest.raises(ValueError, match="twice"):
            dist.init_process_group("gloo", rank=0, world_size=1)
    finally:
        dist.destroy_process_group()
    assert not dist.is_initialized() and "RANK" not in os.environ


def test_the_launchers_end_is_that_of_the_ranks(tmp_path: Path) -> None:
    program = "import os, time\nos.write(1, b'%d\\n' % os.getpid())\ntime.sleep(300)\n"
    (tmp_path / "program.py").write_text(program)
    command = [sys.executable, "-m", "lazyt.distributed.run", "--nproc-per-node", "2", "program.py"]
    launcher = subprocess.Popen(
        command, env=environment(), cwd=tmp_path, text=True, stdout=subprocess.PIPE
    )
    assert launcher.stdout is not None
    ranks = [int(launcher.stdout.readline()) for _ in range(2)]
    launcher.terminate()
    assert launcher.wait(60) == 128 + signal.SIGTERM
    launcher.stdout.close()
    for rank in ranks:
        with pytest.raises(ProcessLookupError):
            os.kill(rank, 0)


def _launch(folder: Path, program: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(BEGIN + textwrap.dedent(program))
    command = [sys.executable, "-m", "lazyt.distributed.run", "--nproc-per-node", "2", *options]
    return subprocess.run(
        [*command, "program.py"], env=environment(), cwd=folder, text=True, capture_output=True,
        timeout=200,
    )  # fmt: skip


RESUMED = """
from lazyt.distributed.elastic import record
turn = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
@record
def main():
    x, step = lazyt.zeros(2), 0
    if os.path.exists("checkpoint"):
        x, step = lazyt.load("checkpoint")
    while step < 6:
        dist.all_reduce(x := x + rank + step)
        step += 1
        if step % 2 == 0:
            dist.barrier()
            if rank == 0:
                lazyt.save((x, step), "new")
                os.replace("new", "checkpoint")
            dist.barrier()
        if turn == 0 and step == 3 and rank == 1:
            {failure}
    print(f"rank {rank} of {size}: turn {turn} {x.tolist()}")
main()
"""


@pytest.mark.parametrize(
    ("failure", "why"),
    [
        ("raise KeyError('no data')", "KeyError: 'no data', at "),
        ("os.kill(os.getpid(), 9)", "it was ended by SIGKILL"),
    ],
)
def test_ranks_are_started_again(tmp_path: Path, failure: str, why: str) -> None:
    x = 0.0
    for step in range(6):
        x = 2 * x + 2 * step + 1
    done = _launch(
        tmp_path, RESUMED.replace("{failure}", failure), "--max-restarts", "2", "--nnodes", "1:4"
    )
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        assert f"rank {rank} of 2: turn 1 {[x, x]}" in done.stdout
    assert done.stderr.count("has failed first") == 1
    assert "rank 1 has failed first (process " in done.stderr and why in done.stderr
    assert "starts all 2 ranks again (1 of 2)" in done.stderr


def test_the_launcher_names_the_first_failure(tmp_path: Path) -> None:
    """The others end because of it: they say so in a line, without a traceback."""
    program = """
    if rank == 0:
        raise KeyError("no data")
    dist.all_reduce(lazyt.ones(3))
    """
    done = _launch(tmp_path, program, "--max-restarts", "0")
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1, done.stderr
    assert "rank 0 has failed first (process " in done.stderr
    assert "lazyt: rank 1 ends: rank 0 has failed: KeyError: 'no data'" in done.stderr
    assert "again" not in done.stderr


def test_the_launcher_names_the_programs_line(tmp_path: Path) -> None:
    """Not those of the package below it; of an error of lazyt's as of one of the program's."""
    program = """
    def add(x):
        return x + lazyt.ones(4)
    if rank == 0:
        add(lazyt.ones(3))
    dist.barrier()
    """
    done = _launch(tmp_path, program)
    line = [t for t in done.stderr.splitlines() if "has failed first" in t]
    assert len(line) == 1 and line[0].endswith("program.py:9"), done.stderr


def test_no_rank_has_failed(tmp_path: Path) -> None:
    done = _launch(tmp_path, "if rank == 0:\n    dist.all_reduce(lazyt.ones(2, 3))\n")
    (line,) = [t for t in done.stderr.splitlines() if t.startswith("lazyt.distributed.run: ")]
    assert "the ranks cannot go on: rank 1 has ended, without an error, and rank 0 waits" in line
    assert "all_reduce float32[2, 3] for sum at " in line and line.endswith("program.py:8"), line
    assert done.returncode == 1


@pytest.mark.parametrize("text", ["import torch\n", "from torch import nn\n"])
def test_the_launcher_hints_at_its_option(tmp_path: Path, text: str) -> None:
    """The program imports torch, and there is none."""
    (tmp_path / "program.py").write_text(f"{text}print('there')\n")
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('no torch')\n")
    start = "import importlib.util as u, runpy, sys; find = u.find_spec\n"
    start += "u.find_spec = lambda name, *more: None if name == 'torch' else find(name, *more)\n"
    start += "sys.argv = ['run', *sys.argv[1:]]\n"
    start += "runpy.run_module('lazyt.distributed.run', run_name='__main__')\n"
    for options, wanted in ([], True), (["--lazyt"], False):
        done = subprocess.run(
            [sys.executable, "-c", start, *options, "program.py"], env=environment(),
            cwd=tmp_path, text=True, capture_output=True, timeout=200,
        )  # fmt: skip
        assert ("--lazyt has `import torch` give lazyt" in done.stderr) is wanted, done.stderr
        assert ("there" in done.stdout) is not wanted


def test_tracebacks_begin_with_the_program(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import torch\ntorch.ones(3) + torch.ones(4)\n")
    (tmp_path / "broken.py").write_text("def f(:\n")
    for name, number, first in (
        ("program.py", 1, 'program.py", line 2, in <module>'),
        ("broken.py", 0, 'File "broken.py", line 1'),  # as Python's, which has no frames to show
    ):
        done = subprocess.run(
            [sys.executable, "-m", "lazyt", "run", name], env=environment(), cwd=tmp_path,
            text=True, capture_output=True, timeout=200,
        )  # fmt: skip
        assert done.returncode == 1
        assert first in done.stderr.splitlines()[number], done.stderr


def test_kill_under_mpiexec(tmp_path: Path) -> None:
    """Ranks that ``mpiexec`` has started end, too, when one is killed."""
    program = """
    import signal, time
    x = lazyt.ones(2)
    dist.all_reduce(x)
    if rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    while True:
        dist.all_reduce(x)
    """
    (tmp_path / "program.py").write_text(BEGIN + textwrap.dedent(program))
    mpiexec = Path(sys.executable).parent / "mpiexec"
    done = subprocess.run(
        [str(mpiexec), "-n", "4", sys.executable, "program.py"], env=environment(), cwd=tmp_path,
        text=True, capture_output=True, timeout=200,
    )  # fmt: skip
    assert done.returncode != 0
