"""Methods of Tensor and their in-place forms, as the function table says."""

from __future__ import annotations

from collections.abc import Callable

from lazyt.functional import operators
from lazyt.functional.calls import explained, is_wrapped
from lazyt.functional.elementwise import choice, special_functions
from lazyt.functional.results import add_method
from lazyt.handle import function_table
from lazyt.handle.autocast import as_on_gpus
from lazyt.handle.function_table import Entry
from lazyt.handle.tensor import Tensor

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
    operators.install()


def attach(entry: Entry) -> None:
    """Attach a function to Tensor, if it is a method, and its in-place form."""
    if not entry.method:
        return
    name, function = entry.name, entry.function
    is_inplace = name.endswith("_")
    add_method(name, function, inplace=bool(entry.inplace) and not is_inplace)
    if is_wrapped(function):
        setattr(Tensor, name, explained(as_on_gpus(function), name, "lazyt", method=True))
    if entry.inplace == "function":
        changed = name if is_inplace else f"{name}_"
        INPLACE_FUNCTIONS[changed] = getattr(Tensor, changed)
