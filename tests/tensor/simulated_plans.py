"""Plans that run without a compiler: each launch does in memory what the graph says.

Everything but the text of kernels is real: what is a plan, where its values live, what is written
over, how captured calls are replayed. A launch reads the memory that it reads, computes by the
meaning of the graph, and writes. So thousands of programs test memory in the time that a compiler
takes for ten.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from lazyt.codegen.lower.groups import Lowered
from lazyt.codegen.plan import assemble
from lazyt.codegen.plan.printed import PrintedKernel
from lazyt.codegen.proof.plan import check_plan
from lazyt.config import config
from lazyt.extensions import targets
from lazyt.ir.graph import Node, topological
from lazyt.ir.kernel import Kernel
from lazyt.ir.program import KernelSource, Launch, Program
from lazyt.plan import planning
from lazyt.runtime.cpu import execute
from lazyt.runtime.interpreter import load, store

_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)


class Simulator:
    """What stands for the C compiler and its kernels.

    Attributes:
        errors: what went wrong in launches, whose callers cannot be told.
        runs: how many plans ran.
    """

    def __init__(self) -> None:
        self._lowered: dict[int, tuple[Program, Sequence[Lowered]]] = {}
        self._entries: list[Any] = []
        self._load = execute.load
        self.errors: list[BaseException] = []
        self.runs = 0

    def note(self, program: Program, lowered: Sequence[Lowered], *rest: Any) -> None:
        """Remembers what the launches of a program mean, and proves it as always."""
        check_plan(program, lowered, *rest)
        self._lowered[id(program)] = program, lowered

    def load(self, program: Program, *_: object) -> execute.Executable:
        """The executable of a program; stands for ``execute.load``, which has those that are no
        plans: helpers in C."""
        if id(program) not in self._lowered:
            return self._load(program)
        lowered = self._lowered[id(program)][1]

        def run(slots: int, threads: int) -> None:
            try:
                self.runs += 1
                pointers = (ctypes.c_void_p * len(program.slots)).from_address(slots or 0)
                for launch, made in zip(program.launches, lowered, strict=True):
                    _run_launch(launch, made, pointers)
            except BaseException as error:
                self.errors.append(error)

        entry: Any = _ENTRY(run)
        self._entries.append(entry)
        return execute.Executable(program, entry)


_numbers = itertools.count()


def _print(kernel: Kernel, names: object, **_: object) -> PrintedKernel:
    """Text that nobody compiles, different for each kernel."""
    unit = 1 if kernel.segments else 0
    text = f"/* {next(_numbers)} */"
    return PrintedKernel(KernelSource("lz_kernel", text, (), len(kernel.arguments), unit=unit))


def _run_launch(launch: Launch, made: Lowered, pointers: Any) -> None:
    roles = [b.role for b in made.kernel.arguments] * max(1, len(made.kernel.segments))
    known: dict[Node, np.ndarray] = {}
    written: list[tuple[Node, np.ndarray]] = []
    for slot, node, role in zip(launch.slots, made.arguments, roles, strict=False):
        if node is None:
            continue
        memory = _array(node, pointers[slot])
        if role == "in":
            known[node] = load(memory.copy(), node.dtype)
        elif role == "inout":
            old = made.replaced[node]
            known[old] = load(memory.copy(), old.dtype)
        if role != "in":
            written.append((node, memory))
    values = _evaluate([node for node, _ in written], known)
    for (_, memory), value in zip(written, values, strict=True):
        memory[...] = value


def _array(node: Node, address: int) -> np.ndarray:
    memory = memoryview((ctypes.c_char * node.nbytes).from_address(address)).cast("B")
    return np.ndarray(node.shape, node.dtype.numpy, memory)


def _evaluate(roots: Sequence[Node], known: dict[Node, np.ndarray]) -> list[np.ndarray]:
    """The stored arrays of values that are computed from what is known."""
    values = dict(known)
    for node in topological(roots, lambda n: n in known or n.data is not None):
        if node in values:
            continue
        if node.data is not None:
            values[node] = load(node.data.as_numpy(node.dtype, node.shape), node.dtype)
            continue
        if node.op.name == "input":  # of which the kernel needs nothing: anything will do
            strange = 113 if node.dtype.kind != "f" else np.nan
            values[node] = np.full(node.shape, strange, node.dtype.compute.numpy)
            continue
        with np.errstate(all="ignore"):
            values[node] = np.asarray(node.op.evaluate(node, *(values[i] for i in node.inputs)))
    return [store(values[node], node.dtype) for node in roots]


@contextlib.contextmanager
def simulated() -> Iterator[Simulator]:
    """A context in which plans need no compiler; raises the first error of a launch at its end."""
    machine = Simulator()
    planning.clear()
    with pytest.MonkeyPatch.context() as patched, config.override(any_size=False, disk_cache=False):
        patched.setattr(assemble, "check_plan", machine.note)
        patched.setattr(assemble, "share_texts", lambda kernels, texts, printer: texts)
        patched.setattr(targets, "_print_c", _print)
        patched.setattr(execute, "load", machine.load)
        try:
            yield machine
        finally:
            planning.clear()
    if machine.errors:
        raise machine.errors[0]
