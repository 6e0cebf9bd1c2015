"""CUDA text as large launches have it, over guarded memory: values, and what is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lazyt import ops
from lazyt.codegen.cuda import target, threads
from lazyt.compiler import compile_graph, run_passes
from lazyt.errors import InternalError
from lazyt.ir.graph import Node, topological
from lazyt.ir.parser import parse_graph
from lazyt.runtime.interpreter import interpret
from lazyt.runtime.plan_checks import typed
from lazyt.testing import emulated
from lazyt.testing.emulated import SmallLimits

PRODUCT = """
graph(%0: float32[9, 33], %1: float32[33, 70]) -> (%3, %4)
%2 = contract(%0, %1) {left=(0, 1), right=(1, 2), out=(0, 2)} : float32[9, 70]
%3 = map(%2) {tanh($0)} : float32[9, 70]
%4 = reduce(%2) {kind=sum, axes=(0, 1)} : float32[]
"""
PART = """
graph(%0: float32[40]) -> (%2)
%1 = slice(%0) {starts=(1,), sizes=(16,), steps=(1,)} : float32[16]
%2 = map(%1) {mul($0, $0)} : float32[16]
"""


def planned(text: str) -> tuple[list[Node], list[Node], SmallLimits]:
    """A graph's roots and inputs, and its plan with small limits."""
    roots = run_passes(parse_graph(text.lstrip(), ops.OPS)[1])
    leaves = [n for n in topological(roots) if n.op.name == "input"]
    return roots, leaves, SmallLimits(*compile_graph(roots, leaves, target="cuda"))


def arrays(leaves: list[Node]) -> list[np.ndarray[Any, Any]]:
    source = np.random.default_rng(3)
    return [source.standard_normal(leaf.shape, np.float32) for leaf in leaves]


@pytest.mark.parametrize("text", [PRODUCT, PART])
def test_values_are_the_graphs_in_every_order_of_warps(text: str) -> None:
    roots, leaves, plan = planned(text)
    given = arrays(leaves)
    wants = interpret(roots, dict(zip(leaves, given)))
    for seed in range(3):
        for value, want in zip(typed(plan.run(given, seed), roots), wants, strict=True):
            np.testing.assert_allclose(value, want, rtol=2e-5, atol=2e-5)


def test_blocks_do_several_tiles_there() -> None:
    _, _, plan = planned(PRODUCT)
    assert all(launch.blocks <= emulated.MOST_BLOCKS for k in plan.printed for launch in k.launches)


def test_vectors_that_begin_inside_of_one_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_odd", lambda flat, width: False)
    _, leaves, plan = planned(PART)
    with pytest.raises(InternalError, match="not aligned"):
        plan.run(arrays(leaves))


def test_reads_behind_a_buffer_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    text = target.program_text

    def shifted(printed: Any) -> str:
        made = text(printed)
        assert "x0[" in made
        return made.replace("x0[", "x0[39 + ")

    monkeypatch.setattr(threads, "_odd", lambda flat, width: True)  # element by element
    monkeypatch.setattr(emulated, "program_text", shifted)
    _, leaves, plan = planned(PART)
    with pytest.raises(InternalError, match=r"reads 4 bytes from byte \d+ on of buffer 0, which"):
        plan.run(arrays(leaves))
