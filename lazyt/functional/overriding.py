"""``__torch_function__``: who is asked before a function of the API runs.

A program in which nobody overrides functions does not pay for the question. Functions run their
own code until somebody may want to be asked: a call fails that was given an object with
``__torch_function__``. From then on (``start``) the code of every function that can be overridden
is a stub, which looks at the arguments first. The function objects stay the same, so that whoever
imported one before sees no difference.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import local
from types import CellType, CodeType, FrameType, FunctionType
from typing import Any, TypeVar

from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import package_name

R = TypeVar("R")

_PACKAGE = __file__.rpartition("functional")[0]
#: Types of arguments that have no ``__torch_function__``, to be passed over at once.
_PLAIN = frozenset({
    Tensor, int, float, bool, complex, str, bytes, type(None), dict, set, frozenset, slice, type,
    type(Ellipsis), FunctionType,
})  # fmt: skip


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Functions of the torch namespace that have no arguments to ask, or do not ask them in PyTorch.
_NEVER = _names("""
    as_tensor asarray autocast_decrement_nesting autocast_increment_nesting broadcast_shapes
    clear_autocast_cache explain from_dlpack from_numpy frombuffer get_autocast_cpu_dtype
    get_autocast_dtype get_autocast_gpu_dtype get_rng_state initial_seed
    is_anomaly_check_nan_enabled is_anomaly_enabled is_autocast_cache_enabled
    is_autocast_cpu_enabled is_autocast_enabled is_grad_enabled is_inference_mode_enabled
    is_storage is_tensor manual_seed realize seed set_autocast_cache_enabled
    set_autocast_cpu_dtype set_autocast_cpu_enabled set_autocast_dtype set_autocast_enabled
    set_default_dtype set_printoptions set_rng_state tensor to_dlpack typename
    wait_for_compiler why_compiled why_realized
""")
#: The same of methods.
_NEVER_METHODS = _names("""
    __array_function__ __array_namespace__ __array_ufunc__ __array_wrap__ __buffer__
    __delitem__ __dir__ __getattr__ __hash__ __init__ __init_subclass__ __iter__ __new__
    __torch_function__ as_subclass explain realize
""")
#: Methods behind Python's operators, which are asked for under the names of plain methods.
_OPERATORS = {
    **{f"__{name}__": name for name in ("add", "sub", "mul", "matmul", "neg", "abs", "ne", "lt",
                                        "le", "gt", "ge")},
    **{f"__i{name}__": f"{name}_" for name in ("add", "sub", "mul")},
    "__radd__": "add", "__rmul__": "mul", "__truediv__": "div", "__itruediv__": "div_",
    "__mod__": "remainder", "__imod__": "remainder_", "__pos__": "positive",
    "__rand__": "bitwise_and", "__ror__": "bitwise_or", "__rxor__": "bitwise_xor",
}  # fmt: skip
_TWO_SIDED = _names("""
    add sub mul truediv floordiv mod pow matmul and or xor lshift rshift eq ne lt le gt ge
