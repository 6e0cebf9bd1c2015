"""Values in memory as the encoder of instructions sees them: blocks, and strided views of them."""

from __future__ import annotations

from functools import lru_cache

from lazyt.ir.dtypes import DType
from lazyt.ir.graph import Node


class Block:
    """Memory: a slot and bytes behind its beginning, and how many values are still in it."""

    __slots__ = ("base", "nbytes", "slot", "users")

    def __init__(self, slot: int, base: int, nbytes: int) -> None:
        self.slot = slot
        self.base = base
        self.nbytes = nbytes
        self.users = 0


class View:
    """A value: elements of a block by strides, in bytes. ``moves``: the (number, factor) pairs that
    its offset depends on, where slices begin."""

    __slots__ = ("block", "dtype", "moves", "offset", "shape", "strides")

    def __init__(
        self, block: Block, offset: int, shape: tuple[int, ...], strides: tuple[int, ...],
        dtype: DType, moves: tuple[tuple[tuple[Node, int], int], ...] = (),
    ) -> None:  # fmt: skip
        self.block = block
        self.offset = offset
        self.shape = shape
        self.strides = strides
        self.dtype = dtype
        self.moves = moves


@lru_cache(maxsize=4096)
def packed(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Strides of a value without gaps."""
    strides = [0] * len(shape)
    step = size
    for axis in range(len(shape) - 1, -1, -1):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def broadcast_strides(view: View, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a view that is repeated to a shape."""
    added = len(shape) - len(view.shape)
    strides = [
        0 if extent == 1 and wanted != 1 else stride
        for extent, stride, wanted in zip(view.shape, view.strides, shape[added:], strict=True)
    ]
    return (*(0,) * added, *strides)


def strides_in(view: View, to: View) -> int | tuple[int, ...]:
    """How a map reads an operand: 0 without gaps, 1 the same everywhere, else by these strides."""
    if view.shape == to.shape and view.strides == packed(view.shape, view.dtype.itemsize):
        return 0
    strides = broadcast_strides(view, to.shape)
    moving = [s for s, extent in zip(strides, to.shape, strict=True) if extent != 1]
    return strides if any(moving) else 1


def merged(shape: tuple[int, ...], *strides: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The axes of a shape as (extent, strides...), those joined that all walk as one."""
    axes: list[tuple[int, ...]] = []
    for axis in zip(shape, *strides, strict=True):
        if axis[0] == 1:
            continue
        if axes:
            outer = axes[-1]
            if all(a == b * axis[0] for a, b in zip(outer[1:], axis[1:], strict=True)):
                axes[-1] = (outer[0] * axis[0], *axis[1:])
                continue
        axes.append(axis)
    return axes


def strides_under(
    shape: tuple[int, ...], strides: tuple[int, ...], wanted: tuple[int, ...], size: int
) -> tuple[int, ...] | None:
    """Strides of the same elements under another shape, None where there are none."""
    if strides == packed(shape, size):
        return packed(wanted, size)
    axes = merged(shape, strides)
    found: list[int] = []
    for extent in reversed(wanted):
        if extent == 1:
            found.append(0)
            continue
        if not axes or axes[-1][0] % extent:
            return None
        whole, stride = axes.pop()
        found.append(stride)
        if whole != extent:
            axes.append((whole // extent, stride * extent))
    return tuple(reversed(found))
