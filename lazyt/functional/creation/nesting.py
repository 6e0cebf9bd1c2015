"""Nested lists, arrays and numbers as values of a tensor: their shape, type and elements."""

from __future__ import annotations

import math
import operator
import struct
from typing import Any

import numpy as np

from lazyt import ops
from lazyt.errors import DTypeError, LazytError, ShapeError
from lazyt.functional.operands import as_number, require_long
from lazyt.functional.type_promotion import get_default_dtype, promote_types, scalar_dtype
from lazyt.handle import pending
from lazyt.handle.device import device
from lazyt.handle.hooks import capturing
from lazyt.handle.storage import number_leaf, raw
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import (
    DType,
    bfloat16,
    bool_,
    decode_bfloat16,
    dtype_by_numpy,
    encode_bfloat16,
    float16,
    float32,
    float64,
    int32,
    int64,
)
from lazyt.ir.graph import Node, Shape
from lazyt.runtime.memory import Buffer

_PYTHON_NUMBERS = {bool, int, float}
#: Numbers that are written into memory without NumPy, and as what.
_PACKED = {int, float}
_CODES = {float32: "f", float64: "d", int64: "q", int32: "i"}
_MOST_DIMENSIONS = 128


def is_sequence(data: Any) -> bool:
    """Whether ``data`` counts as a dimension in nested data."""
    if isinstance(data, (list, tuple)):
        return True
    if isinstance(data, np.ndarray):
        return data.ndim > 0
    kind = type(data)
    if issubclass(kind, (Tensor, np.generic, dict)):
        return issubclass(kind, str)
    return hasattr(kind, "__getitem__") and hasattr(kind, "__len__")


def _nested_shape(data: Any) -> Shape:
    """The lengths of ``data`` and of the first parts inside it, down to an element."""
    shape: list[int] = []
    while is_sequence(data):
        shape.append(len(data))
        if len(shape) > _MOST_DIMENSIONS:
            raise ShapeError(f"too many dimensions '{type(data).__name__}'")
        if not shape[-1]:
            break
        data = data[0]
    return tuple(shape)


def _leaves(data: Any, shape: Shape) -> list[Any]:
    """The elements of nested data; raises ShapeError for ragged ones, as PyTorch words it."""
    level = [data]
    for dim, size in enumerate(shape):
        for item in level:
            if not is_sequence(item):
                raise DTypeError("not a sequence")
            if len(item) != size:
                raise ShapeError(
                    f"expected sequence of length {size} at dim {dim} (got {len(item)})"
                )
        level = [part for item in level for part in item]
    return level


def _infer_dtype(data: Any) -> DType:
    """What all elements promote to, ragged or not; that of an empty list is the default."""
    found: DType | None = None
    level, depth = [data], 0
    while level:
        parts: list[Any] = []
        kinds = dict(zip(map(type, level), level))
        if kinds.keys() <= _PYTHON_NUMBERS:  # one of each kind decides: long lists are common
            level = [*kinds.values()]
        for value in level:
            if is_sequence(value) and not isinstance(value, (str, bytes, np.ndarray)):
                if len(value):
                    parts.extend(value)
                    continue
                kind = get_default_dtype()
            else:
                kind = _dtype_of(value)
            found = kind if found is None else promote_types(found, kind)
        level, depth = parts, depth + 1
        if depth > _MOST_DIMENSIONS:
            raise DTypeError("new(): self-referential lists are incompatible")
    return found or get_default_dtype()


def _dtype_of(value: Any) -> DType:
    """The type of one element: its own where it has one, else that of a Python number."""
    if isinstance(value, (str, bytes)):
        raise DTypeError(f"new(): invalid data type '{type_name(value)}'")
    if isinstance(value, (Tensor, np.ndarray, np.generic)):
        own = value.dtype if isinstance(value, Tensor) else dtype_by_numpy(value.dtype)
        if own is not None:
            return own
    number = as_number(value)
    if number is not None:
        return scalar_dtype(number)
    raise LazytError(f"Could not infer dtype of {type_name(value)}")


