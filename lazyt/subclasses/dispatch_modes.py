"""``__torch_dispatch__``: modes and classes that are asked about operators of ``torch.ops.aten``.

PyTorch's functions are made of operators, and its dispatcher asks modes and classes before it runs
one. lazyt's are not: while a mode is entered, or where an argument is of a class with
``__torch_dispatch__``, a call of a function is taken apart into the operators that PyTorch has for
it (``aten_calls``), arguments and overloads by their schemas, and each is asked about. What an
operator does is lazyt's function. While nobody wants to be asked, nothing of this runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import local
from typing import Any

from lazyt.compat.served.packages import AtenOperator, aten, dispatcher
from lazyt.errors import GradientError, LazytError
from lazyt.functional import overriding
from lazyt.functional.subclasses import dispatching
from lazyt.handle.device import device
from lazyt.handle.tensor import Tensor
from lazyt.library.operators import OpOverload
from lazyt.subclasses.aten_calls import COMPOSITES, PASSIVE, RENAMED
from lazyt.subclasses.aten_gradients import differentiated
from lazyt.subclasses.aten_schemas import choose, schemas_of
from lazyt.utils import _pytree as pytree

__all__ = [
    "TorchDispatchMode", "_disable_current_modes", "_get_current_dispatch_mode",
    "_get_current_dispatch_mode_stack", "_pop_mode_temporarily", "is_traceable_wrapper_subclass",
    "no_dispatch", "return_and_correct_aliasing", "transform_subclass",
]  # fmt: skip

#: Methods that are properties, and the function that PyTorch calls for them.
_PROPERTIES = {"T": "adjoint", "mT": "mT", "H": "mH", "mH": "mH"}


class _State(local):
    """What dispatch modes a thread is in.

    Attributes:
        modes: those that are asked, the innermost last.
        asked: how many are being asked.
    """

    def __init__(self) -> None:
        self.modes: list[Any] = []
        self.asked = 0


_state = _State()


class _Asks:
    """What functions ask while a mode is entered: it takes calls apart."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return decomposed(func, tuple(args), dict(kwargs or {}))


_asks = _Asks()


@contextlib.contextmanager
def _in_modes(modes: Sequence[Any]) -> Iterator[None]:
    """A block in which these modes are entered, and no others."""
    choices = overriding.choices
    before, functions = _state.modes, choices.modes
    _state.modes = [*modes]
    choices.modes = [_asks] if modes else []
    try:
        yield
    finally:
        _state.modes, choices.modes = before, functions


class TorchDispatchMode:
    """A context in which each operator asks ``__torch_dispatch__`` of the mode, to be defined by a
    subclass: ``(func, types, args, kwargs)``, where ``func`` is an overload such as
    ``torch.ops.aten.add.Tensor`` that may be called. The innermost mode is asked first; while it
    is, it is left.

    Functions are taken apart as PyTorch takes them; what it has no operator for is not seen. Of a
    backward, products and convolutions that a mode saw forward are seen; what else it does, and
    what optimizers' steps and recurrent layers do, is a graph here.

    Example:
        >>> from lazyt.subclasses.dispatch_modes import TorchDispatchMode
        >>> class Log(TorchDispatchMode):
        ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        ...         print(func)
        ...         return func(*args, **(kwargs or {}))
        >>> with Log():
        ...     y = lazyt.nn.functional.linear(lazyt.ones(2, 3), lazyt.ones(4, 3)).relu()
        aten.ones.default
        aten.ones.default
        aten.t.default
        aten.mm.default
        aten.relu.default
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Any:
        first = not _state.modes
        _state.modes = [*_state.modes, self]
        if first:
            overriding.enter(_asks, outermost=True)
        return self

    def __exit__(self, *_: object) -> None:
        _state.modes = _state.modes[:-1]
        if not _state.modes:
            overriding.leave(_asks)

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """An object of the class, which has to be entered all the same."""
        return cls(*args, **kwargs)

    @classmethod
    def is_infra_mode(cls) -> bool:
        """False: it is the program's."""
        return False


def _get_current_dispatch_mode() -> Any:
    """The innermost mode, None outside of all."""
    return _state.modes[-1] if _state.modes else None


def _get_current_dispatch_mode_stack() -> list[Any]:
    """The modes that are entered, the innermost last."""
    return [*_state.modes]


@contextlib.contextmanager
def _disable_current_modes() -> Iterator[list[Any]]:
    """A block outside of all modes, which it gives."""
    before = [*_state.modes]
    with _in_modes(()):
        yield before


