"""Which values fusion treats as units, and the reasons it gives."""

from __future__ import annotations

from lazyt import ops
from lazyt.compiler import compile_graph
from lazyt.ir.dtypes import float32, int64
from lazyt.ir.graph import Node
from lazyt.passes.fuse import GROUP_READS
from lazyt.passes.targets import CHAIN_LIMIT, OPERAND_LIMIT, READ_LIMIT, Targets, operation_cost


def leaf(*shape: int) -> Node:
    """An input without data."""
    return ops.input_(shape, float32)


def reason(root: Node, node: Node, *others: Node) -> str:
    """Why ``node`` is a target of the graph; nothing when it is none."""
    return Targets([root, *others]).chosen.get(node, "")


def test_roots_and_heavy_nodes_are_targets() -> None:
    x = leaf(4, 5)
    total = ops.reduce_("sum", x, (1,))
    root = ops.apply("exp", ops.reshape(total, (2, 2)))
    chosen = Targets([root]).chosen
    assert set(chosen) == {total, root}
    assert chosen[root] == "asked for"
    assert x not in chosen


def test_cheap_shared_values_are_computed_again() -> None:
    shared = ops.apply("add", leaf(100), leaf(100))
    root = ops.apply("mul", ops.apply("neg", shared), ops.reshape(shared, (100,)))
    assert not reason(root, shared)


def test_costly_shared_values_are_kept() -> None:
    shared = ops.apply("exp", leaf(4, 5))
    flat = ops.apply("neg", ops.reshape(shared, (20,)))
    other = ops.apply("abs", ops.permute(shared, (1, 0)))
    assert "shared" in reason(flat, shared, other)
    assert not reason(flat, shared)


def test_costly_values_that_are_broadcast_are_kept() -> None:
    row = ops.apply("exp", leaf(1, 1000))
    wide = ops.apply("add", row, leaf(500, 1000))
    assert "broadcast" in reason(wide, row)
    narrow = ops.apply("add", row, leaf(2, 1000))
    assert not reason(narrow, row)


def test_the_chain_after_a_heavy_node_is_its_epilogue() -> None:
    total = ops.reduce_("sum", leaf(40, 50), (1,))
    scaled = ops.apply("mul", total, ops.constant(0.5, float32))
    last = ops.apply("sqrt", ops.reshape(scaled, (5, 8)))
    wide = ops.apply("add", ops.reshape(last, (5, 8, 1)), leaf(5, 8, 9))
    assert "ends the chain" in reason(wide, last)
    assert not reason(wide, scaled)


def test_long_chains_are_cut() -> None:
    node = leaf(10)
    for _ in range(CHAIN_LIMIT + 5):
        node = ops.apply("neg", node)
    reasons = list(Targets([node]).chosen.values())
    assert reasons.count("asked for") == 1
    assert any("in one chain" in r for r in reasons)


def test_values_of_many_others_are_cut() -> None:
    # A kernel has a pointer for each value it reads.
    leaves = [leaf(10) for _ in range(4 * READ_LIMIT)]
    node = leaves[0]
    for item in leaves[1:]:
        node = ops.apply("add", node, item)
    reasons = list(Targets([node]).chosen.values())
    assert sum("values" in r for r in reasons) in (3, 4)
    _, kernels = compile_graph([node], leaves)
    assert max(len(k.buffers) for k in kernels) <= GROUP_READS + 2
    again = leaves[0]
    for _ in range(2 * READ_LIMIT):  # one value, often
        again = ops.apply("add", ops.apply("mul", again, leaves[0]), leaves[1])
    assert list(Targets([again]).chosen.values()) == ["asked for"]


def test_short_places_take_short_expressions() -> None:
    node = leaf(10)
    for _ in range(OPERAND_LIMIT + 2):
        node = ops.apply("neg", node)
    padded = ops.pad(node, (1,), (1,), (0,), 0.0)
    assert any("short expressions" in r for r in Targets([padded]).chosen.values())
    picked = ops.gather(leaf(30), ops.input_((10,), int64), 0)
    assert "short expressions" in reason(ops.concat([picked, leaf(3)], 0), picked)


def test_contractions_read_operands_that_are_ready() -> None:
    cheap, costly = ops.apply("neg", leaf(40, 50)), ops.apply("exp", leaf(50, 60))
    product = ops.contract(cheap, costly, (0, 1), (1, 2), (0, 2))
    assert "contraction" in reason(product, costly)
    assert not reason(product, cheap)


def test_movement_is_free_and_functions_cost() -> None:
    x = leaf(4, 5)
    assert operation_cost(ops.permute(x, (1, 0))) == 0
    assert operation_cost(ops.constant(1.0, float32)) == 0
    assert operation_cost(ops.apply("exp", x)) > operation_cost(ops.apply("add", x, x)) > 0
