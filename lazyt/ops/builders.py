"""The builders: for each op that rules build with, its parameters and the function that makes its
nodes, which checks and canonicalises.

They stand below the rules, because the rules of one op build nodes of others: the derivative of
``expand`` is a ``reduce``, that of ``reduce`` an ``expand``. What an op means, and how it is
differentiated, batched and lowered, is said in its block (``define_op``), in a module above.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lazyt.errors import DTypeError
from lazyt.ir.dtypes import DType, bool_, float16, int64, uint32
from lazyt.ir.graph import Head, Node, Shape, head_of, make, make_of
from lazyt.ir.scalar import (
    FUNCTIONS,
    Arg,
    Call,
    Const,
    Expr,
    Number,
    ScalarFunction,
    arg,
    call,
    const,
    real_number,
)
from lazyt.ops.registry import OPS

# ------------------------------------------------------------- constants and counters


def constant(value: Number, dtype: DType) -> Node:
    """A rank-0 constant, converted to ``dtype`` as a store would: integers wrap, floats round.

    Constants are equal when their types and bit patterns are: -0.0 is not 0.0, NaN equals NaN.
    """
    return make(OPS["const"], (), const(representable(value, dtype), dtype))


def representable(value: Number, dtype: DType) -> Number:
    """``value`` as an element of ``dtype`` holds it. Raises DTypeError for an integer of NaN, and
    InternalError for a real number of a complex one."""
    if dtype.kind == "c":
        return complex(value)
    value = real_number(value)
    if dtype.kind == "f":
        return round_half(float(value), dtype) if dtype.is_half else float(value)
    if dtype.kind == "b":
        return bool(value)
    if isinstance(value, float) and value != value:
        raise DTypeError(f"NaN is not a value of {dtype.name}")
    bits = dtype.itemsize * 8
    whole = int(value) & ((1 << bits) - 1)
    return whole - (1 << bits) if dtype.kind == "i" and whole >> (bits - 1) else whole


def round_half(value: float, dtype: DType) -> float:
    """``value`` rounded to float16 or bfloat16, nearest even, through float32."""
    with np.errstate(over="ignore"):
        single = float(np.float32(value))
        if dtype is float16:
            return float(np.float16(single))
    if single != single:
        return single
    bits = struct.unpack("<I", struct.pack("<f", single))[0]
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return float(struct.unpack("<f", struct.pack("<I", rounded))[0])


class IotaParams(NamedTuple):
    """``extent`` elements of type ``dtype``."""

    extent: int
    dtype: DType


def iota(extent: int, dtype: DType = int64) -> Node:
    """The rank-1 value 0, 1, ..., extent-1."""
    return make(OPS["iota"], (), IotaParams(extent, dtype))


# -------------------------------------------------------------------------------- map


def elementwise(expr: Expr, inputs: Sequence[Node]) -> Node:
    """``expr`` over the broadcast ``inputs``; Arg number i stands for input i.

    Raises DTypeError when an Arg has another type than its input, and ShapeError when the shapes
    do not broadcast.
    """
    return make(OPS["map"], tuple(inputs), expr)


_calls: dict[tuple[Any, ...], Head] = {}


def apply(name: str, *nodes: Node, dtype: DType | None = None) -> Node:
    """The scalar function ``name`` over the broadcast ``nodes``.

    ``dtype`` is the result's type where the function leaves it free (``cast``). Raises DTypeError
    for types that the function does not take, ShapeError for shapes that do not broadcast.
    """
    key = (name, dtype, *[n.dtype for n in nodes])
    head = _calls.get(key)
    if head is None:
        expr = _call_on(FUNCTIONS[name], [n.dtype for n in nodes], dtype)
        head = _calls[key] = head_of(OPS["map"], expr, len(nodes))
    return make_of(head, nodes)


def _call_on(function: ScalarFunction, dtypes: Sequence[DType], dtype: DType | None) -> Expr:
    """The checked call of ``function`` on Args of the given types."""
    name = function.name
    listed = ", ".join(t.name for t in dtypes)
    if len(dtypes) != function.arity:
        raise DTypeError(f"{name} takes {function.arity} arguments, not {len(dtypes)}")
    if name == "where" and dtypes[0] is not bool_:
        raise DTypeError(f"where: the condition must be bool, not {dtypes[0].name}")
    checked = dtypes[1:] if name == "where" else dtypes
    if name != "threefry" and any(t is not checked[0] for t in checked):
        raise DTypeError(f"{name} takes arguments of one type, not ({listed})")
    if any(t.kind not in function.kinds for t in checked):
        raise DTypeError(f"{name} does not take ({listed})")
    if name == "threefry":
        dtype = uint32
    elif (dtype is None) == (function.result == "free"):
        raise DTypeError(f"{name}: a result type is {'needed' if dtype is None else 'not taken'}")
    if name == "bitcast" and dtype is not None and dtype.itemsize != dtypes[0].itemsize:
        raise DTypeError(f"bitcast: {dtypes[0].name} and {dtype.name} are not of one size")
    return call(function, *(arg(i, t) for i, t in enumerate(dtypes)), dtype=dtype)


def cast(node: Node, dtype: DType) -> Node:
    """``node`` converted to ``dtype``; the node itself when it has that type."""
    return node if node.dtype is dtype else apply("cast", node, dtype=dtype)


def conj(node: Node) -> Node:
    """The complex conjugate; a real node itself."""
    return apply("conj", node) if node.dtype.kind == "c" else node


# --------------------------------------------------------------------------- movement


class ReshapeParams(NamedTuple):
    """The new shape."""

    shape: Shape


def reshape(node: Node, shape: Sequence[int]) -> Node:
    """The same elements in row-major order under another shape; raises ShapeError on a misfit."""
    shape = tuple(shape)
    return node if shape == node.shape else make(OPS["reshape"], (node,), ReshapeParams(shape))


class PermuteParams(NamedTuple):
    """Result axis i is operand axis ``axes[i]``."""

    axes: tuple[int, ...]


def permute(node: Node, axes: Sequence[int]) -> Node:
    """The axes reordered: result axis i is axis ``axes[i]`` of ``node``."""
    axes = tuple(axes)
    if axes == tuple(range(len(node.shape))):
        return node
    return make(OPS["permute"], (node,), PermuteParams(axes))


class ExpandParams(NamedTuple):
    """The new shape, of the operand's rank."""

    shape: Shape


