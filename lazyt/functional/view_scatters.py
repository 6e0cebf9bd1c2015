"""Copies with a part replaced, as if written through a view; and sums down to a shape."""

from __future__ import annotations

from typing import Any

from lazyt import ops
from lazyt.errors import DTypeError, ShapeError
from lazyt.functional.operands import as_shape, require_tensor, sizes_by_name
from lazyt.functional.results import give
from lazyt.ir.graph import Shape
from lazyt.tensor import Tensor
from lazyt.view_parts import as_strided, diagonal, select, slice_along
from lazyt.views import View

__all__ = [
    "as_strided_scatter", "diagonal_scatter", "select_scatter", "slice_scatter", "sum_to_size",
]  # fmt: skip


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


def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of ``input`` with ``src`` as its element ``index`` along ``dim``.

    Raises ShapeError unless ``src`` has the shape of that element.
    """
    part = _part(input, select, dim, index)
    _check_size(src, part.shape)
    return _replaced(input, part, src, "SelectScatter")


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
