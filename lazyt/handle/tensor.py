"""The Tensor handle: a Storage and a way to look at it.

The class itself knows only what every function needs. Functions elsewhere become methods with
``dispatch.method``; the declarations under TYPE_CHECKING tell type checkers about operators.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from lazyt.handle.device import CPU, device, device_of
from lazyt.handle.hooks import hook
from lazyt.handle.layout import follows
from lazyt.handle.storage import Storage
from lazyt.handle.tape import AccumulateGrad, GradFn
from lazyt.handle.views import View, contiguous_strides, is_contiguous
from lazyt.ir.dtypes import DType, package_name
from lazyt.ir.forms import PLACED, place_of
from lazyt.ir.graph import Node

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazyt.tensor_methods import TensorMethods
else:
    TensorMethods = object


class Size(tuple[int, ...]):
    """A shape. Prints as ``lazyt.Size([2, 3])``; otherwise a tuple."""

    __slots__ = ()
    __module__ = "lazyt"

    def numel(self) -> int:
        """Number of elements of a tensor of this size."""
        total = 1
        for extent in self:
            total *= extent
        return total

    def __repr__(self) -> str:
        return f"{package_name()}.Size({list(self)})"

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return Size(found) if isinstance(index, slice) else found

    def __add__(self, other: Any) -> Size:
        return Size((*self, *other))

    def __radd__(self, other: Any) -> Size:
        return Size((*other, *self))

    def __mul__(self, count: Any) -> Size:
        return Size(tuple(self) * count)

    __rmul__ = __mul__

    def __reduce__(self) -> tuple[object, ...]:
        return (Size, (tuple(self),))


class Tensor(TensorMethods):
    """An n-dimensional array whose value is computed when somebody looks at it.

    Make tensors with ``lazyt.tensor``, ``lazyt.zeros`` and the like.
    """

    __slots__ = ("__dict__", "__weakref__", "_storage", "_view")
    __module__ = "lazyt"

    if TYPE_CHECKING:  # not for typing.get_type_hints of subclasses, which would look for the names
        _storage: Storage
        _view: View | None

    # ------------------------------------------------------------------ the value

    @property
    def node(self) -> Node:
        """The value now, as a pure graph node of the tensor's shape."""
        view, storage = self._view, self._storage
        if view is not None:
            return view.read(storage)
        if storage.share is None and hook.watcher is None:
            node = storage.node
            if node.data is None or not node.inputs:
                return node
        return storage.current()

    @property
    def _fn(self) -> GradFn | None:
        view = self._view
        if view is None:
            return self._storage.fn
        return view.fn_now(self._storage)

    # ------------------------------------------------------------------ what it looks like

    @property
    def shape(self) -> Size:
        """Extent of every dimension."""
        view = self._view
        return Size(self._storage.node.shape if view is None else view.shape)

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        view = self._view
        if view is not None and view.dtype is not None:
            return view.dtype
        return self._storage.node.dtype

    @property
    def device(self) -> device:
        """Where the values are."""
        form = self._storage.node.form
        return CPU if form > PLACED else device_of(place_of(form))

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        view = self._view
        return len(self._storage.node.shape if view is None else view.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """Distance in memory, in elements, between neighbours along every dimension."""
        view = self._view
        return contiguous_strides(self._storage.node.shape) if view is None else view.strides

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.shape.numel() * self.itemsize

    @property
    def _offset(self) -> int:
        view = self._view
        return 0 if view is None else view.offset

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether the elements lie in row-major order, or in ``memory_format``, without gaps."""
        view = self._view
        if memory_format is not None:
            return follows(tuple(self.shape), self.strides, memory_format)
        return view is None or is_contiguous(view.shape, view.strides)

    # ------------------------------------------------------------------ gradients

    @property
    def is_leaf(self) -> bool:
        """Whether the tensor is no result of differentiable functions."""
        fn = self._fn
        return fn is None or isinstance(fn, AccumulateGrad)

    @property
    def grad_fn(self) -> GradFn | None:
        """How the tensor was made from tensors that require gradients; None for leaves."""
        fn = self._fn
        if fn is None or isinstance(fn, AccumulateGrad):
            return None
        fn.extra.owner = weakref.ref(self)
        return fn

    if not TYPE_CHECKING:  # checkers know all attributes that there are

        def __getattr__(self, name: str) -> Any:
            from lazyt.compat.absent import AbsentName

            raise AbsentName(f"'{type(self).__name__}' object", name, lambda: dir(type(self)))

    # The class of the numbers 0 to 3 in PyTorch's reading of `tensor == other` is a tensor, so
    # identity has to be the hash.
    def __hash__(self) -> int:
        return id(self)

    if TYPE_CHECKING:  # written elsewhere

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...
        @staticmethod
        def _make_subclass(cls: type[Any], data: Tensor, require_grad: bool = False) -> Any: ...
        @staticmethod
        def _make_wrapper_subclass(cls: type[Any], size: Any, **options: Any) -> Any: ...

        requires_grad: bool
        grad: Tensor | None
        data: Tensor
        __torch_function__: Any

        def _indices(self) -> Tensor: ...
        def _nnz(self) -> int: ...
        def _values(self) -> Tensor: ...
        def __len__(self) -> int: ...
        def __iter__(self) -> Iterator[Tensor]: ...
        def __getitem__(self, index: Any) -> Tensor: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...
        def __float__(self) -> float: ...
        def __int__(self) -> int: ...
        def __bool__(self) -> bool: ...
        def __index__(self) -> int: ...
        def __neg__(self) -> Tensor: ...
        def __pos__(self) -> Tensor: ...
        def __abs__(self) -> Tensor: ...
        def __invert__(self) -> Tensor: ...
        def __add__(self, other: Any) -> Tensor: ...
        def __radd__(self, other: Any) -> Tensor: ...
        def __iadd__(self, other: Any) -> Tensor: ...
        def __sub__(self, other: Any) -> Tensor: ...
        def __rsub__(self, other: Any) -> Tensor: ...
        def __isub__(self, other: Any) -> Tensor: ...
        def __mul__(self, other: Any) -> Tensor: ...
        def __rmul__(self, other: Any) -> Tensor: ...
        def __imul__(self, other: Any) -> Tensor: ...
        def __truediv__(self, other: Any) -> Tensor: ...
        def __rtruediv__(self, other: Any) -> Tensor: ...
        def __itruediv__(self, other: Any) -> Tensor: ...
        def __floordiv__(self, other: Any) -> Tensor: ...
        def __rfloordiv__(self, other: Any) -> Tensor: ...
        def __mod__(self, other: Any) -> Tensor: ...
        def __rmod__(self, other: Any) -> Tensor: ...
        def __pow__(self, other: Any) -> Tensor: ...
        def __rpow__(self, other: Any) -> Tensor: ...
        def __matmul__(self, other: Any) -> Tensor: ...
        def __rmatmul__(self, other: Any) -> Tensor: ...
        def __and__(self, other: Any) -> Tensor: ...
        def __or__(self, other: Any) -> Tensor: ...
        def __xor__(self, other: Any) -> Tensor: ...
        def __lshift__(self, other: Any) -> Tensor: ...
        def __rshift__(self, other: Any) -> Tensor: ...
        def __lt__(self, other: Any) -> Tensor: ...
        def __le__(self, other: Any) -> Tensor: ...
        def __gt__(self, other: Any) -> Tensor: ...
        def __ge__(self, other: Any) -> Tensor: ...
        def __eq__(self, other: Any) -> Tensor: ...  # type: ignore[override]
        def __ne__(self, other: Any) -> Tensor: ...  # type: ignore[override]
