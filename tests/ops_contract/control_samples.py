"""Samples of the ops that run graphs: loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lazyt import ops
from lazyt.ir.dtypes import float32, float64, int64
from lazyt.ir.graph import Body, Node, make
from lazyt.ops.control.building import LoopParams, Results, loop
from lazyt.ops.control.loops import LOOP
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
