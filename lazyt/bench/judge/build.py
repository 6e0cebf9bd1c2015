"""From the C text of a submission to a shared object, with everything checked that text shows."""

from __future__ import annotations

import atexit
import ctypes
import os
import re
import resource
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from lazyt.bench.judge.tasks import Task
from lazyt.bench.judge.verdicts import Refusal
from lazyt.bench.problems import Array, described
from lazyt.runtime.cpu import compile
from lazyt.runtime.devices import native_flag

FLAGS = ("-O3", native_flag(), "-std=gnu11", "-fopenmp", "-fPIC", "-w")
_SECONDS, _MEMORY = 120, 4 << 30
_TYPES = {
    "float": "float32", "double": "float64", "_Float16": "float16",
    "int": "int32", "int32_t": "int32", "signed int": "int32",
    "long": "int64", "long long": "int64", "int64_t": "int64", "ptrdiff_t": "int64",
    "ssize_t": "int64", "long int": "int64", "long long int": "int64",
    "char": "int8", "signed char": "int8", "int8_t": "int8",
    "unsigned char": "uint8", "uint8_t": "uint8", "bool": "uint8", "_Bool": "uint8",
}  # fmt: skip
#: Whole numbers without a sign are sizes only.
_SIZES = {"size_t", "unsigned", "unsigned int", "unsigned long", "uint64_t", "uint32_t"}
#: Names of the C library that a kernel has no reason to define: who does, wants to be called in
#: their place.
_TAKEN = re.compile(
    r"^(clock.*|gettimeofday|time|times|omp_get_w.*|read|write|p?read64|p?write64|v?dprintf|fscanf"
    r"|.*isoc99.*|mem(cpy|move|set|cmp)|mmap|munmap|mprotect|(m|c|re)alloc|free|exit|_exit|dlopen"
    r"|dlsym|prctl|sig(nal|action|altstack)|raise|abort|main|nanosleep|usleep|__libc_.*)$"
)


@dataclass(frozen=True)
class Parameter:
    """A parameter of a C function: its type without qualifiers, its name, and what it is."""

    name: str
    type: str
    pointer: bool
    const: bool


def signature(task: Task, output_dtypes: Sequence[str] = ()) -> str:
    """The head of a C function for the task, as a submission may have it."""
    spelled = {v: k for k, v in reversed(_TYPES.items())}
    outputs = output_dtypes or ["float32"] * len(task.outputs)
    words = [
        f"{'' if task.in_place else 'const '}{spelled[described(text)[1]]} *{name}"
        for name, text in task.inputs.items()
    ]
    words += [f"{spelled[dtype]} *{name}" for name, dtype in zip(task.outputs, outputs)]
    words += [f"long {name}" for name in task.dims()]
    words += [f"float {name}" for name in task.numbers]
    name = re.sub(r"\W", "_", task.name)
    return f"void {name}({', '.join(words)})"


def _without_comments(text: str) -> str:
    pattern = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*'
    return re.sub(pattern, " ", text, flags=re.S | re.M)


def function_of(text: str, name: str = "") -> tuple[str, list[Parameter]]:
    """The name and the parameters of the function that is judged: the one of that name, else the
    last that is not static. Raises Refusal where there is none."""
    plain = _without_comments(text)
    heads = re.finditer(r"([\w\s]*?)\bvoid\s+(\w+)\s*\(([^()]*)\)\s*\{", plain)
    found = [
        (head[2], head[3]) for head in heads if not re.search(r"\bstatic\b", head[1].split("}")[-1])
    ]
    if name:
        found = [pair for pair in found if pair[0] == name]
    if not found:
        what = f"void {name}(...)" if name else "that returns void"
        raise Refusal("compile", f"the text has no function {what}")
    name, words = found[-1]
    return name, [_parameter(word) for word in words.split(",") if word.strip() not in ("", "void")]


def _parameter(text: str) -> Parameter:
    found = re.match(r"^(.*?)(\w+)\s*(\[[^\]]*\])?\s*$", text.strip(), re.S)
    if found is None:
        raise Refusal("compile", f"cannot read the parameter {text.strip()!r}")
    before = found[1]
    words = re.findall(r"\w+", before)
    qualifiers = ("const", "restrict", "__restrict", "__restrict__", "volatile")
    kind = " ".join(word for word in words if word not in qualifiers)
    pointer = "*" in before or bool(found[3])
    return Parameter(found[2], kind, pointer, "const" in words)


def entry_text(
    task: Task, name: str, parameters: Sequence[Parameter], dtypes: Sequence[str]
) -> str:
    """C that calls the function with what the driver has, each parameter in its place.

    Pointers to const are the inputs in their order, the others the results; whole numbers are sizes
    by their names, floats the task's numbers. Raises Refusal where they do not fit.
    """
    wanted = signature(task, dtypes[len(task.inputs) :])
    arrays = [described(text)[1] for text in task.inputs.values()]
    arrays += dtypes[len(task.inputs) :]
    pointers = [p for p in parameters if p.pointer]
    if len(pointers) != len(arrays):
        raise Refusal("compile", f"it takes {len(pointers)} pointers; wanted is {wanted}")
    inputs, outputs = list(range(len(task.inputs))), list(range(len(task.inputs), len(arrays)))
    names = [*task.inputs, *task.outputs]
    by_name = all(p.name in names for p in pointers)
    words, types = [], []
    for p in parameters:
        types.append(f"{p.type} {'*' if p.pointer else ''}{p.name}")
        if p.pointer:
            order = inputs if p.const or not outputs or (task.in_place and inputs) else outputs
            place = names.index(p.name) if by_name else (order or outputs or inputs).pop(0)
            if _TYPES.get(p.type) != arrays[place]:
                what = f"{p.name} is of {p.type}, the task has {arrays[place]}"
                raise Refusal("compile", f"{what}; wanted is {wanted}")
            words.append(f"({p.type} *)arrays[{place}]")
        elif p.name in task.dims() and (_TYPES.get(p.type, "")[:3] == "int" or p.type in _SIZES):
            words.append(f"({p.type})sizes[{task.dims().index(p.name)}]")
        elif p.name in task.numbers:
            words.append(f"({p.type})numbers[{list(task.numbers).index(p.name)}]")
        else:
            raise Refusal("compile", f"nothing in the task is called {p.name}; wanted is {wanted}")
    return (
        "#include <stddef.h>\n#include <stdint.h>\n#include <stdbool.h>\n#include <sys/types.h>\n"
        f"extern void {name}({', '.join(types)});\n"
        '__attribute__((visibility("default")))\n'
        "void lz_judged(void **arrays, const long *sizes, const double *numbers)\n"
        f"{{\n  {name}({', '.join(words)});\n}}\n"
    )


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY,) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS,) * 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 28,) * 2)


