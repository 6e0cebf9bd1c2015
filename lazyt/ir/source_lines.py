"""Where in the user's program a value was made, taken cheaply and put into words when asked."""

from __future__ import annotations

import functools
import os
import sys
from threading import get_ident
from types import CodeType, FrameType

#: A code object and the place of an instruction in it; file and line are found out when needed.
Source = tuple[CodeType, int]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_own_files: set[str] = set()
#: Files that are known to be the user's.
user_files: set[str] = set()
_MOST_FILES = 4096


class Recording:
    """Which code positions new nodes note.

    Attributes:
        enabled: whether they do.
        here: the number of a thread, and the position from which it called the function that it is
            in; None where nobody has taken it down. It saves a walk through the frames for each
            node that the function makes.
    """

    __slots__ = ("enabled", "here")

    def __init__(self) -> None:
        self.enabled = True
        self.here: tuple[int, Source | None] | None = None


recording = Recording()


def record_source(enabled: bool) -> None:
    """Turn the recording of the user's code positions on or off."""
    recording.enabled = enabled


def user_position() -> Source | None:
    """The innermost code position outside the package, cheap to take; see ``source_text``."""
    here = recording.here
    if here is not None and here[0] == get_ident():
        return here[1]
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        name = code.co_filename
        if name not in _own_files:
            if not name.startswith(_PACKAGE):
                return (code, frame.f_lasti)
            _own_files.add(name)
        frame = frame.f_back
    return None


def is_own_file(name: str) -> bool:
    """Whether a file, as code names it, belongs to the package."""
    return name.startswith(_PACKAGE)


def position_of(frame: FrameType) -> Source | None:
    """``user_position`` where the user's frame is most likely this one."""
    code = frame.f_code
    if code.co_filename in user_files:
        return (code, frame.f_lasti)
    found = user_position()
    if found is not None and len(user_files) < _MOST_FILES:
        user_files.add(found[0].co_filename)
    return found


def position_to_note() -> Source | None:
    """``user_position`` where positions are recorded, else None."""
    return user_position() if recording.enabled else None


def source_text(source: Source | None) -> str:
    """``file:line`` of a recorded position, or ``<unknown>``."""
    if source is None:
        return "<unknown>"
    code, lasti = source
    return f"{code.co_filename}:{_line_of(code.co_filename, code, lasti)}"


@functools.lru_cache(512)
def _line_of(filename: str, code: CodeType, lasti: int) -> int:
    """The line of an instruction. Code of different files may be equal."""
    for start, end, line in code.co_lines():
        if start <= lasti < end and line is not None:
            return line
    return code.co_firstlineno
