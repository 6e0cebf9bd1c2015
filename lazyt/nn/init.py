"""Filling parameters with initial values. Every function changes its tensor and returns it."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from lazyt import linalg
from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.errors import LazytError, warn
from lazyt.functional import namespace as lazyt
from lazyt.functional.overriding import may_be_overridden as _may_be_overridden
from lazyt.handle.tensor import Tensor

P = ParamSpec("P")
R = TypeVar("R")


class InitializationError(LazytError, ValueError):
    """A tensor, or a setting, that an initialisation cannot work with."""


_CONVOLUTION = r"conv(_transpose)?[123]d"


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which values before a nonlinearity should be larger (He et al. 2015).

    Args:
        param: for ``leaky_relu``, its negative slope.

    Raises InitializationError (a ValueError) for an unknown nonlinearity.
    """
    if nonlinearity in ("linear", "sigmoid") or re.fullmatch(_CONVOLUTION, str(nonlinearity)):
        return 1
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if not isinstance(slope, (int, float)) or isinstance(slope, bool):
            raise InitializationError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity == "selu":
        return 0.75
    raise InitializationError(f"Unsupported nonlinearity {nonlinearity}")


def fans(tensor: Tensor) -> tuple[int, int]:
    """How many inputs each output of a weight [out, in, *kernel] has, and the reverse.

    Raises InitializationError for fewer than two dimensions.
    """
    if tensor.ndim < 2:
        raise InitializationError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        )
    field = lazyt.Size(tensor.shape[2:]).numel()
    return tensor.shape[1] * field, tensor.shape[0] * field


def uniform_(
    tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: lazyt.Generator | None = None
) -> Tensor:
    """Numbers evenly distributed over [a, b)."""
    with lazyt.no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: lazyt.Generator | None = None
) -> Tensor:
    """Normal numbers."""
    with lazyt.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: lazyt.Generator | None = None,
) -> Tensor:
    """Normal numbers of which those outside of [a, b] are drawn anew, by inverting the
    distribution function."""
    if mean < a - 2 * std or mean > b + 2 * std:
        warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of "
            "values may be incorrect."
        )

    def below(x: float) -> float:
        return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0

    low, high = below((a - mean) / std), below((b - mean) / std)
    with lazyt.no_grad():
        tensor.uniform_(2 * low - 1, 2 * high - 1, generator=generator)
        tensor.erfinv_().mul_(std * math.sqrt(2.0)).add_(mean)
        return tensor.clamp_(a, b)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """One value everywhere."""
    with lazyt.no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Zeros."""
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """Ones on the diagonal. Raises InitializationError for other than two dimensions."""
    if tensor.ndim != 2:
        raise InitializationError("Only tensors with 2 dimensions are supported")
    with lazyt.no_grad():
        return tensor.copy_(lazyt.eye(*tensor.shape))


def xavier_uniform_(
    tensor: Tensor, gain: float = 1.0, generator: lazyt.Generator | None = None
) -> Tensor:
    """Uniform numbers that keep the variance forwards and backwards (Glorot & Bengio 2010)."""
    bound = gain * math.sqrt(6.0 / sum(fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(
    tensor: Tensor, gain: float = 1.0, generator: lazyt.Generator | None = None
) -> Tensor:
    """Normal numbers that keep the variance forwards and backwards (Glorot & Bengio 2010)."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(fans(tensor))), generator)


