"""Dropout: elements, channels, or what keeps mean and variance, chosen at random.

Every call draws one key from the default generator's stream and one uniform number in [0, 1) per
element (per channel for the forms that drop whole channels) from it, and keeps where that number
is below ``1 - p``. So the same seed gives the same mask, however the graph is fused.
"""

from __future__ import annotations

import math

from lazyt.errors import LazytError, ShapeError, warn
from lazyt.functional.elementwise.activations import written
from lazyt.functional.elementwise.arithmetic import scalar_build
from lazyt.functional.operands import choose, constant_of, mapped, mixed, require_tensor
from lazyt.functional.random.random import drop_mask
from lazyt.functional.results import give
from lazyt.functional.type_promotion import get_default_dtype, refuse_cast
from lazyt.handle.function_table import function
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import int64
from lazyt.ir.scalar import Expr, call

_MUL = scalar_build("mul")
Shape = tuple[int, ...]


class ProbabilityError(LazytError, ValueError):
    """A probability outside of [0, 1]."""


def check_probability(p: float) -> None:
    """Raise ProbabilityError unless ``p`` is within [0, 1]."""
    if not 0 <= p <= 1:
        raise ProbabilityError(f"dropout probability has to be between 0 and 1, but got {p}")


@function()
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Elements set to 0 with probability ``p``, the others scaled by ``1 / (1 - p)``.

    Raises ProbabilityError (a ValueError) for a probability outside of [0, 1].
    """
    require_tensor(input, "dropout")
    return _dropped(input, p, training, inplace, tuple(input.shape))


def _dropped(input: Tensor, p: float, training: bool, inplace: bool, shape: Shape) -> Tensor:
    check_probability(p)
    if not training or p == 0:
        return input
    node, dtype = input.node, input.dtype
    zero = constant_of(0, dtype)
    if p == 1:
        kept = mapped(_MUL, (node, zero), dtype, dtype)
        return written(input, give(kept, "Mul", (input,)), inplace)
    if dtype.kind not in "fc" and node.size:
        refuse_cast(get_default_dtype(), dtype)
    scaled = mapped(_MUL, (node, constant_of(1 / (1 - p), dtype.compute)), dtype, dtype)
    result = choose(drop_mask(shape, 1 - p), scaled, zero, dtype)
    return written(input, give(result, "Dropout", (input,)), inplace)


def _channels(shape: Shape, single: bool) -> Shape:
    """The shape of a mask of whole channels; without a batch the first dimension is channels."""
    kept = 1 if single else 2
    return (*shape[:kept], *(1,) * (len(shape) - kept))


@function()
def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """``dropout`` of whole channels of [N, C, L] or [C, L].

    Raises ProbabilityError (a ValueError), and ShapeError for other numbers of dimensions.
    """
    check_probability(p)
    rank = input.ndim
    if rank not in (2, 3):
        raise ShapeError(
            f"dropout1d: Expected 2D or 3D input, but received a {rank}D input. Note that "
            "dropout1d exists to provide channel-wise dropout on inputs with 1 spatial dimension, "
            "a channel dimension, and an optional batch dimension (i.e. 2D or 3D inputs)."
        )
    shape = _channels(tuple(input.shape), rank == 2)
    return _dropped(input, p, training, inplace, shape)


_DEPRECATED = (
    "dropout{rank}d: Received a {given}-D input to dropout{rank}d, which is deprecated and will "
    "result in an error in a future release. To retain the behavior and silence this warning, "
    "please use dropout instead. Note that dropout{rank}d exists to provide channel-wise dropout "
    "on inputs with {rank} spatial dimensions, a channel dimension, and an optional batch "
    "dimension (i.e. {low}D or {high}D inputs)."
)
_AMBIGUOUS = (
    "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout "
    "behavior is desired - input is interpreted as shape (N, C, L), where C is the channel dim. "
    "This behavior will change in a future release to interpret the input as one without a batch "
    "dimension, i.e. shape (C, H, W). To maintain the 1D channel-wise dropout behavior, please "
    "switch to using dropout1d instead."
)


@function()
def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """``dropout`` of whole channels of [N, C, H, W]; three dimensions are read as [N, C, L].

    Warns, as PyTorch does, for other numbers of dimensions. Raises ProbabilityError.
    """
    check_probability(p)
    rank = input.ndim
    if rank not in (3, 4):
        text = _DEPRECATED.format(rank=2, given=rank, low=3, high=4)
        warn(text)
    if rank == 3:
        warn(_AMBIGUOUS)
    return _dropped(input, p, training, inplace, _feature_mask(input))


@function()
def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """``dropout`` of whole channels of [N, C, D, H, W] or [C, D, H, W].

    Warns, as PyTorch does, for other numbers of dimensions. Raises ProbabilityError.
    """
    check_probability(p)
    rank = input.ndim
    if rank not in (4, 5):
        text = _DEPRECATED.format(rank=3, given=rank, low=4, high=5)
        warn(text)
    if rank != 5 and rank:  # PyTorch takes all others for one sample
        return _dropped(input, p, training, inplace, _channels(tuple(input.shape), True))
    return _dropped(input, p, training, inplace, _feature_mask(input))


def feature_dropout(input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    """``dropout`` of whole channels [N, C, *]. Raises ProbabilityError, ShapeError."""
    check_probability(p)
    return _dropped(input, p, training, inplace, _feature_mask(input))


def _feature_mask(input: Tensor) -> Shape:
    if input.ndim < 2:
        raise ShapeError("Feature dropout requires at least 2 dimensions in the input")
    return _channels(tuple(input.shape), False)


# ------------------------------------------------------------------ self-normalising networks

#: Minus the limit of SELU towards minus infinity (Klambauer et al. 2017).
_LIMIT = 1.7580993408473766


def _blended(kept: Expr, x: Expr, scale: Expr, dropped: Expr, shift: Expr) -> Expr:
    return call("add", call("where", kept, call("mul", x, scale), dropped), shift)


def _alpha_dropped(input: Tensor, p: float, training: bool, inplace: bool, shape: Shape) -> Tensor:
    check_probability(p)
    if not training or p == 0:
        return input
    node, dtype = input.node, input.dtype
    if p == 1:
        return _dropped(input, p, training, inplace, shape)
    if dtype.kind not in "fc" and node.size:  # PyTorch multiplies bools as int64
        refuse_cast(get_default_dtype(), int64 if dtype.kind == "b" else dtype)
    scale = 1 / math.sqrt((_LIMIT * _LIMIT * p + 1) * (1 - p))
    numbers = (scale, -_LIMIT * scale, _LIMIT * scale * p)
    constants = (constant_of(v, dtype.compute) for v in numbers)
    nodes = (drop_mask(shape, 1 - p), node, *constants)
    result = mixed(_blended, nodes, dtype)
    return written(input, give(result, "AlphaDropout", (input,)), inplace)


@function()
def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Elements set to the limit of SELU with probability ``p``, then all moved and scaled so that
    mean 0 and variance 1 stay (Klambauer et al. 2017). Raises ProbabilityError."""
    require_tensor(input, "alpha_dropout")
    return _alpha_dropped(input, p, training, inplace, tuple(input.shape))


@function()
def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """``alpha_dropout`` of whole channels [N, C, *]. Raises ProbabilityError, ShapeError."""
    require_tensor(input, "feature_alpha_dropout")
    check_probability(p)
    shape = _feature_mask(input) if training and p else ()
    return _alpha_dropped(input, p, training, inplace, shape)
