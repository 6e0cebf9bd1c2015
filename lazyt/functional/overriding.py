"""``__torch_function__``: who is asked before a function of the API runs.

A program in which nobody overrides functions does not pay for the question. Functions run their
own code until somebody may want to be asked: a subclass of Tensor is defined, a mode is entered,
or a call fails that was given an object with ``__torch_function__``. From then on (``start``) the
code of every function that can be overridden is a stub, which looks at the arguments first. The
function objects stay the same, so that whoever imported one before sees no difference.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from threading import RLock, local
from types import CellType, CodeType, FrameType, FunctionType
from typing import Any, TypeVar

from lazyt.errors import warn
from lazyt.handle.device import device
from lazyt.handle.hooks import looks
from lazyt.handle.layout import layout, memory_format
from lazyt.handle.tensor import Size, Tensor
from lazyt.ir.dtypes import DType, package_name

R = TypeVar("R")

_PACKAGE = __file__.rpartition("functional")[0]
#: Types of arguments that are not asked, to be passed over at once.
plain_kinds: set[type] = {
    Tensor, int, float, bool, complex, str, bytes, type(None), dict, set, frozenset, slice, type,
    type(Ellipsis), FunctionType, Size, DType, device, layout, memory_format,
}  # fmt: skip


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Functions of the torch namespace that have no arguments to ask, or do not ask them in PyTorch.
_NEVER = _names("""
    c_function c_kernel check_cuda compile cuda_kernel explain_broadcast get_default_dtype
    get_printoptions vmap
    autocast_decrement_nesting autocast_increment_nesting broadcast_shapes
    clear_autocast_cache explain from_dlpack from_numpy get_autocast_cpu_dtype
    get_autocast_dtype get_autocast_gpu_dtype get_rng_state initial_seed
    is_anomaly_check_nan_enabled is_anomaly_enabled is_autocast_cache_enabled
    is_autocast_cpu_enabled is_autocast_enabled is_grad_enabled is_inference_mode_enabled
    is_storage is_tensor manual_seed realize seed set_autocast_cache_enabled
    set_autocast_cpu_dtype set_autocast_cpu_enabled set_autocast_dtype set_autocast_enabled
    set_default_dtype set_printoptions set_rng_state to_dlpack typename
    wait_for_compiler why_compiled why_realized
""")
#: Functions whose arguments are values, whatever they are: only modes are asked.
_OF_VALUES = _names("as_tensor asarray frombuffer tensor")
#: Methods that nobody is asked about.
_NEVER_METHODS = _names("""
    __array_function__ __array_namespace__ __array_ufunc__ __array_wrap__ __buffer__
    __delitem__ __dir__ __getattr__ __hash__ __init__ __init_subclass__ __iter__ __new__
    __torch_function__ _fn _offset alias as_subclass explain node realize strides
""")
#: Functions of the torch namespace, and methods, that PyTorch has written in Python: they ask with
#: every argument that has a default passed by name.
_IN_PYTHON = _names("""
    atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors cartesian_prod cdist chain_matmul
    einsum lu meshgrid norm pca_lowrank split stft svd_lowrank tensordot unique unique_consecutive
    unravel_index
""")
_METHODS_IN_PYTHON = _names("""
    __array__ __contains__ __deepcopy__ __dlpack__ __dlpack_device__ __floordiv__ __format__
    __ipow__ __len__ __pow__ __rdiv__ __reduce_ex__ __repr__ __reversed__ __rfloordiv__
    __rlshift__ __rmatmul__ __rmod__ __rpow__ __rrshift__ __rsub__ __rtruediv__ __setstate__
    backward dim_order is_shared istft lu norm register_hook register_post_accumulate_grad_hook
    resize resize_as share_memory_ split stft storage storage_type unflatten unique
    unique_consecutive
""")
#: Of these, those that pass on a list of operands as so many arguments.
_UNPACKED = _names("einsum")
#: Functions of ``nn.functional`` that PyTorch has not written in Python.
_NN_NOT_IN_PYTHON = _names("""
    adaptive_avg_pool1d avg_pool1d avg_pool2d avg_pool3d bilinear celu_ channel_shuffle conv1d
    conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d cosine_similarity elu_
    gelu hardshrink hardtanh_ leaky_relu_ linear logsigmoid native_channel_shuffle one_hot
    pairwise_distance pdist pixel_shuffle pixel_unshuffle prelu relu_ rrelu_
    scaled_dot_product_attention selu_ softplus softshrink threshold_
