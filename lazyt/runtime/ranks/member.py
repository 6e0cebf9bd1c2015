"""A rank's connections to the hub: its life, the others' failures, and values for each other."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from lazyt.errors import DistributedError
from lazyt.runtime.ranks.hub import BEAT
from lazyt.runtime.ranks.messages import Closed, receive, send

#: Seconds between attempts to reach a hub that is not there yet.
_RETRY = 0.05


#: Seconds after which a rank that waits for others moves on what is under way.
_MOVING = 0.001
#: How many collectives at most a rank has come to without telling the hub.
_UNSAID = 256


class RankFailure(DistributedError):
    """A rank has failed, or its collectives are not those of the others.

    Attributes:
        rank: its number.
    """

    def __init__(self, rank: int, why: str) -> None:
        super().__init__(why)
        self.rank = rank


def connect(address: tuple[str, int], seconds: float) -> socket.socket:
    """A connection to the hub, which may start later. Raises DistributedError after ``seconds``."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            made = socket.create_connection(address, timeout=max(1.0, deadline - time.monotonic()))
        except OSError as error:
            if time.monotonic() > deadline:
                raise DistributedError(
                    f"rank 0 cannot be reached at {address[0]}:{address[1]} ({error}) for "
                    f"{seconds:.0f} s: is it running, and do all ranks have the same MASTER_ADDR "
                    "and MASTER_PORT?"
                ) from None
            time.sleep(_RETRY)
            continue
        made.settimeout(None)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made


class _Connection:
    """A connection that is closed when nobody refers to it: when its thread ends."""

    def __init__(self, made: socket.socket) -> None:
        self.socket = made

    def __del__(self) -> None:
        self.socket.close()


class _Own(threading.local):
    """The connection of a thread."""

    connection: _Connection | None = None


class Client:
    """Values that ranks store for each other: requests to the hub, each thread's one at a time.

    Args:
        address: of the hub.
        seconds: how long to wait until it is there.
    """

    def __init__(self, address: tuple[str, int], seconds: float = 300.0) -> None:
        self.address = address
        self._own = _Own()
        self._connect(seconds)

    def _connect(self, seconds: float) -> _Connection:
        self._own.connection = made = _Connection(connect(self.address, seconds))
        send(made.socket, {"do": "hello"})
        return made

    def ask(self, message: dict[str, Any], body: bytes = b"") -> tuple[dict[str, Any], bytes]:
        """The hub's answer. Raises DistributedError with what it says is wrong."""
        connection = (self._own.connection or self._connect(10.0)).socket
        send(connection, message, body)
        reply, value = receive(connection)
        if "error" in reply:
            raise DistributedError(str(reply["error"]))
        return reply, value

    def close(self) -> None:
        """Ends this thread's connection."""
        self._own.connection = None


def _nothing() -> None:
    """Nothing is under way."""


