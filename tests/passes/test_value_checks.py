"""Verification of what passes compute: wrong passes are named, right and declared ones pass."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import lazyt
from lazyt import compiler, ops
from lazyt.compiler import Pass
from lazyt.config import config
from lazyt.errors import VerifyError
from lazyt.ir.dtypes import float32, int64
from lazyt.ir.graph import Node, rebuild, remake, topological
from lazyt.ir.parser import parse_graph
from lazyt.ir.printer import print_graph
from lazyt.ir.scalar import Call
from lazyt.ops import OPS
from lazyt.runtime import value_checks
from lazyt.runtime.value_checks import Cases, GraphChecker, index_limits, make_inputs
from lazyt.testing.random_graphs import random_graph

GRAPH = """
graph(%0: float32[6], %1: float32[6], %2: int64[4]) -> (%7, %9, %5)
%3 = map(%0, %1) {sub($0, $1)} : float32[6]
%4 = const() {0.0:float32} : float32[]
%5 = map(%3, %4) {add($0, $1)} : float32[6]
%6 = map(%5) {exp($0)} : float32[6]
%7 = reduce(%6) {kind=sum, axes=(0,)} : float32[]
%8 = gather(%0, %2) {axis=0, batch=0} : float32[4]
%9 = flip(%8) {axes=(0,)} : float32[4]
"""


def read(text: str = GRAPH) -> list[Node]:
    return parse_graph(text.lstrip(), OPS)[1]


Change = Callable[[Node], Node]


def changing(change: Change) -> Callable[[Sequence[Node]], list[Node]]:
    """A pass that replaces each node by what ``change`` makes of it."""
    return lambda roots: rebuild(roots, lambda node, inputs: change(remake(node, inputs)))


def is_map(node: Node, name: str) -> bool:
    return isinstance(node.params, Call) and node.params.fn.name == name


WRONG: dict[str, Callable[[Sequence[Node]], list[Node]]] = {
    "negated roots": lambda roots: [ops.apply("neg", root) for root in roots],
    "roots in another order": lambda roots: list(roots)[::-1],
    "a root too few": lambda roots: list(roots)[:-1],
    "a root too many": lambda roots: [*roots, roots[0]],
    "another type": lambda roots: [ops.cast(roots[0], int64), *list(roots)[1:]],
    "another shape": lambda roots: [ops.reshape(roots[0], (1,)), *list(roots)[1:]],
    "an input of its own": lambda roots: [ops.input_((), float32), *list(roots)[1:]],
    "x + 0 is not x": changing(lambda n: n.inputs[0] if is_map(n, "add") else n),
    "operands exchanged": changing(
        lambda n: ops.apply("sub", *n.inputs[::-1]) if is_map(n, "sub") else n
    ),
    "another function": changing(
        lambda n: ops.apply("expm1", n.inputs[0]) if is_map(n, "exp") else n
    ),
    "a movement left out": changing(lambda n: n.inputs[0] if n.op.name == "flip" else n),
    "positions off by one": changing(
        lambda n: (
            ops.gather(n.inputs[0], ops.apply("add", n.inputs[1], ops.constant(1, int64)), 0)
            if n.op.name == "gather"
            else n
        )
    ),
    "a maximum for a sum": changing(
        lambda n: ops.reduce_("max", n.inputs[0], (0,)) if n.op.name == "reduce" else n
    ),
}


OF_VALUES = {
    "negated roots", "x + 0 is not x", "operands exchanged", "another function",
    "a movement left out", "positions off by one", "a maximum for a sum",
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_pass_is_named(name: str) -> None:
    roots = read()
    checker = GraphChecker(roots, True)
    with pytest.raises(VerifyError) as found:
        checker.check("spoil", WRONG[name](roots))
    first, _, graph = str(found.value).partition("\n")
    assert "pass spoil" in first and graph.count(" = ") > 1
    of_values = name in OF_VALUES
    assert ("has changed a value" in first) == of_values
    if of_values:  # which without values nobody sees
        GraphChecker(roots, False).check("spoil", WRONG[name](roots))


def test_the_place_is_marked() -> None:
    roots = read()
    with pytest.raises(VerifyError) as found:
        GraphChecker(roots, True).check("spoil", WRONG["operands exchanged"](roots))
    marked = [line for line in str(found.value).splitlines() if "no value before" in line]
    assert len(marked) == 1 and "sub($0, $1)" in marked[0]


def test_recipe_keeps_all_values() -> None:
    for seed in range(25):
        roots = parse_graph(print_graph(random_graph(seed).roots), OPS)[1]
        with config.override(verify="values"):
            compiler.run_passes(roots)


def split_sum(node: Node) -> Node:
    """A sum in two halves: another order."""
    if node.op.name != "reduce":
        return node
    (x,) = node.inputs
    half = x.shape[0] // 2
    first = ops.slice_(x, (0,), (half,), (1,))
    second = ops.slice_(x, (half,), (x.shape[0] - half,), (1,))
    return ops.apply("add", ops.reduce_("sum", first, (0,)), ops.reduce_("sum", second, (0,)))


SUM = """
graph(%0: float32[1000]) -> (%1)
%1 = reduce(%0) {kind=sum, axes=(0,)} : float32[]
"""


def test_a_reassociation_has_to_declare_itself() -> None:
    step = Pass(
        "halves", changing(split_sum), "two sums run side by side", exact=False, tolerance=1e-3
    )
    roots = read(SUM)
    GraphChecker(roots, True).check("halves", step.run(roots), step.tolerance)
    with pytest.raises(VerifyError, match="halves"):
        GraphChecker(roots, True).check("halves", step.run(roots))


def test_what_follows_a_reassociation_is_compared_with_it() -> None:
    roots = read(SUM)
    checker = GraphChecker(roots, True)
    after = changing(split_sum)(roots)
    checker.check("halves", after, 1e-3)
    checker.check("nothing", rebuild(after, remake))
    with pytest.raises(VerifyError, match="back"):
        checker.check("back", roots)


def test_values_are_verified_where_programs_run() -> None:
    wrong = Pass("wrong", changing(lambda n: n.inputs[0] if is_map(n, "add") else n), "a test")
    x = lazyt.tensor([1.0, -0.0, 3.0])
    with config.override(verify="values", tier=1):
        with (
            compiler.using_passes([wrong, *compiler.PASSES]),
            pytest.raises(VerifyError, match="wrong"),
        ):
            (x + 2).tolist()
        assert (x + 2).tolist() == [3.0, 2.0, 5.0]


def test_an_exception_names_its_pass() -> None:
    def run(roots: Sequence[Node]) -> list[Node]:
        raise KeyError("broken")

    with pytest.raises(KeyError) as found, compiler.using_passes([Pass("bad", run, "a test")]):
        (lazyt.tensor([1.0]) + 1).tolist()
    assert "in pass bad" in found.value.__notes__


def test_large_graphs_are_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_checks, "MOST_WORK", 10)
    with pytest.warns(RuntimeWarning, match="not verified"):
        checker = GraphChecker(read(), True)
    checker.check("negated", [ops.apply("neg", root) for root in checker.roots])  # unseen


def test_inputs_fit() -> None:
    roots = read()
    limits = index_limits(roots)
    leaves = [node for node in topological(roots) if node.op.name == "input"]
    assert {node.dtype.name: n for node, n in limits.items()} == {"int64": 6}
    for kind in value_checks.KINDS:
        made = make_inputs(leaves, kind, 0, limits)
        again = make_inputs(leaves, kind, 0, limits)
        for leaf in leaves:
            array = made[leaf]
            assert array.shape == leaf.shape and array.tobytes() == again[leaf].tobytes()
            if leaf in limits and kind != "hostile":
                assert (array >= 0).all() and (array < 6).all()
    hostile = np.concatenate([make_inputs(leaves, "hostile", n)[leaves[0]] for n in range(9)])
    assert np.isnan(hostile).any() and np.isinf(hostile).any()
    assert (np.signbit(hostile) & (hostile == 0)).any()


def test_errors_are_allowed_where_functions_have_them() -> None:
    roots = read()
    wants = Cases(roots, ["uniform"]).wants[0]
    first, second, _ = wants
    assert first.apart is not None and 0 < first.apart.max() < 1e-3  # behind an exponential
    assert second.apart is None  # a gather: no bit may differ


def test_the_setting_is_checked() -> None:
    with pytest.raises(ValueError, match="verify must be"):
        config.verify = "value"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with config.override(verify="values"):
            assert config.verify == "values"
