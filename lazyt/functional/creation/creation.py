"""Tensors of one value, in any size and order of memory."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from importlib import import_module
from typing import Any, cast

import numpy as np

from lazyt import ops
from lazyt.errors import (
    ArgumentError,
    DTypeError,
    GradientError,
    LazytError,
    NoKernelError,
    ShapeError,
)
from lazyt.functional.creation.nesting import is_sequence, node_of_nested, refuse_number, type_name
from lazyt.functional.elementwise.arithmetic import cast_to, scalar_build
from lazyt.functional.operands import (
    as_number,
    as_shape,
    constant_of,
    expand_to,
    mapped,
    require_tensor,
    wrong_arguments,
)
from lazyt.functional.result_layout import row_major
from lazyt.functional.results import give
from lazyt.functional.shapes.view_shapes import arranged
from lazyt.functional.type_promotion import (
    as_dtype,
    default_complex,
    get_default_dtype,
    scalar_dtype,
)
from lazyt.handle.device import CPU, check_device, device, placed
from lazyt.handle.dispatch import array_node, lay_out, type_title, wrap
from lazyt.handle.function_table import declare, function
from lazyt.handle.layout import dense_strides, is_dense, strided, strides_in
from lazyt.handle.tensor import Size, Tensor
from lazyt.handle.views import contiguous_strides
from lazyt.ir.dtypes import (
    DType,
    bool_,
    complex128,
    float32,
    float64,
    int32,
    int64,
    package_name,
)
from lazyt.ir.graph import Node, Shape
from lazyt.tracing.symbolic_numbers import is_symbolic

__all__ = [
    "arange", "as_tensor", "asarray", "empty", "empty_like", "empty_permuted", "empty_strided",
    "eye", "frombuffer", "full", "full_like", "linspace", "logspace", "ones", "ones_like", "range",
    "scalar_tensor", "tensor", "zeros", "zeros_like",
]  # fmt: skip


# Making tensors from values: numbers, lists, arrays, buffers and other tensors.


def fresh(node: Node, requires_grad: bool = False, place: device = CPU) -> Tensor:
    """A new leaf tensor on a device. Raises GradientError when whole numbers should require
    gradients."""
    if place is not CPU:
        node = placed(node, place)
    result = wrap(node, name="leaf")
    if requires_grad:
        if node.dtype.kind not in "fc":
            raise GradientError(
                "Only Tensors of floating point and complex dtype can require gradients"
            )
        result.requires_grad = True
    return result


# ------------------------------------------------------------------ from values


@function()
def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A copy of numbers, nested lists, an array or a tensor.

    Raises ShapeError for ragged lists, DTypeError for strings and LazytError for other values that
    are no numbers.
    """
    place = data.device if device is None and isinstance(data, Tensor) else check_device(device)
    wanted = None if dtype is None else as_dtype(dtype)
    if is_symbolic(data):  # a float goes on being followed
        number = get_default_dtype() if wanted is None else wanted
        if isinstance(data, float) and number.kind == "f":
            return fresh(constant_of(data, number), requires_grad, place)
        data = float(data) if isinstance(data, float) else int(data)
    if isinstance(data, Tensor):
        node = ops.detach(data.node) if data.requires_grad else data.node
    elif isinstance(data, np.ndarray) and not data.flags.c_contiguous:
        from lazyt.handle.interop.numpy import from_numpy

        copied: Tensor = from_numpy(data).clone() if wanted is None else from_numpy(data).to(wanted)
        copied = copied.to(place)
        return copied.requires_grad_() if requires_grad else copied
    elif isinstance(data, (np.ndarray, np.generic)) and not isinstance(data, str):
        node = array_node(np.asarray(data))
    else:
        if hasattr(data, "__array__") and not isinstance(data, (list, tuple, str)):
            node = array_node(np.asarray(data))
        else:
            node = node_of_nested(data, wanted)
    return fresh(node if wanted is None else ops.cast(node, wanted), requires_grad, place)


def in_memory(shape: Shape, value: complex, dtype: Any, device: Any) -> Tensor:
    """``full`` that is computed: state that every step of training writes over begins so, and the
    first step is the same graph as all others. ``dtype`` None is the default one."""
    wanted = get_default_dtype() if dtype is None else as_dtype(dtype)
    values = np.full(shape, value, getattr(np, wanted.name, np.float32))
    found = tensor(values, device=device).to(wanted)
    found.realize()
    return found


