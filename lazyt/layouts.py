"""Memory layouts as users name them: ``lazyt.strided`` is the only one that tensors have."""

from __future__ import annotations

from lazyt.ir.dtypes import package_name


class layout:
    """How a tensor's elements lie in memory. Instances are unique, so ``is`` compares them."""

    __slots__ = ("_name",)
    __module__ = "lazyt"

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"{package_name()}.{self._name}"

    def __reduce__(self) -> str:
        return self._name


strided = layout("strided")

__all__ = ["layout", "strided"]
