"""What a value receives from its users: parts side by side, and products of all steps as one."""

from __future__ import annotations

import re

import numpy as np
import pytest

import lazyt as lt
from lazyt import Tensor, ops
from lazyt.ir.dtypes import float64
from lazyt.ir.graph import Node, topological
from lazyt.ir.printer import print_graph
from lazyt.runtime.interpreter import interpret
from lazyt.transforms.vjp import FEWEST, total


def value(*shape: int, seed: int = 0) -> Node:
    """Some numbers."""
    numbers = np.random.default_rng(seed).standard_normal(shape).ravel()
    pieces = [ops.reshape(ops.constant(float(x), float64), (1,)) for x in numbers]
    return ops.reshape(ops.concat(pieces, 0), shape)


def padded(node: Node, low: int, high: int, fill: float = 0.0) -> Node:
    return ops.pad(node, (0, low), (0, high), (0, 0), fill)


def names(node: Node) -> list[str]:
    """The ops below a node down to the numbers."""
    return [n.op.name for n in topological([node], lambda n: n.op.name == "reshape")]


def same(parts: list[Node]) -> Node:
    """The sum, which has to be that of its parts."""
    found = total(parts)
    wanted = sum(interpret([part])[0] for part in parts)
    np.testing.assert_allclose(interpret([found])[0], wanted, rtol=1e-13, atol=1e-13)
    return found


def test_parts_of_a_value_stand_side_by_side() -> None:
    a, b, c = value(2, 3), value(2, 4, seed=1), value(2, 2, seed=2)
    assert same([padded(c, 7, 0), padded(a, 0, 6), padded(b, 3, 2)]) is ops.concat([a, b, c], 1)
    between = same([padded(c, 7, 1), padded(a, 1, 6)])  # with zeros before, between and behind
    assert between.op.name == "concat" and len(between.inputs) == 5
    assert "add" not in str(names(between))


def test_parts_that_overlap_or_stand_otherwise_are_added() -> None:
    a, b = value(2, 3), value(2, 4, seed=1)
    assert same([padded(a, 0, 3), padded(b, 2, 0)]).op.name == "map"
    assert same([padded(a, 0, 3, 1.0), padded(a, 3, 0)]).op.name == "map"
    other = ops.pad(value(1, 6), (1, 0), (0, 0), (0, 0), 0.0)
    assert same([padded(a, 0, 3), other, padded(a, 3, 0)]).op.name == "map"
    wide = ops.pad(a, (0, 0), (0, 1), (0, 1), 0.0)
    assert same([wide, padded(a, 3, 0)]).op.name == "map"


def test_products_of_all_steps_are_one() -> None:
    def product(seed: int) -> Node:
        a, b = value(2, 5, seed=seed), value(2, 6, seed=seed + 100)
        return ops.contract(a, b, (0, 1), (0, 2), (1, 2))

    parts = [product(n) for n in range(FEWEST)]
    found = same([parts[0], value(5, 6, seed=9), *parts[1:]])
    assert sum(n.op.name == "contract" for n in topological([found])) == 1
    assert sum(n.op.name == "contract" for n in topological([same(parts[1:])])) == FEWEST - 1


def test_products_that_are_larger_than_the_value_stay() -> None:
    parts = []
    for n in range(FEWEST):
        a, b = value(20, 3, seed=n), value(20, 2, seed=n + 50)
        parts.append(ops.contract(a, b, (0, 1), (0, 2), (1, 2)))
    assert sum(n.op.name == "contract" for n in topological([same(parts)])) == FEWEST


@pytest.mark.parametrize("expanded", [False, True])
def test_outer_products_are_a_contraction(expanded: bool) -> None:
    def product(seed: int) -> Node:
        a, b = value(1, 5, 1, seed=seed), value(1, 1, 6, seed=seed + 100)
        if expanded:
            a, b = ops.expand(a, (1, 5, 6)), ops.expand(b, (1, 5, 6))
        return ops.apply("mul", b, a) if seed % 2 else ops.apply("mul", a, b)

    found = same([product(2 * n) for n in range(FEWEST)])
    assert sum(n.op.name == "contract" for n in topological([found])) == 1


