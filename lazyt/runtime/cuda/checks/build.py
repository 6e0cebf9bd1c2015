"""Kernels and their checker as one executable.

It is a process of its own, so that a kernel that crashes, overflows its stack or never ends takes
nothing with it.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from lazyt.errors import CompileError, SourceError
from lazyt.runtime import cache
from lazyt.runtime.cpython import forks
from lazyt.runtime.cuda import emulated
from lazyt.runtime.cuda.checks.lines import LineTable
from lazyt.runtime.cuda.checks.text import FILE, KernelText, find_kernels, for_compiler, located

_FLAGS = ("-std=c++17", "-fno-pie", "-fno-omit-frame-pointer", "-fno-strict-aliasing", "-fwrapv")
#: No optimization: each access of the text is made, and at its line.
_WATCHING = ("-O0", "-w", "-g", "-gdwarf-4", "-ffp-contract=off", "-fno-exceptions",
             "-fsanitize=thread", "-fsanitize=bounds,alignment,integer-divide-by-zero")  # fmt: skip
_VOLATILE = ("--param", "tsan-distinguish-volatile=1")
_UNINITIALISED = ("-O1", "-Wuninitialized", "-Wmaybe-uninitialized", "-fno-exceptions")
_MESSAGE = re.compile(rf"^(?:.*/)?{re.escape(FILE)}:(\d+):(\d+): (\w[\w ]*): (.*)$", re.MULTILINE)
_MOST_KEPT = 16
_BUILD_SECONDS = 120
_built: OrderedDict[str, Checked] = OrderedDict()
_lock = forks.renewed(threading.Lock())
_HERE = Path(__file__).parent


class _UnknownNameError(SourceError):
    """A kernel's name that the compiler does not know."""


@dataclass(frozen=True)
class Signature:
    """A kernel of an executable.

    Attributes:
        number: its place in the executable's list.
        kinds: of each parameter: ``p`` for a pointer, else what it is (``i u f b h s``), its size,
            what it points to, and the size of that.
        text: the kernel in the text.
    """

    number: int
    kinds: tuple[tuple[str, int, str, int], ...]
    text: KernelText


@dataclass(frozen=True)
class Checked:
    """An executable.

    Attributes:
        image: its bytes.
        kernels: its kernels by name.
        lines: the lines of its addresses.
        unset: line, column and text about each variable that is read before it has a value.
    """

    image: bytes
    kernels: dict[str, Signature]
    lines: LineTable
    unset: tuple[tuple[int, int, str], ...]


def build(source: str, kernel: str, include: tuple[str, ...] = ()) -> Checked:
    """The executable of a text, with the kernels that are no templates and with ``kernel``.

    Raises SourceError for a text that is not taken or does not compile, or that has no such kernel,
    NoCompilerError without a C++ compiler, CompileError where the compiler fails on the checker.
    """
    texts = find_kernels(source)
    own = kernel.split("<")[0].strip().split("::")[-1]
    named = [item for item in texts if item.name == own]
    if not named:
        there = ", ".join(item.name for item in texts)
        known = f"its kernels are {there}" if there else "it has none (no __global__ function)"
        raise SourceError(f"the text has no kernel {kernel!r}; {known}")
    if named[0].is_template and "<" not in kernel:
        what = f"{kernel} is a template: name its arguments, as in '{kernel}<256>'"
        raise SourceError(located(source, what, named[0].line, 0), named[0].line)
    if not re.fullmatch(r"[\w:<>, ()*+-]+", kernel):
        raise SourceError(f"{kernel!r} is no kernel's name")
    listed = [item.name for item in texts if not item.is_template]
    names = [kernel, *(name for name in listed if name != own and listed.count(name) == 1)]
    if kernel in listed:
        names = list(dict.fromkeys(listed))  # one executable for all of them
    key = cache.hash_text(source, *names, *include)
    with _lock:
        if key in _built:
            _built.move_to_end(key)
            return _built[key]
    by_name = {item.name: item for item in texts}
    try:
        made = _make(source, names, by_name, include)
    except _UnknownNameError:  # the others may be in a namespace, or left out by the preprocessor
        try:
            made = _make(source, [kernel], by_name, include)
        except _UnknownNameError as error:
            raise SourceError(str(error)) from None
    with _lock:
        _built[key] = made
        while len(_built) > _MOST_KEPT:
            _built.popitem(last=False)
    return made


