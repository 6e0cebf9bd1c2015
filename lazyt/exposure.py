"""What several Storages, or a Storage and NumPy, have in common when they share memory."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lazyt.ir.graph import Node
    from lazyt.runtime.memory import Buffer
    from lazyt.views import View


class Exposure:
    """Memory that code outside of the graph can read and write.

    Attributes:
        buffer: the memory.
        token: what every exported array keeps alive; None for memory exposed for good.
        own: whether the memory is ours, and not NumPy's.
    """

    __slots__ = ("buffer", "own", "token")

    def __init__(
        self, buffer: Buffer, token: weakref.ref[Buffer] | None, own: bool = False
    ) -> None:
        self.buffer = buffer
        self.token = token
        self.own = own

    @property
    def over(self) -> bool:
        """Whether nobody outside refers to the memory any more."""
        return self.token is not None and self.token() is None


class Versions:
    """How often a memory was written to, as autograd counts: ``count``."""

    __slots__ = ("count",)

    def __init__(self, count: int) -> None:
        self.count = count


class Memory:
    """What Storages of one memory have in common.

    Attributes:
        value: the graph value of the whole, without history.
        content: counts all writes.
        versions: of all Storages but those that ``.data`` made.
        exposure: set while NumPy can see the memory.
        between_processes: whether ``share_memory_`` was called.
    """

    __slots__ = ("between_processes", "content", "exposure", "value", "versions")

    def __init__(self, value: Node, version: int) -> None:
        self.value = value
        self.content = 0
        self.versions = Versions(version)
        self.exposure: Exposure | None = None
        self.between_processes = False


class Share:
    """A Storage's part in a Memory.

    Attributes:
        memory: the memory.
        seen: the ``content`` that the Storage's node stands for.
        region: how the Storage sees the memory: a part of it, its bits as another dtype, or None
            for the whole as it is.
        partial: whether that leaves out some of the memory.
        versions: the memory's, or others: autograd does not see writes through ``.data``.
        stale: nodes that the Storage had before others wrote to the memory.
    """

    __slots__ = ("memory", "partial", "region", "seen", "stale", "versions")

    def __init__(
        self, memory: Memory, region: View | None, versions: Versions, partial: bool = False
    ) -> None:
        self.memory = memory
        self.seen = memory.content
        self.region = region
        self.versions = versions
        self.partial = partial
        self.stale: list[weakref.ref[Node]] = []
