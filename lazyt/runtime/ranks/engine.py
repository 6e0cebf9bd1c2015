"""What moves bytes between the memories of ranks: the interface, and the engine of a lone rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from lazyt.errors import DistributedError

#: Memory of a tensor, as bytes: what NumPy and memoryview export.
Bytes = Any


class TooLong(DistributedError):
    """More bytes came than there was room for."""

    def __init__(self) -> None:
        super().__init__("another rank has sent more bytes than this one has room for")


class Transfer(Protocol):
    """Something that is under way."""

    def test(self) -> bool:
        """Whether it is complete, or what needs it can be begun behind it; moves it on. Raises
        DistributedError when it has failed."""

    def join(self) -> None:
        """Once ``test`` has said so: what follows comes behind it, on its device, too."""

    def is_done(self) -> bool:
        """Whether its memory has its final content; moves it on."""

    def finish(self) -> None:
        """Once ``test`` has said so: waits until its memory has its final content."""


class Communicator(Protocol):
    """The ranks of one group. All of them call the same operations in the same order, except for
    ``send`` and ``receive``. Memory must stay as it is until the transfer is complete.

    Attributes:
        rank, size: this process's number in the group, and how many there are.
    """

    rank: int
    size: int

    def all_gather(self, source: Bytes, target: Bytes) -> Transfer:
        """The sources of all ranks, one behind the other, in the target of each."""

    def all_to_all(
        self, source: Bytes, sent: Sequence[int], target: Bytes, received: Sequence[int]
    ) -> Transfer:
        """A part of the source for each rank, of ``sent`` bytes, and one from each rank."""

    def broadcast(self, memory: Bytes, root: int) -> Transfer:
        """The memory of ``root`` in the memory of each."""

    def send(self, memory: Bytes, target: int, tag: int) -> Transfer:
        """To one rank."""

    def receive(self, memory: Bytes, source: int, tag: int) -> Transfer:
        """From one rank, or from any one, if ``source`` is -1; ``Done.source`` says which."""

    def barrier(self) -> Transfer:
        """Complete when all ranks have come to it."""

    def move(self) -> None:
        """Moves on what is under way, in all groups."""

    def twin(self) -> Communicator:
        """Another one of the same ranks, whose operations have an order of their own. All ranks
        call this."""

    def close(self) -> None:
        """Lets go of the group."""


class Done:
    """A transfer that is complete."""

    source = 0

    def test(self) -> bool:
        """True."""
        return True

    def join(self) -> None:
        """Nothing."""

    def is_done(self) -> bool:
        """True."""
        return True

    def finish(self) -> None:
        """Nothing."""


class Alone:
    """The group of one rank, which needs no engine."""

    rank, size = 0, 1

    def all_gather(self, source: Bytes, target: Bytes) -> Transfer:
        """Copies."""
        target[:] = source
        return Done()

    def all_to_all(
        self, source: Bytes, sent: Sequence[int], target: Bytes, received: Sequence[int]
    ) -> Transfer:
        """Copies."""
        target[:] = source
        return Done()

    def broadcast(self, memory: Bytes, root: int) -> Transfer:
        """Nothing."""
        return Done()

    def send(self, memory: Bytes, target: int, tag: int) -> Transfer:
        """Raises DistributedError: nobody is there."""
        raise DistributedError("a lone rank has nobody to send to")

    def receive(self, memory: Bytes, source: int, tag: int) -> Transfer:
        """Raises DistributedError: nobody is there."""
        raise DistributedError("a lone rank has nobody to receive from")

    def barrier(self) -> Transfer:
        """Nothing."""
        return Done()

    def move(self) -> None:
        """Nothing."""

    def twin(self) -> Communicator:
        """Itself."""
        return self

    def close(self) -> None:
        """Nothing."""
