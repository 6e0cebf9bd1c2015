"""Methods of Tensor: Python's operators, and what the function table declares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from lazyt.errors import DTypeError, GradientError
from lazyt.functional.calls import explained, is_wrapped
from lazyt.functional.creation.creation import as_tensor
from lazyt.functional.elementwise import arithmetic as a
from lazyt.functional.elementwise import choice, division, special_functions, unary
from lazyt.functional.indexing.brackets import getitem, setitem
from lazyt.functional.linalg.products import matmul
from lazyt.functional.overriding import as_method, undecided
from lazyt.functional.printing import format_tensor, frame_text, hides_all
from lazyt.functional.quick import quick
from lazyt.functional.results import add_method, short_forms
from lazyt.functional.type_promotion import default_complex, get_default_dtype
from lazyt.handle import function_table
from lazyt.handle.autocast import as_on_gpus, raised_on_gpu
from lazyt.handle.device import CPU, META
from lazyt.handle.function_table import Entry
from lazyt.handle.interop.numpy import readable_values
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import bool_, int64
from lazyt.ir.forms import use

_OPERANDS = (
    Tensor, int, float, complex, np.integer, np.floating, np.complexfloating, np.bool_,
)  # fmt: skip

Function = Callable[..., Tensor]
Method = TypeVar("Method", bound=Callable[..., Any])

#: Operators whose methods PyTorch calls by their own names; the others are called as functions are.
_NAMED = frozenset({
    "__floordiv__", "__and__", "__or__", "__xor__", "__lshift__", "__rshift__",
})  # fmt: skip


def _forward(function: Function, name: str) -> Callable[[Tensor, Any], Any]:
    """``name``: what the method is called."""

    def operate(self: Tensor, other: Any) -> Any:
        if isinstance(other, _OPERANDS):
            return function(self, other)
        if isinstance(other, np.ndarray):
            return function(self, as_tensor(other))
        return undecided(name, self, other)

    operate.__name__ = name if name in _NAMED else function.__name__
    return operate


def _reflected(
    function: Function, name: str, as_reciprocal: bool = False
) -> Callable[[Tensor, Any], Any]:
    """``as_reciprocal``: autocast takes it for a multiple of the reciprocal, as PyTorch's is."""

    def operate(self: Tensor, other: Any) -> Any:
        if as_reciprocal and use.any:
            self = raised_on_gpu(self)
        if isinstance(other, _OPERANDS):
            return function(other, self)
        if isinstance(other, np.ndarray):
            return function(as_tensor(other), self)
        return undecided(name, self, other)

    operate.__name__ = "__rdiv__" if as_reciprocal else name
    return operate


def _named(name: str, function: Method) -> Method:
    """The same, called as the method is: who overrides it, and who records it, sees the name."""
    function.__name__ = name
    return function


def _matmul(self: Tensor, other: Any) -> Any:
    if isinstance(other, np.ndarray):
        other = as_tensor(other)
    if isinstance(other, Tensor):
        return matmul(self, other)
    return undecided("__matmul__", self, other)


def _reflected_matmul(self: Tensor, other: Any) -> Any:
    if isinstance(other, np.ndarray):
        other = as_tensor(other)
    if isinstance(other, Tensor):
        return matmul(other, self)
    return undecided("__rmatmul__", self, other)


def _delete(self: Tensor, index: Any) -> None:
    raise DTypeError("Tensor does not support deleting items. Select the others by index instead.")


_ARITHMETIC: dict[str, Function] = {
    "add": a.add,
    "sub": a.sub,
    "mul": a.mul,
    "truediv": division.div,
    "floordiv": division.floor_divide,
    "mod": division.remainder,
    "pow": a.pow,
    "and": a.bitwise_and,
    "or": a.bitwise_or,
    "xor": a.bitwise_xor,
    "lshift": a.bitwise_left_shift,
    "rshift": a.bitwise_right_shift,
}
_QUICK = frozenset({"add", "sub", "mul", "truediv"})
_COMMUTATIVE = frozenset({"add", "mul", "and", "or", "xor"})


