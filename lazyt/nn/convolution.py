"""Convolutions. Weights and biases start as PyTorch's do: uniform over +-1/sqrt(fan_in)."""

from __future__ import annotations

from typing import Any, ClassVar

from lazyt.errors import LazytError, warn
from lazyt.handle.tensor import Tensor
from lazyt.nn import functional as F
from lazyt.nn import init
from lazyt.nn.module import Module
from lazyt.nn.parameter import blank_parameter


class ConvolutionError(LazytError, ValueError):
    """Settings of a convolution that do not fit together."""


def spread(value: Any, rank: int) -> tuple[int, ...]:
    """One number as one per dimension."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * rank


_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """What all convolutions have in common; takes settings with one number per dimension."""

    in_channels: int
    out_channels: int
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: str | tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool
    output_padding: tuple[int, ...]
    groups: int
    padding_mode: str
    #: What to pad, last dimension first, as ``F.pad`` wants it.
    _reversed_padding_repeated_twice: list[int] | tuple[int, ...]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: str | tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if groups <= 0:
            raise ConvolutionError("groups must be a positive integer")
        if in_channels % groups:
            raise ConvolutionError("in_channels must be divisible by groups")
        if out_channels % groups:
            raise ConvolutionError("out_channels must be divisible by groups")
        if isinstance(padding, str):
            _check_named_padding(padding, stride)
        if padding_mode not in _MODES:
            raise ConvolutionError(
                f"padding_mode must be one of {{{str(_MODES)[1:-1]}}}, but got "
                f"padding_mode='{padding_mode}'"
            )
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.stride = kernel_size, stride
        self.padding, self.dilation = padding, dilation
        self.transposed, self.output_padding = transposed, output_padding
        self.groups, self.padding_mode = groups, padding_mode
        self._reversed_padding_repeated_twice = _border(padding, kernel_size, dilation)
        size = (out_channels, in_channels // groups)
        if transposed:
            size = (in_channels, out_channels // groups)
        self.weight = blank_parameter(*size, *kernel_size, dtype=dtype, device=device)
        if bias:
            self.bias = blank_parameter(out_channels, dtype=dtype, device=device)
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        init.default_weight_(self.weight)
        init.fan_bias_(self.bias, self.weight)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The convolution of ``input`` with any weight and bias of the right shapes."""
        raise NotImplementedError

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({"padding_mode": "zeros"} | state)  # files of old have none
        if "_reversed_padding_repeated_twice" not in state:
            border = _border(self.padding, self.kernel_size, self.dilation)
            self._reversed_padding_repeated_twice = border

    def extra_repr(self) -> str:
        """All settings that are not the defaults."""
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        plain = (0,) * len(self.kernel_size)
        if self.padding != plain:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * len(self.kernel_size):
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


def _check_named_padding(padding: str, stride: tuple[int, ...]) -> None:
    if padding not in ("same", "valid"):
        raise ConvolutionError(
            f"Invalid padding string {padding!r}, should be one of {{'valid', 'same'}}"
        )
    if padding == "same" and any(s != 1 for s in stride):
        raise ConvolutionError("padding='same' is not supported for strided convolutions")


def _border(
    padding: str | tuple[int, ...], kernel: tuple[int, ...], dilation: tuple[int, ...]
) -> list[int] | tuple[int, ...]:
    """What to pad, last dimension first, before and behind."""
    if not isinstance(padding, str):
        return tuple(width for width in reversed(padding) for _ in range(2))
    border = []
    for size, step in zip(reversed(kernel), reversed(dilation)):
        total = step * (size - 1) if padding == "same" else 0
        border += [total // 2, total - total // 2]
    return border


class _Forward(_ConvNd):
    """The convolutions that are not transposed, by settings of one number or several."""

    rank: ClassVar[int]

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
        rank = self.rank
        super().__init__(
            in_channels, out_channels, spread(kernel_size, rank), spread(stride, rank),
            padding if isinstance(padding, str) else spread(padding, rank), spread(dilation, rank),
            False, (0,) * rank, groups, bias, padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, input: Tensor) -> Tensor:
        """[N, in_channels, *] to [N, out_channels, *], or without N. Raises ShapeError."""
        return self._conv_forward(input, self.weight, self.bias)

    def _padded(self, input: Tensor) -> tuple[Tensor, Any]:
        """The input, and what the convolution itself has to pad with zeros."""
        if self.padding_mode == "zeros":
            return input, self.padding
        return F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode), 0


class Conv1d(_Forward):
    """Convolution over [N, channels, length]."""

    rank = 1

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        input, padding = self._padded(input)
        return F.conv1d(input, weight, bias, self.stride, padding, self.dilation, self.groups)


