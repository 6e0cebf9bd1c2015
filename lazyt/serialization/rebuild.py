"""What the names in a saved pickle stand for, and tensors over memories of an archive."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

from lazyt import ops
from lazyt.autograd.handles import require_grad
from lazyt.errors import CheckpointError
from lazyt.handle.device import CPU, check_device, device, place_name
from lazyt.handle.interop.storage_objects import UntypedStorage
from lazyt.handle.layout import layout, sparse_coo, sparse_csc, sparse_csr, strided
from lazyt.handle.storage import Storage
from lazyt.handle.tensor import Size, Tensor
from lazyt.handle.tensor_protocol import place_on
from lazyt.handle.views import check_bounds, contiguous_strides
from lazyt.ir.dtypes import ALL, COMPLEX, DType, dtype_by_name
from lazyt.runtime.memory import Buffer
from lazyt.serialization.archive import Archive
from lazyt.serialization.safe_pickle import Allowed, Called

_DTYPES = {f"torch {t.name}": t for t in (*ALL, *COMPLEX)}
_DTYPES |= {"torch half": _DTYPES["torch float16"], "torch float": _DTYPES["torch float32"]}

STORAGE_NAMES = {
    "float32": "FloatStorage", "float64": "DoubleStorage", "float16": "HalfStorage",
    "bfloat16": "BFloat16Storage", "int64": "LongStorage", "int32": "IntStorage",
    "int16": "ShortStorage", "int8": "CharStorage", "uint8": "ByteStorage", "bool": "BoolStorage",
    "complex64": "ComplexFloatStorage", "complex128": "ComplexDoubleStorage",
}  # fmt: skip


_MOST_DIMENSIONS = 64
_LAYOUTS = {
    "torch.strided": strided, "torch.sparse_coo": sparse_coo, "torch.sparse_csr": sparse_csr,
    "torch.sparse_csc": sparse_csc,
}  # fmt: skip


class StorageKind:
    """The type of a storage as the pickle names it; without a dtype its elements are bytes."""

    def __init__(self, dtype: DType | None) -> None:
        self.dtype = dtype


class FileMemory:
    """A memory of an archive, on which tensors are placed.

    Attributes:
        buffer: the bytes.
        dtype: the type of its elements, None where every tensor brings its own.
        place: the device that the tensors are to be on.
        first: the first tensor on it.
    """

    def __init__(self, buffer: Buffer, dtype: DType | None, place: device) -> None:
        self.buffer = buffer
        self.dtype = dtype
        self.place = place
        self.first: Tensor | None = None

    def tensor(self, dtype: DType, offset: Any, size: Any, stride: Any) -> Tensor:
        """A tensor without history. Raises ShapeError for one that is not inside the memory."""
        shape, strides = _numbers(size), _numbers(stride)
        (offset,) = _numbers((offset,))
        if len(shape) != len(strides):
            raise ValueError("a tensor has as many strides as dimensions")
        count = self.buffer.nbytes // dtype.itemsize
        check_bounds(shape, strides, offset, count, dtype.itemsize)
        if self.first is not None:
            return place_on(self.first._storage.fork(), dtype, shape, strides, offset)
        whole = not offset and strides == contiguous_strides(shape)
        flat = shape if whole and Size(shape).numel() == count else (count,)
        node = ops.input_(flat, dtype, self.buffer)
        return place_on(Storage(node), dtype, shape, strides, offset)


def _numbers(values: Any) -> tuple[int, ...]:
    found = tuple(values)
    if len(found) > _MOST_DIMENSIONS:
        raise ValueError(f"a tensor has at most {_MOST_DIMENSIONS} dimensions, not {len(found)}")
    if any(type(n) is not int or not 0 <= n < 1 << 63 for n in found):
        raise ValueError("sizes, strides and offsets are whole numbers of 63 bits")
    return found


def _leaf(memory: FileMemory, tensor: Tensor, requires_grad: bool) -> Tensor:
    if requires_grad:
        require_grad(tensor, True)
    if memory.first is None:
        memory.first = tensor
    return tensor


def _rebuild_tensor(
    memory: FileMemory, offset: int, size: Any, stride: Any, requires_grad: bool = False,
    hooks: Any = None, metadata: Any = None,
) -> Tensor:  # fmt: skip
    if not isinstance(memory, FileMemory):
        raise TypeError("a tensor is made of a storage")
    return _rebuilt(memory, memory.dtype, offset, size, stride, requires_grad, metadata)


def _rebuilt(
    memory: FileMemory, kind: Any, offset: int, size: Any, stride: Any, requires_grad: bool,
    metadata: Any,
) -> Tensor:  # fmt: skip
    if not isinstance(kind, DType):
        raise TypeError("a tensor has a dtype")
    if metadata is not None and not isinstance(metadata, dict):
        raise TypeError("facts about a tensor are a dictionary")
    placed = memory.tensor(kind, offset, size, stride)
    if memory.place.type != "cpu":
        placed = placed.to(memory.place)
    if metadata and metadata.get("conj"):
        placed = placed.conj()
    if metadata and metadata.get("neg"):
        placed = -placed
    return _leaf(memory, placed, bool(requires_grad))


def _rebuild_tensor_v3(
    memory: FileMemory, offset: int, size: Any, stride: Any, requires_grad: bool, hooks: Any,
    dtype: DType, metadata: Any = None,
) -> Tensor:  # fmt: skip
    if not isinstance(memory, FileMemory):
        raise TypeError("a tensor is made of a storage")
    return _rebuilt(memory, dtype, offset, size, stride, requires_grad, metadata)


def _rebuild_parameter(data: Tensor, requires_grad: bool, hooks: Any, state: Any = None) -> Tensor:
    from lazyt.nn.parameter import Parameter

    if not isinstance(data, Tensor):
        raise TypeError("a parameter is made of a tensor")
    made = object.__new__(Parameter)
    made._storage, made._view = data._storage, data._view
    if requires_grad:
        require_grad(made, True)
    _set_state(made, state)
    return made


def _rebuild_sparse_tensor(kind: Any, parts: Any) -> Tensor:
    from lazyt.functional.sparse.creation import rebuilt

    if not isinstance(kind, layout) or kind is strided or not isinstance(parts, tuple):
        raise TypeError("a sparse tensor is made of its layout and its members")
    return rebuilt(kind, parts)


def _set_state(made: Tensor, state: Any) -> None:
    if isinstance(state, tuple):
        state = state[0]
    if state:
        if not isinstance(state, dict) or any(type(name) is not str for name in state):
            raise TypeError("attributes of a tensor are a dictionary")
        made.__dict__.update(state)


def _rebuild_from_type(function: Any, kind: Any, arguments: tuple[Any, ...], state: Any) -> Tensor:
    if not isinstance(function, Called) or not isinstance(kind, Called):
        raise TypeError("a tensor of another class is made of a function and a class")
    wanted: Any = kind.function
    made = function.function(*arguments)
    if not isinstance(made, Tensor) or not issubclass(wanted, Tensor):
        raise TypeError("a tensor of another class is made of a tensor and its class")
    alike: Tensor = made
    if type(made) is not wanted:
        alike = object.__new__(wanted)
        alike._storage, alike._view = made._storage, made._view
    _set_state(alike, state)
    return alike


def _encode(text: str, coding: str) -> bytes:
    """How pickles of protocol 2 spell bytes."""
    if coding != "latin1":
        raise ValueError(f"bytes are spelt in latin1, not {coding}")
    return text.encode("latin1")


def _bytearray(data: Any = b"", coding: str = "latin1") -> bytearray:
    if isinstance(data, str):
        return bytearray(_encode(data, coding))
    if not isinstance(data, (bytes, bytearray)):
        raise TypeError("a bytearray is made of bytes")  # a number would ask for that much memory
    return bytearray(data)


def _table() -> dict[str, Any]:
    from lazyt.nn.parameter import Parameter

    named: dict[str, Any] = dict(_DTYPES)
    for name, storage in STORAGE_NAMES.items():
        named[f"torch {storage}"] = StorageKind(dtype_by_name(name))
    named["torch.storage UntypedStorage"] = StorageKind(None)
    named["torch UntypedStorage"] = StorageKind(None)
    for function in (_rebuild_tensor_v3, _rebuild_parameter, _rebuild_sparse_tensor):
        named[f"torch._utils {function.__name__}"] = Called(function)
    for name in ("_rebuild_tensor", "_rebuild_tensor_v2"):
        named[f"torch._utils {name}"] = Called(_rebuild_tensor)
    named["torch._utils _rebuild_parameter_with_state"] = Called(_rebuild_parameter)
    named["torch._tensor _rebuild_from_type_v2"] = Called(_rebuild_from_type, takes_functions=True)
    named["torch Tensor"] = Called(Tensor)
    named["torch.nn.parameter Parameter"] = Called(Parameter)
    named["torch Size"] = Called(Size)
    named["torch device"] = Called(device)
    named["torch.serialization _get_layout"] = Called(_layout)
    named["collections OrderedDict"] = Called(OrderedDict)
    named["collections Counter"] = Called(Counter)
    named["_codecs encode"] = Called(_encode)
    makers: dict[str, Callable[..., Any]] = {
        "set": set, "frozenset": frozenset, "complex": complex, "bytearray": _bytearray,
    }  # fmt: skip
    for name, maker in makers.items():
        for module in ("builtins", "__builtin__"):
            named[f"{module} {name}"] = Called(maker)
    return named


def _layout(name: str) -> Any:
    if name not in _LAYOUTS:
        raise ValueError(f"tensors of the layout {name} are not supported")
    return _LAYOUTS[name]


class Finder:
    """Looks names up, first among the user's.

    Args:
        users: classes that the user allowed, by their names with a space before the last part.
        title: the file, for messages.
    """

    def __init__(self, users: dict[str, Any], title: str) -> None:
        self._known = {**_table(), **{name: Allowed(kind) for name, kind in users.items()}}
        self._title = title

    def __call__(self, module: str, name: str) -> Any:
        """The value of ``module.name``; raises CheckpointError for a name that is not known."""
        found = self.known(module, name)
        if found is not None:
            return found
        advice = (
            "If you trust who made the file, load it with weights_only=False, which may run code "
            "of it; or allow this class alone: import it and call "
            f"lazyt.serialization.add_safe_globals([{name}]) first."
        )
        if module.startswith(("torch.nn", "lazyt.nn", "__main__")):
            advice += " Of a model, better save model.state_dict() and not the model."
        raise CheckpointError(
            f"Weights only load failed: {self._title} holds {module}.{name}, which load() does not "
            "make with weights_only=True, its default: it builds tensors and plain containers and "
            f"runs nothing of a file. {advice}"
        )

    def known(self, module: str, name: str) -> Any:
        """The value of ``module.name`` where it is known, else None."""
        return self._known.get(f"{module} {name}")


class Loader:
    """Turns the persistent ids of a pickle into memories of the archive."""

    def __init__(self, archive: Archive, map_location: Any) -> None:
        self._archive = archive
        self._map = map_location
        self._swapped = archive.swapped
        self._known: dict[str, FileMemory] = {}

    def __call__(self, name: Any) -> FileMemory:
        """The memory with this id; every one is read once."""
        if not isinstance(name, tuple) or len(name) != 5 or name[0] != "storage":
            raise CheckpointError(
                f"the pickle inside asks for a {type(name).__name__}, which is no storage"
            )
        _, kind, key, location, count = name
        if not isinstance(kind, StorageKind) or type(key) is not str or type(location) is not str:
            raise CheckpointError("the pickle inside asks for an unknown kind of storage")
        found = self._known.get(key)
        if found is None:
            (size,) = _numbers((count,))
            itemsize = kind.dtype.itemsize if kind.dtype else 1
            buffer = self._archive.memory(key, size * itemsize)
            if self._swapped and itemsize > 1 and kind.dtype is not None:
                buffer.as_numpy(kind.dtype, (size,)).byteswap(inplace=True)
            place = self._place(location, buffer)
            if place is not CPU:
                from lazyt.runtime.cuda.device import device_at

                buffer = device_at(place_name(place)).upload(buffer)
            found = self._known[key] = FileMemory(buffer, kind.dtype, place)
        return found

    def _place(self, location: str, buffer: Buffer) -> device:
        """Where ``map_location`` puts a memory that was on ``location``."""
        wanted: Any = self._map
        if isinstance(wanted, dict):
            wanted = wanted.get(location, location)
        elif isinstance(wanted, Callable):  # type: ignore[arg-type]
            flat = ops.input_((buffer.nbytes,), dtype_by_name("uint8"), buffer)
            given = wanted(UntypedStorage(_storage=Storage(flat)), location)
            wanted = location if given is None else given.device
        return check_device(location if wanted is None else wanted)
