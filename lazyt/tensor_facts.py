"""What a plain tensor on the CPU answers to questions about other kinds, and Python loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lazyt import ops
from lazyt.dispatch import add_property, array_node, assign, method, wrap
from lazyt.errors import DTypeError, LazytError
from lazyt.ir.dtypes import DType, float32
from lazyt.layouts import strided
from lazyt.numpy_bridge import readable_values
from lazyt.tape import boundaries
from lazyt.tensor import Tensor

__all__ = ["is_distributed", "is_inference", "typename"]

_ALWAYS: dict[str, Any] = {
    "layout": strided, "name": None, "volatile": False,
}  # fmt: skip
_NEVER = (
    "is_ipu is_maia is_meta is_mkldnn is_mps is_mtia is_nested is_quantized is_sparse "
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
    return 0 if known is None else known[1]


def _is_cuda(self: Tensor) -> bool:
    """Whether the values are on a CUDA device."""
    return self.device.type == "cuda"


def _is_cpu(self: Tensor) -> bool:
    """Whether the values are on the CPU."""
    return self.device.type == "cpu"


for _name, _read in (("is_cuda", _is_cuda), ("is_cpu", _is_cpu)):
    setattr(Tensor, _name, property(_read))
for _name, _value in _ALWAYS.items():
    _fact(_name, _value)
for _name in _NEVER.split():
    _fact(_name, False)


def _imaginary(self: Tensor) -> Tensor:
    """Raises LazytError: only complex tensors, which do not exist here, have an imaginary part."""
    raise LazytError("imag is not implemented for tensors with non-complex dtypes.")


add_property("real", property(lambda self: self, doc="The tensor itself."))
add_property("imag", property(_imaginary))


add_property("output_nr", property(_output_nr))


@method()
def is_inference(input: Tensor) -> bool:
    """Whether the tensor was made in inference mode and is closed to autograd."""
    return input._storage.version < 0


@method()
def is_distributed(input: Tensor) -> bool:
    """Whether the tensor is one of several parts on other machines: never."""
    return False


@method()
def as_subclass(self: Tensor, cls: type[Tensor]) -> Tensor:
    """The same tensor as an instance of a subclass of Tensor."""
    made = Tensor.__new__(cls)
    made._storage, made._view = self._storage, self._view
    return made


@method()
def to_dense(
    self: Tensor, dtype: DType | None = None, *, masked_grad: bool | None = None
) -> Tensor:
    """The tensor itself, in another dtype where one is given: it has no other form."""
    found: Tensor = self if dtype is None else self.to(dtype)
    return found


@method()
def const_data_ptr(self: Tensor) -> int:
    """``data_ptr`` for memory that is only read."""
    found: int = self.data_ptr()
    return found


add_property("grad_dtype", property(lambda self: self.dtype))


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
    for item in (self, *others):
        values = readable_values(item, f"{name}()")
        columns.append(np.broadcast_to(values, shape).reshape(-1).tolist())
    number = _converter(self.dtype)
    results = [number(function(*row)) for row in zip(*columns)]
    wide = float32 if self.dtype.is_half else self.dtype
    array = np.array(results, wide.numpy).reshape(shape)
    return assign(self, wrap(ops.cast(array_node(array), self.dtype)))


def _converter(dtype: DType) -> Callable[[Any], Any]:
    return {"f": float, "b": bool}.get(dtype.kind, int)


@method()
def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replace every element by what a Python function gives for it; returns the tensor.

    Raises LazytError for a tensor that requires its gradient, TypeError for results that are no
    numbers.
    """
    return _looped(self, callable, (), "apply_")


@method()
def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """``apply_`` of a function of two arguments: this tensor's element and the other's."""
    if not isinstance(tensor, Tensor):
        raise DTypeError(
            f"map_(): argument 'other' (position 1) must be Tensor, not {type(tensor).__name__}"
        )
    return _looped(self, callable, (tensor,), "map_")


@method()
def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """``apply_`` of a function of three arguments."""
    return _looped(self, callable, (x, y), "map2_")
