"""A linear layer and the cross entropy of its results, as one module."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal

import lazyt
from lazyt.errors import LazytError
from lazyt.nn import functional as F
from lazyt.nn.linear import Linear
from lazyt.nn.loss import _WeightedLoss
from lazyt.tensor import Tensor


class OptionError(LazytError, ValueError):
    """An option that PyTorch does not know."""


@dataclasses.dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """How PyTorch cuts the product in pieces. Nothing is cut here: fusion keeps the logits from
    being stored more than once. Raises OptionError (a ValueError) for what PyTorch refuses."""

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: Literal["accurate", "balanced", "compact", "auto"] = "auto"
    acc_dtype: lazyt.dtype | None = None

    def __post_init__(self) -> None:
        if self.acc_policy not in ("auto", "accurate", "balanced", "compact"):
            raise OptionError(f"invalid acc_policy: {self.acc_policy!r}")
        name, colon, factor = (self.chunking_method or "auto").partition(":")
        number = int(factor) if factor.isdigit() else 0
        if (name, colon) != ("auto", "") and (name != "aspect_ratio" or (colon and number < 1)):
            raise OptionError(f"invalid chunking_method: {self.chunking_method!r}")
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise OptionError(f"batch_chunk_size must be positive int or None, got {size!r}")
        if self.acc_dtype is not None and self.acc_dtype.kind != "f":
            raise OptionError(
                "acc_dtype must be one of {None, lazyt.float16, lazyt.bfloat16, lazyt.float32, "
                f"lazyt.float64}}, got {self.acc_dtype!r}. Pass acc_dtype=None to let the op pick "
                "automatically."
            )


class LinearCrossEntropyLoss(_WeightedLoss):
    """The cross entropy of a linear layer's results. Its weight is ``linear.weight``
    [num_classes * prod(out_features), in_features].

    Args:
        in_features: length of an input.
        num_classes: number of classes.
        out_features: further dimensions, with a loss each.
        bias: whether the layer has one.
        weight: [num_classes], a factor for each class.
        ignore_index: a target that does not count, -100 unless given.
        label_smoothing: the share of all classes in every target.
        options: changes nothing; see LinearCrossEntropyOptions.

    Raises LazytError for a ``weight`` of another size and smoothing outside of [0, 1].
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise LazytError(
                f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}"
            )
        if not 0 <= label_smoothing <= 1:
            raise LazytError(
                f"expected label_smoothing to be in range [0, 1], got {label_smoothing}"
            )
        super().__init__(weight, reduction=reduction)
        self.num_classes, self.out_features = num_classes, out_features
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing
        rows = math.prod(out_features, start=num_classes)
        self.linear = Linear(in_features, rows, bias=bias, device=device, dtype=dtype)
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """[N, in_features] or [in_features] and targets [N, *out_features] (classes) or
        [N, num_classes, *out_features] (probabilities). Raises as ``linear_cross_entropy``."""
        linear, sizes = self.linear, (self.num_classes, *self.out_features)
        return F.linear_cross_entropy(
            input,
            linear.weight.reshape(*sizes, linear.in_features),
            target,
            linear_bias=None if linear.bias is None else linear.bias.reshape(sizes),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, "
            f"reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )
