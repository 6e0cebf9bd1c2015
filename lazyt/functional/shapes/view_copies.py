"""Copies of what views show: the forms of view functions that never share memory."""

from __future__ import annotations

from typing import Any

from lazyt import ops
from lazyt.errors import DTypeError, LazytError, ShapeError
from lazyt.functional.operands import as_shape, normalize_dim, require_tensor, sizes_by_name
from lazyt.functional.result_layout import preserving
from lazyt.functional.results import give
from lazyt.functional.shapes.joining import split, unbind
from lazyt.functional.shapes.view_parts import (
    as_strided,
    diagonal,
    narrow,
    select,
    slice_along,
    unfold,
)
from lazyt.functional.shapes.view_shapes import (
    expand,
    permute,
    reshape,
    squeeze,
    t,
    transpose,
    unsqueeze,
    view_bits,
)
from lazyt.handle.function_table import function
from lazyt.handle.tensor import Tensor
from lazyt.handle.views import View
from lazyt.ir.dtypes import DType
from lazyt.ir.graph import Shape

__all__ = [
    "alias_copy", "as_strided_copy", "as_strided_scatter", "detach_copy", "diagonal_copy",
    "diagonal_scatter", "expand_copy", "narrow_copy", "permute_copy", "select_copy",
    "select_scatter", "slice_copy", "slice_scatter", "split_copy", "split_with_sizes_copy",
    "squeeze_copy", "sum_to_size", "t_copy", "transpose_copy", "unbind_copy", "unfold_copy",
    "unsqueeze_copy", "view_copy",
]  # fmt: skip


def _copied(shown: Tensor, name: str, input: Tensor, out: Tensor | None = None) -> Tensor:
    return give(shown.node, f"{name}Backward0_copy", (input,), out)


def _copies(parts: tuple[Tensor, ...], name: str, input: Tensor, out: Any) -> Any:
    """Copies of all ``parts``, written into the tensors ``out`` where those are given."""
    if out is None:
        return tuple(_copied(part, name, input) for part in parts)
    if len(out) != len(parts):
        raise LazytError(
            f"{name.lower()}_copy_out() expected an out= argument of size {len(parts)}, "
            f"got size {len(out)}"
        )
    for part, target in zip(parts, out):
        _copied(part, name, input, target)
    return None


@function()
def alias_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of ``input``."""
    require_tensor(input, "alias_copy")
    return _copied(input, "Alias", input, out)


@function()
def detach_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of ``input`` without gradient history."""
    require_tensor(input, "detach_copy")
    return give(input.detach().node, "detach_copy", (), out)


