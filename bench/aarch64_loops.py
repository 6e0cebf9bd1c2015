"""How well the hot loops of aarch64 are compiled, as far as their text tells.

``python bench/aarch64_loops.py`` prints the kernels of some programs for a machine with NEON, which
need not be at hand, gives them to cross compilers, and the innermost loop that computes most to
``llvm-mca``, which simulates it on models of processors. The table has the fused steps, vector
instructions and accesses to the stack of the loop, and for each processor the cycles of a turn and
its fused steps as a part of those that the model can begin.

It needs ``aarch64-linux-gnu-gcc`` or clang, and an ``llvm-mca`` (``--mca``) that has models of the
processors; what is missing is said. LLVM models an Apple M1 as the first such processor: with three
units for vectors where there are four, two of them for float64.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import lazyt
from lazyt.codegen.matmul.micro_kernels import lines_sections, tile_sections
from lazyt.compiler import compile_graph, program_text
from lazyt.ir.graph import topological
from lazyt.runtime import devices
from lazyt.runtime.cpu import compile
from lazyt.tools.machines import machine
from lazyt.tools.show import pending_part

#: Processors, and how many vector instructions their models begin in a cycle.
PROCESSORS = {"neoverse-n1": 2, "neoverse-v2": 4, "apple-m1": 3}
#: What compilers are told where the kernels of the machine at hand get ``-mcpu=native``.
TARGET = "cortex-a76"
COMPILERS = {
    "gcc": ("aarch64-linux-gnu-gcc",),
    "clang": ("clang", "--target=aarch64-linux-gnu"),
}
_TYPES = "typedef float lz_f32; typedef double lz_f64; typedef long long lz_i64;\n"
_LABEL = re.compile(r"(\.L\w+):")
_BRANCH = re.compile(r"\s+(?:b(?:\.?[a-z]{2})?|cbn?z|tbn?z)\s.*?(\.L\w+)")
_VECTOR = re.compile(r"\bv\d+\.|\b[qd]\d+\b")
_STACK = re.compile(r"\s(?:ldr|str|ldp|stp|ldur|stur)\s+[qd]\d.*\[sp")


class Loop(NamedTuple):
    """An innermost loop: its instructions, and how many of them are what."""

    lines: list[str]
    fused: int
    vector: int
    spilled: int


def micro_kernel(acc: str, rows: int, vectors: int, lines: bool = False) -> str:
    """The text of a register tile alone."""
    if lines:
        sections = lines_sections(acc, rows, vectors, 16)
    else:
        sections = tile_sections(acc, rows, vectors, 16, False)
    return _TYPES + "\n".join(text for _, text in sections) + f"\nvoid *keep = {sections[-1][0]};\n"


def plan(build: Callable[[], lazyt.Tensor]) -> str:
    """The C text of the plan of a tensor, for a machine with NEON."""
    with devices.standing_for(machine("neon")):
        root = pending_part(build().node)
        leaves = [node for node in topological([root]) if node.op.name == "input"]
        return program_text(compile_graph([root], leaves)[0])


def programs() -> dict[str, str]:
    """Texts by name: register tiles, and whole plans."""
    x, half = lazyt.empty(1000, 1000), lazyt.empty(1000, 1000, dtype=lazyt.float16)
    brain, weight = lazyt.empty(1000, 1000, dtype=lazyt.bfloat16), lazyt.empty(64, 64, 3, 3)
    image, f = lazyt.empty(4, 64, 56, 56), lazyt.nn.functional
    for leaf in (x, half, brain, weight, image):
        leaf.realize()
    return {
        "product of float32": micro_kernel("f32", 8, 3),
        "product of float64": micro_kernel("f64", 8, 3),
        "rows where they lie": micro_kernel("f32", 8, 2, True),
        "convolution": plan(lambda: f.conv2d(image, weight, padding=1)),
        "exp": plan(lambda: x.exp()),
        "tanh": plan(lambda: x.tanh()),
        "softmax": plan(lambda: x.softmax(1)),
        "layer norm": plan(lambda: f.layer_norm(x, (1000,))),
        "sum of rows": plan(lambda: x.sum(1)),
        "float16 to float32": plan(lambda: half.float() * 2),
        "float32 to bfloat16": plan(lambda: (x * 2).bfloat16()),
        "bfloat16 sums": plan(lambda: brain + brain.sin()),
    }


def hottest(assembly: str) -> Loop:
    """Of a text's innermost loops the one that computes with vectors most. Raises ValueError."""
    lines = assembly.splitlines()
    labels = {m[1]: i for i, line in enumerate(lines) if (m := _LABEL.match(line))}
    found: list[Loop] = []
    ends = [
        (labels[m[1]], i)
        for i, line in enumerate(lines)
        if (m := _BRANCH.match(line)) and labels.get(m[1], i) < i
    ]
    for start, end in ends:
        if any(start <= other and last < end for other, last in ends):
            continue  # there is a loop inside
        body = lines[start + 1 : end + 1]
        code = [each for each in body if re.match(r"\s+[a-z]", each)]
        fused = sum("fmla" in each or "fmadd" in each for each in code)
        vector = sum(bool(_VECTOR.search(each)) for each in code)
        found.append(Loop(code, fused, vector, sum(bool(_STACK.search(each)) for each in code)))
    if not found:
        raise ValueError("the text has no loop")
    # Of two that compute as much the shorter: the other is what is left over from it, unrolled.
    most = max(found, key=lambda loop: (loop.fused, loop.vector))
    alike = [loop for loop in found if most.fused == loop.fused > 0 and loop.vector > loop.fused]
    return min(alike, key=lambda loop: len(loop.lines), default=most)


