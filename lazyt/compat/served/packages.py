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

from lazyt.compat.names.overloads import overload_names
from lazyt.errors import LazytError, UnsupportedNameError
from lazyt.functional.overriding import switch
from lazyt.handle.tensor import Tensor
from lazyt.tracing.jit import jit

__all__ = [
    "AtenNamespace", "AtenOperator", "JitPackage", "OperatorsPackage", "aten", "dispatcher",
]  # fmt: skip


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


_OF_AUDIO = ("_torchaudio.so", "libtorchaudio.so")


class LibraryError(LazytError, OSError):
    """A library of C++ operators that cannot be loaded."""


def load_library(path: Any) -> None:
    """Defines torchvision's operators in lazyt where the path is that of torchvision's library, and
    those of torchaudio where it is that of torchaudio's.

    Raises LibraryError (an OSError, as PyTorch's is) for others: there is no C++ for them to be
    linked to.
    """
    library = pathlib.Path(os.fspath(path))
    if library.parent.name == "torchvision" and library.name.startswith("_C"):
        import_module("lazyt.library.vision").define()
        return
    if library.parent.parent.name == "torchaudio" and library.name in _OF_AUDIO:
        import_module("lazyt.library.audio").define()
        return
    raise LibraryError(f"lazyt loads no libraries of C++ operators: {path}")


#: What calls operators once modes or classes may be asked: ``(operator, args, kwargs)``.
dispatcher: list[Callable[..., Any]] = []


class AtenOperator:
    """One of PyTorch's operators, or one of its overloads: the function of that name.

    Args:
        name: the operator's.
        function: what a call runs.
        overload: "" for the operator as a whole.
        packet: the operator, of an overload.

    Attributes:
        namespace: "aten".
    """

    namespace = "aten"

    def __init__(
        self, name: str, function: Any, overload: str = "", packet: AtenOperator | None = None
    ) -> None:
        self.__name__ = f"{name}.{overload}" if overload else name
        self._operator, self._function, self._overloadname = name, function, overload
        self._opname, self._packet = name, packet
        self._qualified_op_name = f"aten::{name}"
        functools.update_wrapper(self, function, assigned=("__doc__",), updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result, and its errors."""
        if switch.on and dispatcher:
            return dispatcher[0](self, args, kwargs)
        return self._function(*args, **kwargs)

    @property
    def overloadpacket(self) -> AtenOperator:
        """The operator of an overload."""
        if self._packet is None:
            raise AttributeError(f"{self!r} is no overload")
        return self._packet

    _overloadpacket = overloadpacket

    def name(self) -> str:
        """Its name with ``aten::`` before it."""
        head = self._qualified_op_name
        plain = self._overloadname in ("", "default")
        return head if plain else f"{head}.{self._overloadname}"

    @property
    def _schema(self) -> Any:
        """The schema of an overload. Raises LazytError where it is not known."""
        schemas = import_module("lazyt.subclasses.aten_schemas")
        return schemas.schema_of(self._operator, self.overloadpacket and self._overloadname)

    @property
    def _schemas(self) -> dict[str, Any]:
        """The schemas of all overloads, "" for the one without a name."""
        schemas = import_module("lazyt.subclasses.aten_schemas").schemas_of(self._operator)
        return {"" if name == "default" else name: schema for name, schema in schemas.items()}

    @property
    def tags(self) -> list[Any]:
        """None: what PyTorch's compilers are told is nothing to lazyt."""
        return []

    @property
    def is_view(self) -> bool:
        """Whether results share memory with arguments that are not written to."""
        shared = [item.alias_info for item in self._schema.arguments]
        return any(info is not None and not info.is_write for info in shared)

    def overloads(self) -> list[str]:
        """The names of the operator's overloads."""
        return overload_names(self._operator) or ["default"]

    def __getattr__(self, name: str) -> AtenOperator:
        given = self.__dict__
        if name.startswith("_") or given.get("_overloadname"):
            title = given.get("__name__", "")  # a copy that is being made has none
            raise AttributeError(f"operator aten.{title} has no attribute '{name}'", name=name)
        known = overload_names(given["_operator"])
        if known is not None and name not in known:
            raise AttributeError(
                f"The underlying op of '{self}' has no overload name '{name}'", name=name
            )
        found = AtenOperator(given["_operator"], given["_function"], name, self)
        given[name] = found
        return found

    def __str__(self) -> str:
        return f"aten.{self.__name__}"

    def __repr__(self) -> str:
        if self._packet is None:
            return f"<OpOverloadPacket(op='aten.{self._operator}')>"
        return f"<OpOverload(op='aten.{self._operator}', overload='{self._overloadname}')>"


#: Operators of PyTorch's dispatcher, by which packages register what subclasses of tensors do.
_UNKNOWN = """
    _assert_scalar _assert_tensor_metadata _fft_c2c _foreach_add_ _foreach_div _foreach_maximum_
    _is_all_true _pin_memory _scaled_dot_product_cudnn_attention
    _scaled_dot_product_flash_attention_for_cpu
    _scaled_dot_product_flash_attention_for_cpu_backward
    _scaled_dot_product_cudnn_attention_backward _scaled_dot_product_efficient_attention
    _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_backward
    _sparse_addmm _sparse_mm_reduce_impl sym_constrain_range_for_size"""


#: Operators with arguments of their own, and functions that PyTorch has in ``torch.ops.aten``
#: alone, among others.
_ATEN, _PRIVATE = "lazyt.subclasses.aten_functions", "lazyt.compat.private_functions"
#: Where the functions are whose operators' names begin so.
_PREFIXES = {"linalg_": "lazyt.linalg", "special_": "lazyt.special", "fft_": "lazyt.fft"}


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
        for place in (_ATEN, "lazyt", "lazyt.nn.functional", "lazyt.special", _PRIVATE):
            if place == _ATEN and name not in import_module(_ATEN).__all__:
                continue
            function = getattr(import_module(place), name, None)
            if callable(function) and not isinstance(function, type):
                found = self.__dict__[name] = AtenOperator(name, function)
                return found
        for prefix, place in _PREFIXES.items():
            function = getattr(import_module(place), name.removeprefix(prefix), None)
            if name.startswith(prefix) and callable(function):
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
