"""Samples of every structural op: operands that it takes, and operands that it must refuse.

Float operands are chosen away from kinks unless a sample is about them, so that finite differences
apply. Every operand may be batched, singly and together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lazyt import ops
from lazyt.ir.dtypes import bool_, float32, float64, int32, int64, uint32
from lazyt.ir.graph import Node, make
from lazyt.ir.scalar import arg, call, const
from lazyt.ops.builders import (
    ContractParams,
    ExpandParams,
    FlipParams,
    IotaParams,
    PermuteParams,
    ReshapeParams,
    SliceParams,
)
from lazyt.ops.leaves import IOTA, RANDOM, RandomParams
from lazyt.ops.movement import (
    EXPAND,
    FLIP,
    PERMUTE,
    RESHAPE,
    SLICE,
)
from lazyt.ops.reduction import CONTRACT
from lazyt.transforms.vjp import vjp


class Sample(NamedTuple):
    """``build`` over leaves that hold ``arrays`` makes the node under test."""

    name: str
    op: str
    build: Callable[..., Node]
    arrays: tuple[np.ndarray, ...]


class Refusal(NamedTuple):
    """``build`` must raise one of the library's errors for operands of these types."""

    name: str
    op: str
    build: Callable[[], Node]


SAMPLES: list[Sample] = []
REFUSALS: list[Refusal] = []


def sample(op: str, name: str, build: Callable[..., Node], *arrays: Any) -> None:
    """Register a sample; shapes stand for random float64 arrays."""
    rng = np.random.default_rng([len(SAMPLES), 17])
    made = [rng.uniform(0.4, 1.9, a) if isinstance(a, tuple) else np.asarray(a) for a in arrays]
    SAMPLES.append(Sample(f"{op}-{name}", op, build, tuple(made)))


def refuse(op: str, name: str, build: Callable[[], Node]) -> None:
    """Register operands that the op must refuse."""
    REFUSALS.append(Refusal(f"{op}-{name}", op, build))


def blank(shape: tuple[int, ...], dtype: Any = float64) -> Node:
    """A leaf without data."""
    return ops.input_(shape, dtype)


def gradients(node: Node, inputs: Sequence[Node]) -> list[Node]:
    """Of the sum of squares, where there are any."""
    wanted = [n for n in inputs if n.dtype.kind == "f"]
    if node.dtype.kind != "f" or not wanted or isinstance(node.op.vjp, tuple):
        return []
    total = ops.reduce_("sum", ops.apply("mul", node, node), range(len(node.shape)))
    found = vjp([total], [ops.constant(1.0, node.dtype)], wanted)
    return [g for g in found if g is not None and g.size]


# ------------------------------------------------------------------------------ leaves
sample("const", "float", lambda: ops.constant(2.5, float64))
sample("const", "wraps", lambda: ops.constant(-1, uint32))
sample("iota", "int", lambda: ops.iota(5))
sample("iota", "float", lambda: ops.iota(4, float32))
sample("iota", "empty", lambda: ops.iota(0))
sample("input", "itself", lambda x: x, (2, 3))
sample("random", "bits", lambda k: ops.random(k, (2, 3)), np.array([7, 11], np.uint32))
sample("variable", "identity", lambda x: ops.variable(x, 3), (2, 3))
sample("detach", "identity", lambda x: ops.detach(x), (2,))
sample("put", "identity", lambda x: ops.put(x, "cuda:emu"), (2, 3))
sample("transfer", "there", lambda x: ops.transfer(x, "cuda:emu"), (2, 3))
sample("transfer", "back", lambda x: ops.transfer(ops.transfer(x, "cuda:emu"), ""), (3,))
refuse("const", "nan", lambda: ops.constant(float("nan"), int32))
refuse("iota", "negative", lambda: make(IOTA, (), IotaParams(-1, int64)))
refuse("random", "shape", lambda: ops.random(blank((3,), uint32), (2,)))
refuse("random", "type", lambda: make(RANDOM, (blank((2,), int64),), RandomParams((2,))))

# --------------------------------------------------------------------------------- map


def _fused(x: Node, y: Node) -> Node:
    a, b = arg(0, x.dtype), arg(1, y.dtype)
    product = call("mul", call("exp", a), b)
    return ops.elementwise(call("where", call("gt", a, b), product, call("div", a, b)), [x, y])