def run_compiler(words: Sequence[str], folder: Path) -> None:
    """Runs the C compiler with limits. Raises Refusal with its message."""
    command = [*compile.find().command, *words]
    environment = {**os.environ, "TMPDIR": str(folder), "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, errors="replace", timeout=_SECONDS, preexec_fn=_limit, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Refusal("compile", f"the compiler was not done after {_SECONDS} s") from None
    if done.returncode:
        said = done.stderr.splitlines()
        lines = [line for line in said if "error" in line or "undefined" in line]
        told = (lines or said or ["the compiler failed without a word"])[0]
        raise Refusal("compile", told.replace(str(folder) + "/", "")[:300])


def build(text: str, entry: str, folder: Path, flags: Sequence[str] = FLAGS) -> Path:
    """The shared object of a submission and of its entry.

    Raises Refusal for text that does not compile, runs code as it is loaded, or defines functions
    of the C library.
    """
    (folder / "kernel.c").write_text(text, encoding="utf-8")
    (folder / "entry.c").write_text(entry, encoding="utf-8")
    found = folder / "kernel.so"
    # Without the usual files at start and end there is code that runs at loading only if the text
    # has some.
    for name in ("kernel", "entry"):
        run_compiler([*flags, "-c", f"{name}.c", "-o", f"{name}.o"], folder)
    linked = ["-shared", "-nostartfiles", *flags, "kernel.o", "entry.o", "-lm", "-lpthread"]
    run_compiler([*linked, "-o", str(found)], folder)
    check_object(found.read_bytes())
    folder.chmod(0o755)
    found.chmod(0o644)
    return found


def check_object(data: bytes) -> None:
    """Raises Refusal for a shared object (ELF of 64 bits) that runs code as it is loaded, or that
    takes the place of functions of the C library."""
    if data[:5] != b"\x7fELF\x02":
        raise Refusal("compile", "the compiler made no ELF file of 64 bits")
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    heads = [struct.unpack_from("<IIQQQQIIQQ", data, table + n * size) for n in range(count)]
    for _, kind, _, _, start, length, link, _, _, each in heads:
        if kind in (14, 16) and length:  # SHT_INIT_ARRAY, SHT_PREINIT_ARRAY
            raise Refusal("tampered", "it runs code as it is loaded, before any call")
        if kind != 11:  # SHT_DYNSYM
            continue
        names = heads[link][4]
        for place in range(start, start + length, each):
            name, _, _, section = struct.unpack_from("<IBBH", data, place)
            if section:
                end = data.index(b"\0", names + name)
                text = data[names + name : end].decode("utf-8", "replace")
                if _TAKEN.match(text):
                    raise Refusal("tampered", f"it defines {text}, which is the C library's")


@cache
def driver() -> tuple[Path, Path]:
    """The program that runs submissions, and a library whose kernel does nothing; both are compiled
    once for this process.

    Raises Refusal where the C compiler cannot make them.
    """
    folder = Path(tempfile.mkdtemp(prefix="judge-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    source = Path(__file__).with_name("driver.c").read_text(encoding="utf-8")
    (folder / "driver.c").write_text(source, encoding="utf-8")
    run_compiler(["-O2", "-std=gnu11", "-w", "driver.c", "-o", "driver", "-ldl"], folder)
    return folder / "driver", build("", _NULL_ENTRY, folder)


#: What a call costs without a kernel; and for the judge itself, what makes caches forget bytes.
_NULL_ENTRY = """
__attribute__((visibility("default")))
void lz_judged(void **arrays, const long *sizes, const double *numbers)
{
}
__attribute__((visibility("default"))) int lz_forget(char *bytes, long count)
{
#if defined(__x86_64__)
  for (long n = 0; n < count; n += 64)
    __builtin_ia32_clflush(bytes + n);
  __builtin_ia32_mfence();
  return 1;
#elif defined(__aarch64__)
  for (long n = 0; n < count; n += 64)
    __asm__ volatile("dc civac, %0" : : "r"(bytes + n) : "memory");
  __asm__ volatile("dsb sy" : : : "memory");
  return 1;
#else
  return 0;
#endif
}
"""


@cache
def _forget() -> Any:
    return ctypes.CDLL(str(driver()[1])).lz_forget


def forget(array: Array) -> None:
    """Writes an array's bytes back to memory, so that no cache of any core has them. Where the
    processor has no instruction for it, other bytes take their place."""
    if not _forget()(ctypes.c_void_p(array.ctypes.data), ctypes.c_long(array.nbytes)):
        np.zeros(1 << 24).fill(1.0)
