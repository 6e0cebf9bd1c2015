"""What the command line tools share: one-line errors, and reading the file to work on."""

from __future__ import annotations

import argparse
import os
import sys
from typing import NoReturn


class UsageError(Exception):
    """A command line that cannot be carried out; shown in one line, exit code 2."""


class Parser(argparse.ArgumentParser):
    """An argument parser that reports errors in one line."""

    def error(self, message: str) -> NoReturn:
        """Raises UsageError instead of printing the usage."""
        raise UsageError(f"{message}; see `{self.prog} --help`")


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
