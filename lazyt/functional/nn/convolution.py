"""Convolutions: contractions of a windowed view of the padded input with the kernel.

The windows are never copied out, so no buffer of columns is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lazyt import ops
from lazyt.errors import DTypeError, LazytError, ShapeError
from lazyt.functional.elementwise.arithmetic import scalar_build
from lazyt.functional.nn.borders import padded
from lazyt.functional.operands import mapped, require_tensor
from lazyt.functional.result_layout import as_batch, channels_last_strides, shapes_and_strides
from lazyt.functional.results import give
from lazyt.functional.type_promotion import torch_name
from lazyt.handle.autocast import in_low_precision
from lazyt.handle.function_table import declare, declare_grad_fn, function
from lazyt.handle.layout import suggests_channels_last
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import bfloat16, float32
from lazyt.ir.graph import Node
from lazyt.ops.compositions import Spread

__all__ = [
    "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d",
]  # fmt: skip

_ADD, _DIV = scalar_build("add"), scalar_build("div")

Sizes = tuple[int, ...]


def spread(value: Any, rank: int) -> Sizes:
    """One number for every spatial dimension, or one each."""
    if isinstance(value, int):
        return (value,) * rank
    found = tuple(int(v) for v in value)
    return found * rank if len(found) == 1 else found


def windows(node: Node, kernel: Sizes, stride: Sizes, dilation: Sizes) -> Node:
    """``(*lead, *positions, *kernel)``: every placement of a kernel over the last dimensions."""
    rank = len(kernel)
    lead, spatial = node.shape[:-rank], node.shape[-rank:]
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation)]
    places = tuple((n - r) // s + 1 for n, r, s in zip(spatial, reach, stride))
    steps = [1] * len(node.shape)
    for i in range(len(node.shape) - 2, -1, -1):
        steps[i] = steps[i + 1] * node.shape[i + 1]
    own = steps[-rank:]
    strides = (
        *steps[:-rank],
        *(s * n for s, n in zip(stride, own)),
        *(d * n for d, n in zip(dilation, own)),
    )
    return ops.window(node, (*lead, *places, *kernel), strides, 0)


def _values(value: Any, rank: int, name: str) -> Sizes:
    """A setting of a convolution, one number for each dimension; raises ShapeError."""
    found = spread(value, rank)
    if len(found) != rank:
        raise ShapeError(
            f"expected {name} to be a single integer value or a list of {rank} values to match "
            f"the convolution dimensions, but got {name}={list(found)}"
        )
    return found


def _check_input(shape: Sizes, rank: int, name: str) -> None:
    if len(shape) not in (rank + 1, rank + 2):
        raise ShapeError(
            f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {name}, "
            f"but got input of size: {list(shape)}"
        )


def _check_settings(groups: int, stride: Sizes, dilation: Sizes, *paddings: Sizes) -> None:
    if groups <= 0:
        raise LazytError("non-positive groups is not supported")
    if any(p < 0 for amounts in paddings for p in amounts):
        raise LazytError("negative padding is not supported")
    if any(s <= 0 for s in stride):
        raise LazytError("non-positive stride is not supported")
    if any(d < 0 for d in dilation):
        raise LazytError("dilation should be greater than zero")


def _check_gaps(dilation: Sizes) -> None:
    if 0 in dilation:
        raise LazytError("non-positive dilation is not supported")


def _check_ranks(shape: Sizes, kernel: Sizes, space: str) -> None:
    """Input and weight have as many dimensions; raises ShapeError in PyTorch's words."""
    if len(shape) != len(kernel):
        rank = len(kernel)
        raise ShapeError(
            f"Expected {rank}-dimensional input for {rank}-dimensional weight{space}"
            f"{list(kernel)}, but got {len(shape)}-dimensional input of size {list(shape)} instead"
        )


