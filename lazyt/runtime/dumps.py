"""``LAZYT_DUMP``: texts of plans as files of a folder, numbered in the order they are made in.

A process that finds something in the folder, or that shares it with another one, writes to a folder
of its own inside: ``run2``, ``run3`` ... So nothing is overwritten, and files of two processes do
not mix. Where nothing can be written that is said once, on standard error.
"""

from __future__ import annotations

import os
import sys
import threading

from lazyt.config import config
from lazyt.runtime.cpython import forks


class Dumps:
    """Where this process writes.

    Attributes:
        place: the folder, by the setting that it was found for.
        count: files that were written to it.
        told: what was said, which is not said again.
    """

    def __init__(self) -> None:
        self.lock = forks.guarded(threading.Lock())
        self.place: tuple[str, int, str] | None = None
        self.count = 0
        self.told: set[str] = set()

    def write(self, name: str, text: str) -> None:
        """Writes a file with this text, where ``config.dump`` says; its name gets a number."""
        wanted = config.dump
        if wanted is None:
            return
        try:
            with self.lock:
                self._write(wanted, name, text)
        except OSError as error:
            why = os.strerror(error.errno or 0)
            self.tell(f"nothing is written to {wanted}: {error.filename}: {why}")

    def _write(self, wanted: str, name: str, text: str) -> None:
        is_new = self.place is None or self.place[:2] != (wanted, os.getpid())
        if is_new:
            self.place, self.count = (wanted, os.getpid(), _claimed(wanted)), 0
        assert self.place is not None
        while True:
            path = os.path.join(self.place[2], f"{self.count:05d}_{name}")
            self.count += 1
            try:
                with open(path, "x", encoding="utf-8") as file:
                    file.write(text)
                return
            except FileExistsError:  # another process has begun here at the same moment
                if is_new:
                    self.place, self.count = (wanted, os.getpid(), _own_folder(wanted)), 0

    def tell(self, message: str) -> None:
        """Says something once, in one line on standard error, where ``config.dump`` is set."""
        if config.dump is not None and message not in self.told:
            self.told.add(message)
            print(f"lazyt: LAZYT_DUMP: {message}", file=sys.stderr)


def _claimed(folder: str) -> str:
    """The folder if it is empty, else a new one in it."""
    os.makedirs(folder, exist_ok=True)
    return _own_folder(folder) if os.listdir(folder) else folder


def _own_folder(folder: str) -> str:
    number = 2
    while True:
        path = os.path.join(folder, f"run{number}")
        try:
            os.mkdir(path)
            return path
        except FileExistsError:
            number += 1


dumps = Dumps()
