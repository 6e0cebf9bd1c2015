"""The library of kernels for any shape as this machine has it, and the plans that run them without
a compiler."""

from __future__ import annotations

import atexit
import functools
import os
import threading
import time
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lazyt.codegen.generic import library
from lazyt.codegen.generic.encode import PARALLEL, encode
from lazyt.codegen.generic.instructions import Encoded
from lazyt.codegen.generic.program import Table, generic_program
from lazyt.codegen.generic.recipes import Unsupported
from lazyt.codegen.prelude import exactly
from lazyt.config import config
from lazyt.errors import CompileError, LazytError, NoCompilerError
from lazyt.ir.graph import Node, topological
from lazyt.ir.program import Program
from lazyt.plan.build import code_stamp
from lazyt.runtime import cache, devices, events
from lazyt.runtime.cpu import compile, execute, openmp
from lazyt.runtime.cpu.compile import Compiler
from lazyt.runtime.cpu.execute import Entry, Executable
from lazyt.runtime.cpu.parts import Core, Job, open_core, part_of
from lazyt.runtime.cpython import forks
from lazyt.runtime.memory import Buffer

if TYPE_CHECKING:
    from lazyt.plan.build import Subject


# The library of kernels for any shape as this machine has it.
#
# Its parts (``codegen/generic/library.py``) are on disk where some process has had them compiled,
# well or quickly. What a graph needs and the disk lacks is compiled at once, quickly, by as many
# compilers as there are cores, and nothing else is waited for. What is likely to be needed next
# follows in the background. All is compiled well in the end, by the process of ``plan/server.py``.


#: Seconds between two looks at compilers that are waited for, and at others.
_SOON, _LATER = 0.002, 0.02
#: The priority of compilers that nobody waits for, yet.
_NICE = 10
#: Seconds that such a compiler may have taken for somebody to wait for it yet.
_PATIENCE = 0.25
#: Characters of text that are worth a compiler of their own.
_LEAST = 6000
_KIND = "generic"
#: What parts are named by that have no functions: the core, and the threads of compilers that have
#: none.
_CORE, _THREADS = -1, -2


class _Part(NamedTuple):
    """A part that is being compiled.

    Attributes:
        numbers: its functions, or ``_CORE`` or ``_THREADS``.
        key: what its binary is kept under on disk.
        job: the compiler.
        is_urgent: whether a graph waits for it.
    """

    numbers: frozenset[int]
    key: str
    job: Job
    is_urgent: bool


