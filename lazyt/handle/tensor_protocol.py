"""Tensors as Python objects: conversion, truth, iteration, and their facts."""

from __future__ import annotations

import copy as copying
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lazyt import ops
from lazyt.autograd.handles import require_grad
from lazyt.errors import DTypeError, GradientError, LazytError, ShapeError
from lazyt.functional.operands import as_number, existing_dim
from lazyt.functional.shapes.joining import flip, unbind
from lazyt.functional.shapes.view_shapes import arranged
from lazyt.handle import pending
from lazyt.handle.device import META, has_no_values, place_name
from lazyt.handle.dispatch import add_property, array_node, assign, method, wrap
from lazyt.handle.function_table import function
from lazyt.handle.hooks import capturing, hook
from lazyt.handle.interop.numpy import item, only_number, readable_values
from lazyt.handle.layout import strided
from lazyt.handle.storage import Storage, raw
from lazyt.handle.tape import AccumulateGrad, boundaries
from lazyt.handle.tensor import Tensor
from lazyt.handle.views import Permute, contiguous_strides
from lazyt.ir.dtypes import DType, dtype_by_name, float32
from lazyt.ir.graph import Node, Shape
from lazyt.runtime import events
from lazyt.runtime.memory import Buffer

if TYPE_CHECKING:
    from lazyt.plan.explain import Explanation

__all__ = [
    "explain", "is_distributed", "is_inference", "realize", "typename", "wait_for_compiler",
    "why_compiled", "why_realized",
]  # fmt: skip


# What a plain tensor on the CPU answers to questions about other kinds, and Python loops.


_ALWAYS: dict[str, Any] = {
    "layout": strided, "name": None, "volatile": False,
}  # fmt: skip
_NEVER = (
    "is_ipu is_maia is_mkldnn is_mps is_mtia is_nested is_quantized is_sparse "
    "is_sparse_csr is_vulkan is_xla is_xpu"
)


def _fact(name: str, value: Any) -> None:
    setattr(Tensor, name, property(lambda self: value, doc=f"Always {value!r}: a CPU tensor."))


def _output_nr(self: Tensor) -> int:
    """Which of the results of its ``grad_fn`` the tensor is."""
    view = self._view
    if view is not None and view.multiple is not None:
        return view.multiple[1]
    known = boundaries.get(self.node) if self._fn is not None else None
    return known[1] if known is not None and known[0] is self._fn else 0


def _is_cuda(self: Tensor) -> bool:
    """Whether the values are on a CUDA device."""
    return self.device.type == "cuda"


def _is_cpu(self: Tensor) -> bool:
    """Whether the values are on the CPU."""
    return self.device.type == "cpu"


def _is_meta(self: Tensor) -> bool:
    """Whether the tensor has a shape and a dtype and no values."""
    return self.device is META


for _name, _read in (("is_cuda", _is_cuda), ("is_cpu", _is_cpu), ("is_meta", _is_meta)):
    setattr(Tensor, _name, property(_read))
for _name, _value in _ALWAYS.items():
    _fact(_name, _value)
for _name in _NEVER.split():
    _fact(_name, False)


add_property("output_nr", property(_output_nr))


@function()
@method()
def is_inference(input: Tensor) -> bool:
    """Whether the tensor was made in inference mode and is closed to autograd."""
    return input._storage.version < 0


@function()
@method()
def is_distributed(input: Tensor) -> bool:
    """Whether the tensor is one of several parts on other machines: never."""
    return False


@function()
@method()
def to_dense(
    self: Tensor, dtype: DType | None = None, *, masked_grad: bool | None = None
) -> Tensor:
    """The tensor itself, in another dtype where one is given: it has no other form."""
    found: Tensor = self if dtype is None else self.to(dtype)
    return found


@function()
@method()
def const_data_ptr(self: Tensor) -> int:
    """``data_ptr`` for memory that is only read."""
    found: int = self.data_ptr()
    return found


add_property("grad_dtype", property(lambda self: self.dtype))


