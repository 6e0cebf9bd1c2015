"""The engine on MPI, through mpi4py: everything between host memories.

Only bytes are moved. Reductions are lazyt's own sums over what was gathered, so that their order is
not the engine's; which algorithms MPI chooses cannot be seen in any result. All operations are
nonblocking, and whoever waits for one moves all of them on. Large ones to other machines are moved
on by a thread besides (``progress.py``).
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Sequence
from typing import Any

from lazyt.errors import DistributedError
from lazyt.runtime.cpython import forks
from lazyt.runtime.ranks import progress
from lazyt.runtime.ranks.engine import Bytes, TooLong, Transfer

#: What to install.
INSTALL = "pip install mpi4py mpich"
MISSING = f"several processes need mpi4py and an MPI library: {INSTALL}"
#: Variables by which launchers of MPI programs tell a process that it is one of several.
_LAUNCHED = (
    "PMI_FD", "PMI_PORT", "PMI_SIZE", "PMIX_NAMESPACE", "OMPI_COMM_WORLD_SIZE", "PMI2_SIZE",
)  # fmt: skip

#: Variables by which launchers tell how many processes there are on this machine.
_HERE = ("LOCAL_WORLD_SIZE", "MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE")

_lock = forks.guarded(threading.RLock())


def is_installed() -> bool:
    """Whether mpi4py can be imported; it is not."""
    from importlib.util import find_spec

    return find_spec("mpi4py") is not None


def was_launched() -> bool:
    """Whether ``mpiexec``, ``srun`` or the like has started this process as one of several."""
    return any(name in os.environ for name in _LAUNCHED)


def join_by(address: tuple[str, int], rank: int, size: int) -> None:
    """Lets MPI find the other processes through the hub: to be called before MPI is loaded."""
    os.environ |= {
        "PMI_PORT": f"{address[0]}:{address[1]}",
        "PMI_ID": str(rank),
        "PMI_RANK": str(rank),
        "PMI_SIZE": str(size),
    }


def load() -> Any:
    """``mpi4py.MPI``. Raises DistributedError with what to install."""
    if "mpi4py.MPI" not in sys.modules:
        try:
            import mpi4py
        except ImportError:
            raise DistributedError(MISSING) from None
        mpi4py.rc.finalize = False  # ``finish`` does, unless a rank has failed
        os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise DistributedError(
            f"mpi4py finds no MPI library ({error}): pip install mpich"
        ) from None
    return MPI


def finish() -> None:
    """Ends MPI, together with the other ranks."""
    progress.mover.stop()
    MPI = load()
    if MPI.Is_initialized() and not MPI.Is_finalized():
        MPI.Finalize()


def abandon() -> None:
    """Lets go of MPI without the other ranks, of which one has failed: its shared memory would stay
    on this machine otherwise."""
    progress.mover.stop()
    with contextlib.suppress(OSError), open("/proc/self/maps", encoding="utf-8") as file:
        for line in file:
            path = line.split(maxsplit=5)[-1].strip()
            if path.startswith("/dev/shm/mpich_shm_"):
                with contextlib.suppress(OSError):
                    os.unlink(path)


def _count_here(comm: Any) -> int:
    """How many ranks of all are on this machine; all ranks call this."""
    told = next((os.environ[name] for name in _HERE if name in os.environ), "")
    if told.isdecimal():
        return int(told)
    with _lock:
        here = comm.Split_type(load().COMM_TYPE_SHARED)
        count = int(here.Get_size())
        here.Free()
    return count


class _Moving:
    """Requests of MPI that are under way, with the memory that they use."""

    __slots__ = ("_error", "_memory", "_mpi", "_requests", "count", "source")

    def __init__(self, mpi: Any, requests: list[Any], *memory: Bytes) -> None:
        self._mpi = mpi
        self._requests = requests
        self._memory = memory
        self._error: DistributedError | None = None
        self.source = self.count = -1

    def test(self) -> bool:
        """Whether it is complete."""
        if self._error is not None:
            raise self._error
        if not self._requests:
            return True
        progress.mover.looks += 1
        with _lock:
            return not self._requests or self._test()

    def _test(self) -> bool:
        try:
            status = self._mpi.Status() if len(self._requests) == 1 else None
            if status is not None:
                done = self._requests[0].Test(status)
                if done:
                    self.source = status.Get_source()
                    self.count = status.Get_count(self._mpi.BYTE)
            else:
                done = self._mpi.Request.Testall(self._requests)
        except self._mpi.Exception as error:
            if error.Get_error_class() == self._mpi.ERR_TRUNCATE:
                self._error = TooLong()
            else:
                self._error = DistributedError(f"MPI: {error}")
            self._requests, self._memory = [], ()
            raise self._error from None
        if done:
            self._requests, self._memory = [], ()
        return bool(done)

    def join(self) -> None:
        """Nothing: the host has waited."""

    def is_done(self) -> bool:
        """``test()``."""
        return self.test()

    def finish(self) -> None:
        """Nothing: the host has waited."""


class MpiCommunicator:
    """A communicator of MPI.

    Args:
        comm: mpi4py's, which this object owns.
        is_far: whether some of its ranks may be on other machines, and a thread may move on what is
            under way to them.
    """

    def __init__(self, comm: Any, is_far: bool) -> None:
        self._mpi = load()
        self._comm = comm
        self._is_far = is_far
        with _lock:
            self.rank, self.size = comm.Get_rank(), comm.Get_size()

    @staticmethod
    def world() -> MpiCommunicator:
        """All processes."""
        MPI = load()
        with _lock:
            comm = MPI.COMM_WORLD.Dup()
            comm.Set_errhandler(MPI.ERRORS_RETURN)
            is_far = _count_here(comm) < comm.Get_size()
            # Calls of several threads are allowed, one at a time.
            return MpiCommunicator(comm, is_far and MPI.Query_thread() >= MPI.THREAD_SERIALIZED)

    def part(self, ranks: Sequence[int], tag: int) -> MpiCommunicator:
        """The group of some ranks, all of which call this and nobody else."""
        with _lock:
            group = self._comm.Get_group().Incl(list(ranks))
            return MpiCommunicator(self._comm.Create_group(group, tag), self._is_far)

    def _started(self, function: Any, *arguments: Any, memory: tuple[Bytes, ...]) -> Transfer:
        with _lock:
            try:
                request = function(*arguments)
            except self._mpi.Exception as error:
                raise DistributedError(f"MPI: {error}") from None
        moving = _Moving(self._mpi, [request], *memory)
        if self._is_far and sum(some.nbytes for some in memory) >= progress.LEAST:
            progress.mover.watch(moving)
        return moving

    def _bytes(self, memory: Bytes) -> list[Any]:
        return [memory, self._mpi.BYTE]

    def all_gather(self, source: Bytes, target: Bytes) -> Transfer:
        """See ``Communicator``."""
        both = self._bytes(source), self._bytes(target)
        return self._started(self._comm.Iallgather, *both, memory=(source, target))

    def all_to_all(
        self, source: Bytes, sent: Sequence[int], target: Bytes, received: Sequence[int]
    ) -> Transfer:
        """See ``Communicator``."""
        byte = self._mpi.BYTE
        both = [source, list(sent), byte], [target, list(received), byte]
        return self._started(self._comm.Ialltoallv, *both, memory=(source, target))

    def broadcast(self, memory: Bytes, root: int) -> Transfer:
        """See ``Communicator``."""
        return self._started(self._comm.Ibcast, self._bytes(memory), root, memory=(memory,))

    def send(self, memory: Bytes, target: int, tag: int) -> Transfer:
        """See ``Communicator``."""
        return self._started(self._comm.Isend, self._bytes(memory), target, tag, memory=(memory,))

    def receive(self, memory: Bytes, source: int, tag: int) -> Transfer:
        """See ``Communicator``."""
        source = self._mpi.ANY_SOURCE if source < 0 else source
        return self._started(self._comm.Irecv, self._bytes(memory), source, tag, memory=(memory,))

    def barrier(self) -> Transfer:
        """See ``Communicator``."""
        return self._started(self._comm.Ibarrier, memory=())

    def move(self) -> None:
        """See ``Communicator``."""
        with _lock:
            self._comm.Iprobe()

    def twin(self) -> MpiCommunicator:
        """See ``Communicator``."""
        with _lock:
            return MpiCommunicator(self._comm.Dup(), self._is_far)

    def close(self) -> None:
        """See ``Communicator``."""
        with _lock:
            if not self._mpi.Is_finalized():
                self._comm.Free()
