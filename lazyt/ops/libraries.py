"""``library``: a call of a matrix routine (LU, Cholesky, QR, SVD, ...) that is not compiled.

A node has one value, and many routines have several results: they lie one after the other in a
row per batch element, which ``library_parts`` takes apart with slices. The op cannot stand in a
kernel: a graph with library calls runs in steps (``lazyt/plan/steps.py``). What the routines
compute is in ``lazyt/ops/routines.py``.

The derivatives follow from the differentials of the defining equations (Giles, "An extended
collection of matrix derivative results for forward and reverse mode algorithmic differentiation",
2008; Walter, Lehmann, "Algorithmic differentiation of linear algebra functions with application in
optimum experimental design", 2012). They hold for complex matrices, too, with adjoints in the place
of transposes; what they leave free there, the direction of each eigenvector and singular vector, is
as PyTorch has it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from lazyt.errors import DTypeError, GradientError, InternalError, ShapeError
from lazyt.ir.dtypes import float32, float64
from lazyt.ir.factorizations.sizes import is_kernel
from lazyt.ir.graph import Node, Type, make
from lazyt.ops import builders as build
from lazyt.ops.compositions import batch_all, exclusive_product, zeros_like
from lazyt.ops.matrix_algebra import (
    above,
    adjoint,
    beside,
    column,
    columns,
    diagonal,
    guarded_reciprocal,
    hermitian,
    identity,
    like,
    lower,
    matrix_of,
    minus,
    only_diagonal,
    plus,
    product,
    real,
    row,
    rows,
    scaled,
    times,
    total,
    transpose,
    turning,
    upper,
)
from lazyt.ops.registry import define_op
from lazyt.ops.routines import (
    ROUTINES,
    LibraryParams,
    library,
    library_parts,
    part_shapes,
    parts_of,
)

# What the derivative rules of library routines have in common.
#
# A pull-back takes a ``library`` node, its parts and their cotangents, and gives the cotangents of
# the operands; a push-forward takes the operands' tangents and gives those of the first parts. None
# stands for zero.


Parts = Sequence[Node]
Moves = Sequence[Node | None]
PullBack = Callable[[Node, Parts, Parts], Moves]
PushForward = Callable[[Node, Parts, Moves], Moves]


def added(*terms: Node | None) -> Node:
    """The sum of the terms that are there, of which one is."""
    present = [term for term in terms if term is not None]
    result = present[0]
    for term in present[1:]:
        result = plus(result, term)
    return result


def only(tangents: Moves) -> Node:
    """The tangent of the one operand that a routine has, when something moves."""
    tangent = tangents[0]
    assert tangent is not None
    return tangent


def substitute(a: Node, b: Node, mode: str) -> Node:
    """``x`` with ``a @ x = b`` for triangular ``a``; modes as in ``routines``."""
    return library("triangular", a, b, mode=mode)[0]


def transposed_mode(mode: str) -> str:
    """The mode of the transposed triangular matrix."""
    side = "lower" if mode.startswith("upper") else "upper"
    return side + mode[5:]


# ------------------------------------------------------------------- linear equations


def _triangle(x: Node, mode: str) -> Node:
    offset = 1 if mode.endswith("unit") else 0
    return upper(x, offset) if mode.startswith("upper") else lower(x, -offset)


def _triangular_vjp(node: Node, parts: Parts, given: Parts) -> Moves:
    a, _ = node.inputs
    mode = node.params.mode
    back = substitute(adjoint(a), given[0], transposed_mode(mode))
    return [scaled(_triangle(product(back, adjoint(parts[0])), mode), -1), back]


def _triangular_jvp(node: Node, parts: Parts, tangents: Moves) -> Moves:
    da, db = tangents
    mode = node.params.mode
    moved = None if da is None else scaled(product(_triangle(da, mode), parts[0]), -1)
    return [substitute(node.inputs[0], added(db, moved), mode)]


def _solve_vjp(node: Node, parts: Parts, given: Parts) -> Moves:
    back = library("solve", adjoint(node.inputs[0]), given[0])[0]
    return [scaled(product(back, adjoint(parts[0])), -1), back]


def _solve_jvp(node: Node, parts: Parts, tangents: Moves) -> Moves:
    da, db = tangents
    moved = None if da is None else scaled(product(da, parts[0]), -1)
    return [library("solve", node.inputs[0], added(db, moved))[0]]


def _inv_vjp(node: Node, parts: Parts, given: Parts) -> Moves:
    turned = adjoint(parts[0])
    return [scaled(product(turned, given[0], turned), -1)]


def _inv_jvp(node: Node, parts: Parts, tangents: Moves) -> Moves:
    return [scaled(product(parts[0], only(tangents), parts[0]), -1)]


def _slopes_of_det(a: Node, size: Node) -> Node:
    """The derivative of the determinant ``size``: it times the inverse, transposed. Only singular
    matrices need singular values, and one number alone is its determinant."""
    if a.shape[-1] == 1:
        return build.broadcast_to(build.constant(1, a.dtype), a.shape)
    zero = build.constant(0, size.dtype)
    regular = column(column(build.apply("ne", size, zero)))
    # Gradients of what is not chosen are finite, too.
    inverse = library("inv", build.apply("where", regular, a, identity(a)))[0]
    missing = build.apply("where", regular, *[build.constant(x, real(size).dtype) for x in (0, 1)])
    (singular,) = library("cofactors", a, missing)
    slopes = times(column(column(size)), transpose(inverse))
    return build.apply("where", regular, slopes, singular)


def _det_vjp(node: Node, parts: Parts, given: Parts) -> Moves:
    slopes = _slopes_of_det(node.inputs[0], parts[0])
    return [times(column(column(given[0])), build.conj(slopes))]


def _det_jvp(node: Node, parts: Parts, tangents: Moves) -> Moves:
    change = total(times(_slopes_of_det(node.inputs[0], parts[0]), only(tangents)))
    return [build.reshape(change, parts[0].shape)]


def _second_minors(node: Node, change: Node) -> Node:
    """The differential of the cofactors of singular matrices, which is symmetric in the two
    directions: where a matrix is diagonal, products of all but two of its numbers."""
    a, missing = node.inputs
    chosen = build.apply("ne", missing, build.constant(0, missing.dtype))
    u, s, vh, *_ = library("svd", build.apply("where", chosen, a, identity(a)), mode="reduced")
    turns = times(library("det", u)[0], library("det", vh)[0])
    moved = product(adjoint(u), change, adjoint(vh))
    sizes = build.broadcast_to(like(row(s), moved), moved.shape)
    others = plus(minus(sizes, only_diagonal(sizes)), identity(sizes))
    axis = len(others.shape) - 1
    ahead = build.flip(exclusive_product(build.flip(others, (axis,)), axis), (axis,))
    pairs = times(exclusive_product(others, axis), ahead)
    pairs = minus(pairs, only_diagonal(pairs))
    along = build.reduce_("sum", times(pairs, row(diagonal(moved))), (axis,))
    found = minus(matrix_of(along), times(pairs, transpose(moved)))
    return times(column(column(turns)), product(build.conj(u), found, build.conj(vh)))


def _cofactors_vjp(node: Node, parts: Parts, given: Parts) -> Moves:
    return [build.conj(_second_minors(node, build.conj(given[0]))), None]


def _cofactors_jvp(node: Node, parts: Parts, tangents: Moves) -> Moves:
    return [None if tangents[0] is None else _second_minors(node, tangents[0])]


def _slogdet_vjp(node: Node, parts: Parts, given: Parts) -> Moves:
    inverse = library("inv", node.inputs[0])[0]
    return [times(column(column(_slope_of_log(parts[0], given))), adjoint(inverse))]


def _slope_of_log(sign: Node, given: Parts) -> Node:
    """The cotangent of the complex logarithm of a determinant, from those of its sign and size."""
    by_sign, by_size = given
    if sign.dtype.kind != "c":
        return by_size
    turned = build.apply("imag", times(build.conj(sign), by_sign))
    return build.apply("complex", by_size, turned)


def _slogdet_jvp(node: Node, parts: Parts, tangents: Moves) -> Moves:
    inverse = library("inv", node.inputs[0])[0]
    change = build.reshape(total(times(transpose(inverse), only(tangents))), parts[1].shape)
    if change.dtype.kind != "c":
        return [None, change]
    return [times(parts[0], turning(change)), real(change)]


def _pinv_vjp(node: Node, parts: Parts, given: Parts) -> Moves:
    return [_pinv_back(node.inputs[0], parts[0], given[0]), None]


def _pinv_back(a: Node, p: Node, g: Node) -> Node:
    """The cotangent of ``a`` from ``g`` of its pseudoinverse ``p``, for constant rank (Golub,
    Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems",
    1973)."""
    pt, gt = adjoint(p), adjoint(g)
    first = product(pt, g, pt)
    left = product(minus(gt, product(a, product(p, gt))), product(p, pt))
    right = product(product(pt, p), minus(gt, product(product(gt, p), a)))
    return minus(plus(left, right), first)


def _pinv_forward(a: Node, p: Node, da: Node) -> Node:
    dat, pt = adjoint(da), adjoint(p)
    first = product(p, da, p)
    left = product(product(p, pt), minus(dat, product(product(dat, a), p)))
    right = product(minus(dat, product(p, product(a, dat))), product(pt, p))
    return minus(plus(left, right), first)


def _pinv_jvp(node: Node, parts: Parts, tangents: Moves) -> Moves:
    da = tangents[0]
    return [None if da is None else _pinv_forward(node.inputs[0], parts[0], da)]


def _pseudoinverse(node: Node) -> Node:
    """The pseudoinverse that the solution of a least squares problem stands for."""
    a, _, relative = node.inputs
    limits = build.broadcast_to(beside(zeros_like(relative), relative), (*a.shape[:-1], 2))
    return library("pinv", a, limits)[0]


def _lstsq_vjp(node: Node, parts: Parts, given: Parts) -> Moves:
    a, b, _ = node.inputs
    p = _pseudoinverse(node)
    back = _pinv_back(a, p, product(given[0], adjoint(b)))
    return [back, product(adjoint(p), given[0]), None]


def _lstsq_jvp(node: Node, parts: Parts, tangents: Moves) -> Moves:
    a, b, _ = node.inputs
    da, db, _ = tangents
    p = _pseudoinverse(node)
    first = None if da is None else product(_pinv_forward(a, p, da), b)
    second = None if db is None else product(p, db)
    return [None if first is None and second is None else added(first, second)]


def _gelsy_operands(node: Node) -> tuple[Node, Node, Node]:
    """The matrix, the right sides, and the column of the tolerance."""
    a, b = node.inputs
    sides = b.shape[-1] - 1
    return a, columns(b, 0, sides), columns(b, sides, 1)


def _pseudoinverse_by_columns(a: Node, limit: Node) -> Node:
    """The pseudoinverse with the rank that ``gelsy`` finds."""
    square = build.broadcast_to(build.constant(0, a.dtype), (*a.shape[:-1], a.shape[-2]))
    return library("gelsy", a, beside(identity(square), limit))[0]


def _gelsy_vjp(node: Node, parts: Parts, given: Parts) -> Moves:
    a, b, limit = _gelsy_operands(node)
    p = _pseudoinverse_by_columns(a, limit)
    back = _pinv_back(a, p, product(given[0], adjoint(b)))
    return [back, beside(product(adjoint(p), given[0]), zeros_like(limit))]


def _gelsy_jvp(node: Node, parts: Parts, tangents: Moves) -> Moves:
    a, b, limit = _gelsy_operands(node)
    da, db = tangents
    p = _pseudoinverse_by_columns(a, limit)
    first = None if da is None else product(_pinv_forward(a, p, da), b)
    second = None if db is None else product(p, columns(db, 0, b.shape[-1]))
    return [None if first is None and second is None else added(first, second)]


EQUATION_RULES: dict[str, tuple[PullBack, PushForward]] = {
    "triangular": (_triangular_vjp, _triangular_jvp),
    "solve": (_solve_vjp, _solve_jvp),
    "inv": (_inv_vjp, _inv_jvp),
    "det": (_det_vjp, _det_jvp),
    "cofactors": (_cofactors_vjp, _cofactors_jvp),
    "slogdet": (_slogdet_vjp, _slogdet_jvp),
    "pinv": (_pinv_vjp, _pinv_jvp),
    "lstsq": (_lstsq_vjp, _lstsq_jvp),
    "gelsy": (_gelsy_vjp, _gelsy_jvp),
}


# Derivatives of Cholesky, LU and QR factorizations.
#
# They follow from the differentials of the defining equations; sources as in
# ``equation_gradients``.


# ------------------------------------------------------------------- factorizations


def _halved(x: Node) -> Node:
    """The lower triangle with half of the diagonal."""
    return minus(lower(x), scaled(only_diagonal(x), 0.5))


def _cholesky_vjp(node: Node, parts: Parts, given: Parts) -> Moves:
    factor = parts[0]
    inner = _halved(product(adjoint(factor), lower(given[0])))
    half = substitute(adjoint(factor), inner, "upper")
    whole = substitute(adjoint(factor), adjoint(half), "upper")
    return [hermitian(whole)]


def _cholesky_jvp(node: Node, parts: Parts, tangents: Moves) -> Moves:
    factor = parts[0]
    half = substitute(factor, hermitian(only(tangents)), "lower")
    whole = substitute(factor, adjoint(half), "lower")
    return [product(factor, _halved(whole))]


def _exchange(order: Node, other: Node) -> Node:
    """The matrix, in the type of ``other``, that puts rows into ``order``."""
    n = order.shape[-1]
    counts = build.cast(build.iota(n), order.dtype)
    hit = build.apply("eq", column(order), counts)
    return build.cast(hit, other.dtype)


def _lu_vjp(node: Node, parts: Parts, given: Parts) -> Moves:
    packed, g = parts[0], given[0]
    m, n = packed.shape[-2:]
    k = min(m, n)
    low, high = rows(columns(packed, 0, k), 0, k), rows(columns(packed, 0, k), 0, k)
    unit, top = plus(lower(low, -1), identity(low)), upper(high)
    inner = rows(columns(g, 0, k), 0, k)
    g_low, g_top = lower(inner, -1), upper(inner)
    rest: Node | None = None
    if n > k:
        wide = columns(packed, k, n - k)
        rest = substitute(adjoint(unit), columns(g, k, n - k), "upperunit")
        g_low = minus(g_low, product(rest, adjoint(wide)))
    if m > k:
        tall = rows(packed, k, m - k)
        turned = substitute(top, adjoint(rows(g, k, m - k)), "upper")
        rest = adjoint(turned)
        g_top = minus(g_top, product(adjoint(tall), rest))
    middle = plus(lower(product(adjoint(unit), g_low), -1), upper(product(g_top, adjoint(top))))
    left = substitute(adjoint(unit), middle, "upperunit")
    core = adjoint(substitute(top, adjoint(left), "upper"))
    if rest is not None:
        core = beside(core, rest) if n > k else above(core, rest)
    return [product(transpose(_exchange(parts[2], core)), core)]


def _lu_jvp(node: Node, parts: Parts, tangents: Moves) -> Moves:
    packed = parts[0]
    m, n = packed.shape[-2:]
    k = min(m, n)
    inner = rows(columns(packed, 0, k), 0, k)
    unit, top = plus(lower(inner, -1), identity(inner)), upper(inner)
    moved = product(_exchange(parts[2], packed), only(tangents))
    turned = transpose(top)
    half = substitute(unit, rows(columns(moved, 0, k), 0, k), "lowerunit")
    change = transpose(substitute(turned, transpose(half), "lower"))
    below, over = lower(change, -1), upper(change)
    core = plus(product(unit, below), product(over, top))
    if n > k:
        wide = columns(packed, k, n - k)
        solved = substitute(unit, columns(moved, k, n - k), "lowerunit")
        core = beside(core, minus(solved, product(below, wide)))
    if m > k:
        tall = rows(packed, k, m - k)
        extra = transpose(substitute(turned, transpose(rows(moved, k, m - k)), "lower"))
        core = above(core, minus(extra, product(tall, over)))
    return [core]


def _check_qr(node: Node) -> None:
    m, n = node.inputs[0].shape[-2:]
    if node.params.mode == "complete" and m > n:
        raise GradientError(
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols."
        )


def _qr_vjp(node: Node, parts: Parts, given: Parts) -> Moves:
    _check_qr(node)
    (q, r), (gq, gr) = parts, given
    m, n = node.inputs[0].shape[-2:]
    if m >= n:
        return [_qr_back(q, r, gq, gr)]
    wide = columns(node.inputs[0], m, n - m)
    g_wide = columns(gr, m, n - m)
    gq = plus(gq, product(wide, adjoint(g_wide)))
    square = _qr_back(q, columns(r, 0, m), gq, columns(gr, 0, m))
    return [beside(square, product(q, g_wide))]


def _qr_back(q: Node, r: Node, gq: Node, gr: Node) -> Node:
    """For as many rows as columns or more."""
    m = minus(product(r, adjoint(gr)), product(adjoint(gq), q))
    mirrored = plus(lower(m), adjoint(lower(m, -1)))
    if m.dtype.kind == "c":  # the diagonal of R is real
        mirrored = minus(mirrored, turning(only_diagonal(m)))
    inner = plus(gq, product(q, mirrored))
    return adjoint(substitute(r, adjoint(inner), "upper"))


def _qr_jvp(node: Node, parts: Parts, tangents: Moves) -> Moves:
    _check_qr(node)
    q, r = parts
    da = only(tangents)
    m, n = node.inputs[0].shape[-2:]
    if m >= n:
        return list(_qr_forward(q, r, da))
    dq, dr = _qr_forward(q, columns(r, 0, m), columns(da, 0, m))
    wide, d_wide = columns(node.inputs[0], m, n - m), columns(da, m, n - m)
    moved = plus(product(adjoint(dq), wide), product(adjoint(q), d_wide))
    return [dq, beside(dr, moved)]


def _qr_forward(q: Node, r: Node, da: Node) -> tuple[Node, Node]:
    w = transpose(substitute(transpose(r), transpose(da), "lower"))
    inner = product(adjoint(q), w)
    turn = minus(lower(inner, -1), adjoint(lower(inner, -1)))
    if inner.dtype.kind == "c":
        turn = plus(turn, turning(only_diagonal(inner)))
    rest = minus(inner, turn)
    return minus(w, product(q, rest)), product(upper(rest), r)


FACTOR_RULES: dict[str, tuple[PullBack, PushForward]] = {
    "cholesky": (_cholesky_vjp, _cholesky_jvp),
    "lu": (_lu_vjp, _lu_jvp),
    "qr": (_qr_vjp, _qr_jvp),
}


# Derivatives of eigenvalues, singular values and the matrix exponential.
#
# Where eigenvalues or singular values coincide, their vectors have no derivative: there the terms
# that would divide by zero are left out. Sources as in ``equation_gradients``.


def _gaps(values: Node) -> Node:
    """``1 / (values[j] - values[i])``, 0 where they are equal."""
    return guarded_reciprocal(minus(row(values), column(values)))


def _eigh_vectors(node: Node, parts: Parts) -> tuple[Node, Node]:
    """Eigenvalues and their vectors: the node's, which are those that are differentiated."""
    side = node.params.mode.removesuffix("values")
    if side != node.params.mode:
        parts = library("eigh", node.inputs[0], mode=side)
    return parts[0], parts[1]