@function()
def typename(obj: Any, /) -> str:
    """The name of a tensor's type, or of any object's class."""
    if isinstance(obj, Tensor):
        found: str = obj.type()
        return found
    kind = obj if isinstance(obj, type) else type(obj)
    module = kind.__module__
    return kind.__qualname__ if module in ("builtins", "") else f"{module}.{kind.__qualname__}"


# ---------------------------------------------------------------------- Python functions


def _looped(
    self: Tensor, function: Callable[..., Any], others: tuple[Tensor, ...], name: str
) -> Tensor:
    """Write what ``function`` says of every element, in Python, as slowly as that is."""
    if self.requires_grad or any(other.requires_grad for other in others):
        raise LazytError(
            f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() "
            "instead."
        )
    shape = tuple(self.shape)
    columns = []
    for operand in (self, *others):
        values = readable_values(operand, f"{name}()")
        columns.append(np.broadcast_to(values, shape).reshape(-1).tolist())
    number = _converter(self.dtype)
    results = [number(function(*row)) for row in zip(*columns)]
    wide = float32 if self.dtype.is_half else self.dtype
    array = np.array(results, wide.numpy).reshape(shape)
    return assign(self, wrap(ops.cast(array_node(array), self.dtype)))


def _converter(dtype: DType) -> Callable[[Any], Any]:
    return {"f": float, "b": bool, "c": complex}.get(dtype.kind, int)


