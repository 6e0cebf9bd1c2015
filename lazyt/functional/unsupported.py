"""The error for dtypes that a function has no meaning for, as PyTorch's kernels word it."""

from __future__ import annotations

from typing import NoReturn

from lazyt.dispatch import type_title
from lazyt.errors import DTypeError
from lazyt.functional.promotion import c_name, torch_name
from lazyt.ir.dtypes import DType
from lazyt.tensor import Tensor


class UnsupportedTypeError(DTypeError, NotImplementedError):
    """A dtype that a function does not take; PyTorch raises NotImplementedError here."""


def refuse(kernel: str, dtype: DType) -> NoReturn:
    """Raise UnsupportedTypeError: ``kernel`` is not implemented for ``dtype``."""
    raise UnsupportedTypeError(f"\"{kernel}\" not implemented for '{type_title(dtype)}'")


def check_product_types(added: Tensor | None, mat1: Tensor, mat2: Tensor) -> None:
    """Raise DTypeError unless the factors, and what is added to their product, have one dtype."""
    if mat1.dtype is not mat2.dtype and added is None:
        raise DTypeError(
            "expected m1 and m2 to have the same dtype, but got: "
            f"{c_name(mat1.dtype)} != {c_name(mat2.dtype)}"
        )
    for name, item in (("mat1", mat1), ("self", added)):
        if item is not None and item.dtype is not mat2.dtype:
            raise DTypeError(
                f"{name} and mat2 must have the same dtype, but got "
                f"{torch_name(item.dtype)} and {torch_name(mat2.dtype)}"
            )


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
