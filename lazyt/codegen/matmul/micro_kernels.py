"""The helper functions of contraction kernels: one multiply-add, and the register-blocked tile.

Both give the same bits: a fused multiply-add where the machine has one, else a product and a sum.
Vector extensions stay in here because kernels proper are parsed back by a C99 parser.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from lazyt.codegen.loops.forms import is_alone
from lazyt.codegen.matmul.emulated_steps import CONDITION, SECTION, lanes_body, tile_lines
from lazyt.codegen.matmul.spec import ITEM_BYTES, ContractSpec
from lazyt.codegen.prelude import is_exact

# Text of contraction kernels, and the statements that all their forms share.


class CText:
    """Lines of C under construction, indented by their depth; without what threads share, where
    the text is for a single one."""

    def __init__(self) -> None:
        self._alone = is_alone()
        self._lines: list[str] = []
        self._depth = 0

    def add(self, *lines: str) -> None:
        """Append statements."""
        if self._alone:
            lines = tuple(line.replace("lz_worker()", "0") for line in lines)
        self._lines += ["    " * self._depth + line for line in lines]

    def pragma(self, text: str) -> None:
        """Append ``#pragma text``."""
        if self._alone and text.startswith("omp ") and not text.startswith("omp simd"):
            return
        self._lines.append("#pragma " + text)

    @contextmanager
    def block(self, header: str = "") -> Iterator[None]:
        """What is added inside stands in braces after ``header``."""
        self.add(f"{header} {{".lstrip())
        self._depth += 1
        yield
        self._depth -= 1
        self.add("}")

    def loop(
        self, var: str, start: int | str, stop: int | str, step: int | None = None
    ) -> AbstractContextManager[None]:
        """A counting loop over ``var``, by ``step``: a number of the text even where it is 1."""
        advance = f"{var}++" if step is None else f"{var} += {step}"
        return self.block(f"for (lz_i64 {var} = {start}; {var} < {stop}; {advance})")

    @contextmanager
    def turns(self, var: str, stop: int, step: int = 1, always: bool = False) -> Iterator[None]:
        """A loop from 0 that no pragma needs; unless ``always``, a plain block where it turns
        once."""
        if stop > step or always:
            with self.loop(var, 0, stop, step):
                yield
            return
        with self.block():
            self.add(f"const lz_i64 {var} = 0;")
            yield

    def clip(self, name: str, start: str, width: int, stop: int | str) -> None:
        """Declare ``name``, the end of the block of ``width`` at ``start``, ``stop`` at most."""
        end = f"{start} + {width}"
        self.add(f"const lz_i64 {name} = {end} < {stop} ? {end} : {stop};")

    def assign(self, target: str, loaded: tuple[Sequence[str], str]) -> None:
        """Run an element's statements and keep its value in ``target``."""
        statements, value = loaded
        if not statements:
            self.add(f"{target} = {value};")
            return
        with self.block():
            self.add(*statements, f"{target} = {value};")

    def text(self) -> str:
        """All lines."""
        return "\n".join(self._lines) + "\n"


@contextmanager
def open_kernel(out: CText, spec: ContractSpec) -> Iterator[None]:
    """The function around what is added inside, with its buffers cast to their types."""
    buffers = "".join(f"char *b{i}_, " for i in range(len(spec.arguments)))
    with out.block(f"void {spec.name}({buffers}char *ws, int threads)"):
        for i, (kind, name) in enumerate(spec.arguments):
            plain = kind.replace("restrict", "").strip()
            out.add(f"{kind} {name} = ({plain})b{i}_;")
        yield


def clamp_threads(out: CText, most: int) -> None:
    """Declare ``g_threads``: as many as requested, at least one, at most ``most``."""
    out.add(f"const int g_threads = threads < 1 ? 1 : threads < {most} ? threads : {most};")