@function()
def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """``data`` as a tensor, without a copy where it is one, or an array, of that dtype."""
    place = data.device if device is None and isinstance(data, Tensor) else check_device(device)
    if isinstance(data, np.ndarray):
        from lazyt.handle.interop.numpy import from_numpy

        data = from_numpy(data)
    if isinstance(data, Tensor):
        same: Tensor = data if dtype is None else cast_to(data, dtype)
        return same if same.device is place else same.to(place)
    return tensor(data, dtype=dtype, device=place)


def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """``obj`` as a tensor that shares its memory where that is possible.

    Args:
        obj: a tensor, an array, an object with the buffer protocol (read as ``dtype``), a number
            or nested lists.
        copy: True for memory of its own in any case, False for never.

    Raises ShapeError's kin ValueError where ``copy=False`` cannot be kept.
    """
    place = obj.device if device is None and isinstance(obj, Tensor) else check_device(device)
    wanted = None if dtype is None else as_dtype(dtype)
    shared = _sharing(obj, wanted)
    if shared is not None and shared.device != place:
        shared = shared.to(place)
    if shared is None:
        if copy is False:
            raise ShapeError("can't alias arbitrary sequence into a tensor.")
        return tensor(obj, dtype=wanted, device=place, requires_grad=requires_grad)
    if wanted is not None and shared.dtype is not wanted:
        if copy is False:
            raise ShapeError(
                f"can't alias tensor with dtype '{type_title(shared.dtype)}' into dtype "
                f"'{type_title(wanted)}'."
            )
        shared = cast_to(shared, wanted)
    elif copy:
        shared = shared.clone()
    if not requires_grad:
        return shared.detach() if shared.requires_grad else shared
    return shared if shared.requires_grad else shared.detach().requires_grad_()


def _sharing(obj: Any, dtype: DType | None) -> Tensor | None:
    """A tensor over the memory of ``obj``; None when it has none to share."""
    if isinstance(obj, Tensor):
        return obj
    if isinstance(obj, np.ndarray):
        from lazyt.handle.interop.numpy import from_numpy

        return from_numpy(obj)
    if isinstance(obj, (bytes, bytearray, memoryview)):
        return frombuffer(obj, dtype=dtype or get_default_dtype())
    return None


