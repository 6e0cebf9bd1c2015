"""What users call: whole numbers of other types made Python's own, and failing calls explained.

Functions are written without a line about the types of their arguments. What users call is wrapped.
Where a function takes whole numbers, NumPy's and tensors of one become ints, and truth values and
fractions are refused, as PyTorch does. When the call fails, its arguments are compared with the
function's signature and annotations, and the error names the argument as PyTorch does. Calls that
succeed with ints pay for a ``try`` and for a look at the types.
"""

from __future__ import annotations

import inspect
import operator
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from threading import get_ident
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np

from lazyt.errors import DTypeError, LazytError
from lazyt.functional.operands import as_number
from lazyt.functional.overriding import answered, candidates, may_be_overridden, switch
from lazyt.handle.autocast import as_on_gpus
from lazyt.handle.function_table import Entry, entry_of
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType, package_name
from lazyt.ir.source_lines import position_of, recording
from lazyt.tracing.symbolic_numbers import SYMBOLIC

F = TypeVar("F", bound=Callable[..., Any])
_frame = sys._getframe

_POSITION = re.compile(r"\(position (\d+)\)")
_ABOUT_ARGUMENTS = re.compile(
    r"\w+\(\)(: argument| received an invalid combination| missing \d| got an unexpected)"
)
_UNEXPECTED = re.compile(r"(\w+)\(\) got an unexpected keyword argument '(\w+)'")
#: Names that PyTorch takes from NumPy's users.
_NUMPY_NAMES = {
    "axis": "dim", "keepdims": "keepdim",
    "split_size": "split_size_or_sections",  # of Tensor.split
}  # fmt: skip
#: Arguments that are whole numbers, or sequences of them, where an annotation leaves it open.
_BY_NAME = {
    **dict.fromkeys(("dim", "dim0", "dim1", "axis0", "axis1", "dimension", "dim2"), "int"),
    **dict.fromkeys(("dims", "stride", "padding", "dilation", "kernel_size", "output_size"),
                    "int | Sequence[int]"),
    "tensors": "Sequence[Tensor]", "split_size": "int | Sequence[int]",
    "split_sizes": "Sequence[int]", "indices": "Sequence[Tensor]",
}  # fmt: skip

#: Arguments without an annotation that says so which are whole numbers or sequences of them.
_WHOLE = frozenset({
    "dim", "dims", "stride", "padding", "dilation", "kernel_size", "output_size", "output_padding",
    "pad", "size", "sizes", "shape", "shifts", "repeats", "split_size", "split_size_or_sections",
    "split_sizes", "indices_or_sections", "sections", "start", "normalized_shape",
    "physical_layout", "storage_offset", "destination", "bins",
})  # fmt: skip
#: What holds for functions of which nothing is declared.
_UNDECLARED = Entry(name="", function=len)
_MANY = ("Any", "Sequence[int]", "tuple[int, ...]")


#: Classes that annotations of arguments name, besides tensors; their modules add them.
KINDS: dict[str, type] = {"DType": DType}

#: Numbers of any kind, which tensors of one number may stand for.
_SCALARS = frozenset({"alpha", "beta"})


def _numbers_of(function: Callable[..., Any]) -> dict[str, tuple[int, str]]:
    """The arguments of a function that are numbers, by name: the number of their position, -1 for
    those that have none, and their kind: ``int``, ``ints`` (or one), or ``scalar``."""
    entry = entry_of(function) or _UNDECLARED
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code, said = function.__code__, function.__annotations__
    found = {}
    for place, name in enumerate(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]):
        kind = str(said.get(name, "")).removesuffix(" | None")
        position = place if place < code.co_argcount else -1
        if name in _SCALARS or name in entry.scalars:
            found[name] = (position, "scalar")
        elif name in entry.fractions:
            continue
        elif kind == "int":
            found[name] = (position, "int")
        elif kind in _MANY and name in _WHOLE:
            found[name] = (position, "ints")
    return found


def _settled(value: Any, wanted: str, message: Callable[[Any], str]) -> Any:
    """``value`` with Python's numbers for those of other types; as it is, where there are none.

    Raises DTypeError, with what ``message`` says of the culprit, for truth values and fractions
    where whole numbers are wanted.
    """
    kind = type(value)
    if kind is int or value is None or kind in SYMBOLIC or kind is str:
        return value
    if isinstance(value, Tensor):
        if (
            value.ndim
            or value.requires_grad
            or (wanted != "scalar" and value.dtype.kind not in "ui")
        ):
            return value
        return value.item()
    if wanted == "scalar":
        return value.item() if isinstance(value, np.generic) else value
    if kind in (bool, float) or isinstance(value, (np.bool_, np.floating)):
        raise DTypeError(message(value))
    if wanted == "ints" and isinstance(value, (tuple, list)):
        for part in value:
            if type(part) is not int:
                break
        else:
            return value
        # As PyTorch, which looks for truth values at the first place only.
        parts = [
            int(part) if n and type(part) is bool else _settled(part, "int", message)
            for n, part in enumerate(value)
        ]
        return value if all(map(operator.is_, parts, value)) else kind(parts)
    return operator.index(value) if hasattr(kind, "__index__") else value