""")
#: Methods behind Python's operators, which overriding functions see as plain methods.
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
        arguments: whether arguments are asked.
        modes: the modes that it is in, the innermost last; they are asked before arguments.
        skipping: whether the next function does not ask.
        wrappers: whether ``__torch_dispatch__`` of arguments is called.
    """

    def __init__(self) -> None:
        self.arguments = self.wrappers = True
        self.skipping = False
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
        in_python: whether PyTorch's is written in Python.
        stub: the code that asks, once it was needed.
    """

    __slots__ = ("function", "home", "in_python", "name", "public", "real", "stub")

    def __init__(self, function: FunctionType, name: str, home: str, public: Any) -> None:
        self.function, self.name, self.home, self.public = function, name, home, public
        named = {"lazyt": _IN_PYTHON, "lazyt.Tensor": _METHODS_IN_PYTHON}.get(home, frozenset())
        self.in_python = name in named or home in ("lazyt.nn.init", "lazyt.autograd")
        if home == "lazyt.nn.functional":
            self.in_python = name not in _NN_NOT_IN_PYTHON
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
        open: how many modes and ``asking`` blocks are entered, by all threads.
        functions: all that can be overridden, once somebody has looked for them.
        layouts: what runs functions that are given tensors of the classes ``sparse``.
        modules: the names of modules with functions, those that are public, and the module's name.
        sparse: classes of tensors that are not strided, once there are any.
        wrappers: classes of tensors with ``__torch_dispatch__``, once there are any.
        dispatch: what runs functions that are given tensors of these.
    """

    __slots__ = (
        "dispatch", "functions", "lasting", "layouts", "lock", "modules", "on", "open", "sparse",
        "wrappers",
    )  # fmt: skip

    def __init__(self) -> None:
        self.on = self.lasting = False
        self.wrappers: tuple[type, ...] = ()
        self.dispatch: Callable[..., Any] | None = None
        self.open = 0
        self.lock = RLock()
        self.functions: dict[FunctionType, Overridable] = {}
        self.modules: list[tuple[dict[str, Any], list[str], str]] = []
        self.sparse: tuple[type, ...] = ()
        self.layouts: Callable[[Overridable, tuple[Any, ...], dict[str, Any]], Any] | None = None


switch = Switch()


# ---------------------------------------------------------------------- the stubs


#: What a function does that asks. Other objects stand for the texts in the copy that it gets.
_STUB = """
def outer({parameters}):
    def stub(*args, **kwargs):
        if False:
            {cells}
        switch = "switch"
        plain = "plain"
        if not switch.open and plain(map(type, args)):
            real = "real"
            if not kwargs:
                return real(*args)
            if plain(map(type, kwargs.values())):
                return real(*args, **kwargs)
        ask = "ask"
        entry = "entry"
        return ask(entry, args, kwargs)
    return stub
"""


@lru_cache(None)
def _stub_code(count: int) -> CodeType:
    """The stub's code, with as many free variables: a function keeps its closure, and who looks at
    a frame's variables finds a cell for each."""
    cells = ", ".join(f"cell{number}" for number in range(count))
    made: dict[str, Any] = {}
    text = _STUB.format(parameters=cells, cells=cells or "pass")
    exec(compile(text, __file__, "exec"), made)  # a frame of lazyt's, for who looks for the user's
    code: CodeType = made["outer"](*[None] * count).__code__
    return code


def _code_that_asks(entry: Overridable) -> CodeType:
    """The stub for one function."""
    own: dict[str, Any] = {"real": entry.real, "ask": ask, "entry": entry}
    own |= {"switch": switch, "plain": plain_kinds.issuperset}
    old = entry.real.__code__
    code = _stub_code(len(old.co_freevars))
    constants = tuple(own.get(c, c) if isinstance(c, str) else c for c in code.co_consts)
    return code.replace(co_consts=constants, co_freevars=old.co_freevars, co_name=old.co_name)


def start(lasting: bool = True) -> None:
    """Lets all functions ask from now on, or until ``stop`` where that is not ``lasting``."""
    with switch.lock:
        switch.lasting = switch.lasting or lasting
        if not switch.on:
            switch.on = True
            for entry in overridables().values():
                _install(entry)


def stop() -> None:
    """Functions run their own code again, unless a class overrides them permanently, or a mode or
    an ``asking`` block is entered."""
    with switch.lock:
        if switch.on and not switch.lasting and not switch.open:
            switch.on = False
            for entry in switch.functions.values():
                entry.function.__code__ = entry.real.__code__


@contextmanager
def asking() -> Iterator[None]:
    """Lets all functions ask while it is entered."""
    _open()
    try:
        yield
    finally:
        _close()


def _open() -> None:
    with switch.lock:
        switch.open += 1
        start(lasting=False)


def _close() -> None:
    with switch.lock:
        switch.open -= 1
        stop()


