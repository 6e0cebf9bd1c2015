"""The library of kernels for any shape: its text, and the numbers of its functions.

It is compiled in parts. The core has the table of all functions, what follows instructions, and
what folds; every other part has some functions, any, which it puts into the table when it is
loaded. So what a graph lacks is compiled alone, while others run.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import NamedTuple

from lazyt.codegen.generic.primitives import group_of, primitive_c, primitives
from lazyt.codegen.prelude import function_names, is_exact, sections_for
from lazyt.ir.dtypes import ALL, DType, bool_, float32, float64, int64, running_dtype, uint32
from lazyt.ir.factorizations.sizes import ALONE, WHOLE
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


#: Functions that sort: short rows, and long ones with the order or without.
_SORTS = ("short", "order", "values")
#: Factorizations, those together that share most of their text.
_MATRICES = (
    ("cholesky", "triangular"), ("solve", "inv", "lu", "det", "slogdet"), ("qr",), ("eigh",),
    ("svd",), ("gelsy",), ("pinv",),
)  # fmt: skip
#: The longest row that is a short one.
SHORT = 64


def sort_of(dtype: DType, length: int, by_values: bool) -> str:
    """What C calls the function that sorts rows of so many elements, or gives their order."""
    form = "short" if length <= SHORT else "values" if by_values else "order"
    return f"lz_generic_sort_{form}_u{8 * dtype.itemsize}"


def fourier_of(dtype: DType) -> str:
    """What C calls the function that transforms rows."""
    return f"lz_generic_fourier_{dtype.suffix}"


def linalg_of(routine: str, dtype: DType) -> str:
    """What C calls the function that factorizes matrices."""
    return f"lz_generic_{routine}_{dtype.suffix}"


class Unit(NamedTuple):
    """Functions of one kind, which may be compiled one by one.

    Attributes:
        name: its name.
        functions: what it has.
        op, dtype, kind: what its functions do, None and empty for maps and what takes any type.
        is_first: whether most programs use it.
    """

    name: str
    functions: tuple[str, ...]
    op: str
    dtype: DType | None
    kind: str
    is_first: bool


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
        sorts = tuple([f"lz_generic_sort_{form}_{width}" for form in _SORTS])
        made.append(Unit(f"sort_{width}", sorts, "sort", None, "", False))
    for dtype in (float32, float64):
        functions = (fourier_of(dtype),)
        made.append(Unit(f"fourier_{dtype.suffix}", functions, "fourier", dtype, "", False))
    for dtype in (float32, float64):
        for some in _MATRICES:
            factors = tuple([linalg_of(routine, dtype) for routine in some])
            name = f"linalg_{some[0]}_{dtype.suffix}"
            made.append(Unit(name, factors, "linalg", dtype, "", False))
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
def names() -> tuple[str, ...]:
    """The functions by their numbers."""
    return tuple(numbers())


@cache
def homes() -> dict[int, Unit]:
    """The unit of each function."""
    return {numbers()[name]: unit for unit in units() for name in unit.functions}


#: Functions beside those of the first units that are likely to be used: of models' initial values,
#: of attention, of common activations.
_LIKELY = ("threefry", "exp_nonpositive", "cos", "sin", "pow", "erf", "log1p", "exp2")


@cache
def likely_parts() -> tuple[frozenset[int], ...]:
    """What most programs use, the likeliest first, such that no part takes long."""
    others = frozenset(
        numbers()[one.symbol]
        for one in primitives()
        if one.name in _LIKELY and one.kind in (float32, uint32)
    )
    together = [
        ("maps_f32", "moves"),
        ("casts", "reduce_sum_f32", "reduce_max_f32", "reduce_min_f32"),
        ("contract_f32", "first_argmax_f32"),
        ("maps_i64", "reduce_sum_i64", "reduce_max_i64"),
        ("maps_b8", "reduce_any_b8", "reduce_all_b8"),
        ("scan_sum_i64", "scatter_set_i64"),
    ]
    parts = [_together(some) for some in together]
    parts.append(frozenset({numbers()[sort_of(float32, SHORT, True)]}))
    return (parts[0], others, *parts[1:])


def companions(number: int) -> tuple[frozenset[int], ...]:
    """Functions that are likely to be used where one is, in parts: the plain ones of its type."""
    suffix = homes()[number].name.rpartition("_")[2]
    if suffix not in _COMPANIONS:
        return ()
    folds = [f"reduce_{kind}_{suffix}" for kind in ("sum", "max", "min")]
    return _together((f"maps_{suffix}",)), _together((*folds, f"casts_{suffix}"))


def along(number: int) -> frozenset[int]:
    """A function and others that are compiled with it: those that take little time beside it, and
    that are so likely to follow that a compiler of their own would take longer."""
    unit = homes()[number]
    kind, _, suffix = unit.name.rpartition("_")
    if kind in ("reduce_sum", "reduce_max", "reduce_min"):
        return _together([f"reduce_{each}_{suffix}" for each in ("sum", "max", "min")])
    if kind in ("reduce_any", "reduce_all"):
        return _together([f"reduce_{each}_{suffix}" for each in ("any", "all")])
    are_short = kind == "functions" and suffix[0] in "iu"
    if are_short or unit.name in ("maps_f32", "maps_f64", "casts", "casts_f64"):
        return _numbers_of(unit)
    return frozenset({number})


#: Types that programs which use some function of theirs use others of, by suffix.
_COMPANIONS = ("f32", "i64", "f64", "i32")


def _together(names: Collection[str]) -> frozenset[int]:
    return frozenset(n for unit in units() if unit.name in names for n in _numbers_of(unit))


@cache
def _numbers_of(unit: Unit) -> frozenset[int]:
    return frozenset(numbers()[name] for name in unit.functions)


#: Types by how often they are used, by suffix.
_ORDER = ("f32", "i64", "b8", "f64", "i32", "u8", "bf16", "f16")
#: How long units of an op take to compile well, about, in tenths of a second; and what a compiler
#: gets at a time, as starting one takes half of that.
_WEIGHTS = {
    "move": 2,
    "reduce": 1,
    "first": 1,
    "scan": 1,
    "scatter": 1,
    "contract": 2,
    "sort": 6,
    "fourier": 7,
    "linalg": 6,
}
_AT_A_TIME = 8.0


@cache
def groups() -> tuple[frozenset[int], ...]:
    """All functions, in parts that are compiled well; those that most programs use first."""
    found: list[frozenset[int]] = []
    weight = _AT_A_TIME
    for unit in sorted(units(), key=_commonness):
        own = _WEIGHTS.get(unit.op) or len(unit.functions) / (2 if "long" in unit.name else 6)
        if weight + own > _AT_A_TIME:
            found.append(frozenset())
            weight = 0.0
        found[-1] |= _numbers_of(unit)
        weight += own
    return tuple(found)


def _commonness(unit: Unit) -> tuple[bool, int]:
    suffix = unit.name.rpartition("_")[2]
    return not unit.is_first, _ORDER.index(suffix) if suffix in _ORDER else len(_ORDER)


# ------------------------------------------------------------------------ text


def core() -> Program:
    """The core as a program. Its table has one function more, which others fold by (``fold.c``)."""
    folding = len(numbers())
    fill = ['__attribute__((visibility("default"))) void lz_fill(const void **table)', "{"]
    fill += [f"  table[{folding}] = (const void *) lz_generic_fold;", "}", ""]
    entry = _ENTRY.replace("@N", str(folding + 1))
    text = "\n".join([_read("shared.c"), _read("fold.c"), *fill, entry])
    return Program("c", sections_for(()), (), text, (), (), 0)


def part(wanted: Collection[int], vector_bytes: int) -> Program:
    """A part that has these functions as a program, for a machine with vectors of this size: its
    entry, ``lz_fill``, puts them into the table of the core."""
    return _program(_pieces(wanted), vector_bytes)


def work(number: int, vector_bytes: int) -> int:
    """How long a function takes to compile alone, in characters of text, without what it takes to
    start the compiler."""
    made = part((number,), vector_bytes)
    texts = [*(text for name, text in made.sections if name != "base"), made.kernels[0].text]
    return sum(len(text) + _REGION * text.count("omp parallel") for text in texts)


#: What a parallel region takes, in characters.
_REGION = 2500


def _pieces(wanted: Collection[int]) -> list[tuple[str, ...]]:
    """Functions by unit, in the order of their numbers."""
    by_unit: dict[Unit, list[str]] = {}
    for number in sorted(wanted):
        by_unit.setdefault(homes()[number], []).append(names()[number])
    return [tuple(some) for some in by_unit.values()]


def _program(pieces: list[tuple[str, ...]], vector_bytes: int) -> Program:
    own: dict[str, str] = {}
    kernels: list[KernelSource] = []
    for piece in pieces:
        kernel, helpers = _source(piece, vector_bytes, is_exact())
        kernels.append(kernel)
        own |= helpers
    used = {name for kernel in kernels for name in kernel.prelude}
    sections = (*sections_for(used - {"base", *own}), *own.items())
    fill = ['__attribute__((visibility("default"))) void lz_fill(const void **table)', "{"]
    fill += [f"  {kernel.name}(table);" for kernel in kernels]
    return Program("c", sections, tuple(kernels), "\n".join([*fill, "}", ""]), (), (), 0)


_ENTRY = f"""
void lz_begin(void);
int lz_heard(void);
void lz_go_on(void);
typedef void (*lz_function)(const long long *, char **, int, const void **);
__attribute__((visibility("default"))) const void *lz_table[@N];
struct lz_time {{ long seconds, nanoseconds; }};
int clock_gettime(int, struct lz_time *);

