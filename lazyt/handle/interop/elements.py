"""Single elements, read from memory and written to it.

Programs fill tables and read them number by number. Where the memory is there and belongs to nobody
else, a number goes straight to its place, and no graph is built: the storage gets another leaf on
the same memory, so that whoever knows a value by its node sees that this is another one.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from typing import Any

from lazyt import ops
from lazyt.handle import pending
from lazyt.handle.hooks import hook
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import (
    DType,
    bool_,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from lazyt.ir.forms import PLACED
from lazyt.ir.graph import Node
from lazyt.ops.leaves import CONST, INPUT
from lazyt.plan.graph_keys import ALONE
from lazyt.runtime.memory import Buffer

Number = bool | int | float

#: An element in memory, by its dtype; NumPy reads the others.
_CELLS: dict[DType, Any] = {
    float32: ctypes.c_float, float64: ctypes.c_double, int64: ctypes.c_int64,
    int32: ctypes.c_int32, int16: ctypes.c_int16, int8: ctypes.c_int8, bool_: ctypes.c_bool,
    uint8: ctypes.c_uint8, uint16: ctypes.c_uint16, uint32: ctypes.c_uint32,
    uint64: ctypes.c_uint64,
}  # fmt: skip
_CODES = {
    float32: "f", float64: "d", int64: "q", int32: "i", int16: "h", int8: "b", bool_: "?",
    uint8: "B", uint16: "H", uint32: "I", uint64: "Q",
}  # fmt: skip
#: Of floats, what all numbers up to are held exactly or are rounded once.
_LARGEST = {float32: 3.4028234663852886e38, float64: sys.float_info.max}
_EXACT = {float32: 1 << 24, float64: 1 << 53}
#: A value up to this size is computed whole when a part of it is looked at: most often the other
#: parts are looked at next.
MOST_FOR_A_PART = 1 << 18
#: A constant repeated up to this size gets memory when a number is written into it.
_MOST_FILLED = 1 << 18

_references = sys.getrefcount


def memory_of_view(tensor: Tensor, reason: str) -> Buffer | None:
    """The memory that a view shows parts of, computed if it is small and the part is not there;
    None where the view has to be computed on its own."""
    storage = tensor._storage
    share = storage.share
    if hook.watcher is not None or (share is not None and share.region is not None):
        return None
    node = storage.current()
    if node.form < PLACED:
        return None
    view = tensor._view
    if view is not None and view.conjugated:
        return None
    if node.data is None and view is not None and not view.root and _is_worth_it(node):
        shown = view.shown(storage)
        if shown is None or shown.data is None:
            pending.realize_now((node,), reason)
    data: Buffer | None = node.data
    return data


def _is_worth_it(node: Node) -> bool:
    """Whether to compute all of a pending value when a part of it is looked at: it is small, and
    more than a constant repeated, of which any part is as easily made."""
    return node.nbytes <= MOST_FOR_A_PART and _repeated(node) is None


def _repeated(node: Node) -> Number | None:
    """The constant that a value is made of, repeated, as the graph writes it; None for others."""
    while node.op.movement == "ordered":
        node = node.inputs[0]
    found: Number | None = node.params.value if node.op is CONST else None
    return found


def number_in(tensor: Tensor, reason: str) -> Number | None:
    """The only element of ``tensor``, computed when it is pending, as ``realize_now`` does for
    ``reason``; None for dtypes and devices that NumPy has to read."""
    view, storage = tensor._view, tensor._storage
    cell = _CELLS.get(tensor.dtype)
    if cell is None or storage.node.form < PLACED:
        return None
    found: Number
    plain = hook.watcher is None and (view is None or view.dtype is None)
    constant = _repeated(storage.node) if plain else None
    if constant is not None and storage.share is None:  # there is nothing to compute
        found = cell(constant).value
        return found
    if view is not None:
        memory = memory_of_view(tensor, reason)
        if memory is not None:
            place = view.offset * tensor.dtype.itemsize
            found = cell.from_address(memory.ptr + place).value
            return found
    node = tensor.node
    if node.data is None or hook.watcher is not None:
        pending.realize_now((node,), reason)
    found = cell.from_address(node.data.ptr).value
    return found


def write_number(tensor: Tensor, index: Any, value: Any) -> bool:
    """``tensor[index] = value`` straight into memory; whether that was possible. It is where both
    are plain numbers, and nobody else, also no graph, knows the memory."""
    if type(tensor) is not Tensor or tensor._view is not None:
        return False
    storage = tensor._storage
    if storage.share is not None or storage.fn is not None or storage.version < 0:
        return False
    if hook.watcher is not None or hook.diaries:
        return False
    node = storage.node
    dtype = node.dtype
    if node.form < PLACED or not _fits(value, dtype):
        return False
    place = _place_of(node.shape, index)
    if place < 0:
        return False
    data = node.data
    if data is None:
        data = _filled(node)
        if data is None:
            return False
    elif not (
        node.op is INPUT
        and _references(node) == ALONE
        and _references(data) == ALONE
        and not data.is_foreign
    ):
        return False
    storage.node = ops.input_(node.shape, dtype, data)
    storage.version += 1
    _CELLS[dtype].from_address(data.ptr + place * dtype.itemsize).value = value
    return True


def _fits(value: Any, dtype: DType) -> bool:
    """Whether a number is one of ``dtype`` as it is, or after it was rounded."""
    kind, given = dtype.kind, type(value)
    if kind == "f":
        largest = _LARGEST.get(dtype)
        if largest is None:
            return False
        if given is float:
            return bool(-largest <= value <= largest)
        return given is int and -_EXACT[dtype] <= value <= _EXACT[dtype]
    if kind == "b":
        return given is bool
    bits = 8 * dtype.itemsize
    if kind == "i":
        return given is int and -(1 << (bits - 1)) <= value < 1 << (bits - 1)
    return given is int and 0 <= value < 1 << min(bits, 63)


def _place_of(shape: tuple[int, ...], index: Any) -> int:
    """Where in row-major order an element is; below zero for what is no index of one."""
    if type(index) is int:
        if len(shape) != 1 or not -shape[0] <= index < shape[0]:
            return -1
        return index if index >= 0 else index + shape[0]
    if type(index) is not tuple or len(index) != len(shape) or not shape:
        return -1
    place = 0
    for number, extent in zip(index, shape):
        if type(number) is not int or not -extent <= number < extent:
            return -1
        place = place * extent + (number if number >= 0 else number + extent)
    return place


def _filled(node: Node) -> Buffer | None:
    """New memory with the value of a constant repeated; None for other values."""
    value = _repeated(node)
    if value is None or node.nbytes > _MOST_FILLED:
        return None
    try:
        element = struct.pack(_CODES[node.dtype], value)
    except OverflowError:  # rounding it is for a kernel
        return None
    buffer = Buffer(node.nbytes)
    buffer.copy_from(element * node.size)
    return buffer
