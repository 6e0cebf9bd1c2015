"""What is launched when: less memory in another order, and by computing values again."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import lazyt
from lazyt import nn, ops
from lazyt.compiler import group_graph, run_passes
from lazyt.config import config
from lazyt.ir.dtypes import float32
from lazyt.ir.graph import Node, topological
from lazyt.ir.group import Group
from lazyt.passes.fuse import fuse
from lazyt.passes.lifetimes import find_lives, memory_profile
from lazyt.passes.markers import Checkpoint, take_checkpoints
from lazyt.passes.ordering import order_groups
from lazyt.passes.recipes import Recipe, estimate_seconds, find_recipes
from lazyt.passes.recompute import NOTHING_SAVED, insert, recompute, tidy
from lazyt.passes.splitting import Cutter, split_groups
from lazyt.plan.footprint import Footprint
from lazyt.runtime.interpreter import interpret
from lazyt.runtime.memory import Buffer
from lazyt.testing.random_graphs import random_graph
from lazyt.transforms.vjp import vjp

BUDGETS = (1.0, 0.75, 0.5, 0.25, 0.0)


def leaf(*shape: int) -> Node:
    """An input without data."""
    return ops.input_(shape, float32)


def product(x: Node, weight: Node) -> Node:
    """A matrix product."""
    return ops.contract(x, weight, (0, 1), (1, 2), (0, 2))


def network(depth: int, width: int = 32, rows: int = 512) -> list[Node]:
    """The gradients of a chain of layers: what each layer leaves is needed late."""
    weights = [leaf(width, width) for _ in range(depth)]
    value = leaf(rows, width)
    for weight in weights:
        value = ops.apply("tanh", product(value, weight))
    loss = ops.reduce_("sum", value, (0, 1))
    found = vjp([loss], [ops.constant(1.0, float32)], weights)
    return [loss, *(node for node in found if node is not None)]


def grouped(roots: list[Node]) -> tuple[list[Node], list[Group]]:
    """The graph in normal form and its launches, nothing computed again."""
    with config.override(memory_budget=1.0):
        return group_graph(roots)


def peak(groups: list[Group], roots: list[Node]) -> int:
    """The most bytes at a time."""
    return max(memory_profile(groups, set(roots)), default=0)


def check_runs(groups: list[Group], roots: list[Node]) -> None:
    """Each launch finds all that it reads, and all results are stored."""
    there: set[Node] = set()
    for group in groups:
        missing = [n for n in group.reads if n.op.name != "input" and n not in there]
        assert not missing, f"{group.kind} launch reads {missing} before they are there"
        there.update(group.stored)
    assert all(n in there for n in roots if n.op.name != "input" and n.size)


def interpret_same(first: list[Node], second: list[Node]) -> bool:
    """Whether graphs over the same leaves mean the same."""
    rng = np.random.default_rng(0)
    for node in topological([*first, *second]):
        if node.op.name == "input" and node.data is None:
            values = rng.standard_normal(node.shape).astype(np.float32)
            node.data = Buffer(node.nbytes)
            node.data.copy_from(values.tobytes())
    pairs = zip(interpret(first), interpret(second), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


def test_lives_of_a_value_that_is_stored_twice() -> None:
    normal, groups = grouped(network(2))
    first = groups[0]
    value = first.stored[0]
    reads = [n for n, group in enumerate(groups) if value in group.reads]
    plan = [*groups, insert(groups, 0, {})[0]]
    lives = [life for life in find_lives(plan) if life.node is value]
    assert [life.first for life in lives] == [0, len(groups)]
    assert lives[0].reads == reads and lives[0].last == reads[-1]
    assert lives[1].reads == [] and lives[1].last == len(groups)
    assert peak(groups, normal) >= value.nbytes


def test_gradients_of_weights_run_when_they_free_memory() -> None:
    roots = network(6)
    normal, ordered = grouped(roots)
    groups = fuse(normal)
    assert {id(g.head) for g in groups} == {id(g.head) for g in ordered}
    assert len(groups) == len(ordered)
    check_runs(ordered, normal)
    before, after = (memory_profile(plan, set(normal)) for plan in (groups, ordered))
    assert max(after) <= max(before) and sum(after) < 0.85 * sum(before)


def test_an_order_that_saves_nothing_is_not_changed() -> None:
    x = leaf(30, 40)
    roots = [ops.reduce_("sum", x, (0,)), ops.reduce_("sum", x, (1,))]
    groups = fuse(roots)
    assert order_groups(groups, roots) == groups


@pytest.mark.parametrize("depth", [4, 9])
def test_less_budget_takes_less_memory_and_more_time(depth: int) -> None:
    normal, groups = grouped(network(depth))
    peaks, seconds = [], []
    for budget in BUDGETS:
        plan = recompute(groups, normal, budget)
        check_runs(plan, normal)
        peaks.append(peak(plan, normal))
        seconds.append(sum(map(estimate_seconds, plan)))
    assert peaks == sorted(peaks, reverse=True) and len(set(peaks)) >= 4
    assert peaks[-1] < 0.6 * peaks[0]
    limit = [peaks[-1] + budget * (peaks[0] - peaks[-1]) for budget in BUDGETS]
    assert all(found <= most for found, most in zip(peaks, limit, strict=True))
    assert seconds[0] < seconds[-1] <= 2 * seconds[0]


def ordinary_step(dropout: float, optimizer: str) -> list[Node]:
    """What a step of training computes: linear layers, GELU, normalization, dropout, update."""
    layers: list[nn.Module] = []
    for _ in range(6):
        layers += [nn.Linear(32, 32), nn.GELU(), nn.LayerNorm(32)]
        layers += [nn.Dropout(dropout)] if dropout else []
    net = nn.Sequential(*layers)
    update = getattr(lazyt.optim, optimizer)(net.parameters(), lr=0.01)
    x = lazyt.randn(1024, 32)
    lazyt.realize(x, *net.parameters())
    loss = net(x).square().mean()
    loss.backward()
    update.step()
    found = [loss, *net.parameters(), *(p.grad for p in net.parameters() if p.grad is not None)]
    return [tensor.node for tensor in found]


@pytest.mark.lazy
@pytest.mark.parametrize(("dropout", "optimizer"), [(0.0, "SGD"), (0.1, "SGD"), (0.1, "Adam")])
def test_the_dial_of_an_ordinary_step_is_monotone(dropout: float, optimizer: str) -> None:
    roots = ordinary_step(dropout, optimizer)
    normal, groups = grouped(roots)
    found = []
    for budget in (1.0, 0.9, 0.75, 0.6, 0.5, 0.4, 0.25, 0.1, 0.0):
        plan = recompute(groups, normal, budget)
        check_runs(plan, normal)
        seconds = sum(map(estimate_seconds, plan))
        found.append((budget, peak(plan, normal), sum(g.again for g in plan), seconds))
    most, least = found[0][1], found[-1][1]
    assert least < 0.4 * most and len({after for _, after, _, _ in found}) >= 6
    for (_, before, some, quick), (budget, after, more, slow) in pairwise(found):
        assert after <= least + budget * (most - least)
        assert after < before or (after, some, quick) == (before, more, slow)
        assert more > 0 and some <= more and slow <= 2 * found[0][3]


def test_kernels_that_only_a_number_holds_together_are_taken_apart() -> None:
    rate = leaf()
    parts = [(leaf(1024, 32), leaf(32)) for _ in range(3)]
    roots = []
    for values, weight in parts:
        step = ops.apply("mul", ops.expand(ops.reshape(rate, (1,)), (32,)), total := column(values))
        roots += [total, ops.apply("sub", weight, step)]
    normal = run_passes(roots)
    (whole,) = fuse(normal)
    pieces = split_groups([whole])
    assert len(pieces) == 3 and {m for p in pieces for m in p.members} == set(whole.members)
    assert [n for p in pieces for n in p.stored] == whole.stored
    for piece, (values, weight) in zip(pieces, parts, strict=True):
        assert {values, weight} <= piece.reads <= {values, weight, rate}
    assert split_groups(pieces) == pieces
    common = [ops.reduce_("sum", ops.apply(name, parts[0][0]), (0,)) for name in ("exp", "sin")]
    (together,) = fuse(run_passes(common))
    assert split_groups([together]) == [together]


def column(values: Node) -> Node:
    """Sums of columns."""
    total = ops.reduce_("sum", values, (0,))
    return ops.reshape(total, (values.shape[1],))


def test_what_cannot_be_made_lower_is_left_alone() -> None:
    value = product(leaf(64, 32), leaf(32, 32))
    roots = [ops.reduce_("sum", ops.apply("tanh", value), (0, 1))]
    normal, groups = grouped(roots)
    assert recompute(groups, normal, 0.0) == groups
    said = [r for group in groups for r in group.reasons if r.startswith(NOTHING_SAVED)]
    assert len(said) == 1 and "less than 1%" in said[0]
    notes = [{"reasons": group.reasons} for group in groups]
    assert Footprint(0, 0, 0, notes).memory_text().endswith(NOTHING_SAVED)


def test_the_whole_budget_changes_nothing() -> None:
    normal, groups = grouped(network(5))
    assert recompute(groups, normal, 1.0) == groups


def test_launches_again_are_those_that_were_there() -> None:
    normal, groups = grouped(network(6))
    plan = recompute(groups, normal, 0.0)
    known = [set(group.members) for group in groups]
    again = [group for group in plan if group.again]
    assert again
    for group in again:
        assert any(set(group.members) <= members for members in known)
        assert any("computed again" in reason for reason in group.reasons)
        assert group.stored and not set(group.stored) & set(normal)
    for before, after in zip(groups, [g for g in plan if not g.again], strict=True):
        assert set(before.members) == set(after.members)


def test_the_search_is_the_same_every_time() -> None:
    def heads(plan: list[Group]) -> list[list[tuple[int, ...]]]:
        return [[n.shape for n in group.stored] for group in plan]

    first, second = (grouped(network(8)) for _ in range(2))
    for budget in (0.5, 0.0):
        one, two = (recompute(groups, normal, budget) for normal, groups in (first, second))
        assert heads(one) == heads(two)


def test_a_checkpoint_is_computed_again_whatever_the_budget() -> None:
    normal, groups = grouped(network(6))
    inside = {n for g in groups[1:4] for n in g.stored}
    results = {groups[3].stored[-1]}
    plan = recompute(groups, normal, 1.0, [Checkpoint(inside - results, results)])
    check_runs(plan, normal)
    again = [n for group in plan if group.again for n in group.stored]
    assert set(again) == inside - results
    assert peak(plan, normal) < peak(groups, normal)


def test_marks_of_a_checkpoint_say_what_lies_inside() -> None:
    x, weight = leaf(8, 8), leaf(8, 8)
    before = ops.apply("exp", product(x, weight))
    inner = ops.apply("tanh", product(before, weight))
    end = product(inner, weight)
    after = ops.apply("sin", ops.detach(end, before))
    roots, (found,) = take_checkpoints(run_passes([after, ops.detach(before)]))
    assert roots == [ops.apply("sin", end), before]
    assert found.results == {end}
    assert found.inside == {inner, inner.inputs[0]}
    assert interpret_same([after], roots[:1])


def test_an_activation_is_computed_from_what_it_was_applied_to() -> None:
    x, first, second = leaf(256, 64), leaf(64, 512), leaf(512, 64)
    inner = product(x, first)
    active = ops.apply("mul", inner, ops.apply("tanh", inner))
    loss = ops.reduce_("sum", product(active, second), (0, 1))
    gradients = vjp([loss], [ops.constant(1.0, float32)], [first, second])
    _, groups = grouped([loss, *(g for g in gradients if g is not None)])
    recipes = find_recipes(groups)
    (producer,) = (g for g in groups if len(g.stored) == 2 and g.kind == "contract")
    head, end = sorted(producer.stored, key=lambda n: len(recipes[n].group.members), reverse=True)
    assert recipes[head].group is producer
    assert recipes[end].group.kind == "map" and recipes[end].reads == (head,)
    assert recipes[end].seconds < recipes[head].seconds


def test_a_cut_keeps_what_is_small_and_recomputes_what_is_large() -> None:
    source, wide, narrow = leaf(8), leaf(1000), leaf(10)
    made = {n: ops.apply("tanh", n) for n in (wide, narrow)}
    recipes = {n: Recipe(Group("map", 0, reads={source}), (), 1e-3) for n in made.values()}
    cutter = Cutter(made.values(), recipes, lambda n: float(n.nbytes))
    prices = cutter.prices(8)
    assert prices == sorted(prices, reverse=True)
    assert list(cutter.lost(prices[0])) == []
    assert list(cutter.lost(1e6)) == [made[wide]]
    assert set(cutter.lost(prices[-1])) == set(made.values())


def test_a_cut_counts_a_launch_that_serves_two_values_once() -> None:
    values = [ops.apply("tanh", leaf(100)) for _ in range(2)]
    launch = Recipe(Group("map", 0), (), 1.0)
    one = Cutter(values[:1], dict.fromkeys(values, launch), lambda n: float(n.nbytes))
    two = Cutter(values, dict.fromkeys(values, launch), lambda n: float(n.nbytes))
    assert list(one.lost(500.0)) == [] and set(two.lost(500.0)) == set(values)


def test_what_cannot_be_computed_again_is_kept() -> None:
    value = ops.apply("tanh", leaf(100))
    cutter = Cutter([value], {}, lambda n: float(n.nbytes))
    assert cutter.prices(4) == [] and list(cutter.lost(1e-9)) == []


def test_tidy_leaves_out_what_nobody_reads() -> None:
    normal, groups = grouped(network(3))
    plan = recompute(groups, normal, 0.0)
    again = [group for group in plan if group.again]
    assert again and tidy([*plan, *again], set(normal)) == tidy(plan, set(normal))


@pytest.mark.parametrize("first", range(0, 40, 20))
def test_random_graphs_find_all_that_they_read(first: int) -> None:
    for seed in range(first, first + 20):
        graph = random_graph(seed)
        normal, groups = grouped(list(graph.roots))
        for budget in (0.5, 0.0):
            plan = recompute(groups, normal, budget)
            check_runs(plan, normal)
            assert peak(plan, normal) <= peak(groups, normal)
