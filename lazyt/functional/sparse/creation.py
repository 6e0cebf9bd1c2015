"""How programs make sparse tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazyt import ops
from lazyt.errors import DTypeError, LazytError, UnsupportedNameError
from lazyt.functional.creation.creation import as_tensor
from lazyt.functional.creation.creation import tensor as dense_tensor
from lazyt.functional.sparse.tensors import (
    CompressedTensor,
    CooTensor,
    SparseTensor,
    compressed,
    coo,
)
from lazyt.handle.dispatch import view_of, wrap
from lazyt.handle.function_table import function
from lazyt.handle.layout import layout as Layout
from lazyt.handle.layout import sparse_coo, sparse_csc, sparse_csr
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType, int32, int64

__all__ = [
    "sparse_bsc_tensor", "sparse_bsr_tensor", "sparse_compressed_tensor", "sparse_coo_tensor",
    "sparse_csc_tensor", "sparse_csr_tensor",
]  # fmt: skip


class Checking:
    """Whether tensors are checked when they are made, where the call does not say so."""

    __slots__ = ("enabled",)

    def __init__(self) -> None:
        self.enabled = False


checking = Checking()
_BLOCKS = "lazyt has no tensors of blocks (BSR, BSC): use CSR, CSC or COO"


def _values(values: Any, dtype: DType | None, device: Any) -> Tensor:
    if isinstance(values, SparseTensor):
        raise LazytError("expected values to be a strided tensor")
    if isinstance(values, Tensor):
        given: Tensor = values.to(device=device, dtype=dtype) if device is not None else values
        return given if dtype is None else given.to(dtype)
    return dense_tensor(values, dtype=dtype, device=device)


def _indices(indices: Any, values: Tensor) -> Tensor:
    if isinstance(indices, SparseTensor):
        raise LazytError("expected indices to be a strided tensor")
    if not isinstance(indices, Tensor):
        indices = as_tensor(indices, dtype=int64)
    elif indices.dtype.kind not in "biu":
        raise LazytError(f"indices must be an int64 tensor, but got {indices.dtype}")
    found: Tensor = indices.detach().to(device=values.device)
    return found


def _followed(values: Tensor) -> Tensor:
    """The same memory, as a result that autograd follows to ``values``."""
    name = "SparseCooTensorWithDimsAndTensors"
    return view_of(values, (), tuple(values.shape), values.strides, values._offset, name)


def _finished(made: SparseTensor, values: Any, requires_grad: bool) -> SparseTensor:
    """With values of their own history: those of a call of the values', unless a leaf is wanted."""
    held = made._held
    if requires_grad:
        made._held = held.detach().requires_grad_()
    elif held is values:
        made._held = _followed(held) if held.requires_grad else held.detach()
    return made


@function()
def sparse_coo_tensor(
    indices: Any = None, values: Any = None, size: Any = None, *, dtype: DType | None = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
    check_invariants: bool | None = None, is_coalesced: bool | None = None,
) -> Tensor:  # fmt: skip
    """A tensor with coordinates (COO).

    Args:
        indices: [sparse dimensions, nnz]: where the values belong. Values of one place are added
            up. An argument that is a size stands for a tensor without values.
        values: [nnz], or [nnz, *] for a hybrid tensor of dense blocks. The tensor shows their
            memory.
        size: the sizes of the dimensions, those of the blocks last; by default as large as the
            indices need, which are then looked at.
        check_invariants: look at the indices now, whether they are within the size. Otherwise the
            first function that uses them does.
        is_coalesced: says that indices are in order and each there once.

    Raises LazytError and BoundsError.

    Example:
        >>> import lazyt
        >>> s = lazyt.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
        >>> s.to_dense()
        tensor([[0., 0., 3.],
                [4., 0., 0.]])
    """
    if values is None:
        return empty_coo(indices if size is None else size, dtype, device, requires_grad)
    held = _values(values, dtype, device)
    places = _indices(indices, held).to(int64)
    if places.ndim != 2:
        raise LazytError(f"indices must be sparse_dim x nnz, but got: {list(places.shape)}")
    held, sizes = _fitting(places, held, size)
    made = coo(places, held, sizes, bool(is_coalesced))
    if checking.enabled if check_invariants is None else check_invariants:
        _check_coordinates(made)
    return _finished(made, values, requires_grad)


