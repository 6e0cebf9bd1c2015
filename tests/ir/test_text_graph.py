"""Graph text: what it looks like, that it survives the round trip, and its errors."""

from __future__ import annotations

import math
import struct

import pytest

from lazyt import ops
from lazyt.errors import ParseError
from lazyt.ir.dtypes import ALL, bfloat16, float16, float32, float64, int8, int64, uint64
from lazyt.ir.graph import Node
from lazyt.ir.parser import parse_graph
from lazyt.ir.printer import format_value, print_graph
from lazyt.ir.scalar import arg, call, const
from lazyt.ops import OPS


def parse(text: str) -> list[Node]:
    """The roots of a text."""
    return parse_graph(text, OPS)[1]


def again(root: Node) -> Node:
    """A node printed and parsed."""
    return parse(print_graph([root]))[0]


SOFTMAX = """graph(%0: float32[4, 5]) -> (%7)
%1 = reduce(%0) {kind=max, axes=(1,)} : float32[4]
%2 = reshape(%1) {shape=(4, 1)} : float32[4, 1]
%3 = map(%0, %2) {sub($0, $1)} : float32[4, 5]
%4 = map(%3) {exp($0)} : float32[4, 5]
%5 = reduce(%4) {kind=sum, axes=(1,)} : float32[4]
%6 = reshape(%5) {shape=(4, 1)} : float32[4, 1]
%7 = map(%4, %6) {div($0, $1)} : float32[4, 5]
"""


def test_text_is_what_the_documents_show() -> None:
    x = ops.input_((4, 5), float32)
    shifted = ops.apply("sub", x, ops.reshape(ops.reduce_("max", x, (1,)), (4, 1)))
    e = ops.apply("exp", shifted)
    y = ops.apply("div", e, ops.reshape(ops.reduce_("sum", e, (1,)), (4, 1)))
    assert print_graph([y]) == SOFTMAX
    assert print_graph(parse(SOFTMAX)) == SOFTMAX


def test_equal_graphs_over_other_leaves_print_the_same() -> None:
    def build() -> Node:
        a, b = ops.input_((3,), float32), ops.input_((3,), float32)
        return ops.apply("sub", ops.variable(b, 7 + id(a)), a)

    assert print_graph([build()]) == print_graph([build()])


def test_order_of_operands_shows() -> None:
    a, b = ops.input_((3,), float32), ops.input_((2, 3), float32)
    assert print_graph([ops.apply("sub", a, b)]) != print_graph([ops.apply("sub", b, a)])


def test_repeated_and_leaf_results_are_kept() -> None:
    a = ops.input_((), int8)
    text = print_graph([a, a, ops.apply("neg", a)])
    assert text.startswith("graph(%0: int8[]) -> (%0, %0, %1)\n")
    roots = parse(text)
    assert roots[0] is roots[1] is roots[2].inputs[0]


FLOATS = (0.0, -0.0, 1.5, -1e-45, 1e300, math.inf, -math.inf, math.nan, 0.1)
FULL = [(v, t) for t in ALL for v in ((0, 1, 127) if t.kind != "f" else FLOATS)] + [
    (-128, int8), (2**64 - 1, uint64), (-(2**63), int64),
]  # fmt: skip


@pytest.mark.parametrize(("value", "dtype"), FULL)
def test_constants_survive_to_the_bit(value: float, dtype: object) -> None:
    node = ops.constant(value, dtype)  # type: ignore[arg-type]
    assert again(node) is node


def test_unusual_nan_survives() -> None:
    (odd,) = struct.unpack("<d", (0xFFF8000000000123).to_bytes(8, "little"))
    node = ops.elementwise(const(odd, float64), [ops.input_((), float64)])
    text = print_graph([node])
    assert "nan#fff8000000000123:float64" in text
    assert again(node).params is node.params


def test_shared_parts_are_named_and_shared_again() -> None:
    expr = arg(0, float32)
    for _ in range(200):  # as a tree, 2**200 calls
        expr = call("add", expr, expr)
    node = ops.elementwise(expr, [ops.input_((2,), float32)])
    text = print_graph([node])
    assert len(text) < 10_000
    assert "let t0 = add($0, $0); let t1 = add(t0, t0);" in text
    assert again(node).params is expr


def test_deep_expressions_do_not_recurse() -> None:
    expr = arg(0, float32)
    for number in range(8000):
        expr = call("mul", call("add", expr, const(number, float32)), arg(0, float32))
    node = ops.elementwise(expr, [ops.input_((2,), float32)])
    assert again(node).params is expr
    nested = "neg(" * 5000 + "$0" + ")" * 5000
    (root,) = parse(f"graph(%0: float32[]) -> (%1)\n%1 = map(%0) {{{nested}}}")
    assert print_graph([root]).count("neg(") == 5000