def _through_float64(x: Node) -> Node:
    wide = call("cast", arg(0, x.dtype), dtype=float64)
    return ops.elementwise(call("cast", call("mul", wide, wide), dtype=x.dtype), [x])


sample("map", "fused", _fused, (2, 3), (2, 3))
sample("map", "broadcast", _fused, (2, 1), (3,))
sample("map", "scalar", lambda x, y: ops.apply("mul", x, y), (2, 2), ())
sample("map", "same", lambda x: ops.apply("mul", x, x), (3,))
sample("map", "one-reads", lambda x, y: ops.apply("add", x, y), (1, 3), (2, 1))
sample("map", "constant", lambda: ops.elementwise(const(2, float64), []))
sample("map", "cast", _through_float64, (2,))
refuse("map", "shapes", lambda: ops.apply("add", blank((2,)), blank((3,))))
refuse("map", "types", lambda: ops.apply("add", blank((2,)), blank((2,), float32)))
refuse("map", "kind", lambda: ops.apply("bitwise_and", blank((2,)), blank((2,))))
refuse("map", "condition", lambda: ops.apply("where", blank(()), blank(()), blank(())))
refuse("map", "arguments", lambda: ops.elementwise(arg(1, float64), [blank((2,))]))
refuse("map", "arity", lambda: ops.apply("add", blank((2,))))

# ---------------------------------------------------------------------------- movement
sample("reshape", "merge", lambda x: ops.reshape(x, (3, 4)), (2, 3, 2))
sample("reshape", "scalar", lambda x: ops.reshape(x, ()), (1, 1))
sample("permute", "cycle", lambda x: ops.permute(x, (2, 0, 1)), (2, 3, 2))
sample("expand", "two", lambda x: ops.expand(x, (2, 3, 2)), (2, 1, 1))
sample("slice", "steps", lambda x: ops.slice_(x, (1, 4), (2, 2), (2, -3)), (5, 6))
sample("slice", "one", lambda x: ops.slice_(x, (2, 0), (1, 3), (-4, 2)), (3, 6))
sample("slice", "empty", lambda x: ops.slice_(x, (0, 0), (0, 2), (1, 1)), (2, 2))
sample("flip", "both", lambda x: ops.flip(x, (0, 2)), (2, 2, 3))
_pad = ((1, 0, 2), (0, 2, 1), (1, 0, 2))
sample("pad", "interior", lambda x: ops.pad(x, *_pad, 1.5), (2, 3, 2))
sample("pad", "empty", lambda x: ops.pad(x, (1, 0), (1, 0), (2, 0), 2), (0, 2))
sample("concat", "axis1", lambda x, y, z: ops.concat([x, y, z], 1), (2, 2), (2, 0), (2, 3))
refuse("reshape", "size", lambda: make(RESHAPE, (blank((3,)),), ReshapeParams((2, 2))))
refuse("permute", "axes", lambda: make(PERMUTE, (blank((2, 2)),), PermuteParams((0, 0))))
refuse("expand", "extent", lambda: make(EXPAND, (blank((2,)),), ExpandParams((4,))))
refuse("slice", "bounds", lambda: make(SLICE, (blank((3,)),), SliceParams((1,), (3,), (1,))))
refuse("slice", "step", lambda: make(SLICE, (blank((3,)),), SliceParams((1,), (2,), (0,))))
refuse("flip", "axis", lambda: make(FLIP, (blank((2,)),), FlipParams((1,))))
refuse("pad", "negative", lambda: ops.pad(blank((3,)), (-1,), (0,), (0,), 0))
refuse("concat", "extent", lambda: ops.concat([blank((2, 2)), blank((3, 3))], 1))
refuse("concat", "type", lambda: ops.concat([blank((2,)), blank((2,), float32)], 0))
sample("window", "slides", lambda x: ops.window(x, (2, 3, 3), (10, 2, 1), 1), (2, 10))
_image = ((2, 2, 3, 3, 2), (25, 10, 1, 5, 2), 0)
sample("window", "image", lambda x: ops.window(x, *_image), (2, 5, 5))
sample("window", "diagonal", lambda x: ops.window(x, (3,), (4,), 0), (3, 3))
sample("window", "repeats", lambda x: ops.window(x, (2, 3, 2), (0, 2, 1), 1), (7,))
sample("window", "backwards", lambda x: ops.window(x, (3, 2), (-2, 1), 4), (6,))
sample("window", "carries", lambda x: ops.window(x, (4, 2), (2, 1), 0), (3, 3))
sample("window", "block", lambda x: ops.window(x, (2, 1, 3), (4, 7, 1), 5), (3, 4))
refuse("window", "bounds", lambda: ops.window(blank((5,)), (3, 3), (2, 1), 0))
refuse("window", "rank", lambda: ops.window(blank((5,)), (3, 3), (2,), 0))

