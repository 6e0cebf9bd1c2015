"""Graphs for fuzzing: chains in which all ops meet, graphs that grow, and what they reached."""

from __future__ import annotations

from pathlib import Path

import pytest

from lazyt import ops
from lazyt.compiler import Pass
from lazyt.ir.dtypes import bool_, float32
from lazyt.ir.graph import Node, rebuild, remake, topological
from lazyt.ir.kernel import BLOCK, LANES
from lazyt.ir.parser import parse_graph
from lazyt.ir.printer import print_graph
from lazyt.ir.verifier import verify_graph
from lazyt.testing import exploring
from lazyt.testing.coverage import Coverage, Lines, lines_of, report
from lazyt.testing.fuzzing import Search
from lazyt.testing.graph_maker import SeededChooser, long_extent
from lazyt.testing.stages import examine
from lazyt.testing.structural_ops import STRUCTURAL


def test_every_three_ops_meet() -> None:
    base = len(STRUCTURAL)
    assert len({exploring._three(number) for number in range(base**3)}) == base**3
    ops_of = [{n.op.name for n in topological(exploring.chain(k).roots)} for k in range(60)]
    assert {"slice", "pad", "concat", "permute", "flip", "gather", "reduce"} <= set.union(*ops_of)
    assert print_graph(exploring.chain(7).roots) == print_graph(exploring.chain(7).roots)


def test_all_functions_of_all_dtypes_come_in_turn() -> None:
    names = set()
    for seed in range(24):
        roots = exploring.functions(seed).roots
        verify_graph(roots)
        names |= {(repr(n.params), n.inputs[0].dtype) for n in roots if n.op.name == "map"}
    assert len(names) > 0.9 * 24 * exploring.FUNCTIONS_OF_A_GRAPH


@pytest.mark.parametrize(
    "way", [exploring.inserted, exploring.grafted, exploring.extended, exploring.renumbered]
)
def test_changed_graphs_are_graphs(way: object) -> None:
    assert callable(way)
    changed = 0
    for seed in range(30):
        choose = SeededChooser(seed)
        roots, other = exploring.chain(seed).roots, exploring.chain(seed + 1).roots
        try:
            made = way(roots, other, choose)
        except (ValueError, TypeError, IndexError):  # a number that does not fit
            continue
        if made is not None:
            verify_graph(made)
            changed += print_graph(made) != print_graph(roots)
    assert changed > 4


def test_fitted_values_have_the_type_of_the_other() -> None:
    choose = SeededChooser(0)
    shapes = [(), (1,), (3,), (2, 3), (6,), (4, 1, 2), (0,), (2, 0)]
    for source in shapes:
        for target in shapes:
            like = ops.input_(target, bool_)
            node = exploring.fitted(ops.input_(source, float32), like, choose)
            verify_graph([node])
            assert (node.shape, node.dtype) == (like.shape, like.dtype)


def test_rows_fold_and_move() -> None:
    names = set()
    for seed in range(24):
        roots = exploring.rows(seed).roots
        verify_graph(roots)
        names |= {n.op.name for n in topological(roots)}
    assert {"reduce", "flip", "concat", "permute", "map"} <= names


# ------------------------------------------------------------------------------ coverage


def test_lines_are_noted_once(tmp_path: Path) -> None:
    path = tmp_path / "branches.py"
    path.write_text(
        "def f(x):\n    if x:\n        return 1\n    for k in range(3):\n        x += k\n"
        "    if x < 0:\n        raise ValueError(x)\n    return x\n"
    )
    own: dict[str, object] = {}
    exec(compile(path.read_text(), str(path), "exec"), own)
    assert lines_of(str(path)) == dict.fromkeys((2, 3, 4, 5, 6, 8), "f")
    with (lines := Lines([str(path)])):
        own["f"](1)  # type: ignore[operator]
    assert lines.reached[str(path)] == {2, 3}
    lines.new.clear()
    with lines:
        own["f"](0)  # type: ignore[operator]
        own["f"](1)  # type: ignore[operator]
    assert lines.new == [(str(path), line) for line in (4, 5, 6, 8)]
    short, long = report({"never": 0, "often": 3}, {str(path): {2, 3}})
    assert "passes that never changed a graph: never\n" in short and "2 of 6 lines" in short
    assert long == f"{path}: f: 4-6, 8"


def unflipped(node: Node, inputs: tuple[Node, ...]) -> Node:
    return inputs[0] if node.op.name == "flip" else remake(node, inputs)


def test_passes_and_groups_tell_of_themselves() -> None:
    text = (
        "graph(%0: float32[4, 3]) -> (%2)\n%1 = flip(%0) {axes=(0,)} : float32[4, 3]\n"
        "%2 = map(%1) {neg($0)} : float32[4, 3]\n"
    )
    roots = parse_graph(text, ops.OPS)[1]
    passes = [Pass("unflip", lambda roots: rebuild(roots, unflipped), "an example")]
    coverage = Coverage("", passes)
    found = examine(roots, target="", passes=passes, watch=coverage)
    assert found is not None and found.stage == "pass 1 unflip"
    assert coverage.fired == {"unflip": 1}
    assert ("unflip", "flip", "input") in coverage.take()
    assert not coverage.take()


def test_a_search_learns_and_grows() -> None:
    search = Search("")
    sorts = set()
    for item in search.subjects(1):
        assert search.look(item) is None
        sorts.add(item.passes_only)
    assert sorts == {True, False}
    reached = search.reached()
    assert reached["fired"]["simplify"] > 10
    assert sum(map(len, reached["lines"].values())) > 500
    assert not any(search.reached()["fired"].values())  # those since the last time


def test_a_pass_that_changes_nothing_is_not_interpreted() -> None:
    roots = parse_graph(
        "graph(%0: float32[4]) -> (%1)\n%1 = map(%0) {neg($0)} : float32[4]\n", ops.OPS
    )[1]
    step = Pass("nothing", lambda roots: list(roots), "an example")
    assert examine(roots, passes=[step], passes_only=True) is None
    step = Pass("raises", lambda roots: [][0], "an example")
    found = examine(roots, passes=[step], passes_only=True)
    assert found is not None and found.stage == "pass 1 raises" and "IndexError" in found.text


def test_long_extents_leave_every_rest() -> None:
    for most in (5, 40, 200, 2500):
        found = {long_extent(SeededChooser(seed), most) for seed in range(2000)}
        assert min(found) > 0 and max(found) <= most
        if most > 100:
            assert {n % LANES for n in found if n > LANES} == set(range(LANES))
    assert {BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK - 1} <= found
