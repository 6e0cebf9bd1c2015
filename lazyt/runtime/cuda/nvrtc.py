"""From CUDA C text to a cubin through NVRTC, which needs no driver and no GPU.

``cuda.bindings`` is imported when the first program is compiled: most processes never need it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import Any

from lazyt.errors import CompileError, DeviceError
from lazyt.runtime import cache

# Machine code of compiled CUDA programs as text, by NVIDIA's disassemblers.


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
    with cache.scratch(next(iter(cache.scratch_folders()))) as folder:
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


#: NVRTC's options beside the architecture. A multiplication and an addition are only fused where
#: the text says so, as on the CPU.
OPTIONS = (
    "--std=c++17",
    "--fmad=false",
    "-default-device",
    "--ptxas-options=-v",
    "--diag-suppress=177",  # helpers that a program does not use
)

#: What brings NVRTC and the bindings, however lazyt itself was installed.
INSTALL = "pip install cuda-python nvidia-cuda-nvrtc"

_ENTRY = re.compile(r"Compiling entry function '(\w+)' for")
_USED = re.compile(r"Used (\d+) registers")
_SPILLED = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores")


@dataclass(frozen=True)
class Cubin:
    """A compiled program.

    Attributes:
        image: what the driver loads.
        registers: registers per thread of each function.
        spilled: bytes per thread that each function spills from registers to memory.
        stack: bytes per thread of each function's arrays that are not in registers.
        log: everything the compiler printed.
    """

    image: bytes
    registers: dict[str, int]
    spilled: dict[str, int]
    stack: dict[str, int]
    log: str


def available() -> bool:
    """Whether NVRTC can be used here."""
    try:
        _bindings()
    except DeviceError:
        return False
    return True


def version() -> str:
    """NVRTC's version, such as ``13.0``; part of a cached cubin's key.

    Raises DeviceError when the packages are missing.
    """
    nvrtc = _bindings()
    _, major, minor = nvrtc.nvrtcVersion()
    return f"{major}.{minor}"


def target_of(major: int, minor: int) -> str:
    """What programs for a GPU of this compute capability are compiled for.

    That is its architecture, such as ``sm_90a``, where NVRTC knows it. For a newer GPU it is the
    newest architecture below it in the form ``compute_121``: PTX, which the driver translates.

    Raises DeviceError for a GPU that is older than all that NVRTC knows, and where the packages
    are missing.
    """
    nvrtc, wanted = _bindings(), 10 * major + minor
    known = _call(nvrtc, nvrtc.nvrtcGetSupportedArchs())
    if wanted in known:
        return f"sm_{wanted}{'a' if major >= 9 else ''}"
    older = [one for one in known if one < wanted]
    if not older:
        raise DeviceError(
            f"NVRTC {version()} compiles for GPUs of compute capability "
            f"{min(known) / 10:.1f} and newer, not for {major}.{minor}: install an older one, such "
            "as that of nvidia-cuda-nvrtc-cu12"
        )
    return f"compute_{max(older)}"


def compile_cubin(source: str, arch: str = "sm_90a") -> Cubin:
    """The cubin of CUDA C text.

    Args:
        source: complete text; no headers can be included.
        arch: what ``target_of`` gives for the GPU, such as ``sm_80``; the image is PTX for
            ``compute_80``, and says nothing about registers.

    Raises:
        CompileError: NVRTC refused the text, which is kept.
        DeviceError: the packages are missing.
    """
    nvrtc = _bindings()
    options = [f"--gpu-architecture={arch}", *OPTIONS]
    program = _call(nvrtc, nvrtc.nvrtcCreateProgram(source.encode(), b"kernels.cu", 0, [], []))
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
        log = _read(nvrtc, program, "ProgramLog").decode(errors="replace").strip("\0 \n")
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            kept = cache.save_failed(cache.hash_text(source), source)
            raise CompileError(["nvrtc", *options], log or str(status), kept)
        image = _read(nvrtc, program, "CUBIN" if arch.startswith("sm_") else "PTX")
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return Cubin(image, *_facts(log), log)


def _bindings() -> Any:
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, OSError, RuntimeError) as error:
        raise DeviceError(
            f"NVRTC, the CUDA compiler, cannot be used: {error}. Install it with `{INSTALL}`."
        ) from error
    return nvrtc


def _call(nvrtc: Any, result: tuple[Any, ...]) -> Any:
    status, *rest = result
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise DeviceError(f"NVRTC failed: {status}. Check `python -m lazyt doctor`.")
    return rest[0] if rest else None


def _read(nvrtc: Any, program: Any, what: str) -> bytes:
    """One of a program's outputs."""
    size = _call(nvrtc, getattr(nvrtc, f"nvrtcGet{what}Size")(program))
    out = bytes(size)
    _call(nvrtc, getattr(nvrtc, f"nvrtcGet{what}")(program, out))
    return out


def _facts(log: str) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """Registers, spilled bytes and stack bytes of each function, from ptxas' report."""
    registers: dict[str, int] = {}
    spilled: dict[str, int] = {}
    stack: dict[str, int] = {}
    name = ""
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            name = match.group(1)
        elif match := _SPILLED.search(line):
            stack[name], spilled[name] = int(match.group(1)), int(match.group(2))
        elif match := _USED.search(line):
            registers[name] = int(match.group(1))
    return registers, spilled, stack
