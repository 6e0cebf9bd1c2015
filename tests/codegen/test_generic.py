"""Kernels for any shape give the bits of kernels that were compiled for the graph."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np
import pytest

import lazyt
import lazyt.profiler
from lazyt import ops
from lazyt.codegen.generic.library import kinds_of, units
from lazyt.codegen.generic.primitives import COMPUTED, primitives
from lazyt.config import config
from lazyt.ir.dtypes import ALL, DType, bfloat16, bool_, float16, float32, float64, int32, int64
from lazyt.ir.graph import Node, topological
from lazyt.ir.printer import print_graph
from lazyt.ir.scalar import FUNCTIONS, HOMES
from lazyt.ops.builders import arg_reduce, reduce_
from lazyt.plan import generic as generic_plans
from lazyt.plan import planning
from lazyt.runtime.memory import Buffer
from lazyt.testing.graph_maker import buffer_of
from lazyt.testing.random_graphs import random_graph

#: Random graphs, and how many of them are compiled together.
GRAPHS, TOGETHER = 120, 20


def generic(roots: Sequence[Node], donated: dict[int, int] | None = None) -> list[bytes]:
    """What the library of kernels for any shape computes; the nodes keep no data."""
    order = topological(roots, lambda node: node.data is not None)
    leaves = [node for node in order if node.data is not None]
    made = generic_plans.encoded(order, leaves, roots, donated or {})
    assert made is not None, print_graph(roots)
    executable = generic_plans.load(made, leaves, roots)
    program = executable.program
    outputs = [Buffer(slot.nbytes) for slot in program.slots if slot.kind == "output"]
    inputs = [leaf.data.copy() for leaf in leaves]
    executable.run([*inputs, generic_plans.buffer_of(array("q", made.words))], outputs)
    found = [outputs[n] if n >= 0 else inputs[-1 - n] for n in program.results]
    return [
        buffer.as_numpy(node.dtype, node.shape).tobytes()
        for buffer, node in zip(found, roots, strict=True)
    ]


def fused(roots: Sequence[Node]) -> list[bytes]:
    """What kernels compute that are compiled for the graph."""
    with config.override(any_size=False):
        planning.realize(roots)
    return [node.data.as_numpy(node.dtype, node.shape).tobytes() for node in roots]


def check(roots: Sequence[Node]) -> None:
    """Both ways give the same bits, but for the payload of NaN."""
    found, wanted = generic(roots), fused(roots)
    wrong = [
        (node, a, b)
        for node, one, other in zip(roots, found, wanted, strict=True)
        if one != other
        for a, b in [(_array(one, node), _array(other, node))]
        if not np.array_equal(_without_nan(a, node.dtype), _without_nan(b, node.dtype))
    ]
    assert not wrong, "\n".join(f"{node!r}: {a} instead of {b}" for node, a, b in wrong[:3])


def _array(data: bytes, node: Node) -> np.ndarray:
    return np.frombuffer(data, f"u{node.dtype.itemsize}").reshape(node.shape)


def _without_nan(bits: np.ndarray, dtype: DType) -> np.ndarray:
    if dtype.kind != "f":
        return bits
    if dtype is bfloat16:
        return np.where((bits & 0x7FFF) > 0x7F80, 0x7FC0, bits)
    return np.where(np.isnan(bits.view(dtype.numpy)), 1, bits)


def _ends(dtype: DType) -> tuple[int, int]:
    facts = np.iinfo(dtype.numpy)
    return facts.min, facts.max


def values(shape: tuple[int, ...], dtype: DType, seed: int = 0) -> Node:
    """A leaf of numbers of all kinds: small, large, special ones, the ends of integers."""
    chance = np.random.default_rng(seed)
    if dtype.kind == "f":
        found = chance.standard_normal(shape) * 10.0 ** chance.integers(-3, 3, shape)
        special = [0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan, 1e-30, 88.5]
    else:
        low, high = (0, 1) if dtype is bool_ else (int(x) for x in _ends(dtype))
        found = chance.integers(max(low, -100), min(high, 100) + 1, shape).astype(dtype.numpy)
        special = [low, high, 0, 1]
    flat = found.reshape(-1)
    flat[: min(len(special), flat.size)] = special[: flat.size]
    return ops.input_(shape, dtype, buffer_of(found, dtype))


@pytest.mark.parametrize("first", range(0, GRAPHS, TOGETHER))
def test_random_graphs(first: int) -> None:
    roots = [root for seed in range(first, first + TOGETHER) for root in random_graph(seed).roots]
    check(list(dict.fromkeys(root for root in roots if root.size and root.data is None)))


@pytest.mark.parametrize("dtype", COMPUTED, ids=lambda t: t.name)
def test_every_scalar_function(dtype: DType) -> None:
    a, b, c = (values((40,), dtype, seed) for seed in range(3))
    test = values((40,), bool_)
    roots = []
    for name, fn in FUNCTIONS.items():
        if dtype.kind not in fn.kinds or name in ("threefry", "bitcast"):
            continue
        if not HOMES[name].startswith("lazyt."):  # other tests define some of their own
            continue
        if name == "cast":
            roots += [ops.cast(a, other) for other in ALL if other is not dtype]
        elif name == "where":
            roots.append(ops.apply(name, test, a, b))
        else:
            roots.append(ops.apply(name, *(a, b, c)[: fn.arity]))
    # No kernel sees complex numbers: they are pairs before.
    check([root for root in roots if root.dtype.kind != "c"])


@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=lambda t: t.name)
def test_sixteen_bits(dtype: DType) -> None:
    a, b = (values((300,), dtype, seed) for seed in range(2))
    total = ops.apply("add", ops.cast(a, float32), ops.cast(b, float32))
    rounded = ops.cast(total, dtype)
    twice = ops.apply("mul", ops.cast(rounded, float32), ops.cast(rounded, float32))
    check([rounded, ops.cast(twice, dtype), ops.apply("neg", a), ops.apply("maximum", a, b),
           ops.cast(a, float16), ops.cast(a, bfloat16), ops.cast(a, int32), ops.cast(a, float64),
           ops.apply("bitcast", a, dtype=ALL[2])])  # fmt: skip


EXTENTS = [1, 2, 3, 31, 32, 33, 64, 100, 1023, 1024, 1025, 2048, 5000, 1024 * 33 + 7]


@pytest.mark.parametrize(
    "dtype", [float32, float64, float16, bfloat16, int64, ALL[1], bool_], ids=lambda t: t.name
)
def test_folds_of_all_extents(dtype: DType) -> None:
    for kind in kinds_of("reduce", dtype):
        roots = []
        for extent in EXTENTS:
            roots.append(reduce_(kind, values((extent,), dtype), (0,)))
            roots.append(reduce_(kind, values((extent, 3), dtype), (0,)))
            roots.append(reduce_(kind, values((2, extent), dtype), (1,)))
            roots.append(reduce_(kind, values((2, extent // 2 + 1, 2), dtype), (0, 2)))
        check(roots)


#: A shape, and axes that are folded: short rows and columns, in several orders of memory.
ROWS = ((3, 5, 2, 37, 2, 4), [(1,), (4,), (2, 4), (5,), (0, 2), (3,), (2, 3, 4, 5)])


@pytest.mark.parametrize(
    "dtype", [float32, float64, bfloat16, int64, ALL[1], bool_], ids=lambda t: t.name
)
def test_many_short_rows(dtype: DType) -> None:
    shape, folded = ROWS
    x = values(shape, dtype)
    for kind in kinds_of("reduce", dtype):
        views = [x, ops.permute(x, (3, 0, 5, 1, 4, 2)), ops.flip(x, (3, 5))]
        check([reduce_(kind, view, axes) for view in views for axes in folded])
    firsts = [arg_reduce("argmax", x, axis) for axis in range(len(shape))]
    check([*firsts, arg_reduce("argmin", ops.permute(x, (5, 4, 3, 2, 1, 0)), 1)])


def test_copies_of_views_with_short_axes() -> None:
    for dtype in (ALL[1], bfloat16, float32, float64):
        x = values((3, 5, 2, 37, 2, 4), dtype)
        orders = [(3, 0, 5, 1, 4, 2), (0, 1, 3, 2, 5, 4), (3, 5, 4, 2, 1, 0), (1, 0, 2, 3, 4, 5)]
        roots = [ops.permute(x, order) for order in orders]
        flipped = [ops.reshape(ops.flip(root, (1, 4)), (x.size,)) for root in roots]
        check([*flipped, *(ops.reshape(root, (x.size,)) for root in roots)])


def test_positions_of_extremes() -> None:
    for dtype in (float32, int64, float16):
        roots = [
            arg_reduce(kind, values(shape, dtype, seed), axis)
            for kind in ("argmax", "argmin")
            for seed, (shape, axis) in enumerate([((50,), 0), ((3, 2000), 1), ((40, 5), 0)])
        ]
        check(roots)


@pytest.mark.parametrize(
    "dtype", [float32, float64, float16, bfloat16, int32], ids=lambda t: t.name
)
def test_products(dtype: DType) -> None:
    roots = []
    chance = np.random.default_rng(0)

    def leaf(*shape: int) -> Node:
        found = chance.standard_normal(shape) * (50 if dtype.kind != "f" else 1)
        return ops.input_(shape, dtype, buffer_of(found, dtype))

    for m, k, n in [
        (1, 1, 1),
        (3, 5, 2),
        (7, 33, 65),
        (64, 100, 1),
        (1, 100, 64),
        (50, 1, 50),
        (30, 300, 47),
    ]:
        roots.append(ops.contract(leaf(m, k), leaf(k, n), (0, 1), (1, 2), (0, 2)))
        roots.append(ops.contract(leaf(k, m), leaf(n, k), (1, 0), (2, 1), (2, 0)))
        roots.append(ops.contract(leaf(2, m, k), leaf(k, 2, n), (3, 0, 1), (1, 3, 2), (3, 0, 2)))
    roots.append(ops.contract(leaf(4, 3, 5, 6), leaf(5, 3, 7), (0, 1, 2, 3), (2, 1, 4), (0, 3, 4)))
    check(roots)


def test_results_may_be_written_over_inputs() -> None:
    base = values((6, 5), float32)
    roots = [ops.update(base, values((2, 5), float32, 1), (1, 0), (2, 1))]
    (plain,), (over,) = generic(roots), generic(roots, {0: 0})
    assert plain == over
    order = topological(roots, lambda node: node.data is not None)
    leaves = [node for node in order if node.data is not None]
    made = generic_plans.encoded(order, leaves, roots, {leaves.index(base): 0})
    assert made is not None and made.donated == ((leaves.index(base), 0),)
    # Not where the old values are still needed.
    both = [*roots, ops.apply("neg", base)]
    order = topological(both, lambda node: node.data is not None)
    made = generic_plans.encoded(order, leaves, both, {leaves.index(base): 0})
    assert made is not None and (made.donated == () or order.index(roots[0]) > order.index(both[1]))
    assert generic(both, {0: 0}) == generic(both)


@pytest.mark.parametrize("is_first", [False, True])
def test_the_beginning_of_a_result_has_memory_of_its_own(is_first: bool) -> None:
    whole = ops.apply("neg", values((6,), int64))
    roots = [whole, ops.window(whole, (2, 1), (1, 1), 0), ops.window(whole, (1, 3), (0, 1), 0)]
    check(roots[::-1] if is_first else roots)


def test_numbers_of_functions_are_distinct() -> None:
    names = [name for unit in units() for name in unit.functions]
    assert len(names) == len(set(names))
    assert {one.symbol for one in primitives()} <= set(names)


def test_a_profiler_sees_each_operation() -> None:
    a = lazyt.ones(8, 8).realize()
    with config.override(tier=0), lazyt.profiler.profile() as profiled:
        ((a @ a).sum() * 2).item()
    rows = {row.key: row for row in profiled.key_averages()}
    assert rows["lazyt::mm"].count == 1 and rows["lazyt::mm"].flops == 2 * 8**3
    assert {"lazyt::sum", "lazyt::elementwise"} <= rows.keys()
