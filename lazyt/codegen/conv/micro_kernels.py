"""Register tiles of contractions with a sliding operand: its elements are found through tables.

The bits are those of ``codegen/matmul/micro_kernels.py``: one accumulator per element, one fused
multiply-add per step, in the order of the steps.
"""

from __future__ import annotations

from lazyt.codegen.matmul.micro_kernels import panel_factors, tile_body, vector_section
from lazyt.codegen.matmul.spec import ITEM_BYTES


def slide_name(acc: str, rows: int, vectors: int, vector_bytes: int, straight: bool = False) -> str:
    """Name of the tile whose columns slide."""
    kind = "along" if straight else "slide"
    return f"lz_{kind}_{acc}_{rows}x{vectors * vector_bytes // ITEM_BYTES[acc]}v{vector_bytes}"


def slide_sections(
    acc: str, rows: int, vectors: int, vector_bytes: int, straight: bool = False
) -> tuple[tuple[str, str], ...]:
    """Sections of ``name(kc, a, b, reach, steps, c, ldc, first)``.

    ``a`` is a panel [kc][rows]; the columns of step k begin at ``b + steps[k]``, and no step is
    larger than ``reach``; the tile ``c`` is overwritten when ``first`` and continued otherwise.
    With ``straight``, it is ``name(kc, a, pitch, count, b, ...)``: ``a`` is ``count`` rows of
    ``kc`` elements, ``pitch`` apart; sums of rows from ``count`` on are nobody's.
    """
    name = slide_name(acc, rows, vectors, vector_bytes, straight)
    out = [
        f"static __attribute__((noinline)) void {name}(lz_i64 kc, const lz_{acc} *restrict a,",
        "    lz_i64 pitch, lz_i64 count," if straight else "",
        f"    const lz_{acc} *restrict b, lz_i64 reach, const lz_i32 *restrict steps,",
        f"    lz_{acc} *restrict c, lz_i64 ldc, int first) {{",
        "    (void)reach;",
    ]
    begin: tuple[str, ...] = (f"const lz_{acc} *from = b + steps[k];",)
    step: tuple[str, ...] = (f"a += {rows};",)
    loads, element = panel_factors(acc, rows, vector_bytes)
    begin += loads * (not straight)
    if straight:
        element, step = "a{}[k]".format, ()
        for r in range(rows):
            row = f"({r} < count ? {r} * pitch : 0)" if r else "0"
            out.append(f"    const lz_{acc} *const a{r} = a + {row};")
    out += tile_body(acc, rows, vectors, vector_bytes, element, step, begin, "from", straight)
    return (vector_section(acc, vector_bytes), (name, "\n".join([*out, "}"]) + "\n"))


def sums_name(acc: str, rows: int, vectors: int, vector_bytes: int) -> str:
    """Name of the tile whose rows slide."""
    return f"lz_broad_{acc}_{rows}x{vectors * vector_bytes // ITEM_BYTES[acc]}v{vector_bytes}"


def sums_sections(
    acc: str, rows: int, vectors: int, vector_bytes: int
) -> tuple[tuple[str, str], ...]:
    """Sections of ``name(kc, a, reach, steps, places, b, c, ldc, first)``.

    Row r of step k is ``a[steps[k] + places[r]]``, ``reach`` the largest such index; ``b`` is a
    panel [kc][columns]; the tile ``c`` is overwritten when ``first`` and continued otherwise.
    """
    name = sums_name(acc, rows, vectors, vector_bytes)
    out = [
        f"static __attribute__((noinline)) void {name}(lz_i64 kc, const lz_{acc} *restrict a,",
        "    lz_i64 reach, const lz_i32 *restrict steps, const lz_i32 *restrict places,",
        f"    const lz_{acc} *restrict b, lz_{acc} *restrict c, lz_i64 ldc, int first) {{",
        "    (void)reach;",
    ]
    out += [f"    const lz_{acc} *const a{r} = a + places[{r}];" for r in range(rows)]
    step = (f"b += {vectors * vector_bytes // ITEM_BYTES[acc]};",)
    begin = ("const lz_i64 at = steps[k];",)
    out += tile_body(acc, rows, vectors, vector_bytes, lambda r: f"a{r}[at]", step, begin)
    return (vector_section(acc, vector_bytes), (name, "\n".join([*out, "}"]) + "\n"))


