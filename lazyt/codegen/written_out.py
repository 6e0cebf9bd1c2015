"""Short reductions without a loop: their steps one after the other, in the order of a loop's."""

from __future__ import annotations

from lazyt.codegen.emitter import Emitter
from lazyt.ir.dtypes import int64
from lazyt.ir.graph import Node
from lazyt.ir.kernel import LANES
from lazyt.ir.scalar import Expr, call, const

FOLDS = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum",
         "any": "logical_or", "all": "logical_and"}  # fmt: skip


def fold_written_out(emitter: Emitter, kind: str, values: list[Expr], node: Node) -> Expr:
    """The fold of at most BLOCK values, in the order of ``reduction_levels``: lane ``k % LANES``
    folds its values in order, sums from the neutral element on, and lanes are folded by halves."""
    name = FOLDS[kind]
    lanes = values[:LANES]
    if kind == "sum" and node.dtype.kind == "f":
        lanes = [call(name, const(0.0, v.dtype), v) for v in lanes]
    for number, value in enumerate(values[LANES:]):
        lanes[number % LANES] = call(name, lanes[number % LANES], value)
    half = LANES // 2
    while half:
        for lane in range(half):
            if lane + half < len(lanes):
                lanes[lane] = call(name, lanes[lane], lanes[lane + half])
        lanes = lanes[:half]
        half //= 2
    return lanes[0]


def position_written_out(emitter: Emitter, kind: str, values: list[Expr]) -> Expr:
    """The first extreme among values written out; NaN counts as the extreme."""
    best, where = values[0], const(0, int64)
    for step, value in enumerate(values[1:], 1):
        better = call("gt" if kind == "argmax" else "lt", value, best)
        if value.dtype.kind == "f":
            nan = call("logical_and", call("ne", value, value), call("eq", best, best))
            better = call("logical_or", better, nan)
        named = emitter.name(better, *emitter.traits(better))
        where = call("where", named, const(step, int64), where)
        where = emitter.name(where, *emitter.traits(where))
        if step < len(values) - 1:
            best = call("where", named, value, best)
            best = emitter.name(best, *emitter.traits(best))
    return where