def test_factors_that_are_repeated_along_the_same_axis_are_no_contraction() -> None:
    parts = []
    for n in range(FEWEST):
        a, b = value(5, 1, seed=n), value(1, 1, seed=n + 50)
        parts.append(ops.apply("mul", ops.expand(a, (5, 6)), ops.expand(b, (5, 6))))
    assert not any(n.op.name == "contract" for n in topological([same(parts)]))


@pytest.mark.lazy
@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("rows", [1, 3])
def test_recurrent_gradients_have_few_products(kind: str, rows: int) -> None:
    lt.manual_seed(0)
    length, width = 9, 12
    layer = getattr(lt.nn, kind)(width, width).double()
    x = lt.randn(length, rows, width, dtype=lt.float64)
    lt.realize(x, *layer.parameters())

    def loss(weight: Tensor) -> Tensor:
        names = dict(layer.named_parameters()) | {"weight_hh_l0": weight}
        result: Tensor = lt.func.functional_call(layer, names, (x,))[0]
        return result.square().sum()

    weight = layer.weight_hh_l0.detach().clone().realize().requires_grad_()
    (found,) = lt.autograd.grad(loss(weight), weight)
    assert found is not None
    large = [n for n in topological([found.node]) if n.size == weight.numel()]
    assert sum(n.op.name == "contract" for n in large) == 1, "one product over all steps"
    assert not any("add($0" in repr(n.params) for n in large), "no sum of terms"
    direction = lt.randn_like(weight)
    step = 1e-6
    slope = (loss(weight + step * direction) - loss(weight - step * direction)) / (2 * step)
    assert lt.allclose((found * direction).sum(), slope, rtol=1e-6)


@pytest.mark.lazy
def test_the_second_derivation_of_a_structure_is_the_first_ones_graph() -> None:
    """What stands outside of the differentiated graph is only known by its type there."""

    def slope(seed: int) -> str:
        lt.manual_seed(seed)
        rows, columns = lt.randn(3, 8, 1).realize(), lt.randn(3, 1, 9).realize()
        whole = lt.randn(2, 4, 9).realize()
        weight = lt.zeros(8, 9).realize().requires_grad_()
        wide = [weight * r.expand(8, 9) * c.expand(8, 9) for r, c in zip(rows, columns)]
        outer = [(weight * r).sum() for r in rows]
        part = (weight[:4] * whole[0]).sum() + (weight[4:] * whole[1]).sum()
        (found,) = lt.autograd.grad(sum(w.sum() for w in wide) + sum(outer) + part, weight)
        assert found is not None
        return re.sub(r"uid=\d+", "", print_graph([found.node]))

    assert len({slope(seed) for seed in range(4)}) == 1


@pytest.mark.lazy
@pytest.mark.filterwarnings("ignore:Anomaly")
def test_hooks_and_anomaly_detection_leave_the_graph_as_it_is() -> None:
    """Hooks of other graphs, too, as long as they live."""

    def slope() -> str:
        lt.manual_seed(0)
        rows = lt.randn(4, 8).realize().requires_grad_()
        weight = lt.zeros(8, 9).realize().requires_grad_()
        loss = sum((lt.tanh(row[:4] + row[4:]) @ weight[2:6]).square().sum() for row in rows)
        found = lt.autograd.grad(loss + (weight * rows.sum()).sum(), [weight, rows])
        return re.sub(r"uid=\d+", "", print_graph([t.node for t in found if t is not None]))

    plain = slope()
    with lt.autograd.detect_anomaly(check_nan=False):
        assert slope() == plain
    other = lt.ones(2, requires_grad=True) * 2
    assert other.grad_fn is not None
    handle = other.grad_fn.register_hook(lambda *_: None)
    assert slope() == plain
    handle.remove()
