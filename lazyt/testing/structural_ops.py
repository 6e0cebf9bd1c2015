"""How random graphs use every structural op: one rule an op, from a maker and a value."""

from __future__ import annotations

import numpy as np

from lazyt import ops
from lazyt.ir.dtypes import bool_, int32, int64
from lazyt.ir.graph import Shape
from lazyt.testing.graph_maker import LARGEST_SIZE, GraphMaker, Rule, Value
from lazyt.testing.value_ranges import Span, rounding

STRUCTURAL: list[Rule] = []


def rule(function: Rule) -> Rule:
    """Decorator: registers a rule, so that random graphs have the op, users' own ones too."""
    STRUCTURAL.append(function)
    return function


def product(shape: Shape) -> int:
    """The number of elements."""
    return int(np.prod(shape, dtype=np.int64))


def fold_span(kind: str, x: Span, count: int, value: Value) -> Span | None:
    """The span of ``count`` elements folded by ``sum``, ``prod``, ``max`` or ``min``."""
    dtype = value.node.dtype
    if kind in ("max", "min"):
        return x if count else None
    if kind == "sum":
        top = x.size * count
        error = count * x.error + rounding(dtype, top, 2 + min(count, 40))
        return Span(min(x.low * count, 0), max(x.high * count, 0), error)
    top = max(x.size, 1.0) ** count if count < 200 and x.size < 100 else 1e30
    if top > 1e6:
        return None
    error = count * x.error * top + rounding(dtype, top, 2 * count)
    return Span(-top if x.low < 0 else 0, top, error)


# ---------------------------------------------------------------- movement