@function()
@method()
def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replace every element by what a Python function gives for it; returns the tensor.

    Raises LazytError for a tensor that requires its gradient, TypeError for results that are no
    numbers.
    """
    return _looped(self, callable, (), "apply_")


@function()
@method()
def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """``apply_`` of a function of two arguments: this tensor's element and the other's."""
    if not isinstance(tensor, Tensor):
        raise DTypeError(
            f"map_(): argument 'other' (position 1) must be Tensor, not {type(tensor).__name__}"
        )
    return _looped(self, callable, (tensor,), "map_")


@function()
@method()
def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """``apply_`` of a function of three arguments."""
    return _looped(self, callable, (x, y), "map2_")


# Copying and pickling tensors.
#
# As in PyTorch, what views share is still shared after one ``deepcopy`` of them (and after
# ``lazyt.save``), while ``pickle`` gives every tensor memory of its own. Copies keep their strides.


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
    made = object.__new__(Tensor)
    made._storage, made._view = storage, None
    node = storage.node
    if node.shape != shape or offset or strides != contiguous_strides(shape):
        made._view = arranged(storage, shape, strides, offset)
    return made


def as_kind(kind: type[Tensor], tensor: Tensor, requires_grad: bool) -> Tensor:
    """The tensor as one of another class, and as a leaf."""
    made = object.__new__(kind)
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
    alike = as_kind(type(self), self.data, self.requires_grad)
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
    alike = as_kind(type(self), placed, False)
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
        from lazyt.runtime.cuda.device import device_at

        buffer = device_at(place).upload(buffer)
    count = data.nbytes // whole.itemsize
    flat = shape if contiguous_strides(shape) == strides and _size(shape) == count else (count,)
    placed = place_on(
        Storage(ops.input_(flat, whole, buffer)), dtype_by_name(dtype), shape, strides, offset
    )
    made = as_kind(kind or Tensor, placed, requires_grad)
    made.__dict__.update(state)
    return made


def _size(shape: Shape) -> int:
    size = 1
    for extent in shape:
        size *= extent
    return size


# As in PyTorch; what NumPy's functions do with tensors is decided in
# lazyt/handle/interop/numpy_calls.py.
Tensor.__array_priority__ = 1000  # type: ignore[attr-defined]


# ---------------------------------------------------------------------- numbers


@method()
def __bool__(self: Tensor) -> bool:
    view = self._view
    if self._storage.node.shape if view is None else view.shape:
        count = self.shape.numel()
        if count == 0:
            raise LazytError("Boolean value of Tensor with no values is ambiguous")
        if count > 1:
            raise LazytError("Boolean value of Tensor with more than one value is ambiguous")
    return bool(only_number(self, "its truth was asked for"))


def _number(tensor: Tensor) -> bool | int | float:
    if tensor.shape.numel() != 1:
        raise ShapeError("only one element tensors can be converted to Python scalars")
    return item(tensor)


def _real_number(tensor: Tensor, kind: str) -> bool | int | float:
    """A number; a complex one has to be real."""
    number: Any = _number(tensor)
    if isinstance(number, complex):
        if number.imag:
            raise LazytError(f"value cannot be converted to type {kind} without overflow")
        return number.real
    return number  # type: ignore[no-any-return]


@method()
def __int__(self: Tensor) -> int:
    return int(_real_number(self, "int64_t"))


@method()
def __float__(self: Tensor) -> float:
    return float(_real_number(self, "double"))


@method()
def __complex__(self: Tensor) -> complex:
    return complex(_number(self))


@method()
def __index__(self: Tensor) -> int:
    if self.dtype.kind in "fc" or self.shape.numel() != 1:
        raise DTypeError("only integer tensors of a single element can be converted to an index")
    return int(item(self))


@method()
def __format__(self: Tensor, spec: str) -> str:
    if self.ndim == 0 and type(self) is Tensor:
        return format(item(self), spec)
    return object.__format__(self, spec)


# ---------------------------------------------------------------------- sequences


@method()
def __len__(self: Tensor) -> int:
    if self.ndim == 0:
        raise DTypeError("len() of a 0-d tensor")
    return self.shape[0]  # type: ignore[no-any-return]


@method()
def __iter__(self: Tensor) -> Iterator[Tensor]:
    if self.dim() == 0:
        raise DTypeError("iteration over a 0-d tensor")
    return iter(unbind(self) if type(self) is Tensor else self.unbind(0))


@method()
def __reversed__(self: Tensor) -> Tensor:
    return flip(self, 0) if self.ndim else self


@method()
def __contains__(self: Tensor, element: object) -> bool:
    if isinstance(element, Tensor) or as_number(element) is not None:
        return bool((self == element).any())
    raise LazytError(
        f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}."
    )


# ---------------------------------------------------------------------- facts


@method()
def stride(self: Tensor, dim: int | None = None) -> Any:
    """The strides in elements, or that of one dimension."""
    return self.strides if dim is None else self.strides[existing_dim(dim, self.ndim)]


@method()
def storage_offset(self: Tensor) -> int:
    """Where in its storage the tensor begins, in elements."""
    return self._offset


@method()
def data_ptr(self: Tensor) -> int:
    """The address of the first element. From here on the memory counts as shared: it stays put,
    writes take effect in it at once, and what is written to it from outside is seen. On a device
    it is where the values are now."""
    if 0 in self.shape or self.device is META:
        return 0
    if self.is_cuda:  # values that are computed: a look, not shared
        return self._storage.placed_pointer() + self._offset * self.itemsize
    token = self._storage.expose(forever=True)
    return token.ptr + self._offset * self.itemsize


def _version(self: Tensor) -> int:
    """How often the memory was written to. Raises GradientError for an inference tensor."""
    if self._storage.version < 0:
        raise GradientError("Inference tensors do not track version counter.")
    return self._storage.version_now()


add_property("_version", property(_version))


def _base(self: Tensor) -> Tensor | None:
    view = self._view
    return None if view is None else view.source


add_property("_base", property(_base))


@method()
def _is_view(self: Tensor) -> bool:
    """Whether the tensor is a view that autograd follows to another."""
    return self._view is not None and self._view.source is not None


@method()
def dim_order(self: Tensor, *, ambiguity_check: bool = False) -> tuple[int, ...]:
    """The dimensions from the slowest to the fastest in memory.

    Args:
        ambiguity_check: raise LazytError where equal strides leave the order open.
    """
    strides = self.strides
    if ambiguity_check and len(set(strides)) < len(strides):
        raise LazytError("The tensor does not have unique dim order, or cannot map to exact one of "
                         "the given memory formats.")  # fmt: skip
    return tuple(sorted(range(len(strides)), key=lambda d: -strides[d]))


# ---------------------------------------------------------------------- computing


def realize(*tensors: Tensor) -> None:
    """Compute all of ``tensors`` now, in one plan. Raises TypeError for anything else.

    There is nothing to compute on the meta device.
    """
    for tensor in tensors:
        if not _is_there(tensor):
            break
    else:  # most often: a captured call has computed them
        return
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            hint = ": realize(*tensors)" if isinstance(tensor, list | tuple) else ""
            raise TypeError(f"realize expects tensors, not {type(tensor).__name__}{hint}")
    if capturing() is None:  # a captured function computes everything at its end
        parts = [part for tensor in tensors for part in _parts(tensor)]
        nodes = [*map(_computed, parts)]
        pending.realize_nodes([node for node in nodes if not has_no_values(node)])
        for part, node in zip(parts, nodes, strict=True):
            if part._view is not None and node is part._storage.node:
                part._view.forget()  # so that it keeps no graph alive


def _computed(tensor: Tensor) -> Node:
    """The node that computing a tensor computes: what its memory holds, where the tensor is that
    with its axes in another order, else its value."""
    view = tensor._view
    if view is None or tensor._storage.share is not None or hook.watcher is not None:
        return tensor.node
    if all(type(step) is Permute for step in view.steps):
        return tensor._storage.node
    return tensor.node


def _parts(tensor: Any) -> Sequence[Tensor]:
    """A tensor, or what a sparse one consists of, or what this rank has of one that is
    distributed."""
    if type(tensor) is Tensor:
        return (tensor,)
    own = getattr(type(tensor), "parts_on_this_rank", None)
    if own is not None:
        return (own(tensor),)
    if tensor.layout is strided:
        return (tensor,)
    found: Sequence[Tensor] = tensor.parts()
    return found


@method("realize")
def _realize(self: Tensor) -> Tensor:
    """Compute this tensor's value now; returns the tensor."""
    if not _is_there(self):
        realize(self)
    return self


