"""Ranks find each other however they are started."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
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
        dist.init_process_group("nccl", rank=0, world_size=1)
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
