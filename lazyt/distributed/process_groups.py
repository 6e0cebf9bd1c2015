"""Groups of processes: how they are begun, named and asked (``torch.distributed``)."""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import sys
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlparse

from lazyt.distributed.elastic import is_launched, line_of, write_failure
from lazyt.distributed.stores import HubStore, Store
from lazyt.errors import ArgumentError, DeviceError, DistributedError, warn
from lazyt.handle.device import device as as_device
from lazyt.ops.parallel.collectives import Ranks
from lazyt.runtime.ranks import groups, hub, mpi, nccl
from lazyt.runtime.ranks.engine import Alone
from lazyt.runtime.ranks.groups import Group
from lazyt.runtime.ranks.hub_engine import HubCommunicator
from lazyt.runtime.ranks.member import Client, Member, RankFailure
from lazyt.runtime.ranks.messages import parse_address

__all__ = [
    "Backend", "GroupMember", "ProcessGroup", "check_moves", "default_group", "default_pg_timeout",
    "default_store", "destroy_process_group", "get_backend", "get_backend_config",
    "get_default_backend_for_device", "get_global_rank", "get_group_rank", "get_node_local_rank",
    "get_pg_count", "get_process_group_ranks", "get_rank", "get_world_size", "group",
    "group_named", "group_of", "init_process_group", "is_backend_available", "is_gloo_available",
    "is_initialized", "is_mpi_available", "is_nccl_available", "is_torchelastic_launched",
    "new_group", "new_subgroups", "new_subgroups_by_enumeration", "rank_not_in_group",
    "split_group",
]  # fmt: skip

#: How long a collective may take, as in PyTorch.
default_pg_timeout = timedelta(minutes=30)

_NOT_INITIALIZED = (
    "Default process group has not been initialized, please make sure to call init_process_group."
)
#: Host memory moves by MPI where it is installed, whatever a program calls it.
_BACKENDS = ("mpi", "gloo")


#: MPI promises tags up to 32,767: one half is for groups that all processes make.
_TAGS = 1 << 14


class ProcessGroup:
    """Some of the processes, this one among them.

    Attributes:
        ranks: their numbers among all processes, in the order of the group.
        group_name: its name.
        group_desc: what the program calls it.
    """

    def __init__(self, group: Group, backend: str, group_desc: str = "undefined") -> None:
        self._group = group
        self._backend = backend
        self.ranks = list(group.ranks)
        self.group_name = group.name
        self.group_desc = group_desc

    def rank(self) -> int:
        """This process's number in the group."""
        return self._group.rank

    def size(self) -> int:
        """How many processes the group has."""
        return self._group.size

    def name(self) -> str:
        """The backend's name."""
        return self._backend

    def moves(self, kind: str) -> bool:
        """Whether tensors on devices of a kind (``cpu``, ``cuda``) are moved by what is there for
        it; those on GPUs without go through host memory."""
        if ":" not in self._backend:
            return (self._backend == "nccl") == (kind == "cuda")
        by_kind = dict(part.split(":") for part in self._backend.split(","))
        return kind in by_kind and (kind == "cpu" or by_kind[kind] == "nccl")

    def set_timeout(self, timeout: timedelta) -> None:
        """How long a collective may take."""
        self._group.patience = timeout.total_seconds()

    def __repr__(self) -> str:
        return (
            f"ProcessGroup({self.group_name!r}, ranks={self.ranks}, backend={self._backend!r}, "
            f"rank={self.rank()})"
        )


class _World:
    """This process among all of them, from ``init_process_group`` on.

    Attributes:
        group: all processes.
        world: what moves bytes between them.
        member: the connection to the hub; None for a lone process.
        store: values for each other.
        generation: how often there has been one.
        at_once: the ranks have met with their GPUs when it began.
    """

    group: ProcessGroup | None = None
    world: Any = None
    member: Member | None = None
    store: Store | None = None
    generation = 0
    made = 0
    by_mpi = at_once = False
    others: list[ProcessGroup]


_now = _World()
_now.others = []
_changing = threading.RLock()
#: Called when all groups are destroyed, and before a group's communicator is divided.
on_destroy: list[Callable[[], None]] = []
before_dividing: list[Callable[[], None]] = []


