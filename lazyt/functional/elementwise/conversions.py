"""Changing dtype and device, and questions about them."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from lazyt import ops
from lazyt.errors import DeviceError, DTypeError, ShapeError
from lazyt.functional.elementwise.arithmetic import cast_to
from lazyt.functional.operands import existing_dim, require_tensor, wrong_arguments
from lazyt.functional.type_promotion import as_dtype, torch_name
from lazyt.handle.device import CPU, check_device, device, place_name, transferred
from lazyt.handle.dispatch import copied, lay_out, wrap
from lazyt.handle.function_table import declare, function
from lazyt.handle.layout import (
    contiguous_format,
    preserve_format,
    strides_like,
    suggests_channels_last,
)
from lazyt.handle.pending import realize_now
from lazyt.handle.tensor import Tensor
from lazyt.ir import dtypes
from lazyt.ir.dtypes import DType, package_name

__all__ = ["get_device", "is_complex", "is_floating_point", "is_signed", "is_tensor", "numel"]


def _cast_in_order(self: Tensor, dtype: DType, order: Any) -> Tensor:
    """A cast to a dtype and an order of memory, itself where it has both."""
    result = cast_to(self, dtype)
    if order in (None, preserve_format):
        return result
    suggested = suggests_channels_last(tuple(self.shape), self.strides)
    if result is self and suggested == (order is not contiguous_format):
        return result  # PyTorch tells channels last from all other orders here
    if result is not self and result.is_contiguous(memory_format=order):
        return result
    return copied(self, result.node, "ToCopy", order)


def converted(name: str, dtype: DType) -> Callable[..., Tensor]:
    """The method ``name``, which converts to ``dtype``."""

    def function(self: Tensor, memory_format: Any = None) -> Tensor:
        return _cast_in_order(self, dtype, memory_format)

    function.__doc__ = f"This tensor as {dtype.name}; itself when it is that already."
    function.__name__ = function.__qualname__ = name
    return function


float = declare("float", converted("float", dtypes.float32), method=True)
double = declare("double", converted("double", dtypes.float64), method=True)
half = declare("half", converted("half", dtypes.float16), method=True)
bfloat16 = declare("bfloat16", converted("bfloat16", dtypes.bfloat16), method=True)
long = declare("long", converted("long", dtypes.int64), method=True)
int = declare("int", converted("int", dtypes.int32), method=True)
short = declare("short", converted("short", dtypes.int16), method=True)
char = declare("char", converted("char", dtypes.int8), method=True)
byte = declare("byte", converted("byte", dtypes.uint8), method=True)
bool = declare("bool", converted("bool", dtypes.bool_), method=True)


_TO_FORMS = (
    "torch.device device = None, torch.dtype dtype = None, bool non_blocking = False, bool copy = "
    "False, *, torch.memory_format memory_format = None",
    "torch.dtype dtype, bool non_blocking = False, bool copy = False, *, torch.memory_format "
    "memory_format = None",
    "Tensor tensor, bool non_blocking = False, bool copy = False, *, torch.memory_format "
    "memory_format = None",
)


@function(method=True)
def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """``to(dtype)``, ``to(device)``, ``to(device, dtype)`` or ``to(other)``.

    Returns this tensor when nothing changes and ``copy`` is not set. Raises DeviceError for a
    device that cannot be used.
    """
    dtype, place = kwargs.pop("dtype", None), kwargs.pop("device", None)
    copy = kwargs.pop("copy", False)
    kwargs.pop("non_blocking", None)
    order = kwargs.pop("memory_format", None)
    if kwargs:
        raise DTypeError(f"to() got an unexpected keyword argument '{next(iter(kwargs))}'")
    flags = [item for item in args if isinstance(item, builtins.bool)]
    if len(flags) > 1:  # non_blocking and copy
        copy = flags[1]
    for item in args:
        if isinstance(item, Tensor):
            dtype, place = item.dtype, item.device
        elif isinstance(item, DType) or (isinstance(item, builtins.type) and dtype is None):
            dtype = item
        elif isinstance(item, (str, device)) or (
            isinstance(item, builtins.int) and not isinstance(item, builtins.bool)
        ):
            place = item
        elif item is not None and not isinstance(item, builtins.bool):
            raise wrong_arguments("to", args, _TO_FORMS)
    if len(args) > 1 and all(isinstance(v, DType) for v in args[:2]):
        raise wrong_arguments("to", args, _TO_FORMS)
    if place is not None:
        place = check_device(place)
        if place != self.device:
            self = moved(self, place)
    result = _cast_in_order(self, self.dtype if dtype is None else as_dtype(dtype), order)
    if copy and result is self:
        return copied(self, self.node, "ToCopy", order)
    return result


@function(method=True)
def type(self: Tensor, dtype: Any = None, non_blocking: Any = False) -> Any:
    """The tensor type's name, such as ``lazyt.FloatTensor``; with ``dtype``, a conversion."""
    if dtype is None:
        place = ".cuda" if self.is_cuda else ""
        return f"{package_name()}{place}.{torch_name(self.dtype)}Tensor"
    if isinstance(dtype, str):
        title = dtype.rpartition(".")[2].removesuffix("Tensor")
        for candidate in (*dtypes.ALL, *dtypes.COMPLEX):
            if torch_name(candidate) == title:
                return cast_to(self, candidate)
        raise ShapeError(f"invalid type: '{dtype}'")
    legacy = getattr(dtype, "dtype", None)
    return cast_to(self, legacy if isinstance(legacy, DType) else as_dtype(dtype))


