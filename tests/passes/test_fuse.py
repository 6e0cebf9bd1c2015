"""What becomes one kernel, what does not, and that groups can run in their order."""

from __future__ import annotations

import random

import pytest

from lazyt import ops
from lazyt.compiler import group_graph
from lazyt.ir.dtypes import float32, int64
from lazyt.ir.graph import Node
from lazyt.ir.group import Group, Index
from lazyt.passes import lifetimes, ordering
from lazyt.passes.fuse import Reach
from lazyt.passes.probe import Probe
from lazyt.testing.random_graphs import random_graph


def leaf(*shape: int) -> Node:
    """An input without data."""
    return ops.input_(shape, float32)


def fused(*roots: Node) -> list[Group]:
    """The groups of a graph."""
    return group_graph(roots)[1]


def kinds(*roots: Node) -> list[str]:
    """The kinds of a graph's groups, in order."""
    return [g.kind for g in fused(*roots)]


def total(node: Node, axis: int) -> Node:
    """A sum that keeps the axis, as frontends make it."""
    shape = tuple(1 if n == axis else e for n, e in enumerate(node.shape))
    return ops.reshape(ops.reduce_("sum", node, (axis,)), shape)


def softmax(x: Node) -> Node:
    """Softmax along the last axis of a matrix."""
    top = ops.reshape(ops.reduce_("max", x, (1,)), (x.shape[0], 1))
    powers = ops.apply("exp", ops.apply("sub", x, top))
    return ops.apply("div", powers, total(powers, 1))


def test_elementwise_work_is_one_kernel() -> None:
    x, y = leaf(30, 40), leaf(40)
    first = ops.apply("exp", ops.apply("add", x, y))
    assert kinds(first, ops.apply("tanh", first), ops.apply("mul", x, x)) == ["map"]


def test_independent_values_of_other_sizes_are_kernels_of_their_own() -> None:
    assert kinds(ops.apply("exp", leaf(30)), ops.apply("exp", leaf(40))) == ["map", "map"]


def test_producers_and_consumers_join_a_reduction() -> None:
    x = leaf(30, 40)
    squares = ops.apply("mul", x, x)
    norm = ops.apply("sqrt", ops.reduce_("sum", squares, (1,)))
    assert kinds(ops.apply("div", x, ops.reshape(norm, (30, 1)))) == ["row"]


def test_softmax_is_one_kernel_of_one_pass_over_rows() -> None:
    (group,) = fused(softmax(leaf(30, 40)))
    (part,) = group.parts
    assert (part.inner, len(part.reduces), len(part.outputs)) == (1, 2, 2)
    assert [n.op.name for n in group.stored] == ["map"]
    assert all(n.op.name == "input" for n in group.reads)


def test_reductions_along_other_axes_are_apart() -> None:
    x = leaf(30, 40)
    assert kinds(ops.reduce_("sum", x, (0,)), ops.reduce_("sum", x, (1,))) == ["row", "row"]


def test_the_fold_over_rows_is_a_second_part() -> None:
    x = leaf(300, 40)
    log = ops.apply("log", ops.reduce_("sum", ops.apply("exp", x), (1,)))
    (group,) = fused(ops.reduce_("sum", log, (0,)))
    assert len(group.parts) == 2
    assert any("final fold" in reason for reason in group.reasons)


def test_a_reduction_joins_the_map_it_reads() -> None:
    value = ops.apply("exp", leaf(30, 40))
    (group,) = fused(value, ops.reduce_("sum", value, (1,)))
    assert group.kind == "row"
    assert {n.op.name for n in group.stored} == {"map", "reduce"}


def test_contractions_take_their_epilogue_but_no_softmax() -> None:
    product = ops.contract(leaf(30, 40), leaf(40, 50), (0, 1), (1, 2), (0, 2))
    biased = ops.apply("maximum", ops.apply("add", product, leaf(50)), leaf(30, 50))
    assert kinds(biased) == ["contract"]
    assert kinds(softmax(biased)) == ["contract", "row"]


def test_neighbours_rows_are_not_read() -> None:
    x = softmax(leaf(30, 40))
    moved = ops.apply("add", x, ops.flip(x, (0,)))
    groups = fused(moved)
    assert len(groups) == 2
    assert groups[1].reads & set(groups[0].stored)


def test_updates_scatters_and_scans_stand_alone() -> None:
    x, index = leaf(30, 40), ops.input_((7,), int64)
    scattered = ops.scatter(x, index, leaf(7, 40), 0, "add")
    scanned = ops.scan("sum", scattered, 1)
    written = ops.update(scanned, leaf(10, 10), (0, 0), (1, 1))
    assert kinds(ops.apply("exp", written)) == ["scatter", "scan", "update", "map"]


def repeated(number: Node, times: int) -> Node:
    """A vector of one number."""
    return ops.expand(ops.reshape(number, (1,)), (times,))


def counted(shift: int = 0) -> tuple[Node, Node, Node]:
    """A running count, and what is written to the places that it gives; the elements."""
    steps, elements = ops.input_((40,), int64), leaf(40)
    count = ops.scan("sum", steps, 0)
    places = ops.apply("sub", count, repeated(ops.constant(1, int64), 40))
    if shift:
        places = ops.flip(places, (0,))
    return count, ops.scatter(leaf(60), places, elements, 0, "set"), elements


def test_a_scan_that_says_where_a_scatter_writes_is_in_its_loop() -> None:
    count, written, elements = counted()
    (group,) = fused(written)
    assert (group.kind, group.head, group.stored) == ("scatter", written, [written])
    assert set(group.members) == {count, written}
    assert elements in group.reads
    assert count not in group.reads
    (group,) = fused(written, count)
    assert group.stored == [count, written]
    assert kinds(
        ops.apply("add", written, repeated(ops.cast(ops.reduce_("max", count, (0,)), float32), 60))
    ) != ["scatter"]


