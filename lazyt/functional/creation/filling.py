"""Tensors of one value, in any size and order of memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lazyt.errors import DTypeError, GradientError, LazytError, ShapeError
from lazyt.functional.creation.creation import fresh, tensor
from lazyt.functional.creation.nesting import is_sequence, refuse_number, type_name
from lazyt.functional.operands import as_number, as_shape, constant_of, expand_to, require_tensor
from lazyt.functional.results import give
from lazyt.functional.type_promotion import as_dtype, get_default_dtype, scalar_dtype
from lazyt.handle.device import check_device
from lazyt.handle.dispatch import lay_out, method, type_title
from lazyt.handle.function_table import declare, function
from lazyt.handle.layout import dense_strides, is_dense, strided, strides_in
from lazyt.handle.tensor import Size, Tensor
from lazyt.handle.view_shapes import arranged
from lazyt.handle.views import contiguous_strides
from lazyt.ir.dtypes import DType, package_name
from lazyt.ir.graph import Shape

__all__ = [
    "empty", "empty_like", "empty_permuted", "empty_strided", "full", "full_like", "ones",
    "ones_like", "zeros", "zeros_like",
]  # fmt: skip


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
        raise LazytError(f"{name}: tensors of layout {layout} are not supported")
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
    if requires_grad and wanted.kind != "f":
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


@function()
def zeros(*size: Any, **kwargs: Any) -> Tensor:
    """A tensor of zeros: ``zeros(2, 3)`` or ``zeros((2, 3))``.

    Keywords: size, out, dtype, layout, device, pin_memory, requires_grad. Raises ShapeError for a
    negative size.
    """
    return _filled(_size(size, kwargs, "zeros"), 0, "zeros", **kwargs)


@function()
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


@function()
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


@method("__init__")
def _initialize(self: Tensor, *args: Any, **kwargs: Any) -> None:
    made = legacy_tensor(*args, **kwargs)
    self._storage = made._storage
    self._view = made._view
