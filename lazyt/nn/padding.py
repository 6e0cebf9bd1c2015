"""Borders around the last dimensions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from lazyt.nn import functional as F
from lazyt.nn.module import Module
from lazyt.tensor import Tensor


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


class ConstantPad1d(_ConstantPadNd):
    """A border of one value around the last dimension."""

    rank = 1

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(value)
        self._set_padding(padding)


class ConstantPad2d(_ConstantPadNd):
    """A border of one value around the last two dimensions."""

    rank = 2

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(value)
        self._set_padding(padding)


class ConstantPad3d(_ConstantPadNd):
    """A border of one value around the last three dimensions."""

    rank = 3

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(value)
        self._set_padding(padding)


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
