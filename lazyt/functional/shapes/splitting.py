"""Parts of tensors along a dimension, as views."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any

from lazyt.errors import BoundsError, LazytError
from lazyt.functional.operands import normalize_dim, require_tensor, wrong_arguments
from lazyt.functional.type_promotion import torch_name
from lazyt.handle.function_table import function
from lazyt.handle.tape import fn_type
from lazyt.handle.tensor import Tensor
from lazyt.handle.view_parts import select_view

__all__ = [
    "chunk", "dsplit", "hsplit", "split", "split_with_sizes", "tensor_split", "unbind",
    "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes", "vsplit",
]  # fmt: skip


def _marked(parts: Iterable[Tensor], name: str) -> tuple[Tensor, ...]:
    """The views that one function makes together: autograd forbids writes through them."""
    marked = tuple(parts)
    for number, part in enumerate(marked):
        if part._view is not None:
            part._view.multiple = (name, number)
            part._view.version = part._storage.version_now()
            if part._view.fn is not None:
                part._view.fn.__class__ = fn_type(name)
    return marked


def _whole_number(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, (list, tuple, bool))


def _along(tensor: Tensor, dim: int, function: str) -> int:
    if not tensor.shape:
        raise LazytError(f"{function} expects at least a 1-dimensional tensor")
    return normalize_dim(dim, len(tensor.shape))


def _equal_sizes(extent: int, size: int) -> list[int]:
    if size < 0:
        raise LazytError(f"split expects split_size be non-negative, but got split_size={size}")
    if size == 0 and extent:
        raise LazytError(
            f"split_size can only be 0 if dimension size is 0, but got dimension size of {extent}"
        )
    return [min(size, extent - i) for i in range(0, extent, size)] if extent else [0]


def _cut(tensor: Tensor, axis: int, sizes: Sequence[int]) -> list[Tensor]:
    starts = accumulate(sizes, initial=0)
    return [tensor.narrow(axis, start, size) for start, size in zip(starts, sizes)]


def _given_sizes(tensor: Tensor, sizes: Any, dim: int) -> list[Tensor]:
    if not tensor.shape:
        raise LazytError("split expects at least a 1-dimensional tensor")
    axis = normalize_dim(dim, len(tensor.shape))
    wanted, extent = [operator.index(s) for s in sizes], tensor.shape[axis]
    if any(size < 0 for size in wanted):
        raise LazytError(
            "split_with_sizes expects split_sizes have only non-negative entries, but got "
            f"split_sizes={wanted}"
        )
    if sum(wanted) != extent:
        raise LazytError(
            f"split_with_sizes expects split_sizes to sum exactly to {extent} (input tensor's "
            f"size at dimension {dim}), but got split_sizes={wanted}"
        )
    return _cut(tensor, axis, wanted)


def _split(tensor: Tensor, size: Any, dim: int) -> list[Tensor]:
    if not _whole_number(size):
        return _given_sizes(tensor, size, dim)
    axis = _along(tensor, dim, "split")
    return _cut(tensor, axis, _equal_sizes(tensor.shape[axis], operator.index(size)))


@function(method=True)
def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of parts along ``dim``: of one size, the last perhaps smaller, or of given sizes.

    Raises LazytError for sizes that do not add up.
    """
    several = not _whole_number(split_size_or_sections)
    parts = _split(tensor, split_size_or_sections, dim)
    return _marked(parts, "SplitWithSizes" if several else "Split")


