"""The graphs whose kernels are the corpus: every function and op, by dtype, with ragged shapes.

Values are chosen where functions are smooth: this is about kernels, not about accuracy.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from lazyt import ops
from lazyt.errors import DTypeError
from lazyt.ir.dtypes import (
    ALL,
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
from lazyt.ir.factorizations.sizes import ALONE, MODES, OPERANDS
from lazyt.ir.fourier.tables import row_sizes, table
from lazyt.ir.graph import Node, make
from lazyt.ir.scalar import FUNCTIONS
from lazyt.ops.fourier.transform import fourier
from lazyt.ops.routines import LibraryParams
from lazyt.testing.graph_maker import buffer_of
from tests.ops_contract import custom_samples as custom_samples  # registers its samples
from tests.ops_contract.op_samples import SAMPLES, Sample, gradients
from tests.ops_contract.test_scalar_contract import DOMAINS, _points

#: Ragged and round, below and above what warps, blocks and tiles hold.
SHAPES = ((33,), (7, 31), (1025,), (1,), (3, 5, 17), (256,), (2, 1000), (511,))
SCALAR_TYPES = (float32, float64, float16, bfloat16, int8, int32, int64, uint8, uint32, bool_)
FLOATS = (float32, float64, float16, bfloat16)
#: Elements from which elementwise kernels take adjacent points (``cuda_threads.MANY_POINTS``).
MANY = 1 << 20
#: Ops that are no kernel: copies between devices, calls of the CPU's libraries, and a marker that
#: is gone when kernels are made; loops and branches, which stand between plans.
WITHOUT_KERNELS = {
    "put", "transfer", "library", "detach", "loop", "branch", "collective", "while",
    "distribute", "localize", "python",
}  # fmt: skip

Build = Callable[[], list[Node]]
Leaf = Callable[[], Node]


@dataclass(frozen=True)
class Cell:
    """A graph; its values may differ from the interpreter's by ``error`` times 1 + their size.

    Attributes:
        light: whether moving memory is all that takes time.
        aligned: whether its accesses have to be 16 bytes wide.
    """

    name: str
    build: Build
    light: bool = True
    aligned: bool = False
    scale: float = 1.0


def leaf(array: np.ndarray, dtype: DType) -> Node:
    """An input that holds ``array``."""
    return ops.input_(array.shape, dtype, buffer_of(np.ascontiguousarray(array), dtype))


def numbers(shape: Sequence[int], dtype: DType, seed: int = 0) -> Node:
    """An input with small numbers of either sign, no two of them equal where they are few."""
    rng = np.random.default_rng([seed, *shape])
    if dtype is bool_:
        return leaf(rng.random(shape) < 0.5, dtype)
    if dtype.kind == "f":
        return leaf(rng.uniform(-2, 2, shape), dtype)
    return leaf(rng.integers(0 if dtype.kind == "u" else -9, 10, shape), dtype)


def positions(count: int, extent: int) -> Node:
    """An input of ``count`` positions below ``extent``, some of them equal."""
    return leaf(np.random.default_rng(count).integers(0, extent, count), int64)


# ------------------------------------------------------------------ functions


def scalar(name: str, dtype: DType, shape: tuple[int, ...]) -> list[Node]:
    """One function of arrays; raises DTypeError for a type that it does not take."""
    fn = FUNCTIONS[name]
    bounds = DOMAINS.get(name, ((0.4, 0.9),) * fn.arity)
    size = int(np.prod(shape))
    nodes: list[Node] = []
    for place, bound in enumerate(bounds):
        points = _points(bound, size, place)
        if name == "where" and place == 0:
            nodes.append(leaf((np.arange(size) % 2 == 0).reshape(shape), bool_))
            continue
        if dtype.kind != "f":
            points = np.arange(size) % (2 if dtype is bool_ else 7) + (place if size > 1 else 1)
        nodes.append(leaf(points.reshape(shape), dtype))
    return [ops.apply(name, *nodes, dtype=_other(name, dtype))]


def _other(name: str, dtype: DType) -> DType | None:
    """What a conversion converts to."""
    if name == "cast":
        return float32 if dtype is not float32 else int32
    if name == "bitcast":
        return next(d for d in ALL if d is not dtype and d.itemsize == dtype.itemsize)
    return None


def scalar_cells() -> Iterator[Cell]:
    """Every function with every type, in turns of the shapes."""
    for number, name in enumerate(FUNCTIONS):
        if name == "complex":  # a pair, which no kernel has as one value
            continue
        for turn, dtype in enumerate(SCALAR_TYPES):
            shape = SHAPES[(number + turn) % len(SHAPES)]
            light = FUNCTIONS[name].symbol is not None
            build = partial(scalar, name, dtype, shape)
            yield Cell(f"{name}_{dtype.name}", build, light, scale=4)


# ------------------------------------------------------------- structural ops


def structural_cells() -> Iterator[Cell]:
    """The samples of every structural op with every kind of type, and their gradients."""
    for sample in SAMPLES:
        if sample.op in (*WITHOUT_KERNELS, "fourier", "linalg"):  # which have cells below
            continue
        for dtype in _types(sample.op, sample.arrays):
            build = partial(structural, sample, dtype)
            yield Cell(f"{sample.name}_{dtype.name}", build, scale=8)


def structural(sample: Sample, dtype: DType) -> list[Node]:
    """A sample whose floating point operands have another type; in float32 with its gradients."""
    leaves = [_typed(array, dtype) for array in sample.arrays]
    made = sample.build(*leaves)
    return [made, *(gradients(made, leaves) if dtype is float32 else [])]


def _types(op: str, arrays: Sequence[np.ndarray]) -> tuple[DType, ...]:
    """What the floating point operands of a sample become."""
    if not any(a.dtype == np.float64 for a in arrays):
        return (float64,)
    return FLOATS if op == "map" else (*FLOATS, int32, int64, uint8, bool_)


def _typed(array: np.ndarray, dtype: DType) -> Node:
    """A leaf; floating point samples become ``dtype``."""
    if array.dtype != np.float64:
        return leaf(array, next(d for d in ALL if d.numpy == array.dtype))
    return leaf(array if dtype.kind == "f" else np.round(array), dtype)


# ----------------------------------------------------- kernels with many threads


def softmax(leaf: Leaf, axis: int) -> list[Node]:
    """Along an axis, half types computed in float32."""
    x = leaf()
    wide = ops.cast(x, float32) if x.dtype.is_half else x

    def back(value: Node) -> Node:
        shape = tuple(1 if a == axis else e for a, e in enumerate(x.shape))
        return ops.expand(ops.reshape(value, shape), x.shape)

    power = ops.apply("exp", ops.apply("sub", wide, back(ops.reduce_("max", wide, (axis,)))))
    out = ops.apply("div", power, back(ops.reduce_("sum", power, (axis,))))
    return [ops.cast(out, x.dtype)]


def norm(leaf: Leaf) -> list[Node]:
    """Layer norm of rows, and the rows' means."""
    x = leaf()
    last = len(x.shape) - 1
    share = ops.constant(1.0 / x.shape[last], x.dtype)

    def back(value: Node) -> Node:
        return ops.expand(ops.reshape(value, (*x.shape[:last], 1)), x.shape)

    mean = ops.apply("mul", ops.reduce_("sum", x, (last,)), share)
    off = ops.apply("sub", x, back(mean))
    square = ops.reduce_("sum", ops.apply("mul", off, off), (last,))
    spread = ops.apply("add", ops.apply("mul", square, share), ops.constant(1e-5, x.dtype))
    return [ops.apply("mul", off, back(ops.apply("rsqrt", spread))), mean]