def store_tile(
    out: CText,
    spec: ContractSpec,
    rows: tuple[str, str],
    cols: tuple[str, str],
    place: str,
    most_rows: int,
) -> None:
    """Run the epilogue over a tile of finished sums, the adjacent axis of the outputs innermost.

    ``place`` is where the sum of (``g_row``, ``g_col``) lies; there are up to ``most_rows`` rows.
    """
    if spec.c_unit == "n":
        with out.loop("g_row", *rows):
            out.pragma("omp simd")
            with out.loop("g_col", *cols):
                out.add(f"const {spec.ctype} g_value = {place};")
                out.add(*spec.epilogue("g_b", "g_row", "g_col", "g_value"))
        return
    with out.loop("g_col", *cols):
        # One below another in the tile: gcc would leave the whole epilogue without vectors.
        out.add(f"_Alignas(64) {spec.ctype} g_line[{most_rows}];")
        with out.loop("g_row", *rows):
            out.add(f"g_line[g_row - {rows[0]}] = {place};")
        out.pragma("omp simd")
        with out.loop("g_row", *rows):
            out.add(f"const {spec.ctype} g_value = g_line[g_row - {rows[0]}];")
            out.add(*spec.epilogue("g_b", "g_row", "g_col", "g_value"))


WORKER_SECTION = (
    "lz_worker",
    """#ifdef _OPENMP
extern int omp_get_thread_num(void);
static inline int lz_worker(void) { return omp_get_thread_num(); }
#else
static inline int lz_worker(void) { return 0; }
#endif
""",
)

#: Asks for a part of what is multiplied later, into the second-level cache.
ASK_NEXT = "__builtin_prefetch(next + k * pace, 0, 2);"
_PITCH = "lz_i64 pitch_b, "
_NEON_REGISTERS = 32
# Bytes of rows of which a tile's next ones find room in the first-level cache.
_SHORT = 512

_HAS_FMA = "defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__AVX512F__)"

# GCC's own names of the fused instructions: its switch for contraction is no promise, as it breaks
# chains of fused operations up where it believes the processor slow at them.
_X86_FMA = {
    16: ("__FMA__", "__builtin_ia32_vfmadd{}(a, b, c)"),
    32: ("__FMA__", "__builtin_ia32_vfmadd{}256(a, b, c)"),
    64: ("__AVX512F__", "__builtin_ia32_vfmadd{}512_mask(a, b, c, -1, 4)"),
}


#: Newer versions of Clang, and no others, have a fused step for vectors of any machine.
_ELEMENTWISE = (
    "#if defined(__has_builtin)\n#if __has_builtin(__builtin_elementwise_fma)\n"
    "#define LZ_HAS_ELEMENTWISE_FMA 1\n#endif\n#endif\n"
)


def vector_section(acc: str, vector_bytes: int) -> tuple[str, str]:
    """Vectors of accumulators, and ``lz_vfma_*(a, b, c)``: ``lz_mac_<acc>`` in every lane."""
    tag = f"{acc}_v{vector_bytes}"
    item, size = acc.replace("i", "u"), ITEM_BYTES[acc]  # signed overflow is undefined
    vec = f"lz_vec_{tag}"
    head = _ELEMENTWISE + (
        f"typedef lz_{item} {vec} __attribute__((vector_size({vector_bytes})));\n"
        f"typedef lz_{item} lz_ref_{tag} __attribute__((vector_size({vector_bytes}), "
        f"aligned({size}), may_alias));\n"
        f"static inline __attribute__((always_inline)) {vec} lz_vfma_{tag}"
        f"({vec} a, {vec} b, {vec} c) {{\n"
    )
    plain = "    return a * b + c;\n"
    if acc not in ("f32", "f64"):
        return f"lz_vfma_{tag}", head + plain + "}\n"
    feature, call = _X86_FMA[vector_bytes]
    suffix, mode = ("ps", "v4sf") if acc == "f32" else ("pd", "v2df")
    builtin = "__builtin_fmaf" if acc == "f32" else "__builtin_fma"
    # Clang's leave to contract is none to rely on: it fuses no product that it has moved away.
    if is_exact():
        head = SECTION[1] + head
        body = f"#if defined(LZ_EMULATED)\n{lanes_body(acc, vector_bytes)}#elif !({_HAS_FMA})\n"
    else:
        body = f"#if !({_HAS_FMA})\n"
    body += f"{plain}#elif LZ_HAS_ELEMENTWISE_FMA\n"
    body += "    return __builtin_elementwise_fma(a, b, c);\n"
    body += f"#elif defined({feature})\n    return {call.format(suffix)};\n"
    if vector_bytes == 16:
        body += "#elif defined(__aarch64__)\n" + _neon_fma(vec, mode)
    body += (
        f"#else\n    for (int i = 0; i < {vector_bytes // size}; i++)"
        f" c[i] = {builtin}(a[i], b[i], c[i]);\n    return c;\n#endif\n"
    )
    return f"lz_vfma_{tag}", head + body + "}\n"


