"""Named graphs that cover every kernel form, printed as for one fixed machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lazyt import ops
from lazyt.codegen.c.target import print_kernel_c
from lazyt.codegen.lower.groups import lower_group
from lazyt.codegen.plan.printed import PrintedKernel
from lazyt.compiler import group_graph
from lazyt.ir.dtypes import (
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    uint8,
    uint32,
)
from lazyt.ir.graph import Node
from lazyt.ir.kernel import Kernel

#: A machine of 32-byte vectors with caches of 32 KiB, 1 MiB and 32 MiB.
VECTOR_BYTES = 32
CACHES = (32 << 10, 1 << 20, 32 << 20)
UNROLL = 16

Graph = Callable[[], list[Node]]
GRAPHS: dict[str, Graph] = {}


@dataclass(frozen=True)
class Printed:
    """A kernel as IR and as C."""

    kernel: Kernel
    c: PrintedKernel


def print_kernels(roots: list[Node]) -> list[Printed]:
    """The kernels of a graph on the fixed machine."""
    found: list[Printed] = []
    for group in group_graph(roots)[1]:
        kernel = lower_group(group, UNROLL).kernel
        found.append(Printed(kernel, print_kernel_c(kernel, VECTOR_BYTES, CACHES)))
    return found


def graph(build: Graph) -> Graph:
    """Registers a graph under its function's name."""
    GRAPHS[build.__name__] = build
    return build


def leaf(*shape: int, dtype: DType = float32) -> Node:
    """An input without data."""
    return ops.input_(shape, dtype)


def row(value: Node) -> Node:
    """A reduced value as a row that broadcasts over the last axis."""
    return ops.reshape(value, (*value.shape, 1))


def half(value: float) -> Node:
    """A float32 constant."""
    return ops.constant(value, float32)


# ---------------------------------------------------------------- elementwise


@graph
def chain() -> list[Node]:
    x, y = leaf(1000), leaf(1000)
    return [ops.apply("tanh", ops.apply("add", ops.apply("mul", x, y), half(1.0)))]


@graph
def long_chain() -> list[Node]:
    return [ops.apply("exp", leaf(100_003)), ops.apply("neg", leaf(64, 4096))]


@graph
def scalar() -> list[Node]:
    return [ops.apply("sqrt", leaf())]


@graph
def broadcast() -> list[Node]:
    return [ops.apply("mul", ops.apply("add", leaf(7, 1, 33), leaf(65, 1)), leaf(33))]


@graph
def transposed() -> list[Node]:
    return [ops.apply("add", ops.permute(leaf(33, 65), (1, 0)), leaf(65, 33))]


@graph
def other_types() -> list[Node]:
    found: list[Node] = []
    for dtype in (bool_, int8, uint8, int32, int64, float16, bfloat16, float64):
        found.append(ops.cast(ops.apply("where", leaf(37, dtype=bool_), leaf(5, 37, dtype=dtype),
                                        leaf(37, dtype=dtype)), float32))  # fmt: skip
    return found


@graph
def random_bits() -> list[Node]:
    return [ops.random(leaf(2, dtype=uint32), (33, 70)), ops.iota(100, int32)]


# ------------------------------------------------------------------ movement


@graph
def pad_with_gaps() -> list[Node]:
    return [ops.pad(leaf(50, 64), (1, 2), (2, 1), (0, 1), 0.0)]


@graph
def concatenation() -> list[Node]:
    parts = [leaf(50, 3), leaf(50, 5), ops.apply("exp", leaf(50, 70))]
    return [ops.concat(parts, 1), ops.concat([leaf(3, 20), leaf(1, 20)], 0)]


@graph
def slices() -> list[Node]:
    x = leaf(40, 50)
    return [
        ops.slice_(x, (39, 1), (20, 16), (-2, 3)),
        ops.reshape(ops.flip(x, (0,)), (50, 40)),
        ops.reshape(ops.permute(ops.reshape(x, (8, 5, 50)), (2, 0, 1)), (25, 80)),
    ]


@graph
def overlapping_window() -> list[Node]:
    return [ops.apply("neg", ops.window(leaf(100), (20, 9), (4, 1), 3))]


# ---------------------------------------------------------------- reductions


@graph
def reduce_rows() -> list[Node]:
    return [ops.reduce_("sum", leaf(*shape), (1,)) for shape in ((37, 1000), (64, 1024), (9, 17))]


@graph
def reduce_columns() -> list[Node]:
    shapes = ((300, 600), (33, 8), (1025, 70), (140, 96))
    return [ops.reduce_("max", leaf(*shape), (0,)) for shape in shapes]


