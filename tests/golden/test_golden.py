"""Golden files: what passes make of graphs, and what plans look like as kernels, C and CUDA C.

``passes/NAME.ir`` holds a graph, a line ``---- PASS[,PASS]``, and the graph after those passes.
``plans/NAME.ir`` holds a graph; beside it lie the groups that fusion makes of it with their reasons
(``NAME.groups``), its kernels as IR (``NAME.kernels``), C for a fixed machine (``NAME.c``) and CUDA
C (``NAME.cu``). ``pytest tests/golden --update-golden`` rewrites what
is derived; review the difference before committing it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lazyt.codegen.c.target import print_kernel_c
from lazyt.codegen.cuda.target import print_kernel_cuda
from lazyt.codegen.loops.flat import split_segments
from lazyt.compiler import PASSES, compile_graph, group_graph
from lazyt.ir.graph import Node
from lazyt.ir.group import Group
from lazyt.ir.kernel import Kernel
from lazyt.ir.parser import parse_graph, parse_kernels
from lazyt.ir.printer import print_graph, print_kernel
from lazyt.ir.verifier import verify_graph
from lazyt.ops import OPS

HERE = Path(__file__).parent
#: A machine with AVX2 and usual caches, so that the text does not depend on who runs the test.
VECTOR_BYTES, CACHES = 32, (32 << 10, 512 << 10, 32 << 20)
MARK = "---- "


def compare(path: Path, text: str, update: bool) -> None:
    """``text`` must be the file's content; or becomes it."""
    if update:
        path.write_text(text, encoding="utf-8")
        return
    assert path.exists(), f"{path.name} is missing; run with --update-golden"
    assert text == path.read_text(encoding="utf-8"), f"{path.name}; run with --update-golden?"


@pytest.mark.parametrize("path", sorted((HERE / "passes").glob("*.ir")), ids=lambda p: p.stem)
def test_passes(path: Path, pytestconfig: pytest.Config) -> None:
    before, _, rest = path.read_text(encoding="utf-8").partition(MARK)
    names = rest.partition("\n")[0]
    roots = parse_graph(before, OPS)[1]
    known = {step.name: step for step in PASSES}
    for name in names.split(","):
        roots = known[name].run(roots)
        verify_graph(roots)
    text = f"{before}{MARK}{names}\n{print_graph(roots)}"
    compare(path, text, pytestconfig.getoption("--update-golden"))


def value(node: Node) -> str:
    """A node by what it is."""
    return f"{node.op.name} {node.dtype.name}{list(node.shape)}"


def group_text(group: Group) -> str:
    """A group: its domains, what it computes over them, what it reads and stores, and why."""
    lines = [f"{group.kind} group"]
    for number, part in enumerate(group.parts):
        axes = ", ".join(f"{a.name}: {a.extent}" for a in part.axes)
        inner = "" if part.inner is None else f" along {part.axes[part.inner].name}"
        lines.append(f"  part {number} over ({axes}){inner}")
        for node, (home, extent) in group.members.items():
            if home == number:
                lines.append(f"    {extent}: {value(node)}")
    lines.append("  reads " + "; ".join(sorted(map(value, group.reads))))
    lines.append("  stores " + "; ".join(map(value, group.stored)))
    return "\n".join([*lines, *(f"  # {reason}" for reason in group.reasons)]) + "\n"


def groups_of(path: Path) -> str:
    """The fused groups of a graph file, without the lines of this file that made its nodes."""
    roots = parse_graph(path.read_text(encoding="utf-8"), OPS)[1]
    text = "\n".join(map(group_text, group_graph(roots)[1]))
    return re.sub(r" \([^()]*test_golden\.py:\d+\)", "", text)


def kernels_of(path: Path) -> list[Kernel]:
    """The kernels of a graph file, with their names as in a plan."""
    leaves, roots = parse_graph(path.read_text(encoding="utf-8"), OPS)
    return compile_graph(roots, leaves)[1]


@pytest.mark.parametrize("path", sorted((HERE / "plans").glob("*.ir")), ids=lambda p: p.stem)
def test_plans(path: Path, pytestconfig: pytest.Config) -> None:
    update = pytestconfig.getoption("--update-golden")
    compare(path.with_suffix(".groups"), groups_of(path), update)
    kernels = kernels_of(path)
    text = "\n".join(map(print_kernel, kernels))
    compare(path.with_suffix(".kernels"), text, update)
    assert "\n".join(map(print_kernel, parse_kernels(text))) == text
    sources = [print_kernel_c(kernel, VECTOR_BYTES, CACHES).source.text for kernel in kernels]
    compare(path.with_suffix(".c"), "\n".join(sources), update)
    plain = [one for kernel in kernels for one in split_segments(kernel)]
    cuda = [print_kernel_cuda(kernel).text for kernel in plain]
    compare(path.with_suffix(".cu"), "\n".join(cuda), update)
