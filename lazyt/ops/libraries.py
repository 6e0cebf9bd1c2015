"""``library``: a call of a matrix routine (LU, Cholesky, QR, SVD, ...) that is not compiled.

A node has one value, and many routines have several results: they lie one after the other in a
row per batch element, which ``library_parts`` takes apart with slices. The op cannot stand in a
kernel: a graph with library calls runs in steps (``lazyt/steps.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from lazyt import ops
from lazyt.errors import DTypeError, InternalError, ShapeError
from lazyt.ir.graph import Node, Shape, Type, make
from lazyt.ops.library_gradients import pull_back, push_forward
from lazyt.ops.library_routines import ROUTINES
from lazyt.ops.registry import define_op


class LibraryParams(NamedTuple):
    """``routine``: a name in ``ROUTINES``; ``mode``: which of its variants, ``plain`` for one."""

    routine: str
    mode: str


def _part_shapes(params: LibraryParams, inputs: Sequence[Any]) -> list[Shape]:
    """The shapes of a routine's results for one batch element."""
    matrices = [item.shape[-2:] for item in inputs]
    return ROUTINES[params.routine].parts(params.mode, *matrices)


def _infer(params: LibraryParams, *inputs: Node) -> Type:
    routine = ROUTINES.get(params.routine)
    if routine is None or len(inputs) != routine.operands:
        raise InternalError("ops.libraries", f"{len(inputs)} operands for {params}")
    first = inputs[0]
    for item in inputs:
        if item.dtype is not first.dtype or item.dtype.kind != "f":
            raise DTypeError(f"{params.routine}: {first.dtype.name} with {item.dtype.name}")
        if len(item.shape) < 2 or item.shape[:-2] != first.shape[:-2]:
            raise ShapeError(
                f"{params.routine}: {list(item.shape)} is no batch of matrices beside "
                f"{list(first.shape)}"
            )
    if routine.square and first.shape[-1] != first.shape[-2]:
        raise ShapeError(f"{params.routine}: {list(first.shape)} is not square")
    right = inputs[1] if params.routine in ("solve", "triangular", "lstsq") else first
    if first.shape[-2] != right.shape[-2]:
        raise ShapeError(f"{params.routine}: {list(first.shape)} with {list(right.shape)}")
    total = sum(prod(shape) for shape in _part_shapes(params, inputs))
    return Type((*first.shape[:-2], total), first.dtype)


def _evaluate(node: Node, *arrays: Any) -> Any:
    routine = ROUTINES[node.params.routine]
    lead = node.shape[:-1]
    result = np.empty(node.shape, arrays[0].dtype)
    if result.size:
        with np.errstate(all="ignore"):
            parts = routine.run(node.params.mode, *arrays)
        start = 0
        for part, shape in zip(parts, _part_shapes(node.params, node.inputs), strict=True):
            stop = start + prod(shape)
            result[..., start:stop] = part.reshape(*lead, stop - start)
            start = stop
    return result


def _vjp(node: Node, cotangent: Node) -> Sequence[Node | None]:
    shapes = _part_shapes(node.params, node.inputs)
    return pull_back(node, library_parts(node), _split(cotangent, shapes))


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
        value = ops.zeros_like(part) if tangent is None else tangent
        rows.append(ops.reshape(value, (*lead, prod(part.shape[len(lead) :]))))
    return ops.concat(rows, len(lead))


def _batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    return make(node.op, tuple(ops.batch_all(inputs, batched)), node.params)


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


def library(routine: str, *operands: Node, mode: str = "plain") -> list[Node]:
    """The results of a library routine on matrices with equal leading axes; see ``ROUTINES``.

    Integers among them (pivots, ranks, ``info``) are numbers of the operands' float type. Raises
    ShapeError and DTypeError.
    """
    return library_parts(make(LIBRARY, operands, LibraryParams(routine, mode)))


def library_parts(node: Node) -> list[Node]:
    """The results that a ``library`` node packs."""
    return _split(node, _part_shapes(node.params, node.inputs))


def _split(packed: Node, shapes: Sequence[Shape]) -> list[Node]:
    """A value packed from parts of ``shapes``, taken apart."""
    lead = packed.shape[:-1]
    found, start = [], 0
    for shape in shapes:
        size = prod(shape)
        starts, sizes = (*(0,) * len(lead), start), (*lead, size)
        piece = packed
        if size != packed.shape[-1]:
            piece = ops.slice_(packed, starts, sizes, (1,) * len(sizes))
        found.append(ops.reshape(piece, (*lead, *shape)))
        start += size
    return found
