"""The engine without MPI: bytes between host memories go through the hub.

It is there for programs whose tensors are on GPUs, where the host moves objects, barriers and what
ranks agree on, and for trying things out: each byte passes one process and its sockets twice. Each
message has a name, which sender and receiver count alike; whoever receives it removes it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from lazyt.runtime.ranks.engine import Bytes, Done, TooLong, Transfer
from lazyt.runtime.ranks.member import Client


class _Receiving:
    """A message that has been posted for, or has come.

    Attributes:
        peers: the ranks that it may come from.
        source, count: the rank that sent it, and its bytes; -1 before.
        error: more came than there is room for.
    """

    def __init__(
        self, comm: HubCommunicator, memory: Bytes, peers: Sequence[int], tag: str
    ) -> None:
        self._comm = comm
        self.memory, self.peers, self.tag = memory, tuple(peers), tag
        self.source = self.count = -1
        self.error: TooLong | None = None

    def test(self) -> bool:
        """Whether it is there."""
        if self.count < 0:
            self._comm.move()
        if self.error is not None:
            raise self.error
        return self.count >= 0

    def join(self) -> None:
        """Nothing."""

    def is_done(self) -> bool:
        """``test()``."""
        return self.test()

    def finish(self) -> None:
        """Nothing."""

    def take(self, source: int, body: bytes) -> None:
        """It has come."""
        self.source, self.count = source, len(body)
        if len(body) > self.memory.nbytes:
            self.error = TooLong()
        else:
            self.memory[: len(body)] = np.frombuffer(body, np.uint8)


class _All:
    """Several messages."""

    source = count = -1

    def __init__(self, parts: Sequence[_Receiving]) -> None:
        self._parts = parts

    def test(self) -> bool:
        """Whether all are there."""
        return all(part.test() for part in self._parts)

    def join(self) -> None:
        """Nothing."""

    def is_done(self) -> bool:
        """``test()``."""
        return self.test()

    def finish(self) -> None:
        """Nothing."""


class HubCommunicator:
    """Some ranks, whose messages go through the hub.

    Args:
        client: the connection to it.
        name: the same on all of these ranks, and no other's.
        rank, size: this process's number among them, and how many there are.
    """

    def __init__(self, client: Client, name: str, rank: int, size: int) -> None:
        self._client, self.name = client, name
        self.rank, self.size = rank, size
        self._lock = threading.RLock()
        self._posted: list[_Receiving] = []
        self._sent: dict[tuple[int, str], int] = {}
        self._received: dict[tuple[int, str], int] = {}
        self._twins = 0

    def part(self, ranks: Sequence[int], tag: int) -> HubCommunicator:
        """The group of some ranks, all of which call this and nobody else."""
        name = f"{self.name}/{tag}:{','.join(map(str, ranks))}"
        return HubCommunicator(self._client, name, list(ranks).index(self.rank), len(ranks))

    def twin(self) -> HubCommunicator:
        """See ``Communicator``."""
        self._twins += 1
        name = f"{self.name}/twin{self._twins}"
        return HubCommunicator(self._client, name, self.rank, self.size)

    # ------------------------------------------------------------------ messages

    def _send(self, memory: Bytes, peer: int, tag: str) -> None:
        with self._lock:
            number = self._sent.get((peer, tag), 0)
            self._sent[peer, tag] = number + 1
            body = np.ascontiguousarray(memory).tobytes()
            self._client.ask({"do": "set", "key": self._key(self.rank, peer, tag, number)}, body)

    def _post(self, memory: Bytes, peers: Sequence[int], tag: str) -> _Receiving:
        made = _Receiving(self, memory, peers, tag)
        with self._lock:
            self._posted.append(made)
        return made

    def _key(self, source: int, target: int, tag: str, number: int) -> str:
        return f"bytes/{self.name}/{tag}/{source}-{target}/{number}"

    def move(self) -> None:
        """See ``Communicator``."""
        with self._lock:
            earlier: set[tuple[int, str]] = set()  # messages of one rank come in their order
            for item in list(self._posted):
                for peer in item.peers:
                    way = peer, item.tag
                    if way in earlier:
                        continue
                    number = self._received.get(way, 0)
                    key = self._key(peer, self.rank, item.tag, number)
                    reply, body = self._client.ask({"do": "take", "key": key})
                    if reply["found"]:
                        self._received[way] = number + 1
                        self._posted.remove(item)
                        item.take(peer, body)
                        break
                else:
                    earlier.update((peer, item.tag) for peer in item.peers)

    # ------------------------------------------------------------------ operations

    def send(self, memory: Bytes, target: int, tag: int) -> Transfer:
        """See ``Communicator``; complete when the hub has it."""
        self._send(memory, target, str(tag))
        return Done()

    def receive(self, memory: Bytes, source: int, tag: int) -> Transfer:
        """See ``Communicator``."""
        others = [rank for rank in range(self.size) if rank != self.rank]
        return self._post(memory, [source] if source >= 0 else others, str(tag))

    def all_gather(self, source: Bytes, target: Bytes) -> Transfer:
        """See ``Communicator``."""
        counts = [source.nbytes] * self.size
        every = np.tile(np.ascontiguousarray(source), self.size)
        return self.all_to_all(every, counts, target, counts)

    def all_to_all(
        self, source: Bytes, sent: Sequence[int], target: Bytes, received: Sequence[int]
    ) -> Transfer:
        """See ``Communicator``."""
        parts, start = [], 0
        for peer, count in enumerate(received):
            if count:
                parts.append(self._post(target[start : start + count], [peer], "all"))
            start += count
        start = 0
        for peer, count in enumerate(sent):
            if count:
                self._send(source[start : start + count], peer, "all")
            start += count
        return _All(parts)

    def broadcast(self, memory: Bytes, root: int) -> Transfer:
        """See ``Communicator``."""
        if self.rank != root:
            return self._post(memory, [root], "all")
        for peer in range(self.size):
            if peer != root:
                self._send(memory, peer, "all")
        return Done()

    def barrier(self) -> Transfer:
        """See ``Communicator``."""
        one = np.zeros(1, np.uint8)
        return self.all_gather(one, np.empty(self.size, np.uint8))

    def close(self) -> None:
        """Nothing: the hub ends with the ranks."""