def _eigh_vjp(node: Node, parts: Parts, given: Parts) -> Moves:
    values, vectors = _eigh_vectors(node, parts)
    inner = like(matrix_of(given[0]), vectors)
    if not node.params.mode.endswith("values"):
        turn = product(adjoint(vectors), given[1])
        skew = scaled(minus(turn, adjoint(turn)), 0.5)
        inner = plus(inner, times(skew, like(_gaps(values), skew)))
    return [product(vectors, inner, adjoint(vectors))]


def _eigh_jvp(node: Node, parts: Parts, tangents: Moves) -> Moves:
    values, vectors = _eigh_vectors(node, parts)
    inner = product(adjoint(vectors), only(tangents), vectors)
    if node.params.mode.endswith("values"):
        return [real(diagonal(inner))]
    gaps = like(_gaps(values), inner)
    return [real(diagonal(inner)), product(vectors, times(inner, gaps))]


def _off_range(u: Node, x: Node) -> Node:
    """``(1 - u u^H) x``."""
    return minus(x, product(u, product(adjoint(u), x)))


def _skew(x: Node) -> Node:
    return minus(x, adjoint(x))


def _svd_vjp(node: Node, parts: Parts, given: Parts) -> Moves:
    m, n = node.inputs[0].shape[-2:]
    k = min(m, n)
    if node.params.mode == "values":
        u, _, vh, _ = library("svd", node.inputs[0], mode="reduced")
        return [product(times(u, row(like(given[0], u))), vh)]
    u, s, vh = columns(parts[0], 0, k), parts[1], rows(parts[2], 0, k)
    gu, gs, gv = columns(given[0], 0, k), given[1], adjoint(rows(given[2], 0, k))
    v = adjoint(vh)
    gaps, inverse = like(_gaps(times(s, s)), u), like(guarded_reciprocal(s), u)
    left, right = product(adjoint(u), gu), product(adjoint(v), gv)
    s = like(s, u)
    inner = plus(
        times(times(_skew(left), gaps), row(s)),
        times(times(_skew(right), gaps), column(s)),
    )
    middle = plus(inner, like(matrix_of(gs), u))
    if u.dtype.kind == "c":
        middle = plus(middle, times(turning(only_diagonal(left)), row(inverse)))
    result = product(u, middle, vh)
    if m > k:
        result = plus(result, product(times(_off_range(u, gu), row(inverse)), vh))
    if n > k:
        rest = adjoint(_off_range(v, gv))
        result = plus(result, product(times(u, row(inverse)), rest))
    return [result]


