"""Modules of PyTorch that are more than names: ``torch.jit``, which may be called here, and
``torch.ops``, which has a namespace of every name."""

from __future__ import annotations

import functools
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn

from lazyt.errors import LazytError
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


def load_library(path: Any) -> NoReturn:
    """Raises LibraryError (an OSError, as PyTorch's is): there is no C++ for it to be linked to."""
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


class AtenNamespace:
    """``torch.ops.aten``: operators that are functions of lazyt's by the same name."""

    __name__ = "aten"

    def __getattr__(self, name: str) -> AtenOperator:
        for place in ("lazyt", "lazyt.nn.functional", "lazyt.special"):
            function = getattr(import_module(place), name, None)
            if callable(function) and not isinstance(function, type):
                found = self.__dict__[name] = AtenOperator(name, function)
                return found
        raise AttributeError(f"'_OpNamespace' 'aten' object has no attribute '{name}'", name=name)


aten = AtenNamespace()
