"""What the table of PyTorch's names is written in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Group", "Harmless", "Refused", "Served", "Table", "spelled"]


@dataclass(frozen=True)
class Served:
    """Names that do what PyTorch's do.

    Attributes:
        place: the module that has the objects.
    """

    place: str


@dataclass(frozen=True)
class Harmless:
    """Names that a program may use and that change nothing: marks for compilers, answers of a
    single process, settings of machines that are not there.

    Attributes:
        place: the module that has the objects.
    """

    place: str


@dataclass(frozen=True)
class Refused:
    """Names that can be imported, subclassed and tested with ``isinstance``; a call raises.

    Attributes:
        reason: why, and what to use instead.
        place: the module that has the objects, where they raise an error of another class.
    """

    reason: str
    place: str = ""


Group = Served | Harmless | Refused
#: By the module's path below ``torch``: names with blanks between, ``theirs=ours`` where an object
#: is called otherwise at its place.
Table = Mapping[str, Mapping[Group, str]]


def spelled(names: str) -> dict[str, str]:
    """The names of a group, and what each is called where it comes from."""
    pairs = (word.partition("=") for word in names.split())
    return {theirs: ours or theirs for theirs, _, ours in pairs}
