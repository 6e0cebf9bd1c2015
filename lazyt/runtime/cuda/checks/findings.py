"""What a check finds, and how it is shown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lazyt.runtime.cuda.checks.build import Checked, Signature
from lazyt.runtime.cuda.checks.text import located


@dataclass(frozen=True)
class Finding:
    """One fault of a kernel.

    Attributes:
        kind: ``race``, ``bounds``, ``barrier``, ``uninitialised``, ``misaligned``, ``hang`` or
            ``crash``.
        line, column: in the user's text, from 1 on; ``column`` is None where it is not known.
        message: what happened, with array, index and threads.
        block, thread: who did it, each as (x, y, z); None where it is nobody's in particular.
        other_line, other_column: of a race the earlier access; of threads that wait at two places,
            the other place.
        other_block, other_thread: who was there.
        matters: False for shared memory that nobody wrote and whose bytes made no difference to
            what this launch left behind; another launch may differ.
    """

    kind: str
    line: int
    column: int | None
    message: str
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None
    other_line: int | None = None
    other_column: int | None = None
    other_block: tuple[int, int, int] | None = None
    other_thread: tuple[int, int, int] | None = None
    matters: bool = True

    def describe(self, source: str) -> str:
        """Some lines about it: the message, who did it, and the lines of the text with a caret."""
        parts = [f"{self.kind}: {located(source, self.message, self.line, self.column or 0)}"]
        if self.block is not None:
            parts.append(f"    by thread {self.thread} of block {self.block}")
        if self.other_line:
            where = f"{self.other_thread} of block {self.other_block}"
            lead = f"the other, thread {where}" if self.other_thread else "the other"
            parts.append(f"  {located(source, lead, self.other_line, self.other_column or 0)}")
        return "\n".join(parts)


def findings_of(
    said: Sequence[str], source: str, made: Checked, signature: Signature,
    blocks: tuple[int, int, int], threads: tuple[int, int, int],
) -> list[Finding]:  # fmt: skip
    """The findings of what a launch wrote, a line for each."""
    found = []
    for line in said:
        kind, place, thread, number, other, other_thread, other_block, message = line.split("\t", 7)
        at, column = _place(place, made, source)
        facts: dict[str, Any] = {}
        if other:
            facts["other_line"], facts["other_column"] = _place(f"P{other}", made, source)
            facts["other_block"] = _point(int(other_block), blocks)
            facts["other_thread"] = _point(int(other_thread), threads)
        message = message.replace("the device variables[", "byte [")
        if kind == "unwritten":
            kind, facts["matters"] = "uninitialised", False
            message += " (what it holds makes no difference in this launch)"
        found.append(
            Finding(kind, at or signature.text.line, (column or None) if at else None, message,
                    _point(int(number), blocks), _point(int(thread), threads), **facts)
        )  # fmt: skip
    return found


def _place(place: str, made: Checked, source: str) -> tuple[int, int]:
    """Line and column of the first of some places that is in the user's text."""
    for item in place.split(","):
        line, column = 0, 0
        if item.startswith("L"):
            line, column = map(int, item[1:].split(":"))
        elif item.startswith("P"):
            line, column = made.lines.find(int(item[1:], 16))
        if line:
            return line, _start(source.split("\n")[line - 1], column)
    return 0, 0


def _start(text: str, column: int) -> int:
    """Where an element begins whose closing bracket is at a column, which compilers name."""
    at = column - 1
    while 0 <= at < len(text) and text[at] == "]":
        depth = 0
        while at >= 0:
            depth += (text[at] == "]") - (text[at] == "[")
            if depth == 0:
                break
            at -= 1
        at -= 1
    if at < 0 or column > len(text) or text[column - 1] != "]":
        return column
    while at > 0 and re.match(r"[\w.]", text[at - 1]) and re.match(r"[\w.]", text[at]):
        at -= 1
    return at + 1


def _point(number: int, extents: tuple[int, int, int]) -> tuple[int, int, int]:
    x, y, _ = extents
    return number % x, number // x % y, number // x // y
