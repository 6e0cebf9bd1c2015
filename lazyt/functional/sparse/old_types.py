"""Older names around sparse tensors: types to call, and conversions of indices."""

from __future__ import annotations

from typing import Any

from lazyt.functional.creation.creation import arange
from lazyt.functional.shapes.joining import stack
from lazyt.functional.sorting.searching import searchsorted
from lazyt.functional.sparse.creation import sparse_coo_tensor
from lazyt.functional.sparse.tensors import CooTensor
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType, float16, float32, float64, int8, int16, int32, int64, uint8

__all__ = [
    "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor", "IntTensor",
    "LongTensor", "ShortTensor", "convert_indices_from_coo_to_csr",
    "convert_indices_from_csr_to_coo",
]  # fmt: skip


class _Kind(type):
    """The class of types that are told by a dtype."""

    dtype: DType

    def __call__(cls, *args: Any, **options: Any) -> Any:
        """A COO tensor of indices, values and a size, or of a size."""
        if args and all(isinstance(arg, int) for arg in args):
            args = (args,)
        if not args:
            args = ((0,),)
        return sparse_coo_tensor(*args, dtype=cls.dtype, **options)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, CooTensor) and value.dtype is cls.dtype


def _kind(name: str, dtype: DType) -> Any:
    about = f"COO tensors of {dtype.name} by an older name: called with indices, values and a size."
    return _Kind(name, (), {"dtype": dtype, "__doc__": about, "__module__": "torch.sparse"})


FloatTensor, DoubleTensor = _kind("FloatTensor", float32), _kind("DoubleTensor", float64)
HalfTensor, LongTensor = _kind("HalfTensor", float16), _kind("LongTensor", int64)
IntTensor, ShortTensor = _kind("IntTensor", int32), _kind("ShortTensor", int16)
CharTensor, ByteTensor = _kind("CharTensor", int8), _kind("ByteTensor", uint8)


def convert_indices_from_coo_to_csr(input: Tensor, size: int, *, out_int32: bool = False) -> Tensor:
    """Where each of ``size`` rows begins, and the last ends, of row numbers in order."""
    rows = arange(size + 1, dtype=input.dtype)
    return searchsorted(input.contiguous(), rows, out_int32=out_int32)


def convert_indices_from_csr_to_coo(
    crow_indices: Tensor, col_indices: Tensor, *, out_int32: bool = False, transpose: bool = False
) -> Tensor:
    """Rows and columns of the elements of compressed rows, or with ``transpose`` columns and
    rows."""
    number = arange(col_indices.shape[0], dtype=crow_indices.dtype)
    rows = searchsorted(crow_indices[1:].contiguous(), number, right=True)
    kind = int32 if out_int32 else int64
    pair = [rows.to(kind), col_indices.to(kind)]
    return stack(pair[::-1] if transpose else pair)
