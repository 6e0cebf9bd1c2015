"""What changed between two calls of a captured function, in words for ``why()``.

Functions and classes are named by file and line, tensors by what tells them apart. Nothing that is
said depends on memory addresses.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from lazyt.handle.pytree import Structure
from lazyt.handle.tensor import Tensor
from lazyt.tracing.sources import MISSING, is_plain, signature

MOST = 60  # characters of a plain value
_TEXTS = (
    "its class", "its shape", "its dtype", "whether it requires gradients",
    "whether it is a leaf", "how it is a view", "attributes that were given to it", "its hooks",
)  # fmt: skip


def describe(value: Any) -> str:
    """A value: plain ones as Python writes them, functions with file and line, tensors with dtype
    and shape, others by their class."""
    if value is MISSING:
        return "nothing"
    if is_plain(value):
        text = repr(value)
        return text if len(text) <= MOST else f"{text[:MOST]}..."
    if isinstance(value, Tensor):
        return f"a {value.dtype.name}{list(value.shape)} {type(value).__name__}"
    return _named(value) or f"a {type(value).__name__}"


def _named(value: Any) -> str | None:
    """The description of what has a name."""
    if isinstance(value, types.FunctionType):
        code = value.__code__
        if value.__module__ and value.__module__.partition(".")[0] == "lazyt":
            return f"function {value.__module__}.{value.__qualname__}"
        return f"{_kind(value)} ({code.co_filename}:{code.co_firstlineno})"
    if isinstance(value, types.MethodType):
        return f"{describe(value.__func__)} of a {type(value.__self__).__name__}"
    if isinstance(value, functools.partial):
        return f"a partial of {describe(value.func)}"
    if isinstance(value, type):
        return f"class {value.__module__}.{value.__qualname__}"
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__}"
    if isinstance(value, types.BuiltinFunctionType):
        return f"built-in function {value.__qualname__}"
    return None


def _kind(function: types.FunctionType) -> str:
    return "a lambda" if function.__name__ == "<lambda>" else f"function {function.__qualname__}"


def differs(path: str, value: Any, old: Any) -> str:
    """That ``path`` holds ``value`` instead of ``old``."""
    now, then = describe(value), describe(old)
    if now != then:
        return f"{path} is {now}, was {then}"
    return f"{path} is another object than before, again {now}; objects are compared by identity"


def tensor_differs(path: str, value: Any, looks: tuple[Any, ...]) -> str:
    """That ``path`` holds no tensor with the signature ``looks``."""
    kind, shape, dtype, *_ = looks
    old = f"a {dtype.name}{list(shape)} {kind.__name__}"
    if not isinstance(value, Tensor):
        return f"{path} is {describe(value)}, was {old}"
    return f"{path}: {', '.join(signatures_differ(signature(value), looks))}"


def signatures_differ(now: tuple[Any, ...], then: tuple[Any, ...]) -> Iterator[str]:
    """The parts in which two signatures differ."""
    for place, (a, b) in enumerate(zip(now, then)):
        if a == b:
            continue
        if place == 0:
            yield f"its class is {a.__name__}, was {b.__name__}"
        elif place == 1:
            yield f"its shape is {list(a)}, was {list(b)}"
        elif place == 2:
            yield f"its dtype is {a.name}, was {b.name}"
        elif place == 8:
            yield f"it is on {a or 'cpu'}, was on {b or 'cpu'}"
        elif place == 3:
            yield f"requires_grad is {not a}, was {not b}"
        elif place == 4:
            if now[3] == then[3]:
                yield "it is a leaf now" if a else "it is the result of a computation now"
        elif place == 5 and None not in (a, b) and a[:2] != b[:2]:
            if a[1] != b[1]:
                yield f"its strides are {list(a[1])}, were {list(b[1])}"
            else:
                yield f"its shape is {list(a[0])}, was {list(b[0])}"
        elif place == 6:
            names = sorted({name for name, _ in set(a) ^ set(b)})
            yield f"its attributes {names} differ"
        else:
            yield f"{_TEXTS[place]} differs"


def aliases_differ(now: Sequence[Any], then: Sequence[Any], names: Sequence[str]) -> str:
    """Which places that hold one tensor, storage or memory differ from those of the capture; both
    say for each place the number of the first one with the same."""
    words = ("tensor", "memory", "memory")
    for name, a, b in zip(names, now, then):
        for word, x, y in zip(words, a, b):
            if x != y:
                first = names[min(x, y)] if min(x, y) < len(names) else "another place"
                verb = "is no longer" if y < x else "is now"
                return f"{name} {verb} the same {word} as {first}"
    return "places that held one tensor hold several now, or one instead of several"


# ---------------------------------------------------------------------- names of arguments


def argument_names(function: Callable[..., Any], shape: Any) -> list[str]:
    """Names of the leaves of a call's ``(args, kwargs)`` of this ``shape``, see ``Flat``."""
    (_, positional), named = shape[1]
    found: list[str] = []
    names = _parameters(function)
    for number, part in enumerate(positional):
        name = names[number] if number < len(names) else f"argument {number}"
        _name_leaves(part, name, found)
    for key, part in named[1]:
        _name_leaves(part, str(key), found)
    return found


def _parameters(function: Callable[..., Any]) -> list[str]:
    """Names of the parameters that can be given by position."""
    try:
        listed: Mapping[str, inspect.Parameter]
        listed = inspect.signature(getattr(function, "forward", function)).parameters
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [name for name, p in listed.items() if p.kind in kinds]


def _name_leaves(shape: Any, name: str, found: list[str]) -> None:
    if shape is None:
        found.append(name)
        return
    kind, parts = shape
    if type(kind) is Structure:
        for text, part in zip(_names_of_parts(kind, len(parts)), parts, strict=True):
            _name_leaves(part, name + text, found)
        return
    for number, part in enumerate(parts):
        if kind is dict:
            _name_leaves(part[1], f"{name}[{part[0]!r}]", found)
        else:
            _name_leaves(part, f"{name}[{number}]", found)


def _names_of_parts(shape: Structure, count: int) -> list[str]:
    """How the parts of a value that holds so many are reached from it."""
    if shape.sort == "method":
        return [".__self__", ".__func__"]
    if shape.sort == "function":
        names = [f"'s {name}" for name in shape.keys]
        return [*names, *(f"'s default {n}" for n in range(count - len(names)))]
    if shape.sort == "partial":
        places = [f".args[{n}]" for n in range(count - 1 - len(shape.keys))]
        return [".func", *places, *(f".keywords[{key!r}]" for key in shape.keys)]
    items = count - len(shape.attributes)
    keys = [repr(key) for key in shape.keys] or [str(n) for n in range(items)]
    return [*(f"[{key}]" for key in keys), *(f".{name}" for name in shape.attributes)]
