"""Libraries that get their functions one part at a time, while the program runs.

A core has the entry, a table of functions, and what is needed for parallel regions (the texts are
``compile.core_text`` and ``compile.part_text``). Every part is a shared object of its own, which
puts its functions into the table when it is opened: nothing is linked again, and what was compiled
quickly is replaced in the same way. Parts stay loaded.
"""

from __future__ import annotations

import _ctypes
import contextlib
import ctypes
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from lazyt.runtime import cache
from lazyt.runtime.cpu import compile, execute, regions
from lazyt.runtime.cpu.execute import Entry


class Core(NamedTuple):
    """A core that is loaded.

    Attributes:
        entry: its function.
        table: the address of its table.
        regions: the address of its functions for parallel regions, 0 for none.
    """

    entry: Entry
    table: int
    regions: int


def open_core(path: str) -> Core:
    """The core in a shared object, with its own functions in the table. Raises OSError."""
    entry, handle = execute.open_library(path)
    shared = 0
    with contextlib.suppress(OSError):  # a compiler whose own library has all that regions need
        shared = _ctypes.dlsym(handle, regions.LIST)
    core = Core(entry, _ctypes.dlsym(handle, "lz_table"), shared)
    _call(handle, "lz_fill", core.table)
    return core


def part_of(core: Core) -> Callable[[str], int]:
    """A function that opens the part in a shared object, and has it fill the core's table."""

    def opened(path: str) -> int:
        handle: int = _ctypes.dlopen(path, ctypes.DEFAULT_MODE)
        with contextlib.suppress(OSError):  # a part without parallel regions
            _call(handle, regions.GIVE, core.regions)
        _call(handle, "lz_fill", core.table)
        return handle

    return opened


def _call(handle: int, name: str, address: int) -> None:
    found: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_ctypes.dlsym(handle, name))
    found(address)


class Job:
    """A text that a compiler makes a shared object of, in a process that is not waited for.

    Attributes:
        text: the text.
        compiler: the compiler.
        begun: when it was started.

    Raises OSError where there is no place to work in, and UnitError where the compiler cannot be
    started.
    """

    def __init__(self, text: str, compiler: compile.Compiler, nice: int = 0) -> None:
        self.text, self.compiler = text, compiler
        self.begun = time.perf_counter()
        self._folder = _scratch()
        try:
            source, self._output = (os.path.join(self._folder, n) for n in ("unit.c", "part.so"))
            with open(source, "w", encoding="utf-8") as file:
                file.write(text)
            command = [*compiler.command, *compiler.flags, "-shared", source, "-o", self._output]
            errors = os.path.join(self._folder, "errors")
            self._running = compile.start([*command, "-lm"], errors)
        except BaseException:
            cache.remove_scratch(self._folder)
            raise
        if nice:
            with contextlib.suppress(OSError):  # it has ended
                os.setpriority(os.PRIO_PGRP, self._running.process.pid, nice)

    @property
    def is_done(self) -> bool:
        """Whether the compiler has ended."""
        return self._running.is_done

    def binary(self) -> bytes:
        """What it made, when it has ended. Raises UnitError, and OSError where that cannot be
        read."""
        if self._running.wait() != 0:
            raise compile.UnitError(list(self.compiler.command), self._running.message(), 0)
        with open(self._output, "rb") as file:
            return file.read()

    def end(self) -> None:
        """Stops the compiler, if it runs, and removes what it has written."""
        self._running.stop()
        cache.remove_scratch(self._folder)

    def leave(self) -> None:
        """In a child of this process: the compiler and its folder are the parent's."""
        self._running.process.returncode = 0
        self._running.errors.close()


def _scratch() -> str:
    faults = []
    for place in cache.scratch_folders():
        try:
            return cache.make_scratch(place)
        except OSError as error:
            faults.append(str(error))
    raise OSError("; ".join(faults))
