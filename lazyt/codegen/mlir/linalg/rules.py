"""Every op of a graph as loops over tensors that mean the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce

from lazyt.codegen.mlir.functions import cast, expression, is_nan, position, precedes, threefry
from lazyt.codegen.mlir.linalg.builder import FOLDS, Builder, Numbers, Operand, loops, type_of
from lazyt.codegen.mlir.moves import flip, reshape, unchanged
from lazyt.codegen.mlir.text import extreme, identity, numbers, uniform
from lazyt.ir.dtypes import DType, bool_, int64, running_dtype, uint32
from lazyt.ir.graph import Node, Shape
from lazyt.ir.scalar import Number
from lazyt.ops.builders import row_major

Rule = Callable[[Builder, Node], str]


def _operand(p: Builder, node: Node, where: Sequence[str] | None = None) -> Operand:
    """A node as it is read, by loops that are its axes unless others are given."""
    if where is None:
        where = loops(range(len(node.shape)))
    return Operand(p.name(node), node.shape, node.dtype, where)


# ------------------------------------------------------------------- numbers and views


def _broadcast(p: Builder, node: Node, rank: int) -> Operand:
    """Read in a nest of ``rank`` loops by NumPy's rules."""
    first = rank - len(node.shape)
    where = ["0" if extent == 1 else f"d{first + n}" for n, extent in enumerate(node.shape)]
    return _operand(p, node, where)


def _map(p: Builder, node: Node) -> str:
    same = [uniform(item, p.names) for item in node.inputs]
    read = [
        _broadcast(p, item, len(node.shape))
        for item, number in zip(node.inputs, same)
        if number is None
    ]

    def body(a: Numbers, args: Sequence[str]) -> str:
        rest = iter(args)
        given = [a.constant(n.value, n.dtype) if n is not None else next(rest) for n in same]
        return expression(a, node.params, given)

    return p.elementwise(node.shape, node.dtype, read, body)


def _stored(a: Numbers, value: str, old: DType, new: DType) -> str:
    """A number of type ``old`` as the graph stores it in another."""
    return a.convert(cast(a, value, old, new), new.compute, new)


def _iota(p: Builder, node: Node) -> str:
    def body(a: Numbers, _: Sequence[str]) -> str:
        return _stored(a, a.position(0), int64, node.dtype)

    return p.elementwise(node.shape, node.dtype, [], body)


def _permute(p: Builder, node: Node) -> str:
    (source,) = node.inputs
    out = p.nothing(node.shape, node.dtype)
    return p.lines.add(
        f"linalg.transpose ins({p.name(source)} : {type_of(source)}) outs({out} : "
        f"{type_of(node)}) permutation = {numbers(node.params.axes)}"
    )


def _expand(p: Builder, node: Node) -> str:
    return p.moved(_broadcast(p, node.inputs[0], len(node.shape)), node.shape)


def _widths(steps: Sequence[int], shape: Shape) -> list[int]:
    """Steps, forwards; 1 where there is one element."""
    return [abs(step) if extent > 1 else 1 for step, extent in zip(steps, shape)]


def _slice(p: Builder, node: Node) -> str:
    (source,) = node.inputs
    starts, _, steps = node.params
    steps = [step if extent > 1 else 1 for step, extent in zip(steps, node.shape)]
    make = p.stepped if min(steps, default=1) < 0 else p.extract_slice
    return make(p.name(source), source.shape, node.shape, node.dtype, starts, steps)


def _pad(p: Builder, node: Node) -> str:
    low, _, interior, fill = node.params
    (source,) = node.inputs
    if not source.size:
        return p.constant(fill.value, fill.dtype, node.shape)
    steps = _widths([width + 1 for width in interior], source.shape)
    return _placed(p, _operand(p, source), fill.value, node.shape, low, steps)