def test_long_chains_do_not_recurse() -> None:
    node = ops.input_((), float32)
    for number in range(100_000):
        node = ops.apply("neg" if number % 2 else "abs", node)
    text = print_graph([node])
    assert text.count("\n") == 100_001
    assert print_graph(parse(text)) == text


def test_casts_print_their_type() -> None:
    node = ops.cast(ops.cast(ops.input_((2,), float32), bfloat16), float16)
    text = print_graph([node])
    assert "{cast<bfloat16>($0)} : bfloat16[2]" in text
    assert print_graph(parse(text)) == text


def test_variables_stay_variables() -> None:
    x = ops.input_((2,), float32)
    node = ops.apply("mul", ops.variable(x, 5), ops.detach(ops.variable(x, 6)))
    root = again(node)
    assert root.needs_grad
    assert root.inputs[0].needs_grad
    assert not root.inputs[1].needs_grad
    assert root.inputs[0] is not root.inputs[1].inputs[0]


def test_sources_are_comments() -> None:
    node = ops.apply("exp", ops.input_((2,), float32))
    text = print_graph([node], sources=True)
    assert "  # " in text and "test_text_graph.py:" in text
    assert print_graph(parse(text)) == print_graph([node])


def test_stopped_nodes_print_as_leaves() -> None:
    inner = ops.apply("exp", ops.input_((2,), float32))
    text = print_graph([ops.apply("neg", inner)], stop=lambda n: n is inner)
    assert text == "graph(%0: float32[2]) -> (%1)\n%1 = map(%0) {neg($0)} : float32[2]\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "none"), (True, "true"), (3, "3"), (-2.5, "-2.5"), (1e-7, "1e-07"), ("sum", "sum"),
        ("nan", '"nan"'), ("float32", '"float32"'), ("a b", '"a b"'), ((), "()"), ((1,), "(1,)"),
        (((1, 2), float32), "((1, 2), float32)"), (-0.0, "-0.0"), (math.inf, "inf"),
    ],
)  # fmt: skip
def test_parameter_values(value: object, text: str) -> None:
    assert format_value(value) == text


HEAD = "graph(%0: float32[4], %1: int64[4]) -> (%2)\n"


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("", 1, 1, "expected 'graph', found the end"),
        ("graph(%0: float32[4)", 1, 20, "expected ','"),
        ("graph(%0: float33[4]) -> ()", 1, 11, "expected an element type"),
        ("graph(%0: float32[4]) -> (%1)", 1, 27, "the result %1 is not defined"),
        (HEAD + "%2 = map(%0) {exq($0)}", 2, 15, "expected a scalar expression, found 'exq'"),
        (HEAD + "%2 = map(%0) {exp($0, $0)}", 2, 15, "exp takes 1 operands, found 2"),
        (HEAD + "%2 = map(%0) {exp($1)}", 2, 19, "$1 needs 2 inputs"),
        (HEAD + "%2 = map(%0) {exp($0}", 2, 21, "expected ',' or ')'"),
        (HEAD + "%2 = map(%0) {cast($0)}", 2, 15, "cast needs its result type"),
        (HEAD + "%2 = map(%0) {add($0, 1.5:int8)}", 2, 23, "'1.5' is no int8 literal"),
        (HEAD + "%2 = mop(%0)", 2, 6, "expected the name of an op, found 'mop'"),
        (HEAD + "%2 = map(%5) {exp($0)}", 2, 10, "%5 is not defined"),
        (HEAD + "%0 = map(%1) {neg($0)}", 2, 1, "%0 is defined twice"),
        (HEAD + "%2 = map(%0) {exp($0)} : float32[5]", 2, 26, "%2 is written as float32[5]"),
        (HEAD + "%2 = reshape(%0) {shape=(3,)}", 2, 6, "reshape refuses"),
        (HEAD + "%2 = reshape(%0) {shape=4}", 2, 25, "shape must be"),
        (HEAD + "%2 = reshape(%0) {form=(4,)}", 2, 19, "expected a parameter of reshape (shape)"),
        (HEAD + "%2 = reshape(%0)", 2, 17, "reshape needs parameters: shape"),
        (HEAD + "%2 = reshape(%0) ?", 2, 18, "unexpected character '?'"),
    ],
)
def test_errors_name_the_place(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert f"line {line}, column {column}: " in str(caught.value)
    assert message in str(caught.value)
