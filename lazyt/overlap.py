"""Writes whose operands lie in the memory that is written to, refused where PyTorch refuses them.

Here such a write would be well defined, because operands keep their values. But a program that
relies on it fails in PyTorch, and silently differs where PyTorch does not notice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lazyt.errors import LazytError
from lazyt.memory_formats import is_dense
from lazyt.storage import Storage
from lazyt.tensor import Tensor
from lazyt.views import OVERLAP

_MESSAGE = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to "
    "a single memory location. Please clone() the tensor before performing the operation."
)


def one_memory(a: Storage, b: Storage) -> bool:
    """Whether two storages share their memory."""
    if a is b:
        return True
    return a.share is not None and b.share is not None and a.share.memory is b.share.memory


def refuse_overlap(target: Tensor, operands: Iterable[Any], same: bool = False) -> None:
    """Raise LazytError, in PyTorch's words, when an operand partly shares the target's elements.

    Args:
        operands: of which only tensors count. Tensors with gaps are not looked into, as in
            PyTorch.
        same: whether an operand that is the very target is refused too.
    """
    for operand in operands:
        if not isinstance(operand, Tensor) or not one_memory(target._storage, operand._storage):
            continue
        if operand is target and not same:
            continue
        if operand is target or _meet(target, operand, same):
            raise LazytError(_MESSAGE)


def refuse_repeats(target: Tensor) -> None:
    """Raise LazytError, in PyTorch's words, when the target shows an element several times."""
    if any(n > 1 and not stride for n, stride in zip(target.shape, target.strides)):
        raise LazytError(OVERLAP)


def _meet(a: Tensor, b: Tensor, same: bool) -> bool:
    shapes = tuple(a.shape), tuple(b.shape)
    if 0 in shapes[0] or 0 in shapes[1]:
        return False
    if not (is_dense(shapes[0], a.strides) and is_dense(shapes[1], b.strides)):
        return False
    first, last = a._offset * a.itemsize, (a._offset + a.shape.numel()) * a.itemsize
    begin, end = b._offset * b.itemsize, (b._offset + b.shape.numel()) * b.itemsize
    if (first, last) == (begin, end) and a.strides == b.strides:
        return same
    return first < end and begin < last
