"""Threads of kernels: how many there are, and whose turn it is to use them."""

from __future__ import annotations

import ctypes
import os

from lazyt.config import config
from lazyt.runtime import devices


class Threads:
    """Who may use how many threads in a kernel.

    Two kernels at once that both want every core slow each other down, so a run that starts
    while another thread's is in flight gets one thread. Who owns them is a hint, read and written
    without a lock: an interrupt between the two then cannot leave anything locked.

    Attributes:
        turn: what C knows of it: how many they are, as ``take_count`` left it, the Python thread
            that uses them now, or 0, and whether any were ever started.
        dies_in_children: whether they are those of a library that a forked child cannot use.
    """

    __slots__ = ("_forked", "_most", "dies_in_children", "turn")

    def __init__(self) -> None:
        self.turn = (ctypes.c_uint64 * 3)()
        self._most = 0
        self._forked = False
        self.dies_in_children = False
        config._on_threads.append(self.take_count)

    def count(self) -> int:
        """How many a kernel may use now."""
        if self._forked:
            return 1
        return config.threads or self._most or self.read_most()

    def take_count(self) -> None:
        """Let C know how many they are now."""
        self.turn[0] = self.count()

    def read_most(self) -> int:
        """All cores, or what OMP_NUM_THREADS says (the first number, where it is a list)."""
        first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
        wanted = int(first) if first.isdecimal() else 0
        self._most = wanted or devices.core_count()
        return self._most

    def after_fork(self) -> None:
        """GNU's OpenMP waits forever in a child for the threads that its parent had; lazyt's own
        threads (``runtime/cpu/openmp.py``) are started anew."""
        self._forked = self._forked or (self.dies_in_children and bool(self.turn[2]))
        self.turn[1] = 0
        if self._forked:
            self.turn[0] = 1


team = Threads()
os.register_at_fork(after_in_child=team.after_fork)
