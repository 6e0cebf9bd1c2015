"""Scatters whose loops find by a scan where they write: the values, on all devices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import lazyt
from lazyt import ops
from lazyt.compiler import compile_graph
from lazyt.ir.dtypes import float32, int64
from lazyt.ir.graph import Node
from lazyt.ir.verifier import verify_kernel
from lazyt.runtime.cpu import compile, execute
from lazyt.runtime.interpreter import interpret
from lazyt.runtime.memory import Buffer

pytestmark = pytest.mark.skipif(not compile.available(), reason="needs a C compiler")

STEPS, PLACES = 500, 300


def written(base: Node, steps: Node, elements: Node, kind: str = "set") -> tuple[Node, Node]:
    """A running count, and elements at the places that it gives, some of them outside."""
    count = ops.scan("sum", steps, 0)
    last = ops.expand(ops.reshape(ops.constant(PLACES - 20, int64), (1,)), (STEPS,))
    return count, ops.scatter(base, ops.apply("sub", last, count), elements, 0, kind)


def plain(base: Node, steps: Node, elements: Node) -> list[Node]:
    """The result alone."""
    return [written(base, steps, elements)[1]]


def both(base: Node, steps: Node, elements: Node) -> list[Node]:
    """The count is a result, too."""
    return list(written(base, steps, elements))


def summed(base: Node, steps: Node, elements: Node) -> list[Node]:
    """What comes to one place is added."""
    return [written(base, steps, elements, "add")[1]]


def own_values(base: Node, steps: Node, elements: Node) -> list[Node]:
    """What is counted is read from what is written to, which has to stay."""
    signs = ops.cast(ops.apply("lt", base, ops.apply("neg", base)), int64)
    longer = ops.concat([signs, ops.slice_(steps, (0,), (STEPS - PLACES,), (1,))], 0)
    return [written(base, longer, elements)[1]]


def operands() -> list[np.ndarray]:
    """Numbers for the base, the steps and the elements."""
    rng = np.random.default_rng(5)
    return [
        rng.standard_normal(PLACES).astype(np.float32),
        rng.integers(0, 2, STEPS),
        rng.standard_normal(STEPS).astype(np.float32),
    ]


@pytest.mark.parametrize("owned", [False, True])
@pytest.mark.parametrize("graph", [plain, both, summed, own_values])
def test_values(graph: Callable[..., list[Node]], owned: bool) -> None:
    leaves = [
        ops.input_((PLACES,), float32), ops.input_((STEPS,), int64), ops.input_((STEPS,), float32)
    ]  # fmt: skip
    roots = graph(*leaves)
    place = len(roots) - 1
    program, kernels = compile_graph(roots, leaves, {leaves[0]: place} if owned else {})
    (kernel,) = kernels
    verify_kernel(kernel)
    for leaf, values in zip(leaves, operands()):
        leaf.data = Buffer(leaf.nbytes)
        leaf.data.copy_from(values.tobytes())
    wanted = interpret(roots)
    inputs = [leaf.data for leaf in leaves if leaf.data is not None]
    outputs = [
        Buffer(root.nbytes) for root, n in zip(roots, program.results, strict=True) if n >= 0
    ]
    execute.load(program).run(inputs, outputs)
    for root, n, values in zip(roots, program.results, wanted, strict=True):
        found = outputs[n] if n >= 0 else inputs[-1 - n]
        np.testing.assert_array_equal(found.as_numpy(root.dtype, root.shape), values)


@pytest.mark.parametrize("device", ["cpu", "cuda:emu"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "uint8", "bool"])
def test_unique_neighbours_are_the_first_of_their_runs(dtype: str, device: str) -> None:
    rng = np.random.default_rng(2)
    for size in (0, 1, 2, 700):
        values = rng.integers(-1, 2, size).astype(dtype if dtype != "uint8" else "int64")
        if values.dtype.kind == "f":
            values[rng.random(size) < 0.3] *= -0.0
            values[rng.random(size) < 0.1] = np.nan
        values = values.astype(dtype)
        starts = np.ones(size, bool)
        starts[1:] = values[1:] != values[:-1]
        found = lazyt.unique_consecutive(lazyt.tensor(values, device=device)).cpu().numpy()
        assert found.tobytes() == values[starts].tobytes()
        kept = lazyt.tensor(values, device=device)
        chosen = lazyt.masked_select(kept, lazyt.tensor(starts, device=device)).cpu().numpy()
        assert chosen.tobytes() == values[starts].tobytes()
