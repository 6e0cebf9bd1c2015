"""Loading compiled Programs and running them.

``load`` looks in this process, then in the disk cache, and compiles last. ``Executable.run`` is
on the path of every step of a training loop: it packs the pointers and makes one foreign call,
during which other Python threads run.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import threading
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from threading import get_ident
from typing import TYPE_CHECKING, Any

from lazyt.config import config
from lazyt.errors import CompileError, InternalError
from lazyt.ir.program import Program
from lazyt.runtime import cache, compile, devices, events, regions
from lazyt.runtime.memory import Buffer
from lazyt.runtime.threads import team

if TYPE_CHECKING:
    from lazyt.runtime.objects import Objects

#: A plan's function: takes packed pointers, or the address of some, and a number of threads.
Entry = Callable[[bytes | int, int], object]


class Executable:
    """A Program that is loaded and can run, from any number of threads at once.

    Attributes:
        program: what it was made from.
        inputs: number of input buffers.
        outputs: number of output buffers.
        entry: the foreign function; it takes the slots' pointers and a number of threads.
        places: where each slot's pointer stands in (inputs, outputs, arena pointers).
        scratch: offsets of the arena pointers.
        serial: whether no kernel starts threads.
    """

    __slots__ = (
        "_arena", "_order", "_pack", "entry", "inputs", "outputs", "places", "program", "scratch",
        "serial",
    )  # fmt: skip

    def __init__(self, program: Program, entry: Entry) -> None:
        self.program = program
        self.inputs = _count(program, "input")
        self.outputs = _count(program, "output")
        self.entry = entry
        self._arena = program.arena_bytes
        self.scratch: list[int] = []
        self.places = [self._place(slot.kind, slot.index, slot.offset) for slot in program.slots]
        self.serial = not regions.starts_threads(program)
        self._order = _picker(self.places)
        self._pack = struct.Struct(f"{len(self.places)}P").pack

    def _place(self, kind: str, index: int, offset: int) -> int:
        """Where a slot's pointer stands in (inputs, outputs, arena pointers)."""
        if kind == "input":
            return index
        if kind == "output":
            return self.inputs + index
        if kind != "arena":
            raise InternalError("execute", f"a slot of unknown kind {kind!r}")
        self.scratch.append(offset)
        return self.inputs + self.outputs + len(self.scratch) - 1

    def run(self, inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> None:
        """Run all launches; returns when they are done.

        Args:
            inputs: one buffer per input of the plan, each at least as large as its slot.
            outputs: one buffer per output, which may be an input's where the slot names a donor.

        Raises:
            InternalError: the number of buffers is wrong or, under ``config.verify``, a size.
            OutOfMemoryError: there is no memory for the scratch arena.
        """
        if len(inputs) != self.inputs or len(outputs) != self.outputs or config.verify:
            self._check(inputs, outputs)
        pointers = [buffer.ptr for buffer in inputs]
        pointers += [buffer.ptr for buffer in outputs]
        if self._arena:
            arena = Buffer(self._arena)
            start = arena.ptr
            pointers += [start + offset for offset in self.scratch]
        self.launch(self._pack(*self._order(pointers)))

    def launch(self, slots: bytes | int) -> None:
        """Run all launches on these slots, packed pointers or the address of some.

        One thread runs where no kernel wants more, and where another Python thread's are running.
        """
        count = 1 if self.serial else team.count()
        if count == 1:
            self.entry(slots, 1)
            return
        me, turn = get_ident(), team.turn
        if turn[1] not in (0, me):
            self.entry(slots, 1)
            return
        try:
            turn[1] = me
            turn[2] = 1
            self.entry(slots, count)
        finally:
            turn[1] = 0

    def bound(self, slots: int) -> Callable[[], object]:
        """``launch`` on the slots at this address, as a function that takes less time to call.

        Other Python threads do not run meanwhile where no kernel starts threads.
        """
        from lazyt.runtime import direct

        if not direct.available():
            return (
                partial(held(self.entry), slots, 1) if self.serial else partial(self.launch, slots)
            )
        team.take_count()
        turn = 0 if self.serial else ctypes.addressof(team.turn)
        return direct.running(address_of(self.entry), slots, turn)

    def _check(self, inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> None:
        given = {"input": inputs, "output": outputs}
        for kind, count in (("input", self.inputs), ("output", self.outputs)):
            if len(given[kind]) != count:
                raise InternalError(
                    "execute", f"{len(given[kind])} {kind} buffers for a plan with {count}"
                )
        for slot in self.program.slots:
            if slot.kind == "arena":
                fits = slot.offset + slot.nbytes <= self._arena
            else:
                fits = given[slot.kind][slot.index].nbytes >= slot.nbytes
            if not fits:
                raise InternalError("execute", f"a buffer is smaller than its slot {slot}")


def held(entry: Entry) -> Callable[[int, int], object]:
    """The foreign function taking an address, called without letting other Python threads run:
    for work so short that handing over would take longer."""
    found: Any = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)
    made: Callable[[int, int], object] = found(address_of(entry))
    return made


def address_of(entry: Entry) -> int:
    """Where a foreign function is."""
    return ctypes.cast(entry, ctypes.c_void_p).value or 0  # type: ignore[arg-type]


def _count(program: Program, kind: str) -> int:
    return 1 + max((slot.index for slot in program.slots if slot.kind == kind), default=-1)


def _picker(places: list[int]) -> Callable[[list[int]], Sequence[int]]:
    """A fast function that picks ``places`` out of a list."""
    if places == list(range(len(places))):
        return _same
    if len(places) == 1:
        return itemgetter(slice(places[0], places[0] + 1))
    return itemgetter(*places)


def _same(pointers: list[int]) -> list[int]:
    return pointers


#: About 1 ms of spinning at the end of a parallel loop, as a processor's pause takes 12 ns or more.
#: Who is woken up may come to the core of who wakes it, and both share that one for a while;
#: kernels in a row meet no sleeping thread. libgomp's own choice is five times that.
_SPINS = "60000"

_loaded: dict[str, Executable] = {}
_entries: dict[str, Entry] = {}
_loading = threading.RLock()


def _new_lock() -> None:
    global _loading
    _loading = threading.RLock()


os.register_at_fork(after_in_child=_new_lock)


def load(
    program: Program, reason: str = "", where: str = "", objects: Objects | None = None
) -> Executable:
    """The executable of ``program``: from this process, else the disk cache, else compiled.

    Args:
        program: with target ``c``.
        reason: why it is needed, for ``why_compiled()``.
        where: the user's ``file:line``.
        objects: of kernels that compilers have begun with.

    Raises:
        NoCompilerError: no C compiler was found; ``compile.available`` tells beforehand.
        CompileError: the compiler failed.
    """
    if program.target != "c":
        raise InternalError("execute", f"a program for target {program.target!r}")
    fingerprint = program.fingerprint()
    executable = _loaded.get(fingerprint)
    if executable is None:
        with _loading:
            executable = _loaded.get(fingerprint)
            if executable is None:
                entry = _entry(program, reason, where, objects)
                executable = _loaded[fingerprint] = Executable(program, entry)
    return executable


def load_once(program: Program) -> Executable:
    """``program`` compiled for a trial: nothing of it is remembered or kept on disk.

    Raises NoCompilerError and CompileError as ``load``.
    """
    compiler = compile.find()
    binary = compile.build(program, compiler, f"trial-{program.text_hash()[:40]}")
    entry = _open_copy(binary)
    if entry is None:
        command = [*compiler.command, *compiler.flags]
        raise CompileError(command, "the compiled library cannot be loaded", None)
    return Executable(program, entry)


def forget() -> None:
    """Forget all loaded programs, so that the next ``load`` looks in the disk cache again."""
    _loaded.clear()
    _entries.clear()


def _entry(program: Program, reason: str, where: str, objects: Objects | None) -> Entry:
    """The program's function, which those of other sizes may have, too."""
    text = program.text_hash()
    found = _entries.get(text)
    if found is None:
        found = _entries[text] = _find_or_build(program, text, reason, where, objects)
    return found


def _find_or_build(
    program: Program, fingerprint: str, reason: str, where: str, objects: Objects | None
) -> Entry:
    compiler = compile.find()
    features = " ".join(devices.cpu_features())
    key = cache.hash_text(str(cache.FORMAT), fingerprint, compiler.identity(), features)
    entry = _open_cached(key)
    if entry is None:
        with cache.only_once(key):
            entry = _open_cached(key)  # another process may have built it while this one waited
            if entry is None:
                entry = _build(program, compiler, key, reason, where, objects)
    return entry


def _open_cached(key: str) -> Entry | None:
    path = cache.get_binary(key)
    if path is None:
        return None
    entry = _open(path)
    if entry is None:  # a folder that nothing may be executed from
        with contextlib.suppress(OSError), open(path, "rb") as file:
            entry = _open_copy(file.read())
    if entry is not None:
        events.record("load", "found in the disk cache", key=key)
    return entry


def _build(
    program: Program,
    compiler: compile.Compiler,
    key: str,
    reason: str,
    where: str,
    objects: Objects | None,
) -> Entry:
    import time

    begun = time.perf_counter()
    binary = _linked(program, compiler, objects) or compile.build(program, compiler, key)
    seconds = time.perf_counter() - begun
    events.record(
        "compile",
        reason or "not in the disk cache",
        where,
        kernels=len(program.kernels),
        seconds=round(seconds, 4),
        key=key,
    )
    source = "".join(compile.split_units(program, 1))
    facts: dict[str, object] = {"compiler": compiler.version, "seconds": round(seconds, 4)}
    path = cache.put_binary(key, binary, source, facts)
    entry = (_open(path) if path else None) or _open_copy(binary)
    if entry is None:
        raise CompileError(
            [*compiler.command, *compiler.flags],
            "the compiled library cannot be loaded: is its target this machine?",
            path and os.path.join(cache.folder(), f"{key}.c"),
        )
    return entry


def _linked(program: Program, compiler: compile.Compiler, objects: Objects | None) -> bytes | None:
    """The binary of a program of some size from objects that it shares with others; None where one
    compiler for all of it is as quick, or something fails."""
    from lazyt.runtime.objects import FEWEST, Objects

    if objects is not None and (objects.has_begun or len(program.kernels) >= FEWEST):
        return objects.link(program, compiler)
    if len(program.kernels) < FEWEST:
        return None
    with Objects() as own:
        return own.link(program, compiler)


def _open(path: str) -> Entry | None:
    """The entry of a shared object, or None when it cannot be loaded from where it is."""
    if "OMP_WAIT_POLICY" not in os.environ:
        # libgomp reads it when the first kernel is loaded. By default a thread that waits spins for
        # milliseconds, on the very core that the thread it waits for may need.
        os.environ.setdefault("GOMP_SPINCOUNT", _SPINS)
    try:
        entry = ctypes.CDLL(path).lz_plan
    except (OSError, AttributeError):
        return None
    entry.argtypes = (ctypes.c_void_p, ctypes.c_int)  # bytes pass for an address, too
    entry.restype = None
    found: Entry = entry
    return found


def _open_copy(binary: bytes) -> Entry | None:
    """Load from a private copy that is deleted at once; the mapping outlives the file."""
    for place in cache.scratch_places():
        with contextlib.suppress(OSError), cache.scratch(place) as folder:
            path = os.path.join(folder, "plan.so")
            with open(path, "wb") as file:
                file.write(binary)
            if entry := _open(path):
                return entry
    return None
