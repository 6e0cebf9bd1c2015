"""Register tiles over rows that lie in a band's scratch: nothing is copied into panels.

What the first contraction of a band left is the second one's left operand, in cache already. Its
rows are read where they lie, a fixed pitch apart. Where all of them are zero for a block of k, as a
mask leaves them, the block is left out if that gives the same bits: the right operand is finite
there, and no sum is -0, which adding +0 would change.
"""

from __future__ import annotations

from dataclasses import dataclass

from lazyt.codegen.contract_micro import splat, tile_name, vector_section
from lazyt.codegen.contract_spec import ITEM_BYTES


@dataclass(frozen=True)
class Rows:
    """The left operand of contraction ``number`` of a band: ``pitch`` elements apart in the array
    ``name``. ``tile`` is the micro-kernel, ``rows`` by ``columns`` sums of type ``acc``."""

    name: str
    pitch: int
    number: int
    acc: str
    rows: int
    columns: int
    tile: str

    def multiply(self, right: str, tile: str) -> list[str]:
        """Statements for the register tile at hand; ``tile`` are the last three arguments."""
        left = f"{self.name} + (g_row0 - g_r0) * {self.pitch} + g_p0, {self.pitch}"
        idle = f"lz_idle_{self.acc}(g_p1 - g_p0, {self.rows}, {left}, {self.columns}, {tile})"
        return [
            f"if (!(g_fine{self.number} && {idle}))",
            f"    {self.tile}(g_p1 - g_p0, {left},",
            f"        {right},",
            f"        {tile});",
        ]

    def test_panels(self, count: int) -> str:
        """The statement that finds out whether all of the packed right operand is finite."""
        return f"const int g_fine{self.number} = lz_finite_{self.acc}({count}, g_pb{self.number});"


def rows_tile(acc: str, rows: int, vectors: int, vector_bytes: int, pitch: int) -> str:
    """Name of the micro-kernel."""
    return tile_name(acc, rows, vectors, vector_bytes).replace("gemm", "rows") + f"p{pitch}"


def rows_sections(
    acc: str, rows: int, vectors: int, vector_bytes: int, pitch: int
) -> tuple[tuple[str, str], ...]:
    """Sections of the micro-kernel ``name(kc, a, lda, b, c, ldc, first)``: as ``tile_sections``,
    but for ``a``, whose rows are ``lda`` apart, which is ``pitch``; and of its tests."""
    name, tag = rows_tile(acc, rows, vectors, vector_bytes, pitch), f"{acc}_v{vector_bytes}"
    lanes = vector_bytes // ITEM_BYTES[acc]
    vec, ref = f"lz_vec_{tag}", f"lz_ref_{tag}"
    out = [
        f"static __attribute__((noinline)) void {name}(lz_i64 kc, const lz_{acc} *restrict a,",
        f"    lz_i64 lda, const lz_{acc} *restrict b, lz_{acc} *restrict c, lz_i64 ldc,"
        " int first) {",
        "    (void)lda;",
    ]
    grid = [(r, v) for r in range(rows) for v in range(vectors)]
    place = {(r, v): f"*({ref} *)(c + {r} * ldc + {v * lanes})" for r, v in grid}
    out += [f"    {vec} c{r}_{v} = {{0}};" for r, v in grid]
    out.append("    if (!first) {")
    out += [f"        c{r}_{v} = {place[r, v]};" for r, v in grid]
    out += ["    }", "    for (lz_i64 k = 0; k < kc; k++) {", f"        {vec} s;"]
    out += [f"        {vec} b{v} = *(const {ref} *)(b + {v * lanes});" for v in range(vectors)]
    for r in range(rows):
        out.append(f"        s = {splat(vec, f'a[{r * pitch}]', lanes)};")
        out += [f"        c{r}_{v} = lz_vfma_{tag}(s, b{v}, c{r}_{v});" for v in range(vectors)]
    out += ["        a++;", f"        b += {vectors * lanes};", "    }"]
    out += [f"    {place[r, v]} = c{r}_{v};" for r, v in grid]
    out.append("}")
    tile = (name, "\n".join(out) + "\n")
    return (vector_section(acc, vector_bytes), tile, *_tests(acc))


def _tests(acc: str) -> tuple[tuple[str, str], ...]:
    """``lz_finite``: no infinity and no NaN. ``lz_idle``: multiplying would change no sum."""
    size = 8 * ITEM_BYTES[acc]
    sign = f"((lz_u{size})1 << {size - 1})"
    most = "0x7f800000u" if size == 32 else "0x7ff0000000000000ull"
    bits = f"lz_bits_of_{acc}"
    finite = f"""typedef lz_u{size} {bits} __attribute__((may_alias));
static __attribute__((noinline)) int lz_finite_{acc}(lz_i64 n, const lz_{acc} *a) {{
    const {bits} *x = (const {bits} *)a;
    lz_u{size} found = 0;
    for (lz_i64 i = 0; i < n; i++) found |= (lz_u{size})((x[i] & {most}) == {most});
    return !found;
}}
"""
    idle = f"""static __attribute__((noinline)) int lz_idle_{acc}(lz_i64 kc, lz_i64 rows,
    const lz_{acc} *a, lz_i64 lda, lz_i64 columns, lz_{acc} *c, lz_i64 ldc, int first) {{
    const {bits} *x = (const {bits} *)a;
    for (lz_i64 r = rows - 1; r >= 0; r--) {{
        lz_u{size} found = 0;
        if (x[r * lda] << 1) return 0;
        for (lz_i64 k = 0; k < kc; k++) found |= x[r * lda + k];
        if (found << 1) return 0;
    }}
    if (first) {{
        for (lz_i64 r = 0; r < rows; r++)
            for (lz_i64 i = 0; i < columns; i++) c[r * ldc + i] = 0;
        return 1;
    }}
    const {bits} *y = (const {bits} *)c;
    lz_u{size} below = 0;
    for (lz_i64 r = 0; r < rows; r++)
        for (lz_i64 i = 0; i < columns; i++) below |= (lz_u{size})(y[r * ldc + i] == {sign});
    return !below;
}}
"""
    return ((f"lz_finite_{acc}", finite), (f"lz_idle_{acc}", idle))