@rule
def reshape(maker: GraphMaker, value: Value) -> Value:
    """The same elements with axes merged, split, or of size one added."""
    shape = list(value.node.shape)
    for _ in range(maker.choose.number(1, 3)):
        way = maker.choose.number(0, 3)
        if way == 0 or not shape:
            shape.insert(maker.choose.number(0, len(shape)), 1)
        elif way == 1 and len(shape) > 1:
            at = maker.choose.number(0, len(shape) - 2)
            shape[at : at + 2] = [shape[at] * shape[at + 1]]
        else:
            at = maker.choose.number(0, len(shape) - 1)
            parts = [d for d in (2, 3, 4, 5, 11, 25) if shape[at] % d == 0 and shape[at]]
            if parts:
                part = maker.choose.pick(parts)
                shape[at : at + 1] = [shape[at] // part, part]
    return Value(ops.reshape(value.node, tuple(shape)), value.span)


@rule
def permute(maker: GraphMaker, value: Value) -> Value:
    """Axes in another order."""
    rest = list(range(len(value.node.shape)))
    axes = [rest.pop(maker.choose.number(0, len(rest) - 1)) for _ in range(len(rest))]
    return Value(ops.permute(value.node, tuple(axes)), value.span)


@rule
def expand(maker: GraphMaker, value: Value) -> Value | None:
    """Axes of size one repeated."""
    if 1 not in value.node.shape:
        return None
    shape = tuple(maker.choose.pick((1, 2, 3, 6)) if e == 1 else e for e in value.node.shape)
    return Value(ops.expand(value.node, shape), value.span)


def steps_within(maker: GraphMaker, extent: int) -> tuple[int, int, int]:
    """Start, size and step of some elements of an axis."""
    size = maker.choose.number(0 if extent == 0 else 1, extent)
    if maker.choose.number(0, 3) == 0:
        size = extent
    if size == 0:
        return 0, 0, 1
    most = (extent - 1) // (size - 1) if size > 1 else 3
    step = maker.choose.number(1, max(most, 1)) * maker.choose.pick((1, 1, 1, -1))
    reach = (size - 1) * step
    start = maker.choose.number(max(0, -reach), extent - 1 - max(0, reach))
    return start, size, step


@rule
def slice_(maker: GraphMaker, value: Value) -> Value | None:
    """Some elements of every axis."""
    if not value.node.shape:
        return None
    found = [steps_within(maker, e) for e in value.node.shape]
    starts, sizes, steps = zip(*found)
    return Value(ops.slice_(value.node, starts, sizes, steps), value.span)


@rule
def flip(maker: GraphMaker, value: Value) -> Value:
    """Some axes backwards."""
    axes = tuple(a for a in range(len(value.node.shape)) if maker.choose.number(0, 1))
    return Value(ops.flip(value.node, axes), value.span)


@rule
def pad(maker: GraphMaker, value: Value) -> Value:
    """Fill before, after and between elements."""
    rank = len(value.node.shape)
    low, high, inner = (
        tuple(maker.choose.pick((0, 0, 1, 2)) for _ in range(rank)) for _ in range(3)
    )
    interior = tuple(i if e else 0 for i, e in zip(inner, value.node.shape))
    fill = maker.choose.pick((0, 1) if value.node.dtype.kind in "bu" else (0, 1, -2))
    span = Span(min(value.span.low, fill), max(value.span.high, fill), value.span.error)
    return Value(ops.pad(value.node, low, high, interior, fill), span)


@rule
def window(maker: GraphMaker, value: Value) -> Value | None:
    """Overlapping or repeated elements: shape and strides over the flattened value."""
    size = value.node.size
    if size == 0:
        return None
    shape: list[int] = []
    strides: list[int] = []
    room = size - 1
    for _ in range(maker.choose.number(1, 3)):
        stride = maker.choose.number(0, min(room, 12))
        extent = maker.choose.number(1, 1 + (min(room // stride, 12) if stride else 4))
        shape.append(extent)
        strides.append(stride)
        room -= (extent - 1) * stride
    offset = maker.choose.number(0, room)
    return Value(ops.window(value.node, tuple(shape), tuple(strides), offset), value.span)


@rule
def concat(maker: GraphMaker, value: Value) -> Value | None:
    """Several values one after the other."""
    shape = value.node.shape
    if not shape:
        return None
    axis = maker.choose.number(0, len(shape) - 1)
    parts = [value]
    for _ in range(maker.choose.number(1, 3)):
        other = (*shape[:axis], maker.choose.number(0, 4), *shape[axis + 1 :])
        same = maker.choose.number(0, 2) == 0
        parts.append(value if same else maker.leaf(other, value.node.dtype))
    spans = [p.span for p in parts]
    span = Span(min(s.low for s in spans), max(s.high for s in spans), max(s.error for s in spans))
    return Value(ops.concat([p.node for p in parts], axis), span)


# ------------------------------------------------------------------- folds


@rule
def reduce_(maker: GraphMaker, value: Value) -> Value | None:
    """A fold over some axes."""
    shape, dtype = value.node.shape, value.node.dtype
    axes = tuple(a for a in range(len(shape)) if maker.choose.number(0, 1))
    count = product(tuple(shape[a] for a in axes))
    if dtype is bool_:
        kind = maker.choose.pick(("any", "all"))
        return Value(ops.reduce_(kind, value.node, axes), Span(0, 1, 0))
    kind = maker.choose.pick(("sum", "sum", "prod", "max", "min"))
    span = fold_span(kind, value.span, count, value)
    return span and Value(ops.reduce_(kind, value.node, axes), span)


@rule
def arg_reduce(maker: GraphMaker, value: Value) -> Value | None:
    """The position of an extreme."""
    shape = value.node.shape
    if not shape or value.span.error:
        return None
    axis = maker.choose.number(0, len(shape) - 1)
    if shape[axis] == 0 or value.node.dtype is bool_:
        return None
    kind = maker.choose.pick(("argmax", "argmin"))
    return Value(ops.arg_reduce(kind, value.node, axis), Span(0, shape[axis] - 1, 0))


@rule
def scan(maker: GraphMaker, value: Value) -> Value | None:
    """A running fold."""
    shape = value.node.shape
    if not shape or value.node.dtype is bool_:
        return None
    axis = maker.choose.number(0, len(shape) - 1)
    kind = maker.choose.pick(("sum", "prod", "max", "min"))
    span = fold_span(kind, value.span, max(shape[axis], 1), value)
    return span and Value(ops.scan(kind, value.node, axis), span)


@rule
def contract(maker: GraphMaker, value: Value) -> Value | None:
    """A contraction with a new value that shares some axes."""
    node = value.node
    if node.dtype is bool_ or len(node.shape) > 4:
        return None
    left = list(range(len(node.shape)))
    shared = [label for label in left if maker.choose.number(0, 1)]
    summed = [label for label in shared if maker.choose.number(0, 2)]
    right = shared + [10 + n for n in range(maker.choose.number(0, 2))]
    extents = [node.shape[label] if label < 10 else maker.choose.number(1, 6) for label in right]
    out = [label for label in left + right[len(shared) :] if label not in summed]
    if maker.choose.number(0, 1):
        out.reverse()
    other = maker.leaf(tuple(extents), node.dtype)
    count = product(tuple(node.shape[label] for label in summed))
    a, b = value.span, other.span
    top = a.size * b.size * count
    if product(tuple(extents)) > LARGEST_SIZE:
        return None
    error = count * a.error * b.size + rounding(node.dtype, top, 2 + min(count, 200))
    low = -top if min(a.low, b.low) < 0 else 0
    made = ops.contract(node, other.node, tuple(left), tuple(right), tuple(out))
    return Value(made, Span(low, top, error))


# ----------------------------------------------------------- data-dependent


def index_of(maker: GraphMaker, extent: int) -> Value:
    """An integer value whose elements lie in ``0 .. extent - 1``."""
    dtype = maker.choose.pick((int64, int64, int32))
    shape = tuple(maker.choose.number(1, 5) for _ in range(maker.choose.number(0, 2)))
    raw = maker.leaf(shape, dtype)
    limit = ops.constant(extent, dtype)
    return Value(ops.apply("mod", raw.node, limit), Span(0, extent - 1, 0))


@rule
def gather(maker: GraphMaker, value: Value) -> Value | None:
    """Elements of an axis picked by an index."""
    shape = value.node.shape
    if not shape or 0 in shape:
        return None
    axis = maker.choose.number(0, len(shape) - 1)
    index = index_of(maker, shape[axis])
    return Value(ops.gather(value.node, index.node, axis), value.span)


@rule
def scatter(maker: GraphMaker, value: Value) -> Value | None:
    """Updates written or folded into places picked by an index."""
    shape, dtype = value.node.shape, value.node.dtype
    if not shape or 0 in shape:
        return None
    axis = maker.choose.number(0, len(shape) - 1)
    index = index_of(maker, shape[axis])
    updates = maker.leaf((*shape[:axis], *index.node.shape, *shape[axis + 1 :]), dtype)
    kinds = ("set",) if dtype is bool_ else ("set", "add", "mul", "max", "min")
    kind = maker.choose.pick(kinds)
    count = index.node.size + 1
    a, b = value.span, updates.span
    both = Span(min(a.low, b.low), max(a.high, b.high), max(a.error, b.error))
    span: Span | None = both
    if kind in ("add", "mul"):
        span = fold_span({"add": "sum", "mul": "prod"}[kind], both, count, value)
    made = ops.scatter(value.node, index.node, updates.node, axis, kind)
    return span and Value(made, span)


@rule
def update(maker: GraphMaker, value: Value) -> Value:
    """A value written into a strided part of another."""
    found = [steps_within(maker, e) for e in value.node.shape]
    starts, sizes, steps = (tuple(f[n] for f in found) for n in range(3))
    written = maker.leaf(sizes, value.node.dtype)
    a, b = value.span, written.span
    span = Span(min(a.low, b.low), max(a.high, b.high), max(a.error, b.error))
    return Value(ops.update(value.node, written.node, starts, steps), span)


@rule
def sort(maker: GraphMaker, value: Value) -> Value | None:
    """Rows in order, or the positions that put them in order."""
    shape = value.node.shape
    if not shape or shape[-1] == 0:
        return None
    kind = maker.choose.pick(("values", "order"))
    descending = bool(maker.choose.number(0, 1))
    if kind == "values":  # neighbours may change places within the error, values may not
        return Value(ops.sort(kind, value.node, descending), value.span)
    if value.span.error:
        return None
    return Value(ops.sort(kind, value.node, descending), Span(0, shape[-1] - 1, 0))
