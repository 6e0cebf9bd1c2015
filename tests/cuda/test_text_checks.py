"""Checks of CUDA text without a GPU: seeded faults are found at their lines, right kernels pass."""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

from lazyt.errors import ArgumentError, SourceError
from lazyt.runtime.cuda.checks import Finding, check_cuda
from tests.cuda.handwritten_kernels import BASES, HONEST, Launched
from tests.cuda.seeded_faults import FAULTS, Fault

BY_NAME = {item.name: item for item in BASES}
#: How long a kernel without an end runs.
SECONDS = 0.5


def faulty(fault: Fault) -> str:
    """The text of a fault's kernel, as users would have it alone in a file."""
    base = BY_NAME[fault.base]
    assert base.text.count(fault.old) == 1, fault
    return base.text.replace(fault.old, fault.new)


def check(item: Launched, text: str, name: str) -> list[Finding]:
    """The findings of a launch of some text."""
    return check_cuda(
        text, f"{name}{item.template}", item.grid, item.block, item.arguments, item.shared,
        seconds=SECONDS, **item.options,
    )  # fmt: skip


def is_found(fault: Fault, first: int, found: list[Finding]) -> bool:
    """Whether a fault is found, as what it is, and at its line; its text begins at line ``first``
    of what was checked."""
    lines = enumerate(faulty(fault).split("\n"), first)
    wanted = {n for n, line in lines if line.startswith(fault.lines)}
    return any(f.kind == fault.kind and wanted & {f.line, f.other_line} for f in found)


