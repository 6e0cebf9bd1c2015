"""Pooling layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from lazyt.nn import functional as F
from lazyt.nn.module import Module
from lazyt.tensor import Tensor


def _each(value: Any, rank: int) -> tuple[Any, ...]:
    """One number as one per dimension."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * rank


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
        self.kernel_size = _each(kernel_size, 1)
        self.stride = self.kernel_size if stride is None else _each(stride, 1)
        self.padding = _each(padding, 1)
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


class _AvgPool(Module):
    function: ClassVar[Callable[..., Tensor]]

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
        return type(self).function(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad, self.divisor_override,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """The settings."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(_AvgPool):
    """Means over windows of [N, channels, height, width]."""

    function = F.avg_pool2d


class AvgPool3d(_AvgPool):
    """Means over windows of [N, channels, depth, height, width]."""

    function = F.avg_pool3d


class _LPPool(Module):
    function: ClassVar[Callable[..., Tensor]]

    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type, self.kernel_size = norm_type, kernel_size
        self.stride, self.ceil_mode = stride, ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        """``sum(x ** p) ** (1 / p)`` of every window."""
        return type(self).function(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    """p-norms over windows of [N, channels, length]."""

    function = F.lp_pool1d


class LPPool2d(_LPPool):
    """p-norms over windows of [N, channels, height, width]."""

    function = F.lp_pool2d


class LPPool3d(_LPPool):
    """p-norms over windows of [N, channels, depth, height, width]."""

    function = F.lp_pool3d


class _MaxUnpool(Module):
    rank: ClassVar[int]
    function: ClassVar[Callable[..., Tensor]]

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = _each(kernel_size, self.rank)
        self.stride = _each(kernel_size if stride is None else stride, self.rank)
        self.padding = _each(padding, self.rank)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        """Maxima back where they were, zeros elsewhere. Raises PoolingError (a ValueError)."""
        return type(self).function(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )

    def extra_repr(self) -> str:
        """The settings."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """The partial inverse of ``MaxPool1d``."""

    rank, function = 1, F.max_unpool1d


class MaxUnpool2d(_MaxUnpool):
    """The partial inverse of ``MaxPool2d``."""

    rank, function = 2, F.max_unpool2d


class MaxUnpool3d(_MaxUnpool):
    """The partial inverse of ``MaxPool3d``."""

    rank, function = 3, F.max_unpool3d


class _FractionalMaxPool(Module):
    rank: ClassVar[int]
    function: ClassVar[Callable[..., Any]]

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if output_size is None and output_ratio is None:
            raise ValueError(
                f"{name} requires specifying either an output size, or a pooling ratio"
            )
        self.kernel_size = _each(kernel_size, self.rank)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else _each(output_size, self.rank)
        self.output_ratio = None if output_ratio is None else _each(output_ratio, self.rank)
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        """Maxima over windows at random places; with ``return_indices`` also where they are."""
        return type(self).function(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
            _random_samples=self._random_samples,
        )  # fmt: skip


class FractionalMaxPool2d(_FractionalMaxPool):
    """Maxima over windows at random places of [N, channels, height, width] (Graham 2014)."""

    rank, function = 2, F.fractional_max_pool2d


class FractionalMaxPool3d(_FractionalMaxPool):
    """Maxima over windows at random places of [N, channels, depth, height, width]."""

    rank, function = 3, F.fractional_max_pool3d


class _Adaptive(Module):
    function: ClassVar[Callable[..., Any]]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Any:
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


class AdaptiveAvgPool3d(_Adaptive):
    """Means over a given number of windows of [N, channels, depth, height, width]."""

    function = F.adaptive_avg_pool3d


class _AdaptiveMax(_Adaptive):
    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        """As many windows as ``output_size`` says; with ``return_indices`` also the places."""
        return type(self).function(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMax):
    """Greatest values over a given number of windows of [N, channels, length]."""

    function = F.adaptive_max_pool1d


class AdaptiveMaxPool2d(_AdaptiveMax):
    """Greatest values over a given number of windows of [N, channels, height, width]."""

    function = F.adaptive_max_pool2d


class AdaptiveMaxPool3d(_AdaptiveMax):
    """Greatest values over a given number of windows of [N, channels, depth, height, width]."""

    function = F.adaptive_max_pool3d