def _make(
    source: str, names: list[str], texts: dict[str, KernelText], include: tuple[str, ...]
) -> Checked:
    entries = "".join(f'lz::Entry<&{name}>::kernel("{name}"), ' for name in names)
    text = for_compiler(source, include)
    whole = (
        f'#line 1 "device.h"\n{_read("device.h")}\n#line 1 "{FILE}"\n{text}\n'
        f'#line 1 "kernels"\nextern "C" const lz::Kernel lz_kernels[] = {{{entries}}};\n'
        f'extern "C" const int lz_kernel_count = {len(names)};\n'
    )
    compiler = emulated.find_compiler()
    folders = [f"-I{os.path.abspath(place)}" for place in include]
    volatile = () if "clang" in os.path.basename(compiler[0]) else _VOLATILE
    checker = _checker(compiler)
    with cache.scratch(next(iter(cache.scratch_folders()))) as folder:
        path = os.path.join(folder, "checked.cpp")
        _write(path, whole.encode())
        _write(os.path.join(folder, "checker.o"), checker)
        done = _run([*compiler, *_FLAGS, *_WATCHING, *volatile, *folders, "-c", path,
                     "-o", f"{path}.o"])  # fmt: skip
        if done.returncode:
            raise _refusal(source, whole, done)
        output = os.path.join(folder, "checked")
        done_ = _run([*compiler, "-no-pie", f"{folder}/checker.o", f"{path}.o", "-o", output])
        if done_.returncode:
            raise _unlinked(source, whole, done_)
        said = _run(
            [*compiler, *_FLAGS, *_UNINITIALISED, *folders, "-S", path, "-o", f"{path}.s"]
        ).stderr
        listed = _run([output]).stdout
        with open(output, "rb") as file:
            image = file.read()
    unset = {
        (int(m[1]), int(m[2]), re.sub(r" \[-W.*\]$", "", m[4]))
        for m in _MESSAGE.finditer(said)
        if m[3] == "warning" and "uninitialized]" in m[4]
    }
    return Checked(image, _signatures(listed, texts), LineTable(image, FILE), tuple(sorted(unset)))


def _signatures(listed: str, texts: dict[str, KernelText]) -> dict[str, Signature]:
    found = {}
    for number, line in enumerate(listed.splitlines()):
        name, _, *rest = line.split("\t")
        kinds = []
        for item in rest:
            code, size, of, each = item.split()
            kinds.append((code, int(size), of, int(each)))
        text = texts[name.split("<")[0].strip().split("::")[-1]]
        found[name] = Signature(number, tuple(kinds), text)
    return found


def checker_object() -> bytes:
    """What each executable is linked with, for ``take_checker`` of a process with another cache.

    Raises NoCompilerError without a C++ compiler, CompileError where the compiler fails.
    """
    return _checker(emulated.find_compiler())


def take_checker(image: bytes) -> None:
    """Keeps what ``checker_object`` gave in this process's cache, instead of compiling it."""
    stored = cache.put_object(image)
    if stored is not None:
        cache.put_text("checker", _checker_key(), stored)


def _checker_key() -> str:
    return cache.hash_text(_read("checker.cpp"), emulated.identity(), *_FLAGS)


def _checker(compiler: list[str]) -> bytes:
    """The checker's object file, compiled once for each compiler."""
    key = _checker_key()
    digest = cache.get_text("checker", key)
    found = cache.get_object(digest) if digest else None
    if found is not None:
        return found
    with cache.scratch(next(iter(cache.scratch_folders()))) as folder:
        path = os.path.join(folder, "checker.cpp")
        _write(path, _read("checker.cpp").encode())
        done = _run([*compiler, *_FLAGS, "-O2", "-w", "-c", path, "-o", f"{path}.o"])
        if done.returncode:
            raise CompileError(list(done.args), done.stderr, None)
        with open(f"{path}.o", "rb") as file:
            found = file.read()
    take_checker(found)
    return found


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _write(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    settings = {**os.environ, "LC_ALL": "C"}
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=False, errors="replace", env=settings,
            timeout=_BUILD_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise SourceError(f"compiling the text took more than {_BUILD_SECONDS} s") from None


def _refusal(
    source: str, whole: str, done: subprocess.CompletedProcess[str]
) -> SourceError | CompileError:
    """The compiler's errors, at their lines of the user's text."""
    errors = [m for m in _MESSAGE.finditer(done.stderr) if m[3] in ("error", "fatal error")]
    if not errors:
        if found := re.search(r"^kernels:\d+:\d+: error: (.*)$", done.stderr, re.MULTILINE):
            return _UnknownNameError(f"the kernel cannot be named so: {found[1]}")
        if found := re.search(r"^(.*:\d+:\d+: (?:fatal )?error: .*)$", done.stderr, re.MULTILINE):
            return SourceError(f"in a header: {found[1]}")
        kept = cache.save_failed(cache.hash_text(whole), whole)
        return CompileError(list(done.args), done.stderr, kept)
    line, column = int(errors[0][1]), int(errors[0][2])
    text = located(source, errors[0][4], line, column)
    more = [f"line {m[1]}, column {m[2]}: {m[4]}" for m in errors[1:4]]
    return SourceError("\n".join([text, *more]), line, column)


def _unlinked(
    source: str, whole: str, done: subprocess.CompletedProcess[str]
) -> SourceError | CompileError:
    """What the linker misses: functions that the text declares and does not define."""
    if found := re.search(r"undefined reference to [`'](.*)'", done.stderr):
        return SourceError(f"{found[1]} has no definition that the checker knows")
    return CompileError(
        list(done.args), done.stderr, cache.save_failed(cache.hash_text(whole), whole)
    )
