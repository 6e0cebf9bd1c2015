"""Calls that fail because of what was passed, explained in terms of the function that was called.

Functions are written without a line about the types of their arguments. What users call is wrapped:
when the call fails, its arguments are compared with the function's signature and annotations, and
the error names the argument as PyTorch does. Calls that succeed pay for a ``try``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any, TypeVar, cast

from lazyt.cast_lists import as_on_gpus
from lazyt.errors import DTypeError, LazytError
from lazyt.functional.generators import Generator
from lazyt.functional.operands import as_number
from lazyt.ir.dtypes import DType, package_name
from lazyt.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])

#: Modules of the commonest functions, which check what they are given.
_THEMSELVES = frozenset({"arithmetic", "division", "generators", "unary"})
#: Modules outside of lazyt.functional that hold functions for users.
_OUTSIDE = frozenset(
    {"view_shapes", "view_parts", "view_forms", "memory_formats", "tensor_facts", "linalg"}
)
_POSITION = re.compile(r"\(position (\d+)\)")
_ABOUT_ARGUMENTS = re.compile(
    r"\w+\(\)(: argument| received an invalid combination| missing \d| got an unexpected)"
)
_UNEXPECTED = re.compile(r"(\w+)\(\) got an unexpected keyword argument '(\w+)'")
_METHODS = (
    "as_strided", "as_strided_", "expand_as", "resize_as_", "resize_", "reshape_as", "swapaxes_",
    "squeeze", "squeeze_", "swapdims_", "transpose_", "type_as", "unfold", "unsqueeze",
    "unsqueeze_", "view_as",
)  # fmt: skip
#: Names that PyTorch takes from NumPy's users.
_NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim"}
#: Arguments that are whole numbers, or sequences of them, where an annotation leaves it open.
_BY_NAME = {
    **dict.fromkeys(("dim", "dim0", "dim1", "axis0", "axis1", "dimension", "dim2"), "int"),
    **dict.fromkeys(("dims", "stride", "padding", "dilation", "kernel_size", "output_size"),
                    "int | Sequence[int]"),
    "tensors": "Sequence[Tensor]", "split_size": "int | Sequence[int]",
    "split_sizes": "Sequence[int]", "indices": "Sequence[Tensor]",
}  # fmt: skip


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
    if part == "DType":
        return isinstance(value, DType)
    if part == "Generator":
        return isinstance(value, Generator)
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
    if part in ("Generator", "DType"):
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
    plain = (Tensor, str, DType, Generator, type(None), slice, type)
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


def explained(function: F, name: str, home: str, method: bool = False) -> F:
    """``function`` whose failing calls are explained under ``name``, a name in module ``home``."""
    skip = int(method)

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (TypeError, AttributeError, ValueError, LazytError) as error:
            if kwargs and (renamed := _by_our_names(function, kwargs)) is not None:
                return call(*args, **renamed)
            better = explain_call(error, function, name, args, kwargs, skip)
            if better is None:
                raise
            raise better from None

    # By hand: functools.wraps is slow where it runs 600 times, at import.
    call.__module__, call.__qualname__ = home, f"Tensor.{name}" if method else name
    call.__name__, call.__doc__ = function.__name__, function.__doc__
    call.__annotations__ = function.__annotations__
    call.__dict__.update(function.__dict__, __wrapped__=function)
    return cast(F, call)


def is_wrapped(function: Callable[..., Any]) -> bool:
    """Whether calls of a function are explained: not where it does so, at less cost, by itself."""
    package, _, module = function.__module__.rpartition(".")
    if function.__module__ == "lazyt.nn.multihead":
        return True
    return (package == "lazyt" and module in _OUTSIDE) or (
        package == "lazyt.functional" and module not in _THEMSELVES
    )


def explain_calls(
    names: dict[str, Any], public: Iterable[str], home: str, prefix: str = ""
) -> None:
    """Wrap the functions called ``public`` among the ``names`` of module ``home``.

    Args:
        prefix: stands before the name in messages, as in ``linalg_solve()``.
    """
    for name in public:
        value = names[name]
        if isinstance(value, FunctionType) and is_wrapped(value):
            names[name] = explained(as_on_gpus(value, name), prefix + name, home)
            names[name].__qualname__ = name


def explain_methods() -> None:
    """Wrap those methods of views that take more than numbers of dimensions."""
    for name in _METHODS:
        setattr(Tensor, name, explained(getattr(Tensor, name), name, "lazyt", method=True))