class _AllRanks(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        """The group of all processes; None before there is one."""
        return _now.group


class GroupMember(metaclass=_AllRanks):
    """``GroupMember.WORLD`` is the group of all processes; who is no member of a group gets
    ``NON_GROUP_MEMBER`` for it."""

    NON_GROUP_MEMBER = -100


group = GroupMember


class Backend(str):
    """The name of what moves values between processes, in small letters."""

    UNDEFINED: ClassVar = "undefined"
    GLOO: ClassVar = "gloo"
    NCCL: ClassVar = "nccl"
    UCC: ClassVar = "ucc"
    MPI: ClassVar = "mpi"
    XCCL: ClassVar = "xccl"
    FAKE: ClassVar = "fake"
    backend_list: ClassVar = ["undefined", "gloo", "nccl", "xccl", "ucc", "mpi", "fake"]
    default_device_backend_map: ClassVar = {"cpu": "gloo", "cuda": "nccl"}

    __slots__ = ()

    def __new__(cls, name: str) -> Backend:
        return str.__new__(cls, name.lower())


def is_initialized() -> bool:
    """Whether ``init_process_group`` has been called, and the groups are not destroyed."""
    return _now.group is not None


def default_group() -> ProcessGroup:
    """The group of all processes. Raises ValueError before ``init_process_group``."""
    if _now.group is None:
        raise ValueError(_NOT_INITIALIZED)
    return _now.group


def group_of(group: Any) -> ProcessGroup | None:
    """A group that a program passes, the default one for None; None where this process is no
    member. Raises ValueError before ``init_process_group``, and TypeError for something else."""
    if group is None or group is GroupMember:
        return default_group()
    if group == GroupMember.NON_GROUP_MEMBER:
        default_group()
        return None
    if not isinstance(group, ProcessGroup):
        raise TypeError(f"Invalid group: expected a ProcessGroup, got {type(group).__name__}")
    return group


def group_told(group: Any) -> ProcessGroup:
    """A group as functional collectives are told of it: a ProcessGroup, None for all processes, its
    name, its ranks, a mesh of one axis, or a mesh and which axis.

    Raises ValueError where there is no such group, ArgumentError where this process is no member,
    TypeError for something else.
    """
    if isinstance(group, str):
        return group_named(group)
    if isinstance(group, tuple) and len(group) == 2 and hasattr(group[0], "get_group"):
        found: ProcessGroup = group[0].get_group(group[1])
        return found
    if hasattr(group, "get_group"):
        found = group.get_group()
        return found
    if isinstance(group, (list, tuple)):
        ranks = [int(rank) for rank in group]
        for known in (default_group(), *_now.others):
            if known.ranks == ranks:
                return known
        raise ValueError(f"there is no process group of the ranks {ranks}: make it by new_group")
    chosen = group_of(group)
    if chosen is None:
        raise ArgumentError("this process is no member of the group")
    return chosen


def group_named(name: str | None) -> ProcessGroup:
    """The group with a name, that of all processes for None. Raises ValueError where there is
    none."""
    default = default_group()
    found = default if name is None else known_group(name)
    if found is None:
        raise ValueError(f"there is no process group {name!r}")
    return found


def known_group(name: str) -> ProcessGroup | None:
    """The group with a name; None where the program has made none of that name."""
    for found in (_now.group, *_now.others):
        if found is not None and found.group_name == name:
            return found
    return None


def check_moves(group: ProcessGroup, place: str, what: str) -> None:
    """Raises DeviceError for values on a device (empty: the host) that a group cannot move."""
    if not place and not group.moves("cpu"):
        raise DeviceError(
            f"{what}: no backend of group {group.group_name!r} ({group.name()}) moves tensors on "
            "the CPU: move the tensor to a GPU, or call init_process_group('cpu:gloo,cuda:nccl')"
        )


def ranks_of(group: ProcessGroup) -> Ranks:
    """A group, as nodes of the graph refer to it."""
    return Ranks(group.group_name, group.rank(), group.size())


# ----------------------------------------------------------------------- beginning


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Lets this process find the others; afterwards collectives work.

    Processes that ``mpiexec`` or ``srun`` has started find each other through MPI. Others are told
    by arguments or by ``RANK``, ``WORLD_SIZE``, ``MASTER_ADDR`` and ``MASTER_PORT``: rank 0 listens
    at that address, and MPICH connects the processes. A lone process needs neither.

    Args:
        backend: ``mpi`` or ``gloo``: MPI moves host memory, and tensors of GPUs by way of it;
            ``nccl``: NCCL moves device memory, and none of the host; ``cpu:gloo,cuda:nccl``: both.
            None is the last where there are NCCL and a GPU, else ``mpi``.
        init_method: ``env://`` (the variables above), ``tcp://host:port`` or ``file://path``.
        timeout: how long a collective may take, 30 minutes by default.
        world_size, rank: how many processes, and the number of this one.
        store: through which rank 0 tells where it listens, instead of ``init_method``.
        device_id: this rank's GPU, to meet the others at once; by default at the first collective.
        group_name, pg_options: accepted, nothing depends on them.

    Raises ValueError for a second call and missing numbers, DistributedError where processes cannot
    be reached, mpi4py is missing for ``mpi``, or NCCL for ``nccl``.

    >>> import os
    >>> import lazyt.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> dist.get_rank(), dist.get_world_size()
    (0, 1)
    >>> dist.destroy_process_group()

    Source: PyTorch's function of this name.
    """
    with _changing:
        if _now.group is not None:
            raise ValueError("trying to initialize the default process group twice!")
        name = _backend(backend)
        patience = default_pg_timeout if timeout is None else timeout
        if not isinstance(patience, timedelta):
            raise TypeError("Expected timeout argument to be of type datetime.timedelta")
        seconds = patience.total_seconds()
        _now.generation += 1
        if mpi.was_launched() and rank < 0 and world_size < 0 and not _now.by_mpi:
            _begin_launched(seconds)
        else:
            _begin_told(init_method, world_size, rank, store, seconds, name)
        world = _now.world
        made = Group(f"world{_now.generation}", range(world.size), world, _now.member, seconds)
        _now.group = ProcessGroup(groups.add(made), name, group_name or "default_pg")
        _watch_errors()
        _connect(_now.group, device_id)


def _connect(found: ProcessGroup, device_id: Any) -> None:
    """Gives a group what moves device memory; has the ranks meet where a device is named."""
    if not found.moves("cuda") or (found.name() != "nccl" and not is_nccl_available()):
        return
    from lazyt.runtime.ranks.device_engine import NcclEngine

    found._group.devices = engine = NcclEngine(found._group)
    if device_id is not None:
        from lazyt.handle.cuda_devices import wanted_device

        engine.communicator(wanted_device(device_id))
        _now.at_once = _now.at_once or found is _now.group


def _backend(backend: str | None) -> str:
    if backend is None:
        host = "mpi" if mpi.is_installed() else "gloo"
        return f"cpu:{host},cuda:nccl" if _has_gpu() and is_nccl_available() else host
    if not isinstance(backend, str):
        raise ValueError(f"backend should be a string, not {type(backend).__name__}")
    parts = [part.rpartition(":") for part in backend.lower().split(",")]
    for place, _, name in parts:
        if name == "nccl" and place == "cpu":
            raise ValueError("backend 'nccl' moves device memory, not that of the host: use 'gloo'")
        if name not in (*_BACKENDS, "nccl"):
            names = ", ".join([*_BACKENDS, "nccl"])
            raise ValueError(f"Invalid backend: '{backend}'; there are {names}")
    if backend.lower() == "nccl":
        nccl.load()
    return backend.lower()


def _has_gpu() -> bool:
    from lazyt.runtime.cuda.device import device_count

    return device_count() > 0


def _begin_launched(seconds: float) -> None:
    """MPI's launcher knows the processes: the first of them tells the others where its hub is."""
    if _now.world is None:
        _now.world = mpi.MpiCommunicator.world()
    world = _now.world
    given = os.environ.get("LAZYT_HUB")
    if world.size == 1 and given is None:
        return
    if given is None:
        text = ""
        if world.rank == 0:
            host = _own_host() if _is_spread(world) else "127.0.0.1"
            there = host if host == "127.0.0.1" else ""
            text = f"{host}:{hub.start(world.size, there, 0, _stopped_after())}"
        else:
            _is_spread(world)
        given = _told(world, text)
    address = parse_address(given)
    _now.member = Member(address, world.rank, world.size, min(seconds, 300.0))
    _now.store = HubStore(address)


def _told(world: Any, text: str) -> str:
    """A short text of rank 0, on all ranks."""
    import numpy as np

    row = np.zeros(256, np.uint8)
    if world.rank == 0:
        encoded = text.encode()
        row[: len(encoded)] = np.frombuffer(encoded, np.uint8)
    transfer = world.broadcast(row, 0)
    while not transfer.test():
        time.sleep(0)
    return bytes(row).rstrip(b"\0").decode()


def _is_spread(world: Any) -> bool:
    """Whether the processes are on several machines."""
    import numpy as np

    mine = np.frombuffer(socket.gethostname().encode()[:64].ljust(64, b"\0"), np.uint8)
    every = np.empty(64 * world.size, np.uint8)
    transfer = world.all_gather(np.array(mine), every)
    while not transfer.test():
        time.sleep(0)
    return len({bytes(row) for row in every.reshape(world.size, 64)}) > 1


def _own_host() -> str:
    return socket.gethostbyname(socket.gethostname())


_BY_HUB = (
    "mpi4py is not installed, so host memory moves through the hub, a process beside rank 0, which "
    f"is slow: {mpi.INSTALL}"
)


def _begin_told(
    method: str | None, size: int, rank: int, store: Store | None, seconds: float, backend: str
) -> None:
    """Arguments or variables tell which process this is. Without MPI the hub moves host memory,
    unless the backend names it."""
    address, rank, size, path = _parse_method(method, rank, size, store is not None)
    if size == 1:
        _now.world, _now.member = Alone(), None
        return
    by_mpi = "mpi" in backend.replace(":", ",").split(",")
    if by_mpi and not mpi.is_installed():  # before a rank waits for one that ends for this reason
        raise DistributedError(mpi.MISSING)
    if isinstance(store, HubStore):
        path = ""
    patience = min(seconds, 300.0)
    if rank == 0:
        host, port = address if address is not None else (_own_host(), 0)
        there = "" if address is None else host
        address = (host, hub.start(size, there, port, _stopped_after()))
        _say_address(f"{address[0]}:{address[1]}", store, path)
    elif address is None:
        address = parse_address(_hear_address(store, path, patience))
    _now.member = Member(address, rank, size, patience)
    _now.store = HubStore(address)
    if not (mpi.is_installed() or by_mpi):
        name = f"world{_now.generation}"
        _now.world = HubCommunicator(Client(address, patience), name, rank, size)
        if backend != "nccl":
            warn(_BY_HUB)
        return
    if _now.world is None or _now.world.size == 1:
        mpi.join_by(address, rank, size)
        _now.by_mpi = True
        _now.world = mpi.MpiCommunicator.world()
    if (_now.world.rank, _now.world.size) != (rank, size):
        raise DistributedError(
            f"this is rank {rank} of {size}, but MPI says {_now.world.rank} of {_now.world.size}: "
            "only MPICH lets processes find each other that mpiexec has not started "
            "(pip install mpich)"
        )


def _parse_method(
    method: str | None, rank: int, size: int, has_store: bool
) -> tuple[tuple[str, int] | None, int, int, str]:
    """Where rank 0 listens (None if that is told by a store or a file), rank, size, and the file.
    Raises ValueError for what is missing."""
    url = urlparse(method or "env://")
    query = {key: values[-1] for key, values in parse_qs(url.query).items()}
    if url.scheme == "env" and not has_store:
        rank, size = _from_environment("RANK", rank), _from_environment("WORLD_SIZE", size)
        if size == 1:
            return None, rank, size, ""
        host = _variable("MASTER_ADDR")
        return (host, int(_variable("MASTER_PORT"))), rank, size, ""
    rank = int(query.get("rank", rank))
    size = int(query.get("world_size", size))
    if rank < 0 or size < 1 or rank >= size:
        raise ValueError(
            f"rank and world_size have to be given for {method or 'a store'}: rank {rank} of {size}"
        )
    if has_store:
        return None, rank, size, ""
    if url.scheme == "tcp":
        if url.port is None:
            raise ValueError("tcp:// rendezvous: port number missing")
        return (url.hostname or "localhost", url.port), rank, size, ""
    if url.scheme == "file":
        return None, rank, size, url.path
    raise ValueError(f"No rendezvous handler for {url.scheme}://")


def _variable(name: str) -> str:
    found = os.environ.get(name)
    if found is None:
        raise ValueError(
            "Error initializing torch.distributed using env:// rendezvous: environment variable "
            f"{name} expected, but not set"
        )
    return found


def _from_environment(name: str, given: int) -> int:
    return given if given >= 0 else int(_variable(name))


def _say_address(text: str, store: Store | None, path: str) -> None:
    if store is not None:
        store.set("lazyt-hub", text)
    elif path:
        with open(f"{path}.part", "w", encoding="ascii") as file:
            file.write(text)
        os.replace(f"{path}.part", path)


def _hear_address(store: Store | None, path: str, seconds: float) -> str:
    if store is not None:
        return store.get("lazyt-hub").decode()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(FileNotFoundError), open(path, encoding="ascii") as file:
            found = file.read()
            if found:
                return found
        time.sleep(0.02)
    raise DistributedError(f"rank 0 has not written its address to {path} for {seconds:.0f} s")


def _stopped_after() -> float:
    from lazyt.config import config

    return config.rank_timeout


# ----------------------------------------------------------------------- ending


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Ends a group, or all of them. Raises ValueError where there is none.

    Source: PyTorch's function of this name.
    """
    with _changing:
        found = group_of(group)
        if found is None:
            return
        if found is not _now.group:
            groups.forget(found.group_name)
            _now.others = [other for other in _now.others if other is not found]
            return
        for function in on_destroy:
            function()
        for other in _now.others:
            groups.forget(other.group_name)
        found._group.close_devices()
        groups.groups.pop(found.group_name, None)
        _leave()


def _leave() -> None:
    member = _now.member
    _now.others, _now.group, _now.store = [], None, None
    _now.at_once = False
    if member is not None:
        member.leave()


def _at_exit() -> None:
    """A rank that ends tells the others, and ends MPI with them; without them after a failure."""
    member = _now.member
    if member is None:
        return
    if member.failure is None and _now.group is not None:
        try:
            destroy_process_group()
        except RankFailure as error:
            print(f"lazyt: {error}", file=sys.stderr)
    if isinstance(_now.world, HubCommunicator):
        if member.failure is None:
            member.wait_until_over()
    elif member.failure is None and member.wait_until_over():
        mpi.finish()
    else:
        mpi.abandon()


_hooked: list[bool] = []


def _watch_errors() -> None:
    """Has the others told when this process ends by an exception."""
    if _hooked or _now.member is None:
        return
    _hooked.append(True)
    atexit.register(_at_exit)
    before = sys.excepthook

    def tell(kind: type[BaseException], error: BaseException, tb: TracebackType | None) -> None:
        write_failure(error)
        if isinstance(error, RankFailure) and is_launched():  # the launcher names the first one
            print(f"lazyt: rank {os.environ.get('RANK')} ends: {error}", file=sys.stderr)
        else:
            before(kind, error, tb)
        if _now.member is not None and not isinstance(error, RankFailure):
            where = line_of(tb)
            _now.member.fail(f"{kind.__name__}: {error}{where and f' at {where}'}")
        if _now.member is not None:
            sys.stderr.flush()
            sys.stdout.flush()
            mpi.abandon()
            os._exit(1)  # MPI would wait for ranks that do not come

    sys.excepthook = tell


# ----------------------------------------------------------------------- more groups


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
    """A group of some processes. All processes call this in the same order, members or not.

    Args:
        ranks: their numbers; all processes by default.
        timeout: how long a collective may take; that of the default group.
        backend: as in ``init_process_group``.
        use_local_synchronization: whether only members call this.
        group_desc: what to call it.
        sort_ranks: whether its ranks are numbered by their numbers among all.
        device_id: see ``init_process_group``.
        pg_options: accepted, nothing depends on them.

    Returns the group; ``GroupMember.NON_GROUP_MEMBER`` for who is none of its members.

    Raises ValueError for ranks that there are not, or twice.

    Source: PyTorch's function of this name.
    """
    with _changing:
        world = default_group()
        chosen = _chosen(ranks, sort_ranks, world.size())
        if not chosen:
            return GroupMember.NON_GROUP_MEMBER
        name, tag = _name_of(chosen, (group_desc or "") if use_local_synchronization else None)
        seconds = world._group.patience if timeout is None else timeout.total_seconds()
        named = _backend(backend or world.name())
        met = _now.at_once and not use_local_synchronization and "nccl" in named
        if met:
            for function in before_dividing:
                function()
        if world.rank() not in chosen:
            if met:  # all ranks of a communicator take part where it is divided
                world._group.divide_devices(None, 0)
            return GroupMember.NON_GROUP_MEMBER
        base = _now.world
        comm = Alone() if base.size == 1 else base.part(chosen, tag)
        made = groups.add(Group(name, chosen, comm, _now.member, seconds))
        found = ProcessGroup(made, named, group_desc or "undefined")
        _now.others.append(found)
        _connect(found, None if met else device_id)
        if met:
            world._group.divide_devices(made, chosen[0])
        return found


def _name_of(ranks: Sequence[int], local: str | None) -> tuple[str, int]:
    """The name of a new group and the tag by which its processes meet, the same on all of them.

    Args:
        local: what the program calls a group that only its members make, who have not made as many
            groups as other processes.
    """
    if local is None:
        _now.made += 1
        return f"world{_now.generation}.{_now.made}", _now.made % _TAGS
    name = f"world{_now.generation}:{','.join(map(str, ranks))}#{local}"
    while known_group(name) is not None:
        name += "+"
    return name, _TAGS + zlib.crc32(name.encode()) % _TAGS


def _chosen(ranks: Sequence[int] | None, is_sorted: bool, size: int) -> list[int]:
    """The ranks of a new group, of ``size``. Raises ValueError."""
    chosen = list(range(size)) if ranks is None else [int(r) for r in ranks]
    if is_sorted:
        chosen = sorted(chosen)
    if len(set(chosen)) != len(chosen):
        raise ValueError(f"ranks of a group are different ones, not {chosen}")
    if any(not 0 <= r < size for r in chosen):
        raise ValueError(
            "The new group's rank should be within the world_size set by init_process_group"
        )
    return chosen


def new_subgroups(
    group_size: int | None = None,
    group: ProcessGroup | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups of ``group_size`` neighbours each: this process's, and all of them.

    Raises ValueError where the size does not divide the number of processes.
    """
    world = default_group() if group is None else group
    size = world.size() if group_size is None else int(group_size)
    if size <= 0 or size > world.size():
        raise ValueError(f"The arg 'group_size' ({size}) must not exceed the world size")
    if world.size() % size:
        raise ValueError(f"The world size ({world.size()}) must be divisible by '{size}'")
    rows = [list(range(start, start + size)) for start in range(0, world.size(), size)]
    return new_subgroups_by_enumeration(rows, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """The groups of these ranks: this process's (None without), and all of them."""
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    mine, every = None, []
    for ranks in ranks_per_subgroup_list:
        made = new_group(ranks, timeout, backend, pg_options, group_desc=group_desc)
        every.append(made)
        if get_rank() in ranks:
            mine = made
    return mine, every


def split_group(
    parent_pg: ProcessGroup | None = None,
    split_ranks: Sequence[Sequence[int]] | None = None,
    timeout: timedelta | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
    backend: str | None = None,
) -> ProcessGroup | None:
    """Divides a group; all its processes call this alike.

    Args:
        parent_pg: the group; by default all processes.
        split_ranks: the parts, by numbers in the group; no process is in two of them.
        timeout, backend: as in ``new_group``; the group's by default.
        pg_options: accepted, nothing depends on it.
        group_desc: what to call the parts.

    Returns this process's part; None where it is in none.

    Raises ValueError for no parts, and for a process that is in two of them or not in the group.

    Source: PyTorch's function of this name, which divides groups of GPUs only.
    """
    parent = default_group() if parent_pg is None else parent_pg
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    chosen = [rank for part in split_ranks for rank in part]
    if len(set(chosen)) != len(chosen):
        raise ValueError("the split group cannot have duplicate ranks")
    if any(not 0 <= rank < parent.size() for rank in chosen):
        raise ValueError(f"the ranks of a group of {parent.size()} are not {sorted(chosen)}")
    seconds = timeout or timedelta(seconds=parent._group.patience)
    mine = None
    for part in split_ranks:
        ranks = [parent.ranks[rank] for rank in part]
        if default_group().rank() in ranks:
            # Only the group's processes are here, so that nobody else can be waited for.
            mine = new_group(
                ranks, seconds, backend or parent.name(), pg_options,
                use_local_synchronization=parent.size() < default_group().size(),
                group_desc=f"{parent.group_name}:split:{group_desc or ''}", sort_ranks=False,
            )  # fmt: skip
        elif parent.size() == default_group().size():
            new_group(ranks, seconds, backend or parent.name(), pg_options, sort_ranks=False)
    return mine


# ----------------------------------------------------------------------- questions


def default_store() -> Store:
    """Values for each other. Raises ValueError before ``init_process_group``, DistributedError for
    a lone process, which has nobody to store them for."""
    default_group()
    if _now.store is None:
        raise DistributedError("a lone process has no store: make one, as HashStore()")
    return _now.store


def get_rank(group: Any = None) -> int:
    """This process's number in a group; -1 where it is no member.

    Raises ValueError before ``init_process_group``.
    """
    found = group_of(group)
    return -1 if found is None else found.rank()


def get_world_size(group: Any = None) -> int:
    """How many processes a group has; -1 where this one is no member.

    Raises ValueError before ``init_process_group``.
    """
    found = group_of(group)
    return -1 if found is None else found.size()


def get_backend(group: Any = None) -> str:
    """The name of what moves a group's values."""
    found = group_of(group)
    if found is None:
        raise ValueError("Invalid process group specified")
    return found.name()


def get_backend_config(group: Any = None) -> str:
    """What moves a group's values, by kinds of devices: ``cpu:gloo,cuda:gloo``."""
    name = get_backend(group)
    if ":" in name:
        return name
    return f"cuda:{name}" if name == Backend.NCCL else f"cpu:{name},cuda:{name}"


def get_default_backend_for_device(device: Any) -> str:
    """What moves values on a device by default. Raises ValueError where nothing does."""
    kind = as_device(device).type
    if kind not in Backend.default_device_backend_map:
        raise ValueError(f"Default backend not registered for device : {device}")
    return Backend.default_device_backend_map[kind]


def rank_not_in_group(group: Any) -> bool:
    """Whether this process is no member."""
    return group_of(group) is None


def get_pg_count() -> int:
    """How many groups there are."""
    return 0 if _now.group is None else 1 + len(_now.others)


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """The number in a group of a process with a number among all. Raises ValueError where it is no
    member."""
    found = group_of(group)
    if found is None or global_rank not in found.ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return found.ranks.index(global_rank)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """The number among all of a process with a number in a group. Raises ValueError."""
    found = group_of(group)
    if found is None or not 0 <= group_rank < found.size():
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return found.ranks[group_rank]


def get_process_group_ranks(group: ProcessGroup | None) -> list[int]:
    """The numbers among all of a group's processes."""
    found = group_of(group)
    return [] if found is None else list(found.ranks)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """``LOCAL_RANK`` of the environment, else ``fallback_rank``; raises RuntimeError without."""
    names = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
    for name in names:
        if name in os.environ:
            return int(os.environ[name])
    if fallback_rank is not None:
        return fallback_rank
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow "
        "`get_node_local_rank` to work, assuming you are not running in a multi-device context."
    )


def is_mpi_available() -> bool:
    """Whether mpi4py is installed."""
    return mpi.is_installed()


def is_gloo_available() -> bool:
    """True: host memory moves by MPI where mpi4py is installed, else through the hub."""
    return True


def is_nccl_available() -> bool:
    """Whether NCCL is found: the package nvidia-nccl-cu12, or what ``LAZYT_NCCL`` names."""
    return nccl.find() is not None


def is_backend_available(backend: str) -> bool:
    """Whether values can be moved between ranks by what is called so."""
    name = backend.lower()
    known = {"nccl": is_nccl_available, "mpi": is_mpi_available, "gloo": is_gloo_available}
    return name in known and known[name]()


def is_torchelastic_launched() -> bool:
    """Whether a launcher has set ``TORCHELASTIC_RUN_ID``."""
    return "TORCHELASTIC_RUN_ID" in os.environ
