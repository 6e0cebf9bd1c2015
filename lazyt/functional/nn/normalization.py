"""Normalisation of layers, batches, groups, samples and neighbouring channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lazyt import ops
from lazyt.errors import DTypeError, LazytError, ShapeError, warn
from lazyt.functional.elementwise.arithmetic import scalar_build
from lazyt.functional.nn import normalizers
from lazyt.functional.nn.borders import padded
from lazyt.functional.nn.convolution import windows
from lazyt.functional.nn.normalizers import softmax_node
from lazyt.functional.operands import Build, constant_of, mapped, normalize_dim, require_tensor
from lazyt.functional.random.random import uniform_node
from lazyt.functional.reductions.reductions import mean_node
from lazyt.functional.result_layout import channels_like_first, row_major
from lazyt.functional.results import give, overwrite
from lazyt.functional.type_promotion import get_default_dtype, refuse, require_floating, torch_name
from lazyt.handle.function_table import declare_grad_fn, function
from lazyt.handle.tensor import Size, Tensor
from lazyt.ir.dtypes import int64
from lazyt.ir.graph import Node
from lazyt.ir.scalar import Expr, call, const

_SUB, _MUL, _ADD = scalar_build("sub"), scalar_build("mul"), scalar_build("add")


def _standard(gap: Expr, variance: Expr, eps: Expr) -> Expr:
    return call("mul", gap, call("rsqrt", call("add", variance, eps)))


def _scaled(gap: Expr, variance: Expr, eps: Expr, weight: Expr) -> Expr:
    return call("mul", _standard(gap, variance, eps), weight)


def _affine(gap: Expr, variance: Expr, eps: Expr, weight: Expr, bias: Expr) -> Expr:
    return call("add", _scaled(gap, variance, eps, weight), bias)


def _shifted(gap: Expr, variance: Expr, eps: Expr, bias: Expr) -> Expr:
    return call("add", _standard(gap, variance, eps), bias)


def _moments(node: Node, axes: tuple[int, ...]) -> tuple[Node, Node, Node]:
    """Mean, distances from it, and variance; ``node`` is in its compute type."""
    dtype = node.dtype
    centre = mean_node(node, axes, True)
    gap = mapped(_SUB, (node, centre), dtype, None)
    variance = mean_node(mapped(_MUL, (gap, gap), dtype, None), axes, True)
    return centre, gap, variance


def _finish(
    gap: Node, variance: Node, eps: float, weight: Node | None, bias: Node | None, like: Tensor
) -> Node:
    """``gap / sqrt(variance + eps) * weight + bias`` as one map, in ``like``'s dtype."""
    builds: dict[tuple[bool, bool], Build] = {
        (False, False): _standard,
        (True, False): _scaled,
        (False, True): _shifted,
        (True, True): _affine,
    }
    build = builds[weight is not None, bias is not None]
    extra = tuple(n for n in (weight, bias) if n is not None)
    eps_node = constant_of(eps, gap.dtype)
    return mapped(build, (gap, variance, eps_node, *extra), gap.dtype, like.dtype)


def _check_normalized(
    input: Tensor, normalized_shape: Sequence[int], parts: dict[str, Tensor | None], gap: str
) -> tuple[int, ...]:
    """The normalised axes; raises DTypeError and ShapeError in PyTorch's words."""
    if not isinstance(normalized_shape, (list, tuple)):
        raise DTypeError(
            "layer_norm(): argument 'normalized_shape' (position 2) must be tuple of ints, not "
            f"{type(normalized_shape).__name__}"
        )
    wanted = tuple(normalized_shape)
    text = ", ".join(map(str, wanted))
    if not wanted:
        raise ShapeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
            "element, but got normalized_shape = []"
        )
    for name, part in parts.items():
        if part is not None and tuple(part.shape) != wanted:
            raise ShapeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                f"{list(part.shape)} and normalized_shape = [{text}]"
            )
    rank = len(input.shape)
    if tuple(input.shape[max(rank - len(wanted), 0) :]) != wanted:
        raise ShapeError(
            f"Given normalized_shape=[{text}], expected input with shape [*{gap}{text}], but got "
            f"input of size{list(input.shape)}"
        )
    return tuple(range(rank - len(wanted), rank))


declare_grad_fn("NativeLayerNorm", saves="a", layout=row_major)
declare_grad_fn("NativeBatchNorm", "NativeGroupNorm", saves="a", layout=channels_like_first)


