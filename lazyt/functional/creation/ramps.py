"""Tensors of evenly spaced numbers, and the identity matrix."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from lazyt import ops
from lazyt.errors import ArgumentError, DTypeError, LazytError, NoKernelError
from lazyt.functional.creation.creation import fresh
from lazyt.functional.creation.nesting import refuse_number
from lazyt.functional.elementwise.arithmetic import scalar_build
from lazyt.functional.operands import as_number, constant_of, expand_to, mapped, wrong_arguments
from lazyt.functional.results import give
from lazyt.functional.type_promotion import as_dtype, get_default_dtype
from lazyt.handle.device import check_device, device
from lazyt.handle.function_table import function
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType, bool_, float32, float64, int64
from lazyt.ir.graph import Node

__all__ = ["arange", "eye", "linspace", "logspace", "range"]

_ADD, _MUL = scalar_build("add"), scalar_build("mul")


_ARANGE_ENDS = (
    "Number end", "Number start, Number end", "Number start, Number end, Number step = 1",
)  # fmt: skip


@function(fractions=("start",))
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


def _ends(start: Any, end: Any, function: str, dtype: DType) -> tuple[float, float]:
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
    if dtype.kind != "f":
        low = -(1 << (8 * dtype.itemsize - 1)) if dtype.kind == "i" else 0
        start, end = ((int(v) - low) % (1 << (8 * dtype.itemsize)) + low for v in (start, end))
    return float(start), float(end)


def _dtype_of(dtype: Any, out: Tensor | None, numbers: Any) -> DType:
    if dtype is not None:
        return as_dtype(dtype)
    if out is not None:
        return out.dtype
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
    wanted = _dtype_of(dtype, out, (0.0,))
    if wanted is bool_:
        raise NoKernelError("\"linspace_cpu\" not implemented for 'Bool'")
    first, last = _ends(start, end, "linspace", wanted)
    return _made(_spaced(first, last, steps, wanted), out, requires_grad, place)


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
    wanted = _dtype_of(dtype, out, (0.0,))
    if wanted is bool_:
        raise NoKernelError("\"logspace_cpu\" not implemented for 'Bool'")
    exponents = _spaced(*_ends(start, end, "logspace", wanted), steps, float64)
    node = ops.apply("pow", ops.constant(base, float64), exponents)
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
    rows = ops.reshape(ops.iota(n), (n, 1))
    node = ops.apply("eq", rows, ops.iota(columns))
    return _made(ops.cast(node, wanted), out, requires_grad, place)
