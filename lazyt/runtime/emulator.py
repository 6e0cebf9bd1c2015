"""Running CUDA C kernels on the CPU, slowly and with checks, to find their faults without a GPU.

The text is the GPU's own, compiled as C++ after helpers (``codegen/prelude/emulator.h``) that make
every CUDA thread a fiber. Missing and divergent barriers, shared memory out of bounds or read
before it is written (it starts as NaN) show up as errors or as wrong values.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
from collections.abc import Iterable, Sequence

from lazyt.errors import CompileError, InternalError, NoCompilerError
from lazyt.runtime import cache

_FLAGS = (
    "-O1",
    "-std=c++17",
    "-march=native",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-fwrapv",
    "-fPIC",
    "-shared",
    "-w",
)
#: A thread's arrays are on its stack, and it may have 256 KiB of them.
_STACK_BYTES = 512 << 10


class Emulator:
    """Kernels compiled for the CPU.

    Args:
        source: helpers and kernels, complete text.
        functions: names of the kernels to run.

    Raises:
        NoCompilerError: there is no C++ compiler.
        CompileError: the compiler refused the text, which is kept.
    """

    def __init__(self, source: str, functions: Iterable[str]) -> None:
        entries = [f"LZ_EMULATED({name})" for name in functions]
        self._library = _build("\n".join([source, *entries]) + "\n")

    def launch(
        self,
        function: str,
        blocks: int,
        threads: int,
        shared_bytes: int,
        pointers: Sequence[int],
        collective: bool = True,
        seed: int = 0,
    ) -> None:
        """Run a kernel over its whole grid.

        Args:
            function: the kernel's name.
            blocks, threads: grid and block, in one dimension.
            shared_bytes: dynamic shared memory of a block.
            pointers: addresses of the kernel's buffers.
            collective: whether threads wait for each other; without, no fibers are needed.
            seed: decides the order in which warps run.

        Raises InternalError, which names kernel, block and thread, when threads wait for each
        other for ever or at different places, and when shared memory is accessed out of bounds.
        """
        launch = self._library[f"{function}_launch"]
        launch.restype = ctypes.c_char_p
        array = (ctypes.c_void_p * max(len(pointers), 1))(*pointers)
        message = launch(
            array,
            ctypes.c_longlong(blocks),
            threads,
            shared_bytes,
            int(collective),
            ctypes.c_longlong(_STACK_BYTES),
            ctypes.c_ulonglong(seed),
        )
        if message is not None:
            raise InternalError("runtime.emulator", message.decode())


def find_compiler() -> list[str]:
    """The C++ compiler's command: ``CXX``, else g++ or clang++; raises NoCompilerError."""
    named = shlex.split(os.environ.get("CXX", ""))
    for words in [named] if named else [["g++"], ["clang++"]]:
        found = shutil.which(words[0])
        if found is not None:
            return [found, *words[1:]]
    wanted = named[0] if named else "g++ or clang++"
    raise NoCompilerError(f"no C++ compiler: {wanted} is not on the PATH. Install one or set CXX.")


def _build(source: str) -> ctypes.CDLL:
    import subprocess

    compiler = find_compiler()
    place = next(iter(cache.scratch_places()))
    with cache.scratch(place) as folder:
        text, output = os.path.join(folder, "kernels.cpp"), os.path.join(folder, "kernels.so")
        with open(text, "w", encoding="utf-8") as file:
            file.write(source)
        command = [*compiler, *_FLAGS, text, "-o", output]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            kept = cache.keep_failed(cache.hash_text(source), source)
            raise CompileError(command, done.stderr, kept)
        return ctypes.CDLL(output)
