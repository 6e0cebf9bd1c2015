"""Pooling and padding layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from lazyt.nn import functional as F
from lazyt.nn.module import Module
from lazyt.tensor import Tensor


class _MaxPool(Module):
    function: ClassVar[Callable[..., Any]]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: Tensor) -> Any:
        """The greatest value of every window; with ``return_indices`` also where it is."""
        return type(self).function(
            input, self.kernel_size, self.stride, self.padding, self.dilation,
            ceil_mode=self.ceil_mode, return_indices=self.return_indices,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """Greatest values over windows of [N, channels, length]."""

    function = F.max_pool1d


class MaxPool2d(_MaxPool):
    """Greatest values over windows of [N, channels, height, width]."""

    function = F.max_pool2d


class MaxPool3d(_MaxPool):
    """Greatest values over windows of [N, channels, depth, height, width]."""

    function = F.max_pool3d


class AvgPool1d(Module):
    """Means over windows of [N, channels, length]."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = _single(kernel_size)
        self.stride = self.kernel_size if stride is None else _single(stride)
        self.padding = _single(padding)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        """The mean of every window."""
        return F.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """The settings."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


def _single(value: Any) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


class AvgPool2d(Module):
    """Means over windows of [N, channels, height, width]."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """The mean of every window."""
        return F.avg_pool2d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad, self.divisor_override,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """The settings."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _Adaptive(Module):
    function: ClassVar[Callable[..., Tensor]]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        """As many windows as ``output_size`` says; None keeps a dimension."""
        return type(self).function(input, self.output_size)

    def extra_repr(self) -> str:
        """The size of the output."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_Adaptive):
    """Means over a given number of windows of [N, channels, length]."""

    function = F.adaptive_avg_pool1d


class AdaptiveAvgPool2d(_Adaptive):
    """Means over a given number of windows of [N, channels, height, width]."""

    function = F.adaptive_avg_pool2d


class AdaptiveMaxPool2d(_Adaptive):
    """Greatest values over a given number of windows of [N, channels, height, width]."""

    function = F.adaptive_max_pool2d


class _Pad(Module):
    rank: ClassVar[int]
    mode: ClassVar[str]
    value = 0.0

    def __init__(self, padding: Any) -> None:
        super().__init__()
        count = 2 * self.rank
        self.padding = (padding,) * count if isinstance(padding, int) else tuple(padding)

    def forward(self, input: Tensor) -> Tensor:
        """``input`` with a border."""
        value = self.value if self.mode == "constant" else None
        return F.pad(input, self.padding, mode=self.mode, value=value)

    def extra_repr(self) -> str:
        """The width of the border: left, right, top, bottom."""
        return f"{self.padding}"


class ZeroPad2d(_Pad):
    """A border of zeros around the last two dimensions."""

    rank, mode = 2, "constant"


class ReflectionPad2d(_Pad):
    """A border that mirrors the last two dimensions."""

    rank, mode = 2, "reflect"


class ReplicationPad2d(_Pad):
    """A border that repeats the edge of the last two dimensions."""

    rank, mode = 2, "replicate"


class _ConstantPad(_Pad):
    mode = "constant"

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        """The width of the border and its value."""
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """A border of one value around the last dimension."""

    rank = 1


class ConstantPad2d(_ConstantPad):
    """A border of one value around the last two dimensions."""

    rank = 2
