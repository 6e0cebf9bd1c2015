"""Groups of ranks: their names, their collectives in order, and how a rank waits for others."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lazyt.errors import DistributedError
from lazyt.runtime import events
from lazyt.runtime.memory import Buffer
from lazyt.runtime.ranks.engine import Communicator, TooLong, Transfer
from lazyt.runtime.ranks.member import Member, RankFailure

if TYPE_CHECKING:
    from lazyt.runtime.ranks.device_engine import NcclEngine

#: How long a rank looks without a pause, in seconds: at least, and for each byte that moves. What
#: moves does so while somebody looks. Then it sleeps between two looks, in seconds at most.
_LOOKING, _PER_BYTE, _SLEEP = 0.01, 1 / 100e6, 0.001
#: How long a rank waits before it tells the hub what it has come to, in seconds.
_UNSAID = 0.005
#: How many looks there are between two at the clock and at the others.
_LOOKS = 64
#: Seconds in which something arrives that a rank has sent before it ended.
_AFTER_LEAVING = 2.0


class Collective(NamedTuple):
    """What a group does together, apart from the memory.

    Attributes:
        kind: ``all_gather``, ``all_to_all``, ``broadcast`` or ``permute``.
        sent, received: of ``all_to_all``, bytes to and from each rank.
        root: of ``broadcast``.
        pairs: of ``permute``, from which rank to which.
    """

    kind: str
    sent: tuple[int, ...] = ()
    received: tuple[int, ...] = ()
    root: int = 0
    pairs: tuple[tuple[int, int], ...] = ()


class Group:
    """Some ranks that compute together, this one among them.

    Args:
        name: the same on all of its ranks, and no other group's.
        ranks: their numbers among all, in the order of the group.
        comm: what moves bytes between them.
        member: this rank's connection to the hub; None for a lone rank.
        patience: seconds that a collective may take.

    Attributes:
        rank, size: this process's number in the group, and how many there are.
        lanes: of each lane what moves bytes.
        devices: what moves bytes between devices; None where they go through host memory.
    """

    def __init__(
        self,
        name: str,
        ranks: Sequence[int],
        comm: Communicator,
        member: Member | None,
        patience: float = inf,
    ) -> None:
        self.name, self.ranks = name, tuple(ranks)
        self.comm, self.member, self.patience = comm, member, patience
        self.lanes = (comm, comm.twin())
        self.rank, self.size = comm.rank, comm.size
        self.devices: NcclEngine | None = None
        self._counts = [0] * len(self.lanes)
        self._known: set[tuple[str, str]] = set()
        here = int(os.environ.get("LOCAL_WORLD_SIZE") or self.size)
        self._is_crowded = min(here, self.size) > len(os.sched_getaffinity(0))

    def come_to(
        self,
        text: str,
        line: str,
        patience: float | None = None,
        lane: int = 0,
        written: str = "",
    ) -> int:
        """Says which collective this rank comes to; the first time, waits until all ranks have and
        agree. Returns its number. Raises RankFailure, and DistributedError with the ranks that have
        not come in time.

        Args:
            text: what all ranks have to call, with dtype and shape.
            line: where the program calls it.
            patience: seconds to wait, the group's by default.
            lane: whose next collective it is.
            written: what the program calls there, for messages; ``text`` by default.
        """
        number = self._counts[lane]
        self._counts[lane] += 1
        if self.member is not None:
            seconds = None
            if (text, line) not in self._known:
                self._known.add((text, line))
                seconds = self.patience if patience is None else patience
            name = self._lane_name(lane)
            if not self.member.come_to(
                name, self.ranks, number, text, line, seconds, self.comm.move, written or text
            ):
                raise DistributedError(self.late(number, seconds or 0.0, lane))
        return number

    def knows(self, text: str, line: str) -> bool:
        """Whether ``come_to`` would return at once."""
        return self.member is None or (text, line) in self._known

    def come_to_all(
        self, calls: Sequence[tuple[str, str, str]], lane: int, key: str, ask: bool
    ) -> int:
        """Says that this rank comes to the next collectives of a lane, which it will start without
        another word. Returns the number of the first. Raises as ``come_to`` does.

        Args:
            calls: of each what all ranks have to call, where the program does, and what it calls.
            key: what tells this list from others.
            ask: whether to wait until all ranks have come to the first, and agree.
        """
        number = self._counts[lane]
        self._counts[lane] += len(calls)
        if self.member is None:
            return number
        name, seconds = self._lane_name(lane), self.patience if ask else None
        if not self.member.come_to_all(
            name, self.ranks, number, calls, key, seconds, self.comm.move
        ):
            raise DistributedError(self.late(number, seconds or 0.0, lane))
        return number

    def _lane_name(self, lane: int) -> str:
        return f"{self.name}, lane {lane}" if lane else self.name

    def start(self, what: Collective, source: Any, target: Any, lane: int = 0) -> Transfer:
        """Begins a collective, from ``source`` to ``target``, both arrays of bytes."""
        comm = self.lanes[lane]
        if what.kind == "all_gather":
            return comm.all_gather(source, target)
        if what.kind == "all_to_all":
            return comm.all_to_all(source, what.sent, target, what.received)
        if what.kind == "broadcast":
            if self.rank == what.root:
                target[:] = source
            return comm.broadcast(target, what.root)
        if what.kind == "permute":
            return self._permute(comm, what.pairs, source, target)
        raise DistributedError(f"there is no collective {what.kind!r}")

    def _permute(
        self, comm: Communicator, pairs: Sequence[tuple[int, int]], source: Any, target: Any
    ) -> Transfer:
        sent, received = [0] * self.size, [0] * self.size
        for a, b in pairs:
            if a == self.rank:
                sent[b] = source.nbytes
            if b == self.rank:
                received[a] = target.nbytes
        if not any(received):
            target[:] = 0
        if sum(map(bool, sent)) > 1:  # the same for several
            source = np.concatenate([source] * sum(map(bool, sent)))
        return comm.all_to_all(source[: sum(sent)], sent, target[: sum(received)], received)

    def wait(
        self,
        transfer: Transfer,
        number: int = -1,
        patience: float | None = None,
        peers: Sequence[int] = (),
        lane: int = 0,
        nbytes: int = 0,
    ) -> None:
        """Waits until a transfer is complete; raises RankFailure when a rank fails meanwhile, and
        DistributedError after ``patience`` seconds (the group's), with the ranks that have not come
        to collective ``number`` of a lane. ``nbytes``: how many move. ``peers``: of ``send`` and
        ``receive``, the ranks among all that can complete it."""
        if transfer.test():
            transfer.join()
            return
        begin = now = time.monotonic()
        end = begin + (self.patience if patience is None else patience)
        looking = begin + _LOOKING + nbytes * _PER_BYTE
        looks, gone = 0, inf
        try:
            while not transfer.test():
                looks += 1
                if looks % _LOOKS and now < looking:
                    if self._is_crowded:
                        os.sched_yield()
                    continue
                now = time.monotonic()
                if self.member is not None:
                    if now > begin + _UNSAID:
                        self.member.catch_up()
                    self.member.check()
                if now < looking:
                    os.sched_yield()
                    continue
                if peers and self.member is not None and self.member.left.issuperset(peers):
                    gone = min(gone, now)  # what they sent before may still be on its way
                    if now - gone > _AFTER_LEAVING:
                        raise RankFailure(peers[0], _ended(peers))
                if now > end:
                    raise DistributedError(self.late(number, now - begin, lane))
                time.sleep(min(_SLEEP, (now - looking) * 0.01))
        except DistributedError as error:
            if self.member is None or isinstance(error, (RankFailure, TooLong)):
                raise
            failed = self.member.reason(0.5)  # what another rank did comes first
            raise (failed or error) from None
        transfer.join()

    def late(self, number: int, seconds: float, lane: int = 0) -> str:
        """What is said of a collective that takes too long: which ranks have not come to it."""
        text = f"a collective of group {self.name!r} has taken {seconds:.1f} s, longer than allowed"
        if self.member is None or number < 0:
            return text
        from lazyt.runtime.ranks.member import Client

        client = Client(self.member.address, 5.0)
        try:
            name = self._lane_name(lane)
            reply, _ = client.ask({"do": "missing", "group": name, "number": number})
        finally:
            client.close()
        late = ", ".join(map(str, reply["ranks"]))
        return f"{text}: rank {late} has not come to it" if late else text

    def divide_devices(self, part: Group | None, color: int) -> None:
        """Gives a group of some of the ranks its part of what moves bytes between devices; all
        ranks call this, with None where they are none of them."""
        assert self.devices is not None
        self.devices.divide(None if part is None else part.devices, color)

    def close_devices(self) -> None:
        """Ends what moves bytes between devices."""
        if self.devices is not None:
            self.devices.close()

    def run(
        self, what: Collective, source: Any, target: Any, text: str, line: str, written: str = ""
    ) -> None:
        """A whole collective. Raises RankFailure and DistributedError."""
        number = self.come_to(text, line, written=written)
        begin = time.monotonic()
        self.wait(self.start(what, source, target), number)
        note_transfer(text, line, begin, source.nbytes, target.nbytes)


def _ended(peers: Sequence[int]) -> str:
    names = ", ".join(map(str, peers))
    return f"rank {names} has ended, and has not sent or received what this rank waits for"


def note_transfer(
    text: str, line: str, begin: float, sent: int, received: int, waited: float | None = None
) -> None:
    """Tells those who time what runs about a collective. ``waited``: since when this rank did
    nothing else; since ``begin`` by default."""
    if not events.watching:
        return
    end, since = time.monotonic(), begin if waited is None else waited
    hidden = max(0.0, since - begin) / max(end - begin, 1e-9)
    note = {"name": text.partition(" ")[0], "kind": "collective", "computes": [text],
            "bytes_read": sent, "bytes_written": received, "flops": 0, "scratch": 0, "phases": 1,
            "reasons": [f"{hidden:.0%} of its time is hidden behind what this rank computes"],
            "sources": [line]}  # fmt: skip
    for timings in events.watching:
        timings.append(events.Timing(note, begin, end))


def as_bytes(buffer: Buffer, nbytes: int) -> Any:
    """A buffer's memory, as an array of bytes."""
    from lazyt.ir.dtypes import uint8

    return buffer.as_numpy(uint8, (nbytes,))


#: The groups of this process by name, which nodes of the graph refer to.
groups: dict[str, Group] = {}
_adding = threading.Lock()
#: Called when groups go: what was remembered of them is forgotten.
on_forget: list[Callable[[], None]] = []


def add(group: Group) -> Group:
    """Registers a group under its name. Raises DistributedError when the name is taken."""
    with _adding:
        if group.name in groups:
            raise DistributedError(f"there is a group {group.name!r} already")
        groups[group.name] = group
    return group


def forget(name: str) -> None:
    """Removes a group."""
    with _adding:
        group = groups.pop(name, None)
    if group is not None:
        group.close_devices()
        for comm in group.lanes:
            comm.close()


def named(name: str) -> Group:
    """A group by its name. Raises DistributedError when there is none (any more)."""
    found = groups.get(name)
    if found is None:
        raise DistributedError(
            f"there is no group {name!r}: it was destroyed, or init_process_group was not called"
        )
    return found
