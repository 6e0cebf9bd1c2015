"""Changing all of a module at once: dtypes and devices, training mode, gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable
from sys import getrefcount
from typing import TYPE_CHECKING, Any, TypeVar

import lazyt
from lazyt.autograd.handles import take_over
from lazyt.errors import DTypeError, warn
from lazyt.nn.parameter import Parameter, UninitializedBuffer
from lazyt.nn.tree import ModuleTree
from lazyt.tensor import Tensor

if TYPE_CHECKING:
    from lazyt.nn.module import Module

M = TypeVar("M", bound="ConvertibleModule")


class ConvertibleModule(ModuleTree):
    """What changes a module and all below it."""

    def apply(self: M, fn: Callable[[Module], Any]) -> M:
        """Call ``fn`` with every module below, then with this one; returns it."""
        for module in self.children():
            module.apply(fn)
        fn(self)  # type: ignore[arg-type]
        return self

    def train(self: M, mode: bool = True) -> M:
        """Put this module and all below it in training mode, or out of it; returns it."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: M) -> M:
        """``train(False)``."""
        return self.train(False)

    def requires_grad_(self: M, requires_grad: bool = True) -> M:
        """Set ``requires_grad`` of every parameter; returns the module."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or make them zero."""
        for parameter in self.parameters():
            grad = parameter.grad
            if grad is None:
                continue
            if set_to_none:
                parameter.grad = None
            else:
                grad.detach_()
                grad.zero_()

    def _apply(self: M, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> M:
        """Replace the values of every parameter, gradient and buffer by ``fn`` of them."""
        for module in self.children() if recurse else ():
            module._apply(fn)
        for parameter in self._parameters.values():
            if parameter is not None:
                _convert(parameter, fn)
        for name, buffer in self._buffers.items():
            if isinstance(buffer, UninitializedBuffer):
                _convert(buffer, fn)
            elif buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self: M, *args: Any, **kwargs: Any) -> M:
        """Convert floating point parameters and buffers: ``to(dtype)``, ``to(device)``, both,
        ``to(tensor)``, ``to(memory_format=...)`` for those of 4 and 5 dimensions. Changes the
        module itself and returns it.

        Raises DTypeError for types other than floating point, DeviceError as ``Tensor.to``.
        """
        memory_format = kwargs.pop("memory_format", None)
        wanted = None
        if args or kwargs:
            wanted = lazyt.empty(0).to(*args, **kwargs)
            if wanted.dtype.kind not in "fc":
                raise DTypeError(
                    "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                    f"dtype={wanted.dtype}"
                )
            if wanted.dtype.kind == "c":
                warn(
                    "Complex modules are a new feature under active development whose design may "
                    "change, and some modules might not work as expected when using complex "
                    "tensors as parameters or buffers."
                )
        changes = _asks_for_dtype(args, kwargs)

        def convert(tensor: Tensor) -> Tensor:
            if wanted is not None:
                changed = wanted.dtype if changes and tensor.dtype.kind in "fc" else tensor.dtype
                tensor = tensor.to(wanted.device, changed)
            if memory_format is not None and tensor.ndim in (4, 5):
                tensor = tensor.to(memory_format=memory_format)
            return tensor

        return self._apply(convert)

    def to_empty(self: M, *, device: Any, recurse: bool = True) -> M:
        """Move everything to a device without its values; returns the module."""
        return self._apply(lambda t: lazyt.empty_like(t, device=device), recurse=recurse)

    def type(self: M, dst_type: Any) -> M:
        """Convert all parameters and buffers; returns the module."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def float(self: M) -> M:
        """Convert floating point parameters and buffers to float32; returns the module."""
        return self._apply(lambda t: t.float() if t.dtype.kind == "f" else t)

    def double(self: M) -> M:
        """Convert floating point parameters and buffers to float64; returns the module."""
        return self._apply(lambda t: t.double() if t.dtype.kind == "f" else t)

    def half(self: M) -> M:
        """Convert floating point parameters and buffers to float16; returns the module."""
        return self._apply(lambda t: t.half() if t.dtype.kind == "f" else t)

    def bfloat16(self: M) -> M:
        """Convert floating point parameters and buffers to bfloat16; returns the module."""
        return self._apply(lambda t: t.bfloat16() if t.dtype.kind == "f" else t)

    def cpu(self: M) -> M:
        """Move everything to the CPU; returns the module."""
        return self._apply(lambda tensor: tensor.cpu())

    def cuda(self: M, device: Any = None) -> M:
        """Move everything to a GPU; returns the module. Raises DeviceError without one."""
        return self._apply(lambda tensor: tensor.cuda(device))

    def share_memory(self: M) -> M:
        """Move everything into memory that other processes can share; returns the module."""
        return self._apply(lambda tensor: tensor.share_memory_())


def _asks_for_dtype(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the arguments of ``Module.to`` name a dtype, rather than just a device."""
    if kwargs.get("dtype") is not None or kwargs.get("tensor") is not None:
        return True
    return any(isinstance(a, (lazyt.dtype, Tensor)) for a in args)


def _references(tensor: Tensor) -> tuple[int, int]:
    """How many refer to a tensor of a caller's, and to its memory."""
    return getrefcount(tensor), getrefcount(tensor._storage)


@functools.cache
def _lone_references() -> tuple[int, int]:
    """The same of a tensor that only a local name refers to: versions of Python count otherwise."""
    example = lazyt.empty(())
    return _references(example)


def _convert(parameter: Parameter | UninitializedBuffer, fn: Callable[[Tensor], Tensor]) -> None:
    grad = parameter.grad
    with lazyt.no_grad():  # detach() would leave both sharing the memory
        changed = fn(parameter)
    if changed is parameter:
        return
    parameter.grad = None  # it may have another dtype than the new values
    if _references(changed) == _lone_references():  # it was made for this parameter
        take_over(parameter, changed)
    else:
        parameter.data = changed
    if grad is not None:
        parameter.grad = fn(grad.detach()).requires_grad_(grad.requires_grad)
