"""Every op of a graph as operations of StableHLO that mean the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lazyt.codegen.mlir.functions import expression, is_nan, position, precedes, threefry
from lazyt.codegen.mlir.moves import flip, reshape, unchanged
from lazyt.codegen.mlir.stablehlo.builder import Builder, type_of
from lazyt.codegen.mlir.text import SIGNED, extreme, identity, numbers, tensor, uniform
from lazyt.ir.dtypes import DType, bool_, int32, int64, running_dtype, uint32
from lazyt.ir.graph import Node, Shape
from lazyt.ops.builders import row_major

Rule = Callable[[Builder, Node], str]


# ------------------------------------------------------------------- numbers and views


def _map(p: Builder, node: Node) -> str:
    args = []
    for item in node.inputs:
        number = uniform(item, p.names)
        if number is not None:
            args.append(p.constant(number.value, number.dtype, node.shape))
        else:
            args.append(p.broadcast(p.name(item), item.shape, node.shape, item.dtype))
    return expression(p.on(node.shape), node.params, args)


def _iota(p: Builder, node: Node) -> str:
    return p.on(node.shape).iota(0, node.dtype)


def _permute(p: Builder, node: Node) -> str:
    (source,) = node.inputs
    text = f"transpose {p.name(source)}, dims = {numbers(node.params.axes)}"
    return p.changed(text, source.shape, node.shape, node.dtype)


def _expand(p: Builder, node: Node) -> str:
    (source,) = node.inputs
    return p.broadcast(p.name(source), source.shape, node.shape, node.dtype)


def _slice(p: Builder, node: Node) -> str:
    """Backwards along an axis: the same elements forwards, reversed."""
    (source,) = node.inputs
    parts = []
    for start, size, step in zip(*node.params):
        low = start + (size - 1) * step if step < 0 else start
        width = abs(step) or 1
        parts.append(f"{low}:{low + (size - 1) * width + 1}:{width}")
    text = f"slice {p.name(source)} [{', '.join(parts)}]"
    made = p.changed(text, source.shape, node.shape, node.dtype)
    back = [axis for axis, step in enumerate(node.params.steps) if step < 0]
    return p.reverse(made, back, node.shape, node.dtype)


def _pad(p: Builder, node: Node) -> str:
    low, high, interior, fill = node.params
    (source,) = node.inputs
    if not source.size:
        return p.constant(fill.value, fill.dtype, node.shape)
    number = p.constant(fill.value, fill.dtype, ())
    widths = low, high, interior
    return p.pad(p.name(source), number, source.shape, node.shape, node.dtype, widths)


def _concat(p: Builder, node: Node) -> str:
    parts = [item for item in node.inputs if item.size]
    types = ", ".join(map(type_of, parts))
    return p.lines.add(
        f"stablehlo.concatenate {', '.join(map(p.name, parts))}, dim = {node.params.axis} : "
        f"({types}) -> {type_of(node)}"
    )


def _update(p: Builder, node: Node) -> str:
    """The value amid other elements of the base, chosen by a mask."""
    base, value = node.inputs
    starts, steps = node.params
    if not value.size:
        return p.name(base)
    back = [axis for axis, step in enumerate(steps) if step < 0]
    made = p.reverse(p.name(value), back, value.shape, value.dtype)
    low = [
        start + (extent - 1) * step if step < 0 else start
        for start, step, extent in zip(starts, steps, value.shape)
    ]
    interior = [abs(step) - 1 if extent > 1 else 0 for step, extent in zip(steps, value.shape)]
    high = [
        whole - first - (extent - 1) * (gap + 1) - 1
        for whole, first, extent, gap in zip(base.shape, low, value.shape, interior)
    ]
    widths = low, high, interior
    zero, no = p.constant(0, value.dtype, ()), p.constant(False, bool_, ())
    placed = p.pad(made, zero, value.shape, base.shape, value.dtype, widths)
    hits = p.constant(True, bool_, value.shape)
    mask = p.pad(hits, no, value.shape, base.shape, bool_, widths)
    return p.on(base.shape).select(mask, placed, p.name(base), base.dtype)


# ---------------------------------------------------------------- values at positions


def _row_major(p: Builder, shape: Shape, strides: Sequence[int], offset: int) -> str:
    """``offset + i * strides[0] + j * strides[1] + ...`` in int64."""
    a = p.on(shape)
    found = a.constant(offset, int64)
    for axis, stride in enumerate(strides):
        if stride and shape[axis] > 1:
            step = a.apply("mul", [a.iota(axis, int64), a.constant(stride, int64)], int64)
            found = a.apply("add", [found, step], int64)
    return found


def _window(p: Builder, node: Node) -> str:
    """Picked from the flat value by positions that are computed."""
    (source,) = node.inputs
    flat = p.reshape(p.name(source), source.shape, (source.size,), source.dtype)
    at = _row_major(p, *node.params)
    return _picked(p, node, (flat, (source.size,)), (at, node.shape), 0, 0)


def _gather(p: Builder, node: Node) -> str:
    source, index = node.inputs
    axis, batch = node.params
    extent = source.shape[axis]
    at = position(p.on(index.shape), p.name(index), index.dtype, extent)
    return _picked(p, node, (p.name(source), source.shape), (at, index.shape), axis, batch)


def _picked(
    p: Builder, node: Node, value: tuple[str, Shape], index: tuple[str, Shape], axis: int,
    batch: int,
) -> str:  # fmt: skip
    """A gather by an index in int64."""
    (name, of), (at, by) = value, index
    inner = len(by) - batch
    rest = [n for n in range(len(of)) if n >= batch and n != axis]
    # Of the result: batch axes, the axes before, those of the index, the axes after.
    offsets = [n if n < axis else n - 1 + inner for n in rest]
    sizes = [1 if n == axis or n < batch else extent for n, extent in enumerate(of)]
    batching = ""
    if batch:
        some = numbers(range(batch))
        batching = f"operand_batching_dims = {some}, start_indices_batching_dims = {some}, "
    types = f"({tensor(of, SIGNED[node.dtype.name])}, {tensor(by, 'i64')}) -> {type_of(node)}"
    return p.lines.add(
        f'"stablehlo.gather"({name}, {at}) <{{dimension_numbers = #stablehlo.gather<'
        f"offset_dims = {numbers(offsets)}, collapsed_slice_dims = [{axis}], {batching}"
        f"start_index_map = [{axis}], index_vector_dim = {len(by)}>, slice_sizes = "
        f"array<i64: {', '.join(map(str, sizes))}>, indices_are_sorted = false}}> : {types}"
    )


def _scatter(p: Builder, node: Node) -> str:
    base, index, updates = node.inputs
    axis, kind, batch = node.params
    if not updates.size:
        return p.name(base)
    at = position(p.on(index.shape), p.name(index), index.dtype, base.shape[axis])
    inner = len(index.shape) - batch
    rest = [n for n in range(len(base.shape)) if n >= batch and n != axis]
    windows = [n if n < axis else n - 1 + inner for n in rest]
    batching = ""
    if batch:
        some = numbers(range(batch))
        batching = f"input_batching_dims = {some}, scatter_indices_batching_dims = {some}, "
    types = f"({type_of(base)}, {tensor(index.shape, 'i64')}, {type_of(updates)})"
    made = p.lines.add(
        f'"stablehlo.scatter"({p.name(base)}, {at}, {p.name(updates)}) '
        f"<{{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = "
        f"{numbers(windows)}, inserted_window_dims = [{axis}], {batching}"
        f"scatter_dims_to_operand_dims = [{axis}], index_vector_dim = {len(index.shape)}>, "
        "indices_are_sorted = false, unique_indices = false}>"
    )
    p.fold_region(kind, base.dtype, f"{types} -> {type_of(node)}")
    return made


# ------------------------------------------------------------------------------- folds


def _reduce(p: Builder, node: Node) -> str:
    (source,) = node.inputs
    kind, axes = node.params
    if kind in ("argmax", "argmin"):
        return _extreme_position(p, node)
    dtype = source.dtype.compute
    value = p.on(source.shape).convert(p.name(source), source.dtype, dtype)
    found = p.reduce(kind, value, source.shape, axes, dtype)
    return p.on(node.shape).convert(found, dtype, node.dtype)


def _extreme_position(p: Builder, node: Node) -> str:
    """The least position of what equals the extreme, or is no number."""
    (source,) = node.inputs
    kind, (axis,) = node.params
    dtype, shape, a = source.dtype.compute, source.shape, p.on(source.shape)
    value = a.convert(p.name(source), source.dtype, dtype)
    if dtype is bool_:
        value, dtype = a.convert(value, bool_, int32), int32
    found = p.reduce(kind[3:], value, shape, [axis], dtype)
    single = tuple(1 if n == axis else extent for n, extent in enumerate(shape))
    spread = p.reshape(found, node.shape, single, dtype)
    spread = p.broadcast(spread, single, shape, dtype)
    hit = a.compare("eq", value, spread, dtype)
    if dtype.kind == "f":
        hit = a.apply("bitwise_or", [hit, is_nan(a, value, dtype)], bool_)
    at = a.select(hit, a.iota(axis, int64), a.constant(extreme("min", int64), int64), int64)
    return p.reduce("min", at, shape, [axis], int64)


def _scan(p: Builder, node: Node) -> str:
    """A fold over windows that end at each element, in the type that running folds are kept in."""
    kind, axis = node.params
    shape, a = node.shape, p.on(node.shape)
    wide = running_dtype(kind, node.dtype).compute
    value = a.convert(p.name(node.inputs[0]), node.dtype, node.dtype.compute)
    value = a.convert(value, node.dtype.compute, wide)
    element = SIGNED[wide.name]
    whole = tensor(shape, element)
    start = p.constant(identity(kind, wide), wide, ())
    window = [shape[axis] if n == axis else 1 for n in range(len(shape))]
    pads = ", ".join(f"[{extent - 1}, 0]" for extent in window)
    ones = ", ".join("1" for _ in shape)
    made = p.lines.add(
        f'"stablehlo.reduce_window"({value}, {start}) <{{window_dimensions = array<i64: '
        f"{', '.join(map(str, window))}>, window_strides = array<i64: {ones}>, "
        f"base_dilations = array<i64: {ones}>, window_dilations = array<i64: {ones}>, "
        f"padding = dense<[{pads}]> : tensor<{len(shape)}x2xi64>}}>"
    )
    p.fold_region(kind, wide, f"({whole}, {tensor((), element)}) -> {whole}")
    return a.convert(a.convert(made, wide, node.dtype.compute), node.dtype.compute, node.dtype)


def _contract(p: Builder, node: Node) -> str:
    left, right = node.inputs
    a, b, out = node.params
    dtype = left.dtype.compute
    names = [p.on(x.shape).convert(p.name(x), x.dtype, dtype) for x in node.inputs]
    batch = [x for x in a if x in b and x in out]
    spent = [x for x in a if x in b and x not in out]
    order = [*batch, *(x for x in a if x not in b), *(x for x in b if x not in a)]
    extents = dict(zip((*a, *b), (*left.shape, *right.shape)))
    element = SIGNED[dtype.name]
    shape = tuple(extents[x] for x in order)

    def axes(labels: Sequence[int], of: Sequence[int]) -> str:
        return numbers([labels.index(x) for x in of])

    together = f"batching_dims = {axes(a, batch)} x {axes(b, batch)}, " if batch else ""
    types = ", ".join(tensor(item.shape, element) for item in node.inputs)
    made = p.lines.add(
        f"stablehlo.dot_general {names[0]}, {names[1]}, {together}contracting_dims = "
        f"{axes(a, spent)} x {axes(b, spent)}, precision = [HIGHEST, HIGHEST] : ({types}) -> "
        f"{tensor(shape, element)}"
    )
    turned = [order.index(x) for x in out]
    if turned != sorted(turned):
        made = p.changed(f"transpose {made}, dims = {numbers(turned)}", shape, node.shape, dtype)
    return p.on(node.shape).convert(made, dtype, node.dtype)


# ---------------------------------------------------------------- orders and random bits


def _sort(p: Builder, node: Node) -> str:
    """Stable, with zeros equal and NaN larger than everything."""
    (source,) = node.inputs
    shape, a = source.shape, p.on(source.shape)
    value, stored = p.name(source), source.dtype
    if stored is bool_:
        value, stored = a.convert(value, bool_, int32), int32
    elif stored.is_half:
        value, stored = a.convert(value, stored, stored.compute), stored.compute
    axis = len(shape) - 1
    scalar, place = tensor((), SIGNED[stored.name]), tensor((), "i64")
    at = a.iota(axis, int64)
    types = f"{tensor(shape, SIGNED[stored.name])}, {tensor(shape, 'i64')}"
    made = p.lines.name()
    p.lines.write(
        f'{made}:2 = "stablehlo.sort"({value}, {at}) <{{dimension = {axis} : i64, '
        "is_stable = true}>"
    )
    x, y, *unused = [p.lines.name() for _ in range(4)]
    arguments = [(x, scalar), (y, scalar), *((name, place) for name in unused)]
    with p.region(arguments, f"({types}) -> ({types})"):
        pair = (y, x) if node.params.descending else (x, y)
        before = precedes(p.on(()), *pair, stored)
        p.lines.write(f"stablehlo.return {before} : tensor<i1>")
    if node.params.kind == "order":
        return f"{made}#1"
    return _stored(p, f"{made}#0", node.shape, stored, source.dtype)


def _stored(p: Builder, value: str, shape: Shape, old: DType, new: DType) -> str:
    if new is bool_:
        return p.on(shape).compare("ne", value, p.constant(0, old, shape), old)
    return p.on(shape).convert(value, old, new)


def _random(p: Builder, node: Node) -> str:
    (key,) = node.inputs
    words = []
    for number in (0, 1):
        text = f"slice {p.name(key)} [{number}:{number + 1}:1]"
        part = p.reshape(p.changed(text, (2,), (1,), uint32), (1,), (), uint32)
        words.append(p.broadcast(part, (), node.shape, uint32))
    at = _row_major(p, node.shape, row_major(node.shape), 0)
    return threefry(p.on(node.shape), [*words, at], int64)


RULES: dict[str, Rule] = {
    "map": _map, "iota": _iota, "variable": unchanged, "detach": unchanged, "put": unchanged,
    "reshape": reshape, "permute": _permute, "expand": _expand, "flip": flip,
    "slice": _slice, "pad": _pad, "concat": _concat, "window": _window, "update": _update,
    "gather": _gather, "scatter": _scatter, "reduce": _reduce, "scan": _scan,
    "contract": _contract, "sort": _sort, "random": _random,
}  # fmt: skip