def _check_sizes(
    shape: Sizes, weight: Tensor, bias: Tensor | None, groups: int, transposed: bool
) -> None:
    """Channels, groups and bias fit together; raises ShapeError in PyTorch's words."""
    kernel = tuple(weight.shape)
    if kernel[0] < groups or kernel[0] % groups:
        how = "at least" if kernel[0] < groups else "divisible by"
        shown = list(kernel) if how == "at least" else [list(kernel)]
        raise ShapeError(
            f"Given groups={groups}, expected weight to be {how} {groups} at dimension 0, "
            f"but got weight of size {shown} instead"
        )
    channels = shape[-len(kernel) + 1]
    outputs = kernel[1] * groups if transposed else kernel[0]
    wanted = kernel[0] if transposed else kernel[1] * groups
    if channels != wanted:
        given = "transposed=1" if transposed else f"groups={groups}"
        size = "" if transposed else str(list(shape))
        raise ShapeError(
            f"Given {given}, weight of size {list(kernel)}, expected input{size or list(shape)} "
            f"to have {wanted} channels, but got {channels} channels instead"
        )
    if bias is not None and tuple(bias.shape) != (outputs,):
        given = "transposed=1, weight of size" if transposed else "weight of size"
        raise ShapeError(
            f"Given {given} {list(kernel)}, expected bias to be 1-dimensional with {outputs} "
            f"elements, but got bias of size {list(bias.shape)} instead"
        )


def _check_types(input: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    if input.dtype is not weight.dtype:
        found, wanted = torch_name(weight.dtype), torch_name(input.dtype)
        raise DTypeError(f"expected scalar type {wanted} but found {found}")
    if bias is not None and bias.dtype is not input.dtype:
        raise DTypeError(
            f"Input type ({input.type()}) and bias type ({bias.type()}) should be the same"
        )


def _padding(padding: Any, kernel: Sizes, stride: Sizes, dilation: Sizes) -> tuple[Sizes, Sizes]:
    rank = len(kernel)
    if padding == "valid":
        return (0,) * rank, (0,) * rank
    if padding == "same":
        if any(s != 1 for s in stride):
            raise LazytError("padding='same' is not supported for strided convolutions")
        total = [d * (k - 1) for k, d in zip(kernel, dilation)]
        return tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
    if isinstance(padding, str):
        raise LazytError(f"Invalid padding string: '{padding}'")
    amount = _values(padding, rank, "padding")
    return amount, amount


def _convolve(
    x: Node, w: Node, stride: Sizes, low: Sizes, high: Sizes, dilation: Sizes, groups: int
) -> Node:
    """The convolution of a batch: a contraction over channels and kernel positions."""
    rank = len(stride)
    kernel = w.shape[-rank:]
    x = padded(x, low, high)
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation)]
    if 0 in kernel:
        raise ShapeError(f"weight should have non-zero spatial sizes, but got {list(kernel)}")
    if any(n < r for n, r in zip(x.shape[-rank:], reach)):
        room = " x ".join(map(str, x.shape[-rank:]))
        size = " x ".join(map(str, reach))
        raise ShapeError(
            f"Calculated padded input size per channel: ({room}). Kernel size: ({size}). Kernel "
            "size can't be greater than actual input size"
        )
    n, c, o = 0, 1, 2
    space = tuple(range(3, 3 + rank))
    inside = tuple(range(3 + rank, 3 + 2 * rank))
    if groups == 1:
        seen = windows(x, kernel, stride, dilation)
        return ops.contract(seen, w, (n, c, *space, *inside), (o, c, *inside), (n, o, *space))
    g = 3 + 2 * rank
    x, w = _in_groups(x, w, groups)
    seen = windows(x, kernel, stride, dilation)
    left, right = (n, g, c, *space, *inside), (g, o, c, *inside)
    return _out_of_groups(ops.contract(seen, w, left, right, (n, g, o, *space)))


