"""Draws from distributions: given by tensors, and written into tensors.

Probabilities, rates and deviations that are tensors are looked at: see ``value_checks``.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from lazyt import ops
from lazyt.errors import DTypeError, LazytError, NoKernelError, ShapeError
from lazyt.functional.creation.creation import fresh
from lazyt.functional.operands import (
    Build,
    as_shape,
    broadcast_all,
    constant_of,
    expand_to,
    mapped,
    require_tensor,
    without_slope,
    wrong_arguments,
)
from lazyt.functional.random.generators import Generator, default_generator
from lazyt.functional.result_layout import row_major
from lazyt.functional.results import check_output, give, overwrite
from lazyt.functional.type_promotion import as_dtype, c_name, get_default_dtype, iinfo, torch_name
from lazyt.functional.value_checks import (
    check_deviations,
    check_probabilities,
    check_rates,
    check_weights,
)
from lazyt.handle.device import META, check_device, device
from lazyt.handle.dispatch import lay_out
from lazyt.handle.function_table import declare, function
from lazyt.handle.layout import strides_in
from lazyt.handle.tensor import Tensor
from lazyt.handle.views import as_pairs
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
    "bernoulli", "binomial", "multinomial", "normal", "poisson", "rand", "rand_like", "randint",
    "randint_like", "randn", "randn_like", "randperm",
]  # fmt: skip


# Random numbers: counter-based (Threefry), so that a graph with them is still pure.
#
# Every call takes a key of its generator's seed and the number of the call. Results are the same
# for every number of threads and however the graph is fused; they are not PyTorch's numbers.


def _generator_for(place: device, generator: Generator | None) -> Generator | None:
    """The generator of numbers on a device: what has no values takes none from the default one."""
    return Generator() if place is META and generator is None else generator


def _bits(shape: Shape, generator: Generator | None) -> Node:
    return ops.random((generator or default_generator).next_key(), shape)


def _unit_float(bits: Expr) -> Expr:
    """24 bits as a float32 in [0, 1): every multiple of 2**-24 alike."""
    top = call("cast", call("shift_right", bits, const(8, uint32)), dtype=float32)
    return call("mul", top, const(2.0**-24, float32))


def uniform_node(shape: Shape, dtype: DType, generator: Generator | None) -> Node:
    """Numbers in [0, 1); float64 draws 53 bits, the other types 24. Both parts of complex ones."""
    if dtype.kind == "c":
        return as_pairs(uniform_node((*shape, 2), dtype.part, generator))
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
    """Standard normal numbers by Box and Muller (1958), one from every two uniform ones. The parts
    of complex ones have half of the variance each."""
    if dtype.kind == "c":
        parts = normal_node((*shape, 2), dtype.part, generator)
        half = ops.constant(math.sqrt(0.5), dtype.part)
        return as_pairs(ops.apply("mul", parts, half))
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


def check_floating(dtype: DType, kernel: str, kinds: str = "f") -> None:
    """Raise NoKernelError for whole numbers, and for complex ones unless they are among ``kinds``,
    as PyTorch names its kernel."""
    if dtype.kind not in kinds:
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
        check_floating(wanted, kernel, "fc")
    node = draw(shape, wanted, _generator_for(place, generator))
    return fresh(node, requires_grad, place) if out is None else give(node, name, (), out)


def _shape_of(size: Any, kwargs: dict[str, Any], name: str) -> Shape:
    if "size" in kwargs:
        size = (kwargs.pop("size"),)
    if not size:
        raise DTypeError(f"{name}() received an invalid combination of arguments - got ()")
    return as_shape(size, name)


@function(out_resizes=True)
def rand(*size: Any, **kwargs: Any) -> Tensor:
    """Numbers evenly distributed over [0, 1): ``rand(2, 3)`` or ``rand((2, 3))``.

    Keywords: size, generator, out, dtype, layout, device, requires_grad, pin_memory. Raises
    NoKernelError for whole numbers, ShapeError for a negative size.
    """
    shape = _shape_of(size, kwargs, "rand")
    return _made(uniform_node, shape, "rand", kernel="check_uniform_bounds", **kwargs)


@function(out_resizes=True)
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


@function(out_resizes=True)
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


@function(out_resizes=True)
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


def _plain(tensor: Tensor) -> Node:
    node = tensor.node
    return ops.detach(node) if node.needs_grad else node


def _chances(shape: Shape, p: Any, generator: Generator | None) -> Node:
    """A bool node, true with probability ``p``, a number or a tensor that broadcasts."""
    if isinstance(p, Tensor):
        check_floating(p.dtype, "bernoulli_tensor_cpu_p_")
        check_probabilities(p)
        wide = float64 if p.dtype is float64 else float32
        limit = ops.cast(_plain(p), wide)
    else:
        if not 0 <= p <= 1:
            raise LazytError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
        wide, limit = float64, constant_of(float(p), float64)
    return ops.apply("lt", uniform_node(shape, wide, generator), limit)


@function(method=True, layout=row_major)
def bernoulli(
    input: Tensor, p: float | None = None, *, generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """1 with the probability that each element says (or ``p``), else 0, in ``input``'s dtype.

    Raises LazytError for probabilities outside [0, 1], NoKernelError for whole numbers without
    ``p``.
    """
    require_tensor(input, "bernoulli")
    hit = _chances(tuple(input.shape), input if p is None else p, generator)
    node = ops.cast(hit, input.dtype if out is None else out.dtype)
    if p is None and out is None:
        node = without_slope(node, input.node)
    return give(node, "Bernoulli", (input,), out)


def _scaled(drawn: Expr, mean: Expr, std: Expr) -> Expr:
    return call("add", call("mul", drawn, std), mean)


_NORMAL_FORMS = (
    "Tensor mean, Tensor std, *, torch.Generator generator = None, Tensor out = None",
    "Tensor mean, float std = 1, *, torch.Generator generator = None, Tensor out = None",
    "float mean, Tensor std, *, torch.Generator generator = None, Tensor out = None",
    "float mean, float std, tuple of ints size, *, torch.Generator generator = None, Tensor out = "
    "None, torch.dtype dtype = None, torch.layout layout = None, torch.device device = None, bool "
    "pin_memory = False, bool requires_grad = False",
)


@function(layout=row_major)
def normal(
    mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Generator | None = None,
    dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Normal numbers of a mean and deviation, each a number or a tensor, or numbers and a size.

    Raises LazytError for a deviation below 0, DTypeError for two numbers without a size.
    """
    place = check_device(device)
    tensors = [t for t in (mean, std) if isinstance(t, Tensor)]
    if not isinstance(std, Tensor) and not std >= 0:  # nor NaN
        raise LazytError(f"normal expects std >= 0.0, but found std {std:g}")
    if size is not None and tensors:
        raise wrong_arguments("normal", (mean, std, size), _NORMAL_FORMS)
    if size is not None:
        shape, wanted = as_shape((size,), "normal"), dtype or get_default_dtype()
        if any(n < 0 for n in shape):
            raise ShapeError(
                f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}"
            )
    elif tensors:
        shape, wanted = broadcast_all([tuple(t.shape) for t in tensors]), tensors[0].dtype
    else:
        raise wrong_arguments("normal", (mean, std), _NORMAL_FORMS)
    kind = as_dtype(wanted)
    check_floating(kind, "normal_kernel_cpu")
    if isinstance(std, Tensor):
        check_deviations(std)
    drawn = normal_node(shape, kind.compute, generator)
    scales = (
        v.node if isinstance(v, Tensor) else constant_of(float(v), kind.compute)
        for v in (mean, std)
    )
    node = mapped(_scaled, (drawn, *scales), kind, kind)
    if out is not None or tensors:
        return give(node, "Normal", tensors, out)
    return fresh(node, requires_grad, place)


