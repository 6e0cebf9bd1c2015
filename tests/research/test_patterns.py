"""Patterns see all forms in which a program may write the same."""

from __future__ import annotations

import pytest

import lazyt
from lazyt import compiler, ops
from lazyt.config import config
from lazyt.errors import LazytError
from lazyt.extensions.patterns import P, Rewriting, Rule
from lazyt.ir.dtypes import float32
from lazyt.ir.graph import Node
from lazyt.ir.scalar import arg, call, const

X, Y = ops.input_((3, 4), float32), ops.input_((3, 4), float32)
PRODUCT = P.map("mul", P.any("x"), P.scalar("c"))


def literal(*, first: bool) -> Node:
    """``x * 0.5`` as one expression with a literal."""
    half, x = const(0.5, float32), arg(0, float32)
    return ops.elementwise(call("mul", half, x) if first else call("mul", x, half), [X])


def number(value: float, shape: tuple[int, ...] = ()) -> Node:
    return ops.broadcast_to(ops.constant(value, float32), shape)


FORMS = {
    "a node": lambda: ops.apply("mul", X, number(0.5)),
    "a node first": lambda: ops.apply("mul", number(0.5), X),
    "a node repeated": lambda: ops.apply("mul", X, number(0.5, (3, 4))),
    "a literal": lambda: literal(first=False),
    "a literal first": lambda: literal(first=True),
}


@pytest.mark.parametrize("form", FORMS)
def test_constants_of_all_forms(form: str) -> None:
    found = PRODUCT.match(FORMS[form]())
    assert found == {"x": X, "c": 0.5}


def test_parts_of_larger_expressions() -> None:
    a, b = arg(0, float32), arg(1, float32)
    node = ops.elementwise(call("add", call("mul", a, call("exp", b)), const(1, float32)), [X, Y])
    pattern = P.map("add", P.map("mul", P.any("a"), P.map("exp", P.any("b"))), P.scalar("one"))
    assert pattern.match(node) == {"a": X, "b": Y, "one": 1.0}
    half = P.map("add", P.any("whole"), P.scalar()).match(node)
    assert half is not None and half["whole"] is ops.elementwise(
        call("mul", a, call("exp", b)), [X, Y]
    )
    through = ops.apply("add", ops.apply("mul", ops.apply("exp", Y), X), number(1))
    assert pattern.match(through) == {"a": X, "b": Y, "one": 1.0}


def test_what_does_not_match() -> None:
    assert PRODUCT.match(ops.apply("mul", X, Y)) is None
    assert PRODUCT.match(ops.apply("add", X, number(0.5))) is None
    assert P.map("sub", P.scalar(), P.any()).match(ops.apply("sub", X, number(1))) is None
    assert P.map("mul", P.any(), P.scalar(value=2)).match(FORMS["a node"]()) is None
    assert P.map("mul", P.any("x"), P.any("x")).match(ops.apply("mul", X, Y)) is None
    assert P.map("mul", P.any("x"), P.any("x")).match(ops.apply("mul", X, X)) == {"x": X}


def test_ops_with_parameters() -> None:
    node = ops.reduce_("sum", FORMS["a literal"](), (1,))
    assert P.op("reduce", PRODUCT, kind="sum").match(node) == {"x": X, "c": 0.5}
    assert P.op("reduce", PRODUCT, kind="max").match(node) is None
    small = P.op("reduce", P.any("x", lambda n: n.size < 5), name="r")
    assert small.match(node) is None


def test_wrong_patterns_are_refused() -> None:
    for function, count in (("multiply", 2), ("mul", 1), ("exp", 2)):
        with pytest.raises(LazytError):
            P.map(function, *[P.any()] * count)
    with pytest.raises(LazytError):
        P.op("matmul", P.any())


def scale(node: Node, x: Node, w: Node, c: float) -> Node:
    product = ops.contract(x, w, *node.params)
    return ops.apply("mul", product, ops.constant(c, node.dtype))


def test_a_pass_of_rules_fires_on_both_ways_of_writing() -> None:
    rule = Rule(P.op("contract", PRODUCT, P.any("w")), scale, "scale the result")
    rewriting = Rewriting([rule])
    step = compiler.Pass(
        "scaling", rewriting, "a test", exact=False, tolerance=1e-6, needs_constants=True
    )
    x, w = lazyt.rand(5, 40).realize(), lazyt.rand(40, 3).realize()
    with compiler.register_pass(step, after="simplify"), config.override(tier=1, verify="values"):
        one = ((x * 0.125) @ w).tolist()
        assert rewriting.counts == {"scale the result": 1}
        other = ((0.125 * x[:4]) @ w).tolist()  # of another shape, which has a plan of its own
        assert rewriting.counts["scale the result"] == 2
    assert one == ((x @ w) * 0.125).tolist() and other == one[:4]


def test_a_rule_of_another_type_is_named() -> None:
    wrong = Rule(P.map("exp", P.any("x")), lambda node, x: ops.reshape(x, (12,)), "flatten")
    with pytest.raises(LazytError, match="flatten"):
        Rewriting([wrong])([ops.apply("exp", X)])
    nothing = Rule(P.map("exp", P.any("x")), lambda node, x: None, "nothing")
    root = ops.apply("exp", X)
    assert Rewriting([nothing])([root]) == [root] and nothing.fired == 0


def test_rules_are_told_apart_by_what_they_do() -> None:
    from lazyt.runtime.definitions import definition_of

    def made(number: float) -> Rewriting:
        rule = Rule(PRODUCT, lambda node, x, c: ops.apply("mul", x, ops.constant(number, float32)))
        return Rewriting([rule])

    one, same, other = made(1.0), made(1.0), made(2.0)
    assert definition_of(one) == definition_of(same) != definition_of(other)
    assert not definition_of(one).hidden
    one([FORMS["a node"]()])
    assert one.rules[0].fired == 1 and definition_of(one) == definition_of(same)


def test_operands_that_were_repeated_are_repeated_again() -> None:
    rule = Rule(P.map("mul", P.any("x"), P.scalar(value=2)), lambda node, x: ops.apply("add", x, x))
    row = ops.input_((4,), float32)
    (made,) = Rewriting([rule])([ops.apply("mul", row, number(2, (3, 4)))])
    assert made.shape == (3, 4) and rule.fired == 1


def test_rules_take_what_their_patterns_name() -> None:
    pattern = P.op("contract", P.map("mul", P.any("x"), P.scalar("c")), P.any("w"), name="whole")
    assert pattern.names() == {"x", "c", "w", "whole"}
    Rule(pattern, lambda node, x, c, w, whole: None)
    Rule(pattern, lambda **found: None)
    with pytest.raises(LazytError, match="rule r: build is called with node, c, w, whole, x, but"):
        Rule(pattern, lambda node, x: None, "r")
