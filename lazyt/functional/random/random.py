"""Random numbers: counter-based (Threefry), so that a graph with them is still pure.

Every call takes a key of its generator's seed and the number of the call. Results are the same for
every number of threads and however the graph is fused; they are not PyTorch's numbers.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from lazyt import ops
from lazyt.errors import DTypeError, LazytError, NoKernelError, ShapeError
from lazyt.functional.creation.creation import fresh
from lazyt.functional.operands import as_shape, require_tensor, wrong_arguments
from lazyt.functional.random.generators import Generator, default_generator
from lazyt.functional.results import give
from lazyt.functional.type_promotion import as_dtype, get_default_dtype, iinfo, torch_name
from lazyt.handle.device import check_device
from lazyt.handle.dispatch import lay_out
from lazyt.handle.function_table import declare, function
from lazyt.handle.layout import strides_in
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import (
    DType,
    bool_,
    float32,
    float64,
    int64,
    uint32,
)
from lazyt.ir.graph import Node, Shape
from lazyt.ir.scalar import Expr, arg, call, const

__all__ = [
    "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm",
]  # fmt: skip


def _bits(shape: Shape, generator: Generator | None) -> Node:
    return ops.random((generator or default_generator).next_key(), shape)


def _unit_float(bits: Expr) -> Expr:
    """24 bits as a float32 in [0, 1): every multiple of 2**-24 alike."""
    top = call("cast", call("shift_right", bits, const(8, uint32)), dtype=float32)
    return call("mul", top, const(2.0**-24, float32))


def uniform_node(shape: Shape, dtype: DType, generator: Generator | None) -> Node:
    """Numbers in [0, 1); float64 draws 53 bits, the other types 24."""
    if dtype is float64:
        high = ops.cast(_bits(shape, generator), float64)
        low = ops.cast(_bits(shape, generator), float64)
        expr = call("floor", call("mul", arg(1, float64), const(2.0**-11, float64)))
        scaled = call("mul", arg(0, float64), const(2.0**21, float64))
        expr = call("mul", call("add", scaled, expr), const(2.0**-53, float64))
        return ops.elementwise(expr, (high, low))
    node = ops.elementwise(_unit_float(arg(0, uint32)), (_bits(shape, generator),))
    if not dtype.is_half:
        return ops.cast(node, dtype)
    # Fewer bits, so that rounding to the half type never reaches 1.
    digits = 11 if dtype.name == "float16" else 8
    scale = const(2.0**digits, float32)
    whole = call("floor", call("mul", arg(0, float32), scale))
    return ops.cast(ops.elementwise(call("div", whole, scale), (node,)), dtype)


def normal_node(shape: Shape, dtype: DType, generator: Generator | None) -> Node:
    """Standard normal numbers by Box and Muller (1958), one from every two uniform ones."""
    wide = float64 if dtype is float64 else float32
    first = uniform_node(shape, wide, generator)
    second = uniform_node(shape, wide, generator)
    # 1 - u lies in (0, 1], where the logarithm is finite.
    log = call("log", call("sub", const(1.0, wide), arg(0, wide)))
    radius = call("sqrt", call("mul", const(-2.0, wide), log))
    angle = call("cos", call("mul", const(2 * math.pi, wide), arg(1, wide)))
    return ops.cast(ops.elementwise(call("mul", radius, angle), (first, second)), dtype)


def integer_node(
    shape: Shape, low: int, high: int, dtype: DType, generator: Generator | None
) -> Node:
    """Whole numbers in [low, high): the high bits of a 62-bit draw times the span."""
    wide = ops.cast(_bits(shape, generator), int64)
    span = const(high - low, int64)
    if high - low <= 1 << 31:
        expr = call("shift_right", call("mul", arg(0, int64), span), const(32, int64))
        nodes: tuple[Node, ...] = (wide,)
    else:
        other = ops.cast(_bits(shape, generator), int64)
        joined = call("shift_left", arg(0, int64), const(31, int64))
        joined = call("bitwise_xor", joined, arg(1, int64))
        expr, nodes = call("mod", joined, span), (wide, other)
    expr = call("add", expr, const(low, int64))
    return ops.cast(ops.elementwise(expr, nodes), dtype)


def open_unit_node(shape: Shape, dtype: DType, generator: Generator | None) -> Node:
    """Numbers in (0, 1), whose logarithms are finite, in the type that ``dtype`` computes in."""
    wide = float64 if dtype is float64 else float32
    drawn = uniform_node(shape, wide, generator)
    least = const(2.0**-54 if wide is float64 else 2.0**-25, wide)
    zero = call("eq", arg(0, wide), const(0, wide))
    return ops.elementwise(call("where", zero, least, arg(0, wide)), (drawn,))


def exponential_node(shape: Shape, dtype: DType, generator: Generator | None) -> Node:
    """Numbers above 0 of the exponential distribution with mean 1, in the compute type."""
    drawn = open_unit_node(shape, dtype, generator)
    expr = call("neg", call("log1p", call("neg", arg(0, drawn.dtype))))
    return ops.elementwise(expr, (drawn,))


def check_floating(dtype: DType, kernel: str) -> None:
    """Raise NoKernelError for whole numbers, as PyTorch names its kernel."""
    if dtype.kind != "f":
        raise NoKernelError(f"\"{kernel}\" not implemented for '{torch_name(dtype)}'")


# PyTorch's names of integer types in messages about bounds.
_TITLES = {"uint8": "unsigned char", "int8": "signed char", "int16": "short", "int32": "int",
           "int64": "long", "bool": "bool"}  # fmt: skip


def check_bounds(low: int, high: int, dtype: DType) -> None:
    """Raise LazytError where [low, high) is empty or leaves an integer type."""
    if low >= high:
        raise LazytError(
            f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )
    if dtype.kind == "f":
        return
    least, most = (0, 1) if dtype is bool_ else (iinfo(dtype).min, iinfo(dtype).max)
    for name, bound in (("from", low), ("to - 1", high - 1)):
        if not least <= bound <= most:
            title = _TITLES.get(dtype.name, dtype.name)
            raise LazytError(f"{name} is out of bounds for {title}")


def _made(
    draw: Callable[[Shape, DType, Generator | None], Node], shape: Shape, name: str, *,
    kernel: str = "", dtype: Any = None, device: Any = None, generator: Generator | None = None,
    requires_grad: bool = False, pin_memory: bool = False, layout: Any = None,
    out: Tensor | None = None, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """A new tensor of drawn numbers, or ``out`` with them."""
    place = check_device(device)
    for size in shape:
        if size < 0:
            raise ShapeError(
                f"Trying to create tensor with negative dimension {size}: {list(shape)}"
            )
    default = get_default_dtype() if out is None else out.dtype
    wanted = default if dtype is None else as_dtype(dtype)
    if kernel:
        check_floating(wanted, kernel)
    node = draw(shape, wanted, generator)
    return fresh(node, requires_grad, place) if out is None else give(node, name, (), out)


def _shape_of(size: Any, kwargs: dict[str, Any], name: str) -> Shape:
    if "size" in kwargs:
        size = (kwargs.pop("size"),)
    if not size:
        raise DTypeError(f"{name}() received an invalid combination of arguments - got ()")
    return as_shape(size, name)


@function()
def rand(*size: Any, **kwargs: Any) -> Tensor:
    """Numbers evenly distributed over [0, 1): ``rand(2, 3)`` or ``rand((2, 3))``.

    Keywords: size, generator, out, dtype, layout, device, requires_grad, pin_memory. Raises
    NoKernelError for whole numbers, ShapeError for a negative size.
    """
    shape = _shape_of(size, kwargs, "rand")
    return _made(uniform_node, shape, "rand", kernel="check_uniform_bounds", **kwargs)


@function()
def randn(*size: Any, **kwargs: Any) -> Tensor:
    """Numbers of the normal distribution with mean 0 and deviation 1, as ``rand``."""
    shape = _shape_of(size, kwargs, "randn")
    return _made(normal_node, shape, "randn", kernel="normal_kernel_cpu", **kwargs)


def _ordered_like(made: Tensor, input: Tensor, memory_format: Any, name: str) -> Tensor:
    """``made`` with its elements in memory in ``input``'s order, or in that of the format."""
    if input._view is not None or memory_format is not None:
        lay_out(made, strides_in(tuple(input.shape), input.strides, memory_format, name))
    return made