def _svd_jvp(node: Node, parts: Parts, tangents: Moves) -> Moves:
    m, n = node.inputs[0].shape[-2:]
    da = only(tangents)
    if node.params.mode == "full" and m != n:
        raise GradientError("svd with full_matrices=True has no derivative of its extra vectors")
    u, s, vh, *_ = library("svd", node.inputs[0], mode="reduced")
    if node.params.mode != "values":
        u, s, vh = parts[0], parts[1], parts[2]
    v = adjoint(vh)
    inner = product(adjoint(u), da, v)
    if node.params.mode == "values":
        return [real(diagonal(inner))]
    gaps, inverse = like(_gaps(times(s, s)), u), like(row(guarded_reciprocal(s)), u)
    s = like(s, u)
    columns_scaled, rows_scaled = times(inner, row(s)), times(column(s), inner)
    left = times(plus(columns_scaled, adjoint(columns_scaled)), gaps)
    right = times(plus(rows_scaled, adjoint(rows_scaled)), gaps)
    if u.dtype.kind == "c":
        turned = scaled(times(turning(only_diagonal(inner)), inverse), 0.5)
        left, right = plus(left, turned), minus(right, turned)
    du, dv = product(u, left), product(v, right)
    if m > n:
        du = plus(du, times(_off_range(u, product(da, v)), inverse))
    if n > m:
        dv = plus(dv, times(_off_range(v, product(adjoint(da), u)), inverse))
    return [du, real(diagonal(inner)), adjoint(dv)]


