"""Launchers of several machines meet: how many there are, and which ranks each of them starts.

One of them listens, the first that can at the address that all were given; it is one of the
machines, too. A *round* begins when as many have come as there may be, or, after some patience,
when enough have. It ends when all ranks of all machines have ended as they should, when one fails,
when a machine is gone, or when one more has come and may take part. After the last three, those
that are left come to the next round, and the ranks begin anew from their last checkpoint.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Any, NamedTuple

from lazyt.errors import DistributedError
from lazyt.runtime.ranks.member import connect
from lazyt.runtime.ranks.messages import Closed, receive, send

#: Seconds between two looks whether a round can begin.
_LOOK = 0.05
#: Seconds without a word after which the system counts a machine as gone.
_SILENCE = 10


class Terms(NamedTuple):
    """What a run needs.

    Attributes:
        least, most: how many machines take part.
        last_call: seconds that a round waits for more when enough have come.
        patience: seconds until enough have to be there.
        restarts: how many rounds may follow a failure.
    """

    least: int
    most: int
    last_call: float = 30.0
    patience: float = 600.0
    restarts: int = 0


class Round(NamedTuple):
    """One start of all ranks, as a machine is told.

    Attributes:
        number: how many failures there were before.
        node, nodes: the number of this machine, and how many there are.
        first, total: the number of its first rank, and how many ranks there are.
        address, port: where the first rank listens.
    """

    number: int
    node: int
    nodes: int
    first: int
    total: int
    address: str
    port: int


class _Machine:
    """A launcher that has come, as the one that listens knows it.

    Attributes:
        connection: to it.
        count, port: its ranks, and a port that is free there.
        listens: whether it is the one that listens.
        is_done: whether its ranks have ended as they should.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.count = self.port = 0
        self.listens = self.is_done = False

    def tell(self, **message: Any) -> None:
        """Writes to it; whether it is gone shows when it is read."""
        with contextlib.suppress(Closed):
            send(self.connection, message)


