"""``__torch_function__``: objects, and modes, that decide what functions make of a call.

Functions of lazyt ask; functions of your own can do so by ``handle_torch_function`` or
``wrap_torch_function``.
"""

from __future__ import annotations

import functools
import sys as _sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module as _import_module
from types import FunctionType
from typing import Any, TypeVar

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.compat.exports import NAMES as _LATER
from lazyt.errors import warn as _warn
from lazyt.functional import overriding as _overriding
from lazyt.functional.subclasses import nowrap_functions as get_default_nowrap_functions
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import package_name as _package_name

__all__ = [
    "BaseTorchFunctionMode", "TorchFunctionMode", "enable_reentrant_dispatch",
    "get_default_nowrap_functions", "get_ignored_functions", "get_overridable_functions",
    "get_testing_overrides", "handle_torch_function", "has_torch_function",
    "has_torch_function_unary", "has_torch_function_variadic", "is_tensor_like",
    "is_tensor_method_or_property", "redispatch_function", "resolve_name", "wrap_torch_function",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])


class TorchFunctionMode:
    """A block in which a method decides what functions do: ``with Mode(): ...``.

    A derived class defines ``__torch_function__(self, func, types, args=(), kwargs=None)``. It is
    called instead of every function of lazyt, also of those that make tensors of numbers, and what
    it returns is the function's result; with NotImplemented the arguments are asked. What it calls
    itself is asked of the mode around this one, if there is one, and not of this one unless it
    says ``with self:``.

        >>> import lazyt
        >>> from lazyt.overrides import TorchFunctionMode
        >>> class Count(TorchFunctionMode):
        ...     calls = 0
        ...     def __torch_function__(self, func, types, args=(), kwargs=None):
        ...         self.calls += 1
        ...         return func(*args, **(kwargs or {}))
        >>> with Count() as count:
        ...     x = lazyt.ones(3).add(1).sum()
        >>> count.calls
        3
    """

    def __init__(self) -> None:
        """Nothing is to be done: derived classes need not call it."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Any:
        _overriding.enter(self)
        return self

    def __exit__(self, *_: object) -> None:
        _overriding.leave()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """An object of the class, which has to be entered all the same; deprecated in PyTorch."""
        _warn("`Mode.push()` is no longer necessary and can be replaced with just `with Mode()`")
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that does what functions do."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


@contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """A block that changes nothing: what a function calls may always ask again."""
    yield


# ---------------------------------------------------------------------- functions of your own


def is_tensor_like(inp: Any) -> bool:
    """Whether this is a tensor, or of a class with ``__torch_function__``."""
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether somebody wants to be asked: an argument whose class has ``__torch_function__``, or a
    mode."""
    chosen = _overriding.choices
    if chosen.skipping:
        chosen.skipping = False
        return False
    return bool(chosen.modes) or (chosen.arguments and bool(_overriding.candidates(relevant_args)))


def has_torch_function_unary(argument: Any) -> bool:
    """``has_torch_function`` of one argument."""
    return has_torch_function((argument,))


def has_torch_function_variadic(*arguments: Any) -> bool:
    """``has_torch_function`` of arguments that are not in a tuple."""
    return has_torch_function(arguments)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """What a mode, or the first ``__torch_function__`` among the arguments, makes of the call.

    Those of derived classes come first. Raises TypeError where all return NotImplemented.
    """
    found = _overriding.candidates(relevant_args, plain=True)
    result = _overriding.first_answer(public_api, found, (args, kwargs))
    if result is not NotImplemented:
        return result
    name = f"{public_api.__module__}.{public_api.__name__}"
    raise TypeError(_overriding.refusal(name, list(map(type, found))))


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[F], F]:
    """Decorator: a function that asks, before it runs, the arguments that ``dispatcher`` gives.

    Args:
        dispatcher: takes what the function takes.
    """

    def inner(func: Any) -> Any:
        @functools.wraps(func)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapped

    return inner


