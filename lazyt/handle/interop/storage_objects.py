"""What ``storage()`` and ``untyped_storage()`` give: a tensor's whole memory as an object."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from lazyt import ops
from lazyt.errors import BoundsError, DTypeError, LazytError
from lazyt.functional.shapes.view_shapes import arranged, c_name
from lazyt.functional.type_promotion import get_default_dtype
from lazyt.handle.device import device, device_of
from lazyt.handle.dispatch import method, one_memory, type_title
from lazyt.handle.interop.numpy import from_numpy
from lazyt.handle.storage import Storage
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import ALL, DType, package_name, uint8
from lazyt.ir.forms import place_of
from lazyt.runtime.memory import Buffer

__all__ = ["TypedStorage", "UntypedStorage", "is_storage"]


def _is_shared(storage: Storage) -> bool:
    if storage.exposure() is None:
        return False
    from lazyt.handle.interop.shared_memory import is_shared

    return is_shared(storage)


def _share(storage: Storage) -> None:
    from lazyt.handle.interop.shared_memory import share

    share(storage)


def _zeros(count: int, dtype: DType) -> Storage:
    lone = ops.reshape(ops.constant(0, dtype), (1,))
    return Storage(ops.expand(lone, (count,)))


class _Store:
    """A storage as elements of one dtype.

    Attributes:
        dtype: the type of the elements.
    """

    dtype: DType
    _storage: Storage
    _length: int | None = None

    is_sparse = False

    @property
    def device(self) -> device:
        """Where the memory is."""
        return device_of(place_of(self._storage.node.form))

    @property
    def is_cuda(self) -> bool:
        """Whether the memory is that of a CUDA device."""
        return self.device.type == "cuda"

    @property
    def _cdata(self) -> int:
        return id(self._storage.memory())

    def over(self, tensor: Tensor) -> Storage:
        """The storage, for ``tensor`` to look at. Raises DTypeError for one of another type."""
        return self._storage

    def as_vector(self) -> Tensor:
        """All elements as a vector that writes to the memory, unseen by autograd."""
        storage = self._storage.whole(self.dtype).fork(silent=True)
        made = object.__new__(Tensor)
        count = self.size()
        made._storage, made._view = storage, arranged(storage, (count,), (1,), 0)
        return made

    def nbytes(self) -> int:
        """Number of bytes."""
        return self._storage.nbytes if self._length is None else self._length

    def size(self) -> int:
        """Number of elements."""
        return self.nbytes() // self.dtype.itemsize

    def element_size(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize

    def data_ptr(self) -> int:
        """The address of the memory; 0 when it is empty. On a device: where the values are now."""
        if not self.nbytes():
            return 0
        if place_of(self._storage.current().form):
            return self._storage.placed_pointer()
        return self._storage.expose(forever=True).ptr

    def tolist(self) -> list[Any]:
        """All elements."""
        found: list[Any] = self.as_vector().tolist()
        return found

    def fill_(self, value: Any) -> Any:
        """Write one value everywhere."""
        self.as_vector().fill_(value)
        return self

    def copy_(self, source: _Store, non_blocking: bool = False) -> Any:
        """Write the elements of another storage, of the same number."""
        self.as_vector().copy_(source.as_vector())
        return self

    def is_shared(self) -> bool:
        """Whether other processes see the memory."""
        return _is_shared(self._storage)

    def is_pinned(self) -> bool:
        """Whether the memory is pinned for transfers to a GPU: never."""
        return False

    def cpu(self) -> Any:
        """This storage."""
        return self

    def __len__(self) -> int:
        return self.size()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def _place(self, index: Any) -> int:
        size = self.size()
        if not -size <= index < size:
            raise BoundsError(f"index {index} out of range for storage of size {size}")
        return int(index) % size

    def _head(self) -> str:
        return "".join(f" {value}\n" for value in self.tolist())


class UntypedStorage(_Store):
    """A memory as bytes.

    ``UntypedStorage(8)`` is a new one of 8 bytes, ``UntypedStorage([1, 2])`` has those bytes.
    """

    __module__ = "lazyt"

    def __init__(self, size: Any = 0, *, device: Any = None, _storage: Storage | None = None):
        self.dtype = uint8
        if _storage is not None:
            self._storage = _storage
        elif isinstance(size, int):
            self._storage = _zeros(size, uint8)
        else:
            self._storage = _from_values(size, uint8)

    @staticmethod
    def from_file(filename: Any, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """The bytes of a file, read when they are used; writes change the file if ``shared``, which
        then grows to ``nbytes``. Raises LazytError where there are fewer bytes."""
        with open(filename, "r+b" if shared else "rb") as file:
            length = os.fstat(file.fileno()).st_size
            if shared and length < nbytes:
                file.truncate(nbytes)
            elif length < nbytes:
                raise LazytError(
                    f"file <{filename}> size <{length}> is smaller than the required mapping size "
                    f"<{nbytes}>"
                )
            if not nbytes:
                return UntypedStorage(0)
            access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
            mapped = mmap.mmap(file.fileno(), nbytes, access=access)
        return UntypedStorage(_storage=from_numpy(np.frombuffer(mapped, np.uint8))._storage)

    def resizable(self) -> bool:
        """Whether the memory may grow: NumPy's may not."""
        return not self._storage.is_fixed

    def resize_(self, size: int) -> UntypedStorage:
        """Have ``size`` bytes; new ones are zeros. Raises LazytError for memory of NumPy's."""
        if not self.resizable():
            raise LazytError("Trying to resize storage that is not resizable")
        if size > self._storage.nbytes:
            self._storage.enlarge(size)
        self._length = None if size == self._storage.nbytes else size
        return self

    def clone(self) -> UntypedStorage:
        """A copy."""
        return UntypedStorage(_storage=_copied(self))

    def untyped(self) -> UntypedStorage:
        """This storage."""
        return self

    def share_memory_(self) -> UntypedStorage:
        """Move the memory to where other processes see it (``Tensor.share_memory_``)."""
        _share(self._storage)
        return self

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return UntypedStorage(_storage=Storage(self.as_vector()[index].contiguous().node))
        return self.as_vector()[self._place(index)].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        self.as_vector()[index if isinstance(index, slice) else self._place(index)] = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and self._cdata == other._cdata

    def __hash__(self) -> int:
        return self._cdata

    def __repr__(self) -> str:
        return (
            f"{self._head()}[{package_name()}.storage.UntypedStorage(device=cpu) of size "
            f"{self.size()}]"
        )


