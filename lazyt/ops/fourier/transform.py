"""``fourier``: discrete Fourier transforms along the last axis, whole rows in one kernel.

There are transforms of complex points, of real ones to the first half of their spectrum, and back;
of real ones there is an even number. The second operand is the table of constants
(``tables.table``), which has the scale in it. In plans, whose values are all real, complex numbers
are pairs along a last axis of two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lazyt.errors import DTypeError, InternalError, ShapeError
from lazyt.ir.fourier.evaluation import transformed
from lazyt.ir.fourier.tables import KINDS, lanes, plan_of, points, table_size
from lazyt.ir.graph import Node, Type, make
from lazyt.ops import builders as build
from lazyt.ops.registry import OPS, define_op


class FourierParams(NamedTuple):
    """``kind``: ``complex``, ``half`` (real points to half of their spectrum) or ``real`` (back);
    ``sign``: that of the exponent; ``pairs``: whether complex numbers are pairs."""

    kind: str
    sign: int
    pairs: bool


def _infer(params: FourierParams, node: Node, table: Node) -> Type:
    kind, sign, paired = params
    if kind not in KINDS or sign not in (1, -1):
        raise InternalError("ops.fourier", f"there is no {kind!r} transform of sign {sign}")
    dtype = node.dtype.part if node.dtype.kind == "c" else node.dtype
    known = dtype.name in ("float32", "float64") and table.dtype is dtype
    if not known or (node.dtype.kind == "c") == (paired or kind == "half"):
        raise DTypeError(f"fourier: {node.dtype.name} numbers with a {table.dtype.name} table")
    pairs = kind != "half"
    shape = node.shape if paired or not pairs else (*node.shape, 2)
    if len(shape) < 1 + pairs or (pairs and shape[-1] != 2) or (not pairs and shape[-1] % 2):
        raise ShapeError(f"fourier: {list(shape)} has no {kind} rows")
    n = points(kind, shape)
    if plan_of(n) is None or table.shape != (table_size(kind, n, dtype),):
        raise ShapeError(f"fourier: a table of {list(table.shape)} for {n} points")
    if kind == "real":
        return Type((*shape[:-2], 2 * n), dtype)
    shape = (*shape[:-1], n + 1, 2) if kind == "half" else shape
    return Type(shape, dtype) if paired else Type(shape[:-1], dtype.to_complex())


def _evaluate(node: Node, array: Any, table: Any) -> Any:
    kind, sign, paired = node.params
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], -1)
    found = transformed(kind, sign, array, table, lanes(node.inputs[1].dtype))
    return found if paired or kind == "real" else found[..., 0] + 1j * found[..., 1]


# --------------------------------------------------------------------------- derivatives


def _ends(node: Node, factor: float, paired: bool) -> Node:
    """Half of a spectrum, with the frequencies that are their own mirror images multiplied."""
    last = node.shape[-2 if paired else -1] - 1
    lead = (1,) if paired else ()
    inside = build.broadcast_to(build.constant(1.0, node.dtype), (last - 1, *lead))
    end = build.broadcast_to(build.constant(factor, node.dtype), (1, *lead))
    factors = build.concat([end, inside, end], 0)
    return build.apply("mul", node, build.broadcast_to(factors, node.shape))


def _vjp(node: Node, cotangent: Node) -> list[Node | None]:
    """The transform of the other sign. One of real points has every frequency but the first and the
    last twice, once as a mirror image."""
    (kind, sign, paired), table = node.params, node.inputs[1]
    if kind == "half":
        return [fourier("real", -sign, _ends(cotangent, 2.0, paired), table, paired), None]
    if kind == "real":
        return [_ends(fourier("half", -sign, cotangent, table, paired), 0.5, paired), None]
    return [fourier(kind, -sign, cotangent, table, paired), None]


def _jvp(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    tangent = tangents[0]
    return None if tangent is None else make(node.op, (tangent, node.inputs[1]), node.params)


def _batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    x, table = inputs
    if not batched[1]:
        return make(node.op, (x, table), node.params)
    every = []
    for number in range(table.shape[0]):
        row = build.slice_(table, (number, 0), (1, table.shape[1]), (1, 1))
        row = build.reshape(row, table.shape[1:])
        given = x
        if batched[0]:
            starts = (number, *(0,) * (len(x.shape) - 1))
            given = build.slice_(x, starts, (1, *x.shape[1:]), (1,) * len(x.shape))
        else:
            given = build.reshape(x, (1, *x.shape))
        every.append(make(node.op, (given, row), node.params))
    return build.concat(every, 0)


FOURIER = define_op(
    "fourier",
    params=FourierParams,
    infer=_infer,
    evaluate=_evaluate,
    vjp=_vjp,
    jvp=_jvp,
    batch=_batch,
    lower="fourier",
)


def fourier(kind: str, sign: int, node: Node, table: Node, pairs: bool = False) -> Node:
    """The sums of ``x[k] * exp(sign 2 pi i j k / n)`` along rows, scaled as the table says.

    Args:
        kind: ``complex``: [..., n] to [..., n]; ``half``: [..., 2n] real points to the first half
            [..., n + 1] of their spectrum; ``real``: that to [..., 2n], where imaginary parts of
            the first and last frequency do not count.
        table: what ``tables.table`` gives for the kind and n.
        pairs: complex numbers are pairs of real ones, along another axis.

    Raises ShapeError and DTypeError for operands that do not fit.
    """
    return make(OPS["fourier"], (node, table), FourierParams(kind, sign, pairs))