def _like(function: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
    def like(
        input: Tensor, *, dtype: Any = None, layout: Any = None, device: Any = None,
        requires_grad: bool = False, memory_format: Any = None,
        generator: Generator | None = None,
    ) -> Tensor:  # fmt: skip
        wanted = require_tensor(input, name).dtype if dtype is None else dtype
        made = function(
            tuple(input.shape), dtype=wanted, layout=layout, generator=generator,
            device=input.device if device is None else device,
        )  # fmt: skip
        made = _ordered_like(made, input, memory_format, name)
        return made.requires_grad_() if requires_grad else made

    like.__doc__ = f"``{name[:-5]}`` of the size and dtype of ``input``."
    like.__name__ = like.__qualname__ = name
    return like


rand_like, randn_like = _like(rand, "rand_like"), _like(randn, "randn_like")
for _forms in (
    rand_like,
    randn_like,
):
    declare(_forms.__name__, _forms)


def _check_whole(given: list[Any]) -> None:
    """Raise DTypeError unless the bounds, all but the last of ``given``, are whole numbers."""
    names = ("high",) if len(given) == 2 else ("low", "high")
    for place, (name, value) in enumerate(zip(names, given), 1):
        if not hasattr(value, "__index__"):
            raise DTypeError(
                f"randint(): argument '{name}' (position {place}) must be int, not "
                f"{type(value).__name__}"
            )


_INTEGER_FORMS = (
    "int high, tuple of ints size, *, torch.Generator generator = None, Tensor out = None, "
    "torch.dtype dtype = None, torch.device device = None, bool requires_grad = False",
    "int low, int high, tuple of ints size, *, torch.Generator generator = None, Tensor out = "
    "None, torch.dtype dtype = None, torch.device device = None, bool requires_grad = False",
)


@function()
def randint(
    low: Any = 0, high: Any = None, size: Any = None, *, dtype: Any = None, **kwargs: Any
) -> Tensor:
    """Whole numbers in [low, high), or [0, low) for ``randint(low, size)``, int64 by default.

    Keywords: generator, out, dtype, layout, device, requires_grad, pin_memory. Raises LazytError
    for an empty range and for bounds that the dtype does not hold.
    """
    given = [v for v in (low, high, size) if v is not None]
    if size is None:
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    if not isinstance(size, (tuple, list)):
        raise wrong_arguments("randint", given, _INTEGER_FORMS)
    _check_whole(given)
    first, last = operator.index(low), operator.index(high)
    out = kwargs.get("out")
    wanted = as_dtype(dtype) if dtype is not None else int64 if out is None else out.dtype
    check_bounds(first, last, wanted)

    def draw(shape: Shape, dtype: DType, generator: Generator | None) -> Node:
        return integer_node(shape, first, last, dtype, generator)

    return _made(draw, as_shape((size,), "randint"), "randint", dtype=wanted, **kwargs)


@function()
def randint_like(
    input: Tensor, low: int, high: int | None = None, *, dtype: Any = None, **kwargs: Any
) -> Tensor:
    """``randint`` of the size and dtype of ``input``. Raises as ``randint`` does."""
    require_tensor(input, "randint_like")
    low, high = (0, low) if high is None else (low, high)
    order = kwargs.pop("memory_format", None)
    if kwargs.get("device") is None:
        kwargs["device"] = input.device
    made = randint(low, high, tuple(input.shape), dtype=dtype or input.dtype, **kwargs)
    return _ordered_like(made, input, order, "randint_like")


def _orders(shape: Shape, dtype: DType, generator: Generator | None) -> Node:
    """The order of as many 53-bit numbers, ties first come, first served."""
    return ops.cast(ops.sort("order", uniform_node(shape, float64, generator)), dtype)


@function()
def randperm(n: int, *, dtype: Any = None, out: Tensor | None = None, **kwargs: Any) -> Tensor:
    """The numbers 0 to n-1 in random order, int64 by default.

    Keywords: generator, out, layout, device, requires_grad, pin_memory. Raises LazytError where
    ``n`` is too large for an integer dtype.
    """
    if not hasattr(n, "__index__"):
        raise DTypeError(
            f"randperm(): argument 'n' (position 1) must be int, not {type(n).__name__}"
        )
    wanted = as_dtype(dtype) if dtype is not None else int64 if out is None else out.dtype
    if wanted.kind != "f" and wanted is not bool_ and n > iinfo(wanted).max:
        raise LazytError(f"value cannot be converted to type {wanted.name}_t without overflow")
    return _made(_orders, (operator.index(n),), "randperm", dtype=wanted, out=out, **kwargs)


def drop_mask(shape: Shape, keep: float, generator: Generator | None = None) -> Node:
    """A bool node that is true with probability ``keep``."""
    drawn = uniform_node(shape, float32, generator)
    return ops.apply("lt", drawn, ops.constant(keep, float32))