def _placed(
    p: Builder, value: Operand, fill: Number, shape: Shape, low: Sequence[int],
    steps: Sequence[int],
) -> str:  # fmt: skip
    """Elements amid a fill, from ``low`` on; with steps between them put over a tensor of it."""
    name, old, dtype, _ = value
    if old == shape:
        return name
    if any(step != 1 for step in steps):
        return p.insert_slice(name, p.filled(fill, dtype, shape), old, shape, dtype, low, steps)
    high = [whole - first - extent for whole, first, extent in zip(shape, low, old)]
    return p.pad(name, fill, old, shape, dtype, low, high)


def _concat(p: Builder, node: Node) -> str:
    parts = [item for item in node.inputs if item.size]
    return p.lines.add(
        f"tensor.concat dim({node.params.axis}) {', '.join(map(p.name, parts))} : "
        f"({', '.join(map(type_of, parts))}) -> {type_of(node)}"
    )


def _update(p: Builder, node: Node) -> str:
    """The value amid other elements, chosen where it is; not put over the base, as not all
    compilers see who reads that later."""
    base, value = node.inputs
    if not value.size:
        return p.name(base)
    starts, steps = node.params
    dtype, shape, extents = base.dtype, base.shape, value.shape
    back = [axis for axis, step in enumerate(steps) if step < 0 and extents[axis] > 1]
    low = [
        start + (extent - 1) * step if axis in back else start
        for axis, (start, step, extent) in enumerate(zip(starts, steps, extents))
    ]
    steps = _widths(steps, extents)
    made = Operand(p.reverse(p.name(value), back, extents, dtype), extents, dtype, [])
    own = loops(range(len(shape)))
    placed = Operand(_placed(p, made, 0, shape, low, steps), shape, dtype, own)

    def body(a: Numbers, args: Sequence[str]) -> str:
        tests = []
        for axis, (first, step, extent) in enumerate(zip(low, steps, extents)):
            last = first + (extent - 1) * step
            place = a.position(axis)
            if first > 0:
                tests.append(a.compare("ge", place, a.constant(first, int64), int64))
            if last < shape[axis] - 1:
                tests.append(a.compare("le", place, a.constant(last, int64), int64))
            if step > 1:
                count = a.apply("sub", [place, a.constant(first, int64)], int64)
                rest = a.apply("rem", [count, a.constant(step, int64)], int64)
                tests.append(a.compare("eq", rest, a.constant(0, int64), int64))
        if not tests:
            return args[0]
        hit = reduce(lambda x, y: a.apply("bitwise_and", [x, y], bool_), tests)
        return a.select(hit, args[0], args[1], dtype)

    return p.elementwise(shape, dtype, [placed, _operand(p, base)], body)


# ---------------------------------------------------------------- values at positions


def _window(p: Builder, node: Node) -> str:
    """Picked from the flat value by positions that are computed."""
    (source,) = node.inputs
    shape, strides, offset = node.params
    flat = p.reshape(p.name(source), source.shape, (source.size,), source.dtype)

    def body(a: Numbers, _: Sequence[str]) -> str:
        at = a.index(p.all_positions(a, shape, strides, offset))
        return a.extract(flat, [at], (source.size,), source.dtype)

    return p.elementwise(shape, node.dtype, [], body)


def _gather(p: Builder, node: Node) -> str:
    source, index = node.inputs
    axis, batch = node.params
    inner = len(index.shape) - batch
    # Of the result: batch axes, the axes before, those of the index, the axes after.
    where = loops([*range(batch), *range(axis, axis + inner)])

    def body(a: Numbers, args: Sequence[str]) -> str:
        found = a.index(position(a, args[0], index.dtype, source.shape[axis]))
        at = [
            found if n == axis else a.at(n if n < axis else n - 1 + inner)
            for n in range(len(source.shape))
        ]
        return a.extract(p.name(source), at, source.shape, source.dtype)

    return p.elementwise(node.shape, node.dtype, [_operand(p, index, where)], body)


