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


_known: WeakKeyDictionary[Group, dict[bool, Link]] = WeakKeyDictionary()


def link_of(group: Group, place: str = "") -> Link:
    """How fast a group is, for host memory or, where it has an engine for it, that of the device
    ``place``. All of its ranks call this at the same place of their order; the first time it takes
    some milliseconds. Raises RankFailure."""
    known = _known.setdefault(group, {})
    by_engine = bool(place) and group.devices is not None
    if by_engine not in known:
        on = place if by_engine else ""
        known[by_engine] = _measured(group, on) if group.size > 1 else Link(1e-6, 1e10)
    return known[by_engine]


def _measured(group: Group, place: str) -> Link:
    seconds = _seconds_between_devices if place else _seconds
    small = seconds(group, _SMALL, place)
    large = seconds(group, _LARGE, place)
    mine = np.array([small, max(large - small, 1e-6)], np.float64)
    every = np.empty(2 * group.size, np.float64)
    group.run(
        Collective("all_gather"), mine.view(np.uint8), every.view(np.uint8), "measured", "a link"
    )
    latency, longest = every.reshape(group.size, 2).max(0)
    return Link(float(latency), _LARGE * (group.size - 1) / float(longest))


def _seconds(group: Group, nbytes: int, place: str) -> float:
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


def _seconds_between_devices(group: Group, nbytes: int, place: str) -> float:
    """The same between the memories of devices, with what the host does for it."""
    from lazyt.runtime.cuda.device import device_at
    from lazyt.runtime.ranks.device_engine import Subject

    device, engine = device_at(place), group.devices
    assert engine is not None
    source, target = (device.allocate(nbytes * group.size) for _ in range(2))
    what = Collective("all_to_all", (nbytes,) * group.size, (nbytes,) * group.size)
    text, times = f"a message of {nbytes} bytes between devices to measure the link", []
    for _ in range(_TIMES):
        device.synchronize()
        begin = time.perf_counter()
        number = group.come_to(text, "a link")
        transfer = engine.start(what, source, source.nbytes, target, Subject(text, "", number))
        group.wait(transfer, number)
        device.synchronize()
        times.append(time.perf_counter() - begin)
    return min(times)
