"""Pooling: one value for every window of the last dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from lazyt import ops
from lazyt.cast_mode import in_full_precision
from lazyt.errors import LazytError, RankError, ShapeError
from lazyt.functional.arithmetic import scalar_build
from lazyt.functional.borders import padded
from lazyt.functional.choice import choose
from lazyt.functional.convolution import Sizes, spread, windows
from lazyt.functional.division import trunc_divide
from lazyt.functional.operands import constant_of, mapped, require_tensor
from lazyt.functional.results import give
from lazyt.functional.unsupported import refuse
from lazyt.ir.dtypes import bool_, int64
from lazyt.ir.graph import Node
from lazyt.ir.scalar import Expr, call, const
from lazyt.memory_formats import lay_out
from lazyt.tensor import Tensor

__all__ = [
    "avg_pool1d", "max_pool1d", "max_pool1d_with_indices", "max_pool2d", "max_pool3d",
]  # fmt: skip

_DIV = scalar_build("div")
_MUL = scalar_build("mul")
_ADD = scalar_build("add")
_COUNTS = {1: "one int", 2: "two ints", 3: "three ints"}


class Windows(NamedTuple):
    """How windows lie over the last dimensions, and how many there are."""

    kernel: Sizes
    stride: Sizes
    padding: Sizes
    dilation: Sizes
    sizes: Sizes


def _setting(value: Any, rank: int, function: str, name: str) -> Sizes:
    """One number for every dimension; raises ShapeError in PyTorch's words."""
    found = spread(value, rank)
    if len(found) == rank:
        return found
    if rank == 1:
        raise ShapeError(
            f"{function}() {name} must be an int, list of ints or tuple of ints of size 1 but got "
            f"size {len(found)}"
        )
    omitted = "be omitted, " if name == "stride" else "be "
    raise ShapeError(
        f"{function}: {name} must either {omitted}a single int, or a tuple of {_COUNTS[rank]}"
    )


def plan_windows(
    function: str, shape: Sizes, rank: int, kernel_size: Any, stride: Any, padding: Any = 0,
    dilation: Any = 1, ceil_mode: bool = False,
) -> Windows:  # fmt: skip
    """The windows of a pooling function; raises LazytError and ShapeError for bad settings.

    ``max_pool1d`` without indices has checks of its own, and is called ``max_pool1d_plain``.
    """
    if function == "max_pool1d_plain":
        function = "max_pool1d"
        _check_line_shape(shape)
        alone = True
    else:
        alone = False
    kernel = _setting(kernel_size, rank, function, "kernel_size")
    steps = kernel
    if stride is not None and stride != () and stride != []:
        steps = _setting(stride, rank, function, "stride")
    edge = _setting(padding, rank, function, "padding")
    gaps = _setting(dilation, rank, function, "dilation")
    if alone:
        _check_line(shape, kernel[0], steps[0], edge[0], gaps[0])
    if len(shape) not in (rank + 1, rank + 2):
        _refuse_rank(shape, rank, function)
    sizes = tuple(
        _count(*values, ceil_mode) for values in zip(shape[-rank:], kernel, steps, edge, gaps)
    )
    if rank == 1:  # PyTorch takes it as a row of an image
        row = (1, *kernel), (1, *steps), (1, *gaps)
        _check_positive(2, *row)
        wide = (*shape[:-1], 1, *shape[-1:])
        _check_places(wide, row[0], (0, *edge), (1, *sizes), 2, function)
        return Windows(kernel, steps, edge, gaps, sizes)
    _check_positive(rank, kernel, steps, gaps)
    _check_places(shape, kernel, edge, sizes, rank, function)
    return Windows(kernel, steps, edge, gaps, sizes)


def _check_line_shape(shape: Sizes) -> None:
    if len(shape) not in (2, 3) or 0 in shape[-2:]:
        raise ShapeError(
            "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for "
            f"input, but got:{list(shape)}"
        )


