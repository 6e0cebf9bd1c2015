"""Kernel IR means the same in NumPy and in C: bits where only arithmetic is done, else 4 ulp."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lazyt import ops
from lazyt.compiler import compile_graph
from lazyt.errors import BoundsError, LazytError, ShapeError
from lazyt.ir.dtypes import DType, bfloat16, float16, float32, float64
from lazyt.ir.graph import Node, topological
from lazyt.ir.kernel import Kernel
from lazyt.ir.kernel_interpreter import (
    Array,
    narrow,
    run_kernel,
    run_program,
    widen,
)
from lazyt.ir.parser import parse_graph, parse_kernel
from lazyt.ir.program import Program
from lazyt.ops import OPS
from lazyt.plan.graph_keys import BETWEEN_PLANS
from lazyt.runtime.cpu import execute
from lazyt.runtime.memory import Buffer
from tests.codegen.kernel_corpus import GRAPHS
from tests.ops_contract.numeric import leaf
from tests.ops_contract.op_samples import SAMPLES

PLANS = Path(__file__).parents[1] / "golden" / "plans"
#: Functions that are NumPy's in the interpreter and lazyt's own, or the C library's, in C.
INEXACT = ("exp", "log", "sin", "cos", "tan", "erf", "pow", "sigmoid", "gamma", "rsqrt", "atan")


def compiled(program: Program, inputs: Sequence[Array]) -> list[Array]:
    """What a program computes as C, as bytes."""
    given = []
    for item in inputs:
        given.append(Buffer(max(item.nbytes, 1)))
        ctypes.memmove(given[-1].ptr, np.ascontiguousarray(item).ctypes.data, item.nbytes)
    sizes = {s.index: s.nbytes for s in program.slots if s.kind == "output"}
    outputs = [Buffer(max(sizes[n], 1)) for n in range(len(sizes))]
    execute.load(program).run(given, outputs)
    found = []
    for n in program.results:
        if n >= 0 and n not in sizes:
            found.append(np.empty(0, np.uint8))
            continue
        buffer, size = (outputs[n], sizes[n]) if n >= 0 else (given[-1 - n], inputs[-1 - n].nbytes)
        found.append(np.frombuffer(ctypes.string_at(buffer.ptr, size), np.uint8))
    return found


def is_exact(kernels: Sequence[Kernel]) -> bool:
    """Whether kernels do arithmetic only."""
    text = "".join(map(repr, (k.phases for k in kernels)))
    return not any(name in text for name in INEXACT)


def compare(roots: Sequence[Node], leaves: Sequence[Node], arrays: Sequence[Array]) -> int:
    """Compares what the kernels of a graph mean with what they compute; how many there were."""
    program, kernels = compile_graph(roots, leaves)
    exact = is_exact(kernels)
    pairs = zip(compiled(program, arrays), run_program(program, kernels, arrays), strict=True)
    for root, (c, mine) in zip(roots, pairs, strict=True):
        if root.size == 0:
            continue
        stored = root.dtype.numpy
        one, other = c[: root.nbytes].view(stored), mine[: root.nbytes].view(stored)
        if exact or root.dtype.kind != "f":
            same = one == other
            if root.dtype.kind == "f":
                same |= (one != one) & (other != other)
            assert same.all(), f"{root!r}: {one[~same][:4]} in C, {other[~same][:4]} in NumPy"
        else:
            assert_close(one, other, root.dtype)
    return len(kernels)


def assert_close(one: Array, other: Array, dtype: DType) -> None:
    """4 ulp of a stored type; where terms cancel, those of the largest value."""
    digits = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}[dtype.name]
    left, right = (widen(x, dtype).astype(np.float64) for x in (one, other))
    ulp = 2.0 ** (1 - digits)
    np.testing.assert_allclose(left, right, rtol=4 * ulp, atol=4 * ulp * np.nanmax(abs(right)))


@pytest.mark.parametrize("dtype", [float32, float64, float16, bfloat16], ids=repr)
def test_every_op(dtype: DType) -> None:
    roots: list[Node] = []
    for sample in SAMPLES:
        try:
            root = sample.build(
                *[leaf(a, dtype if a.dtype == np.float64 else None) for a in sample.arrays]
            )
        except LazytError:
            continue  # some samples join what they are given with float64
        names = {n.op.name for n in topological([root])}
        if not names & {*BETWEEN_PLANS, "put", "custom", "distribute", "localize"}:
            roots.append(root)
    assert len(roots) > 60
    leaves = [n for n in topological(roots) if n.op.name == "input"]
    arrays = [n.data.array for n in leaves]
    assert compare(roots, leaves, arrays) > 20
    for root in roots:
        own = [n for n in topological([root]) if n.op.name == "input"]
        if root.op.name in ("scan", "scatter", "sort", "contract", "reduce", "window"):
            compare([root], own, [n.data.array for n in own])


def inputs_of(leaves: Sequence[Node]) -> list[Array]:
    """Numbers for inputs: small integers, which are positions, or floats of both signs."""
    rng = np.random.default_rng(5)
    found = []
    for node in leaves:
        if node.dtype.kind == "f":
            values = rng.standard_normal(node.shape).astype(node.dtype.compute.numpy)
            found.append(narrow(values, node.dtype))
        else:
            high = 2 if node.dtype.kind == "b" else 5
            found.append(rng.integers(0, high, node.shape).astype(node.dtype.numpy))
    return found


@pytest.mark.parametrize("path", sorted(PLANS.glob("*.ir")), ids=lambda p: p.stem)
def test_golden_plans(path: Path) -> None:
    leaves, roots = parse_graph(path.read_text(encoding="utf-8"), OPS)
    assert compare(roots, leaves, inputs_of(leaves))


@pytest.mark.parametrize(
    "build",
    [g for name, g in GRAPHS.items() if name not in ("matmul_huge", "matmul_large")],
    ids=lambda g: g.__name__,
)
def test_every_form_of_kernels(build: Callable[[], list[Node]]) -> None:
    small = []
    for root in build():
        leaves = [n for n in topological([root]) if n.op.name == "input"]
        if max([root.size, *(n.size for n in leaves)]) <= 1 << 18:
            small.append(root)
    leaves = [n for n in topological(small) if n.op.name == "input"]
    if small:
        assert compare(small, leaves, inputs_of(leaves))


SCATTER = """kernel scattered(in at: int64[6], in x: {0}[6], inout y: {0}[4]) {{
  phase () lanes inner work 6.0 {{
    for s: 6 sequential {{
      let p = maximum(minimum(at[s], 3:int64), 0:int64)
      store y[@p[4]] = x[s] combine {1}
    }}
  }}
}}
"""


@pytest.mark.parametrize("combine", ["add", "mul", "maximum", "minimum"])
@pytest.mark.parametrize("dtype", [float16, float32], ids=repr)
def test_stores_of_one_element_fold_in_order(combine: str, dtype: DType) -> None:
    kernel = parse_kernel(SCATTER.format(dtype.name, combine))
    at = np.array([1, 1, 0, 1, 9, -5])
    x = np.array([0.1, 1e3, -2, 0.3, 5, 7], dtype.numpy)
    y = np.array([3, 0.7, 2, 1], dtype.numpy)
    expected = y.copy()
    steps = {"add": np.add, "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum}
    for place, value in zip(at.clip(0, 3), x):
        expected[place] = steps[combine](expected[place], value)
    run_kernel(kernel, {"at": at, "x": x, "y": y})
    assert y.tobytes() == expected.tobytes()


def test_steps_see_what_earlier_steps_stored() -> None:
    kernel = parse_kernel("""kernel powers(inout y: float32[6]) {
      phase () lanes inner work 6.0 {
        for s: 5 sequential { store y[s + 1] = mul(y[s], 2.0:float32) }
      }
    }""")
    y = np.array([3, 0, 0, 0, 0, 0], np.float32)
    run_kernel(kernel, {"y": y})
    assert y.tolist() == [3, 6, 12, 24, 48, 96]


COPY = """kernel copied(in x: float32[4], out y: float32[4]) {
  phase (i: 4) lanes grid work 1.0 {
    once { store y[i] = x[i] where 0 <= i < 3 }
  }
}
"""


def test_what_is_left_out_is_poison() -> None:
    y = np.zeros(4, np.float32)
    run_kernel(parse_kernel(COPY), {"x": np.ones(4, np.float32), "y": y})
    assert y[:3].tolist() == [1, 1, 1] and np.isnan(y[3])


def test_accesses_outside_of_a_buffer_are_refused() -> None:
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    for old, new, message in (
        ("x[i]", "x[i + 1]", r"load x: index i \+ 1 of axis 0 is 4, the buffer ends at 3"),
        ("y[i]", "y[i + -1]", "store y: index i .* is -1"),
    ):
        with pytest.raises(BoundsError, match=message):
            run_kernel(
                parse_kernel(COPY.replace(old, new).replace(" < 3", " < 9")), {"x": x, "y": y}
            )
    guarded = COPY.replace("= x[i]", "= guarded(1 <= i < 4, x[i + -1], 7.0:float32)")
    run_kernel(parse_kernel(guarded), {"x": x, "y": y})
    assert y[:3].tolist() == [7, 1, 1]


def test_arrays_that_do_not_fit_are_refused() -> None:
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    kernel = parse_kernel(COPY)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"x": x}, "no array is given for y"),
        ({"x": x[:3], "y": y}, r"x is float32\[4\], not float32\[3\]"),
        ({"x": x.astype(np.float64), "y": y}, "not float64"),
        ({"x": np.ones(8, np.float32)[::2], "y": y}, "not contiguous"),
    ]
    for arrays, message in wrong:
        with pytest.raises(ShapeError, match=message):
            run_kernel(kernel, arrays)


def test_segments_have_extents_of_their_own() -> None:
    kernel = parse_kernel("""kernel doubled(in x: float32[5], in f: float32[2], out y: float32[5])
    segments (5, 2) {
      phase (i: 5) lanes grid work 1.0 { once { store y[i] = mul(x[i], f[1]) } }
    }""")
    xs = [np.arange(5, dtype=np.float32), np.arange(2, dtype=np.float32)]
    fs = [np.array([0, 2], np.float32), np.array([0, 3], np.float32)]
    ys = [np.empty_like(x) for x in xs]
    run_kernel(kernel, {"x": xs, "f": fs, "y": ys})
    assert [y.tolist() for y in ys] == [[0, 2, 4, 6, 8], [0, 3]]


def test_many_independent_values_share_launches() -> None:
    leaves = [ops.input_((size,), float32) for size in (3, 1000, 40, 40, 7)]
    roots = [ops.apply("mul", x, x) for x in leaves]
    kernels = compile_graph(roots, leaves)[1]
    assert any(kernel.segments for kernel in kernels)
    compare(roots, leaves, inputs_of(leaves))