class _Library:
    """What of the library is loaded, and what is being compiled; ``exact``: for ``config.exact``,
    which may change while compilers run."""

    def __init__(self, exact: bool = False) -> None:
        self._exact = exact
        self._lock = forks.guarded(threading.RLock())
        self._core: Core | None = None
        self._is_well: dict[int, bool] = {}  # of each function that is loaded
        self._parts: list[_Part] = []
        self._made: list[tuple[frozenset[int], bytes]] = []  # what waits for the core
        self._faults: set[int] = set()  # what a compiler has failed on
        self._wishes: list[frozenset[int]] = []
        self._has_wished = False
        self._thread: threading.Thread | None = None
        self._left: list[_Part] = []  # of the process that this one was forked from
        self._is_whole: bool | None = None

    def _compiler(self) -> Compiler:
        return compile.find().exact if self._exact else compile.find()

    def entry(self, wanted: frozenset[int], reason: str, where: str) -> Entry:
        """The library's function, once it has these functions. ``reason`` and ``where`` are for
        ``why_compiled()``; raises NoCompilerError and CompileError."""
        if self._core is None or not wanted <= self._is_well.keys():
            with self._lock:
                self._find(wanted)
            if self._missing(wanted):
                self._wait_for(wanted, reason, where)
        assert self._core is not None
        return self._core.entry

    def _missing(self, wanted: Iterable[int]) -> set[int]:
        missing = {number for number in wanted if number not in self._is_well}
        return missing if self._core is not None else missing | {_CORE}

    # ------------------------------------------------------------ from the disk

    def _find(self, wanted: Iterable[int]) -> None:
        """Loads what the disk has of some functions."""
        full = self._compiler()
        for compiler in (full, full.quick):
            if self._core is None:
                self._core = execute.find_binary(_core_key(compiler), open_core)
        found = self._core
        if found is None:
            return
        for number in self._missing(wanted):
            if number not in self._is_well and not self._load(_GROUPS[number], full, True):
                for together in _quick_parts(library.homes()[number].name, full.quick):
                    if number in together and self._load(together, full.quick, False):
                        break

    def _load(self, group: frozenset[int], compiler: Compiler, is_well: bool) -> bool:
        """Loads a part from the disk; whether it was there."""
        assert self._core is not None
        key = _part_key(group, compiler)
        if execute.find_binary(key, part_of(self._core)) is None:
            return False
        self._note(group, is_well)
        return True

    def _note(self, numbers: frozenset[int], is_well: bool) -> None:
        """Notes that functions are loaded."""
        self._is_well.update(dict.fromkeys(numbers, is_well))

    # --------------------------------------------------------------- compiling

    def _wait_for(self, wanted: frozenset[int], reason: str, where: str) -> None:
        """Has what is missing compiled. Ctrl-C is heard at once; what was begun goes on."""
        begun, count = time.perf_counter(), len(self._missing(wanted) - {_CORE})
        for told in compile.on_start:  # others may have started the compilers that are waited for
            told()
        while True:
            with self._lock:
                self._collect()
                missing = self._missing(wanted)
                if not missing:
                    break
                if not missing.isdisjoint(self._faults):
                    self._build(missing)
                self._start(missing)
                self._grant()
                self._go_on()
            time.sleep(_SOON)
        seconds = round(time.perf_counter() - begun, 4)
        events.record("compile", reason, where, kernels=count, seconds=seconds)
        with self._lock:
            self._wish(wanted)
            self._go_on()

    def _start(self, missing: set[int]) -> None:
        """Starts compilers on what is missing and not begun with."""
        late = time.perf_counter() - _PATIENCE
        going = [each for each in self._parts if each.is_urgent or each.job.begun > late]
        begun = {number for each in going for number in each.numbers}
        begun |= {number for numbers, _ in self._made for number in numbers}
        quick = self._compiler().quick
        urgent = sum(each.is_urgent for each in self._parts)
        waiting = sorted(missing - begun - {_CORE})
        if waiting:
            more = {other for number in waiting for other in library.along(number)}
            waiting = sorted(self._missing(more) - begun - {_CORE})
        if waiting and (free := compile.side_by_side() - urgent) > 0:
            for numbers in _shared_out(waiting, free):
                self._compile(numbers, quick)
        if _CORE in missing - begun:
            self._compile(frozenset({_CORE}), quick)
            if quick.own_threads and cache.get_binary(execute.threads_key()) is None:
                self._compile(frozenset({_THREADS}), self._compiler())

    def _compile(self, numbers: frozenset[int], compiler: Compiler, nice: int = 0) -> None:
        try:
            key, text = _source(numbers, compiler)
            self._parts.append(_Part(numbers, key, Job(text, compiler, nice), nice == 0))
        except (OSError, compile.UnitError):
            self._faults |= numbers

    def _collect(self) -> None:
        """Takes up what compilers have finished."""
        for each in [one for one in self._parts if one.job.is_done]:
            self._parts.remove(each)
            try:
                binary = each.job.binary()
            except (OSError, compile.UnitError):
                self._faults |= each.numbers
                continue
            finally:
                each.job.end()
            _store(each.numbers, each.key, binary, each.job.text, each.job.compiler)
            self._made.append((each.numbers, binary))
        self._open()

    def _open(self) -> None:
        """Loads what was compiled: the core first."""
        self._made.sort(key=lambda pair: min(pair[0]))
        while self._made and (self._core is not None or self._is_core_made()):
            numbers, binary = self._made.pop(0)
            try:
                if _CORE in numbers:
                    self._core = execute.open_binary(binary, open_core)
                elif self._core is not None and _THREADS not in numbers:
                    execute.open_binary(binary, part_of(self._core))
                    self._note(numbers, False)
            except OSError as error:
                compiler = self._compiler()
                message = f"the compiled library cannot be loaded: {error}"
                raise CompileError([*compiler.command], message, None) from None

    def _is_core_made(self) -> bool:
        pending = {number for each in self._parts for number in each.numbers}
        return _THREADS not in pending and any(_CORE in numbers for numbers, _ in self._made)

    def _build(self, missing: set[int]) -> None:
        """Has what is missing compiled as any text is, which raises what there is to say."""
        self._faults -= missing | {_THREADS}
        quick = self._compiler().quick
        for numbers in [frozenset({_CORE}) & missing, frozenset(missing - {_CORE})]:
            if numbers:
                key, text = _source(numbers, quick)
                binary = compile.build_text(text, quick)
                _store(numbers, key, binary, text, quick)
                self._made.append((numbers, binary))
        self._open()

    # ------------------------------------------------------------- beforehand

    def _wish(self, wanted: frozenset[int]) -> None:
        """Has what is likely to be needed next compiled, unless there is one core alone."""
        if compile.side_by_side() < 2:
            return
        soon = dict.fromkeys(part for number in wanted for part in library.companions(number))
        self._wishes[:0] = [wish for wish in soon if self._missing(wish)]
        if not self._has_wished:
            self._has_wished = True
            self._wishes += library.likely_parts()

    def _go_on(self) -> None:
        """Has a thread look after compilers that nobody waits for."""
        if self._thread is None and (self._parts or self._wishes):
            name = "lazyt-kernels"
            self._thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._thread.start()

    def _work(self) -> None:
        while True:
            with self._lock:
                try:
                    self._collect()
                    self._grant()
                except LazytError as error:
                    events.record("compile", f"no kernels beforehand: {error}")
                    self._wishes.clear()
                if not self._parts and not self._wishes:
                    self._thread = None
                    return
            time.sleep(_LATER)

    def _grant(self) -> None:
        """Starts compilers on what is wished for where cores are idle: one computes, meanwhile, or
        works for who waits."""
        urgent = sum(each.is_urgent for each in self._parts)
        most = compile.side_by_side() - max(1, urgent)
        while self._wishes and len(self._parts) - urgent < most:
            begun = {number for each in self._parts for number in each.numbers}
            missing = self._missing(self._wishes.pop(0)) - begun - {_CORE}
            if missing and not missing & self._faults:
                self._find(missing)
                if left := frozenset(self._missing(missing) - {_CORE}):
                    self._compile(left, self._compiler().quick, _NICE)

    # -------------------------------------------------------------------- well

    def upgrade(self) -> None:
        """Replaces what was compiled quickly where the disk has it compiled well."""
        with self._lock:
            quick = {number for number, is_well in self._is_well.items() if not is_well}
            for group in library.groups():
                if not quick.isdisjoint(group):
                    self._load(group, self._compiler(), True)

    def quick(self) -> list[int]:
        """The functions that this process has compiled quickly."""
        with self._lock:
            return sorted(number for number, is_well in self._is_well.items() if not is_well)

    def is_whole(self) -> bool:
        """Whether all of the library has been compiled well; what was cleared away since counts
        until it is missed."""
        if self._is_whole is None:
            self._is_whole = cache.get_text(_KIND, _key("whole", self._compiler())) is not None
        return self._is_whole and all(self._is_well.values())

    # ---------------------------------------------------------- forks and ends

    def after_fork(self) -> None:
        """In a child, which must not touch its parent's compilers."""
        for each in self._parts:
            each.job.leave()
        self._left += self._parts
        self._parts, self._wishes, self._thread = [], [], None

    def end(self) -> None:
        """Stops all compilers."""
        with self._lock:
            self._wishes.clear()
            for each in self._parts:
                each.job.end()
            self._parts = []