class Listener:
    """What the launchers come to, in threads of one of them, until ``close``.

    Args:
        host, port: where it listens.
        terms: what a run needs.

    Raises OSError where it cannot listen there.
    """

    def __init__(self, host: str, port: int, terms: Terms) -> None:
        self._server = socket.create_server((host, port), backlog=64)
        self.host, self.terms = host, terms
        self._changed = threading.Condition()
        self._waiting: list[_Machine] = []
        self._running: list[_Machine] = []
        self._failures = 0
        self._expected = terms.most  # so many machines may still come to the next round
        self._is_over = self._is_ending = False
        self._since = self._last = time.monotonic()
        for work in (self._accept, self._watch):
            threading.Thread(target=work, daemon=True, name="lazyt-machines").start()

    def close(self) -> None:
        """Lets go of all machines."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return  # it is closed
            keep_alive(connection)
            machine = _Machine(connection)
            threading.Thread(target=self._serve, args=(machine,), daemon=True).start()

    def _serve(self, machine: _Machine) -> None:
        try:
            while True:
                message, _ = receive(machine.connection)
                with self._changed:
                    self._hear(machine, message)
                    self._changed.notify_all()
        except Closed:
            with self._changed:
                if machine in self._waiting:
                    self._waiting.remove(machine)
                if machine in self._running:
                    self._running.remove(machine)
                    self._expected -= 1
                    if not machine.is_done:
                        self._fail("a machine is gone")
                self._changed.notify_all()
        finally:
            machine.connection.close()

    def _hear(self, machine: _Machine, message: dict[str, Any]) -> None:
        if message["do"] == "come":
            machine.count, machine.port = int(message["count"]), int(message["port"])
            machine.listens, machine.is_done = bool(message["listens"]), False
            if machine in self._running:
                self._running.remove(machine)
            self._waiting.append(machine)
            self._last = time.monotonic()
            if not self._running:
                return
            alive = len(self._running) + len(self._waiting)
            everybody_works = not any(other.is_done for other in self._running)
            if alive <= self.terms.most and everybody_works and not self._is_ending:
                self._expected = alive
                self._end("one more machine has come")
        elif message["do"] == "fail" and machine in self._running:
            self._fail(str(message["why"]), machine)
        elif message["do"] == "done" and machine in self._running:
            machine.is_done = True
            if all(other.is_done for other in self._running):
                for other in [*self._running, *self._waiting]:
                    other.tell(tell="over")
                self._is_over = True

    def _fail(self, why: str, machine: _Machine | None = None) -> None:
        """A machine is gone, or a rank has failed on one, which has ended its ranks."""
        if self._is_ending:
            return
        self._failures += 1
        finished = any(other.is_done for other in self._running)
        if self._failures > self.terms.restarts or finished:
            for other in [*self._running, *self._waiting]:
                other.tell(tell="failed", why=why)
            self._is_over = True
        else:
            self._end(why)

    def _end(self, why: str) -> None:
        self._is_ending = True
        self._since = time.monotonic()
        for other in self._running:
            other.tell(tell="again", why=why)

    def _watch(self) -> None:
        """Begins rounds."""
        with self._changed:
            while not self._is_over:
                now = time.monotonic()
                count = len(self._waiting)
                if not self._running and count:
                    quiet = now - self._last >= self.terms.last_call
                    if count >= self.terms.least and (count >= self._expected or quiet):
                        self._begin()
                    elif now - self._since > self.terms.patience:
                        why = f"{count} machines have come, and there have to be {self.terms.least}"
                        for machine in self._waiting:
                            machine.tell(tell="failed", why=why)
                        self._is_over = True
                self._changed.wait(_LOOK)

    def _begin(self) -> None:
        chosen = self._waiting[: self.terms.most]
        # The machine that listens is the first, as the others know its address.
        chosen.sort(key=lambda machine: not machine.listens)
        self._waiting = [machine for machine in self._waiting if machine not in chosen]
        self._running, self._is_ending, self._expected = chosen, False, len(chosen)
        total, first = sum(machine.count for machine in chosen), 0
        for node, machine in enumerate(chosen):
            machine.tell(
                tell="begin", number=self._failures, node=node, nodes=len(chosen), first=first,
                total=total, address=self.host, port=chosen[0].port,
            )  # fmt: skip
            first += machine.count


def keep_alive(connection: socket.socket) -> None:
    """Has the system look whether the other machine is still there."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    settings = {"TCP_KEEPIDLE": _SILENCE // 2, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3}
    for name, value in settings.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class Meeting:
    """A launcher's connection to the one that listens, which it may be itself.

    Args:
        address: where all launchers of a run meet.
        terms: what the run needs; those of the launcher that listens count.

    Raises DistributedError when nobody listens there and this machine cannot.
    """

    def __init__(self, address: tuple[str, int], terms: Terms) -> None:
        self._listener: Listener | None = None
        with contextlib.suppress(OSError):  # another launcher listens, or another machine has it
            self._listener = Listener(*address, terms)
        self._connection = connect(address, terms.patience)
        keep_alive(self._connection)
        self._told: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        threading.Thread(target=self._listen, daemon=True, name="lazyt-machines").start()

    def _listen(self) -> None:
        try:
            while True:
                message, _ = receive(self._connection)
                with self._changed:
                    self._told.append(message)
                    self._changed.notify_all()
        except Closed:
            with self._changed:
                self._told.append({"tell": "failed", "why": "the launcher that listens is gone"})
                self._changed.notify_all()

    def come(self, count: int, port: int) -> Round | None:
        """Comes to the next round, with so many ranks and a free port, and waits until it begins.
        None where the run is over without this machine. Raises DistributedError where it has failed
        for good."""
        with contextlib.suppress(Closed):  # ``_listen`` notices
            listens = self._listener is not None
            words = {"do": "come", "count": count, "port": port, "listens": listens}
            send(self._connection, words)
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._told)
                message = self._told.pop(0)
                if message["tell"] == "begin":
                    return Round(*[message[name] for name in Round._fields])
                if message["tell"] == "over":
                    return None
                if message["tell"] == "failed":
                    raise DistributedError(str(message["why"]))

    def news(self) -> str:
        """Why this machine's ranks should end, where they should; empty otherwise."""
        with self._changed:
            return str(self._told[0].get("why", "")) if self._told else ""

    def fail(self, why: str) -> None:
        """A rank of this machine has failed, and the others of it have ended."""
        with contextlib.suppress(Closed):
            send(self._connection, {"do": "fail", "why": why})

    def finish(self) -> str:
        """The ranks of this machine have ended as they should. Waits for the other machines; why
        they begin again or have failed, if they do."""
        with contextlib.suppress(Closed):
            send(self._connection, {"do": "done"})
        with self._changed:
            self._changed.wait_for(lambda: self._told)
            message = self._told[0]
            return "" if message["tell"] == "over" else str(message.get("why", ""))

    def close(self) -> None:
        """Ends the connection, and what listens."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()
        if self._listener is not None:
            self._listener.close()
