"""The engine on NCCL: values between the memories of GPUs, beside the one on MPI.

As on the host, only bytes are moved, so sums over ranks have lazyt's own order and its bits. What a
GPU sends and receives goes to one stream, in the order in which the program starts it, whatever
groups it belongs to: two GPUs never wait for each other's communicators in different orders.
Kernels wait for a transfer by its mark, on the GPU; the host does not. So a thread looks after what
is under way: when a rank fails, or a transfer takes too long, it aborts the communicators, which
ends what the GPU waits for, and the device raises the error from then on.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from lazyt.errors import DeviceError, DistributedError
from lazyt.runtime.cpython import forks
from lazyt.runtime.cuda.device import CudaDevice
from lazyt.runtime.cuda.driver import standing_for
from lazyt.runtime.cuda.memory import DeviceBuffer
from lazyt.runtime.memory import Buffer
from lazyt.runtime.ranks import nccl
from lazyt.runtime.ranks.member import Client, RankFailure

if TYPE_CHECKING:
    from lazyt.runtime.ranks.groups import Collective, Group

#: Seconds between two looks at what is under way, and at a call that is not complete yet.
_LOOK, _POLL = 0.02, 0.0005
#: Seconds that the end of a communicator may take before it is aborted.
_ENDING = 10.0
#: Seconds in which the hub tells of a failure that NCCL has noticed first.
_REASON = 1.0


class Message(NamedTuple):
    """What goes to another rank, or comes from one.

    Attributes:
        is_sent: whether this rank sends it.
        peer: the other rank's number in the group.
        address, nbytes: its memory on this rank's device.
    """

    is_sent: bool
    peer: int
    address: int
    nbytes: int


class Subject(NamedTuple):
    """What a transfer is, for errors.

    Attributes:
        text, line: what the program calls, and where.
        number, lane: which collective of the group it is; number -1 for none.
    """

    text: str = "a transfer"
    line: str = ""
    number: int = -1
    lane: int = 0

    def __str__(self) -> str:
        return f"{self.text} at {self.line}" if self.line else self.text


class DeviceTransfer:
    """A transfer in the stream of a device.

    Attributes:
        comm, subject: what moves it, and what it is.
        mark: behind it in the stream; None when it is over.
        buffers: the memory that it uses, until it is over or somebody has waited for it.
    """

    __slots__ = ("_begin", "_traffic", "buffers", "comm", "mark", "subject")

    def __init__(
        self, traffic: Traffic, comm: Communicator, subject: Subject, mark: Any,
        buffers: Sequence[DeviceBuffer],
    ) -> None:  # fmt: skip
        self._traffic, self.mark, self.buffers = traffic, mark, tuple(buffers)
        self.comm, self.subject = comm, subject
        self._begin = time.monotonic()

    def test(self) -> bool:
        """True: whoever needs the values waits on the device. Raises the error of a failure."""
        self._traffic.device.check()
        return True

    def join(self) -> None:
        """What follows in the current stream comes behind the transfer."""
        device = self._traffic.device
        with self._traffic.lock:
            if self.mark is not None:
                device.call(device.driver.stream_waits, device.stream, self.mark)
            for buffer in self.buffers:
                buffer.stream = device.stream
            self.buffers = ()  # whoever gets the memory next comes behind the transfer, too

    def is_done(self) -> bool:
        """Whether the device has come to its end."""
        return self.mark is None or self._traffic.settle(self)

    def finish(self) -> None:
        """Waits until the device has come to its end. Raises the error of a failure."""
        device = self._traffic.device
        if not self.is_done():  # not for the mark, which ends when another thread has seen it
            device.call(device.driver.wait_stream, self._traffic.stream)
            device.check()

    def seconds(self) -> float:
        """Since it was started."""
        return time.monotonic() - self._begin


class Part(NamedTuple):
    """One of several messages that are moved at once.

    Attributes:
        whole: all of them.
        source: of one that is received, the other rank's number in the group.
    """

    whole: DeviceTransfer
    source: int

    def test(self) -> bool:
        """See ``DeviceTransfer``."""
        return self.whole.test()

    def join(self) -> None:
        """See ``DeviceTransfer``."""
        self.whole.join()

    def is_done(self) -> bool:
        """See ``DeviceTransfer``."""
        return self.whole.is_done()

    def finish(self) -> None:
        """See ``DeviceTransfer``."""
        self.whole.finish()


class Traffic:
    """What a device sends and receives.

    Args:
        device: the device.

    Attributes:
        stream: where all of it goes.
        lock: held while something is started, and while what is under way is looked at.
    """

    def __init__(self, device: CudaDevice) -> None:
        self.device = device
        self.stream = device.call(device.driver.new_stream, 0)
        device.branched = True
        self.lock = forks.renewed(threading.RLock())
        self._comms: list[Communicator] = []
        self._under_way: deque[DeviceTransfer] = deque()
        self._work = threading.Condition(self.lock)
        self._watcher: threading.Thread | None = None

    @staticmethod
    def of(device: CudaDevice) -> Traffic:
        """That of a device."""
        with _making:
            found = device.traffic
            if found is None:
                found = device.traffic = Traffic(device)
            assert isinstance(found, Traffic)
            return found

    def add(self, comm: Communicator) -> None:
        """A communicator is to be aborted with the others."""
        self._comms.append(comm)

    def has(self, comm: Communicator) -> bool:
        """Whether the ranks of a communicator have met."""
        return comm in self._comms

    def remove(self, comm: Communicator) -> None:
        """A communicator is gone."""
        if comm in self._comms:
            self._comms.remove(comm)

    def run(
        self, comm: Communicator, subject: Subject, buffers: Sequence[DeviceBuffer],
        work: Callable[[], None],
    ) -> DeviceTransfer:  # fmt: skip
        """Has ``work`` put calls of NCCL into the stream, behind what the device has done with the
        buffers so far. Raises NcclError and RankFailure."""
        device, driver = self.device, self.device.driver
        with self.lock:
            device.check()
            while self._under_way and self.settle(self._under_way[0]):
                pass  # its memory is free from here on
            # One object is one stream, and all of them live for as long as this loop.
            for stream in {id(s): s for s in self._streams(buffers)}.values():
                device.order(stream, self.stream)
            device.call(driver.activate)
            try:
                work()
            except nccl.NcclError as error:
                raise self.blame(comm, subject, error) from None
            mark = device.call(driver.new_event, False)
            device.call(driver.record_event, mark, self.stream)
            made = DeviceTransfer(self, comm, subject, mark, buffers)
            self._under_way.append(made)
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._watch, daemon=True, name="lazyt-nccl")
                self._watcher.start()
            self._work.notify_all()
        return made

    def _streams(self, buffers: Sequence[DeviceBuffer]) -> list[Any]:
        return [self.device.stream, *(standing_for(buffer.stream) for buffer in buffers)]

    def settle(self, transfer: DeviceTransfer) -> bool:
        """Whether a transfer is over; if so, its memory is let go."""
        with self.lock:
            mark = transfer.mark
            if mark is None:
                return True
            device = self.device
            if not device.call(device.driver.event_done, mark):
                return False
            transfer.mark, transfer.buffers = None, ()
            device.call(device.driver.end_event, mark)
            if transfer in self._under_way:
                self._under_way.remove(transfer)
            return True

    def blame(self, comm: Communicator, subject: Subject, error: Exception) -> Exception:
        """The error with what this rank was doing; what another rank did comes first."""
        text = f"{error} (rank {comm.rank} of group {comm.group.name!r}, {subject})"
        member = comm.group.member
        failed = member.reason(_REASON) if member is not None and _is_remote(error) else None
        return failed or nccl.NcclError(text, getattr(error, "code", 0))

    # ------------------------------------------------------------------ failures

    def _watch(self) -> None:
        """Looks after what is under way, for ever."""
        while True:
            with self.lock:
                while not self._under_way:
                    self._work.wait()
                first = self._under_way[0]
            try:
                while self.settle(first):
                    if not self._under_way:
                        break
                    first = self._under_way[0]
                else:
                    error = self._fault(first)
                    if error is not None:
                        self.fail(error)
                        return
            except (DeviceError, IndexError):
                if self.device.lost:
                    return
            time.sleep(_LOOK)

    def _fault(self, transfer: DeviceTransfer) -> DistributedError | None:
        """What is wrong with the oldest transfer that is under way; None where nothing is."""
        comm = transfer.comm
        group = comm.group
        if group.member is not None and group.member.failure is not None:
            return RankFailure(group.member.failure.rank, str(group.member.failure))
        try:
            comm.check()
        except nccl.NcclError as error:
            found = self.blame(comm, transfer.subject, error)
            return found if isinstance(found, DistributedError) else None
        seconds = transfer.seconds()
        return late(comm, transfer.subject, seconds) if seconds > group.patience else None

    def fail(self, error: DistributedError) -> None:
        """Nothing more is moved: what the device waits for ends, and it raises the error."""
        with self.lock:
            self.device.fail(error)
            for comm in list(self._comms):
                comm.abort()
            self._under_way.clear()


def late(comm: Communicator, subject: Subject, seconds: float) -> DistributedError:
    """The error of what takes too long, with the ranks that have not come to it."""
    group = comm.group
    why = group.late(subject.number, seconds, subject.lane)
    return DistributedError(f"rank {comm.rank}: {subject}: {why}")


def _is_remote(error: Exception) -> bool:
    return getattr(error, "code", 0) in (2, 6, 8)  # system, remote, timeout


_making = threading.Lock()


class Communicator:
    """A communicator of NCCL: some ranks, each with one device.

    Args:
        engine: the group's.
        device: this rank's.
        rank, size: its number among them, and how many there are.

    Attributes:
        group: whose values it moves.
    """

    def __init__(self, engine: NcclEngine, device: CudaDevice, rank: int, size: int) -> None:
        self.group, self.rank, self.size = engine.group, rank, size
        self._library = engine.library
        self.traffic = Traffic.of(device)
        self._handle = ctypes.c_void_p()

    @property
    def device(self) -> CudaDevice:
        """This rank's device."""
        return self.traffic.device

    def begin(self, key: bytes) -> None:
        """Meets the other ranks, which all have the same ``key``. Raises DistributedError."""
        subject = Subject(f"a communicator of {self.size} ranks of group {self.group.name!r}")
        made, config = nccl.UniqueId(), nccl.Config.nonblocking()
        ctypes.memmove(ctypes.byref(made), key, ctypes.sizeof(made))
        self._made(
            subject, "ncclCommInitRankConfig", ctypes.byref(self._handle), self.size, made,
            self.rank, ctypes.byref(config),
        )  # fmt: skip

    def split(self, parent: Communicator, color: int) -> None:
        """Becomes a part of another communicator, all of whose ranks come here; those with one
        color are together."""
        subject = Subject(f"a part of the communicator of group {parent.group.name!r}")
        config = nccl.Config.nonblocking()
        with parent.traffic.lock:
            self.device.call(self.device.driver.activate)
            self._call(
                subject, "ncclCommSplit", parent._handle, color, self.rank,
                ctypes.byref(self._handle), ctypes.byref(config), on=parent,
            )  # fmt: skip
            parent.complete(subject, "ncclCommSplit")
            if color != nccl.NO_COLOR:
                self.complete(subject, "ncclCommSplit")
                self.traffic.add(self)

    def _made(self, subject: Subject, name: str, *arguments: Any) -> None:
        with self.traffic.lock:
            self.device.call(self.device.driver.activate)
            self._call(subject, name, *arguments)
            self.complete(subject, name)
            self.traffic.add(self)

    def _call(
        self, subject: Subject, name: str, *arguments: Any, on: Communicator | None = None
    ) -> None:
        try:
            self._library.call(name, *arguments, comm=(on or self)._handle)
        except nccl.NcclError as error:
            raise self.traffic.blame(self, subject, error) from None

    def complete(self, subject: Subject, name: str) -> None:
        """Waits until a call that was begun is made. Raises DistributedError after the group's
        patience, RankFailure where a rank fails meanwhile."""
        begin = time.monotonic()
        while True:
            state = ctypes.c_int()
            self._library.call(
                "ncclCommGetAsyncError", self._handle, ctypes.byref(state), comm=self._handle
            )
            if state.value == nccl.SUCCESS:
                return
            error: Exception | None = None
            member, seconds = self.group.member, time.monotonic() - begin
            if state.value != nccl.IN_PROGRESS:
                wrong = self._library.error(name, state.value, self._handle)
                error = self.traffic.blame(self, subject, wrong)
            elif member is not None and member.failure is not None:
                error = RankFailure(member.failure.rank, str(member.failure))
            elif seconds > self.group.patience:
                error = late(self, subject, seconds)
            if error is not None:
                if self.traffic.has(self) and isinstance(error, DistributedError):
                    self.traffic.fail(error)
                self.abort()
                raise error
            self.group.comm.move()
            time.sleep(_POLL)

    def check(self) -> None:
        """Raises NcclError where NCCL has found something wrong since."""
        if not self._handle:
            return
        state = ctypes.c_int()
        self._library.call("ncclCommGetAsyncError", self._handle, ctypes.byref(state))
        if state.value not in (nccl.SUCCESS, nccl.IN_PROGRESS):
            raise self._library.error("ncclCommGetAsyncError", state.value, self._handle)

    def do(self, subject: Subject, name: str, *arguments: Any) -> None:
        """One call that puts work into the stream."""
        if self.put(name, *arguments) == nccl.IN_PROGRESS:
            self.complete(subject, name)

    def put(self, name: str, *arguments: Any) -> int:
        """One call of several; its result."""
        stream = self.device.driver.stream_number(self.traffic.stream)
        return self._library.call(name, *arguments, self._handle, stream, comm=self._handle)

    @contextlib.contextmanager
    def together(self, subject: Subject) -> Iterator[None]:
        """A block whose calls are one: no message waits for another of them."""
        self._library.call("ncclGroupStart")
        try:
            yield
        finally:
            result = self._library.call("ncclGroupEnd", comm=self._handle)
        if result == nccl.IN_PROGRESS:
            self.complete(subject, "ncclGroupEnd")

    def messages(self, subject: Subject, messages: Sequence[Message]) -> None:
        """Sends and receives, all at once."""
        some = [m for m in messages if m.nbytes]
        if not some:
            return
        with self.together(subject):
            for message in some:
                name = "ncclSend" if message.is_sent else "ncclRecv"
                self.put(name, message.address, message.nbytes, nccl.UINT8, message.peer)

    def close(self) -> None:
        """Ends it, once all that is under way is done."""
        if not self._handle:
            return
        with self.traffic.lock:
            try:
                self.device.call(self.device.driver.activate)
                self._library.call("ncclCommFinalize", self._handle)
                state, end = ctypes.c_int(nccl.IN_PROGRESS), time.monotonic() + _ENDING
                while state.value == nccl.IN_PROGRESS and time.monotonic() < end:
                    self._library.call("ncclCommGetAsyncError", self._handle, ctypes.byref(state))
                    if state.value == nccl.IN_PROGRESS:
                        time.sleep(_POLL)
                if state.value != nccl.SUCCESS:
                    self.abort()
                else:
                    self._library.call("ncclCommDestroy", self._handle)
            except (nccl.NcclError, DeviceError, DistributedError):
                self.abort()  # of a device or a rank that has failed: nobody waits for its end
            self._handle = ctypes.c_void_p()
            self.traffic.remove(self)

    def abort(self) -> None:
        """Ends it at once, and what the device does for it."""
        handle, self._handle = self._handle, ctypes.c_void_p()
        self.traffic.remove(self)
        if handle:
            with contextlib.suppress(nccl.NcclError):  # it is given up whatever NCCL says
                self._library.call("ncclCommAbort", handle)


