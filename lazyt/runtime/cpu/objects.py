"""Object files of kernels, which plans are linked from.

A kernel that one plan has had compiled is not compiled again for another: the disk cache says in
which object file it is. And compilers start while a plan is still being printed, on what is there.

A file holds the kernels that were compiled together, so the same kernel may be in two of a plan's
files. Kernels are therefore weak symbols: the linker takes one of them. Symbols contain the keys of
their kernels: a file may hold an older form of a kernel, with the same text and other helpers.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lazyt.ir.program import KernelSource, Program
from lazyt.runtime import cache, devices
from lazyt.runtime.cpu import compile

if TYPE_CHECKING:
    from lazyt.runtime.cpu.compile import Compiler, Running

#: Kernels from which on a plan is linked from objects: a compiler that does all of a smaller one at
#: once is quicker, as it is started once.
FEWEST = 4
# Work, in characters of text, that is worth a compiler of its own: about 10 ms for 1000, and 40 for
# starting it.
_LEAST_EARLY, _LEAST = 12_000, 8_000
_KIND = "kernel"


@dataclass(eq=False)
class _Item:
    """A kernel that has to be compiled: its key, its text and the helpers that it calls."""

    key: str
    kernel: KernelSource
    sections: dict[str, str]

    @property
    def symbol(self) -> str:
        """What the linker knows it by."""
        return _symbol(self.kernel, self.key)


@dataclass(eq=False)
class _Unit:
    """Kernels that are compiled together, and the compiler that does."""

    items: list[_Item]
    path: str
    running: Running


@dataclass(eq=False)
class Objects:
    """The object files of one plan that is being made; a context, which stops what was started and
    is not needed in the end.

    Attributes:
        failed: whether some compiler failed: whoever needs the reason compiles the plan at once.
    """

    failed: bool = False
    _known: dict[str, str] = field(default_factory=dict)  # where kernels are, by key
    _waiting: list[_Item] = field(default_factory=list)
    _units: list[_Unit] = field(default_factory=list)
    _keys: set[str] = field(default_factory=set)
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _folder: str = ""
    _compiler: Compiler | None = None
    _made: int = 0

    def __enter__(self) -> Objects:
        return self

    def __exit__(self, *_: object) -> None:
        for unit in self._units:
            unit.running.stop()
        self._units.clear()
        self._stack.close()

    @property
    def has_begun(self) -> bool:
        """Whether some compiler was started."""
        return self._made > 0

    def add(self, kernel: KernelSource, sections: Iterable[tuple[str, str]]) -> None:
        """Takes up a kernel that the plan will have, and starts a compiler where one core is idle.

        ``sections`` are the names and texts of the helpers that it calls, directly or not.
        """
        try:
            self._take(kernel, dict(sections))
            self._collect()
            work = sum(_work(item) for item in self._waiting)
            if work >= _LEAST_EARLY and len(self._units) < compile.side_by_side() - 1:
                self._start(len(self._waiting))
        except OSError:  # there is no place to work in: who builds the plan finds that out, too
            self.failed = True

    def link(self, program: Program, compiler: Compiler) -> bytes | None:
        """The shared object of a program; None where something failed."""
        if self._compiler not in (None, compiler) or self.failed:
            return None
        self._compiler = compiler
        try:
            for kernel in program.kernels:
                self._take(kernel, dict(program.sections))
            return self._finish(program, compiler)
        except (OSError, compile.UnitError):
            self.failed = True
            return None

    def _finish(self, program: Program, compiler: Compiler) -> bytes | None:
        entry = os.path.join(self._place(), "entry")
        keys = {k.name: _key(k, program.sections, compiler) for k in program.kernels}
        symbols = {kernel.name: _symbol(kernel, keys[kernel.name]) for kernel in program.kernels}
        _write(entry + ".c", compile.entry_text(program, symbols, compiler.own_threads))
        command = [*compiler.command, *compiler.flags, "-c", entry + ".c", "-o", entry + ".o"]
        called = compile.start(command, entry + ".err")
        try:
            cores = compile.side_by_side()
            while self._waiting or self._units:
                self._collect()
                if self._waiting and len(self._units) < cores:
                    self._start(self._share(cores))
                elif self._units:
                    time.sleep(0.002)
            if self.failed or called.wait() != 0:
                return None
        finally:
            called.stop()
        files = dict.fromkeys(self._known[key] for key in keys.values())
        output = entry + ".so"
        command = [*compiler.command, *compiler.flags, "-shared", entry + ".o", *files]
        linked = compile.start([*command, "-o", output, "-lm"], entry + ".err")
        status = linked.wait()
        linked.stop()
        if status != 0:
            return None
        with open(output, "rb") as file:
            return file.read()

    def _take(self, kernel: KernelSource, sections: dict[str, str]) -> None:
        """Looks a kernel up, and keeps it waiting where no file has it."""
        if self._compiler is None:
            self._compiler = compile.find()
        key = _key(kernel, sections.items(), self._compiler)
        if key in self._keys:
            return
        self._keys.add(key)
        digest = cache.get_text(_KIND, key)
        path = self._known.get(digest, "") if digest else ""
        if digest and not path:
            path = self._known[digest] = self._copy(digest)
        if path:
            self._known[key] = path
        else:
            used = {"base", *kernel.prelude}
            own = {name: text for name, text in sections.items() if name in used}
            self._waiting.append(_Item(key, kernel, own))

    def _copy(self, digest: str) -> str:
        """The path of a copy of a file of the cache, for the linker; empty where there is none.

        What was checked is linked, whatever becomes of the file in the cache.
        """
        data = cache.get_object(digest)
        if data is None:
            return ""
        path = os.path.join(self._place(), f"{digest}.o")
        with open(path, "wb") as file:
            file.write(data)
        return path

    def _share(self, cores: int) -> int:
        """How many of the waiting kernels the next compiler gets: smaller parts towards the end."""
        goal = max(_LEAST, sum(_work(item) for item in self._waiting) // cores)
        taken = 0
        for number, item in enumerate(self._waiting, 1):
            taken += _work(item)
            if taken >= goal:
                return number
        return len(self._waiting)

    def _start(self, count: int) -> None:
        """Starts a compiler on the kernels that have waited longest."""
        assert self._compiler is not None
        items, self._waiting = self._waiting[:count], self._waiting[count:]
        path = os.path.join(self._place(), f"unit{self._made}")
        self._made += 1
        sections = {name: text for item in items for name, text in item.sections.items()}
        symbols = {item.kernel.name: item.symbol for item in items}
        text = _unit_text([i.kernel for i in items], sections.items(), symbols)
        _write(path + ".c", text)
        flags = self._compiler.flags
        command = [*self._compiler.command, *flags, "-c", path + ".c", "-o", path + ".o"]
        running = compile.start(command, path + ".err")
        self._units.append(_Unit(items, path + ".o", running))

    def _collect(self) -> None:
        """Puts what compilers have finished into the cache."""
        for unit in [u for u in self._units if u.running.is_done]:
            self._units.remove(unit)
            status = unit.running.wait()
            unit.running.stop()
            if status != 0:
                self.failed = True
                self._waiting.clear()
                continue
            with open(unit.path, "rb") as file:
                digest = cache.put_object(file.read())
            for item in unit.items:
                self._known[item.key] = unit.path
                if digest is not None:
                    cache.put_text(_KIND, item.key, digest)

    def _place(self) -> str:
        """The folder that is worked in; raises OSError where there is none."""
        if not self._folder:
            for place in cache.scratch_folders():
                with contextlib.suppress(OSError):
                    self._folder = self._stack.enter_context(cache.scratch(place))
                    return self._folder
            raise OSError("no place to compile in")
        return self._folder


def _unit_text(
    kernels: Sequence[KernelSource],
    sections: Iterable[tuple[str, str]],
    symbols: Mapping[str, str],
) -> str:
    """Kernels and the helpers that they call as a translation unit that may be linked with others
    that have some of them, too; ``symbols`` of the kernels by name."""
    weak = [f"#pragma weak {symbols[kernel.name]}" for kernel in kernels]
    texts = [*(text for _, text in sections), *(kernel.text for kernel in kernels)]
    return "\n".join([*weak, *compile.renamed(symbols), *texts, ""])


def _symbol(kernel: KernelSource, key: str) -> str:
    return f"{kernel.name}_{key[:16]}"


def _work(item: _Item) -> int:
    return compile.work_of(item.kernel)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _key(kernel: KernelSource, sections: Iterable[tuple[str, str]], compiler: Compiler) -> str:
    """What decides a kernel's machine code."""
    used = {"base", *kernel.prelude}
    helpers = sorted(f"{name}\n{text}" for name, text in sections if name in used)
    features = " ".join(devices.cpu_features())
    return cache.hash_text(compiler.identity(), features, kernel.name, kernel.text, *helpers)
