"""Layers that give images borders, rearrange or resize them: shuffles, columns, interpolation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from lazyt.handle.tensor import Tensor
from lazyt.nn import functional as F
from lazyt.nn.module import Module

# Borders around the last dimensions.


class _Pad(Module):
    """``padding`` is (left, right, top, bottom, front, back), or one number for all sides."""

    rank: ClassVar[int]
    padding: tuple[int, ...]

    def _set_padding(self, padding: Any) -> None:
        count = 2 * self.rank
        many = isinstance(padding, Iterable) and not isinstance(padding, Tensor)
        self.padding = tuple(padding) if many else (padding,) * count

    def extra_repr(self) -> str:
        """The width of the border."""
        return f"{self.padding}"


class _Sized(_Pad):
    """Stands before the base classes that say how to pad, which take no arguments."""

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self._set_padding(padding)


class _ConstantPadNd(_Pad):
    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """``input`` with a border of ``value``. Raises ShapeError."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """The width of the border and its value."""
        return f"padding={self.padding}, value={self.value}"


class _SizedConstant(_ConstantPadNd):
    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(value)
        self._set_padding(padding)


class ConstantPad1d(_SizedConstant):
    """A border of one value around the last dimension."""

    rank = 1


class ConstantPad2d(_SizedConstant):
    """A border of one value around the last two dimensions."""

    rank = 2


class ConstantPad3d(_SizedConstant):
    """A border of one value around the last three dimensions."""

    rank = 3


class _ZeroPad(_ConstantPadNd):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)  # type: ignore[call-arg]  # of ConstantPad1d and so on

    def extra_repr(self) -> str:
        """The width of the border."""
        return f"{self.padding}"


class ZeroPad1d(_ZeroPad, ConstantPad1d):
    """A border of zeros around the last dimension."""


class ZeroPad2d(_ZeroPad, ConstantPad2d):
    """A border of zeros around the last two dimensions."""


class ZeroPad3d(_ZeroPad, ConstantPad3d):
    """A border of zeros around the last three dimensions."""


class _ReflectionPadNd(_Pad):
    def forward(self, input: Tensor) -> Tensor:
        """``input`` with a border. Raises ShapeError."""
        return F.pad(input, self.padding, "reflect")


class ReflectionPad1d(_Sized, _ReflectionPadNd):
    """A border that mirrors the last dimension."""

    rank = 1


class ReflectionPad2d(_Sized, _ReflectionPadNd):
    """A border that mirrors the last two dimensions."""

    rank = 2


class ReflectionPad3d(_Sized, _ReflectionPadNd):
    """A border that mirrors the last three dimensions."""

    rank = 3


class _ReplicationPadNd(_Pad):
    def forward(self, input: Tensor) -> Tensor:
        """``input`` with a border. Raises ShapeError."""
        return F.pad(input, self.padding, "replicate")


class ReplicationPad1d(_Sized, _ReplicationPadNd):
    """A border that repeats the edge of the last dimension."""

    rank = 1


class ReplicationPad2d(_Sized, _ReplicationPadNd):
    """A border that repeats the edge of the last two dimensions."""

    rank = 2


class ReplicationPad3d(_Sized, _ReplicationPadNd):
    """A border that repeats the edge of the last three dimensions."""

    rank = 3


class _CircularPadNd(_Pad):
    def _check_input_dim(self, input: Tensor) -> None:
        low, high = self.rank + 1, self.rank + 2
        if input.ndim not in (low, high):
            raise ValueError(f"expected {low}D or {high}D input (got {input.ndim}D input)")

    def forward(self, input: Tensor) -> Tensor:
        """``input`` wrapped around. Raises ValueError for other numbers of dimensions."""
        self._check_input_dim(input)
        return F.pad(input, self.padding, "circular")


class CircularPad1d(_Sized, _CircularPadNd):
    """A border that continues at the other end of the last dimension."""

    rank = 1


class CircularPad2d(_Sized, _CircularPadNd):
    """A border that continues at the other ends of the last two dimensions."""

    rank = 2


class CircularPad3d(_Sized, _CircularPadNd):
    """A border that continues at the other ends of the last three dimensions."""

    rank = 3


class PixelShuffle(Module):
    """[*, C * r * r, H, W] as [*, C, H * r, W * r] (Shi et al. 2016)."""

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Channels as pixels. Raises ShapeError."""
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        """The factor."""
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """[*, C, H * r, W * r] as [*, C * r * r, H, W]."""

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Pixels as channels. Raises ShapeError."""
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        """The factor."""
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """The channels of [N, C, *] dealt out of ``groups`` in turn (Zhang et al. 2018)."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """The same shape. Raises ShapeError."""
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """The number of groups."""
        return f"groups={self.groups}"


class Unfold(Module):
    """The windows of images [N, C, H, W] as columns [N, C * kernel, windows]."""

    def __init__(
        self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__()
        self.kernel_size, self.dilation = kernel_size, dilation
        self.padding, self.stride = padding, stride

    def forward(self, input: Tensor) -> Tensor:
        """Images to columns. Raises ShapeError."""
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, "
            f"stride={self.stride}"
        )


class Fold(Module):
    """Columns [N, C * kernel, windows] added up to images [N, C, *output_size]."""

    def __init__(
        self,
        output_size: Any,
        kernel_size: Any,
        dilation: Any = 1,
        padding: Any = 0,
        stride: Any = 1,
    ) -> None:
        super().__init__()
        self.output_size, self.kernel_size = output_size, kernel_size
        self.dilation, self.padding, self.stride = dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        """Columns to images. Raises ShapeError."""
        return F.fold(
            input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride
        )

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, "
            f"dilation={self.dilation}, padding={self.padding}, stride={self.stride}"
        )


class Upsample(Module):
    """[N, C, *] resized to ``size`` or by ``scale_factor``; see ``nn.functional.interpolate``."""

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        if isinstance(scale_factor, tuple):
            self.scale_factor: Any = tuple(float(f) for f in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode, self.align_corners = mode, align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        """The resized input. Raises InterpolationError (a ValueError)."""
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners,
            self.recompute_scale_factor,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """The factor or size, and the mode."""
        if self.scale_factor is not None:
            return f"scale_factor={self.scale_factor!r}, mode={self.mode!r}"
        return f"size={self.size!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Images [N, C, H, W] resized by taking the nearest pixel."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """Images [N, C, H, W] resized by linear interpolation with aligned corners."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "bilinear", True)
