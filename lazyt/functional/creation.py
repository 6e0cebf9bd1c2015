"""Making tensors from values and by pattern."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lazyt import ops
from lazyt.device import check_device
from lazyt.dispatch import array_node, wrap
from lazyt.errors import DTypeError, GradientError, LazytError, ShapeError
from lazyt.functional.arithmetic import cast_to, scalar_build
from lazyt.functional.nesting import node_of_nested
from lazyt.functional.operands import as_number, as_shape, constant_of, expand_to, mapped
from lazyt.functional.promotion import as_dtype, get_default_dtype, scalar_dtype
from lazyt.ir.dtypes import (
    DType,
    float32,
    float64,
    int64,
)
from lazyt.ir.graph import Node, Shape
from lazyt.tensor import Tensor

__all__ = [
    "arange", "as_tensor", "empty", "empty_like", "eye", "full", "full_like", "linspace",
    "logspace", "ones", "ones_like", "scalar_tensor", "tensor", "zeros", "zeros_like",
]  # fmt: skip

_ADD, _MUL, _GE = scalar_build("add"), scalar_build("mul"), scalar_build("ge")


def fresh(node: Node, requires_grad: bool = False) -> Tensor:
    """A new leaf tensor. Raises GradientError when whole numbers should require gradients."""
    result = wrap(node, name="leaf")
    if requires_grad:
        if node.dtype.kind != "f":
            raise GradientError(
                "Only Tensors of floating point and complex dtype can require gradients"
            )
        result.requires_grad = True
    return result


# ------------------------------------------------------------------ from values


def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A copy of numbers, nested lists, an array or a tensor.

    Raises ShapeError for ragged lists and LazytError for values that are no numbers.
    """
    check_device(device)
    wanted = None if dtype is None else as_dtype(dtype)
    if isinstance(data, Tensor):
        node = ops.detach(data.node) if data.requires_grad else data.node
    elif isinstance(data, (np.ndarray, np.generic)):
        node = array_node(np.asarray(data))
    else:
        if hasattr(data, "__array__") and not isinstance(data, (list, tuple)):
            node = array_node(np.asarray(data))
        else:
            node = node_of_nested(data, wanted)
    return fresh(node if wanted is None else ops.cast(node, wanted), requires_grad)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """``data`` as a tensor, without a copy where it is one, or an array, of that dtype."""
    check_device(device)
    if isinstance(data, np.ndarray):
        from lazyt.numpy_bridge import from_numpy

        data = from_numpy(data)
    if isinstance(data, Tensor):
        return data if dtype is None else cast_to(data, dtype)
    return tensor(data, dtype=dtype)


