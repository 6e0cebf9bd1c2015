"""The C target: kernels and plans as C text.

A kernel becomes ``void name(char *b0, ..., int threads)``. A plan becomes one entry function that
calls its kernels in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lazyt.codegen import c_tree as ct
from lazyt.codegen.c_contract import contract_text
from lazyt.codegen.c_family import Expressions, c_type
from lazyt.codegen.c_loops import PhasePrinter
from lazyt.codegen.routines import routine_c
from lazyt.ir.kernel import CallPhase, ContractPhase, Kernel
from lazyt.ir.program import KernelSource, Launch


@dataclass(frozen=True)
class PrintedKernel:
    """A kernel as text.

    Attributes:
        source: the C function.
        sections: helpers of its own beside the shared prelude (micro-kernels of contractions).
        workspace: bytes of scratch that it takes as its last buffer, 0 for none.
        note: how the target chose to do it.
    """

    source: KernelSource
    sections: tuple[tuple[str, str], ...] = ()
    workspace: int = 0
    note: str = ""


def print_kernel_c(
    kernel: Kernel, vector_bytes: int, caches: tuple[int, int, int]
) -> PrintedKernel:
    """The kernel's C function ``void name(char *b0_, ..., int threads)``."""
    expressions = Expressions(kernel.buffers)
    first = kernel.phases[0]
    if isinstance(first, ContractPhase):
        made = contract_text(kernel, first, expressions, vector_bytes, caches)
        used = tuple(sorted(expressions.used)) + tuple(name for name, _ in made.sections)
        source = KernelSource(kernel.name, made.text, used, len(kernel.buffers) + 1)
        return PrintedKernel(source, made.sections, max(made.workspace_bytes, 1), made.note)
    body: list[ct.Node] = []
    for number, buffer in enumerate(kernel.buffers):
        const = buffer.role == "in"
        kind = c_type(buffer.dtype)
        pointer = ct.cast_pointer(kind, ct.name(f"b{number}_"), const)
        body.append(ct.declare_pointer(kind, buffer.name, pointer, const))
    for number, phase in enumerate(kernel.phases):
        assert not isinstance(phase, ContractPhase)
        if isinstance(phase, CallPhase):
            body += routine_c(phase, expressions)
            continue
        body += PhasePrinter(phase, expressions, number).statements()
    parameters = [("char *", f"b{i}_") for i in range(len(kernel.buffers))] + [("int", "threads")]
    text = ct.text(ct.function(kernel.name, parameters, body))
    used = tuple(sorted(expressions.used))
    return PrintedKernel(KernelSource(kernel.name, text, used, len(kernel.buffers)))


def print_entry_c(kernels: Sequence[KernelSource], launches: Sequence[Launch]) -> str:
    """The plan's entry function ``lz_plan``, with declarations of the kernels it calls."""
    lines = []
    for kernel in kernels:
        pointers = ", ".join(["char *"] * kernel.arity + ["int"])
        lines.append(f"void {kernel.name}({pointers});")
    lines.append('__attribute__((visibility("default")))')
    lines.append("void lz_plan(char **slots, int threads)\n{")
    for launch in launches:
        arguments = ", ".join([f"slots[{s}]" for s in launch.slots] + ["threads"])
        lines.append(f"  {launch.kernel}({arguments});")
    lines.append("}\n")
    return "\n".join(lines)
