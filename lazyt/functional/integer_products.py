"""Products of matrices of small integers, summed in larger ones."""

from __future__ import annotations

from lazyt import ops
from lazyt.errors import DTypeError, ShapeError
from lazyt.functional.operands import require_tensor
from lazyt.functional.promotion import c_name
from lazyt.functional.results import give
from lazyt.ir.dtypes import int8, int32, uint8
from lazyt.tensor import Tensor

__all__ = ["_int_mm"]

_NAME = "int_mm_out_cpu"


def _int_mm(self: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of an int8 (or uint8) matrix and an int8 matrix, exact in int32.

    Sums beyond int32 wrap around. Raises DTypeError for other dtypes and ShapeError for other ranks
    or sizes.
    """
    require_tensor(self, "_int_mm")
    require_tensor(mat2, "_int_mm")
    for name, item in (("self", self), ("mat2", mat2)):
        if len(item.shape) != 2:
            rank = len(item.shape)
            raise ShapeError(f"{_NAME}: Expected {name} to be of dimension 2 but got {rank}")
    if self.shape[1] != mat2.shape[0]:
        raise ShapeError(
            f"{_NAME}: self.size(1) needs to match mat2.size(0) but got {self.shape[1]} and "
            f"{mat2.shape[0]}"
        )
    if self.dtype not in (int8, uint8):
        given = c_name(self.dtype)
        raise DTypeError(f"{_NAME}: Expected self dtype to be int8 or uint8 but got {given}")
    if mat2.dtype is not int8:
        given = c_name(mat2.dtype)
        raise DTypeError(f"{_NAME}: Expected mat2 dtype to be of type int8 but got {given}")
    if out is not None and out.dtype is not int32:
        given = c_name(out.dtype)
        raise DTypeError(f"{_NAME}: Expected result dtype to be of type kInt but got {given}")
    left, right = ops.cast(self.node, int32), ops.cast(mat2.node, int32)
    return give(ops.contract(left, right, (0, 1), (1, 2), (0, 2)), "IntMm", (self, mat2), out)
