"""The handles of sparse tensors, and what every function on them needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from lazyt import ops
from lazyt.errors import BoundsError, DTypeError, GradientError, LazytError
from lazyt.functional.indexing.picking import value_range, within
from lazyt.functional.operands import constant_of
from lazyt.functional.overriding import _disabled_torch_function_impl
from lazyt.functional.sorting.searching import searchsorted
from lazyt.handle.dispatch import wrap
from lazyt.handle.grad_mode import no_grad
from lazyt.handle.layout import layout, sparse_coo, sparse_csr
from lazyt.handle.tape import sparse_forms
from lazyt.handle.tensor import Size, Tensor
from lazyt.handle.tensor_protocol import realize
from lazyt.ir.dtypes import DType, bool_, int8, int64
from lazyt.ir.graph import Node, Shape

if TYPE_CHECKING:
    from lazyt.handle.device import device
    from lazyt.handle.tape import GradFn

S = TypeVar("S", bound="SparseTensor")


class NoBackendError(LazytError, NotImplementedError):
    """A function that tensors of a layout do not have."""


class NoStorageError(NoBackendError, AttributeError):
    """The storage of a sparse tensor, which has one for each of its members."""


#: How PyTorch's messages call layouts.
TITLES = {"sparse_coo": "Sparse", "sparse_csr": "SparseCsr", "sparse_csc": "SparseCsc"}


class SparseTensor(Tensor):
    """A tensor of which only some elements are held; the others are zero.

    Its functions are found by name (``dispatch.py``). Members are replaced, never changed, except
    by in-place functions of the values alone.
    """

    __slots__ = ()
    __module__ = "lazyt"
    __torch_function__ = _disabled_torch_function_impl

    if TYPE_CHECKING:
        _held: Tensor
        _size: Shape

    layout: layout

    # ------------------------------------------------------------------ what it looks like

    @property
    def shape(self) -> Size:
        """Extent of every dimension, sparse ones first."""
        return Size(self._size)

    @property
    def dtype(self) -> DType:
        """The type of the values."""
        return self._held.dtype

    @property
    def device(self) -> device:
        """Where the values are."""
        return self._held.device

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._size)

    @property
    def is_sparse_csr(self) -> bool:
        """Whether the layout is CSR."""
        return self.layout is sparse_csr

    @property
    def node(self) -> Node:
        """The dense value, which backward passes on; whoever is given it gets this tensor."""
        found: Node = self.to_dense().node
        if not found.needs_grad:  # a separate node: a dense gradient may have the same value
            found = ops.detach(found)
        sparse_forms[found] = self
        return found

    @classmethod
    def joined(cls, parts: list[SparseTensor]) -> Tensor:
        """The sum of gradients: by itself each as it is, and dense in any other case."""
        if len(parts) == 1:
            return parts[0].with_values(parts[0]._held)
        nodes = [part.to_dense().node for part in parts]
        total = nodes[0]
        for node in nodes[1:]:
            total = ops.apply("add", total, node)
        return wrap(total, *[part._held for part in parts], name="Add")

    @property
    def _fn(self) -> GradFn | None:
        return self._held._fn

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to the values."""
        return self._held.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        """Raises GradientError as for dense tensors."""
        if value and not self._held.requires_grad:  # the values may be those of others, too
            self._held = self._held.detach()
        self._held.requires_grad = value

    @property
    def grad(self) -> Tensor | None:
        """The accumulated gradient: sparse, at the indices that the tensor has."""
        held = self._held.grad
        return None if held is None else self.with_values(held)

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        """Raises GradientError for what is no sparse tensor of this size."""
        if value is None:
            self._held.grad = None
            return
        if not isinstance(value, SparseTensor) or value._size != self._size:
            raise GradientError(
                "assigned grad of a sparse tensor has to be a sparse tensor of its size"
            )
        same = value._held.shape == self._held.shape
        masked: Any = value if same else value.sparse_mask(self)
        self._held.grad = masked._held

    @grad.deleter
    def grad(self) -> None:
        """The same as setting it to None."""
        self._held.grad = None

    def __getattr__(self, name: str) -> Any:
        if name in ("_storage", "_view"):
            raise NoStorageError(f"Cannot access storage of {self._title()}TensorImpl")
        from lazyt.compat.absent import AbsentName

        raise AbsentName("'Tensor' object", name, lambda: dir(Tensor))

    def _title(self) -> str:
        return TITLES[repr(self.layout).rpartition(".")[2]]

    def _backend(self) -> str:
        return f"{self._title()}{'CUDA' if self.is_cuda else 'CPU'}"

    def _nnz(self) -> int:
        """The number of elements, or of dense blocks of them, that are held."""
        return int(self._held.shape[0])

    def _values(self) -> Tensor:
        """The values that are held, in the order of the indices."""
        return self._held

    def parts(self) -> list[Tensor]:
        """The dense tensors that it consists of."""
        names = ("_places", "_starts", "_others", "_held")
        return [self.__dict__[name] for name in names if name in self.__dict__]

    def realize(self) -> SparseTensor:
        """Compute indices and values now; returns the tensor."""
        realize(*self.parts())
        return self

    def with_values(self: S, values: Tensor) -> S:
        """A tensor with other values at the same indices."""
        made = object.__new__(type(self))
        made.__dict__.update({k: v for k, v in self.__dict__.items() if k in self._MEMBERS})
        made._held = values
        return made

    _MEMBERS: frozenset[str] = frozenset()

    def become(self, other: SparseTensor) -> SparseTensor:
        """Becomes ``other``, as in-place functions do that hold other elements afterwards."""
        self.__dict__.update({k: v for k, v in other.__dict__.items() if k in self._MEMBERS})
        self._held = other._held
        return self


class CooTensor(SparseTensor):
    """Coordinates: ``_indices`` [sparse_dim, nnz], values [nnz, *dense sizes].

    Attributes:
        _places: the indices, of int64.
        _is_coalesced: whether indices are known to be in order and each there once.
        _checked: whether indices are known to be within the size.
    """

    __slots__ = ()
    __module__ = "lazyt"
    layout = sparse_coo
    is_sparse = True
    _MEMBERS = frozenset({"_places", "_held", "_size", "_is_coalesced", "_checked"})

    if TYPE_CHECKING:
        _places: Tensor
        _is_coalesced: bool
        _checked: bool

    @classmethod
    def joined(cls, parts: list[SparseTensor]) -> Tensor:
        """The sum of gradients: their elements behind each other, in the order of the parts."""
        same = {(type(part), part.sparse_dim(), part.dtype) for part in parts}
        if len(parts) == 1 or len(same) > 1:
            return super().joined(parts)
        indices = ops.concat([part._places.node for part in parts], 1)
        held = [part._held for part in parts]
        values = wrap(ops.concat([part.node for part in held], 0), *held, name="Cat")
        checked = all(part._checked for part in parts)
        return coo(wrap(indices), values, parts[0]._size, False, checked)

    @property
    def strides(self) -> tuple[int, ...]:
        """Zeros: there is no one place for an element."""
        return (0,) * self.ndim

    @property
    def sparse_sizes(self) -> Shape:
        """The extents of the sparse dimensions."""
        return self._size[: self._places.shape[0]]

    def sparse_dim(self) -> int:
        """Number of dimensions that indices have."""
        return int(self._places.shape[0])

    def dense_dim(self) -> int:
        """Number of dimensions that every value has."""
        return len(self._size) - self.sparse_dim()

    def _indices(self) -> Tensor:
        """The indices, coalesced or not: another tensor over their memory."""
        return self._places.detach()

    def is_coalesced(self) -> bool:
        """Whether the indices are known to be in order and each there once."""
        return self._is_coalesced

    def indices(self) -> Tensor:
        """The indices of a coalesced tensor. Raises LazytError for another."""
        self._need_coalesced("indices")
        return self._places.detach()

    def values(self) -> Tensor:
        """The values of a coalesced tensor. Raises LazytError for another."""
        self._need_coalesced("values")
        return self._held

    def _need_coalesced(self, what: str) -> None:
        if not self._is_coalesced:
            raise LazytError(
                f"Cannot get {what} on an uncoalesced tensor, please call .coalesce() first"
            )

    def checked(self) -> CooTensor:
        """The tensor, once its indices were found to be within its size.

        Raises BoundsError where they are not.
        """
        if not self._checked:
            for axis, extent in enumerate(self.sparse_sizes):
                check_range(self._places[axis].node, extent, axis)
            self._checked = True
        return self

    def rows(self, axis: int) -> Node:
        """The indices of one sparse dimension, within its extent."""
        node: Node = self.checked()._places[axis].node
        return node

    def keys(self, skipped: Sequence[int] = ()) -> Node:
        """Positions [nnz] in row-major order of the sparse dimensions, but those ``skipped``."""
        self.checked()
        total: Node | None = None
        for axis, extent in enumerate(self.sparse_sizes):
            if axis in skipped:
                continue
            row = self._places[axis].node
            if total is None:
                total = row
            else:
                total = ops.apply("mul", total, ops.constant(extent, int64))
                total = ops.apply("add", total, row)
        if total is None:
            return ops.broadcast_to(ops.constant(0, int64), (self._nnz(),))
        return total

    def count_of_keys(self, skipped: Sequence[int] = ()) -> int:
        """How many positions there may be in ``keys``."""
        return math.prod(e for a, e in enumerate(self.sparse_sizes) if a not in skipped)

    def to_dense(self, dtype: DType | None = None, *, masked_grad: bool | None = None) -> Tensor:
        """The dense tensor; elements that are there several times are added up."""
        held = self._held if dtype is None else self._held.to(dtype)
        sizes, rest = self.sparse_sizes, tuple(held.shape[1:])
        flat = segments("add", held, self.keys(), math.prod(sizes), "ToDense")
        found: Tensor = flat.reshape((*sizes, *rest))
        return found


