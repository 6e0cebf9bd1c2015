"""What says that the program waits for a compiler, once that has taken a second.

One line on standard error: written over and over on a terminal, a bar in a notebook, said once
elsewhere. ``config.progress`` turns it off. Nothing is started, and nothing costs time, as long as
no compiler is.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from lazyt.config import config
from lazyt.runtime.cpu import compile

#: Seconds until something is said, and between two updates of it.
_PATIENCE, _PAUSE = 1.0, 0.5
_WIDTH = 79


class Wait:
    """Somebody waits for a compiler.

    Attributes:
        where: the user's ``file:line``.
        kernels: how many there are, 0 while that is not known.
        what: what is compiled where it is not the user's line alone.
        begun: when a compiler was started, 0.0 as long as none was.
        ended: set when it is over.
    """

    def __init__(self, where: str) -> None:
        self.where = where
        self.kernels = 0
        self.what = ""
        self.begun = 0.0
        self.ended = threading.Event()

    def text(self, seconds: float) -> str:
        """The line."""
        if self.what:
            return f"lazyt: compiling {self.what}, {seconds:.0f} s"
        count = f"{self.kernels} kernels" if self.kernels > 1 else "a kernel"
        what = count if self.kernels else "kernels"
        name, _, line = self.where.rpartition(":")
        place = f" for {os.path.basename(name)}:{line}" if name else ""
        return f"lazyt: compiling {what}{place}, {seconds:.0f} s"


class _Current(threading.local):
    """What this thread waits for."""

    wait: Wait | None = None


_current = _Current()


@contextmanager
def shown(where: str) -> Iterator[Wait]:
    """A block in which this thread may wait for a compiler; ``where`` is the user's line."""
    outer, wait = _current.wait, Wait(where)
    _current.wait = wait
    try:
        yield wait
    finally:
        _current.wait = outer
        wait.ended.set()


def _started() -> None:
    """A compiler was started by this thread."""
    wait = _current.wait
    if wait is not None and not wait.begun and config.progress:
        wait.begun = time.monotonic()
        threading.Thread(target=_show, args=(wait,), name="lazyt-progress", daemon=True).start()


compile.on_start.append(_started)


def _show(wait: Wait) -> None:
    if wait.ended.wait(_PATIENCE):
        return
    try:
        line = _line_of(sys.stderr)
        while True:
            line.show(wait.text(time.monotonic() - wait.begun))
            if wait.ended.wait(_PAUSE):
                return line.end()
    except (OSError, ValueError, AttributeError):  # there is no standard error, or it is closed
        return


class _Line:
    """Where a line is shown: in the plain form it is said once."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.is_shown = False

    def show(self, text: str) -> None:
        """Shows the latest text."""
        if not self.is_shown:
            self.stream.write(f"{text.rpartition(',')[0]}. config.progress = False silences this\n")
            self.stream.flush()
        self.is_shown = True

    def end(self) -> None:
        """Takes away what is only for the time being."""


class _Terminal(_Line):
    def show(self, text: str) -> None:
        self.stream.write("\r" + text[:_WIDTH].ljust(_WIDTH))
        self.stream.flush()
        self.is_shown = True

    def end(self) -> None:
        if self.is_shown:
            self.stream.write("\r" + " " * _WIDTH + "\r")
            self.stream.flush()


class _Notebook(_Line):
    def __init__(self, stream: TextIO, display: Callable[..., Any], html: Any) -> None:
        super().__init__(stream)
        self._display, self._html = display, html
        self._handle: Any = None

    def show(self, text: str) -> None:
        import html

        shown = self._html(f"<progress></progress> {html.escape(text)}")
        if self._handle is None:
            self._handle = self._display(shown, display_id=True)
        else:
            self._handle.update(shown)

    def end(self) -> None:
        if self._handle is not None:
            self._handle.update(self._html(""))


def _line_of(stream: TextIO) -> _Line:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is not None:
        import importlib

        found = importlib.import_module("IPython.display")
        return _Notebook(stream, found.display, found.HTML)
    return _Terminal(stream) if stream.isatty() else _Line(stream)
