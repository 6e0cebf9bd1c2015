"""The keys that plans are found by: what they leave out, and that they leave out no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lazyt as lt
from lazyt import ops
from lazyt.ir.dtypes import float32
from lazyt.ir.graph import Head, Node
from lazyt.plan.graph_keys import number_graph, structure_of, waits
from lazyt.runtime import events

Numbered = list[tuple[Any, ...]]


def _structure(numbers: dict[Node, int]) -> Numbered:
    """What a key has to tell, node by node: the type of a leaf, or a head and its inputs."""
    return [
        (node.form,)
        if not waits(node)
        else (node.head.key, *(numbers[item] for item in node.inputs))
        for node in numbers
    ]


def _decoded(key: list[Any], arities: dict[int, int]) -> Numbered:
    """The same, read off the key alone."""
    found: Numbered = []
    waiting: list[int] = []
    for word in key:
        if word < 0:
            found.append((word,))
        elif word in arities:
            count = len(waiting) - arities[word]
            found.append((word, *waiting[count:]))
            del waiting[count:]
        else:
            waiting.append(word)
    assert not waiting
    return found


def _check(*roots: Node) -> list[Any]:
    numbers, key = number_graph(roots)
    assert list(numbers.values()) == list(range(len(numbers)))
    heads: list[Head] = [node.head for node in numbers if node.head.key is not None]
    arities = {head.key: head.arity for head in heads if head.key is not None}
    assert min(arities) > len(numbers)
    assert _decoded(key, arities) == _structure(numbers)
    return key


def test_a_key_tells_the_structure() -> None:
    x, y, z = (lt.ones(3).realize() for _ in range(3))
    both = x * y
    keys = [
        _check(value.node)
        for value in (
            x + y * z, (x + y) * z, x * y + z, x + x * y, both + both, both + y * x,
            lt.cat([both, x, both + 1, z]), (both + 1) * (both + 1).sum(), x[1:] + x[:2],
        )
    ]  # fmt: skip
    assert len({tuple(key) for key in keys}) == len(keys)


def test_roots_may_be_parts_of_each_other() -> None:
    x = lt.ones(3).realize()
    inner = x * 2
    outer = inner.exp() + inner
    _check(inner.node, outer.node)
    _check(outer.node, inner.node, x.node, outer.node)


@pytest.mark.lazy
def test_a_number_that_was_looked_at_gives_the_same_key() -> None:
    x = lt.rand(9).realize()
    number = lt.full((), 2.71875)
    before = _check((x * number + 1).node)
    expected = (x * number + 1).tolist()
    assert number.realize().item() == 2.71875 and number.node.data is not None
    assert before == _check((x * number + 1).node) == _check((x * 2.71875 + 1).node)
    events.forget()
    assert (x * number + 1).tolist() == (x * 2.71875 + 1).tolist() == expected
    assert [event for event in lt.why_compiled() if event.kind == "compile"] == []


def test_other_numbers_give_the_same_key() -> None:
    x = lt.ones(9).realize()
    assert _check((x * 2 + 3).node) == _check((x * 5 + 7).node)
    assert _check((x[1:4] + 1).node) == _check((x[5:8] + 1).node)
    assert _check((x * 2 + x).node) != _check((x * 2 + 3).node)


#: What a random graph is made of: for each node an operation and the places of its inputs.
Recipe = list[tuple[int, list[int]]]
OPERATIONS: list[Callable[[list[lt.Tensor]], lt.Tensor]] = [
    lambda items: items[0] + items[-1],
    lambda items: items[0] * items[-1],
    lambda items: items[0].exp(),
    lambda items: lt.cat([items[0], items[-1]])[:3],
    lambda items: lt.stack(items).sum(0),
]
recipes = st.lists(
    st.tuples(
        st.integers(0, len(OPERATIONS) - 1), st.lists(st.integers(0, 40), min_size=1, max_size=4)
    ),
    min_size=1,
    max_size=14,
)


def _make(recipe: Recipe, roots: list[int]) -> list[Node]:
    """The roots of the recipe's graph on leaves of its own, two of which are equal in type."""
    values = [lt.ones(3).realize(), lt.ones(3).realize(), lt.ones(3).double().realize()]
    for kind, places in recipe:
        values.append(OPERATIONS[kind]([values[place % len(values)] for place in places]))
    found = [values[3 + place % len(recipe)].node for place in roots]
    return [node for node in found if node.data is None]


@given(recipes, recipes, st.lists(st.integers(0, 20), min_size=1, max_size=3))
def test_keys_are_equal_where_structures_are(
    recipe: Recipe, other: Recipe, roots: list[int]
) -> None:
    one, same, else_ = _make(recipe, roots), _make(recipe, roots), _make(other, roots)
    key = _check(*one)
    assert key == _check(*same)
    # The roots are for the caller, who adds their numbers to the key.
    first, second = number_graph(one)[0], number_graph(else_)[0]
    equal = _structure(first) == _structure(second)
    assert (_check(*else_) == key) == equal


def test_deep_and_wide_graphs_are_numbered() -> None:
    x = lt.ones(2).realize()
    with lt.config.override(max_pending_nodes=10**9):
        deep = x
        for _ in range(30_000):
            deep = deep * x
        many = [x * float(n) for n in range(2_000)]
        wide = lt.cat([*many, *many, deep])
    numbers, key = number_graph([wide.node])
    assert len({*numbers}) == len(numbers) == len(set(numbers.values()))
    assert [*numbers][-1] is wide.node
    place = {node: number for number, node in enumerate(numbers)}
    assert all(place[item] < place[node] for node in numbers for item in node.inputs)
    assert len(key) == len(numbers) + sum(len(node.inputs) for node in numbers if node.data is None)


def test_a_value_that_came_is_a_leaf() -> None:
    """What is computed already is not gone through, whatever it was made of."""
    x = lt.ones(3).realize()
    inner = (x * 2).exp()
    before = len(number_graph([(inner + 1).node])[0])
    inner.realize()
    numbers, key = number_graph([(inner + 1).node])
    assert len(numbers) < before and (inner.node.form in key)
    assert number_graph([inner.node]) == ({inner.node: 0}, [inner.node.form])


def test_who_else_has_a_constant_makes_no_difference() -> None:
    # Constants that are repeated are one node, wherever a program repeats them.
    x = ops.input_((3,), float32)
    found = []
    for holds in (False, True):
        twos = ops.expand(ops.reshape(ops.constant(2.0, float32), (1,)), (3,))
        nodes = [ops.concat([twos, x], 0)]
        held = [twos] if holds else []
        del twos
        numbers, key = number_graph(nodes)
        found.append(structure_of(numbers, key, nodes).choose(list(numbers)))
        del held
    assert found[0] is found[1]


def test_patterns_of_use_that_lead_to_the_same_share_plans() -> None:
    x = lt.arange(3.0).realize()
    found = []
    for holds in (False, True):
        part = x * 3
        nodes = [(part + 1).sum().node]
        held = [part] if holds else []
        del part
        numbers, key = number_graph(nodes)
        structure = structure_of(numbers, key, nodes)
        found.append(structure.choose(list(numbers)))
        del held
    assert found[0] is not found[1] and found[0].plans is found[1].plans