def _scatter(p: Builder, node: Node) -> str:
    """A fold, for each element of the base, over all of the index; then the base meets it."""
    base, index, updates = node.inputs
    axis, kind, batch = node.params
    if not updates.size:
        return p.name(base)
    if kind == "set":
        return _written(p, node)
    rank, extent = len(base.shape), base.shape[axis]
    inner = loops(range(rank, rank + len(index.shape) - batch))
    outer = loops(range(rank))
    by = _operand(p, index, [*outer[:batch], *inner])
    values = _operand(p, updates, [*outer[:axis], *inner, *outer[axis + 1 :]])
    dtype = base.dtype.compute
    nothing, how = identity(kind, dtype), FOLDS[kind]
    out = Operand(p.filled(nothing, dtype, base.shape), base.shape, dtype, outer)

    def body(a: Numbers, args: Sequence[str]) -> str:
        at, new, old = args
        hit = a.compare("eq", position(a, at, index.dtype, extent), a.position(axis), int64)
        value = a.convert(new, base.dtype, dtype)
        return a.apply(how, [old, a.select(hit, value, a.constant(nothing, dtype), dtype)], dtype)

    found = p.generic(rank + len(inner), len(inner), [by, values], out, body)

    def met(a: Numbers, args: Sequence[str]) -> str:
        pair = [a.convert(args[0], base.dtype, dtype), args[1]]
        return a.convert(a.apply(how, pair, dtype), dtype, base.dtype)

    both = [_operand(p, base), Operand(found, base.shape, dtype, outer)]
    return p.elementwise(base.shape, base.dtype, both, met)


def _written(p: Builder, node: Node) -> str:
    """What is written last of the updates, where there is one: first its position is found."""
    base, index, updates = node.inputs
    axis, _, batch = node.params
    inner = index.shape[batch:]
    rank, lead = len(inner), batch + 1
    shape = (*index.shape[:batch], base.shape[axis])
    where = loops([*range(batch), *range(lead, lead + rank)])
    start = p.filled(-1, int64, shape)
    out = Operand(start, shape, int64, loops(range(lead)))

    def last(a: Numbers, args: Sequence[str]) -> str:
        at = position(a, args[0], index.dtype, base.shape[axis])
        strides = [*[0] * lead, *row_major(inner)]
        own = p.all_positions(a, (*shape, *inner), strides, 0)
        hit = a.compare("eq", at, a.position(batch), int64)
        return a.apply(
            "maximum", [args[1], a.select(hit, own, a.constant(-1, int64), int64)], int64
        )

    found = p.generic(lead + rank, rank, [_operand(p, index, where)], out, last)
    # The updates with the index's axes as one.
    flat = (*base.shape[:axis], math.prod(inner), *base.shape[axis + 1 :])
    values = p.reshape(p.name(updates), updates.shape, flat, updates.dtype)
    chosen = Operand(found, shape, int64, loops([*range(batch), axis]))

    def body(a: Numbers, args: Sequence[str]) -> str:
        at, old = args
        zero = a.constant(0, int64)
        own = a.index(a.apply("maximum", [at, zero], int64))
        places = [own if n == axis else a.at(n) for n in range(len(base.shape))]
        new = a.extract(values, places, flat, updates.dtype)
        return a.select(a.compare("ge", at, zero, int64), new, old, base.dtype)

    return p.elementwise(base.shape, base.dtype, [chosen, _operand(p, base)], body)


# ------------------------------------------------------------------------------- folds


def _reduce(p: Builder, node: Node) -> str:
    (source,) = node.inputs
    kind, axes = node.params
    if kind in ("argmax", "argmin"):
        return _extreme_position(p, node)
    dtype = source.dtype.compute
    left = [axis for axis in range(len(source.shape)) if axis not in axes]

    def body(a: Numbers, args: Sequence[str]) -> str:
        return a.convert(args[0], source.dtype, dtype)

    found = p.reduce(kind, _operand(p, source), left, node.shape, dtype, body)
    return p.converted(found, node.shape, dtype, node.dtype)


