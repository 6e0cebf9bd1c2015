"""The library of kernels for any shape: its text, and the numbers of its functions.

It consists of units, each for one kind of op in one dtype, that are compiled once per machine.
Libraries are linked of those that are needed: an object file that an earlier one had is not
compiled again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from lazyt.codegen.generic.primitives import group_of, primitive_c, primitives
from lazyt.codegen.prelude import function_names, sections_for
from lazyt.ir.dtypes import ALL, DType, bool_, float32, int64, running_dtype
from lazyt.ir.program import KernelSource, Program

_FOLDER = Path(__file__).parent
_NAME = re.compile(r"\blz_\w+")
_PART = re.compile(r"^//@(\w*)\n(.*?)^//@\n", re.MULTILINE | re.DOTALL)
#: The helpers that all units have.
_SHARED = "lz_generic_shared"
_UNTYPED = ("copy", "fill", "iota", "map", "gather")
#: Types whose kernels most programs use.
COMMON = (bool_, int64, float32)
_REDUCED = ("sum", "prod", "max", "min")
_COMPARED = {"argmax": ">", "argmin": "<"}


class Unit(NamedTuple):
    """A part of the library that is compiled on its own.

    Attributes:
        name: its name.
        functions: what it has.
        op, dtype, kind: what its functions do, None and empty for maps and what takes any type.
        is_first: whether it is in every library.
    """

    name: str
    functions: tuple[str, ...]
    op: str
    dtype: DType | None
    kind: str
    is_first: bool


class Library(NamedTuple):
    """A library as text: ``sections``, ``kernels`` and ``entry`` as of ``Program``, and the hash
    that all its programs share, ``Program.text_hash``."""

    sections: tuple[tuple[str, str], ...]
    kernels: tuple[KernelSource, ...]
    entry: str
    text_hash: str


# ------------------------------------------------------------------- functions


def kinds_of(op: str, dtype: DType) -> tuple[str, ...]:
    """The kinds of an op, out of ``reduce first scan scatter``, that elements of a type have."""
    if op == "first":
        return tuple(_COMPARED)
    if dtype is bool_ and op != "scatter":
        return ("max", "min", "any", "all") if op == "reduce" else ()
    if op == "scatter":
        few = dtype.is_half or dtype is bool_
        return ("set", "max", "min") if few else ("set", "add", "mul", "max", "min")
    return _REDUCED


def function_of(op: str, dtype: DType, kind: str = "") -> str:
    """What C calls the function of an op for elements of a type."""
    return f"lz_generic_{op}_{kind}_{dtype.suffix}" if kind else f"lz_generic_{op}_{dtype.suffix}"


#: Folds that most programs have.
_FIRST_FOLDS = (
    ("sum", float32), ("max", float32), ("sum", int64), ("any", bool_), ("all", bool_),
)  # fmt: skip


@cache
def units() -> tuple[Unit, ...]:
    """All units. Their order decides the numbers of functions."""
    made = [Unit("moves", tuple(f"lz_generic_{name}" for name in _UNTYPED), "move", None, "", True)]
    for dtype in ALL:
        for op in ("reduce", "first", "scan", "scatter"):
            for kind in kinds_of(op, dtype):
                first = op == "reduce" and (kind, dtype) in _FIRST_FOLDS
                name = f"{op}_{kind}_{dtype.suffix}"
                functions = (function_of(op, dtype, kind),)
                made.append(Unit(name, functions, op, dtype, kind, first))
        if dtype is not bool_:
            functions = (function_of("contract", dtype),)
            name = f"contract_{dtype.suffix}"
            made.append(Unit(name, functions, "contract", dtype, "", dtype is float32))
    for width in ("u8", "u16", "u32", "u64"):
        functions = (f"lz_generic_sort_{width}",)
        made.append(Unit(f"sort_{width}", functions, "sort", None, "", False))
    grouped: dict[str, list[str]] = {}
    for one in primitives():
        grouped.setdefault(group_of(one), []).append(one.symbol)
    firsts = {f"maps_{t.suffix}" for t in COMMON} | {"casts"}
    for key, names in sorted(grouped.items()):
        made.append(Unit(key, tuple(names), "map", None, "", key in firsts))
    return tuple(made)


@cache
def numbers() -> dict[str, int]:
    """The number of each function in the table that instructions refer to."""
    names = [name for unit in units() for name in unit.functions]
    return {name: number for number, name in enumerate(names)}


# ------------------------------------------------------------------------ text


@cache
def _homes() -> dict[int, Unit]:
    """The unit of each function."""
    return {numbers()[name]: unit for unit in units() for name in unit.functions}


@lru_cache(maxsize=4096)
def units_of(functions: frozenset[int]) -> frozenset[Unit]:
    """The units that have these functions."""
    return frozenset([_homes()[number] for number in functions])


@cache
def first_units() -> frozenset[Unit]:
    """The units that most programs use."""
    return frozenset([unit for unit in units() if unit.is_first])


@lru_cache(maxsize=64)
def library(wanted: frozenset[Unit], vector_bytes: int) -> Library:
    """The text of a library that has these units, for a machine with vectors of this size."""
    chosen = [unit for unit in units() if unit in wanted]
    own: dict[str, str] = {}
    kernels: list[KernelSource] = []
    for unit in chosen:
        kernel, helpers = _source(unit, vector_bytes)
        kernels.append(kernel)
        own |= helpers
    names = {name for kernel in kernels for name in kernel.prelude}
    sections = (*sections_for(names - {"base", *own}), *own.items())
    entry = _entry(chosen)
    text_hash = Program("c", sections, tuple(kernels), entry, (), (), 0).text_hash()
    return Library(sections, tuple(kernels), entry, text_hash)


def _entry(chosen: Sequence[Unit]) -> str:
    lines = ["void lz_begin(void);", "int lz_heard(void);", "void lz_go_on(void);"]
    lines += [f"void lz_unit_{unit.name}(const void **);" for unit in chosen]
    lines += [
        "typedef void (*lz_function)(const long long *, char **, int, const void **);",
        f"static const void *lz_table[{len(numbers())}];",
        "static int lz_is_filled;",
        "struct lz_time { long seconds, nanoseconds; };",
        "int clock_gettime(int, struct lz_time *);",
        "static double lz_seconds(void)",
        "{",
        "  struct lz_time now;",
        f"  clock_gettime({time.CLOCK_MONOTONIC}, &now);",
        "  return now.seconds + now.nanoseconds * 1e-9;",
        "}",
        '__attribute__((visibility("default")))',
        "void lz_plan(char **slots, int threads)",
        "{",
        "  const long long *w = (const long long *) slots[0];",
        "  if (!__atomic_load_n(&lz_is_filled, __ATOMIC_ACQUIRE))",
        "    {",
        *(f"      lz_unit_{unit.name}(lz_table);" for unit in chosen),
        "      __atomic_store_n(&lz_is_filled, 1, __ATOMIC_RELEASE);",
        "    }",
        "  /* The first word tells how many instructions listen for interrupts: none of a short",
        "     list, else those before the first that writes over an input. */",
        "  long long listening = *w++;",
        "  double *stamps = 0;",
        "  if (listening < 0) /* or where the times go that a profiler wants */",
        "    {",
        "      stamps = (double *) (slots[0] - listening);",
        "      *stamps++ = lz_seconds();",
        "      listening = 0;",
        "    }",
        "  lz_begin();",
        "  if (!listening)",
        "    lz_go_on();",
        "  for (; *w >= 0; w += w[1])",
        "    {",
        "      if (listening && lz_heard())",
        "        return;",
        "      if (listening && !--listening)",
        "        lz_go_on();",
        "      ((lz_function) lz_table[*w])(w, slots, threads, lz_table);",
        "      if (stamps)",
        "        *stamps++ = lz_seconds();",
        "    }",
        "}",
        "",
    ]
    return "\n".join(lines)


@cache
def _source(unit: Unit, vector_bytes: int) -> tuple[KernelSource, dict[str, str]]:
    """A unit as a kernel, whose function fills in what it has, and helpers beside the prelude's."""
    used: set[str] = set()
    helpers = {_SHARED: _read("shared.c")}
    if unit.op == "move":
        body = _read("untyped.c")
    elif unit.op == "sort":
        body = _read("sort.c").replace("@U", unit.name.removeprefix("sort_"))
    elif unit.dtype is None:
        wanted = set(unit.functions)
        made = [primitive_c(p) for p in primitives() if p.symbol in wanted]
        body = "\n".join(text for text, _ in made)
        used.update(*(names for _, names in made))
    elif unit.op == "contract":
        body, more = _contract_text(unit.dtype, vector_bytes)
        helpers |= more
    else:
        parts = [*_PART.finditer(_read("typed.c"))]
        body = _read("typed.c")[: parts[0].start()]
        body += "".join([part[2] for part in parts if part[1] == unit.op])
        body = _filled(_of_kind(body, unit.op, unit.kind, unit.dtype), unit.dtype)
    known = set(function_names())
    text = "".join(helpers.values()) + body
    used |= {name for name in _NAME.findall(text) if name in known}
    lines = [f"  table[{numbers()[name]}] = (const void *) {name};" for name in unit.functions]
    name = f"lz_unit_{unit.name}"
    filled = "\n".join([f"void {name}(const void **table)", "{", *lines, "}", ""])
    prelude = [n for n, _ in sections_for(used - {"base"})]
    return KernelSource(name, body + filled, (*prelude, *helpers), 1), helpers


