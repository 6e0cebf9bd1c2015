"""The C compiler of this machine, for tests that need one."""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import shutil
import warnings
from collections.abc import Iterator

import pytest

from lazyt.plan import planning
from lazyt.runtime.cpu import compile, execute


@functools.cache
def available() -> bool:
    """Whether kernels can be compiled; nobody is warned where not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", compile.NoCompilerWarning)
        return compile.available()


#: What the tests were started with.
_CC = os.environ.get("CC", "").strip()


@functools.cache
def words() -> list[str]:
    """What starts a C compiler: ``CC``, one on the PATH, or that of a package; nothing without
    one."""
    if _CC:
        return shlex.split(_CC)
    named = next(filter(None, map(shutil.which, ("gcc", "clang", "cc"))), None)
    if named is not None:
        return [named]
    return [*compile.find().command] if available() else []


def command() -> str:
    """The same for a shell, or for ``CC``."""
    return shlex.join(words()) or "no compiler"


@functools.cache
def quick_command() -> str:
    """A compiler for ``CC`` that takes half the time and makes kernels that run longer, with the
    same bits; empty where there is none, or ``CC`` names one already."""
    if os.environ.get("CC", "").strip() or not available():
        return ""
    found = compile.find()
    level = "-O1" if "clang" in found.version else "-Og"
    return shlex.join([*found.command, level])


@contextlib.contextmanager
def chosen(command: str) -> Iterator[None]:
    """``CC`` within, for this process and those it starts; empty for what it is outside.

    Plans that are in memory and were compiled otherwise are not used within.
    """
    global _last
    if command != _last:
        planning.clear()
        execute.forget()
        _last = command
    with pytest.MonkeyPatch.context() as patch:
        if command:
            patch.setenv("CC", command)
        yield


_last = ""