def cycles(loop: Loop, processor: str, mca: str) -> float:
    """Cycles of one turn, of many."""
    turns = 300
    command = [mca, "-mtriple=aarch64", f"-mcpu={processor}", f"-iterations={turns}"]
    text = "\n".join(loop.lines)
    said = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    total = re.search(r"Total Cycles:\s+(\d+)", said)
    assert total, said
    return int(total[1]) / turns


def main(argv: Sequence[str] | None = None) -> int:
    """Prints a table; 1 where the tools are missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mca", default="", help="the llvm-mca to run")
    parser.add_argument("--only", default="", help="programs whose names contain this")
    given = parser.parse_args(argv)
    names = [given.mca] if given.mca else ["llvm-mca-22", "llvm-mca-19", "llvm-mca"]
    mca = next((found for name in names if (found := shutil.which(name))), None)
    compilers = {name: line for name, line in COMPILERS.items() if shutil.which(line[0])}
    if mca is None or not compilers:
        print("needs llvm-mca and aarch64-linux-gnu-gcc or clang", file=sys.stderr)
        return 1
    print(f"| loop | compiler | fused, vector, stack | {' | '.join(PROCESSORS)} |")
    print("|---" * (3 + len(PROCESSORS)) + "|")
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder, "k.c"), Path(folder, "k.s")
        for name, text in programs().items():
            if given.only not in name:
                continue
            source.write_text(text)
            for compiler, line in compilers.items():
                likely = compile._attempts(f"-mcpu={TARGET}", compiler == "clang")[0]
                flags = [*compile._COMMON, *likely, "-S"]
                subprocess.run([*line, *flags, "-o", str(out), str(source)], check=True)
                loop = hottest(out.read_text())
                parts = []
                for processor, units in PROCESSORS.items():
                    took = cycles(loop, processor, mca)
                    part = max(loop.fused, 0) / took / units
                    parts.append(f"{took:.1f}, {part:.0%}")
                counts = f"{loop.fused}, {loop.vector}, {loop.spilled}"
                print(f"| {name} | {compiler} | {counts} | {' | '.join(parts)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