def kept_sums(leaf: Leaf) -> list[Node]:
    """Columns' sums of a value that is wanted as well, forwards and backwards."""
    x = leaf()
    scaled = ops.apply("mul", x, ops.constant(3, x.dtype))
    flipped = ops.flip(scaled, (1,))
    return [ops.apply("add", scaled, flipped), ops.reduce_("sum", flipped, (0,))]


def product(dtype: DType, m: int, n: int, k: int, batch: int = 0) -> list[Node]:
    """A product of matrices with a bias and a clamp."""
    first = (batch,) if batch else ()
    a, b = numbers((*first, m, k), dtype), numbers((*first, k, n), dtype, 1)
    axes = ((0, 1, 2), (0, 2, 3), (0, 1, 3)) if batch else ((0, 1), (1, 2), (0, 2))
    out = ops.contract(a, b, *axes)
    out = ops.apply("add", out, numbers((n,), out.dtype, 2))
    return [ops.apply("maximum", out, ops.constant(0, out.dtype))]


def group_cells() -> Iterator[Cell]:
    """Rows, columns, groups of warps, tiles of products: whatever makes threads wait."""
    # A row of one warp, of several, of more than one round of warps; columns with and without rest.
    matrices = ((5, 33), (5, 1000), (3, 1025), (2, 2500), (1, 20_000), (1500, 40), (40, 96))
    for shape, dtype in itertools.product(matrices, (*FLOATS, int32, int64, uint8)):
        x = partial(numbers, shape, dtype)
        for axis in (0, 1):
            name = f"{shape[0]}x{shape[1]}_{dtype.name}_{axis}"
            for kind in ("sum", "max", "argmin"):
                yield Cell(f"{kind}_{name}", partial(fold, kind, x, axis), scale=40)
            if dtype.kind == "f":
                yield Cell(f"softmax_{name}", partial(softmax, x, axis), scale=4)
    for shape, dtype in itertools.product(matrices, (float32, float64)):
        x = partial(numbers, shape, dtype)
        name = f"{shape[0]}x{shape[1]}_{dtype.name}"
        yield Cell(f"norm_{name}", partial(norm, x), scale=40)
        yield Cell(f"kept_{name}", partial(kept_sums, x), scale=40)
    # Rows whose elements are read several times, and kept: as long as that goes.
    for length, dtype in itertools.product((4096, 16_384), FLOATS):
        x = partial(numbers, (2, length), dtype)
        yield Cell(f"norm_{length}_{dtype.name}", partial(norm, x), scale=40)
        light = (length, dtype) != (16_384, float64)  # sm_80 spills 16 bytes of the exponentials
        yield Cell(f"softmax_{length}_{dtype.name}", partial(softmax, x, 1), light, scale=4)
    for dtype in (*FLOATS, int8, int32, int64):
        for m, n, k in ((1, 1, 1), (33, 31, 17), (64, 64, 16), (7, 100, 129), (65, 1, 40)):
            build = partial(product, dtype, m, n, k)
            yield Cell(f"product_{m}x{n}x{k}_{dtype.name}", build, light=False, scale=40)
        build = partial(product, dtype, 20, 24, 33, 3)
        yield Cell(f"products_{dtype.name}", build, light=False, scale=40)
    # More blocks than are folded at a time.
    yield Cell("sum_huge", partial(fold, "sum", partial(numbers, (1, 1_100_000), float32), 1))
    yield Cell("sum_few", partial(fold, "sum", partial(numbers, (17, 40_000), float16), 1), scale=9)
    yield Cell("argmin_huge", partial(fold, "argmin", partial(numbers, (1, 1_050_001), int32), 1))
    build = partial(product, float32, 256, 256, 20, 40)
    yield Cell("product_large", build, light=False, scale=40)
    for dtype in (float32, int64, uint8, bfloat16):
        for shape in ((3, 300), (1, 1500), (40, 7)):
            x = partial(numbers, shape, dtype)
            name = f"{shape[0]}x{shape[1]}_{dtype.name}"
            for kind in ("values", "order"):
                yield Cell(f"sort_{kind}_{name}", partial(ordered, kind, x))
            yield Cell(f"scan_{name}", partial(running, x), scale=200)
        yield Cell(f"gather_{dtype.name}", partial(indexed, dtype))


