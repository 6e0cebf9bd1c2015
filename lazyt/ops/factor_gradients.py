"""Derivatives of Cholesky, LU and QR factorizations.

They follow from the differentials of the defining equations; sources as in
``equation_gradients``.
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
    substitute,
)
from lazyt.ops.matrix_algebra import (
    above,
    beside,
    column,
    columns,
    identity,
    lower,
    minus,
    only_diagonal,
    plus,
    product,
    rows,
    scaled,
    transpose,
    upper,
)

# ------------------------------------------------------------------- factorizations


def _halved(x: Node) -> Node:
    """The lower triangle with half of the diagonal."""
    return minus(lower(x), scaled(only_diagonal(x), 0.5))


def _symmetric(x: Node) -> Node:
    return scaled(plus(x, transpose(x)), 0.5)


def _cholesky_vjp(node: Node, parts: Parts, given: Parts) -> Moves:
    factor = parts[0]
    inner = _halved(product(transpose(factor), lower(given[0])))
    half = substitute(transpose(factor), inner, "upper")
    whole = substitute(transpose(factor), transpose(half), "upper")
    return [_symmetric(whole)]


def _cholesky_jvp(node: Node, parts: Parts, tangents: Moves) -> Moves:
    factor = parts[0]
    half = substitute(factor, _symmetric(only(tangents)), "lower")
    whole = substitute(factor, transpose(half), "lower")
    return [product(factor, _halved(whole))]


def _exchange(order: Node) -> Node:
    """The matrix that puts rows into ``order``."""
    n = order.shape[-1]
    counts = ops.cast(ops.iota(n), order.dtype)
    hit = ops.apply("eq", column(order), counts)
    return ops.cast(hit, order.dtype)


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
        rest = substitute(transpose(unit), columns(g, k, n - k), "upperunit")
        g_low = minus(g_low, product(rest, transpose(wide)))
    if m > k:
        tall = rows(packed, k, m - k)
        turned = substitute(top, transpose(rows(g, k, m - k)), "upper")
        rest = transpose(turned)
        g_top = minus(g_top, product(transpose(tall), rest))
    middle = plus(lower(product(transpose(unit), g_low), -1), upper(product(g_top, transpose(top))))
    left = substitute(transpose(unit), middle, "upperunit")
    core = transpose(substitute(top, transpose(left), "upper"))
    if rest is not None:
        core = beside(core, rest) if n > k else above(core, rest)
    return [product(transpose(_exchange(parts[2])), core)]


def _lu_jvp(node: Node, parts: Parts, tangents: Moves) -> Moves:
    packed = parts[0]
    m, n = packed.shape[-2:]
    k = min(m, n)
    inner = rows(columns(packed, 0, k), 0, k)
    unit, top = plus(lower(inner, -1), identity(inner)), upper(inner)
    moved = product(_exchange(parts[2]), only(tangents))
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
    gq = plus(gq, product(wide, transpose(g_wide)))
    square = _qr_back(q, columns(r, 0, m), gq, columns(gr, 0, m))
    return [beside(square, product(q, g_wide))]


def _qr_back(q: Node, r: Node, gq: Node, gr: Node) -> Node:
    """For as many rows as columns or more."""
    m = minus(product(r, transpose(gr)), product(transpose(gq), q))
    mirrored = plus(lower(m), transpose(lower(m, -1)))
    inner = plus(gq, product(q, mirrored))
    return transpose(substitute(r, transpose(inner), "upper"))


def _qr_jvp(node: Node, parts: Parts, tangents: Moves) -> Moves:
    _check_qr(node)
    q, r = parts
    da = only(tangents)
    m, n = node.inputs[0].shape[-2:]
    if m >= n:
        return list(_qr_forward(q, r, da))
    dq, dr = _qr_forward(q, columns(r, 0, m), columns(da, 0, m))
    wide, d_wide = columns(node.inputs[0], m, n - m), columns(da, m, n - m)
    moved = plus(product(transpose(dq), wide), product(transpose(q), d_wide))
    return [dq, beside(dr, moved)]


def _qr_forward(q: Node, r: Node, da: Node) -> tuple[Node, Node]:
    w = transpose(substitute(transpose(r), transpose(da), "lower"))
    inner = product(transpose(q), w)
    turn = minus(lower(inner, -1), transpose(lower(inner, -1)))
    rest = minus(inner, turn)
    return minus(w, product(q, rest)), product(upper(rest), r)


RULES: dict[str, tuple[PullBack, PushForward]] = {
    "cholesky": (_cholesky_vjp, _cholesky_jvp),
    "lu": (_lu_vjp, _lu_jvp),
    "qr": (_qr_vjp, _qr_jvp),
}