""")
#: Operators of two operands: what refuses an operand leaves it to that operand's class.
_OF_TWO = frozenset(f"__{side}{name}__" for name in _TWO_SIDED for side in ("", "r"))


class Choices(local):
    """What one thread has said about overriding.

    Attributes:
        subclasses: whether arguments are asked.
        everybody: whether anybody is asked.
        modes: the modes that it is in, the innermost last; they are asked before arguments.
    """

    def __init__(self) -> None:
        self.subclasses = True
        self.everybody = True
        self.modes: list[Any] = []


choices = Choices()


class Overridable:
    """A function that can be overridden.

    Attributes:
        function: the function.
        name: its name in its module or class.
        home: the module or class, as errors call it.
        public: what an overriding function is given as ``func``.
        real: a function with the code that it has otherwise.
        stub: the code that asks, once it was needed.
    """

    __slots__ = ("function", "home", "name", "public", "real", "stub")

    def __init__(self, function: FunctionType, name: str, home: str, public: Any) -> None:
        self.function, self.name, self.home, self.public = function, name, home, public
        self.real = FunctionType(
            function.__code__, function.__globals__, function.__name__, function.__defaults__,
            function.__closure__,
        )  # fmt: skip
        self.real.__kwdefaults__ = function.__kwdefaults__
        self.stub: CodeType | None = None


class Switch:
    """Whether functions ask, and which.

    Attributes:
        on: whether they do.
        lasting: whether they do so for good.
        open: how many ``asking`` blocks are entered.
        functions: all that can be overridden, once somebody has looked for them.
        modules: the names of modules with functions, those that are public, and the module's name.
    """

    __slots__ = ("functions", "lasting", "modules", "on", "open")

    def __init__(self) -> None:
        self.on = False
        self.lasting = False
        self.open = 0
        self.functions: dict[FunctionType, Overridable] = {}
        self.modules: list[tuple[dict[str, Any], list[str], str]] = []


switch = Switch()


# ---------------------------------------------------------------------- the stubs


def _stub(*args: Any, **kwargs: Any) -> Any:
    # In the copy that a function gets, ``ask`` and its entry stand for these texts.
    ask: Any = "ask"
    entry: Any = "entry"
    return ask(entry, args, kwargs)


def _code_that_asks(entry: Overridable) -> CodeType:
    """The stub for one function."""
    own = {"ask": ask, "entry": entry}
    constants = tuple(own.get(c, c) if isinstance(c, str) else c for c in _stub.__code__.co_consts)
    old = entry.real.__code__
    return _stub.__code__.replace(
        co_consts=constants, co_freevars=old.co_freevars, co_name=old.co_name
    )


def start(lasting: bool = True) -> None:
    """Lets all functions ask from now on, or until ``stop`` where that is not ``lasting``."""
    switch.lasting = switch.lasting or lasting
    if not switch.on:
        switch.on = True
        for entry in _found().values():
            _install(entry)


def stop() -> None:
    """Functions run their own code again, unless somebody wants to be asked for good or an
    ``asking`` block is entered."""
    if switch.on and not switch.lasting and not switch.open:
        switch.on = False
        for entry in switch.functions.values():
            entry.function.__code__ = entry.real.__code__


@contextmanager
def asking() -> Iterator[None]:
    """Lets all functions ask while it is entered."""
    switch.open += 1
    start(lasting=False)
    try:
        yield
    finally:
        switch.open -= 1
        stop()


def _install(entry: Overridable) -> None:
    function = entry.function
    if not hasattr(function, "__wrapped__"):  # which gives the signature
        function.__wrapped__ = entry.real  # type: ignore[attr-defined]
    if entry.stub is None:
        entry.stub = _code_that_asks(entry)
    function.__code__ = entry.stub


def may_be_overridden(names: dict[str, Any], public: Iterable[str], home: str) -> None:
    """Takes note of functions among the ``names`` of a module: those that are ``public``."""
    switch.modules.append((names, [*public], home))
    if switch.on:
        known = set(switch.functions)
        for function, entry in _found().items():
            if function not in known:
                _install(entry)


def _found() -> dict[FunctionType, Overridable]:
    """All functions that can be overridden, as far as their modules are loaded."""
    entries = switch.functions

    def add(function: Any, name: str, home: str, public: Any) -> None:
        if isinstance(function, FunctionType) and function not in entries:
            entries[function] = Overridable(function, name, home, public)

    if not entries:
        for name, value in vars(Tensor).items():
            if name in _NEVER_METHODS:
                continue
            if isinstance(value, property):
                add(value.fget, "__get__", f"lazyt.Tensor.{name}", value.__get__)
                add(value.fset, "__set__", f"lazyt.Tensor.{name}", value.__set__)
                add(value.fdel, "__delete__", f"lazyt.Tensor.{name}", value.__delete__)
            else:
                public = getattr(Tensor, _OPERATORS.get(name, name))
                add(value, name, "lazyt.Tensor", public)
    for names, public_names, home in switch.modules:
        for name in public_names:
            if name not in _NEVER and not name.startswith("_"):
                value = names.get(name)
                add(value, name, home, value)
    return entries


def as_method(function: Any) -> Any:
    """Another function that does the same, for Tensor: PyTorch's ``torch.add`` and
    ``torch.Tensor.add`` are two functions, and who overrides them is told which one was called."""
    cells, code = function.__closure__, function.__code__
    own = CellType()
    made = FunctionType(
        code if cells else code.replace(),  # by which ``answered`` finds it
        function.__globals__,
        function.__name__,
        function.__defaults__,
        cells and tuple([own if cell.cell_contents is function else cell for cell in cells]),
    )
    own.cell_contents = made
    made.__kwdefaults__ = function.__kwdefaults__
    made.__module__, made.__doc__ = function.__module__, function.__doc__
    made.__qualname__ = f"Tensor.{function.__name__}"
    made.__annotations__ = function.__annotations__
    made.__dict__.update(function.__dict__, __wrapped__=function)
    return made


# ---------------------------------------------------------------------- asking


def _disabled_torch_function_impl(
    func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
) -> Any:
    """``__torch_function__`` for classes that do not want to be asked: the call itself."""
    return func(*args, **(kwargs or {}))


def hook_of(value: Any) -> Any:
    """The ``__torch_function__`` of an object, or None for one that is not asked."""
    kind = type(value)
    if kind in _PLAIN or isinstance(value, type):
        return None
    hook = getattr(kind if isinstance(value, Tensor) else value, "__torch_function__", None)
    return None if hook is _disabled_torch_function_impl else hook


def candidates(values: Iterable[Any]) -> list[Any]:
    """The arguments to be asked, in order: one of each class, those of derived classes first.

    Elements of tuples and lists are arguments, too.
    """
    found: list[Any] = []
    for value in values:
        if isinstance(value, (tuple, list)):
            for part in value:
                _add_candidate(part, found)
        _add_candidate(value, found)
    return found


def _add_candidate(value: Any, found: list[Any]) -> None:
    if hook_of(value) is None:
        return
    kind = type(value)
    if any(type(other) is kind for other in found):
        return
    indices = (index for index, other in enumerate(found) if issubclass(kind, type(other)))
    found.insert(next(indices, len(found)), value)


def ask(entry: Overridable, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of a function that can be overridden."""
    if not choices.everybody:
        return entry.real(*args, **kwargs)
    found = candidates((*args, *kwargs.values())) if choices.subclasses else []
    if not found and not choices.modes:
        return entry.real(*args, **kwargs)
    result = NotImplemented
    try:
        result = first_answer(entry.public, found, args, kwargs)
    except TypeError:
        if entry.name not in _OF_TWO:
            raise
    if result is not NotImplemented or entry.name in _OF_TWO:
        return result
    lines = "".join(f"\n  - tensor subclass {type(value)}" for value in found)
    home = package_name() + entry.home.removeprefix("lazyt")
    raise TypeError(
        f"Multiple dispatch failed for '{home}.{entry.name}'; all __torch_function__ handlers "
        f"returned NotImplemented:\n{lines}\n\nFor more information, try re-running with "
        "TORCH_LOGS=not_implemented"
    )