# -------------------------------------------------------- eigenvalues of general matrices


def _eig_vectors(node: Node) -> tuple[Node, Node]:
    values, vectors, _ = library("eig", node.inputs[0])
    return values, vectors


def _eig_vjp(node: Node, parts: Parts, given: Parts) -> Moves:
    values, vectors = _eig_vectors(node)
    inner = matrix_of(given[0])
    if node.params.mode != "alone":
        turn = product(adjoint(vectors), given[1])
        # The vectors have length one, which their change along themselves would not keep.
        lengths = row(build.cast(real(diagonal(turn)), turn.dtype))
        turn = minus(turn, times(product(adjoint(vectors), vectors), lengths))
        inner = plus(inner, times(turn, build.conj(_gaps(values))))
    turned = adjoint(vectors)
    return [library("solve", turned, product(inner, turned))[0]]


def _eig_jvp(node: Node, parts: Parts, tangents: Moves) -> Moves:
    values, vectors = _eig_vectors(node)
    inner = library("solve", vectors, product(only(tangents), vectors))[0]
    if node.params.mode == "alone":
        return [diagonal(inner)]
    moved = product(vectors, times(inner, _gaps(values)))
    along = real(diagonal(product(adjoint(vectors), moved)))
    return [diagonal(inner), minus(moved, times(vectors, row(like(along, vectors))))]


