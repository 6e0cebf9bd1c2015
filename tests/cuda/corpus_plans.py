"""Cells of the corpus as plans, and plans run on the emulator: the texts that a GPU is given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lazyt.codegen.cuda.target import device_helpers
from lazyt.codegen.prelude import sections_for
from lazyt.compiler import compile_graph
from lazyt.ir.dtypes import DType
from lazyt.ir.graph import Node
from lazyt.ir.program import Grid, KernelSource, Program
from lazyt.runtime.cuda.emulated import Emulator
from lazyt.runtime.interpreter import interpret, load
from tests.cuda.corpus_cells import Cell, built

#: Characters of kernels that are compiled as one program.
PART_CHARS = 60_000
_FENCE = 64
_RELATIVE = {"float32": 2e-6, "float64": 4e-15, "float16": 1e-3, "bfloat16": 8e-3}


@dataclass(frozen=True)
class Plan:
    """A cell, its graph, and the program that a GPU would be given for it."""

    cell: Cell
    roots: list[Node]
    inputs: list[Node]
    program: Program

    @property
    def grids(self) -> dict[str, tuple[Grid, ...]]:
        """The launches of each kernel."""
        return {kernel.name: kernel.grids for kernel in self.program.kernels}


def make_plan(cell: Cell) -> Plan | None:
    """The plan of a cell; None where nothing is to be computed for it."""
    roots = built(cell)
    if roots is None:
        return None
    inputs = [node for node in every_node(roots) if node.op.name == "input"]
    program, _ = compile_graph(roots, inputs, target="cuda")
    return Plan(cell, roots, inputs, program) if program.launches else None


def every_node(roots: Sequence[Node]) -> list[Node]:
    """All nodes of a graph, each once."""
    seen: dict[Node, None] = {}
    work = list(roots)
    while work:
        node = work.pop()
        if node not in seen:
            seen[node] = None
            work += node.inputs
    return list(seen)


def distinct(plans: Iterable[Plan]) -> dict[str, KernelSource]:
    """The kernels of plans by name, which is a hash of their text."""
    return {kernel.name: kernel for plan in plans for kernel in plan.program.kernels}


def parts(kernels: Iterable[KernelSource]) -> list[list[KernelSource]]:
    """Kernels in groups of which each is a program of bearable size."""
    found: list[list[KernelSource]] = []
    room = 0
    for kernel in kernels:
        if len(kernel.text) > room:
            found.append([])
            room = PART_CHARS
        found[-1].append(kernel)
        room -= len(kernel.text)
    return found


def program_text(kernels: Sequence[KernelSource], target: str) -> str:
    """Helpers, math functions and kernels: ``target`` is ``cuda`` or ``emulator``."""
    names = sorted({name for kernel in kernels for name in kernel.prelude})
    sections = [text for _, text in sections_for(names)]
    return "\n".join([device_helpers(target), *sections, *(k.text for k in kernels)]) + "\n"


def functions(kernels: Iterable[KernelSource]) -> list[str]:
    """The functions of kernels."""
    return [grid.function for kernel in kernels for grid in kernel.grids]


def emulate(kernels: Sequence[KernelSource], watched: bool = False) -> Emulator:
    """Kernels compiled for the emulator; with global memory watched, if so."""
    return Emulator(program_text(kernels, "emulator"), functions(kernels), watched)


def run(plan: Plan, machines: Mapping[str, Emulator], seed: int) -> list[np.ndarray]:
    """The stored values of a plan's roots; ``machines`` has an emulator for each kernel.

    Raises InternalError for what the emulator finds. Asserts that inputs stay and that nothing is
    written beside buffers.
    """
    given = [n.data.as_numpy(n.dtype, n.shape) for n in plan.inputs if n.data is not None]
    inputs = [_fenced(array.nbytes, array) for array in given]
    outputs: dict[int, np.ndarray] = {}
    arena = _fenced(plan.program.arena_bytes)
    pointers = []
    for slot in plan.program.slots:
        if slot.kind == "arena":
            pointers.append(arena.ctypes.data + _FENCE + slot.offset)
            continue
        if slot.kind == "output":
            outputs.setdefault(slot.index, _fenced(slot.nbytes))
        memory = inputs[slot.index] if slot.kind == "input" else outputs[slot.index]
        pointers.append(memory.ctypes.data + _FENCE)
    for launch in plan.program.launches:
        arguments = [pointers[n] for n in launch.slots]
        for grid in plan.grids[launch.kernel]:
            shape = grid.blocks, grid.threads, grid.shared_bytes
            machine = machines[launch.kernel]
            sizes = [plan.program.slots[n].nbytes for n in launch.slots]
            machine.launch(grid.function, *shape, arguments, grid.collective, seed, sizes)
    for memory in (*inputs, *outputs.values(), arena):
        assert (memory[:_FENCE] == 0xFF).all() and (memory[-_FENCE:] == 0xFF).all()
    for array, memory in zip(given, inputs, strict=True):
        assert memory[_FENCE:-_FENCE].tobytes() == array.tobytes()
    found = []
    for root, number in zip(plan.roots, plan.program.results, strict=True):
        memory = outputs[number] if number >= 0 else inputs[-1 - number]
        found.append(_stored(memory, root.dtype, root.shape))
    return found


def _fenced(nbytes: int, content: np.ndarray | None = None) -> np.ndarray:
    """Memory of bytes that no right value has, with more of them around it, aligned to 64."""
    whole = np.full(nbytes + 3 * _FENCE, 0xFF, np.uint8)
    start = -whole.ctypes.data % _FENCE
    memory = whole[start : start + nbytes + 2 * _FENCE]
    if content is not None:
        memory[_FENCE : _FENCE + nbytes] = np.frombuffer(content.tobytes(), np.uint8)
    return memory


def _stored(memory: np.ndarray, dtype: DType, shape: Sequence[int]) -> np.ndarray:
    inside = memory[_FENCE : _FENCE + int(np.prod(shape, dtype=np.int64)) * dtype.itemsize]
    return inside.view(dtype.numpy).reshape(shape)


def difference(plan: Plan, got: Sequence[np.ndarray], want: Sequence[np.ndarray]) -> str:
    """What differs from the interpreter by more than rounding explains, or nothing."""
    for number, (root, a, b) in enumerate(zip(plan.roots, got, want, strict=True)):
        x, y = load(a, root.dtype).astype(np.float64), load(b, root.dtype).astype(np.float64)
        with np.errstate(all="ignore"):
            top = np.abs(y[np.isfinite(y)]).max(initial=0)
            error = _RELATIVE.get(root.dtype.name, 0.0) * plan.cell.scale * (1 + top)
            same = (np.abs(x - y) <= error) | (x == y) | (np.isnan(x) & np.isnan(y))
        if not same.all():
            at = tuple(int(i[0]) for i in np.nonzero(~same))
            return f"root {number} at {at}: {x[at]}, {y[at]} by the interpreter"
    return ""


def wanted(plan: Plan) -> list[np.ndarray]:
    """What the interpreter says."""
    return interpret(plan.roots)