def fold(kind: str, x: Leaf, axis: int) -> list[Node]:
    """One fold."""
    if kind.startswith("arg"):
        return [ops.arg_reduce(kind, x(), axis)]
    return [ops.reduce_(kind, x(), (axis,))]


def ordered(kind: str, x: Leaf) -> list[Node]:
    """Rows sorted downwards."""
    return [ops.sort(kind, x(), True)]


def running(x: Leaf) -> list[Node]:
    """Sums up to each place of a row."""
    return [ops.scan("sum", x(), 1)]


def indexed(dtype: DType) -> list[Node]:
    """Rows picked by number, and rows added by number."""
    table, where = numbers((20, 33), dtype), positions(50, 20)
    return [ops.gather(table, where, 0),
            ops.scatter(table, where, numbers((50, 33), dtype, 1), 0, "add")]  # fmt: skip


def fourier_cells() -> Iterator[Cell]:
    """Transforms of one row or several in a block, and of rows that do not fit into one; whole
    stages of large prime numbers of points have arrays that are not in registers."""
    for kind, n, rows, dtype in (
        ("complex", 64, 600, float32), ("half", 256, 300, float32), ("real", 100, 530, float64),
        ("complex", 1024, 2, float32), ("half", 1001, 2, float64), ("real", 63, 3, float32),
        ("complex", 118, 3, float32), ("complex", 127, 3, float64), ("half", 67, 400, float32),
        ("complex", 8192, 1, float32), ("half", 6000, 1, float64), ("real", 8190, 1, float64),
        ("complex", 1531, 1, float64), ("half", 2503, 1, float32), ("real", 2503, 1, float32),
    ):  # fmt: skip
        build = partial(transform, kind, n, rows, dtype)
        yield Cell(f"fourier-{kind}_{rows}x{n}_{dtype.name}", build, False, scale=0)


