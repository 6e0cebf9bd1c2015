"""What the command line tools share: one-line errors, and reading the file to work on."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from typing import Any, NoReturn


class UsageError(Exception):
    """A command line that cannot be carried out; shown in one line, exit code 2."""


class Parser(argparse.ArgumentParser):
    """An argument parser that reports errors in one line.

    Args:
        loads: whether the command takes ``--load FILE.py``. The files are run once the whole
            command line has been understood, and processes that the command starts run them, too.
        as_torch: whether these files may say ``import torch`` and get lazyt.
        given: what ``argparse.ArgumentParser`` takes.
    """

    def __init__(self, *, loads: bool = False, as_torch: bool = False, **given: Any) -> None:
        super().__init__(**given)
        self._as_torch = as_torch
        if loads:
            self.add_argument(
                "--load", action="append", default=[], metavar="FILE.py",
                help="run a file that registers passes, ops, targets ... first; may be repeated",
            )  # fmt: skip

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """The arguments; loads the files that they name. Raises UsageError."""
        given = super().parse_args(args, namespace)
        if paths := getattr(given, "load", None):
            from lazyt.compat import torch_alias
            from lazyt.errors import LazytError
            from lazyt.extensions import load_all

            alias = torch_alias.standing_in() if self._as_torch else contextlib.nullcontext()
            try:
                with alias:
                    load_all(paths)
            except LazytError as error:
                raise UsageError(str(error)) from error
        return given

    def error(self, message: str) -> NoReturn:
        """Raises UsageError instead of printing the usage."""
        raise UsageError(f"{message}; see `{self.prog} --help`")


def count(text: str) -> int:
    """The type of an argument that counts: at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def read_input(path: str) -> str:
    """The text of a file, or of standard input for ``-``. Raises UsageError."""
    if path == "-":
        return sys.stdin.read()
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {os.strerror(error.errno or 0)}") from None


def write_output(path: str, text: str) -> None:
    """Writes a file, and says so, or standard output for ``-``. Raises UsageError."""
    if path == "-":
        sys.stdout.write(text)
        return
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {os.strerror(error.errno or 0)}") from None
    print(f"written: {path}")