def _in_groups(x: Node, w: Node, groups: int) -> tuple[Node, Node]:
    """Input and kernel with their channels divided into groups."""
    size, channels, *space = x.shape
    x = ops.reshape(x, (size, groups, channels // groups, *space))
    return x, ops.reshape(w, (groups, w.shape[0] // groups, *w.shape[1:]))


def _out_of_groups(node: Node) -> Node:
    size, groups, per, *space = node.shape
    return ops.reshape(node, (size, groups * per, *space))


def _with_bias(node: Node, bias: Tensor | None, rank: int) -> Node:
    if bias is None:
        return node
    column = ops.reshape(bias.node, (bias.shape[0], *(1,) * rank))
    return mapped(_ADD, (node, column), node.dtype, node.dtype)


def _order_of_convolution(result: Tensor, parents: Sequence[Any]) -> Sizes | None:
    """Channels last where the input or the kernel has them last."""
    given = shapes_and_strides(parents)
    rank = len(given[1][0]) - 2
    # Lines are made row-major first; three dimensions have kernels of both orders in two types.
    if rank == 3 and parents[0].dtype not in (float32, bfloat16):
        return None
    batches = (as_batch(*operand, rank) for operand in given[rank == 1 : 2])
    if not any(suggests_channels_last(*batch) for batch in batches):
        return None
    return channels_last_strides(tuple(result.shape), rank)


declare_grad_fn("Convolution", saves="a", second_order="none", layout=_order_of_convolution)


def _conv(
    rank: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any,
    dilation: Any, groups: int,
) -> Tensor:  # fmt: skip
    shape, kernel = tuple(input.shape), tuple(weight.shape)
    _check_input(shape, rank, f"conv{rank}d")
    single = len(shape) == rank + 1
    shape = (1, *shape) if single else shape
    if padding == "same" and len(kernel) > 2:
        _check_ranks(shape, kernel, "")
    if len(kernel) < 3 and not (isinstance(padding, str) and padding not in ("same", "valid")):
        raise ShapeError("weight should have at least three dimensions")
    # PyTorch counts the dimensions of the settings by the weight's.
    steps, gaps = (
        _values(v, max(len(kernel) - 2, 1), n)
        for v, n in ((stride, "stride"), (dilation, "dilation"))
    )
    low, high = _padding(padding, kernel[2:], steps, gaps)
    _check_settings(groups, steps, gaps, low, high)
    _check_ranks(shape, kernel, " ")
    _check_sizes(shape, weight, bias, groups, False)
    _check_gaps(gaps)
    _check_types(input, weight, bias)
    x = input.node
    if single:
        x = ops.reshape(x, shape)
    node = _with_bias(_convolve(x, weight.node, steps, low, high, gaps, groups), bias, rank)
    if single:
        node = ops.reshape(node, node.shape[1:])
    return give(node, "Convolution", (input, weight, bias))


@function()
@in_low_precision
def conv1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Cross-correlation of (N, C, L) with (O, C / groups, K). Raises ShapeError."""
    require_tensor(input, "conv1d")
    return _conv(1, input, weight, bias, stride, padding, dilation, groups)


@function()
@in_low_precision
def conv2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Cross-correlation of (N, C, H, W) with (O, C / groups, KH, KW). Raises ShapeError."""
    require_tensor(input, "conv2d")
    return _conv(2, input, weight, bias, stride, padding, dilation, groups)


@function()
@in_low_precision
def conv3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Cross-correlation of (N, C, D, H, W) with (O, C / groups, ...). Raises ShapeError."""
    require_tensor(input, "conv3d")
    return _conv(3, input, weight, bias, stride, padding, dilation, groups)


def _transposed(rank: int, name: str) -> Callable[..., Tensor]:
    def function(
        input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
        padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
    ) -> Tensor:  # fmt: skip
        require_tensor(input, name)
        shape = tuple(input.shape)
        _check_input(shape, rank, name)
        single = len(shape) == rank + 1
        shape = (1, *shape) if single else shape
        if len(weight.shape) < 3:
            raise ShapeError("weight should have at least three dimensions")
        steps, gaps = _values(stride, rank, "stride"), _values(dilation, rank, "dilation")
        edge = _values(padding, rank, "padding")
        extra = _values(output_padding, rank, "output_padding")
        _check_settings(groups, steps, gaps, edge, extra)
        _check_extra(extra, steps, gaps)
        _check_ranks(shape, tuple(weight.shape), " ")
        _check_sizes(shape, weight, bias, groups, True)
        _check_gaps(gaps)
        _check_types(input, weight, bias)
        kernel = tuple(weight.shape[2:])
        x = input.node
        if single:
            x = ops.reshape(x, shape)
        spreads = [
            Spread(3 + i, 3 + rank + i, -edge[i], steps[i], gaps[i], extent)
            for i, extent in enumerate(
                (n - 1) * s - 2 * p + d * (k - 1) + e + 1
                for n, s, p, d, k, e in zip(x.shape[2:], steps, edge, gaps, kernel, extra)
            )
        ]
        _check_result(spreads, x)
        node = _with_bias(_spread_out(x, weight.node, spreads, groups), bias, rank)
        if any(s.extent == 0 for s in spreads):
            sizes = (*node.shape[:2], *(s.extent for s in spreads))
            node = ops.slice_(node, (0,) * (rank + 2), sizes, (1,) * (rank + 2))
        if single:
            node = ops.reshape(node, node.shape[1:])
        return give(node, "Convolution", (input, weight, bias))

    function.__doc__ = f"""The gradient of ``conv{rank}d`` with respect to its input, as a layer.

    Raises ShapeError and DTypeError for operands that do not fit, LazytError for settings.
    """
    function.__name__ = function.__qualname__ = name
    return in_low_precision(function)


@function(cast="low")
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """``conv1d`` of (time, batch, C) with (K, C, O), to (time, batch, O). Raises ShapeError."""
    for name, operand, rank, axes in (
        ("Input", input, 3, "time, batch, in_channel"),
        ("Weight tensor", weight, 3, "kernel_width, in_channels, out_channels."),
    ):
        if operand.ndim != rank:
            raise ShapeError(f"{name} must have {rank} dims: {axes}")
    if bias.ndim != 1:
        raise ShapeError("Bias must be 1-D")
    out = conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    result: Tensor = out.permute(2, 0, 1)
    return result


_SIDES = {1: ("width",), 2: ("height", "width"), 3: ("depth", "height", "width")}


def _check_extra(extra: Sizes, stride: Sizes, dilation: Sizes) -> None:
    if all(e < s or e < d for e, s, d in zip(extra, stride, dilation)):
        return
    parts = (("output_padding", extra), ("stride", stride), ("dilation", dilation))
    sides = _SIDES[len(extra)]
    values = (f"{name}_{side}: {v}" for name, vs in parts for side, v in zip(sides, vs))
    raise LazytError(
        "output padding must be smaller than either stride or dilation, but got " + " ".join(values)
    )


def _check_result(spreads: Sequence[Spread], x: Node) -> None:
    extents = [s.extent for s in spreads]
    # PyTorch hands batches of these to another library, which does not mind an empty result.
    least = 0 if x.dtype is float32 and x.shape[0] > 1 else 1
    if any(e < least for e in extents):
        given, made = (" x ".join(map(str, sizes)) for sizes in (x.shape[2:], extents))
        raise ShapeError(
            f"Given input size per channel: ({given}). Calculated output size per channel: "
            f"({made}). Output size is too small"
        )


def _spread_out(x: Node, w: Node, spreads: Sequence[Spread], groups: int) -> Node:
    """Every element of ``x`` times the kernel, added up where they overlap.

    Where there are none, one more: a part of nothing would not depend on the operands.
    """
    spreads = [s._replace(extent=max(s.extent, 1)) for s in spreads]
    n, c, o, g = 0, 1, 2, 3 + 2 * len(spreads)
    places, taps = [s.place for s in spreads], [s.tap for s in spreads]
    if groups == 1:
        return ops.contract_spread(x, w, (n, c, *places), (c, o, *taps), (n, o, *spreads))
    x, w = _in_groups(x, w, groups)
    left, right = (n, g, c, *places), (g, c, o, *taps)
    return _out_of_groups(ops.contract_spread(x, w, left, right, (n, g, o, *spreads)))


conv_transpose1d = declare("conv_transpose1d", _transposed(1, "conv_transpose1d"))
conv_transpose2d = declare("conv_transpose2d", _transposed(2, "conv_transpose2d"))
conv_transpose3d = declare("conv_transpose3d", _transposed(3, "conv_transpose3d"))