def _neon_fma(vec: str, mode: str) -> str:
    """A fused step of NEON by the compilers' builtins; clang has had another since version 17."""
    kind, plain = (41 if mode == "v4sf" else 42), "(lz_neon)"
    return (
        "#ifdef __clang__\n"
        "    typedef signed char lz_neon __attribute__((vector_size(16)));\n"
        f"    return ({vec})__builtin_neon_vfmaq_v({plain}c, {plain}a, {plain}b, {kind});\n"
        f"#else\n    return __builtin_aarch64_fma{mode}(a, b, c);\n#endif\n"
    )


def mac_section(acc: str) -> tuple[str, str]:
    """``lz_mac_<acc>(a, b, c)``: ``a * b + c``, fused for floats where the machine can, wrapping
    for integers. Without the instruction ``fma`` would be a slow library call."""
    kind = f"lz_{acc}"
    if acc in ("f32", "f64"):
        builtin = "__builtin_fmaf" if acc == "f32" else "__builtin_fma"
        body = (
            f"#if {_HAS_FMA}\n"
            f"    return {builtin}(a, b, c);\n#elif defined(LZ_EMULATED)\n"
            f"    return lz_fused_{acc}(a, b, c);\n#else\n    return a * b + c;\n#endif\n"
        )
    else:
        wide = "unsigned long long" if ITEM_BYTES[acc] == 8 else "unsigned int"
        body = f"    return ({kind})(({wide})a * ({wide})b + ({wide})c);\n"
    text = f"static inline {kind} lz_mac_{acc}({kind} a, {kind} b, {kind} c) {{\n{body}}}\n"
    return f"lz_mac_{acc}", text


def tile_name(
    acc: str, rows: int, vectors: int, vector_bytes: int, ahead: bool = False, apart: bool = False
) -> str:
    """Name of the micro-kernel for a tile of ``rows`` by ``vectors`` registers; with ``ahead`` it
    asks for what is multiplied later, with ``apart`` rows of B lie where they will."""
    columns = vectors * vector_bytes // ITEM_BYTES[acc]
    return f"lz_gemm_{acc}_{rows}x{columns}v{vector_bytes}" + "ahead" * ahead + "apart" * apart


