"""Borders around the last dimensions."""

from __future__ import annotations

from typing import Any, ClassVar

from lazyt.nn import functional as F
from lazyt.nn.module import Module
from lazyt.tensor import Tensor


class _Pad(Module):
    """``padding`` is (left, right, top, bottom, front, back), or one number for all sides."""

    rank: ClassVar[int]
    mode: ClassVar[str]

    def __init__(self, padding: Any) -> None:
        super().__init__()
        count = 2 * self.rank
        self.padding = (padding,) * count if isinstance(padding, int) else tuple(padding)

    def forward(self, input: Tensor) -> Tensor:
        """``input`` with a border. Raises ShapeError."""
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        """The width of the border."""
        return f"{self.padding}"


class _ConstantPad(_Pad):
    mode = "constant"

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """``input`` with a border of ``value``. Raises ShapeError."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """The width of the border and its value."""
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """A border of one value around the last dimension."""

    rank = 1


class ConstantPad2d(_ConstantPad):
    """A border of one value around the last two dimensions."""

    rank = 2


class ConstantPad3d(_ConstantPad):
    """A border of one value around the last three dimensions."""

    rank = 3


class _ZeroPad(_ConstantPad):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """The width of the border."""
        return f"{self.padding}"


class ZeroPad1d(_ZeroPad, ConstantPad1d):
    """A border of zeros around the last dimension."""


class ZeroPad2d(_ZeroPad, ConstantPad2d):
    """A border of zeros around the last two dimensions."""


class ZeroPad3d(_ZeroPad, ConstantPad3d):
    """A border of zeros around the last three dimensions."""


class ReflectionPad1d(_Pad):
    """A border that mirrors the last dimension."""

    rank, mode = 1, "reflect"


class ReflectionPad2d(_Pad):
    """A border that mirrors the last two dimensions."""

    rank, mode = 2, "reflect"


class ReflectionPad3d(_Pad):
    """A border that mirrors the last three dimensions."""

    rank, mode = 3, "reflect"


class ReplicationPad1d(_Pad):
    """A border that repeats the edge of the last dimension."""

    rank, mode = 1, "replicate"


class ReplicationPad2d(_Pad):
    """A border that repeats the edge of the last two dimensions."""

    rank, mode = 2, "replicate"


class ReplicationPad3d(_Pad):
    """A border that repeats the edge of the last three dimensions."""

    rank, mode = 3, "replicate"


class _CircularPad(_Pad):
    mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        """``input`` wrapped around. Raises ValueError for other numbers of dimensions."""
        low, high = self.rank + 1, self.rank + 2
        if input.ndim not in (low, high):
            raise ValueError(f"expected {low}D or {high}D input (got {input.ndim}D input)")
        return F.pad(input, self.padding, self.mode)


class CircularPad1d(_CircularPad):
    """A border that continues at the other end of the last dimension."""

    rank = 1


class CircularPad2d(_CircularPad):
    """A border that continues at the other ends of the last two dimensions."""

    rank = 2


class CircularPad3d(_CircularPad):
    """A border that continues at the other ends of the last three dimensions."""

    rank = 3
