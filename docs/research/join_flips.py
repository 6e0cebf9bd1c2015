"""A pass of one's own, in one file outside of the package: flips of flips become one flip.

Run it: ``python docs/research/join_flips.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import lazyt
from lazyt import compiler, ops
from lazyt.ir.graph import Node, rebuild, remake
from lazyt.ir.parser import parse_graph
from lazyt.ir.printer import print_graph
from lazyt.ir.verifier import verify_graph
from lazyt.runtime.interpreter import interpret


def join_flips(roots: Sequence[Node]) -> list[Node]:
    """``flip(flip(x)) -> flip(x)``; everything else stays as it is."""

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.op.name == "flip" and inputs[0].op.name == "flip":
            axes = {*node.params.axes} ^ {*inputs[0].params.axes}
            return ops.flip(inputs[0].inputs[0], tuple(sorted(axes)))
        return remake(node, inputs)

    return rebuild(roots, change)


BEFORE = """
graph(%0: float32[2, 3]) -> (%2)
%1 = flip(%0) {axes=(0,)} : float32[2, 3]
%2 = flip(%1) {axes=(0, 1)} : float32[2, 3]
"""

AFTER = """
graph(%0: float32[2, 3]) -> (%1)
%1 = flip(%0) {axes=(1,)} : float32[2, 3]
"""


def test_text() -> None:
    """Text in, text out: how the tests of lazyt's own passes look."""
    _, roots = parse_graph(BEFORE, ops.OPS)
    after = join_flips(roots)
    verify_graph(after)
    assert print_graph(after).strip() == AFTER.strip()


def test_values() -> None:
    """The interpreter gives a graph its meaning: the same bits before and after."""
    x = lazyt.arange(6.0).reshape(2, 3).realize()
    y = x.flip(0).flip(0, 1) * 2
    (before,), (after,) = interpret([y.node]), interpret(join_flips([y.node]))
    assert before.tobytes() == after.tobytes()


def test_programs() -> None:
    """Inside of the block, whatever is compiled is compiled with the pass."""
    x = lazyt.arange(6.0).reshape(2, 3).realize()
    wanted = (x.flip(0).flip(0, 1) * 2).tolist()
    mine = compiler.Pass("join_flips", join_flips, "fewer flips to index through")
    first, *others = compiler.PASSES
    with compiler.using_passes([first, mine, *others]), lazyt.config.override(verify=True):
        assert (x.flip(0).flip(0, 1) * 2).tolist() == wanted


if __name__ == "__main__":
    test_text()
    test_values()
    test_programs()
    print(AFTER)