class Member:
    """This rank among the others.

    Attributes:
        rank, size: its number, and how many there are.
        failure: what has failed somewhere, else None.
        all_over: all ranks have ended as they should.
        left: those that have.

    Args:
        address: of the hub.
        seconds: how long to wait until it is there.

    Raises DistributedError when the hub cannot be reached or refuses.
    """

    def __init__(
        self, address: tuple[str, int], rank: int, size: int, seconds: float = 300.0
    ) -> None:
        self.address, self.rank, self.size = address, rank, size
        self.failure: RankFailure | None = None
        self.all_over = False
        self.left: set[int] = set()
        self._agreed: set[tuple[str, int]] = set()
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._unsaid: list[dict[str, Any]] = []
        self._connection = connect(address, seconds)
        who = f"process {os.getpid()} on {socket.gethostname()}"
        try:
            send(self._connection, {"do": "join", "rank": rank, "who": who})
            first, _ = receive(self._connection)
        except Closed:
            self._connection.close()
            raise DistributedError(f"rank 0 has ended before rank {rank} had joined it") from None
        if first.get("tell") != "joined":
            self._connection.close()
            raise DistributedError(str(first.get("why", "the hub refuses this rank")))
        for work in (self._listen, self._beat):
            threading.Thread(target=work, daemon=True, name="lazyt-rank").start()

    def _listen(self) -> None:
        """What the hub tells, until it is gone."""
        try:
            while True:
                message, _ = receive(self._connection)
                with self._changed:
                    if message["tell"] == "agreed":
                        self._agreed.add((message["group"], message["number"]))
                    elif message["tell"] == "left":
                        self.left.add(int(message["rank"]))
                    elif message["tell"] == "over":
                        self.all_over = True
                    elif self.failure is None:
                        self.failure = RankFailure(int(message["rank"]), str(message["why"]))
                    self._changed.notify_all()
        except Closed:
            with self._changed:
                if self.failure is None and not self.all_over:
                    self.failure = RankFailure(0, "the hub, a process beside rank 0, is gone")
                self._changed.notify_all()

    def _beat(self) -> None:
        try:
            while self.failure is None and not self.all_over:
                self._say({"do": "beat"})
                time.sleep(BEAT)
        except Closed:
            return  # which ``_listen`` notices

    def _say(self, message: dict[str, Any]) -> None:
        """Tells the hub something, behind what is still to be said."""
        with self._writing:
            unsaid, self._unsaid = self._unsaid, []
            if unsaid:
                send(self._connection, {"do": "several", "messages": [*unsaid, message]})
            else:
                send(self._connection, message)

    def catch_up(self) -> None:
        """Tells the hub what is still to be said. Whoever waits calls this: those that nobody waits
        for are said with the next beat, as a message costs more than a small collective."""
        if self._unsaid:
            with contextlib.suppress(Closed):  # ``_listen`` notices
                self._say({"do": "beat"})

    def check(self) -> None:
        """Raises RankFailure when a rank has failed."""
        if self.failure is not None:
            raise RankFailure(self.failure.rank, str(self.failure))

    def come_to(
        self,
        group: str,
        ranks: tuple[int, ...],
        number: int,
        text: str,
        line: str,
        seconds: float | None,
        move: Callable[[], None] = _nothing,
        written: str = "",
    ) -> bool:
        """Says that this rank comes to a collective, and waits up to ``seconds`` (None: not at all)
        until all ranks of the group have, and agree; meanwhile ``move`` moves on what is under way,
        which another rank may wait for before it comes. False when they have not come. Raises
        RankFailure when they do not agree, or a rank has failed."""
        self.check()
        message = {"do": "call", "group": group, "ranks": ranks, "number": number, "text": text,
                   "line": line, "ask": seconds is not None, "written": written}  # fmt: skip
        return self._come(message, (group, number), seconds, move)

    def _come(
        self,
        message: dict[str, Any],
        wanted: tuple[str, int],
        seconds: float | None,
        move: Callable[[], None],
    ) -> bool:
        if seconds is None:
            with self._writing:
                self._unsaid.append(message)
            if len(self._unsaid) > _UNSAID:
                self.catch_up()
            return True
        try:
            self._say(message)
        except Closed as error:
            raise (self.reason(1.0) or error) from None
        end = time.monotonic() + seconds
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self.failure or wanted in self._agreed, _MOVING)
                if self.failure or wanted in self._agreed or time.monotonic() > end:
                    break
            move()
        with self._changed:
            agreed = wanted in self._agreed
            self._agreed.discard(wanted)
        self.check()
        return agreed

    def come_to_all(
        self,
        group: str,
        ranks: tuple[int, ...],
        number: int,
        calls: Sequence[tuple[str, ...]],
        key: str,
        seconds: float | None,
        move: Callable[[], None] = _nothing,
    ) -> bool:
        """As ``come_to``, for several collectives that follow each other. What they are is said
        where ``seconds`` are given; later ``key`` stands for it."""
        self.check()
        message = {"do": "calls", "group": group, "ranks": ranks, "number": number, "key": key,
                   "ask": seconds is not None}  # fmt: skip
        if seconds is not None:
            message["calls"] = calls
        return self._come(message, (group, number), seconds, move)

    def reason(self, seconds: float) -> RankFailure | None:
        """What has failed somewhere; waits for it, as it may still be on its way."""
        with self._changed:
            self._changed.wait_for(lambda: self.failure is not None, seconds)
        found = self.failure
        return None if found is None else RankFailure(found.rank, str(found))

    def fail(self, why: str) -> None:
        """Tells the others that this rank fails."""
        with contextlib.suppress(Closed):
            self._say({"do": "fail", "why": why})

    def leave(self) -> None:
        """Says that this rank has ended as it should."""
        with contextlib.suppress(Closed):
            self._say({"do": "leave"})

    def close(self) -> None:
        """Ends the connection, without a word to the others."""
        self.all_over = True
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def wait_until_over(self) -> bool:
        """After ``leave``: waits until all ranks have left. False when one has failed."""
        with self._changed:
            self._changed.wait_for(lambda: self.all_over or self.failure is not None)
        return self.failure is None