_POISSON: Build = lambda rate, u: call("poisson", rate, u)  # noqa: E731
_BINOMIAL: Build = lambda n, p, u: call("binomial", n, p, u)  # noqa: E731


@function()
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Whole numbers of the Poisson distribution with the rates ``input``, in its dtype.

    By inversion of the distribution function at a 53-bit number; above a rate of 1e6 by its normal
    approximation. The gradient is 0. Raises LazytError for rates below 0, NoKernelError for whole
    numbers.
    """
    node = require_tensor(input, "poisson").node
    check_floating(node.dtype, "poisson_cpu")
    check_rates(input)
    drawn = uniform_node(node.shape, float64, generator)
    return give(mapped(_POISSON, (node, drawn), float64, node.dtype), "Poisson", (input,))


@function()
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """How many of ``count`` trials succeed with probability ``prob``, in ``count``'s dtype.

    By inversion, as ``poisson``; by a normal approximation where the variance exceeds 1e6. NaN for
    negative counts and for probabilities outside [0, 1]. The gradient is 0. Raises ShapeError for
    whole-number dtypes, as PyTorch does with a ValueError.
    """
    for name, tensor in (("count", count), ("prob", prob)):
        if require_tensor(tensor, "binomial", name).dtype.kind != "f":
            raise ShapeError(
                f"binomial only supports floating-point dtypes for {name}, got: "
                + torch_name(tensor.dtype)
            )
    shape = broadcast_all([tuple(count.shape), tuple(prob.shape)])
    nodes = (count.node, prob.node, uniform_node(shape, float64, generator))
    return give(mapped(_BINOMIAL, nodes, float64, count.dtype), "Binomial", (count, prob))


def _ratio(p: Expr, e: Expr) -> Expr:
    return call("div", p, e)


def _replaced(rows: Node, count: int, generator: Generator | None) -> Node:
    """Places drawn with replacement: how many running totals a random share of the sum reaches."""
    totals = ops.scan("sum", ops.cast(rows, float64), 1)
    batch, width = rows.shape
    whole = ops.slice_(totals, (0, width - 1), (batch, 1), (1, 1))
    share = ops.apply("mul", uniform_node((batch, count), float64, generator), whole)
    passed = ops.apply(
        "ge", ops.reshape(share, (batch, count, 1)), ops.reshape(totals, (batch, 1, width))
    )
    found = ops.reduce_("sum", ops.cast(passed, int64), (2,))
    return ops.apply("minimum", found, ops.constant(width - 1, int64))


def _distinct(rows: Node, count: int, generator: Generator | None) -> Node:
    """Places drawn without replacement: an exponential race, in which the first arrivals win.

    Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006.
    """
    times = exponential_node(rows.shape, float64, generator)
    keys = mapped(_ratio, (rows, times), float64, None)
    if count == 1:
        return ops.reshape(ops.arg_reduce("argmax", keys, 1), (rows.shape[0], 1))
    order = ops.sort("order", keys, True)
    return ops.slice_(order, (0, 0), (rows.shape[0], count), (1, 1))


@function(method=True, out_dtype="multinomial expects Long tensor out, got: {Got}")
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *,
    generator: Generator | None = None, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """int64 places drawn with the probabilities of each row, which need not add up to 1.

    Raises LazytError for an input of another rank than 1 or 2, for whole numbers, for more samples
    than places without replacement, and for probabilities below 0, infinite, NaN, or all 0 in a
    row.
    """
    if out is not None and out.dtype is not int64:
        check_output("multinomial", int64, out.dtype)
    node = _plain(require_tensor(input, "multinomial"))
    if len(node.shape) not in (1, 2):
        raise LazytError("prob_dist must be 1 or 2 dim")
    if node.dtype.kind != "f":
        raise LazytError(
            "multinomial only supports floating-point dtypes for input, got: "
            + torch_name(node.dtype)
        )
    num_samples = operator.index(num_samples)
    if num_samples <= 0:
        raise LazytError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > node.shape[-1]:
        raise LazytError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    if node.shape[-1] > 1 << 24:
        raise LazytError("number of categories cannot exceed 2^24")
    check_weights(input, replacement and num_samples > 1)
    rows = ops.reshape(node, (1, node.size)) if len(node.shape) == 1 else node
    draw = _replaced if replacement and num_samples > 1 else _distinct
    found = draw(rows, num_samples, generator)
    if len(node.shape) == 1:
        found = ops.reshape(found, (num_samples,))
    return give(found, "multinomial", (), out)


# ---------------------------------------------------------------------- in place


def _written(self: Tensor, node: Node) -> Tensor:
    spread = expand_to(ops.cast(node, self.dtype), tuple(self.shape))
    return overwrite(self, spread, "Random", (self,))


def _number(value: Any, dtype: DType) -> Node:
    return constant_of(float(value), dtype)


def _from(positional: Any, kwargs: dict[str, Any], function: str) -> Any:
    """The lower bound, whose name in PyTorch is a word that Python keeps."""
    found = kwargs.pop("from", positional)
    for name in kwargs:
        raise DTypeError(f"{function}() got an unexpected keyword argument '{name}'")
    return found


@function(method=True)
def uniform_(
    self: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None,
    **kwargs: Any,
) -> Tensor:  # fmt: skip
    """Write numbers evenly distributed over [from, to). Raises LazytError where from > to."""
    generator = _generator_for(self.device, generator)
    low = _from(from_, kwargs, "uniform_")
    check_floating(self.dtype, "check_uniform_bounds", "fc")
    if not low <= to:  # nor NaN
        raise LazytError(
            f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={to:g}"
        )
    kind, shape = self.dtype, tuple(self.shape)
    drawn = uniform_node(shape if kind.kind == "f" else (*shape, 2), kind.part, generator)
    wide = kind.part.compute
    scaled = mapped(_scaled, (drawn, _number(low, wide), _number(to - low, wide)), wide, wide)
    return _written(self, as_pairs(scaled) if kind.kind == "c" else scaled)


@function(method=True)
def normal_(
    self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Write normal numbers. Raises LazytError for a negative deviation."""
    generator = _generator_for(self.device, generator)
    if not std >= 0:  # nor NaN
        raise LazytError(f"normal expects std >= 0.0, but found std {std:g}")
    check_floating(self.dtype, "normal_kernel_cpu", "fc")
    wide = self.dtype.compute
    nodes = (normal_node(tuple(self.shape), wide, generator), _number(mean, wide),
             _number(std, wide))  # fmt: skip
    return _written(self, mapped(_scaled, nodes, wide, wide))


