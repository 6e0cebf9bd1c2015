"""Modules of PyTorch that are more than names: ``torch.jit``, which may be called here, and
``torch.ops``, which has a namespace of every name."""

from __future__ import annotations

import functools
import os
import pathlib
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn

from lazyt.errors import LazytError, UnsupportedNameError
from lazyt.handle.tensor import Tensor
from lazyt.tracing.jit import jit

__all__ = ["AtenNamespace", "AtenOperator", "JitPackage", "OperatorsPackage", "aten"]


class JitPackage(ModuleType):
    """``torch.jit``: a module, and ``lazyt.jit`` when it is called."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """``lazyt.jit``."""
        return jit(*args, **kwargs)


class OperatorsPackage(ModuleType):
    """``torch.ops``: the operators that programs have defined, by namespace, and ``aten``."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module 'torch.ops' has no attribute '{name}'", name=name)
        import_module("lazyt.library.operators")
        found = vars(import_module("lazyt.ops"))["__getattr__"](name)
        vars(self)[name] = found
        return found


class LibraryError(LazytError, OSError):
    """A library of C++ operators that cannot be loaded."""


def load_library(path: Any) -> None:
    """Defines torchvision's operators in lazyt where the path is that of torchvision's library.

    Raises LibraryError (an OSError, as PyTorch's is) for others: there is no C++ for them to be
    linked to.
    """
    library = pathlib.Path(os.fspath(path))
    if library.parent.name == "torchvision" and library.name.startswith("_C"):
        import_module("lazyt.library.vision").define()
        return
    raise LibraryError(f"lazyt loads no libraries of C++ operators: {path}")


class AtenOperator:
    """One of PyTorch's operators, which is the function of that name, whatever the overload.

    Args:
        name: the function's.
        function: what a call runs.
        overload: "" for the operator as a whole.
    """

    def __init__(self, name: str, function: Any, overload: str = "") -> None:
        self.__name__ = f"{name}.{overload}" if overload else name
        self._operator, self._function, self._overload = name, function, overload
        functools.update_wrapper(self, function, assigned=("__doc__",), updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result, and its errors."""
        return self._function(*args, **kwargs)

    def __getattr__(self, name: str) -> AtenOperator:
        if name.startswith("_") or self.__dict__.get("_overload"):
            raise AttributeError(f"operator aten.{self.__name__} has no attribute '{name}'")
        found = self.__dict__[name] = AtenOperator(self._operator, self._function, name)
        return found

    def __repr__(self) -> str:
        return f"aten.{self.__name__}"


#: Operators of PyTorch's dispatcher, by which packages register what subclasses of tensors do.
_UNKNOWN = """
    _assert_scalar _assert_tensor_metadata _fft_c2c _foreach_add_ _foreach_div _foreach_maximum_
    _is_all_true _local_scalar_dense _pin_memory _scaled_dot_product_cudnn_attention
    _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention_for_cpu_backward
    convolution_backward
    _scaled_dot_product_cudnn_attention_backward _scaled_dot_product_efficient_attention
    _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_backward _sparse_addmm
    _sparse_mm_reduce_impl _to_copy _unsafe_view alias index sym_constrain_range_for_size
    sym_size"""


#: Functions that PyTorch has in ``torch.ops.aten`` alone, among others.
_PRIVATE = "lazyt.compat.private_functions"


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        """Raises UnsupportedNameError."""
        raise UnsupportedNameError(
            f"torch.ops.aten.{name} cannot be used: it belongs to PyTorch's dispatcher; call the "
            "function or method of tensors"
        )

    return refuse


class AtenNamespace:
    """``torch.ops.aten``: operators that are functions of lazyt's by the same name."""

    __name__ = "aten"

    def __getattr__(self, name: str) -> AtenOperator:
        for place in ("lazyt", "lazyt.nn.functional", "lazyt.special", _PRIVATE):
            function = getattr(import_module(place), name, None)
            if callable(function) and not isinstance(function, type):
                found = self.__dict__[name] = AtenOperator(name, function)
                return found
        method = getattr(Tensor, name, None)
        if callable(method):
            found = self.__dict__[name] = AtenOperator(name, method)
            return found
        if name in _UNKNOWN.split():
            found = self.__dict__[name] = AtenOperator(name, _refusal(name))
            return found
        raise AttributeError(f"'_OpNamespace' 'aten' object has no attribute '{name}'", name=name)


aten = AtenNamespace()