# ------------------------------------------------------------------- exponential


def _exp_along(a: Node, direction: Node) -> Node:
    """The derivative of the exponential at ``a``: the corner of the exponential of
    ``[[a, direction], [0, a]]`` (Mathias, "A chain rule for matrix functions", 1996)."""
    n = a.shape[-1]
    block = above(beside(a, direction), beside(zeros_like(a), a))
    (raised,) = library("exp", block)
    return rows(columns(raised, n, n), 0, n)


def _exp_vjp(node: Node, parts: Parts, given: Parts) -> Moves:
    return [_exp_along(adjoint(node.inputs[0]), given[0])]


def _exp_jvp(node: Node, parts: Parts, tangents: Moves) -> Moves:
    return [_exp_along(node.inputs[0], only(tangents))]


SPECTRAL_RULES: dict[str, tuple[PullBack, PushForward]] = {
    "eig": (_eig_vjp, _eig_jvp),
    "eigh": (_eigh_vjp, _eigh_jvp),
    "svd": (_svd_vjp, _svd_jvp),
    "exp": (_exp_vjp, _exp_jvp),
}


# Derivatives of the library routines: which rule belongs to which routine.


RULES: dict[str, tuple[PullBack, PushForward]] = {
    **EQUATION_RULES,
    **FACTOR_RULES,
    **SPECTRAL_RULES,
}


