"""In which order the elements of a function's result lie in memory, as users see it in strides.

Each rule gives the strides of a result by the result and its operands, or None for row-major. A
function names its rule in its declaration (``layout`` of the function table).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazyt.handle.dispatch import lay_out
from lazyt.handle.layout import (
    channels_last_3d,
    common_order,
    dense_strides,
    follows,
    is_dense,
    strides_like,
    suggests_channels_last,
)
from lazyt.handle.tape import fn_type
from lazyt.handle.tensor import Tensor
from lazyt.handle.views import contiguous_strides, is_contiguous
from lazyt.ir.graph import Shape


def arrange_like(result: Tensor, name: str, parents: Sequence[Any]) -> Tensor:
    """``result`` of the function called ``name``, in the order that its rule gives it."""
    shape = result._storage.node.shape
    if not shape or (len(shape) == 1 and shape[0] > 1):  # there is one order
        return result
    rule = fn_type(name).traits.layout or elementwise
    strides = rule(result, parents)
    return result if strides is None else lay_out(result, strides)


def row_major(result: Tensor, parents: Sequence[Any]) -> Shape | None:
    """Of functions whose last step is element-wise though PyTorch's have code of their own."""
    return None


def preserving(result: Tensor, parents: Sequence[Any]) -> Shape | None:
    """The order of the first operand."""
    first = parents[0]
    if first.shape != result.shape:
        return None
    return strides_like(tuple(first.shape), first.strides)


def rounding(result: Tensor, parents: Sequence[Any]) -> Shape | None:
    """Of whole numbers, which are copied, the order of the operand."""
    return (elementwise if result.dtype.kind in "fc" else preserving)(result, parents)


def elementwise(result: Tensor, parents: Sequence[Any]) -> Shape | None:
    """The order that element-wise functions keep of all operands; None for other functions."""
    node = result._storage.node
    if node.op.name == "detach":  # under no_grad
        node = node.inputs[0]
    if node.op.name != "map":
        return None
    shape = node.shape
    views = [(p, p._view) for p in parents if isinstance(p, Tensor)]
    key = (shape, *[
        (p._storage.node.shape, None) if view is None else (view.shape, view.strides)
        for p, view in views
    ])  # fmt: skip
    if key not in _elementwise:
        if len(_elementwise) >= _MOST_REMEMBERED:
            _elementwise.clear()
        _elementwise[key] = _elementwise_strides(
            shape, [(tuple(p.shape), p.strides) for p, _ in views]
        )
    return _elementwise[key]


#: What ``_elementwise_strides`` gave, by shape, and by shapes and strides of the operands.
_elementwise: dict[tuple[Any, ...], Shape | None] = {}
_MOST_REMEMBERED = 4096


def _elementwise_strides(shape: Shape, given: Sequence[tuple[Shape, Shape]]) -> Shape | None:
    """The strides of what an element-wise function makes of operands of these shapes and strides;
    None where it is row-major."""
    if all(is_contiguous(own, strides) for own, strides in given) or not _spans(shape, given):
        return None
    first, strides = given[0]
    if all(pair == given[0] for pair in given) and first == shape and is_dense(first, strides):
        return strides
    return dense_strides(shape, common_order(shape, given))


def _spans(shape: Shape, operands: Sequence[tuple[Shape, Shape]]) -> bool:
    """Whether the operands' shapes broadcast to just ``shape``."""
    rank = len(shape)
    extents = [1] * rank
    for own, _ in operands:
        if len(own) > rank:
            return False
        for axis, extent in enumerate(own, rank - len(own)):
            if extent != 1:
                if extents[axis] not in (1, extent):
                    return False
                extents[axis] = extent
    return tuple(extents) == shape


# Channels last.


def channels_like_first(result: Tensor, parents: Sequence[Any]) -> Shape | None:
    """Channels last where the first tensor among the operands has them last."""
    own, strides = shapes_and_strides(parents)[0]
    found = suggests_channels_last(own, strides)
    return channels_last_strides(tuple(result.shape), len(own) - 2) if found else None


def channels_of_rows(result: Tensor, parents: Sequence[Any]) -> Shape | None:
    """``channels_like_first`` for functions of rows, which PyTorch computes as images of a row."""
    own, strides = shapes_and_strides(parents)[0]
    if len(own) != 3:
        return channels_like_first(result, parents)
    found = suggests_channels_last(*as_batch(own, strides, 1))
    return channels_last_strides(tuple(result.shape), 1) if found else None


def channels_of_volumes(result: Tensor, parents: Sequence[Any]) -> Shape | None:
    """``channels_like_first`` for functions of volumes, which take a single volume, too."""
    own, strides = shapes_and_strides(parents)[0]
    if len(own) != 4:
        return channels_like_first(result, parents)
    if not follows((1, *own), (1, *strides), channels_last_3d):
        return None
    return dense_strides(tuple(result.shape), (1, 2, 3, 0))


def shapes_and_strides(parents: Sequence[Any]) -> list[tuple[Shape, Shape]]:
    """Shape and strides of each tensor among the operands."""
    return [(tuple(p.shape), p.strides) for p in parents if isinstance(p, Tensor)]


def as_batch(shape: Shape, strides: Shape, rank: int) -> tuple[Shape, Shape]:
    """Shape and strides of [N, C, *spatial], of one sample or of rows that have no height."""
    if len(shape) == rank + 1:
        shape, strides = (1, *shape), (shape[0] * strides[0], *strides)
    if rank == 1:
        shape = (*shape[:2], 1, shape[2])
        strides = (*strides[:2], strides[2] * shape[3], strides[2])
    return shape, strides


def channels_last_strides(shape: Shape, rank: int) -> Shape:
    """The strides of a batch, or a sample, with ``rank`` spatial dimensions and channels last."""
    wide, _ = as_batch(shape, contiguous_strides(shape), rank)
    sizes = tuple(max(n, 1) for n in wide)
    strides = dense_strides(sizes, (0, *range(2, len(wide)), 1))
    if rank == 1:
        strides = (*strides[:2], strides[3])
    return strides[len(strides) - len(shape) :]
