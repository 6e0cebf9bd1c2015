"""From a Program's text to a shared object's bytes, through the system's C compiler.

The compiler is ``CC`` (which may hold arguments; a level of optimization among them takes the
place of lazyt's: ``gcc -Og`` compiles in half the time), else gcc, clang or cc from the PATH, else
the one of the package ``ziglang``, which ``pip install 'lazyt-compiler[compiler]'`` brings. What it
is and which flags it takes is asked once and kept in the disk cache under the identity of its
file, so that a later process starts no compiler until it has something to compile. Large Programs
are split into batches that are compiled by processes side by side and linked.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import IO, TYPE_CHECKING, TypeVar

from lazyt.errors import CompileError, NoCompilerError, warn
from lazyt.ir.program import KernelSource, Program
from lazyt.runtime import cache, devices
from lazyt.runtime.cpu import openmp, regions

if TYPE_CHECKING:
    from subprocess import Popen

_T = TypeVar("_T")

started = 0  # compiler processes that this process has started
at_once = 0  # how many of them run side by side at the most, 0 for one a core
on_start: list[Callable[[], None]] = []  # what is told when one is started
is_idle = False  # whether they run only where nobody else wants the processor

# What gcc -O3 does beyond this takes a third of the time to compile, mostly for copying bodies of
# loops, and makes kernels slower as often as faster. Loops that copy rows of a tile, of some 64
# numbers, would become calls of memcpy: a transposition of float32 then takes 1.5 times as long.
_SPEED = (
    "-O2",
    "-fno-tree-loop-distribute-patterns",
    "-ftree-vectorize",
    "-fvect-cost-model=dynamic",
    "-fpeel-loops",
    "--param=max-completely-peeled-insns=120",
)
# Sapphire Rapids and its successors gather fast. To gcc that is older than one of them it is a
# processor of the AVX-512 that it has, tuned for all, which loads each element by itself: sampling
# images takes five times as long. Machines of before have lost their fast gathers to microcode.
_GATHERS = "-mtune-ctrl=use_gather"
_COMMON = (
    "-std=gnu11",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    # gcc 12 then drops the rounding of float64 to float32 and back in short straight-line code.
    "-fno-tree-slp-vectorize",
    "-fPIC",
    "-fvisibility=hidden",
    "-w",
)
_EXACT = "-DLZ_EXACT"
# gcc takes about 40 ms for the smallest parallel loop and as long again for a thousand
# characters more; starting it for one batch more takes 60 ms.
_KERNEL_CHARS = 1000
_BATCH_CHARS = 2000
_MOST_BATCHES = 16
# Visible before its definition, as all else is hidden.
_ENTRY_DECLARATION = '__attribute__((visibility("default"))) void lz_plan(char **, int);\n'
_PROBE = """
__attribute__((visibility("default"))) void lz_probe(int *p, int n, int threads) {
#pragma omp parallel for num_threads(threads) if(threads > 1)
  for (int i = 0; i < n; i++) p[i] = i;
}
"""


class NoCompilerWarning(UserWarning):
    """No C compiler was found, so plans are interpreted."""


class NoPlaceWarning(UserWarning):
    """There is no room to compile in, so plans are interpreted."""


class NoPlaceError(CompileError):
    """All folders that could be compiled in are full, or cannot be written."""

    def __init__(self, command: list[str], places: list[str]) -> None:
        super().__init__(command, "there is no place to compile in: " + "; ".join(places), None)
        self.places = places


class NoOpenMPWarning(UserWarning):
    """The C compiler does not know OpenMP, so kernels run on one core."""


@dataclass(frozen=True)
class Compiler:
    """A C compiler that has compiled something.

    Attributes:
        command: program and arguments to start it with.
        version: first line of ``--version``.
        target: the machine it compiles for.
        flags: what it is given for every compile.
        openmp: whether kernels may have several threads.
        own_threads: whether these are lazyt's (``runtime/cpu/openmp.py``), and not those of the
            compiler's OpenMP library.
    """

    command: tuple[str, ...]
    version: str
    target: str
    flags: tuple[str, ...]
    openmp: bool
    own_threads: bool = False

    @property
    def quick(self) -> Compiler:
        """The same, told to compile in a third of the time what then takes longer to run: gcc
        without most of its passes, clang without vectors."""
        flags = [flag for flag in self.flags if flag not in (*_SPEED, "-O3", _GATHERS)]
        return replace(self, flags=("-O1" if "clang" in self.version else "-Og", *flags))

    @property
    def exact(self) -> Compiler:
        """The same, for texts that are for ``config.exact``, whether they say so or not."""
        return replace(self, flags=(*self.flags, _EXACT))

    @property
    def is_exact(self) -> bool:
        """Whether it is such a one."""
        return _EXACT in self.flags

    @property
    def plain(self) -> Compiler:
        """The same, told to optimize nothing: what its results are compared with."""
        flags = [flag for flag in self.flags if flag not in (*_SPEED, "-O3", _GATHERS)]
        return replace(self, flags=("-O0", *flags))

    @property
    def checking(self) -> Compiler:
        """``plain``, whose code says on the standard error stream what C leaves undefined as it
        does it."""
        return replace(self, flags=(*self.plain.flags, "-g", "-fsanitize=undefined"))

    def identity(self) -> str:
        """Text that differs wherever two compilers could make different code here."""
        return "\n".join((*self.command, self.version, self.target, *self.flags))


_found: dict[tuple[str | None, str | None], Compiler] = {}
_warned: set[type[Warning]] = set()


def available() -> bool:
    """Whether there is a C compiler; when not, warns with NoCompilerWarning once per process.

    Raises CompileError when ``CC`` names a compiler that cannot compile.
    """
    try:
        find()
    except NoPlaceError as error:
        warn_no_place(error)
        return False
    except NoCompilerError as error:
        _warn_once(f"{error} Plans run in the NumPy interpreter, slowly.", NoCompilerWarning)
        return False
    return True


def warn_no_place(error: NoPlaceError) -> None:
    """Says, once per process, that plans are interpreted until there is room again."""
    _warn_once(
        f"There is no place to compile in: {'; '.join(error.places)}. Plans run in the NumPy "
        "interpreter, slowly, until there is: free some space, or set TMPDIR or LAZYT_CACHE_DIR "
        "to a folder that has some.",
        NoPlaceWarning,
    )


def find() -> Compiler:
    """The C compiler to use, asked about itself only if the disk cache does not know it.

    Raises:
        NoCompilerError: there is none that works.
        CompileError: ``CC`` names one that cannot compile an empty loop.
    """
    asked = (os.environ.get("CC"), os.environ.get("PATH"))
    compiler = _found.get(asked)
    if compiler is None:
        compiler = _found[asked] = _search(asked[0])
        if not compiler.openmp:
            _warn_once(
                f"{' '.join(compiler.command)} does not know OpenMP (-fopenmp fails), so kernels "
                "run on one core. Set CC to another compiler.",
                NoOpenMPWarning,
            )
    return compiler


def build(program: Program, compiler: Compiler, key: str) -> bytes:
    """The shared object of ``program``, which exports ``lz_plan``.

    Args:
        program: a Program with target ``c``.
        compiler: from ``find``.
        key: names the source file that is kept when the compiler fails.

    Raises:
        NoPlaceError: there is no place to write to.
        CompileError: the compiler failed.
    """
    sources = split_units(program, side_by_side(), compiler.own_threads)
    try:
        return _in_some_place(lambda folder: _build_in(folder, sources, compiler), compiler.command)
    except UnitError as error:
        kept = cache.save_failed(key, sources[error.unit])
        raise CompileError(error.command, error.stderr, kept) from None


def side_by_side() -> int:
    """How many compilers may run at a time."""
    return at_once or devices.core_count()


def build_text(text: str, compiler: Compiler) -> bytes:
    """The shared object of a text that is no plan. Raises as ``build``."""
    try:
        return _in_some_place(lambda folder: _build_in(folder, [text], compiler), compiler.command)
    except UnitError as error:
        raise CompileError(error.command, error.stderr, None) from None


def _in_some_place(work: Callable[[str], _T], command: Sequence[str]) -> _T:
    """What ``work`` makes in a folder of its own, in the first place that has room.

    Raises NoPlaceError, and UnitError where a compiler fails for another reason.
    """
    faults = []
    for place in cache.scratch_folders():
        try:
            with cache.scratch(place) as folder:
                try:
                    return work(folder)
                except UnitError as error:
                    if not _is_no_place(folder, error.stderr):
                        raise
                    faults.append(f"{place}: {error.stderr.strip().splitlines()[-1]}")
        except OSError as error:  # not writable or full
            faults.append(str(error) if place in str(error) else f"{place}: {error}")
    raise NoPlaceError([*command], faults)


#: What compilers, assemblers and linkers say of a disk that is full.
_FULL = (
    "No space left", "Disk quota exceeded", "File size limit exceeded", "file truncated",
    "cannot create temporary file", "Cannot create temporary file", "Read-only file system",
)  # fmt: skip
_LEAST_FREE = 1 << 20


def _is_no_place(folder: str, message: str) -> bool:
    """Whether a compiler failed for the folder that it worked in: it has gone, or is full. Linkers
    that map their output end by a signal then."""
    if any(text in message for text in _FULL):
        return True
    try:
        status = os.statvfs(folder)
    except OSError:  # somebody has cleared the cache
        return True
    return status.f_bavail * status.f_frsize < _LEAST_FREE or status.f_favail == 0 < status.f_files


def split_units(program: Program, cores: int, own_threads: bool = False) -> list[str]:
    """The translation units of ``program``: one when it is small, else batches of like work."""
    entry = entry_text(program, {}, own_threads)
    kernels = sorted(program.kernels, key=work_of, reverse=True)
    total = sum(work_of(kernel) for kernel in kernels)
    count = max(1, min(len(kernels), total // _BATCH_CHARS, cores, _MOST_BATCHES))
    if count == 1:
        return [_unit_text(program, list(program.kernels), entry)]
    batches: list[list[KernelSource]] = [[] for _ in range(count)]
    loads = [0] * count
    for kernel in kernels:  # the most work first, each into the idlest batch
        idlest = loads.index(min(loads))
        batches[idlest].append(kernel)
        loads[idlest] += work_of(kernel)
    last = loads.index(min(loads))
    return [_unit_text(program, batch, entry * (i == last)) for i, batch in enumerate(batches)]


def work_of(kernel: KernelSource) -> int:
    """How long a kernel takes to compile, in characters of text."""
    return len(kernel.text) + _KERNEL_CHARS


def _unit_text(program: Program, kernels: list[KernelSource], entry: str) -> str:
    used = {"base"}.union(*(kernel.prelude for kernel in kernels))
    parts = [text for name, text in program.sections if name in used]
    parts += [kernel.text for kernel in kernels]
    if entry:
        parts.append(entry)
    return "\n".join(parts) + "\n"


def entry_text(program: Program, symbols: Mapping[str, str], own_threads: bool) -> str:
    """The entry of ``program`` as a translation unit of its own.

    Args:
        symbols: of kernels by name.
        own_threads: see ``Compiler``.
    """
    lines = [*renamed(symbols), _ENTRY_DECLARATION, program.entry, regions.WRAPPED]
    return "\n".join([*lines, openmp.TEXT] if own_threads else lines)


def core_text(program: Program, own_threads: bool) -> str:
    """The text of a library that others add functions to: a program whose regions these share.

    Args:
        program: with the kernels that it begins with.
        own_threads: see ``Compiler``.
    """
    entry = entry_text(program, {}, own_threads)
    shared = regions.listed(openmp.FORWARDED if own_threads else ())
    return _unit_text(program, list(program.kernels), f"{entry}\n{shared}")


def part_text(program: Program, own_threads: bool) -> str:
    """The text of a library that adds functions to one of ``core_text``.

    Args:
        program: its kernels, and for an entry the text that follows them.
        own_threads: see ``Compiler``.
    """
    text = _unit_text(program, list(program.kernels), program.entry)
    if "omp parallel" not in text:
        return text
    return text + (openmp.forwarding() if own_threads else regions.forwarding(()))


def renamed(symbols: Mapping[str, str]) -> list[str]:
    """Lines that give kernels other names."""
    return [f"#define {name} {symbol}" for name, symbol in symbols.items()]


class UnitError(Exception):
    """The compiler failed on one unit, or in linking (unit 0)."""

    def __init__(self, command: list[str], stderr: str, unit: int) -> None:
        super().__init__(stderr)
        self.command, self.stderr, self.unit = command, stderr, unit


def _build_in(folder: str, sources: list[str], compiler: Compiler) -> bytes:
    names = [os.path.join(folder, f"unit{i}") for i in range(len(sources))]
    for name, source in zip(names, sources, strict=True):
        with open(name + ".c", "w", encoding="utf-8") as file:
            file.write(source)
    output = os.path.join(folder, "plan.so")
    command = [*compiler.command, *compiler.flags]
    if len(sources) == 1:
        _run_all([[*command, "-shared", names[0] + ".c", "-o", output, "-lm"]], folder)
    else:
        _run_all([[*command, "-c", n + ".c", "-o", n + ".o"] for n in names], folder)
        _run_all([[*command, "-shared", *(n + ".o" for n in names), "-o", output, "-lm"]], folder)
    with open(output, "rb") as file:
        return file.read()


def _run_all(commands: list[list[str]], folder: str) -> None:
    """Run commands side by side; raise UnitError if one fails."""
    running: list[Running] = []
    try:
        for unit, command in enumerate(commands):
            running.append(start(command, os.path.join(folder, f"errors{unit}")))
        for unit, each in enumerate(running):
            if each.wait() != 0:
                raise UnitError(commands[unit], each.message(), unit)
    finally:
        for each in running:
            each.stop()


@dataclass(frozen=True)
class Running:
    """A compiler at work, and the file with its messages, where they cannot block it."""

    process: Popen[bytes]
    errors: IO[bytes]

    @property
    def is_done(self) -> bool:
        """Whether it has ended."""
        return self.process.poll() is not None

    def wait(self) -> int:
        """Its exit status, when it has ended. Ctrl-C is heard at once meanwhile, which it is not
        in the wait of ``subprocess``."""
        import time

        while not self.is_done:
            time.sleep(0.001)
        return self.process.wait()

    def message(self) -> str:
        """What it wrote; never empty."""
        self.errors.seek(0)
        text = self.errors.read().decode(errors="replace").strip()
        return text or f"it ended with status {self.process.returncode} and no message"

    def stop(self) -> None:
        """Ends it and what it started where it has not ended, and lets go of its messages."""
        if self.process.poll() is None:
            import signal

            # The driver alone would leave its passes, which go on writing to a folder that goes.
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.errors.close()


#: Where compilers put what is of no use afterwards. Zig's would keep every result for good.
_PLACES = ("TMPDIR", "ZIG_LOCAL_CACHE_DIR")


def start(command: list[str], errors_path: str) -> Running:
    """Start a compiler; raises UnitError where that fails."""
    global started
    import subprocess

    folder = os.path.dirname(errors_path)
    errors = open(errors_path, "w+b")  # noqa: SIM115 (closed by ``stop``)
    started += 1
    for function in on_start:
        function()
    process: Popen[bytes] = subprocess.Popen.__new__(subprocess.Popen)
    try:
        process.__init__(  # type: ignore[misc]
            command,
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            # What its passes hand to each other lies beside its output: there is room, it goes
            # with the folder, and nobody else may write there.
            env={**os.environ, "LC_ALL": "C", **dict.fromkeys(_PLACES, folder)},
            process_group=0,
        )
        if is_idle and hasattr(os, "SCHED_IDLE"):
            with contextlib.suppress(OSError):  # it has ended, or that is forbidden
                os.sched_setscheduler(process.pid, os.SCHED_IDLE, os.sched_param(0))
        return Running(process, errors)
    except OSError as error:
        errors.close()
        raise UnitError(command, f"it cannot be started: {error}", 0) from error
    except BaseException:  # an interrupt: it may have been started already
        if getattr(process, "pid", None) and process.returncode is None:
            Running(process, errors).stop()
        errors.close()
        raise


def _search(cc: str | None) -> Compiler:
    wanted = [["gcc"], ["clang"], ["cc"]]
    if cc and cc.strip():
        wanted = [_words_of(cc)]
    elif packaged := _packaged():
        wanted.append(packaged)
    failures = []
    for words in wanted:
        try:
            compiler = _look_up(words)
        except NoPlaceError:
            raise
        except CompileError as error:
            if cc:
                raise
            failures.append(f"{words[0]} does not work: {_telling_line(error.stderr)}")
            continue
        if compiler is not None:
            return compiler
        failures.append(f"{words[0]} is not on the PATH{', and CC is set to it' if cc else ''}")
    raise NoCompilerError(
        f"no C compiler: {'. '.join(failures)}. Install gcc or clang, or one that pip brings: "
        f"{PIP_INSTALL}. Or set CC to a compiler.",
        tuple(failures),
    )


#: How to get a compiler where the system has none and needs no administrator.
PIP_INSTALL = "pip install 'lazyt-compiler[compiler]'"


def _packaged() -> list[str]:
    """How to start the C compiler of the package ``ziglang``; empty where that is not installed."""
    # Not `importlib.util`: it is read from a file, which a process may not be allowed to any more.
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec("ziglang")
    for folder in (spec and spec.submodule_search_locations) or ():
        path = os.path.join(folder, "zig")
        if os.access(path, os.X_OK):
            return [path, "cc"]
    return []


def _telling_line(text: str) -> str:
    """Of a compiler's messages the first that names an error: the last ones only count them."""
    lines = text.strip().splitlines()
    return next((line for line in lines if re.search("error|cannot|not found", line)), lines[-1])


