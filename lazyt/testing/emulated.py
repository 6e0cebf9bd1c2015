"""A plan's CUDA C as it is for far larger tensors, run on the emulator over guarded memory.

What large launches have, blocks that take one tile after the other and threads that take several
adjacent points, small graphs do not reach. So kernels are printed with small limits here. Memory is
watched: two threads that use an element without an order, and what is not a buffer's, are found.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from lazyt.codegen.cuda.target import device_helpers, print_kernel_cuda, program_text
from lazyt.ir.kernel import Kernel
from lazyt.ir.program import Program
from lazyt.runtime.cuda.emulated import Emulator
from lazyt.runtime.plan_checks import GUARD, Guards
from lazyt.runtime.value_checks import Array

#: Blocks of a launch at most, and points from which threads take several.
MOST_BLOCKS, MANY_POINTS = 2, 1


class SmallLimits:
    """The kernels of a plan, printed with small limits and compiled for the emulator.

    Args:
        program, kernels: what ``compile_graph`` made for the target ``cuda``.

    Raises CompileError and NoCompilerError.
    """

    def __init__(self, program: Program, kernels: Sequence[Kernel]) -> None:
        self.program, self.kernels = program, kernels
        self.printed = [
            print_kernel_cuda(kernel, MOST_BLOCKS, MANY_POINTS).renamed(f"lz_small{number}")
            for number, kernel in enumerate(kernels)
        ]
        functions = [launch.function for kernel in self.printed for launch in kernel.launches]
        source = device_helpers("emulator") + "\n" + program_text(self.printed)
        self._machine = Emulator(source, functions, watched=True)

    def run(self, inputs: Sequence[Array], seed: int = 0) -> list[Array]:
        """The bytes of each root, of stored arrays of the plan's inputs; ``seed`` decides the order
        in which warps run.

        Raises InternalError for what the emulator finds, and OutsideError.
        """
        memory = Guards(self.program, inputs)
        parts = zip(self.program.launches, self.kernels, self.printed, strict=True)
        for launch, kernel, printed in parts:
            pointers = [memory.pointer(self.program.slots[number]) for number in launch.slots]
            sizes = [math.prod(b.shape) * b.dtype.itemsize for b in kernel.buffers]
            for each in printed.launches:
                self._machine.launch(
                    each.function, each.blocks, each.threads, each.shared_bytes, pointers,
                    each.collective, seed, sizes, GUARD,
                )  # fmt: skip
        return memory.results()
