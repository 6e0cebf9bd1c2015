"""Pooling layers."""

from __future__ import annotations

from typing import Any, ClassVar

from lazyt.handle.tensor import Tensor
from lazyt.nn import functional as F
from lazyt.nn.module import Module


def _each(value: Any, rank: int) -> tuple[Any, ...]:
    """One number as one per dimension."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * rank


class _MaxPoolNd(Module):
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

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    """Greatest values over windows of [N, channels, length]."""

    def forward(self, input: Tensor) -> Any:
        """The greatest value of every window; with ``return_indices`` also where it is."""
        return F.max_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.dilation,
            ceil_mode=self.ceil_mode, return_indices=self.return_indices,
        )  # fmt: skip


class MaxPool2d(_MaxPoolNd):
    """Greatest values over windows of [N, channels, height, width]."""

    def forward(self, input: Tensor) -> Any:
        """The greatest value of every window; with ``return_indices`` also where it is."""
        return F.max_pool2d(
            input, self.kernel_size, self.stride, self.padding, self.dilation,
            ceil_mode=self.ceil_mode, return_indices=self.return_indices,
        )  # fmt: skip


class MaxPool3d(_MaxPoolNd):
    """Greatest values over windows of [N, channels, depth, height, width]."""

    def forward(self, input: Tensor) -> Any:
        """The greatest value of every window; with ``return_indices`` also where it is."""
        return F.max_pool3d(
            input, self.kernel_size, self.stride, self.padding, self.dilation,
            ceil_mode=self.ceil_mode, return_indices=self.return_indices,
        )  # fmt: skip


class _AvgPoolNd(Module):
    def extra_repr(self) -> str:
        """The settings."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
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


class _AvgPoolOfImages(_AvgPoolNd):
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


class AvgPool2d(_AvgPoolOfImages):
    """Means over windows of [N, channels, height, width]."""

    def forward(self, input: Tensor) -> Tensor:
        """The mean of every window."""
        return F.avg_pool2d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad, self.divisor_override,
        )  # fmt: skip


class AvgPool3d(_AvgPoolOfImages):
    """Means over windows of [N, channels, depth, height, width]."""

    def forward(self, input: Tensor) -> Tensor:
        """The mean of every window."""
        return F.avg_pool3d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad, self.divisor_override,
        )  # fmt: skip


class _LPPoolNd(Module):
    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type, self.kernel_size = norm_type, kernel_size
        self.stride, self.ceil_mode = stride, ceil_mode

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPoolNd):
    """p-norms over windows of [N, channels, length]."""

    def forward(self, input: Tensor) -> Tensor:
        """``sum(x ** p) ** (1 / p)`` of every window."""
        return F.lp_pool1d(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


class LPPool2d(_LPPoolNd):
    """p-norms over windows of [N, channels, height, width]."""

    def forward(self, input: Tensor) -> Tensor:
        """``sum(x ** p) ** (1 / p)`` of every window."""
        return F.lp_pool2d(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


class LPPool3d(_LPPoolNd):
    """p-norms over windows of [N, channels, depth, height, width]."""

    def forward(self, input: Tensor) -> Tensor:
        """``sum(x ** p) ** (1 / p)`` of every window."""
        return F.lp_pool3d(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


class _MaxUnpoolNd(Module):
    def extra_repr(self) -> str:
        """The settings."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _MaxUnpool(_MaxUnpoolNd):
    rank: ClassVar[int]

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = _each(kernel_size, self.rank)
        self.stride = _each(kernel_size if stride is None else stride, self.rank)
        self.padding = _each(padding, self.rank)


class MaxUnpool1d(_MaxUnpool):
    """The partial inverse of ``MaxPool1d``."""

    rank = 1

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        """Maxima back where they were, zeros elsewhere. Raises PoolingError (a ValueError)."""
        return F.max_unpool1d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class MaxUnpool2d(_MaxUnpool):
    """The partial inverse of ``MaxPool2d``."""

    rank = 2

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        """Maxima back where they were, zeros elsewhere. Raises PoolingError (a ValueError)."""
        return F.max_unpool2d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class MaxUnpool3d(_MaxUnpool):
    """The partial inverse of ``MaxPool3d``."""

    rank = 3

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        """Maxima back where they were, zeros elsewhere. Raises PoolingError (a ValueError)."""
        return F.max_unpool3d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class _FractionalMaxPool(Module):
    rank: ClassVar[int]

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


class FractionalMaxPool2d(_FractionalMaxPool):
    """Maxima over windows at random places of [N, channels, height, width] (Graham 2014)."""

    rank = 2

    def forward(self, input: Tensor) -> Any:
        """Maxima over windows at random places; with ``return_indices`` also where they are."""
        return F.fractional_max_pool2d(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
            _random_samples=self._random_samples,
        )  # fmt: skip


class FractionalMaxPool3d(_FractionalMaxPool):
    """Maxima over windows at random places of [N, channels, depth, height, width]."""

    rank = 3

    def forward(self, input: Tensor) -> Any:
        """Maxima over windows at random places; with ``return_indices`` also where they are."""
        return F.fractional_max_pool3d(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
            _random_samples=self._random_samples,
        )  # fmt: skip


class _AdaptivePool(Module):
    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        """The size of the output."""
        return f"output_size={self.output_size}"


class _AdaptiveAvgPoolNd(_AdaptivePool):
    pass


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Means over a given number of windows of [N, channels, length]."""

    def forward(self, input: Tensor) -> Any:
        """As many windows as ``output_size`` says; None keeps a dimension."""
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Means over a given number of windows of [N, channels, height, width]."""

    def forward(self, input: Tensor) -> Any:
        """As many windows as ``output_size`` says; None keeps a dimension."""
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Means over a given number of windows of [N, channels, depth, height, width]."""

    def forward(self, input: Tensor) -> Any:
        """As many windows as ``output_size`` says; None keeps a dimension."""
        return F.adaptive_avg_pool3d(input, self.output_size)


class _AdaptiveMaxPoolNd(_AdaptivePool):
    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Greatest values over a given number of windows of [N, channels, length]."""

    def forward(self, input: Tensor) -> Any:
        """As many windows as ``output_size`` says; with ``return_indices`` also the places."""
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Greatest values over a given number of windows of [N, channels, height, width]."""

    def forward(self, input: Tensor) -> Any:
        """As many windows as ``output_size`` says; with ``return_indices`` also the places."""
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Greatest values over a given number of windows of [N, channels, depth, height, width]."""

    def forward(self, input: Tensor) -> Any:
        """As many windows as ``output_size`` says; with ``return_indices`` also the places."""
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)
