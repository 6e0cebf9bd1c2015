"""PMI-1, by which processes of MPICH find each other: the server's side of its wire protocol.

An MPI program gets the address of such a server from ``mpiexec``. Where ranks are started by
something else (``multiprocessing``, a scheduler, by hand), the hub is that server. A process says
which rank it is, writes down under which address it can be reached, waits until all have done so
and reads the others' addresses. The protocol is described in "PMI: A Scalable Parallel
Process-Management Interface for Extreme-Scale Systems" (Balaji and others, 2010).
"""

from __future__ import annotations

import secrets
import socket
import threading

#: The longest texts in the space of keys.
_MAXES = "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024"


class Service:
    """What the processes of one program have written down.

    Attributes:
        open: how many of the processes are connected.

    Args:
        size: how many there are.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        # MPICH names memory that processes share by it: those of two programs differ.
        self._space = f"lazyt_{secrets.token_hex(8)}"
        self.open = 0
        self._values: dict[str, str] = {}
        self._arrived = threading.Condition()
        self._inside = 0
        self._rounds = 0

    def serve(self, connection: socket.socket) -> None:
        """Answers a process until it is done."""
        with self._arrived:
            self.open += 1
        try:
            self._answer(connection)
        finally:
            with self._arrived:
                self.open -= 1
                self._arrived.notify_all()

    def wait_until_closed(self) -> None:
        """Waits until no process is connected."""
        with self._arrived:
            self._arrived.wait_for(lambda: not self.open)

    def _answer(self, connection: socket.socket) -> None:
        with connection.makefile("rwb", buffering=0) as stream:
            for line in stream:
                text = line.decode(errors="replace").strip()
                reply = self._reply(text)
                if reply is None:
                    return
                stream.write("".join(item + "\n" for item in reply).encode())
                if text.startswith("cmd=finalize"):
                    return

    def _reply(self, text: str) -> list[str] | None:
        fields = dict(part.split("=", 1) for part in text.split() if "=" in part)
        command = fields.get("cmd")
        if command == "initack":
            rank = fields.get("pmiid", "0")
            return ["cmd=initack rc=0", f"cmd=set size={self._size}", f"cmd=set rank={rank}",
                    "cmd=set debug=0"]  # fmt: skip
        if command == "put":
            with self._arrived:
                self._values[fields["key"]] = text.split(" value=", 1)[-1]
            return ["cmd=put_result rc=0 msg=success"]
        if command == "get":
            found = self._values.get(fields["key"])
            if found is None:
                return ["cmd=get_result rc=-1 msg=key_not_found value=unknown"]
            return [f"cmd=get_result rc=0 msg=success value={found}"]
        if command == "barrier_in":
            self._barrier()
            return ["cmd=barrier_out rc=0"]
        fixed = {
            "init": "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
            "get_maxes": _MAXES,
            "get_appnum": "cmd=appnum appnum=0",
            "get_my_kvsname": f"cmd=my_kvsname kvsname={self._space}",
            "get_universe_size": f"cmd=universe_size size={self._size}",
            "finalize": "cmd=finalize_ack rc=0",
        }
        return [fixed[command]] if command in fixed else None

    def _barrier(self) -> None:
        with self._arrived:
            self._inside += 1
            mine = self._rounds
            if self._inside == self._size:
                self._inside = 0
                self._rounds += 1
                self._arrived.notify_all()
            else:
                self._arrived.wait_for(lambda: self._rounds > mine)