@graph
def reduce_middle() -> list[Node]:
    return [ops.reduce_("sum", leaf(3, 40, 5), (1,)), ops.reduce_("prod", leaf(2, 50, 70), (1,))]


@graph
def reduce_short() -> list[Node]:
    return [ops.reduce_("sum", leaf(100, 7), (1,)), ops.arg_reduce("argmin", leaf(50, 9), 1)]


@graph
def reduce_split_rows() -> list[Node]:
    x = leaf(1_000_003)
    return [ops.reduce_("sum", x, (0,)), ops.reduce_("sum", leaf(3, 1 << 20), (1,))]


@graph
def reduce_split_columns() -> list[Node]:
    return [ops.reduce_("sum", leaf(3001, 100), (0,))]


@graph
def reduce_three_levels() -> list[Node]:
    return [ops.reduce_("max", leaf(20, 1_100_000), (1,))]


@graph
def reduce_types() -> list[Node]:
    return [
        ops.reduce_("sum", leaf(20, 100, dtype=float16), (1,)),
        ops.reduce_("max", leaf(20, 100, dtype=int8), (1,)),
        ops.reduce_("any", leaf(20, 100, dtype=bool_), (1,)),
        ops.reduce_("sum", leaf(20, 100, dtype=int64), (0,)),
    ]


@graph
def positions() -> list[Node]:
    return [
        ops.arg_reduce("argmax", leaf(37, 1000), 1),
        ops.arg_reduce("argmin", leaf(100, 70), 0),
        ops.arg_reduce("argmax", leaf(5, 2100, dtype=int32), 1),
    ]


def make_softmax(x: Node) -> Node:
    """Softmax over the last axis."""
    axis = len(x.shape) - 1
    shifted = ops.apply("sub", x, row(ops.reduce_("max", x, (axis,))))
    powers = ops.apply("exp", shifted)
    return ops.apply("div", powers, row(ops.reduce_("sum", powers, (axis,))))


@graph
def softmax() -> list[Node]:
    return [make_softmax(leaf(37, 1000))]


@graph
def softmax_of_halves() -> list[Node]:
    return [ops.cast(make_softmax(ops.cast(leaf(40, 77, dtype=bfloat16), float32)), bfloat16)]


@graph
def layer_norm() -> list[Node]:
    x, width = leaf(50, 300), half(1 / 300)
    mean = ops.apply("mul", ops.reduce_("sum", x, (1,)), width)
    centred = ops.apply("sub", x, row(mean))
    square = ops.apply("mul", centred, centred)
    variance = ops.apply("mul", ops.reduce_("sum", square, (1,)), width)
    scale = ops.apply("rsqrt", ops.apply("add", variance, half(1e-5)))
    normal = ops.apply("mul", centred, row(scale))
    return [ops.apply("add", ops.apply("mul", normal, leaf(300)), leaf(300))]


@graph
def cross_entropy() -> list[Node]:
    x, target = leaf(64, 100), leaf(64, dtype=int64)
    top = ops.reduce_("max", x, (1,))
    powers = ops.apply("exp", ops.apply("sub", x, row(top)))
    total = ops.apply("add", ops.apply("log", ops.reduce_("sum", powers, (1,))), top)
    flat = ops.apply("add", ops.apply("mul", ops.iota(64), ops.constant(100, int64)), target)
    picked = ops.gather(ops.reshape(x, (6400,)), flat, 0)
    return [ops.reduce_("sum", ops.apply("sub", total, picked), (0,))]


# ------------------------------------------------------------ data-dependent


@graph
def gathers() -> list[Node]:
    index = leaf(7, 3, dtype=int64)
    return [
        ops.gather(leaf(50, 64), index, 0),
        ops.gather(leaf(6, 50), leaf(9, dtype=int32), 1),
        ops.reduce_("sum", ops.gather(leaf(1, 5), leaf(100, dtype=int64), 0), (0,)),
    ]


@graph
def scatters() -> list[Node]:
    return [
        ops.scatter(leaf(50, 64), leaf(7, dtype=int64), leaf(7, 64), 0, "add"),
        ops.scatter(leaf(50), leaf(30, dtype=int32), leaf(30), 0, "max"),
        ops.scatter(leaf(3, 1, 5), leaf(4, dtype=int64), leaf(3, 4, 5), 1, "set"),
    ]


@graph
def updates() -> list[Node]:
    return [
        ops.update(leaf(50, 64), leaf(10, 10), (2, 3), (2, 3)),
        ops.update(leaf(50), leaf(25), (49,), (-2,)),
    ]


@graph
def scans() -> list[Node]:
    return [ops.scan("sum", leaf(50, 64), 0), ops.scan("max", leaf(50, 64, dtype=int64), 1)]