no_dispatch = _disable_current_modes


@contextlib.contextmanager
def _pop_mode_temporarily(*_: Any) -> Iterator[Any]:
    """A block outside of the innermost mode, which it gives."""
    mode = _state.modes[-1]
    with _in_modes(_state.modes[:-1]):
        yield mode


# ------------------------------------------------------------------------ operators


def _askers(values: Iterable[Any]) -> list[Any]:
    """The arguments whose classes have ``__torch_dispatch__``, one of each class."""
    found: list[Any] = []
    for leaf in pytree.tree_leaves(list(values)):
        kind = type(leaf)
        if dispatching(kind) and not any(type(other) is kind for other in found):
            places = (n for n, other in enumerate(found) if issubclass(kind, type(other)))
            found.insert(next(places, len(found)), leaf)
    return found


def call_operator(op: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """An operator's result: what the innermost mode, or the class of an argument, makes of it, or
    else its own. Raises TypeError where all refuse."""
    askers = _askers([*args, *kwargs.values()])
    types = tuple(map(type, askers))
    if _state.modes:
        mode = _state.modes[-1]
        with _in_modes(_state.modes[:-1]):
            _state.asked += 1
            try:
                found = mode.__torch_dispatch__(op, types, tuple(args), kwargs)
            finally:
                _state.asked -= 1
        if found is not NotImplemented:
            return found
    for value in askers:
        found = type(value).__torch_dispatch__(op, types, tuple(args), kwargs)
        if found is not NotImplemented:
            return found
    if askers:
        raise TypeError(
            f"Multiple dispatch failed for '{op}'; all __torch_dispatch__ handlers returned "
            "NotImplemented:\n\n"
            + "".join(f"  - tensor subclass {kind}\n" for kind in types)
            + "\nFor more information, try re-running with TORCH_LOGS=not_implemented"
        )
    with _in_modes(()):
        if isinstance(op, OpOverload):
            return op(*args, **kwargs)
        if _state.asked:
            found = differentiated(emit, op._operator, op._function, args, kwargs)
            if found is not NotImplemented:
                return found
        return op._function(*args, **kwargs)


def called(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of an operator by the program: of all overloads, that which fits."""
    if isinstance(op, AtenOperator) and op._packet is None:
        chosen = choose(op._operator, args, kwargs)
        if chosen is None:
            return op._function(*args, **kwargs)
        op, args, kwargs = getattr(op, chosen[0]), chosen[1], chosen[2]
    return call_operator(op, args, kwargs)


def emit(name: str, *args: Any, **kwargs: Any) -> Any:
    """A call of the operator of a name, ``name.overload`` or the overload that fits."""
    plain, _, overload = name.partition(".")
    if overload:
        return call_operator(getattr(getattr(aten, plain), overload), args, kwargs)
    chosen = choose(plain, args, kwargs)
    if chosen is None:
        raise LazytError(f"no overload of aten::{plain} takes these arguments")
    overload, given, named = chosen
    return call_operator(getattr(getattr(aten, plain), overload), given, named)


def decomposed(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a call of a function gives whose operators are asked about."""
    if isinstance(func, (OpOverload, AtenOperator)):
        return called(func, args, kwargs)
    name = getattr(func, "__name__", "")
    owner = getattr(func, "__self__", None)
    if isinstance(owner, property):
        known = next((n for n in _PROPERTIES if vars(Tensor).get(n) is owner), "")
        if not known or name != "__get__":
            return _looked_at(func, owner, args, kwargs)
        name = _PROPERTIES[known]
    if name in ("_tensor_backward", "backward", "grad"):
        return _as_it_is(func, args, kwargs, _state.modes)  # gradients of products ask
    if name in PASSIVE:
        return _as_it_is(func, args, kwargs)
    composite = COMPOSITES.get(name)
    if composite is not None:
        found = composite(emit, *args, **kwargs)
        if found is not NotImplemented:
            return found
    requires = bool(kwargs.pop("requires_grad", False)) if name in _FACTORIES else False
    plain = RENAMED.get(name, name)
    chosen = choose(plain, args, kwargs) if schemas_of(plain) else None
    if chosen is None:
        if name == "tensor":
            made = _as_it_is(func, args, kwargs)
            found = emit("lift_fresh", made)
        elif _askers([*args, *kwargs.values()]):
            raise TypeError(
                f"{name}: there is no operator of torch.ops.aten that lazyt could call for it, and "
                "an argument is of a class that has __torch_dispatch__ and no memory"
            )
        else:
            found = _as_it_is(func, args, kwargs)
    else:
        overload, given, named = chosen
        found = call_operator(getattr(getattr(aten, plain), overload), given, named)
    return found.requires_grad_() if requires else found


_FACTORIES = frozenset({
    "arange", "empty", "empty_like", "eye", "full", "full_like", "linspace", "logspace", "normal",
    "ones", "ones_like", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like",
    "randperm", "tensor", "zeros", "zeros_like",
})  # fmt: skip


def _as_it_is(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], modes: Sequence[Any] = ()
) -> Any:
    """What a function gives that calls no operator that one could be asked about.

    Args:
        modes: whom the gradients that it computes ask.
    """
    choices = overriding.choices
    before, choices.wrappers = choices.wrappers, False
    try:
        with _in_modes(modes), overriding.Disabled(modes=False):
            return func(*args, **kwargs)
    finally:
        choices.wrappers = before


def _looked_at(func: Any, owner: property, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tensor = args[0]
    if dispatching(type(tensor)) and owner is vars(Tensor).get("device"):
        return tensor.__dict__.get("_wrapper_device") or _as_it_is(func, args, kwargs)
    return _as_it_is(func, args, kwargs)


# ------------------------------------------------------------------------ classes


def make_wrapper(
    cls: type[Tensor], size: Any, strides: Any = None, storage_offset: Any = None,
    memory_format: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, *_: Any, **__: Any,
) -> Tensor:  # fmt: skip
    """An object of a class with ``__torch_dispatch__`` that has a shape, a dtype and a device, and
    no memory. Raises GradientError where it is to require a gradient: lazyt's gradients are
    graphs of values, which it has none of."""
    from lazyt.functional.creation.creation import empty_strided
    from lazyt.functional.subclasses import as_class

    if requires_grad:
        raise GradientError(
            f"{cls.__name__}: a tensor of a class with __torch_dispatch__ that has no memory of "
            "its own has no gradient in lazyt, whose gradients are graphs of values. Let the "
            "tensors inside require gradients, or make the class by Tensor._make_subclass"
        )
    shape = tuple(int(n) for n in size)
    if strides is None:
        strides, step = [], 1
        for extent in reversed(shape):
            strides.insert(0, step)
            step *= max(extent, 1)
    with _in_modes(()), overriding.Disabled(modes=False):
        meta = empty_strided(shape, tuple(strides), dtype=dtype, device="meta")
        made = as_class(meta, cls)
    made.__dict__["_wrapper_device"] = _place(device)
    overriding.start()
    return made


def _place(place: Any) -> device:
    made = device("cpu") if place is None else device(place) if isinstance(place, str) else place
    return made


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Whether an object is of a class with ``__torch_dispatch__`` that says of which tensors it is
    made, by ``__tensor_flatten__`` and ``__tensor_unflatten__``."""
    kind = t if isinstance(t, type) else type(t)
    return (
        issubclass(kind, Tensor) and kind is not Tensor and dispatching(kind)
        and hasattr(kind, "__tensor_flatten__") and hasattr(kind, "__tensor_unflatten__")
    )  # fmt: skip


def transform_subclass(
    t: Any,
    callback: Callable[[str, Tensor], Tensor],
    outer_size: Any = None,
    outer_stride: Any = None,
) -> Any:
    """The same tensor with ``callback(name, inner)`` in the place of each inner tensor."""
    outer_size = outer_size if outer_size is not None else t.size()
    outer_stride = outer_stride if outer_stride is not None else t.stride()
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    return type(t).__tensor_unflatten__(inner, context, outer_size, outer_stride)


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """What a class gives for an operator: the arguments themselves, where the operator writes to
    them and gives them back; else ``out``."""
    schema = func._schema
    written = [info.before_set if (info := item.alias_info) and info.is_write else None
               for item in schema.arguments]  # fmt: skip

    def corrected(item: Any, value: Any) -> Any:
        info = item.alias_info
        if info is None or not info.is_write:
            return value
        for place, names in enumerate(written):
            if names is not None and names & info.before_set:
                name = schema.arguments[place].name
                return args[place] if place < len(args) else (kwargs or {})[name]
        return value

    if len(schema.returns) == 1 and not isinstance(out, tuple):
        return corrected(schema.returns[0], out)
    if isinstance(out, (tuple, list)) and len(out) == len(schema.returns):
        return type(out)(corrected(item, value) for item, value in zip(schema.returns, out))
    return out


dispatcher.append(called)
