"""Programs on several ranks, each in a process, with a deadline."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import NamedTuple

from tests.children import python_path
from tests.deadlines import SECONDS

ROOT = Path(__file__).resolve().parents[2]
#: What programs begin with.
BEGIN = """
import os, sys
import lazyt
import lazyt.distributed as dist
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
"""


class Ended(NamedTuple):
    """How a rank has ended: exit status and what it printed, errors among it."""

    status: int
    text: str


def environment(**more: str) -> dict[str, str]:
    """Variables of a rank's process; it computes with one thread, and never in the background."""
    base = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "OMPI", "RANK"))}
    base |= {"PYTHONPATH": python_path(ROOT), "LAZYT_THREADS": "1", "OMP_NUM_THREADS": "1"}
    base |= {"LAZYT_PROGRESS": "0", "LAZYT_TIER": "0"}
    return base | more


def free_port() -> int:
    """A port where nobody listens."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def start(program: str, size: int, folder: Path, **more: str) -> list[subprocess.Popen[str]]:
    """Starts ``size`` processes, which find each other by the variables of ``env://``."""
    path = folder / "program.py"
    path.write_text(textwrap.dedent(program))
    port = str(free_port())
    found = []
    for rank in range(size):
        names = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size)}
        env = environment(**names, MASTER_ADDR="127.0.0.1", MASTER_PORT=port, **more)
        found.append(
            subprocess.Popen(
                [sys.executable, str(path)], env=env, cwd=folder, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )
        )  # fmt: skip
    return found


def finish(processes: list[subprocess.Popen[str]], limit: float = SECONDS * 0.8) -> list[Ended]:
    """Waits for processes; ends those that take longer, and says so by their status."""
    deadline = time.monotonic() + limit
    found = []
    for process in processes:
        try:
            text, _ = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGCONT)
            process.kill()
            text, _ = process.communicate()
            text += "\n(had to be ended)"
        found.append(Ended(process.returncode, text))
    return found


def run(program: str, size: int, folder: Path, **more: str) -> list[str]:
    """What each rank prints; fails where one does not end well."""
    ended = finish(start(BEGIN + textwrap.dedent(program), size, folder, **more))
    for rank, (status, text) in enumerate(ended):
        assert status == 0, f"rank {rank} of {size}: {status}\n{text}"
    return [text for _, text in ended]