def expand(node: Node, shape: Sequence[int]) -> Node:
    """Axes of size 1 repeated to the extents of ``shape``, which has the same rank."""
    shape = tuple(shape)
    return node if shape == node.shape else make(OPS["expand"], (node,), ExpandParams(shape))


def broadcast_to(node: Node, shape: Shape) -> Node:
    """``node`` repeated to ``shape`` under NumPy's rules (new axes come first)."""
    if node.shape == shape:
        return node
    ones = (1,) * (len(shape) - len(node.shape))
    return expand(reshape(node, (*ones, *node.shape)), shape)


class SliceParams(NamedTuple):
    """Element i of axis a is operand element ``starts[a] + i * steps[a]``."""

    starts: tuple[int, ...]
    sizes: tuple[int, ...]
    steps: tuple[int, ...]


def slice_(node: Node, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int]) -> Node:
    """Element i of axis a is element ``starts[a] + i * steps[a]``; steps may be negative, not 0."""
    params = SliceParams(tuple(starts), tuple(sizes), tuple(steps))
    whole = params.sizes == node.shape and not any(params.starts)
    if whole and all(step == 1 for step in params.steps):
        return node
    return make(OPS["slice"], (node,), params)


class FlipParams(NamedTuple):
    """Axes to reverse, ascending."""

    axes: tuple[int, ...]


def flip(node: Node, axes: Sequence[int]) -> Node:
    """The axes reversed; the node itself when there are none."""
    ordered = tuple(sorted(set(axes)))
    return make(OPS["flip"], (node,), FlipParams(ordered)) if ordered else node


class PadParams(NamedTuple):
    """Per axis: fill elements before, after, and between neighbours; ``fill`` as a literal."""

    low: tuple[int, ...]
    high: tuple[int, ...]
    interior: tuple[int, ...]
    fill: Const