def _extreme_position(p: Builder, node: Node) -> str:
    """The least position of what equals the extreme, or is no number."""
    (source,) = node.inputs
    kind, (axis,) = node.params
    dtype, stored = source.dtype.compute, source.dtype
    rank = len(source.shape)
    left = [n for n in range(rank) if n != axis]

    def wide(a: Numbers, args: Sequence[str]) -> str:
        return a.convert(args[0], stored, dtype)

    found = p.reduce(kind[3:], _operand(p, source), left, node.shape, dtype, wide)
    where = ["d" + str(rank - 1 if n == axis else left.index(n)) for n in range(rank)]
    most = Operand(found, node.shape, dtype, loops(range(rank - 1)))
    beyond = extreme("min", int64)
    out = Operand(p.filled(beyond, int64, node.shape), node.shape, int64, most.where)

    def body(a: Numbers, args: Sequence[str]) -> str:
        value = wide(a, args)
        hit = a.compare("eq", value, args[1], dtype)
        if dtype.kind == "f":
            hit = a.apply("bitwise_or", [hit, is_nan(a, value, dtype)], bool_)
        at = a.select(hit, a.position(rank - 1), a.constant(beyond, int64), int64)
        return a.apply("minimum", [args[2], at], int64)

    return p.generic(rank, 1, [_operand(p, source, where), most], out, body)


def _scan(p: Builder, node: Node) -> str:
    """Each element with the one before it, then with the two before that, four, eight and so on:
    as many steps as the extent's logarithm, in the type that running folds are kept in."""
    (source,) = node.inputs
    kind, axis = node.params
    shape, dtype = node.shape, node.dtype
    wide, own = running_dtype(kind, dtype).compute, loops(range(len(node.shape)))

    def widened(a: Numbers, args: Sequence[str]) -> str:
        return a.convert(a.convert(args[0], dtype, dtype.compute), dtype.compute, wide)

    def stored(a: Numbers, args: Sequence[str]) -> str:
        return a.convert(a.convert(args[0], wide, dtype.compute), dtype.compute, dtype)

    made = p.name(source)
    if dtype is not wide:
        made = p.elementwise(shape, wide, [_operand(p, source)], widened)
    width = 1
    while width < shape[axis]:
        made = _doubled(p, FOLDS[kind], Operand(made, shape, wide, own), axis, width)
        width *= 2
    if dtype is wide:
        return made
    return p.elementwise(shape, dtype, [Operand(made, shape, wide, own)], stored)


def _doubled(p: Builder, fold: str, value: Operand, axis: int, width: int) -> str:
    """Each element folded with the one ``width`` before it; a new tensor, as not all
    compilers see that a slice is read after it is written over."""
    name, shape, dtype, own = value

    def body(a: Numbers, args: Sequence[str]) -> str:
        zero = a.constant(0, int64)
        back = a.apply("sub", [a.position(axis), a.constant(width, int64)], int64)
        some = a.compare("ge", back, zero, int64)
        before = a.index(a.apply("maximum", [back, zero], int64))
        at = [before if n == axis else a.at(n) for n in range(len(own))]
        met = a.apply(fold, [a.extract(name, at, shape, dtype), args[0]], dtype)
        return a.select(some, met, args[0], dtype)

    return p.elementwise(shape, dtype, [value], body)


def _is_matmul(a: Sequence[int], b: Sequence[int], out: Sequence[int]) -> bool:
    """Whether labels are those of the rows of one matrix with the columns of another."""
    return len(a) == len(b) == len(out) == 2 and a[1] == b[0] and (a[0], b[1]) == tuple(out)


