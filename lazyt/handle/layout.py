"""Strides and memory formats: the orders in which the elements of a tensor may lie in memory.

Here is the arithmetic of shapes and strides; ``result_layout`` has the rules by which functions
give their results strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazyt.errors import DTypeError, LazytError
from lazyt.handle.views import contiguous_strides, is_contiguous
from lazyt.ir.dtypes import package_name
from lazyt.ir.graph import Shape

__all__ = [
    "channels_last", "channels_last_3d", "contiguous_format", "layout", "memory_format",
    "preserve_format", "sparse_bsc", "sparse_bsr", "sparse_coo", "sparse_csc", "sparse_csr",
    "strided",
]  # fmt: skip


# Memory layouts as users name them. Sparse tensors are in ``functional/sparse``.


class _Named:
    """A value that the package has under its own name. Instances are unique, so ``is`` compares
    them."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"{package_name()}.{self._name}"

    def __reduce__(self) -> str:
        return self._name


class layout(_Named):
    """How a tensor's elements lie in memory."""

    __slots__ = ()
    __module__ = "lazyt"


class memory_format(_Named):
    """An order of elements in memory."""

    __slots__ = ()
    __module__ = "lazyt"


strided = layout("strided")
sparse_coo = layout("sparse_coo")
sparse_csr, sparse_csc = layout("sparse_csr"), layout("sparse_csc")
sparse_bsr, sparse_bsc = layout("sparse_bsr"), layout("sparse_bsc")
contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")

_CHANNELS_LAST = {channels_last: (0, 2, 3, 1), channels_last_3d: (0, 2, 3, 4, 1)}


def dense_strides(shape: Shape, order: Sequence[int]) -> Shape:
    """Strides without gaps when the axes lie in memory in ``order``, slowest first.

    Where nothing is permuted they are those of a new tensor, in which PyTorch counts an extent of
    zero as one; in other orders it multiplies by the zero.
    """
    if all(axis == place for place, axis in enumerate(order)):
        return contiguous_strides(shape)
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def is_dense(shape: Shape, strides: Shape) -> bool:
    """Whether the elements fill a piece of memory without gaps or overlaps, in any order."""
    expected = 1
    for stride, extent in sorted((s, n) for n, s in zip(shape, strides) if n != 1):
        if extent == 0:
            return True
        if stride != expected:
            return False
        expected *= extent
    return True


def common_order(shape: Shape, operands: Sequence[tuple[Shape, Shape]]) -> list[int]:
    """The order of axes, slowest first, that fits operands of given shapes and strides.

    PyTorch's rule for element-wise functions: an axis is faster than another where the first
    operand that tells them apart has the smaller stride; broadcast axes do not tell.
    """
    rank = len(shape)
    steps = []
    for own, strides in operands:
        lead = rank - len(own)
        steps.append(
            [0] * lead
            + [0 if n == 1 != shape[lead + i] else s for i, (n, s) in enumerate(zip(own, strides))]
        )

    def compare(first: int, second: int) -> int:
        for given in steps:
            a, b = given[first], given[second]
            if a == 0 or b == 0:
                continue
            if a != b:
                return -1 if a < b else 1
            if shape[first] > shape[second]:
                return 1
        return 0

    order = list(range(rank))[::-1]
    for place in range(1, rank):
        at = place
        for before in range(place - 1, -1, -1):
            found = compare(order[before], order[at])
            if found > 0:
                order[before], order[at] = order[at], order[before]
                at = before
            elif found < 0:
                break
    return order[::-1]


def strides_like(shape: Shape, strides: Shape) -> Shape:
    """The strides of a copy that preserves the order: the same where they are dense."""
    if is_dense(shape, strides):
        return strides
    return dense_strides(shape, common_order(shape, [(shape, strides)]))


def suggests_channels_last(shape: Shape, strides: Shape) -> bool:
    """Whether PyTorch takes a tensor of four or five dimensions to have its channels last."""
    if len(shape) not in (4, 5):
        return False
    least = 0
    for axis in (1, *range(len(shape) - 1, 1, -1), 0):
        if shape[axis] == 0 or strides[axis] < least or (axis == 1 and strides[1] == 0):
            return False
        if axis == 0 and least == strides[1]:  # both orders fit
            return False
        least = strides[axis] * max(shape[axis], 1)
    return True


def strides_in(shape: Shape, strides: Shape, wanted: Any, function: str) -> Shape:
    """The strides of a copy in the format ``wanted``; None preserves.

    Raises LazytError where a channels-last format does not fit the rank, and DTypeError for what
    is no format.
    """
    if wanted is None or wanted is preserve_format:
        return strides_like(shape, strides)
    if wanted is contiguous_format:
        return contiguous_strides(shape)
    order = channel_order(shape, wanted, function)
    return dense_strides(tuple(max(n, 1) for n in shape), order)


def channel_order(shape: Shape, wanted: Any, function: str) -> Shape:
    """The order of axes of a channels-last format. Raises as ``strides_in`` does."""
    order = _CHANNELS_LAST.get(wanted) if isinstance(wanted, memory_format) else None
    if order is None:
        raise DTypeError(
            f"{function}(): argument 'memory_format' must be {package_name()}.memory_format, "
            f"not {type(wanted).__name__}"
        )
    if len(order) != len(shape):
        raise LazytError(f"required rank {len(order)} tensor to use {wanted._name} format")
    return order


def follows(shape: Shape, strides: Shape, wanted: Any) -> bool:
    """Whether strides are those of a format; False for a rank that the format does not have."""
    if wanted in (None, contiguous_format, preserve_format):
        return is_contiguous(shape, strides)
    order = _CHANNELS_LAST.get(wanted) if isinstance(wanted, memory_format) else None
    if order is None:
        channel_order(shape, wanted, "is_contiguous")
        return False
    if len(order) != len(shape):
        return False
    expected = 1
    for axis in reversed(order):
        if shape[axis] != 1:
            if strides[axis] != expected:
                return False
            expected *= shape[axis]
    return True
