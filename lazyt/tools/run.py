"""``python -m lazyt run``: run a program whose ``import torch`` gives lazyt."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from collections.abc import Sequence
from types import TracebackType

from lazyt.compat import torch_alias
from lazyt.ir.source_lines import is_own_file
from lazyt.tools.arguments import Parser, UsageError


def run(argv: Sequence[str]) -> int:
    """Runs the program as Python would, as ``__main__`` with its own ``sys.argv``.

    Its exceptions end it with a traceback, its exit code is passed on. Raises UsageError where
    there is no such file.
    """
    parser = Parser(
        loads=True,
        prog="lazyt run",
        description="Run a Python program in which `import torch` gives lazyt.",
        epilog="The program's own arguments follow its name.",
    )
    parser.add_argument("-m", dest="module", action="store_true", help="PROGRAM is a module's name")
    parser.add_argument("program", metavar="PROGRAM", help="a Python file, or a module with -m")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="its arguments")
    given = parser.parse_args(argv)
    if not given.module and not os.path.exists(given.program):
        raise UsageError(f"there is no file {given.program}")
    if os.path.isdir(given.program) and not os.path.exists(f"{given.program}/__main__.py"):
        raise UsageError(f"{given.program} is a folder without a __main__.py")
    return run_program([given.program, *given.arguments], given.module)


def run_program(command: list[str], is_module: bool, alias: bool = True) -> int:
    """Runs a program, or a module, with its arguments; 1 where it raised an exception.

    ``alias``: whether ``import torch`` gives lazyt.
    """
    if alias:
        torch_alias.install()
    sys.argv = [*command]
    try:
        _run(command[0], is_module)
    except BrokenPipeError:  # whoever reads the output has seen enough
        raise
    except Exception as error:
        # It ends as it would without us: with its traceback, which begins with its own lines.
        # What cannot be compiled has no lines that have run.
        unread = isinstance(error, SyntaxError) and error.filename == command[0]
        error.__traceback__ = None if unread else _from_program(error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


def _from_program(tb: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of what runs the program; the whole one where it did not get
    as far as that."""
    frame, found = tb, None
    while frame is not None and found is None:
        name = frame.tb_frame.f_code.co_filename
        if not (is_own_file(name) or "runpy" in name or name.startswith("<frozen ")):
            found = frame
        frame = frame.tb_next
    return found or tb


def _run(program: str, is_module: bool) -> None:
    if is_module:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(os.path.realpath(program)))
        runpy.run_path(program, run_name="__main__")