def _fits(value: Any, part: str) -> bool:
    """Whether a value is of the kind that one part of an annotation names."""
    if part == "Tensor":
        return isinstance(value, Tensor)
    if part == "None":
        return value is None
    if part == "str":
        return isinstance(value, str)
    if part == "bool":
        return isinstance(value, (bool, Tensor)) or as_number(value) is not None
    if part == "int":
        return hasattr(value, "__index__")
    if part in ("float", "Number", "Operand"):
        return isinstance(value, Tensor) or as_number(value) is not None
    if part in KINDS:
        return isinstance(value, KINDS[part])
    inner = re.fullmatch(r"(?:Sequence|Iterable|tuple|list)\[(.*?)(?:, \.\.\.)?\]", part)
    if inner is None:
        return True
    if isinstance(value, Tensor):
        return True
    return isinstance(value, (tuple, list)) and all(_fits(v, inner.group(1)) for v in value)


def _title(part: str) -> str:
    """How PyTorch's messages call a kind."""
    inner = re.fullmatch(r"(?:Sequence|Iterable|tuple|list)\[(\w+).*\]", part)
    if inner is not None:
        return f"tuple of {inner.group(1)}s"
    if part in KINDS:
        return f"{package_name()}.{'dtype' if part == 'DType' else part}"
    return {"Operand": "Number", "float": "Number"}.get(part, part)


def _kind(value: Any) -> str:
    return type(value).__name__


def _wrong_argument(
    name: str, parameters: Sequence[inspect.Parameter], given: dict[str, Any], skip: int,
    known: dict[str, str],
) -> str | None:  # fmt: skip
    """The message about the first argument that its annotation does not allow.

    Args:
        known: annotations by name for arguments that have none.
    """
    for place, parameter in enumerate(parameters):
        if parameter.name not in given or parameter.kind is parameter.VAR_KEYWORD:
            continue
        value = given[parameter.name]
        if value is parameter.default or place < skip:
            continue
        said = str(parameter.annotation)
        if said in ("Any", "object"):
            said = known.get(parameter.name, "Any")
        values = value if parameter.kind is parameter.VAR_POSITIONAL else (value,)
        parts = re.split(r" \| (?![^\[]*\])", said)
        if all(any(_fits(v, part) for part in parts) for v in values):
            continue
        position = (
            "" if parameter.kind is parameter.KEYWORD_ONLY else f"(position {place + 1 - skip}) "
        )
        wanted = _title(next((p for p in reversed(parts) if p != "None"), "None"))
        message = f"{name}(): argument '{parameter.name}' {position}must be {wanted}"
        if wanted.startswith("tuple of") and isinstance(value, (tuple, list)):
            inner = wanted[len("tuple of ") : -1]
            at = next(i for i, v in enumerate(value) if not _fits(v, inner))
            return f"{message}, but found element of type {_kind(value[at])} at pos {at}"
        return f"{message}, not {_kind(value)}"
    return None


def _is_odd(value: Any) -> bool:
    """Whether hardly any function takes such a value."""
    if isinstance(value, (tuple, list)):
        return any(_is_odd(v) for v in value)
    plain = (Tensor, str, *KINDS.values(), type(None), slice, type)
    if isinstance(value, plain) or as_number(value) is not None:
        return isinstance(value, str)
    return not hasattr(value, "__array__") and not callable(value)


def explain_call(
    error: Exception, function: Callable[..., Any], name: str, args: Any, kwargs: Any, skip: int
) -> DTypeError | None:
    """The error that ``name(*args, **kwargs)`` should have raised, or None for ``error`` itself.

    Args:
        skip: 1 for methods, whose first argument PyTorch does not count.
    """
    text, own = str(error), function.__name__
    if isinstance(error, LazytError) and isinstance(error, TypeError):
        if not _ABOUT_ARGUMENTS.match(text) or not text.startswith(f"{own}()"):
            return None
        if own == name and not skip:
            return None
        if skip:
            text = _POSITION.sub(lambda m: f"(position {int(m.group(1)) - 1})", text)
            text = text.replace(" - got (Tensor, ", " - got (", 1)
        return DTypeError(name + text[len(own) :])
    try:
        signature = inspect.signature(function)
        bound = signature.bind(*args, **kwargs)
    except TypeError as failed:
        said = text if text.startswith(f"{own}()") else f"{own}() {failed}"
        return DTypeError(name + said[len(own) :])
    # A function that complains by itself takes more than a name tells.
    known = {} if isinstance(error, LazytError) else _BY_NAME
    found = _wrong_argument(name, [*signature.parameters.values()], bound.arguments, skip, known)
    if found is not None:
        return DTypeError(found)
    inner = _UNEXPECTED.match(text)
    if inner is not None and inner.group(2) in kwargs:
        return DTypeError(f"{name}() got an unexpected keyword argument '{inner.group(2)}'")
    others = (*args[skip:], *kwargs.values())
    named = any(f"'{_kind(v)}'" in text for v in others)  # the error names an argument's class
    if isinstance(error, LazytError) or not (named or any(map(_is_odd, others))):
        return None
    kinds = [_kind(v) for v in args[skip:]]
    kinds += [f"{key}={_kind(v)}" for key, v in kwargs.items()]
    got = ", ".join(kinds)
    return DTypeError(f"{name}() received an invalid combination of arguments - got ({got})")