def _words_of(cc: str) -> list[str]:
    """What ``CC`` says: a program, whose path may have blanks in it, or a program and arguments as
    a shell would read them. Raises CompileError for quotes that do not end."""
    import shlex

    if os.path.isfile(cc):
        return [cc]
    try:
        return shlex.split(cc)
    except ValueError as error:
        raise CompileError([cc], f"CC={cc!r} cannot be read as a command: {error}.", "") from None


def _look_up(words: list[str]) -> Compiler | None:
    """The compiler that ``words`` start, from the disk cache or by asking it."""
    found = _which(words[0])
    if found is None:
        return None
    path = os.path.realpath(found)
    status = os.stat(path)
    features = " ".join(devices.cpu_features())
    facts = (path, str(status.st_mtime_ns), str(status.st_size), features)
    key = cache.hash_text(*words, *facts, _GATHERS, *_COMMON, *regions.WRAP, *openmp.FLAGS)
    text = cache.get_text("compiler", key)
    if text is not None:
        try:
            raw = json.loads(text)
            raw["command"], raw["flags"] = tuple(raw["command"]), tuple(raw["flags"])
            return Compiler(**raw)
        except (ValueError, KeyError, TypeError):  # another version's text: ask the compiler again
            pass
    compiler = _ask((found, *words[1:]))
    cache.put_text("compiler", key, json.dumps(asdict(compiler)))
    return compiler