def frombuffer(
    buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A vector over the memory of an object with the buffer protocol.

    Args:
        dtype: how its bytes are read.
        count: number of elements, all that fit by default.
        offset: the first byte.

    Raises ShapeError, a ValueError, for lengths that do not fit.
    """
    from lazyt.handle.interop.numpy import from_numpy

    wanted = as_dtype(dtype)
    try:
        raw = memoryview(buffer).cast("B")
    except TypeError:
        raise ShapeError("object does not implement Python buffer protocol.") from None
    length, size = raw.nbytes, wanted.itemsize
    if not length or not count:
        raise ShapeError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ShapeError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length "
            f"({length} bytes) minus 1"
        )
    if count < 0:
        if (length - offset) % size:
            raise ShapeError(
                f"buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a "
                f"multiple of element size ({size})"
            )
        count = (length - offset) // size
    elif offset + count * size > length:
        raise ShapeError(
            f"requested buffer length ({count} * {size} bytes) after offset ({offset} bytes) must "
            f"not be greater than actual buffer length ({length} bytes)"
        )
    array: Any = np.frombuffer(raw, np.uint8, count * size, offset)
    found: Tensor = from_numpy(array).view(wanted)
    return found.requires_grad_() if requires_grad else found


@function()
def scalar_tensor(
    s: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A zero-dimensional tensor of one number, floating point by default."""
    wanted = get_default_dtype() if dtype is None else dtype
    return tensor(s, dtype=wanted, device=device, requires_grad=requires_grad)


@function(method=True)
def new_tensor(
    self: Tensor, data: Any, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False, layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of ``data``, in this tensor's dtype."""
    place = self.device if device is None else device
    return tensor(data, dtype=dtype or self.dtype, device=place, requires_grad=requires_grad)


_SPARSE = frozenset({"sparse_bsc", "sparse_bsr", "sparse_coo", "sparse_csc", "sparse_csr"})


def _filled(
    shape: Shape, value: Any, name: str, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False, layout: Any = None, pin_memory: bool = False,
    memory_format: Any = None, out: Tensor | None = None, strides: Shape | None = None,
    **unknown: Any,
) -> Tensor:  # fmt: skip
    if unknown:
        raise DTypeError(f"{name}() got an unexpected keyword argument '{next(iter(unknown))}'")
    place = check_device(device)
    if layout not in (None, strided):
        if value or repr(layout).rpartition(".")[2] not in _SPARSE:
            raise LazytError(f"{name}: tensors of layout {layout} are not supported")
        # By name: its module is built on this one.
        made = import_module("lazyt.functional.sparse.creation").empty_in(
            layout, shape, dtype=dtype, device=device, requires_grad=requires_grad
        )
        return cast(Tensor, made)
    if any(n < 0 for n in shape):
        if name == "zeros":
            raise ShapeError(f"{name}: Dimension size must be non-negative.")
        bad = next(n for n in shape if n < 0)
        raise ShapeError(f"Trying to create tensor with negative dimension {bad}: {list(shape)}")
    if out is not None:
        if dtype is not None and checked_dtype(dtype, name) is not out.dtype:
            given, there = type_title(checked_dtype(dtype, name)), type_title(out.dtype)
            raise LazytError(f"dtype {given} does not match dtype of out parameter ({there})")
        refuse_number(value, out.dtype)
        node = expand_to(constant_of(value, out.dtype), shape)
        return give(node, name, (), out)
    wanted = get_default_dtype() if dtype is None else checked_dtype(dtype, name)
    refuse_number(value, wanted)
    if requires_grad and wanted.kind not in "fc":
        raise GradientError(
            "Only Tensors of floating point and complex dtype can require gradients"
        )
    made = fresh(expand_to(constant_of(value, wanted), shape), place=place)
    if strides is None and memory_format is not None:
        strides = contiguous_strides(shape)
    if strides is not None:
        lay_out(made, strides_in(shape, strides, memory_format, name))
    return made.requires_grad_() if requires_grad else made


def checked_dtype(dtype: Any, function: str) -> DType:
    """``as_dtype`` whose message names the function."""
    if isinstance(dtype, (DType, type)):
        return as_dtype(dtype)
    raise DTypeError(
        f"{function}(): argument 'dtype' must be {package_name()}.dtype, not {type(dtype).__name__}"
    )


def _size(size: Any, kwargs: dict[str, Any], function: str) -> Shape:
    if "size" in kwargs:
        size = (kwargs.pop("size"),)
    if not size:
        raise DTypeError(f'{function}() missing 1 required positional arguments: "size"')
    return as_shape(size, function)


@function(out_resizes=True)
def zeros(*size: Any, **kwargs: Any) -> Tensor:
    """A tensor of zeros: ``zeros(2, 3)`` or ``zeros((2, 3))``.

    Keywords: size, out, dtype, layout, device, pin_memory, requires_grad. Raises ShapeError for a
    negative size.
    """
    return _filled(_size(size, kwargs, "zeros"), 0, "zeros", **kwargs)


@function(layout=row_major)
def ones(*size: Any, **kwargs: Any) -> Tensor:
    """A tensor of ones: ``ones(2, 3)`` or ``ones((2, 3))``.

    Keywords: size, out, dtype, layout, device, pin_memory, requires_grad. Raises ShapeError for a
    negative size.
    """
    return _filled(_size(size, kwargs, "ones"), 1, "ones", **kwargs)


@function()
def empty(*size: Any, **kwargs: Any) -> Tensor:
    """A tensor whose values do not matter: zeros here.

    Keywords: size, out, dtype, layout, device, pin_memory, requires_grad, memory_format. Raises
    ShapeError for a negative size.
    """
    return _filled(_size(size, kwargs, "empty"), 0, "empty", **kwargs)


@function(out_resizes=True)
def full(
    size: Any, fill_value: Any, *, out: Tensor | None = None, dtype: Any = None,
    layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of one value, in that number's dtype by default.

    Raises DTypeError for a size that is no sequence and for what is no number.
    """
    if not isinstance(size, (tuple, list)):
        raise DTypeError(
            f"full(): argument 'size' (position 1) must be tuple of ints, not {type(size).__name__}"
        )
    return _full(as_shape((size,), "full"), fill_value, "full", dtype=dtype, device=device,
                 requires_grad=requires_grad, layout=layout, out=out)  # fmt: skip


def _full(shape: Shape, fill_value: Any, name: str, **kwargs: Any) -> Tensor:
    if isinstance(fill_value, Tensor) and not fill_value.shape:
        fill_value = fill_value.item()
    number = as_number(fill_value)
    if number is None:
        raise DTypeError(
            f"{name}(): argument 'fill_value' (position 2) must be Number, "
            f"not {type(fill_value).__name__}"
        )
    if kwargs["dtype"] is None and kwargs.get("out") is None:
        kwargs["dtype"] = scalar_dtype(number)
    return _filled(shape, number, name, **kwargs)


def _like(name: str, value: int) -> Callable[..., Tensor]:
    def function(
        input: Tensor, *, dtype: Any = None, layout: Any = None, device: Any = None,
        requires_grad: bool = False, memory_format: Any = None, pin_memory: bool = False,
    ) -> Tensor:  # fmt: skip
        require_tensor(input, name)
        wanted = input.dtype if dtype is None else dtype
        strides = None if input._view is None and memory_format is None else input.strides
        place = input.device if device is None else device
        return _filled(
            tuple(input.shape), value, name, dtype=wanted, device=place, layout=layout,
            requires_grad=requires_grad, memory_format=memory_format, strides=strides,
        )  # fmt: skip

    function.__doc__ = (
        f"A tensor like ``input`` in size, dtype and order of memory, of {name[:-5]}."
    )
    function.__name__ = function.__qualname__ = name
    return function


def _new(name: str, value: int) -> Callable[..., Tensor]:
    def function(self: Tensor, *size: Any, **kwargs: Any) -> Tensor:
        shape = _size(size, kwargs, name)
        if kwargs.get("dtype") is None:
            kwargs["dtype"] = self.dtype
        if kwargs.get("device") is None:
            kwargs["device"] = self.device
        return _filled(shape, value, name, **kwargs)

    function.__doc__ = f"A tensor of {name[4:]}, in this tensor's dtype."
    function.__name__ = function.__qualname__ = name
    return function


zeros_like = declare("zeros_like", _like("zeros_like", 0))
ones_like = declare("ones_like", _like("ones_like", 1))
empty_like = declare("empty_like", _like("empty_like", 0))
new_zeros = declare("new_zeros", _new("new_zeros", 0), method=True)
new_ones = declare("new_ones", _new("new_ones", 1), method=True)
new_empty = declare("new_empty", _new("new_empty", 0), method=True)


@function()
def full_like(
    input: Tensor, fill_value: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, memory_format: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor like ``input`` in size, dtype and order of memory, of one value."""
    require_tensor(input, "full_like")
    return _full(
        tuple(input.shape), fill_value, "full_like", dtype=dtype or input.dtype,
        device=input.device if device is None else device, requires_grad=requires_grad,
        layout=layout, strides=input.strides, memory_format=memory_format,
    )  # fmt: skip


@function(method=True)
def new_full(
    self: Tensor, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False, layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of one value, in this tensor's dtype."""
    return _full(as_shape((size,), "new_full"), fill_value, "new_full",
                 dtype=dtype or self.dtype, device=self.device if device is None else device,
                 requires_grad=requires_grad, layout=layout)  # fmt: skip


# ------------------------------------------------------------------ any order of memory


@function()
def empty_strided(
    size: Any, stride: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of zeros with given strides. Raises ShapeError for another number of them."""
    shape, strides = as_shape((size,), "empty_strided"), as_shape((stride,), "empty_strided")
    if len(shape) != len(strides):
        raise ShapeError(
            f"dimensionality of sizes ({len(shape)}) must match dimensionality of strides "
            f"({len(strides)})"
        )
    if any(s < 0 for s in strides):
        raise ShapeError(
            f"Storage size calculation overflowed with sizes={list(shape)} and "
            f"strides={list(strides)}"
        )
    wanted = {"dtype": dtype, "device": device, "layout": layout}
    if is_dense(shape, strides):
        made = _filled(shape, 0, "empty_strided", **wanted)
        lay_out(made, strides)
    else:
        reach = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides))
        made = _filled((reach,), 0, "empty_strided", **wanted)
        made._view = arranged(made._storage, shape, strides, 0)
        made._view.root = True
    return made.requires_grad_() if requires_grad else made


@function(method=True)
def new_empty_strided(
    self: Tensor, size: Any, stride: Any, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """``empty_strided`` in this tensor's dtype."""
    place = self.device if device is None else device
    return empty_strided(size, stride, dtype=dtype or self.dtype, device=place, layout=layout,
                         requires_grad=requires_grad)  # fmt: skip


@function()
def empty_permuted(
    size: Any, physical_layout: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of zeros whose dimensions lie in memory in a given order, slowest first.

    Raises ShapeError for what is no order of its dimensions.
    """
    shape = as_shape((size,), "empty_permuted")
    order = as_shape((physical_layout,), "empty_permuted")
    if len(shape) != len(order):
        raise ShapeError(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. "
            f"len(size) = {len(shape)} is not equal to len(physical_layout) = {len(order)}"
        )
    for axis in order:
        if not 0 <= axis < len(shape):
            raise ShapeError(
                f"Dimension out of range (expected to be between 0 and {len(shape) - 1}, but got "
                f"{axis} at index {order.index(axis)}).  NB: negative dims not currently supported;"
                " file an issue if you want it."
            )
    if len(set(order)) < len(order):
        raise ShapeError("Duplicate dim not allowed")
    made = _filled(shape, 0, "empty_permuted", dtype=dtype, device=device, layout=layout)
    lay_out(made, dense_strides(shape, order))
    return made.requires_grad_() if requires_grad else made


def legacy_tensor(*args: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
    """``Tensor(2, 3)`` has that size; ``Tensor([..])`` has those values, in ``dtype``.

    The default dtype is meant by None. A tensor is taken as it is. Raises DTypeError for other
    arguments.
    """
    place = check_device(device)
    wanted = get_default_dtype() if dtype is None else dtype
    if len(args) == 1:
        value = args[0]
        if isinstance(value, Tensor):
            if dtype is not None and value.dtype is not dtype:
                raise DTypeError(
                    f"expected a tensor of {dtype} (got one of {value.dtype}); use .to()"
                )
            same: Tensor = value.detach()
            return same
        if isinstance(value, Size):
            return empty(value, dtype=wanted, device=place)
        if not isinstance(value, int) or isinstance(value, bool):
            if not is_sequence(value) and not hasattr(value, "__array__"):
                raise DTypeError(f"new(): data must be a sequence (got {type_name(value)})")
            return tensor(value, dtype=wanted, device=place)
    return empty(args or (0,), dtype=wanted, device=place)


@function(method=True)
def new(self: Tensor, *args: Any, size: Any = None, device: Any = None) -> Tensor:
    """``new(2, 3)`` has that size, ``new([..])`` those values, in this tensor's dtype."""
    if size is not None:
        args = tuple(size)
    return legacy_tensor(*args, dtype=self.dtype, device=self.device if device is None else device)


# Tensors of evenly spaced numbers, and the identity matrix.


_ADD, _MUL = scalar_build("add"), scalar_build("mul")


_ARANGE_ENDS = (
    "Number end", "Number start, Number end", "Number start, Number end, Number step = 1",
)  # fmt: skip


@function(fractions=("start",), out_resizes=True)
def arange(
    start: Any = None, end: Any = None, step: Any = 1, *, out: Tensor | None = None,
    dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Numbers from ``start`` up to, not including, ``end``. Raises LazytError for a bad step."""
    place = check_device(device)
    if end is None and start is None:
        forms = [f"{ends}{_OPTIONS}" for ends in _ARANGE_ENDS]
        raise wrong_arguments("arange", (), forms)
    if end is None:
        start, end = 0, start
    elif start is None:
        start = 0
    start, end, step = (_number(v, "arange") for v in (start, end, step))
    wanted = _dtype_of(dtype, out, (start, end, step))
    if wanted is bool_:
        raise NoKernelError("\"arange_cpu\" not implemented for 'Bool'")
    for number in (start, end, step):
        refuse_number(number, wanted.compute if wanted.kind == "f" else int64)
    _check_bounds(start, end, step if wanted.kind == "f" else int(step))
    if wanted is int64:  # the widest type counts in itself, the others in float64
        start, end, step = int(start), int(end), int(step)
    count = math.ceil((end - start) / step)
    if wanted.kind != "f":  # the ends count as they are, the numbers begin with a whole one
        start, step = int(start), int(step)
    return _made(_ramp(count, start, step, wanted), out, requires_grad, place)


@function(fractions=("start",))
def range(
    start: Any, end: Any = None, step: Any = 1, *, out: Tensor | None = None, dtype: Any = None,
    layout: Any = None, device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Numbers from ``start`` to ``end``, both included, in the default dtype.

    Raises LazytError for a bad step.
    """
    place = check_device(device)
    if end is None:
        start, end = 0, start
    start, end, step = (_number(v, "range") for v in (start, end, step))
    wanted = get_default_dtype() if dtype is None else as_dtype(dtype)
    _check_bounds(start, end, step)
    node = _ramp(int((end - start) / step) + 1, start, step, wanted)
    return _made(node, out, requires_grad, place)


def _number(value: Any, function: str) -> Any:
    if isinstance(value, (bool, int, float)):
        return value
    if hasattr(value, "item"):
        return value.item()
    raise DTypeError(f"{function}(): argument 'end' (position 1) must be Number, not "
                     f"{type(value).__name__}")  # fmt: skip


def _whole(value: Any, function: str, argument: str, position: int) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise DTypeError(
            f"{function}(): argument '{argument}' (position {position}) must be int, not "
            f"{type(value).__name__}"
        )
    return operator.index(value)


def _check_steps(function: str, start: Any, end: Any, steps: Any) -> None:
    """Raise DTypeError unless the ends are numbers or tensors, and ``steps`` a whole number."""
    numbers = all(isinstance(v, Tensor) or as_number(v) is not None for v in (start, end))
    if isinstance(steps, bool) or not hasattr(steps, "__index__") or not numbers:
        base = "" if function == "linspace" else ", float base = 10.0"
        ends = ("Tensor start, Tensor", "Number start, Tensor", "Tensor start, Number",
                "Number start, Number")  # fmt: skip
        forms = [f"{kinds} end, int steps{base}{_OPTIONS}" for kinds in ends]
        raise wrong_arguments(function, (start, end, steps), forms)


_OPTIONS = (
    ", *, Tensor out = None, torch.dtype dtype = None, torch.layout layout = None, torch.device "
    "device = None, bool pin_memory = False, bool requires_grad = False"
)


def _ends(start: Any, end: Any, function: str, dtype: DType) -> tuple[Any, Any]:
    """The ends of a spaced range as numbers, whole for whole numbers.

    Raises LazytError for tensors with dimensions.
    """
    ranks = [v.ndim if isinstance(v, Tensor) else 0 for v in (start, end)]
    for rank, which in zip(ranks, ("start", "end")):
        if rank:
            raise LazytError(
                f"{function} only supports 0-dimensional start and end tensors, but got {which} "
                f"with {rank} dimension(s)."
            )
    for end_of in (start, end):
        if not isinstance(end_of, Tensor):
            refuse_number(end_of, dtype)
    if dtype.kind == "c":
        return complex(start), complex(end)
    if dtype.kind != "f":
        low = -(1 << (8 * dtype.itemsize - 1)) if dtype.kind == "i" else 0
        start, end = ((int(v) - low) % (1 << (8 * dtype.itemsize)) + low for v in (start, end))
    return float(start), float(end)


def _dtype_of(dtype: Any, out: Tensor | None, numbers: Any) -> DType:
    if dtype is not None:
        return as_dtype(dtype)
    if out is not None:
        return out.dtype
    if any(isinstance(v, complex) for v in numbers):
        return default_complex()
    return int64 if all(isinstance(v, int) for v in numbers) else get_default_dtype()


def _check_bounds(start: Any, end: Any, step: Any) -> None:
    if step == 0:
        raise ArgumentError("step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise LazytError(f"unsupported range: {float(start):g} -> {float(end):g}")
    if (end - start) * step < 0:
        raise LazytError("upper bound and lower bound inconsistent with step sign")


def _made(node: Node, out: Tensor | None, requires_grad: bool, place: device) -> Tensor:
    if out is None:
        return fresh(node, requires_grad, place)
    if len(node.shape) == 1 and out.shape.numel() == node.size:  # it keeps the shape that it has
        node = ops.reshape(node, tuple(out.shape))
    return give(node, "arange", (), out)


def _ramp(count: int, start: Any, step: Any, dtype: DType) -> Node:
    """``start + i * step``, computed in int64 or float64 as PyTorch accumulates it."""
    node = ops.iota(count)
    if dtype.kind != "f" and isinstance(start, int) and isinstance(step, int):
        wide = int64
    else:
        wide = float64
        node = ops.cast(node, wide)
    if step != 1:
        node = mapped(_MUL, (node, constant_of(step, wide)), wide, None)
    if start != 0:
        node = mapped(_ADD, (node, constant_of(start, wide)), wide, None)
    return ops.cast(node, dtype)


@function(fractions=("start",))
def linspace(
    start: Any, end: Any, steps: int, *, out: Tensor | None = None, dtype: Any = None,
    layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """``steps`` numbers from ``start`` to ``end``, both included, evenly spaced."""
    place = check_device(device)
    _check_steps("linspace", start, end, steps)
    if steps < 0:
        raise LazytError("number of steps must be non-negative")
    wanted = _dtype_of(dtype, out, (0.0, start, end))
    if wanted is bool_:
        raise NoKernelError("\"linspace_cpu\" not implemented for 'Bool'")
    first, last = _ends(start, end, "linspace", wanted)
    return _made(_spaced(first, last, steps, wanted), out, requires_grad, place)


def _spaced(start: Any, end: Any, steps: int, dtype: DType) -> Node:
    """Both halves counted from their own end, so that the ends are exact, as PyTorch does."""
    wide = dtype if dtype in (float32, float64) else float64 if dtype.kind != "f" else float32
    if dtype.kind == "c":
        wide = dtype
    if steps <= 1:
        return expand_to(constant_of(start, dtype), (steps,))
    step = (end - start) / (steps - 1)
    if wide is float32:
        step = float(np.float32(np.float32(end) - np.float32(start)) / np.float32(steps - 1))
    half = steps // 2
    place = ops.iota(steps)
    early = ops.apply("lt", place, ops.constant(half, int64))
    scaled = constant_of(step, wide)
    back = ops.apply("sub", ops.constant(steps - 1, int64), place)
    low = ops.apply("mul", ops.cast(place, wide), scaled)
    low = ops.apply("add", constant_of(start, wide), low)
    high = ops.apply("mul", ops.cast(back, wide), scaled)
    high = ops.apply("sub", constant_of(end, wide), high)
    return ops.cast(ops.apply("where", early, low, high), dtype)


@function(fractions=("start",))
def logspace(
    start: Any, end: Any, steps: int, base: float = 10.0, *, out: Tensor | None = None,
    dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """``base`` to the power of evenly spaced exponents."""
    place = check_device(device)
    _check_steps("logspace", start, end, steps)
    if steps < 0:
        raise LazytError("number of steps must be non-negative")
    wanted = _dtype_of(dtype, out, (0.0, start, end))
    if wanted is bool_:
        raise NoKernelError("\"logspace_cpu\" not implemented for 'Bool'")
    wide = complex128 if wanted.kind == "c" else float64
    exponents = _spaced(*_ends(start, end, "logspace", wanted), steps, wide)
    node = ops.apply("pow", ops.constant(base, wide), exponents)
    return _made(ops.cast(node, wanted), out, requires_grad, place)


@function()
def eye(
    n: int, m: int | None = None, *, out: Tensor | None = None, dtype: Any = None,
    layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Ones on the diagonal of an ``n`` by ``m`` matrix of zeros."""
    place = check_device(device)
    n = _whole(n, "eye", "n", 1)
    columns = n if m is None else _whole(m, "eye", "m", 2)
    for name, size in (("n", n), ("m", columns)):
        if size < 0:
            raise LazytError(f"{name} must be greater or equal to 0, got {size}")
    wanted = _dtype_of(dtype, out, (0.0,))
    narrow = int32 if max(n, columns) < 2**31 else int64  # twice as many fit into a vector
    rows = ops.reshape(ops.cast(ops.iota(n), narrow), (n, 1))
    node = ops.apply("eq", rows, ops.cast(ops.iota(columns), narrow))
    return _made(ops.cast(node, wanted), out, requires_grad, place)