def pad(
    node: Node, low: Sequence[int], high: Sequence[int], interior: Sequence[int], fill: Number
) -> Node:
    """``node`` amid fill elements: ``low`` before, ``high`` after, ``interior`` between neighbours.

    Widths are per axis and not negative (ShapeError); the meaning is that of XLA's Pad.
    """
    if not (any(low) or any(high) or any(interior)):
        return node
    literal = const(representable(fill, node.dtype), node.dtype)
    assert isinstance(literal, Const)
    return make(OPS["pad"], (node,), PadParams(tuple(low), tuple(high), tuple(interior), literal))


class ConcatParams(NamedTuple):
    """The axis along which the operands follow each other."""

    axis: int


def concat(nodes: Sequence[Node], axis: int) -> Node:
    """``nodes`` one after the other along ``axis``; other extents and types must agree."""
    return nodes[0] if len(nodes) == 1 else make(OPS["concat"], tuple(nodes), ConcatParams(axis))


class WindowParams(NamedTuple):
    """Element (i, j, ...) is flat element ``offset + i * strides[0] + j * strides[1] + ...``."""

    shape: Shape
    strides: tuple[int, ...]
    offset: int


def window(node: Node, shape: Sequence[int], strides: Sequence[int], offset: int) -> Node:
    """``as_strided`` over the row-major flattened ``node``: windows may overlap.

    Strides count elements and may be zero or negative. Raises BoundsError when an element lies
    outside of ``node``.
    """
    return make(OPS["window"], (node,), WindowParams(tuple(shape), tuple(strides), offset))


def row_major(shape: Shape) -> tuple[int, ...]:
    """The strides, in elements, of a contiguous value."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    return tuple(strides)


# -------------------------------------------------------------------- folds, products


class ReduceParams(NamedTuple):
    """``kind``: sum prod max min any all argmax argmin; ``axes`` ascending, removed."""

    kind: str
    axes: tuple[int, ...]


def reduce_(kind: str, node: Node, axes: Iterable[int]) -> Node:
    """``sum prod max min any all`` over ``axes``, which are removed; the type is kept.

    16-bit floats accumulate in float32; integers wrap. Raises DTypeError (any and all take bool,
    sum and prod do not) and ShapeError (max or min of no elements).
    """
    ordered = tuple(sorted(axes))
    return make(OPS["reduce"], (node,), ReduceParams(kind, ordered)) if ordered else node


def arg_reduce(kind: str, node: Node, axis: int) -> Node:
    """``argmax`` or ``argmin`` along ``axis``: int64, the first extreme; NaN is one (PyTorch)."""
    return make(OPS["reduce"], (node,), ReduceParams(kind, (axis,)))


def keepdim_shape(shape: Shape, axes: Sequence[int]) -> Shape:
    """``shape`` with ``axes`` of extent 1."""
    return tuple(1 if a in axes else n for a, n in enumerate(shape))


def sum_to(node: Node, shape: Shape) -> Node:
    """The inverse of broadcasting: ``node`` summed over the axes that ``shape`` was repeated on."""
    if node.shape == shape:
        return node
    new = len(node.shape) - len(shape)
    axes = [a for a, n in enumerate(node.shape) if a < new or (shape[a - new] == 1 and n != 1)]
    return reshape(reduce_("sum", node, axes), shape)


class ScanParams(NamedTuple):
    """``kind``: sum prod max min; the fold includes the element itself."""

    kind: str
    axis: int


def scan(kind: str, node: Node, axis: int) -> Node:
    """The inclusive running ``sum``, ``prod``, ``max`` or ``min`` along ``axis``; type kept.

    NaN stays once it is met. Raises DTypeError for bool.
    """
    return make(OPS["scan"], (node,), ScanParams(kind, axis))


Labels = tuple[int, ...]


class ContractParams(NamedTuple):
    """Integer labels of each axis; those in both operands and not in ``out`` are summed."""

    left: Labels
    right: Labels
    out: Labels


def contract(
    left: Node,
    right: Node,
    left_labels: Sequence[int],
    right_labels: Sequence[int],
    out_labels: Sequence[int],
) -> Node:
    """The sum of products over the labels that both operands have and the result has not.

    Labels work as in einsum: distinct within an operand; those of one operand only must be in the
    result. Types must agree and are kept; 16-bit floats accumulate in float32 and round once.
    Raises ShapeError and DTypeError.
    """
    params = ContractParams(tuple(left_labels), tuple(right_labels), tuple(out_labels))
    return make(OPS["contract"], (left, right), params)


# --------------------------------------------------------------------- indices, order


class GatherParams(NamedTuple):
    """The operand's axis that the index replaces; ``batch`` leading axes run along with it."""

    axis: int
    batch: int = 0


def gather(node: Node, index: Node, axis: int, batch: int = 0) -> Node:
    """Elements of ``axis`` by an integer ``index``, whose shape takes the axis' place.

    The first ``batch`` axes of both run together: row b of the index picks from row b. Positions
    out of range clamp. Raises DTypeError for an index that is not of an integer type.
    """
    return make(OPS["gather"], (node, index), GatherParams(axis, batch))


class ScatterParams(NamedTuple):
    """The axis that the index walks on, and how values meet: set add mul max min.

    ``batch`` leading axes of base and index run together.
    """

    axis: int
    kind: str
    batch: int = 0


def scatter(base: Node, index: Node, updates: Node, axis: int, kind: str, batch: int = 0) -> Node:
    """``base`` with ``updates`` written or folded in at positions ``index`` of ``axis``.

    ``updates`` has the shape of ``gather(base, index, axis, batch)``. Later duplicates win for
    ``set``; their gradient goes to all of them, as PyTorch's. Positions out of range clamp.
    Sums and products of 16-bit floats are taken in float32 and rounded once, like all others.
    Raises ShapeError and DTypeError.
    """
    if kind in ("add", "mul") and base.dtype.is_half:
        wide = base.dtype.compute
        found = scatter(cast(base, wide), index, cast(updates, wide), axis, kind, batch)
        return cast(found, base.dtype)
    return make(OPS["scatter"], (base, index, updates), ScatterParams(axis, kind, batch))


class UpdateParams(NamedTuple):
    """Element i of the value goes to ``starts + i * steps``."""

    starts: tuple[int, ...]
    steps: tuple[int, ...]


def update(base: Node, value: Node, starts: Sequence[int], steps: Sequence[int]) -> Node:
    """``base`` with ``value`` assigned to a slice: ``base[starts + i * steps] = value[i]``.

    Raises DTypeError when the types differ, BoundsError when the slice leaves ``base``.
    """
    return make(OPS["update"], (base, value), UpdateParams(tuple(starts), tuple(steps)))


class SortParams(NamedTuple):
    """``kind``: values or order (where each value comes from, int64); along the last axis."""

    kind: str
    descending: bool


def sort(kind: str, node: Node, descending: bool = False) -> Node:
    """Each row (along the last axis) of ``node`` in order: its ``values``, of the same type, or
    its ``order``, the int64 position in ``node`` of each of them.

    Equal elements keep their order, 0 and -0 are equal, and NaN is larger than everything, as
    torch.sort(stable=True). ``values`` is what ``order`` picks; of both, one kernel finds
    them together, and for one alone it does not pay for the other. Raises ShapeError without axes,
    DTypeError for complex numbers, which have no order.
    """
    if node.dtype.kind == "c":
        raise DTypeError("Sort does not support complex dtypes on CPU")
    return make(OPS["sort"], (node,), SortParams(kind, descending))


def match_call(node: Node) -> tuple[str | Node | float, ...] | None:
    """A map of one function, for passes to match: its name, and behind it each operand, a constant
    as its number, everything else as its node; None for all other nodes.

    ``x * 2`` and ``2 * x`` give ``("mul", x, 2.0)`` and ``("mul", 2.0, x)``. Numbers that are
    inputs of the plan are nodes: see ``compiler.Pass.needs_constants``.

    Example::

        match match_call(node):
            case ("mul", Node() as x, float(factor)) | ("mul", float(factor), Node() as x):
                ...
    """
    expr = node.params
    if node.op.name != "map" or not isinstance(expr, Call):
        return None
    found: list[str | Node | float] = [expr.fn.name]
    for part in expr.args:
        operand = node.inputs[part.index] if isinstance(part, Arg) else part
        if isinstance(operand, Node) and operand.op.name == "const":
            operand = operand.params
        if isinstance(operand, Const):
            found.append(real_number(operand.value))
        elif isinstance(operand, Node):
            found.append(operand)
        else:  # an expression in an expression
            return None
    return tuple(found)