@function()
def as_strided_copy(
    input: Tensor, size: Any, stride: Any, storage_offset: int | None = None, *,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """A copy of what ``as_strided`` shows. Raises as that does."""
    return _copied(as_strided(input, size, stride, storage_offset), "AsStrided", input, out)


@function()
def diagonal_copy(
    input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1, *, out: Tensor | None = None
) -> Tensor:
    """A copy of what ``diagonal`` shows. Raises as that does."""
    require_tensor(input, "diagonal_copy")
    return _copied(diagonal(input, offset, dim1, dim2), "Diagonal", input, out)


@function()
def expand_copy(
    input: Tensor, size: Any, *, implicit: bool = False, out: Tensor | None = None
) -> Tensor:
    """A copy of what ``expand`` shows, with memory for every element. Raises as that does."""
    return _copied(expand(input, size), "Expand", input, out)


@function()
def permute_copy(input: Tensor, dims: Any, *, out: Tensor | None = None) -> Tensor:
    """A copy with the dimensions in another order. Raises as ``permute`` does."""
    return _copied(permute(input, dims), "Permute", input, out)


@function()
def select_copy(input: Tensor, dim: int, index: int, *, out: Tensor | None = None) -> Tensor:
    """A copy of one element along ``dim``. Raises as ``select`` does."""
    return _copied(select(input, dim, index), "Select", input, out)


@function()
def slice_copy(
    input: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1, *,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """A copy of the elements ``start:end:step`` along ``dim``.

    Raises LazytError for a step that is not positive and BoundsError for a bad dimension.
    """
    require_tensor(input, "slice_copy")
    return _copied(slice_along(input, dim, start, end, step), "Slice", input, out)


@function()
def squeeze_copy(input: Tensor, dim: Any = None, *, out: Tensor | None = None) -> Tensor:
    """A copy without dimensions of extent one: all, or those of ``dim`` that are."""
    require_tensor(input, "squeeze_copy")
    return _copied(squeeze(input, dim), "Squeeze", input, out)


@function()
def t_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of a matrix transposed. Raises ShapeError for more than two dimensions."""
    require_tensor(input, "t_copy")
    return _copied(t(input), "T", input, out)


@function()
def transpose_copy(input: Tensor, dim0: int, dim1: int, *, out: Tensor | None = None) -> Tensor:
    """A copy with two dimensions exchanged."""
    return _copied(transpose(input, dim0, dim1), "Transpose", input, out)


@function()
def unfold_copy(
    input: Tensor, dimension: int, size: int, step: int, *, out: Tensor | None = None
) -> Tensor:
    """A copy of all slices of ``size`` along ``dimension``. Raises as ``unfold`` does."""
    return _copied(unfold(input, dimension, size, step), "Unfold", input, out)


@function()
def unsqueeze_copy(input: Tensor, dim: int, *, out: Tensor | None = None) -> Tensor:
    """A copy with a dimension of extent one at ``dim``."""
    require_tensor(input, "unsqueeze_copy")
    return _copied(unsqueeze(input, dim), "Unsqueeze", input, out)


@function()
def view_copy(input: Tensor, size: Any, *, out: Tensor | None = None) -> Tensor:
    """A copy under another shape, or of the bits as another dtype. Raises as ``view`` does."""
    if isinstance(size, DType):
        return _copied(view_bits(input.contiguous(), size), "View", input, out)
    return _copied(reshape(input, size), "View", input, out)


@function(method=True, fractions=("start",))
def narrow_copy(
    input: Tensor, dim: int, start: int, length: int, *, out: Tensor | None = None
) -> Tensor:
    """A copy of ``length`` elements from ``start`` along ``dim``. Raises as ``narrow`` does."""
    if not input.shape:
        raise LazytError("narrow() cannot be applied to a 0-dim tensor.")
    if dim >= input.ndim:
        raise ShapeError(
            "Expected dim < static_cast<int64_t>(self_sizes.size()) to be true, but got false. "
            f"The tensor has {input.ndim} dimensions, and dim is {dim}."
        )
    axis = normalize_dim(dim, input.ndim)
    if length < 0:
        raise LazytError(
            f"start ({start}) + length ({length}) exceeds dimension size ({input.shape[axis]})."
        )
    return give(narrow(input, axis, start, length).node, "NarrowCopy", (input,), out)


@function()
def unbind_copy(input: Tensor, dim: int = 0, *, out: Any = None) -> Any:
    """Copies of all slices along ``dim``; written into the tensors ``out`` where given."""
    require_tensor(input, "unbind_copy")
    return _copies(unbind(input, dim), "Unbind", input, out)


@function()
def split_copy(input: Tensor, split_size: Any, dim: int = 0, *, out: Any = None) -> Any:
    """Copies of parts of one size along ``dim``; written into the tensors ``out`` where given."""
    require_tensor(input, "split_copy")
    return _copies(split(input, split_size, dim), "Split", input, out)


@function()
def split_with_sizes_copy(input: Tensor, split_sizes: Any, dim: int = 0, *, out: Any = None) -> Any:
    """Copies of parts of given sizes along ``dim``. Raises LazytError for another total."""
    require_tensor(input, "split_with_sizes_copy")
    return _copies(split(input, list(split_sizes), dim), "SplitWithSizes", input, out)


# Copies with a part replaced, as if written through a view; and sums down to a shape.


def _part(input: Tensor, view: Any, *args: Any) -> View:
    """The view that ``view`` makes of a row-major copy of ``input``."""
    # Positions in the copy, and not in the tensor's own memory, are what the view is applied to.
    part = view(give(ops.detach(input.node), "Clone", ()), *args)
    found: View = part._view
    return found


def _check_size(src: Tensor, shape: Shape) -> None:
    if tuple(src.shape) != shape:
        raise ShapeError(
            "expected src to have a size equal to the slice of self. "
            f"src size = {list(src.shape)}, slice size = {list(shape)}"
        )


def _replaced(input: Tensor, part: View, src: Tensor, name: str) -> Tensor:
    value = ops.cast(src.node, input.dtype)
    return give(part.write_back(input.node, value), name, (input, src))


@function(method=True, layout=preserving)
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of ``input`` with ``src`` as its element ``index`` along ``dim``.

    Raises ShapeError unless ``src`` has the shape of that element.
    """
    part = _part(input, select, dim, index)
    _check_size(src, part.shape)
    return _replaced(input, part, src, "SelectScatter")


@function(method=True, layout=preserving)
def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Tensor:
    """A copy of ``input`` with ``src`` as its elements ``start:end:step`` along ``dim``.

    Raises ShapeError unless ``src`` has their shape.
    """
    require_tensor(input, "slice_scatter")
    part = _part(input, slice_along, dim, start, end, step)
    _check_size(src, part.shape)
    return _replaced(input, part, src, "SliceScatter")


@function(method=True, layout=preserving)
def diagonal_scatter(
    input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """A copy of ``input`` with ``src`` on a diagonal.

    Raises ShapeError unless ``src`` has the diagonal's shape.
    """
    require_tensor(input, "diagonal_scatter")
    part = _part(input, diagonal, offset, dim1, dim2)
    _check_size(src, part.shape)
    return _replaced(input, part, src, "DiagonalScatter")


@function(method=True, layout=preserving)
def as_strided_scatter(
    input: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: int | None = None
) -> Tensor:
    """A copy of ``input`` with ``src`` at the places that ``as_strided`` shows.

    The strides count in the tensor's own memory; the result is laid out as the tensor is. Raises
    ShapeError unless ``src`` has the shape ``size``.
    """
    shape = as_shape((size,), "as_strided_scatter")
    _check_size(src, shape)
    part = as_strided(input.detach(), size, stride, storage_offset)._view
    assert part is not None
    whole = part.write_back(input._storage.current(), ops.cast(src.node, input.dtype))
    node = whole if input._view is None else input._view.of(whole)
    return give(node, "AsStridedScatter", (input, src))


@function(method=True)
@sizes_by_name("size")
def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """The sum over the dimensions along which ``size`` would broadcast to the tensor's shape.

    Raises ShapeError where it does not.
    """
    if not size:
        raise DTypeError('sum_to_size() missing 1 required positional arguments: "size"')
    shape, wanted = tuple(input.shape), as_shape(size, "sum_to_size")
    lead = len(shape) - len(wanted)
    fits = lead >= 0 and all(n in (1, m) for n, m in zip(wanted, shape[lead:]))
    if not fits:
        raise ShapeError(f"size {{{list(wanted)}}} is not expandable to size {{{list(shape)}}}.")
    if wanted == shape:
        whole: Tensor = input if shape else input.sum()
        return whole
    axes = [i for i, n in enumerate((1,) * lead + wanted) if n != shape[i] or i < lead]
    total: Tensor = input.sum(axes, keepdim=True)
    return total.reshape(wanted) if lead else total