def transform(kind: str, n: int, rows: int, dtype: DType) -> list[Node]:
    """Rows of so many points, back and forth."""
    size, _ = row_sizes(kind, n)
    x = numbers((rows, size), dtype)
    if kind != "half":
        x = ops.reshape(x, (rows, size // 2, 2))
    constants = leaf(table(kind, n, 0.5, dtype), dtype)
    return [fourier(kind, sign, n, x, constants, True) for sign in (-1, 1)]


def matrix_cells() -> Iterator[Cell]:
    """Every factorization of matrices that a thread holds, and of some that are in scratch."""
    modes = [(r, m) for r in sorted(MODES.keys() - ALONE) for m in MODES[r]]
    for number, (routine, mode) in enumerate(modes):
        wide = routine in ("lu", "qr", "svd")
        for turn, (m, n) in enumerate(((3, 3), (4, 6), (19, 17))):
            if not wide:
                n = m
            dtype = (float32, float64)[(number + turn) % 2]
            build = partial(factorized, routine, mode, m, n, dtype)
            name = f"linalg-{routine}_{mode}_{m}x{n}_{dtype.name}"
            yield Cell(name, build, False, scale=40 if routine == "slogdet" else 0)


def factorized(routine: str, mode: str, m: int, n: int, dtype: DType) -> list[Node]:
    """The results of a routine of more matrices than a block has threads."""
    rng = np.random.default_rng([m, n])
    count = 70 if m < 5 else 35
    a = rng.standard_normal((count, m, n))
    if routine == "cholesky":
        a = a @ a.swapaxes(1, 2) + 0.01 * np.eye(m)
    given = [leaf(a, dtype)]
    if OPERANDS[routine] > 1:
        given.append(leaf(rng.standard_normal((count, m, 3)), dtype))
    return [make(ops.LINALG, tuple(given), LibraryParams(routine, mode))]


def wide_cells() -> Iterator[Cell]:
    """Elementwise kernels whose memory is aligned: loads and stores of 16 bytes."""
    for dtype in SCALAR_TYPES:
        yield Cell(f"wide_{dtype.name}", partial(wide, dtype), aligned=True, scale=4)
    for first, second in ((float32, float16), (bfloat16, float32), (float32, float64)):
        build = partial(converted, first, second)
        # A kernel does not round half types between its operations.
        scale = 4000 if first.is_half else 4
        yield Cell(f"wide_{first.name}_{second.name}", build, scale=scale)
    yield Cell("wide_padded", partial(padded, (MANY // 512, 512)))
    yield Cell("wide_picked", partial(picked, (MANY // 512, 512)))


def wide(dtype: DType) -> list[Node]:
    """A matrix with a row."""
    shape = (MANY // 512 + 24, 512)
    x, y = numbers(shape, dtype), numbers((shape[1],), dtype, 1)
    return [ops.apply("maximum", ops.apply("mul", x, y), x)]


def converted(first: DType, second: DType) -> list[Node]:
    """A matrix with a column, which is one element for all of a thread's points."""
    shape = (MANY // 1024, 1024)
    column = ops.expand(numbers((shape[0], 1), first, 1), shape)
    return [ops.cast(ops.apply("add", numbers(shape, first), column), second)]


def padded(shape: tuple[int, int]) -> list[Node]:
    """Loads that a condition decides about beside loads of the same place that are always made."""
    x = numbers((shape[0] - 2, shape[1]), float32)
    y = numbers(shape, float32, 1)
    return [ops.apply("add", ops.pad(x, (1, 0), (1, 0), (0, 0), 7), y)]


def picked(shape: tuple[int, int]) -> list[Node]:
    """Rows that are picked by number."""
    table = numbers((100, shape[1]), float32)
    rows = ops.gather(table, positions(shape[0], 100), 0)
    return [ops.apply("mul", rows, numbers(shape, float32, 1))]


def all_cells() -> list[Cell]:
    """Every cell that can be built, largest themes apart."""
    cells = [
        *scalar_cells(), *structural_cells(), *group_cells(), *fourier_cells(), *matrix_cells(),
        *wide_cells(),
    ]  # fmt: skip
    assert len({c.name for c in cells}) == len(cells)
    return cells


def built(cell: Cell) -> list[Node] | None:
    """The cell's roots that have elements; None where an op refuses the type, or nothing is left.

    Computed roots only: an input that is returned needs no kernel.
    """
    try:
        roots = cell.build()
    except DTypeError:
        return None
    return [r for r in roots if r.size and r.op.name != "input"] or None
