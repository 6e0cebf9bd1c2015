"""A thread that moves transfers on while this rank computes.

MPI moves data over a network only while somebody calls it, and a rank that runs a kernel does not.
As long as something large is under way, a thread therefore calls it now and then. It sleeps in
between, so that it takes a few per cent of a core, and stands back while others look.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol

from lazyt.errors import DistributedError

#: The smallest transfer that is worth the thread's attention, in bytes.
LEAST = 1 << 14
#: Seconds between two visits: at 1 Gbit/s some 40 KB come in meanwhile, which sockets have room
#: for. Where nothing has been completed for some time, the longest pause.
_PAUSE, _LONGEST = 0.0003, 0.01
#: After how many seconds without success pauses grow.
_FRUITLESS = 0.2
#: How often a visit looks: each look moves a segment or two.
_LOOKS = 3


class Moving(Protocol):
    """A transfer that somebody else will wait for."""

    def test(self) -> bool:
        """Whether it is complete; moves it on. Raises DistributedError."""


class Mover:
    """The thread. It is started by the first transfer that it is given.

    Attributes:
        looks: how often anybody has looked for a transfer; whoever does counts it up.
    """

    def __init__(self) -> None:
        self.looks = 0
        self._new: list[Moving] = []
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_over = False

    def watch(self, moving: Moving) -> None:
        """Moves a transfer on until it is complete or has failed."""
        self._new.append(moving)
        if self._thread is None:
            self._is_over = False
            self._thread = threading.Thread(target=self._run, daemon=True, name="lazyt-transfers")
            self._thread.start()
        self._wake.set()

    def stop(self) -> None:
        """Ends the thread: nothing is looked at any more."""
        thread, self._thread = self._thread, None
        self._is_over = True
        self._wake.set()
        if thread is not None:
            thread.join(1.0)
        self._new.clear()

    def _run(self) -> None:
        under_way: list[Moving] = []
        pause = _PAUSE
        success = time.monotonic()
        while not self._is_over:
            if not under_way and not self._new:
                self._wake.wait()
                self._wake.clear()
                success, pause = time.monotonic(), _PAUSE
            seen = self.looks
            time.sleep(pause)
            while self._new:
                under_way.append(self._new.pop(0))
                pause = _PAUSE
            if self.looks != seen:
                continue  # the program looks itself
            before, now = len(under_way), time.monotonic()
            for _ in range(_LOOKS):
                under_way = [moving for moving in under_way if not _is_over(moving)]
            if len(under_way) < before:
                success, pause = now, _PAUSE
            elif now - success > _FRUITLESS:
                pause = min(2 * pause, _LONGEST)


def _is_over(moving: Moving) -> bool:
    try:
        return moving.test()
    except DistributedError:
        return True  # whoever waits for it gets the error, too


#: This process's.
mover = Mover()
