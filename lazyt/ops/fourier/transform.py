"""``fourier``: discrete Fourier transforms along the last axis, whole rows in one kernel.

There are transforms of complex points, of real ones to the first half of their spectrum, and back.
The second operand is the table of constants
(``tables.table``), which has the scale in it. In plans, whose values are all real, complex numbers
are pairs along a last axis of two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lazyt.errors import DTypeError, InternalError, ShapeError
from lazyt.ir.fourier.evaluation import of_any_shape
from lazyt.ir.fourier.tables import KINDS, lanes, plan_of, table_size
from lazyt.ir.graph import Node, Type, make
from lazyt.ops import builders as build
from lazyt.ops.registry import OPS, define_op


class FourierParams(NamedTuple):
    """``kind``: ``complex``, ``half`` (real points to half of their spectrum) or ``real`` (back);
    ``sign``: that of the exponent; ``points``: how many; ``pairs``: whether complex numbers are
    pairs."""

    kind: str
    sign: int
    points: int
    pairs: bool


def _infer(params: FourierParams, node: Node, table: Node) -> Type:
    kind, sign, n, paired = params
    if kind not in KINDS or sign not in (1, -1):
        raise InternalError("ops.fourier", f"there is no {kind!r} transform of sign {sign}")
    dtype = node.dtype.part if node.dtype.kind == "c" else node.dtype
    known = dtype.name in ("float32", "float64") and table.dtype is dtype
    if not known or (node.dtype.kind == "c") == (paired or kind == "half"):
        raise DTypeError(f"fourier: {node.dtype.name} numbers with a {table.dtype.name} table")
    # Last axes of operand and result, as pairs.
    spectrum = (n // 2 + 1, 2)
    before, after = {
        "complex": ((n, 2), (n, 2)), "half": ((n,), spectrum), "real": (spectrum, (n,)),
    }[kind]  # fmt: skip
    shape = node.shape if paired or kind == "half" else (*node.shape, 2)
    if shape[-len(before) :] != before:
        raise ShapeError(f"fourier: {list(node.shape)} has no {kind} rows of {n} points")
    if plan_of(kind, n) is None or table.shape != (table_size(kind, n, dtype),):
        raise ShapeError(f"fourier: a table of {list(table.shape)} for {n} points")
    shape = (*shape[: -len(before)], *after)
    if kind == "real" or paired:
        return Type(shape, dtype)
    return Type(shape[:-1], dtype.to_complex())


def _evaluate(node: Node, array: Any, table: Any) -> Any:
    kind, sign, n, paired = node.params
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], -1)
    shape = node.shape if paired or kind == "real" else (*node.shape, 2)
    wide = lanes(node.inputs[1].dtype)
    found = of_any_shape(kind, sign, n, array, shape, table, wide)
    return found if paired or kind == "real" else found[..., 0] + 1j * found[..., 1]


# --------------------------------------------------------------------------- derivatives


def _weighted(node: Node, inner: float, ends: float, n: int, paired: bool) -> Node:
    """Half of a spectrum of ``n`` points times ``ends`` where a frequency is its own mirror image,
    ``inner`` elsewhere."""
    lead = (1,) if paired else ()
    parts = [(ends, 1), (inner, (n - 1) // 2), (ends, 1 - n % 2)]
    factors = [
        build.broadcast_to(build.constant(value, node.dtype), (size, *lead))
        for value, size in parts
        if size
    ]
    return build.apply("mul", node, build.broadcast_to(build.concat(factors, 0), node.shape))


def _vjp(node: Node, cotangent: Node) -> list[Node | None]:
    """The transform of the other sign; one of real points counts frequencies twice that are not
    their own mirror images."""
    (kind, sign, n, paired), table = node.params, node.inputs[1]
    if kind == "complex":
        return [fourier(kind, -sign, n, cotangent, table, paired), None]
    # Tables for pairs of real points have half of the scale.
    plan = plan_of(kind, n)
    assert plan is not None
    if kind == "half":
        inner, ends = (0.5, 1.0) if plan.whole else (1.0, 2.0)
        scaled = _weighted(cotangent, inner, ends, n, paired)
        return [fourier("real", -sign, n, scaled, table, paired), None]
    inner, ends = (2.0, 1.0) if plan.whole else (1.0, 0.5)
    found = fourier("half", -sign, n, cotangent, table, paired)
    return [_weighted(found, inner, ends, n, paired), None]


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


def fourier(
    kind: str, sign: int, n: int, node: Node, table: Node, pairs: bool = False
) -> Node:  # fmt: skip
    """The sums of ``x[k] * exp(sign 2 pi i j k / n)`` along rows, scaled as the table says.

    Args:
        kind: ``complex``: [..., n] to [..., n]; ``half``: [..., n] real points to the first half
            [..., n // 2 + 1] of their spectrum; ``real``: that to [..., n], where imaginary parts
            of frequencies that are their own mirror images do not count.
        table: what ``tables.table`` gives for the kind and n.
        pairs: complex numbers are pairs of real ones, along another axis.

    Raises ShapeError and DTypeError for operands that do not fit.
    """
    return make(OPS["fourier"], (node, table), FourierParams(kind, sign, n, pairs))
