"""How nested tensors are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazyt.errors import ArgumentError, DTypeError, LazytError, ShapeError
from lazyt.functional import namespace as lazyt
from lazyt.handle.layout import strided
from lazyt.handle.tensor import Tensor
from lazyt.subclasses.nested import functions as functions
from lazyt.subclasses.nested.tensors import NestedTensor, Raggedness, jagged

__all__ = [
    "as_nested_tensor", "masked_select", "narrow", "nested_tensor", "nested_tensor_from_jagged",
    "nested_tensor_from_mask", "to_padded_tensor",
]  # fmt: skip


def nested_tensor(
    tensor_list: Sequence[Any], *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> NestedTensor:  # fmt: skip
    """A nested tensor with copies of the values of tensors, or of lists of numbers.

    With ``layout=torch.jagged`` they may have one dimension of several lengths; by default, all.
    Raises LazytError for tensors of several numbers of dimensions, ShapeError for a second
    dimension of several lengths in the layout ``jagged``.
    """
    if not isinstance(tensor_list, (list, tuple)):
        raise DTypeError(
            "nested_tensor(): Expected first argument to be a list of tensors, got "
            f"{type(tensor_list).__name__}"
        )
    parts = [
        part.detach().to(device=device, dtype=dtype) if isinstance(part, Tensor)
        else lazyt.tensor(part, dtype=dtype, device=device)
        for part in tensor_list
    ]  # fmt: skip
    made = _joined(parts, layout)
    made = made.like(made.values().clone())
    if requires_grad:
        made.requires_grad_()
    return made


def as_nested_tensor(
    ts: Any, dtype: Any = None, device: Any = None, layout: Any = None
) -> NestedTensor:
    """A nested tensor of tensors, through which gradients flow back to them; of one tensor, one of
    its rows."""
    if isinstance(ts, NestedTensor):
        return ts
    if isinstance(ts, Tensor):
        parts = list(ts.unbind())
    elif isinstance(ts, (list, tuple)):
        parts = [t if isinstance(t, Tensor) else lazyt.tensor(t) for t in ts]
    else:
        raise DTypeError(
            "as_nested_tensor(): Expected first argument to be a tensor or a list / tuple of "
            "tensors"
        )
    return _joined([part.to(device=device, dtype=dtype) for part in parts], layout)


def _joined(parts: list[Tensor], layout: Any) -> NestedTensor:
    if layout not in (None, strided, jagged):
        raise LazytError(f"Specified layout is unsupported for nested tensors: {layout}")
    if len({part.ndim for part in parts}) > 1:
        raise LazytError(
            "All Tensors given to nested_tensor must have the same dimension. Found "
            f"dimension {parts[0].ndim} for Tensor at index 0 and dimension "
            f"{next(p.ndim for p in parts if p.ndim != parts[0].ndim)} for another"
        )
    if layout is jagged:
        return _jagged(parts)
    shapes = [tuple(part.shape) for part in parts]
    flat = [part.reshape(-1) for part in parts]
    values = lazyt.cat(flat) if flat else lazyt.empty(0)
    return NestedTensor.over(values, _offsets([f.shape[0] for f in flat]), 1, shapes)


def _jagged(parts: list[Tensor]) -> NestedTensor:
    if not parts:
        raise LazytError("Cannot construct a nested tensor from an empty list")
    rank = parts[0].ndim
    if not rank:
        raise ArgumentError("Cannot construct a nested tensor from tensors of no dimensions")
    irregular = [d for d in range(rank) if len({part.shape[d] for part in parts}) > 1]
    if len(irregular) > 1:
        raise ShapeError(
            "Cannot represent given tensor list as a nested tensor with the jagged layout. Note "
            "that the jagged layout only represents shapes of the form (B, *_0, j, *_1) where j "
            "is the single ragged dimension"
        )
    at = irregular[0] if irregular else 0
    sizes = [part.shape[at] for part in parts]
    return NestedTensor.over(lazyt.cat(parts, at), _offsets(sizes), at + 1)


def _offsets(sizes: Sequence[int]) -> Raggedness:
    ends = [0]
    for size in sizes:
        ends.append(ends[-1] + size)
    return Raggedness(lazyt.tensor(ends, dtype=lazyt.int64))


def nested_tensor_from_jagged(
    values: Tensor, offsets: Tensor | None = None, lengths: Tensor | None = None,
    jagged_dim: int | None = None, min_seqlen: int | None = None, max_seqlen: int | None = None,
) -> NestedTensor:  # fmt: skip
    """A nested tensor over values that lie one behind the other: a view.

    Args:
        values: all rows.
        offsets: where each tensor begins, and the end of the last.
        lengths: how long each is; with ``offsets``, there may be room between them.
        jagged_dim: the dimension of several lengths, 1 by default.
        min_seqlen, max_seqlen: taken for PyTorch's sake.

    Raises LazytError without offsets and lengths.
    """
    if offsets is None:
        if lengths is None:
            raise LazytError(
                "nested_tensor_from_jagged(): At least one of offsets or lengths is required."
            )
        first = lengths.new_zeros(1)
        offsets, lengths = lazyt.cat([first, lengths.cumsum(0)]), None
    known = functions.raggedness(offsets, lengths)
    return NestedTensor.over(values, known, 1 if jagged_dim is None else jagged_dim)


def narrow(
    tensor: Tensor, dim: int, start: Any, length: Any, layout: Any = strided
) -> NestedTensor:
    """A nested tensor of a part of each row of a tensor, of beginnings and lengths of their own.

    Raises LazytError for another dimension than 1, and for another layout than ``torch.jagged``.
    """
    if layout is not jagged:
        raise LazytError("narrow(): only the layout torch.jagged is supported")
    if dim != 1:
        raise LazytError(f"narrow(): only dim=1 is supported for the jagged layout, not {dim}")
    rows, width = tensor.shape[:2]
    starts = start if isinstance(start, Tensor) else lazyt.full((rows,), start)
    lengths = length if isinstance(length, Tensor) else lazyt.full((rows,), length)
    begin = lazyt.arange(rows) * width + starts
    offsets = lazyt.cat([begin, begin.new_full((1,), rows * width)])
    values = tensor.reshape(rows * width, *tensor.shape[2:])
    return NestedTensor.over(values, Raggedness(offsets, lengths.to(lazyt.int64)))


def to_padded_tensor(
    input: Tensor, padding: float, output_size: Sequence[int] | None = None, out: Any = None
) -> Tensor:
    """``input.to_padded_tensor(padding, output_size)``."""
    if not isinstance(input, NestedTensor):
        raise LazytError("to_padded_tensor is for nested tensors")
    return input.to_padded_tensor(padding, output_size)


def masked_select(tensor: Tensor, mask: Tensor) -> NestedTensor:
    """The elements of each row that a mask keeps, as a nested tensor of the layout ``jagged``.

    Raises LazytError for a tensor of no two dimensions.
    """
    if tensor.layout is not strided or tensor.ndim != 2:
        raise LazytError("masked_select(): a tensor of two dimensions is needed")
    kept = mask.expand(tensor.shape)
    sizes = [int(n) for n in kept.sum(1).tolist()]
    return NestedTensor.over(lazyt.masked_select(tensor, kept), _offsets(sizes))


def nested_tensor_from_mask(t: Tensor, mask: Tensor, mask_check: bool = True) -> NestedTensor:
    """A nested tensor, of the strided layout, of the first rows of each matrix, as many as a mask
    keeps. Raises LazytError for a mask that keeps others."""
    sizes = [int(n) for n in mask.sum(1).tolist()]
    if mask_check:
        ordered = lazyt.arange(mask.shape[1])[None] < mask.sum(1, keepdim=True)
        if not bool((ordered == mask).all()):
            raise LazytError("Expected mask to be left aligned")
    return _joined([row[:size] for row, size in zip(t.unbind(), sizes)], None)