def _which(name: str) -> str | None:
    """The program called ``name``; importing shutil for this would cost every process 4 ms."""
    if os.path.dirname(name):
        paths = [name]
    else:
        paths = [os.path.join(folder, name) for folder in os.get_exec_path()]
    found = next((p for p in paths if os.path.isfile(p) and os.access(p, os.X_OK)), None)
    return found and os.path.abspath(found)  # the current folder may be another one later


def _ask(command: tuple[str, ...]) -> Compiler:
    """Start a compiler to learn its version, its target and the flags it takes.

    Raises CompileError when no set of flags compiles an empty loop.
    """
    try:
        return _in_some_place(lambda folder: _try_flags(command, folder), command)
    except UnitError as error:
        raise CompileError(list(command), error.stderr, "") from None


def _try_flags(command: tuple[str, ...], folder: str) -> Compiler:
    native = devices.native_flag()
    has_level = any(word.startswith("-O") for word in command[1:])
    # By its name it is likely to take these: that is tried while it is asked for its version.
    likely = _attempts(native, "clang" in os.path.basename(command[0]), has_level)[0]
    source = os.path.join(folder, "likely.c")
    with open(source, "w", encoding="utf-8") as file:
        file.write(_probe(likely))
    words = [*command, *_COMMON, *likely, "-O0", "-shared", source]
    first = start([*words, "-o", os.path.join(folder, "likely.so"), "-lm"], source + ".err")
    try:
        _run_all([[*command, "--version"], [*command, "-dumpmachine"]], folder)
        version = _printed(folder, 0).partition("\n")[0]
        target = _printed(folder, 1).strip()
        attempts = _attempts(native, "clang" in version, has_level)
        if attempts[0] == likely and first.wait() == 0:
            return _compiler(command, version, target, likely)
    finally:
        first.stop()
    for number, extra in enumerate(attempts, 1):
        trial = _compiler(command, version, target, extra)
        # Whether flags are known does not depend on how much is done to a loop.
        asking = replace(trial, flags=(*trial.flags, "-O0"))
        try:
            _build_in(folder, [_probe(extra)], asking)
        except UnitError as error:
            if number == len(attempts) or _is_no_place(folder, error.stderr):
                raise
        else:
            break
    return trial


