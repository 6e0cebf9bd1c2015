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

    python -m lazyt.distributed.run --nnodes 1:4 --nproc-per-node 8 --max-restarts 3 \\
        --rdzv-endpoint first-machine:29400 train.py

starts the program on as many machines as there are, up to four; the command is the same on all of
them. A machine that is lost, or one that comes later, is a reason to begin again with those that
are there. ``--nproc-per-node MIN:MAX`` starts as many ranks as the machine has cores, and begins
again with fewer when the system has ended some.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from lazyt.distributed.elastic import read_failure
from lazyt.errors import DistributedError
from lazyt.runtime.ranks.machines import Meeting, Round, Terms
from lazyt.runtime.ranks.messages import parse_address

__all__ = ["get_args_parser", "main", "run"]

#: How long the others may take to end when one has failed, in seconds.
_ENDING = 15.0
#: How long ranks may take to end when their machine is to begin again, in seconds.
_STOPPING = 5.0
#: Options of ``torchrun`` that mean nothing here.
_IGNORED = ("start-method", "log-dir", "redirects", "tee")


def get_args_parser() -> argparse.ArgumentParser:
    """What reads the options."""
    parser = argparse.ArgumentParser(
        prog="python -m lazyt.distributed.run", description="Starts a program on several ranks."
    )
    add = parser.add_argument
    add("--nproc-per-node", "--nproc_per_node", default="1",
        help="processes; auto: one each core; MIN:MAX: the same within bounds")  # fmt: skip
    add("--nnodes", type=_range, default=(1, 1), help="machines; MIN:MAX, as many as there are")
    add("--rdzv-endpoint", "--rdzv_endpoint", default="", help="host:port where machines meet")
    add("--rdzv-conf", "--rdzv_conf", default="", help="last_call_timeout=30,join_timeout=600")
    add("--rdzv-backend", "--rdzv_backend", default="c10d", help="c10d, or static")
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


def _range(text: str) -> tuple[int, int]:
    """``3``, or ``1:3``: how many at least and at most."""
    numbers = text.split(":")
    if len(numbers) > 2 or not all(number.isdecimal() and int(number) for number in numbers):
        raise argparse.ArgumentTypeError(f"a number, or MIN:MAX, not {text!r}")
    least, most = int(numbers[0]), int(numbers[-1])
    if least > most:
        raise argparse.ArgumentTypeError(f"MIN:MAX, not {text!r}")
    return least, most


def _command(options: argparse.Namespace) -> list[str]:
    if options.no_python:
        return [options.program, *options.arguments]
    start = [sys.executable, *(["-m", "lazyt", "run"] if options.lazyt else [])]
    if options.module:
        start.append("-m")
    return [*start, options.program, *options.arguments]


def _counts(text: str) -> tuple[int, int]:
    """How many processes there are to be on this machine: at least, and to begin with."""
    cores = os.cpu_count() or 1
    if text in ("auto", "cpu"):
        return cores, cores
    try:
        least, most = _range(text)
    except argparse.ArgumentTypeError:
        raise SystemExit(
            f"--nproc-per-node is a number of processes, MIN:MAX or auto, not {text!r}"
        ) from None
    return least, max(least, min(most, cores)) if least < most else most


