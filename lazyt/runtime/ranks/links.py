"""How fast the ranks of a group reach each other, measured once, and the same on all of them."""

from __future__ import annotations

import time
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from lazyt.runtime.ranks.groups import Collective, Group

#: What is sent to measure, in bytes, and how often.
_SMALL, _LARGE, _TIMES = 8, 1 << 18, 4
#: A message should take so many times longer than one that carries nothing.
_WORTH = 8
#: The smallest and the largest message, in bytes.
_LEAST, _MOST = 1 << 16, 25 << 20


class Link(NamedTuple):
    """What a group's slowest rank sees.

    Attributes:
        latency: seconds that a small message takes.
        bandwidth: bytes that each rank sends in a second.
    """

    latency: float
    bandwidth: float

    @property
    def message(self) -> int:
        """Bytes of a message that is worth its latency, and not much larger, so that the first of
        several is soon under way and the last is soon there: a power of two."""
        wanted = _WORTH * self.latency * self.bandwidth
        size = _LEAST
        while size < min(wanted, _MOST):
            size *= 2
        return min(size, _MOST)

    def seconds(self, nbytes: int) -> float:
        """How long it takes to send so many bytes."""
        return self.latency + nbytes / self.bandwidth


_known: WeakKeyDictionary[Group, Link] = WeakKeyDictionary()


def link_of(group: Group) -> Link:
    """How fast a group is. All of its ranks call this at the same place of their order; the first
    time it takes some milliseconds. Raises RankFailure."""
    found = _known.get(group)
    if found is None:
        found = _known[group] = _measured(group) if group.size > 1 else Link(1e-6, 1e10)
    return found


def _measured(group: Group) -> Link:
    small = _seconds(group, _SMALL)
    large = _seconds(group, _LARGE)
    mine = np.array([small, max(large - small, 1e-6)], np.float64)
    every = np.empty(2 * group.size, np.float64)
    group.run(
        Collective("all_gather"), mine.view(np.uint8), every.view(np.uint8), "measured", "a link"
    )
    latency, longest = every.reshape(group.size, 2).max(0)
    return Link(float(latency), _LARGE * (group.size - 1) / float(longest))


def _seconds(group: Group, nbytes: int) -> float:
    """The shortest time in which all ranks send each other so many bytes."""
    source, target = (
        np.zeros(nbytes * group.size, np.uint8),
        np.empty(nbytes * group.size, np.uint8),
    )
    what = Collective("all_to_all", (nbytes,) * group.size, (nbytes,) * group.size)
    times = []
    for _ in range(_TIMES):
        begin = time.perf_counter()
        number = group.come_to(f"a message of {nbytes} bytes to measure the link", "a link")
        group.wait(group.start(what, source, target), number, nbytes=2 * source.nbytes)
        times.append(time.perf_counter() - begin)
    return min(times)
