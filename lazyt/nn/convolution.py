"""Convolutions. Weights and biases start as PyTorch's do: uniform over +-1/sqrt(fan_in)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from lazyt.errors import LazytError
from lazyt.nn import functional as F
from lazyt.nn import init
from lazyt.nn.module import Module
from lazyt.nn.parameter import blank_parameter
from lazyt.tensor import Tensor


class ConvolutionError(LazytError, ValueError):
    """Settings of a convolution that do not fit together."""


def spread(value: Any, rank: int) -> tuple[int, ...]:
    """One number as one per dimension."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * rank


class _ConvNd(Module):
    rank: ClassVar[int]
    transposed: ClassVar[bool] = False
    function: ClassVar[Callable[..., Tensor]]

    def __init__(
        self,
        in_channels: int,
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
        super().__init__()
        self._check(in_channels, out_channels, groups, padding_mode)
        if isinstance(padding, str):
            self._check_named_padding(padding, spread(stride, self.rank))
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size = spread(kernel_size, self.rank)
        self.stride = spread(stride, self.rank)
        self.padding = padding if isinstance(padding, str) else spread(padding, self.rank)
        self.dilation = spread(dilation, self.rank)
        self.output_padding = (0,) * self.rank
        self.groups, self.padding_mode = groups, padding_mode
        size = (out_channels, in_channels // groups)
        if self.transposed:
            size = (in_channels, out_channels // groups)
        self.weight = blank_parameter(*size, *self.kernel_size, dtype=dtype, device=device)
        if bias:
            self.bias = blank_parameter(out_channels, dtype=dtype, device=device)
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _check(self, inputs: int, outputs: int, groups: int, mode: str) -> None:
        if groups <= 0:
            raise ConvolutionError("groups must be a positive integer")
        if inputs % groups:
            raise ConvolutionError("in_channels must be divisible by groups")
        if outputs % groups:
            raise ConvolutionError("out_channels must be divisible by groups")
        if self.transposed and mode != "zeros":
            name = type(self).__name__
            raise ConvolutionError(f'Only "zeros" padding mode is supported for {name}')
        if mode not in ("zeros", "reflect", "replicate", "circular"):
            raise ConvolutionError(
                "padding_mode must be one of {'zeros', 'reflect', 'replicate', 'circular'}, but "
                f"got padding_mode='{mode}'"
            )

    def _check_named_padding(self, padding: str, stride: tuple[int, ...]) -> None:
        if padding not in ("same", "valid"):
            raise ConvolutionError(
                f"Invalid padding string {padding!r}, should be one of {{'valid', 'same'}}"
            )
        if padding == "same" and any(s != 1 for s in stride):
            raise ConvolutionError("padding='same' is not supported for strided convolutions")

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        init.default_weight_(self.weight)
        init.fan_bias_(self.bias, self.weight)

    def forward(self, input: Tensor) -> Tensor:
        """[N, in_channels, *] to [N, out_channels, *], or without N. Raises ShapeError."""
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._border(), mode=self.padding_mode)
            padding = 0
        return type(self).function(
            input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )

    def _border(self) -> list[int]:
        """What to pad, last dimension first, as ``F.pad`` wants it."""
        border = []
        for axis in reversed(range(self.rank)):
            if self.padding == "same":
                total = self.dilation[axis] * (self.kernel_size[axis] - 1)
                border += [total // 2, total - total // 2]
            elif self.padding == "valid":
                border += [0, 0]
            else:
                border += [int(self.padding[axis])] * 2
        return border

    def extra_repr(self) -> str:
        """All settings that are not the defaults."""
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        plain = (0,) * self.rank
        if self.padding != plain:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * self.rank:
            text += f", dilation={self.dilation}"
        if self.output_padding != plain:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


class Conv1d(_ConvNd):
    """Convolution over [N, channels, length]."""

    rank = 1
    function = F.conv1d


class Conv2d(_ConvNd):
    """Convolution over [N, channels, height, width]."""

    rank = 2
    function = F.conv2d


class Conv3d(_ConvNd):
    """Convolution over [N, channels, depth, height, width]."""

    rank = 3
    function = F.conv3d


class _ConvTransposeNd(_ConvNd):
    transposed = True

    def __init__(
        self,
        in_channels: int,
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
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip
        self.output_padding = spread(output_padding, self.rank)

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        """[N, in_channels, *] to [N, out_channels, *].

        Args:
            output_size: the size wanted of several possible ones, instead of ``output_padding``.

        Raises ShapeError, and ConvolutionError for an impossible ``output_size``.
        """
        extra = self.output_padding
        if output_size is not None:
            extra = self._extra_for(input, tuple(output_size)[-self.rank :])
        return type(self).function(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
            self.dilation,
        )  # fmt: skip

    def _extra_for(self, input: Tensor, wanted: tuple[int, ...]) -> tuple[int, ...]:
        extra = []
        for axis, size in enumerate(wanted):
            before = input.shape[axis - self.rank]
            least = (before - 1) * self.stride[axis] - 2 * int(self.padding[axis])
            least += self.dilation[axis] * (self.kernel_size[axis] - 1) + 1
            if not least <= size < least + self.stride[axis]:
                raise ConvolutionError(
                    f"requested an output size of {list(wanted)}, but dimension {axis} is from "
                    f"{least} to {least + self.stride[axis] - 1} for an input of {input.shape}"
                )
            extra.append(size - least)
        return tuple(extra)


class ConvTranspose1d(_ConvTransposeNd):
    """Transposed convolution over [N, channels, length]."""

    rank = 1
    function = F.conv_transpose1d


class ConvTranspose2d(_ConvTransposeNd):
    """Transposed convolution over [N, channels, height, width]."""

    rank = 2
    function = F.conv_transpose2d


class ConvTranspose3d(_ConvTransposeNd):
    """Transposed convolution over [N, channels, depth, height, width]."""

    rank = 3
    function = F.conv_transpose3d
