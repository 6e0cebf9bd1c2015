"""Batched matrix algebra on nodes, in which the derivatives of matrix functions are written.

Matrices are the last two axes; leading axes are batches and equal for all operands of a call.
"""

from __future__ import annotations

from lazyt.ir.graph import Node
from lazyt.ops import builders as build


def transpose(x: Node) -> Node:
    """The last two axes exchanged."""
    rank = len(x.shape)
    return build.permute(x, (*range(rank - 2), rank - 1, rank - 2))


def adjoint(x: Node) -> Node:
    """The conjugate transpose, of real matrices the transpose."""
    return transpose(build.conj(x))


def hermitian(x: Node) -> Node:
    """The part of square matrices that equals its adjoint."""
    return scaled(plus(x, adjoint(x)), 0.5)


def real(x: Node) -> Node:
    """The real parts, of real numbers these themselves."""
    return build.apply("real", x) if x.dtype.kind == "c" else x


def like(x: Node, other: Node) -> Node:
    """``x`` in the type of ``other``."""
    return build.cast(x, other.dtype)


def turning(x: Node) -> Node:
    """``i`` times the imaginary parts of complex numbers: what turns them around the origin."""
    return build.apply("complex", build.constant(0, x.dtype.part), build.apply("imag", x))


def product(*factors: Node) -> Node:
    """The matrix product, from left to right."""
    result = factors[0]
    for factor in factors[1:]:
        lead = len(result.shape) - 2
        batch = tuple(range(lead))
        left, right = (*batch, lead, lead + 1), (*batch, lead + 1, lead + 2)
        result = build.contract(result, factor, left, right, (*batch, lead, lead + 2))
    return result


def plus(x: Node, y: Node) -> Node:
    """``x + y``."""
    return build.apply("add", x, y)


def minus(x: Node, y: Node) -> Node:
    """``x - y``."""
    return build.apply("sub", x, y)


def times(x: Node, y: Node) -> Node:
    """``x * y``, element by element."""
    return build.apply("mul", x, y)


def scaled(x: Node, factor: float) -> Node:
    """``x * factor``."""
    return build.apply("mul", x, build.constant(factor, x.dtype))


def _masked(x: Node, relation: str, offset: int) -> Node:
    """``x`` where ``column - row`` stands in ``relation`` to ``offset``, zero elsewhere."""
    rows, columns = x.shape[-2:]
    row = build.reshape(build.iota(rows), (rows, 1))
    edge = build.apply("add", row, build.constant(offset, row.dtype))
    keep = build.apply(relation, build.iota(columns), edge)
    return build.apply("where", keep, x, build.constant(0, x.dtype))


def lower(x: Node, offset: int = 0) -> Node:
    """The lower triangle up to diagonal ``offset``, zero elsewhere."""
    return _masked(x, "le", offset)


def upper(x: Node, offset: int = 0) -> Node:
    """The upper triangle from diagonal ``offset`` on, zero elsewhere."""
    return _masked(x, "ge", offset)


def only_diagonal(x: Node) -> Node:
    """``x`` with zeros off the diagonal."""
    return _masked(x, "eq", 0)


def diagonal(x: Node) -> Node:
    """The diagonal of square matrices as vectors."""
    return build.reduce_("sum", only_diagonal(x), (len(x.shape) - 1,))


def column(v: Node) -> Node:
    """Vectors as matrices of one column."""
    return build.reshape(v, (*v.shape, 1))


def row(v: Node) -> Node:
    """Vectors as matrices of one row."""
    return build.reshape(v, (*v.shape[:-1], 1, v.shape[-1]))


def matrix_of(v: Node) -> Node:
    """Square matrices with the vectors ``v`` on the diagonal."""
    n = v.shape[-1]
    return only_diagonal(build.broadcast_to(column(v), (*v.shape, n)))


def identity(like: Node) -> Node:
    """The identity matrix of square ``like``, broadcast to its shape."""
    return only_diagonal(build.broadcast_to(build.constant(1, like.dtype), like.shape))


def total(x: Node) -> Node:
    """The sum over each matrix, with shape ``(..., 1, 1)``."""
    rank = len(x.shape)
    return build.reshape(build.reduce_("sum", x, (rank - 2, rank - 1)), (*x.shape[:-2], 1, 1))


def guarded_reciprocal(x: Node) -> Node:
    """``1 / x``, and 0 where ``x`` is 0."""
    zero, one = build.constant(0, x.dtype), build.constant(1, x.dtype)
    empty = build.apply("eq", x, zero)
    inverse = build.apply("reciprocal", build.apply("where", empty, one, x))
    return build.apply("where", empty, zero, inverse)


def columns(x: Node, start: int, count: int) -> Node:
    """``count`` columns from ``start`` on."""
    lead = x.shape[:-1]
    zeros, ones = (0,) * len(lead), (1,) * len(lead)
    return build.slice_(x, (*zeros, start), (*lead, count), (*ones, 1))


def rows(x: Node, start: int, count: int) -> Node:
    """``count`` rows from ``start`` on."""
    sizes = (*x.shape[:-2], count, x.shape[-1])
    rank = len(sizes)
    starts = (*(0,) * (rank - 2), start, 0)
    return build.slice_(x, starts, sizes, (1,) * rank)


def beside(*parts: Node) -> Node:
    """Matrices side by side."""
    return build.concat(parts, len(parts[0].shape) - 1)


def above(*parts: Node) -> Node:
    """Matrices one below the other."""
    return build.concat(parts, len(parts[0].shape) - 2)
