"""Types as numbers, and where values are.

A form is the number of a type at a place: equal forms mean equal types at one place. A place is
``""`` for the CPU, and for values that are nowhere yet (constants), else a device's name such as
``cuda:0``. The forms of other places are below ``PLACED``, so that one comparison tells.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable

from lazyt.errors import DeviceError

#: Forms below it are at places of their own.
PLACED = -(1 << 40)


class Use:
    """Whether any value of this process is, or was, at a place of its own.

    Attributes:
        any: it.
    """

    __slots__ = ("any",)

    def __init__(self) -> None:
        self.any = False


use = Use()
_forms: dict[Hashable, int] = {}
_placed: dict[tuple[Hashable, str], int] = {}
_places: dict[int, str] = {}
_types: dict[int, Hashable] = {}
_numbers = itertools.count(-1, -1)
_placed_numbers = itertools.count(PLACED - 1, -1)


def form_of(type_: Hashable, place: str = "") -> int:
    """The number of a type at a place, below zero."""
    if place:
        number = _placed.get((type_, place))
        if number is None:
            number = _placed.setdefault((type_, place), next(_placed_numbers))
            _places[number] = place
            _types[number] = type_
            use.any = True
        return number
    found = _forms.get(type_)
    if found is None:
        found = _forms.setdefault(type_, next(_numbers))
        _types[found] = type_
    return found


def type_of(form: int) -> Hashable:
    """The type of values of a form."""
    return _types[form]


def place_of(form: int) -> str:
    """The place of values of a form."""
    return _places[form] if form < PLACED else ""


def common_place(forms: Iterable[int]) -> str:
    """Where a value is that is made of values of these forms: what is nowhere follows the rest.

    Raises DeviceError, in PyTorch's words, when they are on two devices.
    """
    found = ""
    for form in forms:
        if form < PLACED:
            place = _places[form]
            if found and place != found:
                raise DeviceError(mixed(found, place))
            found = place
    return found


def mixed(one: str, other: str) -> str:
    """What is said about values of two devices in one operation."""
    return (
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{one or 'cpu'} and {other or 'cpu'}!"
    )
