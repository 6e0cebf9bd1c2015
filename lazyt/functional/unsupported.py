"""The error for dtypes that a function has no meaning for, as PyTorch's kernels word it."""

from __future__ import annotations

from typing import NoReturn

from lazyt.dispatch import type_title
from lazyt.errors import DTypeError
from lazyt.ir.dtypes import DType


class UnsupportedTypeError(DTypeError, NotImplementedError):
    """A dtype that a function does not take; PyTorch raises NotImplementedError here."""


def refuse(kernel: str, dtype: DType) -> NoReturn:
    """Raise UnsupportedTypeError: ``kernel`` is not implemented for ``dtype``."""
    raise UnsupportedTypeError(f"\"{kernel}\" not implemented for '{type_title(dtype)}'")


def refuse_cast(given: DType, wanted: DType) -> NoReturn:
    """Raise DTypeError: a function that writes into its input's dtype computes another kind."""
    raise DTypeError(
        f"result type {type_title(given)} can't be cast to the desired output type "
        f"{type_title(wanted)}"
    )


def require_floating(kernel: str, dtype: DType) -> None:
    """Raise UnsupportedTypeError unless ``dtype`` is of floating point."""
    if dtype.kind != "f":
        refuse(kernel, dtype)
