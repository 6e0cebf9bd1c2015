"""Results written over what they are computed from: where that is right, and where it is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from lazyt import ops
from lazyt.compiler import compile_graph
from lazyt.ir.dtypes import float32
from lazyt.ir.graph import Node
from lazyt.ir.kernel import Kernel
from lazyt.ir.program import Program
from lazyt.ir.verifier import verify_kernel
from lazyt.runtime.cpu import compile, execute
from lazyt.runtime.interpreter import interpret
from lazyt.runtime.memory import Buffer

pytestmark = pytest.mark.skipif(not compile.available(), reason="needs a C compiler")

Graph = Callable[..., list[Node]]
SHAPE = (5, 70)


def matmul(a: Node, b: Node) -> Node:
    """The product of two matrices."""
    return ops.contract(a, b, (0, 1), (1, 2), (0, 2))


def twice(x: Node, *_: Node) -> list[Node]:
    """One value of itself."""
    return [ops.apply("add", x, x)]


def exchanged(x: Node, y: Node) -> list[Node]:
    """Each is needed for the other's new value."""
    return [ops.apply("sub", x, y), ops.apply("mul", x, y)]


def product(x: Node, y: Node) -> list[Node]:
    """The old value is added behind a contraction, by the kernel of which it is no operand."""
    return [ops.apply("add", x, matmul(y, ops.permute(y, (1, 0))))]


def squares(x: Node, y: Node) -> list[Node]:
    """The old value is an operand of the contraction."""
    return [ops.apply("add", x, matmul(x, y))]


def turned(x: Node, y: Node) -> list[Node]:
    """Other elements are read than are written."""
    return [ops.apply("add", x, ops.permute(x, (1, 0))), y]


def scaled_rows(x: Node, *_: Node) -> list[Node]:
    """A row is read as a whole before any of it is written."""
    total = ops.expand(ops.reshape(ops.reduce_("max", x, (1,)), (x.shape[0], 1)), x.shape)
    return [ops.apply("sub", x, total)]


def read_later(x: Node, y: Node) -> list[Node]:
    """The old value is read by a launch that needs the new one: it has to stay."""
    new = ops.apply("add", x, matmul(y, y))
    return [new, matmul(x, new)]


def numbers(shape: Sequence[int], seed: int) -> np.ndarray:
    """Values for an input."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def run(
    graph: Graph, shapes: Sequence[tuple[int, ...]], owners: dict[int, int]
) -> tuple[Program, list[Kernel]]:
    """Compiles with these owners of inputs, and compares with the interpreter."""
    leaves = [ops.input_(shape, float32) for shape in shapes]
    roots = graph(*leaves)
    program, kernels = compile_graph(roots, leaves, {leaves[n]: r for n, r in owners.items()})
    for kernel in kernels:
        verify_kernel(kernel)
    for leaf, seed in zip(leaves, range(len(leaves))):
        leaf.data = Buffer(leaf.nbytes)
        leaf.data.copy_from(numbers(leaf.shape, seed).tobytes())
    wanted = interpret(roots)
    inputs = [leaf.data for leaf in leaves]
    sizes = {n: root.nbytes for root, n in zip(roots, program.results, strict=True) if n >= 0}
    outputs = [Buffer(sizes[n]) for n in sorted(sizes)]
    execute.load(program).run(inputs, outputs)
    for root, place, values in zip(roots, program.results, wanted, strict=True):
        found = outputs[place] if place >= 0 else inputs[-1 - place]
        array = found.as_numpy(float32, root.shape)
        np.testing.assert_allclose(array, values, rtol=1e-5, atol=1e-5)
    return program, kernels


CASES: dict[str, tuple[Graph, list[tuple[int, ...]], dict[int, int], tuple[int, ...]]] = {
    "itself": (twice, [SHAPE], {0: 0}, (0,)),
    "each other": (exchanged, [SHAPE, SHAPE], {0: 0, 1: 1}, (0, 1)),
    "crosswise": (exchanged, [SHAPE, SHAPE], {0: 1, 1: 0}, (0, 1)),
    "epilogue": (product, [(37, 37), (37, 20)], {0: 0}, (0,)),
    "operand": (squares, [(37, 37), (37, 37)], {0: 0}, ()),
    "turned": (turned, [(9, 9), (2,)], {0: 0}, ()),
    "rows": (scaled_rows, [(6, 300)], {0: 0}, ()),
    "needed later": (read_later, [(8, 8), (8, 8)], {0: 0}, ()),
    "not its own": (twice, [SHAPE, SHAPE], {1: 0}, (1,)),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_written_over(name: str) -> None:
    graph, shapes, owners, expected = CASES[name]
    program, kernels = run(graph, shapes, owners)
    assert program.overwritten == expected
    roles = [b.role for kernel in kernels for b in kernel.buffers]
    read = {i for i in expected if name not in ("not its own",)}
    assert roles.count("inout") == len(read)


def test_two_results_of_one_value_share_no_memory_with_a_third() -> None:
    def same(x: Node) -> list[Node]:
        new = ops.apply("neg", x)
        return [new, new]

    assert run(same, [SHAPE], {0: 0})[0].overwritten == ()

    def old_too(x: Node) -> list[Node]:
        return [ops.apply("neg", x), x]

    assert run(old_too, [SHAPE], {0: 0})[0].overwritten == ()


def test_one_launch_for_several_writes_over_each() -> None:
    def steps(*leaves: Node) -> list[Node]:
        pairs = zip(leaves[:3], leaves[3:], strict=True)
        return [ops.apply("sub", w, ops.apply("mul", g, g)) for w, g in pairs]

    shapes = [(40, 30), (64,), (7,)]
    program, kernels = run(steps, shapes * 2, {0: 0, 1: 1, 2: 2})
    assert program.overwritten == (0, 1, 2)
    assert [len(k.segments) for k in kernels] == [3]
    mixed, _ = run(steps, shapes * 2, {0: 0, 1: 1})  # the kernel of all takes all or none
    assert mixed.overwritten == ()


def test_readers_of_an_old_value_run_first() -> None:
    """The gradient of a layer's input reads the weight that the same step replaces."""

    def step(w: Node, x: Node, y: Node) -> list[Node]:
        new = ops.apply("sub", w, matmul(ops.permute(x, (1, 0)), y))
        return [new, ops.apply("neg", matmul(y, ops.permute(w, (1, 0))))]

    program, _ = run(step, [(24, 16), (32, 24), (32, 16)], {0: 0})
    assert program.overwritten == (0,)


def test_cases_hold_under_any_order_of_reading() -> None:
    """A value that is read behind the statement which overwrites it is read before."""

    def several(x: Node, y: Node) -> list[Node]:
        first = ops.apply("add", x, y)
        return [first, ops.apply("mul", x, first), ops.apply("exp", x)]

    program, _ = run(several, [SHAPE, SHAPE], {0: 0, 1: 1})
    assert program.overwritten == (0, 1)