def first_answer(
    public: Any, found: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """What the first that does not refuse makes of a call; NotImplemented where all do.

    As in PyTorch, ``kwargs`` is not passed where there are none.
    """
    types = tuple(map(type, found))
    for value in found:
        hook = value.__torch_function__
        if getattr(hook, "__self__", None) is value:
            warnings.warn(
                "Defining your `__torch_function__` as a plain method is deprecated and will be "
                "an error in future, please define it as a classmethod.",
                DeprecationWarning,
                stacklevel=4,
            )
        result = hook(public, types, args, kwargs) if kwargs else hook(public, types, args)
        if result is not NotImplemented:
            return result
    return NotImplemented


# ---------------------------------------------------------------------- calls that failed


def answered(function: Callable[..., R] | None = None, args: Any = None, kwargs: Any = None) -> R:
    """What an argument with ``__torch_function__`` makes of a call that failed, to be called while
    its error is handled; raises that error where nobody wants to be asked, or was asked already.

    Args:
        function: the function; by default the one that calls this.
        args, kwargs: what it was given; by default what it has under its parameters' names.
    """
    frame = sys._getframe(1)
    if switch.on or not (found := candidates(_all_given(frame))):
        raise
    functions = _found()
    if _is_inner(frame, found):
        raise  # to the function that the program called
    if function is None:
        code = frame.f_code
        function = next(f for f in functions if f.__code__ is code)
    assert function is not None
    if args is None:
        args, kwargs = _given(frame, function)
    start()
    return function(*args, **kwargs)


def undecided(operator: str, self: Any, other: Any) -> Any:
    """What the ``__torch_function__`` of an operand makes of an operator that does not know it;
    NotImplemented where there is none.

    Args:
        operator: what the method is called.
    """
    if switch.on or hook_of(other) is None or _is_inner(sys._getframe(1), [other]):
        return NotImplemented
    start()
    return getattr(Tensor, operator)(self, other)


def _given(frame: FrameType, function: Callable[..., Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a function that runs, without those that are its defaults."""
    code, values = frame.f_code, frame.f_locals
    named = code.co_argcount
    args = [values[name] for name in code.co_varnames[:named]]
    end = named + code.co_kwonlyargcount
    if code.co_flags & inspect.CO_VARARGS and values[code.co_varnames[end]]:
        args += values[code.co_varnames[end]]
    else:
        usual = list(getattr(function, "__defaults__", None) or ())
        while usual and args[-1] is usual.pop():
            args.pop()
    defaults = getattr(function, "__kwdefaults__", None) or {}
    kwargs = {name: values[name] for name in code.co_varnames[named:end]}
    return args, {n: v for n, v in kwargs.items() if n not in defaults or v is not defaults[n]}


def _is_inner(frame: FrameType, found: list[Any]) -> bool:
    """Whether a function that runs was called by another one, which was given the same object."""
    outer = frame.f_back
    while outer is not None and outer.f_code.co_filename.startswith(_PACKAGE):
        code = outer.f_code
        if "answered" in code.co_names and code.co_filename != __file__:
            values = _all_given(outer)
            if any(value is one for value in candidates(values) for one in found):
                return True
        outer = outer.f_back
    return False


def _all_given(frame: FrameType) -> Iterator[Any]:
    code, values = frame.f_code, frame.f_locals
    count = code.co_argcount + code.co_kwonlyargcount
    for name in code.co_varnames[:count]:
        yield values[name]
    if code.co_flags & inspect.CO_VARARGS:
        yield from values[code.co_varnames[count]]
        count += 1
    if code.co_flags & inspect.CO_VARKEYWORDS:
        yield from values[code.co_varnames[count]].values()