def _is_there(tensor: Tensor) -> bool:
    """Whether a tensor is plain, computed, in memory of its own, and nobody watches reads."""
    if type(tensor) is not Tensor or tensor._view is not None or hook.watcher is not None:
        return False
    storage = tensor._storage
    node = storage.node
    if node.data is None or storage.share is not None:
        return False
    inputs = node.inputs
    # A parameter is a value with a mark on it, which is all that is left of its history.
    return not inputs or (node.op.name == "variable" and not inputs[0].inputs)


def explain(*tensors: Any) -> Explanation:
    """What computing ``tensors`` would do: kernels, the reason of every fusion decision, and the
    memory and time that it takes (``footprint``).

    Args:
        tensors: tensors, or one function captured by ``lazyt.jit``: what its replays do.

    Raises DTypeError for anything else.
    """
    from lazyt.plan import planning
    from lazyt.tracing.jit import Captured

    if len(tensors) == 1 and isinstance(getattr(tensors[0], "_captured", tensors[0]), Captured):
        captured: Explanation = tensors[0].explain()
        return captured
    for given in tensors:
        if not isinstance(given, Tensor):
            raise DTypeError(f"explain() takes tensors, not {type(given).__name__}")
    return planning.explain([_computed(part) for tensor in tensors for part in _parts(tensor)])


@method("explain")
def _explain(self: Tensor) -> Explanation:
    """``lazyt.explain`` of this tensor."""
    return explain(self)


def wait_for_compiler(timeout: float | None = None) -> bool:
    """Wait until no plan waits for its kernels or is being compiled in the background.

    Whoever measures time calls this once the program has run a few times. Plans that have not run
    for long enough to be worth a compiler stay as they are, see ``config.tier``.

    Args:
        timeout: seconds to wait at the most, None for as long as it takes.

    Returns:
        Whether nothing is left to compile.

    Raises:
        ValueError: ``timeout`` is negative.

    Example:
        >>> import lazyt
        >>> lazyt.wait_for_compiler(timeout=600)
        True
    """
    from lazyt.plan import tiers

    if timeout is not None and timeout < 0:
        raise ValueError(f"timeout must not be negative, got {timeout}")
    return tiers.wait(timeout)


def why_realized() -> Sequence[events.Event]:
    """The values that were computed without ``realize()``, with the line that looked at them."""
    return events.recorded("realize")


def why_compiled() -> Sequence[events.Event]:
    """What was compiled, and why it was not found in a cache."""
    return events.recorded("compile")
