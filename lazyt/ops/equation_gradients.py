"""Derivatives of library routines for linear equations, determinants and inverses.

They follow from the differentials of the defining equations (Giles, "An extended
collection of matrix derivative results for forward and reverse mode algorithmic differentiation",
2008; Walter, Lehmann, "Algorithmic differentiation of linear algebra functions with application in
optimum experimental design", 2012).
"""

from __future__ import annotations

from lazyt import ops
from lazyt.ir.graph import Node
from lazyt.ops.library_rules import (
    Moves,
    Parts,
    PullBack,
    PushForward,
    added,
    only,
    substitute,
    turned,
)
from lazyt.ops.matrix_algebra import (
    column,
    lower,
    minus,
    plus,
    product,
    scaled,
    times,
    total,
    transpose,
    upper,
)

# ------------------------------------------------------------------- linear equations


def _triangle(x: Node, mode: str) -> Node:
    offset = 1 if mode.endswith("unit") else 0
    return upper(x, offset) if mode.startswith("upper") else lower(x, -offset)


def _triangular_vjp(node: Node, parts: Parts, given: Parts) -> Moves:
    a, _ = node.inputs
    mode = node.params.mode
    back = substitute(transpose(a), given[0], turned(mode))
    return [scaled(_triangle(product(back, transpose(parts[0])), mode), -1), back]


def _triangular_jvp(node: Node, parts: Parts, tangents: Moves) -> Moves:
    da, db = tangents
    mode = node.params.mode
    moved = None if da is None else scaled(product(_triangle(da, mode), parts[0]), -1)
    return [substitute(node.inputs[0], added(db, moved), mode)]


def _solve_vjp(node: Node, parts: Parts, given: Parts) -> Moves:
    back = ops.library("solve", transpose(node.inputs[0]), given[0])[0]
    return [scaled(product(back, transpose(parts[0])), -1), back]


def _solve_jvp(node: Node, parts: Parts, tangents: Moves) -> Moves:
    da, db = tangents
    moved = None if da is None else scaled(product(da, parts[0]), -1)
    return [ops.library("solve", node.inputs[0], added(db, moved))[0]]


def _inv_vjp(node: Node, parts: Parts, given: Parts) -> Moves:
    turned = transpose(parts[0])
    return [scaled(product(turned, given[0], turned), -1)]


def _inv_jvp(node: Node, parts: Parts, tangents: Moves) -> Moves:
    return [scaled(product(parts[0], only(tangents), parts[0]), -1)]


def _det_vjp(node: Node, parts: Parts, given: Parts) -> Moves:
    (slopes,) = ops.library("cofactors", node.inputs[0])
    return [times(column(column(given[0])), slopes)]


def _det_jvp(node: Node, parts: Parts, tangents: Moves) -> Moves:
    (slopes,) = ops.library("cofactors", node.inputs[0])
    change = total(times(slopes, only(tangents)))
    return [ops.reshape(change, parts[0].shape)]


def _second_minors(node: Node, cofactors: Node, change: Node) -> Node:
    """The differential of the cofactors, which is symmetric in the two directions."""
    (size,) = ops.library("det", node.inputs[0])
    along = times(total(times(cofactors, change)), cofactors)
    across = product(cofactors, transpose(change), cofactors)
    return ops.apply("div", minus(along, across), column(column(size)))


def _cofactors_vjp(node: Node, parts: Parts, given: Parts) -> Moves:
    return [_second_minors(node, parts[0], given[0])]


def _cofactors_jvp(node: Node, parts: Parts, tangents: Moves) -> Moves:
    return [_second_minors(node, parts[0], only(tangents))]


def _slogdet_vjp(node: Node, parts: Parts, given: Parts) -> Moves:
    inverse = ops.library("inv", node.inputs[0])[0]
    return [times(column(column(given[1])), transpose(inverse))]


def _slogdet_jvp(node: Node, parts: Parts, tangents: Moves) -> Moves:
    inverse = ops.library("inv", node.inputs[0])[0]
    change = total(times(transpose(inverse), only(tangents)))
    return [None, ops.reshape(change, parts[1].shape)]


def _pinv_vjp(node: Node, parts: Parts, given: Parts) -> Moves:
    return [_pinv_back(node.inputs[0], parts[0], given[0]), None, None]


def _pinv_back(a: Node, p: Node, g: Node) -> Node:
    """The cotangent of ``a`` from ``g`` of its pseudoinverse ``p``, for constant rank (Golub,
    Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems",
    1973)."""
    pt, gt = transpose(p), transpose(g)
    first = product(pt, g, pt)
    left = product(minus(gt, product(a, product(p, gt))), product(p, pt))
    right = product(product(pt, p), minus(gt, product(product(gt, p), a)))
    return minus(plus(left, right), first)


def _pinv_forward(a: Node, p: Node, da: Node) -> Node:
    dat, pt = transpose(da), transpose(p)
    first = product(p, da, p)
    left = product(product(p, pt), minus(dat, product(product(dat, a), p)))
    right = product(minus(dat, product(p, product(a, dat))), product(pt, p))
    return minus(plus(left, right), first)


def _pinv_jvp(node: Node, parts: Parts, tangents: Moves) -> Moves:
    da = tangents[0]
    return [None if da is None else _pinv_forward(node.inputs[0], parts[0], da)]


def _pseudoinverse(node: Node) -> Node:
    """The pseudoinverse that the solution of a least squares problem stands for."""
    relative = node.inputs[2]
    return ops.library("pinv", node.inputs[0], ops.zeros_like(relative), relative)[0]


def _lstsq_vjp(node: Node, parts: Parts, given: Parts) -> Moves:
    a, b, _ = node.inputs
    p = _pseudoinverse(node)
    back = _pinv_back(a, p, product(given[0], transpose(b)))
    return [back, product(transpose(p), given[0]), None]


def _lstsq_jvp(node: Node, parts: Parts, tangents: Moves) -> Moves:
    a, b, _ = node.inputs
    da, db, _ = tangents
    p = _pseudoinverse(node)
    first = None if da is None else product(_pinv_forward(a, p, da), b)
    second = None if db is None else product(p, db)
    return [None if first is None and second is None else added(first, second)]


RULES: dict[str, tuple[PullBack, PushForward]] = {
    "triangular": (_triangular_vjp, _triangular_jvp),
    "solve": (_solve_vjp, _solve_jvp),
    "inv": (_inv_vjp, _inv_jvp),
    "det": (_det_vjp, _det_jvp),
    "cofactors": (_cofactors_vjp, _cofactors_jvp),
    "slogdet": (_slogdet_vjp, _slogdet_jvp),
    "pinv": (_pinv_vjp, _pinv_jvp),
    "lstsq": (_lstsq_vjp, _lstsq_jvp),
}