# -------------------------------------------------------------------------- reductions
for _kind in ("sum", "prod", "max", "min"):
    sample("reduce", f"{_kind}-all", lambda x, k=_kind: ops.reduce_(k, x, (0, 1)), (3, 2))
    sample("reduce", f"{_kind}-outer", lambda x, k=_kind: ops.reduce_(k, x, (0, 2)), (2, 2, 3))
    sample("scan", f"{_kind}-last", lambda x, k=_kind: ops.scan(k, x, 1), (2, 5))
    sample("scan", f"{_kind}-first", lambda x, k=_kind: ops.scan(k, x, 0), (4, 2))
_zeros = np.array([[0.0, 1.5, 2.0], [0.0, 0.7, 0.0], [1.1, 0.6, 1.3]])
sample("reduce", "prod-zeros", lambda x: ops.reduce_("prod", x, (1,)), _zeros)
sample("reduce", "prod-empty", lambda x: ops.reduce_("prod", x, (0,)), (0, 2))
sample("reduce", "sum-int8", lambda x: ops.reduce_("sum", x, (0,)), np.full((3,), 100, np.int8))
sample("reduce", "argmax", lambda x: ops.arg_reduce("argmax", x, 1), (2, 4))
sample("reduce", "argmin", lambda x: ops.arg_reduce("argmin", x, 0), np.array([3, 1, 1]))
_flags = np.array([[True, False], [True, True]])
sample("reduce", "any", lambda x: ops.reduce_("any", x, (0,)), _flags)
sample("reduce", "all", lambda x: ops.reduce_("all", x, (0, 1)), _flags)
sample("scan", "prod-zeros", lambda x: ops.scan("prod", x, 1), _zeros)
sample("scan", "prod-long", lambda x: ops.scan("prod", x, 0), (9,))
refuse("reduce", "axis", lambda: ops.reduce_("sum", blank((2,)), (1,)))
refuse("reduce", "any-float", lambda: ops.reduce_("any", blank((2,)), (0,)))
refuse("reduce", "sum-bool", lambda: ops.reduce_("sum", blank((2,), bool_), (0,)))
refuse("reduce", "max-empty", lambda: ops.reduce_("max", blank((0, 2)), (0,)))
refuse("scan", "axis", lambda: ops.scan("sum", blank((2,)), 1))
refuse("scan", "bool", lambda: ops.scan("sum", blank((2,), bool_), 0))

# ----------------------------------------------------------------------------- sorting
_ties = np.array([[2, 1, 2, 1, 1], [0, 3, 0, 3, 3]])
for _down in (False, True):
    for _kind in ("values", "order"):
        _name = f"{_kind}-{'down' if _down else 'up'}"
        _build = lambda x, k=_kind, d=_down: ops.sort(k, x, d)  # noqa: E731
        sample("sort", _name, _build, (2, 3, 4))
        sample("sort", f"{_name}-ties", _build, _ties)
sample("sort", "one-row", lambda x: ops.sort("values", x), (6,))
sample("sort", "empty", lambda x: ops.sort("values", x), (2, 0))
refuse("sort", "number", lambda: ops.sort("values", blank(())))

