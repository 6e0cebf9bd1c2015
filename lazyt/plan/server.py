"""The process that compiles plans for another one, which runs generic kernels meanwhile.

It gets a graph as text with the settings that its plan depends on, makes its program and has it
compiled as any process would, one compiler at a time and at low priority, and leaves both in the
disk cache; where that cannot be written, it hands them back. Kernels for any shape, which nobody
waits for, are compiled on cores that are idle. ``plan/tiers.py`` asks, and
``runtime/cpu/servers.py`` has the process.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import IO, Any

from lazyt import extensions
from lazyt.config import config
from lazyt.errors import LazytError
from lazyt.ir.graph import record_source
from lazyt.ir.source_lines import Source
from lazyt.plan.build import Subject
from lazyt.runtime import cache, winners
from lazyt.runtime.cpu import compile, execute
from lazyt.runtime.cpu.objects import Objects
from lazyt.runtime.cpu.servers import STOP

#: Its priority, unless it was lower already, and the seconds that it has to end in. Of a core that
#: somebody computes on all the time it gets a twentieth.
_NICE, _ENDING = 12, 2.0
#: Set when what nobody waits for is to be left.
_stopped = threading.Event()


def main() -> None:
    """Serves until standard input ends."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints has to stay out of the replies
    with contextlib.suppress(OSError):
        os.nice(max(0, _NICE - os.nice(0)))
    compile.at_once = 1
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, requests), daemon=True).start()
    _send(replies, {"ready": True}, b"")
    while True:
        request = json.loads(requests.get())
        _stopped.clear()
        try:
            with _as_there(request):
                reply, data = _kernels(request) if "kernels" in request else compile_plan(request)
        except LazytError as error:
            reply, data = {"error": str(error)}, b""
        except Exception as error:  # whatever it is, it must reach the process that asked
            reply, data = {"error": f"{type(error).__name__}: {error}"}, b""
        _send(replies, reply, data)


def _leave(number: int, frame: FrameType | None) -> None:
    """Ends in order: compilers are stopped and what they work in is removed on the way out."""
    raise SystemExit


def _listen(stream: IO[bytes], requests: queue.SimpleQueue[bytes]) -> None:
    """Hands requests on; ends the process when there can be no more."""
    for line in stream:
        if line == STOP:
            _stopped.set()
        else:
            requests.put(line)
    main_thread = threading.main_thread().ident
    assert main_thread is not None
    signal.pthread_kill(main_thread, signal.SIGTERM)
    time.sleep(_ENDING)
    os._exit(1)


def _send(stream: IO[bytes], reply: dict[str, Any], data: bytes) -> None:
    stream.write(json.dumps({**reply, "bytes": len(data)}).encode() + b"\n" + data)
    stream.flush()


@contextlib.contextmanager
def _as_there(request: dict[str, Any]) -> Iterator[None]:
    """A block with the settings and the environment of the process that asks."""
    for name, value in request["environment"].items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    with config.override(**request["settings"]):
        yield


def _kernels(request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Compiles a part of the kernels for any shape well; tells whether they are all there now."""
    from lazyt.plan import generic

    compile.is_idle = True
    try:
        return {"done": generic.compile_well(request["kernels"], _stopped.is_set)}, b""
    finally:
        compile.is_idle = False


def compile_plan(request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """What there is to say of a plan that was compiled, and its binary where it is not on disk.

    Args:
        request: as ``Request.message`` in ``plan/tiers.py`` makes it.

    Raises LazytError.
    """
    record_source(config.provenance)
    for path in request["files"]:
        extensions.load(path)
    with extensions.put_aside():  # graphs that more is in force for are not compiled here
        return _of_subject(request)


def _of_subject(request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    subject = _subject(request)
    if subject.key != request["key"]:
        winners.known.tables.clear()  # tuned since they were read
        winners.known.digest = None
        if subject.key != request["key"]:
            raise LazytError(
                "the compile server would make another plan: the package's files, or what this "
                "machine shows of itself, have changed since the program was started"
            )
    return _compiled(subject, request)


def _compiled(subject: Subject, request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    begun, started = time.perf_counter(), compile.started
    reason, where = request["reason"], request["where"]
    with cache.only_once(request["key"], "plan"), Objects() as objects:
        if request["own"]:
            program = subject.own_program(objects)
        else:
            program, reason = subject.program(reason, objects)
        binary = execute.build(program, reason, where, objects) if program.launches else None
    facts: dict[str, Any] = {
        "reason": reason,
        "kernels": len(program.kernels),
        "seconds": round(time.perf_counter() - begun, 4),
        "compiled": compile.started > started,
        "hashes": (program.fingerprint(), program.text_hash()),
    }
    if binary is not None or cache.get_text("plan", request["key"]) is None:
        facts["program"] = subject.written(program)
        if binary is None and program.launches:
            binary = _binary_of(program)
    return facts, binary or b""


def _binary_of(program: Any) -> bytes:
    """The binary of a program whose text the disk cache does not keep, though it has the binary."""
    return compile.build(program, compile.find(), program.text_hash()[:40])


def _subject(request: dict[str, Any]) -> Subject:
    """The graph of a request, whose nodes have the positions in the program that they had there."""
    donated = tuple([(int(place), int(root)) for place, root in request["donated"]])
    positions = [_position(text) for text in request["positions"]]
    sources = [positions[number] if number >= 0 else None for number in request["sources"]]
    return Subject.of_text(request["graph"], request["order"], sources, donated)


def _position(text: str) -> Source:
    """A position that is written as this ``file:line``."""
    name, _, line = text.rpartition(":")
    code = _leave.__code__.replace(co_filename=name, co_firstlineno=int(line))
    return code, -1
