"""What distributions do with their parameters: broadcasting, probabilities and logits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Number
from typing import Any

from lazyt.errors import ArgumentError
from lazyt.functional import namespace as lazyt
from lazyt.functional.namespace import Tensor

__all__ = ["broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits"]


class lazy_property:
    """A property that is computed when first read, with gradients, and kept."""

    def __init__(self, wrapped: Callable[[Any], Tensor]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with lazyt.enable_grad():
            value = self.wrapped(instance)
        instance.__dict__[self.wrapped.__name__] = value
        return value


def broadcast_all(*values: Any) -> Any:
    """Tensors of one shape of tensors and numbers; numbers take the dtype of the first tensor.

    Raises ArgumentError for anything else, ShapeError for shapes that do not fit.
    """
    if not all(isinstance(v, (Tensor, Number)) for v in values):
        raise ArgumentError(
            "Input arguments must all be instances of Number, torch.Tensor or objects "
            "implementing __torch_function__."
        )
    kinds = [v.dtype for v in values if isinstance(v, Tensor)]
    dtype = kinds[0] if kinds else lazyt.get_default_dtype()
    tensors = [v if isinstance(v, Tensor) else lazyt.tensor(v, dtype=dtype) for v in values]
    return lazyt.broadcast_tensors(*tensors)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities kept the dtype's epsilon away from 0 and 1, so that logarithms are finite."""
    eps = lazyt.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of log odds, or along the last dimension of unnormalised logarithms."""
    return lazyt.sigmoid(logits) if is_binary else lazyt.softmax(logits, -1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """The inverse of ``logits_to_probs`` for probabilities that are kept away from 0 and 1."""
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


def one_given(probs: Any, logits: Any) -> bool:
    """Whether ``probs`` is given and not ``logits``. Raises ArgumentError unless one is."""
    if (probs is None) == (logits is None):
        raise ArgumentError("Either `probs` or `logits` must be specified, but not both.")
    return probs is not None


def standard_normal(shape: Sequence[int], like: Tensor) -> Tensor:
    """Normal numbers of a shape in a tensor's dtype."""
    return lazyt.randn(tuple(shape), dtype=like.dtype, device=like.device)


def open_uniform(shape: Sequence[int], like: Tensor) -> Tensor:
    """Uniform numbers in (0, 1), whose logarithm and that of 1 less them are finite."""
    eps = lazyt.finfo(like.dtype).eps
    drawn = lazyt.rand(tuple(shape), dtype=like.dtype, device=like.device)
    return drawn.clamp(eps / 4, 1 - eps)


def sum_rightmost(value: Tensor, count: int) -> Tensor:
    """The sum over the last ``count`` dimensions."""
    return value if count == 0 else value.flatten(-count).sum(-1)