def _fitting(places: Tensor, held: Tensor, size: Any) -> tuple[Tensor, Sequence[int]]:
    """Values and a size that fit indices. Raises LazytError where they do not."""
    sparse, nnz = places.shape
    if held.ndim == 0 and nnz == 1:
        held = held.reshape(1)
    if held.ndim < 1 or held.shape[0] != nnz:
        raise LazytError(
            f"indices and values must have same nnz, but got nnz from indices: {nnz}, nnz from "
            f"values: {held.shape[0] if held.ndim else 1}"
        )
    if size is None:
        size = (*_extents(places), *held.shape[1:])
    size = tuple(int(extent) for extent in size)
    if len(size) != sparse + held.ndim - 1:
        raise LazytError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, "
            f"sparse_dim = {sparse}, dense_dim = {held.ndim - 1}"
        )
    if size[sparse:] != tuple(held.shape[1:]):
        raise LazytError(
            f"values has incorrect size, expected {[nnz, *size[sparse:]]}, got {list(held.shape)}"
        )
    return held, size


def _extents(places: Tensor) -> list[int]:
    """The sizes that indices need; looks at them."""
    sparse, nnz = places.shape
    if not nnz or not sparse:
        return [0] * sparse
    if int(places.min()) < 0:
        raise LazytError(
            f"found negative index {int(places.min())} for dim {int(places.amin(1).argmin())}"
        )
    return [int(most) + 1 for most in places.amax(1).tolist()]


def _check_coordinates(tensor: CooTensor) -> None:
    """Raise BoundsError, or LazytError for a coalesced tensor that is none; looks at indices."""
    tensor.checked()
    if tensor._is_coalesced and tensor._nnz() > 1:
        keys = wrap(tensor.keys())
        if bool((keys[1:] <= keys[:-1]).any()):
            raise LazytError(
                "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor"
            )


def empty_coo(
    size: Sequence[int], dtype: DType | None = None, device: Any = None,
    requires_grad: bool = False, sparse_dim: int | None = None,
) -> CooTensor:  # fmt: skip
    """A tensor with coordinates that has no values."""
    size = tuple(int(extent) for extent in size)
    sparse = len(size) if sparse_dim is None else sparse_dim
    held = dense_tensor([], dtype=dtype, device=device).reshape((0,) * (1 + len(size) - sparse))
    if len(size) > sparse:
        held = held.new_zeros((0, *size[sparse:]))
    places = wrap(ops.broadcast_to(ops.constant(0, int64), (sparse, 0))).to(device=held.device)
    made = coo(places, held, size, True, True)
    if requires_grad:
        made._held.requires_grad_()
    return made


def _compressed(
    starts: Any, others: Any, values: Any, size: Any, kind: Layout, dtype: DType | None,
    device: Any, requires_grad: bool, check_invariants: bool | None,
) -> Tensor:  # fmt: skip
    by_rows = kind is sparse_csr
    names = ("crow_indices", "col_indices") if by_rows else ("ccol_indices", "row_indices")
    held = _values(values, dtype, device)
    begins, places = _indices(starts, held), _indices(others, held)
    if begins.dtype not in (int32, int64):
        begins, places = begins.to(int64), places.to(int64)
    if (
        isinstance(starts, Tensor)
        and isinstance(others, Tensor)
        and starts.dtype is not others.dtype
    ):
        checks = checking.enabled if check_invariants is None else check_invariants
        if checks:
            raise LazytError(
                f"{names[0]} and {names[1]} must have the same dtype, but got {starts.dtype} and "
                f"{others.dtype}, respectively"
            )
    if begins.ndim != 1 or places.ndim != 1:
        raise LazytError(
            f"lazyt has matrices with compressed rows or columns, not batches of them: {names[0]} "
            f"has {begins.ndim} dimensions and {names[1]} {places.ndim}; use COO tensors"
        )
    if held.ndim < 1 or held.shape[0] != places.shape[0]:
        raise LazytError(
            f"number of elements in {names[1]} and values must be the same, but got "
            f"{places.shape[0]} and {list(held.shape)}"
        )
    if size is None:
        width = int(places.max()) + 1 if places.shape[0] else 0
        length = begins.shape[0] - 1
        size = (length, width) if by_rows else (width, length)
        size = (*size, *held.shape[1:])
    size = tuple(int(extent) for extent in size)
    if len(size) != 1 + held.ndim:
        raise LazytError(
            f"size must have as many dimensions as two and those of a value, {1 + held.ndim}, but "
            f"got {len(size)}"
        )
    made = compressed(begins, places, held, size, kind)
    if checking.enabled if check_invariants is None else check_invariants:
        validate(made)
    return _finished(made, values, requires_grad)


