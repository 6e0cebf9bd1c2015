"""Machine code of compiled CUDA programs as text, by NVIDIA's disassemblers."""

from __future__ import annotations

import os
import shutil
import subprocess

from lazyt.errors import DeviceError
from lazyt.runtime import cache

_TOOLS = (("nvdisasm", ()), ("cuobjdump", ("--dump-sass",)))
_ADVICE = (
    "NVIDIA's disassembler is not installed: nvdisasm or cuobjdump, of the CUDA toolkit or of the "
    "package nvidia-cuda-nvcc, has to be on the PATH"
)


def tool() -> list[str] | None:
    """The command that prints a cubin, without the file; None where there is none."""
    for name, options in _TOOLS:
        found = shutil.which(name)
        if found is not None:
            return [found, *options]
    return None


def disassemble(image: bytes) -> str:
    """The SASS of a cubin. Raises DeviceError, which says how to get a disassembler."""
    command = tool()
    if command is None:
        raise DeviceError(_ADVICE)
    with cache.scratch(next(iter(cache.scratch_places()))) as folder:
        path = os.path.join(folder, "kernels.cubin")
        with open(path, "wb") as file:
            file.write(image)
        done = subprocess.run([*command, path], capture_output=True, text=True, check=False)
    if done.returncode:
        raise DeviceError(f"{command[0]} failed: {done.stderr.strip()}")
    return done.stdout


def text_of(image: bytes) -> str:
    """The SASS, or a line that says why there is none."""
    try:
        return disassemble(image)
    except DeviceError as error:
        return f"// {error}\n"