@function(method=True)
def random_(
    self: Tensor, from_: int | None = None, to: int | None = None, *,
    generator: Generator | None = None, **kwargs: Any,
) -> Tensor:  # fmt: skip
    """Write whole numbers in [from, to); [0, to) with one argument, all that fit with none.

    Raises LazytError for an empty range and for bounds that the dtype does not hold.
    """
    generator = _generator_for(self.device, generator)
    low = _from(from_, kwargs, "random_")
    if to is None:
        to, low = low, 0
    if to is None:
        kind = self.dtype
        digits = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53, "bool": 1}
        bits = digits.get(kind.name, 8 * kind.itemsize - (kind.kind == "i"))
        to = (1 << min(bits, 62)) + (kind.kind == "f")
    check_bounds(int(low or 0), int(to), self.dtype)
    return _written(
        self, integer_node(tuple(self.shape), int(low or 0), int(to), self.dtype, generator)
    )


@function(method=True)
def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Write 1 with probability ``p``, a number or a tensor, else 0.

    Raises LazytError for probabilities outside [0, 1].
    """
    generator = _generator_for(self.device, generator)
    return _written(self, _chances(tuple(self.shape), p, generator))


@function(method=True)
def exponential_(self: Tensor, lambd: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Write numbers of the exponential distribution with rate ``lambd``.

    Raises LazytError for a rate not above 0 and for whole numbers.
    """
    generator = _generator_for(self.device, generator)
    if self.dtype.kind != "f":
        _refuse_whole("Exponential", torch_name(self.dtype))
    if not lambd > 0:
        raise LazytError(f"exponential_ expects lambda > 0.0, but found lambda={lambd:g}")
    drawn = exponential_node(tuple(self.shape), self.dtype, generator)
    return _written(self, ops.apply("mul", drawn, _number(1 / lambd, drawn.dtype)))


