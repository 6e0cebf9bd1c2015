"""Sums, means, products, truths and spreads, over all elements or along dimensions.

Every function takes ``dim`` (or ``axis``) as one dimension or several, and ``keepdim`` (or
``keepdims``). A bad dimension raises BoundsError, a repeated one ShapeError, in PyTorch's words.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

from lazyt import ops
from lazyt.errors import BoundsError, DTypeError, LazytError, NoKernelError
from lazyt.functional import return_types
from lazyt.functional.elementwise.arithmetic import logaddexp_expr, maximum, minimum, scalar_build
from lazyt.functional.elementwise.choice import where
from lazyt.functional.elementwise.unary import isnan
from lazyt.functional.indexing.picking import gather_node
from lazyt.functional.operands import (
    choose,
    constant_of,
    mapped,
    normalize_dim,
    normalize_dims,
    numpy_names,
    require_tensor,
    wrong_arguments,
)
from lazyt.functional.result_layout import row_major
from lazyt.functional.results import SAME_DTYPE, SCALAR_TYPE, check_output, give
from lazyt.functional.shapes.joining import cat
from lazyt.functional.type_promotion import as_dtype, c_name, torch_name
from lazyt.handle.autocast import in_full_precision
from lazyt.handle.function_table import declare, declare_grad_fn, function
from lazyt.handle.tape import remember, titled
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType, bool_, int64, uint8, uint64
from lazyt.ir.graph import Node, Shape
from lazyt.ir.scalar import Expr, call, const
from lazyt.ops.builders import keepdim_shape

__all__ = [
    "all", "amax", "amin", "aminmax", "any", "argmax", "argmin", "count_nonzero", "cummax",
    "cummin", "cumprod", "cumsum", "diff", "hash_tensor", "logcumsumexp", "max", "mean", "min",
    "nanmean", "nansum", "prod", "std", "std_mean", "sum", "var", "var_mean",
]  # fmt: skip

Reduction = Callable[..., Tensor]

_SUB, _DIV, _MUL = scalar_build("sub"), scalar_build("div"), scalar_build("mul")


def reduce_node(kind: str, node: Node, axes: tuple[int, ...], keepdim: bool) -> Node:
    """One reduction, its axes kept as ones when ``keepdim``."""
    if not axes and not node.shape:
        return node
    result = ops.reduce_(kind, node, axes)
    return ops.reshape(result, keepdim_shape(node.shape, axes)) if keepdim else result


def refuse_dims(name: str, dim: Any) -> None:
    """Raise DTypeError for several dimensions where PyTorch takes one."""
    if isinstance(dim, (tuple, list)):
        raise DTypeError(
            f"{name}(): argument 'dim' (position 2) must be int, not {type(dim).__name__}"
        )


def _accumulating(dtype: DType, wanted: Any) -> DType:
    """The dtype of a sum: whole numbers and bools add up in int64."""
    if wanted is not None:
        return as_dtype(wanted)
    return dtype if dtype.kind in "fc" else int64


def _folded(kind: str, input: Tensor, dim: Any, keepdim: bool, dtype: Any) -> Node:
    """A sum or product; of bools, as results of bools, "any" or "all"."""
    node = ops.cast(input.node, _accumulating(input.dtype, dtype))
    if node.dtype is bool_:
        kind = "any" if kind == "sum" else "all"
    return reduce_node(kind, node, normalize_dims(dim, len(node.shape)), keepdim)


@function(method=True, cast="full_by_default")
@numpy_names
def sum(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The sum; of bools and integers in int64."""
    if dtype is None and out is not None:
        dtype = out.dtype
    found = give(_folded("sum", input, dim, keepdim, dtype), "Sum", (input,), out)
    return found if dim is None else titled(found, "SumBackward1")