def tile_sections(
    acc: str, rows: int, vectors: int, vector_bytes: int, ahead: bool, apart: bool = False
) -> tuple[tuple[str, str], ...]:
    """Sections of the micro-kernel ``name(kc, a, b, c, ldc, first)``.

    ``a`` is a panel [kc][rows], ``b`` a panel [kc][columns], ``c`` a tile of row stride ``ldc``
    which is overwritten when ``first`` and continued otherwise. With ``ahead``, each step asks for
    what lies ``pace`` elements further than the one before, from ``next`` on; these are two more
    arguments. With ``apart``, one more behind ``b`` says how far apart its rows are.
    """
    name = tile_name(acc, rows, vectors, vector_bytes, ahead, apart)
    out = [
        f"static __attribute__((noinline)) void {name}(lz_i64 kc, const lz_{acc} *restrict a,",
        f"    const lz_{acc} *restrict b, {_PITCH * apart}"
        f"lz_{acc} *restrict c, lz_i64 ldc, int first"
        + (f", const lz_{acc} *next, lz_i64 pace" * ahead)
        + ") {",
    ]
    width = str(vectors * vector_bytes // ITEM_BYTES[acc])
    step = (f"a += {rows};", f"b += {'pitch_b' if apart else width};")
    ask = (ASK_NEXT,) * ahead + _ask_beside(vectors, vector_bytes, ITEM_BYTES[acc]) * apart
    loads, element = panel_factors(acc, rows, vector_bytes)
    ask += loads
    out += tile_body(acc, rows, vectors, vector_bytes, element, step, ask)
    return (vector_section(acc, vector_bytes), (name, "\n".join([*out, "}"]) + "\n"))


def panel_factors(
    acc: str, rows: int, vector_bytes: int
) -> tuple[tuple[str, ...], Callable[[int], str]]:
    """How a step reads the factors of its rows from a panel ``a``: statements that begin it, and
    the factor of a row. NEON multiplies by one lane of a vector, so one load has several rows'."""
    lanes = vector_bytes // ITEM_BYTES[acc]
    if vector_bytes != 16 or rows % lanes:
        return (), "a[{}]".format
    tag = f"{acc}_v{vector_bytes}"
    loads = (
        f"const lz_vec_{tag} l{i} = *(const lz_ref_{tag} *)(a + {i * lanes});"
        for i in range(rows // lanes)
    )
    return tuple(loads), lambda row: f"l{row // lanes}[{row % lanes}]"


def tile_body(
    acc: str,
    rows: int,
    vectors: int,
    vector_bytes: int,
    element: Callable[[int], str],
    step: Sequence[str],
    before: Sequence[str] = (),
    columns: str = "b",
    lines: bool = False,
) -> list[str]:
    """Statements of a micro-kernel: a tile ``c`` of row stride ``ldc``, overwritten when ``first``
    and continued otherwise, gets ``kc`` steps of multiply-adds.

    Every accumulator is a named variable, so that the whole tile stays in registers at any
    optimisation level. ``element(r)`` is the factor of row r, ``columns`` points to those of the
    columns; ``before`` begins a step and ``step`` ends it. With ``lines``, factors of row r lie
    side by side from ``a<r>`` on, and where registers have room, vectors of them are read at once.
    """
    if is_exact() and acc == "f32":
        width = vectors * vector_bytes // ITEM_BYTES[acc]
        emulated = tile_lines(rows, width, element, step, before, columns)
        plain = _plain_tile(acc, rows, vectors, vector_bytes, element, step, before, columns, lines)
        return [f"#if {CONDITION}", *emulated, "#else", *plain, "#endif"]
    return _plain_tile(acc, rows, vectors, vector_bytes, element, step, before, columns, lines)


def _plain_tile(
    acc: str,
    rows: int,
    vectors: int,
    vector_bytes: int,
    element: Callable[[int], str],
    step: Sequence[str],
    before: Sequence[str],
    columns: str,
    lines: bool,
) -> list[str]:
    tag, lanes = f"{acc}_v{vector_bytes}", vector_bytes // ITEM_BYTES[acc]
    vec, ref = f"lz_vec_{tag}", f"lz_ref_{tag}"
    place = {
        (r, v): f"*({ref} *)(c + {r} * ldc + {v * lanes})"
        for r in range(rows)
        for v in range(vectors)
    }
    out = [f"    {vec} c{r}_{v} = {{0}};" for r, v in place]
    out.append("    if (!first) {")
    out += [f"        c{r}_{v} = {here};" for (r, v), here in place.items()]
    out.append("    }")

    def turn(factor: Callable[[int], str]) -> list[str]:
        found = [*before, f"{vec} s;"]
        found += [
            f"{vec} b{v} = *(const {ref} *)({columns} + {v * lanes});" for v in range(vectors)
        ]
        for r in range(rows):
            found.append(f"s = {splat(vec, factor(r), lanes)};")
            found += [f"c{r}_{v} = lz_vfma_{tag}(s, b{v}, c{r}_{v});" for v in range(vectors)]
        return [*found, *step]

    start = "0"
    if lines and vector_bytes == 16 and rows * vectors + rows + vectors <= _NEON_REGISTERS:
        start = "whole"
        out.append(f"    const lz_i64 whole = kc / {lanes} * {lanes};")
        out.append(f"    for (lz_i64 group = 0; group < whole; group += {lanes}) {{")
        out += [f"        const {vec} l{r} = *(const {ref} *)(a{r} + group);" for r in range(rows)]
        for lane in range(lanes):
            inside = turn(lambda r: f"l{r}[{lane}]")  # noqa: B023 - called at once
            out += [
                "        {",
                f"            const lz_i64 k = group + {lane};",
                "            (void)k;",
            ]
            out += [*(f"            {line}" for line in inside), "        }"]
        out.append("    }")
    out.append(f"    for (lz_i64 k = {start}; k < kc; k++) {{")
    out += [*(f"        {line}" for line in turn(element)), "    }"]
    return out + [f"    {here} = c{r}_{v};" for (r, v), here in place.items()]


def splat(vec: str, value: str, lanes: int) -> str:
    """A vector of equal lanes."""
    return f"({vec}){{{', '.join([value] * lanes)}}}"


def lines_name(acc: str, rows: int, vectors: int, vector_bytes: int, apart: bool = False) -> str:
    """Name of the micro-kernel that reads rows where they lie; if ``apart``, those of B, too."""
    columns = vectors * vector_bytes // ITEM_BYTES[acc]
    return f"lz_lines_{acc}_{rows}x{columns}v{vector_bytes}" + "apart" * apart


def lines_sections(
    acc: str, rows: int, vectors: int, vector_bytes: int, apart: bool = False
) -> tuple[tuple[str, str], ...]:
    """Sections of ``name(kc, a, pitch, count, b, c, ldc, first)``.

    ``a`` is ``count`` rows of ``kc`` elements, ``pitch`` apart; sums of rows from ``count`` on are
    nobody's. The rest is as for ``tile_sections``. The rows of the next tile are prefetched, unless
    both operands are small enough to be read where they lie.
    """
    name, size = lines_name(acc, rows, vectors, vector_bytes, apart), ITEM_BYTES[acc]
    kind = f"lz_{acc}"
    out = [
        f"static __attribute__((noinline)) void {name}(lz_i64 kc, const {kind} *restrict a,",
        f"    lz_i64 pitch, lz_i64 count, const {kind} *restrict b, {_PITCH * apart}"
        f"{kind} *restrict c, lz_i64 ldc, int first) {{",
    ]
    if not apart:
        # Long rows would leave the first-level cache before they are multiplied.
        out.append(f"    if (kc <= {_SHORT // size})")
        out += [*_prefetch_rows(rows, size, ""), "    else", *_prefetch_rows(rows, size, ", 0, 2")]
    for r in range(rows):
        row = f"({r} < count ? {r} * pitch : 0)" if r else "0"
        out.append(f"    const {kind} *const a{r} = a + {row};")
    step = (f"b += {'pitch_b' if apart else vectors * vector_bytes // size};",)
    ask = _ask_beside(vectors, vector_bytes, size) * apart
    out += tile_body(acc, rows, vectors, vector_bytes, "a{}[k]".format, step, ask, lines=True)
    return (vector_section(acc, vector_bytes), (name, "\n".join([*out, "}"]) + "\n"))


def _ask_beside(vectors: int, vector_bytes: int, size: int) -> tuple[str, ...]:
    """Asks for what a row of B has beside the columns of a tile, into the second level: where rows
    are long, there are more of them than the processor follows by itself."""
    width, line = vectors * vector_bytes // size, 64 // size
    starts = range(width, 2 * width, line)
    return tuple(f"__builtin_prefetch(b + {start}, 0, 2);" for start in starts)


def _prefetch_rows(rows: int, size: int, level: str) -> list[str]:
    return [
        f"        for (lz_i64 r = {rows}; r < {2 * rows}; r++)",
        f"            for (lz_i64 k = 0; k < kc; k += {64 // size})",
        f"                __builtin_prefetch(a + r * pitch + k{level});",
    ]
