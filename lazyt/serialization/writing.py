"""Turning objects into the pickle of an archive, and their tensors into its memories."""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from lazyt.errors import LazytError
from lazyt.handle import pending
from lazyt.handle.device import device
from lazyt.handle.layout import layout, strided
from lazyt.handle.tensor import Size, Tensor
from lazyt.handle.tensor_protocol import memory_node, memory_of
from lazyt.ir.dtypes import DType
from lazyt.ir.graph import Node
from lazyt.serialization.rebuild import STORAGE_NAMES


class _Global:
    """A name of PyTorch's that the pickle refers to; nothing of that name has to exist here."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __call__(self, *args: Any) -> None:
        """Only there because pickle asks whether what it calls is callable."""
        raise LazytError(f"{self.module}.{self.name} is a name in a file")


class _Reference:
    """A storage as the pickle refers to it."""

    def __init__(self, key: tuple[object, ...]) -> None:
        self.key = key


class _Values:
    """The tensor below a parameter."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


_names: dict[tuple[str, str], _Global] = {}


def _global(module: str, name: str) -> _Global:
    return _names.setdefault((module, name), _Global(module, name))


def _no_hooks() -> OrderedDict[str, Any]:
    return OrderedDict()


# The one of Python's two picklers that lets names be written that cannot be imported here.
class Pickler(pickle._Pickler):
    """Writes one pickle, and collects the memories of its tensors.

    Attributes:
        memories: the values of the memories, in the order of their keys.
    """

    dispatch: ClassVar[Any] = dict(pickle._Pickler.dispatch)
    write: Callable[[bytes], object]
    memoize: Callable[[Any], None]

    def __init__(self, file: io.BytesIO, protocol: int) -> None:
        super().__init__(file, protocol)
        self.memories: list[Node] = []
        self._known: dict[int, tuple[object, _Reference, DType]] = {}

    def persistent_id(self, obj: Any) -> tuple[object, ...] | None:
        """What stands for a storage in the pickle."""
        return obj.key if isinstance(obj, _Reference) else None

    def reducer_override(self, obj: Any) -> Any:
        """How to write tensors, sizes and devices: in PyTorch's names."""
        if isinstance(obj, Tensor):
            return self._reduce_tensor(obj)
        if isinstance(obj, layout):
            name = repr(obj).rpartition(".")[2]
            return _global("torch.serialization", "_get_layout"), (f"torch.{name}",)
        if isinstance(obj, _Values):
            return self._plain(obj.tensor, False)
        if isinstance(obj, Size):
            return _global("torch", "Size"), (tuple(obj),)
        if isinstance(obj, device):
            number = () if obj.index is None else (obj.index,)
            return _global("torch", "device"), (obj.type, *number)
        return NotImplemented

    def _reduce_tensor(self, tensor: Tensor) -> Any:
        if tensor.layout is not strided:
            from lazyt.functional.sparse.creation import members

            return _global("torch._utils", "_rebuild_sparse_tensor"), members(tensor)
        state = {k: v for k, v in tensor.__dict__.items() if k != "_grad"}
        kind: Any = type(tensor)
        if hasattr(kind, "parts_on_this_rank"):  # written as it says itself, its part as a tensor
            return NotImplemented
        if (kind.__module__, kind.__name__) == ("lazyt.nn.parameter", "Parameter"):
            arguments = (_Values(tensor), tensor.requires_grad, _no_hooks())
            if not state:
                return _global("torch._utils", "_rebuild_parameter"), arguments
            named = _global("torch._utils", "_rebuild_parameter_with_state")
            return named, (*arguments, state)
        plain = self._plain(tensor, tensor.requires_grad)
        if kind is Tensor:
            kind = _global("torch", "Tensor")
            if not state:
                return plain
        return _global("torch._tensor", "_rebuild_from_type_v2"), (plain[0], kind, plain[1], state)

    def _plain(self, tensor: Tensor, requires_grad: bool) -> tuple[Any, tuple[Any, ...]]:
        dtype = tensor.dtype
        form = (self._reference(tensor), tensor._offset, tuple(tensor.shape), tensor.strides)
        history = (requires_grad, _no_hooks())
        conjugated = tensor._view is not None and tensor._view.conjugated
        facts = ({"conj": True},) if conjugated else ()
        if dtype.name in STORAGE_NAMES:
            return _global("torch._utils", "_rebuild_tensor_v2"), (*form, *history, *facts)
        return _global("torch._utils", "_rebuild_tensor_v3"), (*form, *history, dtype, *facts)

    def _reference(self, tensor: Tensor) -> _Reference:
        anchor, dtype = memory_of(tensor), tensor.dtype
        known = self._known.get(id(anchor))
        if known is not None:
            if known[2] is not dtype:
                raise LazytError(
                    "Cannot save multiple tensors or storages that view the same data as "
                    "different types"
                )
            return known[1]
        node = memory_node(tensor)
        key, count = str(len(self.memories)), node.nbytes
        storage = _global("torch.storage", "UntypedStorage")
        if dtype.name in STORAGE_NAMES:
            storage = _global("torch", STORAGE_NAMES[dtype.name])
            count //= dtype.itemsize
        self.memories.append(node)
        made = _Reference(("storage", storage, key, str(tensor.device), count))
        self._known[id(anchor)] = (anchor, made, dtype)
        return made

    def _save_name(self, obj: _Global) -> None:
        self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
        self.memoize(obj)

    def _save_dtype(self, obj: DType) -> None:
        self.write(pickle.GLOBAL + f"torch\n{obj.name}\n".encode())
        self.memoize(obj)

    dispatch[_Global] = _save_name
    dispatch[DType] = _save_dtype


def write_objects(obj: Any, protocol: int) -> tuple[bytes, list[np.ndarray[Any, Any]]]:
    """The pickle of ``obj`` and the values of its memories, computed now.

    Raises LazytError for tensors of several types over one memory, and what ``pickle`` raises for
    objects that cannot be pickled.
    """
    text = io.BytesIO()
    pickler = Pickler(text, protocol)
    pickler.dump(obj)
    pending.realize_now(pickler.memories, "they are saved")
    arrays = [node.data.as_numpy(node.dtype, (node.size,)) for node in pickler.memories]
    return text.getvalue(), arrays
