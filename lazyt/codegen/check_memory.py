"""What names of memory stand for in the proof of ``check_c.py``, and what may be wrong with it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from lazyt.codegen.check_facts import Form, Range
from lazyt.errors import VerifyError


@dataclass(frozen=True)
class Violation:
    """An access that was not proved to be inside.

    Attributes:
        line: its line in the kernel's text.
        access: the access as C text.
        reason: what is wrong.
        interval: the range found for the index or byte, None when nothing is known about it.
        extent: how many elements or bytes there are, None when it is not about a size.
    """

    line: int
    access: str
    reason: str
    interval: Range | None = None
    extent: int | None = None

    def __str__(self) -> str:
        text = f"line {self.line}: {self.access}: {self.reason}"
        if self.extent is not None:
            found = "unknown" if self.interval is None else "{}..{}".format(*self.interval)
            text += f" (found {found}, allowed 0..{self.extent - 1})"
        return text


@dataclass(eq=False)
class Memory:
    """An argument, or the piece of one that begins ``start`` bytes into it.

    ``node`` is where the piece was cut off.
    """

    whole: str
    start: Form
    size: int
    node: Any = None


@dataclass(frozen=True)
class Pointer:
    """``offset`` bytes into ``memory``; elements have ``item`` bytes."""

    memory: Memory
    offset: Form
    item: int


@dataclass(frozen=True)
class Array:
    """A local array."""

    extents: tuple[int, ...]


def size_of(kind: str) -> int:
    """Bytes of one of the prelude's types, which end in their bits (booleans take eight)."""
    found = re.fullmatch(r"lz_[a-z]+(\d+)", kind)
    if not found:
        raise VerifyError(f"the check of C does not know the size of {kind}")
    return int(found[1]) // 8
