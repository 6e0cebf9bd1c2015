"""Derivatives of eigenvalues, singular values and the matrix exponential.

Where eigenvalues or singular values coincide, their vectors have no derivative: there the terms
that would divide by zero are left out. Sources as in ``equation_gradients``.
"""

from __future__ import annotations

from lazyt import ops
from lazyt.errors import GradientError
from lazyt.ir.graph import Node
from lazyt.ops.library_rules import (
    Moves,
    Parts,
    PullBack,
    PushForward,
    only,
)
from lazyt.ops.matrix_algebra import (
    above,
    beside,
    column,
    columns,
    diagonal,
    guarded_reciprocal,
    matrix_of,
    minus,
    plus,
    product,
    row,
    rows,
    scaled,
    times,
    transpose,
)


def _gaps(values: Node) -> Node:
    """``1 / (values[j] - values[i])``, 0 where they are equal."""
    return guarded_reciprocal(minus(row(values), column(values)))


def _eigh_vectors(node: Node) -> tuple[Node, Node]:
    side = node.params.mode.removesuffix("values")
    values, vectors, _ = ops.library("eigh", node.inputs[0], mode=side)
    return values, vectors


def _eigh_vjp(node: Node, parts: Parts, given: Parts) -> Moves:
    values, vectors = _eigh_vectors(node)
    inner = matrix_of(given[0])
    if not node.params.mode.endswith("values"):
        turn = product(transpose(vectors), given[1])
        skew = scaled(minus(turn, transpose(turn)), 0.5)
        inner = plus(inner, times(skew, _gaps(values)))
    return [product(vectors, inner, transpose(vectors))]


def _eigh_jvp(node: Node, parts: Parts, tangents: Moves) -> Moves:
    values, vectors = _eigh_vectors(node)
    inner = product(transpose(vectors), only(tangents), vectors)
    if node.params.mode.endswith("values"):
        return [diagonal(inner)]
    return [diagonal(inner), product(vectors, times(inner, _gaps(values)))]


def _off_range(u: Node, x: Node) -> Node:
    """``(1 - u u^T) x``."""
    return minus(x, product(u, product(transpose(u), x)))


def _svd_vjp(node: Node, parts: Parts, given: Parts) -> Moves:
    m, n = node.inputs[0].shape[-2:]
    k = min(m, n)
    if node.params.mode == "values":
        u, _, vh, _ = ops.library("svd", node.inputs[0], mode="reduced")
        return [product(times(u, row(given[0])), vh)]
    u, s, vh = columns(parts[0], 0, k), parts[1], rows(parts[2], 0, k)
    gu, gs, gv = columns(given[0], 0, k), given[1], transpose(rows(given[2], 0, k))
    v = transpose(vh)
    gaps, inverse = _gaps(times(s, s)), guarded_reciprocal(s)
    left, right = product(transpose(u), gu), product(transpose(v), gv)
    inner = plus(
        times(times(minus(left, transpose(left)), gaps), row(s)),
        times(times(minus(right, transpose(right)), gaps), column(s)),
    )
    result = product(u, plus(inner, matrix_of(gs)), vh)
    if m > k:
        result = plus(result, product(times(_off_range(u, gu), row(inverse)), vh))
    if n > k:
        rest = transpose(_off_range(v, gv))
        result = plus(result, product(times(u, row(inverse)), rest))
    return [result]


def _svd_jvp(node: Node, parts: Parts, tangents: Moves) -> Moves:
    m, n = node.inputs[0].shape[-2:]
    da = only(tangents)
    if node.params.mode == "full" and m != n:
        raise GradientError("svd with full_matrices=True has no derivative of its extra vectors")
    u, s, vh, *_ = ops.library("svd", node.inputs[0], mode="reduced")
    if node.params.mode != "values":
        u, s, vh = parts[0], parts[1], parts[2]
    v = transpose(vh)
    inner = product(transpose(u), da, v)
    if node.params.mode == "values":
        return [diagonal(inner)]
    gaps, inverse = _gaps(times(s, s)), row(guarded_reciprocal(s))
    columns_scaled, rows_scaled = times(inner, row(s)), times(column(s), inner)
    du = product(u, times(plus(columns_scaled, transpose(columns_scaled)), gaps))
    dv = product(v, times(plus(rows_scaled, transpose(rows_scaled)), gaps))
    if m > n:
        du = plus(du, times(_off_range(u, product(da, v)), inverse))
    if n > m:
        dv = plus(dv, times(_off_range(v, product(transpose(da), u)), inverse))
    return [du, diagonal(inner), transpose(dv)]


# ------------------------------------------------------------------- exponential


def _exp_along(a: Node, direction: Node) -> Node:
    """The derivative of the exponential at ``a``: the corner of the exponential of
    ``[[a, direction], [0, a]]`` (Mathias, "A chain rule for matrix functions", 1996)."""
    n = a.shape[-1]
    block = above(beside(a, direction), beside(ops.zeros_like(a), a))
    (raised,) = ops.library("exp", block)
    return rows(columns(raised, n, n), 0, n)


def _exp_vjp(node: Node, parts: Parts, given: Parts) -> Moves:
    return [_exp_along(transpose(node.inputs[0]), given[0])]


def _exp_jvp(node: Node, parts: Parts, tangents: Moves) -> Moves:
    return [_exp_along(node.inputs[0], only(tangents))]


RULES: dict[str, tuple[PullBack, PushForward]] = {
    "eigh": (_eigh_vjp, _eigh_jvp),
    "svd": (_svd_vjp, _svd_jvp),
    "exp": (_exp_vjp, _exp_jvp),
}
