"""Whole graphs through fusion, lowering and the CUDA printer, run on the emulator.

``LAZYT_CUDA_GRAPHS`` is how many random graphs are seen (default 40), ``LAZYT_CUDA_FIRST`` the
first seed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from lazyt import ops
from lazyt.codegen.cuda import target, threads
from lazyt.codegen.cuda.target import CudaKernel, device_helpers, print_kernel_cuda, program_text
from lazyt.codegen.lower.groups import lower_group
from lazyt.compiler import group_graph
from lazyt.config import config
from lazyt.ir.dtypes import DType, bfloat16, float32, int64, uint8
from lazyt.ir.graph import Node
from lazyt.plan.planning import realize
from lazyt.runtime.cuda import nvrtc
from lazyt.runtime.cuda.emulated import Emulator
from lazyt.runtime.interpreter import interpret, load
from lazyt.testing.graph_maker import buffer_of
from lazyt.testing.random_graphs import random_graph

COUNT = int(os.environ.get("LAZYT_CUDA_GRAPHS", "40"))
FIRST = int(os.environ.get("LAZYT_CUDA_FIRST", "0"))
needs_cc = pytest.mark.skipif(
    not (shutil.which("gcc") and shutil.which("g++")), reason="needs C and C++ compilers"
)
needs_nvrtc = pytest.mark.skipif(not nvrtc.available(), reason="needs cuda-python and NVRTC")


@dataclass
class Step:
    """A kernel and the nodes in its buffers (None: scratch)."""

    kernel: CudaKernel
    sizes: list[int]
    arguments: tuple[Node | None, ...]


@dataclass
class Graph:
    """A graph's kernels for the GPU."""

    roots: list[Node]
    errors: list[float]
    normal: list[Node]
    steps: list[Step]

    def run(self, machine: Emulator, seed: int) -> list[np.ndarray]:
        """The roots' stored values."""
        memory: dict[Node, np.ndarray] = {}
        for step in self.steps:
            pointers: list[int] = []
            scratch = []
            for size, node in zip(step.sizes, step.arguments, strict=True):
                if node is not None and node.data is not None:
                    pointers.append(node.data.ptr)
                    continue
                array = None if node is None else memory.get(node)
                if array is None:
                    array = np.full(max(size, 1), 0x7B, np.uint8)
                    scratch.append(array)
                if node is not None:
                    memory[node] = array
                pointers.append(array.ctypes.data)
            for run in step.kernel.launches:
                shape = run.blocks, run.threads, run.shared_bytes
                machine.launch(run.function, *shape, pointers, run.collective, seed)
        return [self._value(node, memory) for node in self.normal]

    def _value(self, node: Node, memory: dict[Node, np.ndarray]) -> np.ndarray:
        if node.data is not None:
            return np.array(node.data.as_numpy(node.dtype, node.shape))
        if node.size == 0:
            return np.zeros(node.shape, node.dtype.numpy)
        return memory[node][: node.nbytes].view(node.dtype.numpy).reshape(node.shape)


def compile_graph(prefix: str, roots: Sequence[Node], errors: Sequence[float]) -> Graph:
    """The kernels of a graph."""
    normal, groups = group_graph(roots)
    steps = []
    for number, group in enumerate(groups):
        made = lower_group(group, config.inline_reduce)
        kernel = replace(made.kernel, name=f"{prefix}_k{number}")
        sizes = [int(np.prod(b.shape)) * b.dtype.itemsize for b in kernel.buffers]
        steps.append(Step(print_kernel_cuda(kernel), sizes, made.arguments))
    return Graph(list(roots), list(errors), normal, steps)


# --------------------------------------------------------------------- models


def leaf(array: np.ndarray, dtype: DType = float32) -> Node:
    """An input that holds ``array``."""
    return ops.input_(array.shape, dtype, buffer_of(array, dtype))


def normal(*shape: int, dtype: DType = float32) -> Node:
    """An input with random values."""
    return leaf(np.random.default_rng(sum(shape)).standard_normal(shape), dtype)


def labels(count: int, classes: int) -> Node:
    """An input with class numbers."""
    return leaf(np.random.default_rng(count).integers(0, classes, count), int64)


def row_of(node: Node, shape: tuple[int, ...]) -> Node:
    """A value per row, with the row's axis back."""
    return ops.expand(ops.reshape(node, (*shape[:-1], 1)), shape)


