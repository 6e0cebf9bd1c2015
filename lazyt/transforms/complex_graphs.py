"""Graphs of complex numbers as graphs of their real and imaginary parts, which plans are made of.

In memory the parts of an element are neighbours, as in PyTorch and NumPy. So a leaf of complex
numbers becomes one with another axis of two, of which parts are slices, and a root the two parts
beside each other. What is in between is real, and is simplified, fused and compiled like all other
graphs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from lazyt import ops
from lazyt.errors import DTypeError
from lazyt.ir.dtypes import DType
from lazyt.ir.graph import Node, Shape, make
from lazyt.ir.scalar import Arg, Call, Const, Expr, arg, call, post_order
from lazyt.ops.pointwise import map_over_used
from lazyt.transforms.complex_parts import Pair, parts_of


class Parts(NamedTuple):
    """The nodes of both parts of a complex value."""

    re: Node
    im: Node


#: A node, or the parts of a complex one.
Value = Node | Parts


def has_complex(nodes: Sequence[Node]) -> bool:
    """Whether any of these is of a complex type."""
    return any(node.dtype.kind == "c" for node in nodes)


def stored_shape(shape: Shape, dtype: DType) -> Shape:
    """The shape in which a value's memory is seen as numbers."""
    return (*shape, 2) if dtype.kind == "c" else shape


def leaf(node: Node, dtype: DType, shape: Shape) -> Value:
    """The value of a real leaf that stands for one of this type."""
    if dtype.kind != "c":
        return node
    rank = len(shape)

    def part(number: int) -> Node:
        starts, sizes = (*(0,) * rank, number), (*shape, 1)
        return ops.reshape(ops.slice_(node, starts, sizes, (1,) * (rank + 1)), shape)

    return Parts(part(0), part(1))


def joined(value: Value) -> Node:
    """What is stored of a value: the parts beside each other along a last axis."""
    if isinstance(value, Node):
        return value
    halves = [ops.reshape(part, (*part.shape, 1)) for part in value]
    return ops.concat(halves, len(halves[0].shape) - 1)


def rebuilt(node: Node, inputs: Sequence[Value]) -> Value:
    """``node`` over the values of its inputs.

    Raises DTypeError, naming it, for an op that complex numbers are not for.
    """
    is_complex = node.dtype.kind == "c"
    if not is_complex and all(isinstance(item, Node) for item in inputs):
        return make(node.op, tuple(nodes_of(inputs)), node.params)
    rule = _RULES.get(node.op.name)
    if rule is None:
        raise DTypeError(f"{node.op.name} does not take complex numbers")
    return rule(node, inputs)


def nodes_of(values: Sequence[Value]) -> list[Node]:
    """Values that are all real."""
    found: list[Node] = []
    for value in values:
        assert isinstance(value, Node)
        found.append(value)
    return found


def each(values: Sequence[Value], build: Callable[[list[Node]], Node]) -> Parts:
    """What ``build`` makes of the real parts, and of the imaginary ones; real values are for both,
    such as indices."""
    first = [value if isinstance(value, Node) else value.re for value in values]
    second = [value if isinstance(value, Node) else value.im for value in values]
    return Parts(build(first), build(second))


def _by_parts(node: Node, inputs: Sequence[Value]) -> Value:
    return each(inputs, lambda parts: make(node.op, tuple(parts), node.params))


def _const(node: Node, inputs: Sequence[Value]) -> Value:
    value, part = complex(node.params.value), node.dtype.part
    return Parts(ops.constant(value.real, part), ops.constant(value.imag, part))


def _pad(node: Node, inputs: Sequence[Value]) -> Value:
    low, high, interior, fill = node.params
    (operand,) = inputs
    assert isinstance(operand, Parts)
    number = complex(fill.value)
    return Parts(
        ops.pad(operand.re, low, high, interior, number.real),
        ops.pad(operand.im, low, high, interior, number.imag),
    )


def _map(node: Node, inputs: Sequence[Value]) -> Value:
    flat: list[Node] = []
    for item in inputs:
        flat += [item] if isinstance(item, Node) else item
    found = parts_of(node.params, tuple([isinstance(item, Parts) for item in inputs]))

    if not isinstance(found, Pair):
        return ops.broadcast_to(_maps((found,), flat)[0], node.shape)
    return Parts(*[ops.broadcast_to(made, node.shape) for made in _maps(found, flat)])