@cache
def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _filled(text: str, dtype: DType) -> str:
    half = dtype.is_half
    fields = {
        "@S": dtype.suffix, "@C": dtype.compute.suffix,
        "@L": f"lz_load_{dtype.suffix}" if half else "", "@P": f"lz_store_{dtype.suffix}" * half,
    }  # fmt: skip
    for field, value in fields.items():
        text = text.replace(field, value)
    return text


def _of_kind(text: str, op: str, kind: str, dtype: DType) -> str:
    wide = running_dtype(kind, dtype).compute if op == "scan" else dtype.compute
    unit, fold = _fold(kind, wide)
    fields = {"@K": kind, "@W": wide.suffix, "@I": unit, "@F": fold, "@<": _COMPARED.get(kind, "")}
    for field, value in fields.items():
        text = text.replace(field, value)
    return text


#: The folds that scatters make.
_MEETING = {"add": "sum", "mul": "prod"}


def _fold(kind: str, compute: DType) -> tuple[str, str]:
    """C text of the unit of a fold, and of ``a`` folded with ``b``."""
    if kind == "set":
        return "0", "b"
    if kind in _COMPARED:
        return "0", "a"
    kind = _MEETING.get(kind, kind)
    # Not for programs whose library is on disk: these print no C.
    from lazyt.codegen import c_tree as ct
    from lazyt.codegen.c_family import Expressions

    expressions = Expressions([])
    unit = ct.text(expressions.identity(kind, compute))
    if kind in ("max", "min"):
        function = "maximum" if kind == "max" else "minimum"
        prefix = "fold_" if compute.kind == "f" else ""
        return unit, f"lz_{prefix}{function}_{compute.suffix}(a, b)"
    return unit, ct.text(expressions.fold(kind, ct.name("a"), ct.name("b"), compute))