def validate(tensor: CompressedTensor) -> None:
    """Raise LazytError, in PyTorch's words, for indices that say nothing; looks at them."""
    by_rows = tensor.by_rows
    start, other = ("crow", "col") if by_rows else ("ccol", "row")
    main, width = tensor._size[:2] if by_rows else tensor._size[1::-1]
    extent = "ncols" if by_rows else "nrows"
    begins, places = tensor._starts, tensor._others
    if begins.shape[0] != main + 1:
        raise LazytError(
            f"{start}_indices.shape[-1] must be equal to the number of "
            f"{'rows' if by_rows else 'columns'} plus one ({main + 1}), but got {begins.shape[0]}"
        )
    counts = begins[1:] - begins[:-1]
    checks = (
        (int(begins[0]) == 0, f"{start}_indices[..., 0] == 0"),
        (int(begins[-1]) == tensor._nnz(), f"{start}_indices[..., -1] == nnz"),
        (
            not bool(((counts < 0) | (counts > width)).any()),
            f"0 <= {start}_indices[..., 1:] - {start}_indices[..., :-1] <= {extent}",
        ),
        (
            not bool(((places < 0) | (places >= width)).any()),
            f"0 <= {other}_indices < {extent}",
        ),
    )
    for holds, text in checks:
        if not holds:
            raise LazytError(f"`{text}` is not satisfied.")
    if tensor._nnz() > 1:
        rows = tensor.expanded()
        falls = (rows[1:] == rows[:-1]) & (places[1:] <= places[:-1])
        if bool(falls.any()):
            raise LazytError(
                f"`{other}_indices[..., {start}_indices[..., i - 1]:{start}_indices[..., i]] for "
                f"all i = 1, ..., {'nrows' if by_rows else 'ncols'} are sorted and distinct along "
                "the last dimension values` is not satisfied."
            )


@function()
def sparse_csr_tensor(
    crow_indices: Any, col_indices: Any, values: Any, size: Any = None, *,
    dtype: DType | None = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False, check_invariants: bool | None = None,
) -> Tensor:  # fmt: skip
    """A matrix with compressed rows (CSR).

    Args:
        crow_indices: where every row begins, and the last ends [rows + 1].
        col_indices: the column of every value [nnz].
        values: [nnz], row by row.
        size: rows and columns; by default as many as the indices need, which are then looked at.
        check_invariants: look at the indices now, whether they make sense.

    Raises LazytError, also for batches of matrices.

    Example:
        >>> import lazyt
        >>> s = lazyt.sparse_csr_tensor([0, 1, 2], [2, 0], [3.0, 4.0], (2, 3))
        >>> s @ lazyt.ones(3)
        tensor([3., 4.])
    """
    return _compressed(crow_indices, col_indices, values, size, sparse_csr, dtype, device,
                       requires_grad, check_invariants)  # fmt: skip


@function()
def sparse_csc_tensor(
    ccol_indices: Any, row_indices: Any, values: Any, size: Any = None, *,
    dtype: DType | None = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False, check_invariants: bool | None = None,
) -> Tensor:  # fmt: skip
    """A matrix with compressed columns (CSC); otherwise as ``sparse_csr_tensor``.

    Args:
        ccol_indices: where every column begins, and the last ends [columns + 1].
        row_indices: the row of every value [nnz].
        values: [nnz], column by column.
        size, check_invariants: as for ``sparse_csr_tensor``.

    Raises LazytError.

    Example:
        >>> import lazyt
        >>> s = lazyt.sparse_csc_tensor([0, 1, 1, 2], [1, 0], [4.0, 3.0], (2, 3))
        >>> s @ lazyt.ones(3)
        tensor([3., 4.])
    """
    return _compressed(ccol_indices, row_indices, values, size, sparse_csc, dtype, device,
                       requires_grad, check_invariants)  # fmt: skip


