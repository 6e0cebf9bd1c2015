"""Loading compiled Programs and running them.

``load`` looks in this process, then in the disk cache, and compiles last. ``Executable.run`` is
on the path of every step of a training loop: it packs the pointers and makes one foreign call,
during which other Python threads run.
"""

from __future__ import annotations

import _ctypes
import contextlib
import ctypes
import functools
import itertools
import os
import struct
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from operator import itemgetter
from threading import get_ident
from typing import IO, TYPE_CHECKING, Any, TypeVar

from lazyt.config import config
from lazyt.errors import CompileError, InternalError
from lazyt.ir.program import Program
from lazyt.runtime import cache, devices, events
from lazyt.runtime.cpu import compile, openmp, regions
from lazyt.runtime.cpu.openmp import team
from lazyt.runtime.cpython import forks, interrupts
from lazyt.runtime.cpython.interrupts import words
from lazyt.runtime.memory import Buffer, without_aliases

if TYPE_CHECKING:
    from lazyt.runtime.cpu.objects import Objects

_T = TypeVar("_T")
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
        "__weakref__", "_arena", "_order", "_pack", "entry", "inputs", "outputs", "places",
        "program", "scratch", "serial",
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

    def run(
        self, inputs: Sequence[Buffer], outputs: Sequence[Buffer], arena: Buffer | None = None
    ) -> None:
        """Run all launches; returns when they are done.

        Args:
            inputs: one buffer per input of the plan, each at least as large as its slot.
            outputs: one buffer per output, which is no input's.
            arena: memory for what is neither, as much as the program says; by default it is taken
                and given back.

        Raises:
            InternalError: the number of buffers is wrong or, under ``config.verify``, a size, or an
                input that is written to shares memory with another buffer.
            OutOfMemoryError: there is no memory for the scratch arena.
            KeyboardInterrupt: or what else a handler of signals has raised meanwhile. No input was
                written to then; what outputs hold is undefined.
        """
        if len(inputs) != self.inputs or len(outputs) != self.outputs or config.verify:
            self._check(inputs, outputs)
        pointers = [buffer.ptr for buffer in inputs]
        pointers += [buffer.ptr for buffer in outputs]
        if self._arena:
            arena = arena or Buffer(self._arena)
            start = arena.ptr
            pointers += [start + offset for offset in self.scratch]
        self.launch(self._pack(*self._order(pointers)))

    def launch(self, slots: bytes | int, entry: Entry | None = None) -> None:
        """Run all launches on these slots, packed pointers or the address of some; or what calls
        the plan's function itself, ``entry``, on what that takes.

        One thread runs where no kernel wants more, and where another Python thread's are running.
        """
        entry = entry or self.entry
        count = 1 if self.serial else team.count()
        me, turn = get_ident(), team.turn
        if count == 1 or turn[1] not in (0, me):
            entry(slots, 1)
        else:
            try:
                turn[1] = me
                turn[2] = 1
                entry(slots, count)
            finally:
                turn[1] = 0
        if words[interrupts.RAISED] and me == words[interrupts.THREAD]:
            interrupts.raise_heard()

    def _check(self, inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> None:
        given = {"input": inputs, "output": outputs}
        for kind, count in (("input", self.inputs), ("output", self.outputs)):
            if len(given[kind]) != count:
                raise InternalError(
                    "execute", f"{len(given[kind])} {kind} buffers for a plan with {count}"
                )
        written = self.program.overwritten
        if without_aliases(inputs, outputs, written) != [*inputs]:
            raise InternalError("execute", f"of inputs {written} one shares memory with another")
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
    made = found(address_of(entry))
    made.entry = entry  # whose library stays loaded
    function: Callable[[int, int], object] = made
    return function


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


# Libraries are unloaded when nobody refers to them any more: neither a plan, nor a captured
# function, nor these few that were requested last.
_loaded: weakref.WeakValueDictionary[str, Executable] = weakref.WeakValueDictionary()
_entries: weakref.WeakValueDictionary[str, Entry] = weakref.WeakValueDictionary()
_latest: OrderedDict[str, Executable] = OrderedDict()
_LATEST = 64
_loading = forks.guarded(threading.RLock())


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
    with _loading:
        executable = _loaded.get(fingerprint)
        if executable is None:
            executable = Executable(program, _entry(program, reason, where, objects))
        return _remember(fingerprint, executable)


def find(program: Program, hashes: tuple[str, str] | None = None) -> Executable | None:
    """The executable of ``program`` where this process or the disk cache has it; None where it
    would have to be compiled. ``hashes`` are its ``fingerprint`` and ``text_hash`` where these are
    known.

    Raises NoCompilerError and CompileError as ``load``.
    """
    fingerprint, text = hashes or (program.fingerprint(), program.text_hash())
    with _loading:
        executable = _loaded.get(fingerprint)
        if executable is None:
            entry = _entries.get(text) or _open_cached(_key(text, compile.find()))
            if entry is None:
                return None
            _entries[text] = entry
            executable = Executable(program, entry)
        return _remember(fingerprint, executable)


def adopt(program: Program, binary: bytes, hashes: tuple[str, str]) -> Executable:
    """The executable of ``program`` from a binary that another process of this user has built;
    ``hashes`` as of ``find``.

    Raises OSError where it cannot be loaded.
    """
    fingerprint, text = hashes
    with _loading:
        entry = _entries[text] = _open_copy(binary, _open)
        return _remember(fingerprint, Executable(program, entry))


def build(
    program: Program, reason: str, where: str, objects: Objects | None = None
) -> bytes | None:
    """Has ``program`` compiled for other processes, unless the disk cache has it; its binary where
    the cache cannot keep it, else None. The arguments are those of ``load``, which it raises as."""
    compiler = compile.find()
    key = _key(program.text_hash(), compile.find())
    with cache.only_once(key):
        binary = cache.get_binary(key)
        if binary is None:
            data, binary = _compiled(program, compiler, key, reason, where, objects)
            if binary is None:
                return data
        with binary:
            return None


def _remember(fingerprint: str, executable: Executable) -> Executable:
    """Notes an executable that somebody requested."""
    _loaded[fingerprint] = executable
    _latest[fingerprint] = executable
    _latest.move_to_end(fingerprint)
    if len(_latest) > _LATEST:
        _latest.popitem(last=False)
    return executable


def load_once(program: Program, compiler: compile.Compiler | None = None) -> Executable:
    """``program`` compiled for a trial, by the compiler given or the usual one: nothing of it is
    remembered or kept on disk.

    Raises NoCompilerError and CompileError as ``load``.
    """
    compiler = compiler or compile.find()
    binary = compile.build(program, compiler, f"trial-{program.text_hash()[:40]}")
    try:
        return Executable(program, _open_copy(binary, _open))
    except OSError as error:
        raise CompileError([*compiler.command, *compiler.flags], str(error), None) from None


def forget() -> None:
    """Forget all loaded programs, so that the next ``load`` looks in the disk cache again."""
    _loaded.clear()
    _entries.clear()
    _latest.clear()


def _entry(program: Program, reason: str, where: str, objects: Objects | None) -> Entry:
    """The program's function, which those of other sizes may have, too."""
    text = program.text_hash()
    found = _entries.get(text)
    if found is None:
        found = _entries[text] = _find_or_build(program, text, reason, where, objects)
    return found


def _find_or_build(
    program: Program,
    fingerprint: str,
    reason: str,
    where: str,
    objects: Objects | None,
) -> Entry:
    compiler = compile.find()
    key = _key(fingerprint, compiler)
    entry = _open_cached(key)
    if entry is None:
        with cache.only_once(key):
            entry = _open_cached(key)  # another process may have built it while this one waited
            if entry is None:
                entry = _build(program, compiler, key, reason, where, objects)
    return entry


def _key(fingerprint: str, compiler: compile.Compiler) -> str:
    """What the binary of a text is kept under on disk."""
    features = " ".join(devices.cpu_features())
    return cache.hash_text(str(cache.FORMAT), fingerprint, compiler.identity(), features)


def key_of(program: Program) -> str:
    """What the binary of a program is kept under on disk. Raises as ``compile.find``."""
    return _key(program.text_hash(), compile.find())


def made_for() -> str:
    """What tells the binaries that may be found here from those of other compilers and CPUs."""
    return cache.hash_text(compile.find().identity(), *devices.cpu_features())


def _open_cached(key: str) -> Entry | None:
    entry = find_binary(key, _open)
    if entry is not None:
        events.record("load", "found in the disk cache", key=key)
    return entry


def find_binary(key: str, opened: Callable[[str], _T]) -> _T | None:
    """What ``opened`` gives for the path of a binary of the disk cache; None where there is none
    that can be loaded."""
    binary = cache.get_binary(key)
    if binary is None:
        return None
    with binary:
        try:
            return _open_checked(binary, opened)
        except OSError:  # of another machine, or there is no more memory: it is built again
            return None


def open_binary(binary: bytes, opened: Callable[[str], _T]) -> _T:
    """The same for a binary in memory. Raises OSError."""
    return _open_copy(binary, opened)


def _build(
    program: Program,
    compiler: compile.Compiler,
    key: str,
    reason: str,
    where: str,
    objects: Objects | None,
) -> Entry:
    binary, stored = _compiled(program, compiler, key, reason, where, objects)
    try:
        if stored is None:
            return _open_copy(binary, _open)
        with stored:
            return _open_checked(stored, _open)
    except OSError as error:
        raise CompileError(
            [*compiler.command, *compiler.flags],
            f"the compiled library cannot be loaded: {error}. Is its target this machine?",
            os.path.join(cache.folder(), f"{key}.c") if stored else None,
        ) from None


def _compiled(
    program: Program,
    compiler: compile.Compiler,
    key: str,
    reason: str,
    where: str,
    objects: Objects | None,
) -> tuple[bytes, cache.Binary | None]:
    """A new binary, and it as the disk cache has it, None where that refuses."""
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
    facts["made_for"] = made_for()
    return binary, cache.get_binary(key) if cache.put_binary(key, binary, source, facts) else None


def _linked(program: Program, compiler: compile.Compiler, objects: Objects | None) -> bytes | None:
    """The binary of a program of some size from objects that it shares with others; None where one
    compiler for all of it is as quick, or something fails."""
    from lazyt.runtime.cpu.objects import FEWEST, Objects

    if objects is not None and (objects.has_begun or len(program.kernels) >= FEWEST):
        return objects.link(program, compiler)
    if len(program.kernels) < FEWEST:
        return None
    with Objects() as own:
        return own.link(program, compiler)


#: Functions that let go of plans that are in no use, for when there are too many libraries: each
#: takes how many there may be, at most.
on_many: list[Callable[[int], None]] = []
#: Memory mappings of a library; the system allows some number of them to a process.
_MAPPINGS = 5
_names = itertools.count(1)
#: The first library stays: what it is linked with has threads of its own.
_first: Entry | None = None


class _Count:
    """How many libraries are loaded."""

    def __init__(self) -> None:
        self.loaded = 0

    @functools.cached_property
    def most(self) -> int:
        """How many may be: together they use a quarter of the mappings that there may be."""
        try:
            with open("/proc/sys/vm/max_map_count", encoding="ascii") as file:
                mappings = int(file.read())
        except (OSError, ValueError):  # another system
            mappings = 65530
        return max(64, mappings // (4 * _MAPPINGS))


libraries = _Count()


def make_room() -> None:
    """Has plans that are in no use let go of where there are many libraries."""
    if libraries.loaded > libraries.most:
        for function in on_many:
            function(libraries.most * 3 // 4)


def _open(path: str) -> Entry:
    """The entry of a shared object; raises OSError when it cannot be loaded from where it is.

    No path may be that of another file that was opened before: the system would find that again.
    """
    return open_library(path)[0]


def open_library(path: str) -> tuple[Entry, int]:
    """The entry of a shared object, and the system's handle of it, which is open as long as the
    entry is. Raises OSError."""
    global _first
    if "OMP_WAIT_POLICY" not in os.environ:
        # libgomp reads it when the first kernel is loaded. By default a thread that waits spins for
        # milliseconds, on the very core that the thread it waits for may need.
        os.environ.setdefault("GOMP_SPINCOUNT", str(openmp.SPINS))
    handle = _ctypes.dlopen(path, ctypes.DEFAULT_MODE)
    try:
        made = _ENTRY(_ctypes.dlsym(handle, "lz_plan"))
    except OSError:
        _ctypes.dlclose(handle)
        raise
    interrupts.tell(handle)
    if not _lend_threads(handle):
        team.dies_in_children = True
    libraries.loaded += 1
    weakref.finalize(made, _close, handle).atexit = False
    entry: Entry = made
    if _first is None:
        _first = entry
    return entry, handle


def _lend_threads(handle: int) -> bool:
    """Gives a plan's library lazyt's own threads, if it asks for them; whether it does."""
    try:
        place = ctypes.c_void_p.from_address(_ctypes.dlsym(handle, "lz_team"))
    except OSError:
        return False
    place.value = _own_threads()
    return True


@functools.cache
def _own_threads() -> int:
    """The table of functions of lazyt's own threads, from the disk cache or compiled; the library
    stays loaded, as its threads wait in it. Raises OSError, CompileError."""
    text, compiler = openmp.source(), compile.find()
    binary = cache.get_binary(threads_key())
    if binary is None:
        built = compile.build_text(text, compiler)
        keep(threads_key(), built, text, compiler)
        handle = _open_copy(built, _open_library)
    else:
        with binary:
            handle = _open_checked(binary, _open_library)
    make: Any = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_int)
    table: int = make(_ctypes.dlsym(handle, "lz_make_team"))(*openmp.arguments())
    return table


def threads_key() -> str:
    """What the binary of lazyt's own threads, ``openmp.source()``, is kept under on disk."""
    return cache.hash_text(str(cache.FORMAT), openmp.source(), compile.find().identity())


def keep(key: str, binary: bytes, text: str, compiler: compile.Compiler) -> bool:
    """Keeps the binary of a text that is no plan's on disk; False where that is refused."""
    facts: dict[str, object] = {"compiler": compiler.version, "made_for": made_for()}
    return cache.put_binary(key, binary, text, facts)


def _open_library(path: str) -> int:
    handle: int = _ctypes.dlopen(path, ctypes.DEFAULT_MODE)
    return handle


#: Bytes pass for an address, too.
_ENTRY: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)


def _close(handle: int) -> None:
    if _ctypes is None or libraries is None:  # while the interpreter shuts down
        return
    libraries.loaded -= 1
    _ctypes.dlclose(handle)


def _open_checked(binary: cache.Binary, opened: Callable[[str], _T]) -> _T:
    """The entry of a binary of the cache, or what else ``opened`` gives for a path: of the file
    that was checked, or of a copy of what was read from it. Raises OSError."""
    if os.path.isdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # nothing may be executed from that folder
            return opened(_path_of(binary.descriptor))
    return _open_copy(binary.data, opened)


def _path_of(descriptor: int) -> str:
    """A path of an open file that no other had, as descriptors are used again: the same folder can
    be spelled in many ways."""
    spelled = "".join(".//" if bit == "1" else "./" for bit in f"{next(_names):b}")
    return f"/proc/self/fd/{spelled}{descriptor}"


def _open_copy(binary: bytes, opened: Callable[[str], _T]) -> _T:
    """Load from a private copy that is deleted at once; the mapping outlives the file. Raises
    OSError."""
    fault = OSError("there is no place for a copy that may be executed")
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        try:
            handle = os.memfd_create("lazyt-plan")
            with open(handle, "wb", buffering=0) as file:
                _write_all(file, binary)
                return opened(_path_of(handle))
        except OSError as error:  # a system that forbids that
            fault = error
    for place in cache.scratch_folders():
        try:
            with cache.scratch(place) as folder:
                path = os.path.join(folder, "plan.so")
                with open(path, "wb", buffering=0) as file:
                    _write_all(file, binary)
                return opened(path)
        except OSError as error:
            fault = error
    raise fault


def _write_all(file: IO[bytes], data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]