def _refuse_whole(name: str, dtype: str) -> None:
    raise LazytError(
        f"{name} distribution is a continuous probability distribution. dtype must be a floating "
        f"point but you specified {dtype}"
    )


def _trials(u: Expr, scale: Expr) -> Expr:
    return call("ceil", call("mul", call("log1p", call("neg", u)), scale))


@function(method=True)
def geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Write how many trials it takes until one of probability ``p`` succeeds, 1 or more.

    Raises LazytError for a ``p`` outside (0, 1).
    """
    generator = _generator_for(self.device, generator)
    if not 0 < p < 1:
        raise LazytError(f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    if self.dtype is bool_:
        check_floating(self.dtype, "geometric_cpu")
    drawn = open_unit_node(tuple(self.shape), float64, generator)
    scale = _number(1 / math.log1p(-p), float64)
    return _written(self, mapped(_trials, (drawn, scale), float64, None))


def _tangent(u: Expr, median: Expr, sigma: Expr) -> Expr:
    turn = call("mul", call("sub", u, const(0.5, u.dtype)), const(math.pi, u.dtype))
    return call("add", median, call("mul", sigma, call("tan", turn)))


@function(method=True)
def cauchy_(
    self: Tensor, median: float = 0, sigma: float = 1, *, generator: Generator | None = None
) -> Tensor:
    """Write numbers of the Cauchy distribution.

    Raises LazytError for a ``sigma`` not above 0 and for whole numbers.
    """
    generator = _generator_for(self.device, generator)
    if self.dtype.kind != "f":
        _refuse_whole("Cauchy", c_name(self.dtype))
    if not sigma > 0:
        raise LazytError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
    drawn = open_unit_node(tuple(self.shape), float64, generator)
    nodes = (drawn, _number(median, float64), _number(sigma, float64))
    return _written(self, mapped(_tangent, nodes, float64, None))


def _raised(drawn: Expr, mean: Expr, std: Expr) -> Expr:
    return call("exp", _scaled(drawn, mean, std))


@function(method=True)
def log_normal_(
    self: Tensor, mean: float = 1, std: float = 2, *, generator: Generator | None = None
) -> Tensor:
    """Write numbers whose logarithms are normal with this mean and deviation.

    Raises LazytError for a deviation not above 0, NoKernelError for whole numbers.
    """
    generator = _generator_for(self.device, generator)
    if not std > 0:
        raise LazytError(f"log_normal_ expects std > 0.0, but found std={std:g}")
    check_floating(self.dtype, "log_normal_cpu")
    wide = self.dtype.compute
    nodes = (normal_node(tuple(self.shape), wide, generator), _number(mean, wide),
             _number(std, wide))  # fmt: skip
    return _written(self, mapped(_raised, nodes, wide, None))


# Draws from gamma distributions, differentiable by the shape.


def _log_draw(alpha: Expr, u: Expr, v: Expr) -> Expr:
    """By inversion for shapes of at least 1; below, a draw of shape a + 1 times v^(1/a)
    (Marsaglia and Tsang, 2000), whose logarithm is finite where the draw itself vanishes."""
    one, zero = const(1.0, float64), const(0.0, float64)
    small = call("lt", alpha, one)
    shape = call("where", small, call("add", alpha, one), alpha)
    rest = call("where", small, call("div", call("log", v), alpha), zero)
    return call("add", call("log", call("gamma_quantile", shape, u)), rest)


def log_gamma_draws(alpha: Tensor, shape: Shape) -> Tensor:
    """Logarithms of draws with rate 1 and the shapes ``alpha``, broadcast to ``shape``.

    In float64 inside, given in ``alpha``'s dtype. Gradients are pathwise, by implicit
    differentiation of the distribution function; they cannot be differentiated again.
    """
    drawn = [open_unit_node(shape, float64, None) for _ in range(2)]
    node = mapped(_log_draw, (alpha.node, *drawn), float64, float64)
    return give(ops.cast(node, alpha.dtype), "StandardGamma", (alpha,))