def _check_line(shape: Sizes, k: int, s: int, p: int, d: int) -> None:
    """What max_pool1d without indices checks, in its own words."""
    for name, value in (("kernel_size", k), ("stride", s), ("dilation", d)):
        if value <= 0:
            raise LazytError(f"max_pool1d() {name} must be greater than zero, but got {value}")
    if p < 0:
        raise LazytError(f"max_pool1d() padding must be non-negative, but got {p}")
    if p > k // 2:
        raise LazytError(
            "max_pool1d() padding should be at most half of kernel size, but got padding="
            f"{p} and kernel_size={k}"
        )
    room = shape[-1] + 2 * p - d * (k - 1) - 1
    if room < 0:
        raise ShapeError(f"max_pool1d() Invalid computed output size: {room // s + 1}")


def _refuse_rank(shape: Sizes, rank: int, function: str) -> None:
    if rank == 1:
        raise ShapeError(
            f"Expected 2 to 3 dimensions, but got {len(shape)}-dimensional tensor for argument #1 "
            f"'self' (while checking arguments for {function})"
        )
    kind = RankError if len(shape) <= rank else ShapeError
    raise kind(f"non-empty {rank + 1}D or {rank + 2}D (batch mode) tensor expected for input")


def _count(n: int, k: int, s: int, p: int, d: int, ceil_mode: bool) -> int:
    """How many windows fit into one dimension."""
    if s == 0:
        raise LazytError("stride should not be zero")
    if p < 0:
        raise LazytError(f"pad must be non-negative, but got pad: {p}")
    if p > (d * (k - 1) + 1) // 2:
        raise LazytError(
            f"pad should be at most half of effective kernel size, but got pad={p}, "
            f"kernel_size={k} and dilation={d}"
        )
    room = n + 2 * p - d * (k - 1) - 1
    count = (-(-room // s) if ceil_mode else room // s) + 1
    if ceil_mode and (count - 1) * s >= n + p:
        count -= 1  # a window must start inside
    return count


_LETTERS = {1: "W", 2: "HW", 3: "TWH"}


def _check_positive(rank: int, kernel: Sizes, stride: Sizes, dilation: Sizes) -> None:
    for title, letter, values in (
        ("kernel size", "k", kernel), ("stride", "d", stride), ("dilation", "dilation", dilation),
    ):  # fmt: skip
        if any(v <= 0 for v in values):
            sides = "THW" if rank == 3 and letter == "d" else _LETTERS[rank]
            text = " ".join(f"{letter}{side}: {v}" for side, v in zip(sides, values))
            raise LazytError(f"{title} should be greater than zero, but got {text}")


def _check_places(
    shape: Sizes, kernel: Sizes, edge: Sizes, sizes: Sizes, rank: int, function: str
) -> None:
    inner = shape[len(shape) - rank - 1 :]
    if 0 in inner and rank == 3:
        name = function + ("_with_indices_out_cpu_template" if function[0] == "m" else "")
        raise ShapeError(
            f"{name}(): Expected input's non-batch dimensions to "
            f"have positive length, but input has a shape of {list(shape)} and non-batch dimension "
            f"{inner.index(0)} has length zero!"
        )
    if 0 in inner:
        raise ShapeError(
            f"Expected {rank + 1}D or {rank + 2}D (batch mode) tensor with optional 0 dim batch "
            f"size for input, but got:{list(shape)}"
        )
    if any(p > k // 2 for p, k in zip(edge, kernel)):
        sides = _LETTERS[rank][::-1]
        pads = ", ".join(f"pad{s} = {p}" for s, p in zip(sides, edge[::-1]))
        sizes_text = ", ".join(f"k{s} = {k}" for s, k in zip(sides, kernel[::-1]))
        raise LazytError(
            "pad should be smaller than or equal to half of kernel size, but got "
            f"{pads}, {sizes_text}"
        )
    if any(n < 1 for n in sizes):
        given = "x".join(map(str, shape[-rank - 1 :]))
        made = "x".join(map(str, (shape[-rank - 1], *sizes)))
        raise ShapeError(
            f"Given input size: ({given}). Calculated output size: ({made}). Output size is too "
            "small"
        )


def seen_through(node: Node, plan: Windows, fill: float) -> Node:
    """The windows of the padded input, each flattened into a last dimension."""
    kernel, stride, padding, dilation, sizes = plan
    rank = len(kernel)
    lead, spatial = node.shape[:-rank], node.shape[-rank:]
    high = tuple(
        max((m - 1) * s + d * (k - 1) + 1 - n - p, 0)
        for m, n, k, s, p, d in zip(sizes, spatial, kernel, stride, padding, dilation)
    )
    seen = windows(padded(node, padding, high, fill), kernel, stride, dilation)
    if seen.shape[len(lead) : len(lead) + rank] != sizes:
        ones = (1,) * len(seen.shape)
        seen = ops.slice_(seen, (0,) * len(seen.shape), (*lead, *sizes, *kernel), ones)
    return ops.reshape(seen, (*lead, *sizes, math.prod(kernel)))


def lowest(node: Node) -> float:
    """A value that no other of ``node``'s type is below."""
    if node.dtype.kind == "f":
        return -math.inf
    return -(1 << (8 * node.dtype.itemsize - 1)) if node.dtype.kind == "i" else 0


def largest(node: Node) -> tuple[Node, Node]:
    """The maxima along the last axis, and their places.

    The gradient goes to the first of equal values, as PyTorch's does, not shared among them.
    """
    last = len(node.shape) - 1
    plain = ops.detach(node) if node.needs_grad else node
    best = ops.arg_reduce("argmax", plain, last)
    if not node.needs_grad:
        return ops.reduce_("max", node, (last,)), best
    hit = ops.apply("eq", ops.iota(node.shape[-1]), ops.reshape(best, (*best.shape, 1)))
    kept = choose(hit, node, constant_of(0, node.dtype), node.dtype)
    return ops.reduce_("sum", kept, (last,)), best


def along(count: int, axis: int, rank: int) -> Node:
    """The numbers 0 to count - 1 along one axis of ``rank``, int64."""
    return ops.reshape(ops.iota(count), tuple(count if i == axis else 1 for i in range(rank)))


def _place(
    best: Expr, tail: Expr, size: Expr, step: Expr, out: Expr, first: Expr, end: Expr
) -> Expr:
    """Where element ``best`` of a window lies along one dimension, never in the padding."""
    inside = call("mod", call("floordiv", best, tail), size)
    place = call("add", call("add", out, first), call("mul", inside, step))
    return call("minimum", call("maximum", place, const(0, int64)), end)


def _window_places(best: Node, spatial: Sizes, plan: Windows) -> Node:
    """Row-major positions in the last dimensions of the winners ``best`` of all windows."""
    rank = len(spatial)
    total = ops.constant(0, int64)
    tail = math.prod(plan.kernel)
    for axis in range(rank):
        k, s = plan.kernel[axis], plan.stride[axis]
        tail //= k
        out = along(plan.sizes[axis], axis, rank)
        out = mapped(_MUL, (out, constant_of(s, int64)), int64, None)
        numbers = (tail, k, plan.dilation[axis])
        ends = (-plan.padding[axis], spatial[axis] - 1)
        nodes = (*(constant_of(n, int64) for n in numbers), out,
                 *(constant_of(n, int64) for n in ends))  # fmt: skip
        place = mapped(_place, (best, *nodes), int64, None)
        total = mapped(_ADD, (mapped(_MUL, (total, constant_of(spatial[axis], int64)), int64, None),
                              place), int64, None)  # fmt: skip
    return total


def _max_pool(
    rank: int, input: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool, return_indices: bool,
) -> Any:  # fmt: skip
    node = require_tensor(input, f"max_pool{rank}d").node
    plan = plan_windows(
        f"max_pool{rank}d" + ("_plain" if rank == 1 and not return_indices else ""),
        tuple(input.shape), rank, kernel_size, stride, padding, dilation, ceil_mode,
    )  # fmt: skip
    if node.dtype is bool_ or (rank == 1 and node.dtype.kind != "f" and not return_indices):
        refuse(f"max_pool{rank}d" + ("_impl" if rank == 1 else ""), node.dtype)
    result, best = largest(seen_through(node, plan, lowest(node)))
    if rank == 1 and not return_indices and not result.needs_grad:
        return give(result, "MaxPool1D", (input,))  # which is other code in PyTorch
    values = give(result, f"MaxPool{rank}DWithIndices", (input,))
    if not return_indices:
        return values
    places = give(_window_places(best, node.shape[-rank:], plan), "indices", ())
    return values, lay_out(places, values.strides)


def _max_pools(rank: int) -> tuple[Callable[..., Any], Callable[..., tuple[Tensor, Tensor]]]:
    """``max_pool`` of a rank, and the form that always gives the indices too."""

    def plain(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False, return_indices: bool = False,
    ) -> Any:  # fmt: skip
        options = (kernel_size, stride, padding, dilation, ceil_mode, return_indices)
        return _max_pool(rank, input, *options)

    def with_indices(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False, return_indices: bool = False,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        found: tuple[Tensor, Tensor] = _max_pool(
            rank, input, kernel_size, stride, padding, dilation, ceil_mode, True
        )
        return found

    plain.__name__ = plain.__qualname__ = f"max_pool{rank}d"
    plain.__doc__ = f"""The largest value of every window of the last {rank} dimension(s).

    With ``return_indices`` also where each is, as a row-major position in these dimensions.
    Raises ShapeError and LazytError for windows that do not fit.
    """
    with_indices.__name__ = with_indices.__qualname__ = f"max_pool{rank}d_with_indices"
    with_indices.__doc__ = f"``max_pool{rank}d``, and the places of the largest values."
    return plain, with_indices


max_pool1d, max_pool1d_with_indices = _max_pools(1)
max_pool2d, max_pool2d_with_indices = _max_pools(2)
max_pool3d, max_pool3d_with_indices = map(in_full_precision, _max_pools(3))


# ------------------------------------------------------------------ means


def _avg_pool(
    rank: int, input: Tensor, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
    count_include_pad: bool, divisor: int | None,
) -> Tensor:  # fmt: skip
    node, dtype = require_tensor(input, f"avg_pool{rank}d").node, input.dtype
    if divisor == 0:
        raise LazytError("divisor must be not zero")
    plan = plan_windows(
        f"avg_pool{rank}d", tuple(input.shape), rank, kernel_size, stride, padding, 1, ceil_mode
    )
    if dtype.kind != "f" and dtype is not int64:
        refuse("avg_pool2d" if rank == 1 else f"avg_pool{rank}d", dtype)
    wide = ops.cast(node, dtype.compute)
    total = ops.reduce_("sum", seen_through(wide, plan, 0.0), (len(node.shape),))
    count = constant_of(divisor or math.prod(plan.kernel), wide.dtype)
    if divisor is None and (ceil_mode or (any(plan.padding) and not count_include_pad)):
        count = _window_counts(node.shape[-rank:], plan, count_include_pad)
    build = _DIV if dtype.kind == "f" else trunc_divide
    result = mapped(build, (total, count), wide.dtype, dtype)
    return give(result, f"AvgPool{rank}D", (input,))


def _covered(start: Expr, low: Expr, high: Expr, size: Expr) -> Expr:
    """How much of a window that starts at ``start`` lies within [low, high)."""
    stop = call("minimum", call("add", start, size), high)
    return call("sub", stop, call("maximum", start, low))


def _window_counts(spatial: Sizes, plan: Windows, include_pad: bool) -> Node:
    """How many elements every window covers, the padding counted or not."""
    rank = len(spatial)
    total = ops.constant(1, int64)
    for axis, n in enumerate(spatial):
        p = plan.padding[axis]
        edge = p if include_pad else 0
        start = along(plan.sizes[axis], axis, rank)
        start = mapped(_MUL, (start, constant_of(plan.stride[axis], int64)), int64, None)
        start = mapped(_ADD, (start, constant_of(-p, int64)), int64, None)
        ends = (constant_of(v, int64) for v in (-edge, n + edge, plan.kernel[axis]))
        total = ops.apply("mul", total, mapped(_covered, (start, *ends), int64, None))
    return total


def avg_pool1d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
    ceil_mode: bool = False, count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    """The mean of every window of the last dimension. Raises ShapeError, LazytError."""
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """The mean of every window of the last two dimensions, or the sum over ``divisor_override``.

    Raises ShapeError and LazytError for windows that do not fit.
    """
    options = (stride, padding, ceil_mode, count_include_pad, divisor_override)
    return _avg_pool(2, input, kernel_size, *options)


@in_full_precision
def avg_pool3d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """The mean of every window of the last three dimensions, or the sum over ``divisor_override``.

    Raises ShapeError and LazytError for windows that do not fit.
    """
    options = (stride, padding, ceil_mode, count_include_pad, divisor_override)
    return _avg_pool(3, input, kernel_size, *options)