class TypedStorage(_Store):
    """A memory as elements of a dtype.

    ``TypedStorage([1, 2], dtype=lazyt.int32)`` is a new one of those values.
    """

    __module__ = "lazyt"

    def __init__(
        self, *args: Any, wrap_storage: UntypedStorage | None = None, dtype: DType | None = None,
        device: Any = None, _storage: Storage | None = None,
    ) -> None:  # fmt: skip
        self.dtype = dtype or get_default_dtype()
        if wrap_storage is not None:
            _storage = wrap_storage._storage
        if _storage is not None:
            self._storage = _storage
        elif not args or isinstance(args[0], int):
            self._storage = _zeros(args[0] if args else 0, self.dtype)
        else:
            self._storage = _from_values(args[0], self.dtype)

    def over(self, tensor: Tensor) -> Storage:
        """The storage, for ``tensor`` to look at. Raises DTypeError for one of another type."""
        if tensor.dtype is not self.dtype:
            raise DTypeError(
                f"Expected a Storage of type {c_name(tensor.dtype)} or an UntypedStorage, but got "
                f"type {type_title(self.dtype)} for argument 1 'storage'"
            )
        return self._storage

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        return UntypedStorage(_storage=self._storage)

    def resize_(self, size: int) -> TypedStorage:
        """Have ``size`` elements; new ones are zeros."""
        self.untyped().resize_(size * self.dtype.itemsize)
        return self

    def clone(self) -> TypedStorage:
        """A copy."""
        return TypedStorage(dtype=self.dtype, _storage=_copied(self))

    def type(self) -> str:
        """Its name, such as ``lazyt.FloatStorage``."""
        return f"{package_name()}.{type_title(self.dtype)}Storage"

    def share_memory_(self) -> TypedStorage:
        """Move the memory to where other processes see it (``Tensor.share_memory_``)."""
        _share(self._storage)
        return self

    def to(self, dtype: DType) -> TypedStorage:
        """A copy of the values in another dtype; this storage when it is that already."""
        if dtype is self.dtype:
            return self
        return TypedStorage(dtype=dtype, _storage=Storage(self.as_vector().to(dtype).node))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            raise LazytError("slices are only supported in UntypedStorage.__getitem__")
        return self.as_vector()[self._place(index)].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        self.as_vector()[index if isinstance(index, slice) else self._place(index)] = value

    def __eq__(self, other: object) -> bool:
        alike = isinstance(other, TypedStorage) and self.dtype is other.dtype
        return alike and self._cdata == other._cdata  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return self._cdata

    def __repr__(self) -> str:
        kind = f"{package_name()}.storage.TypedStorage"
        return f"{self._head()}[{kind}(dtype={self.dtype}, device=cpu) of size {self.size()}]"


