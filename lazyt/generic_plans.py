"""Plans that run at once: graphs by kernels for any shape, without a compiler.

The kernels are compiled once per machine, see ``codegen/generic/``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lazyt import compiler, lifting
from lazyt.errors import CompileError, NoCompilerError
from lazyt.ir.graph import topological
from lazyt.runtime import compile, devices, events, execute

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazyt.making import Subject
    from lazyt.runtime.execute import Executable
    from lazyt.runtime.memory import Buffer


class Generic(NamedTuple):
    """A graph for kernels of any shape: what runs, and the instructions, its last input."""

    executable: Executable
    table: Buffer


def generic_of(subject: Subject, reason: str = "", where: str = "") -> Generic | None:
    """What runs a graph at once; None where it has something that the kernels lack, or there is no
    compiler to make those. Waits for them where they are not on this machine yet.

    ``reason`` and ``where`` are for ``why_compiled()``.
    """
    if subject.place:
        return None
    order = topological(subject.roots)
    made = compiler.compile_generic(order, subject.inputs, subject.roots, dict(subject.donated))
    if made is None or not compile.available():
        return None
    program, text_hash = made
    try:
        executable = execute.load_shared(program, text_hash, reason, where)
    except (CompileError, NoCompilerError) as error:
        events.record("compile", f"no kernels for any shape: {error}", where)
        return None
    return Generic(executable, lifting.table_buffer(program.values))


def warm(progress: Callable[[int, int], None] | None = None) -> int:
    """Compiles all kernels for any shape that are not on this machine yet; how many units there
    are. ``progress`` is told how many are done, and of how many.

    Raises NoCompilerError and CompileError.
    """
    from lazyt.codegen.generic.program import warm_programs

    programs = warm_programs(devices.cpu().vector_bytes)
    for number, (program, text_hash) in enumerate(programs):
        if progress is not None:
            progress(number, len(programs))
        execute.load_shared(program, text_hash, "kernels for any shape")
    if progress is not None:
        progress(len(programs), len(programs))
    return len(programs)
