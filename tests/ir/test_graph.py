"""Equal nodes are one while they live, and nothing is left of them afterwards."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import lazyt as lt
from lazyt.handle import views
from lazyt.ir import graph, op
from lazyt.ir.graph import Node, find, head_of, make, make_like, make_of, make_pair
from lazyt.ops.leaves import become_input
from lazyt.ops.pointwise import MAP


def leaf(size: int = 3) -> Node:
    """A computed value."""
    return lt.ones(size).realize().node


def pair(sample: Node, a: Node, b: Node) -> Node:
    """By the short way, which is told the type."""
    known = (sample.shape, sample.dtype, sample.form)
    return make_pair(sample.head, known, a, b, sys._getframe())


MAKERS: dict[str, Callable[[Node, Node, Node], Node]] = {
    "make": lambda sample, a, b: make(sample.op, (a, b), sample.params),
    "make_of": lambda sample, a, b: make_of(sample.head, (a, b)),
    "make_like": lambda sample, a, b: make_like(sample.head, (a, b), None),
    "make_pair": pair,
}


@pytest.mark.parametrize("first", MAKERS)
@pytest.mark.parametrize("second", MAKERS)
def test_all_ways_lead_to_one_node(first: str, second: str) -> None:
    a, b, c = leaf(), leaf(), leaf()
    sample = (lt.ones(3).realize() * lt.ones(3).realize()).node
    one = MAKERS[first](sample, a, b)
    assert MAKERS[second](sample, a, b) is one
    assert find(sample.head, (a, b)) is one
    assert one.inputs == (a, b) and (one.op, one.params) == (sample.op, sample.params)
    assert (one.shape, one.dtype, one.form) == (sample.shape, sample.dtype, sample.form)
    others = [MAKERS[second](sample, b, a), MAKERS[second](sample, a, c)]
    assert len({one, *others}) == 3


@pytest.mark.parametrize("way", MAKERS)
def test_a_new_node_is_as_old_as_its_oldest_pending_input(way: str) -> None:
    a, b = lt.ones(3).realize(), lt.ones(3).realize()
    sample = (a * b).node
    old = (a + 1).node
    lt.ones(3).exp().realize()  # the clock goes on
    young = (b + 2).node
    assert old.oldest < young.oldest
    for inputs in ((old, young), (young, old)):
        assert MAKERS[way](sample, *inputs).oldest == old.oldest
    assert MAKERS[way](sample, young, leaf()).oldest == young.oldest
    # Met again later, an equal node is looked at again: what it waited for may be there by now.
    met = MAKERS[way](sample, old, young)
    (a + 1).realize()
    assert MAKERS[way](sample, old, young) is met
    assert met.made == graph.clock.now


def test_tables_hold_nobody() -> None:
    a, b = leaf(), leaf()
    made = make(MAP, (a, b), (lt.ones(3) * lt.ones(3)).node.params)
    head, inputs, count = made.head, made.inputs, op.count_living()
    assert inputs in head.nodes
    watched = weakref.ref(made)
    del made
    assert watched() is None and inputs not in head.nodes
    assert op.count_living() == count - 1 and find(head, inputs) is None


def test_heads_go_with_their_nodes() -> None:
    params = "a parameter that no other node has"
    head = head_of(MAP, params, 7)
    assert head_of(MAP, params, 7) is head
    assert head_of(MAP, params, 6) is not head
    key = (MAP, params, 7)
    assert key in op.living
    watched = weakref.ref(head)
    del head
    gc.collect()
    assert watched() is not None  # a loop may make it again
    op.forget_recent()
    assert watched() is None and key not in op.living


def test_few_heads_outlive_their_nodes() -> None:
    op.forget_recent()
    before = len(op.living)
    for number in range(5000):
        head_of(MAP, f"a parameter that no other node has, {number}", 7)
    assert before + 5000 > len(op.living) + 2000
    op.forget_recent()
    assert len(op.living) <= before + 2


def test_what_comes_back_has_the_head_that_it_had() -> None:
    x = lt.ones(3).realize()
    first = id((x * 2.125).sin().node.head)
    assert id((x * 2.125).sin().node.head) == first


def test_nodes_in_circles_leave_no_entries() -> None:
    """The collector's order is anyone's: it may clear a head, its table and its nodes at once."""
    gc.collect()
    op.forget_recent()
    before, known = op.count_living(), len(op.living)
    for number in range(20):
        x = lt.tensor([1.0] * (20 + number))
        circle: list[Any] = [(x * x).reshape(1, 20 + number).exp()]
        circle.append(circle)
    del x, circle
    gc.collect()
    op.forget_recent()
    views._routes.clear()
    assert op.count_living() <= before and len(op.living) <= known + 2


def test_the_entry_of_a_later_equal_node_stays() -> None:
    """The callback of a dead node may come after an equal one was made in its place."""
    a, b = leaf(), leaf()
    sample = (lt.ones(3).realize() * lt.ones(3).realize()).node
    first = make_of(sample.head, (a, b))
    reference = sample.head.nodes[a, b]
    del sample.head.nodes[a, b]
    second = make_of(sample.head, (a, b))
    graph._forget(reference)
    assert find(sample.head, (a, b)) is second is not first
    del first  # its reference was taken out of the table and is gone
    assert find(sample.head, (a, b)) is second


def test_a_node_that_became_a_leaf_is_made_anew() -> None:
    a, b = leaf(), leaf()
    sample = (lt.ones(3).realize() * lt.ones(3).realize()).node
    computed = make_of(sample.head, (a, b))
    computed.data = leaf().data
    become_input(computed)
    assert find(sample.head, (a, b)) is None and computed.inputs == ()
    again = make_of(sample.head, (a, b))
    assert again is not computed and again.inputs == (a, b)
    del computed
    assert find(sample.head, (a, b)) is again


def test_a_long_chain_is_let_go_without_depth() -> None:
    """Each head's table refers to inputs, and a chain of a million must not go down the stack."""
    gc.collect()
    before = op.count_living()
    with lt.config.override(max_pending_nodes=10**9):
        x = lt.ones(3).realize()
        for _ in range(100_000):
            x = x * 2.0 + 1.0
        assert op.count_living() - before == 200_000
        del x
    assert op.count_living() - before < 100


def calls_of(function: Callable[[], object]) -> int:
    """Python functions that are called, the given one left out."""
    found = -1

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal found
        found += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(before)
    return found


@pytest.mark.compiler
@pytest.mark.usefixtures("nobody_asked")
def test_a_node_takes_three_calls_and_its_computation_none() -> None:
    """Time is noise, calls are not: an operator, what makes the node, and its end; one more is a
    tenth of a node's time; devices in use elsewhere change nothing. The last of many runs counts:
    guards for a graph of some size are written when it comes back and back."""
    assert lt.ones(1, device="cuda:emu").is_cuda
    a, b = lt.randn(100).realize(), lt.randn(100).realize()

    def chain(steps: int) -> Any:
        x = a
        for _ in range(steps):
            x = x * b + 1
        return x

    def taken(steps: int, computed: bool) -> int:
        if computed:
            return calls_of(lambda: chain(steps).realize())
        return calls_of(lambda: chain(steps))

    for computed in (False, True):
        found = [[taken(steps, computed) for steps in (20, 60)] for _ in range(16)][-1]
        assert found[1] - found[0] <= 3 * 80, (computed, found)
