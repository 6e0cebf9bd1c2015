"""One kernel in C, on memory of its own: run, compared and timed apart from any plan."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lazyt.codegen.c.target import print_kernel_c
from lazyt.codegen.plan.choices import Tuned, noted_form
from lazyt.codegen.plan.trials import forms_program
from lazyt.codegen.prelude import exactly
from lazyt.config import config
from lazyt.errors import ShapeError
from lazyt.extensions.targets import machine
from lazyt.ir.kernel import Buffer as KernelBuffer
from lazyt.ir.kernel import Kernel
from lazyt.ir.kernel_interpreter import walked
from lazyt.runtime import devices
from lazyt.runtime.cpu import execute
from lazyt.runtime.memory import Buffer
from lazyt.tuning.clock import Runner, Steps, repeats

if TYPE_CHECKING:
    import numpy as np

    Memory = Mapping[str, np.ndarray | Sequence[np.ndarray]]


def argument_shapes(kernel: Kernel) -> list[tuple[KernelBuffer, tuple[int, ...]]]:
    """The arguments of a launch with their shapes: of a kernel with segments, those of the first
    segment, then those of the second, and so on."""
    if not kernel.segments:
        return [(b, b.shape) for b in kernel.arguments]
    along = walked(kernel)
    return [
        (b, (extent,) if b.name in along else b.shape)
        for extent in kernel.segments
        for b in kernel.arguments
    ]


class CompiledKernel:
    """A kernel compiled for this machine.

    Args:
        kernel: one that ``verify_kernel`` and ``check_bounds`` accept: C checks nothing.
        form: how it is to be written; else as its text asks for, or as the heuristics decide.

    Attributes:
        note: how it is written, in words, where the printer has any.
        workspace: bytes of scratch that the form needs.

    Raises CompileError where there is no compiler, ChoiceError for a form that is none.

    Example:
        >>> import numpy as np
        >>> import lazyt.ops
        >>> from lazyt.ir.parser import parse_kernel
        >>> from lazyt.tuning import CompiledKernel
        >>> kernel = parse_kernel('''
        ... kernel double(in x: float32[3], out y: float32[3]) {
        ...   phase (i: 3) lanes grid work 1.0 {
        ...     once { store y[i] = add(x[i], x[i]) }
        ...   }
        ... }''')
        >>> y = np.empty(3, np.float32)
        >>> CompiledKernel(kernel).run({"x": np.arange(3, dtype=np.float32), "y": y})
        >>> y.tolist()
        [0.0, 2.0, 4.0]
    """

    def __init__(self, kernel: Kernel, form: Tuned | None = None) -> None:
        self.kernel = kernel
        tuned = noted_form(kernel) if form is None else form
        kernel = replace(kernel, name="lz_kernel")  # which becomes a name of its own
        printed = print_kernel_c(
            kernel, *machine(), tuned=tuned, threads=max(devices.cpu().cores, 2),
            traits=devices.traits(),
        )  # fmt: skip
        self.note, self.workspace = printed.note, printed.workspace
        self._shapes = argument_shapes(kernel)
        sizes = [b.dtype.itemsize * math.prod(shape) for b, shape in self._shapes]
        with exactly(config.exact):
            program = forms_program([printed], sizes, kernel.segments)
        self._buffers = [Buffer(max(slot.nbytes, 1)) for slot in program.slots[:-1]]
        pointers = [buffer.ptr for buffer in self._buffers]
        self._steps = Steps(execute.load_once(program), pointers)
        self._given: list[bytes] = []

    def run(self, arrays: Memory) -> None:
        """Computes in place, as ``run_kernel`` does.

        Args:
            arrays: the memory of each argument by the buffer's name, C-contiguous, in its shape and
                storage type; of a kernel with segments a sequence of arrays. Scratch may be left
                out.

        Raises ShapeError for arrays that are missing or do not fit.
        """
        found = self._arrays(arrays)
        for buffer, array in zip(self._buffers, found):
            if array is not None:
                ctypes.memmove(buffer.ptr, array.ctypes.data, array.nbytes)
        self._given = [
            ctypes.string_at(buffer.ptr, array.nbytes) if array is not None else b""
            for buffer, array in zip(self._buffers, found)
        ]
        self._steps.run(0)
        for buffer, array, (declared, _) in zip(self._buffers, found, self._shapes):
            if array is not None and declared.role != "in":
                ctypes.memmove(array.ctypes.data, buffer.ptr, array.nbytes)

    def samples(self, count: int, times: int | None = None) -> list[float]:
        """Seconds of a run, measured ``count`` times, on the arrays that ``run`` was given last;
        each is the mean of ``times`` runs in a row, by default so many that they take 2 ms."""
        runner = Runner(lambda repeated: self._steps.run(0, repeated), self._restore)
        runner.seconds(1)
        number = repeats(runner.seconds(1)) if times is None else times
        return [runner.seconds(number) for _ in range(count)]

    def _restore(self) -> None:
        """What the kernel updates holds what it held before."""
        for buffer, before, (declared, _) in zip(self._buffers, self._given, self._shapes):
            if declared.role == "inout":
                buffer.copy_from(before)

    def _arrays(self, arrays: Memory) -> list[Any]:
        """The arrays in the order of arguments, None for scratch that is not given."""
        found: list[Any] = []
        turns: dict[str, int] = {}
        for buffer, shape in self._shapes:
            number = turns[buffer.name] = turns.get(buffer.name, -1) + 1
            array: Any = arrays.get(buffer.name)
            if array is not None and self.kernel.segments:
                array = array[number]
            if array is None and buffer.role != "work":
                text = f"no array is given for {buffer.name}"
                raise ShapeError(f"kernel {self.kernel.name}: {text}")
            if array is not None and (
                array.shape != shape
                or array.dtype != buffer.dtype.numpy
                or not array.flags.c_contiguous
            ):
                given = f"{array.dtype}{list(array.shape)}"
                wanted = f"{buffer.dtype.numpy}{list(shape)}, contiguous"
                text = f"{buffer.name} is {wanted}, not {given}"
                raise ShapeError(f"kernel {self.kernel.name}: {text}")
            found.append(array)
        return found


def random_arrays(kernel: Kernel, rng: np.random.Generator) -> dict[str, Any]:
    """Memory for all arguments: uniform numbers from -1 to 1, integers from 0 to 9, truth values;
    zeros for what has no meaning before. With segments a list for each name."""
    import numpy as np

    from lazyt.ir.kernel_interpreter import narrow

    found: dict[str, Any] = {}
    for buffer, shape in argument_shapes(kernel):
        if buffer.role not in ("in", "inout"):
            array = np.zeros(shape, buffer.dtype.numpy)
        elif buffer.dtype.kind == "f":
            values = rng.uniform(-1, 1, shape).astype(buffer.dtype.compute.numpy)
            array = narrow(values, buffer.dtype)
        else:
            high = 2 if buffer.dtype.kind == "b" else 10
            array = rng.integers(0, high, shape).astype(buffer.dtype.numpy)
        if kernel.segments:
            found.setdefault(buffer.name, []).append(array)
        else:
            found[buffer.name] = array
    return found