def transpose_section(acc: str, vector_bytes: int) -> tuple[str, str]:
    """``lz_turn_<acc>_v<bytes>(n, from, pitch, to, width)``: blocks of as many rows as a vector has
    lanes, with ``n`` elements each, ``n`` a multiple of the lanes, become columns of ``to``."""
    tag = f"{acc}_v{vector_bytes}"
    lanes = vector_bytes // ITEM_BYTES[acc]
    vec, ref = f"lz_vec_{tag}", f"lz_ref_{tag}"
    out = [
        f"static void lz_turn_{tag}(lz_i64 n, const lz_{acc} *restrict from, lz_i64 pitch,",
        f"    lz_{acc} *restrict to, lz_i64 width) {{",
        f"    for (lz_i64 i = 0; i < n; i += {lanes}) {{",
    ]
    square, last = _transposed(vec, ref, lanes)
    out += square
    out += [f"        *({ref} *)(to + (i + {r}) * width) = {last}_{r};" for r in range(lanes)]
    out += ["    }", "}"]
    return f"lz_turn_{tag}", "\n".join(out) + "\n"


def panel_section(acc: str, vector_bytes: int) -> tuple[str, str]:
    """``lz_panel_<acc>_v<bytes>(kc, from, reach, steps, count, lines, line, to, width)``.

    Row k of ``to`` gets ``count`` lines of ``line`` elements, one behind the other; line l begins
    at ``from + steps[k] + lines[l]``, and none further than ``reach``. Whole vectors are moved:
    what is past the end of a line is overwritten by the next, and needs room behind the last.
    """
    tag = f"{acc}_v{vector_bytes}"
    lanes, ref = vector_bytes // ITEM_BYTES[acc], f"lz_ref_{tag}"
    name = f"lz_panel_{tag}"
    return (
        name,
        f"""static void {name}(lz_i64 kc, const lz_{acc} *restrict from, lz_i64 reach,
    const lz_i32 *restrict steps, lz_i64 count, const lz_i32 *restrict lines, lz_i64 line,
    lz_{acc} *restrict to, lz_i64 width) {{
    (void)reach;
    for (lz_i64 k = 0; k < kc; k++)
        for (lz_i64 l = 0; l < count; l++) {{
            const lz_{acc} *a = from + steps[k] + lines[l];
            lz_{acc} *b = to + k * width + l * line;
            for (lz_i64 i = 0; i < line; i += {lanes})
                *({ref} *)(b + i) = *(const {ref} *)(a + i);
        }}
}}
""",
    )


def beside_name(acc: str, rows: int, line: int, gap: int, vector_bytes: int) -> str:
    """Name of the tile whose lanes are batches."""
    return f"lz_beside_{acc}_{rows}x{line}g{gap}v{vector_bytes}"


