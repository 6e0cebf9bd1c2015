"""The hub: one server for all ranks of a program, in a process beside rank 0.

It moves no tensors. It knows who has joined and is alive (a rank sends a beat every second), keeps
what ranks store for each other, compares the collectives that they come to, and tells everybody
when something fails, so that nobody waits for a rank that will not come. MPICH's processes find
each other through it, too, where no ``mpiexec`` has started them: it speaks the wire protocol of
PMI-1 on the same port (``pmi.py``).

It is a process, because a rank cannot answer while it waits inside of MPI, and because somebody has
to tell the others when rank 0 ends. It ends when all ranks have.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lazyt.errors import DistributedError
from lazyt.runtime.ranks import pmi
from lazyt.runtime.ranks.messages import Closed, receive, send

#: How often ranks send a beat, and the hub looks for those that are missing, in seconds.
BEAT = 1.0


@dataclass
class _Rank:
    """One rank that has joined.

    Attributes:
        connection: where the hub tells it what happens.
        lock: held while something is written to it.
        beat: when it was heard of last.
        who: its host and process.
        over: it has ended as it should.
        gone: its connection is closed.
    """

    connection: socket.socket
    who: str
    lock: threading.Lock = field(default_factory=threading.Lock)
    beat: float = field(default_factory=time.monotonic)
    over: bool = False
    gone: bool = False


class _Described(NamedTuple):
    """A collective, as a rank describes it.

    Attributes:
        text: what has to be the same on all ranks.
        line: where the program calls it.
        written: what it calls there, for messages.
    """

    text: str
    line: str
    written: str = ""

    def __str__(self) -> str:
        return f"{self.written or self.text} at {self.line}"


@dataclass
class _Call:
    """One collective of a group, as the ranks that have come to it describe it.

    Attributes:
        texts: by rank, what it calls and where.
        asking: ranks that wait to hear that all agree, with the collectives of a captured function
            that they come to from this one on.
    """

    texts: dict[int, _Described] = field(default_factory=dict)
    asking: dict[int, list[_Described]] = field(default_factory=dict)


@dataclass
class _Group:
    """The collectives of a group of ranks.

    Attributes:
        ranks: its members.
        open: calls that some have come to and others have not, by number.
        counts: by rank, how many it has come to.
    """

    ranks: tuple[int, ...]
    open: dict[int, _Call] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)


class Hub:
    """The server. It runs in threads of this process until ``close``.

    Args:
        size: how many ranks there will be.
        host, port: where it listens; port 0 is any free one.
        patience: seconds without a beat after which a rank counts as stopped.

    Raises DistributedError when the port cannot be used.
    """

    def __init__(
        self, size: int, host: str = "127.0.0.1", port: int = 0, patience: float = 30.0
    ) -> None:
        self.size = size
        self._patience = patience
        self._ranks: dict[int, _Rank] = {}
        self._groups: dict[str, _Group] = {}
        self._lists: dict[tuple[str, int, str], list[_Described]] = {}
        self._failure: dict[str, Any] | None = None
        self._values: dict[str, bytes] = {}
        self._changed = threading.Condition()
        self._closed = False
        self.pmi = pmi.Service(size)
        try:
            self._server = socket.create_server((host, port), backlog=max(size, 64))
        except OSError as error:
            raise DistributedError(
                f"rank 0 cannot listen at {host}:{port} ({error.strerror}): another program may "
                "use the port; choose another MASTER_PORT"
            ) from None
        self.address = (host, self._server.getsockname()[1])
        for work in (self._accept, self._watch):
            threading.Thread(target=work, daemon=True, name="lazyt-hub").start()

    def close(self) -> None:
        """Stops listening, and lets go of all ranks."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for rank in list(self._ranks.values()):
            with contextlib.suppress(OSError):
                rank.connection.shutdown(socket.SHUT_RDWR)

    def wait_until_left(self, seconds: float) -> None:
        """Waits until all ranks that have joined are gone; ``seconds`` for the first to join. After
        a failure some may be stopped for good: it does not wait for these for long."""

        def all_gone() -> bool:
            return all(rank.gone for rank in self._ranks.values())

        with self._changed:
            self._changed.wait_for(lambda: self._ranks, seconds)
            self._changed.wait_for(lambda: self._failure is not None or all_gone())
            self._changed.wait_for(all_gone, _AFTER_FAILURE)

    # ------------------------------------------------------------------ connections

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:  # closed
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(
                target=self._serve, args=(connection,), daemon=True, name="lazyt-hub-rank"
            ).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                if connection.recv(4, socket.MSG_PEEK) == b"cmd=":
                    self.pmi.serve(connection)
                    return
                first, _ = receive(connection)
                if first.get("do") == "join":
                    self._member(connection, first)
                else:
                    self._client(connection, first)
            except (Closed, OSError):
                return

    def _client(self, connection: socket.socket, message: dict[str, Any]) -> None:
        """Answers requests, one after the other."""
        body = b""
        if message.get("do") != "hello":
            send(connection, *self._answer(message, body))
        while True:
            message, body = receive(connection)
            send(connection, *self._answer(message, body))

    def _member(self, connection: socket.socket, first: dict[str, Any]) -> None:
        """Listens to a rank until it ends."""
        number = int(first["rank"])
        rank = _Rank(connection, str(first.get("who", "")))
        with self._changed:
            other = self._ranks.get(number)
            taken = other is not None and not other.over
            if not taken:
                self._ranks[number] = rank
                self._changed.notify_all()
        if taken or not 0 <= number < self.size:
            send(connection, {"tell": "refused", "why": _refused(number, self)})
            return
        send(connection, {"tell": "joined"})
        if self._failure is not None:
            self._tell(rank, self._failure)
        try:
            while True:
                message, _ = receive(connection)
                rank.beat = time.monotonic()
                self._heard(number, rank, message)
        except Closed:
            if not rank.over and not self._closed:
                self.fail(number, f"its process has ended ({rank.who})")
            with self._changed:
                rank.gone = True
                self._changed.notify_all()

    def _heard(self, number: int, rank: _Rank, message: dict[str, Any]) -> None:
        what = message.get("do")
        if what == "several":
            for item in message["messages"]:
                self._heard(number, rank, item)
        elif what == "call":
            text, line = str(message["text"]), str(message["line"])
            self._call(number, message, [_Described(text, line, str(message["written"]))])
        elif what == "calls":
            known = str(message["group"]), number, str(message["key"])
            if "calls" in message:
                self._lists[known] = [_Described(*map(str, call)) for call in message["calls"]]
            self._call(number, message, self._lists[known])
        elif what == "leave":
            with self._changed:
                rank.over = True
                self._changed.notify_all()
            self._look_for_missing()
            for other in list(self._ranks.values()):
                self._tell(other, {"tell": "left", "rank": number})
            if len(self._ranks) == self.size and all(r.over for r in self._ranks.values()):
                for other in list(self._ranks.values()):
                    self._tell(other, {"tell": "over"})
        elif what == "fail":
            self.fail(number, str(message["why"]))

    def _tell(self, rank: _Rank, message: dict[str, Any]) -> None:
        with contextlib.suppress(Closed), rank.lock:
            send(rank.connection, message)

    # ------------------------------------------------------------------ failures

    def fail(self, rank: int, why: str) -> None:
        """Tells everybody that a rank has failed, and why; only the first failure counts."""
        self._end(rank, f"rank {rank} has failed: {why}")

    def _end(self, rank: int, why: str) -> None:
        with self._changed:
            if self._failure is not None:
                return
            self._failure = {"tell": "failure", "rank": rank, "why": why}
            self._changed.notify_all()
        for other in list(self._ranks.values()):  # those that have ended wait for the others
            self._tell(other, self._failure)

    def _watch(self) -> None:
        while not self._closed and self._failure is None:
            time.sleep(BEAT / 2)
            now = time.monotonic()
            for number, rank in list(self._ranks.items()):
                if not rank.over and now - rank.beat > self._patience:
                    self.fail(
                        number,
                        f"it has not been heard of for {self._patience:.0f} s: it is stopped, or "
                        f"its machine is gone ({rank.who})",
                    )

    # ------------------------------------------------------------------ collectives

    def _call(self, number: int, message: dict[str, Any], calls: Sequence[_Described]) -> None:
        """Notes that a rank comes to the next collectives of a group, and compares."""
        name, first = str(message["group"]), int(message["number"])
        wrong, agreed = None, []
        with self._changed:
            group = self._groups.get(name)
            if group is None:
                ranks = tuple(int(n) for n in message["ranks"])
                group = self._groups[name] = _Group(ranks)
            for count, described in enumerate(calls, first):
                call = group.open.setdefault(count, _Call())
                call.texts[number] = described
                if message.get("ask") and count == first:
                    call.asking[number] = list(calls) if "key" in message else []
                wrong = wrong or _difference(name, count, call) or _lengths(name, count, call)
                if len(call.texts) == len(group.ranks):
                    agreed += [(other, count) for other in call.asking]
                    del group.open[count]
            group.counts[number] = first + len(calls)
        if wrong is not None:
            self._end(*wrong)
            return
        for other, count in agreed:
            self._tell(self._ranks[other], {"tell": "agreed", "group": name, "number": count})
        self._look_for_missing()

    def _look_for_missing(self) -> None:
        """Fails when a rank has ended that others wait for: it has done nothing wrong, and nobody
        can go on."""
        with self._changed:
            open_calls = [
                (name, count, call, rank)
                for name, group in self._groups.items()
                for count, call in group.open.items()
                for rank in group.ranks
                if rank not in call.texts
            ]
        for name, count, call, rank in open_calls:
            known = self._ranks.get(rank)
            if known is not None and known.over:
                other, described = next(iter(call.texts.items()))
                self._end(
                    rank,
                    f"rank {rank} has ended, without an error, and rank {other} waits for it in "
                    f"collective {count} of group {name!r}, {described}",
                )

    def missing(self, name: str, count: int) -> list[int]:
        """The ranks that have not come to a collective of a group."""
        with self._changed:
            group = self._groups.get(name)
            if group is None:
                return []
            return [n for n in group.ranks if group.counts.get(n, 0) <= count]

    # ------------------------------------------------------------------ values

    def _answer(self, message: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
        what, key = message.get("do"), str(message.get("key", ""))
        if what == "set":
            return self._set(key, body), b""
        if what == "get":
            return self._get([key], message.get("seconds"))
        if what == "take":
            with self._changed:
                value = self._values.pop(key, None)
            return {"found": value is not None}, value or b""
        if what == "wait":
            return self._get([str(k) for k in message["keys"]], message.get("seconds"))[0], b""
        if what == "add":
            return self._add(key, int(message["amount"])), b""
        if what == "compare":
            return self._compare(key, body, int(message["split"]))
        if what == "missing":
            return {"ranks": self.missing(str(message["group"]), int(message["number"]))}, b""
        with self._changed:
            if what == "check":
                return {"found": all(k in self._values for k in message["keys"])}, b""
            if what == "delete":
                return {"found": self._values.pop(key, None) is not None}, b""
            if what == "count":
                return {"count": len(self._values)}, b""
        return {"error": f"the hub knows no request {what!r}"}, b""

    def _set(self, key: str, body: bytes) -> dict[str, Any]:
        with self._changed:
            self._values[key] = body
            self._changed.notify_all()
        return {}

    def _get(self, keys: list[str], seconds: float | None) -> tuple[dict[str, Any], bytes]:
        """The value of the last of the keys, once all are there."""
        with self._changed:
            there = self._changed.wait_for(
                lambda: self._closed or self._failure or all(k in self._values for k in keys),
                seconds,
            )
            if all(k in self._values for k in keys):
                return {}, self._values[keys[-1]]
            missing = next(k for k in keys if k not in self._values)
            if there:
                return {"error": f"nobody will set {missing!r}: a rank has failed"}, b""
        return {"error": f"wait timeout after {seconds} s for the key {missing!r}"}, b""

    def _add(self, key: str, amount: int) -> dict[str, Any]:
        with self._changed:
            try:
                total = int(self._values.get(key, b"0")) + amount
            except ValueError:
                return {"error": f"the value of {key!r} is not a number"}
            self._values[key] = str(total).encode()
            self._changed.notify_all()
        return {"total": total}

    def _compare(self, key: str, body: bytes, split: int) -> tuple[dict[str, Any], bytes]:
        expected, desired = body[:split], body[split:]
        with self._changed:
            found = self._values.get(key)
            if found == expected or (found is None and not expected):
                self._values[key] = found = desired
                self._changed.notify_all()
        return {}, expected if found is None else found


def _difference(name: str, count: int, call: _Call) -> tuple[int, str] | None:
    """The rank that came to another collective than the others, and what is said of it."""
    (first, mine), *others = sorted(call.texts.items())
    for rank, other in others:
        if other.text != mine.text:
            if mine.written == other.written:  # what moves for it is not
                mine, other = (d._replace(written="") for d in (mine, other))
            return rank, (
                f"ranks {first} and {rank} do not call the same: collective {count} of group "
                f"{name!r} is {mine} on rank {first}, and {other} on rank {rank}"
            )
    return None


def _lengths(name: str, count: int, call: _Call) -> tuple[int, str] | None:
    """The same where captured functions, which ranks run for the first time, have other numbers of
    collectives."""
    several = {rank: calls for rank, calls in sorted(call.asking.items()) if calls}
    if len(several) < 2:
        return None
    first, *others = several
    for rank in others:
        less, more = sorted((first, rank), key=lambda r: len(several[r]))
        end = len(several[less])
        if end < len(several[more]):
            return rank, (
                f"ranks {first} and {rank} do not call the same: collective {count + end} of group "
                f"{name!r} is {several[more][end]} on rank {more}, and the captured function of "
                f"rank {less} ends with the one before, at {several[less][-1].line}"
            )
    return None


def _refused(number: int, hub: Hub) -> str:
    if not 0 <= number < hub.size:
        return f"there are {hub.size} ranks, and none has the number {number}"
    return f"there is a rank {number} already ({hub._ranks[number].who})"


#: Seconds in which somebody has to join, and in which ranks hear of a failure.
_JOINING, _AFTER_FAILURE = 600.0, 30.0


def start(size: int, host: str, port: int, patience: float) -> int:
    """Starts a hub in a process; the port where it listens. Raises DistributedError."""
    import subprocess

    command = [
        sys.executable,
        "-m",
        "lazyt.runtime.ranks.hub",
        str(size),
        host,
        str(port),
        str(patience),
    ]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # it must not hold on to a terminal or a pipe of this process
        start_new_session=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline().decode().strip()
    process.stdout.close()
    if not line.isdecimal():
        raise DistributedError(line or "the process of the hub has ended")
    process.returncode = 0  # it outlives this process
    return int(line)


def main(arguments: Sequence[str]) -> int:
    """The process: size, host, port and patience. Says where it listens, or what is wrong."""
    size, host, port, patience = arguments
    try:
        hub = Hub(int(size), host, int(port), float(patience))
    except DistributedError as error:
        print(error, flush=True)
        return 1
    print(hub.address[1], flush=True)
    os.close(1)  # whoever reads it waits for no more
    hub.wait_until_left(_JOINING)
    hub.pmi.wait_until_closed()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