def _contract(p: Builder, node: Node) -> str:
    left, right = node.inputs
    a, b, out = node.params
    stored, dtype = left.dtype, left.dtype.compute
    spent = [x for x in a if x in b and x not in out]
    labels = [*out, *spent]
    start = p.filled(identity("sum", dtype), dtype, node.shape)
    if stored is dtype and dtype.kind != "b" and _is_matmul(a, b, out):
        kinds = f"{type_of(left)}, {type_of(right)}"
        return p.lines.add(
            f"linalg.matmul ins({p.name(left)}, {p.name(right)} : {kinds}) outs({start} : "
            f"{type_of(node)}) -> {type_of(node)}"
        )
    operands = [
        _operand(p, item, loops([labels.index(x) for x in own]))
        for item, own in ((left, a), (right, b))
    ]
    result = Operand(start, node.shape, dtype, loops(range(len(out))))

    def body(n: Numbers, args: Sequence[str]) -> str:
        pair = [n.convert(value, stored, dtype) for value in args[:2]]
        return n.apply("add", [args[2], n.apply("mul", pair, dtype)], dtype)

    made = p.generic(len(labels), len(spent), operands, result, body)
    return p.converted(made, node.shape, dtype, node.dtype)


# ---------------------------------------------------------------- orders and random bits


def _sort(p: Builder, node: Node) -> str:
    """Every element's rank is the number of those that come before it; the order is its inverse.

    Stable, with zeros equal and NaN larger than everything.
    """
    (source,) = node.inputs
    shape, dtype, rank = source.shape, source.dtype.compute, len(source.shape)
    row, other = loops(range(rank - 1)), f"d{rank}"
    own = [*row, f"d{rank - 1}"]
    zero = identity("sum", int64)

    def count(a: Numbers, args: Sequence[str]) -> str:
        x, y = (a.convert(value, source.dtype, dtype) for value in args[:2])
        if node.params.descending:
            x, y = y, x
        earlier = a.compare("lt", a.position(rank), a.position(rank - 1), int64)
        # The other comes first where it is before, or where it stands first and is not behind.
        behind, before = precedes(a, x, y, dtype), precedes(a, y, x, dtype)
        tied = a.apply("bitwise_and", [earlier, a.apply("bitwise_not", [behind], bool_)], bool_)
        first = a.apply("bitwise_or", [before, tied], bool_)
        return a.apply("add", [args[2], a.convert(first, bool_, int64)], int64)

    start = Operand(p.filled(zero, int64, shape), shape, int64, own)
    both = [_operand(p, source, own), _operand(p, source, [*row, other])]
    ranks = p.generic(rank + 1, 1, both, start, count)

    def inverse(a: Numbers, args: Sequence[str]) -> str:
        hit = a.compare("eq", args[0], a.position(rank - 1), int64)
        at = a.select(hit, a.position(rank), a.constant(zero, int64), int64)
        return a.apply("add", [args[1], at], int64)

    start = Operand(p.filled(zero, int64, shape), shape, int64, own)
    by = Operand(ranks, shape, int64, [*row, other])
    order = p.generic(rank + 1, 1, [by], start, inverse)
    if node.params.kind == "order":
        return order

    def pick(a: Numbers, args: Sequence[str]) -> str:
        at = [*(a.at(n) for n in range(rank - 1)), a.index(args[0])]
        return a.extract(p.name(source), at, shape, source.dtype)

    return p.elementwise(shape, source.dtype, [Operand(order, shape, int64, own)], pick)


def _random(p: Builder, node: Node) -> str:
    (key,) = node.inputs
    words = [
        Operand(p.reshape(word, (1,), (), uint32), (), uint32, [])
        for word in (
            p.extract_slice(p.name(key), key.shape, (1,), uint32, [number], [1])
            for number in (0, 1)
        )
    ]

    def body(a: Numbers, args: Sequence[str]) -> str:
        at = p.all_positions(a, node.shape, row_major(node.shape), 0)
        return threefry(a, [*args, at], int64)

    return p.elementwise(node.shape, node.dtype, words, body)


RULES: dict[str, Rule] = {
    "map": _map, "iota": _iota, "variable": unchanged, "detach": unchanged, "put": unchanged,
    "reshape": reshape, "permute": _permute, "expand": _expand, "flip": flip,
    "slice": _slice, "pad": _pad, "concat": _concat, "window": _window, "update": _update,
    "gather": _gather, "scatter": _scatter, "reduce": _reduce, "scan": _scan,
    "contract": _contract, "sort": _sort, "random": _random,
}  # fmt: skip