def enter(mode: Any, outermost: bool = False) -> None:
    """Lets functions of this thread ask a mode first, until ``leave``; last, where it is to be the
    outermost."""
    _open()
    choices.modes = [mode, *choices.modes] if outermost else [*choices.modes, mode]


def leave(mode: Any = None) -> Any:
    """A mode, by default that which was entered last, is not asked any more; gives it. Raises
    IndexError where there is none."""
    mode = choices.modes[-1] if mode is None else mode
    choices.modes = [other for other in choices.modes if other is not mode]
    _close()
    return mode


class Disabled:
    """A block in which arguments are not asked; modes are, unless ``modes`` says otherwise."""

    __slots__ = ("_arguments", "_modes", "modes")

    def __init__(self, modes: bool = True) -> None:
        self.modes = modes

    def __enter__(self) -> None:
        self._arguments, choices.arguments = choices.arguments, False
        if not self.modes:
            self._modes, choices.modes = choices.modes, []

    def __exit__(self, *_: object) -> None:
        choices.arguments = self._arguments
        if not self.modes:
            choices.modes = self._modes


def _install(entry: Overridable) -> None:
    function = entry.function
    if not hasattr(function, "__wrapped__"):  # which gives the signature
        entry.real.__annotations__ = function.__annotations__
        function.__wrapped__ = entry.real  # type: ignore[attr-defined]
    if entry.stub is None:
        entry.stub = _code_that_asks(entry)
    function.__code__ = entry.stub


def may_be_overridden(names: dict[str, Any], public: Iterable[str], home: str) -> None:
    """Takes note of functions among the ``names`` of a module: those that are ``public``."""
    switch.modules.append((names, [*public], home))
    if switch.on:
        known = set(switch.functions)
        for function, entry in overridables().items():
            if function not in known:
                _install(entry)


def overridables() -> dict[FunctionType, Overridable]:
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


def is_overriding(cls: type) -> bool:
    """Whether objects of a class are asked."""
    hook = None if cls is Tensor else getattr(cls, "__torch_function__", None)
    return hook is not None and hook is not _disabled_torch_function_impl


def hook_of(value: Any) -> Any:
    """The ``__torch_function__`` of an object, or None for one that is not asked."""
    kind = type(value)
    if kind in plain_kinds or isinstance(value, type):
        return None
    hook = getattr(kind if isinstance(value, Tensor) else value, "__torch_function__", None)
    return None if hook is _disabled_torch_function_impl else hook


def candidates(values: Iterable[Any], plain: bool = False) -> list[Any]:
    """The arguments to be asked, in order: one of each class, those of derived classes first.

    Elements of tuples and lists are arguments, too. With ``plain``, plain tensors are among them.
    """
    found: list[Any] = []
    for value in values:
        kind = type(value)
        if kind in plain_kinds and not (plain and kind is Tensor):
            continue
        if isinstance(value, (tuple, list)):
            if plain or not plain_kinds.issuperset(map(type, value)):
                for part in value:
                    _add_candidate(part, found, plain)
            if kind is tuple or kind is list:
                continue
        _add_candidate(value, found, plain)
    return found


def _add_candidate(value: Any, found: list[Any], plain: bool) -> None:
    kind = type(value)
    if hook_of(value) is None and not (plain and kind is Tensor):
        return
    if any(type(other) is kind for other in found):
        return
    indices = (index for index, other in enumerate(found) if issubclass(kind, type(other)))
    found.insert(next(indices, len(found)), value)