# ------------------------------------------------------------------------ contractions
sample(
    "contract", "matmul", lambda a, b: ops.contract(a, b, (0, 1), (1, 2), (0, 2)), (2, 3), (3, 2)
)
sample(
    "contract",
    "batched",
    lambda a, b: ops.contract(a, b, (7, 0, 1), (2, 7, 1), (2, 7, 0)),
    (2, 2, 3),
    (2, 2, 3),
)
sample("contract", "outer", lambda a, b: ops.contract(a, b, (0,), (1,), (1, 0)), (2,), (3,))
sample("contract", "dot", lambda a, b: ops.contract(a, b, (0, 1), (1, 0), ()), (2, 3), (3, 2))
sample("contract", "square", lambda a: ops.contract(a, a, (0, 1), (2, 1), (0, 2)), (2, 3))
_ab = (blank((2, 3)), blank((4, 2)))
refuse("contract", "extent", lambda: ops.contract(*_ab, (0, 1), (1, 2), (0, 2)))
refuse("contract", "lost", lambda: ops.contract(*_ab, (0, 1), (2, 3), (0, 2)))
refuse("contract", "twice", lambda: ops.contract(*_ab, (0, 0), (2, 3), (0, 2, 3)))
refuse(
    "contract",
    "type",
    lambda: make(CONTRACT, (blank((2,)), blank((2,), float32)), ContractParams((0,), (0,), ())),
)

# ---------------------------------------------------------------------------- indexing
_rows = np.array([[2, 0], [2, 1]])
sample("gather", "first", lambda x, i: ops.gather(x, i, 0), (3, 2), _rows)
sample("gather", "middle", lambda x, i: ops.gather(x, i, 1), (2, 3, 2), _rows)
sample("gather", "one", lambda x, i: ops.gather(x, i, 0), (4,), np.array(2))
sample("gather", "clamps", lambda x, i: ops.gather(x, i, 0), (3, 2), np.array([-5, 7, 1]))
_pick = np.array([2, 0, 1])
sample("gather", "row by row", lambda x, i: ops.gather(x, i, 1, 1), (3, 4), _pick)
sample("gather", "rows of two", lambda x, i: ops.gather(x, i, 2, 1), (2, 2, 3), _rows[:2])
sample("gather", "rows, one each", lambda x, i: ops.gather(x, i, 2, 1), (2, 3, 4, 2), _pick[:2])
sample("gather", "bytes", lambda x, i: ops.gather(x, i, 0), (3,), np.array([1, 250], np.uint8))
sample("gather", "empty", lambda x, i: ops.gather(x, i, 0), (3,), np.zeros((0,), np.int64))
for _kind in ("add", "mul", "max", "min"):
    sample(
        "scatter",
        _kind,
        lambda b, i, u, k=_kind: ops.scatter(b, i, u, 1, k),
        (2, 4, 2),
        np.array([3, 0, 3]),
        (2, 3, 2),
    )
_once = np.array([[3, 0], [1, 2]])
sample(
    "scatter",
    "row by row",
    lambda b, i, u: ops.scatter(b, i, u, 2, "add", 1),
    (3, 2, 4),
    np.array([[0, 0], [3, 1], [2, 2]]),
    (3, 2, 2),
)
sample("scatter", "set", lambda b, i, u: ops.scatter(b, i, u, 0, "set"), (5, 2), _once, (2, 2, 2))
sample(
    "scatter",
    "mul-zeros",
    lambda b, i, u: ops.scatter(b, i, u, 0, "mul"),
    (3,),
    np.array([0, 0, 1, 2]),
    (4,),
)
sample(
    "scatter",
    "last-wins",
    lambda b, i, u: ops.scatter(b, i, u, 0, "set"),
    np.arange(3),
    np.array([1, 1]),
    np.array([8, 9]),
)
sample("update", "steps", lambda b, v: ops.update(b, v, (4, 0), (-2, 3)), (5, 6), (2, 2))
sample("update", "empty", lambda b, v: ops.update(b, v, (0,), (1,)), (3,), (0,))
_i3 = (blank((3,), int64), blank((2,)))
refuse("gather", "float", lambda: ops.gather(blank((3,)), blank((2,)), 0))
refuse("gather", "axis", lambda: ops.gather(blank((3,)), _i3[0], 1))
refuse("gather", "nothing", lambda: ops.gather(blank((0,)), _i3[0], 0))
refuse("scatter", "shape", lambda: ops.scatter(blank((4,)), *_i3, 0, "add"))
refuse("scatter", "type", lambda: ops.scatter(blank((4,)), _i3[0], _i3[0], 0, "add"))
refuse("update", "bounds", lambda: ops.update(blank((3,)), _i3[1], (2,), (1,)))
refuse("update", "type", lambda: ops.update(blank((3,)), _i3[0], (0,), (1,)))