def log_softmax(x: Node) -> Node:
    """Along the last axis."""
    last = len(x.shape) - 1
    shifted = ops.apply("sub", x, row_of(ops.reduce_("max", x, (last,)), x.shape))
    total = ops.reduce_("sum", ops.apply("exp", shifted), (last,))
    return ops.apply("sub", shifted, row_of(ops.apply("log", total), x.shape))


def softmax(rows: int, columns: int, dtype: DType = float32) -> list[Node]:
    """Softmax of a matrix, its arithmetic in float32."""
    x = ops.cast(normal(rows, columns, dtype=dtype), float32)
    return [ops.cast(ops.apply("exp", log_softmax(x)), dtype)]


def layer_norm(rows: int, columns: int) -> list[Node]:
    """Layer norm with its mean."""
    x = normal(rows, columns)
    scale = ops.constant(1.0 / columns, float32)
    mean = ops.apply("mul", ops.reduce_("sum", x, (1,)), scale)
    centred = ops.apply("sub", x, row_of(mean, x.shape))
    square = ops.reduce_("sum", ops.apply("mul", centred, centred), (1,))
    spread = ops.apply("add", ops.apply("mul", square, scale), ops.constant(1e-5, float32))
    factor = row_of(ops.apply("rsqrt", spread), x.shape)
    return [ops.apply("mul", ops.apply("mul", centred, factor), normal(columns)), mean]


def cross_entropy(rows: int, classes: int) -> list[Node]:
    """Mean loss of a row's class."""
    logs = log_softmax(normal(rows, classes))
    chosen = ops.apply("add", ops.iota(rows), ops.constant(0, int64))
    place = ops.apply("mul", chosen, ops.constant(classes, int64))
    place = ops.apply("add", place, labels(rows, classes))
    picked = ops.gather(ops.reshape(logs, (rows * classes,)), place, 0)
    total = ops.reduce_("sum", picked, (0,))
    return [ops.apply("mul", total, ops.constant(-1.0 / rows, float32))]


def perceptron(batch: int, width: int) -> list[Node]:
    """A step of gradient descent on two layers: new weights and the loss."""
    x, y = normal(batch, 13), normal(batch, 5)
    first, second, bias = normal(13, width), normal(width, 5), normal(width)
    before = ops.apply("add", ops.contract(x, first, (0, 1), (1, 2), (0, 2)), bias)
    hidden = ops.apply("maximum", before, ops.constant(0.0, float32))
    off = ops.apply("sub", ops.contract(hidden, second, (0, 1), (1, 2), (0, 2)), y)
    loss = ops.reduce_("sum", ops.apply("mul", off, off), (0, 1))
    back = ops.contract(off, second, (0, 2), (1, 2), (0, 1))
    active = ops.apply("gt", before, ops.constant(0.0, float32))
    back = ops.apply("where", active, back, ops.constant(0.0, float32))
    rate = ops.constant(-0.01, float32)
    out = [loss]
    for weight, gradient in (
        (first, ops.contract(x, back, (0, 1), (0, 2), (1, 2))),
        (second, ops.contract(hidden, off, (0, 1), (0, 2), (1, 2))),
        (bias, ops.reduce_("sum", back, (0,))),
    ):
        out.append(ops.apply("add", weight, ops.apply("mul", gradient, rate)))
    return out


def embedding(rows: int, count: int, width: int) -> list[Node]:
    """Rows picked by number, and the sum of updates to them."""
    table, index = normal(rows, width), labels(count, rows)
    picked = ops.gather(table, index, 0)
    zeros = ops.apply("mul", table, ops.constant(0.0, float32))
    return [picked, ops.scatter(zeros, index, normal(count, width), 0, "add")]


def statistics(rows: int, columns: int) -> list[Node]:
    """Column means and variances, positions of extremes, a running sum."""
    x = normal(rows, columns)
    scale = ops.constant(1.0 / rows, float32)
    mean = ops.apply("mul", ops.reduce_("sum", x, (0,)), scale)
    centred = ops.apply("sub", x, ops.expand(ops.reshape(mean, (1, columns)), x.shape))
    square = ops.reduce_("sum", ops.apply("mul", centred, centred), (0,))
    return [mean, square, ops.arg_reduce("argmax", x, 1), ops.arg_reduce("argmin", x, 0),
            ops.scan("sum", x, 1), ops.reduce_("sum", x, (0, 1))]  # fmt: skip