def scalar_tensor(value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A zero-dimensional tensor of one number, floating point by default."""
    return tensor(value, dtype=dtype or get_default_dtype(), device=device)


def legacy_tensor(*args: Any) -> Tensor:
    """``Tensor(2, 3)`` has that size; ``Tensor([..])`` has those values, in the default dtype."""
    if len(args) == 1 and not isinstance(args[0], int):
        return tensor(args[0], dtype=get_default_dtype())
    return zeros(*args) if args else zeros(0)


# ------------------------------------------------------------------ filled


def _filled(
    shape: Shape, value: Any, dtype: Any, device: Any, requires_grad: bool, name: str
) -> Tensor:
    check_device(device)
    if any(n < 0 for n in shape):
        raise ShapeError(f"{name}: Dimension size must be non-negative.")
    wanted = get_default_dtype() if dtype is None else as_dtype(dtype)
    return fresh(expand_to(constant_of(value, wanted), shape), requires_grad)


def zeros(
    *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False, layout: Any = None,
) -> Tensor:  # fmt: skip
    """A tensor of zeros. Raises ShapeError for a negative size."""
    return _filled(as_shape(size, "zeros"), 0, dtype, device, requires_grad, "zeros")


def ones(
    *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False, layout: Any = None,
) -> Tensor:  # fmt: skip
    """A tensor of ones. Raises ShapeError for a negative size."""
    return _filled(as_shape(size, "ones"), 1, dtype, device, requires_grad, "ones")


def empty(
    *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False, layout: Any = None, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """A tensor whose values do not matter: zeros here."""
    return _filled(as_shape(size, "empty"), 0, dtype, device, requires_grad, "empty")


def full(
    size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of one value, in that number's dtype by default."""
    if isinstance(fill_value, Tensor):
        fill_value = fill_value.item()
    number = as_number(fill_value)
    if number is None:
        raise DTypeError(
            "full(): argument 'fill_value' (position 2) must be Number, "
            f"not {type(fill_value).__name__}"
        )
    wanted = scalar_dtype(number) if dtype is None else dtype
    return _filled(as_shape((size,), "full"), number, wanted, device, requires_grad, "full")


def _like(name: str, value: int) -> Callable[..., Tensor]:
    def function(
        input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
        layout: Any = None, memory_format: Any = None,
    ) -> Tensor:  # fmt: skip
        wanted = dtype or input.dtype
        return _filled(tuple(input.shape), value, wanted, device, requires_grad, name)

    function.__doc__ = f"A tensor like ``input`` in size and dtype, of {name[:-5]}."
    function.__name__ = function.__qualname__ = name
    return function


def _new(name: str, value: int) -> Callable[..., Tensor]:
    def function(
        self: Tensor, *size: Any, dtype: Any = None, device: Any = None,
        requires_grad: bool = False,
    ) -> Tensor:  # fmt: skip
        shape = as_shape(size, name)
        return _filled(shape, value, dtype or self.dtype, device, requires_grad, name)

    function.__doc__ = f"A tensor of {name[4:]}, in this tensor's dtype."
    function.__name__ = function.__qualname__ = name
    return function


zeros_like, ones_like = _like("zeros_like", 0), _like("ones_like", 1)
empty_like = _like("empty_like", 0)
new_zeros, new_ones, new_empty = _new("new_zeros", 0), _new("new_ones", 1), _new("new_empty", 0)


def full_like(
    input: Tensor, fill_value: Any, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor like ``input`` in size and dtype, of one value."""
    return full(
        tuple(input.shape), fill_value, dtype=dtype or input.dtype, device=device,
        requires_grad=requires_grad,
    )  # fmt: skip


def new_full(
    self: Tensor, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of one value, in this tensor's dtype."""
    return full(
        size, fill_value, dtype=dtype or self.dtype, device=device, requires_grad=requires_grad
    )


def new_tensor(
    self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of ``data``, in this tensor's dtype."""
    return tensor(data, dtype=dtype or self.dtype, device=device, requires_grad=requires_grad)


# ------------------------------------------------------------------ patterns


def arange(
    start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Numbers from ``start`` up to, not including, ``end``. Raises LazytError for a bad step."""
    check_device(device)
    if end is None:
        start, end = 0, start
    start, end, step = (v.item() if hasattr(v, "item") else v for v in (start, end, step))
    wanted = as_dtype(dtype) if dtype is not None else None
    if wanted is None:
        whole = all(isinstance(v, int) for v in (start, end, step))
        wanted = int64 if whole else get_default_dtype()
    if step == 0:
        raise LazytError("step must be nonzero")
    if (end - start) * step < 0:
        raise LazytError("upper bound and lower bound inconsistent with step sign")
    count = math.ceil((end - start) / step)
    return fresh(_ramp(count, start, step, wanted), requires_grad)


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


def linspace(
    start: Any, end: Any, steps: int, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``steps`` numbers from ``start`` to ``end``, both included, evenly spaced."""
    check_device(device)
    if steps < 0:
        raise LazytError("number of steps must be non-negative")
    wanted = get_default_dtype() if dtype is None else as_dtype(dtype)
    return fresh(_spaced(float(start), float(end), steps, wanted), requires_grad)


def _spaced(start: float, end: float, steps: int, dtype: DType) -> Node:
    """Both halves counted from their own end, so that the ends are exact, as PyTorch does."""
    wide = dtype if dtype in (float32, float64) else float64 if dtype.kind != "f" else float32
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


def logspace(
    start: Any, end: Any, steps: int, base: float = 10.0, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """``base`` to the power of evenly spaced exponents."""
    check_device(device)
    wanted = get_default_dtype() if dtype is None else as_dtype(dtype)
    exponents = _spaced(float(start), float(end), steps, float64)
    node = ops.apply("pow", ops.constant(base, float64), exponents)
    return fresh(ops.cast(node, wanted), requires_grad)


def eye(
    n: int, m: int | None = None, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Ones on the diagonal of an ``n`` by ``m`` matrix of zeros."""
    check_device(device)
    columns = n if m is None else m
    for name, size in (("n", n), ("m", columns)):
        if size < 0:
            raise LazytError(f"{name} must be greater or equal to 0, got {size}")
    wanted = get_default_dtype() if dtype is None else as_dtype(dtype)
    rows = ops.reshape(ops.iota(n), (n, 1))
    node = ops.apply("eq", rows, ops.iota(columns))
    return fresh(ops.cast(node, wanted), requires_grad)
