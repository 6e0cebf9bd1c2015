"""Derivatives of structures that were met before are the nodes that the ops' rules give."""

from __future__ import annotations

import itertools

import pytest

from lazyt import ops
from lazyt.ir.dtypes import DType, bool_, float32, float64
from lazyt.ir.graph import Node, make, topological
from lazyt.testing.random_graphs import random_graph
from lazyt.transforms import derivations, vjp
from lazyt.transforms.derivations import Known, Walk, note

_uids = itertools.count(10**9)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Known:
    known = Known()
    monkeypatch.setattr(vjp, "known", known)
    return known


def copied(roots: list[Node]) -> tuple[list[Node], list[Node]]:
    """The graph over new variables in place of its floating point leaves: those, and the roots."""
    new: dict[Node, Node] = {}
    variables = []
    for node in topological(roots):
        if node.op.name == "input":
            new[node] = ops.input_(node.shape, node.dtype, node.data)
            if node.dtype.kind == "f":
                new[node] = ops.variable(new[node], next(_uids))
                variables.append(new[node])
        else:
            new[node] = make(node.op, tuple(new[i] for i in node.inputs), node.params)
    return variables, [new[root] for root in roots]


def cotangents(outputs: list[Node]) -> list[Node | None]:
    return [ops.input_(node.shape, node.dtype) for node in outputs]


def derived(outputs: list[Node], given: list[Node | None], wrt: list[Node]) -> list[Node | None]:
    pairs = [node for pair in zip(outputs, given) for node in pair if node is not None]
    return vjp._derive(outputs, pairs, wrt, None)


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs_have_the_same_gradient_nodes(seed: int, fresh: Known) -> None:
    graph = random_graph(seed, 20)
    for turn in range(3):
        variables, roots = copied(graph.roots)
        outputs = [node for node in roots if node.needs_grad]
        if not outputs or not variables:
            return
        given = cotangents(outputs)
        found = vjp.vjp(outputs, given, variables)
        kept = fresh.find(Walk(outputs, variables, list(_pairs(outputs, given))).key)
        assert (kept is not None) == (turn > 0)  # the second time notes, the third carries out
        expected = derived(outputs, given, variables)
        assert all(a is b for a, b in zip(found, expected, strict=True))


def _pairs(outputs: list[Node], given: list[Node | None]) -> list[Node]:
    return [node for pair in zip(outputs, given) for node in pair if node is not None]


def leaf(shape: tuple[int, ...] = (3,), dtype: DType = float64) -> Node:
    return ops.variable(ops.input_(shape, dtype), next(_uids))


def keyed(build: object, *shapes: tuple[int, ...], dtype: DType = float64) -> object:
    leaves = [leaf(shape, dtype) for shape in shapes]
    out = build(*leaves)  # type: ignore[operator]
    cotangent = ops.input_(out.shape, out.dtype)
    return Walk([out], leaves, [out, cotangent]).key


def test_what_differs_has_another_key() -> None:
    def product(x: Node, y: Node) -> Node:
        return ops.apply("mul", x, y)

    def square(x: Node, y: Node) -> Node:
        return ops.apply("mul", x, x)

    def scaled(x: Node, y: Node) -> Node:
        return ops.apply("mul", x, ops.detach(y))

    def total(x: Node, y: Node) -> Node:
        return ops.apply("add", x, y)

    keys = [keyed(build, (3,), (3,)) for build in (product, square, scaled, total)]
    keys += [keyed(product, (3,), (1,)), keyed(product, (3,), (3,), dtype=float32)]
    assert len(set(keys)) == len(keys)
    assert keyed(product, (3,), (3,)) == keys[0]


def test_what_is_asked_for_is_part_of_the_key() -> None:
    x, y = leaf(), leaf()
    out = ops.apply("mul", x, y)
    one, two = ops.input_((3,), float64), ops.input_((3,), float64)
    asked = [
        ([out], [x], [out, one]),
        ([out], [y], [out, one]),
        ([out], [x, y], [out, one]),
        ([out], [y, x], [out, one]),
        ([out, x], [y], [out, one]),
        ([out, x], [y], [out, one, x, two]),
        ([out, x], [y], [out, one, x, one]),
        ([out], [x], [out, out]),
        ([out], [x], []),
    ]
    assert len({Walk(*each).key for each in asked}) == len(asked)


def test_equal_values_by_chance_are_not_taken_for_each_other() -> None:
    """Constants that a rule makes, and what it computes of an operand, may equal other operands."""

    def slope(chosen: float, other: Node | None) -> tuple[Node, Node]:
        x, mask = leaf(), ops.input_((3,), bool_)
        number = ops.constant(chosen, float64)
        out = ops.apply("where", mask, x, number)
        out = ops.apply("mul", out, ops.cast(mask, float64) if other is None else other)
        weight = ops.input_((3,), float64)
        (found,) = vjp.vjp([out], [weight], [x])
        assert found is not None
        return found, derived([out], [weight], [x])[0]  # type: ignore[return-value]

    for chosen, other in ((0.0, None), (0.0, None), (3.0, ops.input_((3,), float64)), (0.0, None)):
        found, expected = slope(chosen, other)
        assert found is expected


def test_a_rule_with_a_leaf_of_its_own_is_asked_each_time() -> None:
    x = leaf()
    own = ops.apply("mul", x, ops.input_((3,), float64))
    assert note({x: 0}, [own]) is None


def test_what_is_kept_is_bounded(fresh: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derivations, "_MOST", 60)
    for extent in range(1, 9):
        for _ in range(2):
            x = leaf((extent,))
            out = ops.apply("exp", x)
            vjp.vjp([out], [ops.input_((extent,), float64)], [x])
            assert fresh._size <= 60
    assert 0 < len(fresh._found) < 8


def test_gradients_of_gradients_are_kept_too(fresh: Known) -> None:
    for _ in range(3):
        x = leaf()
        total = ops.apply("exp", ops.apply("mul", x, x))
        for _ in range(3):
            weight = ops.input_((3,), float64)
            (slope,) = vjp.vjp([total], [weight], [x])
            assert slope is not None
            assert derived([total], [weight], [x]) == [slope]
            total = slope
    assert len(fresh._found) == 3