_library = _Library()
_exact_library = _Library(exact=True)
for _each in (_library, _exact_library):
    os.register_at_fork(after_in_child=_each.after_fork)
    atexit.register(_each.end)


def _in_use() -> _Library:
    """The library of the setting in force."""
    return _exact_library if config.exact else _library


def entry(wanted: frozenset[int], reason: str, where: str) -> Entry:
    """The library's function, once it has these functions. ``reason`` and ``where`` are for
    ``why_compiled()``; raises NoCompilerError and CompileError."""
    return _in_use().entry(wanted, reason, where)


def upgrade() -> None:
    """Replaces what was compiled quickly where the disk has it compiled well."""
    _in_use().upgrade()


def quick() -> list[int]:
    """The functions that this process has compiled quickly."""
    return _in_use().quick()


def is_whole() -> bool:
    """Whether all of the library has been compiled well; what was cleared away since counts until
    it is missed."""
    return _in_use().is_whole()


def _compiler_now() -> Compiler:
    """What compiles the library that is in use now."""
    return compile.find().exact if config.exact else compile.find()


# ------------------------------------------------------------------ texts, keys


def _source(numbers: frozenset[int], compiler: Compiler) -> tuple[str, str]:
    """What the binary of a part is kept under on disk, and its text."""
    if _THREADS in numbers:
        return execute.threads_key(), openmp.source()
    if _CORE in numbers:
        return _core_key(compiler), compile.core_text(library.core(), compiler.own_threads)
    with exactly(compiler.is_exact):
        made: Program = library.part(numbers, devices.vector_bytes())
    text = compile.part_text(made, compiler.own_threads)
    return _part_key(numbers, compiler), text