def _compiler(
    command: tuple[str, ...], version: str, target: str, extra: tuple[str, ...]
) -> Compiler:
    flags = (*_COMMON, *extra)
    return Compiler(command, version, target, flags, "-fopenmp" in extra, _has_own_threads(extra))


def _has_own_threads(extra: tuple[str, ...]) -> bool:
    return set(openmp.FLAGS) <= set(extra)


def _probe(extra: tuple[str, ...]) -> str:
    """A loop, and what every plan has with these flags."""
    return _PROBE + regions.WRAPPED + openmp.TEXT * _has_own_threads(extra)


def _attempts(native: str, is_clang: bool, has_level: bool = False) -> list[tuple[str, ...]]:
    """Flags to try, the best first, without what says how much to optimize where the command does.
    Clang links OpenMP's library whether it is there or not, and its threads neither hear of
    interrupts nor survive a fork."""
    speed = () if has_level else _SPEED
    most = () if has_level else ("-O3",)
    gnu = [(*speed, native, "-fopenmp", *regions.WRAP), (*speed, native, "-fopenmp")]
    if "amx_tile" in devices.cpu_features():
        gnu.insert(0, (_GATHERS, *gnu[0]))
    own = [(*most, native, *openmp.FLAGS), (*most, *openmp.FLAGS)]
    rest = [(*most, native, "-fopenmp"), (*most, native), (*most, "-fopenmp"), most]
    return [*own, *rest] if is_clang else [*gnu, *rest[:1], *own[:1], *rest[1:]]


def _printed(folder: str, number: int) -> str:
    """What a compiler has printed; both of its streams, as some print versions to the second."""
    path = os.path.join(folder, f"errors{number}")
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def _warn_once(message: str, category: type[Warning]) -> None:
    if category not in _warned:
        _warned.add(category)
        warn(message, category)
