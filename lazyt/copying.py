"""Copying and pickling tensors.

As in PyTorch, what views share is still shared after one ``deepcopy`` of them (and after
``lazyt.save``), while ``pickle`` gives every tensor memory of its own. Copies keep their strides.
"""

from __future__ import annotations

import copy as copying
import pickle
from typing import Any

from lazyt import ops, pending
from lazyt.autograd.handles import require_grad
from lazyt.device import place_name
from lazyt.dispatch import method
from lazyt.errors import GradientError
from lazyt.ir.dtypes import DType, dtype_by_name
from lazyt.ir.graph import Node, Shape
from lazyt.runtime.memory import Buffer
from lazyt.storage import Storage, raw
from lazyt.tape import AccumulateGrad
from lazyt.tensor import Tensor
from lazyt.view_forms import arranged
from lazyt.views import contiguous_strides

__all__: list[str] = []

_NOT_A_LEAF = (
    "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at "
    "the moment. Call detach() first to copy the values without their gradient history."
)


def memory_of(tensor: Tensor) -> object:
    """What all tensors over one memory have in common; to be compared by identity."""
    storage = tensor._storage
    return storage if storage.share is None else storage.share.memory


def memory_node(tensor: Tensor) -> Node:
    """The value of the whole memory that ``tensor`` shows, or shows a part of."""
    storage = tensor._storage
    return raw(storage.current()) if storage.share is None else storage.memory_value()


def place_on(storage: Storage, dtype: DType, shape: Shape, strides: Shape, offset: int) -> Tensor:
    """A tensor without history over a part of a memory; the bounds must hold."""
    storage = storage.whole(dtype)
    made = Tensor.__new__(Tensor)
    made._storage, made._view = storage, None
    node = storage.node
    if node.shape != shape or offset or strides != contiguous_strides(shape):
        made._view = arranged(storage, shape, strides, offset)
    return made


def _as_kind(kind: type[Tensor], tensor: Tensor, requires_grad: bool) -> Tensor:
    """The tensor as one of another class, and as a leaf."""
    made = Tensor.__new__(kind)
    made._storage, made._view = tensor._storage, tensor._view
    del tensor  # a leaf that is alone on its storage need not share it
    if requires_grad:
        require_grad(made, True)
    return made


@method("__copy__")
def copy_shallow(self: Tensor) -> Tensor:
    """A leaf on the same memory, without the gradient that was accumulated.

    It counts its versions by itself: autograd does not see what is written through it.
    """
    alike = _as_kind(type(self), self.data, self.requires_grad)
    alike.__dict__.update((k, v) for k, v in self.__dict__.items() if k != "_grad")
    return alike


@method("__deepcopy__")
def copy_deep(self: Tensor, memo: dict[Any, Any]) -> Tensor:
    """A copy with a copy of the gradient. Raises GradientError for what is no leaf."""
    if id(self) in memo:
        found: Tensor = memo[id(self)]
        return found
    if not self.is_leaf:
        raise GradientError(_NOT_A_LEAF)
    anchor = memory_of(self)
    first = memo.get(id(anchor))
    if first is None:
        storage = Storage(memory_node(self))
    else:
        storage = first._storage.fork()
    placed = place_on(storage, self.dtype, tuple(self.shape), self.strides, self._offset)
    del storage
    alike = _as_kind(type(self), placed, False)
    del placed
    memo[id(self)] = alike
    if first is None:
        memo[id(anchor)] = alike
        memo.setdefault(id(memo), []).append(anchor)  # its id stays its own until the end
    fn = self._fn
    if fn is not None:
        require_grad(alike, True)
    grad = fn.grad if isinstance(fn, AccumulateGrad) else self.__dict__.get("_grad")
    if grad is not None:
        alike.grad = copying.deepcopy(grad, memo)
    for name, value in self.__dict__.items():
        if name != "_grad":
            alike.__dict__[name] = copying.deepcopy(value, memo)
    return alike


# ---------------------------------------------------------------------- pickle


@method("__reduce_ex__")
def reduce_tensor(self: Tensor, protocol: Any) -> Any:
    """How to pickle the tensor: its whole memory, out of band where protocol 5 is asked to."""
    node = memory_node(self)
    pending.realize_now([node], "it is pickled")
    bits = node.data.as_numpy(node.dtype, (node.size,))
    payload = pickle.PickleBuffer(bits) if int(protocol) >= 5 else bits.tobytes()
    kind = None if type(self) is Tensor else type(self)
    state = {k: v for k, v in self.__dict__.items() if k != "_grad"}
    form = (tuple(self.shape), self.strides, self._offset)
    return rebuild_tensor, (
        kind, payload, node.dtype.name, self.dtype.name, *form, self.requires_grad, state,
        place_name(self.device),
    )  # fmt: skip


def rebuild_tensor(
    kind: type[Tensor] | None, payload: Any, stored: str, dtype: str, shape: Shape,
    strides: Shape, offset: int, requires_grad: bool, state: dict[str, Any],
    place: str = "",
) -> Tensor:  # fmt: skip
    """What unpickling calls, with the arguments that ``__reduce_ex__`` gave."""
    whole = dtype_by_name(stored)
    data = memoryview(payload).cast("B")
    buffer = Buffer(data.nbytes)
    buffer.as_numpy(dtype_by_name("uint8"), (data.nbytes,))[...] = data
    if place:
        from lazyt.runtime.cuda_device import device_at

        buffer = device_at(place).upload(buffer)
    count = data.nbytes // whole.itemsize
    flat = shape if contiguous_strides(shape) == strides and _size(shape) == count else (count,)
    placed = place_on(
        Storage(ops.input_(flat, whole, buffer)), dtype_by_name(dtype), shape, strides, offset
    )
    made = _as_kind(kind or Tensor, placed, requires_grad)
    made.__dict__.update(state)
    return made


def _size(shape: Shape) -> int:
    size = 1
    for extent in shape:
        size *= extent
    return size