class NcclEngine:
    """What moves the device memory of a group.

    Args:
        group: the group.
    """

    def __init__(self, group: Group) -> None:
        self.group = group
        self._comm: Communicator | None = None
        self._pairs: dict[int, Communicator] = {}

    @functools.cached_property
    def library(self) -> nccl.Library:
        """NCCL, loaded when a tensor on a GPU needs it. Raises DistributedError."""
        return nccl.load()

    @property
    def title(self) -> str:
        """What moves the values, for people."""
        return f"NCCL {self.library.version_text}"

    # ------------------------------------------------------------------ communicators

    def communicator(self, device: CudaDevice) -> Communicator:
        """The group's, made when it is first needed: all ranks come here. Raises DeviceError for
        another device than it was made for."""
        found = self._comm
        if found is None:
            found = Communicator(self, device, self.group.rank, self.group.size)
            found.begin(self._agreed_id(list(range(self.group.size)), "all"))
            self._comm = found
        return self._on(found, device)

    def divide(self, part: NcclEngine | None, color: int) -> None:
        """Gives ``part``, of some of the ranks, its part of this communicator, which shares its
        connections. All ranks come here, after the same collectives; None: this one is none of
        them."""
        assert self._comm is not None
        if part is None:
            Communicator(self, self._comm.device, 0, 1).split(self._comm, nccl.NO_COLOR)
            return
        made = Communicator(part, self._comm.device, part.group.rank, part.group.size)
        made.split(self._comm, color)
        part._comm = made

    def pair(self, device: CudaDevice, peer: int) -> Communicator:
        """A communicator with one other rank, which comes here, too."""
        found = self._pairs.get(peer)
        if found is None:
            both = sorted((self.group.rank, peer))
            found = Communicator(self, device, both.index(self.group.rank), 2)
            found.begin(self._agreed_id(both, f"{both[0]}-{both[1]}"))
            self._pairs[peer] = found
        return self._on(found, device)

    def _on(self, comm: Communicator, device: CudaDevice) -> Communicator:
        if comm.device is not device:
            raise DeviceError(
                f"rank {self.group.rank} takes part in group {self.group.name!r} with "
                f"{comm.device.place}, and this tensor is on {device.place}: a rank has one device "
                "in a group"
            )
        return comm

    def _agreed_id(self, ranks: Sequence[int], name: str) -> bytes:
        """What these ranks of the group know a communicator by: the first one's, by the hub."""
        member, group = self.group.member, self.group
        if group.rank == ranks[0]:
            made = self.library.new_id()
            if member is not None and len(ranks) > 1:
                client = Client(member.address, 10.0)
                for rank in ranks[1:]:
                    client.ask({"do": "set", "key": self._key(name, rank)}, made)
                client.close()
            return made
        assert member is not None
        client, key = Client(member.address, 10.0), self._key(name, group.rank)
        begin = time.monotonic()
        try:
            while not client.ask({"do": "check", "keys": [key]})[0]["found"]:
                member.check()
                group.comm.move()
                seconds = time.monotonic() - begin
                if seconds > group.patience:
                    raise DistributedError(
                        f"rank {group.ranks[ranks[0]]} has not come to a communicator of group "
                        f"{group.name!r} for {seconds:.1f} s, longer than allowed"
                    )
                time.sleep(_POLL)
            _, made = client.ask({"do": "get", "key": key, "seconds": 1.0})
            client.ask({"do": "delete", "key": key})
        finally:
            client.close()
        return made

    def _key(self, name: str, rank: int) -> str:
        return f"nccl/{self.group.name}/{name}/{rank}"

    # ------------------------------------------------------------------ transfers

    def start(
        self, what: Collective, source: Buffer, sent: int, target: DeviceBuffer, subject: Subject
    ) -> DeviceTransfer:
        """Begins a collective, of the first ``sent`` bytes of a source. Raises NcclError,
        RankFailure and DeviceError."""
        device = target.device
        given = source if isinstance(source, DeviceBuffer) else device.upload(source)
        if given.device is not device:
            given = device.upload(given)
        comm = self.communicator(device)
        rank, start = comm.rank, given.ptr

        def work() -> None:
            if what.kind == "all_gather":
                if sent:
                    comm.do(subject, "ncclAllGather", start, target.ptr, sent, nccl.UINT8)
            elif what.kind == "broadcast":
                if sent:
                    comm.do(
                        subject, "ncclBroadcast", start, target.ptr, sent, nccl.UINT8, what.root
                    )
            elif what.kind == "all_to_all":
                comm.messages(subject, [
                    *_messages(True, start, what.sent), *_messages(False, target.ptr, what.received)
                ])  # fmt: skip
            elif what.kind == "permute":
                comm.messages(subject, [
                    *(Message(True, b, start, sent) for a, b in what.pairs if a == rank),
                    *(Message(False, a, target.ptr, sent) for a, b in what.pairs if b == rank),
                ])  # fmt: skip
            else:
                raise DistributedError(f"there is no collective {what.kind!r}")

        if what.kind == "permute" and all(b != rank for _, b in what.pairs):
            zeros = Buffer(target.nbytes)
            ctypes.memset(zeros.ptr, 0, target.nbytes)
            device.copy_in(target, zeros.ptr, target.nbytes)
        return comm.traffic.run(comm, subject, [given, target], work)

    def exchange(
        self, items: Sequence[tuple[bool, DeviceBuffer, int, int]], subject: Subject
    ) -> list[Part]:
        """Sends and receives of single ranks, all at once: for each whether it is sent, its memory
        and bytes, and the other rank's number in the group."""
        device = items[0][1].device
        comms = [self.pair(buffer.device, peer) for _, buffer, _, peer in items]

        def work() -> None:
            with comms[0].together(subject):
                for comm, (is_sent, buffer, nbytes, _) in zip(comms, items, strict=True):
                    if nbytes:
                        name = "ncclSend" if is_sent else "ncclRecv"
                        comm.put(name, buffer.ptr, nbytes, nccl.UINT8, 1 - comm.rank)
            for comm in dict.fromkeys(comms):
                comm.complete(subject, "ncclGroupEnd")

        whole = Traffic.of(device).run(comms[0], subject, [b for _, b, _, _ in items], work)
        return [Part(whole, -1 if is_sent else peer) for is_sent, _, _, peer in items]

    def close(self) -> None:
        """Ends its communicators; the other ranks do so, too."""
        for comm in [self._comm, *self._pairs.values()]:
            if comm is not None:
                comm.close()
        self._comm, self._pairs = None, {}


def _messages(is_sent: bool, address: int, sizes: Sequence[int]) -> Iterator[Message]:
    """A message for each rank, one behind the other in memory."""
    for peer, nbytes in enumerate(sizes):
        yield Message(is_sent, peer, address, nbytes)
        address += nbytes