@function(cast="full")
def layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
    bias: Tensor | None = None, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Mean 0 and variance 1 over the last dimensions (Ba et al. 2016). Raises ShapeError."""
    require_tensor(input, "layer_norm")
    named = {"weight": weight, "bias": bias}
    axes = _check_normalized(input, normalized_shape, named, ", ")
    _check_floating(input, weight, "LayerNormKernelImpl")
    _, gap, variance = _moments(ops.cast(input.node, input.dtype.compute), axes)
    parts = [None if t is None else t.node for t in (weight, bias)]
    node = _finish(gap, variance, eps, parts[0], parts[1], input)
    return give(node, "NativeLayerNorm", (input, weight, bias))


@function(cast="full", layout=row_major)
def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:  # fmt: skip
    """Division by the root of the mean square (Zhang & Sennrich 2019).

    Raises ShapeError, and NoKernelError for whole numbers.
    """
    require_tensor(input, "rms_norm")
    axes = _check_normalized(input, normalized_shape, {"weight": weight}, "")
    if input.dtype.kind not in "fc":
        refuse("rms_norm", input.dtype)
    node = ops.cast(input.node, input.dtype.compute)
    square = mean_node(mapped(_MUL, (node, node), node.dtype, None), axes, True)
    tiny = {"float64": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7}
    floor = tiny.get(input.dtype.name, 2.0**-23) if eps is None else eps
    scale = None if weight is None else weight.node
    return give(_finish(node, square, floor, scale, None, input), "RmsNorm", (input, weight))


def _check_floating(input: Tensor, weight: Tensor | None, kernel: str) -> None:
    """Raise DTypeError for whole numbers; PyTorch compares with the weight's dtype first."""
    if input.dtype.kind != "f":
        if weight is not None and weight.dtype.kind == "f":
            raise DTypeError("mixed dtype (CPU): all inputs must share same datatype.")
        refuse(kernel, input.dtype)


class StatisticsError(LazytError, ValueError):
    """Too few values to take statistics of."""


def _check_channels(channels: int, parts: dict[str, Tensor | None]) -> None:
    for name, part in parts.items():
        if part is not None and part.numel() != channels:
            raise ShapeError(f"{name} should contain {channels} elements not {part.numel()}")


