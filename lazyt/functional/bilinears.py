"""The bilinear map of two vectors."""

from __future__ import annotations

from lazyt.cast_mode import in_given_precision
from lazyt.errors import ShapeError
from lazyt.functional.equations import einsum
from lazyt.tensor import Tensor

__all__ = ["bilinear"]


@in_given_precision
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x1 @ weight[k] @ x2 + bias[k]``: [*, in1] and [*, in2] to [*, out]. Raises ShapeError."""
    if input1.ndim != input2.ndim:
        raise ShapeError(
            f"bilinear(): input dimensions do not match: got {input1.ndim} and {input2.ndim}"
        )
    for axis, (m, n) in enumerate(zip(input1.shape[:-1], input2.shape[:-1])):
        if m != n:
            raise ShapeError(
                f"bilinear(): input batch dimensions do not match at dim {axis}: got {m} and {n}"
            )
    for number, given in ((1, input1), (2, input2)):
        if given.shape[-1] != weight.shape[number]:
            raise ShapeError(
                f"bilinear(): input{number} size does not match weight size: got "
                f"{given.shape[-1]} but expected {weight.shape[number]}"
            )
    if bias is not None and bias.shape[0] != weight.shape[0]:
        raise ShapeError(
            f"bilinear(): bias size does not match weight size: got {bias.shape[0]} but expected "
            f"{weight.shape[0]}"
        )
    out: Tensor = einsum("...i,oij,...j->...o", input1, weight, input2)
    return out if bias is None else out + bias