def _by_our_names(function: Callable[..., Any], kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """``kwargs`` with NumPy's names changed to PyTorch's, or None where that changes nothing.

    Functions that have no parameter of NumPy's name refused the call before anything ran.
    """
    if not _NUMPY_NAMES.keys() & kwargs.keys():
        return None
    parameters = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return None
    changed = {
        name: ours
        for name, ours in _NUMPY_NAMES.items()
        if name in kwargs and name not in parameters and ours in parameters and ours not in kwargs
    }
    return {changed.get(name, name): value for name, value in kwargs.items()} if changed else None


def by_old_form(forms: Iterable[str], name: str, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
    """The arguments of a call in a form that PyTorch deprecates, one of the ``old_forms`` of the
    function's entry, in the present one; else None. Numbers stand first or behind the tensor."""
    for form in forms:
        parts = form.split()
        values = args
        if parts[0] == "beta" and name.endswith("_"):  # x.addmm_(beta, alpha, a, b)
            parts = ["self", *(part for part in parts if part != "self")]
        given = dict(zip(parts, values))
        tensors = [p for p in parts if p not in ("alpha", "beta", "value")]
        scalars = [p for p in parts if p in ("alpha", "beta", "value")]
        if len(values) != len(parts) or kwargs.keys() - {"out"}:
            continue
        # A number may stand for the last tensor of two.
        if all(isinstance(given[p], Tensor) for p in tensors if p != "other") and all(
            as_number(given[p]) is not None for p in scalars
        ):
            named = {**kwargs, **{p: given[p] for p in scalars}}
            return tuple(given[p] for p in tensors), named
    return None


def explained(function: F, name: str, home: str, method: bool = False) -> F:
    """``function`` whose failing calls are explained under ``name``, a name in module ``home``."""
    skip = int(method)
    numbers = _numbers_of(function)
    old_forms = (entry_of(function) or _UNDECLARED).old_forms
    places = tuple((place, name) for name, (place, _) in numbers.items() if place >= 0)

    def settle(value: Any, argument: str) -> Any:
        place, wanted = numbers[argument]

        def message(culprit: Any) -> str:
            position = f"(position {place + 1 - skip}) " if place >= 0 else ""
            kind = "tuple of ints" if wanted == "ints" else "int"
            return f"{name}(): argument '{argument}' {position}must be {kind}, not {_kind(culprit)}"

        return _settled(value, wanted, message)

    def call(*args: Any, **kwargs: Any) -> Any:
        count = len(args)
        for place, argument in places:
            if place < count and type(args[place]) is not int:
                settled = settle(args[place], argument)
                if settled is not args[place]:
                    args = (*args[:place], settled, *args[place + 1 :])
        if kwargs:
            for argument, value in kwargs.items():
                if type(value) is not int and argument in numbers:
                    kwargs = {**kwargs, argument: settle(value, argument)}
        is_outer = recording.enabled and recording.here is None
        try:
            if is_outer:
                recording.here = get_ident(), position_of(_frame(1))
            return function(*args, **kwargs)
        except (TypeError, AttributeError, ValueError, LazytError) as error:
            if not switch.on and candidates((*args, *kwargs.values())):
                return answered(call, args, kwargs)
            if kwargs and (renamed := _by_our_names(function, kwargs)) is not None:
                return call(*args, **renamed)
            if old_forms and (old := by_old_form(old_forms, name, args, kwargs)) is not None:
                return call(*old[0], **old[1])
            better = explain_call(error, function, name, args, kwargs, skip)
            if better is None:
                raise
            raise better from None
        finally:
            if is_outer:
                recording.here = None

    # By hand: functools.wraps is slow where it runs 600 times, at import.
    call.__module__, call.__qualname__ = home, f"Tensor.{name}" if method else name
    call.__name__, call.__doc__ = function.__name__, function.__doc__
    call.__annotations__ = function.__annotations__
    call.__dict__.update(function.__dict__, __wrapped__=function)
    return cast(F, call)


def is_wrapped(function: Callable[..., Any]) -> bool:
    """Whether calls of a function are explained: not where it does so, at less cost, by itself."""
    entry = entry_of(function)
    return entry is not None and not entry.checks


def explain_calls(
    names: dict[str, Any], public: Sequence[str], home: str, prefix: str = ""
) -> None:
    """Wrap the functions called ``public`` among the ``names`` of module ``home``.

    Args:
        prefix: stands before the name in messages, as in ``linalg_solve()``.
    """
    for name in public:
        value = names[name]
        # What was explained as a method is a function of this module already.
        known = isinstance(value, FunctionType) and value.__module__ != "lazyt"
        if known and is_wrapped(value):
            names[name] = explained(as_on_gpus(value), prefix + name, home)
            names[name].__qualname__ = name
    may_be_overridden(names, public, home)