# ---------------------------------------------------------------- contractions


def matmul(left: Node, right: Node) -> Node:
    """A matrix product, with a batch when both operands have one."""
    if len(left.shape) == 3:
        return ops.contract(left, right, (3, 0, 1), (3, 1, 2), (3, 0, 2))
    return ops.contract(left, right, (0, 1), (1, 2), (0, 2))


@graph
def matmul_large() -> list[Node]:
    return [matmul(leaf(260, 300), leaf(300, 250)), matmul(leaf(512, 512), leaf(512, 512))]


@graph
def matmul_few_rows() -> list[Node]:
    wide, near = matmul(leaf(200, 300), leaf(300, 250)), matmul(leaf(61, 67), leaf(67, 71))
    far, columns = matmul(leaf(64, 4096), leaf(4096, 256)), matmul(leaf(2000, 1024), leaf(1024, 12))
    return [wide, near, far, columns]


@graph
def matmul_huge() -> list[Node]:
    return [matmul(leaf(3000, 3000), leaf(3000, 3000)), matmul(leaf(300, 70_000), leaf(70_000, 99))]


@graph
def matmul_ragged() -> list[Node]:
    sizes = ((97, 89, 101), (33, 1000, 65), (1009, 64, 17), (50, 53, 3))
    return [matmul(leaf(m, k), leaf(k, n)) for m, k, n in sizes]


@graph
def matmul_small() -> list[Node]:
    sizes = ((5, 30, 25), (2, 2, 2), (3, 1, 100), (40, 9, 10))
    return [matmul(leaf(m, k), leaf(k, n)) for m, k, n in sizes]


@graph
def matmul_batched() -> list[Node]:
    return [
        matmul(leaf(16, 64, 64), leaf(16, 64, 64)),
        matmul(leaf(3, 200, 190), leaf(3, 190, 150)),
        matmul(leaf(40, 5, 30), leaf(40, 30, 6)),
    ]


@graph
def matmul_transposed() -> list[Node]:
    return [
        ops.contract(leaf(5, 300), leaf(80, 300), (0, 1), (2, 1), (0, 2)),
        ops.contract(leaf(300, 200), leaf(150, 300), (1, 0), (2, 1), (2, 0)),
        ops.contract(leaf(8, 5, 300), leaf(8, 80, 300), (3, 0, 1), (3, 2, 1), (3, 0, 2)),
    ]


@graph
def matrix_vector() -> list[Node]:
    return [
        ops.contract(leaf(203, 300), leaf(300), (0, 1), (1,), (0,)),
        ops.contract(leaf(300, 203), leaf(300), (1, 0), (1,), (0,)),
        ops.contract(leaf(1000), leaf(1000), (0,), (0,), ()),
        ops.contract(leaf(30), leaf(40), (0,), (1,), (0, 1)),
    ]


@graph
def matmul_types() -> list[Node]:
    return [
        matmul(leaf(100, 90, dtype=bfloat16), leaf(90, 110, dtype=bfloat16)),
        matmul(leaf(100, 90, dtype=float64), leaf(90, 110, dtype=float64)),
        matmul(leaf(100, 90, dtype=int32), leaf(90, 110, dtype=int32)),
        matmul(leaf(10, 9, dtype=int8), leaf(9, 11, dtype=int8)),
    ]


@graph
def linear_with_epilogue() -> list[Node]:
    x, weight, bias = leaf(128, 200), leaf(96, 200), leaf(96)
    product = ops.contract(x, weight, (0, 1), (2, 1), (0, 2))
    return [ops.apply("maximum", ops.apply("add", product, bias), half(0.0))]


@graph
def convolution() -> list[Node]:
    padded = ops.pad(leaf(2, 3, 20, 21), (0, 0, 1, 1), (0, 0, 1, 1), (0, 0, 0, 0), 0.0)
    area = 22 * 23
    windows = ops.window(padded, (2, 3, 10, 11, 3, 3), (3 * area, area, 46, 2, 23, 1), 0)
    weight = leaf(8, 3, 3, 3)
    return [ops.contract(windows, weight, (0, 1, 2, 3, 4, 5), (6, 1, 4, 5), (0, 6, 2, 3))]


@graph
def attention() -> list[Node]:
    query, key, value = (leaf(6, 50, 32) for _ in range(3))
    scores = ops.contract(query, key, (3, 0, 1), (3, 2, 1), (3, 0, 2))
    weights = make_softmax(ops.apply("mul", scores, half(0.25)))
    return [ops.contract(weights, value, (3, 0, 2), (3, 2, 1), (3, 0, 1))]
