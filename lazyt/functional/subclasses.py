"""Subclasses of Tensor: how their objects are made, and that functions give objects of the class.

What ``__torch_function__`` of Tensor does is inherited: the function runs as for plain tensors, and
its result becomes an object of the class.
"""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any

from lazyt import autograd
from lazyt.errors import DTypeError
from lazyt.functional.creation.creation import legacy_tensor
from lazyt.functional.operands import wrong_arguments
from lazyt.functional.overriding import Disabled, is_overriding, may_be_overridden, start, switch
from lazyt.functional.shapes.view_shapes import alias
from lazyt.handle.dispatch import method
from lazyt.handle.tensor import Tensor

__all__: list[str] = []

_NO_TENSOR = (
    "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. "
    "Make sure your class inherits from Tensor."
)
_NEW_FORMS = (
    "*, torch.device device = None", "torch.Storage storage", "Tensor other",
    "tuple of ints size, *, torch.device device = None",
    "object data, *, torch.device device = None",
)  # fmt: skip


def as_class(tensor: Tensor, cls: type[Tensor]) -> Tensor:
    """The same tensor as an object of another class; a leaf stays one."""
    if not switch.lasting and is_overriding(cls):  # it may outlive the mode that is entered
        start()
    made = object.__new__(cls)
    made._storage, made._view = tensor._storage, tensor._view
    return made


@method()
def as_subclass(self: Tensor, cls: type[Tensor]) -> Tensor:
    """The tensor as an object of a subclass of Tensor: an alias, of the same memory, through which
    gradients flow back. Raises DTypeError for another class."""
    if not issubclass(cls, Tensor):
        raise DTypeError(_NO_TENSOR)
    return as_class(self if self._fn is None else alias(self), cls)


def _make_subclass(cls: type[Tensor], data: Tensor, require_grad: bool = False, **_: Any) -> Tensor:
    """An object of a subclass that shares the memory of ``data`` and not its gradient history.

    Raises DTypeError for a class that is no subclass.
    """
    if not isinstance(cls, type) or not issubclass(cls, Tensor):
        raise DTypeError(_NO_TENSOR)
    with Disabled():
        made = as_class(data.detach(), cls)
        if require_grad:
            made.requires_grad_()
    return made


def dispatching(cls: type) -> bool:
    """Whether a class has a ``__torch_dispatch__`` that is to be called."""
    hook = getattr(cls, "__torch_dispatch__", None)
    return hook is not None and hook is not _disabled_torch_dispatch_impl


def _disabled_torch_dispatch_impl(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """``__torch_dispatch__`` for classes that do not want to be asked: the call itself."""
    return func(*args, **(kwargs or {}))


def _make_wrapper_subclass(cls: type[Tensor], size: Any, *args: Any, **kwargs: Any) -> Tensor:
    """An object of a class with ``__torch_dispatch__`` that has a shape, strides, a dtype and a
    device, and no memory.

    Raises DTypeError for a class without it, and GradientError with ``requires_grad=True``.
    """
    if not dispatching(cls):
        raise DTypeError(f"{cls.__name__} must define __torch_dispatch__")
    made: Tensor = import_module(_DISPATCH).make_wrapper(cls, size, *args, **kwargs)
    return made


_DISPATCH = "lazyt.subclasses.dispatch_modes"


def _new(cls: type[Tensor], *args: Any, **kwargs: Any) -> Tensor:
    several = len(args) > 1 and not all(isinstance(size, int) for size in args)
    if several or kwargs.keys() - {"device"}:
        raise wrong_arguments("new", args, _NEW_FORMS, **kwargs)
    if len(args) == 1 and isinstance(args[0], Tensor):
        return as_subclass(args[0], cls)
    return as_class(legacy_tensor(*args, **kwargs), cls)


def _by_default(
    cls: type[Tensor], func: Any, types: Any, args: Any = (), kwargs: Any = None
) -> Any:
    """The function's own result, as an object of this class."""
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    with Disabled():
        result = func(*args, **(kwargs or {}))
        if cls is Tensor or func in nowrap_functions():
            return result
        return converted(result, cls)


@functools.cache
def nowrap_functions() -> set[Any]:
    """Functions whose results are given as they are, whatever class the tensor is of."""
    kind: Any = Tensor
    return {kind._base.__get__, kind.grad.__get__}


def converted(result: Any, cls: type[Tensor]) -> Any:
    """A result with objects of ``cls`` in the place of tensors, also in tuples and lists."""
    if isinstance(result, Tensor):
        return result if isinstance(result, cls) else as_subclass(result, cls)
    if isinstance(result, (tuple, list)) and any(
        isinstance(part, (Tensor, tuple, list)) for part in result
    ):
        return type(result)([converted(part, cls) for part in result])
    return result


def _defined(cls: type[Any], /, **kwargs: Any) -> None:
    super(Tensor, cls).__init_subclass__(**kwargs)
    if "__torch_dispatch__" in vars(cls) and dispatching(cls):
        switch.wrappers = (*switch.wrappers, cls)
        switch.dispatch = import_module(_DISPATCH).decomposed
        start()
    if is_overriding(cls) and "_asks_when_made" not in vars(cls):  # by ``as_class``
        start()


def install() -> None:
    """Gives Tensor what its subclasses inherit."""
    inherited: dict[str, Any] = {
        "__torch_function__": classmethod(_by_default),
        "__init_subclass__": classmethod(_defined),
        "__new__": staticmethod(_new),
        "_make_subclass": staticmethod(_make_subclass),
        "_make_wrapper_subclass": staticmethod(_make_wrapper_subclass),
    }
    for name, value in inherited.items():
        setattr(Tensor, name, value)
    may_be_overridden(vars(autograd), ["grad", "backward"], autograd.__name__)