def test_a_scan_whose_steps_are_others_than_the_scatters_is_not() -> None:
    _, turned, _ = counted(1)
    assert kinds(turned)[0] == "scan"
    steps = ops.input_((40,), int64)
    count = ops.scan("sum", steps, 0)
    same = ops.scatter(ops.input_((60,), int64), count, count, 0, "set")
    assert kinds(same) == ["scan", "scatter"]
    before = repeated(ops.reduce_("sum", count, (0,)), 60)
    waits = ops.scatter(ops.apply("abs", before), count, steps, 0, "set")
    assert "scan" in kinds(waits)
    table = ops.scatter(leaf(60, 3), count, leaf(40, 3), 0, "set")
    assert kinds(table) == ["scan", "scatter"]


def test_empty_values_take_no_kernel() -> None:
    assert kinds(ops.apply("exp", leaf(0, 3))) == []


def test_reasons_name_every_member() -> None:
    for group in fused(softmax(leaf(30, 40))):
        for member in group.members:
            said = [r for r in group.reasons if r.startswith(f"{member.op.name} ")]
            assert said and all(r.endswith(("stored", "stays inside")) for r in said)


def check_order(groups: list[Group], roots: list[Node]) -> None:
    """Every group finds what it reads; every root is stored once."""
    ready: set[Node] = set()
    for group in groups:
        for node in group.reads:
            assert node.op.name == "input" or node in ready, node
        assert not group.reads & set(group.members)
        assert set(group.stored) <= set(group.members)
        assert not ready & set(group.stored)
        ready |= set(group.stored)
    assert {r for r in roots if r.op.name != "input" and r.size} <= ready


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_random_groups_can_run_in_order(first: int) -> None:
    for seed in range(first, first + 100):
        roots, groups = group_graph(random_graph(seed).roots)
        check_order(groups, roots)
        for group in groups:
            done: set[Node] = set()
            for member in group.members:
                assert group.inside[member] <= done, seed
                done.add(member)


def test_large_sums_with_only_a_small_value_in_common_are_kernels_of_their_own() -> None:
    def steps(rows: int) -> list[str]:
        rate = ops.reshape(leaf(1), (1,))
        sums = [ops.reduce_("sum", leaf(rows, 64), (0,)) for _ in range(3)]
        return kinds(*(ops.apply("mul", s, ops.expand(rate, (64,))) for s in sums))

    assert steps(16) == ["row"]
    assert steps(1024) == ["row"] * 3


def test_large_sums_of_one_value_stay_together() -> None:
    x = leaf(1024, 64)
    squares = ops.reduce_("sum", ops.apply("mul", x, x), (0,))
    assert kinds(ops.reduce_("sum", x, (0,)), squares) == ["row"]


def test_reach_is_what_a_search_finds() -> None:
    rng = random.Random(0)
    for _ in range(30):
        reach, groups = Reach(), [Group("map", n) for n in range(14)]
        edges: dict[Group, set[Group]] = {g: set() for g in groups}
        for group in groups:
            reach.add(group)
        alive = list(groups)

        def found(group: Group, on: Group, edges: dict[Group, set[Group]] = edges) -> bool:
            return group is on or any(found(g, on) for g in edges[group])

        for _ in range(30):
            a, b = rng.sample(alive, 2)
            if rng.random() < 0.8 and not found(b, a):
                edges[a].add(b)
                reach.reads(a, [b])
            elif not found(a, b) and not found(b, a) and len(alive) > 4:
                reach.merge(a, b)
                alive.remove(b)
                edges[a] |= edges.pop(b)
                for read in edges.values():
                    if b in read:
                        read.remove(b)
                        read.add(a)
            pairs = [(x, y) for x in alive for y in alive]
            assert all(reach.depends(x, y) == found(x, y) for x, y in pairs)


def test_the_work_for_a_chain_grows_with_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    walked: list[int] = []
    run = Probe.run

    def counted(self: Probe, node: Node, index: Index) -> None:
        run(self, node, index)
        walked.append(self.count)

    monkeypatch.setattr(Probe, "run", counted)
    works = []
    for length in (1000, 4000):
        walked.clear()
        # Every link reads the same input, so that all kernels so far are there to be joined.
        x = link = leaf(8)
        for _ in range(length):
            link = ops.apply("add", ops.apply("mul", link, x), x)
        fused(link)
        works.append(sum(walked))
    assert works[0] > 1000
    assert works[1] < 5 * works[0]
    assert works[1] < 3 * 2 * 4000, "a value is walked once, not once for each kernel it could join"


def test_the_order_of_reads_asks_for_memory_once_for_each_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    profile = lifetimes.memory_profile

    def counted(groups: list[Group], outputs: set[Node]) -> list[int]:
        asked.append(len(groups))
        return profile(groups, outputs)

    monkeypatch.setattr(ordering, "memory_profile", counted)
    count = 12
    old, ones = [leaf(8, n + 1) for n in range(count)], [leaf(8, n + 1) for n in range(count)]
    new = [ops.apply("add", before, one) for before, one in zip(old, ones)]
    sums = [ops.scan("sum", before, 0) for before in old]
    groups = fused(*new, *sums)
    asked.clear()
    order = ordering.read_first(groups, [*new, *sums], {node: n for n, node in enumerate(old)})
    assert sorted(g.number for g in order) == sorted(g.number for g in groups)
    for before, after in zip(old, new):
        writer = next(n for n, group in enumerate(order) if after in group.stored)
        assert all(n <= writer for n, group in enumerate(order) if before in group.reads)
    assert 1 < len(asked) <= count + 1, asked
