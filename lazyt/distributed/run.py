"""``python -m lazyt.distributed.run``: starts a program on several ranks, with ``mpiexec``.

    python -m lazyt.distributed.run --nproc-per-node 4 train.py --epochs 3
    python -m lazyt.distributed.run --nproc-per-node 2 -m package.module

Options are those of ``torchrun``, as far as they mean something here. On several machines, start
it on each with ``--nnodes``, ``--node-rank``, ``--master-addr`` and ``--master-port``; the
processes then find each other by these. When a rank ends with an error the others are told, and end
too; the status is that of the first.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

__all__ = ["get_args_parser", "main", "run"]

#: How long the others may take to end when one has failed, in seconds.
_ENDING = 15.0
#: Options of ``torchrun`` that mean nothing here.
_IGNORED = (
    "rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf", "max-restarts", "monitor-interval",
    "start-method", "role", "log-dir", "redirects", "tee",
)  # fmt: skip


def get_args_parser() -> argparse.ArgumentParser:
    """What reads the options."""
    parser = argparse.ArgumentParser(
        prog="python -m lazyt.distributed.run", description="Starts a program on several ranks."
    )
    add = parser.add_argument
    add("--nproc-per-node", "--nproc_per_node", default="1", help="processes; auto: one each core")
    add("--nnodes", type=int, default=1, help="machines")
    add("--node-rank", "--node_rank", type=int, default=0, help="the number of this machine")
    add("--master-addr", "--master_addr", default="127.0.0.1", help="where rank 0 listens")
    add("--master-port", "--master_port", type=int, default=0, help="its port; 0: a free one")
    add("--standalone", action="store_true", help="accepted: one machine is the default")
    for name in _IGNORED:
        add(f"--{name}", f"--{name.replace('-', '_')}", default=None, help="accepted")
    add("-m", "--module", action="store_true", help="the program is a module")
    add("--no-python", "--no_python", action="store_true", help="the program is no Python file")
    add("--lazyt", action="store_true", help="run it under `python -m lazyt run`: import torch")
    add("--mpiexec", action="store_true", help="let mpiexec start the processes")
    add("program", help="a Python file")
    add("arguments", nargs=argparse.REMAINDER, help="of the program")
    return parser


def _command(options: argparse.Namespace) -> list[str]:
    if options.no_python:
        return [options.program, *options.arguments]
    start = [sys.executable, *(["-m", "lazyt", "run"] if options.lazyt else [])]
    if options.module:
        start.append("-m")
    return [*start, options.program, *options.arguments]


def _count(text: str) -> int:
    if text in ("auto", "cpu"):
        return os.cpu_count() or 1
    if not text.isdecimal() or not int(text):
        raise SystemExit(f"--nproc-per-node is a number of processes or auto, not {text!r}")
    return int(text)


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def run(options: argparse.Namespace) -> int:
    """Starts the processes and waits for them. Returns the status of the first that fails."""
    count = _count(options.nproc_per_node)
    if options.nnodes > 1 and not options.master_port:
        raise SystemExit("several machines need --master-addr and --master-port")
    if options.mpiexec:
        return _by_mpiexec(options, count)
    port = options.master_port or _free_port()
    shared = os.environ | {
        "MASTER_ADDR": options.master_addr,
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(count * options.nnodes),
        "LOCAL_WORLD_SIZE": str(count),
        "GROUP_RANK": str(options.node_rank),
    }
    if count > 1:
        shared.setdefault("LAZYT_THREADS", str(max(1, (os.cpu_count() or 1) // count)))
    ranks: list[subprocess.Popen[bytes]] = []
    before = {number: signal.signal(number, _stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        for local in range(count):
            own = {"RANK": str(options.node_rank * count + local), "LOCAL_RANK": str(local)}
            ranks.append(subprocess.Popen(_command(options), env=shared | own))
        return _wait(ranks)
    except KeyboardInterrupt:  # the terminal sends it to the ranks, too
        return 128 + signal.SIGINT
    finally:
        for rank in ranks:
            if rank.poll() is None:
                rank.kill()
            rank.wait()
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(number: int, frame: Any) -> None:
    """A scheduler ends this process: the ranks end with it."""
    raise SystemExit(128 + number)


def _by_mpiexec(options: argparse.Namespace, count: int) -> int:
    """As ``mpiexec -n count``: on the machines that it knows from its own environment."""
    beside = os.path.join(os.path.dirname(sys.executable), "mpiexec")
    found = beside if os.access(beside, os.X_OK) else shutil.which("mpiexec")
    if found is None:
        raise SystemExit("there is no mpiexec: pip install mpich")
    return subprocess.call([found, "-n", str(count * options.nnodes), *_command(options)])


def _wait(ranks: list[subprocess.Popen[bytes]]) -> int:
    """The first status other than 0; the others get some time to end by themselves."""
    status, deadline = 0, None
    while any(rank.poll() is None for rank in ranks):
        for rank in ranks:
            if rank.poll() not in (None, 0) and not status:
                status, deadline = rank.returncode, time.monotonic() + _ENDING
        if deadline is not None and time.monotonic() > deadline:
            break
        time.sleep(0.02)
    return status or next((r.returncode for r in ranks if r.returncode), 0)


def main(args: Sequence[str] | None = None) -> None:
    """The command. Ends the process with the status of the first rank that fails."""
    status = run(get_args_parser().parse_args(args))
    raise SystemExit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    main()
