"""Plans that run at once: graphs by kernels for any shape, without a compiler.

The kernels are in a library of units (``codegen/generic/``) that are compiled once per machine. The
one of all units is taken where it is on disk. Until then there is one of the units that most
programs use and those that were needed so far, here or in an earlier process, compiled quickly
rather than well: a program does not wait for what it does not use.
"""

from __future__ import annotations

import functools
import threading
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lazyt.codegen.generic.encode import PARALLEL, Encoded, encode
from lazyt.codegen.generic.library import Library, Unit, first_units, library, units, units_of
from lazyt.codegen.generic.program import empty_program, generic_program
from lazyt.codegen.generic.recipes import Unsupported
from lazyt.codegen.generic.table import Table
from lazyt.errors import CompileError, NoCompilerError
from lazyt.ir.graph import Node, topological
from lazyt.making import code_stamp
from lazyt.runtime import cache, compile, devices, events, execute, forks
from lazyt.runtime.memory import Buffer

if TYPE_CHECKING:
    from lazyt.making import Subject
    from lazyt.runtime.execute import Executable

_REASON = "kernels for any shape, once for all programs on this machine"
_FOR_GRAPHS = "generic kernels, for graphs that are not compiled yet"
#: What the disk cache has the names of the units under that were needed so far.
_KIND, _NAME = "generic", "units"


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


class _Chosen:
    """The units of the library that this process uses.

    Attributes:
        units: them; empty before the first use.
    """

    def __init__(self) -> None:
        self.units: frozenset[Unit] = frozenset()
        self._last: frozenset[Unit] = frozenset()
        self._library = Library((), (), "", "")

    def library(self, needed: frozenset[Unit]) -> Library:
        """A library that has these units."""
        if not self.units:
            if is_warm():
                self.units = frozenset(units())
            else:
                names = set((cache.get_text(_KIND, _NAME) or "").split())
                self.units = first_units() | {unit for unit in units() if unit.name in names}
        if not needed <= self.units:
            self.units |= needed
            cache.put_text(_KIND, _NAME, " ".join(sorted(unit.name for unit in self.units)))
        known = self._library.text_hash
        is_gone = not self._library.kernels and execute.find_shared(known) is None
        if self.units != self._last or is_gone:  # somebody may have cleared the disk cache
            self._library, self._last = _light(self.units), self.units
        return self._library


def _text_of(wanted: frozenset[Unit]) -> Library:
    """The library of some units, as text, whose hash is noted for other processes."""
    found = library(wanted, devices.vector_bytes())
    cache.put_text(_KIND, _name_of(wanted), found.text_hash)
    return found


def _light(wanted: frozenset[Unit]) -> Library:
    """The same, without the text where there is a binary: printing it takes long."""
    known = _known_hash(wanted)
    if execute.find_shared(known) is not None:
        return Library((), (), "", known)
    return _text_of(wanted)


def _known_hash(wanted: frozenset[Unit]) -> str:
    """The hash of a library's text, as noted by whoever printed it; empty where nobody did."""
    return cache.get_text(_KIND, _name_of(wanted)) or ""


@functools.lru_cache(maxsize=64)
def _name_of(wanted: frozenset[Unit]) -> str:
    """What the hash of a library's text is kept under on disk."""
    names = sorted(unit.name for unit in wanted)
    return cache.hash_text(code_stamp(), str(devices.vector_bytes()), *names)


#: Units that are compiled together.
_SHARE = 24
_chosen = _Chosen()
_choosing = forks.guarded(threading.RLock())


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
    with _choosing:
        found = _chosen.library(units_of(made.functions))
    program = generic_program(made, inputs, roots, found)
    executable = execute.load_shared(program, found.text_hash, reason, where)
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


def is_warm() -> bool:
    """Whether all kernels for any shape are on this machine, compiled well."""
    found = execute.find_shared(_known_hash(frozenset(units())))
    return found is not None and not found[1]


def warm(progress: Callable[[int, int], None] | None = None) -> int:
    """Compiles all kernels for any shape that are not on this machine yet; how many units there
    are. ``progress`` is told how many are done, and of how many. What was done stays on disk when
    it is interrupted.

    Raises NoCompilerError and CompileError.
    """
    total, share = len(units()), 0
    while not is_warm():
        if progress is not None:
            progress(min(share * _SHARE, total), total)
        warm_share(share)
        share += 1
    if progress is not None:
        progress(total, total)
    return total


def warm_share(number: int) -> None:
    """Compiles one share of all kernels for any shape; the one behind the last makes the library
    of them. Raises NoCompilerError and CompileError."""
    ordered = sorted(units(), key=lambda unit: not unit.is_first)
    found = _text_of(frozenset(ordered[: (number + 1) * _SHARE]))
    if number * _SHARE < len(ordered):
        execute.build_objects(empty_program(found))
    else:
        execute.build_shared(empty_program(found), found.text_hash, _REASON)


def use_whole() -> None:
    """Lets plans that are made from now on have the library of all units, where it is on disk."""
    with _choosing:
        if is_warm():
            _chosen.units = frozenset(units())


def is_whole() -> bool:
    """Whether the library that this process uses has all units."""
    return len(_chosen.units) == len(units())