class CompressedTensor(SparseTensor):
    """Compressed rows (CSR) or columns (CSC): where each begins, and the other index of values.

    Attributes:
        _starts: where every row begins, and the last ends [rows + 1].
        _others: the columns [nnz].
        _rows: the rows [nnz], once somebody needed them.
    """

    __slots__ = ()
    __module__ = "lazyt"
    layout = sparse_csr
    is_sparse = False
    _MEMBERS = frozenset({"_starts", "_others", "_held", "_size", "_rows", "_checked", "layout"})

    if TYPE_CHECKING:
        _starts: Tensor
        _others: Tensor
        _rows: Tensor | None
        _checked: bool

    @property
    def strides(self) -> tuple[int, ...]:
        """Raises LazytError: there are none."""
        raise LazytError("Sparse CSR tensors do not have strides")

    @property
    def by_rows(self) -> bool:
        """Whether rows are compressed, not columns."""
        return self.layout is sparse_csr

    def sparse_dim(self) -> int:
        """Two: rows and columns."""
        return 2

    def dense_dim(self) -> int:
        """Number of dimensions that every value has."""
        return len(self._size) - 2

    def values(self) -> Tensor:
        """The values, row by row."""
        return self._held

    def _part(self, what: str, by_rows: bool, part: Tensor) -> Tensor:
        if self.by_rows is not by_rows:
            wanted = "row" if by_rows else "column"
            raise LazytError(
                f"{what} expected sparse {wanted} compressed tensor layout but got {self._title()}"
            )
        return part.detach()

    def crow_indices(self) -> Tensor:
        """Where every row begins, and the last ends. Raises LazytError for another layout."""
        return self._part("crow_indices", True, self._starts)

    def col_indices(self) -> Tensor:
        """The columns of the values. Raises LazytError for another layout."""
        return self._part("col_indices", True, self._others)

    def ccol_indices(self) -> Tensor:
        """Where every column begins, and the last ends. Raises LazytError for another layout."""
        return self._part("ccol_indices", False, self._starts)

    def row_indices(self) -> Tensor:
        """The rows of the values. Raises LazytError for another layout."""
        return self._part("row_indices", False, self._others)

    def checked(self) -> CompressedTensor:
        """The tensor, once its indices were found to be within its size; raises BoundsError."""
        if not self._checked:
            axis = 1 if self.by_rows else 0
            check_range(self._others.node, self._size[axis], axis)
            self._checked = True
        return self

    def expanded(self) -> Tensor:
        """The row of every value, or with compressed columns the column."""
        if self._rows is None:
            with no_grad():
                counted = wrap(ops.iota(self._nnz()))
                ends = self._starts[1:].to(int64)
                self._rows = searchsorted(ends, counted, right=True)
        return self._rows

    def rows(self, axis: int) -> Node:
        """The indices of one dimension for every value."""
        self.checked()
        compressed = (axis == 0) is self.by_rows
        found: Tensor = self.expanded() if compressed else self._others.to(int64)
        return found.node

    def to_dense(self, dtype: DType | None = None, *, masked_grad: bool | None = None) -> Tensor:
        """The dense tensor."""
        held = self._held if dtype is None else self._held.to(dtype)
        width = ops.constant(self._size[1], int64)
        keys = ops.apply("add", ops.apply("mul", self.rows(0), width), self.rows(1))
        flat = segments("add", held, keys, self._size[0] * self._size[1], "ToDense")
        found: Tensor = flat.reshape(self._size)
        return found


