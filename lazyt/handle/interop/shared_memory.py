"""Memory of tensors that several processes see: ``share_memory_()``.

The values lie in a file without a name that is mapped into memory, once for each process. A forked
process has the mapping of its parent. Others get a descriptor of the file when a tensor is sent to
them by ``multiprocessing``: as an argument of a process, or through a queue.
"""

from __future__ import annotations

import mmap
import os
import pickle
import tempfile
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any

import numpy as np

from lazyt.handle.interop.numpy import tensor_over
from lazyt.handle.storage import Exposure, Storage
from lazyt.handle.tensor import Tensor
from lazyt.handle.tensor_protocol import as_kind, place_on
from lazyt.ir.dtypes import dtype_by_name
from lazyt.ir.forms import PLACED
from lazyt.runtime.memory import Buffer

__all__ = ["is_shared", "share"]


class SharedMapping:
    """Memory that processes share.

    Attributes:
        descriptor: of the file.
        pointer: the address of the first byte.
        nbytes: how many there are.

    Args:
        descriptor: of a file of that size; None for a new one.
    """

    def __init__(self, nbytes: int, descriptor: int | None = None) -> None:
        if descriptor is None:
            descriptor = _new_file(nbytes)
        self.descriptor, self.nbytes = descriptor, nbytes
        self._map = mmap.mmap(descriptor, max(nbytes, 1))
        self._bytes = np.frombuffer(self._map, np.uint8)
        self.pointer: int = self._bytes.__array_interface__["data"][0]

    def __del__(self) -> None:
        descriptor = getattr(self, "descriptor", None)
        if descriptor is not None:
            os.close(descriptor)


def _new_file(nbytes: int) -> int:
    """The descriptor of a file of zeros that no folder has."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("lazyt", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, max(nbytes, 1))
    return descriptor


def mapping_of(storage: Storage) -> SharedMapping | None:
    """The mapping that a storage's memory is in, None where it is in no such."""
    exposed = storage.exposure()
    owner = None if exposed is None else getattr(exposed.buffer, "_owner", None)
    return owner if isinstance(owner, SharedMapping) else None


def is_shared(storage: Storage) -> bool:
    """Whether other processes see the memory."""
    return mapping_of(storage) is not None


def share(storage: Storage) -> None:
    """Moves the memory to where other processes see it; nothing for memory of a device. Arrays of
    NumPy over it keep the memory that they have."""
    memory = storage.memory()
    if mapping_of(storage) is not None or memory.value.form < PLACED:
        return
    storage.expose(forever=True)
    memory = storage.memory()
    exposed = memory.exposure
    assert exposed is not None
    mapping = SharedMapping(exposed.buffer.nbytes)
    buffer = Buffer.foreign(mapping.pointer, mapping.nbytes, mapping)
    buffer.copy_from(exposed.buffer.ptr, mapping.nbytes)
    memory.exposure = Exposure(buffer, None)
    memory.content += 1
    _let_send()


# ------------------------------------------------------------------------- to other processes


def _reduced(tensor: Tensor) -> Any:
    """How ``multiprocessing`` sends a tensor: shared memory by its descriptor, else the values."""
    mapping = mapping_of(tensor._storage)
    if mapping is None:
        return tensor.__reduce_ex__(pickle.DEFAULT_PROTOCOL)
    kind = None if type(tensor) is Tensor else type(tensor)
    state = {key: value for key, value in tensor.__dict__.items() if key != "_grad"}
    form = (tuple(tensor.shape), tensor.strides, tensor._offset)
    stored = tensor._storage.memory().value.dtype
    return _received, (
        kind, DupFd(mapping.descriptor), mapping.nbytes, stored.name, tensor.dtype.name, form,
        tensor.requires_grad, state,
    )  # fmt: skip


def _received(
    kind: type[Tensor] | None, descriptor: Any, nbytes: int, stored: str, dtype: str,
    form: tuple[Any, Any, int], requires_grad: bool, state: dict[str, Any],
) -> Tensor:  # fmt: skip
    """The tensor over the same memory, in the process that gets it."""
    mapping = SharedMapping(nbytes, descriptor.detach())
    whole = dtype_by_name(stored)
    memory = tensor_over(mapping.pointer, whole, (nbytes // whole.itemsize,), (1,), mapping)
    placed = place_on(memory._storage, dtype_by_name(dtype), *form)
    made = as_kind(kind or Tensor, placed, requires_grad)
    made.__dict__.update(state)
    return made


def _let_send() -> None:
    """Lets ``multiprocessing`` send shared memory of all classes of tensors by its descriptor."""
    kinds: list[type[Tensor]] = [Tensor]
    while kinds:
        kind = kinds.pop()
        ForkingPickler.register(kind, _reduced)
        kinds += kind.__subclasses__()
