"""Named results of functions that give several tensors; they print as PyTorch's do."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from lazyt.ir.dtypes import package_name
from lazyt.tensor import Tensor


class Named(tuple[Tensor, ...]):
    """A tuple whose items have names, as attributes and in print."""

    fields: tuple[str, ...] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for index, field in enumerate(cls.fields):
            setattr(cls, field, property(itemgetter(index)))

    def __repr__(self) -> str:
        body = ",\n".join(f"{name}={item!r}" for name, item in zip(self.fields, self))
        return f"{package_name()}.return_types.{type(self).__name__}(\n{body})"


class max(Named):
    """Result of ``max`` along a dimension."""

    fields = ("values", "indices")


class min(Named):
    """Result of ``min`` along a dimension."""

    fields = ("values", "indices")


class cummax(Named):
    """Result of ``cummax``."""

    fields = ("values", "indices")


class cummin(Named):
    """Result of ``cummin``."""

    fields = ("values", "indices")


class aminmax(Named):
    """Result of ``aminmax``."""

    fields = ("min", "max")


class frexp(Named):
    """Result of ``frexp``."""

    fields = ("mantissa", "exponent")
