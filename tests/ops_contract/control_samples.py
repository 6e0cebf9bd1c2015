"""Samples of the ops that run graphs: loops, branches, and loops with a condition."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lazyt import ops
from lazyt.ir.dtypes import bool_, float32, float64, int64
from lazyt.ir.graph import Body, Node, Type, make
from lazyt.ops.control.branches import branch
from lazyt.ops.control.building import LoopParams, Results, loop
from lazyt.ops.control.conditions import repeat
from lazyt.ops.control.loops import LOOP
from lazyt.ops.control.python_calls import PythonCall, PythonParams, results_of, runners
from lazyt.ops.registry import OPS
from lazyt.plan.control.python_calls import called as called_alone
from lazyt.runtime.memory import Buffer
from tests.ops_contract.op_samples import blank, refuse, sample


def body_like(nodes: Sequence[Node], step: Callable[..., Sequence[Node]]) -> Body:
    """The body that ``step`` makes of leaves with the types of ``nodes``."""
    leaves = [ops.input_(node.shape, node.dtype) for node in nodes]
    return Body.of(leaves, step(*leaves))


def run(
    step: Callable[..., Sequence[Node]],
    constants: Sequence[Node],
    carries: Sequence[Node],
    scanned: Sequence[Node],
    **settings: bool,
) -> Results:
    """A loop of ``step`` over as many slices as there are."""
    slices = [ops.input_(node.shape[1:], node.dtype) for node in scanned]
    body = body_like([*constants, *carries, *slices], step)
    return loop(body, constants, carries, scanned, scanned[0].shape[0], **settings)


def cell(k: Node, c: Node, x: Node) -> tuple[Node, Node]:
    """A recurrent cell whose state is a result, too."""
    new = ops.apply("tanh", ops.apply("add", ops.contract(k, c, (0, 1), (1,), (0,)), x))
    return new, new


def apart(c: Node, x: Node) -> tuple[Node, Node]:
    """A product, and a slice that is not the state."""
    return ops.apply("mul", c, x), ops.apply("sin", ops.apply("add", c, x))


def exchanged(a: Node, b: Node, x: Node) -> tuple[Node, Node, Node, Node]:
    """Carries that become each other, and slices that are handed on."""
    return b, ops.apply("mul", a, x), x, a


def counted(n: Node, c: Node, x: Node) -> tuple[Node, Node, Node]:
    """A carry of whole numbers beside one of fractions."""
    more = ops.apply("add", n, ops.constant(1, int64))
    scaled = ops.apply("mul", c, ops.cast(more, c.dtype))
    return more, ops.apply("add", scaled, x), scaled


def joined(found: Results, dtype: object) -> Node:
    """All results of a dtype in a row."""
    nodes = [node for node in (*found.carries, *found.slices) if node.dtype is dtype]
    return ops.concat([ops.reshape(node, (node.size,)) for node in nodes], 0)


def _cells(reverse: bool, history: bool) -> Callable[..., Node]:
    return lambda k, c, x: joined(
        run(cell, [k], [c], [x], reverse=reverse, history=history), c.dtype
    )


for _reverse in (False, True):
    for _history in (False, True):
        _name = f"{'back' if _reverse else 'on'}{'-whole' if _history else ''}"
        sample("loop", f"cell-{_name}", _cells(_reverse, _history), (2, 2), (2,), (3, 2))
sample(
    "loop", "apart", lambda c, x: joined(run(apart, [], [c], [x], history=True), c.dtype),
    (2,), (3, 2),
)  # fmt: skip
sample("loop", "product", lambda c, x: run(apart, [], [c], [x]).carries[0], (2,), (4, 2))
sample("loop", "slices", lambda c, x: run(apart, [], [c], [x]).slices[0], (2,), (1, 2))
sample(
    "loop", "exchanged", lambda a, b, x: joined(run(exchanged, [], [a, b], [x]), a.dtype),
    (2,), (2,), (3, 2),
)  # fmt: skip
sample(
    "loop", "counted",
    lambda c, x: joined(run(counted, [], [ops.constant(0, int64), c], [x]), c.dtype),
    (2,), (3, 2),
)  # fmt: skip
sample(
    "loop", "count", lambda c, x: joined(run(counted, [], [ops.constant(0, int64), c], [x]), int64),
    (2,), (3, 2),
)  # fmt: skip


def _refused(shape: tuple[int, ...], dtype: object, length: int) -> Callable[[], Node]:
    def build() -> Node:
        body = body_like([blank((2,)), blank((2,))], apart)
        params = LoopParams(body, 0, 1, length, False, (0,), float64)
        return make(LOOP, (blank((2,)), ops.input_(shape, dtype)), params)  # type: ignore[arg-type]

    return build


refuse("loop", "shape", _refused((3, 4), float64, 3))
refuse("loop", "length", _refused((3, 2), float64, 4))
refuse("loop", "type", _refused((3, 2), float32, 3))
refuse("loop", "carry", lambda: run(lambda c, x: (x,), [], [blank((2,))], [blank((3, 4))])[0][0])


# ------------------------------------------------------------------------ branches


def _sine(x: Node, y: Node) -> tuple[Node, ...]:
    return ops.apply("mul", ops.apply("sin", x), y), ops.cast(ops.apply("lt", x, y), int64)


def _first(x: Node, y: Node) -> tuple[Node, ...]:
    return x, ops.cast(ops.apply("lt", y, x), int64)


def chosen(value: Node, x: Node, y: Node, number: int) -> Node:
    """One of two functions, by whether a value is larger than 1."""
    larger = ops.apply("lt", ops.constant(1, value.dtype), value)
    then, other = body_like([x, y], _sine), body_like([x, y], _first)
    return branch(larger, then, other, [x, y])[number]


for _name, _value in (("then", 1.5), ("other", 0.5)):
    sample("branch", _name, lambda v, x, y: chosen(v, x, y, 0), np.array(_value), (2, 3), (2, 3))
sample("branch", "whole", lambda v, x, y: chosen(v, x, y, 1), np.array(1.5), (2,), (2,))
refuse("branch", "type", lambda: chosen(blank(()), blank((2,)), blank((2,), float32), 0))
refuse("branch", "chosen", lambda: chosen(blank((2,)), blank((2,)), blank((2,)), 0))


def _unlike() -> Node:
    x = blank((2,))
    then, other = body_like([x], lambda a: (a,)), body_like([x], lambda a: (ops.cast(a, float32),))
    return branch(blank((), bool_), then, other, [x])[0]


refuse("branch", "results", _unlike)


# ------------------------------------------------------------------------ conditions


def grown(x: Node, by: Node) -> list[Node]:
    """A value that grows until it is large, and how often it did."""
    zero = ops.constant(0, int64)
    test = body_like([by, x, zero], lambda b, v, n: (ops.apply("lt", v, ops.constant(9, v.dtype)),))
    more = ops.constant(1, int64)
    body = body_like(
        [by, x, zero],
        lambda b, v, n: (ops.apply("mul", v, ops.apply("add", b, ops.constant(1, b.dtype))),
                         ops.apply("add", n, more)),
    )  # fmt: skip
    return repeat(test, body, [by], [x, zero])


sample(
    "while", "value", lambda x, by: ops.cast(grown(x, by)[0], int64), np.array(1.2), np.array(0.7)
)
sample("while", "count", lambda x, by: grown(x, by)[1], np.array(1.2), np.array(0.7))
refuse("while", "type", lambda: grown(blank(()), blank((), float32))[0])
refuse("while", "test", lambda: grown(blank((2,)), blank((2,)))[0])


def called(x: Node, y: Node) -> list[Node]:
    """What Python computes of two values of one type: which is larger, and both rounded."""
    wide = (*x.shape, 2)

    def function(buffers: Sequence[Buffer]) -> list[Buffer]:
        a, b = (data.as_numpy(x.dtype, x.shape) for data in buffers)
        made = [Buffer(8 * x.size), Buffer(16 * x.size)]
        made[0].as_numpy(int64, x.shape)[...] = a > b
        made[1].as_numpy(int64, wide)[...] = np.stack([100 * a, 100 * b], -1)
        return made

    call = PythonCall("compare", function, [Type(x.shape, int64), Type(wide, int64)])
    return results_of(call, [x, y])


sample("python", "first", lambda x, y: called(x, y)[0], (2, 3), (2, 3))
sample("python", "second", lambda x, y: called(x, y)[1], (3,), (3,))
_NONE = PythonParams(PythonCall("none", list, ()), 0, (), float64)
assert called_alone in runners
refuse("python", "result", lambda: make(OPS["python"], (), _NONE))
