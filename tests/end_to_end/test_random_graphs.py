"""Random graphs: text round trip, every pass keeps the meaning, compiled equals interpreted.

``LAZYT_RANDOM_GRAPHS`` is how many seeded graphs each property sees (default 60; the full run
takes 2,000), ``LAZYT_RANDOM_FIRST`` the first seed. A failure names its seed:
``random_graph(seed)`` makes the graph again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from lazyt.compiler import PASSES, compile_graph
from lazyt.config import config
from lazyt.ir.graph import Node, topological
from lazyt.ir.parser import parse_graph, parse_kernel
from lazyt.ir.printer import print_graph, print_kernel
from lazyt.ir.verifier import check_bounds, verify_graph, verify_kernel
from lazyt.ops import OPS
from lazyt.plan.planning import realize
from lazyt.runtime.interpreter import interpret, load
from lazyt.testing.graph_maker import RandomGraph
from lazyt.testing.random_graphs import random_graph
from tests.strategies import graphs

COUNT = int(os.environ.get("LAZYT_RANDOM_GRAPHS", "60"))
FIRST = int(os.environ.get("LAZYT_RANDOM_FIRST", "0"))
#: Seeds of one test; a test a seed would cost more in pytest than in lazyt.
BATCH = 20
#: Seeds that are compiled together.
PLAN = 5
batches = pytest.mark.parametrize(
    "first", range(FIRST, FIRST + COUNT, BATCH), ids=lambda first: f"seed{first}"
)


def seeds(first: int) -> range:
    """The seeds of one batch."""
    return range(first, min(first + BATCH, FIRST + COUNT))


def check_text(graph: RandomGraph) -> None:
    """Text parses back to a graph that verifies and prints the same."""
    text = print_graph(graph.roots)
    leaves, roots = parse_graph(text, OPS)
    assert print_graph(roots) == text
    assert [(r.shape, r.dtype) for r in roots] == [(r.shape, r.dtype) for r in graph.roots]
    assert all(n.op.name == "input" for n in leaves)
    verify_graph(graph.roots)
    verify_graph(roots)


def difference(node: Node, got: np.ndarray, want: np.ndarray, error: float) -> str:
    """What differs by more than ``error``, or nothing. NaN equals NaN."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}"
    a, b = (load(x, node.dtype) for x in (got, want))
    if node.dtype.kind != "f":
        wrong = a != b
    else:
        with np.errstate(all="ignore"):
            off = np.abs(a.astype(np.float64) - b.astype(np.float64))
        wrong = ~((off <= error) | (a == b) | (np.isnan(a) & np.isnan(b)))
    if not wrong.any():
        return ""
    at = tuple(int(i[0]) for i in np.nonzero(wrong)) if wrong.ndim else ()
    return f"{int(wrong.sum())} of {wrong.size} differ, first at {at}: {a[at]} instead of {b[at]}"


def assert_same(
    what: str, roots: Sequence[Node], got: list[np.ndarray], want: list[np.ndarray],
    errors: Sequence[float],
) -> None:  # fmt: skip
    """Every result must be within its error of the wanted one."""
    found = [
        f"root {n}, {node!r} (error up to {error:.3g}): {text}"
        for n, (node, a, b, error) in enumerate(zip(roots, got, want, errors, strict=True))
        if (text := difference(node, a, b, error))
    ]
    assert not found, f"{what}\n" + "\n".join(found) + "\n" + print_graph(roots)


def check_passes(graph: RandomGraph, what: str) -> None:
    """Each pass of the recipe leaves a valid graph with the same values."""
    current = list(graph.roots)
    want = interpret(current)
    for step in PASSES:
        current = step.run(current)
        verify_graph(current)
        assert_same(f"{what}, {step.name}", current, interpret(current), want, graph.errors)


def values(graph: RandomGraph) -> list[np.ndarray]:
    """The results of a realized graph."""
    found = []
    for node in graph.roots:
        assert node.data is not None, f"{node!r} was not realized"
        found.append(node.data.as_numpy(node.dtype, node.shape))
    return found


def check_compiled(named: dict[str, RandomGraph]) -> None:
    """Kernels compute what the interpreter computes, to the bit where the error is 0.

    All graphs are one plan, which costs half of what a plan each would.
    """
    wanted = {what: interpret(graph.roots) for what, graph in named.items()}
    try:
        realize([root for graph in named.values() for root in graph.roots])
    except Exception:
        for what, graph in named.items():  # one by one, to name the one that fails
            try:
                realize(graph.roots)
            except Exception as error:
                pytest.fail(f"{what}: {error!r}\n{print_graph(graph.roots)}")
        raise
    for what, graph in named.items():
        assert_same(f"{what}, compiled", graph.roots, values(graph), wanted[what], graph.errors)


def check_kernels(graph: RandomGraph) -> None:
    """Kernels verify, stay in bounds, and print as text that parses back to the same kernels."""
    leaves = [n for n in topological(graph.roots) if n.op.name == "input"]
    with config.override(verify=True):
        _, kernels = compile_graph(graph.roots, leaves)
    for kernel in kernels:
        text = print_kernel(kernel)
        again = parse_kernel(text)
        assert print_kernel(again) == text
        assert again.buffers == kernel.buffers
        verify_kernel(again)
        check_bounds(again)


@batches
def test_text_round_trips(first: int) -> None:
    for seed in seeds(first):
        check_text(random_graph(seed))


@batches
def test_passes_keep_the_meaning(first: int) -> None:
    for seed in seeds(first):
        check_passes(random_graph(seed), f"seed {seed}")


@batches
def test_kernels_verify_and_round_trip(first: int) -> None:
    for seed in seeds(first):
        check_kernels(random_graph(seed))


@batches
def test_compiled_equals_interpreted(first: int) -> None:
    for start in seeds(first)[::PLAN]:
        some = range(start, min(start + PLAN, seeds(first).stop))
        check_compiled({f"seed {seed}": random_graph(seed) for seed in some})


@settings(max_examples=max(COUNT // 3, 20), deadline=None, derandomize=True,
          suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])  # fmt: skip
@given(graph=graphs())
def test_drawn_graphs_round_trip_and_pass(graph: RandomGraph) -> None:
    check_text(graph)
    check_passes(graph, "drawn")


@settings(max_examples=max(COUNT // 6, 10), deadline=None, derandomize=True,
          suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])  # fmt: skip
@given(graph=graphs(max_nodes=6))
def test_drawn_graphs_compile(graph: RandomGraph) -> None:
    check_compiled({"drawn": graph})