class _Joined:
    """Many kernels as one text, which is compiled once."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.lines = 1

    def add(self, item: Launched, text: str, suffix: str) -> tuple[str, int]:
        """Adds a kernel; its new name, and the line where it begins."""
        text = re.sub(rf"\b{item.name}(\w*)\b", rf"{item.name}\1_{suffix}", text)
        first = self.lines
        self.parts.append(text)
        self.lines += text.count("\n")
        return f"{item.name}_{suffix}", first

    @property
    def text(self) -> str:
        """All of them."""
        return "".join(self.parts)


def test_seeded_faults_are_found_and_right_kernels_pass() -> None:
    joined = _Joined()
    right = [(item, joined.add(item, item.text, "right")) for item in BASES + HONEST]
    wrong = [(f, joined.add(BY_NAME[f.base], faulty(f), f.name)) for f in FAULTS]
    text = joined.text
    for item, (name, _) in right:
        if not item.template:
            assert not check(item, text, name), name
    missed, kinds = [], Counter[str]()
    idle = set()
    for fault, (name, first) in wrong:
        found = check(BY_NAME[fault.base], text, name)
        kinds[fault.kind] += 1
        if fault.kind == "uninitialised" and not all(item.matters for item in found):
            idle.add((fault.base, fault.name))
        if not is_found(fault, first, found):
            missed.append((fault.base, fault.name, fault.kind, found))
    assert len(FAULTS) >= 40 and all(kinds[k] for k in ("race", "bounds", "barrier"))
    assert not missed, missed
    # Rows beyond the matrix are read, and never stored; all else that nobody wrote reaches results.
    assert idle == {("matmul", "edge")}, idle


def test_templates_are_named_with_their_arguments() -> None:
    item = next(item for item in HONEST if item.template)
    assert not check(item, item.text, item.name)
    with pytest.raises(SourceError, match="is a template"):
        check_cuda(item.text, item.name, 1, 64, item.arguments)


@pytest.mark.skipif("LAZYT_SLOW" not in os.environ, reason="takes a minute: LAZYT_SLOW=1")
@pytest.mark.parametrize("number", range(len(FAULTS)), ids=lambda n: "-".join(FAULTS[n][:2]))
def test_a_fault_alone_in_its_file(number: int) -> None:
    fault = FAULTS[number]
    text = faulty(fault)
    assert is_found(fault, 1, check(BY_NAME[fault.base], text, fault.base))


HOSTILE = """
__device__ int deep(int n) {
    volatile int a[64];
    a[n % 64] = n;
    return n < 0 ? 0 : deep(n + 1) + a[3];
}
__global__ void recurses(int *y) { y[threadIdx.x] = deep(0); }
__global__ void loops(int *y) {
    while (true) {
    }
}
__global__ void waits(volatile int *y) {
    while (y[0] == 0) {
    }
}
__global__ void wild(int *y) {
    int *p = (int *)0x123456781234;
    *y = *p;
}
__global__ void null(int *y) { *y = 1; }
__global__ void asserts(int *y) { assert(y[0] == 1); }
__global__ void divides(int *y) { y[1] = 5 / y[0]; }
__global__ void traps(int *y) { __trap(); }
__global__ void leaves(int *y) { exit(0); }
__global__ void far(int *y) { y[1L << 40] = 1; }
"""


@pytest.mark.parametrize(
    ("name", "kind", "line", "words"),
    [
        ("recurses", "crash", 4, "stack"),
        ("loops", "hang", 9, "time limit"),
        ("waits", "hang", 13, "time limit"),
        ("wild", "bounds", 18, "no array"),
        ("asserts", "crash", 21, "assertion"),
        ("divides", "crash", 22, "division by zero"),
        ("traps", "crash", 23, "traps"),
        ("leaves", "crash", 24, "ends its process"),
        ("far", "bounds", 25, "no array"),
    ],
)
def test_hostile_kernels_are_findings(name: str, kind: str, line: int, words: str) -> None:
    found = check_cuda(HOSTILE, name, 1, 1, ["int[4]=0"], seconds=0.5, orders=1)
    assert [(f.kind, f.line) for f in found] == [(kind, line)], found
    assert words in found[0].message


def test_null_pointers_are_found() -> None:
    (found,) = check_cuda(HOSTILE, "null", 1, 1, [None])
    assert (found.kind, found.line) == ("bounds", 20) and "null pointer" in found.message


@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        ("__global__ void k(int *y) {\n  y[0] = zz;\n}", "'zz' was not declared", 2),
        ("__global__ void k(int *y) {\n  y[0] = 1", "expected ';'", 2),
        ("void k(int *y) {}", "no kernel 'k'; it has none", 0),
        ("__global__ void j(int *y) {}", "its kernels are j", 0),
        ('\n__global__ void k(int *y) { asm("exit;"); }', "inline PTX", 2),
        ("__global__ void k(int *y) { cg::this_grid().sync(); }", "beyond a block", 1),
        ("__global__ void k(int *y) {\n __shared__ int s = 3; }", "no values at first", 2),
        ("__global__ void k(int *y) { int *p = new int[3]; }", "allocate", 1),
        ("__device__ int f(int);\n__global__ void k(int *y) { *y = f(1); }", "no definition", 0),
    ],
)
def test_texts_that_are_refused(text: str, words: str, line: int) -> None:
    with pytest.raises(SourceError, match=re.escape(words)) as caught:
        check_cuda(text, "k", 1, 32, ["int[32]=0"])
    assert caught.value.line == line


PLAIN = """__global__ void k(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[i];
}"""


@pytest.mark.parametrize(
    ("grid", "block", "arguments", "words"),
    [
        (1, 32, ["float[8]=0", "float[8]"], "takes 3 arguments (x, y, n), not 2"),
        (1, 32, ["float[8]=0", "float[8]", 1.5], "n takes a whole number"),
        (1, 32, ["float[8]=0", "float[8]", 1 << 40], "n takes a whole number"),
        (1, 32, [3, "float[8]", 8], "x is a pointer"),
        (1, 32, ["floaty[8]", "float[8]", 8], "is no array"),
        (1, 32, ["float[8]=zero", "float[8]", 8], "could not convert"),
        (1, 2048, ["float[8]=0", "float[8]", 8], "at most 1024 threads"),
        (0, 32, ["float[8]=0", "float[8]", 8], "positive whole numbers"),
        ((1, 70000), 32, ["float[8]=0", "float[8]", 8], "65535"),
    ],
)
def test_arguments_that_do_not_fit(grid: Any, block: Any, arguments: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=re.escape(words)):
        check_cuda(PLAIN, "k", grid, block, arguments)


def test_arrays_stay_as_they_are_and_may_be_one() -> None:
    x = np.arange(64, dtype=np.float32)
    assert not check_cuda(PLAIN, "k", 2, 32, [x, x, 64])
    assert not check_cuda(PLAIN, "k", 2, 32, [x, np.zeros_like(x), 64], outputs=["y"])
    assert (x == np.arange(64)).all()
    (found,) = check_cuda(PLAIN, "k", 2, 32, [x, np.zeros_like(x), 63], outputs=["y"])
    assert (found.kind, found.line) == ("uninitialised", 4) and "y[63]" in found.message
    with pytest.raises(ArgumentError, match="no parameter 'z'"):
        check_cuda(PLAIN, "k", 2, 32, [x, x, 64], outputs=["z"])


def test_a_finding_says_who_and_where() -> None:
    text = PLAIN.replace("y[i] = x[i]", "y[i / 2] = x[i]")
    (found,) = check_cuda(text, "k", (1, 1), (8, 4), ["float[64]=0", "float[4]=0", 8])
    assert found.kind == "race" and found.line == found.other_line == 4
    assert found.thread is not None and found.block == (0, 0, 0) == found.other_block
    shown = found.describe(text).split("\n")
    assert shown[1].strip() == "y[i / 2] = x[i];" and "the other, thread" in shown[4]