def beside_sections(
    acc: str, rows: int, line: int, gap: int, vector_bytes: int
) -> tuple[tuple[str, str], ...]:
    """Sections of ``name(kc, a, reach, steps, places, b, c, ldc, first)``.

    The factors of step k are vectors: one of the panel ``b``, and for each of ``rows`` those at
    ``a[steps[k] + places[row]]``, ``line`` of them, ``gap`` apart; ``reach`` is the largest such
    index. The sums of all are the vectors ``c``, ``ldc`` apart.
    """
    name, tag = beside_name(acc, rows, line, gap, vector_bytes), f"{acc}_v{vector_bytes}"
    vec, ref = f"lz_vec_{tag}", f"lz_ref_{tag}"
    sums = [
        (r, t, f"*({ref} *)(c + {r * line + t} * ldc)") for r in range(rows) for t in range(line)
    ]
    out = [
        f"static __attribute__((noinline)) void {name}(lz_i64 kc, const lz_{acc} *restrict a,",
        "    lz_i64 reach, const lz_i32 *restrict steps, const lz_i32 *restrict places,",
        f"    const lz_{acc} *restrict b, lz_{acc} *restrict c, lz_i64 ldc, int first) {{",
        "    (void)reach;",
        *(f"    const lz_{acc} *const a{r} = a + places[{r}];" for r in range(rows)),
        *(f"    {vec} c{r}_{t} = {{0}};" for r, t, _ in sums),
        "    if (!first) {",
        *(f"        c{r}_{t} = {place};" for r, t, place in sums),
        "    }",
        "    for (lz_i64 k = 0; k < kc; k++) {",
        "        const lz_i64 at = steps[k];",
        f"        const {vec} s = *(const {ref} *)(b + k * {vector_bytes // ITEM_BYTES[acc]});",
    ]
    for r, t, _ in sums:
        factor = f"*(const {ref} *)(a{r} + at + {t * gap})"
        out.append(f"        c{r}_{t} = lz_vfma_{tag}({factor}, s, c{r}_{t});")
    out += ["    }", *(f"    {place} = c{r}_{t};" for r, t, place in sums), "}"]
    return (vector_section(acc, vector_bytes), (name, "\n".join(out) + "\n"))


def spread_section(acc: str, vector_bytes: int) -> tuple[str, str]:
    """``lz_spread_<acc>_v<bytes>(n, from, pitch, to, reach, at, places)``: element i of as many
    rows as a vector has lanes becomes the vector at ``to + at + places[i]``, none further than
    ``reach``. Rows are read in whole vectors."""
    tag, lanes = f"{acc}_v{vector_bytes}", vector_bytes // ITEM_BYTES[acc]
    vec, ref = f"lz_vec_{tag}", f"lz_ref_{tag}"
    out = [
        f"static void lz_spread_{tag}(lz_i64 n, const lz_{acc} *restrict from, lz_i64 pitch,",
        f"    lz_{acc} *restrict to, lz_i64 reach, lz_i64 at, const lz_i32 *restrict places) {{",
        "    (void)reach;",
        "    to += at;",
        f"    for (lz_i64 i = 0; i < n; i += {lanes}) {{",
    ]
    square, last = _transposed(vec, ref, lanes)
    out += square
    out.append(f"        if (i + {lanes} <= n) {{")
    out += [f"            *({ref} *)(to + places[i + {r}]) = {last}_{r};" for r in range(lanes)]
    out.append("            continue;")
    out.append("        }")
    for r in range(lanes - 1):
        out.append(f"        if (i + {r} < n) *({ref} *)(to + places[i + {r}]) = {last}_{r};")
    out += ["    }", "}"]
    return f"lz_spread_{tag}", "\n".join(out) + "\n"


def _transposed(vec: str, ref: str, lanes: int) -> tuple[list[str], str]:
    """Statements that read a square at ``from + i``, and what its columns are called."""
    low = [n // 2 + (lanes if n % 2 else 0) for n in range(lanes)]
    high = [n + lanes // 2 for n in low]
    out = [
        f"        {vec} s0_{r} = *(const {ref} *)(from + {r} * pitch + i);" for r in range(lanes)
    ]
    stage = 0
    for stage in range(1, lanes.bit_length()):
        for r in range(lanes // 2):
            pair = f"s{stage - 1}_{r}, s{stage - 1}_{r + lanes // 2}"
            for half, order in enumerate((low, high)):
                made = f"__builtin_shufflevector({pair}, {', '.join(map(str, order))})"
                out.append(f"        {vec} s{stage}_{2 * r + half} = {made};")
    return out, f"s{stage}"