@function()
def batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None,
    weight: Tensor | None = None, bias: Tensor | None = None, training: bool = False,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Mean 0 and variance 1 per channel (dimension 1), of the batch or as they ran so far.

    In training the running statistics are updated in place. Raises StatisticsError (a ValueError)
    for one value per channel in training and for a bad ``eps``, ShapeError, and LazytError without
    statistics outside of training.
    """
    shape = tuple(input.shape)
    axes = (0, *range(2, len(shape)))
    if training and shape:
        _check_count(math.prod(shape[a] for a in axes), shape)
    _check_eps(eps, training)
    if not training:
        for name, part in (("running_mean", running_mean), ("running_var", running_var)):
            if part is None:
                raise LazytError(f"{name} must be defined in evaluation mode")
    named = {"running_mean": running_mean, "running_var": running_var}
    if len(shape) == 1 and any(part is not None for part in named.values()):
        # PyTorch finds no channels here, and returns what is empty.
        _check_channels(0, {**named, "weight": weight, "bias": bias})
    if shape == (0,):
        return give(input.node, "NativeBatchNorm", (input, weight, bias))
    normalize_dim(1, len(shape))
    _check_channels(shape[1], {**named, "weight": weight, "bias": bias})
    require_floating("batch_norm", input.dtype)
    channel = (shape[1], *(1,) * (len(shape) - 2))
    node = ops.cast(input.node, input.dtype.compute)
    parts = [None if t is None else ops.reshape(t.node, channel) for t in (weight, bias)]
    if training:
        centre, gap, variance = _moments(node, axes)
        count = node.size // max(shape[1], 1)
        if count:
            _update_running(running_mean, centre, 1.0, momentum)
            _update_running(running_var, variance, count / max(count - 1, 1), momentum)
    else:
        assert running_mean is not None and running_var is not None
        centre, variance = (
            ops.reshape(ops.cast(t.node, node.dtype), channel) for t in (running_mean, running_var)
        )
        gap = mapped(_SUB, (node, centre), node.dtype, None)
    result = _finish(gap, variance, eps, parts[0], parts[1], input)
    return give(result, "NativeBatchNorm", (input, weight, bias))


def _check_eps(eps: float, training: bool) -> None:
    if training and eps <= 0:
        raise StatisticsError(f"batch_norm eps must be positive during training, but got {eps}")
    if eps < 0:
        raise StatisticsError(f"batch_norm eps must be non-negative, but got {eps}")


def _check_count(count: int, shape: Sequence[int]) -> None:
    if count == 1:
        raise StatisticsError(
            f"Expected more than 1 value per channel when training, got input size {Size(shape)}"
        )


def _mix(old: Expr, new: Expr, keep: Expr, share: Expr) -> Expr:
    return call("add", call("mul", old, keep), call("mul", new, share))


def _update_running(running: Tensor | None, new: Node, scale: float, momentum: float) -> None:
    """``running = (1 - momentum) * running + momentum * scale * new``, without gradient."""
    if running is None:
        return
    new = ops.reshape(ops.detach(new) if new.needs_grad else new, tuple(running.shape))
    dtype = running.dtype
    shares = (1 - momentum, momentum * scale)
    constants = tuple(constant_of(s, dtype.compute) for s in shares)
    node = mapped(_mix, (running.node, new, *constants), dtype, dtype)
    overwrite(running, node, "RunningStatistics", ())


@function(cast="full")
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Mean 0 and variance 1 per group of channels (Wu & He 2018). Raises ShapeError."""
    shape = tuple(input.shape)
    if len(shape) < 2:
        raise ShapeError(
            f"Expected at least 2 dimensions for input tensor but received {len(shape)}"
        )
    _check_groups(shape, num_groups, {"weight": weight, "bias": bias})
    _check_group_size(shape, num_groups)
    _check_floating(input, weight, "GroupNormKernelImpl")
    grouped = (shape[0], num_groups, shape[1] // num_groups, *shape[2:])
    node = ops.reshape(ops.cast(input.node, input.dtype.compute), grouped)
    _, gap, variance = _moments(node, tuple(range(2, len(grouped))))
    affine = (num_groups, shape[1] // num_groups, *(1,) * (len(shape) - 2))
    parts = [None if t is None else ops.reshape(t.node, affine) for t in (weight, bias)]
    result = ops.reshape(_finish(gap, variance, eps, parts[0], parts[1], input), shape)
    return give(result, "NativeGroupNorm", (input, weight, bias))


def _check_groups(shape: tuple[int, ...], groups: int, parts: dict[str, Tensor | None]) -> None:
    if groups <= 0:
        raise LazytError(f"Expected num groups to be greater than 0, got {groups}")
    if shape[1] % groups:
        raise ShapeError(
            "Expected number of channels in input to be divisible by num_groups, but got input "
            f"of shape {list(shape)} and num_groups={groups}"
        )
    for name, part in parts.items():
        if part is not None and tuple(part.shape) != (shape[1],):
            raise ShapeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, "
                f"but got {name} of shape {list(part.shape)} and input of shape {list(shape)}"
            )


def _check_group_size(shape: tuple[int, ...], groups: int) -> None:
    """PyTorch counts the values of all samples and groups together, and refuses a single one."""
    sizes = [shape[0] * shape[1] // groups, groups, *shape[2:]]
    if sizes[0] * math.prod(sizes[2:]) == 1:
        text = ", ".join(map(str, sizes))
        raise StatisticsError(
            f"Expected more than 1 value per channel when training, got input size [{text}]"
        )


@function()
def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None,
    weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: bool = True,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Mean 0 and variance 1 per channel of every sample (Ulyanov et al. 2016).

    Running statistics, where given, move in place towards the mean over the samples of their
    means and variances; without ``use_input_stats`` they are what is used. Raises StatisticsError
    (a ValueError) for a single value per channel, ShapeError, LazytError.
    """
    shape = tuple(input.shape)
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise LazytError(
                "Expected running_mean and running_var to be defined when use_input_stats is false"
            )
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    count = math.prod(shape[2:])
    if count == 1:
        raise StatisticsError(
            f"Expected more than 1 spatial element when training, got input size {input.shape}"
        )
    named = {"running_mean": running_mean, "running_var": running_var}
    _check_channels(shape[1], {**named, "weight": weight, "bias": bias})
    require_floating("batch_norm", input.dtype)
    channel = (shape[1], *(1,) * (len(shape) - 2))
    node = ops.cast(input.node, input.dtype.compute)
    centre, gap, variance = _moments(node, tuple(range(2, len(shape))))
    for running, found, scale in (
        (running_mean, centre, 1.0), (running_var, variance, count / max(count - 1, 1)),
    ):  # fmt: skip
        if running is not None:
            _update_running(running, mean_node(found, (0,), False), scale, momentum)
    parts = [None if t is None else ops.reshape(t.node, channel) for t in (weight, bias)]
    result = _finish(gap, variance, eps, parts[0], parts[1], input)
    return give(result, "View", (input, weight, bias))


@function(cast="full", fractions=("k",))
def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Division by ``(k + alpha * mean of squares over size channels) ** beta``.

    Krizhevsky et al. 2012, with PyTorch's ``alpha``. Raises StatisticsError (a ValueError) for
    fewer than three dimensions.
    """
    if input.ndim < 3:
        raise StatisticsError(
            f"Expected 3D or higher dimensionality {' ' * 25}input (got {input.ndim} dimensions)"
        )
    kind = input.dtype
    if not input.numel():
        return give(input.node, "Alias", (input,))
    if kind is not int64:  # PyTorch's means of squares are pooled, which int64 can be as well
        require_floating("avg_pool2d" if input.ndim == 3 else "avg_pool3d_out_frame", kind)
    node = ops.cast(input.node, kind.compute)
    squares = ops.apply("mul", node, node)
    shape, rest = node.shape, (0,) * (input.ndim - 2)
    low, high = (size // 2, *rest), ((size - 1) // 2, *rest)
    ones = (1,) * len(low)
    seen = windows(padded(squares, low, high), (size, *ones[1:]), ones, ones)
    mean = ops.reduce_("sum", ops.reshape(seen, (*shape, size)), (len(shape),))
    share, result_kind = alpha / size, kind
    if kind is int64:
        mean = ops.apply("floordiv", mean, constant_of(size, int64))
        share, result_kind = alpha, get_default_dtype()
        node, mean = ops.cast(node, result_kind.compute), ops.cast(mean, result_kind.compute)
    constants = (constant_of(v, node.dtype) for v in (share, k, beta))
    result = mapped(_damped, (node, mean, *constants), node.dtype, result_kind)
    return give(result, "Div", (input,))


def _damped(x: Expr, total: Expr, share: Expr, k: Expr, beta: Expr) -> Expr:
    return call("div", x, call("pow", call("add", call("mul", total, share), k), beta))


# ``softmax`` and its relatives as ``nn.functional`` has them: the dimension may be left out.


def _implicit_dim(name: str, rank: int) -> int:
    warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument."
    )
    return 0 if rank in (0, 1, 3) else 1


@function(cast="full_by_default")
def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Exponentials along ``dim`` that add up to 1.

    Without ``dim`` PyTorch's choice is taken, with a warning: 0 for none, one or three
    dimensions, else 1. Raises UnsupportedTypeError for whole numbers, BoundsError.
    """
    axis = _implicit_dim("softmax", input.ndim) if dim is None else dim
    return normalizers.softmax(input, axis, dtype)


@function(cast="full_by_default")
def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """The logarithm of ``softmax``, without overflow."""
    axis = _implicit_dim("log_softmax", input.ndim) if dim is None else dim
    return normalizers.log_softmax(input, axis, dtype)


@function(cast="full")
def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """``softmax`` of ``-input``."""
    axis = _implicit_dim("softmin", input.ndim) if dim is None else dim
    return normalizers.softmax(-input, axis, dtype)


def _disturbed(x: Expr, draw: Expr, tau: Expr) -> Expr:
    """Gumbel noise by inversion: minus the logarithm of an exponential number."""
    exponential = call("neg", call("log1p", call("neg", draw)))
    # A draw of 0 would be an infinite disturbance.
    tiny = const(2.0**-25, x.dtype)
    noise = call("neg", call("log", call("maximum", exponential, tiny)))
    return call("div", call("add", x, noise), tau)


@function(cast="full")
def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A sample of categories, softened by ``tau`` (Jang et al. 2017, Maddison et al. 2017).

    With ``hard`` it is a row with a single 1 along ``dim``, whose gradient is the soft sample's.
    Every call draws one number per element from one key of the default generator's stream.
    Raises LazytError for whole numbers, BoundsError.
    """
    require_tensor(logits, "gumbel_softmax", "logits")
    if eps != 1e-10:
        text = "`eps` parameter is deprecated and has no effect."
        warn(text)
    if logits.dtype.kind != "f":
        raise LazytError(
            "Exponential distribution is a continuous probability distribution. dtype must be a "
            f"floating point but you specified {torch_name(logits.dtype)}"
        )
    axis = normalize_dim(dim, logits.ndim)
    dtype = logits.dtype
    draw = uniform_node(tuple(logits.shape), dtype.compute, None)
    nodes = (logits.node, draw, constant_of(tau, dtype.compute))
    node = softmax_node(mapped(_disturbed, nodes, dtype, None), axis)
    soft = give(mapped(_same, (node,), dtype, dtype), "Softmax", (logits,))
    if not hard:
        return soft
    best = soft.detach().argmax(axis, keepdim=True)
    chosen: Tensor = logits.new_zeros(logits.shape).scatter(axis, best, 1.0)
    result: Tensor = chosen - soft.detach() + soft
    return result


def _same(x: Expr) -> Expr:
    return x