def _rules(node: Node) -> tuple[PullBack, PushForward]:
    rules = RULES.get(node.params.routine)
    if rules is None:
        raise GradientError(f"{node.params.routine} has no gradient")
    return rules


def pull_back(node: Node, parts: Parts, cotangents: Parts) -> Moves:
    """Cotangents of the operands of a ``library`` node from those of its parts.

    Raises GradientError for routines without a gradient.
    """
    return _rules(node)[0](node, parts, cotangents)


def push_forward(node: Node, parts: Parts, tangents: Moves) -> Moves | None:
    """Tangents of the first parts from those of the operands; None where nothing moves.

    Raises GradientError for routines without a gradient.
    """
    if all(tangent is None for tangent in tangents):
        return None
    return _rules(node)[1](node, parts, tangents)


# ---------------------------------------------------------------------- the op


#: Routines whose second operand has as many rows as the first.
_WITH_SIDES = ("solve", "triangular", "lstsq", "gelsy", "pinv")


def _infer(params: LibraryParams, *inputs: Node) -> Type:
    routine = ROUTINES.get(params.routine)
    if routine is None or len(inputs) != routine.operands:
        raise InternalError("ops.libraries", f"{len(inputs)} operands for {params}")
    first = inputs[0]
    for item in inputs:
        if item.dtype is not first.dtype or item.dtype.kind not in "fc":
            raise DTypeError(f"{params.routine}: {first.dtype.name} with {item.dtype.name}")
        if len(item.shape) < 2 or item.shape[:-2] != first.shape[:-2]:
            raise ShapeError(
                f"{params.routine}: {list(item.shape)} is no batch of matrices beside "
                f"{list(first.shape)}"
            )
    if routine.square and first.shape[-1] != first.shape[-2]:
        raise ShapeError(f"{params.routine}: {list(first.shape)} is not square")
    right = inputs[1] if params.routine in _WITH_SIDES else first
    if first.shape[-2] != right.shape[-2]:
        raise ShapeError(f"{params.routine}: {list(first.shape)} with {list(right.shape)}")
    total = sum(prod(shape) for shape in part_shapes(params, inputs))
    return Type((*first.shape[:-2], total), first.dtype)


def _evaluate(node: Node, *arrays: Any) -> Any:
    routine = ROUTINES[node.params.routine]
    lead = node.shape[:-1]
    result = np.empty(node.shape, arrays[0].dtype)
    if result.size:
        with np.errstate(all="ignore"):
            parts = routine.run(node.params.mode, *arrays)
        start = 0
        for part, shape in zip(parts, part_shapes(node.params, node.inputs), strict=True):
            stop = start + prod(shape)
            result[..., start:stop] = part.reshape(*lead, stop - start)
            start = stop
    return result


def _infer_small(params: LibraryParams, *inputs: Node) -> Type:
    found = _infer(params, *inputs)
    if found.dtype not in (float32, float64):
        raise DTypeError(f"{params.routine}: no kernel for {found.dtype.name}")
    if not is_kernel(*params, [item.shape for item in inputs]):
        raise ShapeError(f"{params.routine}: no kernel for {list(inputs[0].shape)}")
    return found


def _factorize(node: Node, *arrays: Any) -> Any:
    from lazyt.ir.factorizations.evaluation import evaluate

    routine, mode = node.params
    found = evaluate(routine, mode, *arrays)
    return np.concatenate([part.reshape(*node.shape[:-1], -1) for part in found], -1)


def _vjp(node: Node, cotangent: Node) -> Sequence[Node | None]:
    return pull_back(node, library_parts(node), parts_of(node, cotangent))


def _jvp(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    parts = library_parts(node)
    moved = push_forward(node, parts, tangents)
    return None if moved is None else _joined(node, parts, moved)


def _joined(node: Node, parts: Sequence[Node], moved: Sequence[Node | None]) -> Node:
    """Parts packed as the op packs them; None and missing ones are zero."""
    lead = node.shape[:-1]
    rows = []
    for number, part in enumerate(parts):
        tangent = moved[number] if number < len(moved) else None
        value = like(zeros_like(part) if tangent is None else tangent, node)
        rows.append(build.reshape(value, (*lead, prod(part.shape[len(lead) :]))))
    return build.concat(rows, len(lead))


def _batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    return make(node.op, tuple(batch_all(inputs, batched)), node.params)


LIBRARY = define_op(
    "library",
    params=LibraryParams,
    infer=_infer,
    evaluate=_evaluate,
    vjp=_vjp,
    jvp=_jvp,
    batch=_batch,
    lower="library",
)

LINALG = define_op(
    "linalg",
    params=LibraryParams,
    infer=_infer_small,
    evaluate=_factorize,
    vjp=_vjp,
    jvp=_jvp,
    batch=_batch,
    lower="linalg",
)
