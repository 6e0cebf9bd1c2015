"""How far tuning is, on the terminal: a bar where ``rich`` is installed, else a line of text."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO


class Progress:
    """Silent progress, and what the others have in common."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def show(self, share: float, text: str) -> None:
        """So much of the work is done, from 0 to 1; ``text`` is what is done now."""

    def say(self, message: str) -> None:
        """Something worth knowing happened."""
        self.messages.append(message)

    def end(self) -> None:
        """Nothing more will be shown."""

    @staticmethod
    @contextmanager
    def shown(wanted: bool | None = None, stream: TextIO | None = None) -> Iterator[Progress]:
        """Progress on ``stream`` (standard error); unless ``wanted`` only where that is a terminal,
        and never if it is False."""
        stream = stream or sys.stderr
        progress = Progress()
        if wanted or (wanted is None and stream.isatty()):
            bar = _rich_bar(stream)
            progress = _RichProgress(*bar) if bar is not None else _TextProgress(stream)
        try:
            yield progress
        finally:
            progress.end()


class _TextProgress(Progress):
    """One line that is written over and over; where the stream is no terminal, a line for each
    thing that is tried."""

    WIDTH = 24

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self.stream = stream
        self.again = stream.isatty()
        self.last = ""

    def show(self, share: float, text: str) -> None:
        done = round(self.WIDTH * min(max(share, 0.0), 1.0))
        bar = "#" * done + "." * (self.WIDTH - done)
        line = f"tuning [{bar}] {100 * share:3.0f} %  {text}"[:119]
        if self.again:
            self.stream.write("\r" + line.ljust(119))
        elif text != self.last:
            self.stream.write(line + "\n")
        self.last = text
        self.stream.flush()

    def say(self, message: str) -> None:
        super().say(message)
        self.stream.write(("\n" if self.again else "") + message + "\n")

    def end(self) -> None:
        if self.again and self.last:
            self.stream.write("\r" + " " * 119 + "\r")
        self.stream.flush()


class _RichProgress(Progress):
    """A bar of rich's."""

    def __init__(
        self,
        show: Callable[[float, str], None],
        say: Callable[[str], None],
        end: Callable[[], None],
    ) -> None:
        super().__init__()
        self._show, self._say, self._end = show, say, end

    def show(self, share: float, text: str) -> None:
        self._show(share, text)

    def say(self, message: str) -> None:
        super().say(message)
        self._say(message)

    def end(self) -> None:
        self._end()


def _rich_bar(
    stream: TextIO,
) -> tuple[Callable[[float, str], None], Callable[[str], None], Callable[[], None]] | None:
    """What shows, says and ends on a bar of rich's; None where rich is not installed."""
    try:
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar
    except ImportError:
        return None
    columns = (TextColumn("tuning"), BarColumn(24), TextColumn("{task.percentage:3.0f} %"))
    label = TextColumn("{task.description}")
    bar = Bar(*columns, TimeElapsedColumn(), label, console=Console(file=stream), transient=True)
    task = bar.add_task("", total=1.0)
    bar.start()

    def show(share: float, text: str) -> None:
        bar.update(task, completed=share, description=escape(text))

    def say(message: str) -> None:
        bar.console.print(escape(message))

    return show, say, bar.stop