@function(method=True, saves="s")
@numpy_names
def nansum(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The sum of what is not NaN."""
    found: Tensor = sum(where(isnan(input), 0, input), dim, keepdim, dtype=dtype, out=out)
    return titled(found, "NansumBackward0")


@function(method=True)
@numpy_names
def nanmean(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The mean of what is not NaN. Raises DTypeError for whole numbers."""
    if input.dtype.kind not in "fc":
        raise DTypeError(
            "nanmean(): expected input to have floating point or complex dtype but got "
            + torch_name(input.dtype)
        )
    if dtype is not None:
        _require_float("nanmean", "Optional", as_dtype(dtype))
    elif out is not None:
        dtype = wider(input.dtype, out)
    present = sum(~isnan(input), dim, keepdim)
    result: Tensor = nansum(input, dim, keepdim, dtype=dtype) / present
    return result if out is None else give(result.node, "Div", (input,), out)


@function(method=True, cast="full_by_default", saves="ar")
@numpy_names
@in_full_precision
def prod(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The product, over all elements or one dimension; of bools and integers in int64."""
    refuse_dims("prod", dim)
    if dtype is None and out is not None:
        dtype = out.dtype
    found = give(_folded("prod", input, dim, keepdim, dtype), "Prod", (input,), out)
    return found if dim is None else titled(found, "ProdBackward1")


def _count(shape: Shape, axes: tuple[int, ...]) -> int:
    total = 1
    for axis in axes:
        total *= shape[axis]
    return total


def mean_node(node: Node, axes: tuple[int, ...], keepdim: bool) -> Node:
    """The mean of floating point; half types add and divide in float32 and round once."""
    dtype = node.dtype
    wide = ops.cast(node, dtype.compute)
    total = reduce_node("sum", wide, axes, keepdim)
    count = constant_of(float(_count(node.shape, axes)), dtype.compute)
    return mapped(_DIV, (total, count), dtype, dtype)


def wider(dtype: DType, out: Tensor | None) -> DType:
    """The type in which to reduce floating point into ``out``: that of ``out`` if it holds more."""
    if out is None or dtype.kind != out.dtype.kind or dtype.kind not in "fc":
        return dtype
    return out.dtype if out.dtype.itemsize > dtype.itemsize else dtype


def _require_float(name: str, which: str, dtype: DType) -> None:
    if dtype.kind not in "fc":
        raise DTypeError(
            f"{name}(): could not infer output dtype. {which} dtype must be either a floating "
            f"point or complex dtype. Got: {torch_name(dtype)}"
        )


@function(method=True, layout=row_major)
@numpy_names
def mean(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The mean. Raises DTypeError for whole numbers unless ``dtype`` is given."""
    node = input.node
    if dtype is not None:
        node = ops.cast(node, as_dtype(dtype))
    else:
        node = ops.cast(node, wider(node.dtype, out))
    _require_float("mean", "Input" if dtype is None else "Optional", node.dtype)
    axes = normalize_dims(dim, len(node.shape))
    found = give(mean_node(node, axes, keepdim), "Mean", (input,), out)
    return found if dim is None else titled(found, "MeanBackward1")


def _deviations(node: Node, axes: tuple[int, ...]) -> Node:
    """The sum of squared distances from the mean, in two passes for accuracy."""
    centre = mean_node(node, axes, True)
    gap = mapped(_SUB, (node, centre), node.dtype, node.dtype)
    if node.dtype.kind == "c":
        return ops.reduce_("sum", mapped(_squared_size, (gap,), node.dtype, None), axes)
    return ops.reduce_("sum", mapped(_MUL, (gap, gap), node.dtype, node.dtype), axes)


def _squared_size(z: Expr) -> Expr:
    parts = (call(part, z) for part in ("real", "imag"))
    return call("add", *(call("mul", x, x) for x in parts))


def _spread(
    input: Tensor, dim: Any, correction: float, keepdim: bool, root: bool, name: str,
    out: Tensor | None = None,
) -> Node:  # fmt: skip
    if input.dtype.kind not in "fc":
        raise DTypeError(f"{name} only support floating point and complex dtypes")
    dtype = wider(input.dtype, out)
    node = ops.cast(input.node, dtype.compute)
    axes = normalize_dims(dim, len(node.shape))
    if not node.shape:
        total = mapped(_SUB, (node, node), node.dtype, node.dtype.part)
    else:
        total = _deviations(node, axes)
    degrees = builtins.max(_count(node.shape, axes) - correction, 0)
    kind = total.dtype
    result = mapped(_DIV, (total, constant_of(float(degrees), kind)), kind, kind)
    if root:
        result = mapped(_safe_root, (result,), kind, kind)
    if keepdim:
        result = ops.reshape(result, keepdim_shape(node.shape, axes))
    return ops.cast(result, dtype.part)


def _safe_root(x: Expr) -> Expr:
    # Where all elements are equal the gradient is zero, not that of a root at zero.
    none = call("eq", x, const(0, x.dtype))
    return call(
        "where", none, const(0, x.dtype), call("sqrt", call("where", none, const(1, x.dtype), x))
    )


def _spread_arguments(dim: Any, unbiased: Any, correction: Any) -> tuple[Any, float]:
    """``var(False)`` means ``unbiased``; the divisor is the count less the correction."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    return dim, correction


def _spread_function(name: str, root: bool, doc: str) -> Reduction:
    def function(
        input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
        correction: float | None = None, out: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        axes, less = _spread_arguments(dim, unbiased, correction)
        node = _spread(input, axes, less, keepdim, root, "std and var", out)
        return give(node, name.title(), (input,), out)

    function.__doc__ = f"The {doc}, of a sample by default. Raises DTypeError for whole numbers."
    function.__name__ = function.__qualname__ = name
    return numpy_names(function)


var = declare(
    "var",
    _spread_function("var", False, "variance"),
    method=True,
    fractions=("dim",),
    saves="a",
    layout=row_major,
)
std = declare(
    "std",
    _spread_function("std", True, "standard deviation"),
    method=True,
    fractions=("dim",),
    saves="ar",
    layout=row_major,
)


def _spread_and_mean(name: str, root: bool) -> Callable[..., tuple[Tensor, Tensor]]:
    def function(
        input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
        correction: float | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        axes, less = _spread_arguments(dim, unbiased, correction)
        node = _spread(input, axes, less, keepdim, root, name)
        title = f"{name.title().replace('_', '')}Backward0"
        return give(node, title, (input,)), titled(mean(input, axes, keepdim), title)

    function.__doc__ = f"``({name.removesuffix('_mean')}(input), mean(input))``."
    function.__name__ = function.__qualname__ = name
    return numpy_names(function)


var_mean = declare("var_mean", _spread_and_mean("var_mean", False), fractions=("dim",), saves="a")
std_mean = declare("std_mean", _spread_and_mean("std_mean", True), fractions=("dim",))


def _truth(kind: str) -> Reduction:
    def function(
        input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Tensor | None = None
    ) -> Tensor:
        node = input.node
        result = uint8 if node.dtype is uint8 else bool_
        # Unlike elsewhere, no dimensions means none here: every element stands for itself.
        empty = isinstance(dim, (tuple, list)) and not dim
        axes = () if empty else normalize_dims(dim, len(node.shape))
        found = ops.cast(node, bool_)
        if axes:
            found = reduce_node(kind, found, axes, keepdim)
        return give(ops.cast(found, result), kind, (), out)

    function.__doc__ = f"Whether {kind} elements are true."
    function.__name__ = function.__qualname__ = kind
    return numpy_names(function)


all = declare(
    "all",
    _truth("all"),
    method=True,
    out_dtype="all only supports bool tensor for result, got: {Got}",
    out_bytes=True,
)
any = declare(
    "any",
    _truth("any"),
    method=True,
    out_dtype="any only supports bool tensor for result, got: {Got}",
    out_bytes=True,
)


@function(method=True)
@numpy_names
def count_nonzero(input: Tensor, dim: Any = None) -> Tensor:
    """How many elements are not zero, in int64."""
    node = ops.cast(ops.cast(input.node, bool_), int64)
    axes = normalize_dims(dim, len(node.shape))
    return give(reduce_node("sum", node, axes, False), "count_nonzero", ())


# Largest and smallest elements, and where they are.
#
# Every function takes ``dim`` (or ``axis``) and ``keepdim`` (or ``keepdims``). A bad dimension
# raises BoundsError, a repeated one ShapeError, in PyTorch's words.


def _require_elements(name: str, shape: Shape, dims: Any) -> None:
    """An extreme of nothing does not exist. ``dims`` are as they were given, None for all."""
    if dims is None:
        if 0 in shape:
            text = f"{name}(): Expected reduction dim to be specified for input.numel() == 0."
            if name.startswith("arg"):
                raise BoundsError(text)
            raise LazytError(text + " Specify the reduction dim with the 'dim' argument.")
        return
    for dim in dims if isinstance(dims, (tuple, list)) else (dims,):
        if shape and shape[normalize_dim(dim, len(shape))] == 0:
            raise BoundsError(f"{name}(): Expected reduction dim {dim} to have non-zero size.")


_SAME_FOR_OUT = (
    "Expected the dtype for input and out to match, but got {Want} for input's dtype and {Got} for "
    "out's dtype."
)


def _extreme(name: str, kind: str, title: str) -> Reduction:
    def function(
        input: Tensor, dim: Any = (), keepdim: bool = False, *, out: Tensor | None = None
    ) -> Tensor:
        node = input.node
        _require_elements(name, node.shape, None if dim in (None, (), []) else dim)
        axes = normalize_dims(dim, len(node.shape))
        return give(reduce_node(kind, node, axes, keepdim), title, (input,), out)

    function.__doc__ = f"The {kind} along one or more dimensions; NaN wins. Ties share gradients."
    function.__name__ = function.__qualname__ = name
    return numpy_names(function)


amax = declare(
    "amax", _extreme("amax", "max", "Amax"), method=True, saves="ar", out_dtype=_SAME_FOR_OUT
)
amin = declare(
    "amin", _extreme("amin", "min", "Amin"), method=True, saves="ar", out_dtype=_SAME_FOR_OUT
)


def _position(input: Tensor, kind: str, dim: Any, keepdim: bool) -> Node:
    node = input.node
    if node.dtype is bool_:
        node = ops.cast(node, uint8)
    if dim is None:
        _require_elements(kind, node.shape, None)
        flat = ops.reshape(node, (node.size,))
        found = ops.arg_reduce(kind, flat, 0)
        return ops.reshape(found, (1,) * len(node.shape)) if keepdim else found
    axis = normalize_dim(dim, len(node.shape))
    if not node.shape:
        return ops.constant(0, int64)
    _require_elements(kind, node.shape, axis)
    found = ops.arg_reduce(kind, node, axis)
    return ops.reshape(found, keepdim_shape(node.shape, (axis,))) if keepdim else found


def _finder(name: str, word: str) -> Reduction:
    def function(
        input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | None = None
    ) -> Tensor:
        if input.dtype is bool_:
            raise DTypeError(f"{name}(): does not support bool input")
        refuse_dims(name, dim)
        return give(_position(input, name, dim, keepdim), name, (), out)

    function.__doc__ = (
        f"Where the {word} element is, the first of equals; of the flattened tensor without dim."
    )
    function.__name__ = function.__qualname__ = name
    return numpy_names(function)


argmax = declare("argmax", _finder("argmax", "largest"), method=True, out_dtype=SAME_DTYPE)
argmin = declare("argmin", _finder("argmin", "smallest"), method=True, out_dtype=SAME_DTYPE)


def _extreme_along(
    input: Tensor, dim: Any, keepdim: bool, name: str, out: tuple[Tensor, Tensor] | None
) -> tuple[Tensor, Tensor]:
    """Values and positions along ``dim``; the gradient goes to the position alone."""
    node = input.node
    rank = len(node.shape)
    axis = normalize_dim(dim, rank)
    _require_elements(name, node.shape, axis)
    places = _position(input, "arg" + name, axis, True)
    if node.needs_grad and rank:
        values = gather_node(node, places, axis)
    else:
        values = reduce_node(name, node, (axis,) if rank else (), True)
    if not keepdim and rank:
        shape = node.shape[:axis] + node.shape[axis + 1 :]
        values, places = ops.reshape(values, shape), ops.reshape(places, shape)
    first, second = (None, None) if out is None else out
    results = give(values, name, (input,), first), give(places, name, (), second)
    remember(*results)
    return results


_FORMS = (
    "Tensor input, *, Tensor out = None",
    "Tensor input, Tensor other, *, Tensor out = None",
    "Tensor input, int dim, bool keepdim = False, *, tuple of Tensors out = None",
)


declare_grad_fn("MaxBackward1", "MinBackward1", saves="ar")  # of all elements


def _max_or_min(
    input: Tensor, dim: Any, keepdim: bool, name: str, pack: type[return_types.Named], out: Any
) -> Any:
    if not isinstance(input, Tensor):
        raise wrong_arguments(name, (input,) if dim is None else (input, dim), _FORMS)
    if dim is None:
        _require_elements(name, tuple(input.shape), None)
        node = reduce_node(name, input.node, tuple(range(len(input.shape))), False)
        return give(node, f"{name.capitalize()}Backward1", (input,), out)
    if isinstance(dim, Tensor):
        return (maximum if name == "max" else minimum)(input, dim, out=out)
    if not hasattr(dim, "__index__"):
        raise wrong_arguments(name, (input, dim, keepdim)[: 3 if keepdim else 2], _FORMS)
    return pack(_extreme_along(input, dim, keepdim, name, out))


def _other(dim: Any, other: Tensor | None) -> Any:
    return dim if other is None else other


@function(method=True, fractions=("dim",), saves="q", out_dtype=SAME_DTYPE)
@numpy_names
def max(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Tensor | None = None,
    out: Any = None,
) -> Any:  # fmt: skip
    """The largest element; with ``dim``, ``(values, indices)``; with a tensor, ``maximum``."""
    return _max_or_min(input, _other(dim, other), keepdim, "max", return_types.max, out)


@function(method=True, fractions=("dim",), saves="q", out_dtype=SAME_DTYPE)
@numpy_names
def min(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Tensor | None = None,
    out: Any = None,
) -> Any:  # fmt: skip
    """The smallest element; with ``dim``, ``(values, indices)``; with a tensor, ``minimum``."""
    return _max_or_min(input, _other(dim, other), keepdim, "min", return_types.min, out)


@function(method=True, saves="ar", out_dtype=SAME_DTYPE)
@numpy_names
def aminmax(
    input: Tensor, *, dim: int | None = None, keepdim: bool = False,
    out: tuple[Tensor, Tensor] | None = None,
) -> Any:  # fmt: skip
    """``(amin, amax)`` in one named result."""
    shape = tuple(input.shape)
    if dim is None and 0 in shape:
        raise LazytError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no "
            "identity."
        )
    if dim is not None and shape and shape[normalize_dim(dim, len(shape))] == 0:
        place = normalize_dim(dim, len(shape))
        raise BoundsError(f"aminmax: Expected reduction dim {place} to have non-zero size.")
    low, high = (None, None) if out is None else out
    for target in out or ():
        if target.dtype is not input.dtype:
            check_output("aminmax", input.dtype, target.dtype)
    dims = () if dim is None else dim
    both = (amin(input, dims, keepdim, out=low), amax(input, dims, keepdim, out=high))
    return return_types.aminmax(titled(found, "AminmaxBackward0") for found in both)


@function(method=True, out_dtype=SAME_DTYPE)
def hash_tensor(
    input: Tensor, dim: Any = (), *, keepdim: bool = False, mode: int = 0,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The bits of all elements combined by exclusive or, as uint64.

    Args:
        input: any shape; real. Elements are converted to float64 or int64 first.
        dim: the dimensions that are combined, by default all.
        keepdim: whether they stay, with size 1.
        mode: 0, exclusive or; there is no other.

    Raises NoKernelError for complex numbers, LazytError for another mode and for tensors without
    elements whose dimensions are not named, BoundsError for a dimension that is not there.

    >>> import lazyt
    >>> lazyt.hash_tensor(lazyt.tensor([[1, 2], [4, 4]]), 1)
    tensor([3, 0], dtype=lazyt.uint64)
    """
    require_tensor(input, "hash_tensor")
    if mode != 0:
        raise LazytError(f"Unknown hash_tensor mode: {mode}")
    if input.dtype.kind == "c":
        raise NoKernelError(f"\"xor_sum_cpu\" not implemented for '{torch_name(input.dtype)}'")
    every = dim is None or (isinstance(dim, (tuple, list)) and not dim)
    if every and not input.numel():
        raise LazytError(
            "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify "
            "the reduction dim with the 'dim' argument."
        )
    dims = normalize_dims(None if every else dim, len(input.shape))
    plain = input.detach()
    if plain.dtype.kind == "f":
        plain = plain.double()
    elif plain.dtype is not uint64:
        plain = plain.long()
    bits = plain.view(int64).unsqueeze(-1)
    steps = give(ops.iota(64), "", ())
    # Of the sum of a bit over all elements, the lowest bit says whether it was set an odd number
    # of times. As words in two's complement, the parts add up without carries.
    odd = (bits >> steps) & 1
    if dims:
        odd = odd.sum(dims, keepdim=keepdim) & 1
    found: Tensor = (odd << steps).sum(-1).view(uint64)
    return found if out is None else out.copy_(found)


# Running totals, products, extremes and logarithms of sums along a dimension; differences.


Pair = tuple[Tensor, Tensor]


def _scan(input: Tensor, kind: str, dim: int, dtype: Any, out: Tensor | None) -> Node:
    """A running fold in ``dtype``, else in the type of ``out``, else in ``input``'s own."""
    node = input.node
    axis = normalize_dim(dim, len(node.shape))
    if dtype is None and out is not None:
        dtype = out.dtype
    elif out is not None and as_dtype(dtype) is not out.dtype:
        raise DTypeError(
            f"Expected out tensor to have dtype {c_name(as_dtype(dtype))}, but got "
            f"{c_name(out.dtype)} instead"
        )
    wanted = as_dtype(dtype) if dtype is not None else node.dtype
    if dtype is None and wanted.kind not in "fc":
        wanted = int64
    node = ops.cast(node, wanted)
    if not node.shape or not node.size:
        return node
    if wanted is bool_:
        raise NoKernelError(f"\"cum{kind}_out_cpu\" not implemented for 'Bool'")
    return ops.scan(kind, node, axis)


@function(method=True, inplace="method", cast="full_by_default")
@numpy_names
def cumsum(input: Tensor, dim: int, *, dtype: Any = None, out: Tensor | None = None) -> Tensor:
    """Running sums along ``dim``; of bools and integers in int64."""
    return give(_scan(input, "sum", dim, dtype, out), "Cumsum", (input,), out)


@function(method=True, inplace="method", cast="full_by_default", saves="ar")
@numpy_names
def cumprod(input: Tensor, dim: int, *, dtype: Any = None, out: Tensor | None = None) -> Tensor:
    """Running products along ``dim``; of bools and integers in int64."""
    return give(_scan(input, "prod", dim, dtype, out), "Cumprod", (input,), out)


def _running_extreme(input: Tensor, kind: str, dim: int, out: Pair | None) -> Pair:
    """Running extremes, and where each was last reached."""
    node = input.node
    places: tuple[Tensor | None, Tensor | None] = (None, None) if out is None else out
    if not node.shape and dim not in (0, -1):
        raise BoundsError(f"cum{kind}(): Expected reduction dim -1 or 0 for scalar but got {dim}")
    if not node.size or not node.shape:
        zeros = ops.broadcast_to(ops.constant(0, int64), node.shape)
        return give(node, "Cum" + kind, (input,), places[0]), give(zeros, "", (), places[1])
    axis = normalize_dim(dim, len(node.shape))
    dtype = node.dtype
    scanned = ops.cast(node, uint8) if dtype is bool_ else node
    values = ops.scan(kind, scanned, axis)
    extents = tuple(n if i == axis else 1 for i, n in enumerate(node.shape))
    ramp = ops.reshape(ops.iota(node.shape[axis]), extents)
    plain = ops.detach(scanned) if node.needs_grad else scanned
    fixed = ops.detach(values) if values.needs_grad else values
    hit = ops.apply("eq", plain, fixed)
    if dtype.kind == "f":
        hit = ops.apply("logical_or", hit, ops.apply("isnan", plain))
    reached = choose(hit, ramp, ops.constant(0, int64), int64)
    last = give(ops.scan("max", reached, axis), "", (), places[1])
    return give(ops.cast(values, dtype), "Cum" + kind, (input,), places[0]), last


@function(method=True, saves="s", layout=row_major, out_dtype=SCALAR_TYPE)
@numpy_names
def cummax(input: Tensor, dim: int, *, out: Pair | None = None) -> return_types.cummax:
    """Running maxima along ``dim`` and where each was last reached."""
    return return_types.cummax(_running_extreme(input, "max", dim, out))


@function(method=True, saves="s", layout=row_major, out_dtype=SCALAR_TYPE)
@numpy_names
def cummin(input: Tensor, dim: int, *, out: Pair | None = None) -> return_types.cummin:
    """Running minima along ``dim`` and where each was last reached."""
    return return_types.cummin(_running_extreme(input, "min", dim, out))


@function(method=True, saves="ar", layout=row_major, out_dtype=SCALAR_TYPE)
@numpy_names
def logcumsumexp(input: Tensor, dim: int, *, out: Tensor | None = None) -> Tensor:
    """``log(cumsum(exp(x)))`` without overflow. Raises NoKernelError for whole numbers.

    By doubling steps (Hillis and Steele, 1986): each element joins that 1, 2, 4 ... places before
    it, so that no sum depends on a maximum that comes later.
    """
    node = require_tensor(input, "logcumsumexp").node
    axis = normalize_dim(dim, len(node.shape))
    dtype = node.dtype
    if dtype.kind not in "fc":
        raise NoKernelError(f"\"logcumsumexp_out_cpu\" not implemented for '{torch_name(dtype)}'")
    total, rank = ops.cast(node, dtype.compute), len(node.shape)
    step = 1
    while rank and node.size and step < node.shape[axis]:
        sizes = [n - step if i == axis else n for i, n in enumerate(node.shape)]
        none = [0] * rank
        low = [step if i == axis else 0 for i in range(rank)]
        early = ops.slice_(total, none, sizes, [1] * rank)
        moved = ops.pad(early, low, none, none, -math.inf)
        total = mapped(logaddexp_expr, (total, moved), dtype.compute, None)
        step *= 2
    return give(ops.cast(total, dtype), "Logcumsumexp", (input,), out)


def _check_joined(input: Tensor, part: Tensor, axis: int) -> None:
    """Raises as PyTorch does for a prepended or appended part that does not fit."""
    if len(part.shape) != len(input.shape):
        raise LazytError("diff expects prepend or append to be the same dimension as input")
    for d, (mine, its) in enumerate(zip(input.shape, part.shape)):
        if d != axis and mine != its:
            raise LazytError(
                "diff expects the shape of tensor to prepend or append to match that of input "
                f"except along the differencing dimension; input.size({d}) = {mine}, but got "
                f"tensor.size({d}) = {its}"
            )


@function(method=True)
@numpy_names
def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None,
    append: Tensor | None = None, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Differences of neighbours along ``dim``, ``n`` times over, of bools the exclusive or.

    ``prepend`` and ``append`` are joined to the ends first. Raises LazytError for a tensor without
    dimensions, a negative ``n`` and parts that do not fit.
    """
    if not require_tensor(input, "diff").shape:
        raise LazytError("diff expects input to be at least one-dimensional")
    axis = normalize_dim(dim, len(input.shape))
    if n < 0:
        raise LazytError(f"order must be non-negative but got {n}")
    for part in (prepend, append):
        if part is not None:
            _check_joined(input, part, axis)
    parts = [p for p in (prepend, input, append) if p is not None]
    result = cat(parts, axis) if len(parts) > 1 and n else input
    for _ in range(n):
        if not result.shape[axis]:
            return result
        size = result.shape[axis] - 1
        late = result.narrow(axis, builtins.min(1, result.shape[axis]), size)
        early = result.narrow(axis, 0, size)
        result = late.logical_xor(early) if result.dtype is bool_ else late - early
    if not n:
        result = give(ops.cast(input.node, input.dtype), "Clone", (input,))
    return result if out is None else give(result.node, "Diff", (input,), out)