@function()
def sparse_compressed_tensor(
    compressed_indices: Any, plain_indices: Any, values: Any, size: Any = None, *,
    dtype: DType | None = None, layout: Layout | None = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, check_invariants: bool | None = None,
) -> Tensor:  # fmt: skip
    """A matrix with compressed rows or columns, as ``layout`` says.

    Args:
        compressed_indices, plain_indices, values, size: as for ``sparse_csr_tensor`` and
            ``sparse_csc_tensor``.
        layout: ``sparse_csr`` or ``sparse_csc``.

    Raises LazytError, and UnsupportedNameError for the layouts of blocks.

    Example:
        >>> import lazyt
        >>> s = lazyt.sparse_compressed_tensor(
        ...     [0, 1, 2], [2, 0], [3.0, 4.0], (2, 3), layout=lazyt.sparse_csr
        ... )
        >>> s.layout
        lazyt.sparse_csr
    """
    if layout is None:
        raise LazytError("expected sparse compressed tensor layout but got none")
    if layout not in (sparse_csr, sparse_csc):
        if repr(layout).rpartition(".")[2] in ("sparse_bsr", "sparse_bsc"):
            raise UnsupportedNameError(_BLOCKS)
        title = "Sparse" if layout is sparse_coo else "Strided"
        raise LazytError(f"expected sparse compressed tensor layout but got {title}")
    return _compressed(compressed_indices, plain_indices, values, size, layout, dtype, device,
                       requires_grad, check_invariants)  # fmt: skip


@function()
def sparse_bsr_tensor(*args: Any, **kwargs: Any) -> Tensor:
    """Raises UnsupportedNameError: there are no tensors of blocks."""
    raise UnsupportedNameError(_BLOCKS)


@function()
def sparse_bsc_tensor(*args: Any, **kwargs: Any) -> Tensor:
    """Raises UnsupportedNameError: there are no tensors of blocks."""
    raise UnsupportedNameError(_BLOCKS)


def empty_in(kind: Layout, size: Sequence[int], **options: Any) -> Tensor:
    """A tensor without values in a sparse layout. Raises DTypeError and LazytError."""
    options = {key: value for key, value in options.items() if value is not None}
    if kind is sparse_coo:
        return empty_coo(size, **options)
    if kind not in (sparse_csr, sparse_csc):
        raise UnsupportedNameError(_BLOCKS)
    if len(size) != 2:
        raise DTypeError("torch.empty: Only batched sparse compressed (non-block) tensors are "
                         f"supported, but got size {list(size)}")  # fmt: skip
    main = size[0] if kind is sparse_csr else size[1]
    found: Tensor = empty_coo((0, 0), **options)
    assert isinstance(found, CooTensor)
    begins = wrap(ops.broadcast_to(ops.constant(0, int64), (main + 1,)))
    none = wrap(ops.broadcast_to(ops.constant(0, int64), (0,)))
    return compressed(begins, none, found._held, size, kind, True)


# ---------------------------------------------------------------------- pickles and files


def members(tensor: Tensor) -> tuple[Layout, tuple[Any, ...]]:
    """What pickles and files hold of a tensor: its layout and, as PyTorch has them, its members."""
    size = tensor.shape
    if isinstance(tensor, CooTensor):
        parts = (tensor._places.detach(), tensor._held.detach(), size, tensor._is_coalesced)
        return sparse_coo, parts
    assert isinstance(tensor, CompressedTensor)
    begins, others = tensor._starts.detach(), tensor._others.detach()
    return tensor.layout, (begins, others, tensor._held.detach(), size)


def rebuilt(kind: Layout, parts: Sequence[Any], requires_grad: bool = False) -> Tensor:
    """A tensor of what ``members`` gives; indices are looked at.

    Raises TypeError for other members, and LazytError and BoundsError for indices that say nothing.
    """
    arrays = 2 if kind is sparse_coo else 3
    if len(parts) not in (arrays + 1, arrays + 2) or not all(
        isinstance(part, Tensor) for part in parts[:arrays]
    ):
        raise TypeError("a sparse tensor is made of indices, values and a size")
    options: dict[str, Any] = {"requires_grad": requires_grad, "check_invariants": True}
    if kind is sparse_coo:
        coalesced = bool(parts[3]) if len(parts) == 4 else False
        return sparse_coo_tensor(*parts[:3], is_coalesced=coalesced, **options)
    return sparse_compressed_tensor(*parts[:4], layout=kind, **options)