def sorting(rows: int, columns: int) -> list[Node]:
    """Values, positions and both at once, of floats with ties and NaN and of bytes, both ways."""
    x = normal(rows, columns)
    steps = ops.apply("floor", ops.apply("mul", x, ops.constant(3.0, float32)))
    gaps = ops.apply("div", steps, steps)  # 0 / 0
    ties = ops.apply("add", steps, gaps)
    small = ops.cast(labels(columns, 256), uint8)
    return [ops.sort("values", x), ops.sort("order", ties, True), ops.sort("values", ties, True),
            ops.sort("order", steps), ops.sort("values", small, True),
            ops.sort("values", ops.cast(ties, bfloat16))]  # fmt: skip


MODELS: dict[str, Callable[[], list[Node]]] = {
    "softmax": lambda: softmax(9, 1000),
    "softmax_long": lambda: softmax(2, 3000),
    "softmax_half": lambda: softmax(33, 257, bfloat16),
    "layer_norm": lambda: layer_norm(12, 768),
    "cross_entropy": lambda: cross_entropy(50, 101),
    "perceptron": lambda: perceptron(37, 70),
    "embedding": lambda: embedding(20, 33, 40),
    "statistics": lambda: statistics(130, 65),
    "statistics_tall": lambda: statistics(3000, 9),
    "sorting": lambda: sorting(2, 700),
    "sorting_short": lambda: sorting(5, 60),
}


@pytest.fixture(scope="module")
def compiled() -> dict[str, Graph]:
    """All graphs."""
    graphs = {name: compile_graph(name, make(), []) for name, make in MODELS.items()}
    with pytest.MonkeyPatch.context() as patch, config.override(inline_reduce=1):
        for seed in range(FIRST, FIRST + COUNT):
            # Random loops are short: half of the graphs give them to groups of threads anyway.
            patch.setattr(target, "SHORT_LOOP", 16 if seed % 2 else -1)
            # Random shapes are small: half of the graphs have threads take adjacent points anyway.
            patch.setattr(threads, "MANY_POINTS", 1 if seed % 4 < 2 else 1 << 20)
            made = random_graph(seed)
            graphs[f"random{seed}"] = compile_graph(f"random{seed}", made.roots, made.errors)
    return graphs


@pytest.fixture(scope="module")
def machine(compiled: dict[str, Graph]) -> Emulator:
    """All kernels of all graphs."""
    kernels = [step.kernel for graph in compiled.values() for step in graph.steps]
    functions = [run.function for kernel in kernels for run in kernel.launches]
    return Emulator(device_helpers("emulator") + program_text(kernels), functions)


def difference(a: np.ndarray, b: np.ndarray, dtype: DType, error: float) -> str:
    """What differs by more than ``error``, or nothing. NaN equals NaN."""
    x, y = load(a, dtype).astype(np.float64), load(b, dtype).astype(np.float64)
    with np.errstate(all="ignore"):
        same = (np.abs(x - y) <= error) | (x == y) | (np.isnan(x) & np.isnan(y))
    if same.all():
        return ""
    at = tuple(int(i[0]) for i in np.nonzero(~same))
    return f"{int((~same).sum())} of {same.size} differ, first at {at}: {x[at]}, {y[at]}"


@needs_cc
@pytest.mark.parametrize("name", MODELS)
def test_models(name: str, compiled: dict[str, Graph], machine: Emulator) -> None:
    """Equal to the interpreter within rounding, and to the C target in every bit."""
    graph = compiled[name]
    want = interpret(graph.roots)
    results = [graph.run(machine, seed) for seed in (0, 3)]
    realize(graph.roots)
    for number, root in enumerate(graph.roots):
        assert root.data is not None
        exact = root.data.as_numpy(root.dtype, root.shape)
        top = np.abs(load(want[number], root.dtype).astype(np.float64)).max(initial=0)
        error = (1e-2 if root.dtype is bfloat16 else 2e-5) * (1 + top)
        for got in results:
            assert not difference(got[number], want[number], root.dtype, error)
            np.testing.assert_array_equal(got[number], exact)


@needs_cc
@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_random_graphs(seed: int, compiled: dict[str, Graph], machine: Emulator) -> None:
    graph = compiled[f"random{seed}"]
    want = interpret(graph.roots)
    got = graph.run(machine, seed)
    for root, a, b, error in zip(graph.roots, got, want, graph.errors, strict=True):
        assert a.shape == b.shape
        assert not difference(a, b, root.dtype, error)


@needs_nvrtc
@pytest.mark.nvrtc
def test_graphs_compile(compiled: dict[str, Graph]) -> None:
    kernels = [step.kernel for graph in compiled.values() for step in graph.steps]
    cubin = nvrtc.compile_cubin(device_helpers("cuda") + program_text(kernels))
    functions = {run.function for kernel in kernels for run in kernel.launches}
    assert set(cubin.registers) == functions
