"""``check_cuda``: one launch of a CUDA kernel, run on the CPU in several orders, and its faults.

The text is compiled for the CPU and run, every CUDA thread as a fiber. What is checked:

- **race**: two threads use the same bytes of shared or global memory, one of them writes, and
  nothing orders them. Barriers of the block order its threads; ``__syncwarp`` its lanes;
  between blocks, a fence and an atomic that the other side sees by an atomic (or, in global
  memory, by volatile accesses). Lanes of a warp do not run in step, and shuffles order no
  memory. Atomics do not race with each other. Two writes of the same value are a race, too.
- **bounds**: accesses beyond global arrays, arrays of shared memory, static or dynamic, and
  indices of local arrays. Null pointers.
- **barrier**: barriers that some threads miss, or wait for elsewhere; shuffles and votes whose
  mask names lanes that never come or not the caller; values of lanes that took no part, where
  they reach a result.
- **uninitialised**: shared memory that is read before it is written (``Finding.matters`` says
  whether what it holds makes a difference); elements of ``outputs`` that are read first, or never
  written; local variables, where the compiler sees it.
- **misaligned**: vectors and numbers at addresses that are no multiple of their size.
- **hang**, **crash**: no end within ``seconds``; a full stack, a failed assertion, a division
  by 0.

What is not executed is not checked: what a kernel does depends on sizes and values. Blocks run
one after another, so one that waits for a later block hangs. Inline PTX, groups of
threads beyond a block, tensor cores, textures, memory that kernels allocate, and CUDA's C++
libraries are refused; of cooperative groups, blocks and tiles are known.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

from lazyt.errors import ArgumentError
from lazyt.runtime import cache
from lazyt.runtime.cuda.checks.arguments import Buffer, arguments_of, write_launch
from lazyt.runtime.cuda.checks.build import Checked, Signature, build
from lazyt.runtime.cuda.checks.findings import Finding, findings_of
from lazyt.runtime.cuda.checks.text import find_kernels

MOST_THREADS, MOST_SHARED, MOST_BLOCKS = 1024, 227 << 10, 1 << 20
_UNWRITTEN, _MEMORY = "unwritten\t", "memory\t"
#: Bytes of shared memory that nobody wrote, for launches of which all have to do the same: NaN, 0,
#: and numbers that are usual, very large, and very small.
_FILLS = (0xFF, 0x00, 0x3F, 0x7F, 0xFE)
_ABORTED = "an assertion failed, or the kernel called abort"


def check_cuda(
    source: str,
    kernel: str,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    arguments: Sequence[Any],
    shared_bytes: int = 0,
    *,
    outputs: Sequence[int | str] = (),
    orders: int = 3,
    seconds: float = 20.0,
    include: Sequence[str] = (),
) -> list[Finding]:
    """Faults of a CUDA kernel in one launch, found without a GPU: races, indices out of bounds,
    barriers and shuffles that threads miss, memory read before it is written, outputs never
    written, misaligned accesses, hangs and crashes. The module says what each means.

    Args:
        source: CUDA C++ text; CUDA's headers and host code that launches kernels are left out.
        kernel: a ``__global__`` function, with a template's arguments (``"reduce<256>"``).
        grid, block: as in a launch: a number, or up to three.
        arguments: one for each parameter. A pointer takes an array (what has the buffer protocol;
            a copy is used), None for null, or a text: ``"float[8]"`` for memory that nobody has
            written, ``"float[8]=0"``, ``"float[8]=range"``, ``"float[8]=random"``. One array given
            twice is the same memory. A number takes a number, a struct its bytes.
        shared_bytes: dynamic shared memory.
        outputs: numbers or names of parameters that hold nothing at first and must be written
            completely, as texts without values are.
        orders: in how many orders blocks, warps and threads take their turns.
        seconds: the time limit of each.
        include: folders of headers that the text includes.

    Returns the findings, by line. Raises SourceError for a text that does not compile, is refused
    or has no such kernel, ArgumentError for arguments that do not fit and launches that no GPU
    takes, NoCompilerError without a C++ compiler.

    Example:
        >>> text = '''
        ... __global__ void shift(const float *x, float *y) {
        ...     int i = blockIdx.x * blockDim.x + threadIdx.x;
        ...     y[i] = x[i + 1];
        ... }'''
        >>> found = lazyt.check_cuda(text, "shift", 2, 32, ["float[64]=1", "float[64]"])
        >>> [(item.kind, item.line) for item in found]
        [('bounds', 4)]
    """
    if not isinstance(orders, int) or orders < 1:
        raise ArgumentError(f"orders must be 1 or more, got {orders!r}")
    if not 0 < seconds <= 3600:
        raise ArgumentError(f"seconds must be between 0 and 3600, got {seconds!r}")
    launch = (_dimensions(grid, "grid"), _dimensions(block, "block"), shared_bytes)
    _require_launch(*launch)
    made = build(source, kernel, tuple(include))
    given = arguments_of(made.kernels[kernel], kernel, arguments, outputs)
    return _run(source, made, made.kernels[kernel], launch, given, orders, seconds)


def _run(
    source: str, made: Checked, signature: Signature,
    launch: tuple[tuple[int, int, int], tuple[int, int, int], int],
    given: tuple[list[Buffer], list[str]], orders: int, seconds: float,
) -> list[Finding]:  # fmt: skip
    blocks, threads, shared_bytes = launch
    found = {
        ("uninitialised", line, line): Finding("uninitialised", line, column, said)
        for line, column, said in made.unset
        if _inside(source, signature, line)
    }
    with cache.scratch(next(iter(cache.scratch_folders()))) as folder:
        path = os.path.join(folder, "checked")
        with open(path, "wb") as file:
            file.write(made.image)
        os.chmod(path, 0o700)
        for seed in range(orders):
            numbers = (signature.number, *blocks, *threads, shared_bytes, seed, seconds)

            def run_with(fill: int, numbers: tuple[Any, ...] = numbers) -> list[str]:
                write_launch(f"{path}.in", (*numbers, fill), *given)
                return _launch(path, seconds)

            said_ = _with_unwritten(run_with)
            for item in findings_of(said_, source, made, signature, blocks, threads):
                first, second = sorted((item.line, item.other_line or item.line))
                key = (item.kind, first, second)
                if key not in found or (item.matters and not found[key].matters):
                    found[key] = item
            if any(key[0] == "hang" for key in found):
                break  # another order would take as long
    return sorted(found.values(), key=lambda item: (item.line, item.column or 0, item.kind))


def _with_unwritten(launch: Callable[[int], list[str]]) -> list[str]:
    """What a launch says. Reads of shared memory that nobody wrote become ``uninitialised`` if its
    bytes make a difference to what the kernel leaves behind or does, and stay ``unwritten`` if not.

    Tiles at the edge of a matrix are often read as a whole, and what is beyond it never stored.
    """
    said = launch(_FILLS[0])
    known = _beside_unwritten(said)
    unwritten = [line for line in said if line.startswith(_UNWRITTEN)]
    ended = any(line.startswith(_MEMORY) for line in known)
    if unwritten and not (ended and all(_beside_unwritten(launch(n)) == known for n in _FILLS[1:])):
        unwritten = [f"uninitialised\t{line.removeprefix(_UNWRITTEN)}" for line in unwritten]
    return [line for line in known if not line.startswith(_MEMORY)] + unwritten


def _beside_unwritten(said: list[str]) -> list[str]:
    return [line for line in said if not line.startswith(_UNWRITTEN)]


def _dimensions(given: int | Sequence[int], what: str) -> tuple[int, int, int]:
    listed = [given] if isinstance(given, int) else list(given)
    if not 1 <= len(listed) <= 3 or not all(isinstance(n, int) and n > 0 for n in listed):
        raise ArgumentError(f"{what} must be one to three positive whole numbers, got {given!r}")
    x, y, z = [*listed, 1, 1][:3]
    return x, y, z


def _require_launch(
    blocks: tuple[int, int, int], threads: tuple[int, int, int], shared: int
) -> None:
    count = threads[0] * threads[1] * threads[2]
    if count > MOST_THREADS or threads[2] > 64:
        raise ArgumentError(f"a block has at most 1024 threads, 64 along z; got {threads}")
    if blocks[1] > 65535 or blocks[2] > 65535:
        raise ArgumentError(f"a grid has at most 65535 blocks along y and z; got {blocks}")
    total = blocks[0] * blocks[1] * blocks[2]
    if total > MOST_BLOCKS:
        raise ArgumentError(f"{total} blocks are too many to check; give a smaller grid")
    if not isinstance(shared, int) or not 0 <= shared <= MOST_SHARED:
        raise ArgumentError(f"dynamic shared memory has 0 to {MOST_SHARED} bytes, got {shared!r}")


def _launch(path: str, seconds: float) -> list[str]:
    """Runs an executable once; the lines that it wrote, with one about a crash where it did not
    come to its end."""
    out = f"{path}.out"
    if os.path.exists(out):
        os.unlink(out)
    try:
        done = subprocess.run(
            [path, f"{path}.in", out], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, timeout=seconds + 30, check=False,
        )  # fmt: skip
        code, noise = done.returncode, done.stderr.decode(errors="replace")
    except subprocess.TimeoutExpired:
        code, noise = -14, ""
    said = ""
    if os.path.exists(out):
        with open(out, encoding="utf-8", errors="replace") as file:
            said = file.read()
    *lines, last = said.splitlines() or [""]
    if last == "end":
        if failed := re.search(r"Assertion `(.*)' failed", noise):
            lines = [line.replace(_ABORTED, f"the assertion {failed[1]} failed") for line in lines]
        return lines
    if last:
        lines.append(last)
    kind, what = "crash", f"the kernel ends its process (status {code})"
    if code == 5:
        what = "there is no memory to check the launch with"
    elif code == -14:
        kind, what = "hang", "the process of the kernel does not end"
    return [*lines, f"{kind}\t\t0\t0\t\t\t\t{what}"]


def _inside(source: str, signature: Signature, line: int) -> bool:
    """Whether a line belongs to the kernel, or to a function that is no kernel."""
    mine = signature.text
    others = (item for item in find_kernels(source) if item.line != mine.line)
    return not any(item.line <= line <= item.last for item in others)
