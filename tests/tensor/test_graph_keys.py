"""The keys that plans are found by: what they leave out, and that they leave out no more."""

from __future__ import annotations

from typing import Any

import lazyt as lt
from lazyt.graph_keys import number_graph
from lazyt.ir.graph import Head, Node

Numbered = list[tuple[Any, ...]]


def _structure(numbers: dict[Node, int]) -> Numbered:
    """What a key has to tell, node by node: the type of a leaf, or a head and its inputs."""
    return [
        (node.form,)
        if node.data is not None or node.op.name == "input"
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


def test_other_numbers_give_the_same_key() -> None:
    x = lt.ones(9).realize()
    assert _check((x * 2 + 3).node) == _check((x * 5 + 7).node)
    assert _check((x[1:4] + 1).node) == _check((x[5:8] + 1).node)
    assert _check((x * 2 + x).node) != _check((x * 2 + 3).node)
