"""``python -m lazyt.distributed.run``: starts a program on several ranks, with ``mpiexec``.

    python -m lazyt.distributed.run --nproc-per-node 4 train.py --epochs 3
    python -m lazyt.distributed.run --nproc-per-node 2 -m package.module

Options are those of ``torchrun``, as far as they mean something here. On several machines, start
it on each with ``--nnodes``, ``--node-rank``, ``--master-addr`` and ``--master-port``; the
processes then find each other by these. When a rank ends with an error the others are told, and end
too; the launcher names the one that failed first, and its status is that one's.

With ``--max-restarts N`` all ranks are started again then, up to N times, by the same command: a
program that begins by loading its last checkpoint goes on from it. ``TORCHELASTIC_RESTART_COUNT``
says how often that was.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lazyt.distributed.elastic import read_failure

__all__ = ["get_args_parser", "main", "run"]

#: How long the others may take to end when one has failed, in seconds.
_ENDING = 15.0
#: Options of ``torchrun`` that mean nothing here.
_IGNORED = (
    "rdzv-backend", "rdzv-endpoint", "rdzv-conf", "start-method", "log-dir", "redirects", "tee",
)  # fmt: skip


def get_args_parser() -> argparse.ArgumentParser:
    """What reads the options."""
    parser = argparse.ArgumentParser(
        prog="python -m lazyt.distributed.run", description="Starts a program on several ranks."
    )
    add = parser.add_argument
    add("--nproc-per-node", "--nproc_per_node", default="1", help="processes; auto: one each core")
    add("--nnodes", type=_machines, default=1, help="machines; of MIN:MAX, as many as MIN")
    add("--max-restarts", "--max_restarts", type=int, default=0, help="how often to start again")
    add("--monitor-interval", "--monitor_interval", type=float, default=0.02, help="seconds")
    add("--rdzv-id", "--rdzv_id", default="none", help="a name for the run")
    add("--role", default="default", help="a name for the ranks")
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


def _machines(text: str) -> int:
    """``3``, or ``1:3``: the number of machines does not change while a program runs."""
    numbers = text.split(":")
    if len(numbers) > 2 or not all(number.isdecimal() and int(number) for number in numbers):
        raise argparse.ArgumentTypeError(f"a number of machines, or MIN:MAX, not {text!r}")
    return int(numbers[0])


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
    """Starts the processes and waits for them, again after a failure where that is wanted. Returns
    the status of the one that failed first."""
    count = _count(options.nproc_per_node)
    if options.nnodes > 1 and not options.master_port:
        raise SystemExit("several machines need --master-addr and --master-port")
    if options.mpiexec:
        return _by_mpiexec(options, count)
    before = {number: signal.signal(number, _stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        for attempt in range(options.max_restarts + 1):
            status = _attempt(options, count, attempt)
            if not status or attempt == options.max_restarts:
                return status
            _say(f"starts all {count} ranks again ({attempt + 1} of {options.max_restarts})")
        return 0
    except KeyboardInterrupt:  # the terminal sends it to the ranks, too
        return 128 + signal.SIGINT
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _attempt(options: argparse.Namespace, count: int, attempt: int) -> int:
    """Starts all ranks of this machine once; the status of the one that failed first."""
    # The hub of the attempt before may still listen.
    port = options.master_port + attempt if options.master_port else _free_port()
    total = count * options.nnodes
    shared = os.environ | {
        "MASTER_ADDR": options.master_addr,
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(total),
        "LOCAL_WORLD_SIZE": str(count),
        "GROUP_RANK": str(options.node_rank),
        "GROUP_WORLD_SIZE": str(options.nnodes),
        "ROLE_NAME": options.role,
        "ROLE_WORLD_SIZE": str(total),
        "TORCHELASTIC_RUN_ID": options.rdzv_id,
        "TORCHELASTIC_RESTART_COUNT": str(attempt),
        "TORCHELASTIC_MAX_RESTARTS": str(options.max_restarts),
        "TORCHELASTIC_USE_AGENT_STORE": "False",
    }
    if count > 1:
        shared.setdefault("LAZYT_THREADS", str(max(1, (os.cpu_count() or 1) // count)))
    first = options.node_rank * count
    ranks: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory(prefix="lazyt-ranks-") as folder:
        errors = [Path(folder, f"{first + local}.json") for local in range(count)]
        try:
            for local, path in enumerate(errors):
                own = {"RANK": str(first + local), "LOCAL_RANK": str(local)}
                own |= {"ROLE_RANK": str(first + local), "TORCHELASTIC_ERROR_FILE": str(path)}
                ranks.append(subprocess.Popen(_command(options), env=shared | own))
            ended = _wait(ranks, options.monitor_interval)
        finally:
            for rank in ranks:
                if rank.poll() is None:
                    rank.kill()
                rank.wait()
        return _blame(ranks, ended, errors, first)


def _blame(
    ranks: list[subprocess.Popen[bytes]], ended: list[int], errors: list[Path], first: int
) -> int:
    """Names the rank that has failed first, once; its status.

    Args:
        ended: which of this machine's ranks have failed, in the order in which that was seen.
        errors: where each has told why.
    """
    if not ended:
        return 0
    told = {local: failure for local in ended if (failure := read_failure(errors[local]))}
    causes = {local: failure for local, failure in told.items() if not failure.follows}
    silent = [local for local in ended if local not in told]
    if silent and silent[0] == ended[0]:
        chosen = silent[0]  # a signal has ended it, say
    elif causes:
        chosen = min(causes, key=lambda local: causes[local].time)
    else:
        chosen = (silent or ended)[0]
    status = ranks[chosen].returncode
    why = told[chosen].text if chosen in told else _ending(status)
    _say(f"rank {first + chosen} has failed first (process {ranks[chosen].pid}): {why}")
    return status


def _ending(status: int) -> str:
    if status >= 0:
        return f"its status is {status}"
    try:
        return f"it was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"it was ended by signal {-status}"


def _say(text: str) -> None:
    print(f"lazyt.distributed.run: {text}", file=sys.stderr, flush=True)


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


def _wait(ranks: list[subprocess.Popen[bytes]], pause: float) -> list[int]:
    """Which have failed, the first one first; the others get some time to end by themselves."""
    ended: list[int] = []
    deadline = float("inf")
    while True:
        running = False
        for local, rank in enumerate(ranks):
            running = running or rank.poll() is None
            if rank.poll() and local not in ended:
                ended.append(local)
                deadline = min(deadline, time.monotonic() + _ENDING)
        if not running or time.monotonic() > deadline:
            return ended
        time.sleep(pause)


def main(args: Sequence[str] | None = None) -> None:
    """The command. Ends the process with the status of the first rank that fails."""
    status = run(get_args_parser().parse_args(args))
    raise SystemExit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    main()
