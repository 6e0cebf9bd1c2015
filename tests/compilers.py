"""The C compiler of this machine, for tests that need one."""

from __future__ import annotations

import functools
import shlex
import shutil
import warnings

from lazyt.runtime.cpu import compile


@functools.cache
def available() -> bool:
    """Whether kernels can be compiled; nobody is warned where not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", compile.NoCompilerWarning)
        return compile.available()


@functools.cache
def words() -> list[str]:
    """What starts a C compiler: one on the PATH, or that of a package; nothing without one."""
    named = next(filter(None, map(shutil.which, ("gcc", "clang", "cc"))), None)
    if named is not None:
        return [named]
    return [*compile.find().command] if available() else []


def command() -> str:
    """The same for a shell, or for ``CC``."""
    return shlex.join(words()) or "no compiler"
