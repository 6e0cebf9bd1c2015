"""What a plan computes, by the meaning of its kernels and as compiled C, against its graph."""

from __future__ import annotations

import ctypes
import os
import re
import tempfile
from collections.abc import Sequence

import numpy as np

from lazyt.errors import CompileError, VerifyError
from lazyt.ir.graph import Node
from lazyt.ir.kernel import CustomPhase, Kernel
from lazyt.ir.kernel_interpreter import run_program
from lazyt.ir.printer import print_graph, print_kernel
from lazyt.ir.program import Program, Slot
from lazyt.runtime.cpu import compile, execute
from lazyt.runtime.memory import Buffer
from lazyt.runtime.value_checks import MOST_WORK, Array, Cases, difference, work_of


def check_plan(
    roots: Sequence[Node], inputs: Sequence[Node], program: Program, kernels: Sequence[Kernel]
) -> None:
    """Compare the kernels of a plan with the graph that they were made of, and C with both.

    Args:
        roots: the graph in normal form.
        inputs: the plan's inputs.
        program, kernels: what ``compile_graph`` made of it.

    Raises VerifyError that says which of the two differs, with the kernels.
    """
    if work_of(roots) > MOST_WORK:
        return  # the verification of its passes has said so
    if any(isinstance(phase, CustomPhase) for kernel in kernels for phase in kernel.phases):
        return  # a user's kernel means what its text says, which is not interpreted
    cases = Cases(roots)
    run = None
    if program.target == "c":
        try:
            run = execute.load_once(program)
        except CompileError as error:
            raise VerifyError(f"the C of a plan does not compile: {error}") from error
    for kind, given, wants in cases:
        arrays = [given[leaf] if leaf in given else _stored(leaf) for leaf in inputs]
        results = {"the kernels": run_program(program, kernels, arrays)}
        if run is not None:
            try:
                results["the compiled C"] = run_compiled(run, program, arrays)
            except OutsideError as error:
                shown = "".join(map(print_kernel, kernels)) + print_graph(roots)
                raise OutsideError(f"the C of a plan is wrong: {error}\n{shown}") from error
        for what, raw in results.items():
            for n, (root, value, want) in enumerate(
                zip(roots, typed(raw, roots), wants, strict=True)
            ):
                text = difference(value, want, root.dtype)
                if text:
                    shown = "".join(map(print_kernel, kernels)) + print_graph(roots)
                    raise VerifyError(
                        f"{what} of a plan have another value than its graph: root {n}, {kind} "
                        f"inputs: {text}\n{shown}"
                    )


def _stored(leaf: Node) -> Array:
    """What an input holds, or anything where no result depends on it."""
    if leaf.data is None:
        return np.zeros(leaf.shape, leaf.dtype.numpy)
    held: Array = leaf.data.as_numpy(leaf.dtype, leaf.shape)
    return held


def typed(raw: Sequence[Array], roots: Sequence[Node]) -> list[Array]:
    """Bytes as the stored arrays of roots."""
    return [
        item[: root.nbytes].view(root.dtype.numpy).reshape(root.shape)
        if root.size
        else np.empty(root.shape, root.dtype.numpy)
        for item, root in zip(raw, roots, strict=True)
    ]


class OutsideError(VerifyError):
    """A plan has written to memory that is not its own."""


#: Bytes before and behind each buffer that nobody may write to.
GUARD = 256
#: What is in memory that nobody has written: all bytes are this one, and floats NaN.
_UNWRITTEN = 0xFF


class _Guarded:
    """Memory between two guards, which holds an array or NaN."""

    def __init__(self, name: str, nbytes: int, content: Array | None = None) -> None:
        self.name, self.nbytes = name, nbytes
        self._all = Buffer(nbytes + 2 * GUARD)
        ctypes.memset(self._all.ptr, _UNWRITTEN, self._all.nbytes)
        start = self._all.ptr + GUARD
        if content is not None:
            ctypes.memmove(start, np.ascontiguousarray(content).ctypes.data, content.nbytes)
        self.buffer = Buffer.foreign(start, nbytes, self._all)

    def check(self) -> None:
        """Raises OutsideError where a guard has changed."""
        for side, at in (("before", 0), ("behind", GUARD + self.nbytes)):
            if ctypes.string_at(self._all.ptr + at, GUARD) != bytes([_UNWRITTEN]) * GUARD:
                raise OutsideError(f"it writes to memory {side} {self.name}")


