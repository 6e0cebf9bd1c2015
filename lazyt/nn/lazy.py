"""Layers that find the number of their inputs out at the first forward pass."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import lazyt
from lazyt.errors import LazytError
from lazyt.nn import convolution, normalization
from lazyt.nn.linear import Linear
from lazyt.nn.module import Module
from lazyt.nn.parameter import UninitializedBuffer, UninitializedParameter, is_uninitialized
from lazyt.tensor import Tensor


class LazyModuleMixin(Module):
    """A module with uninitialized parameters, which become real ones of the sizes that the first
    input asks for; then the module becomes ``cls_to_become``."""

    cls_to_become: ClassVar[type[Module]]

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer waits for its size."""
        return any(
            is_uninitialized(value)
            for table in (self._parameters, self._buffers)
            for value in table.values()
        )

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give every parameter its size by the first input, and its first values."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def reset_parameters(self) -> None:
        """Draw the parameters anew, where they have sizes."""
        if not self.has_uninitialized_params():
            super().reset_parameters()  # type: ignore[misc]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.initialize_parameters(*args, **kwargs)
        if self.has_uninitialized_params():
            raise LazytError(
                f"module {self._get_name()} has not been fully initialized by initialize_parameters"
            )
        self.__class__ = self.cls_to_become  # type: ignore[assignment]
        return self(*args, **kwargs)


class LazyLinear(LazyModuleMixin, Linear):
    """``Linear`` for as many features as the first input has."""

    cls_to_become = Linear

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        Module.__init__(self)
        self.in_features, self.out_features = 0, out_features
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)
        else:
            self.register_parameter("bias", None)

    def initialize_parameters(self, input: Tensor) -> None:
        """Weight and bias for the last dimension of ``input``."""
        if not self.has_uninitialized_params():
            self.in_features = self.weight.shape[1]
            return
        self.in_features = input.shape[-1]
        cast(Any, self.weight).materialize((self.out_features, self.in_features))
        if self.bias is not None:
            cast(Any, self.bias).materialize((self.out_features,))
        self.reset_parameters()


class _LazyConvolution(LazyModuleMixin, convolution._ConvNd):
    def _wait(self, device: Any, dtype: Any) -> None:
        """Parameters without sizes instead of those for no channels."""
        has_bias = self.bias is not None
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if has_bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, where they have sizes."""
        if not self.has_uninitialized_params() and self.in_channels:
            convolution._ConvNd.reset_parameters(self)

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Weight and bias for the channels of ``input``. Raises ConvolutionError."""
        if not self.has_uninitialized_params():
            sizes = self.weight.shape
            self.in_channels = sizes[0] if self.transposed else sizes[1] * self.groups
            return
        if input.ndim not in (self.rank + 1, self.rank + 2):
            raise LazytError(
                f"Expected {self.rank + 1}D (unbatched) or {self.rank + 2}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {input.shape}"
            )
        self.in_channels = input.shape[-self.rank - 1]
        if self.in_channels % self.groups:
            raise convolution.ConvolutionError("in_channels must be divisible by groups")
        size = (self.out_channels, self.in_channels // self.groups)
        if self.transposed:
            size = (self.in_channels, self.out_channels // self.groups)
        cast(Any, self.weight).materialize((*size, *self.kernel_size))
        if self.bias is not None:
            cast(Any, self.bias).materialize((self.out_channels,))
        self.reset_parameters()


class _LazyForward(_LazyConvolution):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode
        )
        self._wait(device, dtype)


class LazyConv1d(_LazyForward, convolution.Conv1d):
    """``Conv1d`` for as many channels as the first input has."""

    cls_to_become = convolution.Conv1d


class LazyConv2d(_LazyForward, convolution.Conv2d):
    """``Conv2d`` for as many channels as the first input has."""

    cls_to_become = convolution.Conv2d


class LazyConv3d(_LazyForward, convolution.Conv3d):
    """``Conv3d`` for as many channels as the first input has."""

    cls_to_become = convolution.Conv3d


class _LazyTransposed(_LazyConvolution):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        convolution._ConvTransposeNd.__init__(
            self, 0, out_channels, kernel_size, stride, padding, output_padding, groups, bias,  # type: ignore[arg-type]
            dilation, padding_mode,
        )  # fmt: skip
        self._wait(device, dtype)


class LazyConvTranspose1d(_LazyTransposed, convolution.ConvTranspose1d):
    """``ConvTranspose1d`` for as many channels as the first input has."""

    cls_to_become = convolution.ConvTranspose1d


class LazyConvTranspose2d(_LazyTransposed, convolution.ConvTranspose2d):
    """``ConvTranspose2d`` for as many channels as the first input has."""

    cls_to_become = convolution.ConvTranspose2d


class LazyConvTranspose3d(_LazyTransposed, convolution.ConvTranspose3d):
    """``ConvTranspose3d`` for as many channels as the first input has."""

    cls_to_become = convolution.ConvTranspose3d


class _LazyNorm(LazyModuleMixin, normalization._BatchNorm):
    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        # Without affine and statistics at first: they would be parameters and buffers of size 0.
        normalization._BatchNorm.__init__(self, 0, eps, momentum, False, False)
        self.affine, self.track_running_stats = affine, track_running_stats
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        if affine:
            self.weight = UninitializedParameter(**made)
            if bias:
                self.bias = UninitializedParameter(**made)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**made)
            self.running_var = UninitializedBuffer(**made)
            self.num_batches_tracked = lazyt.tensor(0, dtype=lazyt.int64, device=device)

    def reset_parameters(self) -> None:
        """Weight 1, bias 0 and the statistics from the start, where they have sizes."""
        if not self.has_uninitialized_params() and self.num_features:
            normalization._BatchNorm.reset_parameters(self)

    def initialize_parameters(self, input: Tensor) -> None:
        """Parameters and statistics for the channels of ``input``."""
        self._check(input)
        single = isinstance(self, normalization._InstanceNorm) and input.ndim == min(self.ranks)
        waiting = self.has_uninitialized_params()
        self.num_features = input.shape[0 if single else 1]
        if not waiting:
            return
        for value in (self.weight, self.bias, self.running_mean, self.running_var):
            if value is not None:
                value.materialize((self.num_features,))
        self.reset_parameters()


class LazyBatchNorm1d(_LazyNorm, normalization.BatchNorm1d):
    """``BatchNorm1d`` for as many channels as the first input has."""

    cls_to_become = normalization.BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, normalization.BatchNorm2d):
    """``BatchNorm2d`` for as many channels as the first input has."""

    cls_to_become = normalization.BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, normalization.BatchNorm3d):
    """``BatchNorm3d`` for as many channels as the first input has."""

    cls_to_become = normalization.BatchNorm3d


class LazyInstanceNorm1d(_LazyNorm, normalization.InstanceNorm1d):
    """``InstanceNorm1d`` for as many channels as the first input has."""

    cls_to_become = normalization.InstanceNorm1d


class LazyInstanceNorm2d(_LazyNorm, normalization.InstanceNorm2d):
    """``InstanceNorm2d`` for as many channels as the first input has."""

    cls_to_become = normalization.InstanceNorm2d


class LazyInstanceNorm3d(_LazyNorm, normalization.InstanceNorm3d):
    """``InstanceNorm3d`` for as many channels as the first input has."""

    cls_to_become = normalization.InstanceNorm3d
