"""Grows random valid graphs, with data, from the decisions of a ``Chooser``.

Every value carries a ``Span`` (see ``value_ranges``), which decides where functions may be applied
and how far two right implementations may differ. ``random_graphs`` makes graphs with it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from lazyt import ops
from lazyt.ir.dtypes import (
    ALL,
    DType,
    bfloat16,
    bool_,
    encode_bfloat16,
    float32,
    float64,
    int64,
    uint32,
)
from lazyt.ir.graph import Node, Shape
from lazyt.ir.kernel import BLOCK, LANES
from lazyt.ir.scalar import FUNCTIONS, Expr, arg, call
from lazyt.runtime.memory import Buffer
from lazyt.testing.value_ranges import (
    BINARY,
    COMPARISONS,
    UNARY,
    Span,
    binary_span,
    cast_span,
    settle,
    unary_span,
)

T = TypeVar("T")
LARGEST_SIZE = 4000
#: What kernels take at once: elements of a vector, lanes of a fold, steps of a block.
UNITS = (4, 8, 16, LANES, LANES, 2 * LANES, BLOCK)


class Chooser(Protocol):
    """Where random decisions come from."""

    def number(self, low: int, high: int) -> int:
        """A whole number in ``low .. high``, both included."""
        ...

    def pick(self, items: Sequence[T]) -> T:
        """One of ``items``."""
        ...


class SeededChooser:
    """Decisions of a seeded generator."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def number(self, low: int, high: int) -> int:
        """A whole number in ``low .. high``."""
        return self.random.randint(low, high)

    def pick(self, items: Sequence[T]) -> T:
        """One of ``items``."""
        return self.random.choice(items)