class _Ended(NamedTuple):
    """How the ranks of this machine have ended.

    Attributes:
        status: of the rank that has failed first; 0 where none has.
        killed: how many the system or somebody else has ended.
        why: why they were ended, where another machine is the reason.
        text: which rank has failed first, and why.
    """

    status: int = 0
    killed: int = 0
    why: str = ""
    text: str = ""


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def run(options: argparse.Namespace) -> int:
    """Starts the processes and waits for them, again after a failure where that is wanted. Returns
    the status of the one that failed first."""
    least, count = _counts(options.nproc_per_node)
    address = _meeting_address(options)
    if options.nnodes[0] > 1 and not options.master_port and address is None:
        raise SystemExit(
            "several machines need --rdzv-endpoint, or --master-addr and --master-port"
        )
    if options.mpiexec:
        return _by_mpiexec(options, count)
    before = {number: signal.signal(number, _stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        if address is not None:
            return _run_together(options, least, count, address)
        return _run_alone(options, least, count)
    except KeyboardInterrupt:  # the terminal sends it to the ranks, too
        return 128 + signal.SIGINT
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _meeting_address(options: argparse.Namespace) -> tuple[str, int] | None:
    """Where machines meet whose number is not fixed, or that have no numbers; None for others."""
    least, most = options.nnodes
    if options.rdzv_backend not in ("c10d", "static"):
        raise SystemExit(f"--rdzv-backend is c10d or static, not {options.rdzv_backend!r}")
    if most == 1 or options.rdzv_backend == "static" or options.standalone:
        return None
    if options.rdzv_endpoint:
        try:
            return parse_address(options.rdzv_endpoint)
        except DistributedError as error:
            raise SystemExit(f"--rdzv-endpoint: {error}") from None
    if least < most and options.master_port:
        return options.master_addr, options.master_port
    return None


def _run_alone(options: argparse.Namespace, least: int, count: int) -> int:
    """On one machine, or on several whose numbers are given: the others do the same."""
    machines = options.nnodes[0]
    for attempt in range(options.max_restarts + 1):
        # The hub of the attempt before may still listen.
        port = options.master_port + attempt if options.master_port else _free_port()
        first, total = options.node_rank * count, count * machines
        place = Round(attempt, options.node_rank, machines, first, total, options.master_addr, port)
        ended = _attempt(options, count, place)
        if not ended.status or attempt == options.max_restarts:
            return ended.status
        count = max(least, count - ended.killed) if machines == 1 else count
        _say(f"starts all {count} ranks again ({attempt + 1} of {options.max_restarts})")
    return 0


def _run_together(
    options: argparse.Namespace, least: int, count: int, address: tuple[str, int]
) -> int:
    """With other machines, as many as there are."""
    status = 1
    try:
        meeting = Meeting(address, _terms(options))
    except DistributedError as error:
        raise SystemExit(f"no launcher listens at --rdzv-endpoint: {error}") from None
    try:
        while True:
            place = meeting.come(count, _free_port())
            if place is None:
                return 0
            if place.node == 0:
                _say(f"starts {place.total} ranks on {place.nodes} machines")
            ended = _attempt(options, count, place, meeting.news)
            if ended.status:
                status = ended.status
                count = max(least, count - ended.killed)
                meeting.fail(ended.text)
            elif not (why := ended.why or meeting.finish()):
                return 0
            else:
                _say(f"this machine's ranks begin again: {why}")
    except DistributedError as error:
        _say(f"the run ends: {error}")
        return status
    finally:
        meeting.close()


def _terms(options: argparse.Namespace) -> Terms:
    least, most = options.nnodes
    given = dict(part.partition("=")[::2] for part in options.rdzv_conf.split(",") if part)
    try:
        last_call = float(given.get("last_call_timeout", 30))
        patience = float(given.get("join_timeout", 600))
    except ValueError:
        raise SystemExit(f"--rdzv-conf has seconds, not {options.rdzv_conf!r}") from None
    return Terms(least, most, last_call, patience, options.max_restarts)


def _attempt(
    options: argparse.Namespace, count: int, place: Round, stop: Callable[[], str] = str
) -> _Ended:
    """Starts all ranks of this machine once, and waits until they have ended.

    Args:
        place: which ranks they are.
        stop: why they should end, once they should.
    """
    shared = os.environ | {
        "MASTER_ADDR": place.address,
        "MASTER_PORT": str(place.port),
        "WORLD_SIZE": str(place.total),
        "LOCAL_WORLD_SIZE": str(count),
        "GROUP_RANK": str(place.node),
        "GROUP_WORLD_SIZE": str(place.nodes),
        "ROLE_NAME": options.role,
        "ROLE_WORLD_SIZE": str(place.total),
        "TORCHELASTIC_RUN_ID": options.rdzv_id,
        "TORCHELASTIC_RESTART_COUNT": str(place.number),
        "TORCHELASTIC_MAX_RESTARTS": str(options.max_restarts),
        "TORCHELASTIC_USE_AGENT_STORE": "False",
    }
    if count > 1:
        shared.setdefault("LAZYT_THREADS", str(max(1, (os.cpu_count() or 1) // count)))
    first = place.first
    ranks: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory(prefix="lazyt-ranks-") as folder:
        errors = [Path(folder, f"{first + local}.json") for local in range(count)]
        try:
            for local, path in enumerate(errors):
                own = {"RANK": str(first + local), "LOCAL_RANK": str(local)}
                own |= {"ROLE_RANK": str(first + local), "TORCHELASTIC_ERROR_FILE": str(path)}
                ranks.append(subprocess.Popen(_command(options), env=shared | own))
            ended = _wait(ranks, options.monitor_interval, stop)
            why = stop()
            killed = sum((rank.poll() or 0) < 0 for rank in ranks)
        finally:
            _end(ranks)
        if why:
            return _Ended(why=why)
        found = _blame(ranks, ended, errors, first)
        if found.status == 1 and not any(path.exists() for path in errors):
            _hint(options)
        return found._replace(killed=killed)


def _hint(options: argparse.Namespace) -> None:
    """Names ``--lazyt`` where a program imports torch, and there is none."""
    if options.lazyt or options.no_python or find_spec("torch") is not None:
        return
    path = options.program
    if options.module:
        with contextlib.suppress(ImportError):
            spec = find_spec(options.program)
            path = (spec and spec.origin) or path
    try:
        text = Path(path).read_text(errors="replace")
    except OSError:
        return
    if re.search(r"^\s*(import|from)\s+torch\b", text, re.MULTILINE):
        _say("the program imports torch, which is not installed: --lazyt has `import torch` give "
             "lazyt")  # fmt: skip


def _end(ranks: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ends what still runs."""
    for rank in ranks:
        if rank.poll() is None:
            rank.kill()
        rank.wait()


def _blame(
    ranks: list[subprocess.Popen[bytes]], ended: list[int], errors: list[Path], first: int
) -> _Ended:
    """Names the rank that has failed first, once.

    Args:
        ended: which of this machine's ranks have failed, in the order in which that was seen.
        errors: where each has told why.
    """
    if not ended:
        return _Ended()
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
    if chosen in told and told[chosen].follows:  # of ranks that another machine has, or of none
        text = f"the ranks cannot go on: {why}"
    else:
        text = f"rank {first + chosen} has failed first (process {ranks[chosen].pid}): {why}"
    _say(text)
    return _Ended(status, text=text)


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
    return subprocess.call([found, "-n", str(count * options.nnodes[0]), *_command(options)])


def _wait(ranks: list[subprocess.Popen[bytes]], pause: float, stop: Callable[[], str]) -> list[int]:
    """Which have failed, the first one first; the others get some time to end by themselves. All
    are told to end when ``stop`` gives a reason."""
    ended: list[int] = []
    deadline = float("inf")
    is_stopped = False
    while True:
        running = False
        for local, rank in enumerate(ranks):
            running = running or rank.poll() is None
            if rank.poll() and local not in ended:
                ended.append(local)
                deadline = min(deadline, time.monotonic() + _ENDING)
        if not running or time.monotonic() > deadline:
            return ended
        if not is_stopped and not ended and stop():
            is_stopped, deadline = True, time.monotonic() + _STOPPING
            for rank in ranks:
                if rank.poll() is None:
                    rank.terminate()
        time.sleep(pause)


def main(args: Sequence[str] | None = None) -> None:
    """The command. Ends the process with the status of the first rank that fails."""
    status = run(get_args_parser().parse_args(args))
    raise SystemExit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    main()