def _contract_text(dtype: DType, vector_bytes: int) -> tuple[str, dict[str, str]]:
    """The function of products, and the helpers that it calls."""
    from lazyt.codegen.contract_micro import mac_section, tile_name, tile_sections, vector_section

    compute = dtype.compute
    acc = compute.suffix
    helpers = [mac_section(acc)]
    if compute.kind == "f":
        height, vectors = (12, 2) if vector_bytes >= 64 else (6, 2)
        width = vectors * vector_bytes // compute.itemsize
        helpers.append(vector_section(acc, vector_bytes))
        helpers += tile_sections(acc, height, vectors, vector_bytes, False)
        called = tile_name(acc, height, vectors, vector_bytes)
        body = f"  {called}(depth, a, b, c, {width}, 1);"
    else:
        height, width = 4, 16
        body = "\n".join([
            f"  for (int n = 0; n < {height * width}; n++) c[n] = 0;",
            "  for (lz_i64 k = 0; k < depth; k++)",
            f"    for (int i = 0; i < {height}; i++)",
            f"      for (int j = 0; j < {width}; j++)",
            f"        c[i * {width} + j] = lz_mac_{acc}(a[k * {height} + i], b[k * {width} + j],",
            f"                                          c[i * {width} + j]);",
        ])  # fmt: skip
    tile = "\n".join([
        "",
        f"static void lz_generic_tile_@S(const lz_{acc} *restrict a, const lz_{acc} *restrict b,",
        f"                               lz_i64 depth, lz_{acc} *restrict c)",
        "{", body, "}", "",
    ])  # fmt: skip
    text = tile + _read("contract.c")
    fields = {"@T": str(height), "@V": str(width), "@M": f"lz_mac_{acc}"}
    for field, value in fields.items():
        text = text.replace(field, value)
    return _filled(text, dtype), dict(helpers)