# ---------------------------------------------------------------------- making them


def coo(
    indices: Tensor, values: Tensor, size: Sequence[int], coalesced: bool = False,
    checked: bool = False,
) -> CooTensor:  # fmt: skip
    """A tensor of these members."""
    made = object.__new__(CooTensor)
    made._places, made._held, made._size = indices, values, tuple(size)
    made._is_coalesced = coalesced or indices.shape[1] < 2
    made._checked = checked or indices.shape[1] == 0
    return made


def compressed(
    starts: Tensor, others: Tensor, values: Tensor, size: Sequence[int], kind: layout = sparse_csr,
    checked: bool = False,
) -> CompressedTensor:  # fmt: skip
    """A tensor of these members."""
    made = object.__new__(CompressedTensor)
    made._starts, made._others, made._held, made._size = starts, others, values, tuple(size)
    made._rows, made._checked = None, checked or others.shape[0] == 0
    made.__dict__["layout"] = kind
    return made


def check_range(index: Node, extent: int, axis: int) -> None:
    """Raise BoundsError where an index is not below ``extent``."""
    if not index.size:
        return
    low, high = value_range(index, within(0, extent - 1))
    if low < 0:
        raise BoundsError(f"found negative index {low} for dim {axis}")
    if high >= extent:
        raise BoundsError(
            f"size is inconsistent with indices: for dim {axis}, size is {extent} but found index "
            f"{high}"
        )


def refuse(tensor: SparseTensor, name: str) -> NoReturn:
    """Raise NoBackendError, in PyTorch's words, for a function that the layout does not have."""
    raise NoBackendError(
        f"Could not run 'aten::{name}' with arguments from the '{tensor._backend()}' backend: "
        "lazyt has it for dense tensors; call to_dense() first"
    )


def need_coo(value: Any, function: str) -> CooTensor:
    """``value`` with coordinates. Raises LazytError, in PyTorch's words, for another layout."""
    if isinstance(value, CooTensor):
        return value
    if not isinstance(value, Tensor):
        raise DTypeError(f"{function}(): argument 'input' must be Tensor")
    title = value._title() if isinstance(value, SparseTensor) else "Strided"
    raise LazytError(f"{function} expected sparse coordinate tensor layout but got {title}")


# ---------------------------------------------------------------------- sums of segments


def segments(kind: str, values: Tensor, keys: Node, count: int, name: str) -> Tensor:
    """Values [nnz, ...] added up, or the largest of them, by their keys: [count, ...].

    Values of one key are taken in their order, whatever the number of threads. Without any the
    result is zero, or negative infinity for ``max``.
    """
    dtype = values.dtype
    node = values.node
    work = int8 if dtype is bool_ else dtype
    start: float | int = 0
    if kind == "max":
        start = -math.inf if dtype.kind == "f" else 0
    base = ops.broadcast_to(constant_of(start, work), (count, *node.shape[1:]))
    if node.shape[0] == 0 or count == 0:
        return wrap(ops.cast(base, dtype), values, name=name)
    if dtype is bool_:
        kind = "max"
    found = ops.scatter(base, keys, ops.cast(node, work), 0, kind)
    return wrap(ops.cast(found, dtype), values, name=name)


def picked(values: Tensor, order: Tensor, name: str = "IndexSelect") -> Tensor:
    """Rows of ``values`` by positions that are known to be within them."""
    if not order.shape[0]:
        return values[:0]
    return wrap(ops.gather(values.node, order.node, 0), values, name=name)