@function(method=True)
def split_with_sizes(input: Tensor, split_sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of parts of given sizes along ``dim``. Raises LazytError for another total."""
    require_tensor(input, "split_with_sizes")
    return _marked(_given_sizes(input, split_sizes, dim), "SplitWithSizes")


def _chunked(input: Tensor, chunks: int, dim: int) -> list[Tensor]:
    axis = _along(input, dim, "chunk")
    if chunks <= 0:
        raise LazytError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    extent = input.shape[axis]
    if not extent:
        return _cut(input, axis, [0] * chunks)
    return _cut(input, axis, _equal_sizes(extent, -(-extent // chunks)))


@function(method=True)
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most ``chunks`` views of nearly equal parts along ``dim``."""
    require_tensor(input, "chunk")
    return _marked(_chunked(input, chunks, dim), "Split")


_TENSOR_SPLIT = (
    "Tensor input, Tensor tensor_indices_or_sections, int dim = 0",
    "Tensor input, int sections, int dim = 0",
    "Tensor input, tuple of ints indices, int dim = 0",
)


@function(method=True, fractions=("indices_or_sections", "sections"))
def tensor_split(
    input: Tensor, indices_or_sections: Any = None, dim: int = 0, *, sections: Any = None,
    indices: Any = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Views of parts along ``dim``: so many of nearly equal size, or cut before given places.

    Raises LazytError for no sections.
    """
    require_tensor(input, "tensor_split")
    given = indices_or_sections if sections is None else sections
    given = indices if given is None else given
    if given is None:
        raise wrong_arguments("tensor_split", (input,), _TENSOR_SPLIT)
    if isinstance(given, Tensor):
        if given.dtype.name != "int64":
            raise LazytError("tensor_split expected tensor_indices_or_sections to have dtype of "
                             f"long, but got {torch_name(given.dtype)}")  # fmt: skip
        given = given.tolist()
    if not input.shape:
        raise LazytError("tensor_split expected at least a 1-dimensional tensor, but got a tensor "
                         "with 0 dims")  # fmt: skip
    axis = normalize_dim(dim, len(input.shape))
    extent = input.shape[axis]
    if hasattr(given, "__index__"):
        given = operator.index(given)
        if given <= 0:
            raise LazytError(f"number of sections must be larger than 0, got {given}")
        small, larger = divmod(extent, given)
        return tuple(_cut(input, axis, [small + (i < larger) for i in range(given)]))
    places = range(extent)
    edges = [0, *(_edge(operator.index(i), extent) for i in given), extent]
    return tuple(
        input.narrow(axis, min(max(a, 0), extent), len(places[max(a, 0) : max(b, 0)]))
        for a, b in pairwise(edges)
    )


def _edge(index: int, extent: int) -> int:
    return index + extent if index < 0 else min(index, extent)


def _evenly(input: Tensor, given: Any, dim: int, rank: int, name: str) -> tuple[Tensor, ...]:
    """``tensor_split`` that refuses sections of different size."""
    if len(input.shape) < rank:
        raise LazytError(
            f"torch.{name} requires a tensor with at least {rank} dimension, but got a tensor with "
            f"{len(input.shape)} dimensions!"
        )
    if given is None or isinstance(given, (str, float)):
        forms = ("Tensor input, int sections", "Tensor input, tuple of ints indices")
        raise wrong_arguments(name, (input,) if given is None else (input, given), forms)
    if hasattr(given, "__index__") and not isinstance(given, Tensor):
        given = operator.index(given)
        extent = input.shape[dim]
        if given == 0 or extent % given:
            raise LazytError(
                f"torch.{name} attempted to split along dimension {dim}, but the size of the "
                f"dimension {extent} is not divisible by the split_size {given}!"
            )
    return tensor_split(input, given, dim)


@function(method=True)
def hsplit(
    input: Tensor, indices_or_sections: Any = None, *, sections: Any = None, indices: Any = None
) -> tuple[Tensor, ...]:
    """``tensor_split`` along the columns into equal parts. Raises LazytError for others."""
    require_tensor(input, "hsplit")
    given = next((v for v in (indices_or_sections, sections, indices) if v is not None), None)
    return _evenly(input, given, 0 if len(input.shape) == 1 else 1, 1, "hsplit")


@function(method=True)
def vsplit(
    input: Tensor, indices_or_sections: Any = None, *, sections: Any = None, indices: Any = None
) -> tuple[Tensor, ...]:
    """``tensor_split`` along the rows into equal parts. Raises LazytError for others."""
    require_tensor(input, "vsplit")
    given = next((v for v in (indices_or_sections, sections, indices) if v is not None), None)
    return _evenly(input, given, 0, 2, "vsplit")


@function(method=True)
def dsplit(
    input: Tensor, indices_or_sections: Any = None, *, sections: Any = None, indices: Any = None
) -> tuple[Tensor, ...]:
    """``tensor_split`` along the third dimension into equal parts. Raises LazytError for others."""
    require_tensor(input, "dsplit")
    given = next((v for v in (indices_or_sections, sections, indices) if v is not None), None)
    return _evenly(input, given, 2, 3, "dsplit")


@function(method=True)
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of all slices along ``dim``, without that dimension."""
    require_tensor(input, "unbind")
    axis = normalize_dim(dim, len(input.shape))
    if not input.shape:
        raise BoundsError("Dimension specified as 0 but tensor has no dimensions")
    slices = (select_view(input, axis, i) for i in range(input.shape[axis]))
    return _marked(slices, "Unbind")


# ------------------------------------------------------------------ for autograd alone
#
# PyTorch's unsafe functions share memory but tell autograd nothing of it. Here the graph knows
# which values a write changes, so they are the safe ones without the ban on writes in place.


def _unknown(parts: list[Tensor]) -> tuple[Tensor, ...]:
    for part in parts:
        if part._view is not None:
            part._view.source = None
    return tuple(parts)


@function(method=True)
def unsafe_split(input: Tensor, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """``split`` whose parts may be written to in place."""
    require_tensor(input, "unsafe_split")
    return _unknown(_split(input, split_size, dim))


@function(method=True)
def unsafe_split_with_sizes(input: Tensor, split_sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """``split`` into given sizes whose parts may be written to in place."""
    require_tensor(input, "unsafe_split_with_sizes")
    return _unknown(_given_sizes(input, split_sizes, dim))


@function(method=True)
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """``chunk`` whose parts may be written to in place."""
    require_tensor(input, "unsafe_chunk")
    return _unknown(_chunked(input, chunks, dim))
