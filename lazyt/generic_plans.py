"""Plans that run at once: graphs by kernels for any shape, without a compiler.

The kernels are in a library that is compiled once per machine (``generic_library.py``), as far as
graphs need it.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lazyt import generic_library
from lazyt.codegen.generic.encode import PARALLEL, Encoded, encode
from lazyt.codegen.generic.program import generic_program
from lazyt.codegen.generic.recipes import Unsupported
from lazyt.codegen.generic.table import Table
from lazyt.errors import CompileError, NoCompilerError
from lazyt.ir.graph import Node, topological
from lazyt.runtime import compile, events
from lazyt.runtime.execute import Executable
from lazyt.runtime.memory import Buffer

if TYPE_CHECKING:
    from lazyt.making import Subject

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
    entry = generic_library.entry(made.functions, reason, where)
    executable = Executable(generic_program(made, inputs, roots), entry)
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