def _store(numbers: frozenset[int], key: str, binary: bytes, text: str, compiler: Compiler) -> bool:
    """Keeps the binary of a part on disk, and which functions one that was compiled quickly has;
    False where that is refused."""
    is_cacheable = execute.keep(key, binary, text, compiler)
    if (
        is_cacheable
        and compiler not in (compile.find(), compile.find().exact)
        and numbers.isdisjoint({_CORE, _THREADS})
    ):
        for name in {library.homes()[number].name for number in numbers}:
            # Of two processes that do so at a time, what one has written may be lost.
            known = {*_quick_parts(name, compiler), numbers}
            lines = [" ".join(map(str, sorted(together))) for together in known]
            cache.put_text(_KIND, _key(f"quick {name}", compiler), "\n".join(lines))
    return is_cacheable


def _quick_parts(unit: str, compiler: Compiler) -> list[frozenset[int]]:
    """The parts compiled quickly that have functions of a unit, as far as the disk knows."""
    text = cache.get_text(_KIND, _key(f"quick {unit}", compiler)) or ""
    return [frozenset(map(int, line.split())) for line in text.splitlines()]


def _shared_out(numbers: list[int], count: int) -> list[frozenset[int]]:
    """Functions for so many compilers, or fewer where there is little to do."""
    works = {number: library.work(number, devices.vector_bytes()) for number in numbers}
    count = max(1, min(count, len(numbers), sum(works.values()) // _LEAST))
    batches: list[set[int]] = [set() for _ in range(count)]
    loads = [0] * count
    for number in sorted(numbers, key=lambda each: -works[each]):
        idlest = loads.index(min(loads))
        batches[idlest].add(number)
        loads[idlest] += works[number]
    return [frozenset(batch) for batch in batches if batch]


#: The part that has each function when it is compiled well; it is loaded with the package, so that
#: the first graph does not wait for it.
_GROUPS = {number: group for group in library.groups() for number in group}


@functools.cache
def _stamp() -> str:
    """Changes with the texts, and with what the machine is."""
    features = " ".join(devices.cpu_features())
    return cache.hash_text(str(cache.FORMAT), code_stamp(), str(devices.vector_bytes()), features)


def _key(name: str, compiler: Compiler) -> str:
    return cache.hash_text(_stamp(), compiler.identity(), name)


def _core_key(compiler: Compiler) -> str:
    return _key("core", compiler)


def _part_key(numbers: frozenset[int], compiler: Compiler) -> str:
    return _key(" ".join(library.names()[number] for number in sorted(numbers)), compiler)


# ------------------------------------------------------------------------- all


def _is_stored(key: str) -> bool:
    binary = cache.get_binary(key)
    if binary is None:
        return False
    with binary:
        return True


def _all() -> list[frozenset[int]]:
    return [frozenset({_CORE}), *library.groups()]


def _lacking() -> list[frozenset[int]]:
    """The parts that the disk lacks compiled well."""
    compiler = _compiler_now()
    keys = [(each, _core_key(compiler) if _CORE in each else _part_key(each, compiler))
            for each in _all()]  # fmt: skip
    return [each for each, key in keys if not _is_stored(key)]


def compile_well(wanted: Iterable[int], is_over: Callable[[], bool] = bool) -> bool:
    """Has one part compiled well that the disk lacks, one with some of these functions if there is
    one, unless ``is_over`` says meanwhile that something else is to be done; whether all are there
    now.

    Raises NoCompilerError, and CompileError also where the disk keeps nothing.
    """
    lacking, soon, compiler = _lacking(), {*wanted}, _compiler_now()
    if lacking:
        chosen = min(lacking, key=lambda each: each.isdisjoint(soon))
        key, text = _source(chosen, compiler)
        with cache.only_once(key):
            if not _is_stored(key):
                binary = _built(text, compiler, is_over)
                if binary is None:
                    return False
                _store_compiled(chosen, key, binary, text, compiler)
    return len(lacking) <= 1 and _is_whole_now(compiler)


def _built(text: str, compiler: Compiler, is_over: Callable[[], bool]) -> bytes | None:
    """The binary of a text; None where ``is_over`` ends that. Raises CompileError."""
    try:
        job = Job(text, compiler)
    except (OSError, compile.UnitError):  # which says what there is to say
        return compile.build_text(text, compiler)
    try:
        while not job.is_done:
            if is_over():
                return None
            time.sleep(_LATER)
        return job.binary()
    except (OSError, compile.UnitError):
        return compile.build_text(text, compiler)
    finally:
        job.end()


def warm(progress: Callable[[int, int], None] | None = None) -> int:
    """Compiles all kernels for any shape well that are not on this machine yet; how many units
    there are. ``progress`` is told how many are done, and of how many. What was done stays on disk
    when it is interrupted.

    Raises NoCompilerError, and CompileError also where the disk keeps nothing.
    """
    compiler, total = _compiler_now(), len(library.units())
    waiting, jobs = _lacking(), list[_Part]()
    try:
        while waiting or jobs:
            if progress is not None:
                progress(total - _count(waiting) - _count(each.numbers for each in jobs), total)
            while waiting and len(jobs) < compile.side_by_side():
                key, text = _source(waiting[0], compiler)
                jobs.append(_Part(waiting.pop(0), key, Job(text, compiler), True))
            while not any(each.job.is_done for each in jobs):
                time.sleep(_LATER)
            for each in [one for one in jobs if one.job.is_done]:
                binary = each.job.binary()
                _store_compiled(each.numbers, each.key, binary, each.job.text, compiler)
                jobs.remove(each)
                each.job.end()
    except (OSError, compile.UnitError):  # whoever compiles one alone says what there is to say
        while not compile_well(()):
            pass
    finally:
        for each in jobs:
            each.job.end()
    _is_whole_now(compiler)
    if progress is not None:
        progress(total, total)
    return total


def _store_compiled(
    numbers: frozenset[int], key: str, binary: bytes, text: str, compiler: Compiler
) -> None:
    if not _store(numbers, key, binary, text, compiler):
        raise CompileError([*compiler.command], "the disk cache keeps nothing", None)


def _is_whole_now(compiler: Compiler) -> bool:
    """Notes that all of the library is on the disk; False where that is refused."""
    return cache.put_text(_KIND, _key("whole", compiler), "")


def _count(parts: Iterable[frozenset[int]]) -> int:
    """How many units some parts have."""
    return len({library.homes()[number].name for each in parts for number in each if number >= 0})


# Plans that run at once: graphs by kernels for any shape, without a compiler.
#
# The kernels are in a library that is compiled once per machine (``plan/generic.py``), as far as
# graphs need it.


_REASON = "kernels for any shape, once for all programs on this machine"
_FOR_GRAPHS = "generic kernels, for graphs that are not compiled yet"


class Generic(NamedTuple):
    """A graph for kernels of any shape: what runs, and the instructions, its last input."""

    executable: Executable
    table: Buffer


class Instructions:
    """What runs all graphs of one structure, whatever their numbers are.

    Attributes:
        executable: what follows the instructions.
        sizes: the bytes of its outputs.
        table: the instructions.
        constants: the values of the numbers of the graph that they were written down for.
    """

    __slots__ = ("constants", "executable", "sizes", "table")

    def __init__(
        self, executable: Executable, sizes: tuple[int, ...], table: Table,
        constants: tuple[object, ...],
    ) -> None:  # fmt: skip
        self.executable = executable
        self.sizes = sizes
        self.table = table
        self.constants = constants

    def of(self, order: Sequence[Node]) -> Buffer:
        """The last input of the executable for a graph, given its nodes by number."""
        return buffer_of(self.table.filled(order))


def buffer_of(words: array[int]) -> Buffer:
    """Instructions in memory, where the executable reads them."""
    buffer = Buffer(8 * len(words))
    buffer.copy_from(words.tobytes())
    return buffer


def encoded(
    order: Sequence[Node], inputs: Sequence[Node], roots: Sequence[Node],
    donated: Mapping[int, int],
) -> Encoded | None:  # fmt: skip
    """The graph as instructions, each op one or several of them: no pass runs. None where the
    library has nothing for some op. Arguments are those of ``encode``."""
    try:
        return encode(order, inputs, roots, donated)
    except Unsupported:
        return None


def load(
    made: Encoded,
    inputs: Sequence[Node],
    roots: Sequence[Node],
    reason: str = _REASON,
    where: str = "",
) -> Executable:
    """What follows the instructions of a graph. Waits for kernels that are not on this machine yet.

    ``reason`` and ``where``, the user's line, are for ``why_compiled()``. Raises NoCompilerError
    and CompileError.
    """
    library = entry(made.functions, reason, where)
    executable = Executable(generic_program(made, inputs, roots), library)
    executable.serial = made.work <= PARALLEL  # no instruction is worth threads
    return executable


def generic_of(subject: Subject, where: str = "") -> Generic | None:
    """What runs a graph at once; None where it has something that the kernels lack, or there is no
    compiler to make those. ``where`` is as of ``load``."""
    order = topological(subject.roots)
    made = encoded(order, subject.inputs, subject.roots, dict(subject.donated))
    if made is None or not compile.available():
        return None
    executable = _loaded(made, subject.inputs, subject.roots, _FOR_GRAPHS, where)
    if executable is None:
        return None
    return Generic(executable, buffer_of(array("q", made.words)))


def instructions_of(
    order: Sequence[Node], inputs: Sequence[Node], roots: Sequence[Node],
    donated: Mapping[int, int], constants: tuple[object, ...], where: str,
) -> Instructions | None:  # fmt: skip
    """What runs a graph at once, and others of its structure; None as of ``generic_of``.

    Args:
        order: its nodes by number, inputs first.
        inputs, roots, donated: as of ``encode``.
        constants: the values of its numbers.
        where: the user's line, for ``why_compiled()``.
    """
    made = encoded(order, inputs, roots, donated)
    if made is None:
        return None
    executable = _loaded(made, inputs, roots, _FOR_GRAPHS, where)
    if executable is None:
        return None
    found = dict(zip(made.results, roots, strict=True))
    sizes = tuple([found[place].nbytes for place in sorted(found) if place >= 0])
    return Instructions(executable, sizes, Table(made, order), constants)


def _loaded(
    made: Encoded, inputs: Sequence[Node], roots: Sequence[Node], reason: str, where: str
) -> Executable | None:
    """What ``load`` gives; None, with the reason on record, where there is no compiler for it."""
    try:
        return load(made, inputs, roots, reason, where)
    except (CompileError, NoCompilerError) as error:
        events.record("compile", f"no kernels for any shape: {error}", where)
        return None
