"""make_fx: graphs of what a program did with the arguments that it was given."""

from __future__ import annotations

from typing import Any

import pytest

import lazyt
from lazyt import fx, nn
from lazyt.errors import LazytError
from lazyt.fx.experimental.proxy_tensor import make_fx
from lazyt.utils import _pytree as pytree


def test_branches_and_shapes_become_part_of_the_graph() -> None:
    def program(x: Any, scale: Any = 2) -> Any:
        for _ in range(x.shape[0]):
            x = x + 1 if x.sum() > 0 else x * scale
        return lazyt.relu(x)

    up, down = lazyt.ones(2), -lazyt.ones(2)
    traced = make_fx(program)(up)
    assert [n.target for n in traced.graph.find_nodes(op="call_method", target="add")] == [
        "add"
    ] * 2
    assert lazyt.equal(traced(up), program(up)) and not lazyt.equal(traced(down), program(down))
    other = make_fx(program)(down, 3)
    assert [n.name for n in other.graph.find_nodes(op="placeholder")] == ["x_1", "scale_1"]
    assert lazyt.equal(other(down, 3), program(down, 3))
    assert isinstance(other, fx.GraphModule) and "sum_1" in other.code
    other.graph.eliminate_dead_code()
    other.recompile()
    assert "sum_1" not in other.code and lazyt.equal(other(down, 3), program(down, 3))


def test_nested_arguments_and_results() -> None:
    def program(x: Any, tables: Any) -> Any:
        values, indices = lazyt.max(tables["w"], dim=0)
        return {"sum": x + values, "where": (indices, tables["k"])}

    given = lazyt.ones(3), {"w": lazyt.randn(2, 3), "k": 2}
    traced = make_fx(program)(*given)
    found, wanted = traced(*given), program(*given)
    assert lazyt.equal(found["sum"], wanted["sum"]) and found["where"][1] == 2
    assert lazyt.equal(found["where"][0], wanted["where"][0])


def test_writes_are_recorded_in_order() -> None:
    def program(x: Any) -> Any:
        y = x.clone()
        y[0] = 5
        y.mul_(2)
        lazyt.add(y, 1, out=y)
        return y.T[:2] + y.sum()

    traced = make_fx(program)(lazyt.zeros(3, 3))
    x = lazyt.arange(9.0).reshape(3, 3)
    assert lazyt.equal(traced(x), program(x)) and "setitem" in traced.code
    assert "clone_1.T" not in traced.code and x[0, 1].item() == 1


def test_layers_are_traced_through() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU()).eval()
    x = lazyt.randn(2, 3)
    traced = make_fx(module)(x)
    assert lazyt.equal(traced(x), module(x)) and not traced.graph.find_nodes(op="call_module")
    assert traced._param_constant0 is module[0].weight
    assert [n.target for n in traced.graph.find_nodes(op="get_attr")] == [
        "_param_constant0", "_param_constant1", "_tensor_constant0", "_tensor_constant1",
        "_param_constant2", "_param_constant3",
    ]  # fmt: skip


def test_gradients_are_recorded() -> None:
    def gradient(x: Any) -> Any:
        x = x.detach().requires_grad_()
        found: Any = lazyt.autograd.grad((x**2).sum(), x)
        return found[0] * 2

    traced = make_fx(gradient)(lazyt.ones(2))
    assert traced(lazyt.full((2,), 3.0)).tolist() == [12, 12]
    assert "lazyt.autograd.grad(sum_1, requires_grad_" in traced.code


def test_what_nothing_recorded_is_refused() -> None:
    def vectorized(x: Any) -> Any:
        return lazyt.vmap(lambda a: a * 2)(x) + 1

    with pytest.raises(LazytError, match="was made by something that cannot be recorded"):
        make_fx(vectorized)(lazyt.tensor([1.5, 3.0]))


def test_named_results_are_trees() -> None:
    found = lazyt.max(lazyt.tensor([[1.0, 3.0], [2.0, 0.0]]), dim=1)
    leaves, spec = pytree.tree_flatten({"m": found})
    assert [leaf.tolist() for leaf in leaves] == [[3, 2], [1, 0]]
    doubled = pytree.tree_map(lambda t: t * 2, found)
    assert type(doubled) is type(found) and doubled.values.tolist() == [6, 4]
    assert pytree.tree_unflatten(leaves, spec)["m"].indices.tolist() == [1, 0]