def _copied(store: _Store) -> Storage:
    flat = store.as_vector()
    return Storage(flat.node)


def _from_values(values: Any, dtype: DType) -> Storage:
    array = np.asarray(list(values)).astype(dtype.numpy)
    buffer = Buffer(array.nbytes)
    buffer.as_numpy(dtype, array.shape)[...] = array
    return Storage(ops.input_(tuple(array.shape), dtype, buffer))


def _converter(name: str, dtype: DType) -> None:
    def convert(self: TypedStorage) -> TypedStorage:
        return self.to(dtype)

    convert.__name__ = convert.__qualname__ = name
    convert.__doc__ = f"The values as {dtype.name}."
    setattr(TypedStorage, name, convert)


for _title, _name in {"float": "float32", "double": "float64", "half": "float16", "int": "int32",
                      "long": "int64", "short": "int16", "char": "int8", "byte": "uint8",
                      "bool": "bool", "bfloat16": "bfloat16"}.items():  # fmt: skip
    _converter(_title, next(d for d in ALL if d.name == _name))


# ---------------------------------------------------------------------- methods of tensors


@method()
def untyped_storage(self: Tensor) -> UntypedStorage:
    """The memory that this tensor, and its views, show, as bytes."""
    return UntypedStorage(_storage=self._storage)


@method()
def storage(self: Tensor) -> TypedStorage:
    """The memory that this tensor, and its views, show, as elements of its dtype."""
    return TypedStorage(dtype=self.dtype, _storage=self._storage)


@method()
def storage_type(self: Tensor) -> type[TypedStorage]:
    """The class of ``storage()``."""
    return TypedStorage


@method()
def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both show the same elements of the same memory in the same way."""
    return (
        one_memory(self._storage, tensor._storage)
        and self._offset == tensor._offset
        and self.shape == tensor.shape
        and self.strides == tensor.strides
    )


@method()
def share_memory_(self: Tensor) -> Tensor:
    """Move the memory to where other processes see it; returns the tensor.

    Processes that are forked from then on, and those that are sent the tensor by
    ``multiprocessing``, read and write the same memory. Tensors of other devices stay where they
    are. A captured function does not read such a tensor other than as an argument.
    """
    _share(self._storage)
    return self


@method()
def is_shared(self: Tensor) -> bool:
    """Whether other processes see the memory, after ``share_memory_``."""
    return _is_shared(self._storage)


def is_storage(obj: Any) -> bool:
    """Whether ``obj`` is a storage object."""
    return isinstance(obj, _Store)