def long_extent(choose: Chooser, most: int) -> int:
    """An extent up to ``most`` by what is left of it behind whole vectors or blocks: one too many,
    one too few, none, or any number."""
    unit = choose.pick([unit for unit in UNITS if unit < most])
    rest = min(choose.pick((-1, -1, 0, 1, choose.number(0, unit - 1))), most - unit)
    times = choose.number(1, min((most - rest) // unit, 5))
    return unit * times + rest


@dataclass(frozen=True)
class Value:
    """A node and what is known about its elements."""

    node: Node
    span: Span


@dataclass(frozen=True)
class RandomGraph:
    """Results of a random graph, with a bound on the error of each."""

    roots: list[Node]
    errors: list[float]


def buffer_of(array: np.ndarray, dtype: DType) -> Buffer:
    """A buffer with the elements of ``array``, converted to ``dtype``."""
    stored = encode_bfloat16(array) if dtype is bfloat16 else array.astype(dtype.numpy)
    buffer = Buffer(stored.nbytes)
    buffer.as_numpy(dtype, stored.shape)[...] = stored
    return buffer


#: How a graph goes on from a value by one op; None where that does not fit.
Rule = Callable[["GraphMaker", Value], Value | None]


class GraphMaker:
    """Grows a graph one node at a time from the values made so far."""

    def __init__(self, chooser: Chooser) -> None:
        self.choose = chooser
        self.data = np.random.default_rng(chooser.number(0, 2**31))
        self.values: list[Value] = []

    # ------------------------------------------------------------------ leaves

    def shape(self) -> Shape:
        """Rank 0 to 4, small extents; now and then one is long, or empty."""
        rank = self.choose.pick((0, 1, 1, 2, 2, 2, 3, 3, 4))
        kind = self.choose.number(0, 19)
        if kind == 0:
            return (long_extent(self.choose, 2500),)
        if kind == 2:  # rows or columns of a matrix
            long, few = long_extent(self.choose, 1100), self.choose.pick((2, 3))
            return (few, long) if self.choose.number(0, 2) else (long, few)
        extents = (1, 2, 3, 4, 5, 7) if rank > 2 else (1, 2, 3, 5, 8, 17, 33)
        shape = [self.choose.pick(extents) for _ in range(rank)]
        if kind == 1 and rank:
            shape[self.choose.number(0, rank - 1)] = 0
        return tuple(shape)

    def array(self, shape: Shape, dtype: DType) -> tuple[np.ndarray, Span]:
        """Data of moderate size; floats are multiples of 1/8, which every float type holds."""
        if dtype is bool_:
            return self.data.integers(0, 2, shape).astype(bool), Span(0, 1, 0)
        low = 0 if dtype.kind == "u" else self.choose.pick((-9, -3, -1, 0, 1, 1, 2))
        high = low + self.choose.pick((1, 3, 9, 18))
        if dtype.kind != "f":
            return self.data.integers(low, high + 1, shape), Span(low, high, 0)
        eighths = self.data.integers(low * 2, high * 2 + 1, shape).astype(np.float32)
        return eighths / 8, Span(low / 4, high / 4, 0)

    def leaf(self, shape: Shape | None = None, dtype: DType | None = None) -> Value:
        """A new input with data."""
        shape = self.shape() if shape is None else shape
        if dtype is None:
            dtype = self.choose.pick((*ALL, *[float32] * 6, float64, float64, int64))
        array, span = self.array(shape, dtype)
        return Value(ops.input_(shape, dtype, buffer_of(array, dtype)), span)

    def constant(self) -> Value:
        """A rank-0 constant."""
        dtype = self.choose.pick(ALL)
        array, _ = self.array((), dtype)
        value = array.item()
        return Value(ops.constant(value, dtype), Span(float(value), float(value), 0))

    def iota(self) -> Value:
        """A counter."""
        dtype = self.choose.pick([t for t in ALL if t is not bool_])
        extent = self.choose.number(0, 20)
        return Value(ops.iota(extent, dtype), Span(0, max(extent - 1, 0), 0))

    def random(self) -> Value:
        """A few random bits per element, from a key of its own."""
        shape = self.shape()
        bits = ops.random(self.leaf((2,), uint32).node, shape)
        few = ops.apply("shift_right", bits, ops.constant(27, uint32))
        return Value(few, Span(0, 31, 0))

    def any(self, fits: Callable[[Value], bool] = lambda value: True) -> Value | None:
        """A value made before that fits, recent ones more often; None when there is none."""
        found = [v for v in self.values if fits(v)]
        if not found:
            return None
        first = len(found) // 2 if self.choose.number(0, 2) else 0
        return found[self.choose.number(first, len(found) - 1)]

    def other(self, value: Value) -> Value:
        """A value of the same type whose shape broadcasts with ``value``'s."""

        def fits(v: Value) -> bool:
            pairs = zip(reversed(v.node.shape), reversed(value.node.shape))
            return v.node.dtype is value.node.dtype and all(a == b or 1 in (a, b) for a, b in pairs)

        found = self.any(fits) if self.choose.number(0, 3) else None
        if found is not None:
            return found
        shape = value.node.shape[self.choose.number(0, len(value.node.shape)) :]
        return self.leaf(
            tuple(1 if self.choose.number(0, 4) == 0 else e for e in shape), value.node.dtype
        )

    # -------------------------------------------------------------- elementwise

    @staticmethod
    def names(names: Sequence[str], dtype: DType) -> list[str]:
        """The functions among ``names`` that take ``dtype``."""
        return [n for n in names if dtype.kind in FUNCTIONS[n].kinds]

    def unary(self) -> Value | None:
        """One function of one value."""
        value = self.any()
        if value is None:
            return None
        dtype = value.node.dtype
        fitting = {n: unary_span(n, value.span, dtype) for n in self.names(UNARY, dtype)}
        name = self.choose.pick([n for n, span in fitting.items() if span] or ["isnan"])
        span = fitting.get(name)
        return span and Value(ops.apply(name, value.node), span)

    def binary(self) -> Value | None:
        """One function of two values that broadcast."""
        left = self.any()
        if left is None:
            return None
        right = self.other(left)
        if self.choose.number(0, 1):
            left, right = right, left
        dtype = left.node.dtype
        arithmetic = [n for n in BINARY if n not in COMPARISONS]
        fitting = {
            n: binary_span(n, left.span, right.span, dtype) for n in self.names(arithmetic, dtype)
        }
        name = self.choose.pick([n for n, span in fitting.items() if span] or ["maximum"])
        span = fitting[name]
        return span and Value(ops.apply(name, left.node, right.node), span)

    def where(self) -> Value | None:
        """A choice between two values."""
        yes = self.any()
        if yes is None:
            return None
        no = self.other(yes)
        shape = np.broadcast_shapes(yes.node.shape, no.node.shape)
        test = self.any(lambda v: v.node.dtype is bool_ and v.node.shape in (shape, ()))
        test = test or self.leaf(shape, bool_)
        low, high = min(yes.span.low, no.span.low), max(yes.span.high, no.span.high)
        span = Span(low, high, max(yes.span.error, no.span.error))
        return Value(ops.apply("where", test.node, yes.node, no.node), span)

    def expression(self) -> Value | None:
        """A map of several functions, with parts used more than once."""
        left = self.any()
        if left is None:
            return None
        right = self.other(left)
        dtype = left.node.dtype
        parts: list[tuple[Expr, Span]] = [
            (arg(0, dtype), left.span),
            (arg(1, dtype), right.span),
        ]
        for _ in range(self.choose.number(2, 6)):
            name = self.choose.pick(self.names(UNARY + BINARY, dtype))
            picked = [self.choose.pick(parts) for _ in range(FUNCTIONS[name].arity)]
            if len(picked) == 1:
                span = unary_span(name, picked[0][1], dtype)
            else:
                span = binary_span(name, picked[0][1], picked[1][1], dtype)
            result = call(name, *(p[0] for p in picked))
            span = span and settle(span, dtype)
            if span is not None and result.dtype is dtype:
                parts.append((result, span))
        expr, span = parts[-1]
        return Value(ops.elementwise(expr, [left.node, right.node]), span)

    def cast(self) -> Value | None:
        """A conversion."""
        value = self.any()
        if value is None:
            return None
        target = self.choose.pick(ALL)
        span = cast_span(value.span, value.node.dtype, target)
        return span and Value(ops.cast(value.node, target), span)

    def comparison(self) -> Value | None:
        """A truth value, for ``where`` and logic."""
        left = self.any(lambda v: v.span.error == 0)
        if left is None:
            return None
        right = self.other(left)
        name = self.choose.pick(COMPARISONS)
        span = binary_span(name, left.span, right.span, left.node.dtype)
        return span and Value(ops.apply(name, left.node, right.node), span)

    def identity(self) -> Value | None:
        """A mark for gradients."""
        value = self.any()
        if value is None:
            return None
        if self.choose.number(0, 1):
            return Value(ops.detach(value.node), value.span)
        return Value(ops.variable(value.node, self.choose.number(10**6, 10**9)), value.span)

    # ------------------------------------------------------------------ growing

    def keep(self, value: Value | None) -> bool:
        """Keeps a new value unless it is too large to compare or to store."""
        if value is None or value.node.size > LARGEST_SIZE or len(value.node.shape) > 6:
            return False
        span = settle(value.span, value.node.dtype)
        if span is None or not math.isfinite(span.error):
            return False
        self.values.append(Value(value.node, span))
        return True

    def grow(self, count: int, structural: Sequence[Rule]) -> None:
        """Adds up to ``count`` nodes, those of structural ops by the rules given; attempts that do
        not fit are given up."""
        scalar = (self.unary, self.binary, self.binary, self.where, self.expression, self.cast,
                  self.comparison)  # fmt: skip
        leaves = (self.constant, self.iota, self.random, self.identity)
        self.keep(self.leaf())
        self.keep(self.leaf())
        for _ in range(count * 3):
            if len(self.values) >= count:
                break
            kind = self.choose.number(0, 19)
            if kind < 1:
                self.keep(self.leaf())
            elif kind < 3:
                self.keep(self.choose.pick(leaves)())
            elif kind < 10:
                self.keep(self.choose.pick(scalar)())
            else:
                value = self.any()
                rule = self.choose.pick(structural)
                self.keep(rule(self, value) if value else None)

    def finish(self) -> RandomGraph:
        """All values that nothing uses, as roots (some used ones too)."""
        used = {i for v in self.values for i in v.node.inputs}
        roots = [v for v in self.values if v.node not in used or self.choose.number(0, 9) == 0]
        return RandomGraph([v.node for v in roots], [v.span.error for v in roots])