class Conv2d(_Forward):
    """Convolution over [N, channels, height, width]."""

    rank = 2

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        input, padding = self._padded(input)
        return F.conv2d(input, weight, bias, self.stride, padding, self.dilation, self.groups)


class Conv3d(_Forward):
    """Convolution over [N, channels, depth, height, width]."""

    rank = 3

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        input, padding = self._padded(input)
        return F.conv3d(input, weight, bias, self.stride, padding, self.dilation, self.groups)


class _ConvTransposeNd(_ConvNd):
    """What transposed convolutions have in common; settings as those of ``_ConvNd``."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            name = type(self).__name__
            raise ConvolutionError(f'Only "zeros" padding mode is supported for {name}')
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, transposed,
            output_padding, groups, bias, padding_mode, device, dtype,
        )  # fmt: skip

    def _output_padding(
        self,
        input: Tensor,
        output_size: Any,
        stride: Any,
        padding: Any,
        kernel_size: Any,
        num_spatial_dims: int,
        dilation: Any = None,
    ) -> Any:
        """What to add to the least size for ``output_size``. Raises ConvolutionError."""
        if output_size is None:
            return self.output_padding
        rank = num_spatial_dims
        first = 2 if input.ndim == rank + 2 else 1
        wanted = tuple(output_size)
        if len(wanted) == first + rank:
            wanted = wanted[first:]
        if len(wanted) != rank:
            raise ConvolutionError(
                f"ConvTranspose{rank}D: for {input.ndim}D input, output_size must have {rank} or "
                f"{first + rank} elements (got {len(wanted)})"
            )
        least = []
        for axis in range(rank):
            size = (input.shape[first + axis] - 1) * stride[axis] - 2 * padding[axis]
            step = dilation[axis] if dilation is not None else 1
            least.append(size + step * (kernel_size[axis] - 1) + 1)
        most = [low + step - 1 for low, step in zip(least, stride)]
        if any(not low <= size <= high for low, size, high in zip(least, wanted, most)):
            raise ConvolutionError(
                f"requested an output size of {list(wanted)}, but valid sizes range from {least} "
                f"to {most} (for an input of {input.shape[2:]})"
            )
        return [size - low for size, low in zip(wanted, least)]


class _Transposed(_ConvTransposeNd):
    """The transposed convolutions, by settings of one number or several."""

    rank: ClassVar[int]

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
        rank = self.rank
        super().__init__(
            in_channels, out_channels, spread(kernel_size, rank), spread(stride, rank),
            spread(padding, rank), spread(dilation, rank), True, spread(output_padding, rank),
            groups, bias, padding_mode, device, dtype,
        )  # fmt: skip

    def _extra(self, input: Tensor, output_size: Any) -> Any:
        if self.padding_mode != "zeros":
            raise ConvolutionError(
                f"Only `zeros` padding mode is supported for {type(self).__name__}"
            )
        return self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, self.rank,
            self.dilation,
        )  # fmt: skip


class ConvTranspose1d(_Transposed):
    """Transposed convolution over [N, channels, length]."""

    rank = 1

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        """[N, in_channels, *] to [N, out_channels, *].

        Args:
            output_size: the size wanted of several possible ones, instead of ``output_padding``.

        Raises ShapeError, and ConvolutionError for an impossible ``output_size``.
        """
        extra = self._extra(input, output_size)
        return F.conv_transpose1d(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
            self.dilation,
        )  # fmt: skip


class ConvTranspose2d(_Transposed):
    """Transposed convolution over [N, channels, height, width]."""

    rank = 2

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        """[N, in_channels, *] to [N, out_channels, *].

        Args:
            output_size: the size wanted of several possible ones, instead of ``output_padding``.

        Raises ShapeError, and ConvolutionError for an impossible ``output_size``.
        """
        extra = self._extra(input, output_size)
        return F.conv_transpose2d(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
            self.dilation,
        )  # fmt: skip


class ConvTranspose3d(_Transposed):
    """Transposed convolution over [N, channels, depth, height, width]."""

    rank = 3

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        """[N, in_channels, *] to [N, out_channels, *].

        Args:
            output_size: the size wanted of several possible ones, instead of ``output_padding``.

        Raises ShapeError, and ConvolutionError for an impossible ``output_size``.
        """
        extra = self._extra(input, output_size)
        return F.conv_transpose3d(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
            self.dilation,
        )  # fmt: skip


class _ConvTransposeMixin(_ConvTransposeNd):
    """``_ConvTransposeNd`` by the name it had once."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warn(
            "_ConvTransposeMixin is a deprecated internal class. Please consider using public "
            "APIs.",
            FutureWarning,
        )
        super().__init__(*args, **kwargs)