static double lz_seconds(void)
{{
  struct lz_time now;
  clock_gettime({time.CLOCK_MONOTONIC}, &now);
  return now.seconds + now.nanoseconds * 1e-9;
}}

void lz_plan(char **slots, int threads)
{{
  const long long *w = (const long long *) slots[0];
  /* The first word tells how many instructions listen for interrupts: none of a short list, else
     those before the first that writes over an input. */
  long long listening = *w++;
  double *stamps = 0;
  if (listening < 0) /* or where the times go that a profiler wants */
    {{
      stamps = (double *) (slots[0] - listening);
      *stamps++ = lz_seconds();
      listening = 0;
    }}
  lz_begin();
  if (!listening)
    lz_go_on();
  for (; *w >= 0; w += w[1])
    {{
      if (listening && lz_heard())
        return;
      if (listening && !--listening)
        lz_go_on();
      ((lz_function) lz_table[*w])(w, slots, threads, lz_table);
      if (stamps)
        *stamps++ = lz_seconds();
    }}
}}
"""


@cache
def _source(
    functions: tuple[str, ...], vector_bytes: int, exact: bool
) -> tuple[KernelSource, dict[str, str]]:
    """Functions of a unit as a kernel, which puts them into the table, and helpers beside the
    prelude's."""
    unit = homes()[numbers()[functions[0]]]
    used: set[str] = set()
    helpers = {_SHARED: _read("shared.c")}
    if unit.op == "move":
        body = _read("untyped.c")
    elif unit.op == "sort":
        parts = [*_PART.finditer(_read("sort.c"))]
        body = _read("sort.c")[: parts[0].start()]
        width = unit.name.removeprefix("sort_")
        texts = {f"lz_generic_sort_{part[1]}_{width}": part[2] for part in parts}
        body = "".join([body, *(texts[name] for name in functions)]).replace("@U", width)
    elif unit.dtype is None:
        helpers, wanted = {}, set(functions)
        made = [primitive_c(p) for p in primitives() if p.symbol in wanted]
        body = "\n".join(text for text, _ in made)
        used.update(*(names for _, names in made))
    elif unit.op == "fourier":
        body = _read("fourier.c").replace("@S", unit.dtype.suffix)
    elif unit.op == "linalg":
        suffix = unit.dtype.suffix
        routines = [f.removeprefix("lz_generic_").removesuffix(f"_{suffix}") for f in functions]
        parts_of_text = re.split(r"^//@\n", _read("linalg.c"), flags=re.MULTILINE)
        before, when, whole, end, together, after = parts_of_text
        body = ""
        for name in routines:
            if name in ALONE:
                text = before + whole + after
            else:
                text = before + (when + whole + end if name in WHOLE else "") + together + after
            body += text.replace("@R", name).replace("@S", suffix)
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
    lines = [f"  table[{numbers()[name]}] = (const void *) {name};" for name in functions]
    name = f"lz_unit_{unit.name}"
    filled = "\n".join([f"static void {name}(const void **table)", "{", *lines, "}", ""])
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
    fields["@R"] = str(len(numbers()))
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
    from lazyt.codegen.c import tree as ct
    from lazyt.codegen.c.family import Expressions

    expressions = Expressions([])
    unit = ct.text(expressions.identity(kind, compute))
    if kind in ("max", "min"):
        function = "maximum" if kind == "max" else "minimum"
        prefix = "fold_" if compute.kind == "f" else ""
        return unit, f"lz_{prefix}{function}_{compute.suffix}(a, b)"
    return unit, ct.text(expressions.fold(kind, ct.name("a"), ct.name("b"), compute))


def _contract_text(dtype: DType, vector_bytes: int) -> tuple[str, dict[str, str]]:
    """The function of products, and the helpers that it calls."""
    from lazyt.codegen.matmul.micro_kernels import (
        mac_section,
        tile_name,
        tile_sections,
        vector_section,
    )

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