def type_name(value: Any) -> str:
    """How PyTorch's messages call the type of ``value``."""
    kind = type(value)
    if isinstance(value, np.generic):
        return f"numpy.{kind.__name__}"
    return f"torch.{kind.__name__.lower()}" if kind in (device, DType) else kind.__name__


def _number(leaf: Any, wanted: DType) -> Any:
    """One element as a Python number; raises DTypeError for what is none."""
    whole = wanted.kind not in "fc"
    if isinstance(leaf, Tensor) and (leaf.shape.numel() != 1 or (whole and leaf.dtype.kind == "f")):
        if whole:
            raise DTypeError(
                "only integer tensors of a single element can be converted to an index"
            )
        raise ShapeError("only one element tensors can be converted to Python scalars")
    if isinstance(leaf, np.ndarray) and leaf.ndim:
        if whole:
            raise DTypeError("only integer scalar arrays can be converted to a scalar index")
        raise DTypeError("only 0-dimensional arrays can be converted to Python scalars")
    value = leaf.item() if isinstance(leaf, (Tensor, np.ndarray, np.generic)) else leaf
    if isinstance(value, (int, float)):
        return value
    kind = type(value)
    if wanted.kind == "c" and (isinstance(value, complex) or hasattr(kind, "__complex__")):
        return complex(value)
    if not whole:
        if hasattr(kind, "__float__") or hasattr(kind, "__index__"):
            return float(value)
        raise DTypeError(f"must be real number, not {type_name(value)}")
    if hasattr(kind, "__index__"):
        return operator.index(value)
    raise DTypeError(f"'{type_name(value)}' object cannot be interpreted as an integer")


def node_of_nested(data: Any, dtype: DType | None) -> Node:
    """A leaf with the values of a number, or of nested lists, ranges and arrays.

    The type is ``dtype``, or what the elements promote to. Raises ShapeError for ragged lists and
    numbers that are too large, DTypeError or LazytError for what is no number.
    """
    if isinstance(data, (str, bytes)):
        raise DTypeError(f"new(): invalid data type '{type_name(data)}'")
    if type(data) in _PYTHON_NUMBERS:
        found = number_leaf(data, dtype or scalar_dtype(data))
        if found is not None:
            return found
    if type(data) in (list, tuple) and data and (kinds := set(map(type, data))) <= _PACKED:
        wanted = dtype or scalar_dtype(0.0 if float in kinds else 0)
        found = _packed(data, kinds, (len(data),), wanted)
        if found is not None:
            return found
    shape = _nested_shape(data)
    wanted = dtype or _infer_dtype(data)
    values = _leaves(data, shape) if 0 not in shape else []
    kinds = set(map(type, values))
    if values and kinds <= _PACKED:
        found = _packed(values, kinds, shape, wanted)
        if found is not None:
            return found
    if not kinds <= _PYTHON_NUMBERS:
        values = [_number(leaf, wanted) for leaf in values]
    gathered = _gathered(values, wanted)
    return stored(gathered if shape else gathered.reshape(()), shape, wanted)


def _packed(values: Any, kinds: set[type], shape: Shape, dtype: DType) -> Node | None:
    """A leaf with these numbers, written as they are or rounded once; None where one does not fit
    or the type is not as simple."""
    code = _CODES.get(dtype)
    if code is None or (float in kinds and dtype.kind != "f"):
        return None
    try:
        memory = struct.pack(f"={len(values)}{code}", *values)
    except (struct.error, OverflowError):
        return None
    buffer = Buffer(len(memory))
    buffer.copy_from(memory)
    return ops.input_(shape, dtype, buffer)


def _gathered(values: list[Any], dtype: DType) -> np.ndarray[Any, Any]:
    """The numbers in the NumPy type from which they become ``dtype``."""
    kind: Any = np.uint64 if dtype.name == "uint64" else np.int64
    if dtype.kind == "f" or any(isinstance(v, float) for v in values):
        kind = np.float64
    if dtype is bool_:
        kind = np.bool_
    elif dtype.kind == "c":
        kind = np.complex128
    elif dtype.kind != "f" and not all(map(math.isfinite, values)):
        raise LazytError(f"value cannot be converted to type {dtype.name} without overflow")
    try:
        if kind is np.float64 and dtype.kind in "ui":  # whole numbers among fractions
            np.asarray([v for v in values if isinstance(v, int)], np.int64)
        found: np.ndarray[Any, Any] = np.asarray(values, kind)
    except OverflowError:
        raise ShapeError("Overflow when unpacking long long") from None
    if dtype.kind == "u" and kind is np.float64 and found.size and found.min() < 0:
        raise LazytError(f"value cannot be converted to type {dtype.name} without overflow")
    if dtype.kind in "ui" and found.size and (dtype.itemsize < 8 or kind is np.float64):
        refuse_overflow(found.min().item(), found.max().item(), dtype, dtype.name)
    return found