def redispatch_function(
    func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
) -> Any:
    """Calls a function without asking about this call, while what it calls asks as always."""
    chosen = _overriding.choices
    chosen.skipping = True
    try:
        return func(*args, **(kwargs or {}))
    finally:
        chosen.skipping = False


# ---------------------------------------------------------------------- what there is


def _entries() -> dict[FunctionType, _overriding.Overridable]:
    for name in _LATER:
        getattr(_sys.modules["lazyt"], name)
    _homes()
    return _overriding.overridables()


def _homes() -> dict[str, Any]:
    names = ("autograd", "nn.functional", "nn.init", "linalg", "fft", "special", "masked")
    modules = {f"lazyt.{name}": _import_module(f"lazyt.{name}") for name in names}
    return {"lazyt": _sys.modules["lazyt"], "lazyt.Tensor": Tensor, **modules}


@functools.cache
def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """All functions that ask, by the module or class that has them; of properties, what gets
    them: ``Tensor.shape.__get__``."""
    homes = _homes()
    found: dict[Any, list[Callable[..., Any]]] = {}
    for entry in _entries().values():
        home = "lazyt.Tensor" if entry.home.startswith("lazyt.Tensor.") else entry.home
        functions = found.setdefault(homes[home], [])
        if entry.public not in functions:
            functions.append(entry.public)
    return found


@functools.cache
def get_ignored_functions() -> set[Callable[..., Any]]:
    """Functions of the same modules that do not ask about their arguments."""
    asking = {f for functions in get_overridable_functions().values() for f in functions}
    found: set[Callable[..., Any]] = set()
    for home in _homes().values():
        for value in vars(home).values():
            if isinstance(value, (FunctionType, staticmethod)) and value not in asking:
                found.add(value.__func__ if isinstance(value, staticmethod) else value)
    return found


@functools.cache
def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """For every function that asks, one of the same signature that returns -1."""
    import inspect

    def override(entry: _overriding.Overridable) -> Callable[..., Any]:
        def stands_in(*args: Any, **kwargs: Any) -> int:
            return -1

        stands_in.__signature__ = inspect.signature(entry.real)  # type: ignore[attr-defined]
        stands_in.__name__ = entry.name
        return stands_in

    return {entry.public: override(entry) for entry in _entries().values()}


@functools.cache
def _names() -> dict[Any, str]:
    entries = sorted(_entries().values(), key=lambda entry: entry.function is entry.public)
    return {e.public: f"{e.home.partition('.')[2]}.{e.name}".lstrip(".") for e in entries}


def resolve_name(f: Any) -> str | None:
    """The text that gives a function which ``__torch_function__`` was called with:
    ``lazyt.Tensor.add``. None for other functions."""
    name = _names().get(f)
    return None if name is None else f"{_package_name()}.{name}"


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether a function is a method of tensors, or ``__get__`` of one of their properties.

    >>> import lazyt
    >>> from lazyt.overrides import is_tensor_method_or_property
    >>> is_tensor_method_or_property(lazyt.Tensor.add), is_tensor_method_or_property(lazyt.add)
    (True, False)
    """
    methods = get_overridable_functions()[Tensor]
    return func in methods or getattr(func, "__name__", "") == "__get__"


# What other packages call by PyTorch's private names.


def _push_mode(mode: Any) -> None:
    _overriding.enter(mode)


def _pop_mode() -> Any:
    return _overriding.leave()


@contextmanager
def _pop_mode_temporarily() -> Iterator[Any]:
    mode = _pop_mode()
    try:
        yield mode
    finally:
        _push_mode(mode)


def _get_current_function_mode() -> Any:
    modes = _overriding.choices.modes
    return modes[-1] if modes else None


def _get_current_function_mode_stack() -> list[Any]:
    return list(_overriding.choices.modes)


_explain_absence(__name__)