def _maps(roots: Sequence[Expr], operands: Sequence[Node]) -> list[Node]:
    """Expressions over ``operands`` as nodes. What is used several times is a node of its own: C
    has a name for it, while it writes an expression once for each use."""
    uses: Counter[Expr] = Counter(roots)
    order = list(dict.fromkeys(item for root in roots for item in post_order(root)))
    for item in order:
        if isinstance(item, Call):
            uses.update(item.args)
    values = list(operands)
    named: dict[Expr, Expr] = {}
    found: dict[Expr, Node] = {}
    for item in order:
        if isinstance(item, Call):
            own = call(item.fn, *[named.get(a, a) for a in item.args], dtype=item.dtype)
            named[item] = own
            if item in roots or (uses[item] > 1 and not _is_cheap(own)):
                found[item] = map_over_used(own, values)
                named[item] = arg(len(values), item.dtype)
                values.append(found[item])
        elif item in roots:
            if isinstance(item, Const):
                found[item] = ops.constant(item.value, item.dtype)
            else:
                assert isinstance(item, Arg)
                found[item] = values[item.index]
    return [found[root] for root in roots]


def _is_cheap(item: Expr) -> bool:
    return (
        isinstance(item, Call)
        and item.fn.cost <= 1
        and all(not isinstance(a, Call) for a in item.args)
    )


def _function(name: str, *values: Parts) -> Parts:
    """A scalar function of complex values, of one shape or of none."""
    dtype = values[0].re.dtype.to_complex()
    expr = call(name, *(arg(n, dtype) for n in range(len(values))))
    found = parts_of(expr, (True,) * len(values))
    assert isinstance(found, Pair)
    return Parts(*_maps(found, [part for value in values for part in value]))


def _reduce(node: Node, inputs: Sequence[Value]) -> Value:
    if node.params.kind == "sum":
        return _by_parts(node, inputs)
    return _product_of(inputs[0], node.params.axes)


def _product_of(value: Value, axes: Sequence[int]) -> Parts:
    """The product over axes, by halves: the first of each with the last, until one is left."""
    assert isinstance(value, Parts)
    shape = value.re.shape
    order = [*(a for a in range(len(shape)) if a not in axes), *axes]
    kept = len(shape) - len(axes)
    value = each([value], lambda parts: _flat_last(ops.permute(parts[0], order), kept))
    length = value.re.shape[-1]
    if not length:
        empty = value.re.shape[:-1]
        return Parts(*(_spread(number, value.re.dtype, empty) for number in (1.0, 0.0)))
    while length > 1:
        half = length // 2
        first, second = (_cut(value, start, half) for start in (0, length - half))
        made = _function("mul", first, second)
        if length % 2:
            middle = _cut(value, half, 1)
            made = each([made, middle], lambda parts: ops.concat(parts, len(parts[0].shape) - 1))
        value, length = made, length - half
    return each([value], lambda parts: ops.reshape(parts[0], parts[0].shape[:-1]))


def _flat_last(node: Node, kept: int) -> Node:
    size = 1
    for extent in node.shape[kept:]:
        size *= extent
    return ops.reshape(node, (*node.shape[:kept], size))


def _cut(value: Parts, start: int, size: int) -> Parts:
    """A part of the last axis."""

    def cut(parts: list[Node]) -> Node:
        (node,) = parts
        lead = node.shape[:-1]
        return ops.slice_(node, (*(0,) * len(lead), start), (*lead, size), (1,) * len(node.shape))

    return each([value], cut)


def _spread(number: float, dtype: DType, shape: Shape) -> Node:
    return ops.broadcast_to(ops.constant(number, dtype), shape)


def _scan(node: Node, inputs: Sequence[Value]) -> Value:
    """Running products in log2(n) doublings."""
    if node.params.kind == "sum":
        return _by_parts(node, inputs)
    (value,), axis, steps = inputs, node.params.axis, 1
    assert isinstance(value, Parts)
    while steps < node.shape[axis]:
        moved = Parts(ops.shift(value.re, axis, steps, 1), ops.shift(value.im, axis, steps, 0))
        value = _function("mul", moved, value)
        steps *= 2
    return value


def _contract(node: Node, inputs: Sequence[Value]) -> Value:
    left, right = inputs
    assert isinstance(left, Parts) and isinstance(right, Parts)

    def product(a: Node, b: Node) -> Node:
        return ops.contract(a, b, *node.params)

    return Parts(
        ops.apply("sub", product(left.re, right.re), product(left.im, right.im)),
        ops.apply("add", product(left.re, right.im), product(left.im, right.re)),
    )


def _fourier(node: Node, inputs: Sequence[Value]) -> Value:
    """Rows of pairs, which is how complex numbers are stored."""
    source, table = inputs
    assert isinstance(table, Node)
    made = make(node.op, (joined(source), table), node.params._replace(pairs=True))
    return leaf(made, node.dtype, node.shape)


_RULES: dict[str, Callable[[Node, Sequence[Value]], Value]] = {
    "const": _const, "pad": _pad, "map": _map, "reduce": _reduce, "scan": _scan,
    "contract": _contract, "fourier": _fourier,
    **dict.fromkeys(
        (
            "reshape", "permute", "expand", "slice", "flip", "concat", "window", "gather",
            "scatter", "update", "variable", "detach", "put",
        ),
        _by_parts,
    ),
}  # fmt: skip