def refuse_overflow(low: Any, high: Any, dtype: DType, name: str) -> None:
    """Raise LazytError, in PyTorch's words, when a whole-number type cannot hold both values.

    Negative values of unsigned types wrap around as long as their amount fits.
    """
    top: float = (1 << (8 * dtype.itemsize - (dtype.kind == "i"))) - 1
    bottom = -top - (dtype.kind == "i")
    if isinstance(high, float):  # as C compares it with a float
        top = float(top)
    if low < bottom or high > top:
        raise LazytError(f"value cannot be converted to type {name} without overflow")


_C_NAMES = {
    "int32": "int", "bool": "bool", "float16": "c10::Half", "bfloat16": "c10::BFloat16",
    "float32": "float",
}  # fmt: skip
#: The largest number of each floating point type.
LARGEST = {
    "float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}  # fmt: skip


def refuse_number(value: Any, dtype: DType) -> None:
    """``refuse_overflow`` of one Python number that is to fill a tensor.

    Infinities fit into floating point; fractions below zero do not wrap around.
    """
    if type(value) is int and -128 < value < 128:
        return
    require_long(value)
    name = _C_NAMES.get(dtype.name, f"{dtype.name}_t")
    if isinstance(value, float) and dtype.kind in "uif":
        # By comparisons: captured functions follow a number, and note each outcome, not the number.
        finite = not (value != value or abs(value) == math.inf)
        fits = dtype.kind == "f" if not finite else dtype.kind != "u" or value >= 0
        if not fits or (finite and abs(value) > LARGEST.get(dtype.name, math.inf)):
            raise LazytError(f"value cannot be converted to type {name} without overflow")
    elif dtype is float16 and isinstance(value, int) and abs(value) > LARGEST["float16"]:
        raise LazytError(f"value cannot be converted to type {name} without overflow")
    if dtype.kind in "ui" and isinstance(value, (int, float)):
        refuse_overflow(value, value, dtype, name)


def refuse_assigned(value: Any, dtype: DType) -> None:
    """``refuse_number`` of one that becomes a tensor first and is then converted, as by index: what
    float16 and bfloat16 cannot hold becomes infinite."""
    if not (dtype.is_half and isinstance(value, (int, float))):
        refuse_number(value, dtype)


def refuse_value(value: Tensor, dtype: DType) -> None:
    """``refuse_number`` of a tensor's only element that is to fill a tensor of ``dtype``.

    Looks at the value where its own dtype holds more than ``dtype`` does.
    """
    own = value.dtype
    wide = own.kind in "ui" and own.itemsize > 1 and dtype is float16
    if "b" in (own.kind, dtype.kind) or (promote_types(own, dtype) is dtype and not wide):
        return
    watcher = capturing()
    node = raw(value.node if watcher is None else watcher.whole(value.node))
    pending.realize_now([node], "a number that has to fit into another type")
    found = node.data.as_numpy(own, node.shape)
    for number in decode_bfloat16(found).flat if own is bfloat16 else found.flat:
        refuse_number(number.item(), dtype)


def stored(values: np.ndarray[Any, Any], shape: Shape, dtype: DType) -> Node:
    """A leaf that holds a copy of ``values`` in ``dtype``."""
    with np.errstate(all="ignore"):
        if dtype is bfloat16:
            array = encode_bfloat16(values.astype(np.float32))
        else:
            array = values.astype(dtype.numpy)
    buffer = Buffer(array.nbytes)
    buffer.as_numpy(dtype, shape)[...] = array.reshape(shape)
    return ops.input_(shape, dtype, buffer)