def of_modes(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What the innermost mode that records programs makes of a call of ``function``, a branch or a
    loop; NotImplemented where there is none."""
    modes = choices.modes
    for number in range(len(modes) - 1, -1, -1):
        told = getattr(modes[number], "control_flow", None)
        if told is not None:
            choices.modes = modes[:number]
            try:
                return told(function, args, kwargs)
            finally:
                choices.modes = modes
    return NotImplemented


def ask(entry: Overridable, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of a function that can be overridden."""
    found: list[Any] = []
    if choices.skipping:
        choices.skipping = False
        with nullcontext() if entry.in_python else Disabled(modes=False):
            return _run(entry, args, kwargs)
    if choices.arguments and entry.name not in _OF_VALUES:
        found = candidates((*args, *kwargs.values()) if kwargs else args)
    if not found and not choices.modes:
        return _run(entry, args, kwargs)
    given: Any = (args, kwargs) if kwargs else (args,)
    if entry.in_python:
        given = _in_full(entry, args, kwargs)
        if choices.arguments:
            found = candidates((*given[0], *given[1].values()), plain=True)
    elif entry.name == "__get__":
        found = found or [args[0]]
    result = NotImplemented
    try:
        result = first_answer(entry.public, found, given)
    except TypeError:
        if entry.name not in _OF_TWO:
            raise
    if result is NotImplemented and entry.name not in _OF_TWO:
        raise all_refused(entry, found)
    return result


def _run(entry: Overridable, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The function itself, by the classes and layouts of its tensors."""
    if switch.wrappers and choices.wrappers and holds(switch.wrappers, args, kwargs):
        assert switch.dispatch is not None
        return switch.dispatch(entry.public, args, kwargs)
    sparse = switch.sparse
    if sparse and switch.layouts is not None:
        for value in (*args, *kwargs.values()) if kwargs else args:
            if isinstance(value, sparse) or (
                isinstance(value, (list, tuple)) and any(isinstance(v, sparse) for v in value)
            ):
                return switch.layouts(entry, args, kwargs)
    return entry.real(*args, **kwargs)


def holds(kinds: tuple[type, ...], args: Iterable[Any], kwargs: dict[str, Any]) -> bool:
    """Whether an argument is of one of these classes, or is a list of such objects."""
    return any(
        isinstance(value, kinds)
        or (isinstance(value, (list, tuple)) and any(isinstance(v, kinds) for v in value))
        for value in (*args, *kwargs.values())
    )


def _in_full(
    entry: Overridable, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call as functions in Python pass them on."""
    try:
        bound = inspect.signature(entry.function).bind(*args, **kwargs)
    except TypeError:
        return args, kwargs  # the function itself is to refuse them
    bound.apply_defaults()
    first: list[Any] = []
    named: dict[str, Any] = {}
    for parameter in bound.signature.parameters.values():
        value = bound.arguments[parameter.name]
        if entry.home == "lazyt.nn.init":
            named[parameter.name] = value  # PyTorch's asks with names alone
        elif parameter.kind is parameter.VAR_POSITIONAL:
            first += value
        elif parameter.kind is parameter.VAR_KEYWORD:
            named.update(value)
        elif parameter.default is parameter.empty and parameter.kind is not parameter.KEYWORD_ONLY:
            first.append(value)
        else:
            named[parameter.name] = value
    if (
        entry.name in _UNPACKED
        and isinstance(first[0], str)
        and isinstance(first[1], (list, tuple))
    ):
        first[1:] = first[1]
    return tuple(first), named


def all_refused(entry: Overridable, found: list[Any]) -> TypeError:
    """The error for a call that everybody refused who was asked."""
    home = package_name() + entry.home.removeprefix("lazyt")
    kinds = list(map(type, found))
    if entry.in_python:
        return TypeError(refusal(f"{home}.{entry.name}", kinds))
    lines = "".join(f"\n  - tensor subclass {kind}" for kind in kinds)
    if choices.modes:
        lines = f"\n  - mode object {choices.modes[-1]!r}{lines}"
    return TypeError(
        f"Multiple dispatch failed for '{home}.{entry.name}'; all __torch_function__ handlers "
        f"returned NotImplemented:\n{lines}\n\nFor more information, try re-running with "
        "TORCH_LOGS=not_implemented"
    )


def refusal(name: str, kinds: list[type]) -> str:
    """The text of that error for a function that is written in Python."""
    modes = f" nor in mode {choices.modes[-1]}" if choices.modes else ""
    return (
        f"no implementation found for '{name}' on types that implement __torch_function__: "
        f"{kinds}{modes}"
    )


def first_answer(public: Any, found: list[Any], given: tuple[Any, ...]) -> Any:
    """What the first that does not refuse makes of a call: the mode that was entered last, or the
    arguments in order. NotImplemented where all refuse.

    Args:
        given: the positional arguments and, where there are any, those by name.
    """
    types = tuple(map(type, found))
    if choices.modes:
        looks("a mode decides what functions do")
        modes = choices.modes
        choices.modes = modes[:-1]
        try:
            result = modes[-1].__torch_function__(public, types, *given)
        finally:
            choices.modes = modes
        if result is not NotImplemented:
            return result
    for value in found:
        hook = value.__torch_function__
        if getattr(hook, "__self__", None) is value:
            warn(
                "Defining your `__torch_function__` as a plain method is deprecated and will be "
                "an error in future, please define it as a classmethod.",
                DeprecationWarning,
            )
        if getattr(hook, "__func__", None) is not _inherited() and not getattr(
            type(value), "_is_divided", False
        ):
            looks(f"{type(value).__name__}.__torch_function__ decides what functions do")
        result = hook(public, types, *given)
        if result is not NotImplemented:
            return result
    return NotImplemented


def _inherited() -> Any:
    """What subclasses of Tensor inherit."""
    return Tensor.__torch_function__.__func__


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
    functions = overridables()
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
