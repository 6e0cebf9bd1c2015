"""Nested lists, arrays and numbers as values of a tensor: their shape, type and elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lazyt import ops, pending
from lazyt.errors import DTypeError, LazytError, ShapeError
from lazyt.functional.operands import as_number
from lazyt.functional.promotion import get_default_dtype, promote_types, scalar_dtype
from lazyt.ir.dtypes import DType, bfloat16, bool_, decode_bfloat16, dtype_by_numpy, encode_bfloat16
from lazyt.ir.graph import Node, Shape
from lazyt.runtime.memory import Buffer
from lazyt.storage import raw
from lazyt.tensor import Tensor
from lazyt.watching import capturing

_PYTHON_NUMBERS = {bool, int, float}


def is_sequence(data: Any) -> bool:
    """Whether ``data`` counts as a dimension in nested data."""
    if isinstance(data, np.ndarray):
        return data.ndim > 0
    return isinstance(data, (list, tuple, range))


def _nested_shape(data: Any) -> Shape:
    """The shape of nested lists; raises ShapeError for ragged ones, as PyTorch words it."""
    shape: list[int] = []
    level = [data]
    while level and is_sequence(level[0]):
        size = len(level[0])
        for item in level:
            if not is_sequence(item):
                raise DTypeError("not a sequence")
            if len(item) != size:
                raise ShapeError(
                    f"expected sequence of length {size} at dim {len(shape)} (got {len(item)})"
                )
        shape.append(size)
        level = [part for item in level for part in item]
    for item in level:
        if is_sequence(item):
            raise DTypeError("'list' object cannot be interpreted as an integer")
    return tuple(shape)


def _leaves(data: Any) -> list[Any]:
    level = [data]
    while level and is_sequence(level[0]):
        level = [part for item in level for part in item]
    return level


def _infer_dtype(leaves: list[Any]) -> DType:
    found: DType | None = None
    for value in leaves:
        kind = _dtype_of(value)
        if kind is not found:
            found = kind if found is None else promote_types(found, kind)
    return found or get_default_dtype()


def _dtype_of(value: Any) -> DType:
    """The type of one element: its own where it has one, else that of a Python number."""
    if isinstance(value, (Tensor, np.ndarray, np.generic)):
        own = value.dtype if isinstance(value, Tensor) else dtype_by_numpy(value.dtype)
        if own is not None:
            return own
    number = as_number(value)
    if number is not None:
        return scalar_dtype(number)
    if isinstance(value, str):
        raise ShapeError("too many dimensions 'str'")
    raise LazytError(f"Could not infer dtype of {type(value).__name__}")


def _number(leaf: Any, wanted: DType) -> Any:
    """One element as a Python number; raises DTypeError for what is none."""
    if isinstance(leaf, Tensor) and leaf.shape.numel() != 1:
        raise ShapeError("only one element tensors can be converted to Python scalars")
    value = leaf.item() if isinstance(leaf, (Tensor, np.ndarray, np.generic)) else leaf
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, str):
        raise ShapeError("too many dimensions 'str'")
    kind = type(value).__name__
    if wanted.kind == "f":
        raise DTypeError(f"must be real number, not {kind}")
    raise DTypeError(f"'{kind}' object cannot be interpreted as an integer")


def node_of_nested(data: Any, dtype: DType | None) -> Node:
    """A leaf with the values of a number, or of nested lists, ranges and arrays.

    The type is ``dtype``, or what the elements promote to. Raises ShapeError for ragged lists and
    numbers that are too large, DTypeError or LazytError for what is no number.
    """
    if isinstance(data, str):
        raise DTypeError("new(): invalid data type 'str'")
    shape = _nested_shape(data)
    leaves = _leaves(data) if 0 not in shape else []
    kinds = {type(leaf): leaf for leaf in leaves}
    if kinds.keys() <= _PYTHON_NUMBERS:  # one of each kind decides: long lists are common
        wanted, values = dtype or _infer_dtype([*kinds.values()]), leaves
    else:
        wanted = dtype or _infer_dtype(leaves)
        values = [_number(leaf, wanted) for leaf in leaves]
    gathered = _gathered(values, wanted)
    return stored(gathered if shape else gathered.reshape(()), shape, wanted)


def _gathered(values: list[Any], dtype: DType) -> np.ndarray[Any, Any]:
    """The numbers in the NumPy type from which they become ``dtype``."""
    kind: Any = np.uint64 if dtype.name == "uint64" else np.int64
    if dtype.kind == "f" or any(isinstance(v, float) for v in values):
        kind = np.float64
    if dtype is bool_:
        kind = np.bool_
    elif dtype.kind != "f" and not all(map(math.isfinite, values)):
        raise LazytError(f"value cannot be converted to type {dtype.name} without overflow")
    try:
        found: np.ndarray[Any, Any] = np.asarray(values, kind)
    except OverflowError:
        raise ShapeError("Overflow when unpacking long long") from None
    if dtype.kind == "u" and kind is np.float64 and found.size and found.min() < 0:
        raise LazytError(f"value cannot be converted to type {dtype.name} without overflow")
    if dtype.kind in "ui" and dtype.itemsize < 8 and found.size:
        refuse_overflow(found.min(), found.max(), dtype, dtype.name)
    return found


def refuse_overflow(low: Any, high: Any, dtype: DType, name: str) -> None:
    """Raise LazytError, in PyTorch's words, when a whole-number type cannot hold both values.

    Negative values of unsigned types wrap around as long as their amount fits.
    """
    top = (1 << (8 * dtype.itemsize - (dtype.kind == "i"))) - 1
    bottom = -top - (dtype.kind == "i")
    if low < bottom or high > top:
        raise LazytError(f"value cannot be converted to type {name} without overflow")


_C_NAMES = {
    "int32": "int", "bool": "bool", "float16": "c10::Half", "bfloat16": "c10::BFloat16",
    "float32": "float",
}  # fmt: skip
_LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38}


def refuse_number(value: Any, dtype: DType) -> None:
    """``refuse_overflow`` of one Python number that is to fill a tensor.

    Infinities fit into floating point; fractions below zero do not wrap around.
    """
    if type(value) is int and -128 < value < 128:
        return
    name = _C_NAMES.get(dtype.name, f"{dtype.name}_t")
    if isinstance(value, float) and dtype.kind in "uif":
        finite = math.isfinite(value)
        fits = dtype.kind == "f" if not finite else dtype.kind != "u" or value >= 0
        if not fits or (finite and abs(value) > _LARGEST.get(dtype.name, math.inf)):
            raise LazytError(f"value cannot be converted to type {name} without overflow")
    if dtype.kind in "ui" and isinstance(value, (int, float)):
        refuse_overflow(value, value, dtype, name)


def refuse_value(value: Tensor, dtype: DType) -> None:
    """``refuse_number`` of a tensor's only element that is to fill a tensor of ``dtype``.

    Looks at the value where its own dtype holds more than ``dtype`` does.
    """
    own = value.dtype
    if "b" in (own.kind, dtype.kind) or promote_types(own, dtype) is dtype:
        return
    watcher = capturing()
    node = raw(value.node if watcher is None else watcher.whole(value.node))
    pending.realize_now([node], "a number that has to fit into another type")
    found = node.data.as_numpy(own, node.shape)
    for number in decode_bfloat16(found).flat if own is bfloat16 else found.flat:
        refuse_number(number.item(), dtype)


def stored(values: np.ndarray[Any, Any], shape: Shape, dtype: DType) -> Node:
    """A leaf that holds a copy of ``values`` in ``dtype``."""
    if dtype is bfloat16:
        array = encode_bfloat16(values.astype(np.float32))
    else:
        with np.errstate(all="ignore"):
            array = values.astype(dtype.numpy)
    buffer = Buffer(array.nbytes)
    buffer.as_numpy(dtype, shape)[...] = array.reshape(shape)
    return ops.input_(shape, dtype, buffer)