@function(method=True)
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """This tensor in the dtype of ``other``."""
    return cast_to(self, other.dtype)


def moved(self: Tensor, place: device) -> Tensor:
    """A copy on another device, of the same strides."""
    node = transferred(self.node, place_name(place))
    made = wrap(node, *((self,) if node.needs_grad else ()), name="ToCopy")
    if self._view is not None:
        lay_out(made, strides_like(tuple(self.shape), self.strides))
    return made


@function(method=True)
def cpu(self: Tensor, memory_format: Any = None) -> Tensor:
    """This tensor on the CPU: itself when it is there."""
    return self if self.device is CPU else moved(self, CPU)


@function(method=True)
def cuda(self: Tensor, device: Any = None, non_blocking: Any = False) -> Tensor:
    """This tensor on a GPU. Raises DeviceError, saying what is missing."""
    place = check_device("cuda" if device is None else device)
    return self if self.device == place else moved(self, place)


@function(method=True)
def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """A copy in memory that GPUs read by themselves; this tensor where there is no GPU."""
    if not _has_gpu(device) or is_pinned(self):
        return self
    if self.device is not CPU:
        raise DeviceError(f"cannot pin '{self.type()}' only dense CPU tensors can be pinned")
    from lazyt.handle.cuda_devices import wanted_device

    node = self.detach().contiguous().node
    realize_now([node], "pin_memory()")
    made: Tensor = wrap(ops.input_(node.shape, node.dtype, wanted_device(device).pinned(node.data)))
    return made


@function(method=True)
def record_stream(self: Tensor, s: Any) -> None:
    """Keep the memory, once the tensor is gone, until what the stream ``s`` is doing then is done.

    For what other libraries do in the stream: what lazyt does itself is known. Raises DeviceError
    for a tensor on the CPU and for a stream of another device.
    """
    if self.device is CPU or s.device != self.device:
        raise DeviceError(f"a tensor on {self.device} is not used by a stream of {s.device}")
    node = self._storage.current()
    realize_now([node], "record_stream()")
    s._uses(node.data)


def _has_gpu(device: Any) -> builtins.bool:
    from lazyt.handle.cuda_devices import device_count

    return device is not None or device_count() > 0


@function(method=True)
def is_pinned(self: Tensor, device: Any = None) -> builtins.bool:
    """Whether the memory is pinned for transfers to a GPU."""
    data = self._storage.node.data
    return data is not None and builtins.type(data).__name__ == "PinnedBuffer"


@function(method=True)
def is_floating_point(input: Tensor) -> builtins.bool:
    """Whether the elements are floating point."""
    require_tensor(input, "is_floating_point")
    return input.dtype.kind == "f"


@function(method=True)
def is_complex(input: Tensor) -> builtins.bool:
    """Whether the elements are complex numbers."""
    return require_tensor(input, "is_complex").dtype.kind == "c"


@function(method=True)
def is_signed(input: Tensor) -> builtins.bool:
    """Whether the elements can be negative."""
    return input.dtype.is_signed


@function()
def is_tensor(obj: Any) -> builtins.bool:
    """Whether ``obj`` is a Tensor."""
    return isinstance(obj, Tensor)


@function(method=True)
def element_size(self: Tensor) -> builtins.int:
    """Bytes per element."""
    return self.dtype.itemsize


@function(method=True)
def size(self: Tensor, dim: Any = None) -> Any:
    """The shape, or the extent of one dimension. Raises BoundsError for a bad dimension."""
    return self.shape if dim is None else self.shape[existing_dim(dim, self.ndim)]


@function(method=True)
def dim(self: Tensor) -> builtins.int:
    """Number of dimensions."""
    return self.ndim


@function(method=True)
def numel(input: Tensor) -> builtins.int:
    """Number of elements."""
    require_tensor(input, "numel")
    return input.shape.numel()


@function(method=True)
def get_device(input: Tensor) -> builtins.int:
    """Number of the GPU, -1 on the CPU."""
    index = require_tensor(input, "get_device").device.index
    return -1 if index is None else index if isinstance(index, builtins.int) else 0


# Other names that PyTorch has for the same functions.
ndimension = declare("ndimension", dim, method=True)
nelement = declare("nelement", numel, method=True)
