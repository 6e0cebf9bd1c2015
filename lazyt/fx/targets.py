"""What graphs know of the functions that they call: where each is found, and what it does."""

from __future__ import annotations

import sys
from typing import Any

from lazyt.compat.absent import known_as
from lazyt.handle.tensor import Tensor

__all__ = ["is_random", "method_name", "name_of", "place_of"]

#: Modules in which functions are looked for, those whose names are shortest first.
_HOMES = (
    "lazyt", "lazyt.nn.functional", "lazyt.linalg", "lazyt.special", "lazyt.fft", "lazyt.func",
)  # fmt: skip
#: Packages whose modules a program knows by their names here.
_PUBLIC = [
    [name]
    for name in (
        "nn",
        "linalg",
        "special",
        "fft",
        "autograd",
        "optim",
        "utils",
        "distributions",
        "fx",
    )
]
#: Where the functions that draw random numbers are written.
_RANDOM = ("lazyt.functional.random.", "lazyt.functional.nn.dropouts")


def method_name(function: Any) -> str:
    """The name of a method of tensors, such as ``lazyt.Tensor.add``; "" for other functions."""
    name = getattr(function, "__name__", "")
    if getattr(Tensor, name, None) is function:
        return str(name)
    own = getattr(function, "__module__", "") or ""
    if not own.startswith("lazyt."):
        return ""
    # Behind operators are functions of other names; PyTorch calls them by the methods, if any.
    found = next((name for name, value in vars(Tensor).items() if value is function), "")
    plain = found[2:-2] if found.startswith("__") else ""
    return plain if plain and hasattr(Tensor, plain) else found


def _operator_of(value: Any) -> str:
    """An operator's name with those of its namespace and overload, as in ``mine.scale.default``;
    "" for what is no operator."""
    name = getattr(value, "_opname", "") if hasattr(type(value), "overloadpacket") else ""
    overload = f".{value._overloadname}" if name and value._overloadname else ""
    return f"{value.namespace}.{name}{overload}" if name else ""


def place_of(value: Any) -> tuple[str, str] | None:
    """The public module and name of one of lazyt's functions, classes and operators; None for
    others."""
    if operator := _operator_of(value):
        return "lazyt", f"ops.{operator}"
    module, name = getattr(value, "__module__", None), getattr(value, "__name__", "")
    if not isinstance(module, str) or module.partition(".")[0] not in ("lazyt", known_as("lazyt")):
        return None
    if getattr(Tensor, name, None) is value:
        return "lazyt.Tensor", name
    own = (module,) if module.split(".")[1:2] in _PUBLIC else ()
    homes = [(home, vars(sys.modules[home])) for home in (*own, *_HOMES) if home in sys.modules]
    for home, names in homes:
        if names.get(name) is value:
            return home, name
    for home, names in homes:  # a second name of a function, such as arcsin of asin
        for other, found in list(names.items()):
            if found is value and not other.startswith("_"):
                return home, other
    return None


def name_of(function: Any) -> str:
    """What a function is called: one of lazyt's by its public name."""
    if _operator_of(function):
        return str(function._opname)
    place = place_of(function)
    return str(function.__name__ if place is None else place[1])


def _written(function: Any) -> Any:
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function


def is_random(function: Any) -> bool:
    """Whether a function draws random numbers."""
    module = getattr(_written(function), "__module__", None) or ""
    return module.startswith(_RANDOM)
