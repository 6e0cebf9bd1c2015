"""A process that works for this one at low priority, and ends with it.

Requests and replies are lines of JSON over its standard streams; a reply may be followed by as many
bytes as its ``bytes`` says. A request whose reply nobody needs any more can be stopped. The process
leads its own process group, so that Ctrl-C at a terminal does not reach it. It ends when its
standard input does, which is when this process ends, however it does.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from typing import IO, TYPE_CHECKING, Any

from lazyt.errors import LazytError
from lazyt.runtime.cpython import forks

if TYPE_CHECKING:
    import subprocess

#: Seconds until a process that was started has to say that it is there, and to end when told to.
_STARTING, _ENDING = 120.0, 3.0


#: The line that stops a request.
STOP = b"stop\n"
#: Held while a process is started: a child that is forked then would hold on to its pipes.
_opening = forks.guarded(threading.Lock())


class ServerError(LazytError):
    """The process could not be started, or has ended in the middle of its work."""


class Server:
    """The process, started with the first request.

    Args:
        module: a module of the package whose ``main()`` serves; it says ``{"ready": true}`` first.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._unread = b""
        self._writing = forks.guarded(threading.Lock())

    @staticmethod
    def is_possible() -> bool:
        """Whether this Python can be started again: there is a program that is Python alone."""
        return bool(sys.executable) and not getattr(sys, "frozen", False)

    @property
    def pid(self) -> int:
        """The number of the process, 0 for none."""
        return 0 if self._process is None else self._process.pid

    def ask(self, request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """The reply to a request, and the bytes behind it; waits for it.

        Raises ServerError; the next request then starts another process.
        """
        if self._process is None:
            self._start()
        process = self._process
        if process is None:
            raise ServerError("the process was ended while it was started")
        assert process.stdin is not None
        try:
            data = memoryview(json.dumps(request).encode() + b"\n")
            with self._writing:
                while data:
                    data = data[process.stdin.write(data) or 0 :]
            return self._reply(process)
        except (OSError, ValueError) as error:  # a broken pipe, or one that was closed meanwhile
            raise self._failed(str(error)) from None

    def stop(self) -> None:
        """Tells the process that the request it works on need not be answered well: from another
        thread than that which waits for the reply."""
        process = self._process
        if process is not None and process.stdin is not None:
            with self._writing, contextlib.suppress(OSError, ValueError):  # it has ended
                process.stdin.write(STOP)

    def close(self) -> None:
        """Ends the process, whatever it does; it removes what it has not finished."""
        import subprocess

        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(OSError):
            assert process.stdin is not None
            process.stdin.close()
        try:
            process.wait(_ENDING)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._let_go(process)

    def forget(self) -> None:
        """In a child of this process, which must not talk to its parent's server."""
        process, self._process = self._process, None
        if process is not None:
            process.returncode = 0  # not this process's to wait for
            with contextlib.suppress(OSError):
                assert process.stdin is not None
                process.stdin.close()
            self._let_go(process)

    def _let_go(self, process: subprocess.Popen[bytes] | None) -> None:
        for stream in (None if process is None else process.stdout, self._errors):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self._errors, self._unread = None, b""

    def _start(self) -> None:
        import subprocess
        import tempfile

        paths = [os.path.abspath(path) for path in sys.path]
        text = f"import sys; sys.path[:] = {paths!r}; from {self._module} import main; main()"
        # -P: no module of the current folder may take the place of Python's own.
        command = [sys.executable, "-P", "-c", text]
        try:
            with _opening:
                self._errors = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (``_let_go``)
                self._process = process = subprocess.Popen(
                    command,
                    bufsize=0,  # buffers have locks, which a thread may hold when another forks
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._errors,
                    env={**os.environ, "LAZYT_TIER": "1", "LAZYT_PROGRESS": "0"},
                    # Not a session: Linux shares the cores out among these first, and a low
                    # priority counts for nothing beside processes of another one.
                    process_group=0,
                )
            reply, _ = self._reply(process, _STARTING)
        except OSError as error:
            raise self._failed(str(error)) from None
        if reply.get("ready") is not True:
            raise self._failed(f"it said {reply}")

    def _reply(
        self, process: subprocess.Popen[bytes], seconds: float | None = None
    ) -> tuple[dict[str, Any], bytes]:
        assert process.stdout is not None
        if seconds is not None:
            import select

            if not select.select([process.stdout], [], [], seconds)[0]:
                raise self._failed(f"it said nothing for {seconds:.0f} s")
        while b"\n" not in self._unread:
            self._read(process.stdout)
        line, _, self._unread = self._unread.partition(b"\n")
        reply: dict[str, Any] = json.loads(line)
        size = int(reply.get("bytes", 0))
        while len(self._unread) < size:
            self._read(process.stdout)
        data, self._unread = self._unread[:size], self._unread[size:]
        return reply, data

    def _read(self, stream: IO[bytes]) -> None:
        """Reads some more; raises ServerError at the end."""
        data = stream.read(1 << 20)
        if not data:
            raise self._failed("")
        self._unread += data

    def _failed(self, reason: str) -> ServerError:
        """What to raise; the process is ended."""
        process, errors = self._process, self._errors
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()
        said = ""
        if errors is not None:
            with contextlib.suppress(OSError, ValueError):
                errors.seek(0)
                said = errors.read().decode(errors="replace").strip()
        facts = [reason] if reason else []
        if process is not None:
            facts.append(f"it ended with status {process.returncode}")
            with contextlib.suppress(OSError):
                assert process.stdin is not None
                process.stdin.close()
        self._let_go(process)
        self._process = None
        facts += said.splitlines()[-1:]
        return ServerError(f"the compile server does not work: {'; '.join(facts)}")