def _add_operators() -> None:
    for function in (a.add, a.sub, a.mul, division.div):
        short_forms[function] = quick(function)
    for name, function in _ARITHMETIC.items():
        dunder = f"__{name}__"
        is_quick = name in _QUICK
        forward = _forward(function, dunder)
        forward = quick(forward) if is_quick else forward
        add_method(dunder, forward, inplace=True)
        # Of two tensors that lie in memory in different orders the first decides about the result.
        if name in _COMMUTATIVE:
            if dunder in _NAMED:
                forward = _named(function.__name__, _forward(function, dunder))
            add_method(f"__r{name}__", forward)
        else:
            dunder = f"__r{name}__"
            backward = _reflected(function, dunder, as_reciprocal=name == "truediv")
            add_method(dunder, quick(backward, True) if is_quick else backward)
    add_method("__matmul__", _matmul)
    add_method("__rmatmul__", _named("__rmatmul__", _reflected_matmul))
    add_method("__delitem__", _delete)
    add_method("__rdiv__", _reflected(division.div, "__rdiv__", as_reciprocal=True))
    for function in (a.eq, a.ne, a.lt, a.le, a.gt, a.ge):
        dunder = f"__{function.__name__}__"
        add_method(dunder, quick(_forward(function, dunder)))
    for name, of_one in (("neg", unary.neg), ("pos", unary.positive), ("abs", unary.abs)):
        add_method(f"__{name}__", as_method(of_one))
    add_method("__invert__", _named("__invert__", as_method(unary.invert)))
    add_method("__getitem__", _named("__getitem__", getitem))
    add_method("__setitem__", _named("__setitem__", setitem))
    add_method("__repr__", _named("__repr__", tensor_text))


# ``repr`` of tensors: their values, and what is not PyTorch's default about them.


def tensor_text(self: Tensor, *, tensor_contents: str | None = None) -> str:
    """``tensor([...])`` as PyTorch prints it; looks at the values.

    Args:
        tensor_contents: shown in the place of the values, which then are not looked at.
    """
    suffixes = []
    dtype, shape = self.dtype, tuple(self.shape)
    if self.device is not CPU:
        suffixes.append(f"device='{self.device}'")
    if self.device is META and tensor_contents is None:
        tensor_contents = "..."
        suffixes.append(f"size={shape}")
    if tensor_contents is None and 0 in shape:
        if len(shape) != 1:
            suffixes.append(f"size={shape}")
        plain = dtype is get_default_dtype()
    else:
        if tensor_contents is None and hides_all():
            suffixes.append(f"size={shape}")
        plain = dtype in (get_default_dtype(), default_complex(), int64, bool_)
    if not plain or (self.device is META and dtype is not get_default_dtype()):
        suffixes.append(f"dtype={dtype}")
    try:
        fn = self.grad_fn
        if fn is not None:
            suffixes.append(f"grad_fn=<{fn.name().rpartition('::')[2]}>")
        elif self.requires_grad:
            suffixes.append("requires_grad=True")
    except GradientError:  # one of several views, after a write to what it shows
        suffixes.append("grad_fn=<Invalid>")
    kind = type(self)
    # Users' subclasses print under their own names.
    ours = kind is Tensor or kind.__module__.partition(".")[0] == "lazyt"
    prefix = "tensor(" if ours else f"{kind.__name__}("
    if tensor_contents is not None:
        text = frame_text(tensor_contents, suffixes, prefix)
    else:
        text = format_tensor(readable_values(self, "it is printed"), suffixes, prefix)
    return f"Parameter({text})" if "_is_param" in self.__dict__ else text


# Methods of Tensor and their in-place forms, as the function table says.

#: In-place forms that are functions of the torch namespace too, by name.
INPLACE_FUNCTIONS: dict[str, Callable[..., Tensor]] = {}


def install() -> None:
    """Attach every declared method, and every operator, to Tensor, and from now on each method that
    is declared; fills ``INPLACE_FUNCTIONS``."""
    for entry in function_table.entries:
        attach(entry)
    function_table.listeners.append(attach)
    add_method("where", choice.where_method)
    add_method("polygamma", special_functions.polygamma_method, inplace=True)
    _add_operators()


def attach(entry: Entry) -> None:
    """Attach a function to Tensor, if it is a method, and its in-place form."""
    if not entry.method:
        return
    name, function = entry.name, entry.function
    is_inplace = name.endswith("_")
    add_method(name, function, inplace=bool(entry.inplace) and not is_inplace)
    if is_wrapped(function):
        setattr(Tensor, name, explained(as_on_gpus(function), name, "lazyt", method=True))
    else:
        setattr(Tensor, name, as_method(function))
    if entry.inplace == "function":
        changed = name if is_inplace else f"{name}_"
        INPLACE_FUNCTIONS[changed] = method = getattr(Tensor, changed)
        if is_inplace or not is_wrapped(method):
            setattr(Tensor, changed, as_method(method))