def _deviation(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise InitializationError(
            f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']"
        )
    fan = fans(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def _is_empty(tensor: Tensor) -> bool:
    if 0 in tensor.shape:
        warn("Initializing zero-element tensors is a no-op")
        return True
    return False


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: lazyt.Generator | None = None,
) -> Tensor:
    """Uniform numbers that keep the variance through rectified layers (He et al. 2015).

    Args:
        a: negative slope of the ``leaky_relu`` behind the layer.
        mode: ``fan_in`` keeps the variance forwards, ``fan_out`` backwards.

    Raises InitializationError for other modes and nonlinearities.
    """
    if _is_empty(tensor):
        return tensor
    bound = math.sqrt(3.0) * _deviation(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: lazyt.Generator | None = None,
) -> Tensor:
    """Normal numbers that keep the variance through rectified layers; see
    ``kaiming_uniform_``."""
    if _is_empty(tensor):
        return tensor
    return normal_(tensor, 0.0, _deviation(tensor, a, mode, nonlinearity), generator)


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Convolution weights [out, in, *kernel] that hand their inputs on: a one in the middle of the
    kernel from input d to output d, in each of ``groups``.

    Raises InitializationError for other than three to five dimensions, and for groups that do not
    divide the outputs.
    """
    if tensor.ndim not in (3, 4, 5):
        raise InitializationError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.shape[0] % groups:
        raise InitializationError("dim 0 must be divisible by groups")
    outputs, inputs = tensor.shape[0] // groups, tensor.shape[1]
    middle = tuple(size // 2 for size in tensor.shape[2:])
    with lazyt.no_grad():
        tensor.zero_()
        kept = lazyt.eye(outputs, inputs, dtype=tensor.dtype).repeat(groups, 1)
        tensor[(slice(None), slice(None), *middle)] = kept
    return tensor


def orthogonal_(
    tensor: Tensor, gain: float = 1, generator: lazyt.Generator | None = None
) -> Tensor:
    """A random matrix [rows, rest] with orthonormal rows or columns, whichever are fewer (Saxe et
    al. 2014). Raises InitializationError for fewer than two dimensions."""
    if tensor.ndim < 2:
        raise InitializationError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    with lazyt.no_grad():
        drawn = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
        tall = drawn.t() if rows < columns else drawn
        q, r = linalg.qr(tall)
        q = q * r.diagonal().sign()
        tensor.copy_((q.t() if rows < columns else q).reshape(tensor.shape))
        return tensor.mul_(gain)


def sparse_(
    tensor: Tensor, sparsity: float, std: float = 0.01, generator: lazyt.Generator | None = None
) -> Tensor:
    """Normal numbers, in each column a share of ``sparsity`` zeros (Martens 2010).

    Raises InitializationError for other than two dimensions.
    """
    if tensor.ndim != 2:
        raise InitializationError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    count = math.ceil(sparsity * rows)
    with lazyt.no_grad():
        tensor.normal_(0, std, generator=generator)
        order = lazyt.rand(rows, columns).argsort(0)
        return tensor.masked_fill_(order < count, 0)


def _deprecated(function: Callable[P, R]) -> Callable[P, R]:
    """A function under its older name, without the underscore."""
    name = function.__name__

    @functools.wraps(function)
    def older(*args: P.args, **kwargs: P.kwargs) -> R:
        warn(
            f"`nn.init.{name[:-1]}` is now deprecated in favor of `nn.init.{name}`.", FutureWarning
        )
        return function(*args, **kwargs)

    older.__name__ = name[:-1]
    return older


uniform, normal, constant = _deprecated(uniform_), _deprecated(normal_), _deprecated(constant_)
eye, dirac, sparse = _deprecated(eye_), _deprecated(dirac_), _deprecated(sparse_)
orthogonal = _deprecated(orthogonal_)
xavier_uniform, xavier_normal = _deprecated(xavier_uniform_), _deprecated(xavier_normal_)
kaiming_uniform, kaiming_normal = _deprecated(kaiming_uniform_), _deprecated(kaiming_normal_)


def fan_bias_(bias: Tensor | None, weight: Tensor) -> None:
    """PyTorch's default for the bias beside ``weight``: uniform over +-1/sqrt(fan_in)."""
    if bias is not None:
        fan_in, _ = fans(weight)
        bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
        uniform_(bias, -bound, bound)


def default_weight_(weight: Tensor) -> None:
    """PyTorch's default for weights of linear layers and convolutions: uniform over
    +-1/sqrt(fan_in), which is ``kaiming_uniform_`` with a slope of sqrt(5)."""
    if 0 not in weight.shape:
        kaiming_uniform_(weight, a=math.sqrt(5))


_calculate_fan_in_and_fan_out = fans

_may_be_overridden(globals(), ["uniform_", "normal_", "constant_", "kaiming_uniform_"], __name__)
_explain_absence(__name__)