class Guards:
    """The memory of a plan, all of it guarded; what was not written is NaN.

    Args:
        program: whose memory it is.
        inputs: stored arrays of its inputs, which are copied.
    """

    def __init__(self, program: Program, inputs: Sequence[Array]) -> None:
        self.program = program
        self.inputs = [_Guarded(f"input {n}", x.nbytes, x) for n, x in enumerate(inputs)]
        self._sizes: dict[int, int] = {}
        for slot in program.slots:
            if slot.kind == "output":
                self._sizes[slot.index] = max(slot.nbytes, self._sizes.get(slot.index, 0))
        count = max(self._sizes, default=-1) + 1
        self.outputs = [_Guarded(f"output {n}", self._sizes.get(n, 0)) for n in range(count)]
        self.arena = _Guarded("the arena", program.arena_bytes)

    def pointer(self, slot: Slot) -> int:
        """Where a slot of the program is."""
        if slot.kind == "arena":
            return self.arena.buffer.ptr + slot.offset
        held = self.inputs if slot.kind == "input" else self.outputs
        return held[slot.index].buffer.ptr

    def results(self) -> list[Array]:
        """The bytes of each root. Raises OutsideError where a guard was written to."""
        for item in (*self.inputs, *self.outputs, self.arena):
            item.check()
        found = []
        for n in self.program.results:
            if n < 0:
                found.append(_bytes(self.inputs[-1 - n].buffer, self.inputs[-1 - n].nbytes))
            else:
                held = self.outputs[n].buffer if n < len(self.outputs) else None
                found.append(_bytes(held, self._sizes.get(n, 0)))
        return found


def run_compiled(run: execute.Executable, program: Program, inputs: Sequence[Array]) -> list[Array]:
    """What a compiled plan computes: the bytes of each root.

    Memory that was not written is NaN, also before and behind what belongs to the plan, so that
    results show where it was read. Raises OutsideError where it was written to.
    """
    memory = Guards(program, inputs)
    given = [item.buffer for item in memory.inputs]
    given += [Buffer(1) for _ in range(run.inputs - len(given))]
    run.run(given[: run.inputs], [item.buffer for item in memory.outputs], memory.arena.buffer)
    return memory.results()


#: What a compiler's check says: a file's name, a line, a column, and what is undefined there.
_UNDEFINED = re.compile(r"unit(\d+)\.c:(\d+):\d+: runtime error: (.*)")


def undefined_behaviour(program: Program, inputs: Sequence[Array]) -> str:
    """What a plan's C does on these inputs that C leaves undefined: the first such line, and what
    is wrong there; empty where nothing is found, or the compiler cannot look for it."""
    compiler = compile.find()
    try:
        run = execute.load_once(program, compiler.checking)
    except CompileError:  # it has no library of such checks
        return ""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as heard:
        kept = os.dup(2)
        os.dup2(heard.fileno(), 2)  # C writes to the descriptor, whatever sys.stderr is
        try:
            run_compiled(run, program, inputs)
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        heard.seek(0)
        found = _UNDEFINED.search(heard.read())
    if found is None:
        return ""
    units = compile.split_units(program, compile.side_by_side(), compiler.own_threads)
    unit, line = int(found[1]), int(found[2])
    text = units[unit].splitlines()[line - 1].strip()
    return f"line {line} of its C, {text}: {found[3]}"


def as_buffer(array: Array) -> Buffer:
    """New memory with the bytes of an array."""
    made = Buffer(max(array.nbytes, 1))
    ctypes.memmove(made.ptr, np.ascontiguousarray(array).ctypes.data, array.nbytes)
    return made


def _bytes(buffer: Buffer | None, size: int) -> Array:
    if buffer is None or not size:
        return np.empty(0, np.uint8)
    return np.frombuffer(ctypes.string_at(buffer.ptr, size), np.uint8)
