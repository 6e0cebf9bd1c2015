"""Values for nodes, finite differences, and kernel expressions evaluated at fixed indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lazyt import ops
from lazyt.ir.dtypes import DType, dtype_by_numpy, float64
from lazyt.ir.graph import Node, Shape
from lazyt.ir.index import Guarded, Linear, Position, constant
from lazyt.ir.scalar import Call, Const, Expr, const
from lazyt.ops.scalars import convert
from lazyt.runtime.interpreter import interpret, load, store
from lazyt.transforms.jvp import jvp
from lazyt.transforms.vjp import vjp

Build = Callable[..., Node]
STEP = 1e-5


class HostArray:
    """A NumPy array in the place of a runtime buffer."""

    place = ""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def as_numpy(self, dtype: DType, shape: Shape) -> np.ndarray:
        assert self.array.dtype == dtype.numpy and self.array.shape == shape
        return self.array


def leaf(array: Any, dtype: DType | None = None) -> Node:
    """An input with data; float arrays are stored as ``dtype`` when it is given."""
    array = np.ascontiguousarray(array).reshape(np.shape(array))
    if dtype is None:
        dtype = dtype_by_numpy(array.dtype)
        assert dtype is not None
    with np.errstate(over="ignore"):
        stored = store(array.astype(dtype.compute.numpy), dtype)
    return ops.input_(array.shape, dtype, HostArray(stored))


def value(node: Node) -> np.ndarray:
    """What ``node`` computes, in its compute type."""
    return load(interpret([node])[0], node.dtype)


def inner(node: Node, weights: np.ndarray) -> Node:
    """The sum of ``node * weights``: a scalar to differentiate."""
    product = ops.apply("mul", node, leaf(weights))
    return ops.reduce_("sum", product, range(len(node.shape)))


def differences(f: Callable[..., float], arrays: Sequence[np.ndarray], which: int) -> np.ndarray:
    """Central differences of ``f`` by every element of ``arrays[which]``."""
    out = np.zeros(arrays[which].shape)
    for at in np.ndindex(out.shape):
        ends = []
        for sign in (1, -1):
            moved = [a.copy() for a in arrays]
            moved[which][at] += sign * STEP
            ends.append(f(*moved))
        out[at] = (ends[0] - ends[1]) / (2 * STEP)
    return out


def gradients_of(build: Build, weights: np.ndarray, nodes: Sequence[Node]) -> list[Node]:
    """The gradients of ``inner(build(*nodes), weights)`` by the floating point nodes."""
    wanted = [n for n in nodes if n.dtype is float64]
    found = vjp([inner(build(*nodes), weights)], [ops.constant(1.0, float64)], wanted)
    return [ops.zeros_like(n) if g is None else g for n, g in zip(wanted, found)]


def check_first_order(build: Build, arrays: Sequence[np.ndarray], weights: np.ndarray) -> None:
    """vjp and jvp against central differences, in float64."""
    nodes = [leaf(a) for a in arrays]
    floating = [i for i, n in enumerate(nodes) if n.dtype is float64]

    def total(*moved: np.ndarray) -> float:
        return float(value(inner(build(*map(leaf, moved)), weights)))

    slopes = [differences(total, arrays, i) for i in floating]
    for found, slope in zip(gradients_of(build, weights, nodes), slopes):
        assert found.shape == slope.shape
        np.testing.assert_allclose(value(found), slope, rtol=2e-6, atol=2e-7)
    rng = np.random.default_rng(5)
    directions = [rng.standard_normal(arrays[i].shape) for i in floating]
    for only in (None, *range(len(floating))):
        tangents = [leaf(d) if only in (None, k) else None for k, d in enumerate(directions)]
        pushed = jvp([inner(build(*nodes), weights)], [nodes[i] for i in floating], tangents)[0]
        picked = [k for k in range(len(floating)) if only in (None, k)]
        expected = sum(float((slopes[k] * directions[k]).sum()) for k in picked)
        got = 0.0 if pushed is None else float(value(pushed))
        np.testing.assert_allclose(got, expected, rtol=2e-6, atol=2e-6)


def check_second_order(build: Build, arrays: Sequence[np.ndarray], weights: np.ndarray) -> None:
    """The derivative of the gradients: vjp of vjp and jvp of vjp against differences."""
    rng = np.random.default_rng(6)
    floating = [a for a in arrays if a.dtype == np.float64]
    coefficients = [rng.standard_normal(a.shape) for a in floating]

    def slope(*nodes: Node) -> Node:
        total = ops.constant(0.0, float64)
        for gradient, c in zip(gradients_of(build, weights, nodes), coefficients):
            total = ops.apply("add", total, inner(gradient, c))
        return total

    check_first_order(slope, arrays, np.ones(()))


def evaluate_expr(expr: Expr) -> Any:
    """A kernel expression without loop variables or loads, in NumPy."""
    with np.errstate(all="ignore"):
        if isinstance(expr, Const):
            return np.asarray(expr.value, expr.dtype.compute.numpy)
        if isinstance(expr, Position):
            return np.asarray(fixed(expr.index), expr.dtype.numpy)
        if isinstance(expr, Guarded):
            holds = all(g.low <= fixed(g.index) < g.high for g in expr.guards)
            return evaluate_expr(expr.value if holds else expr.other)
        assert isinstance(expr, Call)
        operands = [evaluate_expr(a) for a in expr.args]
        if expr.fn.name == "cast":
            return convert(operands[0], expr.args[0].dtype, expr.dtype)
        return np.asarray(expr.fn.evaluate(*operands))


def fixed(index: Linear) -> int:
    """The value of an index that depends on nothing."""
    assert not index.terms
    return index.const


def lowered(node: Node) -> np.ndarray:
    """``node`` computed element by element through its ``lower`` rule."""
    arrays = {item: value(item) for item in node.inputs}
    out = np.zeros(node.shape, node.dtype.compute.numpy)

    def read(item: Node, index: tuple[Linear, ...]) -> Expr:
        at = tuple(map(fixed, index))
        inside = len(at) == len(item.shape) and all(0 <= i < n for i, n in zip(at, item.shape))
        # A guarded value may be asked for outside, but must not be used there: NaN tells.
        return const(arrays[item][at].item() if inside else poison(item.dtype), item.dtype)

    assert callable(node.op.lower)
    for at in np.ndindex(node.shape):
        out[at] = evaluate_expr(node.op.lower(node, tuple(map(constant, at)), read))
    return out


def poison(dtype: DType) -> float:
    """A value that spoils what it takes part in."""
    return float("nan") if dtype.kind == "f" else 99
